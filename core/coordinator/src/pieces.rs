//! How a table's tablets are cut and joined: pure, on the list of their pieces.
//!
//! A tablet is a run of pieces: a first one, and the pieces after it that are marked as joined. Each piece has a
//! position of its own, which says which part of the owner's log counts for it. Joining changes no position, and a
//! piece that is cut leaves its position to both parts.
//!
//! Invariants: pieces are in order and cover all hashes; joined pieces have one owner and shard, and are taken; they
//! also have one stream, except in a tablet that is being moved from one stream to another.
//!
//! Not here: the requests for it, telling owners (`division`). Rules: docs/protocols/tablets.md. Catalogue: A8, B3.

use crate::cut::even_cuts;
use crate::records::{TableRecord, TabletRecord};
use ramhold_base::hash::{first_hash_of, slot_of_hash};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, SegmentId, ServerId, Status};
use ramhold_wire::recovery::TabletStat;

/// The tablets of a table, each as the pieces that it has.
pub(crate) fn tablets(pieces: &[TabletRecord]) -> impl Iterator<Item = &[TabletRecord]> {
    pieces.chunk_by(|_, next| next.joined)
}

/// A tablet as if it were one piece. Its position is that of its newest piece, as at its owner. That position is good
/// for telling tablets apart, not for recovering one.
pub(crate) fn whole(tablet: &[TabletRecord]) -> TabletRecord {
    let last = tablet[tablet.len() - 1].last;
    let first_segment = tablet.iter().map(|p| p.first_segment).max().unwrap_or(SegmentId::NONE);
    TabletRecord { last, first_segment, ..tablet[0].clone() }
}

/// Whether a piece may be joined with the piece before it to one tablet.
pub(crate) fn may_join(before: &TabletRecord, piece: &TabletRecord) -> bool {
    let place = |p: &TabletRecord| (p.owner, p.shard, p.stream);
    before.taken && piece.taken && place(before) == place(piece)
}

/// Whether a piece may stay in one tablet with the piece before it. While a tablet goes from one stream to another it
/// has pieces in both.
pub(crate) fn may_stay_joined(before: &TabletRecord, piece: &TabletRecord) -> bool {
    let place = |p: &TabletRecord| (p.owner, p.shard);
    before.taken && piece.taken && place(before) == place(piece)
}

/// Separates joined pieces that must not be joined any more, because a part of the tablet has another owner.
pub(crate) fn part_ways(pieces: &mut [TabletRecord]) {
    for at in (0..pieces.len()).rev() {
        pieces[at].joined &= at > 0 && may_stay_joined(&pieces[at - 1], &pieces[at]);
    }
}

impl TableRecord {
    /// Its tablets, each as if it were one piece.
    pub fn whole_tablets(&self) -> impl Iterator<Item = TabletRecord> {
        tablets(&self.tablets).map(whole)
    }

    /// The index of this owner's tablet that holds the whole range.
    pub(crate) fn covering(&self, owner: ServerId, first: KeyHash, last: KeyHash) -> Option<usize> {
        self.tablets.iter().position(|t| t.owner == owner && t.taken && t.first <= first && last <= t.last)
    }
}

/// The pieces of a table, to be divided anew.
pub(crate) struct Pieces {
    pieces: Vec<TabletRecord>,
    /// Tablets begin and end at slots.
    by_slots: bool,
    /// The table has no replicas, so nothing in an owner's log is ever replayed.
    unreplicated: bool,
}

impl Pieces {
    pub fn new(pieces: &[TabletRecord], by_slots: bool, unreplicated: bool) -> Pieces {
        Pieces { pieces: pieces.to_vec(), by_slots, unreplicated }
    }

    pub fn as_slice(&self) -> &[TabletRecord] {
        &self.pieces
    }

    pub fn into_inner(self) -> Vec<TabletRecord> {
        self.pieces
    }

    pub fn of(&self, owner: ServerId) -> usize {
        tablets(&self.pieces).filter(|tablet| tablet[0].owner == owner).count()
    }

