//! Held heads: frames that backups hold for heads that are not rolled yet.
//!
//! A held head is opened on R backups with no bytes and no certificate. So it takes its frames, and does not exist for
//! any recovery of this log. When it is rolled, its opening and data are sent to these backups like those of any head.
//! If it is not rolled, it is abandoned.
//!
//! Invariants:
//! - a held head is not in the head order, has nothing certified, and never has its epoch raised.
//!
//! Not here: the reason to hold a head (master). Protocol: docs/protocols/recovery.md, step 6. Catalogue: F7.

use crate::segment::Segment;
use crate::{Replicator, Tail};
use ramhold_base::{Instant, SegmentId, StreamId};

impl Replicator {
    /// Makes R backups hold frames for a head of the stream with this id.
    pub fn hold_head(&mut self, stream: StreamId, segment: SegmentId) {
        let replicas =
            self.streams.get(&stream).expect("streams are added before their segments").class.replicas;
        let nothing = Tail { length: 0, crc: 0, closed: false };
        let held = Segment { held: true, ..Segment::new(stream, false, replicas, nothing) };
        assert!(self.segments.insert(segment, held).is_none(), "ids are given out once");
        self.replicated_count += u64::from(replicas > 0);
        self.active.insert(segment);
    }

    /// Whether R backups hold frames for this held head.
    pub fn is_held(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|segment| segment.held && segment.holds(0))
    }

    /// Whether the newest head of a stream is open on all its backups and recorded at the coordinator, and every head
    /// before it is durably closed. Then no head of the stream waits for a frame.
    pub fn is_head_open(&self, stream: StreamId) -> bool {
        let Some(stream) = self.streams.get(&stream) else { return false };
        let newest = stream.order.back().map(|head| &self.segments[head]);
        stream.order.len() == 1
            && stream.registered
            && newest.is_some_and(|head| head.holds(head.opening.length) && head.recorded == head.epoch)
    }

    /// The instant since when a head of the stream lacks a replica because backups have no room for it. `None` if no
    /// head does.
    pub fn head_refused_since(&self, stream: StreamId) -> Option<Instant> {
        let order = &self.streams.get(&stream)?.order;
        order.iter().filter_map(|head| self.refused_since(*head)).min()
    }
}
