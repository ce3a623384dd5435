//! Takes the records of a partition in, and keeps requests for more of them under way.
//!
//! The beginning of an answer is taken in from where it lies. The rest waits in a queue and is taken in slice by slice,
//! so that pings, clients and other partitions have their turn.
//!
//! Invariant: a segment is done only when every record of it has been taken in.
//!
//! Not here: which segment is asked for next, and where (`fetching`). Catalogue: F4, E4.

use super::fetching::{Arrivals, Arrived, JobState, PAUSE, micros};
use super::keeping::Turns;
use super::partition::{Partition, Phase};
use crate::calls::{Context, Fetch};
use crate::service::Service;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{LogId, Peer, Status};
use ramhold_log::{AppendRefusal, INTAKE_SLICE_BYTES, IntakeStop, Purpose};
use ramhold_placement::is_far;
use ramhold_wire::recovery::{ReadTimes, RecoveryRead};
use ramhold_wire::{Step, request};
use std::time::Duration;

/// The backup reads a whole segment from a device that others use too.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The index of the dead owner's own log among the logs.
const OWN_LOG: usize = 0;
/// Bytes of an answer that are taken in from where they lie, which spares their records a copy. The rest waits for its
/// turn. These bytes take some milliseconds at most, about as long as a backup takes to divide a segment.
const AT_ONCE_BYTES: usize = 2 << 20;
/// How often a recovery that finds no memory waits for cleaning before it gives up.
const MEMORY_WAITS_MAX: u32 = 500;

impl Partition {
    /// Keeps several requests under way, each to the best source that is left.
    pub fn fetch_next(&mut self, step: &mut Step<'_>, service: &mut Service) {
        self.fetching.take_up(step.now);
        while self.fetching.outstanding < service.config.fetches_max {
            let Some(index) = self.fetching.todo.first().copied() else { return };
            let job = &mut self.fetching.jobs[index];
            let address = loop {
                let Some(source) = job.sources.get(job.source) else {
                    let reason = format!("no usable replica of {} of {} is left", job.segment, job.stream);
                    return self.fail(reason);
                };
                match step.view.list.address(source.backup) {
                    Some(address) => break address,
                    None => (job.source, job.tells) = (job.source + 1, false),
                }
            };
            let source = job.sources[job.source];
            let fetch = Fetch {
                key: self.key,
                attempt: self.task.attempt,
                job: index,
                source: job.source,
                asked: step.now,
            };
            let rpc = service.calls.open(address, step.now, step.now + FETCH_TIMEOUT, Context::Fetch(fetch));
            let log = &self.fetching.logs[job.log];
            let message = RecoveryRead {
                recovery: log.recovery,
                log: LogId { server: log.crashed, shard: job.shard },
                stream: job.stream,
                segment: job.segment,
                epoch: source.epoch,
                end: job.end.unwrap_or(u32::MAX),
                partition: self.key.partition,
                ranges: if job.tells { log.ranges.clone() } else { Vec::new() },
                digest: log.digest,
                crashed: self.task.crashed,
            };
            request(step.effects, Peer::Addr(address), &step.view.to_server(source.backup), rpc, &message);
            self.fetching.begin(index);
        }
    }

