//! Finds damage in the shard's memory, and restores the bytes from the backups while clients get `Retry`.
//!
//! Damage is noticed by the code that meets it: a read, a cleaning pass, a walk over the index, or the scrub, which
//! verifies all closed segments in the background. The shard then asks one backup after the other for the segment, and
//! restores it in place when a replica fits. Where there are no replicas, the damaged entries are given up, and an
//! error is reported.
//!
//! Invariants:
//! - nothing damaged is served, nor taken for absent: until it is repaired, requests for it are answered with `Retry`,
//!   and with `Corrupt` after `ROUNDS_PATIENT` rounds over all backups, or once it is being given up;
//! - a segment under repair is asked for from one backup at a time.
//!
//! Not here: verifying, restoring and giving up (log); the calls to the backups, which the role makes that owns the
//! shard. Rules: docs/protocols/cleaning.md. Catalogue: C8.

use super::{Owner, Shard};
use ramhold_base::time::earliest;
use ramhold_base::{
    Epoch, Instant, Level, Mark, Peer, Position, RpcId, SegmentId, ServerId, Status, StreamId, TableId,
};
use ramhold_log::{Log, Lost, Repaired, ScrubCursor};
use ramhold_replication::Replicator;
use ramhold_wire::membership::{ReplicaName, ReplicaRead};
use ramhold_wire::status::ScrubStatus;
use ramhold_wire::{Step, request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The backup reads a whole segment from a device that others use too.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to leave a backup alone that has no room just now. Also the first pause after all have been asked in vain.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After this many rounds over all backups the answer is `Corrupt`. Before that, a head may only have to wait for its
/// replicas.
const ROUNDS_PATIENT: u32 = 3;
/// The most segments that are asked for at a time. Each answer is a whole segment.
const ASKING_COUNT_MAX: usize = 4;
/// Index buckets that one turn of giving up looks at.
const LOSS_BUCKETS: u64 = 4096;

/// Bytes that one slice of the scrub verifies: some ten microseconds.
const SLICE_BYTES: u64 = 64 * 1024;

/// One damaged segment.
struct Repair {
    stream: StreamId,
    /// Backups that were asked in this round and were of no use.
    tried: Vec<ServerId>,
    /// Backups whose own replica is corrupt. It is made anew when there is something to make it from.
    corrupt: Vec<ServerId>,
    /// Backups that did not answer: they may have found their replica corrupt.
    unheard: Vec<ServerId>,
    /// Backups that were asked once more because a path was silent.
    asked_again: Vec<ServerId>,
    asking: Option<ServerId>,
    rounds: u32,
    next: Instant,
    pause: Duration,
    loss: Option<Lost>,
}

/// A request to a backup under way.
#[derive(Clone, Copy, Debug)]
pub struct ReadBack {
    segment: SegmentId,
    backup: ServerId,
}

/// Enters a call to a backup and gives it its id. The answer comes back through `on_read_back`.
pub type OpenCall<'a> = &'a mut dyn FnMut(SocketAddr, Instant, ReadBack) -> RpcId;

/// A fact about damage that the role that owns the data must act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// No replica has these bytes, and nothing that was acknowledged depends on them. Only a new life of the server
    /// gets rid of them.
    Beyond(SegmentId),
    /// Objects of this stream are lost: it has no replicas.
    Lost(StreamId),
}

#[derive(Clone, Copy, Debug)]
pub struct ScrubConfig {
    /// How fast the log is verified in the background; 0: not at all.
    pub bytes_per_second: u64,
    /// The shortest time from the start of one round over the log to the start of the next.
    pub round_min: Duration,
}

pub struct Scrub {
    config: ScrubConfig,
    repairs: BTreeMap<SegmentId, Repair>,
    cursor: ScrubCursor,
    slice_at: Instant,
    round_begun: Instant,
    counters: ScrubStatus,
}

