//! Three real backups in this process, on real files, for a shard that is measured with replicas.
//!
//! Frames are passed by call instead of by socket. A disk effect is executed at once, on the caller's thread.
//! The caller subtracts the time spent in here (`Clock::elsewhere`). The directory is removed at the end.
//!
//! Invariant: after every call all disk effects are complete.
//!
//! Not here: the coordinator, and the routing of frames (shard).

use super::clock::Clock;
use crate::failure::Failure;
use ramhold_backup::{Backup, BackupConfig, Buffers};
use ramhold_base::{ClusterId, ConnId, DirectoryId, Effect, Effects, Instant, Level, Peer, ServerId, Term};
use ramhold_runtime::{DiskConfig, DiskFiles, open_disk};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{ServerEntry, ServerListUpdate, ServerState};
use ramhold_wire::{Kind, Opcode, View, frame};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const CLUSTER: ClusterId = ClusterId(1);
pub const MASTER: ServerId = ServerId(1);
/// The connection over which a backup hears the master.
const FROM_MASTER: ConnId = ConnId(1);
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
const BUFFER_COUNT: u32 = 32;
const FRAMES_GROW_BY: u32 = 16;
/// Frames beyond those of whole replicas: heads, survivors that are not entered, frames that are being wiped.
const FRAMES_SPARE: u32 = 64;

/// Where the server of this id listens; `None` of the coordinator.
pub fn address(server: ServerId) -> SocketAddr {
    // Each server has a host of its own, because replicas never lie in the master's failure domain.
    SocketAddr::from(([10, 0, 0, server.raw() as u8], 7401))
}

/// The view of a process in a cluster of the master and `backups` others.
pub fn view(me: ServerId, backups: u64) -> View {
    let mut view = View::new(address(ServerId::NONE));
    (view.cluster, view.me, view.term) = (CLUSTER, me, Term(1));
    let ids = (0..=backups).map(|n| ServerId(MASTER.raw() + n));
    let entry = |id: ServerId| ServerEntry {
        id,
        address: Address(address(id)),
        labels: Vec::new(),
        state: ServerState::Up,
        master: id == MASTER,
        backup: id != MASTER,
        read_speed: 100,
        directory: DirectoryId(id.raw()),
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: None,
        links: None,
    };
    let update = ServerListUpdate {
        from: 0,
        to: 1,
        changed: ids.map(entry).collect(),
        removed: Vec::new(),
        issued: ServerId(MASTER.raw() + backups),
        time: Default::default(),
        coordinator: None,
        copyset_rings: None,
        placement: None,
        topology: Default::default(),
        bricks: None,
        accounts: None,
    };
    assert!(view.list.apply(&update));
    view
}

/// A message of a backup to the master: an answer, or a request over the connection that bears the backup's id.
pub struct Said {
    pub by: ServerId,
    pub frame: Vec<u8>,
}

pub struct Backups {
    servers: Vec<Server>,
    said: Vec<Said>,
    append_bytes: u64,
    /// Last, so that the files are closed before.
    _directory: Directory,
}

struct Server {
    id: ServerId,
    view: View,
    backup: Backup,
    files: DiskFiles,
}

impl Backups {
    /// Starts `count` backups below `parent`, each with room for `replicas_max` segments.
    pub fn start(
        count: u64,
        parent: &Path,
        segment_bytes: u32,
        replicas_max: u64,
        clock: &Clock,
    ) -> Result<Backups, Failure> {
        let directory = Directory::make(parent)?;
        let frames_max = u32::try_from(replicas_max).unwrap_or(u32::MAX - FRAMES_SPARE) + FRAMES_SPARE;
        let mut backups =
            Backups { servers: Vec::new(), said: Vec::new(), append_bytes: 0, _directory: directory };
        for number in 1..=count {
            let id = ServerId(MASTER.raw() + number);
            let path = backups._directory.0.join(number.to_string());
            let disk = DiskConfig { data_dir: path.clone(), buffer_dir: path };
            let files = open_disk(&disk).map_err(|error| Failure::usage(error.to_string()))?;
            let config = BackupConfig {
                segment_bytes,
                frames_max,
                frames_grow_by: FRAMES_GROW_BY,
                buffers: Buffers::Reserved { count: BUFFER_COUNT },
                buffers_survive_power: false,
                flush_interval: FLUSH_INTERVAL,
                recovery_cache_bytes: u64::from(segment_bytes),
                found_cache_bytes: 0,
                needed_interval: Duration::from_secs(1),
                directory: String::new(),
                is_own: false,
                mode: String::new(),
            };
            let backup = Backup::new(config, id.raw());
            let mut server = Server { id, view: view(id, count), backup, files };
            let now = clock.now();
            let mut said = Vec::new();
            server.step(now, &[], &mut said, |backup, _, effects| backup.start(now, effects))?;
            server.step(now, &[], &mut said, |backup, view, effects| backup.enlisted(now, view, effects))?;
            assert!(
                server.backup.is_serving(),
                "a backup with an empty directory serves when its disk is done"
            );
            backups.servers.push(server);
        }
        Ok(backups)
    }

