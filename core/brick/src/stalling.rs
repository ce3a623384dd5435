//! A rebuilding that comes no further: since when, what is in its way, and when that is told.
//!
//! It comes further when a tablet is further than it ever was: by its stretches, and by the keys that its present stretch
//! lacks. Rebuildings that begin anew, because another tablet went first or something is asked once more, count for nothing
//! before they are where they had been. Bytes that are stored are no measure: keys are written again while they are rebuilt.
//!
//! ```text
//!   look ─┬─ further ──────────────────────────▶ nothing is in the way
//!         └─ not, and the last obstacle is known ─ STALLED_AFTER ─▶ told, until it comes further
//! ```
//!
//! Invariant: nothing is told without a reason.
//!
//! Not here: the obstacles (`rebuild`, `stretch`, `closing`), the event (`stall_report`), words (core/wire).
//! Protocol: docs/protocols/quorum.md, rules 97 and 98. Catalogue: I6, C6.

use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, ServerId, Status, TableId};
use ramhold_wire::brick_status::{RebuildObstacle, RefusingStatus, StalledStatus};
use std::collections::BTreeMap;
use std::time::Duration;

/// A rebuilding that has come no further for so long says why.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// How far a tablet is, in the order of the rebuilding's phases: the phase, the part of it, and the part of that.
pub(crate) type Progress = (u8, u64, u64);

/// A tablet in one of its epochs, by table and first hash.
pub(crate) type TabletKey = (TableId, KeyHash, u64);

/// The thing that a rebuilding last waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Hindrance {
    Own(RebuildObstacle),
    /// Siblings, with their last answers.
    Pages(BTreeMap<ServerId, Option<Status>>),
}

/// The news of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Stalled,
    /// The stall that was told is over.
    GoesOn,
}

#[derive(Debug, Default)]
pub(crate) struct Stalling {
    furthest: BTreeMap<TabletKey, Progress>,
    moved_at: Instant,
    hindrance: Option<Hindrance>,
    is_told: bool,
}

impl Stalling {
    /// Only these tablets are to be rebuilt.
    pub fn keep(&mut self, is_open: impl Fn(&TabletKey) -> bool) {
        self.furthest.retain(|tablet, _| is_open(tablet));
        if self.furthest.is_empty() {
            (self.hindrance, self.is_told) = (None, false);
        }
    }

    /// The tablet that is rebuilt now, after a step.
    pub fn look(
        &mut self,
        now: Instant,
        (tablet, progress): (TabletKey, Progress),
        hindrance: Option<Hindrance>,
    ) -> Option<News> {
        let is_further = self.furthest.get(&tablet).is_none_or(|before| *before < progress);
        if is_further {
            self.furthest.insert(tablet, progress);
            return self.moved(now);
        }
        if let Some(hindrance) = hindrance {
            self.hindrance = Some(hindrance);
        }
        let is_new = self.hindrance.is_some() && !self.is_told && self.moved_at + STALLED_AFTER <= now;
        if !is_new || planted(Defect::QuorumStalledIsSilent) {
            return None;
        }
        self.is_told = true;
        Some(News::Stalled)
    }

    /// A tablet has come further, or is rebuilt.
    pub fn moved(&mut self, now: Instant) -> Option<News> {
        (self.moved_at, self.hindrance) = (now, None);
        std::mem::take(&mut self.is_told).then_some(News::GoesOn)
    }

    /// Whether it last waited for this brick itself, and for no sibling.
    pub fn is_own(&self) -> bool {
        matches!(self.hindrance, Some(Hindrance::Own(_)))
    }

