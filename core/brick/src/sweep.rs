//! The background sweep: this brick compares its tablets with its siblings, one stretch of keys after the other.
//!
//! Reads repair the keys that somebody reads. The sweep repairs the others: what siblings have newer is fetched and stored
//! here, as a repair of a session would be. What this brick has newer is left to the siblings' own sweeps.
//!
//! The sweep also finds tombstones than which no brick of the key has anything older on its device. Such a tombstone
//! becomes a grave, and goes later (`graves`). So siblings are asked to answer when everything that they tell is on their
//! devices. A tombstone is not brought to a brick that has nothing of the key: it may just have gone there.
//!
//! It does the same with values that have ended and that all bricks of the key have: nobody else would overwrite those that
//! nobody reads.
//!
//! Its pace: after each stretch it pauses for nineteen times as long as the stretch took, which leaves 95 % of the
//! bandwidth to others.
//!
//! Invariants:
//! - a tombstone becomes a grave, and goes, only by the words of all siblings in one stretch;
//! - what siblings have told counts within its stretch only.
//!
//! Not here: a tablet that has forgotten something (`rebuild`). Protocol: docs/protocols/quorum.md, rules 33, 34.
//! Catalogue: I6.

use crate::Brick;
use crate::graves::Found;
use crate::pages::{first_keys, walk};
use crate::phase::Phase;
use crate::question::{Asker, Key};
use crate::rebuild::Call;
use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, ServerId, Stamp};
use ramhold_log::HashRange;
use ramhold_quorum::{Ask, Write};
use ramhold_replication::FlushWish;
use ramhold_wire::Step;
use ramhold_wire::bricks::{PageKey, PageRecord, PageWanted, TabletPage, TabletPageTold};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A sibling that does not answer for so long is left out of the stretch.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause between stretches is this many times as long as the stretch.
const PAUSE_FACTOR: u32 = 19;
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The least time between the beginnings of two sweeps over all tablets.
const ROUND: Duration = Duration::from_secs(60);
/// Questions of the sweep have numbers from here on, those of rebuildings lower ones.
const NUMBERS_FROM: u64 = 1 << 62;

/// A question to a sibling that is not answered yet.
#[derive(Debug)]
struct Asked {
    number: u64,
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Stamps of the stretch are asked for.
    Comparing,
    /// The values that siblings have newer are fetched. `graves` wait until this brick's device has everything, too.
    Fetching { behind: BTreeMap<Key, ServerId>, next: Option<u64>, graves: Vec<Found>, end: FlushWish },
}

/// One stretch of one tablet.
#[derive(Debug)]
struct Stretch {
    range: HashRange,
    epoch: u64,
    siblings: Vec<ServerId>,
    from: u64,
    began: Instant,
    asked: BTreeMap<ServerId, Asked>,
    silent: BTreeSet<ServerId>,
    pages: BTreeMap<ServerId, TabletPageTold>,
    stage: Stage,
}

/// The sweep over all tablets, again and again.
#[derive(Debug, Default)]
pub(crate) struct Sweeping {
    stretch: Option<Stretch>,
    /// The tablet after the present one, in order.
    after: Option<HashRange>,
    next_at: Instant,
    round_began: Instant,
    number: u64,
    /// Values and tombstones that sweeps have stored here, since the start.
    pub stored_count: u64,
    /// When the last sweep ended that reached all siblings of all tablets.
    pub whole_at: Option<Instant>,
    is_whole: bool,
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
        self.stretch.take_if(|stretch| stretch.range == range);
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

    fn ask(&mut self, now: Instant, to: ServerId, wanted: PageWanted, life: (u64, u64)) -> Option<Call> {
        let stretch = self.stretch.as_mut()?;
        self.number += 1;
        let number = NUMBERS_FROM + self.number;
        stretch.asked.insert(to, Asked { number, until: now + PATIENCE });
        let HashRange { table, first, last } = stretch.range;
        let (life, mark) = life;
        let ask = TabletPage { table, first, last, epoch: stretch.epoch, life, mark, wanted };
        Some(Call { to, number, ask })
    }

