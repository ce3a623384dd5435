//! The real cluster as a system of the simulator: a coordinator and storage servers, wired as on Linux, with small
//! limits so that rare paths are common.
//!
//! Not here: which faults strike and what counts as right (fault, checker); what is audited at the end (audit).
//! Catalogue: J3, E1.

use crate::disk::DiskOptions;
use crate::history::{Condition, Outcome, ValueId};
use crate::scenario::Actor;
use crate::system::{Ask, End, MakeProcess, MakeSession, Member, Request, Role, Session, System, Tolerance};
use crate::world::World;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{Effects, Input, Instant, Machine, ShardId, Status, TableId, Version};
use ramhold_client_core as core;
use ramhold_client_core::{Operation, OperationId, Reply};
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::{Coordinator, CoordinatorConfig, ServerConfig, ServerNode};
use ramhold_replication::ReplicationConfig;
use ramhold_wire::data::RejectRules;
use ramhold_wire::membership::{Durability, Label};
use ramhold_wire::table::TableOptions;
use std::net::SocketAddr;
use std::time::Duration;

const SEGMENT_BYTES: u32 = 32 * 1024;
const SEGLET_BYTES: u32 = 4 * 1024;
/// More than a run can write: nothing is cleaned yet, and a full log refusing writes would look like a cluster that is stuck.
const LOG_BYTES: u64 = 32 * 1024 * 1024;
const INDEX_BYTES: u64 = 512 * 1024;
const TABLE: &str = "world";

/// Crash points of masters; those of backups are listed there.
const SERVER_MARKS: [&str; 8] = [
    "head_rolled",
    "tablet_taken",
    "recovery_begun",
    "recovery_replayed",
    "recovery_entered",
    "recovery_durable",
    "recovery_published",
    "recovery_abandoned",
];

/// Crash points of the coordinator: before and after the commit of each kind of record.
const COORDINATOR_MARKS: [&str; 9] = [
    "coordinator_commits_meta",
    "coordinator_commits_recovery",
    "coordinator_commits_server",
    "coordinator_commits_table",
    "coordinator_commits_term",
    "coordinator_committed_meta",
    "coordinator_committed_recovery",
    "coordinator_committed_server",
    "coordinator_committed_table",
];

/// A process of the cluster.
pub enum Process {
    Server(Box<ServerNode>),
    Coordinator(Box<Coordinator>),
}

impl Machine for Process {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Process::Server(server) => server.step(now, input, effects),
            Process::Coordinator(coordinator) => coordinator.step(now, input, effects),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Process::Server(server) => server.deadline(),
            Process::Coordinator(coordinator) => coordinator.deadline(),
        }
    }
}

/// A cluster of one coordinator and some servers.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    pub servers: u8,
    pub replicas: u8,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster { servers: 5, replicas: 3 }
    }
}

fn coordinator_address() -> SocketAddr {
    SocketAddr::from(([10, 1, 0, 1], 7400))
}

impl Cluster {
    fn server_config(self, addr: SocketAddr, host: &str) -> ServerConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        ServerConfig {
            advertise: addr,
            coordinator: coordinator_address(),
            labels: vec![Label { name: "host".into(), value: host.into() }],
            master: true,
            master_config: MasterConfig {
                // Small, so that a copy of a segment takes several messages.
                replication: ReplicationConfig {
                    append_bytes_max: SEGLET_BYTES,
                    ..ReplicationConfig::new(ShardId(0))
                },
                ..MasterConfig::new(geometry, LOG_BYTES, INDEX_BYTES)
            },
            backup_config: BackupConfig {
                segment_bytes: SEGMENT_BYTES,
                frames_max: 1000,
                frames_grow_by: 16,
                buffers: Buffers::Reserved { count: 6 },
                flush_interval: Duration::from_millis(100),
                recovery_cache_bytes: 1024 * 1024,
                needed_interval: Duration::from_secs(2),
                mode: "buffers".into(),
            },
            detector: DetectorConfig::default(),
            memory_bytes: LOG_BYTES + INDEX_BYTES,
            read_speed: 100,
            enlist_interval: Duration::from_millis(100),
            version: "world".into(),
        }
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

