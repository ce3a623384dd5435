//! The master, a role of a storage server: owns tablets, keeps their objects in its log, and replays the logs of dead
//! servers.
//!
//! Every mutation takes one path: recall of its result, tablet, client lease, reject rules, one group at the head of
//! the tablet's stream, index, replication. Its answer is parked until the stream is durable up to the group. An answer
//! that tells of an entry that is not durable yet waits in the same way, so nobody ever sees data that a crash could
//! take back.
//!
//! Invariants:
//! - an answer that depends on an entry leaves only when R backups have that entry;
//! - a tablet is served only after the coordinator has been told where it starts and has agreed;
//! - a version is handed out once: versions only grow for a key, and stay below the ceiling that the coordinator keeps.
//!
//! Not here: bytes of entries (log), sending them to backups (replication), holding others' replicas (backup).
//! Catalogue: A2, A3, A4, B2, B3, C1, D1, F4, F5. Protocols: docs/protocols/replication.md, docs/protocols/recovery.md.

mod admit;
mod answered;
mod ceiling;
mod cleaning;
mod commit;
mod confirm;
mod count;
mod division;
mod expiry;
mod increment;
mod leases;
mod local;
mod migration;
mod multi;
mod objects;
mod owner;
mod parked;
mod prefetch;
mod read_lease;
mod repair;
mod replay;
mod scan;
mod settling;
mod status;
mod streams;
mod tablets;

use ceiling::Ceiling;
use leases::Leases;
use multi::{Asker, Multis};
use parked::Parked;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::{
    ConnId, Effects, Instant, LeaseId, LogId, Peer, Rng, SegmentId, ServerId, ShardId, Status, StreamId,
    TableId, Version, time::earliest,
};
use ramhold_log::{Geometry, Log, LogConfig};
use ramhold_replication::{ReplicationConfig, Replicator};
use ramhold_shard::{CleaningConfig, LogSegments, ReadBack, ScrubConfig, Shard, ShardConfig};
use ramhold_wire::membership::ReplicasNeeded;
use ramhold_wire::{Call, Calls, Header, Opcode, Standing, Step, View, decode, reply, reply_with};
use read_lease::ReadLease;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tablets::Tablets;

/// The role of these `Calls` in the process; see `wire::calls::role_of`. The replicator has its own.
pub const CALLS_ROLE: u8 = 4;
pub use prefetch::Wanted;
pub use ramhold_replication::CALLS_ROLE as REPLICATION_CALLS_ROLE;
pub use ramhold_replication::Event;
pub use ramhold_shard::CleaningCounters;
pub use status::TabletSeen;

#[derive(Clone, Debug)]
pub struct MasterConfig {
    pub shard: ShardId,
    pub geometry: Geometry,
    /// Memory for segments; the region handed in has this size.
    pub log_bytes: u64,
    pub index_bytes_max: u64,
    /// Memory that ordinary writes leave free.
    pub reserve_bytes: u64,
    /// The part of the reserve that removes leave free too: the memory that one cleaning pass may need.
    pub cleaning_reserve_bytes: u64,
    /// Cleaning runs while less memory than this is free above the reserve.
    pub cleaning_runway_bytes: u64,
    /// Bytes of frames that this log may take, counting one replica of each segment. Beyond them cleaning runs, and
    /// combined passes come first.
    pub disk_bytes_max: u64,
    /// Frames that this server gives to others. Beyond three quarters of as many frames for its own log, all replicas
    /// counted, cleaning runs, and combined passes come first. 0: the server gives none, and no bound follows from it.
    pub frames_max: u64,
    /// Whether segments may be compacted in memory before their replicas are cleaned too.
    pub two_level_cleaning: bool,
    pub replication: ReplicationConfig,
    /// The most answers of one stream that may wait for replication at a time.
    pub parked_count_max: usize,
    /// The most bytes of values in these answers.
    pub parked_bytes_max: usize,
    /// How fast the log is verified in the background, in bytes per second; 0: not at all.
    pub scrub_bytes_per_second: u64,
    /// The shortest time from the start of one round over the log to the start of the next.
    pub scrub_round_min: Duration,
    /// How long a grant lets this shard answer reads. `None`: for ever, for a log that stands alone and has no server.
    pub read_lease: Option<Duration>,
    /// Keys that are gathered at a time to change their stream. Each takes eight bytes of memory.
    pub gather_count_max: usize,
    /// Bytes of objects that change their stream together. They are not written to meanwhile.
    pub migration_stretch_bytes: u64,
    /// Index buckets that one turn of the recount looks at. The recount counts the objects of each part of a tablet
    /// that is to be cut.
    pub recount_buckets: u64,
    /// How often the master looks for leases about which nothing certain is known.
    pub lease_sweep_interval: Duration,
    /// Segments that a recovery requests at the same time, per partition.
    pub fetches_max: usize,
    /// Memory of the log that is touched ahead of need, after all memory that was ever used.
    pub touched_ahead_bytes: u64,
    /// The most memory of the tablet profiles, which tell where in large tablets the bytes are.
    pub profile_bytes_max: u64,
    /// Secret of the index, which decides the order of scans. All servers of a cluster have the same secret, and only
    /// they know it. `None`: this life of the server makes a secret of its own, and the positions of scans hold for
    /// this life only.
    pub index_secret: Option<u64>,
}

