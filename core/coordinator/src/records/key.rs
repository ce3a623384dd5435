//! The names of records: their paths in the store, and the marks of their commits.
//!
//! Invariant: a kind has a folder of its own, and the order of keys is the order of ids.
//!
//! Format: docs/formats/store.md. Catalogue: G1.

use ramhold_base::{LeaseId, Mark, RecoveryId, ServerId, TableId};
use std::fmt;

/// The name of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Meta,
    Server(ServerId),
    Table(TableId),
    Recovery(RecoveryId),
    Loss(u64),
    Lease(LeaseId),
    /// A server that is gone.
    Gone(ServerId),
    Brick(ServerId),
    QuorumTable(TableId),
    Account(u64),
}

impl Key {
    /// The marks of commits of records of this kind.
    pub fn marks(self) -> CommitMarks {
        let (commits, committed) = match self {
            Key::Meta => (Mark::CoordinatorCommitsMeta, Mark::CoordinatorCommittedMeta),
            Key::Server(_) => (Mark::CoordinatorCommitsServer, Mark::CoordinatorCommittedServer),
            Key::Table(_) => (Mark::CoordinatorCommitsTable, Mark::CoordinatorCommittedTable),
            Key::Recovery(_) => (Mark::CoordinatorCommitsRecovery, Mark::CoordinatorCommittedRecovery),
            Key::Loss(_) => (Mark::CoordinatorCommitsLoss, Mark::CoordinatorCommittedLoss),
            Key::Lease(_) => (Mark::CoordinatorCommitsLease, Mark::CoordinatorCommittedLease),
            Key::Gone(_) => (Mark::CoordinatorCommitsGone, Mark::CoordinatorCommittedGone),
            Key::Brick(_) => (Mark::CoordinatorCommitsBrick, Mark::CoordinatorCommittedBrick),
            Key::QuorumTable(_) => {
                (Mark::CoordinatorCommitsQuorumTable, Mark::CoordinatorCommittedQuorumTable)
            }
            Key::Account(_) => (Mark::CoordinatorCommitsAccount, Mark::CoordinatorCommittedAccount),
        };
        CommitMarks { commits, committed }
    }
}

/// The marks before and after the commit of one kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitMarks {
    pub commits: Mark,
    pub committed: Mark,
}

impl fmt::Display for Key {
    /// The path in the store. Numbers have a fixed width, so that the order of keys is the order of ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Meta => write!(f, "meta"),
            Key::Server(id) => write!(f, "server/{:020}", id.raw()),
            Key::Table(id) => write!(f, "table/{:020}", id.raw()),
            Key::Recovery(id) => write!(f, "recovery/{:020}", id.raw()),
            Key::Loss(id) => write!(f, "loss/{id:020}"),
            Key::Lease(id) => write!(f, "lease/{:020}", id.raw()),
            Key::Gone(id) => write!(f, "gone/{:020}", id.raw()),
            Key::Brick(id) => write!(f, "brick/{:020}", id.raw()),
            Key::QuorumTable(id) => write!(f, "quorum/{:020}", id.raw()),
            Key::Account(id) => write!(f, "account/{id:020}"),
        }
    }
}
