//! Recovery masters at work: which master replays which partition, and what happens when one fails.
//!
//! A partition waits, runs at one master, or is live. It is given to the least busy master that has not failed it.
//! Where some masters have more room than others, it is given to the one that has most of it left. Every turn has its
//! own attempt number, and only the present turn can be published.
//!
//! Protocol: docs/protocols/recovery.md, 5 and "Failures". Catalogue: F4, F6.

use crate::asked::Asked;
use crate::config::CoordinatorConfig;
use crate::kept::EarlierPlan;
use crate::machine::Coordinator;
use crate::prove::{Proof, SegmentProof, Source};
use crate::records::Key;
use crate::recovery::{Recovery, pause};
use crate::retry::Retry;
use crate::timeline;
use ramhold_base::limits::{FRAME_BODY_BYTES_MAX, PIECE_LOGS_MAX};
use ramhold_base::{
    Instant, KeyHash, Level, RecoveryId, ServerId, ShardId, Status, StreamId, TableId, Version,
};
use ramhold_wire::control::encoded_len;
use ramhold_wire::recovery::{
    EarlierLog, PartitionRange, Recover, RecoverySegment, RecoveryStream, SegmentSource,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the rest of a large division's masters wait to be told, when much waits for the store already.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);
/// The most bytes that masters are told in one turn, so that the first ones begin while others are told: some
/// milliseconds' worth.
const PORTION_BYTES: usize = 4 << 20;
/// The sources that are told for each segment: all of them, or fewer, so that a log of very many segments fits a
/// message.
const SOURCE_COUNTS: [usize; 3] = [u8::MAX as usize, 2, 1];
/// The size of a message without the part that is common to all, with some room.
const OWN_BYTES: usize = 256;
/// A master that has accepted a partition is told again at this interval, in case it has forgotten.
const REMIND_INTERVAL: Duration = Duration::from_secs(5);

/// One division of the tablets that were a dead server's when it was made.
#[derive(Debug)]
pub(crate) struct Plan {
    pub id: RecoveryId,
    pub ranges: Vec<PartitionRange>,
    /// The log that is replayed; its sources are refreshed as backups come and go.
    proof: Proof,
    /// Other logs from which parts of the division are to be recovered as well.
    pub earlier: Vec<EarlierPlan>,
    pub partitions: Vec<Partition>,
    /// About how many bytes of log one partition has.
    partition_bytes: u64,
    common: Option<Common>,
}

/// The ranges and segments that masters are told, encoded. They are the same for all partitions in the same streams, as
/// long as the server list is the same.
#[derive(Debug)]
struct Common {
    list_version: u64,
    /// None: even with a single source for each segment it is larger than a message may be.
    of_streams: BTreeMap<Streams, Option<Arc<[u8]>>>,
}

type Streams = BTreeSet<(ShardId, StreamId)>;

#[derive(Debug)]
pub(crate) struct Partition {
    pub state: Replay,
    /// The number of the present or last turn.
    pub attempt: u32,
    failures: u32,
    pub not_before: Instant,
    /// Masters that failed this partition.
    avoid: BTreeSet<ServerId>,
    /// Masters that had no room for this partition since the log was divided.
    pub lacked_room: BTreeSet<ServerId>,
}

/// The work that a master has.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Memory that the master has left, where that is what counts.
    left: u64,
    /// Partitions that the master replays now, of all recoveries.
    partitions: u32,
    /// Partitions that the master replays now, of the recovery in question.
    of_this: u32,
    /// Tablets that the master has.
    tablets: u32,
}

#[derive(Debug)]
pub(crate) enum Replay {
    Waiting,
    Running { master: ServerId, retry: Retry, remind_at: Option<Instant> },
    Live,
}

