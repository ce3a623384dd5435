//! Reads a dead server's segments for the recovery masters, and divides each segment once for all of them.
//!
//! The first question for a segment reads it; questions that come meanwhile wait for the same read. The first question
//! that brings the ranges for a log also makes this backup read ahead: its closed primaries of that log, newest first,
//! so that they are already divided when they are asked for.
//!
//! A partition's records of a divided segment stay in a bounded memory until the partition has been answered. If memory
//! is needed before, the least recently used segment is forgotten first. When a forgotten segment is asked for again,
//! it is read again.
//!
//! The ranges by which a log is divided are told once, by the first master that is refused for want of them. A question
//! names them by number and digest.
//!
//! Invariants:
//! - no record is sent that its certificate and its own checksum do not confirm;
//! - an answer uses the ranges that its question means. For each log, and each server that is recovered from it, only
//!   the newest division is known;
//! - divided segments and those being read take at most the configured memory, besides answers on their way;
//! - reading ahead takes at most half of that memory, and nothing is forgotten to make room for it.
//!
//! Protocol: docs/protocols/recovery.md, step 5. Catalogue: F4, F9.

use crate::Backup;
use crate::content::{Division, are_sound, share_of};
use crate::disk::Task;
use crate::keys::{DivisionKey, ReplicaKey, ReplicaNumber};
use crate::replica::Replica;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Mark, Peer, RecoveryId, Recycled, SegmentId, ServerId, Status};
use ramhold_wire::recovery::{PartitionRange, ReadTimes, RecoveryRead, ranges_digest};
use ramhold_wire::{Header, Standing, View, decode, frame, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The most questions that wait for one read. More are answered with `Retry`.
const WAITER_COUNT_MAX: usize = 1024;
/// The most pieces of memory that are kept for later records.
const RECYCLED_COUNT_MAX: usize = 512;
/// The pause after each piece of memory that is prepared in advance.
const FIND_PAUSE: Duration = Duration::from_millis(1);
/// No memory is prepared for this time after a read for a recovery began: the recovery needs the processor more.
const FIND_YIELD: Duration = Duration::from_secs(1);
/// With this many reads under way, nothing is read ahead.
const AHEAD_READS: usize = 2;
/// The most divisions that are remembered, and the most ranges that they have together. The newest is remembered with
/// any number of ranges. The ranges of a forgotten division are told again when they are needed.
const KNOWN_COUNT_MAX: usize = 64;
const KNOWN_RANGES_MAX: usize = 64 * 1024;

#[derive(Debug)]
struct Waiter {
    header: Header,
    from: ConnId,
    partition: u32,
    since: Instant,
}

#[derive(Debug)]
enum State {
    Reading {
        since: Instant,
        waiters: Vec<Waiter>,
    },
    Divided {
        /// The duration of the read.
        reading: Duration,
        /// The records of each partition that has not been answered.
        records: BTreeMap<u32, Arc<Vec<u8>>>,
        /// Partitions that have been answered.
        given: BTreeSet<u32>,
    },
}

#[derive(Debug)]
struct Divided {
    ranges: Arc<[PartitionRange]>,
    /// The accounted bytes: the certified length while the segment is read, then the memory of its records.
    bytes: u64,
    used: u64,
    state: State,
}

impl Divided {
    /// Whether no question waits for the segment, because it is divided.
    fn is_idle(&self) -> bool {
        matches!(self.state, State::Divided { .. })
    }
}

/// A segment that was divided in this step. Only the next step can tell how long that took.
#[derive(Debug)]
struct Dividing {
    dead: ServerId,
    /// `None` if the segment was found to be corrupt.
    bytes: Option<u64>,
}

/// The ranges by which a log is divided, and its segments that are to be read ahead, the next one last.
#[derive(Debug)]
struct Known {
    dead: ServerId,
    /// The server that is recovered: the log's own server, or one that had recovered from the log.
    crashed: ServerId,
    digest: u64,
    ranges: Arc<[PartitionRange]>,
    ahead: Vec<ReplicaNumber>,
}

/// All segments that are divided or being read.
#[derive(Debug)]
pub(crate) struct Divisions {
    bytes_max: u64,
    bytes: u64,
    /// Counts uses, to find the least recently used.
    clock: u64,
    divided: BTreeMap<DivisionKey, Divided>,
    /// For segments that were forgotten before all partitions were answered: the answered partitions. When such a
    /// segment is read again, only the records of the others are kept.
    given: BTreeMap<DivisionKey, BTreeSet<u32>>,
    known: BTreeMap<RecoveryId, Known>,
    dividing: Vec<Dividing>,
    memory: Recycled,
    find_at: Instant,
    /// The expected number of recovery masters, and the size of the piece of memory that each needs for a segment.
    expected: usize,
    piece_bytes: usize,
}

impl Divisions {
    pub fn new(bytes_max: u64) -> Divisions {
        Divisions {
            bytes_max,
            bytes: 0,
            clock: 0,
            divided: BTreeMap::new(),
            given: BTreeMap::new(),
            known: BTreeMap::new(),
            dividing: Vec::new(),
            memory: Recycled::new(RECYCLED_COUNT_MAX),
            find_at: Instant::ZERO,
            expected: 0,
            piece_bytes: 0,
        }
    }

    /// Notes the number of servers. Memory that was prepared for fewer than half or more than twice as many masters is
    /// given back. A single death makes no difference: that is when the prepared memory is needed.
    pub fn expect(&mut self, servers: usize, segment_bytes: u32) {
        let masters = servers.saturating_sub(1).max(1);
        if masters <= 2 * self.expected && self.expected <= 2 * masters {
            return;
        }
        self.expected = masters;
        self.piece_bytes = share_of(segment_bytes as usize, masters);
        if self.divided.is_empty() {
            self.memory.bound(0);
        }
    }

    fn remove(&mut self, key: &DivisionKey) {
        let gone = self.divided.remove(key).expect("what is removed was there");
        self.bytes -= gone.bytes;
        if let State::Divided { records, given, .. } = gone.state {
            if !records.is_empty() && !given.is_empty() {
                self.given.insert(*key, given);
            }
            records.into_values().for_each(|records| self.memory.keep(records));
            self.bound_memory();
        }
    }

    /// Gives prepared memory back that has no room beside the divided segments.
    fn bound_memory(&mut self) {
        self.memory.bound(self.bytes_max.saturating_sub(self.bytes));
    }

    /// Makes the system find memory for records in advance. If it were found page by page while a recovery waits, that
    /// would cost more than all the rest of the dividing.
    pub fn find(&mut self, now: Instant, bytes_max: u64) {
        if self.find_deadline(bytes_max).is_some_and(|at| at <= now) {
            self.memory.keep(Arc::new(vec![1; self.piece_bytes]));
            self.find_at = now + FIND_PAUSE;
        }
    }

    /// The instant when the next piece of memory should be prepared.
    pub fn find_deadline(&self, bytes_max: u64) -> Option<Instant> {
        let room = bytes_max.min(self.bytes_max);
        let is_wanted = self.divided.is_empty()
            && self.piece_bytes > 0
            && self.memory.bytes() + self.piece_bytes as u64 <= room
            && !self.memory.is_full();
        is_wanted.then_some(self.find_at)
    }

    /// Makes room by forgetting the least recently used divided segments. Segments being read stay.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.bytes + bytes > self.bytes_max {
            let idle = self.divided.iter().filter(|(_, divided)| divided.is_idle());
            let Some(oldest) = idle.min_by_key(|(_, divided)| divided.used).map(|(key, _)| *key) else {
                return false;
            };
            self.remove(&oldest);
        }
        true
    }

    fn is_known(&self, key: &DivisionKey) -> bool {
        self.known.get(&key.recovery).is_some_and(|known| known.digest == key.digest)
    }

    /// Forgets a division and the segments that were divided by it. Questions for segments being read are still
    /// answered.
    fn forget(&mut self, recovery: RecoveryId) {
        self.known.remove(&recovery);
        let divided = self.divided.iter().filter(|(key, _)| key.recovery == recovery);
        let idle = divided.filter(|(_, divided)| divided.is_idle());
        for key in idle.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(&key);
        }
        self.given.retain(|key, _| key.recovery != recovery);
    }

    /// Forgets divisions beyond the bounds, the oldest first.
    fn forget_some(&mut self) {
        let is_much = |known: &BTreeMap<RecoveryId, Known>| {
            let ranges: usize = known.values().map(|known| known.ranges.len()).sum();
            known.len() > KNOWN_COUNT_MAX || (known.len() > 1 && ranges > KNOWN_RANGES_MAX)
        };
        while is_much(&self.known) {
            let oldest = *self.known.keys().next().expect("there are several");
            self.forget(oldest);
        }
    }

    fn insert(
        &mut self,
        since: Instant,
        key: DivisionKey,
        ranges: Arc<[PartitionRange]>,
        bytes: u64,
        waiters: Vec<Waiter>,
    ) {
        self.clock += 1;
        self.bytes += bytes;
        self.find_at = since + FIND_YIELD;
        self.bound_memory();
        let state = State::Reading { since, waiters };
        let before = self.divided.insert(key, Divided { ranges, bytes, used: self.clock, state });
        assert!(before.is_none(), "a segment is read once");
    }
}

