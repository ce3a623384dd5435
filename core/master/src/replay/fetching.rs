//! A recovery master's supply of records: which segments are asked for, where, in which order, and how what has come is
//! taken in.
//!
//! Each backup reads the primaries of a dead log newest first, ahead of demand, and all masters ask in that order, one
//! segment of each backup after the other: so no backup idles, each segment is read once for all, and what an older
//! segment holds of a key that was overwritten is mostly not taken in at all. Each master begins these rounds with other
//! backups, so that many masters set many backups to work at once. Several requests are under way; what has come waits
//! in a queue and is taken in a slice at a time, so that pings, clients and other replays have their turn.
//!
//! Invariants:
//! - requests under way and what has come and is not taken in are at most as many as configured;
//! - a segment is done only when every record of it has been taken in.
//!
//! Not here: what follows when all is taken in (`replay`). Protocol: docs/protocols/recovery.md, 5. Catalogue: F4, E4.

use super::{PartitionKey, PartitionReplay, Phase};
use crate::{Context, Master};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, LogId, Peer, ServerId, Status};
use ramhold_log::{AppendRefusal, INTAKE_SLICE_BYTES, IntakeStop, Purpose};
use ramhold_wire::recovery::{ReadTimes, RecoveryRead, RecoverySegment, ReplayTimes};
use ramhold_wire::{View, request};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A backup reads a whole segment from a device that others use too.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to leave a backup alone that has no room just now, and how long cleaning gets to make some here.
const PAUSE: Duration = Duration::from_millis(10);
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
    /// Asked for, or come and not taken in.
    Fetching,
    Done,
}

#[derive(Debug)]
struct Job {
    segment: RecoverySegment,
    state: JobState,
    source: usize,
    not_before: Instant,
}

/// Records that have come.
#[derive(Debug)]
struct Arrived {
    job: usize,
    records: Vec<u8>,
    /// What is before this is taken in.
    offset: usize,
}

#[derive(Debug)]
pub(super) struct Fetching {
    /// In the order in which they are asked for.
    jobs: Vec<Job>,
    queue: VecDeque<Arrived>,
    /// Memory of what was taken in, for what comes.
    spare: Vec<Vec<u8>>,
    /// Taking in waits for memory or for repair until then.
    paused_until: Option<Instant>,
    /// The first time at which a job that was put off may go on.
    refetch_at: Option<Instant>,
    memory_waits: u32,
    bytes: u64,
    times: ReplayTimes,
}

impl Fetching {
    /// `apart`: by so many backups this master begins each round behind the first.
    pub fn new(segments: Vec<RecoverySegment>, apart: usize) -> Fetching {
        let new = |segment| Job { segment, state: JobState::Todo, source: 0, not_before: Instant::ZERO };
        let mut jobs: Vec<Job> = segments.into_iter().map(new).collect();
        jobs.sort_by_key(|job| Reverse(job.segment.segment));
        // Each backup's newest, then each one's second newest, and so on.
        let mut counts: BTreeMap<Option<ServerId>, u32> = BTreeMap::new();
        let mut ranked: Vec<(u32, Job)> = Vec::with_capacity(jobs.len());
        for job in jobs {
            let rank = counts.entry(job.segment.sources.first().map(|source| source.backup)).or_default();
            ranked.push((*rank, job));
            *rank += 1;
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        for round in ranked.chunk_by_mut(|(rank, _), (next, _)| rank == next) {
            round.rotate_left(apart % round.len());
        }
        Fetching {
            jobs: ranked.into_iter().map(|(_, job)| job).collect(),
            queue: VecDeque::new(),
            spare: Vec::new(),
            paused_until: None,
            refetch_at: None,
            memory_waits: 0,
            bytes: 0,
            times: ReplayTimes::default(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| job.state == JobState::Done)
    }

    /// Whether something could be taken in now.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() && self.paused_until.is_none()
    }

    /// When to look again without any input.
    pub fn retry_at(&self) -> Option<Instant> {
        self.refetch_at.into_iter().chain(self.paused_until).min()
    }

    /// Bytes that were taken in.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of fetching alone.
    pub fn times(&self) -> ReplayTimes {
        self.times
    }

    fn put_off(&mut self, job: usize, now: Instant) {
        self.jobs[job].state = JobState::Todo;
        self.jobs[job].not_before = now + PAUSE;
    }

    fn next_source(&mut self, job: usize) {
        self.jobs[job].source += 1;
        self.jobs[job].state = JobState::Todo;
    }
}

impl Master {
    /// Keeps several requests outstanding, each to the best source that is left.
    pub(super) fn fetch_next(
        &mut self,
        now: Instant,
        key: PartitionKey,
        replay: &mut PartitionReplay,
        view: &View,
        effects: &mut Effects,
    ) {
        let jobs = &mut replay.fetching.jobs;
        let mut outstanding = jobs.iter().filter(|j| j.state == JobState::Fetching).count();
        let put_off = jobs.iter().filter(|j| j.state == JobState::Todo && j.not_before > now);
        replay.fetching.refetch_at = put_off.map(|j| j.not_before).min();
        for (index, job) in jobs.iter_mut().enumerate() {
            if outstanding >= self.config.fetches_max {
                return;
            }
            if job.state != JobState::Todo || job.not_before > now {
                continue;
            }
            while job
                .segment
                .sources
                .get(job.source)
                .is_some_and(|source| view.list.address(source.backup) != Some(source.address.0))
            {
                job.source += 1;
            }
            let Some(source) = job.segment.sources.get(job.source) else {
                let reason =
                    format!("no usable replica of {} of {} is left", job.segment.segment, job.segment.stream);
                return replay.fail(reason);
            };
            let fetch = Fetch { key, attempt: replay.attempt, job: index, source: job.source, asked: now };
            let rpc = self.calls.open(source.address.0, now, now + FETCH_TIMEOUT, Context::Fetch(fetch));
            let message = RecoveryRead {
                recovery: key.recovery,
                log: LogId { server: replay.crashed, shard: job.segment.shard },
                stream: job.segment.stream,
                segment: job.segment.segment,
                epoch: source.epoch,
                end: job.segment.end,
                partition: key.partition,
                ranges: replay.all.clone(),
            };
            request(effects, Peer::Addr(source.address.0), &view.to_server(source.backup), rpc, &message);
            job.state = JobState::Fetching;
            outstanding += 1;
        }
    }

