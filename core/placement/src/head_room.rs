//! The number of neighbourhoods for which servers have room.
//!
//! A master keeps a head for each neighbourhood that it employs. The head takes one segment of its log, and a buffer on
//! each of R backups. A master knows its own buffers only, and takes its backups for servers like itself.
//!
//! Not here: which neighbourhoods there are (neighbourhoods). Protocol: docs/protocols/neighbourhoods.md, rule 2.

/// Buffers of a backup that are left for closed segments, which are being flushed.
pub const FLUSH_BUFFERS: u32 = 4;
/// A log has one neighbourhood at most for so many segments: heads are to be a small part of it.
const SEGMENTS_PER_HEAD: u32 = 4;

/// The bounds on the heads of one master in one class of streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadRoom {
    /// Replicas of heads for which a backup has buffers.
    buffered: u32,
    /// Heads for which the log has memory.
    in_memory: u32,
}

impl HeadRoom {
    /// No bound at all.
    pub const ANY: HeadRoom = HeadRoom { buffered: u32::MAX, in_memory: u32::MAX };

    /// `buffers`: those of a backup; none: it takes writes without buffers, and they bound nothing.
    pub fn new(buffers: Option<u32>, log_segments: u32) -> HeadRoom {
        HeadRoom {
            buffered: buffers.map_or(u32::MAX, |count| count.saturating_sub(FLUSH_BUFFERS).max(1)),
            in_memory: (log_segments / SEGMENTS_PER_HEAD).max(1),
        }
    }

    /// The most neighbourhoods that a master employs for segments of so many replicas.
    pub fn neighbourhoods_max(self, replicas: u8) -> usize {
        let buffered = self.buffered / u32::from(replicas.max(1));
        buffered.min(self.in_memory).max(1) as usize
    }

    /// Whether buffers are what bounds them, and not the log.
    pub fn is_bound_by_buffers(self, replicas: u8) -> bool {
        self.buffered / u32::from(replicas.max(1)) <= self.in_memory
    }
}

/// The buffers of a backup that are room for so many neighbourhoods.
pub fn buffers_for(neighbourhoods: u32, replicas: u8) -> u32 {
    neighbourhoods.saturating_mul(u32::from(replicas.max(1))).saturating_add(FLUSH_BUFFERS)
}

/// The segments of a log that are room for so many neighbourhoods.
pub fn log_segments_for(neighbourhoods: u32) -> u32 {
    neighbourhoods.saturating_mul(SEGMENTS_PER_HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    // H2: the example of docs/protocols/neighbourhoods.md.
    #[test]
    fn twelve_buffers_are_room_for_two_neighbourhoods_of_three_replicas() {
        let room = HeadRoom::new(Some(12), 1000);
        assert_eq!([1, 2, 3, 7].map(|replicas| room.neighbourhoods_max(replicas)), [8, 4, 2, 1]);
        assert_eq!(HeadRoom::new(Some(3), 1000).neighbourhoods_max(3), 1, "never none");
        assert!(room.is_bound_by_buffers(3));
    }

    #[test]
    fn a_small_log_has_few_neighbourhoods_whatever_the_buffers() {
        for buffers in [None, Some(32)] {
            let room = HeadRoom::new(buffers, 11);
            assert_eq!(room.neighbourhoods_max(3), 2);
            assert!(!room.is_bound_by_buffers(3));
        }
        assert_eq!(HeadRoom::new(None, 0).neighbourhoods_max(3), 1);
        assert_eq!(HeadRoom::ANY.neighbourhoods_max(7), u32::MAX as usize / 7);
    }

    /// A remedy's number is enough, and one less is not.
    #[test]
    fn a_remedy_is_enough() {
        for replicas in 1..=7 {
            for wanted in 2..=64 {
                let most = |buffers, segments| HeadRoom::new(buffers, segments).neighbourhoods_max(replicas);
                let (buffers, segments) = (buffers_for(wanted, replicas), log_segments_for(wanted));
                assert_eq!(most(Some(buffers), segments), wanted as usize);
                assert_eq!(most(Some(buffers - 1), segments), wanted as usize - 1);
                assert_eq!(most(None, segments - 1), wanted as usize - 1);
            }
        }
    }
}
