//! What a head tells about the tablets here: where a recovery may cut them so that each part is bearable.
//!
//! A list of rows, each of which says that so many bytes and records lie somewhere between two hashes; all together they
//! are what is there. A small tablet is one row. Of a large one there are many that lie beside each other, from the profile
//! of its table, and wider ones above them for what is not known so exactly. The coordinator gets the rows with the reports
//! of those who hold the head, so they are never older than one segment.
//!
//! The list is bounded: the finer the rows, the more of them, so their grain grows with the data until they fit.
//!
//! Not here: the counting (`stats`, `profile`), the cutting (coordinator). Format: docs/formats/log.md, 6.
//! Decision: docs/decisions/0018-the-will-stands-in-the-head.md. Catalogue: F3.

use crate::TabletStat;
use crate::entry::STAT_BYTES;
use crate::log::Log;
use crate::profile::Weight;

/// The part of a head that rows of large tablets may take, as a divisor of its bytes.
const WILL_SHARE: u32 = 256;
/// So many they may be in any case.
const WILL_ROWS_MIN: usize = 8;

impl Log {
    /// The rows for a stream's next head.
    pub fn will(&self) -> Vec<TabletStat> {
        let profiles = &self.counters.profiles;
        let weight_of = |stat: &TabletStat| Weight { bytes: stat.bytes, records: stat.records };
        let is_large =
            |stat: &TabletStat| !weight_of(stat).fits(profiles.bucket()) && profiles.has(stat.table);
        let total =
            self.stats().filter(is_large).map(|stat| weight_of(&stat)).fold(Weight::default(), Weight::plus);
        let rows_max = self.will_rows_max();
        // Two neighbours that do not go together are more than one grain.
        let part = |amount: u64, bucket: u64| (amount / rows_max as u64 * 2).max(bucket / 2);
        let bucket = profiles.bucket();
        let mut grain =
            Weight { bytes: part(total.bytes, bucket.bytes), records: part(total.records, bucket.records) };
        while !total.fits(grain) {
            let mut rows = Vec::new();
            for stat in self.stats() {
                if is_large(&stat) {
                    let known = profiles.rows(stat.table, stat.first, stat.last, grain, &mut rows);
                    let Weight { bytes, records } = weight_of(&stat).less(known);
                    rows.push(TabletStat { bytes, records, ..stat });
                } else {
                    rows.push(stat);
                }
            }
            if rows.len() <= self.counters.count() + rows_max {
                return rows;
            }
            grain = grain.plus(grain);
        }
        self.stats().collect()
    }

    /// How many rows a will has at most, if no range more is tracked.
    pub fn will_rows(&self) -> usize {
        let more = if self.counters.profiles.is_empty() { 0 } else { self.will_rows_max() };
        self.counters.count() + more
    }

    /// How many rows large tablets may have beyond one each.
    fn will_rows_max(&self) -> usize {
        let bytes = self.config.geometry.segment_bytes / WILL_SHARE;
        (bytes as usize / STAT_BYTES).max(WILL_ROWS_MIN)
    }

    /// What the profiles of large tablets take in memory.
    pub fn profile_bytes(&self) -> u64 {
        self.counters.profiles.bytes()
    }
}