    /// The stretch is done. The next one begins after a pause.
    fn pause(&mut self, now: Instant) {
        let Some(stretch) = self.stretch.take() else { return };
        self.is_whole &= stretch.silent.is_empty();
        self.next_at = now + (now.since(stretch.began) * PAUSE_FACTOR).min(PAUSE_MAX);
    }

    /// All tablets are compared.
    fn end_round(&mut self, now: Instant) {
        if self.is_whole {
            self.whole_at = Some(now);
        }
        self.after = None;
        self.is_whole = true;
        self.next_at = self.next_at.max(self.round_began + ROUND);
    }
}

impl Brick {
    /// The number of values and tombstones that sweeps have stored here, and the end of the last whole sweep.
    pub fn swept(&self) -> (u64, Option<Instant>) {
        (self.siblings.sweeping.stored_count, self.siblings.sweeping.whole_at)
    }

    pub(crate) fn advance_sweep(&mut self, step: &mut Step<'_>) {
        if self.phase != Phase::Serving {
            return;
        }
        loop {
            let sweeping = &mut self.siblings.sweeping;
            let Some(stretch) = &mut sweeping.stretch else {
                if sweeping.next_at > step.now || !self.begin_stretch(step.now) {
                    return;
                }
                continue;
            };
            if stretch.began > step.now {
                return;
            }
            let overdue = stretch.asked.extract_if(.., |_, asked| asked.until <= step.now);
            let overdue: Vec<ServerId> = overdue.map(|(sibling, _)| sibling).collect();
            stretch.silent.extend(overdue);
            let is_done = match stretch.stage {
                Stage::Comparing => self.compare(step),
                Stage::Fetching { .. } => self.fetch(step),
            };
            if !is_done {
                return;
            }
        }
    }

    /// Begins the next stretch. False: there is none now.
    fn begin_stretch(&mut self, now: Instant) -> bool {
        let sweeping = &mut self.siblings.sweeping;
        let mut tablets: Vec<_> = self.tables.all().filter(|tablet| !tablet.siblings.is_empty()).collect();
        tablets.sort_by_key(|tablet| (tablet.range.table, tablet.range.first));
        let key = |range: HashRange| (range.table, range.first);
        let is_next = |range: HashRange| sweeping.after.is_none_or(|after| key(range) > key(after));
        if sweeping.after.is_none() {
            sweeping.round_began = now;
        }
        let Some(tablet) = tablets.into_iter().find(|tablet| is_next(tablet.range)) else {
            sweeping.end_round(now);
            sweeping.next_at = sweeping.next_at.max(now + Duration::from_secs(1));
            return false;
        };
        if !tablet.register.votes() || !self.clock.is_known(&tablet.siblings) {
            (sweeping.after, sweeping.is_whole) = (Some(tablet.range), false);
            sweeping.next_at = now + Duration::from_secs(1);
            return false;
        }
        let state = self.state_file.durable();
        let epoch = state.and_then(|state| state.tablets.iter().find(|known| known.range() == tablet.range));
        sweeping.stretch = Some(Stretch {
            range: tablet.range,
            epoch: epoch.map_or(0, |known| known.epoch),
            siblings: tablet.siblings.clone(),
            from: 0,
            began: now,
            asked: BTreeMap::new(),
            silent: BTreeSet::new(),
            pages: BTreeMap::new(),
            stage: Stage::Comparing,
        });
        true
    }

