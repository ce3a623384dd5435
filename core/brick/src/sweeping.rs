//! The steps of the background sweep in a brick: which stretch is next, what is asked, and what is stored.
//!
//! Not here: the comparison of a stretch, and the pace (`sweep`). Protocol: docs/protocols/quorum.md, rules 33, 86.
//! Catalogue: I6.

use crate::Brick;
use crate::events::{EventKind, counted};
use crate::pages::first_keys;
use crate::phase::Phase;
use crate::question::Asker;
use crate::store::Store;
use crate::sweep::{Compared, Newer, Stage, Stretch};
use ramhold_base::{Instant, ServerId};
use ramhold_log::{HashRange, Purpose};
use ramhold_quorum::{Ask, Write};
use ramhold_wire::Step;
use ramhold_wire::bricks::{PageKey, PageRecord, PageWanted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Brick {
    /// The number of values and tombstones that sweeps have fetched and stored here, and the end of the last whole sweep.
    pub fn swept(&self) -> (u64, Option<Instant>) {
        (self.siblings.sweeping.stored_count, self.siblings.sweeping.whole_at)
    }

    pub(crate) fn advance_sweep(&mut self, step: &mut Step<'_>) {
        if self.phase != Phase::Serving || self.is_loading() {
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
        let mut tablets: Vec<_> = self.tables.all().collect();
        tablets.sort_by_key(|tablet| (tablet.range.table, tablet.range.first));
        let key = |range: HashRange| (range.table, range.first);
        let is_next = |range: HashRange| sweeping.after.is_none_or(|after| key(range) > key(after));
        if sweeping.after.is_none() {
            sweeping.round_began = now;
        }
        let Some(tablet) = tablets.into_iter().find(|tablet| is_next(tablet.range)) else {
            sweeping.end_round(now);
            let (caught_up, still) = (std::mem::take(&mut sweeping.caught_up), sweeping.behind.count());
            sweeping.next_at = sweeping.next_at.max(now + Duration::from_secs(1));
            self.note_round(now, caught_up, still);
            return false;
        };
        if !tablet.register.votes() || !self.clock.is_known(&tablet.siblings) {
            (sweeping.after, sweeping.is_whole) = (Some(tablet.range), false);
            sweeping.has_skipped = true;
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

    /// Notes that a round found keys of which siblings had something newer.
    fn note_round(&mut self, now: Instant, caught_up: u64, still: usize) {
        let Some(me) = self.state().map(|state| state.brick).filter(|_| caught_up > 0) else { return };
        let treatment = match still {
            0 => "all were fetched and stored".to_owned(),
            _ => format!("they were fetched and stored; {still} more are still behind"),
        };
        let indicator = format!("siblings had something newer of {}", counted(caught_up, "key"));
        self.note(now, EventKind::SweepBehind, me, (indicator, treatment));
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
        let has_told = !stretch.pages.is_empty() || stretch.siblings.is_empty();
        let compared = has_told.then(|| stretch.weigh(store, tables, limit));
        let Some(Ok(Compared { behind, next, graves, ended })) = compared else {
            // Nobody has told anything, or something here is damaged: it is repaired before the next sweep.
            if let Some(Err(unreadable)) = compared {
                store.note_unreadable(step, unreadable);
            }
            (sweeping.after, sweeping.is_whole) = (Some(stretch.range), false);
            sweeping.pause(step.now);
            return true;
        };
        let stream = tables.stream(stretch.range);
        let Some(stream) = stream else {
            sweeping.stretch = None;
            return true;
        };
        let part = (stretch.from, next);
        let positions = behind.values().map(|newer| newer.position);
        sweeping.behind.compared(step.now, stretch.range, part, positions);
        stretch.pages.clear();
        stretch.stage = Stage::Fetching { behind, next, graves, end: store.everything(stream) };
        let range = stretch.range;
        let ended = self.store_told(step, range, ended).len();
        self.siblings.sweeping.ended_count += ended as u64;
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
                behind.retain(|_, newer| newer.holder != sibling);
            }
            for mut record in page.records {
                // A key for which this one was not asked does not count: nothing has compared it.
                let is_wanted = behind.get(&record.key).is_some_and(|newer| newer.holder == sibling);
                if let Some(Newer { position, .. }) = is_wanted.then(|| behind.remove(&record.key)).flatten()
                {
                    record.position = position;
                    records.push(record);
                }
            }
        }
        behind.retain(|_, newer| !stretch.silent.contains(&newer.holder));
        let mut wanted = BTreeMap::<ServerId, Vec<PageKey>>::new();
        for (key, newer) in behind.iter().filter(|(_, newer)| !stretch.asked.contains_key(&newer.holder)) {
            wanted.entry(newer.holder).or_default().push(PageKey(key.clone()));
        }
        let positions: Vec<u64> = self.store_told(step, range, records);
        let sweeping = &mut self.siblings.sweeping;
        sweeping.caught_up += positions.len() as u64;
        sweeping.stored_count += positions.len() as u64;
        positions.into_iter().for_each(|position| sweeping.behind.stored(range, position));
        let life = self.state_file.durable().map_or((0, 0), |state| (state.life, state.mark));
        let mut calls = Vec::new();
        for (holder, keys) in wanted {
            let wanted = PageWanted::Values { keys: first_keys(keys) };
            calls.extend(self.siblings.sweeping.ask(step.now, holder, wanted, life));
        }
        self.ask_siblings(step, calls);
        self.finish_stretch(step)
    }

    /// Stores values that a sibling has newer, as a session's repair would be stored. Returns the positions of those that
    /// are stored.
    fn store_told(&mut self, step: &mut Step<'_>, range: HashRange, records: Vec<PageRecord>) -> Vec<u64> {
        let mut stored = Vec::new();
        for record in records {
            let Some(hash) = self.tables.held_hash(range.table, &record.key) else { continue };
            if !range.contains(range.table, hash) {
                continue;
            }
            let begun = self.clock.now(step.now).later;
            let PageRecord { position, key, stamp, value, expires, .. } = record;
            let value = value.map(|bytes| crate::Value { bytes, expires });
            let ask = Ask::Write(Write { stamp, value, begun, is_repair: true });
            // A refusal leaves the key behind until the next sweep.
            if self.ask_register(step, (range.table, hash), &key, ask, Asker::NOBODY).is_ok() {
                stored.push(position);
            }
        }
        self.advance_appended(step);
        stored
    }

    /// Ends the stretch when nothing is missing any more and the device has the graves.
    fn finish_stretch(&mut self, step: &mut Step<'_>) -> bool {
        let Brick { siblings, store: Some(store), tables, .. } = self else { return false };
        let sweeping = &mut siblings.sweeping;
        let Some(stretch) = &mut sweeping.stretch else { return true };
        let Stage::Fetching { behind, next, graves, end } = &mut stretch.stage else { return true };
        if !behind.is_empty() || (!graves.is_empty() && !store.is_on_device(*end)) {
            return false;
        }
        let (next, graves) = (*next, std::mem::take(graves));
        let mut wants_head = false;
        if let Some(stream) = tables.stream(stretch.range) {
            let Store { graves: known, shard, .. } = store;
            graves.iter().for_each(|found| wants_head |= known.dig(step.now, found, stream, shard));
            if wants_head {
                // Without room for it, they ask again.
                store.roll_for(step, tables, stream, Purpose::Freeing);
            }
        }
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
        if wants_head {
            self.advance_appended(step);
        }
        true
    }
}
