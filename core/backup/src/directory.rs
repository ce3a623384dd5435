//! The identity of the data directory in this life, and the sequence numbers of its certificate slots.
//!
//! Invariant: sequence numbers rise with every slot that is written in this directory, from life to life.
//!
//! Not here: reading and writing the superblock (superblock_file), its bytes (superblock).

use crate::superblock::{Identity, Superblock};
use ramhold_base::ClusterId;

#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// The durable contents of the superblock file.
    pub superblock: Option<Superblock>,
    /// The id of the buffers of this life. 0 until it is chosen.
    pub buffer_id: u64,
    /// The sequence number of the slot written last.
    sequence: u64,
}

/// The fields of a slot that do not come from its replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub sequence: u64,
    pub cluster: ClusterId,
    pub buffer_id: u64,
    pub interim: bool,
}

impl Directory {
    pub fn identity(&self) -> Option<Identity> {
        self.superblock.map(|superblock| superblock.identity())
    }

    pub fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Notes that this sequence number was used in an earlier life.
    pub fn used_sequence(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// The stamp of the next slot.
    pub fn stamp(&mut self, interim: bool) -> Stamp {
        Stamp {
            sequence: self.next_sequence(),
            cluster: self.superblock.map_or(ClusterId::NONE, |superblock| superblock.cluster),
            buffer_id: self.buffer_id,
            interim,
        }
    }
}
