//! A put: one value gets a stamp, and is done when a write quorum has stored it.
//!
//! With one phase the stamp is the session's own. When it is refused so often that it can never be committed, the put
//! goes on with a later one. With two phases a read quorum tells its newest stamps first. A put without an end until its
//! deadline is unknown: it may have taken effect, or take effect later, when somebody reads it. Its token can be rolled
//! forward (`Put::resume`), with the same stamp and never with another. A put ends unknown before its deadline when all
//! bricks have answered, and those that have something newer cannot tell whether they had its stamp before.
//!
//! A brick that has refused, or whose connection is gone, is asked again soon: it may have started again. One that is silent
//! has the question, and is asked again seldom (`under_way`).
//!
//! Source: docs/protocols/quorum.md, rules 5, 6, 8 and 96.

use crate::clock::SessionClock;
use crate::message::{Answer, Ask, BrickId, Out, Said, Write};
use crate::tally::{Lives, Tally};
use crate::thresholds::Thresholds;
use crate::under_way::UnderWay;
use ramhold_base::Instant;
use ramhold_base::Stamp;
use ramhold_base::planted::{Defect, planted};
use std::time::Duration;

/// How many rounds a put takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phases {
    One,
    Two,
}

/// The end of a put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// Committed, or overwritten at once by something newer.
    Done(Stamp),
    /// It may have taken effect, or may still. The stamp is that of the token. If no brick is silent, all have told
    /// what they know, and with R >= W nobody will ever know more.
    Unknown(Stamp),
    /// Nothing was written: these bricks are silent, and the others are too few.
    NoQuorum(Vec<BrickId>),
    /// The bricks do not hold the key any more: the caller looks for those that do. A put that has sent a stamp goes on
    /// there with this one, as a resumed one.
    WrongOwner(Option<Stamp>),
    /// Only of a resumed put: the value was never committed, and never will be.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Stamps are asked for.
    Asking,
    /// This stamp is being written.
    Writing(Stamp),
    Ended,
}

/// One put, from its first message to its end.
#[derive(Clone, Debug)]
pub struct Put<V> {
    bricks: Vec<BrickId>,
    thresholds: Thresholds,
    value: Option<V>,
    phases: Phases,
    is_resumed: bool,
    begun: u64,
    deadline: Instant,
    /// Bricks that have refused are asked again after this time.
    again: Duration,
    again_at: Instant,
    attempt: u32,
    phase: Phase,
    tally: Tally<Said<V>>,
    lives: Lives,
    /// The questions of this attempt that have no answer yet.
    under_way: UnderWay,
    /// Whether a write of this put was sent.
    has_sent: bool,
}

impl<V: Clone + PartialEq> Put<V> {
    /// `bricks` are all of the key. `value`: None is a tombstone. `None` is returned until more than half of the bricks have
    /// told their time.
    pub fn new(
        now: Instant,
        (bricks, thresholds): (&[BrickId], Thresholds),
        (value, phases): (Option<V>, Phases),
        clock: &SessionClock,
        (deadline, again): (Instant, Duration),
    ) -> Option<Put<V>> {
        let begun = clock.now(now).filter(|_| clock.is_known(bricks))?;
        Some(Put {
            bricks: bricks.to_vec(),
            thresholds,
            value,
            phases,
            is_resumed: false,
            begun,
            deadline,
            again,
            again_at: now + again,
            attempt: 0,
            phase: Phase::Asking,
            tally: Tally::default(),
            lives: Lives::default(),
            under_way: UnderWay::default(),
            has_sent: false,
        })
    }

    /// Rolls a put forward that ended unknown: the same stamp, the same value, the time when it began.
    pub fn resume(
        now: Instant,
        (bricks, thresholds): (&[BrickId], Thresholds),
        (stamp, value, begun): (Stamp, Option<V>, u64),
        (deadline, again): (Instant, Duration),
    ) -> Put<V> {
        Put {
            bricks: bricks.to_vec(),
            thresholds,
            value,
            phases: Phases::One,
            is_resumed: true,
            begun,
            deadline,
            again,
            again_at: now + again,
            attempt: 0,
            phase: Phase::Writing(stamp),
            tally: Tally::default(),
            lives: Lives::default(),
            under_way: UnderWay::default(),
            has_sent: true,
        }
    }

