//! One coordinator process: it starts from its store, answers requests, and moves all work on.
//!
//! Every step takes one input, gives it to the reign or to a part, lets the parts advance, and ends by emptying the
//! outbox.
//!
//! Invariants:
//! - before the state is loaded under this coordinator's own term, every request is answered with `NotReady`;
//! - a commit that finds no room is repeated (`full`).
//!
//! Not here: start and end (`reign`), which part a request or an answer is for (`requests`, `replies`).
//! Catalogue: B1, G1, G3.

use crate::clock::Clock;
use crate::config::CoordinatorConfig;
use crate::confirmed::{Answer, Confirmation};
use crate::desk::Desk;
use crate::parts::Parts;
use crate::reclassing;
use crate::reign::{Ending, Reign, Stored};
use crate::seen::CoordinatorSeen;
use crate::state::State;
use crate::verify::LATE_MAX;
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effects, Input, Instant, Machine, Peer, ServerId, Status, StoreResult, StoreToken, Term,
};
use ramhold_wire::{Kind, frame, reply};
use std::time::Duration;

/// How often the parts are advanced in one step. One part may give another something to do; what is left is done in the
/// next step.
const ROUNDS_MAX: u32 = 8;
/// A process that did nothing for this long may have missed renewals of leases.
const LEASE_STALL: Duration = Duration::from_secs(1);

pub struct Coordinator {
    desk: Desk,
    reign: Reign,
    /// The deadline that this process had promised to keep at the end of the last step.
    promised: Option<Instant>,
    parts: Parts,
}

impl Coordinator {
    pub fn new(config: CoordinatorConfig, seed: u64) -> Coordinator {
        let mut desk = Desk::new(config, seed);
        let reign = Reign::new(desk.rng.u64());
        Coordinator { desk, reign, promised: None, parts: Parts::default() }
    }

    /// The state as it is in memory; its last changes may not be durable yet.
    pub fn state(&self) -> &State {
        &self.desk.state
    }

    pub fn term(&self) -> Term {
        self.desk.term
    }

    pub fn is_active(&self) -> bool {
        self.reign.is_active()
    }

    /// Servers that are dead and, by this coordinator's clock, cannot answer reads any more, whether or not their
    /// tablets are served elsewhere yet.
    pub fn read_leases_over(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let over = self.parts.recoveries.open.iter().filter(move |(_, recovery)| recovery.is_lease_over(now));
        over.filter_map(|(id, _)| self.desk.state.recoveries.get(id).map(|record| record.crashed))
    }

    /// The number of owners that have not heard of a table's division.
    pub fn divisions_under_way(&self) -> usize {
        self.parts.progress.divisions_under_way()
    }

    /// The number of owners that have tablets to move.
    pub fn reclassings_under_way(&self) -> usize {
        reclassing::reclassings_under_way(&self.desk.state)
    }

    /// Whether every server that is to hold a copy of the state has one that knows all holders.
    pub fn is_copied(&self) -> bool {
        self.parts.copies.is_copied(&self.parts.links)
    }

    /// For tests of what servers make of the clock.
    #[doc(hidden)]
    pub fn clock(&self) -> &Clock {
        &self.desk.clock
    }

    /// A snapshot for an observer in another thread.
    pub fn seen(&self, now: Instant) -> CoordinatorSeen {
        self.parts.sight(&self.desk).seen(now, self.reign.why_not_active())
    }

    /// Warnings for operators. Each says what is wrong and, after the first semicolon, what to do.
    pub fn warnings(&self, now: Instant) -> Vec<String> {
        self.parts.sight(&self.desk).warnings(now)
    }

    // The store.

    fn on_store(&mut self, now: Instant, token: StoreToken, result: StoreResult) {
        let result = match result {
            StoreResult::Failed(reason) => {
                return self.end(Ending::Store(format!("the store has failed: {reason}")));
            }
            StoreResult::NoRoom { request, reason } => {
                return self.parts.full_store.on_full(now, &mut self.desk, (token, request), reason);
            }
            StoreResult::Committed => {
                self.parts.full_store.has_room(now, &mut self.desk);
                StoreResult::Committed
            }
            StoreResult::Found(_) | StoreResult::Conflict { .. } | StoreResult::Changed { .. } => result,
        };
        match self.reign.on_store(now, &mut self.desk, token, result) {
            Stored::Taken => {}
            Stored::Loaded(records) => self.parts.resume(now, &mut self.desk, &records),
            Stored::InReign(StoreResult::Committed) => {
                if let Some(puts) = self.desk.outbox.committed(token) {
                    self.parts.copies.note_commit(puts);
                }
            }
            Stored::InReign(StoreResult::Conflict { .. }) => {
                self.deposed("another coordinator has taken over")
            }
            Stored::InReign(StoreResult::Found(found)) => self.on_term_confirmed(now, token, &found),
            Stored::InReign(
                StoreResult::Changed { .. } | StoreResult::NoRoom { .. } | StoreResult::Failed(_),
            ) => {}
        }
    }

