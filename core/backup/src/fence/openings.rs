//! Reads the openings of a dead server's segments, which its report contains.
//!
//! Catalogue: F2.

use crate::content::{SegmentStart, segment_start};
use crate::device::DeviceStep;
use crate::disk::Task;
use crate::fence::kept::KeptOpenings;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::OpeningState;
use crate::replicas::Replicas;
use ramhold_base::{ServerId, ShardId, StreamId};
use std::collections::{BTreeMap, BTreeSet};

/// The most openings that are read at a time. Each read may bring a whole segment.
const READ_COUNT_MAX: u32 = 4;

/// The reads of openings under way, and the openings that need no read.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    reads: u32,
    pub kept: KeptOpenings,
}

/// The replicas whose openings are reported: every open one of the head order, and the newest closed one of each
/// stream.
pub(crate) fn wanted(server: ServerId, replicas: &Replicas) -> BTreeSet<ReplicaNumber> {
    let mut wanted = BTreeSet::new();
    let mut newest: BTreeMap<(ShardId, StreamId), (ReplicaKey, ReplicaNumber)> = BTreeMap::new();
    for replica in replicas.reportable_of(server).filter(|replica| !replica.opened.side) {
        if !replica.stored.closed {
            wanted.insert(replica.number);
            continue;
        }
        let this = (replica.key, replica.number);
        let stream = newest.entry((replica.key.log.shard, replica.key.stream)).or_insert(this);
        *stream = (*stream).max(this);
    }
    wanted.extend(newest.values().map(|(_, number)| *number));
    wanted
}

impl Openings {
    /// Reads the openings that are wanted and not known. Returns whether all of them are known.
    pub fn read(&mut self, server: ServerId, replicas: &mut Replicas, step: &mut DeviceStep<'_>) -> bool {
        let mut are_known = true;
        for number in wanted(server, replicas) {
            let replica = &mut replicas[number];
            if replica.opening == OpeningState::Unknown
                && let Some(opening) = self.kept.opening(replica)
            {
                replica.opening = OpeningState::Known(Some(opening.clone()));
            }
            match replica.opening {
                OpeningState::Known(_) => {}
                OpeningState::Reading => are_known = false,
                OpeningState::Unknown => {
                    are_known = false;
                    if self.reads < READ_COUNT_MAX {
                        self.reads += 1;
                        replica.opening = OpeningState::Reading;
                        replica.begin_read(Task::OpeningRead(number), step);
                    }
                }
            }
        }
        are_known
    }

    /// `None`: the read failed.
    pub fn on_read(
        &mut self,
        number: ReplicaNumber,
        bytes: Option<&[u8]>,
        replicas: &mut Replicas,
        step: &mut DeviceStep<'_>,
    ) {
        self.reads -= 1;
        let bytes = replicas.end_read(number, bytes, step.effects);
        let replica = &mut replicas[number];
        let opening = match bytes.map(|bytes| segment_start(bytes, &replica.key)) {
            Some(SegmentStart::Sound(opening)) => opening,
            Some(SegmentStart::Foreign) => {
                replica.mark_corrupt(step.effects);
                None
            }
            None => None,
        };
        replica.opening = OpeningState::Known(opening);
    }
}
