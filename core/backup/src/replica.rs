//! One replica in three stages: what was accepted, what outlives the process (stored), what is on the device (flushed).
//!
//! Appends become operations, in order. Uncertified bytes may be dropped at any time: they do not exist. For a
//! *synced* replica, answers tell only what is on the device, and an append with a certificate is answered when that
//! certificate is on the device.
//!
//! Invariants:
//! - the certificate covers at most `length` bytes, `stored` is at most `accepted`;
//! - a closed replica has a certificate that covers all of it.
//!
//! Not here: the steps of an append (append) and of a flush (flush), the table of all replicas (replicas).

pub(crate) mod operations;

use crate::certificate::{Ring, Slot};
use crate::device::DeviceStep;
use crate::directory::Stamp;
use crate::disk::Task;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::place::Place;
use crate::replica::operations::{Certifying, Held, Operation, Operations};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Epoch, Instant, Level};
use ramhold_wire::data::AppendReply;
use ramhold_wire::recovery::Opening;

/// The facts of the opening of a replica, which stay the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opened {
    /// 0 until the replica has a place.
    pub incarnation: u64,
    /// The epoch at which the replica was opened.
    pub epoch: Epoch,
    pub side: bool,
    /// Only bytes on the device count.
    pub synced: bool,
}

/// The places of a replica, and the slots there that must not be overwritten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    pub buffer: Option<u32>,
    /// `None` only for a replica that was found in a buffer, while no frame is free.
    pub frame: Option<u32>,
    /// Slots of the place that takes appends.
    pub ring: Ring,
    /// Slots of the frame while there is a buffer.
    pub frame_ring: Ring,
    /// Reads under way. The bytes stay in place until these are over.
    pub reads: u32,
}

impl Places {
    /// The place of the newest bytes.
    pub fn newest(&self) -> Place {
        match (self.buffer, self.frame) {
            (Some(buffer), _) => Place::Buffer(buffer),
            (None, Some(frame)) => Place::Frame(frame),
            (None, None) => panic!("a replica is somewhere"),
        }
    }
}

/// A flush under way, with the state that will be on the device when it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    pub target: Held,
    /// The replica goes on in its buffer.
    pub interim: bool,
}

/// The way of a replica to the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushing {
    pub due: Option<Instant>,
    pub under_way: Option<Flush>,
    /// The copy on the device is complete, even if the buffers are lost.
    pub is_for_good: bool,
}

/// Why a replica is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Its master does not need it, or another replica takes its place.
    NotNeeded,
    /// Its master is recovered.
    MasterRemoved,
}

/// A replica that is being freed. It goes when its heads are wiped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub reason: Reason,
    /// The number of heads being wiped. 0 until no operation under way needs the places of the replica.
    pub heads_wiping: u8,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum OpeningState {
    #[default]
    Unknown,
    Reading,
    Known(Option<Opening>),
}

#[derive(Debug)]
pub(crate) struct Replica {
    /// 0 until the replica is in the table.
    pub number: ReplicaNumber,
    pub key: ReplicaKey,
    pub opened: Opened,
    /// Found at start, or replaced by a newer opening: takes no appends.
    pub found: bool,
    pub places: Places,
    pub accepted: Held,
    /// Checksum of the first `accepted.length` bytes.
    pub crc: u32,
    pub stored: Held,
    pub flushed: Held,
    pub operations: Operations,
    pub flushing: Flushing,
    pub leaving: Option<Leaving>,
    pub cut: bool,
    pub corrupt: bool,
    pub opening: OpeningState,
}

impl Replica {
    /// A replica of which nothing is held, and which has no place yet.
    pub fn new(key: ReplicaKey) -> Replica {
        Replica {
            number: ReplicaNumber(0),
            key,
            opened: Opened::default(),
            found: false,
            places: Places::default(),
            accepted: Held::default(),
            crc: 0,
            stored: Held::default(),
            flushed: Held::default(),
            operations: Operations::default(),
            flushing: Flushing::default(),
            leaving: None,
            cut: false,
            corrupt: false,
            opening: OpeningState::Unknown,
        }
    }