impl Plan {
    /// `bytes`: the bytes of log that all ranges have together.
    pub fn new(
        id: RecoveryId,
        ranges: Vec<PartitionRange>,
        bytes: u64,
        proof: Proof,
        earlier: Vec<EarlierPlan>,
    ) -> Plan {
        let count = ranges.iter().map(|r| r.partition + 1).max().unwrap_or(0);
        let partition = || Partition {
            state: Replay::Waiting,
            attempt: 0,
            failures: 0,
            not_before: Instant::ZERO,
            avoid: BTreeSet::new(),
            lacked_room: BTreeSet::new(),
        };
        let partitions = (0..count).map(|_| partition()).collect();
        let partition_bytes = bytes / u64::from(count.max(1));
        Plan { id, ranges, proof, earlier, partitions, partition_bytes, common: None }
    }

    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// The same bytes are to be replayed from other sources.
    pub fn refresh(&mut self, proof: Proof) {
        self.proof = proof;
        self.common = None;
    }

    pub fn ranges_of(&self, partition: u32) -> impl Iterator<Item = &PartitionRange> {
        self.ranges.iter().filter(move |r| r.partition == partition)
    }

    /// The weight of one partition, if all weigh the same.
    pub fn partition_bytes(&self) -> u64 {
        self.partition_bytes
    }

    /// Whether some master is at work on this division.
    pub fn is_running(&self) -> bool {
        self.partitions.iter().any(|partition| matches!(partition.state, Replay::Running { .. }))
    }

    /// Whether all partitions are live.
    pub fn is_live(&self) -> bool {
        self.partitions.iter().all(|partition| matches!(partition.state, Replay::Live))
    }

    /// Whether a partition that is not live has ranges of this table.
    pub fn has_pending(&self, table: TableId) -> bool {
        let pending =
            |p: u32| self.partitions.get(p as usize).is_some_and(|p| !matches!(p.state, Replay::Live));
        self.ranges.iter().any(|r| r.table == table && pending(r.partition))
    }

    /// The part of a partition's message that it has in common with others. None: it is too large.
    fn common_part(&mut self, coordinator: &Coordinator, partition: u32) -> Option<Arc<[u8]>> {
        let streams: Streams = self.ranges_of(partition).map(|r| (r.shard, r.stream)).collect();
        let list_version = coordinator.desk.state.meta.list_version;
        let common = self.common.take().filter(|common| common.list_version == list_version);
        let mut common = common.unwrap_or_else(|| Common { list_version, of_streams: BTreeMap::new() });
        let made = common.of_streams.entry(streams).or_insert_with_key(|streams| {
            let made = SOURCE_COUNTS.into_iter().map(|sources| {
                let streams = told_streams(coordinator, &self.proof, streams, sources);
                Recover::encode_common(&self.ranges, &streams)
            });
            let mut fitting = made.filter(|made| made.len() + OWN_BYTES <= FRAME_BODY_BYTES_MAX as usize);
            fitting.next().map(Arc::from)
        });
        let made = made.clone();
        self.common = Some(common);
        made
    }

    /// The part of a partition's message that is its own; ranges and streams are in the common part.
    fn own_part(&self, coordinator: &Coordinator, crashed: ServerId, partition: u32) -> Recover {
        Recover {
            recovery: self.id,
            crashed,
            partition,
            attempt: self.partitions.get(partition as usize).map_or(0, |p| p.attempt),
            ranges: Vec::new(),
            streams: Vec::new(),
            safe_version: self.safe_version(),
            version_floor: self.version_floor(coordinator, crashed, partition),
            earlier: Vec::new(),
            early: self.is_early(partition),
            tail_short: self.is_tail_short(partition),
        }
    }

    /// Whether one of the logs that a partition is recovered from has a short tail.
    fn is_tail_short(&self, partition: u32) -> bool {
        let here = |ranges: &[PartitionRange], proof: &Proof| {
            let own = ranges.iter().filter(|range| range.partition == partition);
            let streams: Streams = own.map(|range| (range.shard, range.stream)).collect();
            proof.streams.iter().any(|s| s.tail_short && streams.contains(&(s.shard, s.stream)))
        };
        here(&self.ranges, &self.proof) || self.earlier.iter().any(|log| here(&log.ranges, &log.proof))
    }

