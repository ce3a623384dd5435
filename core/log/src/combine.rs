//! Combined cleaning: the live entries of several segments go, oldest first, into a side log that replaces them.
//!
//! The sources are merged by the time of their next entry. Every head is written in order of time, and survivors are
//! sorted. So the merge sorts by age without a list, and entries that are likely to die together lie together.
//!
//! Invariants:
//! - sources are closed, of one stream, in no side log and in no other pass;
//! - until the pass is entered, the stream's digest names the sources and not the survivors; from the next roll on it
//!   names the survivors and not the sources;
//! - a source stays in memory until it is retired, because its replication may need it.
//!
//! Not here: replicating the side log, the time at which the sources may be retired (master).
//! Rules: docs/protocols/cleaning.md. Catalogue: C4, C6. Source: TUT15 Part III, SOSP11 2.5.

use crate::SideId;
use crate::log::{Log, Purpose};
use crate::moving::{Grant, HashOf, Moved, Source, Step};
use ramhold_base::{ClusterTime, SegmentId, StreamId};

/// A combined pass under way.
#[derive(Debug)]
pub struct Combined {
    stream: StreamId,
    side: SideId,
    sources: Vec<Source>,
    ids: Vec<SegmentId>,
    moved: Moved,
}

impl Combined {
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    pub fn side(&self) -> SideId {
        self.side
    }

    pub fn sources(&self) -> &[SegmentId] {
        &self.ids
    }

    pub fn moved(&self) -> Moved {
        self.moved
    }
}

impl Log {
    /// Begins a pass over segments that `choose` has named in the same turn.
    pub fn begin_combined(&mut self, stream: StreamId, ids: &[SegmentId], now: ClusterTime) -> Combined {
        let side = self.open_side_for_survivors(stream, now);
        let mut sources = Vec::with_capacity(ids.len());
        for id in ids {
            let slot = self.memory.segments.slot(*id).expect("only segments in memory are chosen");
            let segment = self.memory.segments.at_mut(slot);
            assert!(segment.closed && !segment.in_pass && segment.side.is_none());
            assert!(segment.stream == stream);
            segment.in_pass = true;
            sources.push(self.source(slot));
        }
        Combined { stream, side, sources, ids: ids.to_vec(), moved: Moved::default() }
    }

    /// Goes on copying. After `Done` the side log is closed.
    pub fn combined_step(&mut self, pass: &mut Combined, mut grant: Grant, hash_of: HashOf<'_>) -> Step {
        let floor = self.floor(Purpose::Cleaning);
        let side = pass.side;
        let mut room = |log: &mut Log, bytes: u32| log.side_room(side, bytes as usize, floor).ok();
        while grant.work > 0 {
            // The source with the oldest entry, and the age of the next best.
            let mut order: [(u32, usize); 2] = [(u32::MAX, usize::MAX); 2];
            for (at, source) in pass.sources.iter().enumerate() {
                let key = (source.time, at);
                if source.is_done() || key >= order[1] {
                    continue;
                }
                order[1] = key;
                order.sort_unstable();
            }
            let [(_, oldest), (until, _)] = order;
            let Some(source) = pass.sources.get_mut(oldest) else {
                self.close_side(side);
                return Step::Done;
            };
            let stopped = self.move_batch(source, until, &mut grant, &mut pass.moved, hash_of, &mut room);
            if let Some(step) = stopped {
                return step;
            }
        }
        Step::Working
    }

    /// Puts the survivors in the place of the sources: from the next roll on, the digest names the survivors. Roll at
    /// once.
    pub fn enter_combined(&mut self, pass: &Combined) {
        self.enter_side(pass.side);
        let stream = self.streams.get_mut(&pass.stream).expect("a stream outlives its passes");
        for id in &pass.ids {
            assert!(stream.remove(*id), "a source is in its stream until the pass is entered");
            let slot = self.memory.segments.slot(*id).expect("a source stays in memory until it is retired");
            self.memory.segments.at_mut(slot).is_leaving = true;
        }
    }

    /// Gives a source's memory back. No recovery may be able to read its replicas any more.
    pub fn retire(&mut self, id: SegmentId) {
        self.free_segment(id);
    }
}
