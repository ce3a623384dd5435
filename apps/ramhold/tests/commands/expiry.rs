//! Objects with a time to live.

use crate::binary::{Directory, ramhold_at};
use crate::played::{Mischief, Played};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

fn unix_millis() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

#[test]
fn get_tells_when_an_object_ends() {
    // A12
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "t"]).ok();
    // The cluster time of the played cluster stands still at the time of its start.
    let earliest = unix_millis() - 60_000;
    played.ramhold(&["put", "t", "a", "x", "--ttl", "7d"]).ok();
    let json = played.ramhold(&["get", "t", "a", "--json"]).ok().json();
    let week = 7 * 86_400_000;
    let expires = json["expires"].as_u64().unwrap();
    assert!((earliest + week..=unix_millis() + week).contains(&expires), "{json}");
    let remaining = json["remaining_ms"].as_u64().unwrap();
    assert!((week - 120_000..=week).contains(&remaining), "{json}");
    // Sets another end, exact to the millisecond, and then none.
    let end = unix_millis() + 12_345_678;
    played.ramhold(&["put", "t", "a", "x", "--expires-at", &end.to_string()]).ok();
    assert_eq!(played.ramhold(&["get", "t", "a", "--json"]).ok().json()["expires"], end);
    played.ramhold(&["put", "t", "a", "x"]).ok();
    let json = played.ramhold(&["get", "t", "a", "--json"]).ok().json();
    assert!(json["expires"].is_null() && json["remaining_ms"].is_null(), "{json}");
    // Imported objects can also have an end.
    let directory = Directory::new();
    directory.write("file", b"text");
    played.ramhold(&["import", "t", "--dir", directory.text(), "--expires-at", &end.to_string()]).ok();
    assert_eq!(played.ramhold(&["get", "t", "file", "--json"]).ok().json()["expires"], end);
}

#[test]
fn an_end_in_the_past_is_exit_code_1_and_one_out_of_range_2() {
    // A12
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "t"]).ok();
    assert_eq!(played.ramhold(&["put", "t", "a", "x", "--expires-at", "1"]).ok().text(), "version 1\n");
    assert_eq!(played.ramhold(&["get", "t", "a"]).failed(1), "ramhold: 'a': the object does not exist\n");
    let arguments: [&[&str]; 6] = [
        &["--ttl", "0s"],
        &["--ttl", "36526d"],
        &["--ttl", "soon"],
        &["--expires-at", "0"],
        &["--expires-at", "2031-06-01"],
        &["--ttl", "1s", "--expires-at", "5"],
    ];
    for wrong in arguments {
        assert_eq!(played.ramhold(&[&["put", "t", "a", "x"], wrong].concat()).code, 2, "{wrong:?}");
    }
    // Only the cluster can tell that this time is too far ahead.
    played.ramhold(&["put", "t", "a", "x", "--expires-at", "18446744073709551615"]).failed(3);
}

/// A cluster of one server, ended when dropped.
struct Dev {
    directory: Directory,
    address: String,
}

impl Dev {
    fn start() -> Dev {
        let directory = Directory::new();
        let pair = |first: u16| {
            (TcpListener::bind(("127.0.0.1", first)), TcpListener::bind(("127.0.0.1", first + 1)))
        };
        let begin = 20_000 + (std::process::id() % 5_000) as u16 * 2;
        let port = (begin..31_000).step_by(2).find(|port| matches!(pair(*port), (Ok(_), Ok(_)))).unwrap();
        let dir = directory.0.join("cluster");
        let output = Command::new(env!("CARGO_BIN_EXE_ramhold"))
            .args(["dev", "--servers", "1", "--replicas", "0", "--memory", "64MiB", "--detach", "--dir"])
            .arg(dir)
            .args(["--port", &port.to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Dev { directory, address: format!("127.0.0.1:{port}") }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let dir = self.directory.0.join("cluster");
        let _ = Command::new(env!("CARGO_BIN_EXE_ramhold")).arg("stop").arg("--dir").arg(dir).output();
    }
}

#[test]
fn an_object_of_a_real_cluster_ends_by_itself() {
    // A12
    let dev = Dev::start();
    let ramhold = |arguments: &[&str]| ramhold_at(&dev.address, b"", arguments);
    ramhold(&["table", "create", "t"]).ok();
    assert_eq!(ramhold(&["put", "t", "short", "x", "--ttl", "1500ms"]).ok().text(), "version 1\n");
    let written = Instant::now();
    ramhold(&["put", "t", "long", "y", "--ttl", "1h"]).ok();
    let json = ramhold(&["get", "t", "short", "--json"]);
    // On a slow machine the object may have ended already.
    if written.elapsed() < Duration::from_secs(1) {
        assert!(json.ok().json()["remaining_ms"].as_u64().unwrap() <= 1500);
    }
    let gone = loop {
        let ran = ramhold(&["get", "t", "short"]);
        if ran.code != 0 {
            break ran.failed(1);
        }
        assert!(written.elapsed() < Duration::from_secs(30), "it is still there");
    };
    assert!(written.elapsed() >= Duration::from_millis(1400), "gone after {:?}", written.elapsed());
    assert_eq!(gone, "ramhold: 'short': the object does not exist\n");
    ramhold(&["del", "t", "short"]).failed(1);
    ramhold(&["put", "t", "short", "x", "--if-version", "1"]).failed(1);
    // The object had version 1, and its end took a higher one.
    let again = ramhold(&["put", "t", "short", "z", "--if-absent", "--json"]).ok().json();
    assert!(again["version"].as_u64().unwrap() > 2, "{again}");
    assert_eq!(ramhold(&["get", "t", "short"]).ok().stdout, b"z");
    assert_eq!(ramhold(&["get", "t", "long"]).ok().stdout, b"y");
}
