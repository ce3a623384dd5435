//! Cuts one dead tablet into parts that are about even, each surely below the bounds.
//!
//! The weight of a tablet is known from rows. Each row tells how much lies somewhere between two hashes. There is one
//! row for a small tablet and there are many for a large one, with wider rows above them for what its master did not
//! know so exactly. Cuts are made where rows begin and end. A row that is above the bounds alone is cut into equal
//! ranges, as if its weight were spread evenly. The weight of a wide row is expected to lie as the narrow rows below it
//! do. But all of it may lie in one part, so each part must also be below the bounds with every wide row that touches
//! it counted in full. A wide row that is itself a good part of the bounds (`WHOLE_SHARE`) is exempt.
//!
//! Invariants: parts are in order and cover the tablet; parts of a table by slots begin and end at slots.
//!
//! Not here: which parts go together (`divide`).
//! Protocol: docs/protocols/recovery.md, 4. Catalogue: F3. Source: SOSP11 3.9.

use crate::weight::{Weight, part, part_at_slots};
use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};
use ramhold_wire::recovery::{PartitionRange, TabletStat};

/// A wide row counts in full for every part that it touches if it is no more than one part in this many of the limit.
const WHOLE_SHARE: u64 = 4;
/// The fill of a part that is as full as wanted.
const FULL: u128 = 1 << 32;

/// A tablet to recover, with what is known of its weight.
#[derive(Clone, Debug)]
pub struct DeadTablet {
    /// Its whole range; the partition number is not used.
    pub range: PartitionRange,
    /// The statistics of its table, in its stream; they may cover more or less than the tablet.
    pub stats: Vec<TabletStat>,
}

impl DeadTablet {
    /// The bytes that its log has of this tablet, by the statistics.
    pub fn bytes(&self) -> u64 {
        weight_of(&self.stats, self.range.first.0, self.range.last.0).bytes
    }
}

/// The limits on the weight of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The limit on the expected weight.
    pub wanted: Weight,
    /// The limit on the highest possible weight; at least as high as `wanted`.
    pub most: Weight,
}

/// The weight of a part: expected, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub expected: Weight,
    pub most: Weight,
}

impl Load {
    pub fn plus(self, other: Load) -> Load {
        Load { expected: self.expected.plus(other.expected), most: self.most.plus(other.most) }
    }

    pub fn fits(self, limits: Limits) -> bool {
        self.expected.fits(limits.wanted) && self.most.fits(limits.most)
    }
}

/// A range of a tablet for one recovery master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub first: u64,
    pub last: u64,
    pub load: Load,
}

/// A weight that lies somewhere between two hashes, the last one inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    first: u64,
    last: u64,
    weight: Weight,
}

impl Row {
    fn is_within(&self, first: u64, last: u64) -> bool {
        first <= self.first && self.last <= last
    }

    /// The weight between two hashes if the row is spread evenly, rounded up.
    fn share(&self, first: u64, last: u64) -> Weight {
        let (from, to) = (self.first.max(first), self.last.min(last));
        if from > to {
            return Weight::default();
        }
        let (shared, width) = (u128::from(to - from) + 1, u128::from(self.last - self.first) + 1);
        Weight {
            bytes: share(self.weight.bytes, shared, width),
            records: share(self.weight.records, shared, width),
        }
    }
}

/// `amount * shared / width`, rounded up; `shared <= width <= 2^64`.
fn share(amount: u64, shared: u128, width: u128) -> u64 {
    if shared == width {
        return amount;
    }
    // Both factors are below 2^64 here, so the product fits.
    let product = u128::from(amount) * shared;
    u64::try_from(product.div_ceil(width)).unwrap_or(u64::MAX)
}

/// The weight between two hashes, by the statistics.
pub(crate) fn weight_of(stats: &[TabletStat], first: u64, last: u64) -> Weight {
    let rows = stats.iter().filter_map(row);
    rows.map(|row| row.share(first, last)).fold(Weight::default(), Weight::plus)
}

fn row(stat: &TabletStat) -> Option<Row> {
    let weight = Weight { bytes: stat.bytes, records: stat.records };
    (stat.first <= stat.last).then_some(Row { first: stat.first.0, last: stat.last.0, weight })
}

