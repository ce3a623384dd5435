//! Makes a damaged segment what it was, from the bytes of one of its replicas.
//!
//! The very bytes are restored, in place: so references, counts, passes and the certificate on the backups all stay
//! right, and nothing else needs to know. What confirms them is the checksum that the segment has carried since its
//! bytes were appended; whatever it does not confirm is not taken, however plausible.
//!
//! A segment that was not compacted has the bytes of its replicas, up to what these hold so far: that covers heads. One
//! that was compacted, or is an image, has a part of the replica's entries in the same order, some with a shorter list of
//! segments: the damaged ones are found among those that follow the intact entry before them.
//!
//! Not here: where the replica comes from (master). Rules: docs/protocols/cleaning.md. Catalogue: C8.

use crate::log::Log;
use crate::moving::HashOf;
use crate::segment::Slot;
use crate::{Entry, EntryReader, HEADER_BYTES, OlderList, Reference};
use ramhold_base::checksum::crc;
use ramhold_base::{SegmentId, TableId};
use std::collections::BTreeSet;

/// Damaged places of one segment that are searched for; each takes some ten milliseconds in a segment of 8 MiB.
const PLACE_COUNT_MAX: usize = 64;
/// What the search for any list may encode: some tens of milliseconds.
const VARIANT_COUNT_MAX: usize = 1 << 18;

/// What a replica was good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repaired {
    /// The segment is as it was written.
    Whole,
    /// With this replica it cannot be: ask another backup, or later when the head is replicated further.
    Unfit,
}

/// Which lists a compaction may have left of an entry's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// All of it, or what counts now.
    Likely,
    /// Every part of it.
    All,
}

/// How unlike what is there a candidate is: the lowest is taken.
type Score = (bool, bool, usize);

/// A search for damaged entries of one segment.
struct Search<'a> {
    log: &'a Log,
    lists: Lists,
    /// Whether it says more of a candidate that it ends where another entry begins than that few bytes differ. It does
    /// when much is damaged; not when the entry behind has a list that nobody can know and so begins as none does.
    ends_first: bool,
    hash_of: HashOf<'a>,
    /// How the replica's entries begin, but for lists that are neither whole nor as they would be now.
    headers: BTreeSet<[u8; HEADER_BYTES]>,
    encoded_count: usize,
}

impl Log {
    /// Restores a segment that is in memory, and the image that is being made of it, from a replica's bytes, which hold
    /// by their own certificate. `hash_of` is the placement hash of a table's key.
    pub fn repair(&mut self, id: SegmentId, replica: &[u8], hash_of: HashOf<'_>) -> Repaired {
        let mut repaired = Repaired::Whole;
        for slot in self.slots_of(id) {
            if self.memory.is_whole(slot) {
                continue;
            }
            match self.rebuilt(slot, replica, hash_of) {
                Some(bytes) => self.memory.overwrite(slot, 0, &bytes),
                None => repaired = Repaired::Unfit,
            }
        }
        repaired
    }

    fn rebuilt(&self, slot: Slot, replica: &[u8], hash_of: HashOf<'_>) -> Option<Vec<u8>> {
        let segment = self.memory.segments.at(slot);
        let memory = self.memory.pieces(slot, 0, segment.len_bytes).to_vec();
        let is_it = |bytes: &Vec<u8>| bytes.len() == memory.len() && crc(bytes) == segment.crc;
        let same = replica.len().min(memory.len());
        let straight = [&replica[..same], &memory[same..]].concat();
        if is_it(&straight) {
            return Some(straight);
        }
        if !segment.is_compacted && !segment.is_image {
            return None;
        }
        let all: Result<Vec<_>, _> = EntryReader::new(replica).map(|entry| entry.map(|(_, it)| it)).collect();
        let entries = all.ok()?;
        [(Lists::Likely, true), (Lists::Likely, false), (Lists::All, true), (Lists::All, false)]
            .into_iter()
            .find_map(|how| self.patched(slot, &memory, &entries, how, hash_of).filter(is_it))
    }

