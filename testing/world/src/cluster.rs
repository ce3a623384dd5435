//! The real cluster as a system of the simulator: a coordinator and storage servers, wired as on Linux.
//! Limits are small, so that rare paths are common.
//!
//! Not here: which faults strike (fault), which outcomes are right (checker), and the audit at the end
//! (audit).
//! Catalogue: J3, E1.

mod dividing;
mod door;
mod native;
mod resp;
mod scan;
mod tables;

use crate::disk::DiskOptions;
use crate::network::MILLI;
use crate::scenario::{Actor, RATE_PPM_MAX};
use crate::system::{End, MakeProcess, MakeSession, Member, Met, Request, Role, Session, System, Tolerance};
use crate::watch::Watch;
use crate::workload::{MANY_TAGS_FROM, Workload};
use crate::world::World;
use door::Door;
use native::NativeSession;
pub use native::{end_of_mutation, end_of_read, rules};
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{Effects, Input, Instant, Level, Machine, Mark, MarkUse, Rng, SegmentId, ShardId};
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::{Coordinator, CoordinatorConfig, Rebuild, ServerConfig, ServerNode};
use ramhold_replication::ReplicationConfig;
use ramhold_resp::{CrossSlot, RespConfig, RespStats};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::membership::{Durability, Label};
use resp::RespSession;
use std::net::SocketAddr;
use std::time::Duration;

const SEGMENT_BYTES: u32 = 32 * 1024;
const SEGLET_BYTES: u32 = 4 * 1024;
/// Room for everything that clients keep alive, on one server.
const LOG_BYTES: u64 = 1024 * 1024;
/// Cleaning begins as soon as a few segments are in use, so that every run does much of it.
const USED_BEFORE_CLEANING: u64 = 4 * SEGMENT_BYTES as u64;
/// Less than the data that the clients of a tight cluster would keep alive.
const TIGHT_LOG_BYTES: u64 = 256 * 1024;
const INDEX_BYTES: u64 = 512 * 1024;
const TABLE: &str = "world";
/// Operations of one session under way at once.
const LANES_MAX: u64 = 4;
/// How long a session tries an operation.
const DEADLINE: Duration = Duration::from_secs(8);
/// The lanes of a session that starts them together: enough that several go to one server.
const PACKED_LANES_MAX: u64 = 16;

/// A process of the cluster.
pub enum Process {
    Server(Box<Server>),
    Coordinator(Box<Coordinator>),
}

/// A storage server that states a fact `time MILLIS` whenever it begins to count the cluster time from
/// another point.
pub struct Server {
    pub node: ServerNode,
    /// Cluster time less the own clock, nanoseconds, as last stated.
    stated: Option<i128>,
    /// Whether the memory was full in this life. It is counted once per life.
    was_full: bool,
    /// The counters of the Redis front after the step before.
    counted: RespStats,
    door: Door,
}

/// The stated time may be off by this much before it is stated again: more than rounding to milliseconds
/// makes.
const TIME_SLACK: u64 = 2 * MILLI;

impl Server {
    fn new(node: ServerNode) -> Server {
        Server { node, stated: None, was_full: false, counted: RespStats::default(), door: Door::default() }
    }

    /// Counts `memory_98` when 98 % of the memory for writes is used.
    fn mark_full(&mut self, effects: &mut Effects) {
        let Some(usage) = self.node.master().map(|master| master.log().usage()).filter(|_| !self.was_full)
        else {
            return;
        };
        let usable = usage.log_bytes - usage.reserve_bytes;
        self.was_full = usage.free_bytes.saturating_sub(usage.reserve_bytes) * 50 <= usable;
        if self.was_full {
            effects.report(Level::Debug, "mark:memory_98");
        }
    }

    /// Counts the events of the Redis front, once for each step in which they happened.
    fn mark_resp(&mut self, effects: &mut Effects) {
        let Some(stats) = self.node.resp_stats() else { return };
        let before = std::mem::replace(&mut self.counted, stats);
        let places = [
            ("resp_answered_here", before.hits + before.misses < stats.hits + stats.misses),
            ("resp_through_session", before.posted < stats.posted),
            ("resp_retried", before.retried < stats.retried),
            ("resp_watch_failed", before.watch_failed < stats.watch_failed),
            ("resp_held", before.held < stats.held),
            ("resp_table_waited_for", before.table_waits < stats.table_waits),
        ];
        for (name, _) in places.iter().filter(|(_, is_there)| *is_there) {
            effects.report(Level::Debug, format!("mark:{name}"));
        }
    }