    /// Compares the stretch when all siblings have told, or are silent. False: some have yet to answer.
    fn compare(&mut self, step: &mut Step<'_>) -> bool {
        let life = self.state_file.durable().map_or((0, 0), |state| (state.life, state.mark));
        let mut calls = Vec::new();
        let sweeping = &mut self.siblings.sweeping;
        let Some(stretch) = &sweeping.stretch else { return true };
        let from = stretch.from;
        let is_open = |sibling: &&ServerId| {
            let is_answered = stretch.pages.contains_key(sibling) || stretch.silent.contains(sibling);
            !is_answered && !stretch.asked.contains_key(sibling)
        };
        let open: Vec<ServerId> = stretch.siblings.iter().filter(is_open).copied().collect();
        for sibling in open {
            calls.extend(sweeping.ask(step.now, sibling, PageWanted::Stamps { from, on_device: true }, life));
        }
        self.ask_siblings(step, calls);
        let Brick { siblings, store: Some(store), tables, clock, .. } = self else { return false };
        let sweeping = &mut siblings.sweeping;
        let Some(stretch) = &mut sweeping.stretch else { return true };
        if !stretch.asked.is_empty() {
            return false;
        }
        let limit = clock.now(step.now).earlier;
        let compared = if stretch.pages.is_empty() { None } else { stretch.weigh(store, tables, limit) };
        let Some(Compared { behind, next, graves, ended }) = compared else {
            // Nobody has told anything, or something here is damaged, and is being repaired.
            stretch.silent.extend(stretch.siblings.iter().copied());
            sweeping.after = Some(stretch.range);
            sweeping.pause(step.now);
            return true;
        };
        let stream = tables.stream(stretch.range);
        let Some(stream) = stream else {
            sweeping.stretch = None;
            return true;
        };
        stretch.pages.clear();
        stretch.stage = Stage::Fetching { behind, next, graves, end: store.everything(stream) };
        let range = stretch.range;
        self.store_told(step, range, ended);
        true
    }

    /// Fetches what siblings have newer, and stores it. False: there is something to wait for.
    fn fetch(&mut self, step: &mut Step<'_>) -> bool {
        let sweeping = &mut self.siblings.sweeping;
        let Some(stretch) = &mut sweeping.stretch else { return true };
        let (range, told) = (stretch.range, std::mem::take(&mut stretch.pages));
        let Stage::Fetching { behind, .. } = &mut stretch.stage else { return true };
        let mut records: Vec<PageRecord> = Vec::new();
        for (sibling, page) in told {
            if page.records.is_empty() {
                // It does not have them any more.
                behind.retain(|_, holder| *holder != sibling);
            }
            page.records.iter().for_each(|record| _ = behind.remove(&record.key));
            records.extend(page.records);
        }
        behind.retain(|_, holder| !stretch.silent.contains(holder));
        let mut wanted = BTreeMap::<ServerId, Vec<PageKey>>::new();
        for (key, holder) in behind.iter().filter(|(_, holder)| !stretch.asked.contains_key(holder)) {
            wanted.entry(*holder).or_default().push(PageKey(key.clone()));
        }
        self.store_told(step, range, records);
        let life = self.state_file.durable().map_or((0, 0), |state| (state.life, state.mark));
        let mut calls = Vec::new();
        for (holder, keys) in wanted {
            let wanted = PageWanted::Values { keys: first_keys(keys) };
            calls.extend(self.siblings.sweeping.ask(step.now, holder, wanted, life));
        }
        self.ask_siblings(step, calls);
        self.finish_stretch(step)
    }

    /// Stores values that a sibling has newer, as a session's repair would be stored.
    fn store_told(&mut self, step: &mut Step<'_>, range: HashRange, records: Vec<PageRecord>) {
        for record in records {
            let Some(hash) = self.tables.held_hash(range.table, &record.key) else { continue };
            if !range.contains(range.table, hash) {
                continue;
            }
            let begun = self.clock.now(step.now).later;
            let PageRecord { key, stamp, value, expires, .. } = record;
            let value = value.map(|bytes| crate::Value { bytes, expires });
            let ask = Ask::Write(Write { stamp, value, begun, is_repair: true });
            // A refusal leaves the key behind until the next sweep.
            if self.ask_register(step, (range.table, hash), &key, ask, Asker::NOBODY).is_ok() {
                self.siblings.sweeping.stored_count += 1;
            }
        }
        self.advance_appended(step);
    }

    /// Ends the stretch when nothing is missing any more and the device has the graves.
    fn finish_stretch(&mut self, step: &mut Step<'_>) -> bool {
        let Brick { siblings, store: Some(store), .. } = self else { return false };
        let sweeping = &mut siblings.sweeping;
        let Some(stretch) = &mut sweeping.stretch else { return true };
        let Stage::Fetching { behind, next, graves, end } = &mut stretch.stage else { return true };
        if !behind.is_empty() || (!graves.is_empty() && !store.is_on_device(*end)) {
            return false;
        }
        let (next, graves) = (*next, std::mem::take(graves));
        graves.iter().for_each(|found| store.dig_grave(step.now, found));
        let before = (stretch.range, stretch.epoch, stretch.siblings.clone());
        sweeping.pause(step.now);
        match next {
            None => sweeping.after = Some(before.0),
            Some(from) => {
                let (range, epoch, siblings) = before;
                sweeping.stretch = Some(Stretch {
                    range,
                    epoch,
                    siblings,
                    from,
                    began: sweeping.next_at,
                    asked: BTreeMap::new(),
                    silent: BTreeSet::new(),
                    pages: BTreeMap::new(),
                    stage: Stage::Comparing,
                });
            }
        }
        true
    }
}

