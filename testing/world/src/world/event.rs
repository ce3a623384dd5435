//! Future events, in order of time. Events of one time are in the order in which they were planned.

use super::pace::DeviceWork;
use crate::world::node::Pending;
use ramhold_base::{
    DiskError, DiskFile, DiskToken, Lost, SecretToken, SecretWork, StoreRequest, StoreResult, StoreToken,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One of the two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Caller,
    Callee,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Caller => Side::Callee,
            Side::Callee => Side::Caller,
        }
    }
}

#[derive(Debug)]
pub enum DiskWork {
    /// `applied`: the bytes have reached the file already, only the completion is to come.
    Write {
        file: DiskFile,
        offset: u64,
        bytes: u64,
        data: Vec<u8>,
        applied: bool,
    },
    Read {
        file: DiskFile,
        offset: u64,
        bytes: u32,
    },
    Copy {
        from: DiskFile,
        from_offset: u64,
        to: DiskFile,
        to_offset: u64,
        bytes: u32,
    },
    /// Makes the writes up to this number durable.
    Sync {
        file: DiskFile,
        through: u64,
    },
    Reserve {
        file: DiskFile,
        bytes: u64,
    },
    Fail {
        error: DiskError,
    },
}

impl DiskWork {
    /// The part of the work that keeps a device busy. Work on the buffers does not.
    pub fn on_device(&self) -> DeviceWork {
        match self {
            DiskWork::Read { bytes, .. } => DeviceWork::Read { bytes: u64::from(*bytes) },
            DiskWork::Copy { bytes, .. } => DeviceWork::Write { bytes: u64::from(*bytes) },
            DiskWork::Write { bytes, .. } => DeviceWork::Write { bytes: *bytes },
            DiskWork::Sync { .. } => DeviceWork::Sync,
            DiskWork::Reserve { .. } | DiskWork::Fail { .. } => DeviceWork::Write { bytes: 0 },
        }
    }
}

#[derive(Debug)]
pub enum StoreWork {
    /// Takes effect when it completes.
    Request(StoreRequest),
    /// Took effect when it was issued.
    Answer(StoreResult),
}

#[derive(Debug)]
pub enum Happening {
    /// The first byte of a frame towards this end of a connection is at a port of its way.
    Pass {
        connection: usize,
        side: Side,
        port: usize,
        bytes: Vec<u8>,
    },
    /// A frame reaches the host at this end of a connection.
    Arrive {
        connection: usize,
        side: Side,
        bytes: Vec<u8>,
    },
    /// This end of a connection learns that the connection is over.
    End {
        connection: usize,
        side: Side,
        how: Lost,
    },
    /// A process is free for its next input.
    Wake {
        node: usize,
        life: u64,
    },
    Timer {
        node: usize,
        life: u64,
    },
    /// The end of a turn that a process is in.
    TurnOver {
        node: usize,
        life: u64,
    },
    Disk {
        node: usize,
        life: u64,
        token: DiskToken,
        work: DiskWork,
    },
    Store {
        node: usize,
        life: u64,
        token: StoreToken,
        work: StoreWork,
    },
    /// Takes effect when it completes.
    Secret {
        node: usize,
        life: u64,
        token: SecretToken,
        work: SecretWork,
    },
    Input {
        node: usize,
        life: u64,
        pending: Pending,
    },
    Restart {
        node: usize,
    },
}

/// The heap holds places only, so that its moves stay small.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    slots: Vec<Option<Happening>>,
    free: Vec<u32>,
    sequence: u64,
}

impl Queue {
    pub fn push(&mut self, at: u64, happening: Happening) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 events wait at once")
        });
        self.slots[slot as usize] = Some(happening);
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, slot)));
    }

    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub fn pop(&mut self) -> Option<(u64, Happening)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        let happening = self.slots[slot as usize].take().expect("a slot in the heap is filled");
        Some((at, happening))
    }
}