    fn state_time(&mut self, now: Instant, effects: &mut Effects) {
        if self.node.view().me.is_none() {
            return;
        }
        let time = self.node.view().time(now).0;
        let offset = i128::from(time) * i128::from(MILLI) - i128::from(now.0);
        if self.stated.is_none_or(|stated| offset.abs_diff(stated) > u128::from(TIME_SLACK)) {
            self.stated = Some(offset);
            effects.report(Level::Debug, format!("fact:time {time}"));
        }
    }
}

impl Process {
    pub fn server(&self) -> Option<&ServerNode> {
        match self {
            Process::Server(server) => Some(&server.node),
            Process::Coordinator(_) => None,
        }
    }

    pub fn coordinator(&self) -> Option<&Coordinator> {
        match self {
            Process::Server(_) => None,
            Process::Coordinator(coordinator) => Some(coordinator),
        }
    }
}

impl Machine for Process {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Process::Server(server) => {
                let unwelcome = match input {
                    Input::Frame { bytes, .. } => server.door.unwelcome(&server.node, bytes),
                    _ => None,
                };
                if let Input::Frame { from, bytes } = input
                    && let Some((copy, foreign)) = door::foreign(&server.node, bytes)
                {
                    server.node.step(now, Input::Frame { from, bytes: &copy }, effects);
                    if let Some(why) = door::was_let_in(&foreign, effects) {
                        effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                    }
                    door::keep_from_us(&foreign, effects);
                }
                server.node.step(now, input, effects);
                let let_in = unwelcome.and_then(|unwelcome| door::was_let_in(&unwelcome, effects));
                if let Some(why) = let_in {
                    effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                }
                server.state_time(now, effects);
                server.mark_full(effects);
                server.mark_resp(effects);
            }
            Process::Coordinator(coordinator) => {
                coordinator.step(now, input, effects);
                if let Some(why) = door::foreign_term(coordinator, effects) {
                    effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Process::Server(server) => server.node.deadline(),
            Process::Coordinator(coordinator) => coordinator.deadline(),
        }
    }
}

/// A cluster of one coordinator and some servers.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    pub servers: u8,
    pub replicas: u8,
    /// Tables are `synced`, not `buffered`.
    pub synced: bool,
    /// Half of the keys are in a second table with this durability and replica count. It is never worse than
    /// the first table.
    pub second: Option<(Durability, u8)>,
    /// So little memory that clients fill it. Writes are refused, and everything else must go on.
    pub tight: bool,
    /// Draws limits and timeouts, so that cases that are rare with good values become common. None: the usual
    /// values.
    pub limits: Option<u64>,
    /// Servers speak the Redis protocol, and half of the sessions use it. Database 0 is the table that all
    /// sessions share.
    pub resp: bool,
    pub placement: ReplicaPlacement,
    /// Frames for replicas on each server; none: more than are ever used.
    pub frames: Option<u32>,
}

/// One seed in this many has Redis clients among the others.
const RESP_ONE_IN: u64 = 3;
/// One in this many of the other seeds has synced tables.
const SYNCED_ONE_IN: u64 = 4;
/// And one in this many has two tables of different durability or replica count.
const SECOND_ONE_IN: u64 = 2;

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            servers: 5,
            replicas: 3,
            synced: false,
            second: None,
            tight: false,
            limits: None,
            resp: false,
            placement: ReplicaPlacement::Scatter,
            frames: None,
        }
    }
}

fn coordinator_address() -> SocketAddr {
    SocketAddr::from(([10, 1, 0, 1], 7400))
}