    /// Makes a tablet begin at this hash.
    pub fn split(&mut self, at: KeyHash) -> Result<(), Status> {
        if self.by_slots && first_hash_of(slot_of_hash(at)) != at {
            return Err(Status::BadRequest);
        }
        let place = self.pieces.partition_point(|p| p.last < at);
        let piece = self.pieces[place].clone();
        if piece.first == at {
            self.pieces[place].joined = false;
        } else {
            self.pieces[place].last = KeyHash(at.0 - 1);
            self.pieces.insert(place + 1, TabletRecord { first: at, joined: false, ..piece });
        }
        Ok(())
    }

    /// Cuts every tablet into `count` tablets with as many bytes each, or into as many as it has hashes or slots if
    /// these are fewer. Where nothing is known of its weight, the ranges are equal.
    pub fn split_each(&mut self, count: u32, weights: &[TabletStat]) -> Result<(), Status> {
        let mut cuts = Vec::new();
        for tablet in tablets(&self.pieces) {
            let (first, last) = (tablet[0].first.0, whole(tablet).last.0);
            let slot = |hash| u64::from(slot_of_hash(KeyHash(hash)));
            let most =
                if self.by_slots { slot(last) - slot(first) + 1 } else { (last - first).saturating_add(1) };
            let count = u64::from(count).min(most);
            cuts.extend(even_cuts(weights, (first, last), self.by_slots, count).into_iter().map(KeyHash));
        }
        cuts.into_iter().try_for_each(|at| self.split(at))
    }

    /// Joins the tablet that begins at this hash to the one before it.
    pub fn join(&mut self, at: KeyHash) -> Result<(), Status> {
        let place = self.pieces.binary_search_by_key(&at, |p| p.first);
        let place = match place {
            // The hash is within a piece, so no tablet begins there.
            Err(_) => return Ok(()),
            Ok(0) => return Err(Status::NotAllowed),
            Ok(place) => place,
        };
        let [before, piece] = [self.pieces[place - 1].clone(), self.pieces[place].clone()];
        if !may_join(&before, &piece) {
            return Err(Status::NotAllowed);
        }
        if self.is_one_position(&before, &piece) {
            let one = &mut self.pieces[place - 1];
            one.last = piece.last;
            one.version_floor = before.version_floor.max(piece.version_floor);
            one.first_segment = before.first_segment.max(piece.first_segment);
            self.pieces.remove(place);
        } else {
            self.pieces[place].joined = true;
        }
        Ok(())
    }

    /// Joins all neighbours that may be joined.
    pub fn join_all(&mut self) {
        let begins: Vec<KeyHash> = self.pieces.iter().skip(1).map(|p| p.first).collect();
        for at in begins {
            // Neighbours that may not be joined stay as they are.
            let _ = self.join(at);
        }
    }