    fn processes(&self, member: &Member) -> MakeProcess<Process> {
        let (cluster, member) = (*self, member.clone());
        Box::new(move |life| match member.role {
            Role::Coordinator => {
                let config = CoordinatorConfig {
                    cold_start_wait: Duration::from_secs(5),
                    partition_bytes_max: 64 * 1024,
                    segment_bytes: SEGMENT_BYTES,
                    ..CoordinatorConfig::new(member.addr)
                };
                Process::Coordinator(Box::new(Coordinator::new(config, life.seed)))
            }
            Role::Server => {
                let config = cluster.server_config(member.addr, &member.name);
                let region = vec![0; config.master_config.log_bytes as usize];
                Process::Server(Box::new(ServerNode::new(config, region, life.seed)))
            }
        })
    }

    fn sessions(&self) -> MakeSession<ClusterSession> {
        let replicas = self.replicas;
        Box::new(move |seed| ClusterSession::new(seed, replicas))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            // Killed processes keep what they held: any number may be down for a while.
            down_at_once: usize::from(self.servers) - 1,
            power_cut: true,
            power_cut_of_all: false,
            bit_rot: true,
            disk_errors: true,
        }
    }

    /// Every acknowledged write is on R whole backups again: another host may lose its buffers.
    fn may_cut_power(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        self.unsettled(world).is_none()
    }

    fn crash_points(&self, role: Role) -> Vec<&'static str> {
        match role {
            Role::Server => ramhold_backup::MARKS
                .iter()
                .chain(&SERVER_MARKS)
                .map(|mark| mark.strip_prefix("mark:").unwrap_or(mark))
                .collect(),
            Role::Coordinator => COORDINATOR_MARKS.to_vec(),
        }
    }

    fn is_broken(&self, process: &Process) -> bool {
        match process {
            Process::Server(server) => server.backup().status().failed.is_some(),
            Process::Coordinator(_) => false,
        }
    }

    fn unsettled(&self, world: &World<Actor<Process, ClusterSession>>) -> Option<String> {
        crate::audit::unsettled(self, world)
    }

    fn audit(&self, world: &World<Actor<Process, ClusterSession>>) -> Vec<String> {
        crate::audit::audit(self, world)
    }
}

/// A session of the real client, one operation at a time, on a table that it makes sure exists first.
pub struct ClusterSession {
    session: core::Session,
    options: TableOptions,
    table: Option<TableId>,
    creating: Option<OperationId>,
    /// Asked for before the table was known.
    waiting: Option<Wanted>,
    running: Option<(OperationId, Asked)>,
    end: Option<End>,
    retry_at: Option<Instant>,
}

/// An operation that is to be started.
#[derive(Clone)]
struct Wanted {
    key: Vec<u8>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Read,
    Write(Vec<u8>, RejectRules),
    Remove(RejectRules),
}

impl ClusterSession {
    fn new(seed: u64, replicas: u8) -> ClusterSession {
        let mut config = core::SessionConfig::new(vec![coordinator_address()]);
        config.deadline = Duration::from_secs(8);
        ClusterSession {
            session: core::Session::new(config, seed),
            options: TableOptions { durability: Durability::Buffered, replicas, tablets: 8 },
            table: None,
            creating: None,
            waiting: None,
            running: None,
            end: None,
            retry_at: None,
        }
    }

    /// Makes the table, or finds the one that another session made.
    fn find_table(&mut self, now: Instant, effects: &mut Effects) {
        if self.table.is_some() || self.creating.is_some() || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.retry_at = None;
        let create = Operation::CreateTable { name: TABLE.into(), options: self.options.clone() };
        self.creating = Some(self.session.start(now, create, effects));
    }

    fn describe_table(&mut self, now: Instant, effects: &mut Effects) {
        let which = core::WhichTable::Name(TABLE.into());
        self.creating = Some(self.session.start(now, Operation::DescribeTable { which }, effects));
    }

