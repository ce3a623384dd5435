//! Learns which tablets the coordinator has stored as this shard's.
//!
//! A master answers that it has taken a tablet, and serves the tablet from then on. The coordinator sends clients to it
//! after storing that answer. If the master dies before that, the tablet goes to another master, empty, and no client
//! has missed anything.
//!
//! But two kinds of requests reach a tablet although the coordinator has not sent them there: requests of this
//! process's own Redis clients, and commits, because the coordinator is asked for the first key only. Such requests
//! wait until the coordinator confirms that it has stored the tablet. The master asks for that when a request needs it.
//! It also asks soon after a tablet was taken, because the coordinator may be away when a request needs the answer.
//!
//! Invariant: a tablet that the coordinator has not stored as this shard's is changed only by clients that the
//! coordinator has sent here.
//!
//! Catalogue: B3, J1.

use crate::calls::Context;
use crate::tablets::TabletState::Serving;
use crate::tablets::{Tablet, Tablets};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Peer, ShardId, Status, TableId};
use ramhold_log::HashRange;
use ramhold_wire::table::{TableDescribe, TableDescription, TabletState};
use ramhold_wire::{Calls, Step, View, decode, request};
use std::collections::BTreeSet;
use std::time::Duration;

const ASK_TIMEOUT: Duration = Duration::from_millis(200);
/// Time within which the coordinator has mostly stored the owner of a tablet that was taken.
const STORED_WITHIN: Duration = Duration::from_millis(200);
/// The pause from one look to the next, doubled each time.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The most tables that one look asks about. Others wait for the next look.
const LOOK_COUNT_MAX: usize = 64;

/// The questions to the coordinator about tablets that are not confirmed.
#[derive(Default)]
pub(crate) struct Confirming {
    /// The table whose unconfirmed tablet a request of this process has just met.
    pub wanted: Option<TableId>,
    /// Questions that are not answered yet.
    asked: BTreeSet<TableId>,
    /// When to ask about tablets that are served and not confirmed. `None`: there are none.
    look_at: Option<Instant>,
    look_pause: Duration,
    /// The table that was asked about last. Tables have their turns in order.
    last: TableId,
}

impl Confirming {
    /// Notes that a tablet is served that was taken just now.
    pub fn serves_another(&mut self, now: Instant) {
        if self.look_at.is_none() {
            self.look_at = Some(now + STORED_WITHIN);
            self.look_pause = LOOK_PAUSE_MIN;
        }
    }

    /// Whether some tablet may be served and not confirmed.
    pub fn is_open(&self) -> bool {
        self.look_at.is_some()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    pub fn not_answered(&mut self, table: TableId) {
        self.asked.remove(&table);
    }

    /// Asks about unconfirmed tablets before any request needs them.
    pub fn ask_when_due(&mut self, step: &mut Step<'_>, tablets: &Tablets, calls: &mut Calls<Context>) {
        if self.look_at.is_none_or(|at| at > step.now) {
            return;
        }
        let is_open = |t: &&Tablet| t.state == Serving && !t.is_confirmed;
        let tables: BTreeSet<TableId> = tablets.all().filter(is_open).map(|t| t.range.table).collect();
        let pause = self.look_pause;
        self.look_at = (!tables.is_empty()).then_some(step.now + pause);
        self.look_pause = (2 * pause).min(LOOK_PAUSE_MAX);
        let last = self.last;
        let in_turn =
            tables.iter().filter(|table| **table > last).chain(tables.iter().filter(|table| **table <= last));
        for table in in_turn.take(LOOK_COUNT_MAX) {
            self.last = *table;
            self.ask(step, *table, calls);
        }
    }

    /// Asks the coordinator which tablets of a table it has stored as this shard's. One question per table is under way
    /// at a time.
    pub fn ask(&mut self, step: &mut Step<'_>, table: TableId, calls: &mut Calls<Context>) {
        if self.asked.insert(table) {
            let rpc =
                calls.open(step.view.coordinator, step.now, step.now + ASK_TIMEOUT, Context::Confirm(table));
            let message = TableDescribe { name: String::new(), table };
            request(
                step.effects,
                Peer::Addr(step.view.coordinator),
                &step.view.to_coordinator(),
                rpc,
                &message,
            );
        }
    }

    pub fn on_described(
        &mut self,
        table: TableId,
        (status, body): (Status, &[u8]),
        view: &View,
        shard: ShardId,
        tablets: &mut Tablets,
    ) {
        self.not_answered(table);
        let (Status::Ok, Ok(description)) = (status, decode::<TableDescription>(body)) else { return };
        let stored = description
            .tablets
            .iter()
            .filter(|t| t.owner == view.me && t.shard == shard && t.state == TabletState::Serving);
        for told in stored {
            let range = HashRange { table, first: told.first, last: told.last };
            let taken = (told.stream, told.first_segment);
            // A tablet that was dropped and taken again since is another tablet.
            let ours = tablets.exact_mut(range).filter(|t| (t.stream, t.first_segment) == taken);
            if let Some(tablet) = ours {
                tablet.is_confirmed = true;
            }
        }
    }
}

pub(crate) fn is_confirmed(tablet: &Tablet) -> bool {
    tablet.is_confirmed || planted(Defect::UnconfirmedServed)
}
