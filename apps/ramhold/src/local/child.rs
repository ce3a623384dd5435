//! One child process: started, its output read, signalled, waited for.

use crate::config_file::NO_FILE;
use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A log that is longer than this at the start is put aside, so that old lives do not fill the disk.
const LOG_BYTES_MAX: u64 = 16 << 20;
const TAIL_LINE_COUNT: usize = 4;
const TAIL_BYTES_MAX: u64 = 4096;

/// The lines of a child that also go to the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Warnings and errors.
    Warnings,
    LogsOnly,
}

pub struct Child {
    process: std::process::Child,
}

impl Child {
    /// Starts this same program with other arguments, in a process group of its own: the terminal's Ctrl-C is for us,
    /// and we end our children in order.
    pub fn start(
        name: &str,
        arguments: Vec<OsString>,
        input: Stdio,
        log: &Path,
        output: Output,
    ) -> Result<Child, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::usage(format!("cannot find this program's own file: {error}")))?;
        let mut command = Command::new(&program);
        command.args(arguments).stdin(input).process_group(0);
        for (variable, _) in std::env::vars_os() {
            // Options in our environment are not meant for the children.
            if variable.as_encoded_bytes().starts_with(b"RAMHOLD_") {
                command.env_remove(variable);
            }
        }
        // Neither are those of the host's file.
        command.env("RAMHOLD_CONFIG", NO_FILE);
        let (reader, writer) =
            std::io::pipe().map_err(|error| Failure::usage(format!("cannot make a pipe: {error}")))?;
        let again =
            writer.try_clone().map_err(|error| Failure::usage(format!("cannot make a pipe: {error}")))?;
        command.stdout(writer).stderr(again);
        let file = open_log(log)?;
        let process = command.spawn().map_err(|error| Failure::local(&program, &error))?;
        // Our write ends of the pipe must close, or the reader never sees the end of the output.
        drop(command);
        let name = name.to_owned();
        let copy = move || copy_lines(reader, file, &name, output);
        std::thread::Builder::new()
            .name("ramhold-log".to_owned())
            .spawn(copy)
            .map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?;
        Ok(Child { process })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("a child of ours can be waited for")
    }

    pub fn signal(&self, signal: Signal) {
        let pid =
            i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
        // The child may have ended already. Until it is waited for, no other process has its number.
        let _ = kill_process(pid, signal);
    }

    pub fn wait(mut self) -> ExitStatus {
        self.process.wait().expect("a child of ours can be waited for")
    }
}

fn open_log(path: &Path) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::local(path, &error);
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old")).map_err(failed)?;
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(failed)
}

/// Until the child has ended and its last line is in the log.
fn copy_lines(reader: impl Read, mut log: File, name: &str, output: Output) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // A full disk must not stop the child, so the error is ignored.
        let _ = log.write_all(&line);
        if output == Output::Warnings && is_warning(&line) {
            let _ = std::io::stderr().write_all(&[format!("[{name}] ").as_bytes(), &line].concat());
        }
    }
}

/// A report of at least the level WARN, or a last word of the program.
fn is_warning(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let level =
        text.split_ascii_whitespace().find(|word| matches!(*word, "WARN" | "ERROR" | "INFO" | "DEBUG"));
    matches!(level, Some("WARN" | "ERROR")) || text.starts_with("ramhold: ")
}

/// The last lines of a log, on one line, for an error.
pub fn tail(log: &Path) -> String {
    let Ok(mut file) = File::open(log) else { return String::new() };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut text = Vec::new();
    let from = std::io::SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX));
    if std::io::Seek::seek(&mut file, from).is_err() || file.read_to_end(&mut text).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINE_COUNT)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_apart() {
        assert!(is_warning(b"2026-01-01T00:00:00.000Z WARN  s1: no answer\n"));
        assert!(is_warning(b"2026-01-01T00:00:00.000Z ERROR broken\n"));
        assert!(is_warning(b"ramhold: cannot listen\n"));
        assert!(!is_warning(b"2026-01-01T00:00:00.000Z INFO  s1: WARN is only a word here\n"));
        assert!(!is_warning(b"  memory 512 MiB\n"));
    }

    #[test]
    fn the_end_of_a_log_is_told() {
        let log = std::env::temp_dir().join(format!("ramhold-tail-{}", std::process::id()));
        fs::write(&log, "1\n2\n3\n4\n5\n").unwrap();
        assert_eq!(tail(&log), "2 | 3 | 4 | 5");
        fs::remove_file(&log).unwrap();
        assert_eq!(tail(&log), "");
    }
}