    /// The proofs of the dead owner's log, and of those from which parts are to be recovered as well.
    fn proofs(&self) -> impl Iterator<Item = &Proof> {
        [&self.proof].into_iter().chain(self.earlier.iter().map(|earlier| &earlier.proof))
    }

    /// The version at which new keys start: it is above every version whose key has left one of these logs.
    pub fn safe_version(&self) -> Version {
        self.proofs().map(|proof| proof.safe_version).max().unwrap_or_default()
    }

    /// Whether a partition goes live before it is replicated. Until then the dead logs that it is recovered from are
    /// its durable copy. Only a partition with a piece that would note too many logs has to be on devices first. One
    /// partition may have small tablets of many dead servers, so logs are counted for each piece.
    pub fn is_early(&self, partition: u32) -> bool {
        let mut counts: BTreeMap<(TableId, KeyHash), usize> = BTreeMap::new();
        let here = self.earlier.iter().flat_map(|earlier| &earlier.ranges);
        for range in here.filter(|range| range.partition == partition) {
            *counts.entry((range.table, range.first)).or_default() += 1;
        }
        // The log of the dead owner is added to these.
        counts.into_values().all(|earlier| earlier + 1 < PIECE_LOGS_MAX)
    }

    /// The other logs that a partition is recovered from, with this many sources for each segment.
    fn earlier_logs(&self, coordinator: &Coordinator, partition: u32, sources: usize) -> Vec<EarlierLog> {
        let here = self.earlier.iter().filter(|e| e.ranges.iter().any(|r| r.partition == partition));
        let told = here.map(|EarlierPlan { id, crashed, ranges, proof }| {
            let own = ranges.iter().filter(|r| r.partition == partition);
            let streams: Streams = own.map(|r| (r.shard, r.stream)).collect();
            EarlierLog {
                crashed: *crashed,
                recovery: *id,
                ranges: ranges.clone(),
                streams: told_streams(coordinator, proof, &streams, sources),
            }
        });
        told.collect()
    }

    /// The version floor that this recovery itself demands: after a loss no version that the dead server may have
    /// handed out is given again.
    pub fn loss_floor(&self, coordinator: &Coordinator, crashed: ServerId) -> Version {
        let ceiling = |server: ServerId| coordinator.desk.state.servers.get(&server).map(|s| s.ceiling);
        let own = [(crashed, &self.proof)].into_iter();
        let logs = own.chain(self.earlier.iter().map(|earlier| (earlier.crashed, &earlier.proof)));
        let lost = logs.filter(|(_, proof)| proof.has_loss());
        lost.filter_map(|(server, _)| ceiling(server)).max().unwrap_or_default()
    }

    /// The loss floor, or a higher floor of an earlier loss that a tablet of the partition carries with it.
    fn version_floor(&self, coordinator: &Coordinator, crashed: ServerId, partition: u32) -> Version {
        let carried = |range: &PartitionRange| {
            let table = coordinator.desk.state.tables.get(&range.table)?;
            Some(table.tablets[table.covering(crashed, range.first, range.last)?].version_floor)
        };
        let floors = self.ranges_of(partition).filter_map(carried);
        floors.fold(self.loss_floor(coordinator, crashed), Version::max)
    }
}

/// The segments of some streams of a log as masters are told them, with this many sources for each segment.
fn told_streams(
    coordinator: &Coordinator,
    proof: &Proof,
    streams: &Streams,
    sources: usize,
) -> Vec<RecoveryStream> {
    let is_up = |source: &&Source| coordinator.desk.state.is_up(source.backup);
    let segment = |segment: &SegmentProof| RecoverySegment {
        segment: segment.segment,
        end: Some(segment.end).filter(|end| *end != u32::MAX),
        sources: segment
            .sources
            .iter()
            .filter(is_up)
            .take(sources)
            .map(|source| SegmentSource { backup: source.backup, epoch: source.epoch })
            .collect(),
    };
    let wanted = proof.streams.iter().filter(|s| streams.contains(&(s.shard, s.stream)));
    let told = wanted.map(|s| RecoveryStream {
        shard: s.shard,
        stream: s.stream,
        segments: s.segments.iter().map(segment).collect(),
    });
    told.collect()
}

