//! Memory that has rotted: every bit of a segment, one at a time. Nothing damaged is served, taken for absent or moved;
//! a replica makes it what it was; without one what is damaged is given up and nothing else.

use crate::harness::*;
use ramhold_base::{KeyHash, Rng, SegmentId, TableId};
use ramhold_log::{
    Combined, Compaction, Cursor, Geometry, Grant, LogConfig, Lost, Repaired, ScrubCursor, SoughtKey, Step,
    Unreadable,
};

const TABLE: TableId = TABLES[0];
/// A few differing bytes are less than a thousandth of such a value.
const LARGE_BYTES: usize = 6000;

/// A log whose segment `id` is closed and holds objects with and without lists, dead ones, tombstones, and one that lies
/// across seglets.
struct Rot {
    harness: Harness,
    id: SegmentId,
    /// The segment as it was when it was closed.
    replica: Vec<u8>,
}

impl Rot {
    fn new() -> Rot {
        let mut harness = Harness::new(config(64 * 1024));
        harness.roll(STREAM).unwrap();
        for number in 0..6 {
            write(&mut harness, number, 10);
        }
        harness.roll(STREAM).unwrap();
        for number in 0..3 {
            write(&mut harness, number, 20);
        }
        let id = harness.roll(STREAM).unwrap();
        write(&mut harness, 0, 5);
        write(&mut harness, 3, 3);
        write(&mut harness, 6, 1);
        write(&mut harness, 6, 800);
        harness.remove(TABLE, &key(1)).unwrap();
        write(&mut harness, 7, 4);
        harness.remove(TABLE, &key(4)).unwrap();
        write(&mut harness, 8, 7);
        harness.roll(STREAM).unwrap();
        write(&mut harness, 9, 9);
        write(&mut harness, 7, 9);
        assert_eq!(harness.log.segment(id).unwrap().stream, STREAM);
        let replica = segment_bytes(&harness.log, id);
        Rot { harness, id, replica }
    }

    /// The same after the oldest segment has gone and the segment was compacted: lists are shorter, tombstones fewer.
    fn compacted() -> Rot {
        let mut rot = Rot::new();
        let oldest = rot.harness.log.stream_segments(STREAM).next().unwrap();
        rot.clean_away(oldest);
        let mut pass = rot.harness.log.begin_compaction(rot.id);
        assert_eq!(compact(&mut rot.harness, &mut pass), Step::Done);
        rot.harness.log.swap_compaction(pass);
        assert!(segment_bytes(&rot.harness.log, rot.id).len() < rot.replica.len());
        rot
    }

    /// Tombstones whose lists were shortened by a compaction and name by now what is gone: so they begin as no entry of
    /// the replica does, nor as any that would be made of one. Behind them the replica has dead objects, each as long as
    /// some of the tombstones together.
    fn with_odd_lists() -> Rot {
        let mut harness = Harness::new(config(64 * 1024));
        let mut older = Vec::new();
        for _ in 0..3 {
            older.push(harness.roll(STREAM).unwrap());
            (0..6).for_each(|number| write(&mut harness, number, 1));
        }
        let id = harness.roll(STREAM).unwrap();
        for number in 0..6 {
            harness.remove(TABLE, &key(number)).unwrap();
        }
        for tombstones in 1..6 {
            write(&mut harness, 6, tombstones * 35 - 26);
        }
        write(&mut harness, 7, 1);
        harness.roll(STREAM).unwrap();
        write(&mut harness, 6, 1);
        Rot::with_shortened_lists(harness, id, &older)
    }

    /// A large object whose list was shortened by a compaction, and names by now only what is gone. The two lists of one
    /// segment that it may have had differ in five bytes.
    fn with_a_large_object() -> Rot {
        let geometry = Geometry { segment_bytes: 16 * 1024, seglet_bytes: 1024 };
        let mut harness = Harness::new(LogConfig { geometry, ..config(256 * 1024) });
        let mut older = Vec::new();
        for _ in 0..2 {
            older.push(harness.roll(STREAM).unwrap());
            write(&mut harness, 0, 1);
        }
        let id = harness.roll(STREAM).unwrap();
        write(&mut harness, 1, 1);
        write(&mut harness, 0, LARGE_BYTES);
        harness.roll(STREAM).unwrap();
        write(&mut harness, 1, 1);
        Rot::with_shortened_lists(harness, id, &older)
    }

