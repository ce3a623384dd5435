//! Client processes. Each runs several sessions, and each session has a history of its own.

use crate::waiting::{Failure, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// By then an operation under way is over, and the process too.
const STOP_WITHIN: Duration = Duration::from_secs(60);
const PROGRESS_WITHIN: Duration = Duration::from_secs(90);

/// The arguments that all client processes share.
pub struct Clients {
    /// The program that becomes a client with these arguments, and `--file` and `--process`.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// The directory of the histories.
    pub dir: PathBuf,
    running: Vec<Running>,
    started: u64,
}

struct Running {
    child: Child,
    number: u64,
}

impl Clients {
    pub fn new(program: &Path, arguments: Vec<String>, dir: &Path) -> Clients {
        let (program, dir) = (program.to_owned(), dir.to_owned());
        Clients { program, arguments, dir, running: Vec::new(), started: 0 }
    }

    /// Starts one more.
    pub fn start(&mut self) -> Result<(), Failure> {
        let child = self.spawn(&[])?;
        self.running.push(Running { child, number: self.started });
        Ok(())
    }

    fn spawn(&mut self, more: &[&str]) -> Result<Child, Failure> {
        self.started += 1;
        let path = |what: &str| self.dir.join(format!("client-{}.{what}", self.started));
        let log = path("log");
        let failed = |error: std::io::Error| Failure(format!("a client cannot be started: {error}"));
        Command::new(&self.program)
            .args(&self.arguments)
            .arg("--file")
            .arg(path("jsonl"))
            .args(["--process", &self.started.to_string()])
            .args(more)
            // The process works until its input ends, which also happens when this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(log).map_err(failed)?)
            .spawn()
            .map_err(failed)
    }

    /// Sends SIGKILL to the oldest client, and starts another in its place.
    pub fn replace_one(&mut self) -> Result<(), Failure> {
        let mut oldest = self.running.remove(0);
        let killed = oldest.child.kill().and_then(|()| oldest.child.wait());
        killed.map_err(|error| Failure(format!("a client cannot be killed: {error}")))?;
        self.start()
    }

    /// Stops the oldest client with SIGSTOP until `go_on`: processes that share memory with it hear nothing from it. Where
    /// servers have networks of their own, it is a silent peer of TCP connections.
    pub fn hold_one(&mut self) -> Result<(), Failure> {
        self.signal_oldest(Signal::STOP)
    }

    /// Lets the client that was stopped go on.
    pub fn go_on(&mut self) -> Result<(), Failure> {
        self.signal_oldest(Signal::CONT)
    }

    fn signal_oldest(&mut self, signal: Signal) -> Result<(), Failure> {
        let oldest = self.running.first().ok_or_else(|| Failure("no client runs".to_owned()))?;
        kill_process(Pid::from_child(&oldest.child), signal)
            .map_err(|error| Failure(format!("a client takes no signal: {error}")))
    }

    /// Bytes of all histories so far.
    pub fn bytes(&self) -> u64 {
        self.files().iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum()
    }

    pub fn files(&self) -> Vec<PathBuf> {
        let path = |number: u64| self.dir.join(format!("client-{number}.jsonl"));
        (1..=self.started).map(path).filter(|path| path.exists()).collect()
    }

    /// Waits until the histories have grown by this number of bytes.
    pub fn wait_progress(&mut self, bytes: u64) -> Result<(), Failure> {
        let wanted = self.bytes() + bytes;
        wait_for("clients get on", PROGRESS_WITHIN, || {
            self.check_running()?;
            let now = self.bytes();
            Ok(if now >= wanted { Ok(()) } else { Err(format!("{now} of {wanted} bytes of history")) })
        })
    }

    fn check_running(&mut self) -> Result<(), Failure> {
        for index in 0..self.running.len() {
            let Running { child, number } = &mut self.running[index];
            let number = *number;
            if let Some(status) = child.try_wait().map_err(|error| Failure(error.to_string()))? {
                return Err(Failure(format!("client {number} has ended: {status}: {}", self.log(number))));
            }
        }
        Ok(())
    }

    fn log(&self, number: u64) -> String {
        std::fs::read_to_string(self.dir.join(format!("client-{number}.log"))).unwrap_or_default()
    }

    /// Lets all clients finish their operations, and ends them.
    pub fn stop(&mut self) -> Result<(), Failure> {
        for Running { child, .. } in &mut self.running {
            drop(child.stdin.take());
        }
        let ends: Vec<_> = std::mem::take(&mut self.running)
            .into_iter()
            .map(|Running { mut child, number }| self.wait_good(&mut child, number, STOP_WITHIN))
            .collect();
        ends.into_iter().collect()
    }

    /// Runs a client with these further arguments, which give it another task, to its end. Returns its
    /// number.
    pub fn run(&mut self, more: &[&str], within: Duration) -> Result<u64, Failure> {
        let mut child = self.spawn(more)?;
        let number = self.started;
        let stdin = child.stdin.take();
        let done = self.wait_good(&mut child, number, within);
        drop(stdin);
        done.map(|()| number)
    }

    fn wait_good(&self, child: &mut Child, number: u64, within: Duration) -> Result<(), Failure> {
        let ended = wait_for(&format!("the end of client {number}"), within, || {
            let ended = child.try_wait().map_err(|error| Failure(error.to_string()))?;
            Ok(ended.ok_or_else(|| "it still runs".to_owned()))
        });
        if ended.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        match ended? {
            status if status.success() => Ok(()),
            status => Err(Failure(format!("client {number} has ended: {status}: {}", self.log(number)))),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for Running { child, .. } in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
