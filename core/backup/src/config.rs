//! The configuration of a backup, from the operator or from the program that starts it.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct BackupConfig {
    /// The length of a segment. A directory keeps the length with which it was made.
    pub segment_bytes: u32,
    /// The most replicas held here, from `--disk`. With 0 this server takes no replicas.
    pub frames_max: u32,
    /// The number of frames that are reserved on the device in one step, at least 1.
    pub frames_grow_by: u32,
    pub buffers: Buffers,
    /// The operator guarantees that the buffers outlive a loss of power: they then count as the device does.
    pub buffers_survive_power: bool,
    /// The time that data of an open replica may be only where it survives the process, before it is flushed.
    pub flush_interval: Duration,
    /// Memory for divided segments of dead servers, at least one segment.
    pub recovery_cache_bytes: u64,
    /// The part of `recovery_cache_bytes` for which the system should have found memory before a recovery needs it.
    pub found_cache_bytes: u64,
    /// The interval at which masters are asked which of their replicas they need.
    pub needed_interval: Duration,
    /// The name of the directory of the frames in status and warnings.
    pub directory: String,
    /// The replicas are those of this process's own log, which keeps its id from life to life: no master is asked which
    /// of them it needs.
    pub is_own: bool,
    /// The description, in status, of the place of acknowledged writes until they are flushed.
    pub mode: String,
}

/// The place of acknowledged data until it is on the device. In both modes the buffer file must be in memory (tmpfs):
/// its id tells whether the data that the last process left behind has survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    /// The buffer file, with room for this many open replicas.
    Reserved { count: u32 },
    /// The page cache of the frame file.
    InFrames,
}

impl BackupConfig {
    pub(crate) fn check(&self) {
        assert!(self.segment_bytes >= 512, "a segment holds more than its header");
        assert!(self.frames_grow_by >= 1);
        assert!(self.recovery_cache_bytes >= u64::from(self.segment_bytes));
        assert!(!self.needed_interval.is_zero());
        if self.frames_max > 0 {
            assert!(self.buffers != Buffers::Reserved { count: 0 }, "without a buffer nothing can be opened");
        }
    }

    pub(crate) fn buffer_count(&self) -> u32 {
        match self.buffers {
            Buffers::Reserved { count } if self.frames_max > 0 => count,
            Buffers::Reserved { .. } | Buffers::InFrames => 0,
        }
    }
}