impl Cluster {
    /// Half of the seeds have limits of their own, and some have fewer replicas: cases that only the loss of
    /// replicas shows are common there. Half of the seeds place by copysets. Some keep synced tables, and
    /// lose the power of all their servers at once.
    #[must_use]
    pub fn varied(self, seed: u64) -> Cluster {
        if self.tight {
            return self;
        }
        let resp = self.resp || Rng::new(seed ^ 0x4E5B).chance(1, RESP_ONE_IN);
        let mut rng = Rng::new(seed ^ 0xC095_E700);
        let placement = match rng.chance(1, 2) {
            true => ReplicaPlacement::Copysets { rings: rng.between(1, 2) as u8 },
            false => ReplicaPlacement::Scatter,
        };
        // Redis clients make tables of the usual durability.
        let synced = !resp && rng.chance(1, SYNCED_ONE_IN);
        let drawn = Cluster { resp, placement, synced, ..self };
        let limits = (seed % 4 >= 2).then_some(seed);
        let drawn = match seed % 8 {
            2 | 6 => Cluster { replicas: 2, servers: self.servers - 1, limits, ..drawn },
            5 => Cluster { replicas: 1, servers: self.servers - 1, limits, ..drawn },
            _ => Cluster { limits, ..drawn },
        };
        Cluster { second: drawn.draw_second(seed), ..drawn }
    }

    /// Redis clients know one table only. Where frames are few, there may never be room for more copies.
    fn draw_second(self, seed: u64) -> Option<(Durability, u8)> {
        let mut rng = Rng::new(seed ^ 0x2C1A_5500);
        if self.resp || self.frames.is_some() || !rng.chance(1, SECOND_ONE_IN) {
            return None;
        }
        let is_synced = self.synced || rng.chance(1, 2);
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        let replicas = rng.between(u64::from(self.replicas), u64::from(self.servers) - 1) as u8;
        let is_other = is_synced != self.synced || replicas != self.replicas;
        is_other.then_some((durability, replicas))
    }

    /// Draws limits that safety must not depend on.
    fn draw_limits(self, config: &mut ServerConfig) {
        let Some(seed) = self.limits else { return };
        let mut rng = Rng::new(seed ^ 0x11A1_7500);
        let mut millis = |some: &[u64]| Duration::from_millis(*rng.pick(some).expect("some are given"));
        let replication = &mut config.master_config.replication;
        replication.replica_timeout = millis(&[400, 3000, 10_000]);
        replication.append_timeout = millis(&[60, 250]);
        let ping_timeout = millis(&[50, 150, 400]);
        config.detector = DetectorConfig { ping_timeout, ..config.detector };
        config.backup_config.flush_interval = millis(&[5, 100, 1000]);
        config.backup_config.needed_interval = millis(&[300, 2000]);
        replication.append_bytes_max = *rng.pick(&[512, SEGLET_BYTES, SEGMENT_BYTES]).expect("three sizes");
        replication.in_flight_max = rng.between(1, 4) as u16;
        replication.copies_max = rng.between(1, 4) as usize;
        config.backup_config.buffers = Buffers::Reserved { count: rng.between(2, 8) as u32 };
        replication.copy_bytes_per_second = *rng.pick(&[0, 0, 512 * 1024, 2048 * 1024]).expect("four rates");
        config.backup_config.frames_grow_by = *rng.pick(&[1, 4, 16]).expect("three steps");
    }

    /// The time after which a server that does not answer is dead, where limits are drawn. It may be shorter
    /// than the read lease.
    fn verify_timeout(self) -> Option<Duration> {
        let mut rng = Rng::new(self.limits? ^ 0x7E81_F700);
        rng.pick(&[100, 100, 300, 1000]).map(|millis| Duration::from_millis(*millis))
    }

    fn resp_config(self) -> RespConfig {
        let plain = RespConfig::new(coordinator_address());
        // Short leases end while requests that were sent may still arrive.
        let drawn = self.limits.map(|seed| Rng::new(seed ^ 0xDEAD_1100).between(200, 8000));
        RespConfig {
            deadline: drawn.map_or(plain.deadline, Duration::from_millis),
            tables: vec![(0, TABLE.into())],
            // The servers decide which keys may take effect together, so that their check is tested, too.
            cross_slot: CrossSlot::Allow,
            // A low limit, so that connections are held.
            running_count_max: 8,
            ..plain
        }
    }

