//! Pieces of segments on their way to several backups: copied out of the log once, and sent to each backup from there.
//!
//! A recovery replicates hundreds of megabytes. If they were copied anew for every replica, they would be read R times
//! from memory that is in no cache any more.
//!
//! Invariants:
//! - a piece has the bytes of the log: pieces are only made of segments that were never whole on their backups, whose
//!   bytes do not change before that, and a segment's pieces are forgotten when a backup has refused its bytes;
//! - at most [`PIECE_COUNT_MAX`] pieces are kept, and none for long when nothing is sent.

use ramhold_base::{Instant, Recycled, SegmentId};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most pieces that are kept. A recovery master has about a dozen segments under way, and each replica of a segment
/// is at another offset.
const PIECE_COUNT_MAX: usize = 64;
/// The smallest piece. Smaller ones cost less to copy than to keep.
const PIECE_BYTES_MIN: u32 = 64 * 1024;

pub(crate) struct Pieces {
    /// Pieces that must still be sent to some replica, in the order in which they were copied.
    wanted: VecDeque<Piece>,
    memory: Recycled,
}

struct Piece {
    segment: SegmentId,
    from: u32,
    /// The number of replicas to which the piece must still be sent; at least one.
    wanted: usize,
    bytes: Arc<Vec<u8>>,
}

impl Pieces {
    pub fn new() -> Pieces {
        Pieces { wanted: VecDeque::new(), memory: Recycled::new(PIECE_COUNT_MAX) }
    }

    /// Bytes `from..to` of a segment, for one of `replica_count` replicas. `copy` appends them. `None` if they are too
    /// few, or there is only one replica.
    pub fn take(
        &mut self,
        now: Instant,
        segment: SegmentId,
        (from, to): (u32, u32),
        replica_count: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<Vec<u8>>> {
        if to - from < PIECE_BYTES_MIN || replica_count < 2 {
            return None;
        }
        let place = self.place(segment, from);
        if let Some(place) = place.filter(|place| self.wanted[*place].bytes.len() == (to - from) as usize) {
            let piece = &mut self.wanted[place];
            let bytes = Arc::clone(&piece.bytes);
            piece.wanted -= 1;
            if piece.wanted == 0 {
                self.give_up(place);
            }
            return Some(bytes);
        }
        if self.wanted.len() == PIECE_COUNT_MAX {
            self.give_up(0);
        }
        let mut bytes = self.memory.take(now);
        copy(&mut bytes);
        let bytes = Arc::new(bytes);
        self.wanted.push_back(Piece { segment, from, wanted: replica_count - 1, bytes: Arc::clone(&bytes) });
        Some(bytes)
    }

    /// The end of the piece that begins at `from`, so that the same piece is sent to another replica.
    pub fn end(&self, segment: SegmentId, from: u32) -> Option<u32> {
        self.place(segment, from).map(|place| from + self.wanted[place].bytes.len() as u32)
    }

    fn place(&self, segment: SegmentId, from: u32) -> Option<usize> {
        self.wanted.iter().position(|piece| (piece.segment, piece.from) == (segment, from))
    }

    fn give_up(&mut self, place: usize) {
        let piece = self.wanted.remove(place).expect("callers name one that is there");
        self.memory.keep(piece.bytes);
    }

    /// Forgets the pieces of a segment, because they may differ from the bytes that were appended.
    pub fn forget(&mut self, segment: SegmentId) {
        while let Some(place) = self.wanted.iter().position(|piece| piece.segment == segment) {
            self.give_up(place);
        }
    }

    /// Gives memory back when nothing was sent for a while.
    pub fn shrink(&mut self, now: Instant) {
        if self.memory.shrink(now) {
            self.wanted = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BYTES: u32 = PIECE_BYTES_MIN;

    fn take(pieces: &mut Pieces, segment: u64, from: u32, fill: u8) -> Arc<Vec<u8>> {
        let copy = |out: &mut Vec<u8>| out.resize(out.len() + BYTES as usize, fill);
        pieces
            .take(Instant(0), SegmentId(segment), (from, from + BYTES), 3, copy)
            .expect("it is large enough")
    }

    #[test]
    fn a_piece_is_copied_once_for_all_replicas_and_anew_for_whoever_comes_after_them() {
        let mut pieces = Pieces::new();
        for fill in 1..=3 {
            assert_eq!(take(&mut pieces, 7, 0, fill)[0], 1, "the first copy");
        }
        assert_eq!(take(&mut pieces, 7, 0, 4)[0], 4);
        assert_eq!(take(&mut pieces, 7, BYTES, 5)[0], 5);
        assert_eq!(pieces.end(SegmentId(7), BYTES), Some(2 * BYTES));
        assert_eq!((pieces.end(SegmentId(7), 1), pieces.end(SegmentId(8), BYTES)), (None, None));
        assert_eq!(take(&mut pieces, 8, 0, 6)[0], 6);
        let few = pieces.take(Instant(0), SegmentId(9), (0, BYTES - 1), 3, |_| unreachable!());
        assert_eq!(few, None);
    }

    #[test]
    fn memory_is_used_again_when_all_have_been_sent_it_and_not_before() {
        let mut pieces = Pieces::new();
        let taken: Vec<_> = (0..3).map(|_| take(&mut pieces, 7, 0, 1)).collect();
        let place = taken[0].as_ptr();
        let other = take(&mut pieces, 7, BYTES, 2);
        assert_ne!(other.as_ptr(), place, "three still send from the first");
        assert!(taken.iter().all(|bytes| bytes.iter().all(|byte| *byte == 1)));
        drop(taken);
        assert_eq!(take(&mut pieces, 7, 2 * BYTES, 3).as_ptr(), place);
        drop(other);
        assert_eq!(take(&mut pieces, 7, BYTES, 9)[0], 2, "two more want the second");
    }

    #[test]
    fn what_a_backup_refused_is_copied_anew() {
        let mut pieces = Pieces::new();
        take(&mut pieces, 7, 0, 1);
        take(&mut pieces, 8, 0, 2);
        pieces.forget(SegmentId(7));
        assert_eq!((take(&mut pieces, 7, 0, 3)[0], take(&mut pieces, 8, 0, 4)[0]), (3, 2));
    }

    #[test]
    fn so_many_are_kept_and_for_so_long() {
        let mut pieces = Pieces::new();
        for segment in 0..2 * PIECE_COUNT_MAX as u64 {
            take(&mut pieces, segment, 0, 1);
            assert!(pieces.wanted.len() <= PIECE_COUNT_MAX);
        }
        pieces.shrink(Instant(0));
        assert_eq!(pieces.wanted.len(), PIECE_COUNT_MAX);
        pieces.shrink(Instant(0) + Duration::from_secs(10));
        assert!(pieces.wanted.is_empty());
    }
}