/// Cuts a tablet into as few parts as keep each below the limits, or nearly as few. There are at most `count_max`
/// parts, even if that makes them larger.
pub(crate) fn cut(tablet: &DeadTablet, limits: Limits, count_max: u64) -> Vec<Part> {
    let whole = (tablet.range.first.0, tablet.range.last.0);
    let slots = tablet.range.slots;
    let rows = rows_within(&tablet.stats, whole);
    let stretches = stretches(&rows, whole, slots);
    let is_wide = |row: &Row| {
        let at = stretches.partition_point(|(_, last)| *last < row.first);
        stretches[at].1 < row.last
    };
    let (wide, mut narrow): (Vec<Row>, Vec<Row>) = rows.iter().partition(|row| is_wide(row));
    narrow.sort_unstable_by_key(|row| row.first);
    // Together the pieces are not many more than are allowed, whatever the rows say.
    let each_max = (count_max / stretches.len() as u64).max(1);
    let mut pieces = Vec::new();
    for (first, last) in stretches {
        let from = narrow.partition_point(|row| row.first < first);
        let to = narrow.partition_point(|row| row.first <= last);
        let room = limits.most.less_half(charge(&wide, first, last, limits.most));
        let room = limits.wanted.least(room);
        pieces.extend(evenly(&narrow[from..to], (first, last), slots, room, each_max));
    }
    let parts = pack(&pieces, &wide, limits);
    if parts.len() as u64 <= count_max {
        return parts;
    }
    let pieces = evenly(&rows, whole, slots, limits.wanted, count_max);
    let alone = |Row { first, last, weight }: &Row| {
        let load = Load { expected: *weight, most: *weight };
        Part { first: *first, last: *last, load }
    };
    pieces.iter().map(alone).collect()
}

/// The places where `count` parts of a tablet begin that have about the same bytes, without the first one. The tablet
/// has at least that many hashes, or slots. If nothing is known of its bytes, the parts are equal ranges.
pub(crate) fn even_cuts(
    stats: &[TabletStat],
    (first, last): (u64, u64),
    slots: bool,
    count: u64,
) -> Vec<u64> {
    let pieces = expected_along(stats, (first, last), slots);
    let bytes = |piece: &Piece| u128::from(piece.expected.bytes);
    let all: u128 = pieces.iter().map(bytes).sum();
    if all == 0 {
        let part = if slots { part_at_slots } else { part };
        return (1..count).map(|index| part(first, last, index, count).0).collect();
    }
    let mut cuts = Vec::new();
    let mut pieces = pieces.iter().peekable();
    let mut before = 0;
    for index in 1..count {
        let target = all * u128::from(index) / u128::from(count);
        while let Some(piece) = pieces.next_if(|piece| before + bytes(piece) < target) {
            before += bytes(piece);
        }
        let at = pieces.peek().map_or(last, |piece| {
            let width = u128::from(piece.row.last - piece.row.first) + 1;
            let inside =
                share(u64::try_from(width).unwrap_or(u64::MAX), target - before, bytes(piece).max(1));
            piece.row.first.saturating_add(inside)
        });
        let from = cuts.last().copied().unwrap_or(first);
        cuts.push(nearest_cut(at, (from, last), slots, count - 1 - index));
    }
    cuts
}

/// The place nearest to `at` where a part may begin, behind `from`, so that `more` parts can follow.
fn nearest_cut(at: u64, (from, last): (u64, u64), slots: bool, more: u64) -> u64 {
    if !slots {
        return at.clamp(from + 1, last - more);
    }
    let slot = |hash| u64::from(slot_of_hash(KeyHash(hash)));
    let begin = |slot: u64| {
        let slot = u16::try_from(slot).expect("it is between two slots");
        first_hash_of(slot).0
    };
    let (least, most) = (slot(from) + 1, slot(last) - more);
    let below = slot(at).clamp(least, most);
    let above = (below + 1).min(most);
    let far = |slot: u64| at.abs_diff(begin(slot));
    begin(if far(above) < far(below) { above } else { below })
}

/// The pieces between all places where rows begin or end, in order, with their expected weight.
fn expected_along(stats: &[TabletStat], whole: (u64, u64), slots: bool) -> Vec<Piece> {
    let rows = rows_within(stats, whole);
    let mut pieces: Vec<Row> = stretches(&rows, whole, slots)
        .into_iter()
        .map(|(first, last)| Row { first, last, weight: Weight::default() })
        .collect();
    let mut wide = Vec::new();
    for row in rows {
        let at = pieces.partition_point(|piece| piece.last < row.first);
        match pieces.get_mut(at) {
            Some(piece) if row.last <= piece.last => piece.weight = piece.weight.plus(row.weight),
            Some(_) | None => wide.push(row),
        }
    }
    with_expected(&pieces, &wide)
}

/// The part of each row that is in the tablet.
fn rows_within(stats: &[TabletStat], whole: (u64, u64)) -> Vec<Row> {
    let within = stats.iter().filter_map(row).filter(|row| row.first <= whole.1 && whole.0 <= row.last);
    let clipped = within.map(|row| Row {
        first: row.first.max(whole.0),
        last: row.last.min(whole.1),
        weight: row.share(whole.0, whole.1),
    });
    clipped.collect()
}

/// The ranges of the tablet between all places where rows begin or end. In a table by slots they begin and end with the
/// slots that hold those places.
fn stretches(rows: &[Row], (first, last): (u64, u64), slots: bool) -> Vec<(u64, u64)> {
    let begin = |hash: u64| if slots { first_hash_of(slot_of_hash(KeyHash(hash))).0 } else { hash };
    let behind = |hash: u64| match slot_of_hash(KeyHash(hash)) + 1 {
        _ if !slots => hash.checked_add(1),
        SLOT_COUNT => None,
        next => Some(first_hash_of(next).0),
    };
    let mut begins: Vec<u64> =
        rows.iter().flat_map(|row| [Some(begin(row.first)), behind(row.last)]).flatten().collect();
    begins.retain(|begin| first < *begin && *begin <= last);
    begins.push(first);
    begins.sort_unstable();
    begins.dedup();
    let ends = begins.iter().skip(1).map(|next| next - 1).chain([last]);
    begins.iter().copied().zip(ends).collect()
}

