//! A stretch of keys, as enough bricks tell it.
//!
//! The same page is asked of max(W, R) bricks: with values from one of them, with stamps alone from the others. Bricks end
//! their pages where they like, so the stretch ends with the shortest of them. A key of which all pages tell the same stamp
//! is committed, because W bricks have stored it, and nothing newer is, because R bricks have told. Every other key is left
//! to a get, which repairs it.
//!
//! Invariants:
//! - a key before the end of the stretch is agreed on, differs, or is absent in all pages that count;
//! - pages count by the rules of all answers: lives and epochs (`tally`).
//!
//! Not here: gets of keys that differ, values that have ended (the caller's), the bytes of pages.
//! Source: docs/protocols/quorum.md, rule 29. Catalogue: A6, I1.

use crate::message::{BrickId, Heard};
use crate::tally::{Lives, Tally};
use crate::thresholds::Thresholds;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A brick's page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageSaid<V> {
    Page {
        /// In order of their positions. A key that the brick never stored is missing.
        records: Vec<PageRecord<V>>,
        /// The page ends before this position. None: it goes to the end of the range.
        next: Option<u64>,
        has_values: bool,
    },
    /// The brick does not hold the range.
    WrongOwner,
}

/// The newest record of a key at one brick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRecord<V> {
    /// The key's place in an order that is the same at all bricks. Keys may share a place.
    pub position: u64,
    pub key: Vec<u8>,
    pub said: RecordSaid<V>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordSaid<V> {
    /// The newest record is not durable yet, and is not told.
    Open,
    /// The newest record. None: a tombstone.
    Stored(Stamp, Option<V>),
}

/// A key of a stretch. Absent keys are left out, as far as all agree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageKey<V> {
    pub position: u64,
    pub key: Vec<u8>,
    /// The stamp that all have told, with the value. None: a get must tell.
    pub agreed: Option<(Stamp, V)>,
}

/// The end of the question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageGot<V> {
    Found {
        /// In order of their positions.
        keys: Vec<PageKey<V>>,
        /// The stretch ends before this position. None: it goes to the end of the range.
        next: Option<u64>,
        /// The brick that has told the values.
        from: BrickId,
    },
    /// These bricks are silent, and the others are too few.
    NoQuorum(Vec<BrickId>),
    WrongOwner,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageOut {
    Send {
        to: BrickId,
        has_values: bool,
    },
    /// The question wants its turn at this time, if no answer comes before.
    WakeAt(Instant),
}

/// The question for one stretch, from its first message to its end.
#[derive(Clone, Debug)]
pub struct PageGet<V> {
    /// All bricks of the tablet, the one to ask first at the front.
    bricks: Vec<BrickId>,
    thresholds: Thresholds,
    deadline: Instant,
    /// A brick that is silent for longer is replaced by another one.
    patience: Duration,
    wake_at: Instant,
    asked: Vec<BrickId>,
    /// The brick that is to tell values. None: stamps alone are wanted.
    values_from: Option<BrickId>,
    pages: Tally<PageSaid<V>>,
    lives: Lives,
    has_ended: bool,
}

/// The pages of one key.
type Told<'a, V> = Vec<(BrickId, &'a RecordSaid<V>)>;

impl<V: Clone> PageGet<V> {
    /// `bricks` are all of the tablet; values are asked of the first one, if they are wanted.
    pub fn new(
        now: Instant,
        (bricks, thresholds, wants_values): (&[BrickId], Thresholds, bool),
        (deadline, patience): (Instant, Duration),
    ) -> PageGet<V> {
        PageGet {
            bricks: bricks.to_vec(),
            thresholds,
            deadline,
            patience,
            wake_at: now,
            asked: Vec::new(),
            values_from: bricks.first().copied().filter(|_| wants_values),
            pages: Tally::default(),
            lives: Lives::default(),
            has_ended: false,
        }
    }

