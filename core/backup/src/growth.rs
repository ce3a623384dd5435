//! Makes the frame file longer, as far as its device has room.
//!
//! Frames are reserved in steps. A step for which the device has no room is halved, down to one frame. If not even one
//! frame fits, the backup is *short of frames*: it reports that, hands out its remaining frames, and tries again every
//! `TRY_PAUSE` (1 s), for ever. A full device has not failed: room comes back when somebody removes a file.
//!
//! Invariants:
//! - at most one reservation is under way;
//! - a shortage ends only when the backup has a whole step of free frames, or all that it may have.
//!
//! Not here: which frames are free (space), what fails a device for good (disk).
//!
//! Protocol: docs/protocols/replication.md, "When a device is full". Catalogue: D3.

use crate::config::BackupConfig;
use crate::device::DeviceStep;
use crate::disk::Task;
use crate::place::{Place, place_bytes};
use crate::space::Space;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{DiskFile, Instant, Level, Mark};
use ramhold_wire::status::DiskFull;
use std::time::Duration;

/// The pause between a try that found no room for one frame and the next try. Writes that wait for frames go on at most
/// this long after there is room. A try costs the device one refused reservation.
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// The growth of the frame file.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Frames of a whole step, from the configuration.
    step_max: u32,
    /// Frames to ask for next: halved by a refusal, doubled by a success.
    step: u32,
    /// The reservation under way, if there is one: the number of frames that the file will then have.
    under_way: Option<u32>,
    shortage: Option<Shortage>,
}

/// The device had no room for one more frame.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    since: Instant,
    try_at: Instant,
    /// Bytes that the device had free at the last try.
    free_bytes: u64,
}

impl Growth {
    pub fn new(step_max: u32) -> Growth {
        Growth { step_max, step: step_max, under_way: None, shortage: None }
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub fn is_short(&self) -> bool {
        self.shortage.is_some()
    }

    /// The instant of the next try during a shortage.
    pub fn deadline(&self) -> Option<Instant> {
        if planted(Defect::GrowthNotTriedAgain) {
            return None;
        }
        self.shortage.filter(|_| self.under_way.is_none()).map(|shortage| shortage.try_at)
    }

    /// Whether more frames are wanted: half a step or less is free; during a shortage, less than a step is free.
    fn is_wanted(&self, space: &Space) -> bool {
        let free = u64::from(space.frames_free());
        let is_low = if self.is_short() {
            free < u64::from(self.step_max)
        } else {
            free * 2 <= u64::from(self.step_max)
        };
        is_low && space.frames < space.frames_max
    }

    /// The number of frames that the file should have, if it is time to reserve more.
    fn next(&self, now: Instant, space: &Space) -> Option<u32> {
        let is_due = self
            .shortage
            .is_none_or(|shortage| shortage.try_at <= now && !planted(Defect::GrowthNotTriedAgain));
        let may_begin = self.under_way.is_none() && is_due && self.is_wanted(space);
        may_begin.then(|| space.frames.saturating_add(self.step).min(space.frames_max))
    }

    fn grown(&mut self, now: Instant) {
        self.under_way = None;
        self.step = self.step.saturating_mul(2).min(self.step_max);
        if let Some(shortage) = &mut self.shortage {
            shortage.try_at = now;
        }
    }

    /// Notes that the device has no room for `asked` more frames. Returns whether a shortage begins with this.
    fn refused(&mut self, now: Instant, asked: u32, free_bytes: u64) -> bool {
        self.under_way = None;
        self.step = (asked / 2).max(1);
        if asked > 1 {
            return false;
        }
        let before = self.shortage;
        let since = before.map_or(now, |before| before.since);
        self.shortage = Some(Shortage { since, try_at: now + TRY_PAUSE, free_bytes });
        before.is_none()
    }
}

impl Growth {
    /// Reserves more frames when few are left, and ends a shortage when there are enough.
    pub fn advance(&mut self, space: &Space, step: &mut DeviceStep<'_>) {
        if !self.is_under_way() && !self.is_wanted(space) {
            self.end_shortage(space, step);
        }
        let Some(count) = self.next(step.now, space) else { return };
        self.under_way = Some(count);
        let bytes = Place::Frame(count).head_offset(step.config.segment_bytes);
        step.disk.reserve(Task::FramesReserve { count }, DiskFile::Frames, bytes, step.effects);
    }

