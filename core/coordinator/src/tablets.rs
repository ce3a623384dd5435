//! Telling masters which tablets to take and which tables to forget, until it is done.
//!
//! A tablet that is not taken is wanted from its owner: `TabletTake` is repeated until `TabletTaken`. Until a master
//! has taken the tablet nobody serves it, so it moves when its owner dies. A dropping table has to go from every owner:
//! `TabletDrop` is repeated until each owner has answered, or is dead, fenced, and without a read lease. A server that
//! says that it has taken a tablet of a table that is dropped or gone is told to drop it, too.
//!
//! Protocol: docs/protocols/membership.md (store), consistency rules 6 and 7. Catalogue: A1, B3, G3.

use crate::asked::Asked;
use crate::division::Tellings;
use crate::drops::Drops;
use crate::machine::Coordinator;
use crate::migration::Movers;
use crate::records::{Key, TabletRecord, UpdateResult};
use crate::retry::Retry;
use crate::tables::least_loaded;
use ramhold_base::{ConnId, Instant, KeyHash, Level, ServerId, Status, TableId};
use ramhold_wire::membership::ServerState;
use ramhold_wire::table::{TabletDrop, TabletTake, TabletTaken};
use ramhold_wire::{Header, decode};
use std::collections::BTreeMap;

/// The most clients that wait for one table. Further clients find their request unanswered and repeat it.
const WAITING_COUNT_MAX: usize = 64;

/// A client that waits, its request, and the result of the request.
type Waiting = (ConnId, Header, UpdateResult);

/// Work on tablets that is under way; nothing of it is needed after a restart.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Tablets that are not taken, by table and first hash.
    creating: BTreeMap<(TableId, KeyHash), Retry>,
    /// For each dropping table the owners that have not answered; also for tables that are gone.
    pub dropping: Drops,
    /// Owners that have not heard of a table's division.
    pub telling: Tellings,
    /// Owners that have tablets to move to other streams.
    pub movers: Movers,
    waiting: BTreeMap<TableId, Vec<Waiting>>,
    pub wake: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            creating: BTreeMap::new(),
            dropping: Drops::default(),
            telling: Tellings::new(),
            movers: Movers::new(),
            waiting: BTreeMap::new(),
            wake: Instant::FAR,
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

    pub fn creating_count(&self) -> usize {
        self.creating.len()
    }
}

impl Coordinator {
    pub(crate) fn resume_tables(&mut self) {
        let tables: Vec<(TableId, bool)> =
            self.desk.state.tables.values().map(|t| (t.id, t.dropping)).collect();
        for (id, dropping) in tables {
            if dropping { self.want_drop(id) } else { self.want_tablets(id) }
        }
        let crashed = self.desk.state.servers.values().filter(|s| s.entry.state == ServerState::Crashed);
        for id in crashed.map(|s| s.entry.id).collect::<Vec<_>>() {
            self.move_untaken_tablets(id);
        }
    }

    /// Every tablet of the table that is not taken has to be taken.
    pub(crate) fn want_tablets(&mut self, table: TableId) {
        let Some(record) = self.desk.state.tables.get(&table) else { return };
        for tablet in record.tablets.iter().filter(|t| !t.taken) {
            self.progress.creating.insert((table, tablet.first), Retry::new(&self.desk.config));
        }
        self.progress.wake = Instant::ZERO;
    }

    pub(crate) fn want_drop(&mut self, table: TableId) {
        let Some(record) = self.desk.state.tables.get(&table) else { return };
        let owners = record.tablets.iter().map(|t| (t.owner, Retry::new(&self.desk.config)));
        self.progress.dropping.0.insert(table, owners.collect());
        self.progress.creating.retain(|(t, _), _| *t != table);
        self.progress.wake = Instant::ZERO;
    }

    fn want_drop_at(&mut self, table: TableId, server: ServerId) {
        let owners = self.progress.dropping.0.entry(table).or_default();
        owners.insert(server, Retry::new(&self.desk.config));
        self.progress.wake = Instant::ZERO;
    }

    /// Tablets that this dead server was to take go to other masters. If there is no master, they wait.
    pub(crate) fn move_untaken_tablets(&mut self, dead: ServerId) {
        let mut masters = self.desk.state.tablets_by_master();
        if masters.is_empty() {
            return;
        }
        for table in self.desk.state.tables.values_mut().filter(|t| !t.dropping) {
            for tablet in table.tablets.iter_mut().filter(|t| t.owner == dead && !t.taken) {
                tablet.owner = least_loaded(&mut masters);
                self.progress.creating.insert((table.id, tablet.first), Retry::new(&self.desk.config));
                self.desk.outbox.touch(Key::Table(table.id));
            }
        }
        self.progress.wake = Instant::ZERO;
        self.desk.look_at_recoveries();
    }

    pub(crate) fn tables_wake(&self) -> Instant {
        if self.desk.notes.tablets { Instant::ZERO } else { self.progress.wake }
    }

    pub(crate) fn advance_tablets(&mut self, now: Instant) {
        if self.tables_wake() > now {
            return;
        }
        self.desk.notes.tablets = false;
        self.progress.wake = Instant::FAR;
        self.advance_takes(now);
        self.advance_drops(now);
        self.advance_divisions(now);
        self.advance_migrations(now);
        self.answer_waiting();
    }

