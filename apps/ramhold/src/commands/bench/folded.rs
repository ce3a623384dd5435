//! Backups that run in the thread of the benchmark's client (`bench kv --fold-backups`).
//!
//! A replicated write needs a core for each process before its latency says something about Ramhold rather than about the
//! machine's scheduler. On a machine with two cores, one core has the master alone, and on the other one thread is the client
//! and all backups in turn, and never sleeps. The backups are whole servers (`--no-master`) that listen, flush and answer
//! pings. Their disk threads share the client's core.
//!
//! The figure is neither a lower nor an upper bound of the latency with a core each: the backups work one after the other
//! here, but nothing is woken, and they share the client's caches.
//!
//! Backups must be turned at all times, or the cluster declares them dead. A thread of its own (`keep`) does it while no
//! client has taken them (`take`, `give_back`), and sleeps otherwise.
//!
//! Not here: the client that turns them while it waits (load::folded).

use crate::commands::server::arguments::Server;
use crate::commands::server::start::Prepared;
use crate::failure::Failure;
use crate::global::{Global, TransportMode};
use crate::interrupt;
use clap::{Args, Command, FromArgMatches};
use ramhold_client::{ClusterStatus, ServerEntry, ServerState};
use ramhold_node::ServerNode;
use ramhold_runtime::{Runtime, Turn};
use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

const STOP_WITHIN: Duration = Duration::from_secs(30);
/// The keeper's pause between two turns of all backups.
const KEEPING_PAUSE: Duration = Duration::from_micros(200);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Memory of each backup. A fifth is for buffers, enough for what a measurement of seconds writes before it is flushed.
const MEMORY: &str = "1GiB";

/// The loops of the backups.
pub struct Backups(Vec<Runtime<ServerNode>>);

impl Backups {
    /// Lets each backup do what there is to do now. False: one of them has ended.
    pub fn turn(&mut self) -> bool {
        self.0.iter_mut().fold(true, |run, backup| run & (backup.turn(Some(Duration::ZERO)) != Turn::Ended))
    }
}

/// The backups of a benchmark while it runs.
pub struct FoldedBackups {
    prepared: Vec<Prepared>,
    addresses: Vec<SocketAddr>,
    dir: PathBuf,
    parked: Mutex<Parked>,
    changed: Condvar,
}

struct Parked {
    /// None: a client has them.
    backups: Option<Backups>,
    /// The keeper is to end.
    ends: bool,
}

/// Ends the keeper when it goes out of scope, also by a panic: the scope would wait for the keeper for ever.
pub struct Keeping<'a>(&'a FoldedBackups);

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        self.0.end_keeper();
    }
}