    fn start(&mut self, now: Instant, wanted: Wanted, effects: &mut Effects) {
        let Some(table) = self.table else {
            self.waiting = Some(wanted);
            return self.find_table(now, effects);
        };
        let key = wanted.key;
        let operation = match wanted.kind {
            Kind::Read => Operation::Read { table, key, rules: RejectRules::default() },
            Kind::Write(value, rules) => Operation::Write { table, key, value, rules },
            Kind::Remove(rules) => Operation::Remove { table, key, rules },
        };
        let asked = if matches!(operation, Operation::Read { .. }) { Asked::Read } else { Asked::Mutation };
        self.running = Some((self.session.start(now, operation, effects), asked));
    }

    fn take_outcomes(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((id, outcome)) = self.session.take_outcome() {
            if Some(id) == self.creating {
                self.creating = None;
                match outcome {
                    core::Outcome::Done(Reply::TableCreated { table }) => self.table = Some(table),
                    core::Outcome::Done(Reply::Table(description)) => self.table = Some(description.table),
                    core::Outcome::Refused { status: Status::TableExists, .. } => {
                        self.describe_table(now, effects);
                    }
                    _ => self.retry_at = Some(now + Duration::from_millis(100)),
                }
                if self.table.is_some()
                    && let Some(wanted) = self.waiting.take()
                {
                    self.start(now, wanted, effects);
                }
            } else if let Some((running, asked)) = self.running
                && running == id
            {
                self.running = None;
                self.end = Some(end_of(asked, outcome));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Read,
    Mutation,
}

fn end_of(asked: Asked, outcome: core::Outcome) -> End {
    match outcome {
        core::Outcome::Done(Reply::Read { version, value, answered_by, .. }) => End {
            outcome: Outcome::Found { version, value: ValueId::of(&value) },
            answered_by: Some(answered_by),
        },
        core::Outcome::Done(Reply::Written { version } | Reply::Removed { version }) => {
            End { outcome: Outcome::Done { version }, answered_by: None }
        }
        core::Outcome::Done(other) => panic!("an answer to another question: {other:?}"),
        core::Outcome::Refused { status: Status::NotFound, answered_by, .. } if asked == Asked::Read => {
            End { outcome: Outcome::Absent, answered_by: Some(answered_by) }
        }
        core::Outcome::Refused {
            status: Status::NotFound | Status::Exists | Status::WrongVersion,
            version,
            answered_by,
            ..
        } => {
            let version = Some(version.unwrap_or(Version::NONE));
            End { outcome: Outcome::ConditionFailed { version }, answered_by: Some(answered_by) }
        }
        core::Outcome::Refused { status, .. } => {
            End { outcome: Outcome::Refused { status }, answered_by: None }
        }
        core::Outcome::Unknown { .. } => End { outcome: Outcome::Unknown, answered_by: None },
    }
}

fn rules(condition: Condition) -> RejectRules {
    match condition {
        Condition::Free => RejectRules::default(),
        Condition::Absent => RejectRules { exists: true, ..RejectRules::default() },
        Condition::VersionIs(version) => {
            RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() }
        }
    }
}

impl Session for ClusterSession {
    fn begin(&mut self, now: Instant, request: &Request<'_>, effects: &mut Effects) {
        let kind = match request.ask {
            Ask::Read => Kind::Read,
            Ask::Write { value, condition } => Kind::Write(value.to_vec(), rules(condition)),
            Ask::Remove { condition } => Kind::Remove(rules(condition)),
        };
        self.start(now, Wanted { key: request.key.to_vec(), kind }, effects);
        self.take_outcomes(now, effects);
    }

    fn take_end(&mut self) -> Option<End> {
        self.end.take()
    }
}

impl Machine for ClusterSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        self.take_outcomes(now, effects);
        if self.waiting.is_some() {
            self.find_table(now, effects);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let retry = if self.waiting.is_some() { self.retry_at } else { None };
        ramhold_base::time::earliest(self.session.deadline(), retry)
    }
}