impl Scrub {
    /// From now on this many bytes of the log are verified in a second; 0: none.
    pub fn set_rate(&mut self, bytes_per_second: u64) {
        self.config.bytes_per_second = bytes_per_second;
    }

    pub fn new(config: ScrubConfig) -> Scrub {
        Scrub {
            config,
            repairs: BTreeMap::new(),
            cursor: ScrubCursor::default(),
            slice_at: Instant::ZERO,
            round_begun: Instant::ZERO,
            counters: ScrubStatus::default(),
        }
    }

    pub fn status(&self) -> ScrubStatus {
        ScrubStatus { waiting: self.repairs.len() as u64, ..self.counters.clone() }
    }

    /// Whether a segment is known to be damaged.
    pub fn is_damaged(&self, segment: SegmentId) -> bool {
        self.repairs.contains_key(&segment)
    }

    /// The status for a request that met a segment under repair.
    pub fn refusal(&self, segment: SegmentId) -> Status {
        match self.repairs.get(&segment) {
            Some(repair) if repair.rounds >= ROUNDS_PATIENT || repair.loss.is_some() => Status::Corrupt,
            _ => Status::Retry,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        let repairs = self.repairs.values().filter(|repair| repair.asking.is_none());
        let repair = repairs.map(|repair| repair.next).min();
        earliest(repair, (self.config.bytes_per_second > 0).then_some(self.slice_at))
    }
}

/// The other parts of the shard, and its owner, that the advance of one repair needs.
struct Around<'a> {
    log: &'a mut Log,
    replicator: &'a Replicator,
    counters: &'a mut ScrubStatus,
    owner: &'a dyn Owner,
    open: OpenCall<'a>,
    found: Vec<Found>,
    /// Repairs that wait for a backup's answer.
    asking_count: usize,
}

impl Shard {
    /// Notes that an entry of a segment does not match its checksum, and begins the repair.
    pub fn note_damage(&mut self, step: &mut Step<'_>, segment: SegmentId, offset: u32) {
        if self.scrub.is_damaged(segment) {
            return;
        }
        let Some(stream) = self.log.segment(segment).map(|segment| segment.stream) else { return };
        self.scrub.counters.damaged += 1;
        step.effects.report(Level::Error, format!("{segment} of {stream} is damaged in memory at {offset}"));
        let repair = Repair {
            stream,
            tried: Vec::new(),
            corrupt: Vec::new(),
            unheard: Vec::new(),
            asked_again: Vec::new(),
            asking: None,
            rounds: 0,
            next: step.now,
            pause: PAUSE_FIRST,
            loss: None,
        };
        self.scrub.repairs.insert(segment, repair);
    }

    /// A backup says that the bytes that it was sent of a segment are not those that were appended. Reads all of the
    /// segment.
    pub fn look_for_damage(&mut self, step: &mut Step<'_>, segment: SegmentId) {
        if !self.scrub.is_damaged(segment)
            && let Some(offset) = self.log.damage_in(segment)
        {
            self.note_damage(step, segment, offset);
        }
    }

    /// Advances all repairs that are due.
    pub fn advance_repairs(
        &mut self,
        step: &mut Step<'_>,
        owner: &dyn Owner,
        open: OpenCall<'_>,
    ) -> Vec<Found> {
        let due = self.scrub.repairs.iter().filter(|(_, it)| it.asking.is_none() && it.next <= step.now);
        let due: Vec<SegmentId> = due.map(|(segment, _)| *segment).collect();
        if due.is_empty() {
            return Vec::new();
        }
        let Scrub { repairs, counters, .. } = &mut self.scrub;
        let asking_count = repairs.values().filter(|repair| repair.asking.is_some()).count();
        let (log, replicator) = (&mut self.log, &self.replicator);
        let mut around = Around { log, replicator, counters, owner, open, found: Vec::new(), asking_count };
        for segment in due {
            let repair = repairs.get_mut(&segment).expect("it is due");
            if !repair.advance(step, segment, &mut around) {
                repairs.remove(&segment);
            }
        }
        around.found
    }