    fn is_one_position(&self, before: &TabletRecord, piece: &TabletRecord) -> bool {
        let place = |p: &TabletRecord| (p.first_segment, p.earlier);
        (place(before) == place(piece) && before.older == piece.older)
            || self.unreplicated
            || planted(Defect::JoinedAtNewest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::weight_of;
    use ramhold_base::{Rng, ShardId, StreamId, TableId, Version};

    fn piece(first: u64, last: u64, owner: u64, first_segment: u64) -> TabletRecord {
        TabletRecord {
            first: KeyHash(first),
            last: KeyHash(last),
            owner: ServerId(owner),
            taken: true,
            shard: ShardId(0),
            stream: StreamId(1),
            first_segment: SegmentId(first_segment),
            version_floor: Version(first_segment),
            joined: false,
            earlier: None,
            older: Vec::new(),
        }
    }

    fn pieces(list: &[TabletRecord]) -> Pieces {
        Pieces::new(list, false, false)
    }

    fn spans(list: &[TabletRecord]) -> Vec<(u64, u64)> {
        tablets(list).map(|t| (t[0].first.0, whole(t).last.0)).collect()
    }

    // A8
    #[test]
    fn what_is_cut_and_joined_again_is_as_before() {
        let before = [piece(0, 99, 1, 5), piece(100, u64::MAX, 2, 7)];
        let mut it = pieces(&before);
        it.split(KeyHash(40)).unwrap();
        it.split(KeyHash(40)).unwrap();
        assert_eq!(spans(&it.pieces), [(0, 39), (40, 99), (100, u64::MAX)]);
        assert_eq!(it.of(ServerId(1)), 2);
        assert_eq!(it.join(KeyHash(100)), Err(Status::NotAllowed), "they have two owners");
        assert_eq!(it.join(KeyHash(0)), Err(Status::NotAllowed), "nothing is before the first");
        it.join(KeyHash(40)).unwrap();
        it.join(KeyHash(40)).unwrap();
        assert_eq!(it.into_inner(), before);
    }

    // A8
    #[test]
    fn pieces_with_two_positions_keep_them_when_they_are_joined() {
        let mut it = pieces(&[piece(0, 99, 1, 5), piece(100, 199, 1, 7), piece(200, u64::MAX, 1, 7)]);
        it.join_all();
        assert_eq!(spans(&it.pieces), [(0, u64::MAX)]);
        let positions: Vec<u64> = it.pieces.iter().map(|p| p.first_segment.raw()).collect();
        assert_eq!(positions, [5, 7], "equal ones are one piece");
        assert_eq!(whole(&it.pieces).first_segment, SegmentId(7));
        // A cut between two pieces, and one within a piece.
        it.split(KeyHash(100)).unwrap();
        it.split(KeyHash(10)).unwrap();
        assert_eq!(spans(&it.pieces), [(0, 9), (10, 99), (100, u64::MAX)]);
        // Without replicas nothing of the table is replayed.
        let mut cache = Pieces::new(&[piece(0, 99, 1, 5), piece(100, u64::MAX, 1, 7)], false, true);
        cache.join_all();
        assert_eq!(cache.pieces.len(), 1);
        assert_eq!(cache.pieces[0].version_floor, Version(7), "the higher floor");
    }

    // A8
    #[test]
    fn a_part_that_goes_to_another_owner_leaves_the_tablet() {
        let mut it = pieces(&[piece(0, 99, 1, 5), piece(100, 199, 1, 7), piece(200, u64::MAX, 1, 9)]);
        it.join_all();
        let mut list = it.into_inner();
        list[1] = TabletRecord { owner: ServerId(3), ..list[1].clone() };
        part_ways(&mut list);
        assert_eq!(spans(&list), [(0, 99), (100, 199), (200, u64::MAX)]);
    }

    // A8, A10
    #[test]
    fn tables_by_slots_are_cut_between_slots_only() {
        let mut it = Pieces::new(&[piece(0, u64::MAX, 1, 5)], true, false);
        assert_eq!(it.split(KeyHash(5)), Err(Status::BadRequest));
        it.split(first_hash_of(1)).unwrap();
        it.split_each(3, &[]).unwrap();
        // The first tablet has one slot.
        assert_eq!(tablets(&it.pieces).count(), 4);
        for tablet in tablets(&it.pieces) {
            assert_eq!(first_hash_of(slot_of_hash(tablet[0].first)), tablet[0].first);
        }
    }

    fn stat(first: u64, last: u64, bytes: u64) -> TabletStat {
        let (first, last) = (KeyHash(first), KeyHash(last));
        TabletStat { table: TableId(1), first, last, bytes, records: bytes / 100 }
    }

    /// The bytes that each tablet has.
    fn bytes(list: &[TabletRecord], stats: &[TabletStat]) -> Vec<u64> {
        spans(list).iter().map(|(first, last)| weight_of(stats, *first, *last).bytes).collect()
    }

    // A8: the big objects are in a hundredth of the hashes, here and there.
    #[test]
    fn tablets_are_cut_where_their_bytes_lie() {
        let part = u64::MAX / 100;
        for by_slots in [false, true] {
            for heavy in [0, 17, 99] {
                let row =
                    |at| stat(at * part, at * part + part - 1, if at == heavy { 1_000_000 } else { 1000 });
                let stats: Vec<TabletStat> = (0..100).map(row).collect();
                for count in [2, 3, 7] {
                    let mut it = Pieces::new(&[piece(0, u64::MAX, 1, 5)], by_slots, false);
                    it.split_each(count, &stats).unwrap();
                    let bytes = bytes(&it.pieces, &stats);
                    assert_eq!(bytes.len(), count as usize);
                    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
                    // A slot has 6000 of the heaviest row's bytes.
                    assert!(
                        most - least <= if by_slots { 13_000 } else { 100 },
                        "{heavy}, {count}: {bytes:?}"
                    );
                }
            }
        }
    }

    // A8: the weight that is told of the whole is expected to lie as the rest does; each tablet is weighed by itself.
    #[test]
    fn what_is_not_known_exactly_lies_as_the_rest() {
        let quarter = 1 << 62;
        let stats = [
            stat(0, 2 * quarter - 1, 600),
            stat(0, quarter - 1, 100),
            stat(quarter, 2 * quarter - 1, 300),
            stat(2 * quarter, u64::MAX, 50),
        ];
        let mut it = pieces(&[piece(0, 2 * quarter - 1, 1, 5), piece(2 * quarter, u64::MAX, 2, 7)]);
        it.split_each(2, &stats).unwrap();
        // The two quarters have 250 and 750, so the middle is a third into the second quarter.
        let begins: Vec<u64> = it.pieces.iter().map(|piece| piece.first.0).collect();
        assert_eq!(begins, [0, quarter + quarter.div_ceil(3), 2 * quarter, 3 * quarter]);
    }

    // A8: whatever the rows say, there are as many parts as were asked for, if there are as many hashes.
    #[test]
    fn parts_are_as_many_as_are_asked_for() {
        let point = [stat(77, 77, 1_000_000)];
        for by_slots in [false, true] {
            for count in [2, 5, 100] {
                let mut it = Pieces::new(&[piece(0, u64::MAX, 1, 5)], by_slots, false);
                it.split_each(count, &point).unwrap();
                assert_eq!(tablets(&it.pieces).count(), count as usize);
            }
        }
        for stats in
            [&[][..], &[stat(3, 4, 10)], &[stat(9, 3, 10)], &[stat(0, 9, u64::MAX), stat(0, 9, u64::MAX)]]
        {
            let mut it = pieces(&[piece(0, 9, 1, 5), piece(10, u64::MAX, 2, 5)]);
            it.split_each(10, stats).unwrap();
            assert_eq!(tablets(&it.pieces).count(), 20);
        }
    }

    // A8
    #[test]
    fn random_cuts_and_joins_cover_all_hashes_and_keep_every_position() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let bounds = [0, 1 << 60, 1 << 61, 3 << 61, 7 << 61];
            let mut list: Vec<TabletRecord> = Vec::new();
            for (index, first) in bounds.iter().enumerate() {
                let last = bounds.get(index + 1).map_or(u64::MAX, |next| next - 1);
                list.push(piece(*first, last, rng.between(1, 2), rng.between(1, 3)));
            }
            let position = |list: &[TabletRecord], hash: u64| {
                let piece = list.iter().find(|p| p.first.0 <= hash && hash <= p.last.0).unwrap();
                (piece.owner, piece.first_segment)
            };
            let mut it = pieces(&list);
            for _ in 0..rng.between(1, 30) {
                match rng.below(8) {
                    0 => it.join_all(),
                    1 if it.pieces.len() < 100 => it.split_each(rng.between(1, 3) as u32, &[]).unwrap(),
                    2 | 3 => {
                        let at = it.pieces[rng.below(it.pieces.len() as u64) as usize].first;
                        let _ = it.join(at);
                    }
                    _ => it.split(KeyHash(rng.u64())).unwrap(),
                }
                let mut next = Some(0);
                for piece in &it.pieces {
                    assert_eq!(next, Some(piece.first.0), "seed {seed}");
                    next = piece.last.0.checked_add(1);
                }
                assert_eq!(next, None, "seed {seed}");
                let mut kept = it.pieces.clone();
                part_ways(&mut kept);
                assert_eq!(kept, it.pieces, "seed {seed}: what is joined may be");
                for hash in (0..40).map(|_| rng.u64()).chain([0, u64::MAX]) {
                    assert_eq!(position(&it.pieces, hash), position(&list, hash), "seed {seed}");
                }
            }
        }
    }
}
