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

/// The processor time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In its own code.
    pub own: Duration,
    /// In the kernel for it, with what its packets pass through on this machine.
    pub kernel: Duration,
}

impl CpuTime {
    pub fn total(self) -> Duration {
        self.own + self.kernel
    }
}

/// The processor time that a process has used so far; good to some 10 ms.
pub fn cpu_of(process: Pid) -> Result<CpuTime, Failure> {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let told = std::fs::read_to_string(&path).map_err(|error| Failure(format!("{path}: {error}")))?;
    cpu_time(&told).ok_or_else(|| Failure(format!("{path} tells no times")))
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
        Process::start_program(name, &program(), arguments, log)
    }

    /// Starts any program; what it prints is appended to `log`.
    pub fn start_program(name: &str, program: &Path, arguments: &[OsString], log: &Path) -> Process {
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log can be written");
        let again = file.try_clone().expect("a file can be named twice");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(again);
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"RAMHOLD_") {
                command.env_remove(variable);
            }
        }
        // A file of this host is not meant for the processes under test.
        command.env("RAMHOLD_CONFIG", "none");
        let child = command.spawn().expect("the program can be started");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
        Process { name: name.to_owned(), child: RefCell::new(child), pid, log: log.to_owned() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The processor time that it has used so far; good to some 10 ms.
    pub fn cpu(&self) -> Result<CpuTime, Failure> {
        cpu_of(self.pid)
    }

    /// The processes that it has started and not reaped.
    pub fn children(&self) -> Vec<Pid> {
        let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
        let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let own = self.pid.as_raw_nonzero().get();
        let is_child = |number: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            parent_of(&stat) == Some(own)
        };
        numbers.filter(is_child).filter_map(Pid::from_raw).collect()
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

/// The unit in which Linux tells a process's time, whatever unit it counts in itself.
const TICK: Duration = Duration::from_millis(10);

/// Field 4, behind the program's name in brackets.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Fields 14 and 15, behind the program's name in brackets, which may have anything in it.
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut times = behind.split(' ').skip(11).map(|field| field.parse::<u32>().ok());
    Some(CpuTime { own: TICK * times.next()??, kernel: TICK * times.next()?? })
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_told_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 5 6 20 0 1 0 99";
        let told = CpuTime { own: 12 * TICK, kernel: 30 * TICK };
        assert_eq!(cpu_time(stat), Some(told));
        assert_eq!(cpu_time("7 (a) S 1"), None);
        assert_eq!(parent_of(stat), Some(1));
    }
}
