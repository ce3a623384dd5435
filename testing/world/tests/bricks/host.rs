//! One host: its disks, which outlive processes, and the brick that runs on it.
//!
//! Writes to buffers take effect at once. All other operations take their time. An operation under way at a kill has taken
//! effect or not, by chance.

use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{DiskFile, DiskToken};
use ramhold_base::{Effect, Effects, Input, Instant, Level, Machine, Peer, Rng, ServerId};
use ramhold_log::Geometry;
use ramhold_node::{BrickConfig, BrickNode, BrickNodeConfig, RestartLoad};
use ramhold_wire::control::Address;
use ramhold_world::disk::Disks;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub const SEGMENT_BYTES: u32 = 16 * 1024;
/// Where bricks look for the coordinator.
pub const COORDINATOR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6000);
/// The bricks' date when a run begins, in milliseconds.
pub const DATE_MILLIS: u64 = 1_700_000_000_000;

/// An operation on a device that is under way.
pub struct Pending {
    pub life: u64,
    token: DiskToken,
    work: Work,
}

impl Pending {
    /// Whether it reads a frame, or a part of one.
    pub fn is_frame_read(&self) -> bool {
        matches!(self.work, Work::Read { file: DiskFile::Frames, .. })
    }
}

enum Work {
    Read { file: DiskFile, offset: u64, bytes: u32 },
    Write { file: DiskFile, offset: u64, data: Vec<u8> },
    Copy { from: DiskFile, from_offset: u64, to: DiskFile, to_offset: u64, bytes: u32 },
    Sync { file: DiskFile, through: u64 },
    Reserve { file: DiskFile, bytes: u64 },
}

/// A host whose processor and device are busy with something else.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// Each operation of its device takes so much longer.
    pub device_nanos: u64,
    /// The process gets to the rest of its work so much later.
    pub turn_nanos: u64,
}

pub struct Host {
    pub id: ServerId,
    pub disks: Disks,
    pub node: Option<BrickNode>,
    pub life: u64,
    /// Added to its clock, in milliseconds.
    pub clock_off: i64,
    pub log_bytes: u64,
    pub index_bytes: u64,
    /// So many frames, instead of enough for its memory.
    pub frames_max: Option<u32>,
    pub reports: Vec<String>,
    pub exit: Option<String>,
    pub address: SocketAddr,
    /// The place of its data directory.
    pub place: u64,
    /// The port of its supervisor.
    pub supervisor: Option<u16>,
    /// When its starts serve.
    pub restart_load: RestartLoad,
    /// The number of statistics that make a sibling anomalous to this brick.
    pub restart_threshold: Option<usize>,
    /// Its log is verified in the background.
    pub scrubs: bool,
    /// In this life everything takes longer.
    pub slow: Option<Slow>,
    /// The process is stopped: it does nothing, and is not gone.
    pub is_hung: bool,
    /// Bits of its device flip: errors are reported.
    pub may_rot: bool,
    /// Frames that the process has sent in this step.
    pub sent: Vec<(Peer, Vec<u8>)>,
}

const INDEX_BYTES: u64 = 1 << 20;
/// Frames beyond those of the log: as few as a brick is started with.
const FRAMES_SPARE: u32 = 16;

pub fn brick_config(address: SocketAddr, place: u64, log_bytes: u64) -> BrickConfig {
    let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: 1024 };
    let config = BrickConfig::new(Address(address), geometry, log_bytes, INDEX_BYTES);
    let disk_bytes_max = log_bytes + u64::from(FRAMES_SPARE / 2 * SEGMENT_BYTES);
    BrickConfig { place, disk_bytes_max, scrub_round_min: Duration::from_secs(1), ..config }
}

fn backup_config(log_bytes: u64) -> BackupConfig {
    BackupConfig {
        segment_bytes: SEGMENT_BYTES,
        frames_max: (log_bytes / u64::from(SEGMENT_BYTES)) as u32 + FRAMES_SPARE,
        frames_grow_by: 4,
        buffers: Buffers::Reserved { count: 8 },
        buffers_survive_power: false,
        flush_interval: Duration::from_millis(100),
        recovery_cache_bytes: 2 * u64::from(SEGMENT_BYTES),
        found_cache_bytes: 0,
        needed_interval: Duration::from_secs(1),
        directory: "/data".into(),
        is_own: true,
        mode: "buffers".into(),
    }
}

impl Host {
    pub fn new(id: ServerId, address: SocketAddr, log_bytes: u64, clock_off: i64) -> Host {
        Host {
            id,
            address,
            place: id.raw(),
            supervisor: None,
            restart_load: RestartLoad::default(),
            restart_threshold: Some(11),
            scrubs: true,
            slow: None,
            is_hung: false,
            may_rot: false,
            sent: Vec::new(),
            disks: Disks::default(),
            node: None,
            life: 0,
            clock_off,
            log_bytes,
            index_bytes: INDEX_BYTES,
            frames_max: None,
            reports: Vec::new(),
            exit: None,
        }
    }

