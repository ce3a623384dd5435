//! Places in a backup's life where a crash is interesting. They are reported so that a simulator can end the process
//! there.
//!
//! A mark is a report of level `Debug`. `MARKS` lists the marks at which a crash is interesting; others are only
//! counted.

use ramhold_base::{Effects, Level};

/// Events that a crash may catch half done.
pub const MARKS: [&str; 13] = [
    OPENED,
    DATA_WRITTEN,
    CERTIFICATE_WRITTEN,
    EPOCH_RAISED,
    FLUSH_COPIED,
    FLUSH_DATA_SYNCED,
    FLUSH_CERTIFIED,
    BUFFER_GIVEN_BACK,
    REPLICA_FREED,
    FENCE_ANSWERED,
    RANGES_TOLD,
    SEGMENT_DIVIDED,
    SUPERBLOCK_WRITTEN,
];

/// A replica exists in memory, and nothing of it is written.
pub(crate) const OPENED: &str = "mark:backup_opened";
/// Data is written that no certificate covers yet.
pub(crate) const DATA_WRITTEN: &str = "mark:backup_data_written";
/// A certificate is written and its answers are about to leave.
pub(crate) const CERTIFICATE_WRITTEN: &str = "mark:backup_certificate_written";
/// A certificate with a raised epoch is about to be written.
pub(crate) const EPOCH_RAISED: &str = "mark:backup_epoch_raised";
/// Flushed data is in the frame, and not certainly on the device yet.
pub(crate) const FLUSH_COPIED: &str = "mark:backup_flush_copied";
/// Flushed data is on the device, and its certificate is not.
pub(crate) const FLUSH_DATA_SYNCED: &str = "mark:backup_flush_data_synced";
/// Flushed data and its certificate are on the device.
pub(crate) const FLUSH_CERTIFIED: &str = "mark:backup_flush_certified";
/// The buffer of a closed replica is about to be emptied.
pub(crate) const BUFFER_GIVEN_BACK: &str = "mark:backup_buffer_given_back";
/// A replica is forgotten, and its certificates are about to be wiped.
pub(crate) const REPLICA_FREED: &str = "mark:backup_replica_freed";
/// The report on a dead server's replicas is about to be sent to a coordinator.
pub(crate) const FENCE_ANSWERED: &str = "mark:backup_fence_answered";
/// The ranges by which a dead server's log is divided are known, and nothing is read for them yet.
pub(crate) const RANGES_TOLD: &str = "mark:backup_ranges_told";
/// A dead server's segment is read and divided.
pub(crate) const SEGMENT_DIVIDED: &str = "mark:backup_segment_divided";
/// The superblock is written, and not certainly on the device yet.
pub(crate) const SUPERBLOCK_WRITTEN: &str = "mark:backup_superblock_written";

/// The device has no room for another frame. Nothing about a shortage is durable, so a crash here is like any other.
pub(crate) const SHORT_OF_FRAMES: &str = "mark:backup_short_of_frames";
/// After a shortage there are enough free frames again.
pub(crate) const FRAMES_AGAIN: &str = "mark:backup_frames_again";

pub(crate) fn mark(effects: &mut Effects, mark: &str) {
    effects.report(Level::Debug, mark);
}
