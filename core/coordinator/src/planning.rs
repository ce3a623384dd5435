//! Divides a dead server's tablets into partitions, by what the heads of its log tell of their weight.
//!
//! Not here: where tablets are cut (`divide`). Protocol: docs/protocols/recovery.md, 4. Catalogue: F3.

use crate::cut::DeadTablet;
use crate::desk::Desk;
use crate::divide::{Bounds, Spare, cut_on, divide};
use crate::home::{Home, home_of_dead, masters_of, own_home};
use crate::losses;
use crate::plan::Plan;
use crate::prove::{Proof, StreamProof};
use crate::records::Key;
use crate::recoveries::Recoveries;
use crate::tables::neighbourhoods_each;
use ramhold_base::limits::TABLET_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, RecoveryId, ServerId, TableId};
use ramhold_wire::recovery::{PartitionRange, TabletStat};
use std::collections::BTreeMap;

/// Ranges are cut for their new owner's neighbourhoods as long as a table has not this many times the tablets of a new one.
const CUT_ON_MOST: u64 = 4;
/// The segments that such a range has at least.
const CUT_ON_SEGMENTS: u64 = 2;

impl Recoveries {
    /// Divides the tablets that are still the dead server's, unless there is a division.
    pub(crate) fn divide(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId) {
        let Some(recovery) = self.open.get(&id).filter(|recovery| recovery.plan.is_none()) else { return };
        let Some(proof) = recovery.inquiry.proof.clone() else { return };
        let Some(crashed) = desk.state.recoveries.get(&id).map(|r| r.crashed) else { return };
        let time = desk.time(now);
        let mut tablets = self.dead_tablets(desk, crashed, &proof);
        let lacking = &recovery.lacking;
        tablets.retain(|tablet| !desk.state.is_recovered_from_any(crashed, &tablet.range, lacking));
        if tablets.is_empty() {
            return;
        }
        let tablet_count = tablets.len();
        let own = own_home(desk, crashed);
        let mut homes: BTreeMap<Home, Vec<DeadTablet>> = BTreeMap::new();
        for tablet in tablets {
            let stream = (tablet.range.shard, tablet.range.stream);
            homes.entry(home_of_dead(desk, crashed, tablet.range.table, stream)).or_default().push(tablet);
        }
        let mut ranges: Vec<PartitionRange> = Vec::new();
        let mut divided: Vec<(Home, u32, u64)> = Vec::new();
        let mut cutting = self.cutting(desk, &homes);
        // Each range gets a side log of its own, whose last segment is not full.
        let bytes_min = u64::from(desk.config.segment_bytes) * CUT_ON_SEGMENTS;
        // No partition has tablets of two homes.
        for (home, tablets) in &homes {
            let weight = tablets.iter().map(DeadTablet::bytes).fold(0, u64::saturating_add);
            let tried = masters_of(desk, home, &own);
            let bounds = self.bounds(desk, id, weight, recovery.partition_bytes_max, tried);
            let next = ranges.last().map_or(0, |range| range.partition + 1);
            let mut here = divide(tablets, &bounds);
            if let Some((each, spare)) = &mut cutting
                && matches!(home, Home::Neighbourhood(_))
            {
                let masters = desk.state.masters().filter(|server| tried.has(desk, server)).count() as u64;
                let partitions = here.last().map_or(1, |range| u64::from(range.partition) + 1);
                here = cut_on(&here, tablets, (*each * masters).div_ceil(partitions), bytes_min, spare);
            }
            ranges.extend(
                here.into_iter().map(|range| PartitionRange { partition: next + range.partition, ..range }),
            );
            let count = ranges.last().map_or(0, |range| range.partition + 1) - next;
            divided.push((home.clone(), count, weight));
        }
        let plan_id = desk.state.meta.recoveries.next();
        desk.state.meta.recoveries = plan_id;
        let earlier = self.divide_earlier(desk, crashed, time, &ranges);
        let mut plan = Plan::new(plan_id, ranges, divided, proof.clone(), earlier);
        plan.own_home = own;
        let losses = losses::file_losses(desk, id, crashed, time, &proof);
        let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
        record.plan = plan_id;
        record.ends = proof.ends();
        if let Some(losses) = losses {
            record.losses = losses;
        }
        record.partitions = record.published.len() as u32 + plan.partitions.len() as u32;
        record.segments = proof.segments();
        let since = time.0.saturating_sub(record.detected.0);
        record.complete_millis.get_or_insert(since);
        let text = format!(
            "{id}: the log of {crashed} is {}; {} segments, {} tablets in {} partitions, {since} ms after the verdict",
            if proof.has_loss() { "incomplete for good, see the loss report" } else { "complete" },
            record.segments,
            tablet_count,
            plan.partitions.len(),
        );
        desk.outbox.report(Level::Info, text);
        desk.outbox.touch(Key::Meta);
        desk.outbox.touch(Key::Recovery(id));
        if let Some(recovery) = self.open.get_mut(&id) {
            recovery.plan = Some(plan);
        }
    }