/// Equal parts: as few as keep each below the limit, or as many as are allowed.
fn evenly(rows: &[Row], (first, last): (u64, u64), slots: bool, limit: Weight, count_max: u64) -> Vec<Row> {
    let weight =
        |first, last| rows.iter().map(|row| row.share(first, last)).fold(Weight::default(), Weight::plus);
    let whole = weight(first, last);
    let cut = if slots { part_at_slots } else { part };
    let count_max = if slots {
        u64::from(slot_of_hash(KeyHash(last)) - slot_of_hash(KeyHash(first))) + 1
    } else {
        (last - first).saturating_add(1)
    }
    .min(count_max);
    let needed = whole.bytes.div_ceil(limit.bytes).max(whole.records.div_ceil(limit.records));
    let mut count = needed.clamp(1, count_max);
    loop {
        let part = |index| {
            let (first, last) = cut(first, last, index, count);
            Row { first, last, weight: weight(first, last) }
        };
        let parts: Vec<Row> = (0..count).map(part).collect();
        // Within one row hashes are taken as evenly spread, but rows may differ along the tablet.
        if count == count_max || parts.iter().all(|part| part.weight.fits(limit)) {
            return parts;
        }
        count = count.saturating_mul(2).min(count_max);
    }
}

/// The weight that wide rows count for a part.
fn charge(wide: &[Row], first: u64, last: u64, most: Weight) -> Weight {
    let touching = wide.iter().filter(|row| row.first <= last && first <= row.last);
    let charged = touching.map(|row| {
        let is_whole = row.is_within(first, last) || row.weight.fits(most.divided(WHOLE_SHARE));
        if is_whole { row.weight } else { row.share(first, last) }
    });
    charged.fold(Weight::default(), Weight::plus)
}

/// A range that is not cut any more.
struct Piece {
    row: Row,
    /// The weight with the part of wide rows that is expected to lie here.
    expected: Weight,
}

/// Shares out each wide row among the pieces below it by their weights, or evenly where these are zero.
fn with_expected(pieces: &[Row], wide: &[Row]) -> Vec<Piece> {
    let mut all: Vec<Piece> = pieces.iter().map(|row| Piece { row: *row, expected: row.weight }).collect();
    for row in wide {
        let from = pieces.partition_point(|piece| piece.last < row.first);
        let to = pieces.partition_point(|piece| piece.first <= row.last);
        let below = pieces[from..to].iter().map(|piece| piece.weight).fold(Weight::default(), Weight::plus);
        for Piece { row: piece, expected } in &mut all[from..to] {
            let evenly = row.share(piece.first, piece.last);
            let part = |amount, of: u64, all: u64, evenly| match all {
                0 => evenly,
                _ => share(amount, of.into(), all.into()),
            };
            *expected = expected.plus(Weight {
                bytes: part(row.weight.bytes, piece.weight.bytes, below.bytes, evenly.bytes),
                records: part(row.weight.records, piece.weight.records, below.records, evenly.records),
            });
        }
    }
    all
}

/// Puts neighbouring pieces together into about even parts. No part is above the limits unless it has to be.
fn pack(pieces: &[Row], wide: &[Row], limits: Limits) -> Vec<Part> {
    // A piece that cannot be cut and is above the limit fills one part.
    let fill = |weight: Weight| {
        let part = |amount: u64, limit: u64| (u128::from(amount) * FULL / u128::from(limit)).min(FULL);
        part(weight.bytes, limits.wanted.bytes).max(part(weight.records, limits.wanted.records))
    };
    let pieces = with_expected(pieces, wide);
    let all: u128 = pieces.iter().map(|piece| fill(piece.expected)).sum();
    let count = all.div_ceil(FULL).max(1);
    let mut parts: Vec<Part> = Vec::new();
    let mut inside = Load::default();
    let mut passed = 0;
    for Piece { row, expected } in pieces {
        let alone = fill(expected);
        let own = Load { expected, most: row.weight };
        let with_wide = |first, load: Load| {
            let most = load.most.plus(charge(wide, first, row.last, limits.most));
            Part { first, last: row.last, load: Load { most, ..load } }
        };
        let together = inside.plus(own);
        let grown = parts.last().map(|part| with_wide(part.first, together));
        // The part ends before or after this piece, whichever is nearer to its end if all parts were even.
        let is_filled = (passed + alone / 2) * count >= all * parts.len() as u128 && alone > 0;
        match (grown, parts.last_mut()) {
            (Some(grown), Some(part)) if grown.load.fits(limits) && !is_filled => {
                *part = grown;
                inside = together;
            }
            _ => {
                parts.push(with_wide(row.first, own));
                inside = own;
            }
        }
        passed += alone;
    }
    parts
}
