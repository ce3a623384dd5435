//! One division of a dead server's tablets into partitions, and the messages that masters are sent about it.
//!
//! A partition waits, runs at one master, or is live. Every turn has its own attempt number, and only the present turn
//! can be published.
//!
//! Not here: which master replays which partition (`replaying`).
//! Protocol: docs/protocols/recovery.md, 4 and 5. Catalogue: F4, F6.

use crate::config::CoordinatorConfig;
use crate::home::Home;
use crate::prove::{Proof, SegmentProof, Source};
use crate::retry::{Retry, pause};
use crate::state::State;
use ramhold_base::limits::{FRAME_BODY_BYTES_MAX, PIECE_LOGS_MAX};
use ramhold_base::{Instant, KeyHash, RecoveryId, ServerId, ShardId, StreamId, TableId, Version};
use ramhold_wire::control::encoded_len;
use ramhold_wire::recovery::{
    EarlierLog, PartitionRange, Recover, RecoverySegment, RecoveryStream, SegmentSource,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sources that are told for each segment: all of them, or fewer, so that a log of very many segments fits a
/// message.
const SOURCE_COUNTS: [usize; 3] = [u8::MAX as usize, 2, 1];
/// The size of a message without the part that is common to all, with some room.
const OWN_BYTES: usize = 256;

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
    /// The home of what the dead server had, where its table names none.
    pub own_home: Home,
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

/// The message for one turn of a partition.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The part that it has in common with messages about other partitions.
    pub common: Arc<[u8]>,
    pub own: Recover,
    /// About how many bytes the whole message has.
    pub about: usize,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub state: Replay,
    /// Where all of its tablets are at home.
    pub home: Home,
    /// About how many bytes of log it has.
    pub bytes: u64,
    /// The number of the present or last turn.
    pub attempt: u32,
    failures: u32,
    pub not_before: Instant,
    /// Masters that failed this partition.
    pub avoid: BTreeSet<ServerId>,
    /// Masters that had no room for this partition since the log was divided.
    pub lacked_room: BTreeSet<ServerId>,
}

#[derive(Debug)]
pub(crate) enum Replay {
    Waiting,
    Running { master: ServerId, retry: Retry, remind_at: Option<Instant> },
    Live,
}