    fn advance_takes(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (key, retry) in &mut self.progress.creating {
            if retry.take(now, &self.desk.config) {
                due.push(*key);
            }
            self.progress.wake = self.progress.wake.min(retry.next());
        }
        let mut ownerless = Vec::new();
        for (table, first) in due {
            let Some((tablet, message)) = self.take_message(table, first) else { continue };
            if self.desk.state.is_up(tablet.owner) {
                let asked = Asked::Take { table, first, last: tablet.last, server: tablet.owner };
                // A message of a few dozen bytes always fits.
                let _ = self.desk.ask(now, tablet.owner, asked, &message);
            } else {
                ownerless.push(tablet.owner);
            }
        }
        ownerless.dedup();
        for dead in ownerless {
            self.move_untaken_tablets(dead);
        }
    }

    fn take_message(&self, table: TableId, first: KeyHash) -> Option<(TabletRecord, TabletTake)> {
        let record = self.desk.state.tables.get(&table)?;
        let tablet = record.tablets.iter().find(|t| t.first == first && !t.taken)?;
        let message = TabletTake {
            table,
            seed: record.seed,
            first,
            last: tablet.last,
            durability: record.options.durability,
            replicas: record.options.replicas,
            version_floor: tablet.version_floor,
            slots: record.options.slots,
        };
        Some((tablet.clone(), message))
    }

    pub(crate) fn on_taken(
        &mut self,
        table: TableId,
        range: (KeyHash, KeyHash),
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        if status != Status::Ok {
            let text = format!("{server} does not take a tablet of {table} yet: {status}");
            self.desk.outbox.report(Level::Debug, text);
            return;
        }
        let Ok(taken) = decode::<TabletTaken>(body) else { return };
        let Some(record) = self.desk.state.tables.get_mut(&table).filter(|t| !t.dropping) else {
            // The server took the tablet after it was told to drop the table, or the drop overtook the answer.
            return self.want_drop_at(table, server);
        };
        if !self.desk.state.servers.get(&server).is_some_and(|s| {
            s.entry.state == ServerState::Up
                && s.has_stream(taken.shard, taken.stream, record.options.durability)
        }) {
            // A recovery would not miss the content of an unregistered stream.
            return;
        }
        let tablet =
            record.tablets.iter_mut().find(|t| (t.first, t.last) == range && t.owner == server && !t.taken);
        let Some(tablet) = tablet else { return };
        tablet.taken = true;
        (tablet.shard, tablet.stream, tablet.first_segment) =
            (taken.shard, taken.stream, taken.first_segment);
        self.progress.creating.remove(&(table, range.0));
        self.desk.outbox.touch(Key::Table(table));
        if record.tablets.iter().all(|t| t.taken) {
            let text = format!("table {table} '{}' is served", record.name.escape_debug());
            self.desk.outbox.report(Level::Info, text);
            self.progress.wake = Instant::ZERO;
        }
    }

    fn advance_drops(&mut self, now: Instant) {
        let tables: Vec<TableId> = self.progress.dropping.0.keys().copied().collect();
        for table in tables {
            let Some(mut owners) = self.progress.dropping.0.remove(&table) else { continue };
            let before = owners.len();
            owners.retain(|owner, _| !self.is_silenced(now, *owner));
            if owners.len() != before {
                self.desk.look_at_recoveries();
            }
            if owners.is_empty() {
                self.end_drop(table);
                continue;
            }
            for (owner, retry) in &mut owners {
                if self.desk.state.is_up(*owner) && retry.take(now, &self.desk.config) {
                    let asked = Asked::Drop { table, server: *owner };
                    let _ = self.desk.ask(now, *owner, asked, &TabletDrop { table });
                }
                if self.desk.state.is_up(*owner) {
                    self.progress.wake = self.progress.wake.min(retry.next());
                }
            }
            self.progress.dropping.0.insert(table, owners);
        }
    }

    /// Whether this server can do and say nothing any more: it has left the list, or every backup that is Up has fenced
    /// it and its read lease is over.
    fn is_silenced(&mut self, now: Instant, server: ServerId) -> bool {
        match self.desk.state.servers.get(&server).map(|s| s.entry.state) {
            None => true,
            Some(ServerState::Up) => false,
            Some(ServerState::Crashed) => {
                let recovery =
                    self.desk.state.recovery_of(server).and_then(|r| self.recoveries.open.get(&r.id));
                let Some(recovery) = recovery else { return true };
                if now < recovery.lease_until {
                    self.progress.wake = self.progress.wake.min(recovery.lease_until);
                }
                recovery.inquiry.is_fenced() && recovery.is_lease_over(now)
            }
        }
    }

    pub(crate) fn on_dropped(&mut self, table: TableId, server: ServerId, status: Status) {
        if !matches!(status, Status::Ok | Status::UnknownTable) {
            return;
        }
        if let Some(owners) = self.progress.dropping.0.get_mut(&table) {
            owners.remove(&server);
            self.progress.wake = Instant::ZERO;
        }
    }

    fn end_drop(&mut self, table: TableId) {
        if let Some(record) = self.desk.state.tables.remove(&table) {
            let text = format!("table {table} '{}' is gone", record.name.escape_debug());
            self.desk.outbox.report(Level::Info, text);
            self.desk.outbox.touch(Key::Table(table));
        }
        self.desk.look_at_recoveries();
    }
}
