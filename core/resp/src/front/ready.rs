//! Keeps the front able to serve without the coordinator, also commands of which none was sent through it yet.
//!
//! The coordinator is asked for the table of database 0 and for a lease before a command needs them, and the masters are
//! told of the lease before a write comes (`LeaseMeet`); this process's own one too, since what the direct way refuses goes
//! through the session. So when the coordinator is away, a server that was never asked anything serves as well as one that
//! is in use. Whatever is missing is looked for once a second; what is there is asked for again once a minute, since
//! tablets move and masters forget leases.
//!
//! Invariant: nothing here makes a table, and no command waits for anything here.
//!
//! Not here: leases (client, master). Protocol: docs/protocols/exactly-once.md, rule 6. Catalogue: A3, B1, G1, J1.

use super::tickets::Part;
use super::{Answer, Awaited, Host, Resp};
use ramhold_base::{Effects, Instant, LeaseId, Peer, ServerId, Status};
use ramhold_client_core::{Operation, WhichTable};
use ramhold_wire::lease::LeaseMeet;
use ramhold_wire::request;
use ramhold_wire::table::TabletState;
use std::collections::BTreeMap;
use std::time::Duration;

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Far less than a lease's term, after which masters forget it.
const AGAIN_INTERVAL: Duration = Duration::from_secs(60);
const MEET_TIMEOUT: Duration = Duration::from_secs(1);
/// A master asks the coordinator about a lease that it meets, and knows it a moment later.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The database that commands of new connections are for.
const DATABASE: u16 = 0;

#[derive(Debug, Default)]
pub(super) struct Ready {
    /// The next look.
    at: Instant,
    /// All tablets of the database's table had an owner that serves them when they were described last.
    table_is_known: bool,
    table_is_asked: bool,
    table_again: Instant,
    met: BTreeMap<ServerId, Met>,
}

/// One master's knowledge of the lease.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// The lease that it has said it knows.
    lease: LeaseId,
    is_asked: bool,
    again: Instant,
}

impl Ready {
    pub fn deadline(&self) -> Instant {
        self.at
    }
}

impl Resp {
    /// Whether commands on database 0 need nothing from the coordinator: what `INFO` says.
    pub(super) fn is_ready_without_coordinator(&self, host: &impl Host) -> bool {
        let lease = self.session.live_lease(self.now);
        let knows =
            |server: &ServerId| self.ready.met.get(server).is_some_and(|met| Some(met.lease) == lease);
        self.ready.table_is_known
            && !host.has_unconfirmed()
            && lease.is_some()
            && host.servers().iter().all(|(server, _)| knows(server))
    }

    /// Looks for what is missing, if it is time to.
    pub(super) fn look_ready(&mut self, now: Instant, host: &impl Host, effects: &mut Effects) {
        if self.ready.at > now {
            return;
        }
        self.ready.at = now + LOOK_INTERVAL;
        if host.me().is_none() {
            return; // Not in the cluster yet.
        }
        if !self.ready.table_is_asked && (!self.ready.table_is_known || self.ready.table_again <= now) {
            self.ready.table_is_asked = true;
            let which = WhichTable::Name(self.config.table_name(DATABASE));
            self.posted.push((Operation::DescribeTable { which }, Part::Ready));
        }
        self.session.keep_lease(now, effects);
        if let Some(lease) = self.session.live_lease(now) {
            self.meet_masters(now, lease, host, effects);
        }
    }

    fn meet_masters(&mut self, now: Instant, lease: LeaseId, host: &impl Host, effects: &mut Effects) {
        let servers = host.servers();
        self.ready.met.retain(|server, _| servers.iter().any(|(there, _)| there == server));
        for (server, address) in servers {
            let met = self.ready.met.entry(server).or_default();
            if met.is_asked || (met.lease == lease && met.again > now) {
                continue;
            }
            met.is_asked = true;
            let awaited = Awaited::Met { server, lease };
            let rpc = self.calls.open(address, now, now + MEET_TIMEOUT, awaited);
            request(effects, Peer::Addr(address), &host.to_server(server), rpc, &LeaseMeet { lease });
        }
    }

    /// The answer of a master that was told of the lease; none: it did not come.
    pub(super) fn on_met_master(
        &mut self,
        now: Instant,
        server: ServerId,
        lease: LeaseId,
        status: Option<Status>,
    ) {
        let Some(met) = self.ready.met.get_mut(&server) else { return };
        met.is_asked = false;
        match status {
            Some(Status::Ok) => *met = Met { lease, is_asked: false, again: now + AGAIN_INTERVAL },
            // It asks the coordinator.
            Some(Status::Retry) => self.ready.at = self.ready.at.min(now + RETRY_PAUSE),
            _ => {}
        }
    }

    /// The description of the database's table.
    pub(super) fn on_ready_answer(&mut self, now: Instant, answer: &Answer<'_>) {
        self.ready.table_is_asked = false;
        match answer {
            Answer::Described(table) => {
                self.databases.learn(DATABASE, table.table);
                self.ready.table_is_known =
                    table.tablets.iter().all(|tablet| tablet.state == TabletState::Serving);
                self.ready.table_again = now + AGAIN_INTERVAL;
            }
            Answer::NoTable => self.ready.table_is_known = false,
            // The coordinator is away: what is known serves.
            _ => {}
        }
    }
}
