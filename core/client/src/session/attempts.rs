//! Attempts: an operation goes out to a process, and after a trouble it goes out again, or to the next coordinator.
//!
//! Not here: frames with several requests (`packing`), questions to bricks (`asking`). Catalogue: A3, B5.

use super::Session;
use super::running::{Attempt, AttemptId, State, Wanted};
use crate::backoff::Backoff;
use crate::operation::{OperationId, Place};
use crate::search::Search;
use crate::tablets::{Owner, Route};
use crate::trouble::{Trouble, Who};
use ramhold_base::{Effects, Instant, Peer, RpcId};
use ramhold_wire::{Header, frame};
use std::net::SocketAddr;
use std::time::Duration;

impl Session {
    /// Whether an operation that needs a number waits for a lease, or until fewer numbers are in use.
    pub(super) fn is_held_up(&mut self, now: Instant, id: OperationId) -> bool {
        if self.needs_lease(now, id) {
            self.fetch_for(now, id, Wanted::Lease, now);
            return true;
        }
        let is_held_back = self.must_hold_back(id);
        if is_held_back {
            let pause = self.config.backoff_least;
            self.change(id, State::Pausing, now + pause);
        }
        is_held_back
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff { least: self.config.backoff_least, most: self.config.backoff_most }
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        id: OperationId,
        addr: SocketAddr,
        who: Who,
        route: Option<(Owner, u64)>,
        effects: &mut Effects,
    ) {
        self.attempt_last += 1;
        let attempt_id = AttemptId(self.attempt_last);
        self.attempts.insert(attempt_id, id);
        let routed_by = route.map_or(0, |(_, version)| version);
        let attempt = Attempt { id: attempt_id, addr, who, routed_by, packed: None };
        let search = self.running[&id].search.as_deref().filter(|_| who == Who::Process);
        let patience = search.map_or(self.config.attempt_timeout, Search::patience);
        let timeout = self.config.attempt_timeout.min(patience);
        let (lease, sequence, unacknowledged) = self.number(id);
        let running = self.running.change(id, State::Calling(attempt), now + timeout);
        running.attempt_count = running.attempt_count.saturating_add(1);
        let rpc = RpcId(self.rpc_base.wrapping_add(attempt_id.0));
        let mut header = Header {
            cluster: self.cluster,
            lease,
            sequence,
            unacknowledged,
            repeated: running.number.is_some() && running.fate_unknown,
            ..Header::request(running.operation.opcode(), rpc)
        };
        if let Some((owner, _)) = route {
            header.target = owner.server;
            header.shard = owner.shard;
        }
        effects.send_with(Peer::Addr(addr), |out| {
            frame::write(out, &header, |out| running.operation.encode(out));
        });
    }

    /// An attempt failed and surely had no effect, or none that matters: the operation goes on.
    pub(super) fn set_back(&mut self, now: Instant, id: OperationId, trouble: Trouble) {
        let coordinators = self.config.coordinators.len();
        self.search_instead(id, trouble);
        let running = self.running.get_mut(&id).expect("it runs");
        running.trouble = Some(trouble);
        running.setbacks = running.setbacks.saturating_add(1);
        let setbacks = running.setbacks;
        let pause = match trouble.who {
            // Each coordinator is tried once before the first pause, and once between pauses.
            Who::Coordinator => {
                let rounds = setbacks / u32::try_from(coordinators.max(1)).unwrap_or(u32::MAX);
                let round_is_over = (setbacks as usize).is_multiple_of(coordinators.max(1));
                if round_is_over { self.backoff().wait(rounds, &mut self.rng) } else { Duration::ZERO }
            }
            Who::Server(_) | Who::Brick(_) | Who::Process => self.backoff().wait(setbacks, &mut self.rng),
        };
        let doubted = matches!(self.running[&id].operation.place(),
            Place::OwnerOf { table, target } if self.cache.route(table, target) == Route::Ask);
        // An operation that waits for a description does not pause as well: the fetch has a pause of its own.
        let is_searching = self.running[&id].search.as_ref().is_some_and(|search| search.has_next());
        let pause = if doubted || is_searching { Duration::ZERO } else { pause };
        self.change(id, State::Pausing, now + pause);
        if pause.is_zero() {
            self.ready.push_back(id);
        }
    }

    /// The coordinator that was asked is not the one to ask next.
    pub(super) fn leave_coordinator(&mut self, addr: SocketAddr) {
        if self.config.coordinators.get(self.coordinator) == Some(&addr) {
            self.coordinator = (self.coordinator + 1) % self.config.coordinators.len();
        }
    }
}