impl Work {
    /// Adds one partition of this recovery, of this many bytes.
    fn take(&mut self, bytes: u64) {
        self.take_beside(bytes);
        self.of_this += 1;
    }

    /// Adds one partition of another recovery. The memory for what is written of it already may be missing twice in
    /// `left`.
    fn take_beside(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.partitions += 1;
    }
}

impl Partition {
    /// The master's turn is over without success.
    pub fn fail(&mut self, now: Instant, config: &CoordinatorConfig) {
        if let Replay::Running { master, .. } = self.state {
            self.avoid.insert(master);
        }
        self.not_before = if self.failures == 0 { now } else { now + pause(config, self.failures - 1) };
        self.failures += 1;
        self.state = Replay::Waiting;
    }

    fn choose_master(&mut self, masters: &BTreeMap<ServerId, Work>, most: Work) -> Option<ServerId> {
        if masters.keys().all(|m| self.avoid.contains(m)) {
            self.avoid.clear();
        }
        let may = |m: &ServerId, work: &Work| {
            !self.avoid.contains(m) && work.partitions < most.partitions && work.of_this < most.of_this
        };
        let free = masters.iter().filter(|(m, work)| may(m, work));
        free.min_by_key(|(m, work)| (Reverse(work.left), work.partitions, work.tablets, **m)).map(|(m, _)| *m)
    }
}

impl Coordinator {
    /// Gives waiting partitions to masters, and repeats messages that were not answered.
    pub(crate) fn replay(&mut self, now: Instant, id: RecoveryId, recovery: &mut Recovery, may_assign: bool) {
        let Some(crashed) = self.desk.state.recoveries.get(&id).map(|r| r.crashed) else { return };
        let Some(mut plan) = recovery.plan.take() else { return };
        let waiting = plan.partitions.iter().any(|p| matches!(p.state, Replay::Waiting));
        if waiting && may_assign {
            self.assign(now, id, &mut plan, recovery);
        }
        let mut portion = 0;
        for number in 0..plan.partitions.len() {
            let Replay::Running { master, retry, remind_at } = &mut plan.partitions[number].state else {
                continue;
            };
            let due = remind_at.unwrap_or_else(|| retry.next());
            if due <= now && self.desk.outbox.is_crowded() {
                recovery.wake = recovery.wake.min(now + CROWDED_PAUSE);
                break;
            }
            if due <= now && portion >= PORTION_BYTES {
                recovery.wake = now;
                break;
            }
            let send = match remind_at {
                Some(at) if *at <= now => {
                    *remind_at = Some(now + REMIND_INTERVAL);
                    true
                }
                Some(_) => false,
                None => retry.take(now, &self.desk.config),
            };
            recovery.wake = recovery.wake.min(remind_at.unwrap_or_else(|| retry.next()));
            if !send {
                continue;
            }
            let master = *master;
            match self.send_recover(now, id, crashed, &mut plan, number as u32, master) {
                Some(bytes) => portion += bytes,
                None => {
                    let text = format!(
                        "{id}: partition {number} does not fit a message; its log has too many segments"
                    );
                    self.desk.outbox.report(Level::Error, text);
                }
            }
        }
        recovery.plan = Some(plan);
    }

    fn assign(&mut self, now: Instant, id: RecoveryId, plan: &mut Plan, recovery: &mut Recovery) {
        let (plan_id, bytes) = (plan.id, plan.partition_bytes);
        let (mut masters, most) = self.work(plan);
        // See `room`: while memory is scarce, one partition is begun at a time.
        let is_narrow = self.rooms.is_scarce();
        let mut is_running = plan.is_running();
        let waiting = (0..).zip(&mut plan.partitions).filter(|(_, p)| matches!(p.state, Replay::Waiting));
        for (number, partition) in waiting {
            if partition.not_before > now {
                recovery.wake = recovery.wake.min(partition.not_before);
                continue;
            }
            if is_narrow && is_running {
                break;
            }
            let Some(master) = partition.choose_master(&masters, most) else { continue };
            masters.entry(master).and_modify(|work| work.take(bytes));
            is_running = true;
            partition.attempt += 1;
            partition.state =
                Replay::Running { master, retry: Retry::new(&self.desk.config), remind_at: None };
            timeline::note_assigned(now, &mut self.desk, id, (plan_id, number, partition.attempt), master);
        }
    }

