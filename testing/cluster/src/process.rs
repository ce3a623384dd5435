//! One process of the program under test.

use crate::waiting::{Failure, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The program under test.
pub fn program() -> PathBuf {
    let path = std::env::var_os("RAMHOLD_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/ramhold"),
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "{} is not there: build it with 'cargo build --release -p ramhold', or name it in RAMHOLD_BIN",
        path.display()
    );
    path
}

pub struct Process {
    name: String,
    /// Reaped only while it is waited for.
    child: RefCell<Child>,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts the program; what it prints is appended to `log`.
    pub fn start(name: &str, arguments: &[OsString], log: &Path) -> Process {
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log can be written");
        let again = file.try_clone().expect("a file can be named twice");
        let mut command = Command::new(program());
        command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(again);
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"RAMHOLD_") {
                command.env_remove(variable);
            }
        }
        let child = command.spawn().expect("the program can be started");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
        Process { name: name.to_owned(), child: RefCell::new(child), pid, log: log.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Until the process is waited for, no other process can have its number.
    pub fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            kill_process(self.pid, signal).expect("a child of ours can be signalled");
        }
    }

    /// The exit status, once the process has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.borrow_mut().try_wait().expect("a child can be waited for")
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub fn kill(self) {
        self.end_now();
    }

    pub fn wait_ended(&self, within: Duration) -> Result<ExitStatus, Failure> {
        let what = format!("the end of {}", self.name);
        let runs = || format!("it still runs and has printed:\n{}", self.printed());
        wait_for(&what, within, || Ok(self.ended().ok_or_else(runs)))
    }

    /// Everything that it has printed so far, in all its lives on this log.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn end_now(&self) {
        // SIGKILL ends a stopped process, too.
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_now();
    }
}
