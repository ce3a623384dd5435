//! Telling masters which tablets to take and which tables to forget, until it is done.
//!
//! A tablet that is not taken is wanted from its owner: `TabletTake` is repeated until `TabletTaken`. Until a master
//! has taken the tablet nobody serves it, so it moves when its owner dies. A dropping table has to go from every owner:
//! `TabletDrop` is repeated until each owner has answered, or is dead, fenced, and without a read lease. A server that
//! says that it has taken a tablet of a table that is dropped or gone is told to drop it, too.
//!
//! Protocol: docs/protocols/membership.md (store), consistency rules 6 and 7. Catalogue: A1, B3, G3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::home::least_loaded;
use crate::progress::Progress;
use crate::records::{Key, TabletRecord};
use crate::recoveries::Recoveries;
use crate::retry::Retry;
use crate::updates;
use ramhold_base::{Instant, KeyHash, Level, ServerId, Status, TableId};
use ramhold_wire::decode;
use ramhold_wire::membership::ServerState;
use ramhold_wire::table::{TabletDrop, TabletTake, TabletTaken};

impl Progress {
    pub(crate) fn resume(&mut self, desk: &mut Desk) {
        let tables: Vec<(TableId, bool)> = desk.state.tables.values().map(|t| (t.id, t.dropping)).collect();
        for (id, dropping) in tables {
            if dropping { self.want_drop(desk, id) } else { self.want_tablets(desk, id) }
        }
        let crashed = desk.state.servers.values().filter(|s| s.entry.state == ServerState::Crashed);
        for id in crashed.map(|s| s.entry.id).collect::<Vec<_>>() {
            self.move_untaken_tablets(desk, id);
        }
    }

    /// Every tablet of the table that is not taken has to be taken.
    pub(crate) fn want_tablets(&mut self, desk: &Desk, table: TableId) {
        let Some(record) = desk.state.tables.get(&table) else { return };
        for tablet in record.tablets.iter().filter(|t| !t.taken) {
            self.creating.insert((table, tablet.first), Retry::new(&desk.config));
        }
        self.wake_at = Instant::ZERO;
    }

    pub(crate) fn want_drop(&mut self, desk: &Desk, table: TableId) {
        let Some(record) = desk.state.tables.get(&table) else { return };
        let owners = record.tablets.iter().map(|t| (t.owner, Retry::new(&desk.config)));
        self.dropping.insert(table, owners.collect());
        self.creating.retain(|(t, _), _| *t != table);
        self.wake_at = Instant::ZERO;
    }

    fn want_drop_at(&mut self, desk: &Desk, table: TableId, server: ServerId) {
        let owners = self.dropping.entry(table).or_default();
        owners.insert(server, Retry::new(&desk.config));
        self.wake_at = Instant::ZERO;
    }

    /// Tablets that this dead server was to take go to other masters. If there is no master, they wait.
    pub(crate) fn move_untaken_tablets(&mut self, desk: &mut Desk, dead: ServerId) {
        let mut masters = desk.state.tablets_by_master();
        if masters.is_empty() {
            return;
        }
        let servers = &desk.state.servers;
        for table in desk.state.tables.values_mut().filter(|t| !t.dropping) {
            let home = table.options.zone.as_deref();
            for tablet in table.tablets.iter_mut().filter(|t| t.owner == dead && !t.taken) {
                tablet.owner = least_loaded(&mut masters, servers, home);
                self.creating.insert((table.id, tablet.first), Retry::new(&desk.config));
                desk.outbox.touch(Key::Table(table.id));
            }
        }
        self.wake_at = Instant::ZERO;
        desk.look_at_recoveries();
    }

