//! `ramhold supervise`: restarts one brick that has ended or hangs.
//!
//! A hung loop cannot restart itself, so this is a process of its own, which holds no data. It keeps a lock in the brick's
//! data directory, so that no two of them restart one brick.
//!
//! Not here: the decisions (core/supervisor). Protocol: docs/protocols/quorum.md, rules 42 to 46. Catalogue: I6.

mod orphan;
mod owner;

use super::coordinator::Coordinator;
use super::server::Server;
use super::server::device::make_dir;
use crate::config_file;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::process::{check_exposure, end_with, ended, loopback, stay_on_hangup};
use crate::supervising::{RESTART_LIMIT, Supervising, parse_restart_limit, restart_limit_text};
use clap::{Args, CommandFactory, Parser, Subcommand};
use owner::{Happened, Owner};
use ramhold_supervisor::{ChargeConfig, Ended, RestartLimit};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Examples:
  ramhold supervise -- server --brick --coordinator 10.0.0.1 \\
      --bind 10.0.0.2:7501 --insecure-network --dir /srv/ramhold-brick \\
      --memory 16GiB --disk 64GiB --label zone=a
  ramhold supervise --restart-limit none -- server --config brick.toml
  ramhold supervise --run 'systemctl kill -s {signal} ramhold-brick' \\
      --of 10.0.0.2:7501 --port 7601 --insecure-network

The brick is started again when it has ended. When it is silent, the next brick
of its tablets orders a restart here. The brick is then asked over loopback, and
killed only if it is silent there, too. Servers that are no bricks are recovered
by others, and are not supervised.

After --restart-limit restarts the brick stays offline; find out why in its log,
then run 'ramhold brick restart'. Each action is a line that begins with
'event:' on stderr.

SIGTERM or SIGINT stops the brick cleanly, then the supervisor. A second signal,
or a minute without an end, kills the brick. A brick that an earlier supervisor
has left behind on the same --dir is waited for, and killed if it hangs.

The command of --run ends a brick of which {signal} is meant: KILL for one that
hangs, TERM for 'ramhold brick restart'. If it fails, or takes 30 s (60 s for
TERM), the brick counts as running. At the restart limit it is not run any more.

Exit codes: 0 the brick has stopped cleanly; 2 it cannot start; 137 the brick
was killed when it was to stop; another one: the brick's own, at its first start
or when it was to stop.";

/// Restart a brick that has ended or hangs.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Supervise {
    /// Port at which siblings and operators reach this process, at the host of the brick's address [default:
    /// any free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Restarts within a time after which the brick stays offline: COUNT/TIME, or 'none'.
    #[arg(long, value_name = "LIMIT", default_value = RESTART_LIMIT, value_parser = parse_restart_limit)]
    restart_limit: RestartLimit,
    /// Shell command that restarts the brick, for bricks that another supervisor starts; {brick} and {life}
    /// in it are its id and the number of its starts, and {signal} is KILL, or TERM for an operator's restart.
    /// Start the brick with --supervisor and the same --port.
    #[arg(long, value_name = "COMMAND", requires = "of", requires = "port", conflicts_with = "words")]
    run: Option<String>,
    /// With --run: address of the brick.
    #[arg(long, value_name = "ADDR", requires = "run")]
    of: Option<SocketAddr>,
    /// Allow an address that other machines can reach; the brick's --insecure-network allows it, too.
    #[arg(long)]
    insecure_network: bool,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    end_with: Option<u32>,
    /// The brick: 'server' and its arguments.
    #[arg(last = true, value_name = "SERVER", required_unless_present = "run")]
    words: Vec<OsString>,
}

/// Exit statuses from here on are those of signals.
const SIGNALLED: u8 = 128;

/// The words behind `--`.
#[derive(Parser, Debug)]
#[command(name = "ramhold")]
struct Supervised {
    #[command(subcommand)]
    command: SupervisedCommand,
}

#[derive(Subcommand, Debug)]
enum SupervisedCommand {
    Server(Box<Server>),
}

/// Everything about the brick that the supervisor must know.
struct Subject {
    address: SocketAddr,
    listen: SocketAddr,
    is_exposure_allowed: bool,
    /// Its data directory. None: it is the child of somebody else.
    dir: Option<PathBuf>,
    _lock: Option<File>,
}

pub fn run(arguments: Supervise) -> Result<(), Failure> {
    if let Some(parent) = arguments.end_with {
        end_with(parent)?;
    }
    stay_on_hangup("supervisor and its brick")?;
    let subject = match arguments.of {
        Some(address) => Subject {
            address,
            listen: SocketAddr::new(address.ip(), arguments.port.unwrap_or_default()),
            is_exposure_allowed: arguments.insecure_network,
            dir: None,
            _lock: None,
        },
        None => subject_of(&arguments)?,
    };
    check_exposure(&[subject.listen], subject.is_exposure_allowed)?;
    interrupt::watch()?;
    if let Some(dir) = &subject.dir {
        orphan::await_free(dir, subject.address, interrupt::take)?;
    }
    let charge = ChargeConfig {
        name: "the brick".into(),
        address: subject.address,
        limit: arguments.restart_limit,
        is_foreign: arguments.run.is_some(),
    };
    let mut supervising = Supervising::new(subject.listen, vec![charge])?;
    output::show(&format!(
        "ramhold supervise {}\n  listens      {}\n  brick        {}\n  restarts     {}",
        env!("CARGO_PKG_VERSION"),
        supervising.address(),
        subject.address,
        restart_limit_text(arguments.restart_limit)
    ));
    let mut owner = match arguments.run {
        Some(command) => Owner::command(command),
        None => Owner::child(arguments.words, supervising.address().port()),
    };
    supervise(&mut supervising, &mut owner)
}

