//! The multi-reads of a session that have not ended, and the frames that ask for their keys.
//!
//! Invariants:
//! - each key of a multi-read is settled, or is in exactly one frame, or has exactly one single read;
//! - a frame is there until it is answered, its connection is lost or its time is over, and no longer.
//!
//! Not here: sending frames and taking answers (`reading`). Catalogue: A5, E1.

use super::running::AttemptId;
use crate::keys::Keys;
use crate::operation::OperationId;
use crate::outcome::Objects;
use crate::tablets::Owner;
use ramhold_base::Instant;
use ramhold_base::map::FastMap;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Keys of all multi-reads under way, and their bytes: all of them may go out over one connection at once.
const KEYS_UNDER_WAY_MAX: usize = 64 * 1024;
const KEY_BYTES_UNDER_WAY_MAX: usize = 32 << 20;

#[derive(Default)]
pub struct Reads {
    pub under_way: FastMap<OperationId, UnderWay>,
    frames: FastMap<AttemptId, Frame>,
    /// When the time of each frame is over.
    timeouts: BTreeSet<(Instant, AttemptId)>,
    /// The multi-read of each single read, and the place of its key.
    pub single: FastMap<OperationId, (OperationId, u32)>,
    key_count: usize,
    key_bytes: usize,
}

pub struct UnderWay {
    pub keys: Keys,
    pub started: Instant,
    pub deadline: Instant,
    pub objects: Objects,
    pub unsettled: usize,
}

/// Keys of one multi-read that one owner is asked for.
pub struct Frame {
    pub of: OperationId,
    pub owner: Owner,
    pub places: Vec<u32>,
    pub timeout: Instant,
}

impl Reads {
    pub fn count(&self) -> usize {
        self.under_way.len()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.timeouts.first().map(|(at, _)| *at)
    }

    /// Whether so many keys of so many bytes may be under way beside those that are.
    pub fn has_room(&self, count: usize, bytes: usize) -> bool {
        self.key_count + count <= KEYS_UNDER_WAY_MAX && self.key_bytes + bytes <= KEY_BYTES_UNDER_WAY_MAX
    }

    pub fn begin(&mut self, id: OperationId, multi: UnderWay) {
        self.key_count += multi.keys.len();
        self.key_bytes += multi.keys.bytes();
        self.under_way.insert(id, multi);
    }

    /// Takes a multi-read out if all its keys are settled.
    pub fn take_settled(&mut self, id: OperationId) -> Option<UnderWay> {
        if self.under_way.get(&id)?.unsettled > 0 {
            return None;
        }
        let multi = self.under_way.remove(&id)?;
        self.key_count -= multi.keys.len();
        self.key_bytes -= multi.keys.bytes();
        Some(multi)
    }

    pub fn sent(&mut self, attempt: AttemptId, frame: Frame) {
        self.timeouts.insert((frame.timeout, attempt));
        self.frames.insert(attempt, frame);
    }

    /// Takes out a frame that is answered.
    pub fn take(&mut self, attempt: AttemptId) -> Option<Frame> {
        let frame = self.frames.remove(&attempt)?;
        self.timeouts.remove(&(frame.timeout, attempt));
        Some(frame)
    }

    /// Takes out the next frame whose time is over.
    pub fn take_timed_out(&mut self, now: Instant) -> Option<Frame> {
        let (_, attempt) = *self.timeouts.first().filter(|(at, _)| *at <= now)?;
        self.take(attempt)
    }

    /// Takes out all frames to this address, in the order of sending.
    pub fn take_to(&mut self, addr: SocketAddr) -> Vec<Frame> {
        let to_it = self.frames.iter().filter(|(_, frame)| frame.owner.addr == addr);
        let mut attempts: Vec<AttemptId> = to_it.map(|(attempt, _)| *attempt).collect();
        attempts.sort_unstable();
        attempts.into_iter().filter_map(|attempt| self.take(attempt)).collect()
    }

    pub fn check_invariants(&self) {
        let keys: usize = self.under_way.values().map(|multi| multi.keys.len()).sum();
        assert_eq!(keys, self.key_count);
        assert_eq!(self.frames.len(), self.timeouts.len());
        let asked: usize = self.frames.values().map(|frame| frame.places.len()).sum();
        let unsettled: usize = self.under_way.values().map(|multi| multi.unsettled).sum();
        assert_eq!(asked + self.single.len(), unsettled);
    }
}
