//! The owners of keys, as far as this client has heard.
//!
//! The coordinator's description of a table is kept until a server contradicts it. Then the tablets concerned
//! are *doubted*: no operation is sent to them until a newer description has come, or has failed to come. An
//! old description is safe to use, since owners check every request.
//!
//! Invariant: a kept description covers every hash exactly once, in order.
//!
//! Not here: tables that are held by bricks (`bricks`).

use crate::bricks::BrickTables;
use crate::operation::Target;
use ramhold_base::hash::PlacementHasher;
use ramhold_base::{Instant, KeyHash, ServerId, ShardId, TableId};
use ramhold_wire::shortage::Shortage;
use ramhold_wire::table::{TableDescription, TabletState};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Tables whose tablets one client keeps. The table that was asked for longest ago is dropped first.
const TABLE_COUNT_MAX: usize = 1024;

#[derive(Default)]
pub struct TabletCache {
    tables: BTreeMap<TableId, Table>,
    versions: u64,
    /// The tables that are held by bricks, and by no server.
    pub bricks: BrickTables,
}

struct Table {
    hasher: PlacementHasher,
    fetched: Instant,
    version: u64,
    shortage: Option<Shortage>,
    /// In order of their first hashes.
    tablets: Vec<Tablet>,
}

struct Tablet {
    first: KeyHash,
    state: TabletState,
    owner: Option<Owner>,
    doubted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub server: ServerId,
    pub shard: ShardId,
    pub addr: SocketAddr,
}

/// The destination of a key's operation. `version` counts descriptions, so that a late contradiction of an
/// older one does not count against a newer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    To {
        owner: Owner,
        version: u64,
    },
    /// There is no description, or a doubted one.
    Ask,
    /// The coordinator said at `asked` that the tablet has no owner that serves it.
    NoOwner {
        asked: Instant,
        /// The tablet is new, and no server has taken it yet.
        is_new: bool,
    },
    Dropping,
    /// The table is held by bricks: see `TabletCache::bricks`.
    Bricks,
}

impl TabletCache {
    pub fn route(&self, table: TableId, target: Target<'_>) -> Route {
        let Some(table) = self.tables.get(&table) else {
            return self.route_to_bricks(table, target);
        };
        let tablet = &table.tablets[table.index_of(target)];
        match (tablet.state, tablet.owner) {
            _ if tablet.doubted => Route::Ask,
            (TabletState::Dropping, _) => Route::Dropping,
            (TabletState::Serving, Some(owner)) => Route::To { owner, version: table.version },
            (TabletState::Serving | TabletState::Recovering | TabletState::Creating, _) => {
                Route::NoOwner { asked: table.fetched, is_new: tablet.state == TabletState::Creating }
            }
        }
    }

    fn route_to_bricks(&self, table: TableId, target: Target<'_>) -> Route {
        if self.bricks.is_doubted(table, target) { Route::Ask } else { Route::Bricks }
    }

    /// Keeps a newer description. `false`: it does not cover every hash exactly once, and is not kept.
    pub fn keep(&mut self, now: Instant, description: &TableDescription) -> bool {
        if let Some(tablets) = &description.quorum {
            return self.bricks.keep(now, description, tablets);
        }
        if !covers_all(description) {
            return false;
        }
        self.versions += 1;
        let tablets = description.tablets.iter().map(|tablet| Tablet {
            first: tablet.first,
            state: tablet.state,
            owner: tablet.address.map(|address| Owner {
                server: tablet.owner,
                shard: tablet.shard,
                addr: address.0,
            }),
            doubted: false,
        });
        let table = Table {
            hasher: PlacementHasher::new(description.placement()),
            fetched: now,
            version: self.versions,
            shortage: description.shortage,
            tablets: tablets.collect(),
        };
        self.tables.insert(description.table, table);
        if self.tables.len() > TABLE_COUNT_MAX {
            let oldest = self.tables.iter().min_by_key(|(_, table)| table.version).map(|(id, _)| *id);
            self.tables.remove(&oldest.expect("there are more tables than the most that are kept"));
        }
        true
    }

    /// Why writes to a table may wait, as the coordinator said last.
    pub fn shortage(&self, table: TableId) -> Option<Shortage> {
        self.tables.get(&table).and_then(|table| table.shortage)
    }

    pub fn forget(&mut self, table: TableId) {
        self.tables.remove(&table);
        self.bricks.forget(table);
    }

    /// An operation was sent there by description `version`, and the answer says that it is the wrong place
    /// for this key.
    pub fn doubt(&mut self, table: TableId, version: u64, target: Target<'_>) {
        if let Some(table) = self.tables.get_mut(&table)
            && table.version == version
        {
            let index = table.index_of(target);
            table.tablets[index].doubted = true;
        }
    }

    /// The process that listens there seems dead.
    pub fn doubt_address(&mut self, addr: SocketAddr) {
        for tablet in self.tables.values_mut().flat_map(|table| &mut table.tablets) {
            tablet.doubted |= tablet.owner.is_some_and(|owner| owner.addr == addr);
        }
    }

    /// No newer description can be had: the known one of this table may be tried once more.
    pub fn trust_again(&mut self, table: TableId) {
        for tablet in self.tables.get_mut(&table).into_iter().flat_map(|table| &mut table.tablets) {
            tablet.doubted = false;
        }
        self.bricks.trust_again(table);
    }
}

impl Table {
    fn index_of(&self, target: Target<'_>) -> usize {
        match target {
            Target::Key(key) => self.index(self.hasher.hash(key)),
            Target::Hash(hash) => self.index(hash),
        }
    }

    fn index(&self, hash: KeyHash) -> usize {
        let after = self.tablets.partition_point(|tablet| tablet.first <= hash);
        after.checked_sub(1).expect("the first tablet begins at hash 0")
    }
}

