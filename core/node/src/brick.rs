//! A process that is a brick: the role brick, and the backup that keeps its log.
//!
//! Brick and backup speak the same messages as a master and the backups of other servers. Here they never leave the
//! process: what one sends to the other is delivered in the same step. So a value that is written and a certificate that
//! is in the buffers are answered within one turn of the event loop.
//!
//! The view that both see is that of this log: a server list with this brick alone.
//!
//! Invariants:
//! - what was forgotten is marked in the brick's state before the backup forgets that buffers were lost;
//! - nothing is read from the backup before it serves.
//!
//! Not here: the roles, the words with the coordinator (`hello`), requests that come over the network (`requests`). Catalogue: I6.

mod greeting;
mod hello;
mod requests;
mod seen;

pub use seen::BrickSeen;

use hello::Hello;
use ramhold_backup::{Backup, BackupConfig};
use ramhold_base::time::earliest;
use ramhold_base::{
    ClusterTime, ConnId, DiskData, Effect, Effects, Input, Instant, Level, Machine, Peer, Rng,
};
use ramhold_brick::{Brick, BrickConfig, FoundReplica, is_of_state};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, ServerEntry, ServerListUpdate, ServerState};
use ramhold_wire::{Addressee, CallRole, Gone, Kind, Step, View, frame};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The exit code of a brick that cannot go on.
pub const EXIT_BRICK_FAILED: u8 = 7;

/// The address of the backup for its own brick. Nobody listens there, and nothing is ever sent there.
const OWN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Memory of a message between roles that is kept when no log is being loaded.
const DELIVERED_BYTES_MAX: usize = 64 * 1024;
/// The connection over which the brick's questions come to its own backup.
const OWN_CONN: ConnId = ConnId(u64::MAX);

#[derive(Clone, Debug)]
pub struct BrickNodeConfig {
    pub brick: BrickConfig,
    pub backup: BackupConfig,
    pub coordinator: SocketAddr,
    pub labels: Vec<Label>,
    /// The share of tablets beside other bricks, which have `BRICK_WEIGHT` if nothing else is said.
    pub weight: u16,
    /// `--memory`: the bytes of log, index and buffers together; shown in the status.
    pub memory_bytes: u64,
    /// The program's version, shown in the status.
    pub version: String,
}

/// One brick as a machine.
pub struct BrickNode {
    config: BrickNodeConfig,
    pub brick: Brick,
    pub backup: Backup,
    view: View,
    hello: Hello,
    has_enlisted: bool,
    has_served: bool,
    /// The directory is of another kind, or a copy of one that another process runs on.
    foreign: Option<String>,
    is_stopping: bool,
    has_ended: bool,
    bad_frames: u64,
    started: Instant,
    /// The memory of the last message between the roles of this process.
    delivered: Vec<u8>,
}

