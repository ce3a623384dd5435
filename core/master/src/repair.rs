//! Finds damage in this shard's memory, and restores the bytes from the backups while clients get `Retry`.
//!
//! Damage is noticed by the code that meets it: a read, a cleaning pass, a walk over the index, or the scrub, which
//! verifies all closed segments in the background. The master then asks one backup after the other for the segment, and
//! restores it in place when a replica fits. Where there are no replicas, the damaged entries are given up, and an
//! error is reported.
//!
//! Invariants:
//! - nothing damaged is served, nor taken for absent: until it is repaired, requests for it are answered with `Retry`,
//!   and with `Corrupt` after `ROUNDS_PATIENT` rounds over all backups, or once it is being given up;
//! - a segment under repair is asked for from one backup at a time.
//!
//! Not here: verifying, restoring and giving up (log). Rules: docs/protocols/cleaning.md. Catalogue: C8.

use crate::{Context, Event, Master};
use ramhold_base::time::earliest;
use ramhold_base::{Epoch, Instant, Level, Peer, Position, SegmentId, ServerId, Status, StreamId, TableId};
use ramhold_log::{Lost, Repaired, ScrubCursor, Unreadable};
use ramhold_wire::membership::{ReplicaName, ReplicaRead};
use ramhold_wire::status::ScrubStatus;
use ramhold_wire::{Step, request};
use std::collections::BTreeMap;
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
    asking: Option<ServerId>,
    rounds: u32,
    next: Instant,
    pause: Duration,
    loss: Option<Lost>,
}

/// A request to a backup under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBack {
    segment: SegmentId,
    backup: ServerId,
}

#[derive(Default)]
pub(crate) struct Scrub {
    repairs: BTreeMap<SegmentId, Repair>,
    cursor: ScrubCursor,
    slice_at: Instant,
    round_begun: Instant,
    counters: ScrubStatus,
}

impl Scrub {
    pub fn status(&self) -> ScrubStatus {
        ScrubStatus { waiting: self.repairs.len() as u64, ..self.counters.clone() }
    }

    /// Whether a segment is known to be damaged.
    pub fn is_damaged(&self, segment: SegmentId) -> bool {
        self.repairs.contains_key(&segment)
    }

    fn deadline(&self, bytes_per_second: u64) -> Option<Instant> {
        let repairs = self.repairs.values().filter(|repair| repair.asking.is_none());
        let repair = repairs.map(|repair| repair.next).min();
        earliest(repair, (bytes_per_second > 0).then_some(self.slice_at))
    }
}

impl Master {
    pub(crate) fn scrub_deadline(&self) -> Option<Instant> {
        self.shard.scrub.deadline(self.config.scrub_bytes_per_second)
    }

    /// Begins the repair of a damaged entry. Returns the status for a request whose key cannot be read.
    pub(crate) fn unreadable(&mut self, step: &mut Step<'_>, unreadable: Unreadable) -> Status {
        let Unreadable::Damaged(at) = unreadable else { return Status::Corrupt };
        let (segment, offset) = self.shard.log.place_of(at);
        self.note_damage(step, segment, offset);
        self.advance_repairs(step);
        match self.shard.scrub.repairs.get(&segment) {
            Some(repair) if repair.rounds >= ROUNDS_PATIENT || repair.loss.is_some() => Status::Corrupt,
            _ => Status::Retry,
        }
    }

    /// Notes that an entry of a segment does not match its checksum, and begins the repair.
    pub(crate) fn note_damage(&mut self, step: &mut Step<'_>, segment: SegmentId, offset: u32) {
        if self.shard.scrub.is_damaged(segment) {
            return;
        }
        let Some(stream) = self.shard.log.segment(segment).map(|segment| segment.stream) else { return };
        self.shard.scrub.counters.damaged += 1;
        step.effects.report(Level::Error, format!("{segment} of {stream} is damaged in memory at {offset}"));
        let repair = Repair {
            stream,
            tried: Vec::new(),
            corrupt: Vec::new(),
            asking: None,
            rounds: 0,
            next: step.now,
            pause: PAUSE_FIRST,
            loss: None,
        };
        self.shard.scrub.repairs.insert(segment, repair);
    }