    /// The work that each master has, and the work below which a master may be given one more partition.
    fn work(&self, plan: &Plan) -> (BTreeMap<ServerId, Work>, Work) {
        let tablets = self.desk.state.tablets_by_master();
        let (count, master_count) = (plan.partitions.len() as u64, tablets.len().max(1) as u64);
        let left = self.uneven_masters((plan.partition_bytes * count).div_ceil(master_count));
        let most = Work {
            partitions: self.desk.config.partitions_per_master,
            // No master takes over more than twice as much as if all took the same.
            of_this: left.as_ref().map_or(u32::MAX, |_| (2 * count / master_count).max(1) as u32),
            ..Work::default()
        };
        let left = |master: &ServerId| left.as_ref().and_then(|left| left.get(master)).copied().unwrap_or(0);
        let work = |(master, tablets)| (master, Work { left: left(&master), tablets, ..Work::default() });
        let mut masters: BTreeMap<ServerId, Work> = tablets.into_iter().map(work).collect();
        for other in self.recoveries.values().filter_map(|recovery| recovery.plan.as_ref()) {
            for partition in &other.partitions {
                if let Replay::Running { master, .. } = partition.state {
                    masters.entry(master).and_modify(|work| work.take_beside(other.partition_bytes));
                }
            }
        }
        for partition in &plan.partitions {
            if let Replay::Running { master, .. } = partition.state {
                masters.entry(master).and_modify(|work| work.take(plan.partition_bytes));
            }
        }
        (masters, most)
    }

    /// Sends `Recover`, and tells about how many bytes it had. None: the message is too large to be sent at all.
    fn send_recover(
        &mut self,
        now: Instant,
        id: RecoveryId,
        crashed: ServerId,
        plan: &mut Plan,
        partition: u32,
        server: ServerId,
    ) -> Option<usize> {
        let common = plan.common_part(self, partition)?;
        let room = (FRAME_BODY_BYTES_MAX as usize).saturating_sub(common.len() + OWN_BYTES);
        let mut own = plan.own_part(self, crashed, partition);
        let mut bytes = 0;
        if !plan.earlier.is_empty() {
            let told = SOURCE_COUNTS.into_iter().map(|sources| plan.earlier_logs(self, partition, sources));
            let mut told = told.map(|logs| (encoded_len(&logs), logs));
            (bytes, own.earlier) = told.find(|(bytes, _)| *bytes <= room)?;
        }
        let asked = Asked::Recover { recovery: id, plan: plan.id, partition, attempt: own.attempt, server };
        let about = common.len() + bytes + OWN_BYTES;
        self.desk.ask_encoded::<Recover>(now, server, asked, about, |out| own.encode_around(&common, out));
        Some(about)
    }

    pub(crate) fn on_recover_answered(
        &mut self,
        now: Instant,
        id: RecoveryId,
        (plan, number, attempt): (RecoveryId, u32, u32),
        server: ServerId,
        status: Status,
    ) {
        let Some(partition) = self.running(id, plan, number, attempt, server) else { return };
        if status == Status::Ok {
            if let Replay::Running { remind_at, .. } = &mut partition.state {
                remind_at.get_or_insert(now + REMIND_INTERVAL);
            }
            timeline::note_part(now, &mut self.desk, id, (plan, number), |part, since| {
                part.accepted.get_or_insert(since);
            });
        } else {
            let why = format!("{server} refused it: {status}");
            self.fail_partition(now, id, number, &why);
        }
        self.wake_recovery(id, Instant::ZERO);
    }

