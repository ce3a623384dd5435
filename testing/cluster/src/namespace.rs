//! Network namespaces, and the cables between them.
//!
//! A namespace has no name. It lives as long as a process is in it or holds its file open.

use crate::waiting::Failure;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

/// The number of the coordinator among the members; servers are numbered from 1.
pub const COORDINATOR: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Member(usize),
    Clients,
}

/// The bridge's end of a cable.
pub(crate) fn port_name(end: End) -> String {
    match end {
        End::Clients => "clients".to_owned(),
        End::Member(COORDINATOR) => "coordinator".to_owned(),
        End::Member(member) => format!("server-{member}"),
    }
}

pub(crate) struct Namespace {
    file: File,
    name: String,
}

impl Namespace {
    /// `name` is for errors only.
    pub fn create(name: &str) -> Result<Namespace, Failure> {
        let about = |what: String| Failure(format!("unshare --net: {what}"));
        // A process must be inside until the namespace's file is open here.
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c", "echo inside && read end"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| about(error.to_string()))?;
        let mut told = String::new();
        let stdout = child.stdout.take().expect("it was asked for");
        BufReader::new(stdout).read_line(&mut told).map_err(|error| about(error.to_string()))?;
        let path = format!("/proc/{}/ns/net", child.id());
        let file = File::open(&path).map_err(|error| about(format!("{path}: {error}")));
        // Ends the shell's input, and so the shell.
        let output = child.wait_with_output().map_err(|error| about(error.to_string()))?;
        if told.is_empty() {
            return Err(about(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let namespace = Namespace { file: file?, name: name.to_owned() };
        namespace.run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Lays a cable from a bridge of this namespace to another namespace.
    pub fn lay(&self, port: &str, other: &Namespace, end: &str, bridge: &str) -> Result<(), Failure> {
        let file = format!("/proc/{}/fd/{}", std::process::id(), other.file.as_raw_fd());
        self.run("ip", &["link", "add", port, "type", "veth", "peer", "name", end])?;
        self.run("ip", &["link", "set", end, "netns", &file])?;
        self.run("ip", &["link", "set", port, "master", bridge, "up"])
    }

    pub fn enter(&self) -> Result<(), Failure> {
        enter(&self.file, &self.name)
    }

    /// Moves this thread there, does something, and comes back.
    pub fn within<T>(&self, what: impl FnOnce() -> T) -> Result<T, Failure> {
        let here = "/proc/thread-self/ns/net";
        let home = File::open(here).map_err(|error| Failure(format!("{here}: {error}")))?;
        self.enter()?;
        let done = what();
        enter(&home, here)?;
        Ok(done)
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        self.within(|| run(program, arguments, None))?
    }

    pub fn rules(&self, rules: &str) -> Result<(), Failure> {
        self.within(|| run("nft", &["-f", "-"], Some(rules)))?
    }
}

fn enter(namespace: &File, name: &str) -> Result<(), Failure> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| Failure(format!("cannot enter the network namespace {name}: {error}")))
}

fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<(), Failure> {
    output(program, arguments, input).map(drop)
}

/// The output of a program.
pub(crate) fn output(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, Failure> {
    let about = |what: String| Failure(format!("{program} {}: {what}", arguments.join(" ")));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| about(error.to_string()))?;
    // It is dropped at once, which ends the child's input.
    let mut stdin = child.stdin.take().expect("it was asked for");
    if let Some(input) = input {
        stdin.write_all(input.as_bytes()).map_err(|error| about(error.to_string()))?;
    }
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| about(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(about(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")))
}
