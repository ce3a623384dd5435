//! Questions and pages that are under way between a brick and its siblings.
//!
//! Not here: what is done with it (`telling`, `announcing`), what counts (`rebuild`). Catalogue: I6.

use crate::question::Asker;
use crate::rebuild::Rebuilding;
use crate::sweep::Sweeping;
use ramhold_base::time::earliest;
use ramhold_base::{Instant, ServerId};
use ramhold_replication::FlushWish;
use ramhold_wire::bricks::{TabletPage, TabletPageTold};
use std::collections::BTreeMap;

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
    pub announce_at: Instant,
    pub rebuilding: Option<Rebuilding>,
    pub sweeping: Sweeping,
    /// The number of the last question to a sibling.
    pub number: u64,
}

impl Siblings {
    pub fn deadline(&self) -> Option<Instant> {
        let rebuilding = self.rebuilding.as_ref().and_then(Rebuilding::deadline);
        earliest(rebuilding, self.sweeping.deadline())
    }
}