fn crashed_of(question: &RecoveryRead) -> ServerId {
    if question.crashed.is_none() { question.log.server } else { question.crashed }
}

impl Backup {
    pub(crate) fn on_recovery_read(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        if let Err(status) = self.try_recovery_read(now, header, body, from, view, effects) {
            reply(effects, Peer::Conn(from), header, status);
        }
    }

    fn try_recovery_read(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(header, view)?;
        self.check_device()?;
        let question: RecoveryRead = decode(body)?;
        let dead = question.log.server;
        if view.list.standing(dead) != Standing::Crashed && !self.fenced.contains(&dead) {
            return Err(Status::NotAllowed);
        }
        let ranges = self.ranges_meant(&question, effects)?;
        if !ranges.iter().any(|range| range.partition == question.partition) {
            return Err(Status::BadRequest);
        }
        let key = ReplicaKey { log: question.log, segment: question.segment, stream: question.stream };
        let number = self.readable(&key, &question)?;
        let waiter = Waiter { header: *header, from, partition: question.partition, since: now };
        let RecoveryRead { recovery, digest, end, .. } = question;
        let key = DivisionKey { recovery, digest, replica: number, end };
        self.ask_division(now, key, ranges, waiter, effects)?;
        self.read_ahead(now, effects);
        Ok(())
    }

