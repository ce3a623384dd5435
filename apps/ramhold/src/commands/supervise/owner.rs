//! The process of a supervised brick: a child of the supervisor, or one that a command restarts.

use crate::failure::Failure;
use crate::supervising::Supervising;
use ramhold_supervisor::Act;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

pub enum Owner {
    Child {
        /// `server` and its arguments.
        words: Vec<OsString>,
        process: Option<Child>,
    },
    /// The brick is the child of somebody else.
    Command {
        template: String,
        /// The command runs.
        running: Option<Child>,
    },
}

/// Until it is waited for, no other process has the child's number.
fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
    // The child may have ended already.
    let _ = kill_process(pid, signal);
}

fn ended(child: &mut Option<Child>) -> Option<ExitStatus> {
    let status = child.as_mut()?.try_wait().expect("a child of ours can be waited for")?;
    *child = None;
    Some(status)
}

impl Owner {
    /// The brick is a child, which is told the port of its supervisor.
    pub fn child(words: Vec<OsString>, port: u16) -> Owner {
        let mut words = words;
        // The brick stops in order when this process ends, however that ends.
        let own = std::process::id().to_string();
        words.extend(["--supervisor".into(), port.to_string().into(), "--end-with".into(), own.into()]);
        Owner::Child { words, process: None }
    }

    pub fn command(template: String) -> Owner {
        Owner::Command { template, running: None }
    }

    /// Whether the brick is to stop before the supervisor ends.
    pub fn stops_with_supervisor(&self) -> bool {
        matches!(self, Owner::Child { .. })
    }

    /// Must be called from the thread that lives as long as this process: children end with the thread that started them.
    pub fn carry_out(&mut self, act: Act, supervising: &mut Supervising) -> Result<(), Failure> {
        match (self, act) {
            (Owner::Child { words, process }, Act::Start) => match start(words) {
                Ok(child) => {
                    *process = Some(child);
                    supervising.started(0);
                }
                Err(error) => supervising.ended(0, &format!("it cannot be started: {error}")),
            },
            (Owner::Child { process, .. }, Act::Stop | Act::Kill) => {
                let how = if act == Act::Kill { Signal::KILL } else { Signal::TERM };
                if let Some(child) = process {
                    signal(child, how);
                }
            }
            // The owner of the process has started it.
            (Owner::Command { .. }, Act::Start) => supervising.started(0),
            (Owner::Command { template, running }, Act::Stop | Act::Kill) => match running {
                // It takes too long.
                Some(child) => signal(child, Signal::KILL),
                None => match start_command(&filled(template, supervising)) {
                    Ok(child) => *running = Some(child),
                    Err(error) => supervising.ended(0, &format!("--run cannot be started: {error}")),
                },
            },
        }
        Ok(())
    }

    /// Looks whether the child has ended. `Err`: it has failed before it ever told of a life, so its arguments are wrong.
    pub fn look(&mut self, supervising: &mut Supervising) -> Result<(), Failure> {
        let (Owner::Child { process: child, .. } | Owner::Command { running: child, .. }) = self;
        let Some(status) = ended(child) else { return Ok(()) };
        let is_first = supervising.newest_life(0).is_none() && self.stops_with_supervisor();
        if let Some(code @ 1..) = status.code().filter(|_| is_first) {
            let text = format!("the brick has ended at its first start ({status}); its last lines say why");
            return Err(Failure::new(u8::try_from(code).unwrap_or(u8::MAX), text));
        }
        supervising.ended(0, &status.to_string());
        Ok(())
    }

    /// SIGKILL, and waits until the child is gone.
    pub fn kill(&mut self) {
        let (Owner::Child { process: child, .. } | Owner::Command { running: child, .. }) = self;
        if let Some(mut child) = child.take() {
            signal(&child, Signal::KILL);
            // It is gone then, whatever this says.
            let _ = child.wait();
        }
    }
}

/// In a process group of its own: the terminal's Ctrl-C is for the supervisor, which stops its brick in order.
fn start(words: &[OsString]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(words).process_group(0).spawn()
}

fn start_command(command: &str) -> std::io::Result<Child> {
    Command::new("/bin/sh").args(["-c", command]).process_group(0).spawn()
}

/// The command with the brick's id and life. Both are numbers, so nothing of them is a word of the shell.
fn filled(template: &str, supervising: &Supervising) -> String {
    let (brick, life) = supervising.newest_life(0).unwrap_or_default();
    template.replace("{brick}", &brick.to_string()).replace("{life}", &life.to_string())
}
