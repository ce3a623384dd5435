//! Which bricks answered lately: the order in which bricks are asked, the patience with them, and the phases of an
//! `adaptive` put.
//!
//! Nothing here decides how many answers are needed: N, W and R are the table's.

use super::hedges::Hedges;
use super::patience::Patience;
use ramhold_base::{Instant, ServerId};
use ramhold_quorum::{Class, Late};
use std::collections::BTreeMap;
use std::time::Duration;

/// A brick that was silent this lately, and has not answered since, is asked last.
const LAST_FOR: Duration = Duration::from_secs(1);
/// A brick from which nothing has come for this time, and for twice the patience with it, is away.
const THERE_FOR: Duration = Duration::from_millis(200);
/// A question without an answer for this time, and for twice the patience, is not in its brick's queue any more.
const QUEUED_FOR: Duration = Duration::from_secs(1);
/// An `adaptive` put takes two phases until this long after a brick was silent.
const TWO_PHASES_FOR: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Health {
    bricks: BTreeMap<ServerId, Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    heard: Option<Instant>,
    silent: Option<Instant>,
    /// One for each class.
    busy: [Option<Instant>; Class::ALL.len()],
    patience: Patience,
    hedges: Hedges,
}

impl Health {
    pub fn heard(&mut self, now: Instant, brick: ServerId) {
        self.bricks.entry(brick).or_default().heard = Some(now);
    }

    /// A brick refused to answer at `at`, or an answer was overdue then.
    pub fn silent(&mut self, at: Instant, brick: ServerId) {
        let seen = self.bricks.entry(brick).or_default();
        seen.silent = seen.silent.max(Some(at));
    }

    /// A brick has told a value after this time.
    pub fn told_value(&mut self, brick: ServerId, time: Duration) {
        self.bricks.entry(brick).or_default().patience.heard(time);
    }

    /// The brick is asked for a value.
    pub fn asked_value(&mut self, brick: ServerId) {
        self.bricks.entry(brick).or_default().hedges.asked();
    }

    /// Whether an operation may ask others although these are only late. The budget is for questions that wait in the queues
    /// of their bricks; if one of them does not, asking others needs none.
    pub fn may_hedge(&self, now: Instant, late: &[Late]) -> bool {
        !self.are_queued(now, late) || self.payer(now, late).is_some()
    }

    /// The operation has asked others.
    pub fn hedged(&mut self, now: Instant, late: &[Late]) {
        if self.are_queued(now, late)
            && let Some(seen) = self.payer(now, late).and_then(|payer| self.bricks.get_mut(&payer))
        {
            seen.hedges.pay(now);
        }
    }

    /// The first of these whose budget has something left.
    fn payer(&self, now: Instant, late: &[Late]) -> Option<ServerId> {
        let mut bricks = late.iter().map(|it| ServerId(it.brick.0));
        bricks.find(|brick| self.bricks.get(brick).is_some_and(|seen| seen.hedges.may(now)))
    }

    fn are_queued(&self, now: Instant, late: &[Late]) -> bool {
        !late.is_empty() && late.iter().all(|it| self.is_queued(now, *it))
    }

    /// Whether this question is taken to be in its brick's queue: the brick has answered others lately, and has had this one
    /// for no longer than a queue lasts. A brick that takes long answers seldom. One that keeps an answer back, for a device
    /// that does not take the write before, answers all others.
    fn is_queued(&self, now: Instant, late: Late) -> bool {
        let brick = ServerId(late.brick.0);
        let patience = self.patience(brick);
        let is_there = self
            .bricks
            .get(&brick)
            .and_then(|seen| seen.heard)
            .is_some_and(|at| now.since(at) < THERE_FOR.max(2 * patience));
        is_there && now.since(late.since) < QUEUED_FOR.max(2 * patience)
    }

    /// How long to wait for a brick.
    pub fn patience(&self, brick: ServerId) -> Duration {
        self.bricks.get(&brick).map_or(Patience::default(), |seen| seen.patience).get()
    }

    /// A brick refused because too much of a class waits there. It votes again as soon as it has room, so puts still take
    /// one phase: two would ask more of a brick that has too much.
    pub fn busy(&mut self, at: Instant, brick: ServerId, class: Class) {
        self.bricks.entry(brick).or_default().busy[class.index()] = Some(at);
    }

    /// A brick is not ready. If it has answered just now, and was not silent since, it has only not loaded this key yet, and
    /// that says nothing of others.
    pub fn not_ready(&mut self, at: Instant, brick: ServerId) {
        let seen = self.bricks.entry(brick).or_default();
        let answers = seen.heard > seen.silent && seen.heard.is_some_and(|heard| at.since(heard) < LAST_FOR);
        if !answers {
            self.silent(at, brick);
        }
    }

