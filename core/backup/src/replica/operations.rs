//! The appends to one replica that are under way, and the contents of the replica after each of them.
//!
//! An operation is done when its data and every certificate up to it are written; one certificate may serve several
//! operations. Then it is answered, or it waits for the device if its replica is synced.
//!
//! Invariant: at most one certificate is being written.

use crate::request::Asker;
use ramhold_base::{ClusterTime, Epoch};
use ramhold_wire::data::Certificate;
use std::collections::VecDeque;

/// The most appends to one replica that wait for the disk. More are refused with `TooMany`.
const OPERATION_COUNT_MAX: usize = 256;

/// The contents of a replica at one of its three stages.
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
    pub asker: Asker,
}

/// The progress of a certificate for the first `count` operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Certifying {
    #[default]
    Idle,
    /// Without a buffer: the data is being synced. The certificate is written after that.
    DataSyncing { count: usize },
    /// The certificate is being written into this slot.
    SlotWriting { count: usize, slot: u8 },
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Operations that are not stored yet, in order.
    waiting: VecDeque<Operation>,
    /// The number of operations that are stored, which is also the number of the first in `waiting`.
    stored_count: u64,
    pub certifying: Certifying,
    /// Operations that are stored and wait for the device.
    pub unsynced: VecDeque<Operation>,
}

impl Operations {
    /// The number of appends accepted so far. If it is the same at two times, no append came between them.
    pub fn count(&self) -> u64 {
        self.stored_count + self.waiting.len() as u64
    }

    /// Whether every accepted append is stored.
    pub fn are_stored(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn are_full(&self) -> bool {
        self.waiting.len() + self.unsynced.len() >= OPERATION_COUNT_MAX
    }

    /// Enters an operation. Returns its number.
    pub fn push(&mut self, operation: Operation) -> u64 {
        let number = self.count();
        self.waiting.push_back(operation);
        number
    }

    pub fn data_written(&mut self, number: u64) {
        let index = number - self.stored_count;
        self.waiting[index as usize].data_written = true;
    }

    /// The number of operations, from the first one, whose data is written.
    pub fn written_count(&self) -> usize {
        self.waiting.iter().take_while(|operation| operation.data_written).count()
    }

    /// Whether one of the first `count` operations needs a certificate.
    pub fn need_slot(&self, count: usize) -> bool {
        self.waiting.iter().take(count).any(|operation| operation.slot_needed)
    }

    /// The contents after the first `count` operations.
    pub fn after(&self, count: usize) -> Held {
        self.waiting[count - 1].after
    }

    /// Takes the oldest operation, which is stored now.
    pub fn take_stored(&mut self) -> Operation {
        self.stored_count += 1;
        self.waiting.pop_front().expect("an operation waits until it is stored")
    }

    /// Ends all operations, because the device has failed. Returns those who wait for an answer.
    pub fn fail(&mut self) -> Vec<Asker> {
        self.certifying = Certifying::Idle;
        let all = self.unsynced.drain(..).chain(self.waiting.drain(..));
        all.map(|operation| operation.asker).collect()
    }

    pub fn check_invariants(&self) {
        match self.certifying {
            Certifying::SlotWriting { count, .. } => assert!(count <= self.waiting.len()),
            Certifying::DataSyncing { .. } | Certifying::Idle => {}
        }
    }
}
