//! Tells the load of each tablet, for the coordinator's choice of what moves. It decides nothing here.
//!
//! Not here: the average (`load`), the choice (core/coordinator). Catalogue: I7.

use crate::Brick;
use crate::tables::Tablet;
use ramhold_base::{Instant, TableId};
use ramhold_wire::bricks::TabletLoad;
use std::collections::BTreeMap;
use std::time::Duration;

/// The least time over which questions are counted.
const SAMPLE: Duration = Duration::from_secs(1);

impl Brick {
    /// The load of all tablets, if a second has passed since it was last told.
    pub fn loads(&mut self, now: Instant) -> Option<Vec<TabletLoad>> {
        let millis = u64::try_from(now.since(self.sampled_at).as_millis()).unwrap_or(u64::MAX);
        if now < self.sampled_at + SAMPLE {
            return None;
        }
        self.sampled_at = now;
        let table_bytes: BTreeMap<TableId, u64> = match &self.store {
            None => BTreeMap::new(),
            Some(store) => store.shard.log.stats().map(|stat| (stat.table, stat.bytes)).collect(),
        };
        let width = |tablet: &Tablet| u128::from((tablet.range.last.0 - tablet.range.first.0) >> 32) + 1;
        let mut widths = BTreeMap::<TableId, u128>::new();
        for tablet in self.tables.all() {
            *widths.entry(tablet.range.table).or_default() += width(tablet);
        }
        let mut loads = Vec::new();
        for tablet in self.tables.all_mut() {
            tablet.load.sample(millis);
            let table = tablet.range.table;
            let all = u128::from(table_bytes.get(&table).copied().unwrap_or(0));
            let part = all * width(tablet) / widths[&table];
            loads.push(TabletLoad {
                table,
                first: tablet.range.first,
                last: tablet.range.last,
                asks: tablet.load.average / 1000,
                bytes: u64::try_from(part).unwrap_or(u64::MAX),
            });
        }
        Some(loads)
    }
}
