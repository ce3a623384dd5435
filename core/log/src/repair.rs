//! Restores a damaged segment from the bytes of one of its replicas.
//!
//! The very bytes are restored in place. So references, counts, passes and the certificate on the backups stay right,
//! and no other part is involved. The restored bytes must match the checksum that the segment has carried since its
//! bytes were appended. If they do not match, they are not taken, however plausible they are.
//!
//! A segment that was not compacted has the bytes of its replicas, up to the length that these have so far: this covers
//! heads. A compacted segment or an image has a part of the replica's entries in the same order, some with a shorter
//! list of segments. A damaged entry is searched for among the replica's entries that follow the intact entry before
//! it.
//!
//! Not here: where the replica comes from (master). Rules: docs/protocols/cleaning.md. Catalogue: C8.

use crate::log::Log;
use crate::moving::HashOf;
use crate::segment::Slot;
use crate::{Entry, EntryReader, HEADER_BYTES, OlderList, Reference};
use ramhold_base::checksum::crc;
use ramhold_base::{SegmentId, TableId};
use std::collections::BTreeSet;

/// The most damaged places of one segment that are searched for. Each search takes some ten milliseconds in a segment
/// of 8 MiB.
const PLACE_COUNT_MAX: usize = 64;
/// The most variants that are encoded when all lists are tried (`Lists::All`): some tens of milliseconds.
const VARIANT_COUNT_MAX: usize = 1 << 18;

/// The result of a repair with one replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repaired {
    /// The segment is as it was written.
    Whole,
    /// The segment cannot be repaired with this replica: ask another backup, or ask later when more of the head is
    /// replicated.
    Unfit,
}

/// The lists of segments that a compaction may have left in an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// The whole list, or those of its segments that count now.
    Likely,
    /// Every subset of the list.
    All,
}

/// Bits behind the point of the share of differing bytes: one byte of the largest entry must count.
const SHARE_BITS: u32 = 32;

/// How much a candidate differs from the damaged bytes. The candidate with the lowest score is taken.
type Score = (bool, bool, u64);

/// A search for damaged entries of one segment.
struct Search<'a> {
    log: &'a Log,
    lists: Lists,
    /// Whether a candidate that ends where another entry begins is preferred to one with fewer differing bytes. That is
    /// right when much is damaged. It is wrong when the next entry has a list that cannot be known, so that its header
    /// is in no set.
    ends_first: bool,
    hash_of: HashOf<'a>,
    /// The headers that the replica's entries have with their likely lists (`Lists::Likely`).
    headers: BTreeSet<[u8; HEADER_BYTES]>,
    encoded_count: usize,
}

impl Log {
    /// Restores a segment in memory, and the image that is being made of it, from the bytes of a replica. They must
    /// match the replica's certificate. `hash_of` is the placement hash of a table's key.
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

    /// The bytes in memory, with entries of the replica in the place of the damaged ones.
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

    /// The headers with which the likely variants of entries begin.
    fn headers(&self, entries: &[Entry<'_>]) -> BTreeSet<[u8; HEADER_BYTES]> {
        let (mut headers, mut encoded) = (BTreeSet::new(), Vec::new());
        for variant in entries.iter().flat_map(|entry| self.variants(entry, Lists::Likely)) {
            encoded.clear();
            variant.encode(&mut encoded);
            headers.extend(encoded.first_chunk::<HEADER_BYTES>());
        }
        headers
    }

    /// The entries that a compaction may have made of an entry.
    fn variants<'a>(&self, entry: &Entry<'a>, lists: Lists) -> Vec<Entry<'a>> {
        let older = match entry {
            Entry::Object(_, older) => *older,
            Entry::Tombstone(tombstone) => tombstone.segments,
            Entry::SegmentHeader(_)
            | Entry::Digest(_)
            | Entry::SafeVersion(_)
            | Entry::TabletStats(_)
            | Entry::RpcResult(_)
            | Entry::QuorumRecord(_)
            | Entry::Summaries(_) => OlderList::NONE,
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
    /// The entry that most likely stood where `rest` begins. An entry that the index refers to at this place comes
    /// first, then, with `ends_first`, one that ends where another entry begins, then the one with the smallest share
    /// of differing bytes.
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
                let other_bytes = present.iter().zip(&encoded).filter(|(a, b)| a != b).count() as u64;
                let ends_elsewhere = self.ends_first && encoded.len() != next_start;
                let score = (!is_indexed, ends_elsewhere, (other_bytes << SHARE_BITS) / encoded.len() as u64);
                if best.as_ref().is_none_or(|(best, ..)| score < *best) {
                    best = Some((score, number, encoded.clone()));
                }
            }
        }
        best.map(|(_, number, bytes)| (number, bytes))
    }
}

/// Whether an entry of a compacted segment was made from this entry of its replica.
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
        Entry::QuorumRecord(record) => Some((record.table, record.key)),
        Entry::Tombstone(_)
        | Entry::SegmentHeader(_)
        | Entry::Digest(_)
        | Entry::SafeVersion(_)
        | Entry::TabletStats(_)
        | Entry::Summaries(_)
        | Entry::RpcResult(_) => None,
    }
}