    pub(crate) fn on_fetched(&mut self, now: Instant, fetch: Fetch, status: Status, body: &[u8]) {
        let Some(replay) = self.replays.get_mut(&fetch.key).filter(|replay| is_current(replay, fetch)) else {
            return;
        };
        let since_begun = micros(now.since(replay.begun));
        let fetching = &mut replay.fetching;
        match status {
            Status::Ok => {
                let Some((times, body)) = ReadTimes::split(body) else {
                    return fetching.next_source(fetch.job);
                };
                let sums = &mut fetching.times;
                if sums.fetches == 0 {
                    sums.first = since_begun;
                }
                sums.fetches += 1;
                sums.fetched = since_begun;
                sums.fetching += micros(now.since(fetch.asked));
                sums.reading += u64::from(times.reading);
                sums.waiting += u64::from(times.waiting);
                let mut records = fetching.spare.pop().unwrap_or_default();
                records.clear();
                records.extend_from_slice(body);
                fetching.queue.push_back(Arrived { job: fetch.job, records, offset: 0 });
            }
            Status::Retry | Status::TooMany | Status::NotReady => fetching.put_off(fetch.job, now),
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

    /// Takes in some of what has come.
    pub(super) fn take_in_slice(
        &mut self,
        now: Instant,
        replay: &mut PartitionReplay,
        view: &View,
        effects: &mut Effects,
    ) {
        if replay.fetching.paused_until.is_some_and(|until| until > now) {
            return;
        }
        replay.fetching.paused_until = None;
        let Some(mut arrived) = replay.fetching.queue.pop_front() else { return };
        let Arrived { job, records, offset } = &mut arrived;
        let before = *offset;
        let taken = self.log.take_in(&replay.intake, records, offset, INTAKE_SLICE_BYTES);
        replay.fetching.bytes += (*offset - before) as u64;
        match taken {
            Ok(count) => {
                replay.records += count;
                if *offset == records.len() {
                    replay.fetching.jobs[*job].state = JobState::Done;
                    replay.fetching.spare.push(arrived.records);
                } else {
                    replay.fetching.queue.push_front(arrived);
                }
            }
            Err(IntakeStop::Corrupt) if planted(Defect::CorruptPassedOver) => {
                replay.fetching.jobs[*job].state = JobState::Done;
            }
            Err(IntakeStop::Corrupt) => replay.fetching.next_source(*job),
            Err(IntakeStop::Refused(refusal)) => {
                replay.fetching.queue.push_front(arrived);
                self.on_refused(now, replay, refusal, view, effects);
            }
        }
        self.begin_side_segments(replay);
    }

    /// What was taken in stays; the rest waits for cleaning or for repair, if they can help.
    fn on_refused(
        &mut self,
        now: Instant,
        replay: &mut PartitionReplay,
        refusal: AppendRefusal,
        view: &View,
        effects: &mut Effects,
    ) {
        let may_help = match refusal {
            AppendRefusal::Unreadable(what) => self.unreadable(now, what, view, effects) == Status::Retry,
            AppendRefusal::OutOfMemory | AppendRefusal::HeadFull | AppendRefusal::TooLarge => {
                // The replicator has to know of all side segments before cleaning looks.
                self.begin_side_segments(replay);
                replay.fetching.memory_waits += 1;
                replay.fetching.memory_waits <= MEMORY_WAITS_MAX
                    && self.clean_for_room(now, Purpose::Ordinary, view, effects)
            }
        };
        if may_help {
            replay.fetching.paused_until = Some(now + PAUSE);
        } else if matches!(refusal, AppendRefusal::Unreadable(_)) {
            replay.fail("the recovery master's own memory is damaged");
        } else {
            replay.fail("not enough memory on the recovery master");
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
