//! Recovers a partition: fetches the records of a dead log from backups, replays them into side logs, and enters those.
//!
//! `advance_replays` takes a partition through its phases. Each step looks only at what has been reached. Nothing is
//! served before the coordinator has agreed. A partition that cannot be finished is taken back as a whole and reported.
//!
//! Invariants:
//! - the first segment of the recovered ranges is older than their side segments, and the head entered after them is
//!   newer;
//! - a partition that is live before it is replicated does not give up, and writes to it go into heads newer than its
//!   first segment;
//! - a side log is entered only when it is closed and whole on its R backups, and R backups hold frames for a head that
//!   may name it.
//!
//! Protocol: docs/protocols/recovery.md, steps 5 to 7. Catalogue: F4, F5, F6, D9. Source: SOSP11 3.4-3.6.

mod entering;
mod fetching;

use crate::settling::Settling;
use crate::streams::Sweep;
use crate::tablets::{Tablet, TabletState};
use crate::{Context, Master};
pub(crate) use fetching::Fetch;
use fetching::{Fetching, Source, micros};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{
    ConnId, Instant, KeyHash, Mark, Peer, RecoveryId, SegmentId, ServerId, Status, StreamId, TableId, Version,
};
use ramhold_log::{Cursor, HashRange, Ranges, SideId};
use ramhold_shard::SideLog;
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{Assignment, PartitionRange, Recover, Recovered, RecoveryOutcome, ReplayTimes};
use ramhold_wire::{Header, Step, decode, reply, request};
use std::collections::BTreeSet;
use std::time::Duration;

const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// The most side segments that all live partitions together replicate at a time. Clients are served meanwhile, and
/// their writes wait behind these segments.
const LIVE_SEGMENTS_MAX: usize = 2;
/// How long a live partition delays its replication for recoveries that are still at work elsewhere: clients wait for
/// those.
const LIVE_YIELD_MAX: Duration = Duration::from_secs(2);
/// First segments that are taken in stock: one recovery rarely has more further partitions on one master.
const EARLY_FIRSTS: usize = 15;
/// Index buckets that one turn of finishing or of abandoning looks at.
const SWEEP_BUCKETS: u64 = 4096;
/// Steps by which the index shrinks in one turn.
const INDEX_STEPS: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PartitionKey {
    pub recovery: RecoveryId,
    pub partition: u32,
}

#[derive(Debug)]
enum Phase {
    Fetching,
    /// Tombstones leave the index, one side log after the other.
    Finishing {
        side: usize,
        cursor: Cursor,
    },
    /// Side segments are being replicated.
    Replicating,
    /// Heads that name the side segments are being replicated.
    Entered {
        heads: Vec<(StreamId, SegmentId)>,
    },
    /// The partition is durable, or it is taken in and told early. The coordinator has to agree.
    Reporting {
        next: Instant,
        asked: bool,
    },
    /// Everything that was replayed leaves the index and the log again.
    Abandoning {
        side: usize,
        cursor: Cursor,
        failure: Failure,
    },
    /// The coordinator has to hear that the partition failed.
    Failed {
        next: Instant,
        asked: bool,
        failure: Failure,
    },
}

#[derive(Clone, Default, Debug)]
struct Failure {
    reason: String,
    /// The cause was a lack of memory, or of frames on the backups.
    no_room: bool,
}

#[derive(Debug)]
pub(crate) struct PartitionReplay {
    attempt: u32,
    crashed: ServerId,
    mine: Vec<PartitionRange>,
    fetching: Fetching,
    /// The side log that takes in the records of each range.
    intake: Ranges<SideId>,
    /// A side log for each stream that takes something in, with its segments that the replicator knows.
    sides: Vec<SideLog>,
    /// The stream of each of `mine`.
    streams: Vec<StreamId>,
    first_segment: SegmentId,
    safe_version: Version,
    phase: Phase,
    records: u64,
    begun: Instant,
    /// Times of fetching, and of everything after it.
    times: ReplayTimes,
    /// Tables that were dropped when it was too late to fail. Their ranges are given up as soon as the rest is
    /// published.
    dropped: Vec<TableId>,
    /// Whether the partition is reported when it is taken in, before anything is replicated. If not, it is reported
    /// when devices have it.
    early: bool,
    is_live: bool,
    /// Some of its records were at fewer backups than R (a short tail).
    tail_short: bool,
    /// Everything that had to be done for it is done.
    is_over: bool,
    /// When it looks again, if it waits for memory or yields to others. A live partition does not give up.
    retry: Option<Instant>,
    /// It is live, and may be replicated now.
    has_turn: bool,
    /// The positions that devices must have, once it is entered.
    settling: Settling,
}