impl FoldedBackups {
    /// Starts `count` backups of the cluster, which has one server.
    pub fn start(count: u8, global: &Global) -> Result<FoldedBackups, Failure> {
        check_alone(&global.connect()?.cluster_status()?)?;
        let dir = std::env::temp_dir().join(format!("ramhold-folded-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).map_err(|error| Failure::local(&dir, &error))?;
        let parked = Mutex::new(Parked { backups: None, ends: false });
        let (prepared, addresses, changed) = (Vec::new(), Vec::new(), Condvar::new());
        let mut folded = FoldedBackups { prepared, addresses, dir, parked, changed };
        let started = folded.start_all(count, global);
        // Backups that have started go again, with their directories.
        started.inspect_err(|_| drop(folded.end()))?;
        Ok(folded)
    }

    fn start_all(&mut self, count: u8, global: &Global) -> Result<(), Failure> {
        let mut backups = Vec::new();
        for number in 0..count {
            let about = |failure: Failure| failure.about(&format!("--fold-backups, backup {number}"));
            let arguments = arguments(global, &self.dir.join(number.to_string()))?;
            self.prepared.push(Prepared::new(&arguments).map_err(about)?);
            let prepared = self.prepared.last().expect("it was just pushed");
            let backup = prepared.start(&arguments).map_err(about)?;
            self.addresses.extend(backup.local_addr());
            backups.push(backup);
        }
        self.parked().backups = Some(Backups(backups));
        Ok(())
    }

    /// Turns the backups in a thread of their own, while nobody has taken them, until the returned value is dropped.
    pub fn keep<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Keeping<'scope> {
        scope.spawn(|| {
            loop {
                let mut parked = self.parked();
                while parked.backups.is_none() && !parked.ends {
                    parked = self.changed.wait(parked).unwrap_or_else(PoisonError::into_inner);
                }
                if parked.ends {
                    return;
                }
                parked.backups.as_mut().map(Backups::turn);
                drop(parked);
                std::thread::sleep(KEEPING_PAUSE);
            }
        });
        Keeping(self)
    }

    fn end_keeper(&self) {
        self.parked().ends = true;
        self.changed.notify_all();
    }

    /// Waits until the cluster counts all backups among its servers.
    pub fn wait_until_up(&self, global: &Global) -> Result<(), Failure> {
        let (mut client, began) = (global.connect()?, Instant::now());
        loop {
            interrupt::check()?;
            let servers = client.cluster_status()?.servers;
            let is_ours = |server: &&ServerEntry| {
                server.state == ServerState::Up && self.addresses.contains(&server.address.0)
            };
            let (up, count) = (servers.iter().filter(is_ours).count(), self.addresses.len());
            if up == count {
                return Ok(());
            }
            if began.elapsed() > global.timeout() {
                return Err(Failure::usage(format!(
                    "{up} of {count} folded backups are up after {:?}; --timeout gives them longer",
                    global.timeout()
                )));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The backups, for a client that turns them from now on.
    pub fn take(&self) -> Option<Backups> {
        self.parked().backups.take()
    }

    pub fn give_back(&self, backups: Backups) {
        self.parked().backups = Some(backups);
        self.changed.notify_all();
    }

    /// Stops the backups and removes their directories. Fails if one of them had ended before.
    pub fn end(&self) -> Result<(), Failure> {
        self.end_keeper();
        let mut backups = self.take().unwrap_or(Backups(Vec::new()));
        let ended = backups.0.iter().find_map(|backup| backup.exit()).cloned();
        backups.0.iter().for_each(|backup| backup.stop_handle().stop());
        let began = Instant::now();
        while backups.0.iter().any(|backup| backup.exit().is_none()) && began.elapsed() < STOP_WITHIN {
            backups.turn();
        }
        // This unlocks the directories before they are removed.
        drop(backups);
        self.prepared.iter().for_each(|prepared| prepared.buffers.give_back());
        fs::remove_dir_all(&self.dir).map_err(|error| Failure::local(&self.dir, &error))?;
        match ended {
            None => Ok(()),
            Some(exit) => Err(Failure::usage(format!("a backup ended during the run: {}", exit.reason))),
        }
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The backups end with the command, and listen on loopback. Masters of others must not give them copies.
fn check_alone(status: &ClusterStatus) -> Result<(), Failure> {
    let why = match &status.servers[..] {
        [server] if server.state != ServerState::Up => "its server is not up".to_owned(),
        [server] if !server.address.0.ip().is_loopback() => {
            format!("its server is at {}, and the backups are at 127.0.0.1", server.address.0)
        }
        [_] => return Ok(()),
        servers => format!("it has {}, and their data would have copies on backups that end", servers.len()),
    };
    Err(Failure::usage(format!(
        "--fold-backups takes a cluster with one server, made for this measurement, not this one: {why}"
    )))
}

/// The arguments of a server that is a backup alone. Nothing of the environment counts.
fn arguments(global: &Global, dir: &Path) -> Result<Server, Failure> {
    let dir = dir.display().to_string();
    let mut words =
        vec!["server", "--coordinator", &global.cluster, "--dir", &dir, "--no-master", "--no-resp"];
    words.extend(["--poll", "busy", "--memory", MEMORY, "--bind", "127.0.0.1:0"]);
    if matches!(global.transport, TransportMode::Tcp) {
        words.extend(["--shared-memory", "0"]);
    }
    let wrong = |error: clap::Error| Failure::usage(format!("--fold-backups: {error}"));
    let command =
        Server::augment_args(Command::new("server")).mut_args(|argument| argument.env(None::<&str>));
    Server::from_arg_matches(&command.try_get_matches_from(words).map_err(wrong)?).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_backup_is_a_backup_alone() {
        let global = |transport| Global {
            cluster: "127.0.0.1:7400".into(),
            json: false,
            patience: None,
            transport,
            zone: None,
        };
        let server = arguments(&global(TransportMode::Auto), Path::new("/tmp/x")).unwrap();
        assert!(server.no_master && server.no_resp && !server.no_backup && !server.brick);
        assert_eq!(server.coordinator.as_deref(), Some("127.0.0.1:7400"));
        assert!(server.shared_memory > 0);
        assert_eq!(arguments(&global(TransportMode::Tcp), Path::new("/tmp/x")).unwrap().shared_memory, 0);
    }
}
