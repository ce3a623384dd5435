//! One recovery per crashed server: ask, prove, divide, and see it through.
//!
//! The recovery's record and the owners of tablets tell everything that is durable. Everything here can be found out
//! again: after a restart the backups are asked again, the log is proven again, and the tablets that are still the dead
//! server's are divided anew.
//!
//! Invariants:
//! - ends are stored before anybody is told of them, and change while a partition is live only with a loss;
//! - every division has an id of its own, so that neither backups nor masters mix two divisions;
//! - a dead server is removed only when no table has a tablet of it, and no piece names its log.
//!
//! Not here: recovery masters at work (`replaying`), their results (`publish`), what is lost (`losses`).
//! Protocol: docs/protocols/recovery.md. Catalogue: F2, F3, F5, F6, F7, D2.

use crate::asked::Asked;
use crate::clock::millis;
use crate::cut::DeadTablet;
use crate::divide::{Bounds, divide};
use crate::gone;
use crate::losses;
use crate::machine::Coordinator;
use crate::prove::{Evidence, HeldReplica, Missing, Proof, StreamProof, prove};
use crate::records::{EndRecord, Key, RecoveryRecord};
use crate::replaying::Plan;
use crate::retry::Retry;
use crate::room::Admission;
use crate::timeline;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{DirectoryId, Instant, KeyHash, Level, Peer, RecoveryId, ServerId, Status, TableId};
use ramhold_wire::membership::ServerState;
use ramhold_wire::recovery::{Fence, Fenced, PartitionRange, Recovered, ReplicaReport, TabletStat};
use ramhold_wire::{Header, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Answers that come within this time are looked at together.
const PROOF_INTERVAL: Duration = Duration::from_millis(20);
/// How often the backups of an incomplete log are asked again, because they may have come to hold more.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Recovery {
    asks: BTreeMap<ServerId, Ask>,
    /// The version of the server list that `asks` follow.
    list_version: u64,
    begun: Instant,
    ask_again_at: Instant,
    /// Something was reported since the last look at the log.
    changed: bool,
    look_at: Instant,
    pub(crate) proof: Option<Proof>,
    complete_since: Option<Instant>,
    pub(crate) missing: Vec<Missing>,
    /// The missing parts that were last reported.
    missing_told: Vec<Missing>,
    pub(crate) plan: Option<Plan>,
    /// Earlier logs of some tablets that lack a part. The other tablets are divided without those.
    pub(crate) lacking: BTreeSet<ServerId>,
    /// Whether this recovery may be replayed; see `room`.
    pub(crate) admission: Admission,
    /// Until this instant the dead server may answer reads, as far as backups and coordinators have told what they
    /// granted.
    pub(crate) lease_until: Instant,
    /// The lease was once clearly over, and stays so.
    lease_over: bool,
    /// This recovery found no room though nothing else was at work. Until this instant other recoveries may try.
    pub(crate) leaves_to_others_until: Instant,
    /// How often this recovery found no room since something of it went live.
    pub(crate) fruitless: u32,
    /// The most bytes that a partition is to have, because no master had room for a larger one since something went
    /// live.
    pub(crate) partition_bytes_max: Option<u64>,
    /// Results of recovery masters that came before the lease was over.
    pub(crate) early: Vec<(Peer, Header, Recovered)>,
    /// Tablets of `none` tables may still name the dead server.
    retake: bool,
    /// Whether the recovery is over has to be looked at.
    pub(crate) check_done: bool,
    pub(crate) wake: Instant,
}

/// The question to one backup, and its answer.
#[derive(Debug)]
struct Ask {
    retry: Retry,
    pending: bool,
    /// The backup has answered once, so it refuses the dead server.
    fenced: bool,
    answer: Option<Vec<ReplicaReport>>,
}

