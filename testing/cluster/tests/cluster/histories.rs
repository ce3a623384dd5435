//! Runs of histories end in order, whatever happens to them.

use ramhold_cluster_tests::{Cluster, Failure, Options, Recordings, Scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(60);

/// The files and directories of a run: their names contain the number of its process.
fn made_by(process: u32) -> Vec<PathBuf> {
    let name = format!("ramhold-test-{process}-");
    let entries =
        |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    let all = dirs.iter().flat_map(|dir| entries(dir));
    all.filter(|path| path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&name))).collect()
}

/// The number of processes whose command line contains this text.
fn processes_with(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() -> Result<(), Failure> {
    let _machine = crate::machine();
    let scratch = Scratch::new();
    let log = scratch.dir().join("log");
    let mut run = Command::new(env!("CARGO_BIN_EXE_ramhold-histories"))
        .args(["--kills", "1000", "--checker", "/bin/false"])
        .stdin(Stdio::null())
        .stdout(File::create(&log).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let id = run.id();
    let begun = wait_for("an episode", WITHIN, || {
        let told = std::fs::read_to_string(&log).unwrap_or_default();
        Ok(if told.contains("[1/1000") { Ok(()) } else { Err(told) })
    });
    let name = format!("ramhold-test-{id}-");
    let (made, running) = (made_by(id).len(), processes_with(&name));
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process has a number");
    kill_process(pid, Signal::INT).expect("a child can be signalled");
    let ended = wait_for("the end", WITHIN, || {
        Ok(run.try_wait().expect("a child can be waited for").ok_or_else(|| "it runs".to_owned()))
    });
    begun?;
    assert!(!ended?.success());
    assert!(made >= 2, "{made}");
    // The coordinator, servers and clients; one of them may be dead at the moment.
    assert!(running >= 7, "{running}");
    assert_eq!(made_by(id), Vec::<PathBuf>::new());
    assert_eq!(processes_with(&name), 0);
    Ok(())
}

#[test]
fn a_recording_holds_the_sessions_and_a_read_of_each_key_at_the_end() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options::default())?;
    let scratch = Scratch::new();
    let recordings = Recordings::new(scratch.dir(), None, 7);
    let mut recording = recordings.start(&cluster, "part", Duration::from_millis(1))?;
    let began = Instant::now();
    recording.wait_progress(50_000)?;
    recording.note("nothing", "s1", began, "without effect")?;
    let judged = recording.judge()?;

    let dir = scratch.dir().join(format!("7-{}", std::process::id())).join("part");
    let lines = |file: &str| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(dir.join(file)).expect("the file is there");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    let (sessions, reader, faults) =
        (lines("client-1.jsonl"), lines("client-2.jsonl"), lines("faults.jsonl"));
    // Both files are of one run, and nothing is under way at their ends.
    assert_eq!(sessions[0]["run"], reader[0]["run"]);
    for file in [&sessions, &reader] {
        assert!(file.len() > 50);
        assert_eq!(file.len() % 2, 1);
    }
    let is_read = |line: &serde_json::Value| line["e"] == "r" || line["op"] == "read";
    assert!(reader[1..].iter().all(is_read));
    assert!(faults.len() == 1 && faults[0]["t0"].as_u64() < faults[0]["t1"].as_u64(), "{faults:?}");
    // Nobody judged it, and the text says so.
    assert!(judged.is_good());
    assert!(judged.to_string().contains("NOT JUDGED"), "{judged}");
    Ok(())
}
