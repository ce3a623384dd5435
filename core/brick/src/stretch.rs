//! A stretch of keys that a rebuilding has decided: what is dropped and stored here, and the values that are fetched for it.
//!
//! Values are stored page by page, as they come. A stored value needs no second fetch, even if the stretch is asked for once
//! more, or the tablet gives way to another one: this brick's own stamps are then those that are decided upon.
//!
//! ```text
//!   decided ─┬─ missing: fetched from its holder ─ page ─┐
//!            └─────────────────────────────────────────── ready: dropped, stored
//! ```
//!
//! A sibling may tell something newer than what was decided: a write goes on meanwhile. This brick may have had that very
//! write before it forgot. Then its own record, which was to be dropped, is the one that the sibling has by now, and stays.
//!
//! Invariants:
//! - nothing is asked for while something that came is not stored, so memory holds one page of each sibling at most;
//! - nothing is stored but what a sibling had when the stretch was decided, or later;
//! - nobody but the rebuilding changes a key between decision and storing: what is here is what it was decided upon, or is
//!   dropped.
//!
//! Not here: deciding, asking (`rebuild`). Protocol: docs/protocols/quorum.md, rules 16, 82. Catalogue: I6.

use crate::Value;
use crate::question::Key;
use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, ServerId, Stamp, StreamId, TableId};
use ramhold_log::{AppendRefusal, Purpose, QUORUM_OVERHEAD_BYTES, QuorumRecord};
use ramhold_shard::REBUILDING_SPARES;
use ramhold_wire::Step;
use ramhold_wire::brick_status::RebuildObstacle;
use ramhold_wire::bricks::{PageKey, TabletPageTold};
use std::collections::BTreeMap;

/// One key of a stretch, as decided.
#[derive(Debug)]
pub(crate) struct Decided {
    pub key: Key,
    pub hash: KeyHash,
    /// This brick's own.
    pub own: Stamp,
    pub newest: Stamp,
    pub holder: Option<ServerId>,
}

#[derive(Debug)]
pub(crate) struct Stretch {
    /// Keys that are to be carried out, with the values that have come.
    ready: Vec<(Decided, Option<Value>)>,
    /// Keys whose values are to be fetched.
    missing: BTreeMap<Key, Decided>,
    /// Where the next stretch begins.
    next: Option<u64>,
}

impl Stretch {
    pub fn new(decided: impl Iterator<Item = Decided>, next: Option<u64>) -> Stretch {
        let mut stretch = Stretch { ready: Vec::new(), missing: BTreeMap::new(), next };
        for it in decided.filter(|it| it.own != it.newest) {
            if it.newest.is_none() || it.holder.is_none() {
                stretch.ready.push((it, None));
            } else {
                stretch.missing.insert(it.key.clone(), it);
            }
        }
        stretch
    }

    /// Where the next stretch begins.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// The keys whose values are to be fetched.
    pub fn missing_count(&self) -> usize {
        self.missing.len()
    }

    /// The keys that are not carried out yet.
    pub fn lacking_count(&self) -> usize {
        self.missing.len() + self.ready.len()
    }

    /// The keys whose values are to be fetched, by who has them.
    pub fn missing(&self) -> BTreeMap<ServerId, Vec<PageKey>> {
        let mut by_holder = BTreeMap::<ServerId, Vec<PageKey>>::new();
        for (key, it) in &self.missing {
            if let Some(holder) = it.holder {
                by_holder.entry(holder).or_default().push(PageKey(key.clone()));
            }
        }
        by_holder
    }

