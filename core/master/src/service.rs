//! Everything that serves the objects of one shard's tablets: requests of clients, and the log that they change.
//!
//! A `Service` owns the shard, the tablets, and the parts that a request passes: leases, version ceiling, answers,
//! expiry. It is lent to the parts that change which tablets are here: recoveries, reclassing, divisions, takes. They
//! leave with it the few facts that requests must heed: the frozen stretch, ranges whose results may be at too few
//! backups, positions that are not settled.
//!
//! Invariant: nothing here knows a recovery, a stretch's phase, or a division.
//!
//! Not here: these parts, and the order in which all parts advance (`master`).

use crate::MasterConfig;
use crate::answers::Answers;
use crate::calls::Context;
use crate::ceiling::Ceiling;
use crate::confirm::Confirming;
use crate::expiry::Expiry;
use crate::leases::Leases;
use crate::owner::Owns;
use crate::settling::Settlings;
use crate::sweeps::Sweeps;
use crate::tablets::{Tablet, Tablets};
use ramhold_base::{Instant, KeyHash, LogId, Rng, Status, StreamId, TableId, Version};
use ramhold_log::{HashRange, Log, LogConfig};
use ramhold_placement::Traffic;
use ramhold_replication::{Event, FlushWish, Replicator};
use ramhold_shard::{CleaningConfig, LogSegments, ScrubConfig, Shard, ShardConfig};
use ramhold_wire::class::StreamClass;
use ramhold_wire::{CallRole, Calls, Step, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// Mutations of a turn whose bodies have this many bytes together are sent to the backups before the turn is over, so
/// that large values are on their way while the next ones are taken in.
const PUT_OFF_BYTES_MAX: u64 = 64 * 1024;
/// How long a request to join tablets is remembered. The coordinator repeats it every few seconds.
const UNITE_FOR: Duration = Duration::from_secs(30);

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub reads: u64,
    pub writes: u64,
    /// Repeated mutations that got their first answer again.
    pub recalled: u64,
    /// Mutations that were dropped: there was no room to remember their results, or their results could not be told
    /// yet.
    pub dropped: u64,
}

/// The work that mutations and reads of this turn leave to its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PutOff {
    pub mutations: bool,
    /// Bytes of their bodies, for which cleaning is not paid yet.
    pub bytes: u64,
}

pub(crate) struct Service {
    pub config: MasterConfig,
    pub shard: Shard,
    pub tablets: Tablets,
    pub leases: Leases,
    pub answers: Answers,
    pub ceiling: Ceiling,
    pub confirming: Confirming,
    pub expiry: Expiry,
    pub sweeps: Sweeps,
    /// Recovered positions that devices may not have yet.
    pub settling: Settlings,
    /// The wishes of the tablet that is being reclassed.
    pub wishes_to_move: Vec<FlushWish>,
    /// Tablets that are to be joined and are in several streams: until when that is known, and where each is to go.
    pub to_unite: BTreeMap<TableId, (Instant, Vec<(HashRange, StreamId)>)>,
    pub calls: Calls<Context>,
    pub counters: Counters,
    pub put_off: PutOff,
    /// Bytes of dead logs that were fetched.
    pub fetched: Traffic,
    pub events: Vec<Event>,
}

impl Service {
    /// Notes which tablets of each of these ranges are to move to the stream of the first one: one of them went to another
    /// neighbourhood before this server heard that they are to be joined.
    pub fn unite(&mut self, now: Instant, table: TableId, ranges: &[HashRange]) {
        let mut moves = Vec::new();
        for range in ranges {
            let meets = |t: &&Tablet| t.range.first <= range.last && range.first <= t.range.last;
            let mut tablets = self.tablets.of(table).filter(meets);
            let Some(first) = tablets.next() else { continue };
            let class = self.shard.class_of(first.stream);
            let is_other = |t: &&Tablet| t.stream != first.stream && self.shard.class_of(t.stream) == class;
            moves.extend(tablets.filter(is_other).map(|t| (t.range, first.stream)));
        }
        if moves.is_empty() {
            self.to_unite.remove(&table);
        } else {
            self.to_unite.insert(table, (now + UNITE_FOR, moves));
        }
    }

    /// How long the replicas of a tablet in that stream take at the rate of copies; zero where that has no bound.
    pub fn copying_time(&self, (table, first): (TableId, KeyHash), stream: StreamId) -> Duration {
        let replicas = self.shard.class_of(stream).map_or(0, |class| u64::from(class.replicas));
        let stat = self.shard.log.stats().find(|stat| (stat.table, stat.first) == (table, first));
        let bytes = stat.map_or(0, |stat| stat.bytes.saturating_mul(replicas));
        self.shard.replicator.copying_time(bytes)
    }

