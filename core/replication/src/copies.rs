//! Copies closed segments again that have lost a replica with its backup: their order and rate.
//!
//! A few segments are copied at a time, those with the fewest replicas left first; all others wait and cost nothing.
//! The dead server is being recovered at the same time, and clients wait for the recovery. So segments that can lose
//! one more replica leave processors, networks and devices to the recovery for some seconds. An operator may bound the
//! bytes per second, so that clients' writes have the rest.
//!
//! Segments for which something waits are not handled here, and not bounded: heads, and side segments as long as a
//! recovery or a cleaning pass waits for them.
//!
//! Invariants:
//! - a segment is in one of three lists, or in none;
//! - at most `copies_max` segments are copied at a time, so at most that many messages per lost replica are
//!   outstanding;
//! - a segment with one replica left does not wait for a recovery, no segment waits for one longer than `YIELD_MAX`,
//!   and none waits when the master must clean;
//! - over any time, the bytes sent are at most those that the limit allows for that time and for `PAUSE_MAX`, and one
//!   message more.
//!
//! Not here: the messages (advance). Protocol: docs/protocols/replication.md, "Losing a backup". Catalogue: D6.

use crate::{Replicator, Segments};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::{Effects, Instant, Level, Mark, SegmentId, time::earliest};
use ramhold_wire::status::CopyingStatus;
use std::collections::BTreeSet;
use std::time::Duration;

/// Bytes that could have been sent in this time, and were not, are made up for. Those of earlier times are not.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// With a limit, a message takes at most a twentieth of the bytes of a second, or this if that is more.
const LIMITED_BYTES_MIN: u32 = 64 * 1024;
/// The pause for segments that no backup fits.
const UNFIT_PAUSE: Duration = Duration::from_millis(500);
/// The most waiting segments that are looked at for one that may be copied. Those that may not be wait for devices.
const LOOKED_AT_MAX: usize = 64;

/// Segments with at least this many replicas left wait for recoveries to end.
const YIELD_LEFT_MIN: usize = 2;
/// The longest time for which they wait, from when the first of these recoveries was seen in the server list.
const YIELD_MAX: Duration = Duration::from_secs(5);

/// The number of replicas left of a segment, and the segment. Those with the fewest come first.
type Turn = (usize, SegmentId);

#[derive(Debug, Default)]
pub(crate) struct Copies {
    waiting: BTreeSet<Turn>,
    running: BTreeSet<Turn>,
    /// Segments that wait because no backup fits them at present.
    unfit: BTreeSet<Turn>,
    unfit_until: Instant,
    /// The instant since when some server is being recovered.
    recovering_since: Option<Instant>,
    /// The master is short of memory or frames, and only whole segments can be cleaned.
    short: bool,
    /// It is short of frames.
    lacks_frames: bool,
    /// No message is sent before this instant.
    next: Instant,
    /// The instant since when there are segments to copy. `last`, `bytes` and `segments` count from then.
    begun: Option<Instant>,
    last: Instant,
    bytes: u64,
    segments: u64,
    bytes_total: u64,
}

impl Copies {
    /// Adds a segment that must be copied, with `left` replicas left. A segment that is being copied already stays so.
    pub fn wait(&mut self, now: Instant, segment: SegmentId, left: usize) {
        let is_running = self.is_running(segment);
        self.remove(segment);
        let turns = if is_running { &mut self.running } else { &mut self.waiting };
        turns.insert((left, segment));
        if self.begun.is_none() {
            (self.begun, self.last, self.bytes, self.segments) = (Some(now), now, 0, 0);
            self.next = self.next.max(now);
        }
    }

    /// Takes out a segment that is whole again.
    pub fn done(&mut self, segment: SegmentId) {
        self.segments += u64::from(self.is_running(segment));
        self.remove(segment);
    }

    /// Takes out a segment that is whole again, or gone.
    pub fn remove(&mut self, segment: SegmentId) {
        for turns in [&mut self.waiting, &mut self.running, &mut self.unfit] {
            turns_of(segment).for_each(|turn| {
                turns.remove(&turn);
            });
        }
    }

    /// The segments that are being copied, the most urgent first.
    pub fn running(&self) -> impl Iterator<Item = SegmentId> {
        self.running.iter().map(|(_, segment)| *segment)
    }

    pub fn is_running(&self, segment: SegmentId) -> bool {
        turns_of(segment).any(|turn| self.running.contains(&turn))
    }

    pub fn contains(&self, segment: SegmentId) -> bool {
        let lists = [&self.waiting, &self.running, &self.unfit];
        turns_of(segment).any(|turn| lists.iter().any(|turns| turns.contains(&turn)))
    }

    fn all(&self) -> impl Iterator<Item = SegmentId> {
        self.waiting.iter().chain(&self.unfit).chain(&self.running).map(|(_, segment)| *segment)
    }

    /// Whether one more segment may be copied though it lacks no replica: nothing waits that does. A master that is
    /// short of memory may be so for good, so one segment at a time moves there; the others can be cleaned. A move takes
    /// one more frame for a while.
    pub fn may_move(&self, now: Instant, copies_max: usize) -> bool {
        let most = if self.short { 1 } else { copies_max };
        !self.lacks_frames
            && self.waiting.is_empty()
            && self.unfit.is_empty()
            && self.running.len() < most
            && self.yields_until(now).is_none()
    }

    /// Whether a segment that lacks a replica waits for its turn.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Notes whether the server list has a server that is being recovered.
    pub fn tell_recovering(&mut self, now: Instant, is_recovering: bool) {
        self.recovering_since = is_recovering.then(|| self.recovering_since.unwrap_or(now));
    }

