//! One partition of a dead log that is recovered to here, through its whole life.
//!
//! A partition is first *brought back*: its records are fetched, taken into side logs, and finished. Then it is *kept*:
//! its side segments are replicated, and the log's head names them. A partition that is told early is served between
//! the two, because the dead log still has everything; any other partition is served at the end. `Phase` says where in
//! this life a partition is, and nothing else does.
//!
//! ```text
//!   Fetching ── Finishing ──┬── ToldEarly ── Replicating (live) ── Entered (live) ── Over
//!        │          │       └── Replicating ── Entered ── Reporting ── (leaves)
//!        └──────────┴───────────────┴── Abandoning ── Failed ── (leaves)
//! ```
//!
//! Invariants: a partition that is entered is not abandoned; a live partition neither fails nor is reported.
//!
//! Not here: the supply of records (`fetching`, `taking`), replication of side segments and entering (`keeping`,
//! `entering`), other partitions (`replay`).

use super::fetching::{Arrivals, Fetching, micros};
use super::keeping::{Keeping, Turns};
use crate::calls::{Context, PartitionKey};
use crate::service::Service;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, Peer, SegmentId, ServerId, ShardId, StreamId, TableId, Version};
use ramhold_log::{Cursor, HashRange, Ranges, SideId};
use ramhold_wire::recovery::{Assignment, PartitionRange, Recovered, RecoveryOutcome, ReplayTimes};
use ramhold_wire::{Step, request};
use std::time::Duration;

const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// Index buckets that one turn of finishing or of abandoning looks at.
const SWEEP_BUCKETS: u64 = 4096;
/// Steps by which the index shrinks in one turn.
const INDEX_STEPS: u64 = 4096;

#[derive(Debug)]
pub(super) enum Phase {
    Fetching,
    /// Tombstones leave the index, one side log after the other.
    Finishing {
        side: usize,
        cursor: Cursor,
    },
    /// Everything is taken in and nothing is replicated. The coordinator has to agree.
    ToldEarly(Report),
    /// Side segments are being replicated. `is_live`: clients are served meanwhile.
    Replicating {
        is_live: bool,
    },
    /// Heads that name the side segments are being replicated.
    Entered {
        heads: Vec<(StreamId, SegmentId)>,
        is_live: bool,
    },
    /// Devices have the partition. The coordinator has to agree.
    Reporting(Report),
    /// Everything that was replayed leaves the index and the log again.
    Abandoning {
        side: usize,
        cursor: Cursor,
        failure: Failure,
    },
    /// The coordinator has to hear that the partition failed.
    Failed {
        report: Report,
        failure: Failure,
    },
    /// Everything that had to be done for a live partition is done.
    Over,
}

/// A report to the coordinator: when it is due, and whether its answer is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    next: Instant,
    asked: bool,
}

impl Report {
    fn due(now: Instant) -> Report {
        Report { next: now, asked: false }
    }
}

#[derive(Clone, Default, Debug)]
pub(super) struct Failure {
    pub reason: String,
    /// The cause was a lack of memory, or of frames on the backups.
    pub no_room: bool,
}

/// The task as the coordinator gave it, and where its data goes here.
#[derive(Debug)]
pub(super) struct Task {
    pub attempt: u32,
    pub crashed: ServerId,
    pub ranges: Vec<PartitionRange>,
    /// The stream of each range.
    pub streams: Vec<StreamId>,
    pub first_segment: SegmentId,
    pub safe_version: Version,
    /// Whether the partition is reported when it is taken in, before anything is replicated. If not, it is reported
    /// when devices have it.
    pub early: bool,
    /// Some of its records were at fewer backups than R (a short tail).
    pub tail_short: bool,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub key: PartitionKey,
    pub task: Task,
    pub phase: Phase,
    pub fetching: Fetching,
    /// The side log that takes in the records of each range.
    pub intake: Ranges<SideId>,
    pub records: u64,
    pub keeping: Keeping,
    pub begun: Instant,
    /// When it went live; until then, when it began.
    pub live_at: Instant,
    /// Times of fetching, and of everything after it.
    pub times: ReplayTimes,
    /// Tables that were dropped when it was too late to fail. Their ranges are given up as soon as the rest is
    /// published.
    pub dropped: Vec<TableId>,
}