    fn deposed(&mut self, why: &str) {
        self.end(Ending::Deposed(why.into()));
    }

    fn end(&mut self, ending: Ending) {
        self.reign.end(&mut self.desk, ending);
    }

    /// The store has told which term it has; answers that waited for that may be given.
    fn on_term_confirmed(&mut self, now: Instant, token: StoreToken, found: &[(String, u64, Vec<u8>)]) {
        match self.parts.confirmed.on_term(&self.desk, token, found) {
            Confirmation::None => {}
            Confirmation::Deposed => self.deposed("another coordinator has taken over"),
            Confirmation::Confirmed(answers) => {
                for (server, to, header, answer) in answers {
                    match answer {
                        Answer::ReadLease => {
                            self.parts.read_leases.grant(now, &mut self.desk, server, to, &header)
                        }
                        Answer::Leases(checked) => self.desk.outbox.reply_with(to, &header, &checked),
                    }
                }
                self.parts.confirmed.ask(&mut self.desk);
            }
        }
    }

    // Frames.

    fn on_frame(&mut self, now: Instant, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let (header, body) = match frame::parse(bytes) {
            Ok(parsed) => parsed,
            Err(bad) => return ramhold_wire::refuse_malformed(effects, from, bad),
        };
        match header.kind {
            Kind::Reply if self.is_active() => {
                if let Some(ending) = self.parts.on_reply(now, &mut self.desk, &header, body) {
                    self.end(ending);
                }
            }
            Kind::Reply => self.reign.on_early_reply(&mut self.desk, &header, body),
            Kind::Request if self.is_active() => {
                self.parts.on_request(now, &mut self.desk, &header, body, from);
            }
            Kind::Request => {
                self.reign.on_early_request(&mut self.desk, &header, body);
                reply(effects, Peer::Conn(from), &header, Status::NotReady);
            }
        }
    }
}

impl Machine for Coordinator {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if self.reign.has_ended() {
            return;
        }
        let late = self.promised.map_or(Duration::ZERO, |at| now.since(at));
        if late > self.desk.config.ping_timeout / 2 {
            self.parts.verification.on_stall(now);
        } else if late > LATE_MAX {
            self.parts.verification.on_late(now);
        }
        if late > LEASE_STALL {
            self.parts.leases.resume(now, &self.desk);
        }
        match input {
            Input::Start { wall_millis } => self.reign.on_start(now, &mut self.desk, wall_millis),
            Input::Tick => {}
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, effects),
            Input::Lost { addr, how } => {
                self.parts.on_lost(now, &mut self.desk, addr, how);
                if self.is_active() {
                    self.parts.verification.on_connection_lost(now, &self.desk, addr, how);
                }
            }
            Input::Closed { conn } => self.parts.progress.forget(conn),
            Input::Disk { .. } | Input::Met { .. } | Input::Bytes { .. } => {}
            Input::Secret { token, result } if self.is_active() => {
                let Parts { accounts, leases, progress, .. } = &mut self.parts;
                accounts.on_secret(&mut self.desk, leases, progress, token, result);
            }
            Input::Secret { .. } => {}
            Input::Store { token, result } => self.on_store(now, token, result),
            Input::Stop => self.reign.stop(),
        }
        if self.is_active() {
            self.parts.on_overdue(now, &mut self.desk);
        }
        if self.is_active() {
            for _ in 0..ROUNDS_MAX {
                self.parts.advance(now, &mut self.desk);
                if self.deadline().is_none_or(|at| at > now) {
                    break;
                }
            }
            self.parts.check_invariants(&self.desk);
        }
        self.reign.advance(now, &mut self.desk);
        self.parts.full_store.advance(now, &mut self.desk);
        if !self.reign.has_ended() {
            let copied = self.parts.copies.released(&self.parts.links);
            self.desk.note_time_stored(copied.min(self.desk.outbox.stored_state()));
            self.desk.outbox.flush(&self.desk.state, copied, effects);
        }
        // A change that is not stored was told to nobody.
        let may_stop = self.desk.outbox.is_settled() || self.parts.full_store.is_full();
        if self.reign.is_stopping() && may_stop {
            self.end(Ending::Stopped);
        }
        if self.reign.has_ended() {
            self.desk.outbox.last_words(effects);
        }
        self.promised = self.deadline().map(|at| at.max(now));
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.is_active() {
            return self.reign.wake().into_iter().chain(self.parts.full_store.wake()).min();
        }
        let wakes = [self.parts.wake(&self.desk), self.parts.full_store.wake()];
        wakes.into_iter().fold(self.desk.calls.deadline(), earliest)
    }
}
