//! The copies of one opening of a segment that a start has found, and the replica that is made of them.
//!
//! A replica is *whole* if it is closed and its bytes match. An open replica is whole if the certificate found is
//! certainly the newest that was ever written to it:
//! - it is in an intact buffer, or
//! - it is in a frame, was written while the present buffers existed, and was not followed by one in a buffer, or
//! - the replica is *synced*, and it is the newest in the frame, because nothing beyond it was ever acknowledged.
//!
//! All other replicas are *cut*. A replica that was cut in an earlier life stays cut.
//!
//! Not here: finding the copies (scan). Catalogue: D1, F9.

use crate::certificate::{Head, Ring, Slot};
use crate::device::DeviceStep;
use crate::keys::ReplicaKey;
use crate::place::Place;
use crate::replica::operations::Held;
use crate::replica::{Opened, Places, Replica};
use ramhold_base::Level;
use ramhold_base::checksum::crc;
use std::collections::BTreeSet;

/// One opening of one segment: the segment, and the incarnation of the replica.
pub(crate) type CopiesKey = (ReplicaKey, u64);

/// One opening of one segment, as found in a buffer, in a frame, or in both.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub buffer: Option<(Place, Head)>,
    pub frame: Option<(Place, Head)>,
    pub buffer_candidate: Option<Candidate>,
    pub frame_candidate: Option<Candidate>,
}

/// The newest valid certificate of a place. Its data was verified if that was necessary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub place: Place,
    pub slot_index: u8,
    pub slot: Slot,
    pub is_whole: bool,
}

impl Copies {
    /// Makes the replica. `None` if no certificate matches its bytes. Places that the replica does not need become
    /// `junk`.
    pub fn replica(
        self,
        (key, incarnation): CopiesKey,
        junk: &mut BTreeSet<Place>,
        step: &mut DeviceStep<'_>,
    ) -> Option<Replica> {
        let Some(best) = self.best() else {
            self.lose(&key, junk, step);
            return None;
        };
        let slot = best.slot;
        let held = Held {
            length: slot.certificate.length,
            certificate: Some(slot.certificate),
            epoch: slot.epoch,
            closed: slot.closed,
            primary: slot.primary,
        };
        let ring = |newest: Option<u8>| Ring { newest, durable: newest, syncing: None };
        let frame = self.frame.as_ref().and_then(|(place, _)| frame_of(*place));
        let mut replica = Replica {
            opened: Opened { incarnation, side: slot.side, synced: slot.synced, ..Opened::default() },
            places: Places { frame, ring: ring(Some(best.slot_index)), ..Places::default() },
            accepted: held,
            stored: held,
            crc: slot.certificate.crc,
            cut: !best.is_whole,
            ..Replica::new(key)
        };
        match best.place {
            Place::Buffer(buffer) => {
                replica.places.buffer = Some(buffer);
                replica.places.frame_ring = ring(self.frame.map(|(_, head)| head.slots[0].0));
            }
            Place::Frame(_) => {
                replica.flushed = held;
                replica.flushing.is_for_good = true;
                junk.extend(self.buffer.map(|(place, _)| place));
            }
        }
        Some(replica)
    }

    /// The candidate that is whole; else the one with the most bytes.
    fn best(&self) -> Option<Candidate> {
        let both = [self.buffer_candidate, self.frame_candidate];
        let mut candidates = both.into_iter().flatten();
        let whole = candidates.clone().find(|candidate| candidate.is_whole);
        whole.or_else(|| {
            let first = candidates.next()?;
            Some(candidates.fold(first, |best, other| {
                let is_longer = other.slot.certificate.length > best.slot.certificate.length;
                if is_longer { other } else { best }
            }))
        })
    }

    fn lose(self, key: &ReplicaKey, junk: &mut BTreeSet<Place>, step: &mut DeviceStep<'_>) {
        let found = [self.buffer, self.frame].into_iter().flatten();
        let mut is_recent = false;
        for (place, head) in found {
            junk.insert(place);
            is_recent |= head.slots[0].1.buffer_id == step.directory.buffer_id;
        }
        let level = if is_recent { Level::Error } else { Level::Warn };
        step.effects.report(
            level,
            format!(
                "no certificate of the replica of {} {} {} matches its bytes",
                key.log, key.stream, key.segment
            ),
        );
    }
}

fn frame_of(place: Place) -> Option<u32> {
    match place {
        Place::Frame(frame) => Some(frame),
        Place::Buffer(_) => None,
    }
}

/// The newest slot of a head whose certificate matches the bytes.
pub(crate) fn candidate(
    place: Place,
    head: &Head,
    bytes: Option<&[u8]>,
    buffer_id: u64,
) -> Option<Candidate> {
    let bytes = bytes?;
    let matches = |slot: &Slot| {
        let covered = bytes.get(..slot.certificate.length as usize);
        covered.is_some_and(|covered| crc(covered) == slot.certificate.crc)
    };
    let at = head.slots.iter().position(|(_, slot)| matches(slot))?;
    let (slot_index, slot) = head.slots[at];
    let is_newest = at == 0 && !head.damaged;
    let is_last_word = match place {
        Place::Buffer(_) => true,
        Place::Frame(_) => slot.synced || (!slot.interim && slot.buffer_id == buffer_id),
    };
    let is_whole = !slot.cut && (slot.closed || (is_newest && is_last_word));
    Some(Candidate { place, slot_index, slot, is_whole })
}
