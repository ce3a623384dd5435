//! The ranges of tables that this shard owns, and their states.

use crate::calls::PartitionKey;
use ramhold_base::hash::{Placement, PlacementHasher};
use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{DivisionId, Instant, KeyHash, SegmentId, StreamId, TableId, Version};
use ramhold_log::HashRange;
use ramhold_wire::class::StreamClass;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TabletState {
    /// Its stream or head is not durable yet.
    Taking,
    /// It is being recovered to here, and is not published yet.
    Recovering,
    Serving,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tablet {
    pub range: HashRange,
    pub state: TabletState,
    pub stream: StreamId,
    pub first_segment: SegmentId,
    /// The part of the tablet that is in another stream already. All of the tablet is going there.
    pub moved: Option<Moved>,
    /// It has no replicas, so there is nothing to wait for.
    pub unreplicated: bool,
    /// Every version handed out is at least this.
    pub version_floor: Version,
    /// Objects of its stream were lost, perhaps its own. Nobody knows any more how many objects it has.
    pub has_losses: bool,
    /// The coordinator has stored that the tablet is ours. Before that the tablet would go to another server, empty, if
    /// this one died.
    pub is_confirmed: bool,
}

/// The hashes of a tablet up to `last`, and where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub last: KeyHash,
    pub stream: StreamId,
    pub first_segment: SegmentId,
    /// From `first_segment` on the stream holds copies that do not count. So the next move needs a newer first segment.
    pub is_spoilt: bool,
}

impl Tablet {
    /// The tablet for one hash: in the stream that the hash is in.
    pub fn at(&self, hash: KeyHash) -> Tablet {
        let moved = self.moved.filter(|moved| hash <= moved.last);
        Tablet { stream: moved.map_or(self.stream, |moved| moved.stream), ..*self }
    }

    /// The last hash such that all hashes from this one to it are in the same stream.
    pub fn last_with(&self, hash: KeyHash) -> KeyHash {
        let moved = self.moved.filter(|moved| hash <= moved.last);
        moved.map_or(self.range.last, |moved| moved.last)
    }
}

struct Table {
    placement: Placement,
    hasher: PlacementHasher,
    /// Ordered by first hash, disjoint.
    tablets: Vec<Tablet>,
    /// The number of the newest division that was told.
    division: DivisionId,
}

/// The most dropped tables that are remembered. A frame is never so late that as many tables were dropped meanwhile.
const DROPPED_COUNT_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct Tablets {
    tables: FastMap<TableId, Table>,
    /// Tables that this shard was told to drop, the oldest first. A request to take a tablet of one of them is from
    /// before the drop.
    dropped: VecDeque<TableId>,
    is_dropped: BTreeSet<TableId>,
    removed_count: u64,
    /// Tables whose tablets here are to have another class: their tablets are in two streams, or may soon be.
    wanted: BTreeMap<TableId, WantedClass>,
    /// The table of which a tablet is being reclassed.
    moving: Option<TableId>,
    /// The hashes of a tablet that are being copied into another stream.
    stretch: Option<Stretch>,
    /// Ranges of recovered partitions: results of their keys may be at fewer backups than R.
    short_tails: Vec<(PartitionKey, HashRange)>,
}

/// The class that tablets of a table are to have by the coordinator's last request, and how long the request counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedClass {
    pub class: StreamClass,
    pub until: Instant,
}

/// Hashes that are being copied into another stream. Nobody may write to them meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub range: HashRange,
    /// All that the old stream holds of these keys is durable in the new stream, and counts there.
    pub is_led: bool,
}

impl Tablets {
    /// The hash of a key, if we own a part of its table.
    pub fn hash(&self, table: TableId, key: &[u8]) -> Option<KeyHash> {
        self.tables.get(&table).map(|t| t.hasher.hash(key))
    }

    /// The tablet that a key falls into, and the key's hash.
    pub fn find(&self, table: TableId, key: &[u8]) -> Option<(Tablet, KeyHash)> {
        self.find_whole(table, key).map(|(tablet, hash)| (tablet.at(hash), hash))
    }