    fn server_config(self, addr: SocketAddr, host: &str) -> ServerConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        let log_bytes = if self.tight { TIGHT_LOG_BYTES } else { LOG_BYTES };
        let plain = MasterConfig::new(geometry, log_bytes, INDEX_BYTES);
        let mut config = ServerConfig {
            advertise: addr,
            coordinator: coordinator_address(),
            labels: vec![Label { name: "host".into(), value: host.into() }],
            master: true,
            master_config: MasterConfig {
                // Small messages, so that a copy of a segment takes several.
                replication: ReplicationConfig {
                    append_bytes_max: SEGLET_BYTES,
                    ..ReplicationConfig::new(ShardId(0))
                },
                // Damage is found within a run.
                scrub_round_min: Duration::from_secs(2),
                lease_sweep_interval: Duration::from_secs(2),
                // A walk has many slices, and much happens between them.
                recount_buckets: 2,
                // Moving a tablet to another stream also takes many steps, one per stretch.
                gather_count_max: 300,
                migration_stretch_bytes: 12_000,
                // Some dozen arrays: tablets are large beside the log here.
                profile_bytes_max: 128 * 1024,
                cleaning_runway_bytes: match self.frames {
                    None => log_bytes - USED_BEFORE_CLEANING - plain.reserve_bytes,
                    // As in production, where frames may be short long before memory is.
                    Some(_) => plain.cleaning_runway_bytes,
                },
                ..plain
            },
            backup_config: BackupConfig {
                segment_bytes: SEGMENT_BYTES,
                frames_max: self.frames.unwrap_or(1000),
                frames_grow_by: 16,
                buffers: Buffers::Reserved { count: 6 },
                buffers_survive_power: false,
                flush_interval: Duration::from_millis(100),
                recovery_cache_bytes: 1024 * 1024,
                found_cache_bytes: 0,
                needed_interval: Duration::from_secs(2),
                directory: "/data".into(),
                mode: "buffers".into(),
            },
            resp: self.resp.then(|| self.resp_config()),
            detector: DetectorConfig::default(),
            memory_bytes: log_bytes + INDEX_BYTES,
            read_speed: 100,
            enlist_interval: Duration::from_millis(100),
            version: "world".into(),
        };
        self.draw_limits(&mut config);
        config
    }
}

impl Cluster {
    /// From partitions for every master to one for all, which is the usual case: a run writes too little for
    /// more.
    fn partition_bytes_min(&self) -> u64 {
        if self.frames.is_some() {
            return 4 * u64::from(SEGMENT_BYTES); // As in production, so that as many frames go to heads and last segments.
        }
        let drawn = self.limits.map(|seed| Rng::new(seed ^ 0x9A27).below(3));
        [64 * 1024, 1024, 8 * 1024][drawn.unwrap_or_default() as usize]
    }
}

impl System for Cluster {
    type Process = Process;
    type Session = ClusterSession;

    fn members(&self) -> Vec<Member> {
        let coordinator = Member {
            name: "coordinator".into(),
            addr: coordinator_address(),
            role: Role::Coordinator,
            disk: DiskOptions::default(),
        };
        let server = |index: u8| Member {
            name: format!("server {index}"),
            addr: SocketAddr::from(([10, 0, 0, index], 7401)),
            role: Role::Server,
            disk: DiskOptions::default(),
        };
        [coordinator].into_iter().chain((1..=self.servers).map(server)).collect()
    }

    fn is_tight(&self) -> bool {
        self.tight
    }

    fn workload(&self, rng: &mut Rng) -> Workload {
        let drawn = Workload {
            counting_percent: rng.between(5, 30),
            scan_permille: rng.below(4),
            commit_percent: rng.between(3, 20),
            ..Workload::draw(rng)
        };
        if !self.tight {
            return drawn;
        }
        // Enough keys and writes to fill the memory within a few seconds, and to stay at the limit.
        Workload {
            cold_keys: rng.between(900, 2000) as u32,
            cold_from: MANY_TAGS_FROM,
            hot_percent: rng.below(20),
            reads: rng.between(1, 2),
            writes: rng.between(4, 6),
            removes: rng.below(2),
            value_bytes_max: 6000,
            think_max: 1_000_000 * rng.between(10, 20),
            ..drawn
        }
    }

    fn processes(&self, member: &Member) -> MakeProcess<Process> {
        let (cluster, member) = (*self, member.clone());
        Box::new(move |life| match member.role {
            Role::Coordinator => {
                let plain = CoordinatorConfig::new(member.addr);
                let config = CoordinatorConfig {
                    verify_timeout: cluster.verify_timeout().unwrap_or(plain.verify_timeout),
                    cold_start_wait: Duration::from_secs(5),
                    partition_bytes_min: cluster.partition_bytes_min(),
                    partition_bytes_max: cluster.partition_bytes_min().max(64 * 1024),
                    segment_bytes: SEGMENT_BYTES,
                    default_replicas: cluster.replicas,
                    placement: cluster.placement,
                    // Leases end within a run, and some of them end while requests under them still wait.
                    lease_term_min: Duration::from_secs(1),
                    rebuild: life.store_lost.then(Rebuild::default),
                    ..plain
                };
                Process::Coordinator(Box::new(Coordinator::new(config, life.seed)))
            }
            Role::Server => {
                let config = cluster.server_config(member.addr, &member.name);
                let region = vec![0; config.master_config.log_bytes as usize];
                Process::Server(Box::new(Server::new(ServerNode::new(config, region, life.seed))))
            }
        })
    }