    /// Starts a process on the host.
    pub fn start(&mut self, now: Instant, rng: &mut Rng) -> Vec<Pending> {
        assert!(self.node.is_none());
        self.life += 1;
        let backup = backup_config(self.log_bytes);
        let brick = brick_config(self.address, self.place, self.log_bytes);
        let config = BrickNodeConfig {
            brick: BrickConfig {
                index_bytes_max: self.index_bytes,
                supervisor: self.supervisor,
                restart_load: self.restart_load,
                restart_threshold: self.restart_threshold,
                scrub_bytes_per_second: if self.scrubs { brick.scrub_bytes_per_second } else { 0 },
                ..brick
            },
            backup: BackupConfig { frames_max: self.frames_max.unwrap_or(backup.frames_max), ..backup },
            coordinator: COORDINATOR,
            labels: Vec::new(),
            weight: 100,
            memory_bytes: self.log_bytes,
            version: "test".into(),
        };
        self.node = Some(BrickNode::new(config, vec![0; self.log_bytes as usize], rng.u64()));
        let millis = (now.0 / 1_000_000).saturating_add(DATE_MILLIS).saturating_add_signed(self.clock_off);
        self.step(now, Input::Start { wall_millis: millis })
    }

    /// The process ends, without being asked.
    pub fn kill(&mut self, pending: Vec<Pending>, rng: &mut Rng) {
        self.node = None;
        self.is_hung = false;
        self.slow = None;
        for pending in pending {
            if rng.chance(1, 2) {
                self.execute(&pending.work);
            }
        }
    }

    pub fn cut_power(&mut self, pending: Vec<Pending>, rng: &mut Rng) {
        self.kill(pending, rng);
        self.disks.cut_power(rng);
    }

    /// A step of the process. Returns the operations that it has begun on devices.
    pub fn step(&mut self, now: Instant, input: Input<'_>) -> Vec<Pending> {
        let mut effects = Effects::new();
        let Some(node) = self.node.as_mut().filter(|_| !self.is_hung) else { return Vec::new() };
        node.step(now, input, &mut effects);
        self.carry_out(now, effects)
    }

    fn carry_out(&mut self, now: Instant, first: Effects) -> Vec<Pending> {
        let mut pending = Vec::new();
        let mut queue = vec![first];
        while let Some(mut effects) = queue.pop() {
            for effect in std::mem::take(&mut effects.list) {
                let life = self.life;
                let mut begin = |token, work| pending.push(Pending { life, token, work });
                match effect {
                    Effect::DiskWrite { token, file: DiskFile::Buffers, offset, data } => {
                        self.disks.write(DiskFile::Buffers, offset, data.of(&effects.bytes, &[]));
                        let mut next = Effects::new();
                        let node = self.node.as_mut().expect("it has just stepped");
                        node.step(now, Input::Disk { token, result: Ok(&[]) }, &mut next);
                        // Completions come in order, and after the effects of this step.
                        queue.insert(0, next);
                    }
                    Effect::DiskWrite { token, file, offset, data } => {
                        let data = data.of(&effects.bytes, &[]).to_vec();
                        begin(token, Work::Write { file, offset, data });
                    }
                    Effect::DiskRead { token, file, offset, bytes } => {
                        begin(token, Work::Read { file, offset, bytes });
                    }
                    Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes } => {
                        begin(token, Work::Copy { from, from_offset, to, to_offset, bytes });
                    }
                    Effect::DiskSync { token, file } => {
                        let through = self.disks.file(file).last_write();
                        begin(token, Work::Sync { file, through });
                    }
                    Effect::DiskReserve { token, file, bytes } => begin(token, Work::Reserve { file, bytes }),
                    Effect::Report { level, text } => {
                        let is_loss = text.contains("rebuilt from what is left")
                            || text.contains("later life of this brick")
                            || self.may_rot;
                        assert!(level < Level::Error || is_loss, "{text}");
                        self.reports.push(text);
                    }
                    Effect::Send { to, frame } => self.sent.push((to, frame.of(&effects.bytes).into_owned())),
                    Effect::Close { .. } => {}
                    Effect::Exit { reason, .. } => self.exit = Some(reason),
                    Effect::Mark(_) | Effect::Named { .. } => {}
                    other => panic!("a brick alone does not {other:?}"),
                }
            }
        }
        if self.exit.is_some() {
            self.node = None;
        }
        pending
    }

    /// An operation is complete.
    pub fn complete(&mut self, now: Instant, pending: &Pending) -> Vec<Pending> {
        if pending.life != self.life || self.node.is_none() {
            return Vec::new();
        }
        let bytes = self.execute(&pending.work);
        self.step(now, Input::Disk { token: pending.token, result: Ok(&bytes) })
    }

    fn execute(&mut self, work: &Work) -> Vec<u8> {
        match work {
            Work::Read { file, offset, bytes } => {
                return self.disks.file(*file).read(*offset, *bytes).to_vec();
            }
            Work::Write { file, offset, data } => self.disks.write(*file, *offset, data),
            Work::Copy { from, from_offset, to, to_offset, bytes } => {
                let data = self.disks.file(*from).read(*from_offset, *bytes).to_vec();
                self.disks.write(*to, *to_offset, &data);
            }
            Work::Sync { file, through } => self.disks.file_mut(*file).sync_through(*through),
            Work::Reserve { file, bytes } => self.disks.file_mut(*file).reserve(*bytes),
        }
        Vec::new()
    }
}