    /// The same, with the tablet as it is: a part of it may have moved to another stream.
    pub fn find_whole(&self, table: TableId, key: &[u8]) -> Option<(&Tablet, KeyHash)> {
        let table = self.tables.get(&table)?;
        let hash = table.hasher.hash(key);
        let after = table.tablets.partition_point(|t| t.range.first <= hash);
        let tablet = table.tablets.get(after.checked_sub(1)?)?;
        (hash <= tablet.range.last).then_some((tablet, hash))
    }

    /// The tablet of a hash.
    pub fn of_hash(&self, table: TableId, hash: KeyHash) -> Option<Tablet> {
        let table = self.tables.get(&table)?;
        let after = table.tablets.partition_point(|t| t.range.first <= hash);
        let tablet = table.tablets.get(after.checked_sub(1)?)?;
        (hash <= tablet.range.last).then(|| tablet.at(hash))
    }

    /// The tablet whose first hash this is.
    pub fn starting_at(&self, table: TableId, first: KeyHash) -> Option<&Tablet> {
        let tablets = &self.tables.get(&table)?.tablets;
        tablets.binary_search_by_key(&first, |tablet| tablet.range.first).ok().map(|at| &tablets[at])
    }

    pub fn exact(&self, range: HashRange) -> Option<&Tablet> {
        self.tables.get(&range.table)?.tablets.iter().find(|t| t.range == range)
    }

    pub fn exact_mut(&mut self, range: HashRange) -> Option<&mut Tablet> {
        self.tables.get_mut(&range.table)?.tablets.iter_mut().find(|t| t.range == range)
    }

    pub fn overlaps(&self, range: HashRange) -> bool {
        self.tables.get(&range.table).is_some_and(|t| {
            t.tablets.iter().any(|t| t.range.first <= range.last && range.first <= t.range.last)
        })
    }

    pub fn insert(&mut self, placement: Placement, tablet: Tablet) {
        assert!(!self.overlaps(tablet.range), "a hash has one tablet");
        let table = self.tables.entry(tablet.range.table).or_insert_with(|| Table {
            placement,
            hasher: PlacementHasher::new(placement),
            tablets: Vec::new(),
            division: DivisionId::NONE,
        });
        let at = table.tablets.partition_point(|t| t.range.first < tablet.range.first);
        table.tablets.insert(at, tablet);
    }

    pub fn remove(&mut self, range: HashRange) -> Option<Tablet> {
        let table = self.tables.get_mut(&range.table)?;
        let at = table.tablets.iter().position(|t| t.range == range)?;
        self.removed_count += 1;
        Some(table.tablets.remove(at))
    }

    /// How often a tablet has left.
    pub fn removed_count(&self) -> u64 {
        self.removed_count
    }

    /// The tablets of a table, in order.
    pub fn of(&self, table: TableId) -> impl Iterator<Item = &Tablet> {
        self.tables.get(&table).into_iter().flat_map(|t| &t.tablets)
    }

    /// Replaces these neighbouring tablets by tablets of the same hashes.
    pub fn replace(&mut self, old: &[Tablet], new: Vec<Tablet>) {
        for tablet in old {
            self.remove(tablet.range).expect("it was found a moment ago");
        }
        for tablet in new {
            let placement = self.tables[&tablet.range.table].placement;
            self.insert(placement, tablet);
        }
    }

    /// The number of a table's division, as it was last told.
    pub fn division_mut(&mut self, table: TableId) -> Option<&mut DivisionId> {
        self.tables.get_mut(&table).map(|t| &mut t.division)
    }

    pub fn note_dropped(&mut self, table: TableId) {
        if !self.is_dropped.insert(table) {
            return;
        }
        self.dropped.push_back(table);
        if self.dropped.len() > DROPPED_COUNT_MAX {
            let oldest = self.dropped.pop_front().expect("there are many");
            self.is_dropped.remove(&oldest);
        }
    }

    pub fn was_dropped(&self, table: TableId) -> bool {
        self.is_dropped.contains(&table)
    }

