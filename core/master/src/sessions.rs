//! Drops mutations that the network delivers twice.
//!
//! A session numbers its requests and never sends a number twice; each request tells the lowest number that is still
//! unanswered. A number below the highest floor seen, or seen before, is a duplicate or came too late: it is dropped
//! without an answer, which is always safe, since the sender concludes "unknown" or has its answer already.
//!
//! Not here: exactly-once over crashes; until client leases exist a repetition gets a number of its own and is sent only
//! when the first surely had no effect. Catalogue: A3.

use ramhold_base::map::FastMap;
use ramhold_base::{Instant, LeaseId, Sequence};
use std::time::Duration;

/// Sessions remembered; bounds memory to some ten megabytes.
const SESSION_COUNT_MAX: usize = 65_536;
/// Numbers of one session above its floor; more than a client may have outstanding.
const WINDOW_MAX: usize = 4096;
/// A session idle for this long may be forgotten when others need its place: nothing of it is on its way any more.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Looking for idle sessions costs a walk over all of them.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Numbers of all sessions together; bounds memory to eight megabytes.
const SEEN_COUNT_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
struct Session {
    floor: Sequence,
    seen: Vec<Sequence>,
    used: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: FastMap<LeaseId, Session>,
    seen_count: usize,
    swept: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    First,
    Duplicate,
    TooMany,
}

impl Sessions {
    pub fn admit(
        &mut self,
        now: Instant,
        lease: LeaseId,
        sequence: Sequence,
        unacknowledged: Sequence,
    ) -> Admission {
        if !self.sessions.contains_key(&lease)
            && self.sessions.len() >= SESSION_COUNT_MAX
            && !self.make_room(now)
        {
            return Admission::TooMany;
        }
        let session = self.sessions.entry(lease).or_default();
        session.used = now;
        if unacknowledged > session.floor {
            session.floor = unacknowledged;
            let before = session.seen.len();
            session.seen.retain(|s| *s >= unacknowledged);
            self.seen_count -= before - session.seen.len();
        }
        if sequence < session.floor || session.seen.contains(&sequence) {
            return Admission::Duplicate;
        }
        if session.seen.len() >= WINDOW_MAX || self.seen_count >= SEEN_COUNT_MAX {
            return Admission::TooMany;
        }
        session.seen.push(sequence);
        self.seen_count += 1;
        Admission::First
    }

    /// Forgets idle sessions; false when there are none.
    fn make_room(&mut self, now: Instant) -> bool {
        if now.since(self.swept) < SWEEP_INTERVAL {
            return false;
        }
        self.swept = now;
        self.sessions.retain(|_, s| now.since(s.used) < IDLE_MAX);
        self.seen_count = self.sessions.values().map(|s| s.seen.len()).sum();
        self.sessions.len() < SESSION_COUNT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_admitted_once_and_never_below_the_floor() {
        let mut sessions = Sessions::default();
        let mut admit =
            |sequence, floor| sessions.admit(Instant(1), LeaseId(9), Sequence(sequence), Sequence(floor));
        assert_eq!(admit(2, 1), Admission::First);
        assert_eq!(admit(1, 1), Admission::First);
        assert_eq!(admit(2, 1), Admission::Duplicate);
        assert_eq!(admit(5, 4), Admission::First);
        assert_eq!(admit(3, 1), Admission::Duplicate);
        assert_eq!(admit(5, 4), Admission::Duplicate);
    }
}