    /// Compacts a segment when the first of the segments before it has gone; then the second one goes too.
    fn with_shortened_lists(harness: Harness, id: SegmentId, older: &[SegmentId]) -> Rot {
        let replica = segment_bytes(&harness.log, id);
        let mut rot = Rot { harness, id, replica };
        rot.clean_away(older[0]);
        let mut pass = rot.harness.log.begin_compaction(id);
        assert_eq!(compact(&mut rot.harness, &mut pass), Step::Done);
        rot.harness.log.swap_compaction(pass);
        rot.clean_away(older[1]);
        rot
    }

    fn clean_away(&mut self, id: SegmentId) {
        let mut pass = self.harness.log.begin_combined(STREAM, &[id], self.harness.now);
        assert_eq!(combine(&mut self.harness, &mut pass), Step::Done);
        self.harness.log.enter_combined(&pass);
        self.harness.log.roll_entering(STREAM, self.harness.now, &[]).unwrap();
        self.harness.log.retire(id);
    }

    fn bytes(&self) -> u32 {
        self.harness.log.segment(self.id).unwrap().len_bytes
    }

    fn flip(&mut self, bit: u32) {
        self.harness.log.flip_bit(self.id, bit / 8, (bit % 8) as u8);
    }

    /// Looks every key up; what is answered is right. Returns how many are refused.
    fn read_all(&self) -> u32 {
        let mut refused = 0;
        for number in 0..12 {
            let model = self.harness.model.get(&(TABLE, key(number)));
            match (self.harness.log.lookup(TABLE, hash(number), &key(number)), model) {
                (Ok(Some(found)), Some((version, value))) => {
                    assert_eq!(found.version, *version);
                    assert!(found.value.is_equal(value));
                }
                (Ok(None), None) => {}
                (Err(_), _) => refused += 1,
                (Ok(found), model) => panic!("{number}: {:?} is {model:?}", found.map(|f| f.version)),
            }
            // May say anything, but must say it.
            self.harness.log.peek_expiry(TABLE, hash(number), &key(number));
            let key = key(number);
            let sought = SoughtKey { table: TABLE, hash: hash(number), key: &key };
            self.harness.log.lookup_together(&[sought], |_, told| {
                let (version, value) = model.expect("nothing is told of a key that is not there");
                assert!(told.version == *version && told.value.is_equal(value));
            });
        }
        refused
    }

    fn scrub(&self) -> Vec<SegmentId> {
        let (mut cursor, mut damaged) = (ScrubCursor::default(), Vec::new());
        loop {
            let scrubbed = self.harness.log.scrub_step(&mut cursor, 100);
            damaged.extend(scrubbed.damaged.map(|(segment, _)| segment));
            if scrubbed.is_round_over {
                return damaged;
            }
        }
    }

    fn repair(&mut self, replica: &[u8]) -> Repaired {
        self.harness.log.repair(self.id, replica, &hash_of)
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn hash(number: u32) -> KeyHash {
    hash_of(TABLE, &key(number))
}

fn write(harness: &mut Harness, number: u32, value_bytes: usize) {
    let value = vec![number as u8 ^ 0x5A; value_bytes];
    harness.write(TABLE, &key(number), &value).unwrap();
}

fn grant(harness: &Harness) -> Grant {
    Grant { work: 1 << 20, now: harness.now, expired_stay: true }
}

fn combine(harness: &mut Harness, pass: &mut Combined) -> Step {
    let grant = grant(harness);
    harness.log.combined_step(pass, grant, &hash_of)
}

fn compact(harness: &mut Harness, pass: &mut Compaction) -> Step {
    let grant = grant(harness);
    harness.log.compaction_step(pass, grant, &hash_of)
}

/// Each kind of cleaning of the damaged segment, and of the whole log after a repair in the middle.
fn clean_through(mut rot: Rot, is_combined: bool, what: &str) {
    let now = rot.harness.now;
    if is_combined {
        let mut pass = rot.harness.log.begin_combined(STREAM, &[rot.id], now);
        let Step::Damaged { segment, offset } = combine(&mut rot.harness, &mut pass) else {
            panic!("{what}: the pass saw nothing");
        };
        assert_eq!((segment, rot.harness.log.damage_in(rot.id)), (rot.id, Some(offset)), "{what}");
        rot.read_all();
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "{what}");
        assert_eq!(combine(&mut rot.harness, &mut pass), Step::Done, "{what}");
        for side in rot.harness.log.side_segments(pass.side()).collect::<Vec<_>>() {
            assert_eq!(rot.harness.log.damage_in(side), None, "{what}: a survivor is damaged");
        }
        rot.harness.log.enter_combined(&pass);
        rot.harness.log.roll_entering(STREAM, now, &[]).unwrap();
        rot.harness.log.retire(rot.id);
    } else {
        let mut pass = rot.harness.log.begin_compaction(rot.id);
        assert!(matches!(compact(&mut rot.harness, &mut pass), Step::Damaged { .. }), "{what}");
        rot.read_all();
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "{what}");
        assert_eq!(compact(&mut rot.harness, &mut pass), Step::Done, "{what}");
        rot.harness.log.swap_compaction(pass);
        assert_eq!(rot.harness.log.damage_in(rot.id), None, "{what}: the image is damaged");
    }
    assert_eq!(rot.read_all(), 0, "{what}");
    rot.harness.check();
}