    fn hears_bytes(&self) -> bool {
        self.resp
    }

    fn sessions(&self) -> MakeSession<ClusterSession> {
        let (replicas, resp, second) = (self.replicas, self.resp, self.second);
        // Where frames are few, there may never be room for more copies.
        let may_grow = self.frames.is_none();
        // Where memory is full, there may never be room for copies. A stretch that cannot be moved is not cut
        // either (docs/protocols/migration.md).
        let may_alter = !self.tight;
        let durability = if self.synced { Durability::Synced } else { Durability::Buffered };
        let servers: Vec<SocketAddr> =
            self.members().into_iter().filter(|m| m.role == Role::Server).map(|m| m.addr).collect();
        Box::new(move |seed| {
            if resp && Rng::new(seed ^ 0x4E5B).chance(1, 2) {
                ClusterSession::Resp(Box::new(RespSession::new(seed, servers.clone())))
            } else {
                ClusterSession::Native(Box::new(NativeSession::new(
                    seed,
                    (durability, replicas),
                    second,
                    (may_alter, may_grow),
                )))
            }
        })
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            // Killed processes keep the contents of their files and buffers, so any number may be down for a
            // while.
            down_at_once: usize::from(self.servers) - 1,
            // A fault that takes one replica away for good needs two others, since the next may be lost
            // before the replica is replaced.
            power_cut: self.replicas >= 3 || self.synced,
            power_cut_of_all: self.synced,
            rotting: usize::from(self.replicas).saturating_sub(2),
            memory_flips: self.replicas >= 3,
            disk_errors: self.replicas >= 3,
            lost_store: true,
        }
    }

    fn flip_memory(&self, process: &mut Process, rng: &mut Rng) -> bool {
        let Process::Server(server) = process else { return false };
        let Some(master) = server.node.master_mut() else { return false };
        let segments: Vec<(SegmentId, u32)> =
            master.log().segments().map(|segment| (segment.id, segment.len_bytes)).collect();
        let Some((segment, bytes)) = rng.pick(&segments).copied().filter(|(_, bytes)| *bytes > 0) else {
            return false;
        };
        master.flip_bit(segment, rng.below(u64::from(bytes)) as u32, rng.below(8) as u8);
        true
    }

    /// Whether every acknowledged write is on R whole backups again, so that another host may lose its
    /// buffers. If writes were on R devices before they were acknowledged, there is nothing to wait for.
    fn may_cut_power(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        self.synced || self.unsettled(world).is_none()
    }

    /// While the new coordinator collects the state, no further server dies. So the servers that it needs are
    /// there at this moment, but for one.
    fn may_lose_store(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        let Some(coordinator) = crate::audit::in_charge(world) else { return false };
        let processes = crate::audit::servers(world);
        let serving = processes.iter().filter(|server| server.phase() == ramhold_node::Phase::Serving);
        let living: Vec<_> = serving.map(|server| server.id()).collect();
        let up: Vec<_> = coordinator.state().all_up().map(|record| record.entry.id).collect();
        let missing = up.iter().filter(|id| !living.contains(id)).count();
        processes.len() == usize::from(self.servers)
            && coordinator.is_copied()
            && missing + 2 < up.len().min(4)
    }

    /// All but one of the servers that hold a segment's replicas. With little memory the others might have no
    /// room.
    fn may_stay_dead(&self) -> usize {
        if self.tight { 0 } else { usize::from(self.replicas) - 1 }
    }

    fn is_in_charge(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        crate::audit::in_charge(world).is_some()
    }

    fn crash_points(&self, role: Role) -> Vec<&'static str> {
        let with = |purposes: &'static [MarkUse]| {
            Mark::ALL.iter().filter(|mark| purposes.contains(&mark.purpose())).map(|mark| mark.name())
        };
        use MarkUse::*;
        match role {
            Role::Server => with(&[ServerCrash, RareServerCrash])
                .chain(with(&[RareServerCrash, FurtherServerCrash]))
                .collect(),
            Role::Coordinator => {
                with(&[CoordinatorCrash]).chain(with(&[CoordinatorCrash, FurtherCoordinatorCrash])).collect()
            }
        }
    }

    /// The cluster time of two servers differs by much in two cases. A server may hear it late (a frame that
    /// is held, a process that stands still). A server that enlists soon after a coordinator's start is told
    /// the ceiling, up to 10 s ahead. The facts contain both. Added are the drift of the servers' own clocks
    /// in the meantime, and rounding.
    fn clock_spread(&self, world: &World<Actor<Process, ClusterSession>>) -> u64 {
        let offsets = world.facts.iter().filter_map(|fact| {
            let millis: i64 = fact.text.strip_prefix("time ")?.parse().ok()?;
            Some(millis - i64::try_from(fact.at / MILLI).expect("a run of less than centuries"))
        });
        let (least, most) = offsets.fold((i64::MAX, i64::MIN), |(a, b), o| (a.min(o), b.max(o)));
        let told = most.saturating_sub(least).max(0).unsigned_abs() * MILLI;
        let drift = world.now() / 1_000_000 * u64::from(RATE_PPM_MAX);
        told + 2 * drift + 2 * (TIME_SLACK + MILLI)
    }

    fn is_broken(&self, process: &Process) -> bool {
        match process {
            Process::Server(server) => server.node.backup().has_failed(),
            Process::Coordinator(_) => false,
        }
    }

    fn unsettled(&self, world: &World<Actor<Process, ClusterSession>>) -> Option<String> {
        use crate::audit::{changing, in_charge, overdue, servers, unsettled};
        let Some(coordinator) = in_charge(world) else { return Some("no coordinator is in charge".into()) };
        changing(coordinator).or_else(|| unsettled(self.servers, &servers(world))).or_else(|| overdue(world))
    }

    fn watch(&self, world: &World<Actor<Process, ClusterSession>>, watch: &mut Watch) {
        watch.look(world);
    }

    fn audit(&self, world: &World<Actor<Process, ClusterSession>>) -> Vec<String> {
        use crate::audit::{audit, servers, stored};
        let coordinator = crate::audit::in_charge(world).expect("a settled cluster has a coordinator");
        // This is a minimum: a second table, and tables altered later, have no fewer.
        let mut findings = audit(Some(self.replicas), &stored(coordinator), &servers(world));
        findings.extend(crate::audit::gone_and_there(coordinator));
        let there: Vec<&str> = coordinator.state().tables.values().map(|t| t.name.as_str()).collect();
        let facts = world.facts.iter().map(|fact| fact.text.as_str());
        findings.extend(tables::contradictions(facts, &there));
        let wrong = world.facts.iter().filter_map(|fact| fact.text.strip_prefix(door::OPEN));
        findings.extend(wrong.take(20).map(ToString::to_string));
        findings
    }
}