impl PartitionReplay {
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    pub fn settling(&self) -> &Settling {
        &self.settling
    }

    pub fn crashed(&self) -> ServerId {
        self.crashed
    }

    /// The number of new keys that it is still expected to bring.
    fn keys_expected(&self) -> u64 {
        if matches!(self.phase, Phase::Fetching) { self.fetching.keys_expected() } else { 0 }
    }

    /// Whether another turn would make progress without any input.
    pub fn is_busy(&self) -> bool {
        match self.phase {
            Phase::Fetching => self.fetching.is_busy(),
            Phase::Finishing { .. } | Phase::Abandoning { .. } => true,
            Phase::Replicating | Phase::Entered { .. } | Phase::Reporting { .. } | Phase::Failed { .. } => {
                false
            }
        }
    }

    /// When to look again without any input: when a backup that was busy may be asked again, a report is due, or a live
    /// partition may be replicated.
    pub fn retry_at(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Fetching => self.fetching.retry_at(),
            Phase::Reporting { next, asked: false } | Phase::Failed { next, asked: false, .. } => Some(*next),
            Phase::Reporting { .. }
            | Phase::Failed { .. }
            | Phase::Finishing { .. }
            | Phase::Entered { .. }
            | Phase::Abandoning { .. } => None,
            Phase::Replicating => self.retry,
        }
    }

    /// Whether this report is the one whose answer is awaited.
    pub fn has_reported(&self, attempt: u32, done: bool) -> bool {
        let reported = match self.phase {
            Phase::Reporting { asked, .. } => asked && done,
            Phase::Failed { asked, .. } => asked && !done,
            Phase::Fetching
            | Phase::Finishing { .. }
            | Phase::Replicating
            | Phase::Entered { .. }
            | Phase::Abandoning { .. } => false,
        };
        reported && self.attempt == attempt
    }

    pub fn report_unanswered(&mut self, now: Instant) {
        if let Phase::Reporting { next, asked } | Phase::Failed { next, asked, .. } = &mut self.phase {
            *asked = false;
            *next = now + REPORT_PAUSE;
        }
    }

    /// Whether it can be taken back as if it had never been.
    fn is_outside(&self) -> bool {
        !self.is_live && matches!(self.phase, Phase::Fetching | Phase::Finishing { .. } | Phase::Replicating)
    }

    /// Whether it is reported, and nothing of it is entered.
    fn is_told_early(&self) -> bool {
        self.early && !self.is_live && matches!(self.phase, Phase::Reporting { .. })
    }

    /// Takes the partition back although it was reported as done, because nobody wants it any more.
    fn abandon(&mut self, reason: &str) {
        let failure = Failure { reason: reason.into(), no_room: false };
        self.phase = Phase::Abandoning { side: 0, cursor: Cursor::default(), failure };
    }

    fn fail(&mut self, reason: impl Into<String>) {
        self.give_up(Failure { reason: reason.into(), no_room: false });
    }

    fn fail_for_room(&mut self, reason: &str) {
        self.give_up(Failure { reason: reason.into(), no_room: true });
    }

    fn give_up(&mut self, failure: Failure) {
        if self.is_outside() {
            self.phase = Phase::Abandoning { side: 0, cursor: Cursor::default(), failure };
        }
    }
}

/// First segments in stock for further partitions that go live before they are entered.
#[derive(Debug)]
pub(crate) struct EarlyFirsts {
    /// The number of tablets that had left when these ids were taken.
    removed: u64,
    /// Streams that have a head newer than these ids.
    streams: BTreeSet<StreamId>,
    ids: Vec<SegmentId>,
}

fn hash_range(range: &PartitionRange) -> HashRange {
    HashRange { table: range.table, first: range.first, last: range.last }
}

impl Master {
    pub(crate) fn on_recover(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let status = match decode::<Recover>(body) {
            Ok(recover) => self.begin_replay(step, recover),
            Err(status) => status,
        };
        reply(step.effects, Peer::Conn(from), header, status);
    }

