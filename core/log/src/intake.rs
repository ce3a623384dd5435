//! Entries of another log by the segment: found, verified and taken in many at a time.
//!
//! A recovery master's core spends most of its time waiting for buckets of the index. So entries are worked on in
//! batches: all of a batch are verified and their keys hashed, then the buckets of all are fetched together, then what
//! those lead to, and only then is one after the other replayed. A plain object whose key is not here yet, which nearly
//! all are, is copied as it stands, its checksum with it.
//!
//! Invariants:
//! - nothing is believed of an entry whose checksum does not hold;
//! - the result is that of `Log::replay`, entry by entry in order;
//! - what is refused leaves the offset at the entry that was refused, so that it can be tried again.
//!
//! Not here: what an entry does to the log (`replay`), where the bytes come from (master, backup).
//! Catalogue: F4, E4. Source: SOSP11 3.4; TUT15 "Fast Crash Recovery".

use crate::entry::{HEADER_BYTES, RecordPrefix, Word};
use crate::log::{Log, Purpose};
use crate::{AppendRefusal, Entry, HashRange, Kind, Reference, Replayed, SideId};
use ramhold_base::checksum::crc;
use ramhold_base::hash::{Placement, PlacementHasher};
use ramhold_base::{KeyHash, TableId, Version};
use std::fmt;
use std::hint::black_box;

/// Entries worked on together: enough that the processor always waits for several buckets, few enough to stay in its
/// nearest cache.
const BATCH: usize = 32;

/// Which keys are taken in, and which side log takes them.
#[derive(Default)]
pub struct Intake {
    /// In order of tables.
    tables: Vec<TableIntake>,
}

struct TableIntake {
    table: TableId,
    hasher: PlacementHasher,
    /// In order of hashes, not overlapping: first, last, side log.
    ranges: Vec<(KeyHash, KeyHash, SideId)>,
}

/// Why taking in stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntakeStop {
    /// The bytes are not entries from here on, or hold one that belongs to no range.
    Corrupt,
    /// The entry at the offset was refused; nothing of it has been taken in but its version.
    Refused(AppendRefusal),
}

/// A record that is next.
#[derive(Clone, Copy)]
struct Coming {
    start: usize,
    end: usize,
    key_start: usize,
    key_end: usize,
    table: TableId,
    hash: KeyHash,
    place: u64,
    version: Version,
    side: SideId,
    /// An object that can be copied as it stands: it names no segments of its own log.
    is_plain: bool,
    expires: bool,
}

const NOTHING: Coming = Coming {
    start: 0,
    end: 0,
    key_start: 0,
    key_end: 0,
    table: TableId(0),
    hash: KeyHash(0),
    place: 0,
    version: Version(0),
    side: SideId(0),
    is_plain: false,
    expires: false,
};

impl Intake {
    /// Ranges of one table have one placement and do not overlap.
    pub fn new(ranges: impl IntoIterator<Item = (HashRange, Placement, SideId)>) -> Intake {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable_by_key(|(range, ..)| (range.table, range.first));
        let mut tables: Vec<TableIntake> = Vec::new();
        for (range, placement, side) in sorted {
            if tables.last().is_none_or(|last| last.table != range.table) {
                let hasher = PlacementHasher::new(placement);
                tables.push(TableIntake { table: range.table, hasher, ranges: Vec::new() });
            }
            let table = tables.last_mut().expect("pushed just now");
            assert!(table.ranges.last().is_none_or(|(_, last, _)| *last < range.first));
            table.ranges.push((range.first, range.last, side));
        }
        Intake { tables }
    }

    #[inline]
    fn table(&self, table: TableId) -> Option<&TableIntake> {
        match &*self.tables {
            [only] => (only.table == table).then_some(only),
            several => {
                let at = several.binary_search_by_key(&table, |intake| intake.table).ok()?;
                several.get(at)
            }
        }
    }

    fn side(&self, table: TableId, hash: KeyHash) -> Option<SideId> {
        self.table(table)?.side(hash)
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = self.tables.iter().map(|table| table.ranges.len()).sum();
        write!(f, "Intake of {count} ranges")
    }
}

impl TableIntake {
    #[inline]
    fn side(&self, hash: KeyHash) -> Option<SideId> {
        let behind = self.ranges.partition_point(|(first, ..)| *first <= hash);
        let (_, last, side) = self.ranges.get(behind.checked_sub(1)?)?;
        (hash <= *last).then_some(*side)
    }
}

impl Log {
    /// Takes in entries of `bytes` from `offset` on, at most some `count_max`, and moves the offset behind them; told is
    /// how many were records. Done when the offset is at the end.
    pub fn take_in(
        &mut self,
        intake: &Intake,
        bytes: &[u8],
        offset: &mut usize,
        count_max: usize,
    ) -> Result<u64, IntakeStop> {
        let mut batch = [NOTHING; BATCH];
        let mut records = 0;
        let mut left = count_max.max(1);
        while *offset < bytes.len() && left > 0 {
            let (count, read) = self.read_batch(intake, bytes, *offset, &mut batch);
            let batch = &batch[..count];
            self.fetch_together(batch);
            for coming in batch {
                *offset = coming.start;
                self.take_one(coming, bytes).map_err(IntakeStop::Refused)?;
            }
            records += count as u64;
            left = left.saturating_sub(count.max(1));
            *offset = read?;
        }
        Ok(records)
    }

