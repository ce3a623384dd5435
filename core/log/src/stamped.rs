//! Quorum records: the values and tombstones of a brick's keys, ordered by their stamps.
//!
//! The index refers to the newest record of each key, be it a value or a tombstone. A record names no other segments,
//! because a tombstone stays in the index until all bricks have it, and a restart takes the newest of what it finds.
//!
//! A record that was superseded is remembered as well: a brick must answer for it that it was stored (the applied set,
//! core/quorum). The set is rebuilt from the log after a restart. Therefore a segment with a record above the *bound* is
//! neither cleaned nor given up, even if nothing in it is live. The bound is the time of stamps up to which the brick has
//! forgotten. It is the safe version of a brick's log, so each head tells it before anything is freed because of it. Where it
//! must be durable and nothing is freed, it is told behind the records of a head, which needs no further segment.
//!
//! Invariants:
//! - the index refers to the record with the highest stamp of each key;
//! - a segment leaves the log only when no stamp in it is above the bound;
//! - the bound only rises.
//!
//! Not here: which stamps may be stored (core/quorum), a log that is taken over after a restart (`adopt`).
//! Protocol: docs/protocols/quorum.md. Catalogue: I1, I2, I6.

use crate::index::bucket::What;
use crate::log::{AppendRefusal, Log, Purpose, Unreadable, Written};
use crate::profile::Counted;
use crate::{Entry, Kind, Pieces, QuorumRecord, Reference, SegmentInfo, VERSION_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, KeyHash, Position, Stamp, StreamId, TableId, Version};

/// The newest record of a key.
#[derive(Clone, Copy)]
pub struct Newest<'a> {
    pub at: Reference,
    pub stamp: Stamp,
    /// The time from which the value does not exist. The log has no clock: the caller compares.
    pub expires: Option<ClusterTime>,
    /// `None`: a tombstone.
    pub value: Option<Pieces<'a>>,
    pub entry_bytes: u32,
}

impl Log {
    /// The newest record of a key. `hash` is the key's placement hash.
    pub fn newest(
        &self,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Option<Newest<'_>>, Unreadable> {
        let found = self.lookup(table, hash, key)?;
        Ok(found.map(|found| {
            let (stamp, is_deleted) = self.memory.stamp(found.at);
            Newest {
                at: found.at,
                stamp,
                expires: found.expires,
                value: (!is_deleted).then_some(found.value),
                entry_bytes: found.entry_bytes(),
            }
        }))
    }

    /// Appends a record to a stream's head and makes the index lead from its key to it. `replaces` is the record that
    /// `newest` found for this key in the same turn. Its stamp must be lower.
    pub fn store(
        &mut self,
        stream: StreamId,
        purpose: Purpose,
        hash: KeyHash,
        record: &QuorumRecord<'_>,
        replaces: Option<Reference>,
    ) -> Result<Written, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        let dead = replaces.map(|at| self.dead(at));
        if let Some(at) = replaces {
            assert!(self.memory.stamp(at).0 < record.stamp, "the newest stamp wins");
        }
        let place = self.place(record.table, hash);
        if dead.is_none() {
            let held_back = self.pending.entries();
            if held_back > 0 && !self.index.has_places(held_back + 1) {
                return Err(AppendRefusal::OutOfMemory);
            }
            let prepared = match purpose {
                Purpose::Recovery => self.index.prepare_recovered(place),
                Purpose::Ordinary | Purpose::Freeing | Purpose::Cleaning => self.index.prepare(place),
            };
            prepared.map_err(|_| AppendRefusal::OutOfMemory)?;
        }
        let floor = self.floor(purpose);
        self.admit(head, record.entry_bytes(), floor)?;

        // From here on nothing can fail.
        let offset = self.memory.append(head, &Entry::QuorumRecord(*record));
        let at = self.memory.reference(head, offset);
        let segment = self.memory.segments.at_mut(head);
        let bytes = segment.len_bytes - offset;
        let position = Position { segment: segment.id, offset: segment.len_bytes };
        let counted = Counted { table: record.table, hash, bytes, segment: segment.id };
        self.count_record(at, bytes, record);
        self.note_end(place, record.expires);
        match dead {
            Some(dead) => {
                self.index.replace(place, dead.at, What::Object, at);
                self.bury(record.table, hash, &dead);
            }
            None => {
                self.index.insert(place, What::Object, at);
                self.note_new_key(record.table, hash);
            }
        }
        self.counters.add(&counted, self.next_segment_id());
        self.forgive(place);
        Ok(Written { at, position })
    }

    /// Takes the newest record of a key, at this place, out of the index. Its bytes stay in its segment, where a later
    /// start would find them: the caller makes the segment leave.
    pub fn drop_record(&mut self, table: TableId, hash: KeyHash, at: Reference) {
        let dead = self.dead(at);
        self.index.remove(self.place(table, hash), at);
        self.bury(table, hash, &dead);
    }

    /// Counts a record to which the index is about to refer.
    pub(crate) fn count_record(&mut self, at: Reference, bytes: u32, record: &QuorumRecord<'_>) {
        let (slot, _) = self.memory.locate(at);
        let segment = self.memory.segments.at_mut(slot);
        segment.live_bytes += bytes;
        segment.live_count += 1;
        segment.indexed_count += 1;
        segment.stamp_newest = segment.stamp_newest.max(record.stamp.time);
    }

    /// Makes the index find a value when its time has come.
    pub(crate) fn note_end(&mut self, place: u64, expires: Option<ClusterTime>) {
        if let Some(end) = expires {
            self.may_expire = true;
            self.index.lower_end(place, end);
        }
    }

    /// The bound: the time of stamps up to which a brick has forgotten what it stored.
    pub fn bound(&self) -> u64 {
        self.safe_version().0
    }

    /// Raises the bound. It is durable with the next head of a stream, or when it is told.
    pub fn raise_bound(&mut self, bound: u64) {
        self.raise_safe_version(Version(bound).min(VERSION_MAX));
    }

    /// Appends the bound to a stream's head: it is durable with this entry, which takes no segment of its own. Returns the
    /// entry's end.
    pub fn tell_bound(&mut self, stream: StreamId) -> Result<Position, AppendRefusal> {
        let told = Entry::SafeVersion(self.safe_version());
        self.append(stream, Purpose::Freeing, &[told])
    }

    /// Whether a segment holds nothing that must be remembered although it was superseded.
    pub(crate) fn may_forget(&self, segment: &SegmentInfo) -> bool {
        segment.stamp_newest <= self.bound() || planted(Defect::QuorumAppliedCleaned)
    }

    /// The stamp of the record at a place that was handed out in the same turn.
    pub fn stamp_at(&self, at: Reference) -> Option<Stamp> {
        self.stamped_at(at).map(|(stamp, _)| stamp)
    }

    /// The stamp of the record at a place that was handed out in the same turn, and whether it is a tombstone.
    pub fn stamped_at(&self, at: Reference) -> Option<(Stamp, bool)> {
        let record = self.memory.record(at);
        (record.kind == Kind::QuorumRecord).then(|| self.memory.stamp(at))
    }
}