    fn begin_replay(&mut self, step: &mut Step<'_>, recover: Recover) -> Status {
        let key = PartitionKey { recovery: recover.recovery, partition: recover.partition };
        if let Some(present) = self.replays.get_mut(&key) {
            if recover.attempt <= present.attempt {
                return if recover.attempt == present.attempt { Status::Ok } else { Status::NotAllowed };
            }
            // This is a newer attempt: the old one has to be taken back first.
            if present.is_live {
                return Status::NotAllowed;
            }
            if present.is_told_early() {
                present.abandon("replaced by a newer attempt");
                return Status::Retry;
            }
            match &present.phase {
                Phase::Entered { .. } | Phase::Reporting { .. } => self.take_back(key),
                Phase::Failed { .. } => {
                    self.replays.remove(&key);
                }
                Phase::Fetching | Phase::Finishing { .. } | Phase::Replicating | Phase::Abandoning { .. } => {
                    present.fail("replaced by a newer attempt");
                }
            }
            return Status::Retry;
        }
        // Results of an older division of this log are never published: stop replaying them.
        for (other, replay) in &mut self.replays {
            if replay.crashed == recover.crashed && other.recovery < recover.recovery {
                replay.fail("replaced by a newer division");
            }
        }
        let mine: Vec<PartitionRange> =
            recover.ranges.iter().filter(|r| r.partition == recover.partition).copied().collect();
        if !is_sound(&mine) || mine.iter().any(|r| !self.tablets.agrees(r.table, r.placement())) {
            return Status::BadRequest;
        }
        // Data that is on no backup cannot be read there.
        if mine.iter().any(|r| r.durability == Durability::None) {
            return Status::Unsupported;
        }
        if mine.iter().any(|r| self.is_sweeping(hash_range(r))) {
            return Status::Retry;
        }
        if mine.iter().any(|r| self.tablets.overlaps(hash_range(r))) {
            return Status::NotAllowed;
        }
        let mut streams = Vec::new();
        for range in &mine {
            let stream = match self.shard.stream_for(range.class()) {
                Ok(stream) => stream,
                Err(status) => return status,
            };
            let is_new = self.shard.log.head_segment(stream).is_none();
            // For a partition that goes live early a head is rolled in any case.
            if is_new && !recover.early && self.shard.roll(step, stream).is_none() {
                return Status::OutOfMemory;
            }
            streams.push(stream);
        }
        let first_segment = if recover.early {
            match self.early_first_segment(step, &streams) {
                Some(first_segment) => first_segment,
                None => return Status::OutOfMemory,
            }
        } else {
            self.shard.log.take_first_segment()
        };
        let mut sides: Vec<SideLog> = Vec::new();
        for stream in &streams {
            if !sides.iter().any(|s| s.stream == *stream) {
                let time = step.view.time(step.now);
                // A partition that goes live before it is replicated is durable in the dead log.
                let side = if recover.early {
                    self.shard.log.open_side_for_survivors(*stream, time)
                } else {
                    self.shard.log.open_side(*stream, time)
                };
                sides.push(SideLog::new(*stream, side, first_segment));
            }
        }
        for (range, stream) in mine.iter().zip(&streams) {
            self.shard.log.track(hash_range(range));
            let tablet = Tablet {
                range: hash_range(range),
                state: TabletState::Recovering,
                stream: *stream,
                first_segment,
                moved: None,
                unreplicated: false,
                version_floor: recover.version_floor,
                has_losses: false,
                // The tablet is served only when the coordinator has agreed.
                is_confirmed: true,
            };
            self.tablets.insert(range.placement(), tablet);
        }
        let side_of = |stream: &StreamId| {
            sides.iter().find(|s| s.stream == *stream).expect("opened just now for every stream").side
        };
        let intake = mine
            .iter()
            .zip(&streams)
            .map(|(range, stream)| (hash_range(range), range.placement(), side_of(stream)));
        let intake = Ranges::new(intake).expect("the ranges are sound");
        let own = Source::new(recover.crashed, recover.recovery, recover.ranges, recover.streams);
        let logs = [own].into_iter().chain(recover.earlier.into_iter().map(Source::from)).collect();
        let replay = PartitionReplay {
            attempt: recover.attempt,
            crashed: recover.crashed,
            mine,
            early: recover.early,
            is_live: false,
            tail_short: recover.tail_short,
            is_over: false,
            retry: None,
            has_turn: false,
            settling: Settling::default(),
            fetching: Fetching::new(logs, recover.partition as usize * self.config.fetches_max, |backup| {
                step.view.list.entry(backup).map_or(0, |entry| entry.read_speed)
            }),
            intake,
            sides,
            streams,
            first_segment,
            safe_version: recover.safe_version.max(recover.version_floor),
            phase: Phase::Fetching,
            records: 0,
            begun: step.now,
            times: ReplayTimes::default(),
            dropped: Vec::new(),
        };
        self.replays.insert(key, replay);
        step.effects.mark(Mark::RecoveryBegun);
        Status::Ok
    }