impl MasterConfig {
    /// `log_bytes` is rounded down to whole seglets.
    pub fn new(geometry: Geometry, log_bytes: u64, index_bytes_max: u64) -> MasterConfig {
        let seglet = u64::from(geometry.seglet_bytes);
        let log_bytes = log_bytes / seglet * seglet;
        let segment = u64::from(geometry.segment_bytes);
        // One pass must be able to take in at least one full segment. With three segments it pays well for its head
        // roll.
        let cleaning_reserve = (log_bytes / 64).clamp(segment + segment / 4, 3 * segment).min(log_bytes / 4);
        // Removes can go on for a segment's worth of tombstones before a pass has to pay for them.
        let reserve = (cleaning_reserve + segment).max(2 * seglet).min(log_bytes / 2);
        MasterConfig {
            shard: ShardId(0),
            geometry,
            log_bytes,
            index_bytes_max,
            reserve_bytes: reserve,
            cleaning_reserve_bytes: cleaning_reserve,
            // Twice the memory that a pass frees: writes go on while one pass works.
            cleaning_runway_bytes: (log_bytes / 128).max(2 * segment),
            disk_bytes_max: u64::from(DISK_EXPANSION) * log_bytes,
            frames_max: 0,
            two_level_cleaning: true,
            replication: ReplicationConfig::new(ShardId(0)),
            parked_count_max: 65_536,
            parked_bytes_max: 32 * 1024 * 1024,
            scrub_bytes_per_second: SCRUB_BYTES_PER_SECOND,
            scrub_round_min: Duration::from_secs(600),
            read_lease: Some(READ_LEASE),
            gather_count_max: ramhold_log::GATHER_COUNT_MAX,
            migration_stretch_bytes: MIGRATION_STRETCH_BYTES,
            recount_buckets: division::RECOUNT_BUCKETS,
            lease_sweep_interval: Duration::from_secs(30),
            fetches_max: 6,
            touched_ahead_bytes: log_bytes / 4,
            profile_bytes_max: log_bytes / 1000 * PROFILE_PER_MILLE,
            index_secret: None,
        }
    }
}

/// Bytes of one stretch: copying and replicating it takes some tens of milliseconds.
pub const MIGRATION_STRETCH_BYTES: u64 = 4 * 1024 * 1024;
/// The memory of tablet profiles, in thousandths of the log's memory.
pub const PROFILE_PER_MILLE: u64 = 6;
/// Takes half a percent of a core. A round over 64 GiB takes two and a half hours.
pub const SCRUB_BYTES_PER_SECOND: u64 = 8 * 1024 * 1024;
/// The bytes of frames that a log may take by default, as a multiple of its memory.
pub const DISK_EXPANSION: u32 = 2;

