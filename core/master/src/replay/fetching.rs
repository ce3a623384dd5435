//! The supply of records of a recovery master: which segments it asks for, where, in which order, and how it takes the
//! records in.
//!
//! Each backup reads its primaries of a dead log newest first, ahead of demand. All masters ask in that order: by the
//! time at which each segment is expected to be read. So a backup with a faster device is asked for more segments. No
//! backup idles, each segment is read once for all masters, and most overwritten keys in older segments are not taken
//! in at all.
//!
//! The order falls into rounds of as many segments as there are backups. Each master begins the rounds at a different
//! place, so that many masters set many backups to work at once. Several requests are under way. The beginning of an
//! answer is taken in from where it lies. The rest waits in a queue and is taken in slice by slice, so that pings,
//! clients and other replays have their turn.
//!
//! Invariants:
//! - requests under way and answers that are not taken in yet are together at most `fetches_max`;
//! - a segment is done only when every record of it has been taken in;
//! - a step looks only at segments to which something happens, however many there are.
//!
//! Not here: everything after all records are taken in (`replay`). Protocol: docs/protocols/recovery.md, 5. Catalogue:
//! F4, E4.

use super::{PartitionKey, PartitionReplay, Phase};
use crate::{Context, Master};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, LogId, Peer, RecoveryId, SegmentId, ServerId, ShardId, Status, StreamId};
use ramhold_log::{AppendRefusal, INTAKE_SLICE_BYTES, IntakeStop, Purpose};
use ramhold_wire::recovery::{
    EarlierLog, PartitionRange, ReadTimes, RecoveryRead, RecoveryStream, ReplayTimes, SegmentSource,
    ranges_digest,
};
use ramhold_wire::{Step, request};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The backup reads a whole segment from a device that others use too.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The index of the dead owner's own log among the logs.
const OWN_LOG: usize = 0;
/// How long to leave a backup alone that has no room just now. Also how long cleaning has to make room here.
const PAUSE: Duration = Duration::from_millis(10);
/// Scale for a number of segments divided by a speed, so that the resulting times are fine enough to compare.
const SPEED_SCALE: u64 = 1 << 32;
/// Bytes of an answer that are taken in from where they lie, which spares their records a copy. The rest waits for its
/// turn. These bytes take some milliseconds at most, about as long as a backup takes to divide a segment.
const AT_ONCE_BYTES: usize = 2 << 20;
/// Memory that is kept, also between recoveries, for answers that have to wait: at most the log's memory divided by
/// `ARRIVAL_MEMORY_PART`, and at most `ARRIVAL_MEMORY_MAX`.
const ARRIVAL_MEMORY_PART: u64 = 64;
const ARRIVAL_MEMORY_MAX: u64 = 16 << 20;
/// How often a recovery that finds no memory waits for cleaning before it gives up.
const MEMORY_WAITS_MAX: u32 = 500;

/// One request for a segment's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    key: PartitionKey,
    attempt: u32,
    job: usize,
    source: usize,
    asked: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobState {
    Todo,
    /// It is asked for, or its answer has come and is not taken in yet.
    Fetching,
    Done,
}

