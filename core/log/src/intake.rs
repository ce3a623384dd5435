//! Entries of another log by the segment: found, verified and taken in many at a time.
//!
//! A recovery master's core spends most of its time waiting for buckets of the index. So entries are worked on in
//! batches: all of a batch are verified and their keys hashed, then the buckets of all are fetched together, then what
//! those lead to, and only then is one after the other replayed. A plain object whose key is not here yet, which nearly
//! all are, is copied as it stands, with all its neighbours that are likewise (`run`).
//!
//! Invariants:
//! - nothing is believed of an entry whose checksum does not hold;
//! - the result is that of `Log::replay`, entry by entry in order;
//! - what is refused leaves the offset at the entry that was refused, so that it can be tried again.
//!
//! Not here: what an entry does to the log (`replay`), where the bytes come from (master, backup).
//! Catalogue: F4, E4. Source: SOSP11 3.4; TUT15 "Fast Crash Recovery".

mod run;

use crate::entry::{RecordPrefix, Word, split, verified};
use crate::log::Log;
use crate::prefetch::fetch_all;
use crate::{AppendRefusal, Entry, Kind, Ranges, Reference, SideId};
use ramhold_base::{ClusterTime, KeyHash, TableId, Version};
use std::hint::black_box;

/// Entries worked on together: enough that the processor always waits for several buckets, few enough to stay in its
/// nearest cache.
const BATCH: usize = 64;
/// No more than this of a batch: that it is still in the nearest cache when it is copied.
const BATCH_BYTES: usize = 24 * 1024;
/// How far ahead bytes are fetched: a few short entries. The processor sees by itself what comes after long ones.
const AHEAD_BYTES: usize = 2048;

/// What whoever has other work to do takes in at a time: about half a millisecond's worth.
pub const INTAKE_SLICE_BYTES: usize = 128 * 1024;

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
    table: TableId,
    hash: KeyHash,
    place: u64,
    version: Version,
    side: SideId,
    /// An object that can be copied as it stands: it names no segments of its own log.
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
    /// Takes in the entries that begin in the next `bytes_max` bytes from `offset` on, and some more that are worked on with
    /// them; moves the offset behind them. Told is how many were records. `intake` says which keys, and which side log takes
    /// them. Done when the offset is at the end.
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

    /// The records from an offset on, as many as a batch holds, and where the next entry is; what is no record is done.
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
                    Ok(_) => continue,
                    Err(_) => None,
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

    /// As `Log::prefetch`: what is read means nothing.
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

    /// Replays a batch in order. When one is refused, the offset is left there.
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
