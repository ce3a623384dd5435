//! The state of a master, as others can see it.

use crate::Master;
use crate::tablets::Tablet;
use ramhold_base::map::FastMap;
use ramhold_base::{Instant, KeyHash, Latencies, LeaseId, ServerId, StreamId, TableId};
use ramhold_shard::LogSegments;
use ramhold_wire::class::StreamClass;
use ramhold_wire::status::{ProcessStatus, ReadLeaseStatus, ResultsStatus, TrafficStatus};
use ramhold_wire::{Opcode, View};

/// One tablet as its master sees it, for state audits.
#[derive(Clone, Copy, Debug)]
pub struct TabletSeen {
    pub table: TableId,
    pub first: KeyHash,
    pub last: KeyHash,
    pub serving: bool,
    pub stream: StreamId,
}

impl Master {
    /// Fills in this role's part.
    pub fn status_into(&self, status: &mut ProcessStatus, view: &View) {
        let usage = self.service.shard.log.usage();
        status.log_bytes = usage.log_bytes;
        status.log_used_bytes = usage.log_bytes - usage.free_bytes;
        status.log_live_bytes = self.service.shard.log.stats().map(|s| s.bytes).sum();
        status.index_bytes_max = self.service.config.index_bytes_max;
        status.index_bytes = usage.index_bytes;
        status.objects = self.service.shard.log.stats().map(|s| s.records).sum();
        status.tablets = self.service.tablets.count() as u64;
        status.reads = self.service.counters.reads;
        status.writes = self.service.counters.writes;
        status.streams = self.service.shard.replicator.status(view, |stream| self.unreplicated_bytes(stream));
        for stream in &mut status.streams {
            if !self.is_needed(stream.stream, stream.class()) {
                stream.waits_for = None;
            }
        }
        status.recovering_partitions = self.replays.count() as u64;
        status.cleaning = Some(self.service.shard.cleaning_status());
        status.scrub = Some(self.service.shard.scrub.status());
        status.results = Some(ResultsStatus {
            leases: self.service.leases.count() as u64,
            remembered: self.service.shard.log.result_count() as u64,
            recalled: self.service.counters.recalled,
            dropped: self.service.counters.dropped,
        });
        status.copying = Some(self.service.shard.replicator.copying(&LogSegments(&self.service.shard.log)));
        let (replication, copying) = self.service.shard.replicator.traffic();
        status.traffic = Some(TrafficStatus { replication, copying, recovery: self.service.fetched.bytes() });
        let (waited, refused) = self.read_lease_counters();
        status.read_lease = Some(ReadLeaseStatus { waited, refused });
    }

    /// Memory that recovered data may take: cleaning can free all memory that holds nothing live.
    pub fn room_bytes(&self) -> u64 {
        let live: u64 = self.service.shard.log.stats().map(|s| s.bytes).sum();
        self.service.config.log_bytes.saturating_sub(live + self.service.config.reserve_bytes)
    }

    /// Answers since the start by operation, with how long they waited.
    pub fn operations(&self) -> Vec<(Opcode, Latencies)> {
        self.service.answers.multis.answered.by_operation()
    }

    /// Whether a tablet is in a stream, or is to be. A shortage of backups for any other stream holds up nobody.
    fn is_needed(&self, stream: StreamId, class: StreamClass) -> bool {
        let moved = |tablet: &Tablet| tablet.moved.is_some_and(|moved| moved.stream == stream);
        self.service.tablets.all().any(|tablet| tablet.stream == stream || moved(tablet))
            || self.service.tablets.wants(class)
            || !self.replays.is_empty()
    }

    fn unreplicated_bytes(&self, stream: StreamId) -> u64 {
        let durable = self.service.shard.durable(stream);
        self.service
            .shard
            .log
            .stream_segments(stream)
            .filter(|id| *id >= durable.segment)
            .filter_map(|id| self.service.shard.log.segment(id))
            .map(|s| {
                let done = if s.id == durable.segment { durable.offset } else { 0 };
                u64::from(s.len_bytes.saturating_sub(done))
            })
            .sum()
    }

    /// All tablets here, in no particular order.
    pub fn tablets_seen(&self) -> impl Iterator<Item = TabletSeen> {
        self.service.tablets.all().map(|t| TabletSeen {
            table: t.range.table,
            first: t.range.first,
            last: t.range.last,
            serving: t.state == crate::tablets::TabletState::Serving,
            stream: t.stream,
        })
    }

    /// The number of objects of each table here, in no particular order. `None`: nobody knows, since some were lost.
    pub fn objects_by_table(&self) -> FastMap<TableId, Option<u64>> {
        let mut tables = FastMap::default();
        for tablet in
            self.service.tablets.all().filter(|tablet| tablet.state == crate::tablets::TabletState::Serving)
        {
            let count = self.service.shard.log.object_count(tablet.range).filter(|_| !tablet.has_losses);
            let sum: &mut Option<u64> = tables.entry(tablet.range.table).or_insert(Some(0));
            *sum = sum.zip(count).map(|(sum, count)| sum + count);
        }
        tables
    }

    /// First and last hashes of a table's tablets that are served here, from the lowest on.
    pub fn ranges_served(&self, table: TableId) -> Vec<(KeyHash, KeyHash)> {
        let is_asked = |tablet: &TabletSeen| tablet.table == table && tablet.serving;
        let served = self.tablets_seen().filter(is_asked).map(|tablet| (tablet.first, tablet.last));
        let mut served: Vec<(KeyHash, KeyHash)> = served.collect();
        served.sort_unstable();
        served
    }

    /// Whether a tablet that is served here may refuse requests of this process.
    pub fn has_unconfirmed(&self) -> bool {
        self.service.confirming.is_open()
    }

    /// The number of segments of positions that R buffers had, and of which no backup has the whole now.
    pub fn lone_segments(&self) -> u64 {
        self.service.settling.lone_segments(&self.service.shard)
    }

    /// The instant until which reads may be answered here, by the grants up to now. `FAR` without read leases.
    pub fn leased_until(&self) -> Instant {
        self.service.answers.read_lease.known_until(&self.service.shard.replicator)
    }

    /// Clients' leases that are known to be live at `now`.
    pub fn live_leases(&self, now: Instant) -> impl Iterator<Item = LeaseId> {
        self.service.leases.live(now)
    }

    /// Whether every segment has all its replicas.
    pub fn is_fully_replicated(&self) -> bool {
        self.service.shard.replicator.is_fully_replicated()
    }

    /// Backups that hold a replica of this log.
    pub fn backups(&self) -> Vec<ServerId> {
        let mut backups: Vec<ServerId> = self.service.shard.replicator.replicas().map(|r| r.backup).collect();
        backups.sort_unstable();
        backups.dedup();
        backups
    }
}
