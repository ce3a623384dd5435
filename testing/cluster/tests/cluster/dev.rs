//! `ramhold dev`: the default number of replicas of a table.

use ramhold_cluster_tests::{Failure, Process, Scratch, free_ports, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
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

    /// Starts it, and waits for the banner, which it prints when it is healthy.
    fn start(&self, replicas: &str) -> Result<(Process, String), Failure> {
        self.start_with(replicas, &[])
    }

    fn start_with(&self, replicas: &str, more: &[&str]) -> Result<(Process, String), Failure> {
        let log = self.scratch.dir().join(format!("dev-{replicas}.log"));
        let mut arguments = self.arguments(replicas);
        arguments.extend(more.iter().map(OsString::from));
        let process = Process::start("dev", &arguments, &log);
        let banner = wait_for("the banner", START_WITHIN, || {
            if let Some(status) = process.ended() {
                return Err(Failure(format!("dev has ended: {status}\n{}", printed(&log))));
            }
            let text = printed(&log);
            Ok(if text.contains("Ctrl-C") { Ok(text) } else { Err(text) })
        })?;
        Ok((process, banner))
    }

    fn run(&self, words: &[&str]) -> Output {
        let cluster = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)).to_string();
        let output = Command::new(program()).args(["--cluster", &cluster]).args(words).output();
        output.expect("the program can be started")
    }

    /// The error of a command that must be refused.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{words:?}: {text}");
        text
    }

    /// The first line of the first server's reply to a Redis command.
    fn say(&self, command: &str) -> String {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + 1));
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(START_WITHIN)).expect("a timeout that is not zero");
        stream.write_all(format!("{command}\r\n").as_bytes()).expect("the server reads");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("the server answers");
        line.trim_end().to_owned()
    }

    /// The output of a command that must succeed.
    fn ask(&self, words: &[&str]) -> String {
        let output = self.run(words);
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
    // Writes need not wait: the table has no more replicas than there are other servers.
    dev.ask(&["put", "t", "hello", "world"]);
    dev.ask(&["bench", "kv", "--objects", "10", "--seconds", "1"]);
    assert!(dev.ask(&["table", "describe", "bench"]).contains("buffered, 2 replicas,"));
    stop(process)?;

    // Another number counts for new tables. The old table keeps its data.
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
    // J1: the benchmark over Redis's protocol.
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, dev.port + 1)).to_string();
    dev.ask(&["bench", "kv", "--resp", &server, "--objects", "10", "--seconds", "1", "--multi", "4"]);
    assert_eq!(dev.run(&["get", "db0", &format!("{:030}", 9)]).stdout.len(), 100);
    stop(process)
}

// B4, C7, D3: each time every master begins a segment, and its segment before holds at most a result.
#[test]
fn tables_that_come_and_go_leave_frames_for_others() -> Result<(), Failure> {
    let _machine = crate::machine();
    let dev = Dev::new();
    let (process, _) = dev.start_with("2", &["--disk", "256MiB"])?;
    for round in 0..60 {
        assert_eq!(dev.say("SET key 1"), "+OK", "round {round}");
        assert_eq!(dev.say("FLUSHALL"), "+OK", "round {round}");
    }
    let status = dev.ask(&["status"]);
    assert!(status.starts_with("healthy: 3 of 3 servers up"), "{status}");
    stop(process)
}

// A1, A8, D2, J1
#[test]
fn what_a_cluster_cannot_keep_is_refused_and_no_option_is_changed_silently() -> Result<(), Failure> {
    let _machine = crate::machine();
    let dev = Dev::new();
    let (process, _) = dev.start("2")?;
    let lacks = "3 replicas need 3 other hosts, 2 are up; start a server on one more host";
    let text = dev.refused(&["table", "create", "large", "--replicas", "3"]);
    assert_eq!(
        text,
        format!("ramhold: table 'large': not created: {lacks}, wait with --wait, or give --replicas 2\n")
    );
    let text = dev.refused(&["table", "create", "large", "--replicas", "3", "--wait", "--timeout", "1s"]);
    assert!(text.contains(&format!("table 'large' waits: {lacks}")), "{text}");
    assert_eq!(dev.ask(&["table", "list"]), "no tables\n");

    dev.ask(&["table", "create", "db0", "--durability", "synced", "--replicas", "1", "--slots"]);
    let before = dev.ask(&["table", "describe", "db0"]);
    let text = dev.refused(&["table", "alter", "db0", "--replicas", "3"]);
    assert!(text.contains(lacks), "{text}");
    let text = dev.refused(&[
        "table",
        "create",
        "db0",
        "--if-absent",
        "--durability",
        "buffered",
        "--replicas",
        "2",
    ]);
    assert!(text.contains("its durability is synced, not buffered, it has 1 replica, not 2"), "{text}");
    assert_eq!(dev.ask(&["table", "describe", "db0"]), before);

    assert_eq!(dev.say("SET key 1"), "+OK");
    assert_eq!(dev.say("FLUSHDB"), "+OK");
    assert_eq!(dev.say("GET key"), "$-1");
    let after = dev.ask(&["table", "describe", "db0"]);
    assert!(
        after.starts_with("table 'db0' (t2): synced, 1 replicas, 3 tablets, 0 objects, by slots"),
        "{after}"
    );
    assert_eq!(after.lines().skip(1).collect::<Vec<_>>(), before.lines().skip(1).collect::<Vec<_>>());
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

/// The answer of the shared port to a new client's PING, if it comes within a second.
fn ping(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a time that is not zero");
    stream.write_all(b"PING\r\n").ok()?;
    let mut answer = [0; 64];
    let count = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..count]).into_owned())
}

// J1, B1
#[test]
fn redis_clients_of_the_shared_port_never_meet_a_server_that_is_stopped_or_dead() -> Result<(), Failure> {
    let _machine = crate::machine();
    let ports = free_ports(6);
    let (dev, resp) = (Dev { scratch: Scratch::new(), port: ports[0] }, ports[5]);
    let dir = dev.scratch.dir().join("cluster");
    let mut arguments = dev.arguments("2");
    arguments.extend(["--detach", "--no-respawn", "--resp-port"].map(OsString::from));
    arguments.push(resp.to_string().into());
    let output = Command::new(program()).args(&arguments).output().expect("the program can be started");
    assert!(output.status.success(), "{output:?}");
    // It returns when Redis clients are served.
    for _ in 0..20 {
        assert_eq!(ping(resp).as_deref(), Some("+PONG\r\n"));
    }
    for server in 1..=3 {
        assert_eq!(ping(dev.port + server).as_deref(), Some("+PONG\r\n"), "the port of server {server}");
    }
    let status = dev.ask(&["status", "--json"]);
    for server in 1..=3 {
        let wanted = format!("\"address\":\"127.0.0.1:{}\"", dev.port + server);
        assert!(status.contains(&wanted), "{status}");
    }
    let record = std::fs::read_to_string(dir.join("dev.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    let pid = |member: usize| {
        let pid = record["members"][member]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a process")
    };
    let mut asked = 0;
    for (member, signal) in [(2, Signal::STOP), (3, Signal::KILL)] {
        kill_process(pid(member), signal).expect("a process of this test");
        for _ in 0..25 {
            assert_eq!(ping(resp).as_deref(), Some("+PONG\r\n"), "after {asked}, {signal:?}");
            asked += 1;
        }
    }
    kill_process(pid(2), Signal::CONT).expect("a process of this test");
    let output = Command::new(program()).arg("stop").arg("--dir").arg(&dir).output();
    assert!(output.expect("the program can be started").status.success());
    Ok(())
}