    /// The instant until which segments that can lose one more replica yield to a recovery.
    fn yields_until(&self, now: Instant) -> Option<Instant> {
        let until = self.recovering_since.map(|since| since + YIELD_MAX);
        until.filter(|until| *until > now && !self.short)
    }

    /// The instant from which the next message may be sent.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Notes that a message with `bytes` bytes is sent.
    pub fn sent(&mut self, now: Instant, bytes: u32, bytes_per_second: u64) {
        self.bytes += u64::from(bytes);
        self.bytes_total += u64::from(bytes);
        self.last = now;
        if bytes_per_second > 0 {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
            let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let missed = Instant(now.0.saturating_sub(PAUSE_MAX.as_nanos() as u64));
            self.next = self.next.max(missed) + cost;
        }
    }
}

fn turns_of(segment: SegmentId) -> impl Iterator<Item = Turn> {
    (0..=usize::from(REPLICA_COUNT_MAX) + 1).map(move |left| (left, segment))
}

/// The most bytes of a copy in one message.
pub(crate) fn message_bytes_max(append_bytes_max: u32, bytes_per_second: u64) -> u32 {
    if bytes_per_second == 0 {
        return append_bytes_max;
    }
    let share = u32::try_from(bytes_per_second / 20).unwrap_or(u32::MAX);
    share.max(LIMITED_BYTES_MIN).min(append_bytes_max)
}

impl Replicator {
    /// How long so many bytes take at the rate of copies; zero where that has no bound.
    pub fn copying_time(&self, bytes: u64) -> Duration {
        let rate = self.config.copy_bytes_per_second;
        if rate == 0 { Duration::ZERO } else { Duration::from_secs_f64(bytes as f64 / rate as f64) }
    }

    /// Notes whether the master is short of memory or frames and wants to clean, which needs whole segments.
    pub fn tell_short(&mut self, is_short: bool, lacks_frames: bool) {
        (self.copies.short, self.copies.lacks_frames) = (is_short, lacks_frames);
    }

    /// Lets the next segments begin to be copied.
    pub(crate) fn admit_copies(&mut self, now: Instant, log: &dyn Segments, effects: &mut Effects) {
        if self.copies.unfit_until <= now {
            let unfit = std::mem::take(&mut self.copies.unfit);
            self.copies.waiting.extend(unfit);
        } else if !self.copies.unfit.is_empty() {
            self.retry = earliest(self.retry, Some(self.copies.unfit_until));
        }
        let yields_until = self.copies.yields_until(now);
        let may_begin = |left: usize| yields_until.is_none() || left < YIELD_LEFT_MIN;
        if let (Some(until), Some((left, _))) = (yields_until, self.copies.waiting.last())
            && !may_begin(*left)
        {
            self.retry = earliest(self.retry, Some(until));
            if self.copies.bytes == 0 && self.copies.running.is_empty() {
                // The rate in status counts from the begin of the copying.
                (self.copies.begun, self.copies.last) = (Some(now), now);
            }
        }
        while self.copies.running.len() < self.config.copies_max {
            let mut first = self.copies.waiting.iter().take(LOOKED_AT_MAX);
            let Some(&turn) = first.find(|(left, id)| may_begin(*left) && self.may_copy(*id, log)) else {
                break;
            };
            self.copies.waiting.remove(&turn);
            self.copies.running.insert(turn);
        }
        if let Some(begun) = self.copies.begun.filter(|_| self.copies.all().next().is_none()) {
            self.copies.begun = None;
            let Copies { segments, bytes, .. } = self.copies;
            let took = now.since(begun).as_millis();
            let text = format!("{segments} segments were copied again: {bytes} bytes in {took} ms");
            effects.report(Level::Info, text);
            effects.mark(Mark::CopiedAgain);
        }
    }

    /// Puts off a segment that no backup fits, if none of its copies is under way, so that other segments are tried.
    pub(crate) fn put_off_copy(&mut self, now: Instant, id: SegmentId) {
        let segment = &self.segments[&id];
        let is_idle = segment.places.iter().all(|place| place.backup.is_none() || place.closed);
        if is_idle && self.copies.is_running(id) {
            self.copies.remove(id);
            if self.copies.unfit.is_empty() {
                self.copies.unfit_until = now + UNFIT_PAUSE;
            }
            self.copies.unfit.insert((segment.replicas_left(), id));
            self.retry = earliest(self.retry, Some(self.copies.unfit_until));
        }
    }

    /// The amount that is still to be copied again, and the rate.
    pub fn copying(&self, log: &dyn Segments) -> CopyingStatus {
        let copies = &self.copies;
        let missing = |id: SegmentId| {
            let length = log.tail(id).map_or(0, |tail| tail.length);
            let open = self.segments[&id].places.iter().filter(|place| !place.closed);
            open.map(|place| u64::from(length.saturating_sub(place.sent))).sum::<u64>()
        };
        let took = copies.begun.map_or(Duration::ZERO, |begun| copies.last.since(begun));
        let rate = u128::from(copies.bytes) * 1_000_000_000 / took.as_nanos().max(1);
        CopyingStatus {
            segments: copies.all().count() as u64,
            left_bytes: copies.all().map(missing).sum(),
            copied_bytes: copies.bytes_total,
            bytes_per_second: if took.is_zero() { 0 } else { u64::try_from(rate).unwrap_or(u64::MAX) },
            limit: self.config.copy_bytes_per_second,
        }
    }
}
