//! Calls of clients and the answers to them, as lines in a file: the format `hist/v1`.
//!
//! The file has a header and then two lines per operation. The invocation is in the file before any byte of
//! the request is sent. The response is written after the whole answer has arrived. So a client that is
//! killed leaves a readable history: an operation without a response may have been carried out or not. Each
//! line is one write to the file. No line waits in a buffer of this process.
//!
//! ```text
//!   {"h":"hist/v1","run":"..","seed":4711,"clock":"mono_ns","cfg":{..}}
//!   {"e":"i","id":17,"c":3,"t":1002003,"op":"write","tb":1,"k":"a7","v":"3.17","if":{"ver":5}}
//!   {"e":"r","id":17,"t":1002950,"st":"ok","ver":6}
//! ```
//!
//! Fields:
//! - `id` is unique in a run.
//! - `t` is CLOCK_MONOTONIC, which all processes of a machine share.
//! - `st` is `ok`, `fail` or `info`. `fail` means surely without effect. `info` means that the outcome is
//!   unknown; the client `c` then never appears again.
//! - `ver` is the version of the object after the operation, or 0 if there is none.
//! - `v` is the value that was written or found, `null` for no value, or the sum.
//!
//! Not here: the operations (sessions), and the rules for a correct history (testing/checker).

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Ids of operations and clients per process. The process's number stands in the higher bits of both.
const IDS_PER_PROCESS: u64 = 1 << 40;
pub const CLIENTS_PER_PROCESS: u64 = 1 << 12;
/// The limit of one process's history, in bytes: some five million operations.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// No line is longer: keys and errors are short here.
const LINE_BYTES_MAX: u64 = 1024;

/// The condition under which a mutation is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// The object has this version.
    #[serde(rename = "ver", skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exists: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// The names in the file are those of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Read,
    Write,
    Delete,
    /// A write in a quorum table. Its version is a time, which another client's may have, too.
    Put,
    /// A removal in a quorum table, which does not tell whether there was an object.
    Clear,
    Incr,
}

#[derive(Clone, Debug, Serialize)]
pub struct Invocation<'a> {
    pub op: Verb,
    #[serde(rename = "tb")]
    pub table: u32,
    #[serde(rename = "k")]
    pub key: &'a str,
    #[serde(rename = "v", skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a str>,
    /// For an increment: the amount.
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    pub delta: Option<i64>,
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "st", rename_all = "lowercase")]
pub enum Response {
    Ok {
        ver: u64,
        /// For a read: the value found, or none. For an increment: the sum.
        #[serde(skip_serializing_if = "Option::is_none")]
        v: Option<Option<String>>,
    },
    Fail {
        err: String,
        /// The version of the object that did not fit the condition.
        #[serde(skip_serializing_if = "Option::is_none")]
        ver: Option<u64>,
    },
    Info {
        err: String,
    },
}

#[derive(Serialize)]
struct Begun<'a> {
    e: &'static str,
    id: u64,
    c: u64,
    t: u64,
    #[serde(flatten)]
    what: &'a Invocation<'a>,
}

#[derive(Serialize)]
struct Ended<'a> {
    e: &'static str,
    id: u64,
    t: u64,
    #[serde(flatten)]
    what: &'a Response,
}

/// The run that a history is part of.
#[derive(Clone, Copy, Debug)]
pub struct RunName<'a> {
    pub seed: u64,
    /// On the clock of the histories.
    pub begun: u64,
    /// The commit that is tested.
    pub git: &'a str,
}

impl RunName<'_> {
    /// The first line of a history. `settings`: of the clients whose history it is.
    pub fn header(&self, settings: Value) -> Value {
        let RunName { seed, begun, git } = self;
        json!({
            "h": "hist/v1", "run": format!("{seed}-{begun}"), "seed": seed,
            "git": git, "clock": "mono_ns", "faults": "faults.jsonl", "cfg": settings,
        })
    }
}

/// The tested commit, if this is a repository.
pub fn commit() -> String {
    let mut git = std::process::Command::new("git");
    let told = git.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]).output();
    let name = told
        .ok()
        .filter(|told| told.status.success())
        .map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    name.unwrap_or_else(|| "unknown".to_owned())
}

/// One file, for all sessions of a process.
pub struct Recorder {
    file: Mutex<File>,
    process: u64,
    next_operation: AtomicU64,
    next_client: AtomicU64,
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Now, on the clock of all histories of this machine, in nanoseconds.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the monotonic clock does not go below zero");
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("nanoseconds are below a second")
}

