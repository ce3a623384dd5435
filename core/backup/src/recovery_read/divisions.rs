//! The segments of dead servers that are divided or being read, and the bounded memory of their records.
//!
//! A partition's records of a divided segment stay until the partition has been answered. If memory is needed before,
//! the least recently used segment is forgotten first. When a forgotten segment is asked for again, it is read again.
//!
//! Invariants:
//! - divided segments and those being read take at most the configured memory, besides answers on their way;
//! - an answer uses the ranges that its question means.
//!
//! Not here: reading and dividing (recovery_read), the ranges (known_ranges). Catalogue: F4, F11.

use crate::keys::DivisionKey;
use crate::recovery_read::known_ranges::KnownRanges;
use crate::recovery_read::prepared::{Pieces, Prepared};
use crate::request::Asker;
use ramhold_base::{Effects, Instant, RecoveryId, Status};
use ramhold_wire::frame;
use ramhold_wire::recovery::{PartitionRange, ReadTimes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A question that waits for a segment.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub asker: Asker,
    pub partition: u32,
    pub since: Instant,
}

#[derive(Debug)]
pub(crate) enum State {
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
pub(crate) struct Divided {
    pub ranges: Arc<[PartitionRange]>,
    /// The accounted bytes: the certified length while the segment is read, then the memory of its records.
    pub bytes: u64,
    pub used: u64,
    pub state: State,
}

impl Divided {
    /// Whether no question waits for the segment, because it is divided.
    fn is_idle(&self) -> bool {
        matches!(self.state, State::Divided { .. })
    }
}

/// All segments that are divided or being read.
#[derive(Debug)]
pub(crate) struct Divisions {
    bytes_max: u64,
    pub bytes: u64,
    /// Counts uses, to find the least recently used.
    clock: u64,
    pub divided: BTreeMap<DivisionKey, Divided>,
    /// For segments that were forgotten before all partitions were answered: the answered partitions. When such a
    /// segment is read again, only the records of the others are kept.
    pub given: BTreeMap<DivisionKey, BTreeSet<u32>>,
    pub known: KnownRanges,
    pub prepared: Prepared,
}

impl Divisions {
    pub fn new(bytes_max: u64) -> Divisions {
        Divisions {
            bytes_max,
            bytes: 0,
            clock: 0,
            divided: BTreeMap::new(),
            given: BTreeMap::new(),
            known: KnownRanges::default(),
            prepared: Prepared::new(),
        }
    }

    /// Notes the number of servers. Memory that was prepared for another number of masters is given back.
    pub fn expect(&mut self, servers: usize, segment_bytes: u32) {
        match self.prepared.expect(servers, segment_bytes) {
            Pieces::Resized if self.divided.is_empty() => self.prepared.memory.bound(0),
            Pieces::Resized | Pieces::Same => {}
        }
    }

    /// Makes the system find memory for records in advance, at most `bytes_max` bytes.
    pub fn find(&mut self, now: Instant, bytes_max: u64) {
        if self.find_deadline(bytes_max).is_some_and(|at| at <= now) {
            self.prepared.find(now);
        }
    }

    /// The instant when the next piece of memory should be prepared.
    pub fn find_deadline(&self, bytes_max: u64) -> Option<Instant> {
        if !self.divided.is_empty() {
            return None;
        }
        self.prepared.find_deadline(bytes_max.min(self.bytes_max))
    }

    pub fn remove(&mut self, key: &DivisionKey) {
        let gone = self.divided.remove(key).expect("what is removed was there");
        self.bytes -= gone.bytes;
        if let State::Divided { records, given, .. } = gone.state {
            if !records.is_empty() && !given.is_empty() {
                self.given.insert(*key, given);
            }
            records.into_values().for_each(|records| self.prepared.memory.keep(records));
            self.bound_memory();
        }
    }

    /// Gives prepared memory back that has no room beside the divided segments.
    fn bound_memory(&mut self) {
        self.prepared.memory.bound(self.bytes_max.saturating_sub(self.bytes));
    }

    /// Makes room by forgetting the least recently used divided segments. Segments being read stay.
    pub fn make_room(&mut self, bytes: u64) -> Result<(), Status> {
        while self.bytes + bytes > self.bytes_max {
            let idle = self.divided.iter().filter(|(_, divided)| divided.is_idle());
            let oldest = idle.min_by_key(|(_, divided)| divided.used).map(|(key, _)| *key);
            self.remove(&oldest.ok_or(Status::Retry)?);
        }
        Ok(())
    }

    /// Whether there is room for a segment that nobody has asked for yet. Reading ahead takes at most half of the
    /// memory.
    pub fn has_room_ahead(&self, bytes: u64) -> bool {
        self.bytes + bytes <= self.bytes_max / 2
    }

    pub fn reads_under_way(&self) -> usize {
        self.divided.values().filter(|divided| !divided.is_idle()).count()
    }