pub(super) fn hash_range(range: &PartitionRange) -> HashRange {
    HashRange { table: range.table, first: range.first, last: range.last }
}

impl Partition {
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Replicating { is_live: true } | Phase::Entered { is_live: true, .. })
    }

    /// Whether its side segments are replicated while clients are served.
    pub fn replicates_live(&self) -> bool {
        matches!(self.phase, Phase::Replicating { is_live: true })
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed { .. })
    }

    /// Whether it waits for the coordinator's agreement, and nothing of it is entered.
    pub fn is_told_early(&self) -> bool {
        matches!(self.phase, Phase::ToldEarly(_))
    }

    /// Whether it can be taken back as if it had never been.
    pub fn is_outside(&self) -> bool {
        matches!(
            self.phase,
            Phase::Fetching | Phase::Finishing { .. } | Phase::Replicating { is_live: false }
        )
    }

    /// Whether it is about to be published, too late to fail.
    pub fn is_about_to_be_published(&self) -> bool {
        matches!(
            self.phase,
            Phase::Entered { is_live: false, .. } | Phase::ToldEarly(_) | Phase::Reporting(_)
        )
    }

    pub fn is_of(&self, table: TableId) -> bool {
        self.task.ranges.iter().any(|range| range.table == table)
    }

    pub fn hash_ranges(&self) -> impl Iterator<Item = HashRange> {
        self.task.ranges.iter().map(hash_range)
    }

    /// The number of new keys that it is still expected to bring.
    pub fn keys_expected(&self) -> u64 {
        if matches!(self.phase, Phase::Fetching) { self.fetching.keys_expected() } else { 0 }
    }

    /// Whether another turn would make progress without any input.
    pub fn is_busy(&self) -> bool {
        match self.phase {
            Phase::Fetching => self.fetching.is_busy(),
            Phase::Finishing { .. } | Phase::Abandoning { .. } => true,
            Phase::ToldEarly(_)
            | Phase::Replicating { .. }
            | Phase::Entered { .. }
            | Phase::Reporting(_)
            | Phase::Failed { .. }
            | Phase::Over => false,
        }
    }

    /// When to look again without any input: when a backup that was busy may be asked again, a report is due, or a live
    /// partition may be replicated.
    pub fn retry_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Fetching => self.fetching.retry_at(),
            Phase::ToldEarly(report) | Phase::Reporting(report) | Phase::Failed { report, .. } => {
                (!report.asked).then_some(report.next)
            }
            Phase::Replicating { .. } => self.keeping.retry,
            Phase::Finishing { .. } | Phase::Entered { .. } | Phase::Abandoning { .. } | Phase::Over => None,
        }
    }

    /// Whether the report of this attempt, of success (`done`) or failure, is the one whose answer is awaited.
    pub fn has_reported(&self, attempt: u32, done: bool) -> bool {
        let reported = match &self.phase {
            Phase::ToldEarly(report) | Phase::Reporting(report) => report.asked && done,
            Phase::Failed { report, .. } => report.asked && !done,
            Phase::Fetching
            | Phase::Finishing { .. }
            | Phase::Replicating { .. }
            | Phase::Entered { .. }
            | Phase::Abandoning { .. }
            | Phase::Over => false,
        };
        reported && self.task.attempt == attempt
    }

    pub fn on_report_unanswered(&mut self, now: Instant) {
        if let Phase::ToldEarly(report) | Phase::Reporting(report) | Phase::Failed { report, .. } =
            &mut self.phase
        {
            *report = Report { next: now + REPORT_PAUSE, asked: false };
        }
    }

    /// Takes the partition back although it was told early, because nobody wants it any more.
    pub fn abandon(&mut self, reason: &str) {
        self.begin_abandoning(Failure { reason: reason.into(), no_room: false });
    }

    pub fn fail(&mut self, reason: impl Into<String>) {
        self.give_up(Failure { reason: reason.into(), no_room: false });
    }

    pub fn fail_for_room(&mut self, reason: &str) {
        self.give_up(Failure { reason: reason.into(), no_room: true });
    }

    fn give_up(&mut self, failure: Failure) {
        if self.is_outside() {
            self.begin_abandoning(failure);
        }
    }

    fn begin_abandoning(&mut self, failure: Failure) {
        self.phase = Phase::Abandoning { side: 0, cursor: Cursor::default(), failure };
    }

    /// The partition was entered in part, and what was entered was taken back: only the report is left.
    pub fn failed(&mut self, now: Instant, failure: Failure) {
        self.phase = Phase::Failed { report: Report::due(now), failure };
    }

    /// The coordinator has agreed to a partition that was told early: clients are served from now on.
    pub fn go_live(&mut self, step: &mut Step<'_>, service: &mut Service, turns: &Turns) {
        service.settling.expect(self.key);
        if self.task.tail_short {
            service.tablets.note_short_tail(self.key, self.task.ranges.iter().map(hash_range));
        }
        self.phase = Phase::Replicating { is_live: true };
        self.live_at = step.now;
        self.take_turn(step, service);
        self.begin_side_segments(step.now, service, turns);
        service.shard.side_appended = true;
    }

    /// Takes the partition as far as it can go.
    pub fn advance(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        turns: &Turns,
        arrivals: &mut Arrivals,
    ) {
        if !self.is_live() && self.keeping.is_starved(step.now, &service.shard) {
            self.fail_for_room("no backup had room for what was replayed, or for a head");
        }
        if matches!(self.phase, Phase::Fetching) {
            self.take_in_slice(step, service, arrivals);
        }
        if matches!(self.phase, Phase::Fetching) {
            self.fetch_next(step, service);
            if self.fetching.is_done() {
                self.times = self.fetching.times();
                self.times.replayed = micros(step.now.since(self.begun));
                self.phase = Phase::Finishing { side: 0, cursor: Cursor::default() };
                step.effects.mark(Mark::RecoveryReplayed);
            }
        }
        if let Phase::Finishing { side, cursor } = self.phase {
            self.finish(step, service, turns, (side, cursor));
        }
        if let Phase::Replicating { is_live } = self.phase {
            self.keeping.retry = None;
            if is_live {
                self.take_turn(step, service);
            }
            self.begin_side_segments(step.now, service, turns);
            self.enter_when_whole(step, service);
        }
        if let Phase::Entered { heads, is_live } = &self.phase {
            let shard = &service.shard;
            let is_durable = heads.iter().all(|(stream, head)| {
                shard.replicator.is_registered(*stream) && shard.durable(*stream).segment >= *head
            });
            if is_durable && *is_live {
                service.settling.publish(self.key);
                service.tablets.forget_short_tail(self.key);
                self.phase = Phase::Over;
                step.effects.mark(Mark::RecoveryDurable);
                return;
            }
            if is_durable && service.settling.is_settled(self.key, shard) {
                self.times.durable = micros(step.now.since(self.begun));
                step.effects.mark(Mark::RecoveryDurable);
                self.phase = Phase::Reporting(Report::due(step.now));
            }
        }
        if let Phase::Abandoning { side, cursor, .. } = self.phase {
            self.abandon_slice(step, service, (side, cursor));
        }
        self.report(step, service);
    }

    /// Finishes a slice of one side log, or goes on to the next phase when none is left.
    fn finish(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        turns: &Turns,
        (side, cursor): (usize, Cursor),
    ) {
        let log = &mut service.shard.log;
        if let Some(entry) = self.keeping.sides.get(side) {
            self.phase = match log.finish_replay_step(entry.side, cursor, SWEEP_BUCKETS) {
                Some(cursor) => Phase::Finishing { side, cursor },
                None => Phase::Finishing { side: side + 1, cursor: Cursor::default() },
            };
            return;
        }
        // The index has grown for more keys than came.
        if log.shrink_index(INDEX_STEPS) {
            return;
        }
        for entry in &self.keeping.sides {
            log.close_side(entry.side);
        }
        if self.task.early {
            self.raise_safe_version(service);
            self.times.replicated = micros(step.now.since(self.begun));
            self.times.durable = self.times.replicated;
            self.phase = Phase::ToldEarly(Report::due(step.now));
            step.effects.mark(Mark::RecoveryToldEarly);
        } else {
            self.begin_side_segments(step.now, service, turns);
            self.phase = Phase::Replicating { is_live: false };
        }
    }

    /// Abandons a slice of one side log, or fails for good when none is left.
    fn abandon_slice(&mut self, step: &mut Step<'_>, service: &mut Service, (at, from): (usize, Cursor)) {
        let Phase::Abandoning { side, cursor, failure } = &mut self.phase else { return };
        let Some(entry) = self.keeping.sides.get(at) else {
            let failure = std::mem::take(failure);
            for range in self.task.ranges.iter().map(hash_range) {
                service.tablets.remove(range);
                service.shard.log.untrack(range);
            }
            step.effects.mark(Mark::RecoveryAbandoned);
            return self.failed(step.now, failure);
        };
        let tablets = &service.tablets;
        let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        match service.shard.log.abandon_side_step(entry.side, from, SWEEP_BUCKETS, &hash_of) {
            Some(next) => *cursor = next,
            None => {
                service.shard.abandon_side(entry);
                (*side, *cursor) = (at + 1, Cursor::default());
            }
        }
    }

    /// Raises the safe version, so that no write to the partition gets a version that the dead log may have.
    pub fn raise_safe_version(&self, service: &mut Service) {
        if !planted(Defect::SafeVersionNotReplayed) {
            service.shard.log.raise_safe_version(self.task.safe_version);
        }
    }

    /// Sends the report that is due.
    fn report(&mut self, step: &mut Step<'_>, service: &mut Service) {
        if self.retry_at().is_none_or(|next| next > step.now) {
            return;
        }
        let outcome = match &mut self.phase {
            Phase::ToldEarly(report) | Phase::Reporting(report) => {
                report.asked = true;
                self.done_outcome(service.config.shard)
            }
            Phase::Failed { report, failure } => {
                report.asked = true;
                let Failure { reason, no_room } = failure.clone();
                RecoveryOutcome::Failed { reason, no_room }
            }
            Phase::Fetching
            | Phase::Finishing { .. }
            | Phase::Replicating { .. }
            | Phase::Entered { .. }
            | Phase::Abandoning { .. }
            | Phase::Over => return,
        };
        let done = matches!(outcome, RecoveryOutcome::Done { .. });
        let (PartitionKey { recovery, partition }, attempt) = (self.key, self.task.attempt);
        let context = Context::Recovered { key: self.key, attempt, done };
        let rpc = service.calls.open(step.view.coordinator, step.now, step.now + REPORT_TIMEOUT, context);
        let message = Recovered { recovery, partition, attempt, outcome };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
    }

    fn done_outcome(&self, shard: ShardId) -> RecoveryOutcome {
        let first_segment = self.task.first_segment;
        let assignment = |stream: &StreamId| Assignment { shard, stream: *stream, first_segment };
        RecoveryOutcome::Done {
            assignments: self.task.streams.iter().map(assignment).collect(),
            bytes: self.fetching.bytes(),
            records: self.records,
            times: self.times,
            own_bytes: Some(self.fetching.own_bytes()),
        }
    }
}