/// A session of either kind.
pub enum ClusterSession {
    Native(Box<NativeSession>),
    Resp(Box<RespSession>),
}

impl ClusterSession {
    fn get(&self) -> &dyn Session {
        match self {
            ClusterSession::Native(session) => &**session,
            ClusterSession::Resp(session) => &**session,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Session {
        match self {
            ClusterSession::Native(session) => &mut **session,
            ClusterSession::Resp(session) => &mut **session,
        }
    }
}

impl Session for ClusterSession {
    fn lanes(&self) -> usize {
        self.get().lanes()
    }

    fn goes_on_after_unknown(&self) -> bool {
        self.get().goes_on_after_unknown()
    }

    fn packs(&self) -> bool {
        self.get().packs()
    }

    fn appends(&self) -> bool {
        self.get().appends()
    }

    fn commits(&self) -> bool {
        self.get().commits()
    }

    fn take_refusing(&mut self, lane: usize) -> Option<usize> {
        self.get_mut().take_refusing(lane)
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects) {
        self.get_mut().begin(now, lane, request, effects);
    }

    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        self.get_mut().all_begun(now, effects);
    }

    fn leave(&mut self, effects: &mut Effects) {
        self.get_mut().leave(effects);
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.get_mut().take_end()
    }

    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        self.get_mut().take_met(lane)
    }
}

impl Machine for ClusterSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.get_mut().step(now, input, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        self.get().deadline()
    }
}
