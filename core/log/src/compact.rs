//! Compaction: the needed entries of a segment go into fewer seglets, in memory alone.
//!
//! The entries are copied into an *image*, which has the segment's id and is found by references only. The segment
//! itself stays as it is until the image is swapped in, because replication reads the segment by its id.
//!
//! Invariants:
//! - an image holds the opening, and all entries of its segment that are live or that a recovery needs;
//! - until the swap, the bytes found by the id are those whose certificate the backups hold;
//! - an image that was swapped in has a position (`copy_after`) up to which its stream must be on the devices before
//!   replicas may be made from the image.
//!
//! Not here: whether the segment is whole on its backups (master). Rules: docs/protocols/cleaning.md. Catalogue: C6.
//! Source: TUT15 Part III.

use crate::log::{Log, Purpose};
use crate::moving::{Grant, HashOf, Moved, Source, Step};
use crate::segment::Slot;
use ramhold_base::{SegmentId, StreamId};

/// A compaction under way.
#[derive(Debug)]
pub struct Compaction {
    id: SegmentId,
    stream: StreamId,
    source: Source,
    image: Option<Slot>,
    moved: Moved,
}

impl Compaction {
    pub fn segment(&self) -> SegmentId {
        self.id
    }

    pub fn stream(&self) -> StreamId {
        self.stream
    }

    pub fn moved(&self) -> Moved {
        self.moved
    }
}

impl Log {
    /// Begins with a segment that `choose` has named in the same turn.
    pub fn begin_compaction(&mut self, id: SegmentId) -> Compaction {
        let slot = self.memory.segments.slot(id).expect("only segments in memory are chosen");
        let segment = self.memory.segments.at_mut(slot);
        assert!(segment.closed && !segment.in_pass && segment.side.is_none());
        segment.in_pass = true;
        let stream = segment.stream;
        Compaction { id, stream, source: self.source(slot), image: None, moved: Moved::default() }
    }

    /// Goes on copying. Call it again until it returns `Done`.
    pub fn compaction_step(&mut self, pass: &mut Compaction, mut grant: Grant, hash_of: HashOf<'_>) -> Step {
        let floor = self.floor(Purpose::Cleaning);
        let image = match pass.image {
            Some(image) => image,
            None if self.damage_before(pass.source.slot, pass.source.offset).is_some() => {
                return Step::Damaged { segment: pass.id, offset: 0 };
            }
            None => match self.make_image(pass.source.slot, floor) {
                Some(image) => *pass.image.insert(image),
                None => return Step::NoMemory,
            },
        };
        let mut room =
            |log: &mut Log, bytes: u32| log.memory.reserve(image, bytes, floor).is_ok().then_some(image);
        while grant.work > 0 {
            if pass.source.is_done() {
                self.memory.segments.at_mut(image).closed = true;
                return Step::Done;
            }
            let stopped =
                self.move_batch(&mut pass.source, u32::MAX, &mut grant, &mut pass.moved, hash_of, &mut room);
            if let Some(step) = stopped {
                return step;
            }
        }
        Step::Working
    }

    /// Makes the image the segment, and gives the old seglets back. The segment must be whole on its backups. Every
    /// entry that was left out is dead because of something in the stream before its present end. So no replica is made
    /// from the image before the stream is on the devices up to that end.
    pub fn swap_compaction(&mut self, pass: Compaction) {
        let end = self.head_end(pass.stream);
        let image = pass.image.expect("a pass that is done has an image");
        let old = pass.source.slot;
        let before = self.memory.segments.at(old);
        assert!(before.indexed_count == 0, "everything that is indexed has moved");
        self.memory.swap_image(old, image);
        let segment = self.memory.segments.at_mut(image);
        segment.in_pass = false;
        segment.copy_after = end;
    }

    /// Makes an image with the segment's opening.
    fn make_image(&mut self, slot: Slot, floor: crate::memory::Floor) -> Option<Slot> {
        let opening_bytes = self.memory.segments.at(slot).opening_bytes;
        let image = self.memory.create_image(slot, opening_bytes, floor)?;
        self.memory.append_copy(image, slot, 0, opening_bytes, 0);
        Some(image)
    }
}