    pub(crate) fn advance_replays(&mut self, step: &mut Step<'_>) {
        self.shard.log.expect_keys(self.replays.values().map(PartitionReplay::keys_expected).sum());
        let keys: Vec<PartitionKey> = self.replays.keys().copied().collect();
        for key in keys {
            let Some(mut replay) = self.replays.remove(&key) else { continue };
            self.advance_replay(step, key, &mut replay);
            if !replay.is_over {
                self.replays.insert(key, replay);
            }
        }
        self.hold_heads();
    }

    fn advance_replay(&mut self, step: &mut Step<'_>, key: PartitionKey, replay: &mut PartitionReplay) {
        if !replay.is_live && self.is_starved(step.now, replay) {
            replay.fail_for_room("no backup had room for what was replayed, or for a head");
        }
        if matches!(replay.phase, Phase::Fetching) {
            self.take_in_slice(step, replay);
        }
        if matches!(replay.phase, Phase::Fetching) {
            self.fetch_next(step, key, replay);
            if replay.fetching.is_done() {
                replay.times = replay.fetching.times();
                replay.times.replayed = micros(step.now.since(replay.begun));
                replay.phase = Phase::Finishing { side: 0, cursor: Cursor::default() };
                step.effects.mark(Mark::RecoveryReplayed);
            }
        }
        if let Phase::Finishing { side, cursor } = replay.phase {
            match replay.sides.get(side) {
                Some(entry) => {
                    replay.phase = match self.shard.log.finish_replay_step(entry.side, cursor, SWEEP_BUCKETS)
                    {
                        Some(cursor) => Phase::Finishing { side, cursor },
                        None => Phase::Finishing { side: side + 1, cursor: Cursor::default() },
                    };
                }
                // The index has grown for more keys than came.
                None if self.shard.log.shrink_index(INDEX_STEPS) => {}
                None => {
                    for entry in &replay.sides {
                        self.shard.log.close_side(entry.side);
                    }
                    if replay.early {
                        self.raise_safe_version(replay);
                        replay.times.replicated = micros(step.now.since(replay.begun));
                        replay.times.durable = replay.times.replicated;
                        replay.phase = Phase::Reporting { next: step.now, asked: false };
                        step.effects.mark(Mark::RecoveryToldEarly);
                    } else {
                        self.begin_side_segments(step.now, replay);
                        replay.phase = Phase::Replicating;
                    }
                }
            }
        }
        if matches!(replay.phase, Phase::Replicating) {
            replay.retry = None;
            if replay.is_live {
                self.take_turn(step, replay);
            }
            self.begin_side_segments(step.now, replay);
            self.enter_when_whole(step, replay);
        }
        if let Phase::Entered { heads } = &replay.phase {
            let durable = heads.iter().all(|(stream, head)| {
                self.shard.replicator.is_registered(*stream) && self.shard.durable(*stream).segment >= *head
            });
            if durable && replay.is_live {
                self.begin_settling(std::mem::take(&mut replay.settling));
                replay.is_over = true;
                step.effects.mark(Mark::RecoveryDurable);
                return;
            }
            if durable && self.is_settled(&mut replay.settling) {
                replay.times.durable = micros(step.now.since(replay.begun));
                step.effects.mark(Mark::RecoveryDurable);
                replay.phase = Phase::Reporting { next: step.now, asked: false };
            }
        }
        if let Phase::Abandoning { side, cursor, failure } = &mut replay.phase {
            let tablets = &self.tablets;
            let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
            match replay.sides.get(*side) {
                Some(entry) => {
                    match self.shard.log.abandon_side_step(entry.side, *cursor, SWEEP_BUCKETS, &hash_of) {
                        Some(next) => *cursor = next,
                        None => {
                            self.shard.abandon_side(entry);
                            *side += 1;
                            *cursor = Cursor::default();
                        }
                    }
                }
                None => {
                    let failure = std::mem::take(failure);
                    for range in &replay.mine {
                        self.tablets.remove(hash_range(range));
                        self.shard.log.untrack(hash_range(range));
                    }
                    step.effects.mark(Mark::RecoveryAbandoned);
                    replay.phase = Phase::Failed { next: step.now, asked: false, failure };
                }
            }
        }
        self.report(step, key, replay);
    }

