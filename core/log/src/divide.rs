//! Divides the entries of a segment among the owners that recover them.
//!
//! Each entry is verified on the way: even if the checksum of the whole segment holds, an entry may have been damaged
//! in the memory of the server that wrote it. Adjacent entries of one owner make one run, so that the entries of a
//! segment with a single owner stay together.
//!
//! Catalogue: F4. Source: SOSP11 3.4.

use crate::entry::{RecordPrefix, verified};
use crate::{Entry, Kind, Ranges};
use ramhold_base::planted::{Defect, planted};
use std::ops::Range;

/// The bytes are not entries, or one of them is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotEntries;

/// Hands `take` the runs of entries that begin in the next `bytes_max` bytes from `offset` on, and moves the offset
/// behind them. Everything is divided when the offset is at the end.
pub fn divide<T: Copy + PartialEq>(
    bytes: &[u8],
    ranges: &Ranges<T>,
    offset: &mut usize,
    bytes_max: usize,
    mut take: impl FnMut(T, Range<usize>),
) -> Result<(), NotEntries> {
    let end = bytes.len().min(offset.saturating_add(bytes_max));
    let mut run: Option<(T, Range<usize>)> = None;
    let mut is_behind_object = false;
    while *offset < end {
        let (word, entry) = verified(&bytes[*offset..]).ok_or(NotEntries)?;
        let kind = word.kind().ok_or(NotEntries)?;
        let is_second = std::mem::replace(&mut is_behind_object, kind == Kind::Object);
        let whose = match kind {
            Kind::Object if is_second && planted(Defect::CommitSecondNotDivided) => None,
            Kind::Object | Kind::Tombstone => {
                let prefix = RecordPrefix::read(word, entry).ok_or(NotEntries)?;
                let key = prefix.key_start..prefix.key_start + prefix.key_bytes;
                ranges.of_key(prefix.table, entry.get(key).ok_or(NotEntries)?).map(|(_, whose)| whose)
            }
            Kind::RpcResult if planted(Defect::ResultNotDivided) => None,
            Kind::RpcResult => match Entry::decode_body(kind, word, entry) {
                Ok(Entry::RpcResult(result)) => ranges.of_hash(result.table, result.hash),
                _ => return Err(NotEntries),
            },
            Kind::SegmentHeader | Kind::Digest | Kind::SafeVersion | Kind::TabletStats => None,
            // A log that is divided is a master's. It holds nothing of a brick's.
            Kind::QuorumRecord | Kind::Summaries => return Err(NotEntries),
        };
        let here = *offset..*offset + entry.len();
        *offset = here.end;
        run = match (run, whose) {
            (Some((before, run)), Some(whose)) if before == whose && run.end == here.start => {
                Some((whose, run.start..here.end))
            }
            (run, whose) => {
                run.into_iter().for_each(|(whose, run)| take(whose, run));
                whose.map(|whose| (whose, here))
            }
        };
    }
    run.into_iter().for_each(|(whose, run)| take(whose, run));
    Ok(())
}