    /// Ranges are cut so that their new owner has one for each of its neighbourhoods: how many these are, and how many more
    /// ranges each table may have. It gets at most a few times the tablets that it would have if it was created now,
    /// ranges of all divisions counted.
    fn cutting(&self, desk: &Desk, homes: &BTreeMap<Home, Vec<DeadTablet>>) -> Option<(u64, Spare)> {
        if !homes.keys().any(|home| matches!(home, Home::Neighbourhood(_))) || planted(Defect::NotCutForOwner)
        {
            return None;
        }
        let each = neighbourhoods_each(desk) as u64;
        let most =
            (desk.state.masters().count() as u64 * each * CUT_ON_MOST).min(u64::from(TABLET_COUNT_MAX));
        let mut tables: BTreeMap<TableId, u64> =
            desk.state.tables.iter().map(|(id, table)| (*id, table.tablets.len() as u64)).collect();
        let plans = self.open.values().filter_map(|recovery| recovery.plan.as_ref());
        for range in plans.flat_map(|plan| &plan.ranges) {
            *tables.entry(range.table).or_default() += 1;
        }
        tables.values_mut().for_each(|has| *has = most.saturating_sub(*has));
        Some((each, Spare::of_plan(tables)))
    }

    /// The bounds of partitions of this many live bytes that are at home there; `most`: the most that one
    /// partition is to have.
    fn bounds(&self, desk: &Desk, id: RecoveryId, weight: u64, most: Option<u64>, home: &Home) -> Bounds {
        let masters = desk.state.masters().filter(|server| home.has(desk, server)).count() as u64;
        // All masters that are up share the work, but none works on scraps. Parts do not come out even, least of all
        // between slots: a sixteenth is room for that.
        let share = weight.div_ceil(masters.max(1));
        // If some masters have more room than others they get more (see `room`). Then there are two parts for each
        // master.
        let share =
            if self.uneven_masters(desk, id, share, home).is_some() { share.div_ceil(2) } else { share };
        let share = share.saturating_mul(17) / 16;
        let share = share.saturating_add(u64::from(desk.config.segment_bytes));
        let wanted = share.max(desk.config.partition_bytes_min).min(desk.config.partition_bytes_max);
        Bounds {
            bytes_wanted: wanted.min(most.unwrap_or(u64::MAX)).max(1),
            bytes_max: desk.config.partition_bytes_max,
            records_max: desk.config.partition_records_max,
            segment_bytes: desk.config.segment_bytes,
        }
    }

    /// The tablets that are still the dead server's, with the weight that its heads told.
    pub(crate) fn dead_tablets(&self, desk: &Desk, crashed: ServerId, proof: &Proof) -> Vec<DeadTablet> {
        let mut tablets = Vec::new();
        let kept = desk.state.tables.values().filter(|t| !t.dropping && t.options.replicas > 0);
        for table in kept {
            for tablet in table.tablets.iter().filter(|t| t.owner == crashed && t.taken) {
                let range = PartitionRange {
                    partition: 0,
                    table: table.id,
                    seed: table.seed,
                    first: tablet.first,
                    last: tablet.last,
                    shard: tablet.shard,
                    stream: tablet.stream,
                    first_segment: tablet.first_segment,
                    durability: table.options.durability,
                    replicas: table.options.replicas,
                    slots: table.options.slots,
                };
                let mut streams = proof.streams.iter();
                let stream = streams.find(|s| (s.shard, s.stream) == (tablet.shard, tablet.stream));
                let stats = stream.map_or(&[][..], |s| &s.stats);
                let mut stats: Vec<TabletStat> =
                    stats.iter().filter(|s| s.table == table.id).copied().collect();
                if !stats.iter().any(|s| s.first <= tablet.last && tablet.first <= s.last) {
                    stats = self.earlier_stats(desk, table.id, tablet);
                }
                tablets.push(DeadTablet { range, stats });
            }
        }
        for stream in proof.streams.iter().filter(|s| s.stats.is_empty()) {
            estimate(desk, stream, &mut tablets);
        }
        tablets
    }
}

/// A head without statistics: the stream's segments are taken as full, and spread evenly over its tablets.
pub(crate) fn estimate(desk: &Desk, stream: &StreamProof, tablets: &mut [DeadTablet]) {
    let here = |t: &DeadTablet| (t.range.shard, t.range.stream) == (stream.shard, stream.stream);
    let count = tablets.iter().filter(|t| here(t)).count().max(1) as u64;
    let bytes = stream.segments.len() as u64 * u64::from(desk.config.segment_bytes) / count;
    for tablet in tablets.iter_mut().filter(|t| here(t)) {
        let PartitionRange { table, first, last, .. } = tablet.range;
        tablet.stats.push(TabletStat { table, first, last, bytes, records: bytes / 100 });
    }
}
