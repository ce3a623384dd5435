//! Results of mutations, for clients that may ask again.
//!
//! For each lease this module keeps the sequences from its floor on that this master has seen. A sequence is burnt, or
//! it has a result. The result is in the log beside its effect; in a stream without replicas it is only here.
//! Acknowledged sequences are forgotten. Their entries are dead from then on, and are counted as dead at once.
//!
//! Invariants:
//! - a sequence has at most one place here, and the place names the entry of the sequence;
//! - a segment's `result_bytes` are those of the entries that places name;
//! - a floor never falls while its lease is known.
//!
//! Not here: whether a lease lives (master). Rules: docs/protocols/exactly-once.md. Catalogue: A3.

use crate::log::{AppendRefusal, Log, Purpose, Written};
use crate::segment::Slot;
use crate::{Entry, HashRange, Reference, RpcResult, SideId};
use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, LeaseId, Position, Sequence, Status, StreamId, TableId, Version};
use std::collections::{BTreeMap, VecDeque};

/// The most leases known at a time. It bounds their memory to some 40 MB.
pub const LEASE_COUNT_MAX: usize = 262_144;
/// The most places of one lease, and of all leases together. They bound memory to some 40 MB.
const WINDOW_MAX: usize = 65_536;
const PLACE_COUNT_MAX: usize = 1_000_000;

/// The state of a sequence, as recalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recalled {
    /// Nothing was known. From now on the sequence is burnt, until it has a result.
    First,
    /// The sequence was seen, and nothing was done.
    Burnt,
    /// The sequence is below the floor.
    Acknowledged,
    /// There is no room to remember the sequence.
    Full,
    /// The sequence has a result, which is damaged in memory.
    Damaged(Reference),
    /// The result of the sequence. It may be told when the stream is durable up to the position.
    Done { outcome: Remembered, position: Position },
}

/// The answer to the client of a mutation, the same however often the client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    pub status: Status,
    pub version: Version,
    /// The bits of the number that an increment left.
    pub number: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Burnt,
    /// A result that is kept here alone, in a stream without replicas.
    Kept(Remembered),
    Logged {
        at: Reference,
        bytes: u32,
        table: TableId,
        hash: KeyHash,
    },
}

#[derive(Debug, Default)]
struct Known {
    floor: Sequence,
    /// Sorted by sequence.
    places: VecDeque<(Sequence, Place)>,
}

/// The sequences of all leases.
#[derive(Debug, Default)]
pub(crate) struct Results {
    leases: FastMap<LeaseId, Known>,
    place_count: usize,
}

impl Known {
    fn find(&self, sequence: Sequence) -> Result<usize, usize> {
        match self.places.back() {
            Some((last, _)) if *last >= sequence => {
                self.places.binary_search_by_key(&sequence, |(sequence, _)| *sequence)
            }
            _ => Err(self.places.len()),
        }
    }
}

impl Results {
    fn place(&self, lease: LeaseId, sequence: Sequence) -> Option<&Place> {
        let known = self.leases.get(&lease)?;
        known.find(sequence).ok().map(|at| &known.places[at].1)
    }

    fn put(&mut self, lease: LeaseId, sequence: Sequence, place: Place) {
        let known = self.leases.entry(lease).or_default();
        match known.find(sequence) {
            Ok(at) => known.places[at].1 = place,
            Err(at) => {
                known.places.insert(at, (sequence, place));
                self.place_count += 1;
            }
        }
    }