    pub fn on_reserved(&mut self, count: u32, space: &mut Space, step: &DeviceStep<'_>) {
        self.grown(step.now);
        space.grown(count);
    }

    /// The device has no room for `count` frames in all. Other processes may take room at the same time.
    pub fn on_refused(&mut self, count: u32, free_bytes: u64, space: &Space, step: &mut DeviceStep<'_>) {
        if self.refused(step.now, count - space.frames, free_bytes) {
            step.effects.mark(Mark::BackupShortOfFrames);
            let full = self.full(step.now, space, step.config).expect("a shortage has just begun");
            step.effects.report(
                Level::Warn,
                format!(
                    "disk full: {full}; new replicas go to other backups, or writes wait: free space there, \
                     or start a server with another --dir"
                ),
            );
        }
    }

    fn end_shortage(&mut self, space: &Space, step: &mut DeviceStep<'_>) {
        if let Some(full) = self.full(step.now, space, step.config) {
            self.shortage = None;
            step.effects.mark(Mark::BackupFramesAgain);
            step.effects.report(
                Level::Info,
                format!(
                    "the disk of {} was full for {} s and has room again: {} frames are free",
                    full.directory,
                    full.since_millis / 1000,
                    full.frames_free
                ),
            );
        }
    }

    /// The state of a shortage, if there is one: since when it lasts, and what is left.
    pub fn full(&self, now: Instant, space: &Space, config: &BackupConfig) -> Option<DiskFull> {
        let shortage = self.shortage?;
        Some(DiskFull {
            since_millis: u64::try_from(now.since(shortage.since).as_millis()).unwrap_or(u64::MAX),
            free_bytes: shortage.free_bytes,
            wanted_bytes: u64::from(self.step_max) * place_bytes(config.segment_bytes),
            frames_free: u64::from(space.frames_free()),
            directory: config.directory.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000_000);

    /// A space with `frames` frames, all of them taken.
    fn space(frames: u32) -> Space {
        let mut space = Space::default();
        space.frames_max = 1000;
        space.grown(frames);
        while space.take_frame().is_some() {}
        space
    }

    // D3
    #[test]
    fn a_step_is_halved_down_to_one_and_doubled_again() {
        let mut growth = Growth::new(16);
        let mut asked = Vec::new();
        while !growth.is_short() {
            let count = growth.next(NOW, &space(3)).expect("there are no free frames");
            asked.push(count - 3);
            growth.refused(NOW, count - 3, 0);
        }
        assert_eq!(asked, [16, 8, 4, 2, 1]);
        assert_eq!(growth.next(NOW, &space(3)), None, "not at once again");
        assert_eq!(growth.deadline(), Some(NOW + TRY_PAUSE));
        let later = NOW + TRY_PAUSE;
        for (frames, step) in [(3, 1), (4, 2), (6, 4), (10, 8), (18, 16), (34, 16)] {
            assert_eq!(growth.next(later, &space(frames)), Some(frames + step));
            growth.grown(later);
        }
    }

    // D3
    #[test]
    fn a_shortage_ends_with_a_whole_step_of_free_frames() {
        let mut growth = Growth::new(16);
        let mut space = space(20);
        (0..8).for_each(|frame| space.free_frame(frame));
        assert!(growth.is_wanted(&space));
        space.free_frame(8);
        assert!(!growth.is_wanted(&space), "more than half a step is enough");
        growth.refused(NOW, 1, 0);
        assert!(growth.is_wanted(&space));
        (9..16).for_each(|frame| space.free_frame(frame));
        assert!(!growth.is_wanted(&space));
    }
}
