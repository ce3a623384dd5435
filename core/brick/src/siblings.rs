//! Questions and pages that are under way between a brick and its siblings.
//!
//! Not here: what is done with it (`telling`, `announcing`), what counts (`rebuild`). Catalogue: I6.

use crate::question::Asker;
use crate::rebuild::Rebuilding;
use ramhold_base::{Instant, ServerId};
use ramhold_wire::bricks::TabletPage;
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
    /// When each sibling's newest life was last announced.
    pub heard: BTreeMap<ServerId, Instant>,
    pub announce_at: Instant,
    pub rebuilding: Option<Rebuilding>,
    /// The number of the last question to a sibling.
    pub number: u64,
}

impl Siblings {
    pub fn deadline(&self) -> Option<Instant> {
        self.rebuilding.as_ref().and_then(Rebuilding::deadline)
    }
}