    /// The ranges that a question means, if the question brings them or an earlier one did.
    fn ranges_meant(
        &mut self,
        question: &RecoveryRead,
        effects: &mut Effects,
    ) -> Result<Arc<[PartitionRange]>, Status> {
        let RecoveryRead { recovery, digest, .. } = *question;
        let (dead, crashed) = (question.log.server, crashed_of(question));
        let known = &self.divisions.known;
        // Numbers rise from one division of a log to the next.
        let is_old = |(number, known): (&RecoveryId, &Known)| {
            (known.dead, known.crashed) == (dead, crashed) && *number > recovery
        };
        if known.iter().any(is_old) && !planted(Defect::OldRangesMeant) {
            return Err(Status::NotAllowed);
        }
        let is_meant = |known: &&Known| (known.dead, known.digest) == (dead, digest);
        if let Some(known) = known.get(&recovery).filter(is_meant) {
            return Ok(Arc::clone(&known.ranges));
        }
        if question.ranges.is_empty() {
            let of_log = |known: &&Known| known.dead == dead && planted(Defect::OldRangesMeant);
            let known = known.values().find(of_log).ok_or(Status::UnknownRanges)?;
            return Ok(Arc::clone(&known.ranges));
        }
        if ranges_digest(&question.ranges) != digest || !are_sound(&question.ranges) {
            return Err(Status::BadRequest);
        }
        Ok(self.learn(question, effects))
    }

