//! The partitions of dead logs that are recovered to here: how they begin, take turns, and end.
//!
//! A recovery master fetches the records of its partition from backups, replays them into side logs, and enters those.
//! `advance` takes each partition through its phases. Each step looks only at what has been reached. Nothing is served
//! before the coordinator has agreed. A partition that cannot be finished is taken back as a whole and reported.
//!
//! Invariants:
//! - the first segment of the recovered ranges is older than their side segments, and the head entered after them is
//!   newer;
//! - a partition that is live before it is replicated does not give up, and writes to it go into heads newer than its
//!   first segment;
//! - a side log is entered only when it is closed and whole on its R backups, and R backups hold frames for a head that
//!   may name it.
//!
//! Not here: the life of one partition (`replay/partition`). Protocol: docs/protocols/recovery.md, steps 5 to 7.
//! Catalogue: F4, F5, F6, D9. Source: SOSP11 3.4-3.6.

mod entering;
mod fetching;
mod keeping;
mod partition;
mod taking;

use crate::calls::{Fetch, PartitionKey};
use crate::service::Service;
use crate::tablets::{Tablet, TabletState};
use fetching::{Arrivals, Fetching, Source};
use keeping::{Keeping, Turns};
use partition::{Partition, Phase, Task, hash_range};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Instant, Mark, Peer, SegmentId, ServerId, Status, StreamId, TableId};
use ramhold_log::{HashRange, Ranges};
use ramhold_shard::SideLog;
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{PartitionRange, Recover, ReplayTimes};
use ramhold_wire::{Header, Step, decode, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most side segments that all live partitions together replicate at a time. Clients are served meanwhile, and
/// their writes wait behind these segments.
const LIVE_SEGMENTS_MAX: usize = 2;
/// How long a live partition delays its replication for recoveries that are still at work elsewhere: clients wait for
/// those. Where few neighbours recover a server it delays it for as long again as it took to be live, if that is more:
/// partitions are of similar sizes, so the others need more time, too.
const LIVE_YIELD: Duration = Duration::from_secs(2);
/// The longest delay of that kind, from when the partition was live.
const LIVE_YIELD_MAX: Duration = Duration::from_secs(30);
/// First segments that are taken in stock: one recovery rarely has more further partitions on one master.
const EARLY_FIRSTS: usize = 15;

/// First segments in stock for further partitions that go live before they are entered.
#[derive(Debug)]
struct EarlyFirsts {
    /// The number of tablets that had left when these ids were taken.
    removed: u64,
    /// Streams that have a head newer than these ids.
    streams: BTreeSet<StreamId>,
    ids: Vec<SegmentId>,
}

/// The partitions that are recovered to here.
#[derive(Debug)]
pub(crate) struct Replays {
    partitions: BTreeMap<PartitionKey, Partition>,
    /// Dead servers that are being recovered anywhere, and the instant at which the newest of them was added.
    recovered: BTreeSet<ServerId>,
    recovering_since: Option<Instant>,
    early_firsts: Option<EarlyFirsts>,
    arrivals: Arrivals,
}

impl Replays {
    pub fn new(log_bytes: u64) -> Replays {
        Replays {
            partitions: BTreeMap::new(),
            recovered: BTreeSet::new(),
            recovering_since: None,
            early_firsts: None,
            arrivals: Arrivals::new(log_bytes),
        }
    }

    pub fn count(&self) -> usize {
        self.partitions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Whether clients wait for some partition.
    pub fn is_awaited(&self) -> bool {
        self.partitions.values().any(|partition| !partition.is_live())
    }

    pub fn is_busy(&self) -> bool {
        self.partitions.values().any(Partition::is_busy)
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.partitions.values().filter_map(Partition::retry_at).min()
    }

    /// Whether a log of `server` is being replayed.
    pub fn has(&self, server: ServerId) -> bool {
        self.partitions.values().any(|partition| partition.task.crashed == server)
    }

    /// Since when servers are being recovered, if any are.
    pub fn recovering_since(&self) -> Option<Instant> {
        self.recovering_since
    }

    /// Notes which servers are being recovered.
    pub fn on_list(&mut self, now: Instant, recovered: BTreeSet<ServerId>) {
        if recovered.is_empty() {
            self.recovering_since = None;
        } else if !recovered.is_subset(&self.recovered) {
            self.recovering_since = Some(now);
        }
        self.recovered = recovered;
    }

    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        let status = match decode::<Recover>(body) {
            Ok(recover) => self.begin(step, service, recover),
            Err(status) => status,
        };
        reply(step.effects, Peer::Conn(from), header, status);
    }

    fn begin(&mut self, step: &mut Step<'_>, service: &mut Service, recover: Recover) -> Status {
        let key = PartitionKey { recovery: recover.recovery, partition: recover.partition };
        if let Some(present) = self.partitions.get_mut(&key) {
            if recover.attempt <= present.task.attempt {
                let is_present = recover.attempt == present.task.attempt;
                return if is_present { Status::Ok } else { Status::NotAllowed };
            }
            // This is a newer attempt: the old one has to be taken back first.
            if present.is_live() {
                return Status::NotAllowed;
            }
            let reason = "replaced by a newer attempt";
            if present.is_told_early() {
                present.abandon(reason);
            } else if present.is_about_to_be_published() {
                self.take_back(service, key);
            } else if present.has_failed() {
                self.forget(service, key);
            } else {
                present.fail(reason);
            }
            return Status::Retry;
        }
        // Results of an older division of this log are never published: stop replaying them.
        for (other, partition) in &mut self.partitions {
            if partition.task.crashed == recover.crashed && other.recovery < recover.recovery {
                partition.fail("replaced by a newer division");
            }
        }
        let mine: Vec<PartitionRange> =
            recover.ranges.iter().filter(|r| r.partition == recover.partition).copied().collect();
        if !is_sound(&mine) || mine.iter().any(|r| !service.tablets.agrees(r.table, r.placement())) {
            return Status::BadRequest;
        }
        // Data that is on no backup cannot be read there.
        if mine.iter().any(|r| r.durability == Durability::None) {
            return Status::Unsupported;
        }
        if mine.iter().any(|r| service.sweeps.meets(hash_range(r))) {
            return Status::Retry;
        }
        if mine.iter().any(|r| service.tablets.overlaps(hash_range(r))) {
            return Status::NotAllowed;
        }
        let mut streams = Vec::new();
        for range in &mine {
            let stream = match service.stream_for(range.class(), step.view, &streams) {
                Ok(stream) => stream,
                Err(status) => return status,
            };
            let is_new = service.shard.log.head_segment(stream).is_none();
            // For a partition that goes live early a head is rolled in any case.
            if is_new && !recover.early && service.roll(step, stream).is_none() {
                return Status::OutOfMemory;
            }
            streams.push(stream);
        }
        let first_segment = if recover.early {
            match self.early_first_segment(step, service, &streams) {
                Some(first_segment) => first_segment,
                None => return Status::OutOfMemory,
            }
        } else {
            service.shard.log.take_first_segment()
        };
        let mut sides: Vec<SideLog> = Vec::new();
        for stream in &streams {
            if !sides.iter().any(|s| s.stream == *stream) {
                let time = step.view.time(step.now);
                // A partition that goes live before it is replicated is durable in the dead log.
                let side = if recover.early {
                    service.shard.log.open_side_for_survivors(*stream, time)
                } else {
                    service.shard.log.open_side(*stream, time)
                };
                sides.push(SideLog::new(*stream, side, first_segment));
            }
        }
        for (range, stream) in mine.iter().zip(&streams) {
            service.shard.log.track(hash_range(range));
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
            service.tablets.insert(range.placement(), tablet);
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
        let apart = recover.partition as usize * service.config.fetches_max;
        let read_speed = |backup| step.view.list.entry(backup).map_or(0, |entry| entry.read_speed);
        let partition = Partition {
            key,
            task: Task {
                attempt: recover.attempt,
                crashed: recover.crashed,
                ranges: mine,
                streams,
                first_segment,
                safe_version: recover.safe_version.max(recover.version_floor),
                early: recover.early,
                tail_short: recover.tail_short,
            },
            phase: Phase::Fetching,
            fetching: Fetching::new(logs, apart, read_speed),
            intake,
            records: 0,
            keeping: Keeping::new(sides),
            begun: step.now,
            live_at: step.now,
            times: ReplayTimes::default(),
            dropped: Vec::new(),
        };
        self.partitions.insert(key, partition);
        step.effects.mark(Mark::RecoveryBegun);
        Status::Ok
    }

    /// The first segment of a partition that is live before it is entered.
    ///
    /// Entries that clients write to such a partition must not be before its first segment. So a head is rolled that is
    /// newer than the first segment. It is rolled now, so that it is open by the time that the partition is live. Heads
    /// are opened one after the other, and writes wait for each of them, so partitions share a head: ids for the next
    /// partitions are taken before it. Later partitions may use these ids as long as the log has no entry of their
    /// ranges in segments newer than the ids. That is certain while no tablet has left since, and while no range that
    /// had left was being swept.
    fn early_first_segment(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        streams: &[StreamId],
    ) -> Option<SegmentId> {
        let removed = service.tablets.removed_count();
        if let Some(firsts) = &mut self.early_firsts
            && firsts.removed == removed
            && service.sweeps.is_empty()
            && streams.iter().all(|stream| firsts.streams.contains(stream))
            && let Some(first) = firsts.ids.pop()
        {
            return Some(first);
        }
        let more = if service.sweeps.is_empty() { EARLY_FIRSTS } else { 0 };
        let first_segment = service.shard.log.take_first_segment();
        let ids = (0..more).map(|_| service.shard.log.take_first_segment()).collect();
        let streams: BTreeSet<StreamId> = streams.iter().copied().collect();
        for stream in &streams {
            if service.shard.log.head_segment(*stream).is_none() {
                service.roll(step, *stream)?;
            } else if !planted(Defect::EarlyInOldHead) {
                // The roll to a held head lets an empty head leave. Empty heads would take frames that others lack.
                let head = service.shard.log.hold_head();
                service.roll_held(step, *stream, head)?;
            }
        }
        self.early_firsts = Some(EarlyFirsts { removed, streams, ids });
        Some(first_segment)
    }

    /// Takes every partition as far as it can go.
    pub fn advance(&mut self, step: &mut Step<'_>, service: &mut Service) {
        service.shard.log.expect_keys(self.partitions.values().map(Partition::keys_expected).sum());
        let keys: Vec<PartitionKey> = self.partitions.keys().copied().collect();
        for key in keys {
            let turns = self.turns(step, service, key);
            let Some(partition) = self.partitions.get_mut(&key) else { continue };
            partition.advance(step, service, &turns, &mut self.arrivals);
            if partition.is_over() {
                self.partitions.remove(&key);
            }
        }
    }

    /// The part of other live partitions in the replication of this one. It may have at least one side segment under
    /// way, since the others may wait long for backups.
    fn turns(&self, step: &Step<'_>, service: &Service, key: PartitionKey) -> Turns {
        let live = self.partitions.get(&key).filter(|partition| partition.replicates_live());
        live.map_or(Turns::FREE, |partition| {
            self.live_turns(step, service, key, (partition.begun, partition.live_at))
        })
    }

    fn live_turns(
        &self,
        step: &Step<'_>,
        service: &Service,
        key: PartitionKey,
        (started, live_at): (Instant, Instant),
    ) -> Turns {
        let others =
            self.partitions.iter().filter(|(other, partition)| **other != key && partition.is_live());
        let begun = others.flat_map(|(_, partition)| partition.keeping.busy(&service.shard));
        let busy = begun.take(LIVE_SEGMENTS_MAX).count();
        Turns {
            slots: (LIVE_SEGMENTS_MAX - busy).max(1),
            yields_until: self.recovering_since.map(|since| {
                let again = match step.view.placement.neighbouring() {
                    Some(_) => live_at.since(started).min(LIVE_YIELD_MAX),
                    None => Duration::ZERO,
                };
                (live_at + again).max(since + LIVE_YIELD)
            }),
        }
    }

    /// The streams into which side logs are about to be entered, and the oldest head with which each may be. `is_live`:
    /// of live partitions, or of the others.
    pub fn heads_wanted(&self, is_live: bool) -> impl Iterator<Item = (StreamId, SegmentId)> {
        let partitions = self.partitions.values().filter(move |partition| partition.is_live() == is_live);
        partitions.flat_map(Partition::heads_wanted)
    }

    /// The answer of a backup to a request for records.
    pub fn on_fetched(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        fetch: Fetch,
        answer: (Status, &[u8]),
    ) {
        if let Some(partition) = self.partitions.get_mut(&fetch.key) {
            partition.on_fetched(step, service, &mut self.arrivals, fetch, answer);
        }
    }

    /// A request for records may not have arrived, or its answer may not come.
    pub fn on_fetch_unheard(&mut self, fetch: Fetch) {
        if let Some(partition) = self.partitions.get_mut(&fetch.key) {
            partition.on_fetch_unheard(fetch);
        }
    }

    pub fn on_fetch_failed(&mut self, fetch: Fetch) {
        if let Some(partition) = self.partitions.get_mut(&fetch.key) {
            partition.on_fetch_failed(fetch);
        }
    }

    pub fn on_report_unanswered(&mut self, now: Instant, key: PartitionKey, (attempt, done): (u32, bool)) {
        let partition = self.partitions.get_mut(&key).filter(|p| p.has_reported(attempt, done));
        if let Some(partition) = partition {
            partition.on_report_unanswered(now);
        }
    }

    /// The coordinator's answer to a report. Returns tables that were dropped meanwhile: their ranges are to be given
    /// up.
    pub fn on_published(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        key: PartitionKey,
        (attempt, done): (u32, bool),
        status: Status,
    ) -> Vec<TableId> {
        if self.partitions.get(&key).is_none_or(|p| !p.has_reported(attempt, done)) {
            return Vec::new();
        }
        let begun = self.partitions.get(&key).map_or(step.now, |partition| partition.begun);
        let turns = self.live_turns(step, service, key, (begun, step.now));
        let Some(partition) = self.partitions.get_mut(&key) else { return Vec::new() };
        match (&partition.phase, status) {
            (Phase::ToldEarly(_) | Phase::Reporting(_), Status::Ok) => {
                for range in partition.hash_ranges() {
                    if let Some(tablet) = service.tablets.exact_mut(range) {
                        tablet.state = TabletState::Serving;
                    }
                }
                let dropped = std::mem::take(&mut partition.dropped);
                if partition.is_told_early() {
                    partition.go_live(step, service, &turns);
                } else {
                    self.forget(service, key);
                }
                step.effects.mark(Mark::RecoveryPublished);
                return dropped;
            }
            (Phase::ToldEarly(_), Status::NotAllowed) => partition.abandon("it is not wanted any more"),
            (Phase::Reporting(_), Status::NotAllowed) => self.take_back(service, key),
            (Phase::Failed { .. }, Status::Ok | Status::NotAllowed) => self.forget(service, key),
            _ => partition.on_report_unanswered(step.now),
        }
        Vec::new()
    }

    /// A partition has left, and the log may clean everything that it has.
    fn forget(&mut self, service: &mut Service, key: PartitionKey) {
        self.partitions.remove(&key);
        service.settling.forget(key);
    }

    /// Drops a partition that has been entered into the log and will not be published.
    fn take_back(&mut self, service: &mut Service, key: PartitionKey) {
        if let Some(partition) = self.partitions.get(&key) {
            service.forget_ranges(partition.hash_ranges());
        }
        self.forget(service, key);
    }

    /// A table was dropped while parts of it are being recovered to here.
    pub fn drop_table(&mut self, table: TableId) {
        for partition in self.partitions.values_mut().filter(|p| !p.is_live() && p.is_of(table)) {
            partition.fail("a table was dropped meanwhile");
            if partition.is_about_to_be_published() && !partition.dropped.contains(&table) {
                partition.dropped.push(table);
            }
        }
    }
}

impl Service {
    /// Takes ranges whose side logs are entered out of everything again.
    fn forget_ranges(&mut self, ranges: impl Iterator<Item = HashRange>) {
        for range in ranges {
            let hasher = self.tablets.hasher(range.table).expect("the table was entered with the range");
            self.tablets.remove(range);
            self.shard.log.untrack(range);
            self.shard.log.forget_results(range);
            self.sweeps.begin(range, hasher);
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
