//! The background sweep: this brick compares its tablets with its siblings, one stretch of keys after the other.
//!
//! Reads repair the keys that somebody reads. The sweep repairs the others: what siblings have newer is fetched and stored
//! here, as a repair of a session would be. The siblings' own sweeps fetch the values that this brick has newer.
//!
//! The sweep also finds tombstones than which no brick of the key has anything older on its device. Such a tombstone
//! becomes a grave, and goes later (`graves`). So siblings are asked to answer when everything that they tell is on their
//! devices. A tombstone is not brought to a brick that has nothing of the key: it may just have gone there.
//!
//! It does the same with values that have ended and that all bricks of the key have: nobody else would overwrite those that
//! nobody reads.
//!
//! A brick that has no siblings in a tablet (N = 1) has nobody to ask: its own words are all.
//!
//! A stretch ends where the first page does that was told, or where a page of this brick's own keys would: siblings may have
//! told little, because they have little.
//!
//! Its pace: after each stretch it pauses for nineteen times as long as the stretch took, which leaves 95 % of the
//! bandwidth to others; not after a stretch that took long because a sibling was silent. A stretch without siblings is one
//! step, whose time is not known.
//!
//! Invariants:
//! - a step compares the keys of one page at most, and walks over as much of the index as a page does;
//! - a tombstone becomes a grave, and goes, only by the words of all siblings in one stretch;
//! - what siblings have told counts within its stretch only.
//!
//! Not here: the steps of the brick (`sweeping`), a tablet that has forgotten something (`rebuild`). Protocol: docs/protocols/quorum.md, rules 33, 34, 86,
//! 87. Catalogue: I6.

use crate::behind::Behind;
use crate::graves::Found;
use crate::pages::walk;
use crate::question::Key;
use crate::rebuild::Call;
use crate::store::Store;
use crate::tables::{Tables, meets};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, ServerId, Stamp};
use ramhold_log::{HashRange, Unreadable};
use ramhold_replication::FlushWish;
use ramhold_wire::bricks::{PageRecord, PageWanted, TabletPage, TabletPageTold};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A sibling that does not answer for so long is left out of the stretch.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between stretches is this many times as long as the stretch.
const PAUSE_FACTOR: u32 = 19;
/// A process that stood still in the middle of a stretch does not sweep for as long as that again and again.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The same after a stretch in which a sibling was silent: it took long because this brick waited.
const SILENT_PAUSE_MAX: Duration = Duration::from_secs(5);
/// The least pause after a stretch without siblings: as if it had taken a millisecond, which is enough for 1,000 keys.
const ALONE_PAUSE: Duration = Duration::from_millis(20);
/// The least time between the beginnings of two sweeps over all tablets.
const ROUND: Duration = Duration::from_secs(60);
/// The same after a sweep that left out tablets because they did not vote here: a brick that has just started begins so,
/// and has missed something.
const SKIPPED_ROUND: Duration = Duration::from_secs(5);
/// Questions of the sweep have numbers from here on, those of rebuildings lower ones.
const NUMBERS_FROM: u64 = 1 << 62;

/// A question to a sibling that is not answered yet.
#[derive(Debug)]
pub(crate) struct Asked {
    pub number: u64,
    pub until: Instant,
}

/// Something newer than this brick has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Newer {
    pub holder: ServerId,
    /// The key's position in the order of walks.
    pub position: u64,
}

#[derive(Debug)]
pub(crate) enum Stage {
    /// Stamps of the stretch are asked for.
    Comparing,
    /// The values that siblings have newer are fetched. `graves` wait until this brick's device has everything, too.
    Fetching { behind: BTreeMap<Key, Newer>, next: Option<u64>, graves: Vec<Found>, end: FlushWish },
}

/// One stretch of one tablet.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub range: HashRange,
    pub epoch: u64,
    pub siblings: Vec<ServerId>,
    pub from: u64,
    pub began: Instant,
    pub asked: BTreeMap<ServerId, Asked>,
    pub silent: BTreeSet<ServerId>,
    pub pages: BTreeMap<ServerId, TabletPageTold>,
    pub stage: Stage,
}