    /// The number of bricks that must tell: a key on which they agree is committed, and none is missed.
    fn needed(&self) -> usize {
        self.thresholds.write().max(self.thresholds.read())
    }

    pub fn start(&mut self, now: Instant, outs: &mut Vec<PageOut>) {
        self.asked = self.bricks[..self.needed()].to_vec();
        self.asked.iter().for_each(|to| outs.push(self.question(*to)));
        self.wake(now, outs);
    }

    /// A brick's answer. Returns the end of the question.
    pub fn on_answer(&mut self, answer: Heard<PageSaid<V>>) -> Option<PageGot<V>> {
        if self.has_ended || !self.bricks.contains(&answer.from) {
            return None;
        }
        // A brick that was asked for stamps first, and for values later, may answer in any order.
        let is_page = matches!(answer.said, PageSaid::Page { .. });
        let is_less = is_page
            && !has_values(&answer.said)
            && self.pages.last(answer.from).is_some_and(|known| {
                has_values(&known.said) && (known.life, known.epoch) == (answer.life, answer.epoch)
            });
        if !is_less {
            self.pages.add(answer, &mut self.lives);
        }
        let strangers = self.pages.count(&self.lives, |said| matches!(said, PageSaid::WrongOwner));
        if strangers > self.bricks.len() - self.needed() {
            return Some(self.end(PageGot::WrongOwner));
        }
        let from = match self.values_from {
            None => self.told().next(),
            Some(_) => self.told().find(|brick| self.tells_values(*brick)),
        };
        let from = from.filter(|_| self.told().count() >= self.needed())?;
        let (keys, next) = self.merge(from);
        Some(self.end(PageGot::Found { keys, next, from }))
    }

    /// A brick has refused to answer, or its connection is gone. Another one is asked at once.
    pub fn on_silent(&mut self, brick: BrickId, outs: &mut Vec<PageOut>) {
        let owes = self.owes(brick);
        if self.has_ended || !self.asked.contains(&brick) || (self.has_told(brick) && !owes) {
            return;
        }
        let fresh = self.fresh();
        if owes {
            let other = fresh.or_else(|| self.instead_of(brick));
            self.values_from = other.or(self.values_from);
            let is_other = |to: &BrickId| *to != brick && Some(*to) != fresh;
            outs.extend(other.filter(is_other).map(|to| self.question(to)));
        }
        if let Some(fresh) = fresh {
            self.asked.push(fresh);
            outs.push(self.question(fresh));
        }
    }

    /// The time has come that was asked for: silent bricks are asked again, and one more for each of them.
    pub fn on_time(&mut self, now: Instant, outs: &mut Vec<PageOut>) -> Option<PageGot<V>> {
        if self.has_ended || now < self.wake_at.min(self.deadline) {
            return None;
        }
        if now >= self.deadline {
            let silent = self.bricks.iter().copied().filter(|it| !self.has_told(*it) || self.owes(*it));
            let silent = silent.collect();
            return Some(self.end(PageGot::NoQuorum(silent)));
        }
        let silent: Vec<BrickId> =
            self.asked.iter().copied().filter(|it| !self.has_told(*it) || self.owes(*it)).collect();
        let more = (silent.len() + self.needed()).saturating_sub(self.asked.len());
        let mut to_ask = silent;
        let fresh = self.fresh();
        for _ in 0..more {
            let fresh = self.fresh();
            self.asked.extend(fresh);
            to_ask.extend(fresh);
        }
        if let Some(owing) = self.values_from.filter(|from| self.owes(*from)) {
            let fresh = fresh.filter(|it| to_ask.contains(it));
            self.values_from = fresh.or_else(|| self.instead_of(owing)).or(Some(owing));
            to_ask.extend(self.values_from.filter(|from| !to_ask.contains(from)));
        }
        to_ask.into_iter().for_each(|to| outs.push(self.question(to)));
        self.wake(now, outs);
        None
    }

    fn end(&mut self, end: PageGot<V>) -> PageGot<V> {
        self.has_ended = true;
        end
    }