    /// Values have come. False: a key has nothing of what was decided upon. Something newer counts as well: a repair would
    /// bring it a moment later.
    pub fn take(&mut self, page: TabletPageTold) -> bool {
        let mut is_known = !page.records.is_empty();
        for record in page.records {
            match self.missing.remove(&record.key) {
                Some(mut it) if it.newest <= record.stamp => {
                    it.newest = record.stamp;
                    let value = record.value.map(|bytes| Value { bytes, expires: record.expires });
                    // One stamp is one value.
                    let is_here = it.own == it.newest && !planted(Defect::QuorumRebuiltStoresOwn);
                    self.ready.extend((!is_here).then_some((it, value)));
                }
                other => {
                    is_known = false;
                    self.missing.extend(other.map(|it| (record.key, it)));
                }
            }
        }
        is_known
    }

    /// Asks for nothing more: what is missing is decided anew, from this position on.
    pub fn give_up(&mut self, from: u64) {
        self.missing.clear();
        self.next = Some(from);
    }

    /// Stores and drops what is ready. `Err`: this is in the way now.
    pub fn carry_out(
        &mut self,
        step: &mut Step<'_>,
        (store, tables): (&mut Store, &Tables),
        (table, stream): (TableId, StreamId),
    ) -> Result<(), RebuildObstacle> {
        let mut is_again = false;
        while let Some((decided, value)) = self.ready.last() {
            let Decided { key, hash, own, newest, .. } = decided;
            let found = match store.shard.log.newest(table, *hash, key) {
                Ok(found) => found,
                Err(unreadable) => {
                    store.note_unreadable(step, unreadable);
                    return Err(RebuildObstacle::Damage);
                }
            };
            // A brick that does not vote stores nothing else. A write in between could have been acknowledged, and be lost here.
            let is_own = found.is_none_or(|found| found.stamp == *own);
            assert!(is_own, "nobody writes to a tablet that is rebuilt");
            let frees = found.is_some_and(|found| found.value.is_some());
            let mut replaces = found.map(|found| found.at);
            if let Some(at) = replaces.filter(|_| own > newest) {
                let (segment, _) = store.shard.log.place_of(at);
                if !planted(Defect::QuorumDroppedStays) {
                    store.shard.cleaning.must_leave.insert(segment);
                }
                store.dropped.entry(table).or_default().note(key);
                store.shard.log.drop_record(table, *hash, at);
                replaces = None;
            }
            if !newest.is_none() {
                let record = QuorumRecord {
                    table,
                    stamp: *newest,
                    expires: value.as_ref().and_then(|value| value.expires),
                    key,
                    value: value.as_ref().map(|value| value.bytes.as_slice()),
                };
                // Others have stored it, so it takes precedence over what is new. A tombstone over a value frees memory.
                let purpose = if frees && value.is_none() { Purpose::Freeing } else { Purpose::Recovery };
                match store.shard.log.store(stream, purpose, *hash, &record, replaces) {
                    Ok(_) => {
                        store.shard.appended = true;
                        let value_bytes = record.value.map_or(0, <[u8]>::len);
                        store.rebuild_stored += (QUORUM_OVERHEAD_BYTES + key.len() + value_bytes) as u64;
                        store.rebuilds_with_room();
                    }
                    Err(refusal) => {
                        if store.lacks_place(step.now, refusal) {
                            return Err(RebuildObstacle::Index);
                        }
                        let is_full = refusal == AppendRefusal::HeadFull;
                        let is_short = is_full && !store.shard.leaves_frames(REBUILDING_SPARES);
                        let obstacle =
                            if is_short { RebuildObstacle::Frames } else { RebuildObstacle::Memory };
                        // Room for a value is not all that may be missing: so each key is tried once more, and later then.
                        if is_again {
                            return Err(obstacle);
                        }
                        let rolled =
                            is_full.then(|| store.roll_sparing(step, tables, stream, REBUILDING_SPARES));
                        if rolled.flatten().is_none() && !store.clean_for_room(step, tables, purpose) {
                            // Puts leave more than a rebuilding does, so they are refused as well.
                            store.shard.cleaning.has_refused = true;
                            return Err(obstacle);
                        }
                        is_again = true;
                        continue;
                    }
                }
            }
            self.ready.pop();
            is_again = false;
        }
        Ok(())
    }
}