    /// Whether all these bricks have answered this session, and none was silent lately.
    pub fn all_answer(&self, now: Instant, bricks: impl IntoIterator<Item = ServerId>) -> bool {
        bricks.into_iter().all(|brick| {
            self.bricks.get(&brick).is_some_and(|seen| {
                seen.heard.is_some() && seen.silent.is_none_or(|at| now.since(at) >= TWO_PHASES_FOR)
            })
        })
    }

    /// A brick whose answer was overdue, and that has answered anything since, is only slow: its windows tell how slow. If all
    /// sessions left out whoever was late once, they would all go to the same brick, and make that one late.
    pub fn goes_last(&self, now: Instant, brick: ServerId, class: Class) -> bool {
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < LAST_FOR);
        self.bricks.get(&brick).is_some_and(|seen| {
            let has_answered = seen.heard > seen.silent;
            is_recent(seen.busy[class.index()]) || (is_recent(seen.silent) && !has_answered)
        })
    }

    /// Forgets bricks that hold nothing of this session any more.
    pub fn keep(&mut self, is_kept: impl Fn(ServerId) -> bool) {
        self.bricks.retain(|brick, _| is_kept(*brick));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRICK: ServerId = ServerId(4);

    const fn at(millis: u64) -> Instant {
        Instant(1_000_000_000_000 + millis * 1_000_000)
    }

    // I6: a brick that loads its log is asked on, and puts stay in one phase; one that answers nothing is not.
    #[test]
    fn a_brick_that_answers_and_is_not_ready_for_a_key_is_not_silent() {
        let mut health = Health::default();
        health.not_ready(at(0), BRICK);
        assert!(health.goes_last(at(1), BRICK, Class::Get), "it has answered nothing yet");
        health.heard(at(6000), BRICK);
        health.not_ready(at(6001), BRICK);
        assert!(!health.goes_last(at(6002), BRICK, Class::Get) && health.all_answer(at(6002), [BRICK]));
        health.not_ready(at(7001), BRICK);
        assert!(health.goes_last(at(7002), BRICK, Class::Get), "it has answered nothing for a second");
        health.heard(at(7100), BRICK);
        health.silent(at(7200), BRICK);
        health.not_ready(at(7201), BRICK);
        assert!(health.goes_last(at(8200), BRICK, Class::Get), "it may have started again since");
    }

    // I5: rule 21.
    #[test]
    fn only_questions_that_are_all_in_queues_spend_the_budget_of_a_brick() {
        let late = |brick: u64, since: u64| Late { brick: ramhold_quorum::BrickId(brick), since: at(since) };
        let mut health = Health::default();
        health.heard(at(6000), ServerId(1));
        let hedged = |health: &mut Health, all: &[Late]| {
            let may = health.may_hedge(at(6050), all);
            if may {
                health.hedged(at(6050), all);
            }
            may
        };
        for _ in 0..20 {
            assert!(hedged(&mut health, &[late(1, 6000), late(3, 6000)]), "the other one is away");
            assert!(hedged(&mut health, &[late(1, 5000)]), "it has had that question for too long");
            assert!(hedged(&mut health, &[]), "others are to be asked for another reason");
        }
        let count = (0..20).filter(|_| hedged(&mut health, &[late(1, 6000)])).count();
        assert_eq!(count, 4, "three are saved, and one is free");
    }

    // I5
    #[test]
    fn a_brick_that_is_silent_goes_last_and_one_that_is_slow_does_not() {
        let (brick, at) = (ServerId(1), |millis: u64| Instant(millis * 1_000_000));
        let mut health = Health::default();
        let goes_last = |health: &Health, now| health.goes_last(now, brick, Class::Get);
        assert!(!goes_last(&health, at(0)), "nothing is known of it");
        health.heard(at(10), brick);
        health.silent(at(30), brick);
        assert!(goes_last(&health, at(31)) && !goes_last(&health, at(1030)));
        assert!(!health.all_answer(at(31), [brick]));
        health.heard(at(40), brick);
        assert!(!goes_last(&health, at(41)), "it answers, so it is slow");
        assert!(!health.all_answer(at(41), [brick]), "puts still expect that it is away");
        health.busy(at(50), brick, Class::Put);
        assert!(!goes_last(&health, at(51)), "each class has a queue of its own");
        health.busy(at(50), brick, Class::Get);
        health.heard(at(51), brick);
        assert!(goes_last(&health, at(52)), "it has said that it has too much to do");
        (0..500).for_each(|_| health.told_value(brick, Duration::from_millis(200)));
        assert!(health.patience(brick) >= Duration::from_millis(200));
        assert_eq!(health.patience(ServerId(2)), Patience::default().get());
    }
}
