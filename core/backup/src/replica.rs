//! One replica in three stages: what was accepted, what outlives the process (stored), what is on the device (flushed).
//!
//! Appends become operations, in order. An operation is done when its data and every certificate up to it are written;
//! one certificate may serve several operations. Uncertified bytes may be dropped at any time: they do not exist. For a
//! *synced* replica, answers tell only what is on the device, and an append with a certificate is answered when that
//! certificate is on the device.
//!
//! Invariants:
//! - the certificate covers at most `length` bytes, `stored` is at most `accepted`;
//! - a closed replica has a certificate that covers all of it;
//! - at most one certificate is being written.

use crate::certificate::{Ring, Slot};
use crate::keys::ReplicaKey;
use crate::place::Place;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, ConnId, Epoch, Instant};
use ramhold_wire::Header;
use ramhold_wire::data::{AppendReply, Certificate};
use ramhold_wire::recovery::Opening;
use std::collections::VecDeque;

/// The contents of a replica at one of the three stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    /// Bytes without a gap.
    pub length: u32,
    pub certificate: Option<Certificate>,
    pub epoch: Epoch,
    pub closed: bool,
    pub primary: bool,
}

impl Held {
    pub fn certified(&self) -> u32 {
        self.certificate.map_or(0, |certificate| certificate.length)
    }

    pub fn certificate_crc(&self) -> u32 {
        self.certificate.map_or(0, |certificate| certificate.crc)
    }

    pub fn time(&self) -> ClusterTime {
        self.certificate.map_or(ClusterTime::default(), |certificate| certificate.time)
    }

    /// Whether a certificate slot would be the same for both.
    pub fn is_certified_like(&self, other: &Held) -> bool {
        Held { length: 0, ..*self } == Held { length: 0, ..*other }
    }
}

/// An accepted append that is not answered yet.
#[derive(Debug)]
pub(crate) struct Operation {
    pub data_written: bool,
    pub slot_needed: bool,
    pub after: Held,
    /// The append brought a certificate, so its answer is an acknowledgement.
    pub certifies: bool,
    pub header: Header,
    pub from: ConnId,
}

/// A flush under way, with the state that will be on the device when it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    pub target: Held,
    /// The replica goes on in its buffer.
    pub interim: bool,
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
    pub key: ReplicaKey,
    pub incarnation: u64,
    pub side: bool,
    /// Only bytes on the device count.
    pub synced: bool,
    /// The epoch at which the replica was opened.
    pub opened_epoch: Epoch,
    /// Found at start, or replaced by a newer opening: takes no appends.
    pub found: bool,
    pub buffer: Option<u32>,
    /// `None` only for a replica that was found in a buffer, while no frame is free.
    pub frame: Option<u32>,
    pub accepted: Held,
    /// Checksum of the first `accepted.length` bytes.
    pub crc: u32,
    pub stored: Held,
    pub operations: VecDeque<Operation>,
    /// The number of operations that are over, which is also the number of the first in `operations`.
    pub operations_over: u64,
    /// A certificate is being written for this many operations, into this slot.
    pub slot_writing: Option<(usize, u8)>,
    /// Without a buffer: the number of operations whose data is being synced. Their certificate is written after that.
    pub data_syncing: Option<usize>,
    /// Operations that are stored and wait for the device.
    pub unsynced: VecDeque<Operation>,
    /// Slots of the place that takes appends.
    pub ring: Ring,
    /// Slots of the frame while there is a buffer.
    pub frame_ring: Ring,
    pub flushed: Held,
    /// The copy on the device is complete, even if the buffers are lost.
    pub flushed_for_good: bool,
    pub flush: Option<Flush>,
    pub flush_due: Option<Instant>,
    /// Reads under way. The bytes stay in place until these are over.
    pub reads: u32,
    pub freeing: bool,
    /// The replica is being freed because its master is recovered.
    pub master_removed: bool,
    /// The number of heads being wiped.
    pub wiping: u8,
    pub cut: bool,
    pub corrupt: bool,
    pub opening: OpeningState,
}

impl Replica {
    /// The number of appends accepted so far. If it is the same at two times, no append came between them.
    pub fn append_count(&self) -> u64 {
        self.operations_over + self.operations.len() as u64
    }

    pub fn new(key: ReplicaKey, incarnation: u64, buffer: Option<u32>, frame: Option<u32>) -> Replica {
        Replica {
            key,
            incarnation,
            side: false,
            synced: false,
            opened_epoch: Epoch::default(),
            found: false,
            buffer,
            frame,
            accepted: Held::default(),
            crc: 0,
            stored: Held::default(),
            operations: VecDeque::new(),
            operations_over: 0,
            slot_writing: None,
            data_syncing: None,
            unsynced: VecDeque::new(),
            ring: Ring::default(),
            frame_ring: Ring::default(),
            flushed: Held::default(),
            flushed_for_good: false,
            flush: None,
            flush_due: None,
            reads: 0,
            freeing: false,
            master_removed: false,
            wiping: 0,
            cut: false,
            corrupt: false,
            opening: OpeningState::Unknown,
        }
    }

    /// The place of the newest bytes.
    pub fn place(&self) -> Place {
        match (self.buffer, self.frame) {
            (Some(buffer), _) => Place::Buffer(buffer),
            (None, Some(frame)) => Place::Frame(frame),
            (None, None) => panic!("a replica is somewhere"),
        }
    }

    /// Whether the replica exists for other servers: it has a certificate, and is neither corrupt nor being freed.
    pub fn is_reportable(&self) -> bool {
        !self.corrupt && !self.freeing && self.stored.certificate.is_some()
    }

    /// Whether no operation under way needs the places of the replica.
    pub fn is_quiet(&self) -> bool {
        self.operations.is_empty() && self.slot_writing.is_none() && self.flush.is_none() && self.reads == 0
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
            _ if !self.synced || planted(Defect::SyncedEarly) => self.stored,
            Some(_) => self.flushed,
            // A raised epoch is told only with a certificate that has it. The first certificate on the device may have
            // an older epoch.
            None => Held { certificate: None, closed: false, epoch: self.opened_epoch, ..self.stored },
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
        self.synced && is_behind && self.frame.is_some() && !planted(Defect::FenceToldUnsynced)
    }

    /// Acknowledged bytes that are not on the device.
    pub fn unflushed_bytes(&self) -> u32 {
        self.stored.certified().saturating_sub(self.flushed.certified())
    }

    /// A certificate slot for `held`. `None` if it has no certificate.
    pub fn slot(&self, held: &Held, place: Place, stamp: Stamp) -> Option<Slot> {
        held.certificate.map(|certificate| Slot {
            sequence: stamp.sequence,
            incarnation: self.incarnation,
            cluster: stamp.cluster,
            key: self.key,
            epoch: held.epoch,
            certificate,
            closed: held.closed,
            primary: held.primary,
            side: self.side,
            interim: stamp.interim,
            cut: self.cut,
            synced: self.synced,
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
        assert!(self.buffer.is_some() || self.frame.is_some());
        if let Some((count, _)) = self.slot_writing {
            assert!(count <= self.operations.len());
        }
    }
}

/// The fields of a slot that do not come from its replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub sequence: u64,
    pub cluster: ramhold_base::ClusterId,
    pub buffer_id: u64,
    pub interim: bool,
}
