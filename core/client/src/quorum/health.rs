//! Which bricks answered lately: the order in which bricks are asked, and the phases of an `adaptive` put.
//!
//! Nothing here decides how many answers are needed: N, W and R are the table's.

use ramhold_base::{Instant, ServerId};
use std::collections::BTreeMap;
use std::time::Duration;

/// A brick that was silent this lately is asked last.
const LAST_FOR: Duration = Duration::from_secs(1);
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
    busy: Option<Instant>,
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

    /// A brick refused because too much waits there. It votes again as soon as it has room, so puts still take one phase:
    /// two would ask more of a brick that has too much.
    pub fn busy(&mut self, at: Instant, brick: ServerId) {
        self.bricks.entry(brick).or_default().busy = Some(at);
    }

    /// Whether all these bricks have answered this session, and none was silent lately.
    pub fn all_answer(&self, now: Instant, bricks: impl IntoIterator<Item = ServerId>) -> bool {
        bricks.into_iter().all(|brick| {
            self.bricks.get(&brick).is_some_and(|seen| {
                seen.heard.is_some() && seen.silent.is_none_or(|at| now.since(at) >= TWO_PHASES_FOR)
            })
        })
    }

    pub fn goes_last(&self, now: Instant, brick: ServerId) -> bool {
        let last = self.bricks.get(&brick).and_then(|seen| seen.silent.max(seen.busy));
        last.is_some_and(|at| now.since(at) < LAST_FOR)
    }

    /// Forgets bricks that hold nothing of this session any more.
    pub fn keep(&mut self, is_kept: impl Fn(ServerId) -> bool) {
        self.bricks.retain(|brick, _| is_kept(*brick));
    }
}