/// The outcome of comparing a stretch.
struct Compared {
    /// Keys that siblings have newer, and who has the newest.
    behind: BTreeMap<Key, ServerId>,
    /// Where the next stretch begins.
    next: Option<u64>,
    /// Tombstones than which nobody has anything older.
    graves: Vec<Found>,
    /// The tombstones of values that all have and that have ended (rule 28).
    ended: Vec<PageRecord>,
}

impl Stretch {
    /// Compares this brick's keys with those that were told. `limit`: this brick's time in microseconds. `None`: a key here
    /// is damaged.
    fn weigh(&self, store: &mut Store, tables: &Tables, limit: u64) -> Option<Compared> {
        let next = self.pages.values().filter_map(|page| page.next).min();
        let is_in = |position: u64| next.is_none_or(|next| position < next);
        let mut own = BTreeMap::<Key, (KeyHash, Stamp)>::new();
        let mut at = Some(self.from);
        while let Some(position) = at.filter(|position| is_in(*position)) {
            let (found, after) = walk(store, tables, self.range, position)?;
            for scanned in found.into_iter().filter(|scanned| is_in(scanned.position)) {
                let key = store.shard.log.show(&scanned).key.to_vec();
                let hash = tables.hash(self.range.table, &key)?;
                own.insert(key, (hash, store.shard.log.stamp_at(scanned.at)?));
            }
            at = after;
        }
        let own_stamp = |key: &Key| own.get(key).map_or(Stamp::NONE, |(_, stamp)| *stamp);
        let mut newest = BTreeMap::<&Key, (Stamp, ServerId)>::new();
        let mut older = BTreeSet::<&Key>::new();
        let mut alike = BTreeMap::<&Key, usize>::new();
        for (sibling, page) in &self.pages {
            for record in page.records.iter().filter(|record| is_in(record.position)) {
                let stamp = own_stamp(&record.key);
                // A tombstone of a key that is not here would have nothing to do here, and may just have gone.
                if !(record.is_tombstone && stamp.is_none()) {
                    let known = newest.entry(&record.key).or_insert((record.stamp, *sibling));
                    *known = (*known).max((record.stamp, *sibling));
                }
                if record.stamp < stamp {
                    older.insert(&record.key);
                }
                *alike.entry(&record.key).or_default() += usize::from(record.stamp == stamp);
            }
        }
        let is_newer =
            |(key, (stamp, _)): &(&&Key, &(Stamp, ServerId))| *stamp > own_stamp(key) && stamp.time <= limit;
        let behind: BTreeMap<Key, ServerId> =
            newest.iter().filter(is_newer).map(|(key, (_, holder))| ((*key).clone(), *holder)).collect();
        let have_all_told = self.pages.len() == self.siblings.len();
        let (mut graves, mut ended) = (Vec::new(), Vec::new());
        for (key, (hash, stamp)) in own.iter().filter(|(key, _)| !behind.contains_key(*key)) {
            let found = store.shard.log.newest(self.range.table, *hash, key).ok()??;
            let (is_tombstone, end) = (found.value.is_none(), found.expires);
            if found.stamp != *stamp {
                continue;
            }
            let table = self.range.table;
            let is_alone = older.contains(key) || !have_all_told;
            let has_ended = end.is_some_and(|end| end.0.saturating_mul(1000) <= limit);
            if is_tombstone && is_alone && !planted(Defect::QuorumGraveWithoutAll) {
                store.fill_grave(table, *hash);
            } else if is_tombstone {
                graves.push(Found { table, hash: *hash, key: key.clone(), stamp: *stamp });
            } else if has_ended && alike.get(key) == Some(&self.siblings.len()) {
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
        Some(Compared { behind, next, graves, ended })
    }
}
