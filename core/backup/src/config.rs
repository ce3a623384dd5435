//! What an operator, or the program that starts a backup, decides for it.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct BackupConfig {
    /// The length of a segment; a directory keeps the one it was made with.
    pub segment_bytes: u32,
    /// How many replicas may be held, from `--disk`; 0: this server takes none.
    pub frames_max: u32,
    /// How many frames are reserved on the device in one step, at least 1.
    pub frames_grow_by: u32,
    pub buffers: Buffers,
    /// The operator's word that the buffers outlive a loss of power: they then count as the device does.
    pub buffers_survive_power: bool,
    /// How long data may be only where it survives the process.
    pub flush_interval: Duration,
    /// Memory for divided segments of dead servers, at least one segment.
    pub recovery_cache_bytes: u64,
    /// Of that, what the system is to have found before a recovery needs it.
    pub found_cache_bytes: u64,
    /// How often masters are asked about replicas that were found at start.
    pub needed_interval: Duration,
    /// How status and warnings name the directory of the frames.
    pub directory: String,
    /// How status describes where acknowledged writes are held until flushed.
    pub mode: String,
}

/// Where acknowledged data is until it is on the device. The buffer file must be in memory (tmpfs) either way: its id
/// tells whether what the process left behind has survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    /// In the buffer file, with room for this many open replicas.
    Reserved { count: u32 },
    /// In the page cache of the frame file.
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
