//! The bricks of quorum tables, as far as this client has heard from the coordinator.
//!
//! A description is kept until bricks contradict it. Then its tablet is *doubted*: no operation begins there until a
//! newer description has come, or has failed to come. An old description is safe to use: thresholds are the table's, and
//! answers count within one epoch.
//!
//! Invariant: a kept description covers every hash exactly once, in order, and each tablet has N different bricks.
//!
//! Not here: which bricks answered lately (`quorum::health`). Catalogue: I1.

use crate::operation::Target;
use ramhold_base::hash::PlacementHasher;
use ramhold_base::{Instant, KeyHash, ServerId, TableId};
use ramhold_quorum::Thresholds;
use ramhold_wire::quorum::{BrickPlace, BrickTablet, WriteProtocol};
use ramhold_wire::table::TableDescription;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Quorum tables whose tablets one client keeps. The one that was described longest ago is dropped first.
const TABLE_COUNT_MAX: usize = 1024;

/// The bricks of one tablet, and how many of them must answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bricks {
    /// The last hash of the tablet.
    pub last: KeyHash,
    pub places: Vec<BrickPlace>,
    pub thresholds: Thresholds,
    pub protocol: WriteProtocol,
    pub epoch: u64,
    /// The zones of the table's bricks, as far as they are known.
    pub zones: Arc<BTreeMap<ServerId, String>>,
}

impl Bricks {
    pub fn is_in(&self, brick: ServerId, zone: &str) -> bool {
        self.zones.get(&brick).is_some_and(|own| own == zone)
    }
}

#[derive(Default)]
pub struct BrickTables {
    tables: BTreeMap<TableId, Table>,
}

struct Table {
    hasher: PlacementHasher,
    described: Instant,
    /// In order of their first hashes.
    tablets: Vec<Tablet>,
}

struct Tablet {
    first: KeyHash,
    doubted: bool,
    bricks: Arc<Bricks>,
}

impl BrickTables {
    /// Whether operations on a key or a hash must not begin before the table is described again.
    pub fn is_doubted(&self, table: TableId, target: Target<'_>) -> bool {
        self.tables.get(&table).is_none_or(|table| table.tablet(target).doubted)
    }

    /// The bricks of a key or a hash. `None`: the table is not known, or no quorum table.
    pub fn of(&self, table: TableId, target: Target<'_>) -> Option<&Arc<Bricks>> {
        self.tables.get(&table).map(|table| &table.tablet(target).bricks)
    }

    /// When a table was described last.
    pub fn described(&self, table: TableId) -> Option<Instant> {
        self.tables.get(&table).map(|table| table.described)
    }

    /// Keeps a newer description. `false`: it makes no sense, and is not kept.
    pub fn keep(&mut self, now: Instant, description: &TableDescription, tablets: &[BrickTablet]) -> bool {
        let Some(options) = description.options.quorum else { return false };
        let Ok(thresholds) = Thresholds::new(options.bricks, options.write, options.read) else {
            return false;
        };
        let has_all = |tablet: &BrickTablet| {
            let bricks: BTreeSet<ServerId> = tablet.bricks.iter().map(|place| place.brick).collect();
            bricks.len() == thresholds.bricks() && tablet.bricks.len() == bricks.len()
        };
        if !covers_all(tablets) || !tablets.iter().all(has_all) {
            return false;
        }
        let known = description.zones.iter().flatten().map(|it| (it.brick, it.zone.clone()));
        let zones: Arc<BTreeMap<ServerId, String>> = Arc::new(known.collect());
        let tablets = tablets.iter().map(|tablet| {
            let (places, protocol, epoch) = (tablet.bricks.clone(), options.protocol, tablet.epoch);
            let (last, zones) = (tablet.last, zones.clone());
            let bricks = Arc::new(Bricks { last, places, thresholds, protocol, epoch, zones });
            Tablet { first: tablet.first, doubted: false, bricks }
        });
        let hasher = PlacementHasher::new(description.placement());
        let table = Table { hasher, described: now, tablets: tablets.collect() };
        self.tables.insert(description.table, table);
        if self.tables.len() > TABLE_COUNT_MAX {
            let oldest = self.tables.iter().min_by_key(|(_, table)| table.described).map(|(id, _)| *id);
            self.tables.remove(&oldest.expect("there are more tables than the most that are kept"));
        }
        true
    }

    pub fn forget(&mut self, table: TableId) {
        self.tables.remove(&table);
    }

    /// The bricks of this epoch say that they do not hold the key or the hash.
    pub fn doubt(&mut self, table: TableId, target: Target<'_>, epoch: u64) {
        if let Some(table) = self.tables.get_mut(&table) {
            let index = table.index(target);
            let tablet = &mut table.tablets[index];
            tablet.doubted |= tablet.bricks.epoch == epoch;
        }
    }

    /// No newer description can be had: the known one of this table may be tried once more.
    pub fn trust_again(&mut self, table: TableId) {
        let tablets = self.tables.get_mut(&table).into_iter().flat_map(|table| &mut table.tablets);
        tablets.for_each(|tablet| tablet.doubted = false);
    }

    /// All bricks of all tables.
    pub fn all(&self) -> BTreeSet<ServerId> {
        let tablets = self.tables.values().flat_map(|table| &table.tablets);
        tablets.flat_map(|tablet| tablet.bricks.places.iter().map(|place| place.brick)).collect()
    }
}

impl Table {
    fn index(&self, target: Target<'_>) -> usize {
        let hash = match target {
            Target::Key(key) => self.hasher.hash(key),
            Target::Hash(hash) => hash,
        };
        let after = self.tablets.partition_point(|tablet| tablet.first <= hash);
        after.checked_sub(1).expect("the first tablet begins at hash 0")
    }

    fn tablet(&self, target: Target<'_>) -> &Tablet {
        &self.tablets[self.index(target)]
    }
}

fn covers_all(tablets: &[BrickTablet]) -> bool {
    let mut next = Some(0);
    for tablet in tablets {
        if next != Some(tablet.first.0) || tablet.last < tablet.first {
            return false;
        }
        next = tablet.last.0.checked_add(1);
    }
    next.is_none()
}