/// The purpose of a call of this role.
#[derive(Clone, Debug)]
enum Context {
    CeilingRaise,
    LeaseCheck(Vec<LeaseId>),
    ReadLease,
    /// Asks which tablets of this table the coordinator has stored as this shard's.
    Confirm(TableId),
    /// Reports that backups have everything that was recovered to this position.
    Settled {
        stream: StreamId,
        first: SegmentId,
        /// The backups' devices have it too.
        flushed: bool,
    },
    /// Asks the coordinator to store that this stretch is in another stream now.
    Migrated(ramhold_log::HashRange),
    Fetch(replay::Fetch),
    ReadBack(ReadBack),
    /// Reports the success (`done`) or the failure of this attempt.
    Recovered {
        key: replay::PartitionKey,
        attempt: u32,
        done: bool,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    /// Repeated mutations that got their first answer again.
    pub recalled: u64,
    /// Mutations that were dropped: there was no room to remember their results, or their results could not be told
    /// yet.
    pub dropped: u64,
    /// Reads that had to wait for the read lease, and reads that were refused for lack of it.
    pub lease_waits: u64,
    pub lease_refusals: u64,
}

/// One shard's master.
pub struct Master {
    config: MasterConfig,
    shard: Shard,
    tablets: Tablets,
    leases: Leases,
    read_lease: ReadLease,
    parked: BTreeMap<StreamId, Parked>,
    multis: Multis,
    takes: Vec<streams::Take>,
    confirming: confirm::Confirming,
    sweeps: Vec<streams::Sweep>,
    /// The damaged segment at which the first sweep has stopped.
    sweep_waits_for: Option<SegmentId>,
    /// Tablets to be cut and joined: one entry for each table.
    divisions: Vec<division::Dividing>,
    /// The damaged segment at which the recount for the first division has stopped.
    recount_waits_for: Option<SegmentId>,
    migrating: migration::Migrating,
    replays: BTreeMap<replay::PartitionKey, replay::PartitionReplay>,
    /// Recovered positions that devices may not have yet.
    settling: settling::Settlings,
    ceiling: Ceiling,
    calls: Calls<Context>,
    counters: Counters,
    events: Vec<Event>,
    expiry: expiry::Expiry,
    busy: bool,
    /// Dead servers that are being recovered, and the instant at which the newest of them was added.
    recovered: BTreeSet<ServerId>,
    recovering_since: Option<Instant>,
    early_firsts: Option<replay::EarlyFirsts>,
    /// Memory of records that a recovery has taken in, to be used again for the next answers.
    arrival_memory: Vec<Vec<u8>>,
}

impl Master {
    /// A master with an empty log. `region` is its memory, zeroed; `view` names this life of the server.
    pub fn new(config: MasterConfig, region: Vec<u8>, view: &View, ceiling: Version, seed: u64) -> Master {
        let mut rng = Rng::new(seed);
        let own_secret = rng.u64();
        let log = Log::new(
            LogConfig {
                cluster: view.cluster,
                log: LogId { server: view.me, shard: config.shard },
                geometry: config.geometry,
                log_bytes: config.log_bytes,
                index_bytes_max: config.index_bytes_max,
                reserve_bytes: config.reserve_bytes,
                cleaning_reserve_bytes: config.cleaning_reserve_bytes,
                profile_bytes_max: config.profile_bytes_max,
                index_secret: config.index_secret.unwrap_or(own_secret),
            },
            region,
        );
        let replicator = Replicator::new(config.replication.clone(), rng.u64());
        let calls = Calls::new(CALLS_ROLE, rng.u64());
        let read_lease = ReadLease::new(config.read_lease);
        Master {
            shard: Shard::new(
                log,
                replicator,
                ShardConfig {
                    cleaning: CleaningConfig {
                        runway_bytes: config.cleaning_runway_bytes,
                        disk_bytes_max: config.disk_bytes_max,
                        frames_max: config.frames_max,
                        is_two_level: config.two_level_cleaning,
                    },
                    scrub: ScrubConfig {
                        bytes_per_second: config.scrub_bytes_per_second,
                        round_min: config.scrub_round_min,
                    },
                    touched_ahead_bytes: config.touched_ahead_bytes,
                },
            ),
            config,
            tablets: Tablets::default(),
            leases: Leases::default(),
            read_lease,
            parked: BTreeMap::new(),
            multis: Multis::default(),
            takes: Vec::new(),
            confirming: confirm::Confirming::default(),
            sweeps: Vec::new(),
            migrating: migration::Migrating::default(),
            replays: BTreeMap::new(),
            settling: settling::Settlings::default(),
            ceiling: Ceiling::new(ceiling),
            calls,
            counters: Counters::default(),
            events: Vec::new(),
            expiry: expiry::Expiry::default(),
            sweep_waits_for: None,
            divisions: Vec::new(),
            recount_waits_for: None,
            busy: false,
            recovered: BTreeSet::new(),
            recovering_since: None,
            early_firsts: None,
            arrival_memory: Vec::new(),
        }
    }