    /// The memory's entries, with those of the replica in the place of the damaged.
    fn patched(
        &self,
        slot: Slot,
        memory: &[u8],
        entries: &[Entry<'_>],
        (lists, ends_first): (Lists, bool),
        hash_of: HashOf<'_>,
    ) -> Option<Vec<u8>> {
        let headers = self.headers(entries);
        let mut search = Search { log: self, lists, ends_first, hash_of, headers, encoded_count: 0 };
        // An image begins with the same opening.
        let opening_bytes = self.memory.segments.at(slot).opening_bytes as usize;
        let (mut out, mut next, mut bytes) = (Vec::with_capacity(memory.len()), 0, 0);
        while bytes < opening_bytes {
            let entry = entries.get(next)?;
            entry.encode(&mut out);
            (next, bytes) = (next + 1, bytes + entry.entry_bytes());
        }
        let mut place_count = 0;
        while out.len() < memory.len() {
            let rest = &memory[out.len()..];
            if let Ok((entry, bytes)) = Entry::decode(rest) {
                next += entries[next..].iter().position(|original| is_of(&entry, original))? + 1;
                out.extend_from_slice(&rest[..bytes]);
                continue;
            }
            place_count += 1;
            if place_count > PLACE_COUNT_MAX {
                return None;
            }
            let here = self.memory.reference(slot, out.len() as u32);
            let (chosen, bytes) = search.most_alike(here, rest, &entries[next..])?;
            next += chosen + 1;
            out.extend_from_slice(&bytes);
        }
        Some(out)
    }

    /// The headers that entries begin with.
    fn headers(&self, entries: &[Entry<'_>]) -> BTreeSet<[u8; HEADER_BYTES]> {
        let (mut headers, mut encoded) = (BTreeSet::new(), Vec::new());
        for variant in entries.iter().flat_map(|entry| self.variants(entry, Lists::Likely)) {
            encoded.clear();
            variant.encode(&mut encoded);
            headers.extend(encoded.first_chunk::<HEADER_BYTES>());
        }
        headers
    }

    /// What a compaction may have made of an entry.
    fn variants<'a>(&self, entry: &Entry<'a>, lists: Lists) -> Vec<Entry<'a>> {
        let older = match entry {
            Entry::Object(_, older) => *older,
            Entry::Tombstone(tombstone) => tombstone.segments,
            Entry::SegmentHeader(_)
            | Entry::Digest(_)
            | Entry::SafeVersion(_)
            | Entry::TabletStats(_)
            | Entry::RpcResult(_) => OlderList::NONE,
        };
        let with = |older: OlderList| match *entry {
            Entry::Object(object, _) => Entry::Object(object, older),
            Entry::Tombstone(tombstone) => {
                Entry::Tombstone(crate::Tombstone { segments: older, ..tombstone })
            }
            other => other,
        };
        if older.is_empty() {
            return vec![*entry];
        }
        match lists {
            Lists::Likely => {
                vec![with(older), with(older.iter().filter(|segment| self.counts(*segment)).collect())]
            }
            Lists::All => (0..1_u32 << older.count())
                .map(|kept| {
                    let named = older.iter().enumerate();
                    with(named.filter(|(bit, _)| kept & 1 << bit != 0).map(|(_, segment)| segment).collect())
                })
                .collect(),
        }
    }
}

impl Search<'_> {
    /// The entry that most likely stood where `rest` begins: best one that the index refers to there, then perhaps one
    /// that ends where another begins, then the one with the smallest part of other bytes.
    fn most_alike(
        &mut self,
        here: Reference,
        rest: &[u8],
        entries: &[Entry<'_>],
    ) -> Option<(usize, Vec<u8>)> {
        let log = self.log;
        let begins =
            |at: &usize| rest[*at..].first_chunk().is_some_and(|header| self.headers.contains(header));
        let next_start = (1..rest.len()).find(begins).unwrap_or(rest.len());
        let mut best: Option<(Score, usize, Vec<u8>)> = None;
        let mut encoded = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let is_indexed = key_of(entry).is_some_and(|(table, key)| {
                log.index.holds(log.place(table, (self.hash_of)(table, key)), here)
            });
            for variant in log.variants(entry, self.lists) {
                self.encoded_count += 1;
                if self.lists == Lists::All && self.encoded_count > VARIANT_COUNT_MAX {
                    return None;
                }
                encoded.clear();
                variant.encode(&mut encoded);
                let Some(present) = rest.get(..encoded.len()) else { continue };
                let other_bytes = present.iter().zip(&encoded).filter(|(a, b)| a != b).count();
                let ends_elsewhere = self.ends_first && encoded.len() != next_start;
                let score = (!is_indexed, ends_elsewhere, other_bytes * 1024 / encoded.len());
                if best.as_ref().is_none_or(|(best, ..)| score < *best) {
                    best = Some((score, number, encoded.clone()));
                }
            }
        }
        best.map(|(_, number, bytes)| (number, bytes))
    }
}

/// Whether an entry of a compacted segment is what was made of this entry of its replica.
fn is_of(entry: &Entry<'_>, original: &Entry<'_>) -> bool {
    match (entry, original) {
        (Entry::Object(entry, _), Entry::Object(original, _)) => entry == original,
        (Entry::Tombstone(entry), Entry::Tombstone(original)) => {
            (entry.table, entry.version, entry.key) == (original.table, original.version, original.key)
        }
        _ => entry == original,
    }
}

fn key_of<'a>(entry: &Entry<'a>) -> Option<(TableId, &'a [u8])> {
    match entry {
        Entry::Object(object, _) => Some((object.table, object.key)),
        Entry::Tombstone(_)
        | Entry::SegmentHeader(_)
        | Entry::Digest(_)
        | Entry::SafeVersion(_)
        | Entry::TabletStats(_)
        | Entry::RpcResult(_) => None,
    }
}