    /// The first segment of a partition that is live before it is entered.
    ///
    /// Entries that clients write to such a partition must not be before its first segment. So a head is rolled that is
    /// newer than the first segment. It is rolled now, so that it is open by the time that the partition is live. Heads
    /// are opened one after the other, and writes wait for each of them, so partitions share a head: ids for the next
    /// partitions are taken before it. Later partitions may use these ids as long as the log has no entry of their
    /// ranges in segments newer than the ids. That is certain while no tablet has left since, and while no range that
    /// had left was being swept.
    fn early_first_segment(&mut self, step: &mut Step<'_>, streams: &[StreamId]) -> Option<SegmentId> {
        let removed = self.tablets.removed_count();
        if let Some(firsts) = &mut self.early_firsts
            && firsts.removed == removed
            && self.sweeps.is_empty()
            && streams.iter().all(|stream| firsts.streams.contains(stream))
            && let Some(first) = firsts.ids.pop()
        {
            return Some(first);
        }
        let more = if self.sweeps.is_empty() { EARLY_FIRSTS } else { 0 };
        let first_segment = self.shard.log.take_first_segment();
        let ids = (0..more).map(|_| self.shard.log.take_first_segment()).collect();
        let streams: BTreeSet<StreamId> = streams.iter().copied().collect();
        for stream in &streams {
            if self.shard.log.head_segment(*stream).is_none() {
                self.shard.roll(step, *stream)?;
            } else if !planted(Defect::EarlyInOldHead) {
                // The roll to a held head lets an empty head leave. Empty heads would take frames that others lack.
                let head = self.shard.log.hold_head();
                self.roll_held(step, *stream, head)?;
            }
        }
        self.early_firsts = Some(EarlyFirsts { removed, streams, ids });
        Some(first_segment)
    }

    /// Raises the safe version, so that no write to the partition gets a version that the dead log may have.
    pub(super) fn raise_safe_version(&mut self, replay: &PartitionReplay) {
        if !planted(Defect::SafeVersionNotReplayed) {
            self.shard.log.raise_safe_version(replay.safe_version);
        }
    }

    /// Tells the replicator of new side segments. Those of a partition that goes live before it is replicated wait
    /// until it may be replicated: the dead log keeps it meanwhile, and the work that clients wait for comes first.
    fn begin_side_segments(&mut self, now: Instant, replay: &mut PartitionReplay) {
        if replay.early && !replay.has_turn {
            return;
        }
        let yields_until = self.recovering_since.map(|since| since + LIVE_YIELD_MAX);
        if let Some(until) = yields_until.filter(|until| replay.is_live && now < *until) {
            replay.retry = Some(until);
            return;
        }
        let most = if replay.is_live { self.live_slots() } else { usize::MAX };
        let begun = replay.sides.iter().flat_map(|side| &side.begun);
        let mut busy =
            begun.filter(|segment| !self.shard.replicator.is_complete(**segment)).take(most).count();
        for side in &mut replay.sides {
            busy += self.shard.begin_side_segments(side, most.saturating_sub(busy));
        }
    }

    /// How many side segments a live partition may have under way beside those of all other live partitions here. At
    /// least one, since the others may wait long for backups.
    fn live_slots(&self) -> usize {
        let others = self.replays.values().filter(|other| other.is_live);
        let begun = others.flat_map(|other| &other.sides).flat_map(|side| &side.begun);
        let busy = begun.filter(|segment| !self.shard.replicator.is_complete(**segment));
        (LIVE_SEGMENTS_MAX - busy.take(LIVE_SEGMENTS_MAX).count()).max(1)
    }

    fn report(&mut self, step: &mut Step<'_>, key: PartitionKey, replay: &mut PartitionReplay) {
        let shard = self.config.shard;
        let outcome = match &replay.phase {
            Phase::Reporting { next, asked: false } if *next <= step.now => RecoveryOutcome::Done {
                assignments: replay
                    .streams
                    .iter()
                    .map(|stream| Assignment { shard, stream: *stream, first_segment: replay.first_segment })
                    .collect(),
                bytes: replay.fetching.bytes(),
                records: replay.records,
                times: replay.times,
                own_bytes: Some(replay.fetching.own_bytes()),
            },
            Phase::Failed { next, asked: false, failure } if *next <= step.now => {
                RecoveryOutcome::Failed { reason: failure.reason.clone(), no_room: failure.no_room }
            }
            _ => return,
        };
        if let Phase::Reporting { asked, .. } | Phase::Failed { asked, .. } = &mut replay.phase {
            *asked = true;
        }
        let done = matches!(outcome, RecoveryOutcome::Done { .. });
        let context = Context::Recovered { key, attempt: replay.attempt, done };
        let rpc = self.calls.open(step.view.coordinator, step.now, step.now + REPORT_TIMEOUT, context);
        let message =
            Recovered { recovery: key.recovery, partition: key.partition, attempt: replay.attempt, outcome };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
    }