    /// A request to this role. For requests of servers the caller has checked cluster and target.
    pub fn on_request(
        &mut self,
        now: Instant,
        opcode: Opcode,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let step = &mut Step { now, view, effects };
        self.multis.now = step.now;
        match opcode {
            Opcode::Read => {
                self.on_read(step, header, body, Asker::Conn(from));
                if self.shard.appended || self.read_lease.is_due(step.now) {
                    self.advance_if_appended(step);
                }
                return;
            }
            Opcode::Write | Opcode::Remove | Opcode::Increment => {
                self.on_object_request(step, opcode, header, body, Asker::Conn(from));
                self.advance_if_appended(step);
                return self.pay_for_cleaning(step, body.len() as u64);
            }
            Opcode::Multi => {
                self.on_multi(step, header, body, from);
                self.advance_if_appended(step);
                return self.pay_for_cleaning(step, body.len() as u64);
            }
            Opcode::Commit => {
                self.on_commit(step, header, body, from);
                self.advance_if_appended(step);
                return self.pay_for_cleaning(step, body.len() as u64);
            }
            Opcode::Scan => {
                self.on_scan(step, header, body, from);
                if self.shard.appended || self.read_lease.is_due(step.now) {
                    self.advance_if_appended(step);
                }
                return;
            }
            Opcode::Count => {
                self.on_count(step, header, body, from);
                if self.shard.appended || self.read_lease.is_due(step.now) {
                    self.advance_if_appended(step);
                }
                return;
            }
            Opcode::LeaseMeet => {
                self.on_lease_meet(step, header, body, from);
                return self.advance_leases(step);
            }
            Opcode::TabletTake => self.on_tablet_take(step, header, body, from),
            Opcode::TabletDrop => self.on_tablet_drop(header, body, from, step.effects),
            Opcode::TabletDivide => self.on_tablet_divide(header, body, from, step.effects),
            Opcode::TabletMigrate => self.on_tablet_migrate(step, header, body, from),
            Opcode::TabletWeights => self.on_tablet_weights(header, body, from, step.effects),
            Opcode::Recover => self.on_recover(step, header, body, from),
            // This server's list may know the asker's directory only under the id of an earlier life. The very replicas
            // that are asked about may be the ones that this master counts on there.
            Opcode::ReplicasNeeded if step.view.list.standing(header.sender) != Standing::Up => {
                reply(step.effects, Peer::Conn(from), header, Status::NotInCluster);
            }
            Opcode::ReplicasNeeded => match decode::<ReplicasNeeded>(body) {
                Ok(asked) => {
                    let answer = self.shard.replicator.not_needed(header.sender, &asked);
                    reply_with(step.effects, Peer::Conn(from), header, Status::Ok, &answer);
                }
                Err(status) => reply(step.effects, Peer::Conn(from), header, status),
            },
            _ => reply(step.effects, Peer::Conn(from), header, Status::UnknownOpcode),
        }
        self.advance(step);
    }

    /// An answer to a call of the replicator.
    pub fn on_replication_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        let step = &mut Step { now, view, effects };
        self.shard.replicator.on_reply(step.now, header, body, &LogSegments(&self.shard.log), step.view);
        self.advance(step);
    }

