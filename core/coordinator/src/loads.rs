//! Tablets and bricks with their loads, as bricks have told them.
//!
//! The load of a tablet is the average of what its bricks tell: questions per second if there are any to speak of, else
//! bytes. A part of a tablet whose load nobody has told yet counts by its width: hashes are uniform.
//!
//! Not here: what is made of it (`shares`). Catalogue: I7.

use crate::bricks::{Bricks, Heard};
use crate::records::{QuorumTableRecord, QuorumTabletRecord};
use crate::shares::{Holder, Share, Shares};
use crate::state::State;
use ramhold_base::{Instant, KeyHash};
use ramhold_placement::{Domain, domain_of};
use ramhold_wire::bricks::{BRICK_WEIGHT, TabletLoad};
use std::collections::BTreeMap;

/// With fewer questions in a second, in all tablets together, nothing is said about load.
const ASKS_MIN: u64 = 100;

/// Whether a tablet stays in use without one of its bricks.
pub(crate) fn has_spare(table: &QuorumTableRecord) -> bool {
    let quorum = table.quorum();
    quorum.write.max(quorum.read) < quorum.bricks
}

pub(crate) fn shares(now: Instant, state: &State, bricks: &Bricks) -> Shares {
    let live = || state.quorum_tables.values().filter(|table| !table.dropping);
    let told =
        live().flat_map(|table| table.tablets.iter().map(move |it| (table, it, told(bricks, table, it))));
    let told: Vec<_> = told.collect();
    let asks: u64 = told.iter().map(|(.., load)| load.0).sum();
    let bytes: u64 = told.iter().map(|(.., load)| load.1).sum();
    let share =
        |(table, tablet, (own_asks, own_bytes)): (&QuorumTableRecord, &QuorumTabletRecord, (u64, u64))| {
            let load = match (asks >= ASKS_MIN, bytes > 0) {
                (true, _) => own_asks,
                (false, true) => own_bytes,
                (false, false) => ((tablet.last.0 - tablet.first.0) >> 32) + 1,
            };
            Share {
                table: table.id,
                slots: table.options.slots,
                first: tablet.first,
                last: tablet.last,
                bricks: tablet.bricks.clone(),
                load,
                bytes: own_bytes,
                has_spare: has_spare(table),
            }
        };
    let tablets = told.into_iter().map(share).collect();
    let mut domains = BTreeMap::<Domain<'_>, usize>::new();
    let holders = state.bricks.values().map(|record| {
        let count = domains.len();
        let held = bricks.heard(record.id).map_or(0, held_bytes);
        // Cleaning needs some room, too.
        let room = record.log_bytes - record.log_bytes / 8;
        Holder {
            brick: record.id,
            domain: *domains.entry(domain_of(record.id, &record.labels)).or_insert(count),
            weight: record.weight.unwrap_or(BRICK_WEIGHT),
            free_bytes: room.saturating_sub(held),
            takes: record.takes_tablets() && bricks.is_heard(now, record.id),
        }
    });
    Shares { tablets, holders: holders.collect() }
}

/// Bytes that a brick must hold. Data that it has given up lies in its log until that is cleaned, and does not count.
fn held_bytes(heard: &Heard) -> u64 {
    let told =
        heard.loads.as_ref().map(|loads| loads.iter().map(|load| load.bytes).fold(0, u64::saturating_add));
    told.unwrap_or(heard.used_bytes)
}

/// Questions per second, and bytes, of a tablet at one of its bricks: the average of those that have told.
fn told(bricks: &Bricks, table: &QuorumTableRecord, tablet: &QuorumTabletRecord) -> (u64, u64) {
    let loads = tablet.bricks.iter().filter_map(|brick| bricks.heard(*brick));
    let parts = loads.map(|heard| {
        let own = heard.loads.iter().flatten().filter(|load| load.table == table.id);
        own.filter_map(|load| part_of(load, tablet.first, tablet.last)).fold(
            None,
            |sum: Option<(u64, u64)>, part| {
                let (asks, bytes) = sum.unwrap_or_default();
                Some((asks.saturating_add(part.0), bytes.saturating_add(part.1)))
            },
        )
    });
    let told: Vec<(u64, u64)> = parts.flatten().collect();
    let count = told.len().max(1) as u64;
    let sum =
        told.iter().fold((0u64, 0u64), |sum, it| (sum.0.saturating_add(it.0), sum.1.saturating_add(it.1)));
    (sum.0 / count, sum.1 / count)
}

/// The part of a load that falls into a range, by width.
fn part_of(load: &TabletLoad, first: KeyHash, last: KeyHash) -> Option<(u64, u64)> {
    let (from, to) = (load.first.max(first), load.last.min(last));
    if from > to || load.first > load.last {
        return None;
    }
    // The product of two numbers below 2^65 and 2^64: the lower bits of widths do not matter.
    let width = |from: KeyHash, to: KeyHash| ((to.0 - from.0) >> 16) + 1;
    let part = |all: u64| {
        let part = u128::from(all) * u128::from(width(from, to)) / u128::from(width(load.first, load.last));
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    Some((part(load.asks), part(load.bytes)))
}
