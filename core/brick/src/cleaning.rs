//! Paces the cleaning of a brick's log, as a master does: writes pay, an idle brick goes on by itself.
//!
//! Superseded records above the bound keep their segments from being cleaned. If memory is short because of them, the
//! bound is raised, the oldest first: answers about such stamps are `Unknown` then, and nothing else is lost.
//!
//! Not here: the passes (core/shard), the bound (`store`). Rules: docs/protocols/cleaning.md. Catalogue: C4, C6.

use crate::store::{Owns, Store};
use crate::tables::Tables;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{SegmentId, StreamId};
use ramhold_log::Purpose;
use ramhold_shard::{IDLE_WORK, LogSegments, PRESSED_WORK};
use ramhold_wire::Step;

/// Segments whose stamps are forgotten for one write that finds no memory.
const FORGET_COUNT_MAX: usize = 4;

impl Store {
    pub fn pay(&mut self, step: &mut Step<'_>, tables: &Tables, bytes: u64) {
        if self.is_loading() {
            return;
        }
        if let Some(work) = self.shard.pay_for_cleaning(bytes) {
            self.clean(step, tables, work);
        }
    }

    pub fn clean_when_idle(&mut self, step: &mut Step<'_>, tables: &Tables) {
        if !self.is_loading() && self.shard.is_cleaning(step.now) {
            self.clean(step, tables, IDLE_WORK);
        }
    }

    /// Cleans for a write that found no memory, or no frame for a head. Returns whether it may help to try again now.
    pub fn clean_for_room(&mut self, step: &mut Step<'_>, tables: &Tables, purpose: Purpose) -> bool {
        if self.is_loading() {
            return false;
        }
        for _ in 0..FORGET_COUNT_MAX {
            self.shard.cleaning.press(purpose == Purpose::Freeing);
            self.clean(step, tables, PRESSED_WORK);
            self.shard.cleaning.press(false);
            if self.shard.has_room() {
                return true;
            }
            let is_under_way = self.shard.cleaning.active.is_some() || self.shard.cleaning.is_waiting();
            if is_under_way || !self.forget_for_room() {
                return false;
            }
            self.shard.cleaning.fruitless_until = None;
        }
        false
    }

    fn clean(&mut self, step: &mut Step<'_>, tables: &Tables, mut work: u64) {
        let expired = self.shard.clean(step, &Owns(tables), &mut work);
        assert!(expired.is_none(), "a value of a quorum table ends for all its bricks, not here");
        // Frames are short, and young stamps keep every segment from being cleaned.
        let is_idle = self.shard.cleaning.active.is_none() && !self.shard.cleaning.is_waiting();
        if is_idle && self.shard.lacks_frames() && self.forget_for_room() {
            self.shard.cleaning.fruitless_until = None;
        }
        self.advance_cleaning(step, tables);
        self.replicate_cleaning(step, tables);
    }

    /// Takes every waiting pass as far as the device allows.
    pub fn advance_cleaning(&mut self, step: &mut Step<'_>, tables: &Tables) {
        self.shard.enter_survivors(step, &Owns(tables));
        self.shard.retire_sources(step.effects);
        self.forget_flushed();
        if self.shard.cleaning.has_wishes() || !self.wanted.is_empty() {
            self.shard.want_flushed(self.wanted.iter().copied());
        }
    }

    /// Sends the entries that cleaning has appended.
    pub fn replicate_cleaning(&mut self, step: &mut Step<'_>, tables: &Tables) {
        while std::mem::take(&mut self.shard.appended) | std::mem::take(&mut self.shard.side_appended) {
            self.replicate(step);
            self.advance_cleaning(step, tables);
        }
    }

    pub fn replicate(&mut self, step: &mut Step<'_>) {
        self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
    }

    /// Rolls a stream to its next head, for a write. `None`: there is no memory for it, or no frame that cleaning can spare.
    pub fn roll_for(
        &mut self,
        step: &mut Step<'_>,
        tables: &Tables,
        stream: StreamId,
        purpose: Purpose,
    ) -> Option<SegmentId> {
        if !self.shard.may_take_frame(purpose) && !planted(Defect::QuorumLastFrameTaken) {
            return None;
        }
        self.shard.roll(step, stream, &Owns(tables))
    }

    /// Rolls a stream to its next head, for a rebuilding. `None`: there is no memory for it, or no frame beyond so many.
    pub fn roll_sparing(
        &mut self,
        step: &mut Step<'_>,
        tables: &Tables,
        stream: StreamId,
        spared: u64,
    ) -> Option<SegmentId> {
        if !self.shard.leaves_frames(spared) {
            return None;
        }
        self.shard.roll(step, stream, &Owns(tables))
    }
}
