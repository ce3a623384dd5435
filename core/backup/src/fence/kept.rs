//! Keeps in memory the openings that a fence will ask for, so that its answer waits for no device.
//!
//! A report has the opening of the newest closed replica of each stream. A device reads a replica whole, to verify it:
//! 80 ms for 8 MiB at 100 MB/s, once for each stream of the dead server. A server with neighbourhoods has many streams,
//! so a backup keeps what the first append of a replica told. It keeps the newest `KEPT_COUNT` segments of each stream:
//! the heads, and the newest closed one. Copies of older segments, made anew after a loss, push nothing out.
//!
//! Other openings are read from the device (openings): those of an earlier life's replicas, and those beyond `BYTES_MAX`.
//! The bytes of a replica whose opening was kept are verified only when a recovery master fetches them.
//!
//! Catalogue: F2, H5.

use crate::content::{SegmentStart, is_cut, segment_start};
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::Replica;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{LogId, SegmentId, ServerId, StreamId};
use ramhold_wire::recovery::Opening;
use std::collections::BTreeMap;

/// The most replicas of one stream whose openings are kept. A stream has one head, for a moment two, and heads that its
/// master makes anew.
const KEPT_COUNT: usize = 3;

/// The most memory for all openings that are kept.
const BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
struct Kept {
    segment: SegmentId,
    number: ReplicaNumber,
    /// The opening is among this many bytes of the replica.
    within: u32,
    opening: Opening,
}

impl Kept {
    fn bytes(&self) -> usize {
        size_of::<Kept>()
            + size_of_val(self.opening.digest.as_slice())
            + size_of_val(self.opening.stats.as_slice())
    }
}

/// The openings of the newest replicas of each stream.
#[derive(Debug, Default)]
pub(crate) struct KeptOpenings {
    /// The oldest segment of a stream comes first.
    streams: BTreeMap<(LogId, StreamId), Vec<Kept>>,
    bytes: usize,
}

impl KeptOpenings {
    /// A replica was opened with this data.
    pub fn keep(&mut self, number: ReplicaNumber, key: &ReplicaKey, data: &[u8]) {
        let SegmentStart::Sound(Some(opening)) = segment_start(data, key) else { return };
        if opening.stats.is_empty() && is_cut(data) {
            return; // The statistics may be in the next message.
        }
        let kept = Kept { segment: key.segment, number, within: data.len() as u32, opening };
        let stream = self.streams.entry((key.log, key.stream)).or_default();
        if stream.iter().any(|other| other.number == number) {
            return; // The message came again.
        }
        let is_older = stream.first().is_some_and(|oldest| kept.segment < oldest.segment);
        let leaves = stream.len() == KEPT_COUNT;
        if (leaves && is_older) || self.bytes + kept.bytes() > BYTES_MAX {
            return;
        }
        if leaves {
            self.bytes -= stream.remove(0).bytes();
        }
        self.bytes += kept.bytes();
        let at = stream.partition_point(|other| other.segment <= kept.segment);
        stream.insert(at, kept);
    }

    /// The opening of a replica, if it is kept and the replica's certificate covers it.
    pub fn opening(&self, replica: &Replica) -> Option<&Opening> {
        if planted(Defect::OpeningsNotKept) {
            return None;
        }
        let stream = self.streams.get(&(replica.key.log, replica.key.stream))?;
        let kept = stream.iter().find(|kept| kept.number == replica.number)?;
        (replica.stored.certified() >= kept.within).then_some(&kept.opening)
    }

    /// Forgets the openings of servers that are gone.
    pub fn forget(&mut self, is_gone: impl Fn(ServerId) -> bool) {
        self.streams.retain(|(log, _), stream| {
            let stays = !is_gone(log.server);
            if !stays {
                self.bytes -= stream.iter().map(Kept::bytes).sum::<usize>();
            }
            stays
        });
    }
}
