//! Asks owners where the bytes of a table lie, before its tablets are cut into even parts.
//!
//! Nothing of this is stored, and it decides nothing but where to cut. The request waits until all owners have told, or
//! for a moment (`WEIGH_WAIT`). Then it is carried out like any update, once. A client that asks again meanwhile, as
//! clients do, replaces its earlier request. Where an owner has not told, hashes are taken as evenly filled.
//!
//! Invariants: a request that was answered before is not weighed again; the requests that wait are bounded.
//!
//! Not here: cutting (`division`, `cut`). Rules: docs/protocols/tablets.md, 4. Catalogue: A8, C3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::leases::Leases;
use crate::progress::Progress;
use crate::{division, updates};
use ramhold_base::{ConnId, Instant, Level, Peer, ServerId, Status, TableId};
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::{Division, TableDivide, TabletWeights, TabletsWeighed};
use ramhold_wire::{Header, decode};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// How long to wait for owners that do not answer: about as long as a busy owner takes to answer.
const WEIGH_WAIT: Duration = Duration::from_millis(500);
/// The most requests that wait for one table. Further requests are not answered, and clients repeat them.
const WAITING_COUNT_MAX: usize = 64;

/// Tables whose owners are being asked where the bytes lie, before a cut.
#[derive(Debug, Default)]
pub(crate) struct Weighings(BTreeMap<TableId, Weighing>);

/// One table whose owners are asked.
#[derive(Debug)]
struct Weighing {
    until: Instant,
    /// The answer of each owner, if it has told.
    owners: BTreeMap<ServerId, Option<Vec<TabletStat>>>,
    waiting: Vec<(ConnId, Header, TableDivide)>,
}

impl Weighings {
    pub(crate) fn on_table_divide(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        leases: &mut Leases,
        progress: &mut Progress,
        from: ConnId,
        header: &Header,
        message: TableDivide,
    ) -> Result<(), Status> {
        let is_even = matches!(message.division, Division::Parts { .. });
        let table = desk.state.tables.get(&message.table).filter(|table| !table.dropping);
        let (Some(table), true) = (table, is_even && updates::is_first(desk, header)) else {
            return updates::on_update(desk, leases, progress, from, header, |desk, progress| {
                division::divide_table(desk, progress, &message, &[])
            });
        };
        let weighing = match self.0.entry(message.table) {
            Entry::Occupied(begun) => begun.into_mut(),
            Entry::Vacant(place) => {
                let taken = table.tablets.iter().filter(|t| t.taken).map(|t| t.owner);
                let owners = taken.filter(|owner| desk.state.is_up(*owner)).map(|owner| (owner, None));
                let until = now + WEIGH_WAIT;
                let weighing =
                    place.insert(Weighing { until, owners: owners.collect(), waiting: Vec::new() });
                for server in weighing.owners.keys().copied() {
                    let asked = Asked::Weights { table: message.table, server };
                    // A message of a few bytes always fits.
                    let _ = desk.ask(now, server, asked, &TabletWeights { table: message.table });
                }
                weighing
            }
        };
        let number = |header: &Header| (header.lease, header.sequence);
        let has_room = weighing.waiting.len() < WAITING_COUNT_MAX;
        let before = weighing.waiting.iter_mut().find(|(_, waiting, _)| number(waiting) == number(header));
        match before {
            Some(before) => *before = (from, *header, message),
            None if has_room => weighing.waiting.push((from, *header, message)),
            None => {}
        }
        Ok(())
    }

    pub(crate) fn wake(&self) -> Instant {
        self.0.values().map(|weighing| weighing.until).min().unwrap_or(Instant::FAR)
    }

    pub(crate) fn advance(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        leases: &mut Leases,
        progress: &mut Progress,
    ) {
        let is_over =
            |weighing: &Weighing| weighing.until <= now || weighing.owners.values().all(Option::is_some);
        let over: Vec<TableId> =
            self.0.iter().filter(|(_, weighing)| is_over(weighing)).map(|(table, _)| *table).collect();
        for table in over {
            let Some(Weighing { owners, waiting, .. }) = self.0.remove(&table) else { continue };
            let silent = owners.values().filter(|told| told.is_none()).count();
            if silent > 0 {
                let text =
                    format!("{silent} owners of {table} have not told where it lies: they are cut evenly");
                desk.outbox.report(Level::Info, text);
            }
            let weights: Vec<TabletStat> = owners.into_values().flatten().flatten().collect();
            for (from, header, message) in waiting {
                let divided = updates::on_update(desk, leases, progress, from, &header, |desk, progress| {
                    division::divide_table(desk, progress, &message, &weights)
                });
                if let Err(status) = divided {
                    desk.outbox.reply(Peer::Conn(from), &header, status);
                }
            }
        }
    }

    pub(crate) fn on_weighed(&mut self, table: TableId, server: ServerId, status: Status, body: &[u8]) {
        let told = self.0.get_mut(&table).and_then(|weighing| weighing.owners.get_mut(&server));
        let Some(told) = told else { return };
        // An owner of an older version does not know this question.
        let weighed = match status {
            Status::Ok => decode::<TabletsWeighed>(body).unwrap_or_default(),
            _ => TabletsWeighed::default(),
        };
        *told = Some(weighed.rows.into_iter().filter(|row| row.table == table).collect());
    }
}
