//! Consents to restarts for anomalies: at most one brick of a tablet is restarted at a time, and only while the others vote.
//!
//! A brick that is to be restarted although it answers asks its siblings first, with its announcements. It may be
//! restarted while all of them consent. A sibling consents if it votes itself, wants no restart of its own, and has not
//! consented to another one. So of two bricks that share a tablet at most one has all consents.
//!
//! If two ask each other, the one with the lower id goes on. A consent ends when the brick is back and votes, or after
//! `GIVEN_FOR`, which is long beside the time for which a brick counts consents (`COUNTS_FOR`).
//!
//! Not here: who is to be restarted (`judging`), the messages (`announcing`). Protocol: docs/protocols/quorum.md, rule 67.
//! Catalogue: I6.

use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For how long a brick wants its restart after its supervisor said so: some questions of the supervisor.
const WANTED_FOR: Duration = Duration::from_secs(1);
/// For how long a brick counts a consent.
const COUNTS_FOR: Duration = Duration::from_secs(2);
/// For how long a brick is bound by its consent. The other one has long been ended by then, or is not ended at all.
const GIVEN_FOR: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Wanted {
    until: Instant,
    consented: BTreeMap<ServerId, Instant>,
}

#[derive(Debug)]
struct Given {
    to: ServerId,
    life: u64,
    until: Instant,
}

/// The consents that this brick has, and the one that it has given.
#[derive(Debug, Default)]
pub(crate) struct Consents {
    wanted: Option<Wanted>,
    given: Option<Given>,
}

impl Consents {
    fn forget_old(&mut self, now: Instant) {
        self.wanted.take_if(|wanted| wanted.until <= now);
        self.given.take_if(|given| given.until <= now);
    }

    /// This brick is to be restarted. `false`: not now, as it has consented to another restart.
    pub fn want(&mut self, now: Instant) -> bool {
        self.forget_old(now);
        if self.given.is_some() {
            return false;
        }
        let until = now + WANTED_FOR;
        let wanted = self.wanted.get_or_insert_with(|| Wanted { until, consented: BTreeMap::new() });
        wanted.until = until;
        true
    }

