//! The process of a supervised brick: a child of the supervisor, or one that a command restarts.
//!
//! Not here: the decisions, and how long a command may take (core/supervisor).

use crate::process::code_of;
use ramhold_base::ServerId;
use ramhold_supervisor::Act;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
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

/// Something that the supervisor is told of its process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    Started,
    /// The process, or the command, has ended or could not be started: in words, and the exit status. 0: as it should.
    Ended {
        how: String,
        code: u8,
    },
}

impl Happened {
    fn ended(status: ExitStatus) -> Happened {
        Happened::Ended { how: status.to_string(), code: code_of(status) }
    }

    fn not_started(what: &str, error: &std::io::Error) -> Happened {
        Happened::Ended { how: format!("{what} cannot be started: {error}"), code: u8::MAX }
    }
}

/// Until it is waited for, no other process has the child's number.
fn pid_of(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process has a number")
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
    /// `life`: the newest that the brick has told.
    pub fn carry_out(&mut self, act: Act, life: Option<(ServerId, u64)>) -> Option<Happened> {
        match (self, act) {
            (Owner::Child { words, process }, Act::Start) => match start(words) {
                Ok(child) => {
                    *process = Some(child);
                    Some(Happened::Started)
                }
                Err(error) => Some(Happened::not_started("it", &error)),
            },
            (Owner::Child { process, .. }, Act::Stop | Act::Kill) => {
                let how = if act == Act::Kill { Signal::KILL } else { Signal::TERM };
                if let Some(child) = process {
                    // It may have ended already.
                    let _ = kill_process(pid_of(child), how);
                }
                None
            }
            // The owner of the process has started it.
            (Owner::Command { .. }, Act::Start) => Some(Happened::Started),
            (Owner::Command { template, running }, Act::Stop | Act::Kill) => match running {
                // It takes too long, with all that it has started.
                Some(child) => {
                    let _ = kill_process_group(pid_of(child), Signal::KILL);
                    None
                }
                None => match start_command(&filled(template, act, life)) {
                    Ok(child) => {
                        *running = Some(child);
                        None
                    }
                    Err(error) => Some(Happened::not_started("--run", &error)),
                },
            },
        }
    }

    /// Looks whether the process, or the command, has ended.
    pub fn look(&mut self) -> Option<Happened> {
        let (Owner::Child { process: child, .. } | Owner::Command { running: child, .. }) = self;
        ended(child).map(Happened::ended)
    }

    /// SIGKILL, and waits until the process, or the command, is gone. Gives its exit status; none: there was none.
    pub fn kill(&mut self) -> Option<u8> {
        let (Owner::Child { process: child, .. } | Owner::Command { running: child, .. }) = self;
        let mut child = child.take()?;
        // Each is the first of its own process group.
        let _ = kill_process_group(pid_of(&child), Signal::KILL);
        Some(child.wait().map_or(u8::MAX, code_of))
    }
}

/// In a process group of its own: the terminal's Ctrl-C is for the supervisor, which stops its brick in order.
fn start(words: &[OsString]) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).args(words).process_group(0).spawn()
}

fn start_command(command: &str) -> std::io::Result<Child> {
    Command::new("/bin/sh").args(["-c", command]).process_group(0).spawn()
}

/// The command with the brick's id and life, and the signal that is meant. None of them is a word of the shell.
fn filled(template: &str, act: Act, life: Option<(ServerId, u64)>) -> String {
    let (brick, life) = life.unwrap_or_default();
    let signal = if act == Act::Stop { "TERM" } else { "KILL" };
    let filled = template.replace("{brick}", &brick.to_string()).replace("{life}", &life.to_string());
    filled.replace("{signal}", signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Waits until the command has ended.
    fn end_of(owner: &mut Owner) -> Happened {
        let begun = Instant::now();
        loop {
            match owner.look() {
                Some(happened) => return happened,
                None if begun.elapsed() > Duration::from_secs(20) => panic!("it does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn code(happened: &Happened) -> Option<u8> {
        match happened {
            Happened::Started => None,
            Happened::Ended { code, .. } => Some(*code),
        }
    }

    // I6
    #[test]
    fn a_command_is_told_brick_life_and_signal_and_its_exit_status_counts() {
        let folder = std::env::temp_dir().join(format!("ramhold-run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a directory");
        let told = folder.join("told");
        let mut owner =
            Owner::command(format!("echo {{brick}} {{life}} {{signal}} >> {}; exit 3", told.display()));
        assert_eq!(
            owner.carry_out(Act::Start, None),
            Some(Happened::Started),
            "somebody else has started it"
        );
        for act in [Act::Stop, Act::Kill] {
            assert_eq!(owner.carry_out(act, Some((ServerId(4), 7))), None);
            assert_eq!(code(&end_of(&mut owner)), Some(3));
        }
        assert_eq!(std::fs::read_to_string(&told).expect("it was written"), "s4 7 TERM\ns4 7 KILL\n");
        let mut owner = Owner::command("exit 0".to_owned());
        assert_eq!(owner.carry_out(Act::Kill, None), None);
        assert_eq!(code(&end_of(&mut owner)), Some(0));
        assert_eq!(owner.look(), None);
        std::fs::remove_dir_all(folder).expect("it was just made");
    }

    // I6: the shell waits for what it has started, and both are killed.
    #[test]
    fn a_command_that_hangs_is_killed_with_all_that_it_has_started() {
        let mut owner = Owner::command("sleep 600 & echo $!; wait".to_owned());
        assert_eq!(owner.carry_out(Act::Kill, None), None);
        let Owner::Command { running: Some(child), .. } = &owner else { panic!("it runs") };
        let group = pid_of(child);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(owner.look(), None, "it runs");
        assert_eq!(owner.carry_out(Act::Kill, None), None);
        assert_eq!(code(&end_of(&mut owner)), Some(137));
        let begun = Instant::now();
        while rustix::process::test_kill_process_group(group).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20), "its children are left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
