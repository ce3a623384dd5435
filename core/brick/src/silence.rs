//! Siblings whose announcements are missed: who is silent, since when, and who is heard again.
//!
//! A brick that stood still itself has not read what came meanwhile. It judges nobody until its next look.
//!
//! Not here: what a silent sibling means for votes (`clock`, core/quorum), orders to restart it (`restarting`). Protocol: docs/protocols/quorum.md, rules 18, 47.
//! Catalogue: I6.

use ramhold_base::{Instant, ServerId};
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Two announcements were missed, and half a pause for one that is late.
const SILENT_AFTER: Duration = Duration::from_millis(1250);

/// Something that has changed since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Silent(ServerId),
    /// It is heard again, after this long.
    Heard(ServerId, Duration),
}

#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Siblings, and when each was heard last, or was first looked for.
    watched: BTreeMap<ServerId, Instant>,
    silent: BTreeSet<ServerId>,
    looked_at: Option<Instant>,
}

impl Missed {
    /// Looks at all siblings, with each announcement. `heard`: when each was heard last.
    pub fn look(
        &mut self,
        now: Instant,
        siblings: &BTreeSet<ServerId>,
        heard: &BTreeMap<ServerId, Instant>,
    ) -> Vec<Change> {
        let stood_still = self.looked_at.is_some_and(|at| now.since(at) >= 2 * ANNOUNCE_INTERVAL);
        self.looked_at = Some(now);
        self.watched.retain(|sibling, _| siblings.contains(sibling));
        self.silent.retain(|sibling| siblings.contains(sibling));
        let mut changes = Vec::new();
        for sibling in siblings {
            let before = *self.watched.entry(*sibling).or_insert(now);
            let last = heard.get(sibling).copied().unwrap_or(before).max(before);
            self.watched.insert(*sibling, last);
            let is_silent = last + SILENT_AFTER <= now;
            if is_silent && !stood_still && self.silent.insert(*sibling) {
                changes.push(Change::Silent(*sibling));
            } else if !is_silent && self.silent.remove(sibling) {
                changes.push(Change::Heard(*sibling, last.since(before)));
            }
        }
        changes
    }

    /// A brick becomes a sibling. It has said nothing before, and that is no silence.
    pub fn begin(&mut self, now: Instant, sibling: ServerId) {
        self.watched.insert(sibling, now);
        self.silent.remove(&sibling);
    }

    /// When a sibling was heard last, or became one.
    pub fn heard_since(&self, sibling: ServerId) -> Option<Instant> {
        self.watched.get(&sibling).copied()
    }

    pub fn is_silent(&self, sibling: ServerId) -> bool {
        self.silent.contains(&sibling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ServerId = ServerId(4);
    const B: ServerId = ServerId(5);

    struct Watch {
        silence: Missed,
        heard: BTreeMap<ServerId, Instant>,
        now: Instant,
    }

    impl Watch {
        fn look(&mut self, after: Duration, heard: &[ServerId]) -> Vec<Change> {
            self.now = self.now + after;
            self.heard.extend(heard.iter().map(|sibling| (*sibling, self.now)));
            self.silence.look(self.now, &BTreeSet::from([A, B]), &self.heard)
        }

        fn new() -> Watch {
            Watch { silence: Missed::default(), heard: BTreeMap::new(), now: Instant(5) }
        }
    }

    // I6
    #[test]
    fn two_missed_announcements_are_silence_and_one_is_not() {
        let mut watch = Watch::new();
        let next = ANNOUNCE_INTERVAL;
        for heard in [&[A, B][..], &[A], &[A]] {
            assert_eq!(watch.look(next, heard), [], "it may be late");
        }
        assert_eq!(watch.look(next, &[A]), [Change::Silent(B)]);
        assert!(watch.silence.is_silent(B) && !watch.silence.is_silent(A));
        assert_eq!(watch.look(next, &[A]), [], "told once");
        assert_eq!(watch.look(next, &[A, B]), [Change::Heard(B, next * 5)]);
        assert!(!watch.silence.is_silent(B));
    }

    // I6
    #[test]
    fn a_sibling_that_was_never_heard_is_silent_too() {
        let mut watch = Watch::new();
        let changes = (0..4).flat_map(|_| watch.look(ANNOUNCE_INTERVAL, &[A])).collect::<Vec<_>>();
        assert_eq!(changes, [Change::Silent(B)]);
    }

    // I6
    #[test]
    fn a_brick_that_stood_still_judges_nobody() {
        let mut watch = Watch::new();
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[A, B]), []);
        assert_eq!(watch.look(Duration::from_secs(60), &[]), [], "what came meanwhile is not read yet");
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[A]), [Change::Silent(B)]);
    }

    // I6
    #[test]
    fn a_sibling_that_was_one_long_ago_is_not_silent_since_then() {
        let mut watch = Watch::new();
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[A, B]), []);
        watch.now = watch.now + Duration::from_secs(300);
        watch.silence.begin(watch.now, A);
        watch.silence.begin(watch.now, B);
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[]), []);
        assert_eq!(watch.silence.heard_since(A), Some(Instant(watch.now.0 - 500_000_000)));
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[A]), []);
        assert_eq!(watch.look(ANNOUNCE_INTERVAL, &[A]), [Change::Silent(B)]);
    }

    // I6
    #[test]
    fn who_is_no_sibling_any_more_is_forgotten() {
        let mut watch = Watch::new();
        (0..4).for_each(|_| _ = watch.look(ANNOUNCE_INTERVAL, &[A]));
        assert_eq!(watch.silence.look(watch.now, &BTreeSet::from([A]), &watch.heard), []);
        assert!(!watch.silence.is_silent(B));
    }
}
