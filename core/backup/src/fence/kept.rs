//! Keeps in memory the openings that a fence will ask for, so that its answer waits for no device.
//!
//! A report has the opening of the newest closed replica of each stream. A device reads a replica whole, to verify it:
//! 80 ms for 8 MiB at 100 MB/s, once for each stream of the dead server. A server with neighbourhoods has many streams,
//! so a backup keeps what the first append of a replica told. It keeps the newest `KEPT_COUNT` replicas of each stream:
//! the heads, and the newest closed one.
//!
//! Other openings are read from the device (openings): those of an earlier life's replicas, and those beyond `BYTES_MAX`.
//! The bytes of a replica whose opening was kept are verified only when a recovery master fetches them.
//!
//! Catalogue: F2, H5.

use crate::content::{SegmentStart, segment_start};
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::Replica;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{LogId, ServerId, StreamId};
use ramhold_wire::recovery::Opening;
use std::collections::BTreeMap;

/// The most replicas of one stream whose openings are kept. A stream has one head, for a moment two, and heads that its
/// master makes anew.
const KEPT_COUNT: usize = 3;

/// The most memory for all openings that are kept.
const BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
struct Kept {
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
    /// The oldest replica of a stream comes first.
    streams: BTreeMap<(LogId, StreamId), Vec<Kept>>,
    bytes: usize,
}

impl KeptOpenings {
    /// A replica was opened with this data.
    pub fn keep(&mut self, number: ReplicaNumber, key: &ReplicaKey, data: &[u8]) {
        let SegmentStart::Sound(Some(opening)) = segment_start(data, key) else { return };
        let stream = self.streams.entry((key.log, key.stream)).or_default();
        if stream.iter().any(|kept| kept.number == number) {
            return; // The message came again.
        }
        if stream.len() == KEPT_COUNT {
            self.bytes -= stream.remove(0).bytes();
        }
        let kept = Kept { number, within: data.len() as u32, opening };
        if self.bytes + kept.bytes() <= BYTES_MAX {
            self.bytes += kept.bytes();
            stream.push(kept);
        }
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
