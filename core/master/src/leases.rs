//! Which clients' leases are live, as far as the coordinator has told.
//!
//! A mutation is carried out only under a lease that a coordinator has said to be live, and only for as long as the
//! coordinator said, by this server's clock and less a part for clocks that differ. Mutations under any other lease are
//! refused for the time being, and the lease is asked about. A lease that is over is forgotten with its results,
//! because nobody can ask for them any more.
//!
//! A coordinator's answer holds beyond the coordinator's own life: its successor gives every lease a whole term, and no
//! coordinator answers about leases after its successor has begun. So mutations go on while the coordinator is away,
//! however often it restarts.
//!
//! Invariants:
//! - at most one question is under way;
//! - an answer from another term than the known one counts for nothing, because it may be late.
//!
//! Not here: results and floors (log). Protocol: docs/protocols/exactly-once.md, rules 6 to 8. Catalogue: A3.

use crate::calls::Context;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Instant, LeaseId, Mark, Peer, Status};
use ramhold_log::Log;
use ramhold_wire::lease::{LEASE_CHECK_COUNT_MAX, LeaseCheck, LeaseMeet, LeasesChecked};
use ramhold_wire::{Calls, Header, Step, decode, reply, request};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most leases that are not known to be live: a stranger can make up as many as it likes.
const UNCONFIRMED_COUNT_MAX: usize = 65_536;
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
const ASK_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeaseStanding {
    Live,
    /// The coordinator is being asked.
    Unknown,
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Told {
    Nothing,
    /// The lease is live at least until `until`; the coordinator is asked again from `ask_at` on.
    Live {
        until: Instant,
        ask_at: Instant,
    },
    Over,
}

#[derive(Debug)]
pub(crate) struct Leases {
    told: BTreeMap<LeaseId, Told>,
    unconfirmed_count: usize,
    /// Leases that the coordinator is to be asked about.
    wanted: BTreeSet<LeaseId>,
    is_asking: bool,
    ask_at: Instant,
    sweep_at: Instant,
    sweep_interval: Duration,
}

impl Leases {
    /// `sweep_interval`: how often to look for leases about which nothing certain is known.
    pub fn new(sweep_interval: Duration) -> Leases {
        Leases {
            told: BTreeMap::new(),
            unconfirmed_count: 0,
            wanted: BTreeSet::new(),
            is_asking: false,
            ask_at: Instant::ZERO,
            sweep_at: Instant::ZERO,
            sweep_interval,
        }
    }

    /// Whether there is room for everything that a request under this lease leaves behind.
    pub fn admits(&self, lease: LeaseId) -> bool {
        self.unconfirmed_count < UNCONFIRMED_COUNT_MAX || self.told.contains_key(&lease)
    }

    /// Notes that a request under this lease has come and leaves something behind.
    pub fn enter(&mut self, lease: LeaseId) {
        if !self.told.contains_key(&lease) {
            self.tell(lease, Told::Nothing);
        }
    }

    /// Whether a mutation may be carried out under a lease now. If that is not known, the lease is asked about.
    pub fn check(&mut self, now: Instant, lease: LeaseId) -> LeaseStanding {
        match self.told.get(&lease) {
            _ if planted(Defect::LeaseNotChecked) => LeaseStanding::Live,
            Some(Told::Live { until, ask_at }) if now < *until => {
                if now >= *ask_at {
                    self.wanted.insert(lease);
                }
                LeaseStanding::Live
            }
            Some(Told::Over) => LeaseStanding::Over,
            Some(Told::Live { .. } | Told::Nothing) | None => {
                self.enter(lease);
                self.wanted.insert(lease);
                LeaseStanding::Unknown
            }
        }
    }

    /// The leases that are known to be live.
    pub fn live(&self, now: Instant) -> impl Iterator<Item = LeaseId> {
        self.told.iter().filter_map(move |(lease, told)| match told {
            Told::Live { until, .. } => (now < *until).then_some(*lease),
            Told::Nothing | Told::Over => None,
        })
    }

    fn tell(&mut self, lease: LeaseId, told: Told) {
        let is_unconfirmed = |told: &Told| usize::from(!matches!(told, Told::Live { .. }));
        self.unconfirmed_count += is_unconfirmed(&told);
        let before = self.told.insert(lease, told);
        self.unconfirmed_count -= before.as_ref().map_or(0, is_unconfirmed);
    }

    fn forget(&mut self, lease: LeaseId) {
        if let Some(before) = self.told.remove(&lease) {
            self.unconfirmed_count -= usize::from(!matches!(before, Told::Live { .. }));
        }
    }

    pub fn count(&self) -> usize {
        self.told.len()
    }

    pub fn on_check_unanswered(&mut self, now: Instant) {
        self.is_asking = false;
        self.ask_at = now + ASK_PAUSE;
    }

    /// When to look again without any input. `any`: the log remembers something of some lease.
    pub fn deadline(&self, any: bool) -> Option<Instant> {
        let asks = (!self.wanted.is_empty() && !self.is_asking).then_some(self.ask_at);
        let sweeps = (any || !self.told.is_empty()).then_some(self.sweep_at);
        ramhold_base::time::earliest(asks, sweeps)
    }

    /// A client announces that it will send requests under a lease.
    pub fn on_meet(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let status = match decode::<LeaseMeet>(body) {
            Err(status) => status,
            Ok(LeaseMeet { lease }) if lease.is_none() => Status::BadRequest,
            Ok(LeaseMeet { lease }) if !self.admits(lease) => Status::TooMany,
            Ok(LeaseMeet { lease }) => match self.check(step.now, lease) {
                LeaseStanding::Live => Status::Ok,
                LeaseStanding::Unknown => Status::Retry,
                LeaseStanding::Over => Status::LeaseOver,
            },
        };
        reply(step.effects, Peer::Conn(from), header, status);
    }

    /// Sweeps when that is due, and asks about the wanted leases.
    pub fn advance(&mut self, step: &mut Step<'_>, log: &mut Log, calls: &mut Calls<Context>) {
        if step.now >= self.sweep_at {
            self.sweep(step.now, log);
        }
        if self.is_asking || self.wanted.is_empty() || step.now < self.ask_at {
            return;
        }
        let leases: Vec<LeaseId> = self.wanted.iter().copied().take(LEASE_CHECK_COUNT_MAX).collect();
        self.is_asking = true;
        let context = Context::LeaseCheck(leases.clone());
        let rpc = calls.open(step.view.coordinator, step.now, step.now + ASK_TIMEOUT, context);
        request(
            step.effects,
            Peer::Addr(step.view.coordinator),
            &step.view.to_coordinator(),
            rpc,
            &LeaseCheck { leases },
        );
    }

    pub fn on_checked(
        &mut self,
        step: &mut Step<'_>,
        log: &mut Log,
        (sent, asked): (Instant, &[LeaseId]),
        header: &Header,
        body: &[u8],
    ) {
        self.is_asking = false;
        let answer = decode::<LeasesChecked>(body);
        let (Status::Ok, Ok(answer)) = (header.status(), answer) else {
            self.ask_at = step.now + ASK_PAUSE;
            return;
        };
        if header.term != step.view.term {
            // The answer is from an earlier coordinator, or from the next one, which this server has not heard of yet.
            self.ask_at = step.now + ASK_PAUSE;
            return;
        }
        let live: BTreeMap<LeaseId, u64> = answer.live.iter().map(|live| (live.lease, live.millis)).collect();
        for lease in asked {
            self.wanted.remove(lease);
            match live.get(lease) {
                Some(millis) => {
                    let time = Duration::from_millis(*millis);
                    let (until, ask_at) = (sent + time * 15 / 16, sent + time / 3);
                    self.tell(*lease, Told::Live { until, ask_at });
                }
                // The coordinator never gave this lease out: somebody has made it up. If it is given out later, nothing
                // from before may stand in its way.
                None if answer.never.contains(lease) => {
                    self.forget(*lease);
                    log.forget_lease(*lease);
                }
                None => {
                    self.tell(*lease, Told::Over);
                    log.forget_lease(*lease);
                    step.effects.mark(Mark::LeaseForgotten);
                }
            }
        }
    }

    /// Asks about all leases that something is remembered of and nothing certain is known about: otherwise they would
    /// be remembered for ever. A lease that is known to be over is forgotten, and may be asked about again.
    fn sweep(&mut self, now: Instant, log: &Log) {
        self.sweep_at = now + self.sweep_interval;
        let over = |(lease, told): (&LeaseId, &Told)| matches!(told, Told::Over).then_some(*lease);
        let over: Vec<LeaseId> = self.told.iter().filter_map(over).collect();
        over.into_iter().for_each(|lease| self.forget(lease));
        let idle = |(lease, told): (&LeaseId, &Told)| match told {
            Told::Live { until, .. } => (*until <= now).then_some(*lease),
            Told::Nothing | Told::Over => Some(*lease),
        };
        let mut wanted: Vec<LeaseId> = self.told.iter().filter_map(idle).collect();
        wanted.extend(log.leases().filter(|lease| !self.told.contains_key(lease)));
        for lease in wanted {
            if log.knows_lease(lease) {
                self.wanted.insert(lease);
            } else {
                self.forget(lease);
                self.wanted.remove(&lease);
            }
        }
    }
}
