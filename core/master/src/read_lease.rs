//! Whether this shard may answer reads: only while nobody else can be serving its tablets.
//!
//! The backups of the head grant the lease with every append that they accept. The coordinator grants it where they
//! cannot. An answer that needs the lease is given at an instant at which the lease holds. The instant was read after
//! the request was received, so the answer was right at some moment while its client waited. Without the lease an
//! answer waits a little for the next grant.
//!
//! Invariant: no value, miss or refusal of a read, and nothing about a `none` table, is told without the lease.
//!
//! Not here: grants and keepalives (replication). Protocol: docs/protocols/read-leases.md. Catalogue: F8, J2.

use crate::calls::Context;
use crate::multi::Asker;
use crate::parked::Answer;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{Instant, Peer};
use ramhold_replication::Replicator;
use ramhold_shard::Shard;
use ramhold_wire::lease::ReadLease as Ask;
use ramhold_wire::{Calls, Header, Step, request};
use std::collections::VecDeque;
use std::time::Duration;

/// If no read has come for this long, the lease is not kept up.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) struct ReadLease {
    /// How long a grant counts. `None`: for ever.
    length: Option<Duration>,
    /// The lease is known to hold until this instant. It only grows.
    until: Instant,
    used: Instant,
    /// When to look next whether something has to be done to keep the lease. `FAR`: not before the lease is used again.
    look_at: Instant,
    /// When the question was sent that the coordinator has granted last.
    coordinator: Option<Instant>,
    is_asking: bool,
    ask_at: Instant,
    waiting: VecDeque<Unleased>,
    waiting_bytes: usize,
}

/// An answer that lacks only the lease.
pub(crate) struct Unleased {
    pub since: Instant,
    pub refuse_at: Instant,
    pub to: Asker,
    pub header: Header,
    pub answer: Answer,
}

impl ReadLease {
    pub fn new(length: Option<Duration>) -> ReadLease {
        ReadLease {
            length,
            until: if length.is_some() { Instant::ZERO } else { Instant::FAR },
            used: Instant::ZERO,
            look_at: Instant::FAR,
            coordinator: None,
            is_asking: false,
            ask_at: Instant::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Whether the lease has to be looked at.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.look_at || !self.waiting.is_empty()
    }

    /// The instant until which the lease holds by the grants up to now.
    pub fn known_until(&self, replicator: &Replicator) -> Instant {
        let Some(length) = self.length else { return Instant::FAR };
        let since = replicator.granted_since().max(self.coordinator);
        // The clocks of the servers that grant the lease may be a little faster.
        since.map_or(self.until, |since| self.until.max(since + length * 99 / 100))
    }

    pub fn deadline(&self) -> Option<Instant> {
        let look = (self.look_at < Instant::FAR).then_some(self.look_at);
        earliest(look, self.waiting.front().map(|waiting| waiting.refuse_at))
    }
}

impl ReadLease {
    /// Whether the lease holds at `now`. The lease counts as used.
    pub fn holds(&mut self, now: Instant, replicator: &Replicator) -> bool {
        self.used = now;
        now < self.until || self.renew(now, replicator)
    }

    #[cold]
    fn renew(&mut self, now: Instant, replicator: &Replicator) -> bool {
        if self.length.is_none() {
            return true;
        }
        self.until = self.known_until(replicator);
        if self.look_at == Instant::FAR {
            self.look_at = now;
        }
        now < self.until || planted(Defect::ReadUnleased)
    }

    /// How long an answer waits for the lease.
    pub fn patience(&self) -> Duration {
        self.length.unwrap_or_default() / 4
    }

    /// Whether a further answer may wait: there are fewer than `count_max`, and with it at most `bytes_max` bytes.
    pub fn may_wait(&self, unleased: &Unleased, count_max: usize, bytes_max: usize) -> bool {
        self.waiting.len() < count_max && self.waiting_bytes + unleased.answer.bytes() <= bytes_max
    }

    pub fn wait(&mut self, unleased: Unleased) {
        self.waiting_bytes += unleased.answer.bytes();
        self.waiting.push_back(unleased);
    }

    /// Whether an answer waits for the lease.
    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the next answer that waits no longer: the lease holds, or the answer has waited too long.
    pub fn take_unleased(&mut self, now: Instant, is_leased: bool) -> Option<Unleased> {
        let unleased = self.waiting.pop_front_if(|front| is_leased || front.refuse_at <= now)?;
        self.waiting_bytes -= unleased.answer.bytes();
        Some(unleased)
    }

    /// Keeps the lease while it is used.
    pub fn keep_when_due(&mut self, step: &mut Step<'_>, shard: &mut Shard, calls: &mut Calls<Context>) {
        let Some(length) = self.length.filter(|_| step.now >= self.look_at) else { return };
        if step.now.since(self.used) >= IDLE {
            self.look_at = Instant::FAR;
            return;
        }
        shard.replicator.keep_granted(step.now, length / 8, step.view, step.effects);
        self.look_at = step.now + length / 4;
        let since = shard.replicator.granted_since().max(self.coordinator);
        let is_fresh = since.is_some_and(|since| step.now.since(since) < length / 2);
        if is_fresh || self.is_asking || step.now < self.ask_at {
            return;
        }
        self.is_asking = true;
        let rpc = calls.open(step.view.coordinator, step.now, step.now + length, Context::ReadLease);
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &Ask {});
    }

    /// The coordinator has granted the question that was sent at `sent`. `None`: it has not.
    pub fn on_answered(&mut self, now: Instant, sent: Option<Instant>) {
        self.is_asking = false;
        self.ask_at = now + self.length.unwrap_or_default() / 8;
        self.coordinator = self.coordinator.max(sent);
    }
}
