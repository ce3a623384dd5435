//! Segments of a brick's log that its device has from an earlier life.
//!
//! They are closed and whole: the backup serves only when everything that it has found is on the device. Nothing is sent
//! for them. They are freed like all others when cleaning has moved what they hold.
//!
//! Not here: reading them (core/brick). Catalogue: I6.

use crate::segment::{Place, Segment};
use crate::{Free, Replicator, Tail};
use ramhold_base::{Epoch, Instant, SegmentId, ServerId, StreamId};

impl Replicator {
    /// Takes over a segment of a stream. `epoch` and `length` are those of its replica on this server's own backup.
    pub fn adopt(&mut self, stream: StreamId, segment: SegmentId, epoch: Epoch, length: u32, me: ServerId) {
        assert!(self.config.is_own, "only a brick's log is taken over");
        let place = Place {
            backup: Some(me),
            touched: true,
            sent: length,
            sent_epoch: Some(epoch),
            sent_close: true,
            certified: length,
            epoch: Some(epoch),
            closed: true,
            flushed: length,
            opened: Some(epoch),
            ..Place::empty()
        };
        let opening = Tail { length: 0, crc: 0, closed: true };
        let adopted = Segment {
            epoch,
            recorded: epoch,
            floor: length,
            places: vec![place],
            complete: true,
            was_complete: true,
            ..Segment::new(stream, false, 1, opening)
        };
        assert!(self.segments.insert(segment, adopted).is_none(), "a segment is adopted once");
        *self.primaries.entry(me).or_insert(0) += 1;
        self.replicated_count += 1;
    }

    /// Frees a replica of an earlier life that no head names.
    pub fn free_found(&mut self, stream: StreamId, segment: SegmentId, epoch: Epoch, me: ServerId) {
        assert!(self.config.is_own, "only a brick's log is taken over");
        self.frees.push(Free { segment, stream, epoch, backup: me, was_head: false, next: Instant::ZERO });
    }
}
