//! Dropping tables, and the owners that have not answered that they serve them no more.
//!
//! Not here: telling the owners (`tablets`).

use crate::retry::Retry;
use ramhold_base::{ServerId, TableId};
use std::collections::BTreeMap;

/// For each dropping table the owners that have not answered; also for tables that are gone.
#[derive(Debug, Default)]
pub(crate) struct Drops(pub BTreeMap<TableId, BTreeMap<ServerId, Retry>>);

impl Drops {
    /// Whether a drop waits for this server, dead or alive.
    pub fn wait_for(&self, server: ServerId) -> bool {
        self.0.values().any(|owners| owners.contains_key(&server))
    }
}