    /// An answer to a call of this role's own.
    pub fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        let step = &mut Step { now, view, effects };
        if let Some(call) = self.calls.answered(header.rpc) {
            if header.status() == Status::Fenced && call.addr == step.view.coordinator {
                self.events.push(Event::SaidDead);
            }
            match call.context {
                Context::CeilingRaise => self.on_ceiling_raised(step.now, header, body),
                Context::LeaseCheck(asked) => {
                    self.on_leases_checked(step, (call.sent, &asked), header, body);
                }
                Context::ReadLease => {
                    let is_granted = header.status() == Status::Ok && header.cluster == step.view.cluster;
                    self.on_read_lease(step.now, is_granted.then_some(call.sent));
                }
                Context::Confirm(table) => self.on_described(table, header.status(), body, step.view),
                Context::Migrated(range) => self.on_migrated(step, range, header.status()),
                Context::Settled { stream, first, flushed } => {
                    self.on_settled(step, (stream, first, flushed), header.status());
                }
                Context::Fetch(fetch) => {
                    self.on_fetched(step, fetch, (header.status(), body));
                }
                Context::ReadBack(read) => self.on_read_back(step, read, (header.status(), body)),
                Context::Recovered { key, attempt, done } => {
                    self.on_published(step, key, (attempt, done), header.status());
                }
            }
        }
        self.advance(step);
    }

    pub fn on_lost(&mut self, now: Instant, addr: SocketAddr, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.shard.replicator.on_lost(step.now, addr);
        for call in self.calls.lost(addr) {
            self.on_unanswered(step.now, call);
        }
        self.advance(step);
    }

    pub fn on_list(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.shard.replicator.on_list(step.now, step.view);
        let recovered: BTreeSet<ServerId> = step.view.list.recovered().collect();
        if recovered.is_empty() {
            self.recovering_since = None;
        } else if !recovered.is_subset(&self.recovered) {
            self.recovering_since = Some(step.now);
        }
        self.recovered = recovered;
        self.shard.touching.on_list(step.now, self.recovering_since);
        self.advance(step);
    }

    pub fn tick(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.shard.replicator.tick(step.now);
        while let Some(call) = self.calls.overdue(step.now) {
            self.on_unanswered(step.now, call);
        }
        if !self.busy {
            self.shard.scrub_slice(step);
            if self.replays.is_empty() {
                self.shard.touch_slice(step.now);
            }
        }
        self.confirm_when_due(step);
        self.advance(step);
    }

    pub fn deadline(&self) -> Option<Instant> {
        let own = if self.busy { Some(Instant::ZERO) } else { self.shard.cleaning_deadline() };
        let replays = self.replays.values().filter_map(|r| r.retry_at()).min();
        let own = earliest(earliest(own, self.shard.scrub.deadline()), self.ceiling.deadline());
        let own = earliest(own, self.leases.deadline(self.shard.log.leases().next().is_some()));
        let is_idle = !self.busy && self.replays.is_empty();
        let touching = self.shard.touching_deadline().filter(|_| is_idle);
        let own = earliest(earliest(own, self.read_lease.deadline()), touching);
        let own = earliest(earliest(own, self.migrating.deadline()), self.settling.deadline());
        let own = earliest(earliest(own, self.expiry_deadline()), self.confirming.deadline());
        earliest(earliest(own, replays), earliest(self.calls.deadline(), self.shard.replicator.deadline()))
    }

    fn on_unanswered(&mut self, now: Instant, call: Call<Context>) {
        match call.context {
            Context::CeilingRaise => {
                self.ceiling.raising = false;
                self.ceiling.ask_at = now + ceiling::PAUSE;
            }
            Context::LeaseCheck(_) => self.on_lease_check_unanswered(now),
            Context::ReadLease => self.on_read_lease(now, None),
            Context::Confirm(table) => self.confirming.not_answered(table),
            Context::Migrated(range) => self.migrating.not_answered(now, range),
            Context::Settled { stream, first, .. } => self.settled_unanswered(now, (stream, first)),
            Context::Fetch(fetch) => self.on_fetch_failed(fetch),
            Context::ReadBack(read) => self.shard.on_read_back_unanswered(now, read),
            Context::Recovered { key, attempt, done } => {
                if let Some(replay) = self.replays.get_mut(&key)
                    && replay.has_reported(attempt, done)
                {
                    replay.report_unanswered(now);
                }
            }
        }
    }

    /// Advances after a mutation: only replication can have something new to do, and only if something was appended.
    fn advance_if_appended(&mut self, step: &mut Step<'_>) {
        if std::mem::take(&mut self.shard.appended) {
            self.shard.replicator.advance_heads(
                step.now,
                &LogSegments(&self.shard.log),
                step.view,
                step.effects,
            );
            self.release_parked(step);
        }
        self.plan_expiry(step.now, step.view);
        self.advance_ceiling(step);
        self.advance_leases(step);
        if self.read_lease.is_due(step.now) {
            self.advance_read_lease(step);
        }
    }

    /// Compares wanted and reached everywhere, and sends whatever is due.
    fn advance(&mut self, step: &mut Step<'_>) {
        self.advance_ceiling(step);
        self.advance_leases(step);
        self.advance_replays(step);
        self.advance_migration(step);
        let (shard, owner) = self.shard_and_owner();
        shard.look_for_dead(step.now, &owner);
        shard.leave_dead(step, &owner);
        self.hold_heads();
        self.shard.replicator.tell_short(self.shard.wants_cleaning());
        self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
        if !self.replays.is_empty() || self.migrating.is_waiting() {
            // The entries that have just become durable may be those that a recovery, or a stretch, waits for.
            self.advance_replays(step);
            self.advance_migration(step);
            self.hold_heads();
            self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
        }
        for segment in self.shard.replicator.take_refused() {
            self.shard.look_for_damage(step, segment);
        }
        self.advance_repairs(step);
        self.expire_when_due(step);
        self.clean_when_idle(step);
        self.advance_settling(step);
        self.advance_cleaning(step);
        self.replicate_cleaning(step);
        self.advance_takes(step.now, step.effects);
        self.advance_sweeps(step);
        self.advance_divisions(step);
        self.release_parked(step);
        self.advance_read_lease(step);
        self.busy = (!self.sweeps.is_empty() && !self.is_sweep_waiting())
            || self.is_dividing()
            || self.migrating.is_busy(|segment| self.shard.scrub.is_damaged(segment))
            || self.replays.values().any(|r| r.is_busy())
            || self.shard.is_cleaning(step.now);
    }

    /// Events on which the node must act.
    pub fn take_events(&mut self) -> Vec<Event> {
        if self.shard.replicator.has_events() {
            self.events.extend(self.shard.replicator.take_events());
        }
        std::mem::take(&mut self.events)
    }

    /// Bytes of memory that are left to touch ahead of need.
    pub fn untouched_bytes(&self) -> u64 {
        self.shard.untouched_bytes()
    }

    pub fn log(&self) -> &Log {
        &self.shard.log
    }

    /// Reads that had to wait for the read lease since the start, and how many of them were refused.
    pub fn read_lease_counters(&self) -> (u64, u64) {
        (self.counters.lease_waits, self.counters.lease_refusals)
    }

    /// Counts of the work of cleaning since the start.
    pub fn cleaning(&self) -> CleaningCounters {
        self.shard.cleaning.counters
    }

    /// Flips one bit of a segment in memory, as a cosmic ray would. For tests of the consequences.
    #[doc(hidden)]
    pub fn flip_bit(&mut self, segment: SegmentId, offset: u32, bit: u8) {
        self.shard.log.flip_bit(segment, offset, bit);
    }

    pub fn replicator(&self) -> &Replicator {
        &self.shard.replicator
    }

    /// Panics when an invariant does not hold. Walks over everything.
    pub fn check_invariants(&self) {
        self.shard.log.check_invariants();
        self.check_counts();
        self.multis.check_invariants();
        self.shard.replicator.check_invariants();
    }

    /// Whether this server is replaying a log of `server`. Used to tell who still needs that server's replicas.
    pub fn is_replaying(&self, server: ServerId) -> bool {
        self.replays.values().any(|r| r.crashed() == server)
    }
}
