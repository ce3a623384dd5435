//! Backups that run in the thread of the benchmark's client (`bench kv --fold-backups`).
//!
//! A replicated write needs a core for each process before its latency says something about Ramhold rather than about the
//! machine's scheduler. On a machine with two cores, one core has the master alone, and on the other one thread is the client
//! and all backups in turn: nobody sleeps, and nothing switches. The backups are whole servers (`--no-master`) that listen,
//! flush and answer pings. The time that they take comes one after the other, so the latency is an upper bound of the latency
//! with a core each.
//!
//! Backups must be turned at all times, or the cluster declares them dead. A thread of its own (`Keeper`) does it while no
//! client has taken them (`take`, `give_back`).
//!
//! Not here: the client that turns them while it waits (load::folded).

use crate::commands::server::arguments::Server;
use crate::commands::server::start::Prepared;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use clap::{Args, Command, FromArgMatches};
use ramhold_client::{ClusterStatus, ServerState};
use ramhold_node::ServerNode;
use ramhold_runtime::{Runtime, Turn};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

const STOP_WITHIN: Duration = Duration::from_secs(30);
/// The keeper's pause between two turns of all backups; no measurement runs then.
const KEEPING_PAUSE: Duration = Duration::from_micros(200);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Memory of each backup, nearly all of it for buffers.
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
    dir: PathBuf,
    /// None: a client has them.
    parked: Mutex<Option<Backups>>,
    ends: AtomicBool,
}

impl FoldedBackups {
    /// Starts so many backups of the cluster, which has one server.
    pub fn start(count: u8, global: &Global) -> Result<FoldedBackups, Failure> {
        check_alone(&global.connect()?.cluster_status()?)?;
        let dir = std::env::temp_dir().join(format!("ramhold-folded-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).map_err(|error| Failure::local(&dir, &error))?;
        let started = start_in(&dir, count, &global.cluster);
        let (prepared, backups) = started.inspect_err(|_| drop(fs::remove_dir_all(&dir)))?;
        Ok(FoldedBackups { prepared, dir, parked: Mutex::new(Some(backups)), ends: AtomicBool::new(false) })
    }

    /// Turns the backups in a thread of their own, while nobody has taken them, until `end`.
    pub fn keep<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        scope.spawn(|| {
            // The flag guards no other data.
            while !self.ends.load(Ordering::Relaxed) {
                if let Some(backups) = self.parked().as_mut() {
                    backups.turn();
                }
                std::thread::sleep(KEEPING_PAUSE);
            }
        });
    }

    /// Waits until the cluster counts all backups among its servers.
    pub fn wait_until_up(&self, global: &Global) -> Result<(), Failure> {
        let (mut client, began) = (global.connect()?, Instant::now());
        loop {
            interrupt::check()?;
            let up = up(&client.cluster_status()?);
            if up > self.prepared.len() {
                return Ok(());
            }
            if began.elapsed() > global.timeout() {
                return Err(Failure::usage(format!(
                    "{up} of {} servers are up after {:?}; --timeout gives them longer",
                    self.prepared.len() + 1,
                    global.timeout()
                )));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The backups, for a client that turns them from now on.
    pub fn take(&self) -> Option<Backups> {
        self.parked().take()
    }

    pub fn give_back(&self, backups: Backups) {
        *self.parked() = Some(backups);
    }

    /// Stops the backups and removes their directories. Fails if one of them had ended before.
    pub fn end(&self) -> Result<(), Failure> {
        self.ends.store(true, Ordering::Relaxed);
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

    fn parked(&self) -> MutexGuard<'_, Option<Backups>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_in(dir: &Path, count: u8, coordinator: &str) -> Result<(Vec<Prepared>, Backups), Failure> {
    let (mut all, mut backups) = (Vec::new(), Vec::new());
    for number in 0..count {
        let about = |failure: Failure| failure.about(&format!("--fold-backups, backup {number}"));
        let arguments = arguments(coordinator, &dir.join(number.to_string()))?;
        let prepared = Prepared::new(&arguments).map_err(about)?;
        backups.push(prepared.start(&arguments).map_err(about)?);
        all.push(prepared);
    }
    Ok((all, Backups(backups)))
}

/// The backups end with the command. Masters of others must not give them copies.
fn check_alone(status: &ClusterStatus) -> Result<(), Failure> {
    match up(status) {
        1 => Ok(()),
        count => Err(Failure::usage(format!(
            "--fold-backups takes a cluster with one server, made for this measurement; this one has {count}: their data \
             would have copies on backups that end with the command"
        ))),
    }
}

fn up(status: &ClusterStatus) -> usize {
    status.servers.iter().filter(|server| server.state == ServerState::Up).count()
}

/// The arguments of a server that is a backup alone.
fn arguments(coordinator: &str, dir: &Path) -> Result<Server, Failure> {
    let dir = dir.display().to_string();
    let words = [
        "server",
        "--coordinator",
        coordinator,
        "--dir",
        &dir,
        "--no-master",
        "--no-resp",
        "--poll",
        "busy",
        "--memory",
        MEMORY,
        "--bind",
        "127.0.0.1:0",
    ];
    let wrong = |error: clap::Error| Failure::usage(format!("--fold-backups: {error}"));
    let matches = Server::augment_args(Command::new("server")).try_get_matches_from(words).map_err(wrong)?;
    Server::from_arg_matches(&matches).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_backup_is_a_backup_alone() {
        let server = arguments("127.0.0.1:7400", Path::new("/tmp/x")).unwrap();
        assert!(server.no_master && server.no_resp && !server.no_backup && !server.brick);
        assert_eq!(server.coordinator.as_deref(), Some("127.0.0.1:7400"));
    }
}