/// The sweep over all tablets, again and again.
#[derive(Debug, Default)]
pub(crate) struct Sweeping {
    pub stretch: Option<Stretch>,
    /// The tablet after the present one, in order.
    pub after: Option<HashRange>,
    pub next_at: Instant,
    pub round_began: Instant,
    pub number: u64,
    /// Values and tombstones that sweeps have fetched from siblings and stored here, since the start.
    pub stored_count: u64,
    /// Values that had ended, and that sweeps have overwritten here.
    pub ended_count: u64,
    /// When the last sweep ended that reached all siblings of all tablets, and how many have.
    pub whole_at: Option<Instant>,
    pub whole_count: u64,
    pub behind: Behind,
    /// Keys that were behind and are not any more, in this round.
    pub caught_up: u64,
    pub is_whole: bool,
    /// Tablets were left out in this round, because they do not vote here.
    pub has_skipped: bool,
}

impl Sweeping {
    pub fn deadline(&self) -> Option<Instant> {
        match &self.stretch {
            None => Some(self.next_at),
            // Otherwise it waits for the device, which reports by itself.
            Some(stretch) if stretch.asked.is_empty() => {
                matches!(stretch.stage, Stage::Comparing).then_some(stretch.began)
            }
            Some(stretch) => stretch.asked.values().map(|asked| asked.until).min(),
        }
    }

    /// A tablet is not this brick's any more.
    pub fn forget(&mut self, range: HashRange) {
        self.stretch.take_if(|stretch| meets(stretch.range, range));
        self.behind.forget(range);
    }

    pub fn has_asked(&self, from: ServerId, number: u64) -> bool {
        let asked = self.stretch.as_ref().and_then(|stretch| stretch.asked.get(&from));
        asked.is_some_and(|asked| asked.number == number)
    }

    /// A sibling's page. `None`: it has none now.
    pub fn on_page(&mut self, from: ServerId, number: u64, page: Option<TabletPageTold>) {
        if !self.has_asked(from, number) {
            return;
        }
        let Some(stretch) = &mut self.stretch else { return };
        stretch.asked.remove(&from);
        match page.filter(|page| page.epoch == stretch.epoch && page.votes) {
            Some(page) => _ = stretch.pages.insert(from, page),
            None => _ = stretch.silent.insert(from),
        }
    }

    pub fn ask(&mut self, now: Instant, to: ServerId, wanted: PageWanted, life: (u64, u64)) -> Option<Call> {
        let stretch = self.stretch.as_mut()?;
        self.number += 1;
        let number = NUMBERS_FROM + self.number;
        stretch.asked.insert(to, Asked { number, until: now + PATIENCE });
        let HashRange { table, first, last } = stretch.range;
        let (life, mark) = life;
        let epoch = stretch.epoch;
        let ask = TabletPage { table, first, last, epoch, life, mark, wanted, stands_in: false };
        Some(Call { to, number, ask })
    }

    /// The stretch is done. The next one begins after a pause.
    pub fn pause(&mut self, now: Instant) {
        let Some(stretch) = self.stretch.take() else { return };
        self.is_whole &= stretch.silent.is_empty();
        let least = if stretch.siblings.is_empty() { ALONE_PAUSE } else { Duration::ZERO };
        let most = if stretch.silent.is_empty() { PAUSE_MAX } else { SILENT_PAUSE_MAX };
        self.next_at = now + (now.since(stretch.began) * PAUSE_FACTOR).clamp(least, most);
    }

    /// All tablets are compared.
    pub fn end_round(&mut self, now: Instant) {
        if self.is_whole {
            self.whole_at = Some(now);
            self.whole_count += 1;
        }
        self.after = None;
        self.is_whole = true;
        let round = if std::mem::take(&mut self.has_skipped) { SKIPPED_ROUND } else { ROUND };
        self.next_at = self.next_at.max(self.round_began + round);
    }
}