    /// The stall as it is told. `None`: it goes on, or has not stood still for long.
    pub fn status(&self, now: Instant) -> Option<StalledStatus> {
        let hindrance = self.hindrance.as_ref().filter(|_| self.is_told)?;
        let (obstacle, bricks) = match hindrance {
            Hindrance::Own(obstacle) => (*obstacle, Vec::new()),
            Hindrance::Pages(siblings) => {
                let bricks = siblings.iter();
                let refusing = |(brick, status): (&ServerId, &Option<Status>)| RefusingStatus {
                    brick: *brick,
                    status: status.map(Status::code),
                };
                (RebuildObstacle::Pages, bricks.map(refusing).collect())
            }
        };
        let millis = u64::try_from(now.since(self.moved_at).as_millis()).unwrap_or(u64::MAX);
        Some(StalledStatus { obstacle, millis, bricks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLET: TabletKey = (TableId(1), KeyHash(0), 1);
    const OTHER: TabletKey = (TableId(2), KeyHash(0), 1);
    const FULL: Hindrance = Hindrance::Own(RebuildObstacle::Index);

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn obstacle(stalling: &Stalling, seconds: u64) -> Option<(RebuildObstacle, u64)> {
        stalling.status(at(seconds)).map(|status| (status.obstacle, status.millis / 1000))
    }

    // I6: rule 97.
    #[test]
    fn it_is_told_after_a_minute_without_progress_and_once() {
        let mut stalling = Stalling::default();
        assert_eq!(stalling.look(at(100), (TABLET, (1, 0, 0)), None), None);
        for second in 101..160 {
            assert_eq!(stalling.look(at(second), (TABLET, (1, 0, 0)), Some(FULL)), None);
            assert_eq!(obstacle(&stalling, second), None);
        }
        assert_eq!(stalling.look(at(160), (TABLET, (1, 0, 0)), Some(FULL)), Some(News::Stalled));
        assert_eq!(stalling.look(at(170), (TABLET, (1, 0, 0)), None), None);
        assert_eq!(obstacle(&stalling, 170), Some((RebuildObstacle::Index, 70)));
        assert_eq!(stalling.look(at(171), (TABLET, (1, 0, 8)), None), Some(News::GoesOn));
        assert_eq!(obstacle(&stalling, 171), None);
    }

    // I6: rule 97. Each begins anew when the other one has gone first, and neither comes further than before.
    #[test]
    fn tablets_that_take_turns_have_not_come_further_before_they_are_where_they_had_been() {
        let mut stalling = Stalling::default();
        let mut told = 0;
        for second in 100..200 {
            let tablet = if second % 10 < 5 { TABLET } else { OTHER };
            let progress = (1, [0, 40, 90, 90, 90][second as usize % 5], 7);
            let hindrance = (progress.1 == 90).then_some(FULL);
            told += u32::from(stalling.look(at(second), (tablet, progress), hindrance).is_some());
        }
        assert_eq!(told, 1);
        assert!(obstacle(&stalling, 200).is_some());
        assert_eq!(stalling.look(at(201), (OTHER, (2, 0, 0)), None), Some(News::GoesOn));
    }

    // I6: rule 97. It waits for others then, or its tablets are read for the second time.
    #[test]
    fn nothing_is_told_without_a_reason_or_when_no_tablet_is_left() {
        let mut stalling = Stalling::default();
        for second in 0..200 {
            assert_eq!(stalling.look(at(second), (TABLET, (1, 0, 0)), None), None);
        }
        assert_eq!(stalling.look(at(200), (TABLET, (1, 0, 0)), Some(FULL)), Some(News::Stalled));
        stalling.keep(|tablet| *tablet == OTHER);
        assert_eq!(obstacle(&stalling, 200), None);
    }

    // I6: rule 98.
    #[test]
    fn siblings_are_named_with_their_last_answers() {
        let mut stalling = Stalling::default();
        let answers = BTreeMap::from([(ServerId(4), Some(Status::Retry)), (ServerId(5), None)]);
        stalling.look(at(0), (TABLET, (1, 0, 0)), None);
        stalling.look(at(60), (TABLET, (1, 0, 0)), Some(Hindrance::Pages(answers)));
        let told = stalling.status(at(61)).expect("it is told").why();
        let words = "s4 repairs a damaged entry, or has not taken its tablets yet, s5 does not answer its questions for keys";
        assert_eq!(told, words);
    }
}