    /// Whether the replica exists for other servers: it has a certificate, and is neither corrupt nor being freed.
    pub fn is_reportable(&self) -> bool {
        !self.corrupt && !self.is_leaving() && self.stored.certificate.is_some()
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// The replica is to be wiped. No master waits for an answer about it.
    pub fn leave(&mut self, reason: Reason) {
        assert!(!self.is_leaving());
        self.leaving = Some(Leaving { reason, heads_wiping: 0 });
        self.operations.unsynced.clear();
    }

    /// Whether no operation under way needs the places of the replica.
    pub fn is_quiet(&self) -> bool {
        let is_slot_written = !matches!(self.operations.certifying, Certifying::SlotWriting { .. });
        self.operations.are_stored()
            && is_slot_written
            && self.flushing.under_way.is_none()
            && self.places.reads == 0
    }

    /// The answer to a master. `length`, from which the master goes on, is what the caller takes: the accepted or the
    /// stored length. All other fields are what counts (`told`).
    pub fn reply(&self, length: u32) -> AppendReply {
        let told = self.told();
        let (certified, epoch, closed) = (told.certified(), told.epoch, told.closed);
        AppendReply { length, certified, epoch, closed, flushed: self.flushed_bytes() }
    }

    /// The state that counts: what outlives the process; for a synced replica, what outlives a loss of power.
    fn told(&self) -> Held {
        match self.flushed.certificate {
            _ if !self.opened.synced || planted(Defect::SyncedEarly) => self.stored,
            Some(_) => self.flushed,
            // A raised epoch is told only with a certificate that has it. The first certificate on the device may have
            // an older epoch.
            None => Held { certificate: None, closed: false, epoch: self.opened.epoch, ..self.stored },
        }
    }

    /// Whether the replica has a certificate that counts.
    pub fn counts(&self) -> bool {
        self.told().certificate.is_some()
    }

    /// Whether an operation may be answered: everything that it certifies counts.
    pub fn has_reached(&self, operation: &Operation) -> bool {
        let (after, told) = (&operation.after, self.told());
        !operation.certifies
            || (told.certificate.is_some()
                && told.epoch >= after.epoch
                && told.certified() >= after.certified()
                && (told.closed || !after.closed))
    }

    /// The bytes that a loss of power would leave. 0 if they would be left with another epoch, or open although the
    /// replica is closed.
    pub fn flushed_bytes(&self) -> u32 {
        let told = self.told();
        let is_current = self.flushed.epoch == told.epoch && self.flushed.closed == told.closed;
        if planted(Defect::FlushedClaimed) {
            return self.stored.certified();
        }
        if is_current { self.flushed.certified() } else { 0 }
    }

    /// Whether this is a synced replica of which more will be on the device soon.
    pub fn awaits_device(&self) -> bool {
        let is_behind = self.is_reportable() && !self.stored.is_certified_like(&self.flushed);
        // A replica that was found in a buffer alone has no frame, and may wait for room for ever.
        let may_come = self.places.frame.is_some() && !planted(Defect::FenceToldUnsynced);
        self.opened.synced && is_behind && may_come
    }

    /// Acknowledged bytes that are not on the device.
    pub fn unflushed_bytes(&self) -> u32 {
        self.stored.certified().saturating_sub(self.flushed.certified())
    }

    /// Reads the certified bytes. They stay in place until the read is over.
    pub fn begin_read(&mut self, task: Task, step: &mut DeviceStep<'_>) {
        self.places.reads += 1;
        let place = self.places.newest();
        let offset = place.data_offset(step.config.segment_bytes);
        step.disk.read(task, place.file(), offset, self.stored.certified(), step.effects);
    }

    pub fn mark_corrupt(&mut self, effects: &mut Effects) {
        if !self.corrupt {
            self.corrupt = true;
            let key = self.key;
            effects.report(
                Level::Error,
                format!("the replica of {} {} {} is corrupt", key.log, key.stream, key.segment),
            );
        }
    }

    /// Writes a certificate slot for `held` at a place. Returns the slot's number.
    pub fn write_slot(
        &self,
        task: Task,
        (held, interim): (Held, bool),
        (place, ring): (Place, Ring),
        step: &mut DeviceStep<'_>,
    ) -> u8 {
        let stamp = step.directory.stamp(interim);
        let bytes = self.slot(&held, place, stamp).expect("only what is certified is written");
        let index = ring.next();
        let offset = place.slot_offset(step.config.segment_bytes, index);
        step.disk.write(task, place.file(), offset, &bytes.encode(), step.effects);
        index
    }

    /// A certificate slot for `held`. `None` if it has no certificate.
    fn slot(&self, held: &Held, place: Place, stamp: Stamp) -> Option<Slot> {
        held.certificate.map(|certificate| Slot {
            sequence: stamp.sequence,
            incarnation: self.opened.incarnation,
            cluster: stamp.cluster,
            key: self.key,
            epoch: held.epoch,
            certificate,
            closed: held.closed,
            primary: held.primary,
            side: self.opened.side,
            interim: stamp.interim,
            cut: self.cut,
            synced: self.opened.synced,
            buffer_id: stamp.buffer_id,
            place,
        })
    }

    pub fn check_invariants(&self) {
        for held in [&self.accepted, &self.stored, &self.flushed] {
            assert!(held.certified() <= held.length);
            if held.closed {
                assert!(held.certificate.is_some(), "a closed replica has a certificate");
                assert_eq!(held.certified(), held.length, "a closed replica is certified as a whole");
            }
        }
        assert!(self.stored.certified() <= self.accepted.certified());
        assert!(self.flushed.certified() <= self.stored.certified());
        assert!(self.flushed_bytes() <= self.flushed.certified(), "told as flushed is what the device has");
        assert!(self.stored.epoch <= self.accepted.epoch);
        assert!(self.places.buffer.is_some() || self.places.frame.is_some());
        self.operations.check_invariants();
    }
}