    /// The records from an offset on, as many as a batch holds, and where the next entry is; what is no record is done.
    fn read_batch(
        &mut self,
        intake: &Intake,
        bytes: &[u8],
        mut offset: usize,
        batch: &mut [Coming; BATCH],
    ) -> (usize, Result<usize, IntakeStop>) {
        let mut count = 0;
        while count < BATCH && offset < bytes.len() {
            let Some((word, entry)) = verified(&bytes[offset..]) else {
                return (count, Err(IntakeStop::Corrupt));
            };
            let (start, end) = (offset, offset + entry.len());
            offset = end;
            let coming = match word.kind() {
                Some(Kind::Object | Kind::Tombstone) => self.record(intake, word, entry, start),
                Some(kind) => match Entry::decode_body(kind, word, entry) {
                    Ok(Entry::RpcResult(result)) => {
                        intake.side(result.table, result.hash).map(|side| Coming {
                            start,
                            end,
                            table: result.table,
                            hash: result.hash,
                            side,
                            place: self.place(result.table, result.hash),
                            ..NOTHING
                        })
                    }
                    Ok(Entry::SafeVersion(version)) => {
                        self.raise_safe_version(version);
                        continue;
                    }
                    Ok(_) => continue,
                    Err(_) => None,
                },
                None => None,
            };
            let Some(coming) = coming else { return (count, Err(IntakeStop::Corrupt)) };
            batch[count] = coming;
            count += 1;
        }
        (count, Ok(offset))
    }

    #[inline]
    fn record(&self, intake: &Intake, word: Word, entry: &[u8], start: usize) -> Option<Coming> {
        let prefix = RecordPrefix::read(word, entry)?;
        let key_end = prefix.key_start + prefix.key_bytes;
        let table = intake.table(prefix.table)?;
        let hash = table.hasher.hash(entry.get(prefix.key_start..key_end)?);
        Some(Coming {
            start,
            end: start + entry.len(),
            key_start: start + prefix.key_start,
            key_end: start + key_end,
            table: prefix.table,
            hash,
            place: self.place(prefix.table, hash),
            version: prefix.version,
            side: table.side(hash)?,
            is_plain: word.kind() == Some(Kind::Object) && prefix.older_bytes == 0,
            expires: prefix.expires.is_some(),
        })
    }

    /// As `Log::prefetch`: what is read means nothing.
    fn fetch_together(&self, batch: &[Coming]) {
        black_box(batch.iter().fold(0, |sum, coming| sum ^ self.index.touch(coming.place)));
        black_box(batch.iter().fold(0, |sum, coming| sum ^ self.index.touch_next(coming.place)));
        let mut entries = [Reference(0); 2 * BATCH];
        let mut count = 0;
        for coming in batch {
            self.index.find(coming.place, |at| -> Option<()> {
                if count < entries.len() {
                    entries[count] = at;
                    count += 1;
                }
                None
            });
        }
        black_box(entries[..count].iter().fold(0, |sum, at| sum ^ self.memory.touch(*at)));
    }

    #[inline]
    fn take_one(&mut self, coming: &Coming, bytes: &[u8]) -> Result<Replayed, AppendRefusal> {
        let entry = &bytes[coming.start..coming.end];
        if coming.is_plain {
            let key = &bytes[coming.key_start..coming.key_end];
            if self.is_new(coming.table, coming.hash, key)? {
                return self.copy_plain(coming, entry);
            }
        }
        let (word, _) = split(entry).expect("it was read before");
        let kind = word.kind().expect("it was read before");
        let entry = Entry::decode_body(kind, word, entry).expect("it was read before");
        self.replay(coming.side, &entry, coming.hash)
    }

    fn copy_plain(&mut self, coming: &Coming, entry: &[u8]) -> Result<Replayed, AppendRefusal> {
        self.index.prepare(coming.place).map_err(|_| AppendRefusal::OutOfMemory)?;
        let slot = self.side_room(coming.side, entry.len(), self.floor(Purpose::Recovery))?;

        // From here on nothing can fail.
        self.raise_replayed(coming.version);
        self.put_plain(slot, (coming.table, coming.hash), coming.place, entry, coming.expires);
        Ok(Replayed::Applied)
    }
}

/// The entry that bytes start with, and its word; nothing else of it is looked at.
#[inline]
fn split(bytes: &[u8]) -> Option<(Word, &[u8])> {
    let [.., a, b, c, d] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let word = Word(u32::from_le_bytes([a, b, c, d]));
    Some((word, bytes.get(..word.entry_bytes())?))
}

/// The same if its checksum holds.
#[inline]
fn verified(bytes: &[u8]) -> Option<(Word, &[u8])> {
    let (word, entry) = split(bytes)?;
    let (stored, covered) = entry.split_first_chunk::<4>()?;
    (crc(covered) == u32::from_le_bytes(*stored)).then_some((word, entry))
}
