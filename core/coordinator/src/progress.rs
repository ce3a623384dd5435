//! Work on tablets that is under way; nothing of it is needed after a restart.
//!
//! Not here: doing the work (`tablets`, `division`, `reclassing`), what clients are answered (`updates`).

use crate::records::UpdateResult;
use crate::retry::Retry;
use ramhold_base::{ConnId, DivisionId, Instant, KeyHash, ServerId, TableId};
use ramhold_wire::Header;
use std::collections::{BTreeMap, BTreeSet};

/// An owner that has not answered, and the number of the division that it has to answer for.
#[derive(Debug)]
pub(crate) struct Telling {
    pub retry: Retry,
    pub division: DivisionId,
}

/// Owners that have not answered.
pub(crate) type Tellings = BTreeMap<(TableId, ServerId), Telling>;

/// Owners that have tablets to move.
pub(crate) type Movers = BTreeMap<(TableId, ServerId), Retry>;

/// The most clients that wait for one table. Further clients find their request unanswered and repeat it.
const WAITING_COUNT_MAX: usize = 64;

/// A client that waits, its request, and the result of the request.
type Waiting = (ConnId, Header, UpdateResult);

/// Work on tablets that is under way; nothing of it is needed after a restart.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Tablets that are not taken, by table and first hash.
    pub creating: BTreeMap<(TableId, KeyHash), Retry>,
    /// For each dropping table the owners that have not answered; also for tables that are gone.
    pub dropping: BTreeMap<TableId, BTreeMap<ServerId, Retry>>,
    /// Owners that have not heard of a table's division.
    pub telling: Tellings,
    /// Owners that have tablets to move to other streams.
    pub movers: Movers,
    /// Quorum tables that too few bricks have taken.
    pub untaken: BTreeSet<TableId>,
    /// Dropping quorum tables that a brick may still have which was heard lately.
    pub undropped: BTreeSet<TableId>,
    waiting: BTreeMap<TableId, Vec<Waiting>>,
    pub wake_at: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            creating: BTreeMap::new(),
            dropping: BTreeMap::new(),
            telling: Tellings::new(),
            movers: Movers::new(),
            untaken: BTreeSet::new(),
            undropped: BTreeSet::new(),
            waiting: BTreeMap::new(),
            wake_at: Instant::FAR,
        }
    }
}

impl Progress {
    /// This client waits for the table to come as far as the result of its update says. A repetition replaces the
    /// earlier request on the same connection.
    pub fn wait_for(&mut self, table: TableId, conn: ConnId, header: &Header, result: UpdateResult) {
        let waiting = self.waiting.entry(table).or_default();
        waiting.retain(|(c, h, _)| (*c, h.lease, h.sequence) != (conn, header.lease, header.sequence));
        if waiting.len() < WAITING_COUNT_MAX {
            waiting.push((conn, *header, result));
        }
    }

    pub fn waited_for(&self) -> impl Iterator<Item = TableId> {
        self.waiting.keys().copied()
    }

    pub fn take_waiting(&mut self, table: TableId) -> Vec<Waiting> {
        self.waiting.remove(&table).unwrap_or_default()
    }

    /// A client has gone.
    pub fn forget(&mut self, conn: ConnId) {
        self.waiting.values_mut().for_each(|w| w.retain(|(c, ..)| *c != conn));
        self.waiting.retain(|_, w| !w.is_empty());
    }

    /// Whether a drop waits for this server, dead or alive.
    pub fn is_dropping_at(&self, server: ServerId) -> bool {
        self.dropping.values().any(|owners| owners.contains_key(&server))
    }

    pub fn creating_count(&self) -> usize {
        self.creating.len()
    }
}
