//! Keeps the front able to serve without the coordinator, even if no command has been sent through it yet.
//!
//! The front asks the coordinator for the table of database 0 and for a lease before a command needs them. It
//! tells the masters of the lease before a write comes (`LeaseMeet`). It also tells this process's own
//! master, because requests that the direct way refuses go through the session. So when the coordinator is
//! away, a server that was never asked anything serves as well as one that is in use. The front looks again
//! within seconds for anything that is missing, and asks again for what is there. Masters forget leases, so
//! each is told of the lease about once a minute; with N servers these are N^2 small requests a minute.
//! Recoveries and clients of other servers change the table, so the front asks for it every two seconds in a
//! small cluster, and more rarely in a large one: all fronts together ask the coordinator some ten times a second.
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
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause after an answer that the table is not there, or not served as a whole. The pause doubles up
/// to this.
const TABLE_PAUSE_MAX: Duration = Duration::from_secs(8);
/// Time from one description of a table that is served as a whole to the next: this, or
/// `TABLE_AGAIN_PER_MASTER` for each master if that is longer. Half to one and a half of it is drawn each time.
const TABLE_AGAIN: Duration = Duration::from_secs(2);
const TABLE_AGAIN_PER_MASTER: Duration = Duration::from_millis(100);
/// Seconds from one time to the next that a master is told of a lease that it knows, drawn anew each time.
/// They are far fewer than the term of the lease, after which masters forget it.
const MEET_AGAIN_SECONDS: (u64, u64) = (45, 75);
const MEET_TIMEOUT: Duration = Duration::from_secs(1);
/// First pause before a master is told of the lease again; the pause doubles up to `LOOK_INTERVAL`. A master
/// that meets a lease asks the coordinator about it, and mostly knows it a moment later.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Masters that are told at a time, and the pause before the next ones are told.
const MEET_COUNT_MAX: usize = 64;
const MEET_PAUSE: Duration = Duration::from_millis(10);
/// The database of new connections.
const DATABASE: u16 = 0;

#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Time of the next look for the table and the lease.
    at: Instant,
    /// The owners of the tablets of the database's table, if all tablets had an owner that served them when
    /// they were last described.
    owners: Option<Vec<ServerId>>,
    table_is_asked: bool,
    table_again: Instant,
    table_pause: Duration,
    /// Time of the next look for masters that are to be told of the lease.
    meet_at: Instant,
    met: BTreeMap<ServerId, Met>,
}

/// One master's knowledge of the lease.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// The lease that the master has said it knows, or none.
    lease: LeaseId,
    is_asked: bool,
    again: Instant,
    pause: Duration,
}

impl Ready {
    pub fn deadline(&self) -> Instant {
        self.at.min(self.meet_at)
    }
}

impl Resp {
    /// Whether commands on database 0 need nothing from the coordinator. `INFO` tells it.
    pub(super) fn is_ready_without_coordinator(&self, host: &impl Host) -> bool {
        let Some(lease) = self.session.live_lease(self.now) else { return false };
        let Some(owners) = &self.ready.owners else { return false };
        let knows = |server: &ServerId| self.ready.met.get(server).is_some_and(|met| met.lease == lease);
        let masters: BTreeSet<ServerId> = host.masters().iter().map(|(server, _)| *server).collect();
        self.databases.table(DATABASE).is_some()
            && !host.has_unconfirmed()
            && owners.iter().all(|owner| masters.contains(owner))
            && masters.iter().all(knows)
    }

    /// Looks for what is missing, if it is time to.
    pub(super) fn look_ready(&mut self, now: Instant, host: &impl Host, effects: &mut Effects) {
        if self.ready.at <= now {
            self.ready.at = now + LOOK_INTERVAL;
            // Without a server id, this server is not in the cluster yet.
            if !host.me().is_none() {
                self.ask_ready_table(now);
                self.session.keep_lease(now, effects);
            }
        }
        if self.ready.meet_at <= now {
            self.ready.meet_at = now + LOOK_INTERVAL;
            if let Some(lease) = self.session.live_lease(now) {
                self.meet_masters(now, lease, host, effects);
            }
        }
    }

