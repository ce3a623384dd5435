//! Pages that a brick tells another one that has forgotten something: the stamps of a stretch of keys, and values of keys.
//!
//! Before anything is told, the life of the brick that asks is on the device: an answer of its former life that is still
//! on its way then meets somebody who knows that life to be over (docs/protocols/quorum.md, rule 10).
//!
//! Not here: deciding what counts (`rebuild`). Catalogue: I6.

use crate::Value;
use crate::question::Key;
use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::{KeyHash, ServerId, Stamp, TableId};
use ramhold_log::{HashRange, Scanned};

/// The most keys of a page.
pub(crate) const PAGE_KEYS_MAX: usize = 1000;
/// A page ends when its keys, or its values, have more bytes than this.
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Index buckets that are walked over at a time.
const SCAN_BUCKETS: u64 = 128;

/// The things that one brick wants to know of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The stamps of the tablet's keys from a position on, in the order of walks.
    Stamps { from: u64 },
    /// The values of these keys, at most 1,000.
    Values { keys: Vec<Key> },
}

/// A question of a brick that is rebuilt to a sibling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageAsk {
    pub table: TableId,
    pub first: KeyHash,
    /// Inclusive.
    pub last: KeyHash,
    pub epoch: u64,
    pub asker: ServerId,
    /// The number and the mark of the asker's life.
    pub life: u64,
    pub mark: u64,
    pub wanted: Wanted,
}

/// The newest record of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRecord {
    /// Its place in the order of walks.
    pub position: u64,
    pub key: Key,
    pub stamp: Stamp,
    /// Without `Wanted::Values` nothing.
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub epoch: u64,
    /// Whether the brick that tells votes. If not, it may have forgotten something itself.
    pub votes: bool,
    /// In order of position; for values, in any order, and perhaps not all.
    pub records: Vec<PageRecord>,
    /// Where the next page begins. `None`: this was the last one.
    pub next: Option<u64>,
}

/// Makes a page of a tablet. `None`: something in it is damaged in memory, and is being repaired.
pub(crate) fn tell(
    store: &mut Store,
    tables: &Tables,
    range: HashRange,
    wanted: &Wanted,
) -> Option<(Vec<PageRecord>, Option<u64>)> {
    match wanted {
        Wanted::Stamps { from } => stamps(store, tables, range, *from),
        Wanted::Values { keys } => Some((values(store, tables, range, keys)?, None)),
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
    while let Some(at) = from.filter(|_| records.len() < PAGE_KEYS_MAX && bytes < PAGE_BYTES_MAX) {
        let (found, next) = walk(store, tables, range, at)?;
        for scanned in found {
            let key = store.shard.log.show(&scanned).key.to_vec();
            let stamp = store.shard.log.stamp_at(scanned.at)?;
            bytes += key.len() + 32;
            records.push(PageRecord { position: scanned.position, key, stamp, value: None });
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

fn values(store: &Store, tables: &Tables, range: HashRange, keys: &[Key]) -> Option<Vec<PageRecord>> {
    let mut records = Vec::new();
    let mut bytes = 0;
    for key in keys.iter().take(PAGE_KEYS_MAX) {
        let hash = tables.hash(range.table, key).filter(|hash| range.contains(range.table, *hash))?;
        let Some(newest) = store.shard.log.newest(range.table, hash, key).ok()? else { continue };
        let value = newest.value.map(|value| Value { bytes: value.to_vec(), expires: newest.expires });
        bytes += value.as_ref().map_or(0, |value| value.bytes.len());
        records.push(PageRecord { position: 0, key: key.clone(), stamp: newest.stamp, value });
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    Some(records)
}
