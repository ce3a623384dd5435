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

use super::answer::Answer;
use super::peers::{Awaited, Peers};
use super::posted::Posted;
use super::tables::{Databases, describe};
use super::tickets::Part;
use crate::front::host::Host;
use crate::front::step::Step;
use ramhold_base::{Instant, LeaseId, Rng, ServerId, Status};
use ramhold_wire::lease::LeaseMeet;
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
pub struct Ready {
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

    /// Whether commands on database 0 need nothing from the coordinator.
    pub fn is_ready(&self, step: &Step<'_, impl Host>, posted: &Posted, databases: &Databases) -> bool {
        let Some(lease) = posted.session.live_lease(step.now) else { return false };
        let Some(owners) = &self.owners else { return false };
        let knows = |server: &ServerId| self.met.get(server).is_some_and(|met| met.lease == lease);
        let masters: BTreeSet<ServerId> = step.host.masters().iter().map(|(server, _)| *server).collect();
        databases.table(DATABASE).is_some()
            && !step.host.has_unconfirmed()
            && owners.iter().all(|owner| masters.contains(owner))
            && masters.iter().all(knows)
    }

    /// Looks for what is missing, if it is time to.
    pub fn look(
        &mut self,
        step: &mut Step<'_, impl Host>,
        posted: &mut Posted,
        databases: &Databases,
        peers: &mut Peers,
    ) {
        let now = step.now;
        if self.at <= now {
            self.at = now + LOOK_INTERVAL;
            // Without a server id, this server is not in the cluster yet.
            if !step.host.me().is_none() {
                posted.session.know_bricks(&step.host.bricks());
                self.ask_table(step, posted, databases);
                posted.session.keep_lease(now, step.effects);
            }
        }
        if self.meet_at <= now {
            self.meet_at = now + LOOK_INTERVAL;
            if let Some(lease) = posted.session.live_lease(now) {
                self.meet_masters(step, lease, peers);
            }
        }
    }

    fn ask_table<H>(&mut self, step: &Step<'_, H>, posted: &mut Posted, databases: &Databases) {
        // The table was dropped or was never there, and another server may have made it anew.
        let is_missing = databases.table(DATABASE).is_none() && self.table_pause.is_zero();
        if !self.table_is_asked && (is_missing || self.table_again <= step.now) {
            self.table_is_asked = true;
            posted.push(describe(step.config, DATABASE), Part::Ready);
        }
    }

    fn meet_masters(&mut self, step: &mut Step<'_, impl Host>, lease: LeaseId, peers: &mut Peers) {
        let masters = step.host.masters();
        let there: BTreeSet<ServerId> = masters.iter().map(|(server, _)| *server).collect();
        self.met.retain(|server, _| there.contains(server));
        let mut count = 0;
        for (server, address) in masters {
            let met = self.met.entry(server).or_default();
            if !met.lease.is_none() && met.lease != lease {
                *met = Met { is_asked: met.is_asked, ..Met::default() };
            }
            if met.is_asked || met.again > step.now {
                continue;
            }
            if count == MEET_COUNT_MAX {
                self.meet_at = step.now + MEET_PAUSE;
                return;
            }
            count += 1;
            met.is_asked = true;
            let awaited = Awaited::Met { server, lease };
            peers.call(step, (server, address), &LeaseMeet { lease }, MEET_TIMEOUT, awaited);
        }
    }

    /// Takes the answer of a master that was told of the lease. `None`: no answer came.
    pub fn on_met<H>(
        &mut self,
        step: &mut Step<'_, H>,
        posted: &mut Posted,
        server: ServerId,
        lease: LeaseId,
        status: Option<Status>,
    ) {
        let now = step.now;
        let again = now + Duration::from_secs(step.rng.between(MEET_AGAIN_SECONDS.0, MEET_AGAIN_SECONDS.1));
        let Some(met) = self.met.get_mut(&server) else { return };
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
        self.meet_at = self.meet_at.min(met.again);
        if status == Some(Status::LeaseOver) {
            posted.session.doubt_lease(now, lease);
        }
    }

    /// Takes the description of the database's table.
    pub fn on_answer(
        &mut self,
        step: &mut Step<'_, impl Host>,
        databases: &mut Databases,
        answer: &Answer<'_>,
    ) {
        self.table_is_asked = false;
        let is_known = match answer {
            Answer::Described(table) => {
                databases.learn(DATABASE, table);
                let is_served = table.tablets.iter().all(|tablet| tablet.state == TabletState::Serving);
                let owners: BTreeSet<ServerId> = table.tablets.iter().map(|tablet| tablet.owner).collect();
                self.owners = is_served.then(|| owners.into_iter().collect());
                is_served
            }
            Answer::NoTable => {
                self.owners = None;
                false
            }
            // The coordinator is away: the front serves with what it knows.
            _ => false,
        };
        if is_known {
            self.table_pause = Duration::ZERO;
            self.table_again = step.now + table_again(step.rng, step.host.masters().len());
        } else {
            self.table_pause = (2 * self.table_pause).clamp(LOOK_INTERVAL, TABLE_PAUSE_MAX);
            self.table_again = step.now + self.table_pause;
        }
    }
}

/// The time from one description of the table to the next.
fn table_again(rng: &mut Rng, masters: usize) -> Duration {
    let mean = TABLE_AGAIN.max(TABLE_AGAIN_PER_MASTER * u32::try_from(masters).unwrap_or(u32::MAX));
    let mean = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX / 2);
    Duration::from_millis(rng.between(mean / 2, mean + mean / 2))
}