    fn ask_ready_table(&mut self, now: Instant) {
        // The table was dropped or was never there, and another server may have made it anew.
        let is_missing = self.databases.table(DATABASE).is_none() && self.ready.table_pause.is_zero();
        if !self.ready.table_is_asked && (is_missing || self.ready.table_again <= now) {
            self.ready.table_is_asked = true;
            let which = WhichTable::Name(self.config.table_name(DATABASE));
            self.posted.push((Operation::DescribeTable { which }, Part::Ready));
        }
    }

    fn meet_masters(&mut self, now: Instant, lease: LeaseId, host: &impl Host, effects: &mut Effects) {
        let masters = host.masters();
        let there: BTreeSet<ServerId> = masters.iter().map(|(server, _)| *server).collect();
        self.ready.met.retain(|server, _| there.contains(server));
        let mut count = 0;
        for (server, address) in masters {
            let met = self.ready.met.entry(server).or_default();
            if !met.lease.is_none() && met.lease != lease {
                *met = Met { is_asked: met.is_asked, ..Met::default() };
            }
            if met.is_asked || met.again > now {
                continue;
            }
            if count == MEET_COUNT_MAX {
                self.ready.meet_at = now + MEET_PAUSE;
                return;
            }
            count += 1;
            met.is_asked = true;
            let awaited = Awaited::Met { server, lease };
            let rpc = self.calls.open(address, now, now + MEET_TIMEOUT, awaited);
            request(effects, Peer::Addr(address), &host.to_server(server), rpc, &LeaseMeet { lease });
        }
    }

    /// Takes the answer of a master that was told of the lease. `None`: no answer came.
    pub(super) fn on_met_master(
        &mut self,
        now: Instant,
        server: ServerId,
        lease: LeaseId,
        status: Option<Status>,
    ) {
        let again = now + Duration::from_secs(self.rng.between(MEET_AGAIN_SECONDS.0, MEET_AGAIN_SECONDS.1));
        let Some(met) = self.ready.met.get_mut(&server) else { return };
        let pause = (2 * met.pause).clamp(RETRY_PAUSE, LOOK_INTERVAL);
        match status {
            Some(Status::Ok) => *met = Met { lease, again, ..Met::default() },
            // The master no longer knows the lease, or does not know it yet, and asks the coordinator.
            Some(Status::Retry | Status::LeaseOver | Status::TooMany) => {
                *met = Met { again: now + pause, pause, ..Met::default() };
            }
            // The master may still know the lease that it knew.
            _ => *met = Met { is_asked: false, again: now + LOOK_INTERVAL, ..*met },
        }
        self.ready.meet_at = self.ready.meet_at.min(met.again);
        if status == Some(Status::LeaseOver) {
            self.session.doubt_lease(now, lease);
        }
    }

    /// Takes the description of the database's table.
    pub(super) fn on_ready_answer(&mut self, now: Instant, answer: &Answer<'_>, host: &impl Host) {
        self.ready.table_is_asked = false;
        let is_known = match answer {
            Answer::Described(table) => {
                self.databases.learn(DATABASE, table.table);
                let is_served = table.tablets.iter().all(|tablet| tablet.state == TabletState::Serving);
                let owners: BTreeSet<ServerId> = table.tablets.iter().map(|tablet| tablet.owner).collect();
                self.ready.owners = is_served.then(|| owners.into_iter().collect());
                is_served
            }
            Answer::NoTable => {
                self.ready.owners = None;
                false
            }
            // The coordinator is away: the front serves with what it knows.
            _ => false,
        };
        if is_known {
            self.ready.table_pause = Duration::ZERO;
            self.ready.table_again = now + self.table_again(host.masters().len());
        } else {
            self.ready.table_pause = (2 * self.ready.table_pause).clamp(LOOK_INTERVAL, TABLE_PAUSE_MAX);
            self.ready.table_again = now + self.ready.table_pause;
        }
    }

    fn table_again(&mut self, masters: usize) -> Duration {
        let mean = TABLE_AGAIN.max(TABLE_AGAIN_PER_MASTER * u32::try_from(masters).unwrap_or(u32::MAX));
        let mean = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX / 2);
        Duration::from_millis(self.rng.between(mean / 2, mean + mean / 2))
    }
}