    /// As `resume`, for a session that is to read: done when every later get finds this put or something newer. For that it
    /// is enough that W bricks have something newer, as in the second phase of a put.
    pub fn overtake(
        now: Instant,
        of: (&[BrickId], Thresholds),
        open: (Stamp, Option<V>, u64),
        within: (Instant, Duration),
    ) -> Put<V> {
        Put { phases: Phases::Two, ..Put::resume(now, of, open, within) }
    }

    /// When the put began, by the session's clock. A token has it.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    pub fn start(&mut self, now: Instant, clock: &mut SessionClock, outs: &mut Vec<Out<V>>) {
        if self.phases == Phases::One && !self.is_resumed {
            self.write_anew(now, clock, Stamp::NONE);
        }
        self.send(now, outs);
    }

    /// An answer to this attempt. Returns the end of the put.
    pub fn on_answer(
        &mut self,
        now: Instant,
        attempt: u32,
        answer: Answer<V>,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Written> {
        if self.phase == Phase::Ended || attempt != self.attempt || !self.bricks.contains(&answer.from) {
            return None;
        }
        clock.hear(now, answer.from, answer.clock);
        self.under_way.ended(answer.from);
        let epoch = self.lives.epoch();
        self.tally.add(answer, &mut self.lives);
        if self.lives.epoch() > epoch {
            self.ask_outdated(now, outs);
        }
        if self.tally.count(&self.lives, |said| *said == Said::WrongOwner) > self.bricks.len() - self.needed()
        {
            return Some(self.end(Written::WrongOwner(self.open())));
        }
        match self.phase {
            Phase::Asking => self.weigh_stamps(now, clock, outs),
            Phase::Writing(stamp) => self.weigh_writes(now, stamp, clock, outs),
            Phase::Ended => None,
        }
    }

    /// The time has come that was asked for. Returns the end of the put.
    pub fn on_time(
        &mut self,
        now: Instant,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Written> {
        if self.phase == Phase::Ended {
            return None;
        }
        if now >= self.deadline {
            if planted(Defect::QuorumPutWrittenAnew) && self.phases == Phases::One && !self.is_resumed {
                // The mistake: a new stamp after silence. The deadline moves, or the put would end at once.
                self.deadline = now + self.again;
                self.write_anew(now, clock, Stamp::NONE);
                self.send(now, outs);
                return None;
            }
            let end = match self.open() {
                Some(stamp) => Written::Unknown(stamp),
                None => Written::NoQuorum(self.silent()),
            };
            return Some(self.end(end));
        }
        if now >= self.again_at {
            self.again_at = now + self.again;
            self.send(now, outs);
        }
        None
    }

    /// A brick has refused to answer, or its connection is gone: it does not have the question any more. It is asked again
    /// in time, and not at the pace of its refusals.
    pub fn on_silent(&mut self, brick: BrickId) {
        self.under_way.ended(brick);
    }

    /// The number of the present attempt: answers to others mean nothing.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The bricks without an answer that counts.
    pub fn silent(&self) -> Vec<BrickId> {
        let silent = self.bricks.iter().copied();
        silent.filter(|brick| !self.tally.has(&self.lives, *brick)).collect()
    }

    /// The stamp whose fate is open: it was sent, and too few bricks have refused it. The put must not go on with
    /// another one.
    pub fn open(&self) -> Option<Stamp> {
        match self.phase {
            Phase::Writing(stamp) if self.has_sent => Some(stamp),
            _ => None,
        }
    }

    /// The number of bricks that must answer: R while stamps are asked for, W once a stamp was sent.
    pub fn needed(&self) -> usize {
        if self.has_sent { self.thresholds.write() } else { self.thresholds.read() }
    }

    fn end(&mut self, end: Written) -> Written {
        self.phase = Phase::Ended;
        end
    }

    /// Goes on with a stamp that was never used, above `floor`.
    fn write_anew(&mut self, now: Instant, clock: &mut SessionClock, floor: Stamp) {
        let stamp = clock.stamp(now, floor).expect("the clock was known when the put began");
        self.phase = Phase::Writing(stamp);
        self.attempt += 1;
        (self.tally, self.under_way) = (Tally::default(), UnderWay::default());
    }

    /// Asks every brick that has not answered, and has no question.
    fn send(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        let Some(ask) = self.question() else { return };
        self.has_sent |= matches!(ask, Ask::Write(_));
        if planted(Defect::QuorumPutsRepeated) {
            self.under_way = UnderWay::default();
        }
        self.ask(now, self.silent(), &ask, outs);
        self.again_at = self.again_at.max(now);
        outs.push(Out::WakeAt(self.again_at.min(self.deadline)));
    }

    /// Nobody is asked what he is asked already.
    fn ask(&mut self, now: Instant, those: Vec<BrickId>, ask: &Ask<V>, outs: &mut Vec<Out<V>>) {
        for to in those {
            if self.under_way.begin(now, to, true) {
                outs.push(Out::Send { to, attempt: self.attempt, ask: ask.clone() });
            }
        }
    }

    /// The epoch has risen: bricks that answered under an earlier one are asked again at once, and not after the time of
    /// those that refuse.
    fn ask_outdated(&mut self, now: Instant, outs: &mut Vec<Out<V>>) {
        let Some(ask) = self.question() else { return };
        let is_outdated = |brick: &BrickId| {
            self.tally.last(*brick).is_some_and(|answer| (1..self.lives.epoch()).contains(&answer.epoch))
        };
        let outdated: Vec<BrickId> = self.bricks.iter().copied().filter(is_outdated).collect();
        self.ask(now, outdated, &ask, outs);
    }

    /// The question of the present phase.
    fn question(&self) -> Option<Ask<V>> {
        match self.phase {
            Phase::Asking => Some(Ask::Stamp),
            Phase::Writing(stamp) => {
                let (value, begun) = (self.value.clone(), self.begun);
                Some(Ask::Write(Write { stamp, value, begun, is_repair: false }))
            }
            Phase::Ended => None,
        }
    }

    fn weigh_stamps(
        &mut self,
        now: Instant,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Written> {
        let stamps = self.tally.counted(&self.lives).filter_map(|(_, said)| match said {
            Said::Stamp(stamp) => Some(*stamp),
            _ => None,
        });
        let stamps: Vec<Stamp> = stamps.collect();
        if stamps.len() < self.thresholds.read() {
            return None;
        }
        let newest = stamps.into_iter().max().unwrap_or_default();
        self.write_anew(now, clock, newest);
        self.send(now, outs);
        None
    }

    fn weigh_writes(
        &mut self,
        now: Instant,
        stamp: Stamp,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<V>>,
    ) -> Option<Written> {
        let is_refusal = |said: &Said<V>| matches!(said, Said::Rejected(_));
        // In two phases it is enough that the brick has something newer.
        let is_newer = |said: &Said<V>| match said {
            Said::Rejected(newest) | Said::Unknown(newest) => *newest > stamp,
            _ => false,
        };
        let is_any = planted(Defect::QuorumAnyAnswerCounts);
        let is_good = |said: &Said<V>| *said == Said::Applied || (is_any && *said != Said::WrongOwner);
        let (applied, refused) =
            (self.tally.count(&self.lives, is_good), self.tally.count(&self.lives, is_refusal));
        let overwritten =
            if self.phases == Phases::Two { self.tally.count(&self.lives, is_newer) } else { 0 };
        if applied + overwritten >= self.thresholds.write() {
            return Some(self.end(Written::Done(stamp)));
        }
        let enough = match planted(Defect::QuorumPutAgainEarly) {
            true => 1,
            false => self.thresholds.refusals(),
        };
        if refused < enough || self.phases == Phases::Two {
            // All bricks have said what they know of this stamp: to ask again would change nothing.
            let is_last =
                |said: &Said<V>| matches!(said, Said::Applied | Said::Rejected(_) | Said::Unknown(_));
            let is_over = self.tally.count(&self.lives, is_last) == self.bricks.len();
            return is_over.then(|| self.end(Written::Unknown(stamp)));
        }
        if self.is_resumed {
            return Some(self.end(Written::Never));
        }
        let newest = self.tally.counted(&self.lives).filter_map(|(_, said)| match said {
            Said::Rejected(newest) | Said::Unknown(newest) => Some(*newest),
            _ => None,
        });
        let newest = newest.max().unwrap_or_default();
        self.write_anew(now, clock, newest);
        self.send(now, outs);
        None
    }
}
