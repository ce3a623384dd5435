//! Wipes the replicas that are freed, and gives back buffers that are no longer needed.
//!
//! A replica that is completely on the device and takes no more appends, because it is closed or from an earlier life,
//! gives its buffer back.
//!
//! Invariant: a place is wiped when no operation under way needs it.
//!
//! Catalogue: D1, D7.

use crate::device::DeviceStep;
use crate::keys::ReplicaNumber;
use crate::place::Place;
use crate::replica::{Reason, Replica};
use crate::replicas::Replicas;
use crate::space::Space;
use crate::work::Works;
use ramhold_base::Mark;

impl Replicas {
    /// Takes the next step of every replica that may be ready for it.
    pub fn settle(&mut self, space: &mut Space, step: &mut DeviceStep<'_>) {
        while let Some(number) = self.settling.pop_first() {
            let Some(replica) = self.known_mut(number).filter(|replica| replica.is_quiet()) else { continue };
            if replica.leaving.is_some() {
                replica.wipe(space, step);
            } else if replica.needs_no_buffer() {
                replica.give_buffer_back(space, step);
            }
        }
    }

    /// A head of a replica that is being freed is wiped. The replica goes with its last head.
    pub fn on_wiped(&mut self, number: ReplicaNumber, works: &mut Works, step: &DeviceStep<'_>) {
        let leaving = self[number].leaving.as_mut().expect("only a freed replica's heads are wiped for it");
        leaving.heads_wiping -= 1;
        if leaving.heads_wiping > 0 {
            return;
        }
        let reason = leaving.reason;
        let gone = self.remove(number);
        match reason {
            Reason::NotNeeded => {}
            Reason::MasterRemoved => {
                let bytes = u64::from(gone.stored.certified());
                if let Some(work) = works.known(gone.key.log.server) {
                    work.free.end(step.now, Some(bytes));
                }
            }
        }
    }
}

impl Replica {
    /// Wipes the heads of a replica that is being freed.
    fn wipe(&mut self, space: &mut Space, step: &mut DeviceStep<'_>) {
        let leaving = self.leaving.as_mut().expect("only a freed replica is wiped");
        if leaving.heads_wiping > 0 {
            return;
        }
        let buffer = self.places.buffer.map(Place::Buffer);
        let frame = self.places.frame.map(Place::Frame);
        leaving.heads_wiping = u8::from(buffer.is_some()) + u8::from(frame.is_some());
        step.effects.mark(Mark::BackupReplicaFreed);
        for place in buffer.into_iter().chain(frame) {
            space.wipe(Some(self.number), place, step);
        }
    }

    fn needs_no_buffer(&self) -> bool {
        let is_final = self.flushed.closed || (self.found && self.flushing.is_for_good);
        is_final && self.flushed.is_certified_like(&self.stored)
    }

    fn give_buffer_back(&mut self, space: &mut Space, step: &mut DeviceStep<'_>) {
        if let Some(buffer) = self.places.buffer.take() {
            self.places.ring = self.places.frame_ring;
            step.effects.mark(Mark::BackupBufferGivenBack);
            space.wipe(None, Place::Buffer(buffer), step);
        }
    }
}