    /// The coordinator's answer to a report.
    pub(crate) fn on_published(
        &mut self,
        step: &mut Step<'_>,
        key: PartitionKey,
        (attempt, done): (u32, bool),
        status: Status,
    ) {
        let awaited = self.replays.get_mut(&key).filter(|r| r.has_reported(attempt, done));
        let Some(replay) = awaited else { return };
        match (&replay.phase, status) {
            (Phase::Reporting { .. }, Status::Ok) => {
                let mut replay = self.replays.remove(&key).expect("looked at just now");
                for range in &replay.mine {
                    if let Some(tablet) = self.tablets.exact_mut(hash_range(range)) {
                        tablet.state = TabletState::Serving;
                    }
                }
                let dropped = std::mem::take(&mut replay.dropped);
                if replay.early {
                    replay.is_live = true;
                    replay.phase = Phase::Replicating;
                    self.take_turn(step, &mut replay);
                    self.begin_side_segments(step.now, &mut replay);
                    self.shard.side_appended = true;
                    self.replays.insert(key, replay);
                }
                step.effects.mark(Mark::RecoveryPublished);
                for table in dropped {
                    for range in self.tablets.ranges_of(table) {
                        self.give_up(range);
                    }
                }
            }
            (Phase::Reporting { .. }, Status::NotAllowed) if replay.is_told_early() => {
                replay.abandon("it is not wanted any more");
            }
            (Phase::Reporting { .. }, Status::NotAllowed) => self.take_back(key),
            (Phase::Failed { .. }, Status::Ok | Status::NotAllowed) => {
                self.replays.remove(&key);
            }
            _ => replay.report_unanswered(step.now),
        }
    }

    /// Whether results of a key may have been at fewer backups than R, and are not at R yet.
    pub(crate) fn is_tail_short(&self, table: TableId, hash: KeyHash) -> bool {
        let mut short = self.replays.values().filter(|replay| replay.tail_short && replay.is_live);
        short.any(|replay| replay.mine.iter().any(|range| hash_range(range).contains(table, hash)))
    }

    /// Drops a partition that has been entered into the log and will not be published.
    fn take_back(&mut self, key: PartitionKey) {
        let Some(replay) = self.replays.remove(&key) else { return };
        self.forget_ranges(&replay.mine);
    }

    /// Takes ranges whose side logs are entered out of everything again.
    fn forget_ranges(&mut self, ranges: &[PartitionRange]) {
        for range in ranges.iter().map(hash_range) {
            let hasher = self.tablets.hasher(range.table).expect("the table was entered with the range");
            self.tablets.remove(range);
            self.shard.log.untrack(range);
            self.shard.log.forget_results(range);
            self.sweeps.push(Sweep::new(range, hasher));
        }
    }

    /// A table was dropped while parts of it are being recovered to here.
    pub(crate) fn drop_from_replays(&mut self, table: TableId) {
        let is_concerned =
            |r: &&mut PartitionReplay| !r.is_live && r.mine.iter().any(|range| range.table == table);
        for replay in self.replays.values_mut().filter(is_concerned) {
            replay.fail("a table was dropped meanwhile");
            if matches!(replay.phase, Phase::Entered { .. } | Phase::Reporting { .. })
                && !replay.dropped.contains(&table)
            {
                replay.dropped.push(table);
            }
        }
    }
}

/// Whether these ranges can be recovered together: replicated, valid, one way of hashing per table, none overlapping
/// another.
fn is_sound(ranges: &[PartitionRange]) -> bool {
    let mut sorted: Vec<&PartitionRange> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|r| (r.table, r.first));
    let apart = sorted.windows(2).all(|pair| {
        pair[0].table != pair[1].table
            || (pair[0].last < pair[1].first && pair[0].placement() == pair[1].placement())
    });
    let each = ranges.iter().all(|r| r.first <= r.last && (1..=REPLICA_COUNT_MAX).contains(&r.replicas));
    apart && each && !ranges.is_empty()
}
