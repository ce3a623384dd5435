//! Decides which keys may take effect together: keys of one slot of one database.
//!
//! A commit needs one stream of one server's log, and all keys of a slot share one. Keys of different slots
//! may be neighbours by accident, above all in a cluster of one server. Programs that rely on such an
//! accident fail when a tablet moves. So the slot alone decides, unless the operator has chosen
//! `CrossSlot::Allow`.
//!
//! Not here: tables that are not placed by slots, and the servers' own check (`Status::NotTogether`).

use crate::transaction::Place;
use crate::{Command, Fault, Transaction};
use ramhold_base::hash::slot_of;

/// The treatment of a command or transaction whose keys have different slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CrossSlot {
    /// The command or transaction is refused.
    #[default]
    Strict,
    /// It takes effect if one server has all its keys, and is refused otherwise.
    Allow,
}

impl CrossSlot {
    /// Refuses a command whose keys have different slots.
    pub(super) fn check(self, row: &Command, args: &[&[u8]]) -> Result<(), Fault> {
        self.check_slots(row.keys.of(args).map(slot_of))
    }

    /// Refuses keys that have different slots.
    pub(super) fn check_slots(self, mut slots: impl Iterator<Item = u16>) -> Result<(), Fault> {
        if self == CrossSlot::Allow {
            return Ok(());
        }
        let first = slots.next();
        if slots.all(|slot| Some(slot) == first) { Ok(()) } else { Err(Fault::CROSS_SLOT) }
    }

    /// Refuses a transaction over several databases: their tables are placed independently of each other.
    pub(super) fn check_databases(self, keys: &Transaction) -> Result<(), Fault> {
        if self == CrossSlot::Allow {
            return Ok(());
        }
        // The places are in the order of their databases.
        let database = |place: Option<&Place>| place.map(|(db, _)| *db);
        let mut places = keys.entries().map(|(place, ..)| place);
        let first = database(places.next());
        match database(places.last()) {
            last @ Some(_) if last != first => Err(Fault::CROSS_DATABASE),
            _ => Ok(()),
        }
    }
}