    pub fn ranges_of(&self, table: TableId) -> Vec<HashRange> {
        self.tables.get(&table).map(|t| t.tablets.iter().map(|t| t.range).collect()).unwrap_or_default()
    }

    /// Whether a table's keys are hashed like this here. Also `true` if this shard does not know the table.
    pub fn agrees(&self, table: TableId, placement: Placement) -> bool {
        self.tables.get(&table).is_none_or(|t| t.placement == placement)
    }

    pub fn is_by_slots(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|t| t.placement.slots)
    }

    pub fn hasher(&self, table: TableId) -> Option<PlacementHasher> {
        self.tables.get(&table).map(|t| t.hasher)
    }

    pub fn count(&self) -> usize {
        self.tables.values().map(|t| t.tablets.len()).sum()
    }

    /// Notes that objects of a stream were lost.
    pub fn note_losses(&mut self, stream: StreamId) {
        for tablet in self.tables.values_mut().flat_map(|t| &mut t.tablets) {
            if tablet.stream != stream && tablet.moved.is_none_or(|moved| moved.stream != stream) {
                continue;
            }
            tablet.has_losses = true;
        }
    }

    /// Notes the class that tablets of a table are to have. Returns the class that was wanted before.
    pub fn want(&mut self, table: TableId, wanted: WantedClass) -> Option<StreamClass> {
        self.wanted.insert(table, wanted).map(|before| before.class)
    }

    pub fn wanted(&self) -> impl Iterator<Item = (TableId, WantedClass)> {
        self.wanted.iter().map(|(table, wanted)| (*table, *wanted))
    }

    pub fn forget_wanted(&mut self, table: TableId) {
        self.wanted.remove(&table);
    }

    /// Whether tablets of some table are to have this class.
    pub fn wants(&self, class: StreamClass) -> bool {
        self.wanted.values().any(|wanted| wanted.class == class)
    }

    /// Whether the coordinator has asked for this table's tablets to be moved.
    pub fn is_wanted(&self, table: TableId) -> bool {
        self.wanted.contains_key(&table)
    }

    /// Whether tablets of this table are in two streams, or may soon be.
    pub fn is_reclassed(&self, table: TableId) -> bool {
        if self.of(table).any(|tablet| tablet.moved.is_some()) {
            return true;
        }
        self.is_wanted(table)
    }

    /// Notes the table of which a tablet is being reclassed, and the stretch of it that is frozen.
    pub fn set_moving(&mut self, moving: Option<TableId>, stretch: Option<Stretch>) {
        (self.moving, self.stretch) = (moving, stretch);
    }

    /// Whether a tablet of this table is being reclassed.
    pub fn is_moving(&self, table: TableId) -> bool {
        self.moving == Some(table)
    }

    /// Whether a mutation of this key has to wait, because the key is being copied into another stream.
    pub fn blocks(&self, table: TableId, hash: KeyHash) -> bool {
        self.stretch.is_some_and(|stretch| stretch.range.contains(table, hash))
            && !planted(Defect::ReclassedUnblocked)
    }

    /// Whether all that the old stream holds of a key is durable in the new stream, and counts there.
    pub fn is_led(&self, table: TableId, hash: KeyHash) -> bool {
        self.stretch.is_some_and(|stretch| stretch.is_led && stretch.range.contains(table, hash))
    }

    /// Notes that results of these ranges may be at fewer backups than R.
    pub fn note_short_tail(&mut self, key: PartitionKey, ranges: impl Iterator<Item = HashRange>) {
        self.short_tails.extend(ranges.map(|range| (key, range)));
    }

    /// The results of this partition are at R backups.
    pub fn forget_short_tail(&mut self, key: PartitionKey) {
        self.short_tails.retain(|(of, _)| *of != key);
    }

    /// Whether results of a key may have been at fewer backups than R, and are not at R yet.
    pub fn is_tail_short(&self, table: TableId, hash: KeyHash) -> bool {
        self.short_tails.iter().any(|(_, range)| range.contains(table, hash))
    }

    /// In no particular order.
    pub fn all(&self) -> impl Iterator<Item = &Tablet> {
        self.tables.values().flat_map(|t| t.tablets.iter())
    }
}
