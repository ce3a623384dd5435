//! Paces cleaning: decides who pays for it, and when it works without a payer.
//!
//! Passes copy in slices. Every write pays for the memory that it took, at the price that the present pass has for each
//! byte that it frees. An idle shard goes on cleaning by itself. If a pass meets an expired object, the master removes
//! the object as a client would.
//!
//! Not here: the passes themselves (the crate `shard`). Rules: docs/protocols/cleaning.md. Catalogue: C4-C7.

use crate::expiry::Over;
use crate::service::Service;
use crate::tablets::TabletState;
use ramhold_base::{SegmentId, StreamId};
use ramhold_log::{Purpose, Reference};
use ramhold_shard::{IDLE_WORK, LogSegments, PRESSED_WORK};
use ramhold_wire::Step;

impl Service {
    /// Does the work that a write of `bytes` pays for.
    pub fn pay_for_cleaning(&mut self, step: &mut Step<'_>, bytes: u64) {
        if let Some(work) = self.shard.pay_for_cleaning(bytes) {
            self.clean(step, work);
        }
    }

    /// Cleans for a write that found no memory. Returns whether it may help to try again, now or later.
    pub fn clean_for_room(&mut self, step: &mut Step<'_>, purpose: Purpose) -> bool {
        self.shard.cleaning.press(purpose == Purpose::Freeing);
        self.clean(step, PRESSED_WORK);
        self.shard.cleaning.press(false);
        self.shard.may_get_room()
    }

    /// Cleans a slice when the shard has nothing else to do.
    pub fn clean_when_idle(&mut self, step: &mut Step<'_>) {
        if self.shard.is_cleaning(step.now) {
            self.clean(step, IDLE_WORK);
        }
    }

    /// Does at most `work` bytes of work, as far as there is something to do.
    fn clean(&mut self, step: &mut Step<'_>, mut work: u64) {
        loop {
            let (shard, owner) = self.shard_and_owner();
            let Some(expired) = shard.clean(step, &owner, &mut work) else { break };
            self.shard.cleaning.expired_stay = !self.expire_at(step, expired);
        }
        self.advance_cleaning(step);
        self.replicate_cleaning(step);
    }

    /// Rolls a stream to its next head.
    pub fn roll(&mut self, step: &mut Step<'_>, stream: StreamId) -> Option<SegmentId> {
        let (shard, owner) = self.shard_and_owner();
        shard.roll(step, stream, &owner)
    }

    /// Rolls a stream to a head whose frames backups hold already, so that something can be entered with it.
    pub fn roll_held(&mut self, step: &mut Step<'_>, stream: StreamId, held: SegmentId) -> Option<SegmentId> {
        let (shard, owner) = self.shard_and_owner();
        shard.roll_held(step, stream, held, &owner)
    }

    /// Sends the entries that cleaning has appended.
    pub fn replicate_cleaning(&mut self, step: &mut Step<'_>) {
        while std::mem::take(&mut self.shard.appended) | std::mem::take(&mut self.shard.side_appended) {
            self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
            self.advance_cleaning(step);
            self.answers.release(step, &self.shard);
        }
    }

    /// Takes every waiting pass as far as replication allows.
    pub fn advance_cleaning(&mut self, step: &mut Step<'_>) {
        self.shard.swap_images(step.effects);
        let (shard, owner) = self.shard_and_owner();
        shard.enter_survivors(step, &owner);
        self.shard.retire_sources(step.effects);
        self.wish_flushed();
    }

    /// The next object of a pass is expired: removes it as a client would. Returns whether it is gone.
    fn expire_at(&mut self, step: &mut Step<'_>, at: Reference) -> bool {
        let (table, key) = self.shard.log.key_of(at);
        let Some((tablet, hash)) = self.tablets.find(table, &key) else { return false };
        if tablet.state != TabletState::Serving || self.shard.is_blocked(step.now, tablet.stream) {
            return false;
        }
        let found = self.shard.log.lookup(table, hash, &key).ok().flatten().filter(|found| found.at == at);
        let Some(over) = found.as_ref().map(Over::of) else { return false };
        // If there is no room for the removal, the pass moves the object: a pass under way cannot wait for another
        // pass.
        self.shard.cleaning_runs = true;
        let outcome = self.take_out_over(step, &tablet, table, hash, &key, over);
        self.shard.cleaning_runs = false;
        outcome.is_ok()
    }

    /// Tells the replicator what has to be flushed: everything that passes, replicas made from compacted segments, a
    /// tablet that is being reclassed, and recovered partitions wait for.
    pub fn wish_flushed(&mut self) {
        let settling = self.settling.wishes(&self.shard);
        if !self.shard.cleaning.has_wishes() && self.wishes_to_move.is_empty() && settling.is_empty() {
            return;
        }
        self.shard.want_flushed(self.wishes_to_move.iter().copied().chain(settling));
    }
}