    pub(crate) fn wake(&self, desk: &Desk) -> Instant {
        if desk.notes.tablets { Instant::ZERO } else { self.wake_at }
    }

    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk, recoveries: &Recoveries) {
        if self.wake(desk) > now {
            return;
        }
        desk.notes.tablets = false;
        self.wake_at = Instant::FAR;
        self.advance_takes(now, desk);
        self.advance_drops(now, desk, recoveries);
        self.advance_divisions(now, desk);
        self.advance_reclassings(now, desk);
        updates::answer_waiting(desk, self);
    }

    fn advance_takes(&mut self, now: Instant, desk: &mut Desk) {
        let mut due = Vec::new();
        for (key, retry) in &mut self.creating {
            if retry.take(now, &desk.config) {
                due.push(*key);
            }
            self.wake_at = self.wake_at.min(retry.next());
        }
        let mut ownerless = Vec::new();
        for (table, first) in due {
            let Some((tablet, message)) = take_message(desk, table, first) else { continue };
            if desk.state.is_up(tablet.owner) {
                let asked = Asked::Take { table, first, last: tablet.last, server: tablet.owner };
                // A message of a few dozen bytes always fits.
                let _ = desk.ask(now, tablet.owner, asked, &message);
            } else {
                ownerless.push(tablet.owner);
            }
        }
        ownerless.dedup();
        for dead in ownerless {
            self.move_untaken_tablets(desk, dead);
        }
    }

    pub(crate) fn on_taken(
        &mut self,
        desk: &mut Desk,
        table: TableId,
        range: (KeyHash, KeyHash),
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        if status != Status::Ok {
            let text = format!("{server} does not take a tablet of {table} yet: {status}");
            desk.outbox.report(Level::Debug, text);
            return;
        }
        let Ok(taken) = decode::<TabletTaken>(body) else { return };
        let Some(record) = desk.state.tables.get_mut(&table).filter(|t| !t.dropping) else {
            // The server took the tablet after it was told to drop the table, or the drop overtook the answer.
            return self.want_drop_at(desk, table, server);
        };
        if !desk.state.servers.get(&server).is_some_and(|s| {
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
        self.creating.remove(&(table, range.0));
        desk.outbox.touch(Key::Table(table));
        if record.tablets.iter().all(|t| t.taken) {
            let text = format!("table {table} '{}' is served", record.name.escape_debug());
            desk.outbox.report(Level::Info, text);
            self.wake_at = Instant::ZERO;
        }
    }

    fn advance_drops(&mut self, now: Instant, desk: &mut Desk, recoveries: &Recoveries) {
        let tables: Vec<TableId> = self.dropping.keys().copied().collect();
        for table in tables {
            let Some(owners) = self.dropping.get_mut(&table) else { continue };
            let before = owners.len();
            owners.retain(|owner, _| !is_silenced(now, desk, recoveries, *owner, &mut self.wake_at));
            if owners.len() != before {
                desk.look_at_recoveries();
            }
            if owners.is_empty() {
                self.dropping.remove(&table);
                end_drop(desk, table);
                continue;
            }
            for (owner, retry) in owners {
                if desk.state.is_up(*owner) && retry.take(now, &desk.config) {
                    let asked = Asked::Drop { table, server: *owner };
                    let _ = desk.ask(now, *owner, asked, &TabletDrop { table });
                }
                if desk.state.is_up(*owner) {
                    self.wake_at = self.wake_at.min(retry.next());
                }
            }
        }
    }

    pub(crate) fn on_dropped(&mut self, table: TableId, server: ServerId, status: Status) {
        if !matches!(status, Status::Ok | Status::UnknownTable) {
            return;
        }
        if let Some(owners) = self.dropping.get_mut(&table) {
            owners.remove(&server);
            self.wake_at = Instant::ZERO;
        }
    }
}

/// Whether this server can do and say nothing any more: it has left the list, or every backup that is Up has fenced it
/// and its read lease is over. If the lease has still to end, `wake_at` is brought forward to that.
fn is_silenced(
    now: Instant,
    desk: &Desk,
    recoveries: &Recoveries,
    server: ServerId,
    wake_at: &mut Instant,
) -> bool {
    match desk.state.servers.get(&server).map(|s| s.entry.state) {
        None => true,
        Some(ServerState::Up) => false,
        Some(ServerState::Crashed) => {
            let recovery = desk.state.recovery_of(server).and_then(|r| recoveries.open.get(&r.id));
            let Some(recovery) = recovery else { return true };
            if now < recovery.lease_until {
                *wake_at = (*wake_at).min(recovery.lease_until);
            }
            recovery.inquiry.is_fenced() && recovery.is_lease_over(now)
        }
    }
}

fn take_message(desk: &Desk, table: TableId, first: KeyHash) -> Option<(TabletRecord, TabletTake)> {
    let record = desk.state.tables.get(&table)?;
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

fn end_drop(desk: &mut Desk, table: TableId) {
    if let Some(record) = desk.state.tables.remove(&table) {
        let text = format!("table {table} '{}' is gone", record.name.escape_debug());
        desk.outbox.report(Level::Info, text);
        desk.outbox.touch(Key::Table(table));
    }
    desk.look_at_recoveries();
}