    /// A backup's answer: the bytes of its replica, if it has one.
    pub fn on_read_back(
        &mut self,
        step: &mut Step<'_>,
        owner: &dyn Owner,
        read: ReadBack,
        (status, body): (Status, &[u8]),
    ) {
        let ReadBack { segment, backup } = read;
        let Some(repair) = self.scrub.repairs.get_mut(&segment).filter(|r| r.asking == Some(backup)) else {
            return;
        };
        repair.asking = None;
        repair.next = step.now;
        repair.unheard.retain(|unheard| *unheard != backup);
        match status {
            Status::Ok => {}
            Status::Retry | Status::TooMany | Status::NotReady => {
                repair.next = step.now + PAUSE_FIRST;
                return;
            }
            other => {
                repair.tried.push(backup);
                if other == Status::CorruptReplica && !repair.corrupt.contains(&backup) {
                    repair.corrupt.push(backup);
                }
                return;
            }
        }
        let hash_of = |table: TableId, key: &[u8]| owner.hash(table, key).unwrap_or_default();
        if self.log.segment(segment).is_some() && self.log.repair(segment, body, &hash_of) == Repaired::Unfit
        {
            return repair.tried.push(backup);
        }
        let repair = self.scrub.repairs.remove(&segment).expect("it was found above");
        // The answer that was not heard may have said so. It is not told again, and a copy more is a small price. One
        // replica at a time is doubted, and only while the good one is one of the segment's own.
        let is_own = self.replicator.has_replica(segment, backup);
        let doubted = repair.unheard.into_iter().filter(|_| is_own).take(1);
        for corrupt in repair.corrupt.into_iter().filter(|corrupt| *corrupt != backup).chain(doubted) {
            self.replicator.on_corrupt(step.now, segment, corrupt);
        }
        self.scrub.counters.repaired += 1;
        step.effects.report(Level::Info, format!("{segment} is whole again, from its replica on {backup}"));
        step.effects.mark(Mark::Repaired);
    }

    /// The request may not have arrived, or its answer may not come: the same backup is asked once more.
    pub fn on_read_back_unheard(&mut self, now: Instant, read: ReadBack) {
        let Some(repair) = self.scrub.repairs.get_mut(&read.segment) else { return };
        if repair.asked_again.contains(&read.backup) {
            return self.on_read_back_unanswered(now, read);
        }
        if repair.asking == Some(read.backup) {
            repair.asked_again.push(read.backup);
            repair.asking = None;
            repair.next = now;
        }
    }

    pub fn on_read_back_unanswered(&mut self, now: Instant, read: ReadBack) {
        if let Some(repair) = self.scrub.repairs.get_mut(&read.segment)
            && repair.asking == Some(read.backup)
        {
            repair.asking = None;
            repair.next = now;
            repair.tried.push(read.backup);
            if !repair.unheard.contains(&read.backup) {
                repair.unheard.push(read.backup);
            }
        }
    }

    /// Verifies a slice of the log if one is due. To be called when there is nothing else to do.
    pub fn scrub_slice(&mut self, step: &mut Step<'_>) {
        let ScrubConfig { bytes_per_second: rate, round_min } = self.scrub.config;
        if rate == 0 || self.scrub.slice_at > step.now {
            return;
        }
        if self.scrub.cursor == ScrubCursor::default() {
            self.scrub.round_begun = step.now;
        }
        let scrubbed = self.log.scrub_step(&mut self.scrub.cursor, SLICE_BYTES);
        self.scrub.counters.bytes += scrubbed.bytes;
        self.scrub.slice_at =
            step.now + Duration::from_nanos(SLICE_BYTES.saturating_mul(1_000_000_000) / rate);
        if let Some((segment, offset)) = scrubbed.damaged {
            self.note_damage(step, segment, offset);
        }
        if scrubbed.is_round_over {
            self.scrub.counters.rounds += 1;
            self.scrub.slice_at = self.scrub.slice_at.max(self.scrub.round_begun + round_min);
        }
    }
}

