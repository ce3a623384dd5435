//! A get: the newest value that a read quorum knows, once a write quorum has it.
//!
//! The value comes from one brick, the others tell stamps alone. If too few are known to have the newest value, the get
//! repairs: it writes the value with its own stamp to those that lack it. A value that it returns is committed, so no
//! later get can return an older one. If the quorum has it, and single bricks lack it, they are repaired on the side.
//!
//! Not here: the replacement of bricks that are silent (`get::replace`), when a question is repeated (`under_way`). Source: docs/protocols/quorum.md, rule 7.

mod replace;

use crate::clock::SessionClock;
use crate::message::{Answer, Ask, BrickId, Out, Said, Write};
use crate::tally::{Lives, Tally};
use crate::thresholds::Thresholds;
use crate::under_way::{Late, UnderWay};
use crate::{GET_TRIES, PATIENCE_GROWTH};
use ramhold_base::Instant;
use ramhold_base::Stamp;
use ramhold_base::planted::{Defect, planted};
use std::collections::BTreeSet;
use std::time::Duration;

/// The end of a get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Got<V> {
    /// The newest value and its stamp; without a value the key is absent: removed, or never written.
    Found(Stamp, Option<V>),
    /// These bricks are silent, and the others are too few.
    NoQuorum(Vec<BrickId>),
    /// Something newer came up again and again.
    Contended,
    WrongOwner,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase<V> {
    /// Stamps and the value are asked for.
    Asking,
    /// The newest value is being written to bricks that lack it. `to_all`: not only to those that were asked.
    Repairing {
        stamp: Stamp,
        value: Option<V>,
        to_all: bool,
    },
    Ended,
}

/// One get, from its first message to its end.
#[derive(Clone, Debug)]
pub struct Get<V> {
    /// All bricks of the key, the one to ask first at the front.
    bricks: Vec<BrickId>,
    thresholds: Thresholds,
    /// The number of bricks that must answer: R, or N.
    reads: usize,
    /// The number of bricks that the present phase needs, or the last one needed.
    needed: usize,
    deadline: Instant,
    /// A brick that is silent for longer is replaced by another one. The first patience, and the present one, which
    /// doubles.
    patience: (Duration, Duration),
    wake_at: Instant,
    attempt: u32,
    tries: u32,
    phase: Phase<V>,
    /// Bricks that have refused since silent ones were last asked again.
    refused: BTreeSet<BrickId>,
    /// The bricks that were asked in this try, and by whom the value is to be told.
    asked: Vec<BrickId>,
    value_from: Option<BrickId>,
    /// The questions of this try that have no answer yet, but for repairs.
    under_way: UnderWay,
    /// Answers with stamps and values, and then answers to repairs.
    stamps: Tally<Said<V>>,
    repairs: Tally<Said<V>>,
    lives: Lives,
    /// When this try began, and by the clocks that are known so far.
    began_at: Instant,
    begun: u64,
    /// When a value ends, in microseconds of the table's time.
    ends: fn(&V) -> Option<u64>,
}

impl<V: Clone + PartialEq> Get<V> {
    /// `bricks` are all of the key; the value is asked of the first one. With `all`, every brick must answer: for a token
    /// that is too old to be rolled forward. `None` if no brick has told its time yet.
    pub fn new(
        now: Instant,
        (bricks, thresholds, all): (&[BrickId], Thresholds, bool),
        clock: &SessionClock,
        (deadline, patience): (Instant, Duration),
    ) -> Option<Get<V>> {
        let reads = if all { thresholds.bricks() } else { thresholds.read() };
        Some(Get {
            bricks: bricks.to_vec(),
            thresholds,
            reads,
            needed: reads,
            deadline,
            patience: (patience, patience),
            wake_at: now,
            attempt: 0,
            tries: 0,
            phase: Phase::Asking,
            refused: BTreeSet::new(),
            asked: Vec::new(),
            value_from: None,
            under_way: UnderWay::default(),
            stamps: Tally::default(),
            repairs: Tally::default(),
            lives: Lives::default(),
            began_at: now,
            begun: clock.now(now)?,
            ends: |_| None,
        })
    }