    /// A backup says that the bytes that it was sent of a segment are not those that were appended. Reads all of the
    /// segment.
    pub(crate) fn look_for_damage(&mut self, step: &mut Step<'_>, segment: SegmentId) {
        if !self.shard.scrub.is_damaged(segment)
            && let Some(offset) = self.shard.log.damage_in(segment)
        {
            self.note_damage(step, segment, offset);
        }
    }

    /// Whether nothing that was acknowledged depends on the bytes of a segment from `offset` on.
    fn is_unacknowledged(&self, segment: SegmentId, offset: u32) -> bool {
        let Some(info) = self.shard.log.segment(segment) else { return true };
        // Entries in a side log are elsewhere too until the side log is entered, and then they are on all its backups.
        info.side.is_some() || Position { segment, offset } >= self.shard.durable(info.stream)
    }

    pub(crate) fn advance_repairs(&mut self, step: &mut Step<'_>) {
        let due =
            self.shard.scrub.repairs.iter().filter(|(_, it)| it.asking.is_none() && it.next <= step.now);
        let due: Vec<SegmentId> = due.map(|(segment, _)| *segment).collect();
        for segment in due {
            let Some(mut repair) = self.shard.scrub.repairs.remove(&segment) else { continue };
            if self.advance_repair(step, segment, &mut repair) {
                self.shard.scrub.repairs.insert(segment, repair);
            }
        }
    }

    /// Advances a repair. Returns whether there is something left to do.
    fn advance_repair(&mut self, step: &mut Step<'_>, segment: SegmentId, repair: &mut Repair) -> bool {
        if self.shard.log.segment(segment).is_none() {
            return false;
        }
        if self.shard.replicator.replica_count(repair.stream) == 0 {
            return self.give_up_damage(step, segment, repair);
        }
        let asking = self.shard.scrub.repairs.values().filter(|other| other.asking.is_some()).count();
        if asking >= ASKING_COUNT_MAX {
            repair.next = step.now + PAUSE_FIRST;
            return true;
        }
        let untried = self.shard.replicator.replicas_of(segment).find_map(|seen| {
            let may_help = seen.certified > 0 && !repair.tried.contains(&seen.backup);
            let address = step.view.list.address(seen.backup).filter(|_| may_help)?;
            Some((seen.backup, seen.epoch, address))
        });
        // Then all other backups are asked: servers that were away may have come back with their replicas, under other
        // ids.
        let untried = untried.or_else(|| {
            let mut others = step.view.list.up().filter(|it| it.backup && !repair.tried.contains(&it.id));
            others.next().map(|it| (it.id, Epoch::default(), it.address.0))
        });
        let Some((backup, epoch, address)) = untried else {
            repair.rounds += 1;
            let damage = self.shard.log.damage_in(segment).filter(|_| repair.rounds >= ROUNDS_PATIENT);
            if damage.is_some_and(|offset| self.is_unacknowledged(segment, offset)) {
                self.events.push(Event::Beyond(segment));
            } else if repair.rounds == ROUNDS_PATIENT {
                step.effects
                    .report(Level::Error, format!("no replica of {segment} fits: it stays damaged for now"));
            }
            repair.tried.clear();
            repair.next = step.now + repair.pause;
            repair.pause = (repair.pause * 2).min(PAUSE_MAX);
            return true;
        };
        let context = Context::ReadBack(ReadBack { segment, backup });
        let rpc = self.calls.open(address, step.now, step.now + READ_TIMEOUT, context);
        let (shard, stream) = (self.config.shard, repair.stream);
        let replica = ReplicaName { shard, stream, segment, epoch, side: false };
        request(
            step.effects,
            Peer::Addr(address),
            &step.view.to_server(backup),
            rpc,
            &ReplicaRead { replica },
        );
        repair.asking = Some(backup);
        true
    }

