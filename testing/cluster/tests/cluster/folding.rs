//! `ramhold bench kv --fold-backups`: replicated writes whose backups are in the client's thread.

use ramhold_cluster_tests::{Failure, Process, Scratch, free_ports, program, wait_for};
use rustix::process::Signal;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(60);

// E1: three backups hold each write, and nothing of them is left.
#[test]
fn writes_are_replicated_to_folded_backups_which_end_with_the_command() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (scratch, ports) = (Scratch::new(), free_ports(3));
    let cluster = format!("127.0.0.1:{}", ports[0]);
    let start = |servers: &str| {
        let words = ["dev", "--servers", servers, "--memory", "128MiB", "--replicas", "0", "--port"];
        let mut arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let dir = scratch.dir().join(servers);
        arguments.extend([ports[0].to_string().into(), "--dir".into(), dir.into()]);
        let log = scratch.dir().join(format!("{servers}.log"));
        let process = Process::start("dev", &arguments, &log);
        wait_for("the banner", START_WITHIN, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            Ok(if text.contains("Ctrl-C") { Ok(()) } else { Err(text) })
        })?;
        Ok::<Process, Failure>(process)
    };
    let temporary = scratch.dir().join("temporary");
    std::fs::create_dir(&temporary).expect("a new directory");
    let left = || std::fs::read_dir(&temporary).expect("it is there").count();
    let bench = |replicas: &str| {
        Command::new(program())
            .args(["--cluster", &cluster, "bench", "kv", "--json", "--fold-backups", "3", "--seconds", "1"])
            .args(["--objects", "1000", "--pipeline", "1", "--read-percent", "10", "--replicas", replicas])
            .env("TMPDIR", &temporary)
            .output()
            .expect("the program can be started")
    };

    let process = start("1")?;
    let output = bench("3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!((&told["folded_backups"], &told["run"]["errors"]), (&3.into(), &serde_json::json!({})));
    assert!(told["run"]["writes"]["count"].as_u64() > Some(0), "{told}");
    assert_eq!(said.matches("everything is flushed").count(), 3, "{said}");
    assert_eq!(left(), 0, "the backups' directories are gone");

    // Four copies need a fourth backup: the table is refused, and the backups end all the same.
    let output = bench("4");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(left(), 0, "the backups' directories are gone");
    process.signal(Signal::TERM);
    process.wait_ended(STOP_WITHIN)?;

    // Masters that have other backups do not get backups that end.
    let process = start("2")?;
    let output = bench("1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("takes a cluster with one server"), "{said}");
    process.signal(Signal::TERM);
    process.wait_ended(STOP_WITHIN)?;
    Ok(())
}