    /// Takes up a division that was not known here, and notes the segments to read ahead.
    fn learn(&mut self, question: &RecoveryRead, effects: &mut Effects) -> Arc<[PartitionRange]> {
        let RecoveryRead { recovery, digest, .. } = *question;
        let (dead, crashed) = (question.log.server, crashed_of(question));
        let is_same = |known: &Known| (known.dead, known.crashed) == (dead, crashed);
        let before = self.divisions.known.iter().filter(|(id, known)| is_same(known) || **id == recovery);
        for before in before.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.divisions.forget(before);
        }
        let primaries =
            self.held_of(dead).filter(|(_, replica)| replica.stored.primary && replica.stored.closed);
        let mut replicas: Vec<(SegmentId, ReplicaNumber)> =
            primaries.map(|(number, replica)| (replica.key.segment, number)).collect();
        replicas.sort_unstable();
        let ahead = replicas.into_iter().map(|(_, number)| number).collect();
        let ranges: Arc<[PartitionRange]> = question.ranges.as_slice().into();
        let known = Known { dead, crashed, digest, ranges: Arc::clone(&ranges), ahead };
        self.divisions.known.insert(recovery, known);
        self.divisions.forget_some();
        effects.mark(Mark::BackupRangesTold);
        ranges
    }

    /// Begins reads for which no question has come yet.
    fn read_ahead(&mut self, now: Instant, effects: &mut Effects) {
        let reading = |divided: &Divided| matches!(divided.state, State::Reading { .. });
        let mut under_way = self.divisions.divided.values().filter(|divided| reading(divided)).count();
        while under_way < AHEAD_READS {
            let Some((recovery, known)) =
                self.divisions.known.iter_mut().find(|(_, known)| !known.ahead.is_empty())
            else {
                return;
            };
            let number = *known.ahead.last().expect("not empty");
            let key =
                DivisionKey { recovery: *recovery, digest: known.digest, replica: number, end: u32::MAX };
            let readable = self.replicas.get(&number).filter(|replica| !replica.freeing && !replica.corrupt);
            let Some(replica) = readable.filter(|_| !self.divisions.divided.contains_key(&key)) else {
                known.ahead.pop();
                continue;
            };
            let bytes = u64::from(replica.stored.certified());
            if self.divisions.bytes + bytes > self.divisions.bytes_max / 2 {
                return;
            }
            known.ahead.pop();
            let ranges = Arc::clone(&known.ranges);
            self.divisions.insert(now, key, ranges, bytes, Vec::new());
            self.read_division(now, key, effects);
            under_way += 1;
        }
    }

    fn readable(&self, key: &ReplicaKey, question: &RecoveryRead) -> Result<ReplicaNumber, Status> {
        let fits = |replica: &Replica| {
            let certified = replica.stored.certified();
            replica.stored.certificate.is_some()
                && replica.stored.epoch == question.epoch
                && (question.end == u32::MAX || certified >= question.end)
        };
        let held = self.present.get(key).into_iter().chain(self.found.get(key));
        let number =
            held.copied().find(|number| fits(&self.replicas[number])).ok_or(Status::UnknownReplica)?;
        if self.replicas[&number].corrupt { Err(Status::CorruptReplica) } else { Ok(number) }
    }

    fn ask_division(
        &mut self,
        now: Instant,
        key: DivisionKey,
        ranges: Arc<[PartitionRange]>,
        waiter: Waiter,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        // The segment is read for this question, or was read before: reading ahead leaves it out.
        if let Some(known) = self.divisions.known.get_mut(&key.recovery) {
            known.ahead.retain(|number| *number != key.replica);
        }
        self.divisions.clock += 1;
        let clock = self.divisions.clock;
        let is_given = |divided: &Divided| matches!(&divided.state, State::Divided { given, .. } if given.contains(&waiter.partition));
        if self.divisions.divided.get(&key).is_some_and(is_given) {
            // The answer was lost.
            self.divisions.remove(&key);
        }
        if let Some(divided) = self.divisions.divided.get_mut(&key) {
            divided.used = clock;
            match &mut divided.state {
                State::Divided { .. } => self.answer_all(now, key, vec![waiter], effects),
                State::Reading { waiters, .. } if waiters.len() < WAITER_COUNT_MAX => waiters.push(waiter),
                State::Reading { .. } => return Err(Status::Retry),
            }
            return Ok(());
        }
        let bytes = u64::from(self.replicas[&key.replica].stored.certified());
        if !self.divisions.make_room(bytes) {
            return Err(Status::Retry);
        }
        self.divisions.insert(now, key, ranges, bytes, vec![waiter]);
        self.read_division(now, key, effects);
        Ok(())
    }

    fn read_division(&mut self, now: Instant, key: DivisionKey, effects: &mut Effects) {
        let dead = self.replicas[&key.replica].key.log.server;
        self.works.of(dead).read.begin(now);
        self.read_replica(Task::DivisionRead { replica: key.replica, key }, key.replica, effects);
    }

    pub(crate) fn on_division_read(
        &mut self,
        now: Instant,
        number: ReplicaNumber,
        key: DivisionKey,
        bytes: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        let is_sound = self.end_read(number, bytes, effects).is_some();
        let replica_key = self.replicas[&number].key;
        let dead = replica_key.log.server;
        let read_bytes = bytes.as_ref().map(|bytes| bytes.len() as u64);
        if let Some(work) = self.works.known(dead) {
            work.read.end(now, read_bytes);
            if read_bytes.is_some() {
                work.divide.begin(now);
                self.divisions.dividing.push(Dividing { dead, bytes: read_bytes.filter(|_| is_sound) });
            }
        }
        let Divisions { divided, given, memory, bytes: accounted, .. } = &mut self.divisions;
        let Some(divided) = divided.get_mut(&key) else { return };
        let State::Reading { since, waiters } = &mut divided.state else { return };
        let (reading, waiters) = (now.since(*since), std::mem::take(waiters));
        let divide = |bytes: &[u8]| {
            let end = bytes.len().min(key.end as usize);
            Division::new(&replica_key, &divided.ranges)?
                .sort(&bytes[..end], |expected| memory.take_fitting(now, expected))
        };
        let sorted = bytes.filter(|_| is_sound).ok_or(Status::CorruptReplica).and_then(divide);
        match sorted {
            Ok(mut records) => {
                effects.mark(Mark::BackupSegmentDivided);
                let mut given = given.remove(&key).unwrap_or_default();
                waiters.iter().for_each(|waiter| _ = given.remove(&waiter.partition));
                for partition in &given {
                    records.remove(partition).into_iter().for_each(|records| memory.keep(records));
                }
                let found = records.values().map(|records| records.capacity() as u64).sum();
                *accounted = *accounted - divided.bytes + found;
                divided.bytes = found;
                divided.state = State::Divided { reading, records, given };
                self.answer_all(now, key, waiters, effects);
            }
            Err(status) => {
                self.divisions.remove(&key);
                if status == Status::CorruptReplica {
                    self.mark_corrupt(number, effects);
                }
                for waiter in &waiters {
                    reply(effects, Peer::Conn(waiter.from), &waiter.header, status);
                }
            }
        }
        self.read_ahead(now, effects);
    }

    /// Accounts for the segments that the step before has divided. Called when a step begins.
    pub(crate) fn note_divided(&mut self, now: Instant) {
        for Dividing { dead, bytes } in std::mem::take(&mut self.divisions.dividing) {
            if let Some(work) = self.works.known(dead) {
                work.divide.end(now, bytes);
            }
        }
    }

    /// Answers questions for a divided segment with their partitions' records. Forgets the segment when every partition
    /// has been answered.
    fn answer_all(&mut self, now: Instant, key: DivisionKey, waiters: Vec<Waiter>, effects: &mut Effects) {
        let is_over = !self.divisions.is_known(&key);
        let Divisions { divided, memory, bytes: accounted, .. } = &mut self.divisions;
        let Some(divided) = divided.get_mut(&key) else { return };
        let State::Divided { reading, records, given } = &mut divided.state else { return };
        let mut taken: BTreeMap<u32, Arc<Vec<u8>>> = BTreeMap::new();
        for waiter in waiters {
            let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let times = ReadTimes { reading: micros(*reading), waiting: micros(now.since(waiter.since)) };
            let (to, answer) = (Peer::Conn(waiter.from), waiter.header.answer(Status::Ok));
            let head = |out: &mut Vec<u8>| times.encode(out);
            if let Some(records) = records.remove(&waiter.partition) {
                given.insert(waiter.partition);
                taken.insert(waiter.partition, records);
            }
            match taken.get(&waiter.partition) {
                Some(records) => frame::send_sharing(effects, to, &answer, head, records),
                None => effects.send_with(to, |out| frame::write(out, &answer, head)),
            }
        }
        for records in taken.into_values() {
            divided.bytes -= records.capacity() as u64;
            *accounted -= records.capacity() as u64;
            memory.keep(records);
        }
        let is_empty = records.is_empty();
        self.divisions.bound_memory();
        if is_over || is_empty {
            self.divisions.remove(&key);
        }
    }

    pub(crate) fn fail_divisions(&mut self, effects: &mut Effects) {
        for (_, divided) in std::mem::take(&mut self.divisions.divided) {
            if let State::Reading { waiters, .. } = divided.state {
                for waiter in waiters {
                    reply(effects, Peer::Conn(waiter.from), &waiter.header, Status::DeviceFailed);
                }
            }
        }
        self.divisions.given.clear();
        self.divisions.dividing.clear();
        self.divisions.memory.bound(0);
        self.divisions.bytes = 0;
        self.divisions.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F11
    #[test]
    fn memory_is_found_up_to_a_bound_and_gives_way_to_what_is_divided() {
        const SEGMENT_BYTES: u32 = 8 * 1024;
        let (found, most) = (3 * 1152, 16 * 1024);
        let mut divisions = Divisions::new(most);
        assert_eq!(divisions.find_deadline(found), None, "for whom?");
        let mut now = Instant::ZERO;
        divisions.expect(1, SEGMENT_BYTES);
        divisions.find(now, found);
        assert_eq!(divisions.memory.bytes(), 0, "a segment's part has no room");
        // Eight masters take a part each, with an eighth of room.
        divisions.expect(9, SEGMENT_BYTES);
        let mut steps = 0;
        while let Some(at) = divisions.find_deadline(found) {
            now = now.max(at);
            divisions.find(now, found);
            steps += 1;
            assert!(steps <= 3 && divisions.find_deadline(found).is_none_or(|next| next > now));
        }
        assert_eq!(divisions.memory.bytes(), found);
        divisions.expect(5, SEGMENT_BYTES);
        assert_eq!(divisions.memory.bytes(), found, "some have just died");
        let key = DivisionKey { recovery: RecoveryId(1), digest: 0, replica: ReplicaNumber(1), end: 0 };
        divisions.insert(now, key, Arc::new([]), most - 1152, Vec::new());
        assert_eq!(divisions.memory.bytes(), 1152, "what was found is within the bound too");
        assert_eq!(divisions.find_deadline(u64::MAX), None, "a recovery needs the processor more");
        let records = [(0, Arc::new(vec![0; 1000])), (1, Arc::new(vec![0; 500]))].into();
        let divided = divisions.divided.get_mut(&key).unwrap();
        divided.state = State::Divided { reading: Duration::ZERO, records, given: BTreeSet::new() };
        divisions.remove(&key);
        assert_eq!(divisions.memory.bytes(), 1152 + 1500, "it stays for the next recovery");
        assert_eq!(divisions.find_deadline(u64::MAX), Some(now + FIND_YIELD));
        divisions.expect(100, SEGMENT_BYTES);
        assert_eq!(divisions.memory.bytes(), 0, "it fits nobody any more");
    }
}
