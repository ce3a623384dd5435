//! The questions of a get or a put that have no answer yet.
//!
//! A brick that is slow has the question in its queue. To ask it again only makes the queue longer: with sessions that repeat
//! all they ask, a brick that was behind once never catches up. A connection loses nothing without being lost itself, and
//! then the question has ended. So a question is repeated seldom, for the cases in which a brick drops one: `REPEAT` after it
//! was asked, and each further time after twice as long.
//!
//! Invariant: a brick that has said nothing is asked for the same a few times at most before the operation ends.
//!
//! Not here: who is asked (`get`, `put`). Protocol: docs/protocols/quorum.md, rules 21 and 96. Catalogue: I5.

use crate::message::BrickId;
use ramhold_base::Instant;
use std::time::Duration;

/// A brick that says nothing at all is asked again after this time at first.
const REPEAT: Duration = Duration::from_secs(1);

/// A brick that has had a question for longer than the patience with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    pub brick: BrickId,
    /// When it was asked.
    pub since: Instant,
}

#[derive(Clone, Debug)]
struct Question {
    to: BrickId,
    /// When it was asked first.
    asked_at: Instant,
    again_at: Instant,
    wait: Duration,
    /// It asks for the value, and so for the stamp, too.
    is_value: bool,
}

#[derive(Clone, Debug, Default)]
pub struct UnderWay(Vec<Question>);

impl UnderWay {
    /// Whether the question is to go out. If so, it is under way from now on.
    pub fn begin(&mut self, now: Instant, to: BrickId, is_value: bool) -> bool {
        let before = self.0.iter().find(|it| it.to == to && (it.is_value || !is_value));
        if before.is_some_and(|it| now < it.again_at) {
            return false;
        }
        let wait = before.map_or(REPEAT, |it| 2 * it.wait);
        let asked_at = before.map_or(now, |it| it.asked_at);
        self.ended(to);
        self.0.push(Question { to, asked_at, again_at: now + wait, wait, is_value });
        true
    }

    /// Since when the brick has the question, or one whose answer tells as much.
    pub fn since(&self, brick: BrickId, is_value: bool) -> Option<Instant> {
        self.0.iter().find(|it| it.to == brick && (it.is_value || !is_value)).map(|it| it.asked_at)
    }

    /// The brick has answered, or will not answer.
    pub fn ended(&mut self, brick: BrickId) {
        self.0.retain(|it| it.to != brick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I5
    #[test]
    fn nobody_is_asked_what_he_is_asked_already() {
        let (mut under_way, brick, now) = (UnderWay::default(), BrickId(1), Instant(5));
        assert!(under_way.begin(now, brick, false));
        assert!(!under_way.begin(now + REPEAT / 2, brick, false));
        assert!(under_way.begin(now + REPEAT / 2, BrickId(2), false));
        assert!(under_way.begin(now + REPEAT / 2, brick, true), "a stamp is no value");
        assert!(!under_way.begin(now + REPEAT, brick, false), "a value tells its stamp");
        assert!(under_way.begin(now + REPEAT * 3 / 2, brick, true), "it says nothing");
        assert!(!under_way.begin(now + REPEAT * 3, brick, true));
        assert!(under_way.begin(now + REPEAT * 7 / 2, brick, true), "nor for twice as long");
        assert_eq!(
            under_way.since(brick, false),
            Some(now + REPEAT / 2),
            "it has had the question for so long"
        );
        under_way.ended(brick);
        assert_eq!(under_way.since(brick, false), None);
        assert!(under_way.begin(now + REPEAT * 7 / 2, brick, true));
    }
}