    /// An answer of a backup.
    pub fn on_fetched(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        arrivals: &mut Arrivals,
        fetch: Fetch,
        (status, body): (Status, &[u8]),
    ) {
        if !self.is_current(fetch) {
            return;
        }
        let since_begun = micros(step.now.since(self.begun));
        let fetching = &mut self.fetching;
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
                let source = fetching.jobs[fetch.job].sources.get(fetch.source);
                if let Some(source) = source {
                    let bytes = body.len() as u64;
                    let distance = service.fetched.count(step.view, source.backup, bytes);
                    // Without places and zones there is nothing to tell.
                    if let Some(is_far) = is_far(step.view, source.backup) {
                        distance.add(sums.fetched_bytes.get_or_insert_default(), bytes);
                        sums.far_bytes = Some(sums.far_bytes.unwrap_or(0) + if is_far { bytes } else { 0 });
                    }
                }
                let mut offset = 0;
                let mut has_more = true;
                while has_more
                    && offset < AT_ONCE_BYTES
                    && self.fetching.may_take_in(step.now)
                    && matches!(self.phase, Phase::Fetching)
                {
                    has_more = self.take_in_some(step, service, (fetch.job, body, &mut offset));
                }
                if has_more {
                    let mut records = arrivals.take();
                    records.extend_from_slice(&body[offset..]);
                    self.fetching.queue.push_back(Arrived { job: fetch.job, records, offset: 0 });
                }
            }
            Status::Retry | Status::TooMany | Status::NotReady => fetching.put_off(fetch.job, step.now),
            Status::UnknownRanges => fetching.tell_ranges(fetch.job),
            _ => fetching.next_source(fetch.job),
        }
    }

    /// A request is made again, to the same backup.
    pub fn on_fetch_unheard(&mut self, fetch: Fetch) {
        if self.is_current(fetch) {
            self.fetching.again(fetch.job);
        }
    }

    /// A backup did not answer.
    pub fn on_fetch_failed(&mut self, fetch: Fetch) {
        if self.is_current(fetch) {
            self.fetching.next_source(fetch.job);
        }
    }

    /// Whether a request is the one that its job waits for.
    fn is_current(&self, fetch: Fetch) -> bool {
        let job = self.fetching.jobs.get(fetch.job);
        self.task.attempt == fetch.attempt
            && matches!(self.phase, Phase::Fetching)
            && job.is_some_and(|j| j.state == JobState::Fetching && j.source == fetch.source)
            && self.fetching.queue.iter().all(|arrived| arrived.job != fetch.job)
    }

    /// Takes in a slice of the answers that wait.
    pub fn take_in_slice(&mut self, step: &mut Step<'_>, service: &mut Service, arrivals: &mut Arrivals) {
        if self.fetching.paused_until.is_some_and(|until| until > step.now) {
            return;
        }
        self.fetching.paused_until = None;
        let Some(mut arrived) = self.fetching.queue.pop_front() else { return };
        let Arrived { job, records, offset } = &mut arrived;
        if self.take_in_some(step, service, (*job, records, offset)) {
            self.fetching.queue.push_front(arrived);
        } else {
            arrivals.give_back(arrived.records);
        }
    }

    /// Takes in a slice of a job's records from the offset on. True when some are left that can be tried later.
    fn take_in_some(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        (job, records, offset): (usize, &[u8], &mut usize),
    ) -> bool {
        let log = &mut service.shard.log;
        let (before, keys_before) = (*offset, log.key_count());
        let taken = log.take_in(&self.intake, records, offset, INTAKE_SLICE_BYTES);
        self.fetching.bytes += (*offset - before) as u64;
        self.fetching.key_count += log.key_count().saturating_sub(keys_before);
        let has_more = match taken {
            Ok(count) => {
                self.records += count;
                let has_more = *offset < records.len();
                if !has_more {
                    self.fetching.done(job);
                }
                has_more
            }
            Err(IntakeStop::Corrupt) if planted(Defect::CorruptPassedOver) => {
                self.fetching.done(job);
                false
            }
            Err(IntakeStop::Corrupt) => {
                self.fetching.next_source(job);
                false
            }
            Err(IntakeStop::Refused(refusal)) => {
                self.on_refused(step, service, refusal);
                true
            }
        };
        self.begin_side_segments(step.now, service, &Turns::FREE);
        has_more
    }

    /// A slice was refused. Its records that were taken in stay. The rest waits for cleaning or for repair, if that can
    /// help.
    fn on_refused(&mut self, step: &mut Step<'_>, service: &mut Service, refusal: AppendRefusal) {
        let may_help = match refusal {
            AppendRefusal::Unreadable(what) => service.unreadable(step, what) == Status::Retry,
            AppendRefusal::OutOfMemory | AppendRefusal::HeadFull | AppendRefusal::TooLarge => {
                // The replicator has to know all side segments before cleaning looks at them.
                self.begin_side_segments(step.now, service, &Turns::FREE);
                self.fetching.memory_waits += 1;
                self.fetching.memory_waits <= MEMORY_WAITS_MAX
                    && service.clean_for_room(step, Purpose::Ordinary)
            }
        };
        if may_help {
            self.fetching.paused_until = Some(step.now + PAUSE);
        } else if matches!(refusal, AppendRefusal::Unreadable(_)) {
            self.fail("the recovery master's own memory is damaged");
        } else {
            self.fail_for_room("not enough memory on the recovery master");
        }
    }
}
