//! Takes in the entries of another log's segments: finds and verifies them, and replays them in batches.
//!
//! A recovery master's core spends most of its time waiting for buckets of the index. So entries are worked on in
//! batches. All entries of a batch are verified and their keys hashed. Then their buckets are fetched together, and
//! then the entries that the buckets lead to. Only then the entries are replayed one after the other. Nearly all of
//! them are plain objects whose key is not in this log yet. Such an object is copied as it stands, together with all
//! adjacent ones of the same sort (`run`).
//!
//! Invariants:
//! - no field of an entry is believed before its checksum is verified;
//! - the result is the same as that of `Log::replay` for one entry after the other;
//! - after a refusal the offset is at the refused entry, so that it can be tried again.
//!
//! Not here: the effect of an entry on the log (`replay`), the source of the bytes (master, backup).
//! Catalogue: F4, E4. Source: SOSP11 3.4; TUT15 "Fast Crash Recovery".

mod run;

use crate::entry::{RecordPrefix, Word, split, verified};
use crate::log::Log;
use crate::prefetch::fetch_all;
use crate::{AppendRefusal, Entry, Kind, Ranges, Reference, SideId};
use ramhold_base::{ClusterTime, KeyHash, TableId, Version};
use std::hint::black_box;

/// Entries worked on together: enough that the processor always waits for several buckets at once, few enough to stay
/// in the nearest cache.
const BATCH: usize = 64;
/// The bytes within which the entries of a batch begin: a batch must still be in the nearest cache when it is copied.
const BATCH_BYTES: usize = 24 * 1024;
/// Bytes to fetch ahead: a few short entries. After long entries the processor prefetches by itself.
const AHEAD_BYTES: usize = 2048;

/// Bytes that a caller with other work to do takes in at a time: about half a millisecond of work.
pub const INTAKE_SLICE_BYTES: usize = 128 * 1024;

/// Why taking in stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntakeStop {
    /// From here on the bytes are not entries, or an entry belongs to no range.
    Corrupt,
    /// The entry at the offset was refused. Only its version, or the floor of a result, has been taken in.
    Refused(AppendRefusal),
}

/// A record or result of the batch.
#[derive(Clone, Copy)]
struct Coming {
    start: usize,
    end: usize,
    table: TableId,
    hash: KeyHash,
    place: u64,
    version: Version,
    side: SideId,
    /// The entry is an object that can be copied as it stands, because it names no segments of its own log.
    is_plain: bool,
    expires: Option<ClusterTime>,
}

impl Coming {
    fn entry_bytes(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

const NOTHING: Coming = Coming {
    start: 0,
    end: 0,
    table: TableId(0),
    hash: KeyHash(0),
    place: 0,
    version: Version(0),
    side: SideId(0),
    is_plain: false,
    expires: None,
};

impl Log {
    /// Takes in the entries that begin in the next `bytes_max` bytes from `offset` on, and the rest of the batch that
    /// the last of them is in. Moves the offset behind them. Returns the number of records and results among them.
    /// `intake` names the ranges of keys, and the side log for each. The work is done when the offset is at the end.
    pub fn take_in(
        &mut self,
        intake: &Ranges<SideId>,
        bytes: &[u8],
        offset: &mut usize,
        bytes_max: usize,
    ) -> Result<u64, IntakeStop> {
        let mut batch = [NOTHING; BATCH];
        let mut records = 0;
        let end = bytes.len().min(offset.saturating_add(bytes_max));
        while *offset < end {
            let (count, read) = self.read_batch(intake, bytes, *offset, &mut batch);
            let batch = &batch[..count];
            self.fetch_together(batch);
            self.index.make_way(count as u64);
            self.take_batch(batch, bytes, offset).map_err(IntakeStop::Refused)?;
            records += count as u64;
            *offset = read?;
        }
        Ok(records)
    }

    /// Reads the records and results from an offset on, as many as a batch holds. Returns their number and the offset
    /// of the next entry. Entries of other kinds have taken effect when this returns.
    fn read_batch(
        &mut self,
        intake: &Ranges<SideId>,
        bytes: &[u8],
        mut offset: usize,
        batch: &mut [Coming; BATCH],
    ) -> (usize, Result<usize, IntakeStop>) {
        let mut count = 0;
        let end = bytes.len().min(offset + BATCH_BYTES);
        while count < BATCH && offset < end {
            let Some((word, entry)) = verified(&bytes[offset..]) else {
                return (count, Err(IntakeStop::Corrupt));
            };
            let (start, end) = (offset, offset + entry.len());
            if entry.len() < AHEAD_BYTES {
                let coming = |at: usize| (at + AHEAD_BYTES).min(bytes.len());
                fetch_all(&bytes[coming(start)..coming(end)]);
            }
            offset = end;
            let coming = match word.kind() {
                Some(Kind::Object | Kind::Tombstone) => self.record(intake, word, entry, start),
                Some(kind) => match Entry::decode_body(kind, word, entry) {
                    Ok(Entry::RpcResult(result)) => {
                        intake.of_hash(result.table, result.hash).map(|side| Coming {
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
                    Ok(Entry::QuorumRecord(_)) | Err(_) => None,
                    Ok(_) => continue,
                },
                None => None,
            };
            let Some(coming) = coming else { return (count, Err(IntakeStop::Corrupt)) };
            self.index.fetch(coming.place);
            batch[count] = coming;
            count += 1;
        }
        (count, Ok(offset))
    }

    #[inline]
    fn record(&self, intake: &Ranges<SideId>, word: Word, entry: &[u8], start: usize) -> Option<Coming> {
        let prefix = RecordPrefix::read(word, entry)?;
        let key_end = prefix.key_start + prefix.key_bytes;
        let (hash, side) = intake.of_key(prefix.table, entry.get(prefix.key_start..key_end)?)?;
        Some(Coming {
            start,
            end: start + entry.len(),
            table: prefix.table,
            hash,
            place: self.place(prefix.table, hash),
            version: prefix.version,
            side,
            is_plain: word.kind() == Some(Kind::Object) && prefix.older_bytes == 0,
            expires: prefix.expires,
        })
    }

    /// As `Log::prefetch`: the values that are read have no meaning.
    fn fetch_together(&self, batch: &[Coming]) {
        batch.iter().for_each(|coming| self.index.fetch_next(coming.place));
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

    /// Replays a batch in order. If an entry is refused, the offset stays at it.
    fn take_batch(
        &mut self,
        batch: &[Coming],
        bytes: &[u8],
        offset: &mut usize,
    ) -> Result<(), AppendRefusal> {
        let mut run = None;
        for coming in batch {
            *offset = coming.start;
            let led = if coming.is_plain { self.lead(coming, bytes, &mut run) } else { Ok(false) };
            if led == Ok(true) {
                continue;
            }
            self.copy_run(&mut run, bytes);
            led?;
            self.take_one(coming, bytes)?;
        }
        self.copy_run(&mut run, bytes);
        Ok(())
    }

    fn take_one(&mut self, coming: &Coming, bytes: &[u8]) -> Result<(), AppendRefusal> {
        let entry = &bytes[coming.start..coming.end];
        let (word, _) = split(entry).expect("it was read before");
        let kind = word.kind().expect("it was read before");
        let entry = Entry::decode_body(kind, word, entry).expect("it was read before");
        self.replay(coming.side, &entry, coming.hash).map(|_| ())
    }
}
