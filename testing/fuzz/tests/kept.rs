//! Runs the kept inputs through their targets as ordinary tests: the corpus, which includes recordings of
//! Redis clients, and earlier findings.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use ramhold_fuzz::{TARGETS, Target, find};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a folder; none when there is no such folder, because nothing was found yet.
fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn feed(target: &Target, path: &Path, bytes: &[u8]) {
    let run = std::panic::catch_unwind(|| (target.run)(bytes));
    assert!(run.is_ok(), "{}: {}", target.name, path.display());
}

fn replay(name: &str) {
    let target = find(name).unwrap();
    let corpus = files(&format!("corpus/{}", target.corpus));
    assert!(!corpus.is_empty(), "{name} has a corpus");
    for (path, bytes) in &corpus {
        feed(target, path, bytes);
        // Cut as the input's end chooses, and with the end's choices varied.
        for choice in [0x00, 0x13, 0x27, 0x4F, 0x6A] {
            feed(target, path, &[&bytes[..], &[choice]].concat());
        }
    }
    for (path, bytes) in files(&format!("findings/{name}")) {
        feed(target, &path, &bytes);
    }
}

// Z1
#[test]
fn sessions_of_clients_are_parsed() {
    replay("resp_parse");
}

// Z1
#[test]
fn sessions_of_clients_are_answered() {
    replay("resp_front");
}

// Z2
#[test]
fn frames_are_read() {
    replay("frame");
}

// Z2
#[test]
fn requests_are_read() {
    replay("requests");
}

// Z3
#[test]
fn entries_are_read() {
    replay("entry");
}

// I3
#[test]
fn tokens_are_read() {
    replay("token");
}

// J4
#[test]
fn stored_passwords_are_read() {
    replay("stored_password");
}

// F5
#[test]
fn shared_memory_is_read() {
    replay("ring");
}

#[test]
fn dump_files_are_read() {
    replay("rdb");
}

#[test]
fn append_only_files_are_read() {
    replay("aof");
}

#[test]
fn every_client_is_in_the_corpus() {
    let sessions = files("corpus/sessions");
    for client in ["redis-cli", "redis-benchmark", "redis-py", "go-redis", "ioredis"] {
        let of_client =
            |(path, _): &(PathBuf, _)| path.file_name().unwrap().to_str().unwrap().starts_with(client);
        assert!(sessions.iter().any(of_client), "{client}");
    }
    assert!(TARGETS.iter().all(|target| !files(&format!("corpus/{}", target.corpus)).is_empty()));
}
