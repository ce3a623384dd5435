//! `ramhold dev`: how many replicas a table gets when nobody says.

use ramhold_cluster_tests::{Failure, Process, Scratch, free_ports, program, wait_for};
use rustix::process::Signal;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// Three servers on one directory and the same ports, life after life.
struct Dev {
    scratch: Scratch,
    port: u16,
}

impl Dev {
    fn new() -> Dev {
        Dev { scratch: Scratch::new(), port: free_ports(4)[0] }
    }

    fn arguments(&self, replicas: &str) -> Vec<OsString> {
        let words = ["dev", "--servers", "3", "--memory", "128MiB", "--replicas", replicas, "--dir"];
        let mut arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        arguments.push(self.scratch.dir().join("cluster").into());
        arguments.extend(["--port".into(), self.port.to_string().into()]);
        arguments
    }

    /// Starts it, and waits for its banner, which it prints when it is healthy.
    fn start(&self, replicas: &str) -> Result<(Process, String), Failure> {
        let log = self.scratch.dir().join(format!("dev-{replicas}.log"));
        let process = Process::start("dev", &self.arguments(replicas), &log);
        let banner = wait_for("the banner", START_WITHIN, || {
            if let Some(status) = process.ended() {
                return Err(Failure(format!("dev has ended: {status}\n{}", printed(&log))));
            }
            let text = printed(&log);
            Ok(if text.contains("Ctrl-C") { Ok(text) } else { Err(text) })
        })?;
        Ok((process, banner))
    }

    /// What a command prints that must succeed.
    fn ask(&self, words: &[&str]) -> String {
        let cluster = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)).to_string();
        let output = Command::new(program()).args(["--cluster", &cluster]).args(words).output();
        let output = output.expect("the program can be started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

fn printed(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

fn stop(process: Process) -> Result<(), Failure> {
    process.signal(Signal::TERM);
    let status = process.wait_ended(STOP_WITHIN)?;
    assert!(status.success(), "{status}");
    Ok(())
}

// A1, D2
#[test]
fn a_table_gets_the_replicas_that_the_cluster_was_started_with() -> Result<(), Failure> {
    let _machine = crate::machine();
    let dev = Dev::new();
    let (process, banner) = dev.start("2")?;
    assert!(banner.contains("2 by default"), "{banner}");
    // J5
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, dev.port + 1000));
    assert!(banner.contains(&format!("http://{admin}/metrics")), "{banner}");
    assert_eq!(
        crate::admin::get(admin, "/health")?,
        (200, "serving\nservers: 3 of 3 expected are up\n".to_owned())
    );
    assert_eq!(dev.ask(&["table", "create", "t"]), "table 't' is t1: buffered, 2 replicas\n");
    assert!(dev.ask(&["table", "describe", "t"]).starts_with("table 't' (t1): buffered, 2 replicas,"));
    assert_eq!(
        dev.ask(&["table", "create", "said", "--replicas", "1"]),
        "table 'said' is t2: buffered, 1 replicas\n"
    );
    // With no more copies than other servers, writes need not wait.
    dev.ask(&["put", "t", "hello", "world"]);
    dev.ask(&["bench", "kv", "--objects", "10", "--seconds", "1"]);
    assert!(dev.ask(&["table", "describe", "bench"]).contains("buffered, 2 replicas,"));
    stop(process)?;

    // Another number is for new tables; the old one has its data.
    let (process, banner) = dev.start("1")?;
    assert!(banner.contains("1 by default"), "{banner}");
    assert_eq!(dev.ask(&["table", "create", "new"]), "table 'new' is t4: buffered, 1 replicas\n");
    assert!(dev.ask(&["table", "describe", "t"]).starts_with("table 't' (t1): buffered, 2 replicas,"));
    assert_eq!(
        dev.ask(&["table", "create", "t", "--if-absent"]),
        "table 't' is t1: buffered, 2 replicas\n",
        "what it has"
    );
    assert_eq!(dev.ask(&["get", "t", "hello"]), "world");
    stop(process)
}

// D2
#[test]
fn more_replicas_than_other_servers_are_refused_before_anything_starts() {
    let dev = Dev::new();
    let output =
        Command::new(program()).args(dev.arguments("3")).output().expect("the program can be started");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--servers 4, or --replicas 2"), "{text}");
    assert!(!dev.scratch.dir().join("cluster/coordinator").exists());
}
