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
use ramhold_log::{Purpose, Reference, Step as CopyStep};
use ramhold_replication::FlushWish;
use ramhold_shard::{FRUITLESS_PAUSE, LogSegments};
use ramhold_wire::Step;

/// The work that an idle shard does before it looks for requests again: some 30 microseconds.
const IDLE_WORK: u64 = 32 * 1024;
/// The most work that a write does that finds no memory, before it gives up for now: some 300 microseconds.
const PRESSED_WORK: u64 = 256 * 1024;

impl Service {
    /// Does the work that a write of `bytes` pays for.
    pub fn pay_for_cleaning(&mut self, step: &mut Step<'_>, bytes: u64) {
        if !self.shard.wants_cleaning() {
            self.shard.cleaning.credit = 0;
            return;
        }
        self.shard.cleaning.pause = FRUITLESS_PAUSE;
        let usage = self.shard.log.usage();
        let plan = self.shard.cleaning.plan;
        // A quarter more than the work that keeps the level of free memory; twice that work when half of the runway is
        // used.
        let runway = self.shard.cleaning.config.runway_bytes;
        let is_short = usage.free_bytes < usage.reserve_bytes + runway / 2;
        let quarters = if is_short { 8 } else { 5 };
        let work = (bytes * plan.work).checked_div(plan.gain).map_or(bytes, |work| work * quarters / 4);
        self.shard.cleaning.credit = (self.shard.cleaning.credit + work).min(4 * PRESSED_WORK);
        if self.shard.cleaning.credit >= IDLE_WORK / 4 {
            self.clean(step, self.shard.cleaning.credit);
        }
    }

    /// Cleans for a write that found no memory. Returns whether it may help to try again, now or later.
    pub fn clean_for_room(&mut self, step: &mut Step<'_>, purpose: Purpose) -> bool {
        self.shard.cleaning.is_pressed = purpose == Purpose::Freeing;
        if self.shard.cleaning.is_pressed {
            self.shard.cleaning.fruitless_until = None;
        }
        self.clean(step, PRESSED_WORK);
        self.shard.cleaning.is_pressed = false;
        self.shard.cleaning.active.is_some() || self.shard.cleaning.is_waiting() || self.shard.has_room()
    }

    /// Cleans a slice when the shard has nothing else to do.
    pub fn clean_when_idle(&mut self, step: &mut Step<'_>) {
        if self.shard.is_cleaning(step.now) {
            self.clean(step, IDLE_WORK);
        }
    }

    /// Does at most `work` bytes of work, as far as there is something to do.
    fn clean(&mut self, step: &mut Step<'_>, mut work: u64) {
        while work > 0 && !self.shard.is_pass_waiting() && self.begin_pass(step) {
            let before = self.shard.moved();
            let (shard, owner) = self.shard_and_owner();
            let copied = shard.copy(step.now, work, step.view, &owner);
            let after = self.shard.moved();
            let done = after.bytes - before.bytes
                + ramhold_log::LOOK_COST * (after.entries_seen - before.entries_seen);
            work = work.saturating_sub(done);
            self.shard.cleaning.credit = self.shard.cleaning.credit.saturating_sub(done);
            self.shard.count(before, after);
            self.shard.begin_survivors();
            match copied {
                CopyStep::Working => break,
                CopyStep::NoMemory => {
                    self.shard.pause_cleaning(step.now);
                    break;
                }
                CopyStep::Done => self.shard.finish_copy(step.effects),
                CopyStep::Expired(at) => {
                    self.shard.cleaning.expired_stay = !self.expire_at(step, at);
                }
                CopyStep::Damaged { segment, offset } => {
                    self.shard.cleaning.counters.damaged += 1;
                    self.shard.cleaning.waits_for = Some(segment);
                    self.shard.note_damage(step, segment, offset);
                    break;
                }
            }
        }
        self.advance_cleaning(step);
        self.replicate_cleaning(step);
    }

    fn begin_pass(&mut self, step: &mut Step<'_>) -> bool {
        let (shard, owner) = self.shard_and_owner();
        shard.begin_pass(step, &owner)
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
        let cleaning = &self.shard.cleaning;
        let has_wishes = cleaning.is_waiting() || !cleaning.compacted.is_empty();
        if !has_wishes && self.wishes_to_move.is_empty() && settling.is_empty() {
            return;
        }
        let replicator = &self.shard.replicator;
        self.shard.cleaning.compacted.retain(|stream, position| replicator.flushed(*stream) < *position);
        let compacted =
            self.shard.cleaning.compacted.iter().map(|(stream, at)| FlushWish::UpTo(*stream, *at));
        let retiring =
            self.shard.cleaning.retiring.iter().flat_map(|retiring| self.shard.wishes_of(retiring));
        let entering = self.shard.cleaning.entering.iter().flat_map(|survivors| &survivors.side.begun);
        let entering = entering.map(|segment| FlushWish::Whole(*segment));
        let moving = self.wishes_to_move.iter().copied();
        let wishes: Vec<FlushWish> =
            compacted.chain(entering).chain(retiring).chain(moving).chain(settling).collect();
        self.shard.replicator.want_flushed(wishes);
    }
}