// C8
#[test]
fn every_flipped_bit_is_refused_found_never_moved_and_repaired() {
    let bits = Rot::new().bytes() * 8;
    let mut refused = 0;
    for bit in 0..bits {
        let what = format!("bit {bit} of {bits}");
        let mut rot = Rot::new();
        rot.flip(bit);
        refused += rot.read_all();
        assert_eq!(rot.scrub(), [rot.id], "{what}");
        let range = ramhold_log::HashRange::whole(TABLE);
        if rot.read_all() > 0 {
            let dropped =
                rot.harness.log.drop_range_step(range, Cursor::default(), 1 << 20, &|_| KeyHash(u64::MAX));
            assert!(dropped.is_ok() || rot.harness.log.damage_in(rot.id).is_some(), "{what}");
            // Every key was dropped but the damaged ones.
            continue;
        }
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "{what}");
        assert_eq!(rot.scrub(), [], "{what}");
        assert_eq!(segment_bytes(&rot.harness.log, rot.id), rot.replica, "{what}");
        rot.harness.check();
    }
    assert!(refused > bits / 2, "most bits are those of living objects");
}

// C8
#[test]
fn a_pass_stops_at_every_flipped_bit_and_goes_on_after_the_repair() {
    let bits = Rot::new().bytes() * 8;
    for bit in (0..bits).step_by(3) {
        for is_combined in [true, false] {
            let mut rot = Rot::new();
            rot.flip(bit);
            if is_combined && bit < rot.harness.log.segment(rot.id).unwrap().opening_bytes * 8 {
                continue; // It does not look at the opening, which is not moved.
            }
            clean_through(rot, is_combined, &format!("bit {bit} of {bits}, combined: {is_combined}"));
        }
    }
}

// C8
#[test]
fn every_flipped_bit_of_a_compacted_segment_is_repaired_from_the_longer_replica() {
    let bits = Rot::compacted().bytes() * 8;
    for bit in 0..bits {
        let mut rot = Rot::compacted();
        let before = segment_bytes(&rot.harness.log, rot.id);
        rot.flip(bit);
        rot.read_all();
        assert_eq!(rot.scrub(), [rot.id], "bit {bit} of {bits}");
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "bit {bit} of {bits}");
        assert_eq!(segment_bytes(&rot.harness.log, rot.id), before, "bit {bit} of {bits}");
        assert_eq!(rot.read_all(), 0);
    }
}

// C8
#[test]
fn an_entry_whose_list_nobody_can_know_is_repaired() {
    let bits = Rot::with_odd_lists().bytes() * 8;
    for bit in 0..bits {
        let mut rot = Rot::with_odd_lists();
        let before = segment_bytes(&rot.harness.log, rot.id);
        rot.flip(bit);
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "bit {bit} of {bits}");
        assert_eq!(segment_bytes(&rot.harness.log, rot.id), before, "bit {bit} of {bits}");
    }
}

// C8: seed 70107 of the simulator.
#[test]
fn a_large_entry_whose_list_nobody_can_know_is_repaired() {
    let bytes = Rot::with_a_large_object().bytes();
    assert!(bytes as usize > LARGE_BYTES);
    for bit in (0..bytes * 8).step_by(61) {
        let mut rot = Rot::with_a_large_object();
        let before = segment_bytes(&rot.harness.log, rot.id);
        rot.flip(bit);
        let replica = rot.replica.clone();
        assert_eq!(rot.repair(&replica), Repaired::Whole, "bit {bit} of {}", bytes * 8);
        assert_eq!(segment_bytes(&rot.harness.log, rot.id), before, "bit {bit} of {}", bytes * 8);
    }
}

