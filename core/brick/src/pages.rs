//! Pages that a brick tells another one that has forgotten something: the stamps of a stretch of keys, and values of keys.
//!
//! Before anything is told, the life of the brick that asks is on the device: an answer of its former life that is still
//! on its way then meets somebody who knows that life to be over (docs/protocols/quorum.md, rule 10).
//!
//! All tables share the index. So the keys of a small tablet may lie far apart in it, and a page ends after a piece of the
//! index, however few keys it has by then. A walk verifies each entry that it meets, values included, so it ends after some
//! bytes of entries, too.
//!
//! Invariants:
//! - a page, and a brick's own part of a stretch, cost a bounded piece of the index and of the log, whatever else the brick
//!   holds;
//! - every walk goes on by at least one bucket, so pages come to an end.
//!
//! Not here: deciding what counts (`rebuild`). Protocol: docs/protocols/quorum.md, rules 87, 88, 89. Catalogue: I6.

use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_log::{HashRange, QuorumRecord, Scanned, Unreadable};
use ramhold_wire::bricks::{PAGE_KEYS_MAX, PageKey, PageRecord, PageWanted, TabletPageTold};

/// A page ends when its keys, or its values, have more bytes than this.
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a page for a key, beside those of the key.
const RECORD_BYTES: usize = 32;
/// Index buckets that are walked over at a time. The keys of one, which are in a page together, fit a frame.
const SCAN_BUCKETS: u64 = 1;
/// Pieces of the index that one step walks over, whoever its entries belong to: some 10,000 entries, whose checksums take a
/// few milliseconds.
const WALKS_MAX: u32 = 2048;
/// A walk ends when the entries that it has verified have more bytes than this: whoever they belong to, and with their values,
/// which a page of stamps does not tell. That takes a millisecond or two. The entries of the last piece come on top, some
/// six, which have a megabyte each at most.
const WALK_BYTES_MAX: u64 = 4 << 20;

/// The first of these keys that one question may name.
pub(crate) fn first_keys(mut keys: Vec<PageKey>) -> Vec<PageKey> {
    let mut bytes = 0;
    let mut fits = |key: &PageKey| {
        bytes += key.0.len();
        bytes <= PAGE_BYTES_MAX
    };
    let count = keys.iter().take(PAGE_KEYS_MAX).take_while(|key| fits(key)).count();
    keys.truncate(count.max(1));
    keys
}

/// Makes a page of a tablet. `Err`: this is in its way, and its repair is to begin.
pub(crate) fn tell(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    wanted: &PageWanted,
) -> Result<(Vec<PageRecord>, Option<u64>), Unreadable> {
    match wanted {
        PageWanted::Stamps { from, .. } => stamps(store, tables, range, *from),
        PageWanted::Values { keys } => Ok((values(store, tables, range, keys)?, None)),
    }
}

fn stamps(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    from: u64,
) -> Result<(Vec<PageRecord>, Option<u64>), Unreadable> {
    let (found, next) = walk(store, tables, range, from, None)?;
    let log = &store.shard.log;
    let record = |scanned: &Scanned| {
        let (stamp, is_tombstone) = log.stamped_at(scanned.at).ok_or(Unreadable::Damaged(scanned.at))?;
        let (position, key) = (scanned.position, log.show(scanned).key.to_vec());
        Ok(PageRecord { position, key, stamp, value: None, expires: None, is_tombstone })
    };
    Ok((found.iter().map(record).collect::<Result<_, _>>()?, next))
}

/// The keys of a tablet at positions from `from` on and before `end`, in order, and where to go on. They end as a page does.
pub(crate) fn walk(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    from: u64,
    end: Option<u64>,
) -> Result<(Vec<Scanned>, Option<u64>), Unreadable> {
    let hash_of = |key: &[u8]| tables.hash(range.table, key).unwrap_or_default();
    let is_in = |position: u64| end.is_none_or(|end| position < end);
    let (mut found, mut bucket) = (Vec::new(), Vec::new());
    let (mut bytes, mut walks, mut verified) = (0, 0, 0);
    let mut at = Some(from);
    while let Some(position) = at.filter(|position| is_in(*position)) {
        let is_long =
            walks >= WALKS_MAX || (verified >= WALK_BYTES_MAX && !planted(Defect::QuorumWalkUnbounded));
        if found.len() >= PAGE_KEYS_MAX || bytes >= PAGE_BYTES_MAX || is_long {
            return Ok((found, at));
        }
        let walked = store.shard.log.scan_step(range, position, SCAN_BUCKETS, &hash_of, &mut bucket);
        let walked = walked.map_err(Unreadable::Damaged)?;
        at = walked.next;
        verified += walked.bytes;
        bytes += bucket.iter().map(|scanned| scanned.key_bytes + RECORD_BYTES).sum::<usize>();
        found.extend(bucket.drain(..).filter(|scanned| is_in(scanned.position)));
        walks += 1;
    }
    Ok((found, end))
}

fn values(
    store: &Store,
    tables: &Tables,
    range: HashRange,
    keys: &[PageKey],
) -> Result<Vec<PageRecord>, Unreadable> {
    let mut records = Vec::new();
    let mut bytes = 0;
    for PageKey(key) in keys.iter().take(PAGE_KEYS_MAX) {
        let hash = tables.hash(range.table, key).filter(|hash| range.contains(range.table, *hash));
        let Some(hash) = hash else { continue };
        let Some(newest) = store.shard.log.newest(range.table, hash, key)? else { continue };
        let (value, is_tombstone) = (newest.value.map(|value| value.to_vec()), newest.value.is_none());
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let (stamp, expires) = (newest.stamp, newest.expires);
        records.push(PageRecord { position: 0, key: key.clone(), stamp, value, expires, is_tombstone });
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    Ok(records)
}

/// Whether a log can hold all that a sibling tells.
pub(crate) fn is_possible(page: &TabletPageTold) -> bool {
    let is_fine = |record: &PageRecord| {
        let value_bytes = record.value.as_ref().map_or(0, Vec::len);
        let fits = record.key.len() <= KEY_BYTES_MAX && value_bytes <= VALUE_BYTES_MAX;
        fits && QuorumRecord::is_possible(record.stamp)
    };
    page.records.iter().all(is_fine)
}

#[cfg(test)]
pub(crate) mod tests;
