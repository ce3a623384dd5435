//! Runs of histories end in order, whatever happens to them.

use ramhold_cluster_tests::{Failure, Scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

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
