//! Questions and pages that are under way between a brick and its siblings.
//!
//! Not here: what is done with it (`telling`), what counts (`rebuild`). Catalogue: I6.

use crate::pages::{Page, PageAsk};
use crate::rebuild::{Call, Rebuilding};
use crate::{Asker, Refusal};
use ramhold_base::Instant;

/// A page that is told, and to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub asker: Asker,
    pub page: Result<Page, Refusal>,
}

/// Questions and pages between this brick and its siblings.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// Questions that wait until the asker's life is on the device.
    pub waiting: Vec<(PageAsk, Asker)>,
    pub told: Vec<Told>,
    pub calls: Vec<Call>,
    pub rebuilding: Option<Rebuilding>,
    /// The number of the last question to a sibling.
    pub number: u64,
}

impl Siblings {
    pub fn deadline(&self) -> Option<Instant> {
        self.rebuilding.as_ref().and_then(Rebuilding::deadline)
    }
}