impl Recovery {
    pub fn new(now: Instant, lease_until: Instant) -> Recovery {
        Recovery {
            asks: BTreeMap::new(),
            list_version: 0,
            begun: now,
            ask_again_at: now + ASK_AGAIN_INTERVAL,
            changed: true,
            look_at: now,
            proof: None,
            complete_since: None,
            missing: Vec::new(),
            missing_told: Vec::new(),
            plan: None,
            lacking: BTreeSet::new(),
            admission: Admission::None,
            lease_until,
            lease_over: false,
            leaves_to_others_until: Instant::ZERO,
            fruitless: 0,
            partition_bytes_max: None,
            early: Vec::new(),
            retake: true,
            check_done: true,
            wake: Instant::ZERO,
        }
    }

    /// Something of this recovery went live, so there was room.
    pub(crate) fn found_room(&mut self) {
        self.fruitless = 0;
        self.partition_bytes_max = None;
    }

    /// Whether every backup that is Up refuses the dead server.
    pub fn is_fenced(&self) -> bool {
        self.list_version > 0 && self.asks.values().all(|a| a.fenced)
    }

    /// Whether the dead server answers no reads any more. Its log is proven, so backups without which it could not have
    /// the lease refuse it; and everything that they and the coordinator had granted is over
    /// (docs/protocols/read-leases.md).
    pub fn is_lease_over(&self, now: Instant) -> bool {
        self.lease_over || (self.proof.is_some() && (now >= self.lease_until || planted(Defect::OpenedEarly)))
    }

    /// Whether the log can be replayed, and no backup is waited for that might tell of more.
    pub(crate) fn is_proven(&self, now: Instant, config: &crate::config::CoordinatorConfig) -> bool {
        let patient = self.complete_since.map(|since| since + config.ask_wait);
        patient.is_some_and(|until| until <= now || self.all_answered())
    }

    /// Whether some part of the log is at no backup that is there.
    pub(crate) fn is_lacking(&self) -> bool {
        !self.missing.is_empty() && !self.changed && self.all_answered()
    }

    /// Whether the log is known as every backup in the list of this version has told it.
    pub(crate) fn is_of(&self, list_version: u64) -> bool {
        self.list_version == list_version && !self.changed && self.all_answered()
    }

    pub(crate) fn all_answered(&self) -> bool {
        self.asks.values().all(|a| a.answer.is_some())
    }

    /// The reports cannot be relied on any more, so all backups are asked anew.
    pub(crate) fn ask_anew(&mut self, config: &crate::config::CoordinatorConfig) {
        for ask in self.asks.values_mut() {
            ask.pending = true;
            ask.answer = None;
            ask.retry = Retry::new(config);
        }
        self.proof = None;
        self.complete_since = None;
        self.changed = true;
        self.wake = Instant::ZERO;
    }

    /// The evidence has changed, and the dead server may have been granted a lease until `lease_until`.
    pub(crate) fn look_anew(&mut self, lease_until: Instant) {
        self.lease_until = self.lease_until.max(lease_until);
        self.changed = true;
        self.look_at = Instant::ZERO;
        self.wake = Instant::ZERO;
    }

    /// The division no longer fits, so the rest is divided anew.
    pub(crate) fn plan_anew(&mut self) {
        self.plan = None;
        self.changed = true;
        self.check_done = true;
        self.look_at = Instant::ZERO;
        self.wake = Instant::ZERO;
    }
}

impl Coordinator {
    pub(crate) fn resume_recoveries(&mut self, now: Instant) {
        let open = self.desk.state.recoveries.values().filter(|r| !r.done).map(|r| (r.id, r.crashed));
        for (id, crashed) in open.collect::<Vec<_>>() {
            let lease_until = self.read_leases.granted_until(crashed);
            self.recoveries.insert(id, Recovery::new(now, lease_until));
        }
        self.recovery_wake = Instant::ZERO;
    }

    pub(crate) fn wake_recoveries(&mut self) {
        for recovery in self.recoveries.values_mut() {
            recovery.check_done = true;
            recovery.wake = Instant::ZERO;
        }
        self.kept_changed = true;
        self.recovery_wake = Instant::ZERO;
    }