    /// The entries of results whose keys are in a range.
    pub(crate) fn of_range(&self, range: HashRange) -> Vec<(LeaseId, Sequence, Reference, u32)> {
        let of_lease = |(lease, known): (&LeaseId, &Known)| {
            let lease = *lease;
            known
                .places
                .iter()
                .filter_map(move |(sequence, place)| match *place {
                    Place::Logged { at, bytes, table, hash } if range.contains(table, hash) => {
                        Some((lease, *sequence, at, bytes))
                    }
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let mut found: Vec<_> = self.leases.iter().flat_map(of_lease).collect();
        found.sort_unstable_by_key(|(lease, sequence, ..)| (*lease, *sequence));
        found
    }

    /// Whether a sequence has a result entry whose key is in this range.
    pub(crate) fn is_in(&self, lease: LeaseId, sequence: Sequence, range: HashRange) -> bool {
        matches!(self.place(lease, sequence), Some(Place::Logged { table, hash, .. }) if range.contains(*table, *hash))
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.leases.values().flat_map(|known| known.places.iter().map(|(_, place)| place))
    }

    /// Whether the entry at `at` is the one that the place of this sequence names.
    pub(crate) fn refers_to(&self, lease: LeaseId, sequence: Sequence, at: Reference) -> bool {
        matches!(self.place(lease, sequence), Some(Place::Logged { at: theirs, .. }) if *theirs == at)
    }

    /// Notes that the entry of a sequence has moved. The sequence must have an entry.
    pub(crate) fn repoint(&mut self, lease: LeaseId, sequence: Sequence, to: Reference) {
        let known = self.leases.get_mut(&lease).expect("its result was found");
        let found = known.find(sequence).expect("its result was found");
        let Place::Logged { at, .. } = &mut known.places[found].1 else {
            unreachable!("only an entry is moved");
        };
        *at = to;
    }
}

impl RpcResult {
    /// The answer for a client that asks for this result.
    pub fn remembered(&self) -> Remembered {
        Remembered { status: self.status, version: self.version, number: self.number }
    }
}

impl Log {
    /// Recalls a sequence. `floor` comes from the client: it no longer needs any sequence below.
    pub fn recall(&mut self, lease: LeaseId, sequence: Sequence, floor: Sequence) -> Recalled {
        if !self.results.leases.contains_key(&lease) && self.results.leases.len() >= LEASE_COUNT_MAX {
            return Recalled::Full;
        }
        self.acknowledge(lease, floor);
        let results = &mut self.results;
        let known = results.leases.get_mut(&lease).expect("acknowledging has made it known");
        if sequence < known.floor && !planted(Defect::FloorIgnored) {
            return Recalled::Acknowledged;
        }
        match known.find(sequence) {
            Err(_) if known.places.len() >= WINDOW_MAX || results.place_count >= PLACE_COUNT_MAX => {
                Recalled::Full
            }
            Err(at) => {
                known.places.insert(at, (sequence, Place::Burnt));
                results.place_count += 1;
                Recalled::First
            }
            Ok(at) => match known.places[at].1 {
                Place::Burnt => Recalled::Burnt,
                Place::Kept(outcome) => Recalled::Done { outcome, position: Position::default() },
                Place::Logged { at, bytes, .. } => self.read_result(at, bytes),
            },
        }
    }

    /// The result of a sequence, if there is one and it can be read.
    pub fn result(&self, lease: LeaseId, sequence: Sequence) -> Option<Remembered> {
        match *self.results.place(lease, sequence)? {
            Place::Burnt => None,
            Place::Kept(outcome) => Some(outcome),
            Place::Logged { at, bytes, .. } => match self.read_result(at, bytes) {
                Recalled::Done { outcome, .. } => Some(outcome),
                _ => None,
            },
        }
    }

    fn read_result(&self, at: Reference, bytes: u32) -> Recalled {
        let (slot, offset) = self.memory.locate(at);
        let Some(result) = self.memory.intact_result(slot, offset, bytes) else {
            return Recalled::Damaged(at);
        };
        let is_survivor = self.memory.segments.at(slot).is_survivor;
        let position = if is_survivor || planted(Defect::ResultToldEarly) {
            Position::default()
        } else {
            self.memory.end_of(at, bytes)
        };
        Recalled::Done { outcome: result.remembered(), position }
    }

    /// Forgets all sequences below `floor`, which the client has acknowledged.
    pub(crate) fn acknowledge(&mut self, lease: LeaseId, floor: Sequence) {
        let known = self.results.leases.entry(lease).or_default();
        if floor <= known.floor {
            return;
        }
        known.floor = floor;
        while let Some(known) = self.results.leases.get_mut(&lease)
            && let Some((sequence, place)) = known.places.front().copied()
            && sequence < floor
        {
            known.places.pop_front();
            self.results.place_count -= 1;
            self.discount_result(&place);
        }
    }

    /// Takes the entry of a sequence off the counts, because another entry is about to replace it.
    pub(crate) fn discount_result_of(&mut self, lease: LeaseId, sequence: Sequence) {
        if let Some(place) = self.results.place(lease, sequence).copied() {
            self.discount_result(&place);
        }
    }

    /// Takes the entry of a place that is given up off the counts.
    fn discount_result(&mut self, place: &Place) {
        if let Place::Logged { at, bytes, .. } = place {
            let (slot, _) = self.memory.locate(*at);
            let segment = self.memory.segments.at_mut(slot);
            segment.live_bytes -= bytes;
            segment.live_count -= 1;
            segment.result_bytes -= bytes;
        }
    }

    /// Appends the result of a mutation that had no effect.
    pub fn refuse(
        &mut self,
        stream: StreamId,
        purpose: Purpose,
        result: &RpcResult,
    ) -> Result<Written, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        self.admit(head, result.entry_bytes(), self.floor(purpose))?;
        let at = self.append_result(head, result);
        let segment = self.memory.segments.at(head);
        Ok(Written { at, position: Position { segment: segment.id, offset: segment.len_bytes } })
    }

    /// Remembers a result here alone, without an entry.
    pub fn keep_result(&mut self, result: &RpcResult) {
        self.results.put(result.lease, result.sequence, Place::Kept(result.remembered()));
    }

    /// Appends a result for which there is room.
    pub(crate) fn append_result(&mut self, slot: Slot, result: &RpcResult) -> Reference {
        let offset = self.memory.append(slot, &Entry::RpcResult(*result));
        let at = self.memory.reference(slot, offset);
        let bytes = result.entry_bytes() as u32;
        self.count_result(slot, bytes);
        let RpcResult { table, hash, lease, sequence, .. } = *result;
        self.results.put(lease, sequence, Place::Logged { at, bytes, table, hash });
        at
    }

    pub(crate) fn count_result(&mut self, slot: Slot, bytes: u32) {
        let segment = self.memory.segments.at_mut(slot);
        segment.live_bytes += bytes;
        segment.live_count += 1;
        segment.result_bytes += bytes;
    }

    /// Whether a result that a recovery brings is new and not acknowledged.
    pub(crate) fn wants_result(&self, lease: LeaseId, sequence: Sequence) -> bool {
        let Some(known) = self.results.leases.get(&lease) else { return true };
        let is_burnt_or_new = matches!(self.results.place(lease, sequence), None | Some(Place::Burnt));
        sequence >= known.floor && is_burnt_or_new
    }

    /// The known leases. The order has no meaning.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.results.leases.keys().copied()
    }

    /// Whether anything is known of a lease.
    pub fn knows_lease(&self, lease: LeaseId) -> bool {
        self.results.leases.contains_key(&lease)
    }

    /// The number of remembered sequences of all leases.
    pub fn result_count(&self) -> usize {
        self.results.place_count
    }

    /// The sequences that have a result entry of this range. For tests only.
    #[doc(hidden)]
    pub fn results_in(&self, range: HashRange) -> impl Iterator<Item = (LeaseId, Sequence)> {
        self.results.of_range(range).into_iter().map(|(lease, sequence, ..)| (lease, sequence))
    }

    /// Forgets a lease that has ended, including its floor.
    pub fn forget_lease(&mut self, lease: LeaseId) {
        let Some(known) = self.results.leases.remove(&lease) else { return };
        self.results.place_count -= known.places.len();
        known.places.iter().for_each(|(_, place)| self.discount_result(place));
    }

    /// Forgets the results of a range that this master no longer owns. Their sequences are burnt. Walks over all
    /// places.
    pub fn forget_results(&mut self, range: HashRange) {
        self.forget_results_if(|_, table, hash, _| range.contains(table, hash));
    }

    pub(crate) fn forget_results_of_side(&mut self, side: SideId) {
        self.forget_results_if(|log, _, _, at| log.memory.segment_of(at).side == Some(side));
    }

    fn forget_results_if(&mut self, is_meant: impl Fn(&Log, TableId, KeyHash, Reference) -> bool) {
        let mut results = std::mem::take(&mut self.results);
        for (_, place) in results.leases.values_mut().flat_map(|known| known.places.iter_mut()) {
            if let Place::Logged { at, table, hash, .. } = *place
                && is_meant(self, table, hash, at)
            {
                self.discount_result(place);
                *place = Place::Burnt;
            }
        }
        self.results = results;
    }

    /// Panics when the counts differ from the places. Returns the number of results in each segment.
    pub(crate) fn check_results(&self) -> BTreeMap<Slot, u32> {
        let (mut bytes_of, mut count_of) = (BTreeMap::<Slot, u32>::new(), BTreeMap::<Slot, u32>::new());
        for place in self.results.places() {
            if let Place::Logged { at, bytes, .. } = place {
                let (slot, _) = self.memory.locate(*at);
                *bytes_of.entry(slot).or_default() += bytes;
                *count_of.entry(slot).or_default() += 1;
            }
        }
        for (slot, segment) in self.memory.segments.iter_slots() {
            assert_eq!(segment.result_bytes, bytes_of.get(&slot).copied().unwrap_or_default());
        }
        assert_eq!(self.results.place_count, self.results.places().count());
        for known in self.results.leases.values() {
            assert!(known.places.iter().zip(known.places.iter().skip(1)).all(|(a, b)| a.0 < b.0));
            assert!(known.places.front().is_none_or(|(sequence, _)| *sequence >= known.floor));
        }
        count_of
    }
}