impl Recorder {
    /// A new file with a header. `process` is a number that no other process of the run has.
    pub fn create(path: &Path, process: u64, bytes_max: u64, header: Value) -> io::Result<Recorder> {
        let recorder = Recorder {
            file: Mutex::new(File::create_new(path)?),
            process,
            next_operation: AtomicU64::new(process * IDS_PER_PROCESS + 1),
            next_client: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_max,
        };
        recorder.write(&header)?;
        Ok(recorder)
    }

    /// A client number that was never used before; none when the process has used up its share.
    pub fn new_client(&self) -> Option<u64> {
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        (number < CLIENTS_PER_PROCESS).then_some(self.process * CLIENTS_PER_PROCESS + number)
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is room for `sessions` sessions, each with an operation under way, to record the end of
    /// it and to begin another.
    pub fn has_room(&self, sessions: u64) -> bool {
        self.bytes() + 3 * sessions * LINE_BYTES_MAX <= self.bytes_max
    }

    /// Call this before any byte of the operation is sent. Returns the operation's id.
    pub fn begin(&self, client: u64, invocation: &Invocation<'_>) -> io::Result<u64> {
        let id = self.next_operation.fetch_add(1, Ordering::Relaxed);
        self.write(&Begun { e: "i", id, c: client, t: now(), what: invocation })?;
        Ok(id)
    }

    /// Call this with the answer, after all of it has arrived.
    pub fn end(&self, id: u64, response: &Response) -> io::Result<()> {
        self.write(&Ended { e: "r", id, t: now(), what: response })
    }

    fn write(&self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn lines_are_those_of_the_format() {
        let scratch = Scratch::new();
        let path = scratch.dir().join("history.jsonl");
        let recorder = Recorder::create(&path, 2, FILE_BYTES_MAX, json!({ "h": "hist/v1" })).unwrap();
        let client = recorder.new_client().unwrap();
        let condition = Some(Condition { version: Some(5), ..Condition::default() });
        let write =
            Invocation { op: Verb::Write, table: 1, key: "a7", value: Some("3.17"), delta: None, condition };
        let id = recorder.begin(client, &write).unwrap();
        // Whole lines are in the file as soon as they are written, so none is lost with the process.
        let so_far = std::fs::read_to_string(&path).unwrap();
        assert!(so_far.lines().count() == 2 && so_far.ends_with('\n'), "{so_far}");
        recorder.end(id, &Response::Ok { ver: 6, v: None }).unwrap();
        let read =
            Invocation { op: Verb::Read, table: 1, key: "a7", value: None, delta: None, condition: None };
        let id = recorder.begin(client, &read).unwrap();
        recorder.end(id, &Response::Ok { ver: 0, v: Some(None) }).unwrap();
        let id = recorder.begin(client, &read).unwrap();
        recorder.end(id, &Response::Info { err: "timeout".into() }).unwrap();
        let id = recorder.begin(client, &write).unwrap();
        recorder.end(id, &Response::Fail { err: "wrong_version".into(), ver: Some(9) }).unwrap();

        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = 2 * IDS_PER_PROCESS + 1;
        let without_time = |line: &serde_json::Value| {
            let mut line = line.clone();
            let time = line.as_object_mut().and_then(|line| line.remove("t"));
            assert!(time.is_some_and(|time| time.as_u64().is_some_and(|time| time > 0)));
            line
        };
        let lines: Vec<_> = lines[1..].iter().map(without_time).collect();
        assert_eq!(
            lines[0],
            json!({"e": "i", "id": first, "c": 8192, "op": "write", "tb": 1, "k": "a7", "v": "3.17", "if": {"ver": 5}})
        );
        assert_eq!(lines[1], json!({"e": "r", "id": first, "st": "ok", "ver": 6}));
        assert_eq!(lines[2], json!({"e": "i", "id": first + 1, "c": 8192, "op": "read", "tb": 1, "k": "a7"}));
        assert_eq!(lines[3], json!({"e": "r", "id": first + 1, "st": "ok", "ver": 0, "v": null}));
        assert_eq!(lines[5], json!({"e": "r", "id": first + 2, "st": "info", "err": "timeout"}));
        assert_eq!(
            lines[7],
            json!({"e": "r", "id": first + 3, "st": "fail", "err": "wrong_version", "ver": 9})
        );
    }

    #[test]
    fn a_history_has_an_end_and_clients_run_out() {
        let scratch = Scratch::new();
        let path = scratch.dir().join("history.jsonl");
        let recorder = Recorder::create(&path, 1, 10_000, json!({ "h": "hist/v1" })).unwrap();
        assert!(recorder.has_room(3));
        assert!(!recorder.has_room(4));
        assert_eq!((0..CLIENTS_PER_PROCESS + 5).filter_map(|_| recorder.new_client()).count(), 4096);
        // An existing file is never overwritten.
        assert!(Recorder::create(&path, 1, 10_000, json!({})).is_err());
    }
}
