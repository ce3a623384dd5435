//! The will: statistics of this master's tablets in a head, which tell a recovery where it may cut them so that no part
//! is too large.
//!
//! The will is a list of rows. Each row tells the bytes and records that lie somewhere between two hashes; the sum of
//! all rows is all data of the tablets. A small tablet is one row. A large one has many adjacent rows, from the profile
//! of its table, and wider rows that cover them, for data whose place is not known so exactly. The coordinator gets the
//! rows with the reports of the backups that hold the head, so the rows are never older than one segment.
//!
//! The list is bounded. Finer rows are more rows, so the grain of the rows is doubled until they fit.
//!
//! Not here: the counting (`stats`, `profile`), the cutting (coordinator). Format: docs/formats/log.md, 6.
//! Decision: docs/decisions/0018-the-will-stands-in-the-head.md. Catalogue: F3.

use crate::entry::STAT_BYTES;
use crate::log::Log;
use crate::profile::Weight;
use crate::{HashRange, TabletStat};

/// The rows of large tablets may take one part in this many of a head's bytes.
const WILL_SHARE: u32 = 256;
/// The rows of large tablets may be this many in any case.
const WILL_ROWS_MIN: usize = 8;

impl Log {
    /// The rows of the will for a stream's next head.
    pub fn will(&self) -> Vec<TabletStat> {
        self.will_of(|_| true)
    }

    /// The rows of the tracked ranges that are to be told.
    pub fn will_of(&self, is_told: impl Fn(HashRange) -> bool) -> Vec<TabletStat> {
        let told =
            |stat: &TabletStat| is_told(HashRange { table: stat.table, first: stat.first, last: stat.last });
        let stats: Vec<TabletStat> = self.stats().filter(told).collect();
        let profiles = &self.counters.profiles;
        let weight_of = |stat: &TabletStat| Weight { bytes: stat.bytes, records: stat.records };
        let is_large =
            |stat: &TabletStat| !weight_of(stat).fits(profiles.bucket()) && profiles.has(stat.table);
        let total =
            stats.iter().filter(|it| is_large(it)).map(weight_of).fold(Weight::default(), Weight::plus);
        let rows_max = self.will_rows_max();
        // Two adjacent rows that were not joined are together more than one grain.
        let part = |amount: u64, bucket: u64| (amount / rows_max as u64 * 2).max(bucket / 2);
        let bucket = profiles.bucket();
        let mut grain =
            Weight { bytes: part(total.bytes, bucket.bytes), records: part(total.records, bucket.records) };
        while !total.fits(grain) {
            let mut rows = Vec::new();
            for stat in stats.iter().copied() {
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
        stats
    }

    /// The most rows that a will has if no further range is tracked.
    pub fn will_rows(&self) -> usize {
        let more = if self.counters.profiles.is_empty() { 0 } else { self.will_rows_max() };
        self.counters.count() + more
    }

    /// The most rows that large tablets may have beyond one each.
    fn will_rows_max(&self) -> usize {
        let bytes = self.config.geometry.segment_bytes / WILL_SHARE;
        (bytes as usize / STAT_BYTES).max(WILL_ROWS_MIN)
    }

    /// The memory that the profiles of large tablets take.
    pub fn profile_bytes(&self) -> u64 {
        self.counters.profiles.bytes()
    }
}