/// Until somebody wants the end, and the brick has stopped.
fn supervise(supervising: &mut Supervising, owner: &mut Owner) -> Result<(), Failure> {
    let mut is_stopping = false;
    while let Some(acts) = supervising.turn() {
        for (_, act) in acts {
            let happened = owner.carry_out(act, supervising.newest_life(0));
            tell(supervising, happened, owner)?;
        }
        let happened = owner.look();
        tell(supervising, happened, owner)?;
        if !interrupt::take() {
            continue;
        }
        if !owner.stops_with_supervisor() {
            // The brick goes on. A command that runs just now does not.
            let _ = owner.kill();
            return Ok(());
        }
        if is_stopping {
            return match owner.kill() {
                None | Some(0) => Ok(()),
                Some(code) => Err(Failure::new(code, "the second signal: the brick was killed")),
            };
        }
        is_stopping = true;
        supervising.stop();
    }
    supervising.exit().map_or(Ok(()), ended)
}

/// Tells the supervisor of its process. `Err`: the brick has failed before it ever told of a life, so its arguments are wrong.
fn tell(supervising: &mut Supervising, happened: Option<Happened>, owner: &Owner) -> Result<(), Failure> {
    match happened {
        None => {}
        Some(Happened::Started) => supervising.started(0),
        Some(Happened::Ended { how, code }) => {
            let is_first = supervising.newest_life(0).is_none() && owner.stops_with_supervisor();
            if is_first && (1..SIGNALLED).contains(&code) {
                let text = format!("the brick has ended at its first start ({how}); its last lines say why");
                return Err(Failure::new(code, text));
            }
            supervising.ended(0, Ended { how: &how, code });
        }
    }
    Ok(())
}

/// The parser of a supervised command. It knows the coordinator's options, too: the file of a host has them.
fn supervised() -> clap::Command {
    Supervised::command().subcommand(Coordinator::augment_args(clap::Command::new("coordinator")).hide(true))
}

fn subject_of(arguments: &Supervise) -> Result<Subject, Failure> {
    let words = [OsString::from("ramhold")].into_iter().chain(arguments.words.iter().cloned());
    let Supervised { command: SupervisedCommand::Server(server) } =
        config_file::parse(supervised(), words.collect())?;
    if server.command.is_some() || !server.brick {
        return Err(Failure::usage(
            "only bricks are restarted by a supervisor; give 'server --brick ...' behind --, and start a server without it: \
             others recover it when it dies",
        ));
    }
    if server.supervisor.is_some() || server.end_with.is_some() {
        return Err(Failure::usage(
            "leave out --supervisor and --end-with; the supervisor gives them to its brick",
        ));
    }
    if server.bind.port() == 0 {
        return Err(Failure::usage("give --bind with a port to the brick; the supervisor asks it there"));
    }
    let bind = server.bind;
    Ok(Subject {
        address: SocketAddr::new(loopback(bind.ip()), bind.port()),
        listen: SocketAddr::new(bind.ip(), arguments.port.unwrap_or_default()),
        is_exposure_allowed: arguments.insecure_network || server.insecure_network,
        dir: Some(server.dir().to_owned()),
        _lock: Some(lock(server.dir())?),
    })
}

/// One supervisor for each data directory.
fn lock(dir: &Path) -> Result<File, Failure> {
    let path = make_dir(dir)?.join("supervisor.lock");
    let failed = |error: std::io::Error| Failure::local(&path, &error);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::usage(format!(
            "{} has a supervisor already; stop that one first, or give another --dir",
            dir.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let arguments = Supervise {
            port: None,
            restart_limit: RestartLimit::DEFAULT,
            run: None,
            of: None,
            insecure_network: false,
            end_with: None,
            words,
        };
        subject_of(&arguments).err().expect("it is refused").text().to_owned()
    }

    #[test]
    fn only_a_brick_with_a_known_address_is_supervised() {
        let brick = ["server", "--brick", "--dir", "/nowhere/at/all", "--coordinator", "127.0.0.1"];
        assert!(refused(&["server", "--dir", "/d", "--coordinator", "c"]).contains("only bricks"));
        assert!(refused(&brick).contains("with a port"));
        let twice = [&brick[..], &["--bind", "127.0.0.1:7501", "--supervisor", "1"]].concat();
        assert!(refused(&twice).contains("leave out"));
    }

    #[test]
    fn a_directory_has_one_supervisor() {
        let dir = std::env::temp_dir().join(format!("ramhold-supervised-{}", std::process::id()));
        let held = lock(&dir).unwrap();
        assert!(lock(&dir).err().unwrap().text().contains("has a supervisor already"));
        drop(held);
        drop(lock(&dir).unwrap());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
