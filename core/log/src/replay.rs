//! Takes in entries of other logs through a side log, in any order.
//!
//! For each key the higher version wins; a tombstone ends all versions up to and with its own. A tombstone stays in the
//! index until replay is finished, so that an older object that comes later is recognised as dead. An entry that loses
//! is not appended. If an entry was appended here and is superseded later, the object or tombstone that supersedes it
//! names its segment, as in a write. Otherwise the older entry could return after the newer one is removed and cleaned
//! away. The segments that foreign entries name belong to the foreign log and mean nothing here.
//!
//! Invariants:
//! - any order of the same entries, with any repetitions, leads to the same objects;
//! - the safe version is at least every object's version and above every tombstone's.
//!
//! Not here: which entries belong to this recovery (the caller filters by tablet, stream and first segment).
//! Catalogue: F4. Source: SOSP11 3.4.

use crate::index::bucket::What;
use crate::log::{AppendRefusal, Dead, Log, Purpose, group};
use crate::{Entry, Kind, Object, OlderList, RpcResult, SideId, Tombstone, Unreadable};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, TableId, Version};

/// The result of replaying an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replayed {
    /// The entry is the newest so far of its key: an object is live, a tombstone is remembered. A result is appended.
    Applied,
    /// An entry at least as new is here already, or a result is known or acknowledged.
    Superseded,
    /// The entry was about the log that it stood in. A safe version was taken over.
    Noted,
}

impl Log {
    /// Takes in an entry of another log. `hash` is the placement hash of its key, if it has one.
    /// If the entry is refused, nothing has changed but the safe version, and for a result the client's floor.
    pub fn replay(
        &mut self,
        side: SideId,
        entry: &Entry<'_>,
        hash: KeyHash,
    ) -> Result<Replayed, AppendRefusal> {
        match entry {
            Entry::Object(object, _) => self.replay_object(side, hash, object),
            Entry::Tombstone(tombstone) => self.replay_tombstone(side, hash, tombstone),
            Entry::SafeVersion(_) if planted(Defect::SafeVersionNotReplayed) => Ok(Replayed::Noted),
            Entry::SafeVersion(version) => {
                self.raise_safe_version(*version);
                Ok(Replayed::Noted)
            }
            Entry::RpcResult(result) => self.replay_result(side, result),
            Entry::SegmentHeader(_)
            | Entry::Digest(_)
            | Entry::TabletStats(_)
            | Entry::QuorumRecord(_)
            | Entry::Summaries(_) => Ok(Replayed::Noted),
        }
    }

    /// The entry to which the index leads for a key. A lost entry of this log does not prevent replay from another log.
    fn present(&self, table: TableId, hash: KeyHash, key: &[u8]) -> Result<Option<Dead>, AppendRefusal> {
        match self.lookup(table, hash, key) {
            Ok(found) => Ok(found.map(|found| self.dead(found.at))),
            Err(Unreadable::Lost) => Ok(None),
            Err(damaged @ Unreadable::Damaged(_)) => Err(AppendRefusal::Unreadable(damaged)),
        }
    }

    /// Raises the safe version to the version of a replayed entry.
    #[inline]
    pub(crate) fn raise_replayed(&mut self, version: Version) {
        if !planted(Defect::SafeVersionNotReplayed) {
            self.raise_safe_version(version);
        }
    }

    fn replay_object(
        &mut self,
        side: SideId,
        hash: KeyHash,
        object: &Object<'_>,
    ) -> Result<Replayed, AppendRefusal> {
        self.raise_replayed(object.version);
        let dead = self.present(object.table, hash, object.key)?;
        let is_older = dead.as_ref().is_some_and(|dead| dead.version >= object.version);
        if is_older && !planted(Defect::OlderWins) {
            return Ok(Replayed::Superseded);
        }
        let floor = self.floor(Purpose::Recovery);
        let group = group(object, dead.as_ref());
        let slot = self.side_room(side, group.bytes(), floor)?;
        self.put_object(slot, floor, hash, &group, dead.as_ref(), None)?;
        Ok(Replayed::Applied)
    }

    /// Replays a result. The same result may come from several segments, and again whenever a segment is read again.
    fn replay_result(&mut self, side: SideId, result: &RpcResult) -> Result<Replayed, AppendRefusal> {
        // Most results of a segment are acknowledged by the floors of later ones.
        self.acknowledge(result.lease, result.floor);
        if !self.wants_result(result.lease, result.sequence) || planted(Defect::ResultNotReplayed) {
            return Ok(Replayed::Superseded);
        }
        let slot = self.side_room(side, result.entry_bytes(), self.floor(Purpose::Recovery))?;
        self.append_result(slot, result);
        Ok(Replayed::Applied)
    }

    fn replay_tombstone(
        &mut self,
        side: SideId,
        hash: KeyHash,
        foreign: &Tombstone<'_>,
    ) -> Result<Replayed, AppendRefusal> {
        if planted(Defect::TombstoneNotReplayed) {
            return Ok(Replayed::Superseded);
        }
        self.raise_replayed(foreign.version.next());
        let dead = self.present(foreign.table, hash, foreign.key)?;
        if let Some(Dead { kind, version, .. }) = &dead {
            let is_superseded = match kind {
                Kind::Object => *version > foreign.version,
                _ => *version >= foreign.version,
            };
            if is_superseded {
                return Ok(Replayed::Superseded);
            }
        }
        let segments = dead.as_ref().map_or(OlderList::NONE, Dead::names);
        let tombstone = Tombstone { segments, ..*foreign };
        let place = self.place(foreign.table, hash);
        if dead.is_none() {
            self.index.prepare(place).map_err(|_| AppendRefusal::OutOfMemory)?;
        }
        let slot = self.side_room(side, tombstone.entry_bytes(), self.floor(Purpose::Recovery))?;

        // From here on nothing can fail.
        let at = self.append_tombstone(slot, &tombstone).at;
        self.memory.segments.at_mut(slot).indexed_count += 1;
        match dead {
            Some(dead) => {
                self.index.replace(place, dead.at, What::Tombstone, at);
                self.bury(foreign.table, hash, &dead);
            }
            None => self.index.insert(place, What::Tombstone, at),
        }
        self.sides.get_mut(&side).expect("side_room has found it").tombstone_count += 1;
        Ok(Replayed::Applied)
    }
}