/// The outcome of comparing a stretch.
pub(crate) struct Compared {
    /// Keys that siblings have newer, and who has the newest.
    pub behind: BTreeMap<Key, Newer>,
    /// Where the next stretch begins.
    pub next: Option<u64>,
    /// Tombstones than which nobody has anything older.
    pub graves: Vec<Found>,
    /// The tombstones of values that all have and that have ended (rule 28).
    pub ended: Vec<PageRecord>,
}

impl Stretch {
    /// Compares this brick's keys with those that were told. `limit`: this brick's time in microseconds. `Err`: this is in
    /// the way, and its repair is to begin.
    pub fn weigh(&self, store: &mut Store, tables: &Tables, limit: u64) -> Result<Compared, Unreadable> {
        let told = self.pages.values().filter_map(|page| page.next).min();
        let (found, next) = walk(store, tables, self.range, self.from, told)?;
        let mut own = BTreeMap::<Key, (KeyHash, Stamp)>::new();
        for scanned in found {
            let stamp = store.shard.log.stamp_at(scanned.at).ok_or(Unreadable::Damaged(scanned.at))?;
            own.insert(store.shard.log.show(&scanned).key.to_vec(), (scanned.hash, stamp));
        }
        let is_in = |position: u64| next.is_none_or(|next| position < next);
        let own_stamp = |key: &Key| own.get(key).map_or(Stamp::NONE, |(_, stamp)| *stamp);
        let mut newest = BTreeMap::<&Key, (Stamp, Newer)>::new();
        let mut older = BTreeSet::<&Key>::new();
        let mut alike = BTreeMap::<&Key, usize>::new();
        for (sibling, page) in &self.pages {
            for record in page.records.iter().filter(|record| is_in(record.position)) {
                let stamp = own_stamp(&record.key);
                // A tombstone of a key that is not here would have nothing to do here, and may just have gone.
                if !(record.is_tombstone && stamp.is_none()) {
                    let told = (record.stamp, Newer { holder: *sibling, position: record.position });
                    let known = newest.entry(&record.key).or_insert(told);
                    if (told.0, told.1.holder) > (known.0, known.1.holder) {
                        *known = told;
                    }
                }
                if record.stamp < stamp {
                    older.insert(&record.key);
                }
                *alike.entry(&record.key).or_default() += usize::from(record.stamp == stamp);
            }
        }
        let is_newer =
            |(key, (stamp, _)): &(&&Key, &(Stamp, Newer))| *stamp > own_stamp(key) && stamp.time <= limit;
        let behind: BTreeMap<Key, Newer> =
            newest.iter().filter(is_newer).map(|(key, (_, newer))| ((*key).clone(), *newer)).collect();
        let have_all_told = self.pages.len() == self.siblings.len();
        let (mut graves, mut ended) = (Vec::new(), Vec::new());
        for (key, (hash, stamp)) in own.iter().filter(|(key, _)| !behind.contains_key(*key)) {
            let found = store.shard.log.newest(self.range.table, *hash, key)?;
            let Some(found) = found else { continue };
            let (is_tombstone, end) = (found.value.is_none(), found.expires);
            if found.stamp != *stamp {
                continue;
            }
            let table = self.range.table;
            let is_alone = older.contains(key) || !have_all_told;
            let has_ended = end.is_some_and(|end| end.0.saturating_mul(1000) <= limit);
            if is_tombstone && is_alone && !planted(Defect::QuorumGraveWithoutAll) {
                store.graves.fill(table, *hash);
            } else if is_tombstone {
                graves.push(Found { table, hash: *hash, key: key.clone(), stamp: *stamp });
            } else if has_ended && alike.get(key).copied().unwrap_or(0) == self.siblings.len() {
                ended.push(PageRecord {
                    position: 0,
                    key: key.clone(),
                    stamp: stamp.of_expiry(),
                    value: None,
                    expires: None,
                    is_tombstone: true,
                });
            }
        }
        Ok(Compared { behind, next, graves, ended })
    }
}

#[cfg(test)]
mod tests;