// C8
#[test]
fn more_than_one_place_is_repaired_at_once_and_nothing_is_invented() {
    let (mut repaired, mut unfit) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut rot = if seed % 2 == 0 { Rot::new() } else { Rot::compacted() };
        let before = segment_bytes(&rot.harness.log, rot.id);
        for _ in 0..rng.between(1, 4) {
            let (at, bytes) = (rng.below(u64::from(rot.bytes())) as u32, rng.between(1, 80) as u32);
            for offset in at..(at + bytes).min(rot.bytes()) {
                rot.harness.log.flip_bit(rot.id, offset, rng.below(8) as u8);
            }
        }
        rot.read_all();
        let replica = rot.replica.clone();
        match rot.repair(&replica) {
            Repaired::Whole => {
                repaired += 1;
                assert_eq!(segment_bytes(&rot.harness.log, rot.id), before, "seed {seed}");
            }
            // Rewritten by a compaction, and hardly anything is left of it.
            Repaired::Unfit => {
                unfit += 1;
                assert!(
                    seed % 2 == 1,
                    "seed {seed}: what was not compacted is repaired whatever is left of it"
                );
                assert_eq!(rot.scrub(), [rot.id], "seed {seed}");
            }
        }
        rot.read_all();
    }
    println!("{repaired} repaired, {unfit} not");
    assert!(repaired > 250);
}

// C8
#[test]
fn a_replica_that_does_not_fit_changes_nothing() {
    for is_compacted in [false, true] {
        let mut rot = if is_compacted { Rot::compacted() } else { Rot::new() };
        rot.flip(rot.bytes() * 4);
        let damaged = segment_bytes(&rot.harness.log, rot.id);
        let mut rotten = rot.replica.clone();
        let middle = rotten.len() / 2;
        rotten[middle] ^= 1;
        let replicas: [&[u8]; 4] = [&[], &damaged, &rot.replica.clone()[..middle], &rotten];
        for replica in replicas {
            assert_eq!(rot.repair(replica), Repaired::Unfit);
            assert_eq!(segment_bytes(&rot.harness.log, rot.id), damaged);
        }
    }
}

// C8
#[test]
fn a_head_is_repaired_from_what_its_replicas_hold_so_far() {
    let mut rot = Rot::new();
    let head = rot.harness.log.head_segment(STREAM).unwrap();
    let whole = segment_bytes(&rot.harness.log, head);
    let length = whole.len() as u32;
    rot.id = head;
    rot.flip(length * 8 - 100);
    assert_eq!(rot.read_all(), 1);
    assert_eq!(rot.repair(&whole[..whole.len() - 20]), Repaired::Unfit, "not replicated that far");
    write(&mut rot.harness, 11, 3);
    assert_eq!(rot.repair(&whole), Repaired::Whole);
    assert_eq!(rot.read_all(), 0);
    rot.harness.check();
}

// C8
#[test]
fn without_a_replica_what_is_damaged_is_given_up_and_nothing_else() {
    let bits = Rot::new().bytes() * 8;
    for bit in 0..bits {
        let what = format!("bit {bit} of {bits}");
        let mut rot = Rot::new();
        let now = rot.harness.now;
        // In the middle of a pass or not.
        let mut pass = (bit % 2 == 0).then(|| rot.harness.log.begin_combined(STREAM, &[rot.id], now));
        rot.flip(bit);
        let refused = rot.read_all();
        assert!(rot.harness.log.may_lose(rot.id));
        let mut lost = Lost::new(rot.id);
        while !rot.harness.log.lose_step(&mut lost, 3, &hash_of) {}
        assert_eq!(u64::from(refused), lost.objects, "{what}");
        assert_eq!(rot.scrub(), [], "{what}");
        assert_eq!(rot.read_all(), refused, "{what}: lost is not absent");
        rot.harness.log.check_invariants();
        if let Some(pass) = &mut pass {
            assert_eq!(combine(&mut rot.harness, pass), Step::Done, "{what}");
            rot.harness.log.enter_combined(pass);
            rot.harness.log.roll_entering(STREAM, now, &[]).unwrap();
            rot.harness.log.retire(rot.id);
        }
        assert_eq!(rot.read_all(), refused, "{what}");
        for number in 0..12 {
            if rot.harness.log.lookup(TABLE, hash(number), &key(number)).err() == Some(Unreadable::Lost) {
                let version = rot.harness.versions[&(TABLE, key(number))];
                rot.harness.log.raise_safe_version(version.next());
                rot.harness.log.forgive_key(TABLE, hash(number));
                write(&mut rot.harness, number, 3);
            }
        }
        assert_eq!(rot.read_all(), 0, "{what}");
        rot.harness.log.check_invariants();
    }
}