impl Plan {
    /// `homes`: for the partitions of each home in order, the home, their number and the bytes of log that they have
    /// together.
    pub fn new(
        id: RecoveryId,
        ranges: Vec<PartitionRange>,
        homes: Vec<(Home, u32, u64)>,
        proof: Proof,
        earlier: Vec<EarlierPlan>,
    ) -> Plan {
        let partition = |home: &Home, bytes: u64| Partition {
            state: Replay::Waiting,
            home: home.clone(),
            bytes,
            attempt: 0,
            failures: 0,
            not_before: Instant::ZERO,
            avoid: BTreeSet::new(),
            lacked_room: BTreeSet::new(),
        };
        let of_home = |(home, count, bytes): &(Home, u32, u64)| {
            let each = bytes / u64::from((*count).max(1));
            (0..*count).map(|_| partition(home, each)).collect::<Vec<_>>()
        };
        let partitions = homes.iter().flat_map(of_home).collect();
        Plan { id, ranges, proof, earlier, partitions, own_home: Home::Anywhere, common: None }
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
        let all = self.partitions.iter().map(|partition| partition.bytes).fold(0, u64::saturating_add);
        all / self.partitions.len().max(1) as u64
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

    /// The message for the present turn of a partition. None: it is too large to be sent at all.
    pub fn turn(&mut self, state: &State, crashed: ServerId, partition: u32) -> Option<Turn> {
        let common = self.common_part(state, partition)?;
        let room = (FRAME_BODY_BYTES_MAX as usize).saturating_sub(common.len() + OWN_BYTES);
        let mut own = self.own_part(state, crashed, partition);
        let mut bytes = 0;
        if !self.earlier.is_empty() {
            let told = SOURCE_COUNTS.into_iter().map(|sources| self.earlier_logs(state, partition, sources));
            let mut told = told.map(|logs| (encoded_len(&logs), logs));
            (bytes, own.earlier) = told.find(|(bytes, _)| *bytes <= room)?;
        }
        let about = common.len() + bytes + OWN_BYTES;
        Some(Turn { common, own, about })
    }

    /// The part of a partition's message that it has in common with others. None: it is too large.
    fn common_part(&mut self, state: &State, partition: u32) -> Option<Arc<[u8]>> {
        let streams: Streams = self.ranges_of(partition).map(|r| (r.shard, r.stream)).collect();
        let list_version = state.meta.list_version;
        let common = self.common.take().filter(|common| common.list_version == list_version);
        let mut common = common.unwrap_or_else(|| Common { list_version, of_streams: BTreeMap::new() });
        let made = common.of_streams.entry(streams).or_insert_with_key(|streams| {
            let made = SOURCE_COUNTS.into_iter().map(|sources| {
                let streams = told_streams(state, &self.proof, streams, sources);
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
    fn own_part(&self, state: &State, crashed: ServerId, partition: u32) -> Recover {
        Recover {
            recovery: self.id,
            crashed,
            partition,
            attempt: self.partitions.get(partition as usize).map_or(0, |p| p.attempt),
            ranges: Vec::new(),
            streams: Vec::new(),
            safe_version: self.safe_version(),
            version_floor: self.version_floor(state, crashed, partition),
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
    fn earlier_logs(&self, state: &State, partition: u32, sources: usize) -> Vec<EarlierLog> {
        let here = self.earlier.iter().filter(|e| e.ranges.iter().any(|r| r.partition == partition));
        let told = here.map(|EarlierPlan { id, crashed, ranges, proof }| {
            let own = ranges.iter().filter(|r| r.partition == partition);
            let streams: Streams = own.map(|r| (r.shard, r.stream)).collect();
            EarlierLog {
                crashed: *crashed,
                recovery: *id,
                ranges: ranges.clone(),
                streams: told_streams(state, proof, &streams, sources),
            }
        });
        told.collect()
    }

    /// The version floor that this recovery itself demands: after a loss no version that the dead server may have
    /// handed out is given again.
    pub fn loss_floor(&self, state: &State, crashed: ServerId) -> Version {
        let ceiling = |server: ServerId| state.servers.get(&server).map(|s| s.ceiling);
        let own = [(crashed, &self.proof)].into_iter();
        let logs = own.chain(self.earlier.iter().map(|earlier| (earlier.crashed, &earlier.proof)));
        let lost = logs.filter(|(_, proof)| proof.has_loss());
        lost.filter_map(|(server, _)| ceiling(server)).max().unwrap_or_default()
    }

    /// The loss floor, or a higher floor of an earlier loss that a tablet of the partition carries with it.
    fn version_floor(&self, state: &State, crashed: ServerId, partition: u32) -> Version {
        let carried = |range: &PartitionRange| {
            let table = state.tables.get(&range.table)?;
            Some(table.tablets[table.covering(crashed, range.first, range.last)?].version_floor)
        };
        let floors = self.ranges_of(partition).filter_map(carried);
        floors.fold(self.loss_floor(state, crashed), Version::max)
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
}

/// The segments of some streams of a log as masters are told them, with this many sources for each segment.
fn told_streams(state: &State, proof: &Proof, streams: &Streams, sources: usize) -> Vec<RecoveryStream> {
    let is_up = |source: &&Source| state.is_up(source.backup);
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

/// Another log from which parts of a division are to be recovered as well.
#[derive(Debug)]
pub(crate) struct EarlierPlan {
    /// An id of its own, by which backups tell divisions of one log apart.
    pub id: RecoveryId,
    pub crashed: ServerId,
    /// The parts of the division, at their positions in this log.
    pub ranges: Vec<PartitionRange>,
    pub proof: Proof,
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
        Plan::new(
            RecoveryId(1),
            ranges,
            vec![(Home::Anywhere, 1, 0)],
            Proof::default(),
            earlier.into_values().collect(),
        )
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