    fn wake(&mut self, now: Instant, outs: &mut Vec<PageOut>) {
        self.wake_at = now + self.patience;
        outs.push(PageOut::WakeAt(self.wake_at.min(self.deadline)));
    }

    fn question(&self, to: BrickId) -> PageOut {
        PageOut::Send { to, has_values: self.values_from == Some(to) }
    }

    /// A brick that was not asked yet.
    fn fresh(&self) -> Option<BrickId> {
        self.bricks.iter().copied().find(|it| !self.asked.contains(it))
    }

    /// The brick that is to tell values in the place of this one: one that has told stamps, or the one that was asked next.
    fn instead_of(&self, brick: BrickId) -> Option<BrickId> {
        let at = self.asked.iter().position(|it| *it == brick)?;
        let mut around = self.asked[at + 1..].iter().chain(&self.asked[..at]).copied();
        let next = around.clone().next();
        around.find(|it| self.has_told(*it)).or(next)
    }

    /// Whether a brick is to tell values, and has not done so.
    fn owes(&self, brick: BrickId) -> bool {
        self.values_from == Some(brick) && !self.tells_values(brick)
    }

    /// The bricks whose pages count.
    fn told(&self) -> impl Iterator<Item = BrickId> {
        let pages = self.pages.counted(&self.lives);
        pages.filter(|(_, said)| matches!(said, PageSaid::Page { .. })).map(|(brick, _)| brick)
    }

    fn has_told(&self, brick: BrickId) -> bool {
        self.told().any(|it| it == brick)
    }

    fn tells_values(&self, brick: BrickId) -> bool {
        self.pages.counted(&self.lives).any(|(from, said)| from == brick && has_values(said))
    }

    /// Compares the pages, up to the end of the shortest one.
    fn merge(&self, values_from: BrickId) -> (Vec<PageKey<V>>, Option<u64>) {
        let mut tellers = BTreeSet::new();
        let mut end: Option<u64> = None;
        let mut told: BTreeMap<(u64, &[u8]), Told<'_, V>> = BTreeMap::new();
        for (from, said) in self.pages.counted(&self.lives) {
            let PageSaid::Page { records, next, .. } = said else { continue };
            tellers.insert(from);
            end = [end, *next].into_iter().flatten().min();
            for record in records {
                told.entry((record.position, &record.key)).or_default().push((from, &record.said));
            }
        }
        let is_before = |position: u64| end.is_none_or(|end| position < end);
        let mut keys = Vec::new();
        for ((position, key), told) in told.into_iter().take_while(|((position, _), _)| is_before(*position))
        {
            let Some(agreed) = agreed(&told, tellers.len(), values_from) else {
                keys.push(PageKey { position, key: key.to_vec(), agreed: None });
                continue;
            };
            let agreed = agreed.map(|(stamp, value)| (stamp, value.clone()));
            keys.extend(agreed.map(|agreed| PageKey { position, key: key.to_vec(), agreed: Some(agreed) }));
        }
        (keys, end)
    }
}

/// The word of all about a key; `Some(None)`: a tombstone. `None`: they differ, or one of them does not tell.
fn agreed<'a, V>(told: &Told<'a, V>, tellers: usize, values_from: BrickId) -> Option<Option<(Stamp, &'a V)>> {
    let (_, first) = told.iter().find(|(from, _)| *from == values_from)?;
    let RecordSaid::Stored(stamp, value) = first else { return None };
    let is_same = |said: &RecordSaid<V>| matches!(said, RecordSaid::Stored(own, _) if own == stamp);
    let is_agreed = told.len() == tellers && told.iter().all(|(_, said)| is_same(said));
    let is_taken = is_agreed || planted(Defect::QuorumPageDifferenceTaken);
    is_taken.then(|| value.as_ref().map(|value| (*stamp, value)))
}

fn has_values<V>(said: &PageSaid<V>) -> bool {
    matches!(said, PageSaid::Page { has_values: true, .. })
}
