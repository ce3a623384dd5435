//! Runs `ramhold` and captures its output.

use crate::played::Played;
use std::ffi::OsStr;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// The exit code is this, and stderr is one line of ours.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let is_error = |start| self.stderr.starts_with(start);
        // The second one with --json.
        assert!(is_error("ramhold: ") || is_error("{\"error\":"), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.stderr
    }
}

pub fn ramhold_at<A: AsRef<OsStr>>(cluster: &str, input: &[u8], arguments: &[A]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ramhold"))
        .env("RAMHOLD_CLUSTER", cluster)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that does not read its input may end before all of it is written, so a thread writes it and
    // ignores the error.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Played {
    pub fn ramhold(&self, arguments: &[&str]) -> Ran {
        ramhold_at(&self.address.to_string(), b"", arguments)
    }

    pub fn ramhold_with(&self, input: &[u8], arguments: &[&str]) -> Ran {
        ramhold_at(&self.address.to_string(), input, arguments)
    }
}

/// An address where nobody listens.
pub fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A directory that is removed at the end of the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ramhold-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