fn covers_all(description: &TableDescription) -> bool {
    let mut next = Some(0);
    for tablet in &description.tablets {
        if next != Some(tablet.first.0) || tablet.last < tablet.first {
            return false;
        }
        next = tablet.last.0.checked_add(1);
    }
    next.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::hash::PlacementSeed;
    use ramhold_base::{Rng, SegmentId, StreamId};
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::Durability;
    use ramhold_wire::table::{TableOptions, TabletDescription};

    fn address(server: u64) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 7000 + server as u16))
    }

    /// A table cut at the given hashes. The servers take turns from 1.
    fn description(table: u32, cuts: &[u64]) -> TableDescription {
        let mut firsts = vec![0];
        firsts.extend_from_slice(cuts);
        let tablets = firsts.iter().enumerate().map(|(index, first)| TabletDescription {
            first: KeyHash(*first),
            last: KeyHash(firsts.get(index + 1).map_or(u64::MAX, |next| next - 1)),
            state: TabletState::Serving,
            owner: ServerId(index as u64 + 1),
            shard: ShardId(0),
            address: Some(Address(address(index as u64 + 1))),
            stream: StreamId(1),
            first_segment: SegmentId(1),
        });
        TableDescription {
            reclassing: 0,
            shortage: None,
            table: TableId(table),
            name: format!("table {table}"),
            options: TableOptions {
                durability: Durability::Buffered,
                replicas: 3,
                tablets: 0,
                slots: false,
                zone: None,
                quorum: None,
            },
            seed: PlacementSeed(77),
            tablets: tablets.collect(),
            outside: None,
            quorum: None,
            zones: None,
        }
    }

    fn owner(cache: &TabletCache, key: &[u8]) -> Option<u64> {
        match cache.route(TableId(1), Target::Key(key)) {
            Route::To { owner, .. } => Some(owner.server.raw()),
            Route::Ask | Route::NoOwner { .. } | Route::Dropping | Route::Bricks => None,
        }
    }

    #[test]
    fn every_key_is_routed_to_the_tablet_that_covers_its_hash() {
        // B3, B5
        (0..2).for_each(|seed| routes_every_key(seed, false));
        (0..2).for_each(|seed| routes_every_key(seed, true));
    }

    fn routes_every_key(seed: u64, slots: bool) {
        let mut rng = Rng::new(seed);
        let mut cuts: Vec<u64> = (0..20).map(|_| rng.id()).collect();
        cuts.sort_unstable();
        let mut description = description(1, &cuts);
        description.options.slots = slots;
        let mut cache = TabletCache::default();
        assert!(cache.keep(Instant::ZERO, &description));
        let hasher = PlacementHasher::new(description.placement());
        for number in 0..2000u32 {
            let key = number.to_le_bytes();
            let hash = hasher.hash(&key);
            let model = description.tablets.iter().find(|t| t.first <= hash && hash <= t.last);
            assert_eq!(owner(&cache, &key), model.map(|t| t.owner.raw()), "seed {seed}, key {number}");
        }
    }

    #[test]
    fn a_description_with_a_gap_an_overlap_or_nothing_is_not_kept() {
        let mut cache = TabletCache::default();
        let mut gap = description(1, &[100, 200]);
        gap.tablets.remove(1);
        assert!(!cache.keep(Instant::ZERO, &gap));
        let mut overlap = description(1, &[100]);
        overlap.tablets[1].first = KeyHash(99);
        assert!(!cache.keep(Instant::ZERO, &overlap));
        let mut turned = description(1, &[100]);
        turned.tablets[0].last = KeyHash(0);
        turned.tablets[0].first = KeyHash(1);
        assert!(!cache.keep(Instant::ZERO, &turned));
        let mut more = description(1, &[]);
        more.tablets.push(more.tablets[0]);
        assert!(!cache.keep(Instant::ZERO, &more));
        let mut none = description(1, &[]);
        none.tablets.clear();
        assert!(!cache.keep(Instant::ZERO, &none));
        assert_eq!(cache.route(TableId(1), Target::Key(b"key")), Route::Ask);
    }

    #[test]
    fn a_doubted_tablet_is_asked_for_until_a_newer_description_comes_or_none_can_be_had() {
        let mut cache = TabletCache::default();
        cache.keep(Instant::ZERO, &description(1, &[]));
        let Route::To { version, .. } = cache.route(TableId(1), Target::Key(b"key")) else {
            panic!("no route")
        };
        cache.doubt(TableId(1), version, Target::Key(b"key"));
        assert_eq!(cache.route(TableId(1), Target::Key(b"key")), Route::Ask);
        cache.trust_again(TableId(1));
        assert_eq!(owner(&cache, b"key"), Some(1));
        cache.doubt_address(address(1));
        assert_eq!(cache.route(TableId(1), Target::Key(b"key")), Route::Ask);
        cache.keep(Instant::ZERO, &description(1, &[]));
        assert_eq!(owner(&cache, b"key"), Some(1));
        // A contradiction of the older description says nothing of the newer one.
        cache.doubt(TableId(1), version, Target::Key(b"key"));
        assert_eq!(owner(&cache, b"key"), Some(1));
    }

    #[test]
    fn the_number_of_tables_kept_is_bounded() {
        let mut cache = TabletCache::default();
        for table in 1..=TABLE_COUNT_MAX as u32 + 5 {
            cache.keep(Instant::ZERO, &description(table, &[]));
        }
        assert_eq!(cache.tables.len(), TABLE_COUNT_MAX);
        assert_eq!(cache.route(TableId(5), Target::Key(b"key")), Route::Ask);
        assert_ne!(cache.route(TableId(6), Target::Key(b"key")), Route::Ask);
    }
}