    /// The stream for another tablet of a class: that of the neighbourhood with the fewest tablets, where the placement
    /// has neighbourhoods. `also`: streams that are to have one more each.
    pub fn stream_for(
        &mut self,
        class: StreamClass,
        view: &View,
        also: &[StreamId],
    ) -> Result<StreamId, Status> {
        // Nobody recovers tablets without replicas.
        let names = match class.replicas {
            0 => Vec::new(),
            replicas => self.shard.replicator.neighbourhoods(view, replicas).unwrap_or_default(),
        };
        let stream_of = |name: &str| self.shard.replicator.stream_of(class, Some(name));
        let count = |stream: StreamId| {
            let tablets = self.tablets.all().filter(|tablet| tablet.stream == stream).count();
            tablets + also.iter().filter(|other| **other == stream).count()
        };
        let least = names.iter().min_by_key(|name| stream_of(name).map_or(0, count));
        self.shard.stream_for(class, least.map(String::as_str))
    }

    /// A service with an empty log. See `Master::new`.
    pub fn new(config: MasterConfig, region: Vec<u8>, view: &View, ceiling: Version, seed: u64) -> Service {
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
        let calls = Calls::new(CallRole::Master, rng.u64());
        let shard = Shard::new(
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
        );
        Service {
            answers: Answers::new(&config),
            leases: Leases::new(config.lease_sweep_interval),
            config,
            shard,
            tablets: Tablets::default(),
            ceiling: Ceiling::new(ceiling),
            confirming: Confirming::default(),
            expiry: Expiry::default(),
            sweeps: Sweeps::default(),
            settling: Settlings::default(),
            wishes_to_move: Vec::new(),
            to_unite: BTreeMap::new(),
            calls,
            counters: Counters::default(),
            put_off: PutOff::default(),
            fetched: Traffic::default(),
            events: Vec::new(),
        }
    }

    /// The shard, with the owner that answers the shard's questions.
    pub fn shard_and_owner(&mut self) -> (&mut Shard, Owns<'_>) {
        let (shard, owner, _) = self.shard_owner_and_calls();
        (shard, owner)
    }

    pub fn shard_owner_and_calls(&mut self) -> (&mut Shard, Owns<'_>, &mut Calls<Context>) {
        let Service { shard, tablets, settling, ceiling, calls, .. } = self;
        (shard, Owns { tablets, settling, ceiling }, calls)
    }

    /// Sends everything that waits for a backup or a grant, and that is due.
    pub fn replicate(&mut self, step: &mut Step<'_>) {
        let (shard, owner) = self.shard_and_owner();
        shard.roll_unspread(step, &owner);
        self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
    }

    /// Puts off what a mutation whose body has `bytes` makes due: replication, the read lease, its payment for cleaning.
    /// It is done once for all mutations of a turn, or before that once their bodies are large together.
    pub fn put_off_after_mutation(&mut self, step: &mut Step<'_>, bytes: u64) {
        self.put_off.mutations = true;
        self.put_off.bytes += bytes;
        if self.put_off.bytes >= PUT_OFF_BYTES_MAX {
            self.advance_after_mutations(step);
        }
    }

    /// The same after a read, if it removed an expired object or needs the read lease.
    pub fn put_off_after_read(&mut self, step: &Step<'_>) {
        if self.shard.appended || self.answers.read_lease.is_due(step.now) {
            self.put_off.mutations = true;
        }
    }

    /// Advances after mutations, and lets them pay for cleaning.
    pub fn advance_after_mutations(&mut self, step: &mut Step<'_>) {
        let put_off = std::mem::take(&mut self.put_off);
        if put_off.mutations {
            self.advance_if_appended(step);
            if put_off.bytes > 0 {
                self.pay_for_cleaning(step, put_off.bytes);
            }
        }
    }

    /// Advances after a mutation: only replication can have something new to do, and only if something was appended.
    pub fn advance_if_appended(&mut self, step: &mut Step<'_>) {
        if std::mem::take(&mut self.shard.appended) {
            self.shard.replicator.advance_heads(
                step.now,
                &LogSegments(&self.shard.log),
                step.view,
                step.effects,
            );
            self.answers.release(step, &self.shard);
        }
        self.expiry.plan(step.now, &self.shard.log, step.view);
        self.ceiling.advance(step, &mut self.calls);
        self.leases.advance(step, &mut self.shard.log, &mut self.calls);
        if self.answers.read_lease.is_due(step.now) {
            self.advance_read_lease(step);
        }
    }

    /// Keeps the read lease while it is used, and answers the requests that wait for it.
    pub fn advance_read_lease(&mut self, step: &mut Step<'_>) {
        self.answers.advance_read_lease(step, &mut self.shard, &mut self.calls);
    }
}
