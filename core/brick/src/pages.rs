//! Pages that a brick tells another one that has forgotten something: the stamps of a stretch of keys, and values of keys.
//!
//! Before anything is told, the life of the brick that asks is on the device: an answer of its former life that is still
//! on its way then meets somebody who knows that life to be over (docs/protocols/quorum.md, rule 10).
//!
//! Not here: deciding what counts (`rebuild`). Catalogue: I6.

use crate::store::Store;
use crate::tables::Tables;
use ramhold_log::{HashRange, Scanned};
use ramhold_wire::bricks::{PAGE_KEYS_MAX, PageKey, PageRecord, PageWanted};

/// A page ends when its keys, or its values, have more bytes than this.
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a page for a key, beside those of the key.
pub(crate) const RECORD_BYTES: usize = 32;
/// Index buckets that are walked over at a time. The keys of one, which are in a page together, fit a frame.
const SCAN_BUCKETS: u64 = 1;

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

/// Whether a page with so many keys ends.
pub(crate) fn is_full(keys: usize, bytes: usize) -> bool {
    keys >= PAGE_KEYS_MAX || bytes >= PAGE_BYTES_MAX
}

/// Makes a page of a tablet. `None`: something in it is damaged in memory, and is being repaired.
pub(crate) fn tell(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    wanted: &PageWanted,
) -> Option<(Vec<PageRecord>, Option<u64>)> {
    match wanted {
        PageWanted::Stamps { from, .. } => stamps(store, tables, range, *from),
        PageWanted::Values { keys } => Some((values(store, tables, range, keys)?, None)),
    }
}

fn stamps(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    from: u64,
) -> Option<(Vec<PageRecord>, Option<u64>)> {
    let mut records = Vec::new();
    let mut bytes = 0;
    let mut from = Some(from);
    while let Some(at) = from.filter(|_| !is_full(records.len(), bytes)) {
        let (found, next) = walk(store, tables, range, at)?;
        for scanned in found {
            let key = store.shard.log.show(&scanned).key.to_vec();
            let stamp = store.shard.log.stamp_at(scanned.at)?;
            let hash = tables.hash(range.table, &key)?;
            let newest = store.shard.log.newest(range.table, hash, &key).ok()?;
            let is_tombstone = newest.is_some_and(|newest| newest.value.is_none());
            bytes += key.len() + RECORD_BYTES;
            let position = scanned.position;
            records.push(PageRecord { position, key, stamp, value: None, expires: None, is_tombstone });
        }
        from = next;
    }
    Some((records, from))
}

/// The keys of some buckets of the index, in order, and where to go on. `None`: one of them is damaged.
pub(crate) fn walk(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    from: u64,
) -> Option<(Vec<Scanned>, Option<u64>)> {
    let mut found = Vec::new();
    let hash_of = |key: &[u8]| tables.hash(range.table, key).unwrap_or_default();
    let next = store.shard.log.scan_step(range, from, SCAN_BUCKETS, &hash_of, &mut found).ok()?;
    Some((found, next))
}

fn values(store: &Store, tables: &Tables, range: HashRange, keys: &[PageKey]) -> Option<Vec<PageRecord>> {
    let mut records = Vec::new();
    let mut bytes = 0;
    for PageKey(key) in keys.iter().take(PAGE_KEYS_MAX) {
        let hash = tables.hash(range.table, key).filter(|hash| range.contains(range.table, *hash))?;
        let Some(newest) = store.shard.log.newest(range.table, hash, key).ok()? else { continue };
        let (value, is_tombstone) = (newest.value.map(|value| value.to_vec()), newest.value.is_none());
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let (stamp, expires) = (newest.stamp, newest.expires);
        records.push(PageRecord { position: 0, key: key.clone(), stamp, value, expires, is_tombstone });
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    Some(records)
}
