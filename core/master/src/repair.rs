//! The master's side of repairs: its calls to backups, and the consequences of damage for tablets and clients.
//!
//! Not here: finding and repairing damage (the crate `shard`). Catalogue: C8.

use crate::calls::Context;
use crate::service::Service;
use ramhold_base::Status;
use ramhold_log::Unreadable;
use ramhold_replication::Event;
use ramhold_shard::{Found, ReadBack};
use ramhold_wire::Step;

impl Service {
    /// Begins the repair of a damaged entry. Returns the status for a request whose key cannot be read.
    pub fn unreadable(&mut self, step: &mut Step<'_>, unreadable: Unreadable) -> Status {
        let Unreadable::Damaged(at) = unreadable else { return Status::Corrupt };
        let (segment, offset) = self.shard.log.place_of(at);
        self.shard.note_damage(step, segment, offset);
        self.advance_repairs(step);
        self.shard.scrub.refusal(segment)
    }

    pub fn advance_repairs(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let (shard, owner, calls) = self.shard_owner_and_calls();
        let found = shard.advance_repairs(step, &owner, &mut |address, deadline, read| {
            calls.open(address, now, deadline, Context::ReadBack(read))
        });
        for found in found {
            match found {
                Found::Beyond(segment) => self.events.push(Event::Beyond(segment)),
                Found::Lost(stream) => self.tablets.note_losses(stream),
            }
        }
    }

    pub fn on_read_back(&mut self, step: &mut Step<'_>, read: ReadBack, answer: (Status, &[u8])) {
        let (shard, owner) = self.shard_and_owner();
        shard.on_read_back(step, &owner, read, answer);
    }
}