    /// The partition, if this server has its present turn.
    pub(crate) fn running(
        &mut self,
        id: RecoveryId,
        plan: RecoveryId,
        number: u32,
        attempt: u32,
        server: ServerId,
    ) -> Option<&mut Partition> {
        let plan = self.recoveries.get_mut(&id)?.plan.as_mut().filter(|p| p.id == plan)?;
        let partition = plan.partitions.get_mut(number as usize)?;
        let running = matches!(partition.state, Replay::Running { master, .. } if master == server);
        (running && partition.attempt == attempt).then_some(partition)
    }

    pub(crate) fn fail_partition(&mut self, now: Instant, id: RecoveryId, number: u32, why: &str) {
        let Some(plan) = self.recoveries.get_mut(&id).and_then(|r| r.plan.as_mut()) else { return };
        let plan_id = plan.id;
        let Some(partition) = plan.partitions.get_mut(number as usize) else { return };
        partition.fail(now, &self.desk.config);
        timeline::note_part(now, &mut self.desk, id, (plan_id, number), |part, since| {
            part.failed = Some(since)
        });
        if let Some(record) = self.desk.state.recoveries.get_mut(&id) {
            record.failed_attempts += 1;
            self.desk.outbox.touch(Key::Recovery(id));
        }
        self.desk.outbox.report(Level::Warn, format!("{id}: partition {number} goes elsewhere: {why}"));
        self.wake_recoveries();
    }

    /// A master has died, so the partitions that it replayed go elsewhere.
    pub(crate) fn take_partitions_from(&mut self, dead: ServerId) {
        let mut failed = Vec::new();
        for (id, recovery) in &self.recoveries {
            let partitions = recovery.plan.iter().flat_map(|p| p.partitions.iter().enumerate());
            for (number, partition) in partitions {
                if matches!(partition.state, Replay::Running { master, .. } if master == dead) {
                    failed.push((*id, number as u32));
                }
            }
        }
        for (id, number) in failed {
            self.fail_partition(Instant::ZERO, id, number, &format!("{dead} is dead"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::SegmentId;
    use ramhold_base::hash::PlacementSeed;
    use ramhold_wire::membership::Durability;

    /// A table's range in partition 0.
    fn range(table: u32) -> PartitionRange {
        PartitionRange {
            partition: 0,
            table: TableId(table),
            seed: PlacementSeed(1),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            shard: ShardId(0),
            stream: StreamId(1),
            first_segment: SegmentId(1),
            durability: Durability::Buffered,
            replicas: 2,
            slots: false,
        }
    }

    /// One partition with one tablet of each table; each tablet was recovered from these dead servers before.
    fn plan(tables: &[&[u64]]) -> Plan {
        let mut earlier: BTreeMap<u64, EarlierPlan> = BTreeMap::new();
        for (table, logs) in (1..).zip(tables) {
            for log in *logs {
                let crashed = ServerId(*log);
                let (id, proof) = (RecoveryId(100 + log), Proof::default());
                let new = || EarlierPlan { id, crashed, ranges: Vec::new(), proof };
                earlier.entry(*log).or_insert_with(new).ranges.push(range(table));
            }
        }
        let ranges = (1..).zip(tables).map(|(table, _)| range(table)).collect();
        Plan::new(RecoveryId(1), ranges, 0, Proof::default(), earlier.into_values().collect())
    }

    // F6: after a cold start one server takes small tablets of many dead ones.
    #[test]
    fn a_partition_with_tablets_of_many_dead_servers_is_live_before_it_is_replicated() {
        let single: Vec<[u64; 1]> = (1..=20).map(|log| [log]).collect();
        let tables: Vec<&[u64]> = single.iter().map(|logs| &logs[..]).collect();
        assert!(plan(&tables).is_early(0), "each would note two logs");
    }

    // F6
    #[test]
    fn a_piece_is_recovered_from_so_many_logs_at_the_most() {
        let logs: Vec<u64> = (1..PIECE_LOGS_MAX as u64).collect();
        // The dead owner's log is added to them, and the next owner's log when that owner dies.
        assert!(plan(&[&logs[1..]]).is_early(0));
        assert!(!plan(&[&logs]).is_early(0));
        assert!(!plan(&[&logs[1..], &logs]).is_early(0), "whichever of its pieces");
    }
}