    pub(crate) fn wake_recovery(&mut self, id: RecoveryId, at: Instant) {
        if let Some(recovery) = self.recoveries.get_mut(&id) {
            recovery.wake = recovery.wake.min(at);
            self.recovery_wake = self.recovery_wake.min(at);
        }
    }

    pub(crate) fn advance_recoveries(&mut self, now: Instant) {
        if std::mem::take(&mut self.desk.notes.recoveries) {
            self.wake_recoveries();
        }
        if self.recovery_wake > now {
            return;
        }
        self.let_go(now);
        self.ask_for_room(now);
        let cold = |id: &RecoveryId| self.desk.state.recoveries.get(id).is_some_and(|r| r.cold && !r.done);
        let all_proven = self.recoveries.iter().all(|(id, r)| !cold(id) || r.proof.is_some());
        let cold_ready = now >= self.cold_until && all_proven;
        let version = self.desk.state.meta.list_version;
        let due: Vec<RecoveryId> = self
            .recoveries
            .iter()
            .filter(|(id, r)| r.wake <= now || r.list_version != version || (cold_ready && cold(id)))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(mut recovery) = self.recoveries.remove(&id) else { continue };
            recovery.wake = Instant::FAR;
            if !self.advance_recovery(now, id, &mut recovery, cold_ready) {
                let is_lease_over = recovery.is_lease_over(now);
                let early = if is_lease_over { std::mem::take(&mut recovery.early) } else { Vec::new() };
                self.recoveries.insert(id, recovery);
                self.publish_early(now, early);
            }
        }
        let version = self.desk.state.meta.list_version;
        let wake = |r: &Recovery| if r.list_version == version { r.wake } else { now };
        let wake = self.recoveries.values().map(wake).min().unwrap_or(Instant::FAR);
        self.recovery_wake = wake.min(self.room_wake());
    }

    /// `true`: the recovery is over.
    fn advance_recovery(
        &mut self,
        now: Instant,
        id: RecoveryId,
        recovery: &mut Recovery,
        cold_ready: bool,
    ) -> bool {
        let Some(record) = self.desk.state.recoveries.get(&id) else { return true };
        let crashed = record.crashed;
        if record.done {
            return self.advance_kept(now, id, crashed, recovery);
        }
        // Nothing was ever published before the lease was over.
        recovery.lease_over |= recovery.is_lease_over(now) || !record.published.is_empty();
        self.ask_backups(now, id, crashed, recovery);
        let patient = recovery.begun + self.desk.config.ask_wait;
        let heard = recovery.all_answered() || patient <= now;
        if !heard {
            recovery.wake = recovery.wake.min(patient);
        }
        self.look(now, id, recovery);
        if recovery.proof.is_some() && now < recovery.lease_until {
            recovery.wake = recovery.wake.min(recovery.lease_until);
        }
        recovery.lease_over |= recovery.is_lease_over(now);
        if recovery.is_fenced() {
            timeline::note_step(now, &mut self.desk, id, |steps| &mut steps.fenced);
        }
        if recovery.lease_over {
            timeline::note_step(now, &mut self.desk, id, |steps| &mut steps.lease_over);
        }
        // A server that owned no table without replicas can answer nothing about one.
        let may_retake = recovery.lease_over || !losses::has_unreplicated(&self.desk, crashed);
        if heard && recovery.retake && self.start_check.is_none() && may_retake {
            let retaken = losses::retake_unreplicated(now, &mut self.desk, crashed);
            recovery.retake = retaken.is_none();
            retaken.into_iter().flatten().for_each(|table| self.want_tablets(table));
            recovery.check_done = true;
        }
        if recovery.check_done {
            recovery.check_done = false;
            if !recovery.retake
                && !self.desk.state.has_tablets(crashed)
                && !self.progress.dropping.wait_for(crashed)
            {
                self.end_recovery(now, id, crashed);
                return true;
            }
        }
        self.refresh_earlier(now, recovery);
        if !recovery.lacking.is_empty() && recovery.plan.as_ref().is_some_and(Plan::is_live) {
            // The tablets that were left out come next, as soon as their logs are there.
            recovery.plan = None;
        }
        let may_divide = self.may_divide(now, id, recovery, cold_ready)
            && self.has_earlier(now, crashed, recovery)
            && self.admit(now, id, recovery);
        if may_divide && recovery.plan.is_none() {
            self.divide(now, id, recovery);
        }
        self.replay(now, id, recovery, may_divide);
        false
    }

    // Ask.

    pub(crate) fn ask_backups(
        &mut self,
        now: Instant,
        id: RecoveryId,
        crashed: ServerId,
        recovery: &mut Recovery,
    ) {
        if recovery.list_version != self.desk.state.meta.list_version {
            recovery.list_version = self.desk.state.meta.list_version;
            let up: BTreeSet<ServerId> =
                self.desk.state.all_up().filter(|s| s.entry.backup).map(|s| s.entry.id).collect();
            let before = recovery.asks.len();
            recovery.asks.retain(|backup, _| up.contains(backup));
            recovery.changed |= recovery.asks.len() != before;
            for backup in up {
                recovery.asks.entry(backup).or_insert_with(|| {
                    recovery.changed = true;
                    Ask { retry: Retry::new(&self.desk.config), pending: true, fenced: false, answer: None }
                });
            }
            if recovery.is_fenced() {
                self.desk.look_at_tablets();
            }
        }
        if recovery.ask_again_at <= now {
            recovery.ask_again_at = now + ASK_AGAIN_INTERVAL;
            if !recovery.missing.is_empty() {
                for ask in recovery.asks.values_mut().filter(|a| !a.pending) {
                    ask.pending = true;
                    ask.retry = Retry::new(&self.desk.config);
                }
            }
        }
        if !recovery.missing.is_empty() {
            recovery.wake = recovery.wake.min(recovery.ask_again_at);
        }
        let mut due = Vec::new();
        for (backup, ask) in recovery.asks.iter_mut().filter(|(_, a)| a.pending) {
            if ask.retry.take(now, &self.desk.config) {
                due.push(*backup);
            }
            recovery.wake = recovery.wake.min(ask.retry.next());
        }
        if !due.is_empty() {
            timeline::note_step(now, &mut self.desk, id, |steps| &mut steps.asked);
        }
        for server in due {
            // A message of a few bytes always fits.
            let _ = self.desk.ask(now, server, Asked::Fence { recovery: id, server }, &Fence { crashed });
        }
    }

    pub(crate) fn on_fenced(
        &mut self,
        now: Instant,
        id: RecoveryId,
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        let Fenced { replicas, lease_millis } = match status {
            Status::Ok => match decode::<Fenced>(body) {
                Ok(fenced) => fenced,
                Err(_) => return,
            },
            // The backup's replicas are lost for good. Just before that, it may still have granted a lease.
            Status::DeviceFailed => Fenced { lease_millis: millis(READ_LEASE), ..Fenced::default() },
            _ => return,
        };
        let Some(recovery) = self.recoveries.get_mut(&id) else { return };
        let Some(ask) = recovery.asks.get_mut(&server) else { return };
        let changed = ask.answer.as_ref() != Some(&replicas);
        ask.pending = false;
        ask.fenced = true;
        ask.answer = Some(replicas);
        recovery.lease_until = recovery.lease_until.max(now + Duration::from_millis(lease_millis));
        recovery.changed |= changed;
        let at = if recovery.all_answered() { Instant::ZERO } else { now + PROOF_INTERVAL };
        if recovery.is_fenced() {
            self.desk.look_at_tablets();
        }
        self.wake_recovery(id, at);
    }

    // Prove.

    pub(crate) fn look(&mut self, now: Instant, id: RecoveryId, recovery: &mut Recovery) {
        if !recovery.changed {
            return;
        }
        let all_answered = recovery.all_answered();
        if !all_answered && recovery.look_at > now {
            recovery.wake = recovery.wake.min(recovery.look_at);
            return;
        }
        recovery.changed = false;
        recovery.look_at = now + PROOF_INTERVAL;
        let Some(record) = self.desk.state.recoveries.get(&id) else { return };
        let Some(server) = self.desk.state.servers.get(&record.crashed) else { return };
        let final_answer =
            all_answered && self.start_check.is_none() && self.all_directories(record, recovery);
        let evidence = match (final_answer, record.given_up.is_empty()) {
            (false, _) => Evidence::Partial,
            (true, true) => Evidence::Final,
            (true, false) => Evidence::GivenUp,
        };
        let held: Vec<HeldReplica<'_>> = recovery
            .asks
            .iter()
            .flat_map(|(backup, ask)| ask.answer.iter().flatten().map(|report| (*backup, report)))
            .map(|(backup, report)| HeldReplica { backup, report })
            .collect();
        let live = !record.published.is_empty();
        let fixed: &[EndRecord] = if live || recovery.plan.is_some() { &record.ends } else { &[] };
        let result = if live || fixed.is_empty() {
            prove(&server.streams, &held, fixed, evidence)
        } else {
            // No partition is live, so the ends may be chosen again.
            prove(&server.streams, &held, fixed, Evidence::Partial)
                .or_else(|_| prove(&server.streams, &held, &[], evidence))
        };
        match result {
            Ok(proof) => {
                recovery.complete_since.get_or_insert(now);
                recovery.missing.clear();
                if recovery.plan.as_ref().is_some_and(|plan| !plan.proof().replays_like(&proof)) {
                    recovery.plan = None;
                }
                if let Some(plan) = &mut recovery.plan {
                    plan.refresh(proof.clone());
                }
                recovery.proof = Some(proof);
                // Drops may have waited for this proof.
                self.desk.look_at_tablets();
            }
            Err(missing) => {
                recovery.proof = None;
                recovery.complete_since = None;
                if all_answered && recovery.missing_told != missing {
                    recovery.missing_told.clone_from(&missing);
                    let first = missing.first().map(Missing::to_string).unwrap_or_default();
                    let text =
                        format!("{id} of {} waits, {} missing: {first}", record.crashed, missing.len());
                    self.desk.outbox.report(Level::Warn, text);
                }
                recovery.missing = missing;
                recovery.ask_again_at = recovery.ask_again_at.max(now + PROOF_INTERVAL);
                recovery.wake = recovery.wake.min(recovery.ask_again_at);
            }
        }
    }

    /// Whether every directory that may hold a replica has answered in its present life, or was given up.
    fn all_directories(&self, record: &RecoveryRecord, recovery: &Recovery) -> bool {
        self.silent_directories(record, recovery).is_empty()
    }

    /// Directories that may hold a replica, have not answered in their present life, and were not given up.
    pub(crate) fn silent_directories(
        &self,
        record: &RecoveryRecord,
        recovery: &Recovery,
    ) -> BTreeSet<DirectoryId> {
        let answered = |id: &ServerId| recovery.asks.get(id).is_some_and(|a| a.answer.is_some());
        let present = self.desk.state.all_up().filter(|s| answered(&s.entry.id)).map(|s| s.entry.directory);
        let given_up = record.given_up.iter().map(|away| away.directory);
        let settled: BTreeSet<DirectoryId> = present.chain(given_up).collect();
        record.directories.iter().copied().filter(|d| !settled.contains(d)).collect()
    }

    fn may_divide(&self, now: Instant, id: RecoveryId, recovery: &mut Recovery, cold_ready: bool) -> bool {
        let Some(since) = recovery.complete_since else { return false };
        let patient = since + self.desk.config.ask_wait;
        if !recovery.all_answered() && patient > now {
            recovery.wake = recovery.wake.min(patient);
            return false;
        }
        let Some(record) = self.desk.state.recoveries.get(&id) else { return false };
        if record.cold && !cold_ready {
            let present: BTreeSet<DirectoryId> =
                self.desk.state.all_up().map(|s| s.entry.directory).collect();
            if !record.directories.iter().all(|d| present.contains(d)) {
                recovery.wake = recovery.wake.min(self.cold_until.max(now + PROOF_INTERVAL));
                return false;
            }
        }
        self.start_check.is_none()
    }

    // Divide.

    fn divide(&mut self, now: Instant, id: RecoveryId, recovery: &mut Recovery) {
        let Some(proof) = recovery.proof.clone() else { return };
        let Some(crashed) = self.desk.state.recoveries.get(&id).map(|r| r.crashed) else { return };
        let time = self.desk.time(now);
        let mut tablets = self.dead_tablets(crashed, &proof);
        tablets.retain(|tablet| {
            !self.desk.state.is_recovered_from_any(crashed, &tablet.range, &recovery.lacking)
        });
        if tablets.is_empty() {
            return;
        }
        let weight = tablets.iter().map(DeadTablet::bytes).fold(0, u64::saturating_add);
        let ranges = divide(&tablets, &self.bounds(weight, recovery.partition_bytes_max));
        let plan_id = self.desk.state.meta.recoveries.next();
        self.desk.state.meta.recoveries = plan_id;
        let earlier = self.divide_earlier(crashed, time, &ranges);
        let plan = Plan::new(plan_id, ranges, weight, proof.clone(), earlier);
        let losses = losses::file_losses(&mut self.desk, id, crashed, time, &proof);
        let Some(record) = self.desk.state.recoveries.get_mut(&id) else { return };
        record.plan = plan_id;
        record.ends = proof.ends();
        if let Some(losses) = losses {
            record.losses = losses;
        }
        record.partitions = record.published.len() as u32 + plan.partitions.len() as u32;
        record.segments = proof.segments();
        let since = time.0.saturating_sub(record.detected.0);
        record.complete_millis.get_or_insert(since);
        let text = format!(
            "{id}: the log of {crashed} is {}; {} segments, {} tablets in {} partitions, {since} ms after the verdict",
            if proof.has_loss() { "incomplete for good, see the loss report" } else { "complete" },
            record.segments,
            tablets.len(),
            plan.partitions.len(),
        );
        self.desk.outbox.report(Level::Info, text);
        self.desk.outbox.touch(Key::Meta);
        self.desk.outbox.touch(Key::Recovery(id));
        recovery.plan = Some(plan);
    }

    /// The bounds of partitions of a log of this many live bytes; `most`: the most that one partition is to have.
    pub(crate) fn bounds(&self, weight: u64, most: Option<u64>) -> Bounds {
        let masters = self.desk.state.all_up().filter(|s| s.entry.master).count() as u64;
        // All masters that are up share the work, but none works on scraps. Parts do not come out even, least of all
        // between slots: a sixteenth is room for that.
        let share = weight.div_ceil(masters.max(1));
        // If some masters have more room than others they get more (see `room`). Then there are two parts for each
        // master.
        let share = if self.uneven_masters(share).is_some() { share.div_ceil(2) } else { share };
        let share = share.saturating_mul(17) / 16;
        let share = share.saturating_add(u64::from(self.desk.config.segment_bytes));
        let wanted =
            share.max(self.desk.config.partition_bytes_min).min(self.desk.config.partition_bytes_max);
        Bounds {
            bytes_wanted: wanted.min(most.unwrap_or(u64::MAX)).max(1),
            bytes_max: self.desk.config.partition_bytes_max,
            records_max: self.desk.config.partition_records_max,
            segment_bytes: self.desk.config.segment_bytes,
        }
    }

    /// The tablets that are still the dead server's, with the weight that its heads told.
    pub(crate) fn dead_tablets(&self, crashed: ServerId, proof: &Proof) -> Vec<DeadTablet> {
        let mut tablets = Vec::new();
        let kept = self.desk.state.tables.values().filter(|t| !t.dropping && t.options.replicas > 0);
        for table in kept {
            for tablet in table.tablets.iter().filter(|t| t.owner == crashed && t.taken) {
                let range = PartitionRange {
                    partition: 0,
                    table: table.id,
                    seed: table.seed,
                    first: tablet.first,
                    last: tablet.last,
                    shard: tablet.shard,
                    stream: tablet.stream,
                    first_segment: tablet.first_segment,
                    durability: table.options.durability,
                    replicas: table.options.replicas,
                    slots: table.options.slots,
                };
                let mut streams = proof.streams.iter();
                let stream = streams.find(|s| (s.shard, s.stream) == (tablet.shard, tablet.stream));
                let stats = stream.map_or(&[][..], |s| &s.stats);
                let mut stats: Vec<TabletStat> =
                    stats.iter().filter(|s| s.table == table.id).copied().collect();
                if !stats.iter().any(|s| s.first <= tablet.last && tablet.first <= s.last) {
                    stats = self.earlier_stats(table.id, tablet);
                }
                tablets.push(DeadTablet { range, stats });
            }
        }
        for stream in proof.streams.iter().filter(|s| s.stats.is_empty()) {
            self.estimate(stream, &mut tablets);
        }
        tablets
    }

    /// A head without statistics: the stream's segments are taken as full, and spread evenly over its tablets.
    fn estimate(&self, stream: &StreamProof, tablets: &mut [DeadTablet]) {
        let here = |t: &DeadTablet| (t.range.shard, t.range.stream) == (stream.shard, stream.stream);
        let count = tablets.iter().filter(|t| here(t)).count().max(1) as u64;
        let bytes = stream.segments.len() as u64 * u64::from(self.desk.config.segment_bytes) / count;
        for tablet in tablets.iter_mut().filter(|t| here(t)) {
            let PartitionRange { table, first, last, .. } = tablet.range;
            tablet.stats.push(TabletStat { table, first, last, bytes, records: bytes / 100 });
        }
    }
}

