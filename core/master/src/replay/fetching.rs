//! The supply of records of a recovery master: which segments it asks for, where, and in which order.
//!
//! Each backup reads its primaries of a dead log newest first, ahead of demand. All masters ask in that order: by the
//! time at which each segment is expected to be read. So a backup with a faster device is asked for more segments. No
//! backup idles, each segment is read once for all masters, and most overwritten keys in older segments are not taken
//! in at all.
//!
//! The order falls into rounds of as many segments as there are backups. Each master begins the rounds at a different
//! place, so that many masters set many backups to work at once. Several requests are under way.
//!
//! Invariants:
//! - requests under way and answers that are not taken in yet are together at most `fetches_max`;
//! - a step looks only at segments to which something happens, however many there are.
//!
//! Not here: taking the records in (`taking`). Protocol: docs/protocols/recovery.md, 5. Catalogue: F4, E4.

use ramhold_base::{Instant, RecoveryId, SegmentId, ServerId, ShardId, StreamId};
use ramhold_wire::recovery::{
    EarlierLog, PartitionRange, RecoveryStream, ReplayTimes, SegmentSource, ranges_digest,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long to leave a backup alone that has no room just now. Also how long cleaning has to make room here.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// Scale for a number of segments divided by a speed, so that the resulting times are fine enough to compare.
const SPEED_SCALE: u64 = 1 << 32;
/// Memory that is kept, also between recoveries, for answers that have to wait: at most the log's memory divided by
/// `ARRIVAL_MEMORY_PART`, and at most `ARRIVAL_MEMORY_MAX`.
const ARRIVAL_MEMORY_PART: u64 = 64;
const ARRIVAL_MEMORY_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobState {
    Todo,
    /// It is asked for, or its answer has come and is not taken in yet.
    Fetching,
    Done,
}

/// A dead log that is read, with the ranges by which it is divided.
#[derive(Debug)]
pub(super) struct Source {
    pub crashed: ServerId,
    pub recovery: RecoveryId,
    /// The ranges of all partitions.
    pub ranges: Vec<PartitionRange>,
    pub digest: u64,
    pub streams: Vec<RecoveryStream>,
}

impl Source {
    pub fn new(
        crashed: ServerId,
        recovery: RecoveryId,
        ranges: Vec<PartitionRange>,
        streams: Vec<RecoveryStream>,
    ) -> Source {
        Source { crashed, recovery, digest: ranges_digest(&ranges), ranges, streams }
    }
}

impl From<EarlierLog> for Source {
    fn from(log: EarlierLog) -> Source {
        Source::new(log.crashed, log.recovery, log.ranges, log.streams)
    }
}

#[derive(Debug)]
pub(super) struct Job {
    /// The index of its log among the logs that are read.
    pub log: usize,
    pub shard: ShardId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub end: Option<u32>,
    pub sources: Vec<SegmentSource>,
    pub state: JobState,
    /// The index in `sources` of the source that is asked, or was asked last.
    pub source: usize,
    /// The backup does not know the ranges, and is told them with the next question.
    pub tells: bool,
}

/// Records of an answer that waits.
#[derive(Debug)]
pub(super) struct Arrived {
    pub job: usize,
    pub records: Vec<u8>,
    /// Everything before this offset is taken in.
    pub offset: usize,
}

#[derive(Debug)]
pub(super) struct Fetching {
    pub logs: Vec<Source>,
    /// The segments to fetch, in the order in which they are asked for.
    pub jobs: Vec<Job>,
    /// Jobs that may be asked for.
    pub todo: BTreeSet<usize>,
    /// Jobs that are not asked for again before an instant, in the order of these instants.
    pub put_off: VecDeque<(Instant, usize)>,
    /// The number of jobs that are `Fetching`, and of those that are `Done`.
    pub outstanding: usize,
    pub done_count: usize,
    pub queue: VecDeque<Arrived>,
    /// Until then taking in waits for memory or for repair.
    pub paused_until: Option<Instant>,
    pub memory_waits: u32,
    pub bytes: u64,
    pub own_bytes: u64,
    /// Keys that were not here before: all of them, and those that had come when the last segment was done.
    pub key_count: u64,
    pub keys_done: u64,
    pub times: ReplayTimes,
}

impl Fetching {
    /// `apart`: how many segments after the first this master begins each round. `read_speed`: of a backup's device, in
    /// megabytes per second; 0: not known.
    pub fn new(mut logs: Vec<Source>, apart: usize, read_speed: impl Fn(ServerId) -> u32) -> Fetching {
        let mut jobs: Vec<Job> = Vec::new();
        for (log, source) in logs.iter_mut().enumerate() {
            for RecoveryStream { shard, stream, segments } in std::mem::take(&mut source.streams) {
                jobs.extend(segments.into_iter().map(|segment| Job {
                    log,
                    shard,
                    stream,
                    segment: segment.segment,
                    end: segment.end,
                    sources: segment.sources,
                    state: JobState::Todo,
                    source: 0,
                    tells: false,
                }));
            }
        }
        // The newest log comes first. The later logs are those from which it was recovered itself.
        jobs.sort_by_key(|job| (job.log, Reverse(job.segment)));
        // Jobs are sorted by the time at which their backup is expected to have read them. With equal devices that is
        // each backup's newest segment, then each one's second newest, and so on.
        let mut counts: BTreeMap<Option<ServerId>, u64> = BTreeMap::new();
        let mut ranked: Vec<(u64, Job)> = Vec::with_capacity(jobs.len());
        for job in jobs {
            let backup = job.sources.first().map(|source| source.backup);
            let count = counts.entry(backup).or_default();
            *count += 1;
            let speed = backup.map_or(0, &read_speed).max(1);
            ranked.push((count.saturating_mul(SPEED_SCALE) / u64::from(speed), job));
        }
        ranked.sort_by_key(|(expected, _)| *expected);
        for round in ranked.chunks_mut(counts.len().max(1)) {
            round.rotate_left(apart % round.len());
        }
        Fetching {
            logs,
            todo: (0..ranked.len()).collect(),
            jobs: ranked.into_iter().map(|(_, job)| job).collect(),
            put_off: VecDeque::new(),
            outstanding: 0,
            done_count: 0,
            queue: VecDeque::new(),
            paused_until: None,
            memory_waits: 0,
            bytes: 0,
            own_bytes: 0,
            key_count: 0,
            keys_done: 0,
            times: ReplayTimes::default(),
        }
    }

    /// The dead servers whose logs are fetched.
    pub fn logs(&self) -> impl Iterator<Item = ServerId> {
        self.logs.iter().map(|log| log.crashed)
    }

    pub fn is_done(&self) -> bool {
        self.done_count == self.jobs.len()
    }

    /// The number of new keys that are expected from the segments that are left, if these are like the ones before.
    pub fn keys_expected(&self) -> u64 {
        let (done, left) = (self.done_count as u64, (self.jobs.len() - self.done_count) as u64);
        self.keys_done.saturating_mul(left).checked_div(done).unwrap_or(0)
    }

    /// Whether something could be taken in now.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() && self.paused_until.is_none()
    }

    /// Whether an answer that has just come can be taken in at once: no other answer waits, and nothing pauses taking
    /// in.
    pub fn may_take_in(&self, now: Instant) -> bool {
        self.queue.is_empty() && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When to look again without any input.
    pub fn retry_at(&self) -> Option<Instant> {
        let again_at = self.put_off.front().map(|(at, _)| *at);
        again_at.into_iter().chain(self.paused_until).min()
    }

    /// Bytes that were taken in.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that came from the log of the dead owner itself.
    pub fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    /// The times of fetching alone.
    pub fn times(&self) -> ReplayTimes {
        self.times
    }

    /// A job is no longer `Fetching`.
    pub fn leave(&mut self, job: usize, state: JobState) {
        let left = std::mem::replace(&mut self.jobs[job].state, state);
        assert!(left == JobState::Fetching, "only what is asked for ends");
        self.outstanding -= 1;
    }

    pub fn done(&mut self, job: usize) {
        self.leave(job, JobState::Done);
        self.done_count += 1;
        self.keys_done = self.key_count;
    }

    pub fn put_off(&mut self, job: usize, now: Instant) {
        self.leave(job, JobState::Todo);
        // All jobs are put off for the same time, so they stay in order.
        self.put_off.push_back((now + PAUSE, job));
    }

    pub fn again(&mut self, job: usize) {
        self.leave(job, JobState::Todo);
        self.todo.insert(job);
    }

    pub fn next_source(&mut self, job: usize) {
        self.leave(job, JobState::Todo);
        self.jobs[job].source += 1;
        self.jobs[job].tells = false;
        self.todo.insert(job);
    }

    /// The backup wants to be told the ranges.
    pub fn tell_ranges(&mut self, job: usize) {
        if self.jobs[job].tells {
            // The backup was told the ranges already.
            return self.next_source(job);
        }
        self.leave(job, JobState::Todo);
        self.jobs[job].tells = true;
        self.todo.insert(job);
    }

    /// Jobs that were put off until now may be asked for again. This is done even when no request can leave just now:
    /// otherwise the deadline would stay due.
    pub fn take_up(&mut self, now: Instant) {
        while let Some((_, job)) = self.put_off.pop_front_if(|(at, _)| *at <= now) {
            self.todo.insert(job);
        }
    }

    pub fn begin(&mut self, job: usize) {
        self.todo.remove(&job);
        self.jobs[job].state = JobState::Fetching;
        self.outstanding += 1;
    }
}

/// Memory of records that a recovery has taken in, to be used again for the next answers.
#[derive(Debug)]
pub(super) struct Arrivals {
    memory: Vec<Vec<u8>>,
    bytes_max: u64,
}

impl Arrivals {
    pub fn new(log_bytes: u64) -> Arrivals {
        let bytes_max = ARRIVAL_MEMORY_MAX.min(log_bytes / ARRIVAL_MEMORY_PART);
        Arrivals { memory: Vec::new(), bytes_max }
    }

    pub fn take(&mut self) -> Vec<u8> {
        let mut records = self.memory.pop().unwrap_or_default();
        records.clear();
        records
    }

    pub fn give_back(&mut self, records: Vec<u8>) {
        let kept = self.memory.iter().chain([&records]).map(Vec::capacity).sum::<usize>();
        if kept as u64 <= self.bytes_max {
            self.memory.push(records);
        }
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Epoch;
    use ramhold_wire::recovery::RecoverySegment;

    /// Segments 1, 2, ... of one stream: for each the backup that it is read from, and how fast that backup is. Returns
    /// the backups in the order in which they are asked by a master that begins `apart` segments after the first.
    fn asked_apart(primaries: &[(u64, u32)], apart: usize) -> Vec<u64> {
        let segments = (1..).zip(primaries).map(|(segment, (backup, _))| RecoverySegment {
            segment: SegmentId(segment),
            end: None,
            sources: vec![SegmentSource { backup: ServerId(*backup), epoch: Epoch(0) }],
        });
        let stream = RecoveryStream { shard: ShardId(0), stream: StreamId(1), segments: segments.collect() };
        let log = Source::new(ServerId(3), RecoveryId(1), Vec::new(), vec![stream]);
        let speeds: BTreeMap<u64, u32> = primaries.iter().copied().collect();
        let fetching = Fetching::new(vec![log], apart, |backup| speeds[&backup.raw()]);
        fetching.jobs.iter().map(|job| job.sources[0].backup.raw()).collect()
    }

    fn asked(primaries: &[(u64, u32)]) -> Vec<u64> {
        asked_apart(primaries, 0)
    }

    // F4, F11: with each at the same few first, a large cluster would work a few backups at a time.
    #[test]
    fn masters_begin_their_rounds_with_different_backups() {
        let primaries: Vec<(u64, u32)> = (0..36).map(|segment| (segment % 12, 500)).collect();
        let first = |apart| asked_apart(&primaries, apart)[..6].to_vec();
        let (one, other) = (first(0), first(6));
        assert!(one.iter().all(|backup| !other.contains(backup)), "{one:?} and {other:?}");
        let mut all = asked_apart(&primaries, 18);
        for round in all.chunks_mut(12) {
            round.sort_unstable();
            assert_eq!(round, (0..12).collect::<Vec<u64>>(), "each round asks every backup");
        }
    }

    // F4
    #[test]
    fn equal_backups_are_asked_in_turn_and_a_slow_one_less_often() {
        let equal = [(1, 500), (1, 500), (1, 500), (2, 500), (2, 500), (2, 500)];
        assert_eq!(asked(&equal), [2, 1, 2, 1, 2, 1]);
        let unknown = equal.map(|(backup, _)| (backup, 0));
        assert_eq!(asked(&unknown), [2, 1, 2, 1, 2, 1]);
        let unequal = [(1, 100), (1, 100), (1, 100), (2, 200), (2, 200), (2, 200), (2, 200)];
        assert_eq!(asked(&unequal), [2, 2, 1, 2, 2, 1, 1], "its k-th is expected at k times what one takes");
    }
}