impl BrickNode {
    /// `region` is the log's memory, zeroed, `config.brick.log_bytes` long. `seed` must differ from life to life.
    pub fn new(config: BrickNodeConfig, region: Vec<u8>, seed: u64) -> BrickNode {
        let mut rng = Rng::new(seed);
        let backup_config =
            BackupConfig { is_own: true, buffers_survive_power: false, ..config.backup.clone() };
        BrickNode {
            brick: Brick::new(config.brick.clone(), region, rng.u64()),
            backup: Backup::new(backup_config, rng.u64()),
            view: View::new(OWN),
            hello: Hello::new(rng.id(), rng.u64()),
            has_enlisted: false,
            has_served: false,
            foreign: None,
            is_stopping: false,
            has_ended: false,
            bad_frames: 0,
            started: Instant::ZERO,
            delivered: Vec::new(),
            config,
        }
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    /// The process tells the processor time that it has used since its start, and the memory that it holds.
    pub fn on_usage(&mut self, now: Instant, processor: Duration, memory_bytes: u64) {
        self.brick.on_usage(now, processor, (memory_bytes, self.config.memory_bytes));
    }

    /// Delivers what the roles have sent each other, takes the start as far as it goes, and sends the answers that have
    /// become due.
    fn settle(&mut self, now: Instant, effects: &mut Effects) {
        loop {
            let is_delivered = self.deliver(now, effects);
            let has_started = self.advance_start(now, effects);
            if !is_delivered && !has_started {
                break;
            }
        }
        self.brick.tell_frames_left(self.backup.frames_left());
        self.brick.send_answers(&mut Step { now, view: &self.view, effects });
        if !self.has_served && self.brick.is_serving() {
            self.has_served = true;
            let state = self.brick.state().expect("a life has begun");
            let text = format!(
                "serving as brick {} in cluster {} at {}, life {}, {} tablets",
                state.brick,
                state.cluster,
                self.config.brick.address.0,
                state.life,
                state.tablets.len()
            );
            effects.report(Level::Info, text);
        }
        self.greet(now, effects);
        self.end_if_due(effects);
    }

    /// Delivers the first message to a role of this process. False if there is none.
    fn deliver(&mut self, now: Instant, effects: &mut Effects) -> bool {
        let is_own = |effect: &Effect| match effect {
            Effect::Send { to: Peer::Addr(to), .. } => *to == OWN,
            Effect::Send { to: Peer::Conn(to), .. } => *to == OWN_CONN,
            _ => false,
        };
        let Some(at) = effects.list.iter().position(is_own) else { return false };
        let Effect::Send { frame: sent, .. } = effects.list.remove(at) else { return false };
        // Segments come this way at a start: fresh memory for each would cost more than its copy.
        let mut bytes = std::mem::take(&mut self.delivered);
        bytes.clear();
        bytes.extend_from_slice(&sent.of(&effects.bytes));
        let (header, body) = frame::parse(&bytes).expect("the roles of a process write frames");
        match (header.kind, header.opcode().map(|opcode| opcode.addressee())) {
            (Kind::Request, Some(Addressee::ForBackup(asked))) => {
                let first = effects.list.len();
                self.backup.on_request(now, asked, &header, body, OWN_CONN, &self.view, effects);
                own_bytes(effects, first, &bytes);
            }
            (Kind::Reply, _) => match CallRole::of(header.rpc) {
                Some(CallRole::Replicator) => {
                    self.brick.on_replication_reply(now, &header, body, &self.view, effects);
                }
                _ => self.brick.on_reply(now, &header, body, &self.view, effects),
            },
            // Only the brick and its backup ask each other here.
            (Kind::Request, _) => {}
        }
        if bytes.capacity() <= DELIVERED_BYTES_MAX || self.brick.is_loading() {
            self.delivered = bytes;
        }
        true
    }

    /// Takes the next step of the start. False if none is due.
    fn advance_start(&mut self, now: Instant, effects: &mut Effects) -> bool {
        if self.has_ended {
            return false;
        }
        let state_before = (self.brick.is_unnamed(), self.brick.has_begun(), self.has_enlisted);
        if self.brick.is_read()
            && let Some(has_lost_buffers) = self.backup.has_lost_buffers()
        {
            self.brick.begin(has_lost_buffers, effects);
        }
        let identity = self.backup.identity();
        if self.brick.is_unnamed()
            && let Some(server) = identity.and_then(|identity| identity.last)
        {
            self.foreign = Some(format!(
                "the directory {} is that of {server}, which is no brick; start it without --brick, or give another --dir",
                self.config.backup.directory
            ));
            return false;
        }
        if self.brick.has_begun() && !self.has_enlisted && identity.is_some() {
            self.has_enlisted = true;
            self.enlist(now, effects);
            self.backup.enlisted(now, &self.view, effects);
        }
        // Replicas that were found in buffers are on the device before anything is told.
        let awaits_log =
            self.brick.awaits_log() && self.backup.is_serving() && self.backup.has_flushed_found();
        if awaits_log {
            let found = (self.found(), self.backup.has_found_damage());
            self.brick.adopt(now, found, &self.view, effects);
        }
        awaits_log || state_before != (self.brick.is_unnamed(), self.brick.has_begun(), self.has_enlisted)
    }

    /// The replicas of this brick's log that the backup has from earlier lives.
    fn found(&self) -> Vec<FoundReplica> {
        let own = self.backup.replicas().filter(|state| state.log.server == self.view.me);
        own.filter(|state| state.found)
            .filter_map(|state| {
                Some(FoundReplica {
                    stream: state.stream,
                    segment: state.segment,
                    epoch: state.epoch,
                    length: state.certificate?.length,
                    side: state.side,
                    closed: state.closed,
                    cut: state.cut,
                    corrupt: state.corrupt,
                })
            })
            .collect()
    }

    /// Makes the view of this brick's log.
    fn enlist(&mut self, now: Instant, effects: &mut Effects) {
        let state = self.brick.state().expect("a life has begun");
        (self.view.cluster, self.view.me) = (state.cluster, state.brick);
        effects.push(Effect::Named { server: state.brick });
        let entry = ServerEntry {
            id: state.brick,
            address: Address(OWN),
            labels: Vec::new(),
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 100,
            directory: self.backup.identity().map(|identity| identity.directory).unwrap_or_default(),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: None,
        };
        let time = ClusterTime(self.brick.time(now) / 1000);
        self.view.list.apply(&ServerListUpdate {
            from: 0,
            to: 1,
            changed: vec![entry],
            removed: Vec::new(),
            issued: state.brick,
            time,
            coordinator: None,
            copyset_rings: None,
            topology: Default::default(),
            placement: None,
            bricks: None,
            accounts: None,
        });
        self.view.tell_time(now, time);
    }

    fn end_if_due(&mut self, effects: &mut Effects) {
        if self.has_ended {
            return;
        }
        let failed = self.backup.has_failed().then(|| "the device has failed".to_owned());
        let foreign = self.foreign.as_deref();
        let reason =
            foreign.or(self.brick.failure()).or(self.backup.start_error()).map(str::to_owned).or(failed);
        if let Some(reason) = reason {
            self.has_ended = true;
            effects.report(Level::Error, reason.clone());
            effects.push(Effect::Exit { code: EXIT_BRICK_FAILED, reason });
        } else if self.is_stopping && self.backup.is_stopped() {
            self.has_ended = true;
            effects.push(Effect::Exit { code: 0, reason: "stopped".into() });
        }
    }

    /// Panics when an invariant does not hold. Walks over everything.
    pub fn check_invariants(&self) {
        self.backup.check_invariants();
        self.brick.check_invariants();
    }
}

/// Effects that would write the end of the frame of the step write that of this message instead.
fn own_bytes(effects: &mut Effects, first: usize, message: &[u8]) {
    for effect in &mut effects.list[first..] {
        if let Effect::DiskWrite { data, .. } = effect
            && let DiskData::FrameEnd(bytes) = data
        {
            let start = effects.bytes.len();
            effects.bytes.extend_from_slice(&message[message.len() - *bytes..]);
            *data = DiskData::Own(start..effects.bytes.len());
        }
    }
}

impl Machine for BrickNode {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if self.has_ended {
            return;
        }
        self.backup.resume(now);
        match input {
            Input::Start { wall_millis } => {
                self.started = now;
                self.brick.start(now, wall_millis, effects);
                self.backup.start(now, effects);
            }
            Input::Tick => {
                self.tick_hello(now);
                self.brick.tick(now, &self.view, effects);
                self.backup.tick(now, &self.view, effects);
            }
            Input::Disk { token, result } if is_of_state(token) => {
                self.brick.on_disk(now, token, result, &self.view, effects);
            }
            Input::Disk { token, result } => self.backup.on_disk(now, token, result, &self.view, effects),
            Input::Stop => {
                self.is_stopping = true;
                self.backup.stop(now, effects);
            }
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, effects),
            Input::Lost { addr, .. } => {
                self.hello.on_lost(now, addr);
                self.brick.on_gone(now, Gone::Address(addr), &self.view, effects);
            }
            // A brick does not speak Redis's protocol, and has no store.
            Input::Met { .. }
            | Input::Bytes { .. }
            | Input::Closed { .. }
            | Input::Store { .. }
            | Input::Secret { .. } => {}
        }
        self.settle(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.has_ended {
            return None;
        }
        earliest(earliest(self.brick.deadline(), self.backup.deadline()), self.hello_deadline())
    }

    fn came_after(&mut self, time: Instant) {
        self.brick.came_after(time);
    }
}