impl Coordinator {
    fn end_recovery(&mut self, now: Instant, id: RecoveryId, crashed: ServerId) {
        let time = self.desk.time(now);
        let server = self.desk.state.servers.get(&crashed);
        assert!(server.is_some_and(|s| s.entry.state == ServerState::Crashed), "what is recovered was dead");
        let Some(record) = self.desk.state.recoveries.get_mut(&id) else { return };
        record.done = true;
        let took = time.0.saturating_sub(record.detected.0);
        record.done_millis = Some(took);
        let text = format!(
            "{id} of {crashed} is over: {} tablets, {} records, {} bytes, {took} ms after the verdict",
            record.tablets, record.records, record.bytes
        );
        self.desk.outbox.report(Level::Info, text);
        self.desk.outbox.touch(Key::Recovery(id));
        gone::note_gone(&mut self.desk, id, crashed);
        if self.desk.state.is_needed(crashed) {
            self.keep_log(now, crashed);
        } else {
            self.let_go_of(now, id, crashed);
        }
    }

    /// A table is being dropped: divisions that include it are made anew without it.
    pub(crate) fn recoveries_without(&mut self, table: TableId) {
        for recovery in self.recoveries.values_mut() {
            if recovery.plan.as_ref().is_some_and(|plan| plan.has_pending(table)) {
                recovery.plan_anew();
            }
        }
        self.wake_recoveries();
    }
}

/// The time to wait after this many failures.
pub(crate) fn pause(config: &crate::config::CoordinatorConfig, failures: u32) -> Duration {
    let doubled = config.repeat_interval.saturating_mul(1 << failures.min(6));
    debug_assert!(millis(doubled) > 0);
    doubled.min(config.repeat_interval_max)
}

/// The hashes of a tablet, for reports.
pub(crate) fn hashes(first: KeyHash, last: KeyHash) -> String {
    format!("{first:?}-{last:?}")
}