impl Repair {
    /// Advances a repair. Returns whether there is something left to do.
    fn advance(&mut self, step: &mut Step<'_>, segment: SegmentId, around: &mut Around<'_>) -> bool {
        if around.log.segment(segment).is_none() {
            return false;
        }
        if around.replicator.replica_count(self.stream) == 0 {
            return self.give_up(step, segment, around);
        }
        if around.asking_count >= ASKING_COUNT_MAX {
            self.next = step.now + PAUSE_FIRST;
            return true;
        }
        let untried = around.replicator.replicas_of(segment).find_map(|seen| {
            let may_help = seen.certified > 0 && !self.tried.contains(&seen.backup);
            let address = step.view.list.address(seen.backup).filter(|_| may_help)?;
            Some((seen.backup, seen.epoch, address))
        });
        // Then all other backups are asked: servers that were away may have come back with their replicas, under other
        // ids.
        let untried = untried.or_else(|| {
            let mut others = step.view.list.up().filter(|it| it.backup && !self.tried.contains(&it.id));
            others.next().map(|it| (it.id, Epoch::default(), it.address.0))
        });
        let Some((backup, epoch, address)) = untried else {
            self.rounds += 1;
            let damage = around.log.damage_in(segment).filter(|_| self.rounds >= ROUNDS_PATIENT);
            if damage.is_some_and(|offset| around.is_unacknowledged(segment, offset)) {
                around.found.push(Found::Beyond(segment));
            } else if self.rounds == ROUNDS_PATIENT {
                step.effects
                    .report(Level::Error, format!("no replica of {segment} fits: it stays damaged for now"));
            }
            self.tried.clear();
            self.pause_after(step.now);
            return true;
        };
        let rpc = (around.open)(address, step.now + READ_TIMEOUT, ReadBack { segment, backup });
        let shard = around.log.config().log.shard;
        let replica = ReplicaName { shard, stream: self.stream, segment, epoch, side: false };
        request(
            step.effects,
            Peer::Addr(address),
            &step.view.to_server(backup),
            rpc,
            &ReplicaRead { replica },
        );
        self.asking = Some(backup);
        around.asking_count += 1;
        true
    }

    fn pause_after(&mut self, now: Instant) {
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Gives damaged entries up, because there are no replicas. Returns whether there is something left to do.
    fn give_up(&mut self, step: &mut Step<'_>, segment: SegmentId, around: &mut Around<'_>) -> bool {
        let loss = self.loss.get_or_insert_with(|| Lost::new(segment));
        if !around.log.may_lose(segment) {
            self.pause_after(step.now);
            return true;
        }
        let owner = around.owner;
        let hash_of = |table: TableId, key: &[u8]| owner.hash(table, key).unwrap_or_default();
        let is_done = around.log.lose_step(loss, LOSS_BUCKETS, &hash_of);
        if loss.objects > 0
            && let Some(stream) = around.log.segment(segment).map(|segment| segment.stream)
        {
            around.found.push(Found::Lost(stream));
        }
        if !is_done {
            return true;
        }
        if loss.objects > 0 {
            // The versions of the lost objects are unknown, but they are among those that were handed out.
            around.log.raise_safe_version(owner.version_after_all());
            around.counters.lost += loss.objects;
        }
        let objects = loss.objects;
        step.effects.report(Level::Error, format!("{segment} had no replicas: objects lost: {objects}"));
        false
    }
}

impl Around<'_> {
    /// Whether nothing that was acknowledged depends on the bytes of a segment from `offset` on.
    fn is_unacknowledged(&self, segment: SegmentId, offset: u32) -> bool {
        let Some(info) = self.log.segment(segment) else { return true };
        // Entries in a side log are elsewhere too until the side log is entered, and then they are on all its backups.
        info.side.is_some() || Position { segment, offset } >= self.replicator.durable(info.stream)
    }
}