    /// Hands over a frame of the master.
    pub fn hand(&mut self, now: Instant, to: SocketAddr, bytes: &[u8]) -> Result<(), Failure> {
        let (header, body) = frame::parse(bytes).expect("the master's own frame");
        if header.opcode() == Some(Opcode::Append) {
            self.append_bytes += bytes.len() as u64;
        }
        let server =
            self.servers.iter_mut().find(|s| address(s.id) == to).expect("only servers are spoken to");
        server.step(now, bytes, &mut self.said, |backup, view, effects| {
            let asked = header.opcode().and_then(|opcode| opcode.try_into().ok());
            let asked = asked.expect("a master asks a backup");
            backup.on_request(now, asked, &header, body, FROM_MASTER, view, effects);
        })
    }

    /// Hands over the master's answer to a request of a backup.
    pub fn answer(&mut self, now: Instant, to: ServerId, bytes: &[u8]) -> Result<(), Failure> {
        let (header, body) = frame::parse(bytes).expect("the master's own frame");
        assert_eq!(header.kind, Kind::Reply);
        let server = self.servers.iter_mut().find(|s| s.id == to).expect("only backups ask");
        server.step(now, bytes, &mut self.said, |backup, view, effects| {
            backup.on_reply(now, &header, body, view, effects);
        })
    }

    /// Whether a backup wants a tick.
    pub fn is_due(&self, now: Instant) -> bool {
        self.servers.iter().any(|server| server.is_due(now))
    }

    pub fn tick(&mut self, now: Instant) -> Result<(), Failure> {
        for server in self.servers.iter_mut().filter(|server| server.is_due(now)) {
            server.step(now, &[], &mut self.said, |backup, view, effects| backup.tick(now, view, effects))?;
        }
        Ok(())
    }

    /// Bytes of all `Append` frames that were handed over.
    pub fn append_bytes(&self) -> u64 {
        self.append_bytes
    }

    /// Takes the messages of the backups since the last call, in order.
    pub fn take_said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }
}

impl Server {
    fn is_due(&self, now: Instant) -> bool {
        self.backup.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// One step of the backup, of this frame if it is of one, with all disk work that follows from it.
    fn step(
        &mut self,
        now: Instant,
        frame: &[u8],
        said: &mut Vec<Said>,
        step: impl FnOnce(&mut Backup, &View, &mut Effects),
    ) -> Result<(), Failure> {
        let mut effects = Effects::new();
        step(&mut self.backup, &self.view, &mut effects);
        let mut waiting = std::collections::VecDeque::from([effects]);
        while let Some(effects) = waiting.pop_front() {
            for effect in &effects.list {
                if let Some((token, result)) = self.files.perform(effect, &effects.bytes, frame) {
                    let mut next = Effects::new();
                    let result = result.as_deref().map_err(Clone::clone);
                    self.backup.on_disk(now, token, result, &self.view, &mut next);
                    waiting.push_back(next);
                    continue;
                }
                match effect {
                    Effect::Send { to: Peer::Conn(_), frame } => {
                        said.push(Said { by: self.id, frame: frame.of(&effects.bytes).into_owned() });
                    }
                    Effect::Send { to: Peer::Addr(to), frame } if *to == address(MASTER) => {
                        said.push(Said { by: self.id, frame: frame.of(&effects.bytes).into_owned() });
                    }
                    Effect::Report { level: Level::Error | Level::Warn, text } => {
                        return Err(Failure::usage(format!("backup {}: {text}", self.id)));
                    }
                    _ => {}
                }
            }
        }
        match self.backup.start_error() {
            Some(error) => Err(Failure::usage(format!("backup {}: {error}", self.id))),
            None => Ok(()),
        }
    }
}

/// Removed with all that is in it when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn make(parent: &Path) -> Result<Directory, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("ramhold-bench-log-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Failure::local(&path, &error))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the directory that the user has named.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