/// A dead log that is read, with the ranges by which it is divided.
#[derive(Debug)]
pub(super) struct Source {
    crashed: ServerId,
    recovery: RecoveryId,
    /// The ranges of all partitions.
    ranges: Vec<PartitionRange>,
    digest: u64,
    streams: Vec<RecoveryStream>,
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
struct Job {
    /// The index of its log among the logs that are read.
    log: usize,
    shard: ShardId,
    stream: StreamId,
    segment: SegmentId,
    end: Option<u32>,
    sources: Vec<SegmentSource>,
    state: JobState,
    /// The index in `sources` of the source that is asked, or was asked last.
    source: usize,
    /// The backup does not know the ranges, and is told them with the next question.
    tells: bool,
}

/// Records of an answer that waits.
#[derive(Debug)]
struct Arrived {
    job: usize,
    records: Vec<u8>,
    /// Everything before this offset is taken in.
    offset: usize,
}

#[derive(Debug)]
pub(super) struct Fetching {
    logs: Vec<Source>,
    /// The segments to fetch, in the order in which they are asked for.
    jobs: Vec<Job>,
    /// Jobs that may be asked for.
    todo: BTreeSet<usize>,
    /// Jobs that are not asked for again before an instant, in the order of these instants.
    put_off: VecDeque<(Instant, usize)>,
    /// The number of jobs that are `Fetching`, and of those that are `Done`.
    outstanding: usize,
    done_count: usize,
    queue: VecDeque<Arrived>,
    /// Until then taking in waits for memory or for repair.
    paused_until: Option<Instant>,
    memory_waits: u32,
    bytes: u64,
    own_bytes: u64,
    /// Keys that were not here before: all of them, and those that had come when the last segment was done.
    key_count: u64,
    keys_done: u64,
    times: ReplayTimes,
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
    fn may_take_in(&self, now: Instant) -> bool {
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
    fn leave(&mut self, job: usize, state: JobState) {
        let left = std::mem::replace(&mut self.jobs[job].state, state);
        assert!(left == JobState::Fetching, "only what is asked for ends");
        self.outstanding -= 1;
    }

    fn done(&mut self, job: usize) {
        self.leave(job, JobState::Done);
        self.done_count += 1;
        self.keys_done = self.key_count;
    }

    fn put_off(&mut self, job: usize, now: Instant) {
        self.leave(job, JobState::Todo);
        // All jobs are put off for the same time, so they stay in order.
        self.put_off.push_back((now + PAUSE, job));
    }

    fn next_source(&mut self, job: usize) {
        self.leave(job, JobState::Todo);
        self.jobs[job].source += 1;
        self.jobs[job].tells = false;
        self.todo.insert(job);
    }

    /// The backup wants to be told the ranges.
    fn tell_ranges(&mut self, job: usize) {
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
    fn take_up(&mut self, now: Instant) {
        while let Some((_, job)) = self.put_off.pop_front_if(|(at, _)| *at <= now) {
            self.todo.insert(job);
        }
    }

    fn begin(&mut self, job: usize) {
        self.todo.remove(&job);
        self.jobs[job].state = JobState::Fetching;
        self.outstanding += 1;
    }
}

impl Master {
    /// Keeps several requests under way, each to the best source that is left.
    pub(super) fn fetch_next(
        &mut self,
        step: &mut Step<'_>,
        key: PartitionKey,
        replay: &mut PartitionReplay,
    ) {
        replay.fetching.take_up(step.now);
        while replay.fetching.outstanding < self.config.fetches_max {
            let Some(index) = replay.fetching.todo.first().copied() else { return };
            let job = &mut replay.fetching.jobs[index];
            let address = loop {
                let Some(source) = job.sources.get(job.source) else {
                    let reason = format!("no usable replica of {} of {} is left", job.segment, job.stream);
                    return replay.fail(reason);
                };
                match step.view.list.address(source.backup) {
                    Some(address) => break address,
                    None => (job.source, job.tells) = (job.source + 1, false),
                }
            };
            let source = job.sources[job.source];
            let fetch =
                Fetch { key, attempt: replay.attempt, job: index, source: job.source, asked: step.now };
            let rpc = self.calls.open(address, step.now, step.now + FETCH_TIMEOUT, Context::Fetch(fetch));
            let log = &replay.fetching.logs[job.log];
            let message = RecoveryRead {
                recovery: log.recovery,
                log: LogId { server: log.crashed, shard: job.shard },
                stream: job.stream,
                segment: job.segment,
                epoch: source.epoch,
                end: job.end.unwrap_or(u32::MAX),
                partition: key.partition,
                ranges: if job.tells { log.ranges.clone() } else { Vec::new() },
                digest: log.digest,
                crashed: replay.crashed,
            };
            request(step.effects, Peer::Addr(address), &step.view.to_server(source.backup), rpc, &message);
            replay.fetching.begin(index);
        }
    }

    pub(crate) fn on_fetched(&mut self, step: &mut Step<'_>, fetch: Fetch, (status, body): (Status, &[u8])) {
        let Some(mut replay) = self.replays.remove(&fetch.key) else { return };
        if is_current(&replay, fetch) {
            self.take_answer(step, fetch, &mut replay, (status, body));
        }
        self.replays.insert(fetch.key, replay);
    }

    fn take_answer(
        &mut self,
        step: &mut Step<'_>,
        fetch: Fetch,
        replay: &mut PartitionReplay,
        (status, body): (Status, &[u8]),
    ) {
        let since_begun = micros(step.now.since(replay.begun));
        let fetching = &mut replay.fetching;
        match status {
            Status::Ok => {
                let Some((times, body)) = ReadTimes::split(body) else {
                    return fetching.next_source(fetch.job);
                };
                if fetching.jobs[fetch.job].log == OWN_LOG {
                    fetching.own_bytes += body.len() as u64;
                }
                let sums = &mut fetching.times;
                if sums.fetches == 0 {
                    sums.first = since_begun;
                }
                sums.fetches += 1;
                sums.fetched = since_begun;
                sums.fetching += micros(step.now.since(fetch.asked));
                sums.reading += u64::from(times.reading);
                sums.waiting += u64::from(times.waiting);
                let mut offset = 0;
                let mut has_more = true;
                while has_more
                    && offset < AT_ONCE_BYTES
                    && replay.fetching.may_take_in(step.now)
                    && matches!(replay.phase, Phase::Fetching)
                {
                    has_more = self.take_in_some(step, replay, (fetch.job, body, &mut offset));
                }
                if has_more {
                    let mut records = self.arrival_memory.pop().unwrap_or_default();
                    records.clear();
                    records.extend_from_slice(&body[offset..]);
                    replay.fetching.queue.push_back(Arrived { job: fetch.job, records, offset: 0 });
                }
            }
            Status::Retry | Status::TooMany | Status::NotReady => fetching.put_off(fetch.job, step.now),
            Status::UnknownRanges => fetching.tell_ranges(fetch.job),
            _ => fetching.next_source(fetch.job),
        }
    }

    pub(crate) fn on_fetch_failed(&mut self, fetch: Fetch) {
        if let Some(replay) = self.replays.get_mut(&fetch.key)
            && is_current(replay, fetch)
        {
            replay.fetching.next_source(fetch.job);
        }
    }

    /// Takes in a slice of the answers that wait.
    pub(super) fn take_in_slice(&mut self, step: &mut Step<'_>, replay: &mut PartitionReplay) {
        if replay.fetching.paused_until.is_some_and(|until| until > step.now) {
            return;
        }
        replay.fetching.paused_until = None;
        let Some(mut arrived) = replay.fetching.queue.pop_front() else { return };
        let Arrived { job, records, offset } = &mut arrived;
        if self.take_in_some(step, replay, (*job, records, offset)) {
            replay.fetching.queue.push_front(arrived);
        } else {
            let kept = self.arrival_memory.iter().chain([&arrived.records]).map(Vec::capacity).sum::<usize>();
            if kept as u64 <= ARRIVAL_MEMORY_MAX.min(self.config.log_bytes / ARRIVAL_MEMORY_PART) {
                self.arrival_memory.push(arrived.records);
            }
        }
    }

    /// Takes in a slice of a job's records from the offset on. True when some are left that can be tried later.
    fn take_in_some(
        &mut self,
        step: &mut Step<'_>,
        replay: &mut PartitionReplay,
        (job, records, offset): (usize, &[u8], &mut usize),
    ) -> bool {
        let (before, keys_before) = (*offset, self.shard.log.key_count());
        let taken = self.shard.log.take_in(&replay.intake, records, offset, INTAKE_SLICE_BYTES);
        replay.fetching.bytes += (*offset - before) as u64;
        replay.fetching.key_count += self.shard.log.key_count().saturating_sub(keys_before);
        let has_more = match taken {
            Ok(count) => {
                replay.records += count;
                let has_more = *offset < records.len();
                if !has_more {
                    replay.fetching.done(job);
                }
                has_more
            }
            Err(IntakeStop::Corrupt) if planted(Defect::CorruptPassedOver) => {
                replay.fetching.done(job);
                false
            }
            Err(IntakeStop::Corrupt) => {
                replay.fetching.next_source(job);
                false
            }
            Err(IntakeStop::Refused(refusal)) => {
                self.on_refused(step, replay, refusal);
                true
            }
        };
        self.begin_side_segments(step.now, replay);
        has_more
    }

    /// A slice was refused. Its records that were taken in stay. The rest waits for cleaning or for repair, if that can
    /// help.
    fn on_refused(&mut self, step: &mut Step<'_>, replay: &mut PartitionReplay, refusal: AppendRefusal) {
        let may_help = match refusal {
            AppendRefusal::Unreadable(what) => self.unreadable(step, what) == Status::Retry,
            AppendRefusal::OutOfMemory | AppendRefusal::HeadFull | AppendRefusal::TooLarge => {
                // The replicator has to know all side segments before cleaning looks at them.
                self.begin_side_segments(step.now, replay);
                replay.fetching.memory_waits += 1;
                replay.fetching.memory_waits <= MEMORY_WAITS_MAX
                    && self.clean_for_room(step, Purpose::Ordinary)
            }
        };
        if may_help {
            replay.fetching.paused_until = Some(step.now + PAUSE);
        } else if matches!(refusal, AppendRefusal::Unreadable(_)) {
            replay.fail("the recovery master's own memory is damaged");
        } else {
            replay.fail_for_room("not enough memory on the recovery master");
        }
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn is_current(replay: &PartitionReplay, fetch: Fetch) -> bool {
    let fetching = &replay.fetching;
    let job = fetching.jobs.get(fetch.job);
    replay.attempt == fetch.attempt
        && matches!(replay.phase, Phase::Fetching)
        && job.is_some_and(|j| j.state == JobState::Fetching && j.source == fetch.source)
        && fetching.queue.iter().all(|arrived| arrived.job != fetch.job)
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