    pub fn is_wanted(&self, now: Instant) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.until > now)
    }

    /// A sibling consents.
    pub fn hear(&mut self, now: Instant, sibling: ServerId) {
        if let Some(wanted) = &mut self.wanted {
            wanted.consented.insert(sibling, now);
        }
    }

    /// Whether all siblings consent.
    pub fn may_restart(&self, now: Instant, siblings: &BTreeSet<ServerId>) -> bool {
        let Some(wanted) = self.wanted.as_ref().filter(|wanted| wanted.until > now) else { return false };
        let consents =
            |sibling: &ServerId| wanted.consented.get(sibling).is_some_and(|at| *at + COUNTS_FOR > now);
        !siblings.is_empty() && (siblings.iter().all(consents) || planted(Defect::QuorumNoConsent))
    }

    /// A sibling wants to be restarted in this life of it. This brick, which votes, consents if it is bound by nothing else.
    pub fn give(&mut self, now: Instant, (to, life): (ServerId, u64), me: ServerId) {
        self.forget_old(now);
        let is_bound = self.given.as_ref().is_some_and(|given| given.to != to);
        if is_bound || (self.wanted.is_some() && me < to) {
            return;
        }
        self.wanted = None;
        self.given = Some(Given { to, life, until: now + GIVEN_FOR });
    }

    pub fn has_given(&self, now: Instant, to: ServerId) -> bool {
        self.given.as_ref().is_some_and(|given| given.to == to && given.until > now)
    }

    /// A sibling votes in this life. Returns whether it was restarted with this brick's consent.
    pub fn on_vote(&mut self, brick: ServerId, life: u64) -> bool {
        self.given.take_if(|given| given.to == brick && life > given.life).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ServerId = ServerId(4);
    const B: ServerId = ServerId(5);
    const C: ServerId = ServerId(6);

    fn at(millis: u64) -> Instant {
        Instant(1) + Duration::from_millis(millis)
    }

    // I6
    #[test]
    fn all_siblings_must_consent_and_lately() {
        let siblings = BTreeSet::from([B, C]);
        let mut consents = Consents::default();
        consents.hear(at(0), B);
        assert!(consents.want(at(0)) && consents.is_wanted(at(999)) && !consents.is_wanted(at(1000)));
        assert!(!consents.may_restart(at(1), &siblings));
        consents.hear(at(1), B);
        assert!(!consents.may_restart(at(1), &siblings), "one is missing");
        consents.hear(at(900), C);
        assert!(consents.may_restart(at(901), &siblings) && consents.want(at(901)));
        assert!(consents.want(at(1800)) && consents.may_restart(at(1999), &siblings));
        assert!(consents.want(at(2100)) && !consents.may_restart(at(2100), &siblings), "B's is old");
        assert!(!consents.may_restart(at(3200), &siblings), "nobody wants it any more");
        assert!(!Consents::default().may_restart(at(0), &siblings));
    }

    // I6
    #[test]
    fn one_consent_at_a_time_until_the_brick_is_back_and_votes() {
        let mut consents = Consents::default();
        consents.give(at(0), (A, 7), C);
        assert!(consents.has_given(at(0), A) && !consents.want(at(1)));
        consents.give(at(2), (B, 3), C);
        assert!(!consents.has_given(at(2), B) && consents.has_given(at(2), A));
        assert!(!consents.on_vote(A, 7) && !consents.on_vote(B, 8) && consents.has_given(at(3), A));
        assert!(consents.on_vote(A, 8));
        consents.give(at(4), (B, 3), C);
        assert!(consents.has_given(at(10_003), B) && !consents.has_given(at(10_004), B));
        assert!(consents.want(at(10_004)));
    }

    /// Two that share a tablet with a third one, whose messages come in any order: never both have all consents.
    // I6
    #[test]
    fn of_two_that_want_it_the_lower_one_may_and_never_both() {
        use ramhold_base::Rng;
        let bricks = [A, B, C];
        let mut done = [0; 2];
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut all: [Consents; 3] = std::array::from_fn(|_| Consents::default());
            // Wishes and consents under way: from, to, and whether it is a consent.
            let mut sent: Vec<(usize, usize, bool)> = Vec::new();
            let mut ended: BTreeSet<usize> = BTreeSet::new();
            for now in (0..3000).step_by(5) {
                let who = rng.below(2) as usize;
                if rng.chance(1, 20) && !ended.contains(&who) && all[who].want(at(now)) {
                    sent.extend((0..3).filter(|to| *to != who).map(|to| (who, to, false)));
                }
                if !sent.is_empty() && rng.chance(3, 4) {
                    let pick = rng.below(sent.len() as u64) as usize;
                    let (from, to, is_consent) = sent.swap_remove(pick);
                    // An ended brick hears nothing, and is not back within this run.
                    if !ended.contains(&to) {
                        if is_consent {
                            all[to].hear(at(now), bricks[from]);
                        } else {
                            all[to].give(at(now), (bricks[from], 1), bricks[to]);
                            if all[to].has_given(at(now), bricks[from]) {
                                sent.push((to, from, true));
                            }
                        }
                    }
                }
                for who in 0..2 {
                    let siblings = (0..3).filter(|it| *it != who).map(|it| bricks[it]).collect();
                    if !ended.contains(&who) && all[who].may_restart(at(now), &siblings) {
                        assert!(ended.insert(who));
                        done[who] += 1;
                        assert_eq!(ended.len(), 1, "seed {seed}: both at {now} ms");
                    }
                }
            }
        }
        assert!(done.iter().all(|count| *count > 100), "{done:?}");
    }
}
