//! Questions and pages that are under way between a brick and its siblings.
//!
//! Not here: what is done with it (`telling`, `announcing`), what counts (`rebuild`). Catalogue: I6.

use crate::question::Asker;
use crate::rebuild::Rebuilding;
use crate::restarting::Restarting;
use crate::silence::Missed;
use crate::stalling::Stalling;
use crate::sweep::Sweeping;
use crate::tables::meets;
use ramhold_base::time::earliest;
use ramhold_base::{Instant, KeyHash, ServerId, TableId};
use ramhold_log::HashRange;
use ramhold_replication::FlushWish;
use ramhold_wire::bricks::{TabletPage, TabletPageTold};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// A brick that is heard so long after a later life of it was announced from elsewhere did not move there: it runs, and the
/// other process has a copy of its directory.
const RUNS_ON_AFTER: Duration = Duration::from_secs(2);

/// Something that is told when the asker's life is on the device.
#[derive(Debug)]
pub(crate) enum Waiting {
    Page(TabletPage),
    Announcement,
}

/// Questions and pages between this brick and its siblings.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// Questions that wait until the asker's life is on the device.
    pub waiting: Vec<(Waiting, Asker)>,
    /// Pages that are told when the device has what they tell.
    pub held: Vec<(FlushWish, TabletPageTold, Asker)>,
    /// When each sibling's newest life was last announced.
    pub heard: BTreeMap<ServerId, Instant>,
    /// When siblings of the life before were last heard, as far as this one knows: when it began to serve. A copy of
    /// theirs is not believed while they may still be there. They do not count as heard otherwise.
    pub assumed: BTreeMap<ServerId, Instant>,
    /// When each sibling's present life was first heard.
    pub life_since: BTreeMap<ServerId, Instant>,
    /// Later lives of siblings that were announced from elsewhere, while the one before was heard: which, and since when.
    pub claims: BTreeMap<ServerId, ((u64, u64), Instant)>,
    /// Lives that were refused, by brick, life and mark: they were noted.
    pub refused: BTreeSet<(ServerId, u64, u64)>,
    pub silence: Missed,
    /// When each sibling last answered an announcement.
    pub answered: BTreeMap<ServerId, Instant>,
    /// The fingerprint that each sibling told last of the tablets that it shares with this brick.
    pub agreed: BTreeMap<ServerId, u64>,
    /// Those whose words about tablets could not be taken: it was said.
    pub untaken: BTreeSet<ServerId>,
    /// Those whose pages held records that no log can hold: it was said.
    pub impossible: BTreeSet<ServerId>,
    /// The tablet whose rebuilding last made no progress.
    pub stuck: Option<(TableId, KeyHash)>,
    /// When siblings' pages last decided something of any tablet.
    pub decided_at: Instant,
    /// The rebuildings that were noted as events, by table, first hash and epoch: one that begins again is no news.
    pub noted: BTreeSet<(TableId, KeyHash, u64)>,
    /// Siblings that are silent, and orders to their supervisors.
    pub restarting: Restarting,
    /// Since when tablets do not vote, and when that is said next.
    pub unvoting_since: Option<Instant>,
    pub complain_at: Instant,
    pub announce_at: Instant,
    pub announced_at: Instant,
    pub rebuilding: Option<Rebuilding>,
    pub stalling: Stalling,
    pub sweeping: Sweeping,
    /// The number of the last question to a sibling.
    pub number: u64,
}

impl Siblings {
    /// When a sibling was heard last, or may have been.
    pub fn may_be_heard(&self, sibling: ServerId) -> Option<Instant> {
        self.heard.get(&sibling).or(self.assumed.get(&sibling)).copied()
    }

    /// A later life of a sibling is announced from elsewhere, and the one before was heard lately. Returns whether that one
    /// runs on.
    pub fn runs_on(&mut self, now: Instant, sibling: ServerId, life: (u64, u64)) -> bool {
        let (claim, since) = self.claims.entry(sibling).or_insert((life, now));
        if *claim != life {
            (*claim, *since) = (life, now);
        }
        let since = *since;
        self.heard.get(&sibling).is_some_and(|heard| since + RUNS_ON_AFTER <= *heard)
    }

    /// Whether a sibling has answered lately.
    pub fn answers(&self, now: Instant, sibling: ServerId) -> bool {
        self.answered.get(&sibling).is_some_and(|at| *at + ANSWERS_WITHIN > now)
    }

    /// A tablet is not this brick's any more, or is another one.
    pub fn forget(&mut self, range: HashRange) {
        if self.rebuilding.as_ref().is_some_and(|rebuilding| meets(rebuilding.range, range)) {
            self.rebuilding = None;
        }
        self.sweeping.forget(range);
    }

    pub fn deadline(&self) -> Option<Instant> {
        let rebuilding = self.rebuilding.as_ref().and_then(Rebuilding::deadline);
        earliest(rebuilding, self.sweeping.deadline())
    }
}