    /// Forgets a division and the segments that were divided by it. Questions for segments being read are still
    /// answered.
    pub fn forget(&mut self, recovery: RecoveryId) {
        self.known.forget(recovery);
        let divided = self.divided.iter().filter(|(key, _)| key.recovery == recovery);
        let idle = divided.filter(|(_, divided)| divided.is_idle());
        for key in idle.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(&key);
        }
        self.given.retain(|key, _| key.recovery != recovery);
    }

    /// Counts a use. Returns its number.
    pub fn use_count(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Enters a segment whose read begins.
    pub fn insert(
        &mut self,
        since: Instant,
        key: DivisionKey,
        ranges: Arc<[PartitionRange]>,
        bytes: u64,
        waiters: Vec<Waiter>,
    ) {
        let used = self.use_count();
        self.bytes += bytes;
        self.prepared.make_way(since);
        self.bound_memory();
        let state = State::Reading { since, waiters };
        let before = self.divided.insert(key, Divided { ranges, bytes, used, state });
        assert!(before.is_none(), "a segment is read once");
    }

    /// Answers questions for a divided segment with their partitions' records. Forgets the segment when every partition
    /// has been answered.
    pub fn answer_all(
        &mut self,
        now: Instant,
        key: DivisionKey,
        waiters: Vec<Waiter>,
        effects: &mut Effects,
    ) {
        let is_over = !self.known.contains(&key);
        let Divisions { divided, prepared, bytes: accounted, .. } = self;
        let Some(divided) = divided.get_mut(&key) else { return };
        let State::Divided { reading, records, given } = &mut divided.state else { return };
        let mut taken: BTreeMap<u32, Arc<Vec<u8>>> = BTreeMap::new();
        for Waiter { asker, partition, since } in waiters {
            let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let times = ReadTimes { reading: micros(*reading), waiting: micros(now.since(since)) };
            let (to, answer) = (asker.peer(), asker.header.answer(Status::Ok));
            let head = |out: &mut Vec<u8>| times.encode(out);
            if let Some(records) = records.remove(&partition) {
                given.insert(partition);
                taken.insert(partition, records);
            }
            match taken.get(&partition) {
                Some(records) => frame::send_sharing(effects, to, &answer, head, records),
                None => effects.send_with(to, |out| frame::write(out, &answer, head)),
            }
        }
        for records in taken.into_values() {
            divided.bytes -= records.capacity() as u64;
            *accounted -= records.capacity() as u64;
            prepared.memory.keep(records);
        }
        let is_empty = records.is_empty();
        self.bound_memory();
        if is_over || is_empty {
            self.remove(&key);
        }
    }

    /// The device has failed: nothing is divided any more.
    pub fn fail(&mut self, effects: &mut Effects) {
        let segments = std::mem::take(&mut self.divided);
        for divided in segments.into_values() {
            match divided.state {
                State::Reading { waiters, .. } => {
                    waiters.iter().for_each(|waiter| waiter.asker.answer(Status::DeviceFailed, effects));
                }
                State::Divided { .. } => {}
            }
        }
        self.given.clear();
        self.prepared.memory.bound(0);
        self.bytes = 0;
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ReplicaNumber;
    use crate::recovery_read::prepared::FIND_YIELD;

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
        assert_eq!(divisions.prepared.memory.bytes(), 0, "a segment's part has no room");
        // Eight masters take a part each, with an eighth of room.
        divisions.expect(9, SEGMENT_BYTES);
        let mut steps = 0;
        while let Some(at) = divisions.find_deadline(found) {
            now = now.max(at);
            divisions.find(now, found);
            steps += 1;
            assert!(steps <= 3 && divisions.find_deadline(found).is_none_or(|next| next > now));
        }
        assert_eq!(divisions.prepared.memory.bytes(), found);
        divisions.expect(5, SEGMENT_BYTES);
        assert_eq!(divisions.prepared.memory.bytes(), found, "some have just died");
        let key = DivisionKey { recovery: RecoveryId(1), digest: 0, replica: ReplicaNumber(1), end: 0 };
        divisions.insert(now, key, Arc::new([]), most - 1152, Vec::new());
        assert_eq!(divisions.prepared.memory.bytes(), 1152, "what was found is within the bound too");
        assert_eq!(divisions.find_deadline(u64::MAX), None, "a recovery needs the processor more");
        let records = [(0, Arc::new(vec![0; 1000])), (1, Arc::new(vec![0; 500]))].into();
        let divided = divisions.divided.get_mut(&key).unwrap();
        divided.state = State::Divided { reading: Duration::ZERO, records, given: BTreeSet::new() };
        divisions.remove(&key);
        assert_eq!(divisions.prepared.memory.bytes(), 1152 + 1500, "it stays for the next recovery");
        assert_eq!(divisions.find_deadline(u64::MAX), Some(now + FIND_YIELD));
        divisions.expect(100, SEGMENT_BYTES);
        assert_eq!(divisions.prepared.memory.bytes(), 0, "it fits nobody any more");
    }
}
