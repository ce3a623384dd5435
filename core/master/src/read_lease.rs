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

use crate::multi::Asker;
use crate::parked::Answer;
use crate::{Context, Master};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{Instant, Mark, Peer, Status};
use ramhold_replication::Replicator;
use ramhold_wire::lease::ReadLease as Ask;
use ramhold_wire::{Header, Step, request};
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
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
}

/// An answer that lacks only the lease.
struct Waiting {
    since: Instant,
    refuse_at: Instant,
    to: Asker,
    header: Header,
    answer: Answer,
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

impl Master {
    /// Whether answers that need the lease may be given at `now`.
    pub(crate) fn is_leased(&mut self, now: Instant) -> bool {
        self.read_lease.used = now;
        now < self.read_lease.until || self.renew_read_lease(now)
    }

    #[cold]
    fn renew_read_lease(&mut self, now: Instant) -> bool {
        let lease = &mut self.read_lease;
        if lease.length.is_none() {
            return true;
        }
        lease.until = lease.known_until(&self.shard.replicator);
        if lease.look_at == Instant::FAR {
            lease.look_at = now;
        }
        now < lease.until || planted(Defect::ReadUnleased)
    }

    /// Gives an answer as soon as the lease holds. The client has waited since `since`.
    pub(crate) fn answer_when_leased(
        &mut self,
        step: &mut Step<'_>,
        since: Instant,
        to: Asker,
        header: &Header,
        answer: Answer,
    ) {
        if self.is_leased(step.now) {
            if since < step.now {
                self.multis.answered.waited(header.opcode, since, step.now);
            }
            return self.send(to, header, &answer, step.effects);
        }
        let lease = &mut self.read_lease;
        let bytes = lease.waiting_bytes + answer.bytes();
        let patience = lease.length.unwrap_or_default() / 4;
        if lease.waiting.len() >= self.config.parked_count_max || bytes > self.config.parked_bytes_max {
            return self.refuse(to, header, Status::TooMany, step.effects);
        }
        lease.waiting_bytes = bytes;
        self.multis.is_seen_to(to);
        lease.waiting.push_back(Waiting {
            since,
            refuse_at: step.now + patience,
            to,
            header: *header,
            answer,
        });
        self.counters.lease_waits += 1;
        step.effects.mark(Mark::ReadWaited);
    }

    /// Keeps the lease while it is used, and answers the requests that wait for it.
    pub(crate) fn advance_read_lease(&mut self, step: &mut Step<'_>) {
        if step.now >= self.read_lease.look_at {
            self.keep_read_lease(step);
        }
        if !self.read_lease.waiting.is_empty() {
            self.release_unleased(step);
        }
    }

    fn keep_read_lease(&mut self, step: &mut Step<'_>) {
        let Some(length) = self.config.read_lease else { return };
        if step.now.since(self.read_lease.used) >= IDLE {
            self.read_lease.look_at = Instant::FAR;
            return;
        }
        self.shard.replicator.keep_granted(step.now, length / 8, step.view, step.effects);
        let lease = &mut self.read_lease;
        lease.look_at = step.now + length / 4;
        let since = self.shard.replicator.granted_since().max(lease.coordinator);
        let is_fresh = since.is_some_and(|since| step.now.since(since) < length / 2);
        if is_fresh || lease.is_asking || step.now < lease.ask_at {
            return;
        }
        lease.is_asking = true;
        let rpc = self.calls.open(step.view.coordinator, step.now, step.now + length, Context::ReadLease);
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &Ask {});
    }

    /// The coordinator has granted the question that was sent at `sent`. `None`: it has not.
    pub(crate) fn on_read_lease(&mut self, now: Instant, sent: Option<Instant>) {
        let lease = &mut self.read_lease;
        lease.is_asking = false;
        lease.ask_at = now + lease.length.unwrap_or_default() / 8;
        lease.coordinator = lease.coordinator.max(sent);
    }

    fn release_unleased(&mut self, step: &mut Step<'_>) {
        let is_leased = self.is_leased(step.now);
        self.multis.now = step.now;
        let lease = &mut self.read_lease;
        while let Some(front) = lease.waiting.front() {
            if !is_leased && front.refuse_at > step.now {
                return;
            }
            let waiting = lease.waiting.pop_front().expect("looked at above");
            lease.waiting_bytes -= waiting.answer.bytes();
            self.multis.answered.waited(waiting.header.opcode, waiting.since, step.now);
            if is_leased {
                waiting.answer.send(&mut self.multis, waiting.to, &waiting.header, step.effects);
            } else {
                self.counters.lease_refusals += 1;
                step.effects.mark(Mark::ReadNotLeased);
                self.multis.answer(waiting.to, &waiting.header, Status::NotLeased, |_| {}, step.effects);
            }
        }
    }
}