    /// With values that end by themselves: from that time on, by the session's clock, the get finds none.
    pub fn with_ends(self, ends: fn(&V) -> Option<u64>) -> Get<V> {
        Get { ends, ..self }
    }

    pub fn start(&mut self, now: Instant, clock: &SessionClock, outs: &mut Vec<Out<V>>) {
        self.ask_anew(now, clock, outs);
    }

    /// An answer to this attempt. Returns the end of the get.
    pub fn on_answer(
        &mut self,
        now: Instant,
        attempt: u32,
        answer: Answer<V>,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Got<V>> {
        if self.phase == Phase::Ended || attempt != self.attempt || !self.bricks.contains(&answer.from) {
            return None;
        }
        clock.hear(now, answer.from, answer.clock);
        self.note_time(now, clock);
        self.under_way.ended(answer.from);
        let answer = self.misplaced(answer);
        match &answer.said {
            Said::Value(..) | Said::Stamp(_) | Said::WrongOwner => self.stamps.add(answer, &mut self.lives),
            Said::Applied | Said::Rejected(_) | Said::Unknown(_) => {
                self.repairs.add(answer, &mut self.lives);
            }
        }
        let strangers = self.stamps.count(&self.lives, |said| *said == Said::WrongOwner);
        if strangers > self.bricks.len() - self.reads {
            return Some(self.end(Got::WrongOwner));
        }
        self.weigh(now, clock, outs)
    }

    /// With a planted defect: stamps are noted in the order in which they arrive, as if it were that of the questions.
    fn misplaced(&self, mut answer: Answer<V>) -> Answer<V> {
        if planted(Defect::QuorumAnswersByArrival)
            && matches!(answer.said, Said::Stamp(_))
            && let Some(next) = self.asked.iter().skip(1).find(|brick| !self.stamps.has(&self.lives, **brick))
        {
            answer.from = *next;
        }
        answer
    }

    /// The time has come that was asked for. Returns the end of the get.
    pub fn on_time(&mut self, now: Instant, clock: &SessionClock, outs: &mut Vec<Out<V>>) -> Option<Got<V>> {
        if self.phase == Phase::Ended || now < self.wake_at.min(self.deadline) {
            return None;
        }
        if now >= self.deadline {
            let silent = self.silent();
            return Some(self.end(Got::NoQuorum(silent)));
        }
        self.note_time(now, clock);
        match &mut self.phase {
            Phase::Asking => self.ask_on(now, outs),
            Phase::Repairing { stamp, value, .. } if planted(Defect::QuorumRepairSilenceCounts) => {
                let found = Got::Found(*stamp, value.clone());
                return Some(self.end(found));
            }
            Phase::Repairing { to_all, .. } => {
                *to_all = true;
                if self.newer().next().is_some() {
                    return self.begin_again(now, clock, outs);
                }
                self.repair(outs);
            }
            Phase::Ended => {}
        }
        self.wake(now, outs);
        None
    }

    /// The bricks that are late, if it is time to ask others and each of them still has the question. None if others are
    /// to be asked in any case: one has refused, or does not hold the key.
    pub fn late(&self, now: Instant) -> Vec<Late> {
        if self.phase != Phase::Asking || now < self.wake_at || now >= self.deadline {
            return Vec::new();
        }
        let late = |brick| {
            let since = self.under_way.since(brick, Some(brick) == self.value_from)?;
            Some(Late { brick, since })
        };
        self.awaited().into_iter().map(late).collect::<Option<_>>().unwrap_or_default()
    }

    /// Waits on for the bricks that are late, and asks no others yet.
    pub fn wait_on(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        self.wake(now, outs);
    }

    /// The number of bricks that must answer: R, or N, as long as the newest stamp is not known, and W to commit it. A get
    /// that has ended tells what its last phase needed.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// The number of the present attempt: answers to others mean nothing.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The clock that was told first may be the one that is wrong: each further one corrects when this try began. A repair is
    /// stored only within a time of that.
    fn note_time(&mut self, now: Instant, clock: &SessionClock) {
        if planted(Defect::QuorumBegunByFirst) {
            return;
        }
        let since = u64::try_from(now.since(self.began_at).as_micros()).unwrap_or(u64::MAX);
        self.begun = clock.now(now).map_or(self.begun, |time| time.saturating_sub(since));
    }

    fn end(&mut self, end: Got<V>) -> Got<V> {
        self.phase = Phase::Ended;
        end
    }

    fn wake(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        let (first, present) = self.patience;
        self.wake_at = now + present;
        self.patience = (first, (present * 2).min(first * PATIENCE_GROWTH));
        outs.push(Out::WakeAt(self.wake_at.min(self.deadline)));
    }

    /// Bricks without an answer that counts: to a repair, if they are not known to have the value.
    fn silent(&self) -> Vec<BrickId> {
        let is_heard = |brick: BrickId| match &self.phase {
            Phase::Repairing { stamp, .. } => {
                self.repairs.has(&self.lives, brick)
                    || self.has_told(brick, |said| Self::is_holder(said, *stamp))
            }
            Phase::Asking | Phase::Ended => self.stamps.has(&self.lives, brick),
        };
        self.bricks.iter().copied().filter(|brick| !is_heard(*brick)).collect()
    }

    /// Whether a brick has given such an answer, and it counts.
    fn has_told(&self, brick: BrickId, is_it: impl Fn(&Said<V>) -> bool) -> bool {
        self.stamps.counted(&self.lives).any(|(from, said)| from == brick && is_it(said))
    }

    /// Begins a try: the value of the first brick, the stamps of the next ones.
    fn ask_anew(&mut self, now: Instant, clock: &SessionClock, outs: &mut Vec<Out<V>>) {
        self.attempt += 1;
        self.tries += 1;
        // No value that is told in this try was read before.
        self.began_at = now;
        self.begun = clock.now(now).unwrap_or(self.begun);
        self.phase = Phase::Asking;
        self.needed = self.reads;
        (self.stamps, self.repairs) = (Tally::default(), Tally::default());
        self.refused.clear();
        self.patience.1 = self.patience.0;
        self.asked = self.bricks[..self.reads].to_vec();
        self.value_from = self.asked.first().copied();
        self.under_way = UnderWay::default();
        self.ask(now, self.asked.clone(), outs);
        self.wake(now, outs);
    }

    /// Asks these for their stamps, and the one that is to tell the value for that. Nobody is asked what he is asked already.
    fn ask(&mut self, now: Instant, those: Vec<BrickId>, outs: &mut Vec<Out<V>>) {
        for to in those {
            let is_value = Some(to) == self.value_from;
            if self.under_way.begin(now, to, is_value) {
                let ask = if is_value { Ask::Value } else { Ask::Stamp };
                outs.push(Out::Send { to, attempt: self.attempt, ask });
            }
        }
    }

    fn has_value(&self, brick: BrickId) -> bool {
        self.stamps.counted(&self.lives).any(|(from, said)| from == brick && matches!(said, Said::Value(..)))
    }

    /// The stamps that count, and the value of the newest one if it was told.
    fn newest(&self) -> (usize, Stamp, Option<Option<V>>) {
        let told: Vec<(Stamp, Option<Option<V>>)> = self
            .stamps
            .counted(&self.lives)
            .filter_map(|(_, said)| match said {
                Said::Value(stamp, value) => Some((*stamp, Some(value.clone()))),
                Said::Stamp(stamp) => Some((*stamp, None)),
                _ => None,
            })
            .collect();
        let newest = told.iter().map(|(stamp, _)| *stamp).max().unwrap_or_default();
        let value = told.iter().find(|(stamp, value)| *stamp == newest && value.is_some());
        (told.len(), newest, value.and_then(|(_, value)| value.clone()))
    }

    fn weigh(&mut self, now: Instant, clock: &mut SessionClock, outs: &mut Vec<Out<V>>) -> Option<Got<V>> {
        if let Phase::Repairing { stamp, value, .. } = self.phase.clone() {
            return self.weigh_repairs(now, (stamp, value), clock, outs);
        }
        let (count, newest, value) = self.newest();
        if count < self.reads {
            return None;
        }
        if newest.is_none() {
            return Some(self.end(Got::Found(newest, None)));
        }
        let Some(value) = value else {
            self.fetch(now, newest, outs);
            return None;
        };
        if self.holders(newest) >= self.thresholds.write() || planted(Defect::QuorumNotRepaired) {
            self.repair_aside(newest, &value, outs);
            return self.found(now, (newest, value), clock, outs);
        }
        self.begin_repair(newest, value, false);
        self.repair(outs);
        self.wake(now, outs);
        None
    }

    /// This value is committed. One that has ended is overwritten by a tombstone in its own place before it is told to be
    /// gone: a session whose clock is behind would show it again.
    fn found(
        &mut self,
        now: Instant,
        (stamp, value): (Stamp, Option<V>),
        clock: &SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Got<V>> {
        let end = value.as_ref().and_then(self.ends);
        if end.is_none_or(|end| clock.now(now).is_none_or(|time| time < end)) {
            return Some(self.end(Got::Found(stamp, value)));
        }
        let tombstone = if planted(Defect::QuorumExpiryFresh) {
            Stamp { time: clock.now(now).unwrap_or_default(), ..stamp }
        } else {
            stamp.of_expiry()
        };
        if planted(Defect::QuorumExpiryNotCommitted) {
            return Some(self.end(Got::Found(tombstone, None)));
        }
        self.attempt += 1;
        (self.stamps, self.repairs) = (Tally::default(), Tally::default());
        self.begin_repair(tombstone, None, true);
        self.repair(outs);
        self.wake(now, outs);
        None
    }

    fn begin_repair(&mut self, stamp: Stamp, value: Option<V>, to_all: bool) {
        self.phase = Phase::Repairing { stamp, value, to_all };
        self.needed = self.thresholds.write();
    }

    /// Asks a brick that has the newest stamp for its value.
    fn fetch(&mut self, now: Instant, newest: Stamp, outs: &mut Vec<Out<V>>) {
        let holder = self.stamps.counted(&self.lives).find(|(_, said)| **said == Said::Stamp(newest));
        let Some((holder, _)) = holder else { return };
        if self.value_from != Some(holder) {
            self.value_from = Some(holder);
            self.ask(now, vec![holder], outs);
        }
    }

    fn is_holder(said: &Said<V>, stamp: Stamp) -> bool {
        matches!(said, Said::Value(own, _) | Said::Stamp(own) if *own == stamp)
    }

    /// The number of bricks that are known to have stored this.
    fn holders(&self, stamp: Stamp) -> usize {
        let counts_refusals = planted(Defect::QuorumRepairCountsRefusals);
        let applied = self.repairs.counted(&self.lives).filter(|(_, said)| {
            **said == Said::Applied || (counts_refusals && matches!(said, Said::Rejected(_)))
        });
        let applied: Vec<BrickId> = applied.map(|(brick, _)| brick).collect();
        let told = self.stamps.counted(&self.lives).filter(|(_, said)| Self::is_holder(said, stamp));
        told.filter(|(brick, _)| !applied.contains(brick)).count() + applied.len()
    }

    /// The bricks that are to be repaired, and have not answered.
    fn to_repair(&self) -> Vec<BrickId> {
        let Phase::Repairing { to_all, .. } = &self.phase else { return Vec::new() };
        // With R below W those that were asked are too few.
        let is_all = *to_all || self.asked.len() < self.thresholds.write();
        let silent = self.silent().into_iter();
        silent.filter(|brick| is_all || self.asked.contains(brick)).collect()
    }

    /// Writes the value to bricks that lack it.
    fn repair(&self, outs: &mut Vec<Out<V>>) {
        self.repair_those(outs, |_| true);
    }

    fn repair_those(&self, outs: &mut Vec<Out<V>>, is_one: impl Fn(BrickId) -> bool) {
        let Phase::Repairing { stamp, value, .. } = &self.phase else { return };
        let write = Write { stamp: *stamp, value: value.clone(), begun: self.begun, is_repair: true };
        let attempt = self.attempt;
        let to_repair = self.to_repair().into_iter().filter(|brick| is_one(*brick));
        outs.extend(to_repair.map(|to| Out::Send { to, attempt, ask: Ask::Write(write.clone()) }));
    }

    /// Repairs bricks that lack a value which is committed. Nobody waits for their answers.
    fn repair_aside(&self, newest: Stamp, value: &Option<V>, outs: &mut Vec<Out<V>>) {
        let told = self.stamps.counted(&self.lives);
        let stale =
            told.filter(|(_, said)| matches!(said, Said::Value(own, _) | Said::Stamp(own) if *own < newest));
        let write = Write { stamp: newest, value: value.clone(), begun: self.begun, is_repair: true };
        outs.extend(stale.map(|(to, _)| Out::Send { to, attempt: 0, ask: Ask::Write(write.clone()) }));
    }

    fn weigh_repairs(
        &mut self,
        now: Instant,
        (stamp, value): (Stamp, Option<V>),
        clock: &SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Got<V>> {
        if self.holders(stamp) >= self.thresholds.write() || planted(Defect::QuorumRepairIgnored) {
            return self.found(now, (stamp, value), clock, outs);
        }
        let refused = self.newer().count();
        let answered = self.repairs.counted(&self.lives).count();
        // Without a chance to repair enough bricks, the newer value is looked for.
        let may_still = self.holders(stamp) + self.bricks.len() - answered - self.told(stamp);
        // All that were to be repaired have answered.
        let is_over = self.to_repair().is_empty();
        if refused > 0 && (is_over || may_still < self.thresholds.write()) {
            return self.begin_again(now, clock, outs);
        }
        if is_over && let Phase::Repairing { to_all, .. } = &mut self.phase {
            *to_all = true;
            self.repair(outs);
        }
        None
    }

    /// Bricks that have something newer than the value that is being repaired.
    fn newer(&self) -> impl Iterator<Item = BrickId> {
        let counted = self.repairs.counted(&self.lives);
        counted
            .filter(|(_, said)| matches!(said, Said::Rejected(_) | Said::Unknown(_)))
            .map(|(brick, _)| brick)
    }

    /// The bricks that told this stamp, and have not answered to a repair.
    fn told(&self, stamp: Stamp) -> usize {
        let told = self.stamps.counted(&self.lives).filter(|(_, said)| Self::is_holder(said, stamp));
        told.filter(|(brick, _)| !self.repairs.has(&self.lives, *brick)).count()
    }

    /// Something newer is there, so this value need not be told. A brick that has the newer one is asked first.
    fn begin_again(&mut self, now: Instant, clock: &SessionClock, outs: &mut Vec<Out<V>>) -> Option<Got<V>> {
        if self.tries == GET_TRIES {
            return Some(self.end(Got::Contended));
        }
        let newer: Vec<BrickId> = self.newer().collect();
        self.bricks.sort_by_key(|brick| !newer.contains(brick));
        self.ask_anew(now, clock, outs);
        None
    }
}
