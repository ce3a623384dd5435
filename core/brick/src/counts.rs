//! The number of questions that sessions have asked this brick, by what was wanted and how it ended.
//!
//! Not here: how long they took, and how many wait (`statistics`). Catalogue: J5.

use ramhold_quorum::{Class, Said};
use ramhold_wire::brick_status::AsksStatus;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    classes: [AsksStatus; Class::ALL.len()],
    /// Repairs that stored something.
    pub repairs: u64,
    /// While the log was being loaded: writes and other questions that had an answer, and those about keys that were not
    /// loaded.
    pub early_writes: u64,
    pub early: u64,
    pub unloaded: u64,
    /// Bytes that other bricks have told to rebuild tablets.
    pub rebuild_read: u64,
}

impl Counts {
    pub fn of(&self, class: Class) -> AsksStatus {
        self.classes[class.index()]
    }

    pub fn asked(&mut self, class: Class) {
        self.classes[class.index()].asked += 1;
    }

    pub fn refused(&mut self, class: Class) {
        self.classes[class.index()].refused += 1;
    }

    pub fn said<V>(&mut self, class: Class, said: &Said<V>) {
        let of_class = &mut self.classes[class.index()];
        match said {
            Said::Value(..) | Said::Stamp(_) | Said::Applied => of_class.answered += 1,
            Said::Rejected(_) => of_class.rejected += 1,
            Said::Unknown(_) => of_class.unknown += 1,
            Said::WrongOwner => of_class.refused += 1,
        }
    }
}
