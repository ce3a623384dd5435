//! The end of a tablet's rebuilding, when everything is decided and stored.
//!
//! ```text
//!   search: segments that may hold a dropped key, or stale records, must leave the log
//!     └─ tell: the bound, in the present head ─ await: the device has it, the segments are gone ─ over
//! ```
//!
//! The bound goes into the head that is there, so that tablets which are rebuilt one after the other take no frames. A next
//! head is opened only when the present one must leave itself, or is full.
//!
//! Invariants:
//! - it is over only when the bound and all that was stored are on the device, and no segment holds a dropped record or was
//!   cut: a later start would take it for the newest;
//! - it waits for no segment that is not closed by then: the head of an idle stream leaves for nobody.
//!
//! Not here: deciding and storing (`rebuild`, `stretch`). Protocol: docs/protocols/quorum.md, rules 16, 51, 80, 83.
//! Catalogue: I6.

use crate::dropped::Dropped;
use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Position, SegmentId, StreamId, TableId};
use ramhold_log::Purpose;
use ramhold_quorum::REBUILT_BOUND;
use ramhold_replication::FlushWish;
use ramhold_shard::CLOSING_SPARES;
use ramhold_wire::Step;
use ramhold_wire::brick_status::RebuildObstacle;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begin,
    /// Segments that may hold older records of dropped keys.
    Search(Vec<SegmentId>),
    Tell,
    /// Everything up to here must be on the device.
    Await(Position),
}

#[derive(Debug, Default)]
pub(crate) struct Closing {
    stage: Stage,
    /// Segments that must be gone. Those that others want to leave meanwhile are not among them.
    leaving: BTreeSet<SegmentId>,
}

/// The next thing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// The next step, when others have had the processor.
    Breathing,
    /// There is no room now.
    NoRoom(RebuildObstacle),
    /// The device and the cleaning are awaited.
    Waiting,
    Over,
}

impl Closing {
    /// `time`: the brick's time, in microseconds.
    pub fn advance(
        &mut self,
        step: &mut Step<'_>,
        (store, tables): (&mut Store, &Tables),
        (table, stream): (TableId, StreamId),
        time: u64,
    ) -> Closed {
        match &mut self.stage {
            Stage::Begin => {
                // Stamps that this brick stored and does not know may have been as far ahead as a repair may be.
                let bound = time.saturating_add(REBUILT_BOUND.as_micros() as u64);
                store.forget(if planted(Defect::QuorumRebuiltRefuses) { 0 } else { bound });
                self.stage = Stage::Search(self.begin(store, table, stream));
                Closed::Breathing
            }
            Stage::Search(unsearched) => {
                match unsearched.pop() {
                    None => self.stage = Stage::Tell,
                    Some(segment) => {
                        let dropped = store.dropped.get(&table);
                        let is_in = |dropped: &Dropped| dropped.is_in(&store.shard.log, table, segment);
                        if dropped.is_some_and(is_in) && !planted(Defect::QuorumDroppedStays) {
                            self.let_leave(store, segment);
                        }
                    }
                }
                Closed::Breathing
            }
            Stage::Tell => match self.tell(step, store, tables, stream) {
                None => {
                    let is_short = !store.shard.leaves_frames(CLOSING_SPARES);
                    store.clean_for_room(step, tables, Purpose::Freeing);
                    Closed::NoRoom(if is_short { RebuildObstacle::Frames } else { RebuildObstacle::Memory })
                }
                Some(end) => {
                    self.stage = Stage::Await(end);
                    Closed::Breathing
                }
            },
            Stage::Await(end) => {
                let is_there = store.is_on_device(FlushWish::UpTo(stream, *end));
                self.leaving.retain(|segment| store.shard.cleaning.must_leave.contains(segment));
                if !is_there || !self.leaving.is_empty() {
                    return Closed::Waiting;
                }
                store.dropped.remove(&table);
                Closed::Over
            }
        }
    }

    /// How far it is. Rises, but for segments that are found to have to leave.
    pub fn progress(&self) -> u64 {
        const PART: u64 = 1 << 32;
        match &self.stage {
            Stage::Begin => 0,
            Stage::Search(unsearched) => PART - unsearched.len() as u64,
            Stage::Tell => PART,
            Stage::Await(_) => 2 * PART - self.leaving.len() as u64,
        }
    }

    /// Notes the segments that are known to hold what must not be found again. Returns those that may.
    fn begin(&mut self, store: &mut Store, table: TableId, stream: StreamId) -> Vec<SegmentId> {
        let stale = store.stale.of(table, &store.shard.log);
        if !planted(Defect::QuorumStaleStays) {
            store.shard.cleaning.must_leave.extend(stale);
        }
        let log = &store.shard.log;
        // Some were cut, and some hold records that this rebuilding has dropped. A head of another stream is neither.
        let is_here = |segment: &&SegmentId| {
            log.segment(**segment).is_some_and(|segment| segment.closed || segment.stream == stream)
        };
        self.leaving.extend(store.shard.cleaning.must_leave.iter().filter(is_here));
        let own: Vec<SegmentId> =
            log.segments().filter(|segment| segment.stream == stream).map(|segment| segment.id).collect();
        match store.dropped.get(&table).map(Dropped::keys) {
            None => Vec::new(),
            Some(Some(_)) => own,
            Some(None) => {
                own.into_iter().for_each(|segment| self.let_leave(store, segment));
                Vec::new()
            }
        }
    }

    fn let_leave(&mut self, store: &mut Store, segment: SegmentId) {
        store.shard.cleaning.must_leave.insert(segment);
        self.leaving.insert(segment);
    }

    /// Tells the bound. Returns where that ends.
    fn tell(
        &mut self,
        step: &mut Step<'_>,
        store: &mut Store,
        tables: &Tables,
        stream: StreamId,
    ) -> Option<Position> {
        let head = store.shard.log.head_segment(stream);
        // The head that must leave is closed by the next one.
        if !head.is_some_and(|head| self.leaving.contains(&head))
            && let Ok(end) = store.shard.log.tell_bound(stream)
        {
            store.shard.appended = true;
            return Some(end);
        }
        // The segments that are to be cleaned then free frames.
        store.roll_sparing(step, tables, stream, CLOSING_SPARES)?;
        Some(store.shard.log.head_end(stream))
    }
}