    /// A backup's answer: the bytes of its replica, if it has one.
    pub(crate) fn on_read_back(&mut self, step: &mut Step<'_>, read: ReadBack, status: Status, body: &[u8]) {
        let ReadBack { segment, backup } = read;
        let Some(repair) = self.shard.scrub.repairs.get_mut(&segment).filter(|r| r.asking == Some(backup))
        else {
            return;
        };
        repair.asking = None;
        repair.next = step.now;
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
        let tablets = &self.tablets;
        let hash_of = |table: TableId, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        if self.shard.log.segment(segment).is_some()
            && self.shard.log.repair(segment, body, &hash_of) == Repaired::Unfit
        {
            return repair.tried.push(backup);
        }
        let repair = self.shard.scrub.repairs.remove(&segment).expect("it was found above");
        for corrupt in repair.corrupt.into_iter().filter(|corrupt| *corrupt != backup) {
            self.shard.replicator.on_corrupt(step.now, segment, corrupt);
        }
        self.shard.scrub.counters.repaired += 1;
        step.effects.report(Level::Info, format!("{segment} is whole again, from its replica on {backup}"));
        step.effects.report(Level::Debug, "mark:repaired");
    }

    pub(crate) fn on_read_back_unanswered(&mut self, now: Instant, read: ReadBack) {
        if let Some(repair) = self.shard.scrub.repairs.get_mut(&read.segment)
            && repair.asking == Some(read.backup)
        {
            repair.asking = None;
            repair.next = now;
            repair.tried.push(read.backup);
        }
    }

    /// Gives damaged entries up, because there are no replicas. Returns whether there is something left to do.
    fn give_up_damage(&mut self, step: &mut Step<'_>, segment: SegmentId, repair: &mut Repair) -> bool {
        let loss = repair.loss.get_or_insert_with(|| Lost::new(segment));
        if !self.shard.log.may_lose(segment) {
            repair.next = step.now + repair.pause;
            repair.pause = (repair.pause * 2).min(PAUSE_MAX);
            return true;
        }
        let tablets = &self.tablets;
        let hash_of = |table: TableId, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        let is_done = self.shard.log.lose_step(loss, LOSS_BUCKETS, &hash_of);
        if loss.objects > 0
            && let Some(stream) = self.shard.log.segment(segment).map(|segment| segment.stream)
        {
            self.tablets.note_losses(stream);
        }
        if !is_done {
            return true;
        }
        if loss.objects > 0 {
            // The versions of the lost objects are unknown, but they are among those that were handed out.
            self.shard.log.raise_safe_version(self.ceiling.needed.next());
            self.shard.scrub.counters.lost += loss.objects;
        }
        let objects = loss.objects;
        step.effects.report(Level::Error, format!("{segment} had no replicas: objects lost: {objects}"));
        false
    }

    /// Verifies a slice of the log when one is due and there is nothing else to do.
    pub(crate) fn scrub_when_idle(&mut self, step: &mut Step<'_>) {
        let rate = self.config.scrub_bytes_per_second;
        if rate == 0 || self.busy || self.shard.scrub.slice_at > step.now {
            return;
        }
        if self.shard.scrub.cursor == ScrubCursor::default() {
            self.shard.scrub.round_begun = step.now;
        }
        let scrubbed = self.shard.log.scrub_step(&mut self.shard.scrub.cursor, SLICE_BYTES);
        self.shard.scrub.counters.bytes += scrubbed.bytes;
        self.shard.scrub.slice_at =
            step.now + Duration::from_nanos(SLICE_BYTES.saturating_mul(1_000_000_000) / rate);
        if let Some((segment, offset)) = scrubbed.damaged {
            self.note_damage(step, segment, offset);
        }
        if scrubbed.is_round_over {
            self.shard.scrub.counters.rounds += 1;
            self.shard.scrub.slice_at =
                self.shard.scrub.slice_at.max(self.shard.scrub.round_begun + self.config.scrub_round_min);
        }
    }
}
