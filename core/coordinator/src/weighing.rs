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
use crate::machine::Coordinator;
use ramhold_base::{ConnId, Instant, Level, Peer, ServerId, Status, TableId};
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::{Division, TableDivide, TabletWeights, TabletsWeighed};
use ramhold_wire::{Header, decode};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long to wait for owners that do not answer: about as long as a busy owner takes to answer.
const WEIGH_WAIT: Duration = Duration::from_millis(500);
/// The most requests that wait for one table. Further requests are not answered, and clients repeat them.
const WAITING_COUNT_MAX: usize = 64;

/// One table whose owners are asked.
#[derive(Debug)]
pub(crate) struct Weighing {
    until: Instant,
    /// The answer of each owner, if it has told.
    owners: BTreeMap<ServerId, Option<Vec<TabletStat>>>,
    waiting: Vec<(ConnId, Header, TableDivide)>,
}

impl Coordinator {
    pub(crate) fn on_table_divide(
        &mut self,
        now: Instant,
        from: ConnId,
        header: &Header,
        message: TableDivide,
    ) -> Result<(), Status> {
        let is_even = matches!(message.division, Division::Parts { .. });
        let table = self.desk.state.tables.get(&message.table).filter(|table| !table.dropping);
        let (Some(table), true) = (table, is_even && self.is_first(header)) else {
            return self.on_update(from, header, |coordinator| coordinator.divide_table(&message, &[]));
        };
        if !self.weighings.contains_key(&message.table) {
            let owners: Vec<ServerId> = table.tablets.iter().filter(|t| t.taken).map(|t| t.owner).collect();
            let owners =
                owners.into_iter().filter(|owner| self.desk.state.is_up(*owner)).map(|owner| (owner, None));
            let weighing =
                Weighing { until: now + WEIGH_WAIT, owners: owners.collect(), waiting: Vec::new() };
            for server in weighing.owners.keys().copied() {
                let asked = Asked::Weights { table: message.table, server };
                // A message of a few bytes always fits.
                let _ = self.desk.ask(now, server, asked, &TabletWeights { table: message.table });
            }
            self.weighings.insert(message.table, weighing);
        }
        let weighing = self.weighings.get_mut(&message.table).expect("begun just now or before");
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

    /// Whether nothing is known of an update, as far as this can be told here; the update itself looks again.
    fn is_first(&self, header: &Header) -> bool {
        let lease = self.desk.state.leases.get(&header.lease);
        lease.is_some_and(|lease| header.sequence >= lease.floor && lease.find(header.sequence).is_err())
    }

    pub(crate) fn weighing_wake(&self) -> Instant {
        self.weighings.values().map(|weighing| weighing.until).min().unwrap_or(Instant::FAR)
    }

    pub(crate) fn advance_weighings(&mut self, now: Instant) {
        let is_over =
            |weighing: &Weighing| weighing.until <= now || weighing.owners.values().all(Option::is_some);
        let over: Vec<TableId> = self
            .weighings
            .iter()
            .filter(|(_, weighing)| is_over(weighing))
            .map(|(table, _)| *table)
            .collect();
        for table in over {
            let Some(Weighing { owners, waiting, .. }) = self.weighings.remove(&table) else { continue };
            let silent = owners.values().filter(|told| told.is_none()).count();
            if silent > 0 {
                let text =
                    format!("{silent} owners of {table} have not told where it lies: they are cut evenly");
                self.desk.outbox.report(Level::Info, text);
            }
            let weights: Vec<TabletStat> = owners.into_values().flatten().flatten().collect();
            for (from, header, message) in waiting {
                let divided =
                    self.on_update(from, &header, |coordinator| coordinator.divide_table(&message, &weights));
                if let Err(status) = divided {
                    self.desk.outbox.reply(Peer::Conn(from), &header, status);
                }
            }
        }
    }

    pub(crate) fn on_weighed(&mut self, table: TableId, server: ServerId, status: Status, body: &[u8]) {
        let told = self.weighings.get_mut(&table).and_then(|weighing| weighing.owners.get_mut(&server));
        let Some(told) = told else { return };
        // An owner of an older version does not know this question.
        let weighed = match status {
            Status::Ok => decode::<TabletsWeighed>(body).unwrap_or_default(),
            _ => TabletsWeighed::default(),
        };
        *told = Some(weighed.rows.into_iter().filter(|row| row.table == table).collect());
    }
}
