//! Pages of several bricks, compared.

use ramhold_base::{Instant, Stamp};
use ramhold_quorum::{
    BrickId, Heard, Life, PageGet, PageGot, PageKey, PageOut, PageRecord, PageSaid, RecordSaid, Thresholds,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(100);
const WITHIN: Duration = Duration::from_secs(1);
const IDS: [BrickId; 3] = [BrickId(1), BrickId(2), BrickId(3)];

fn stamp(time: u64) -> Stamp {
    Stamp { time, session: 2 }
}

fn get(thresholds: Thresholds, wants_values: bool) -> PageGet<u8> {
    PageGet::new(Instant(0), (&IDS, thresholds, wants_values), (Instant(0) + WITHIN, PATIENCE))
}

/// A question to three bricks that has begun, and what it has asked.
fn begun() -> (PageGet<u8>, Vec<PageOut>) {
    let mut get = get(Thresholds::majority(3).expect("a quorum"), true);
    let mut outs = Vec::new();
    get.start(Instant(0), &mut outs);
    (get, outs)
}

fn sends(outs: &[PageOut]) -> Vec<(u64, bool)> {
    let send = |out: &PageOut| match out {
        PageOut::Send { to, has_values } => Some((to.0, *has_values)),
        PageOut::WakeAt(_) => None,
    };
    outs.iter().filter_map(send).collect()
}

/// A record: position, key, stamp or none for one that is open, value or none for a tombstone.
type Record = (u64, u8, Option<u64>, Option<u8>);

fn page(from: u64, has_values: bool, next: Option<u64>, records: &[Record]) -> Heard<PageSaid<u8>> {
    let record = |(position, key, time, value): &Record| PageRecord {
        position: *position,
        key: vec![*key],
        said: match time {
            None => RecordSaid::Open,
            Some(time) => RecordSaid::Stored(stamp(*time), *value),
        },
    };
    let records = records.iter().map(record).collect();
    heard(from, PageSaid::Page { records, next, has_values })
}

fn heard(from: u64, said: PageSaid<u8>) -> Heard<PageSaid<u8>> {
    Heard { from: BrickId(from), life: Life(1), siblings: Vec::new(), epoch: 1, clock: 0, said }
}

/// The finding: position, key, stamp and value if agreed on.
type Key = (u64, u8, Option<(u64, u8)>);

fn found(got: Option<PageGot<u8>>) -> (Vec<Key>, Option<u64>) {
    let Some(PageGot::Found { keys, next, .. }) = got else { panic!("not found: {got:?}") };
    let key = |PageKey { position, key, agreed }: PageKey<u8>| {
        (position, key[0], agreed.map(|(stamp, value)| (stamp.time, value)))
    };
    (keys.into_iter().map(key).collect(), next)
}

// A6, I1: two messages for a stretch, and no more.
#[test]
fn keys_of_which_all_tell_the_same_are_taken_and_all_others_are_left_to_a_get() {
    let (mut get, outs) = begun();
    assert_eq!(sends(&outs), [(1, true), (2, false)]);
    let first: &[Record] = &[
        (1, 10, Some(5), Some(50)),
        (2, 11, Some(5), Some(51)),
        (2, 12, Some(5), None),
        (3, 13, Some(5), Some(53)),
        (4, 14, None, None),
        (5, 15, Some(5), Some(55)),
        (6, 16, Some(5), None),
        (7, 17, Some(5), Some(57)),
    ];
    let second: &[Record] = &[
        (1, 10, Some(5), Some(0)),
        (2, 11, Some(6), Some(0)),
        (2, 12, Some(5), None),
        // 13 is missing.
        (4, 14, Some(5), Some(0)),
        (5, 15, None, None),
        (6, 16, Some(4), Some(0)),
        (6, 18, Some(4), Some(0)),
    ];
    assert!(get.on_answer(page(1, true, None, first)).is_none());
    let got = found(get.on_answer(page(2, false, Some(7), second)));
    let wanted: Vec<Key> = vec![
        (1, 10, Some((5, 50))),
        (2, 11, None),
        (3, 13, None),
        (4, 14, None),
        (5, 15, None),
        (6, 16, None),
        (6, 18, None),
    ];
    assert_eq!(got, (wanted, Some(7)), "the shorter page ends it, and a tombstone of both is absent");
}

// A6: with W above R all that hold the value must tell, or it may not be committed.
#[test]
fn as_many_bricks_are_asked_as_the_larger_quorum_has() {
    for (write, read, count) in [(3, 1, 3), (2, 2, 2), (2, 3, 3)] {
        let mut get = get(Thresholds::new(3, write, read).expect("a quorum"), false);
        let mut outs = Vec::new();
        get.start(Instant(0), &mut outs);
        assert_eq!(sends(&outs).len(), count);
        assert!(sends(&outs).iter().all(|(_, has_values)| !has_values), "keys alone are wanted");
        let records: &[Record] = &[(1, 10, Some(5), Some(0))];
        for brick in 1..count as u64 {
            assert!(get.on_answer(page(brick, false, None, records)).is_none());
        }
        let got = found(get.on_answer(page(count as u64, false, None, records)));
        assert_eq!(got, (vec![(1, 10, Some((5, 0)))], None));
    }
}

// A6, I1
#[test]
fn a_brick_that_refuses_is_replaced_at_once_and_a_silent_one_after_its_patience() {
    let records: &[Record] = &[(1, 10, Some(5), Some(50))];
    for refuses in [true, false] {
        let (mut get, _) = begun();
        assert!(get.on_answer(page(2, false, None, records)).is_none());
        let mut outs = Vec::new();
        if refuses {
            get.on_silent(BrickId(1), &mut outs);
            assert_eq!(sends(&outs), [(3, true)]);
            outs.clear();
            get.on_silent(BrickId(3), &mut outs);
            assert_eq!(sends(&outs), [(2, true)], "nobody else is left");
        } else {
            assert!(get.on_time(Instant(0) + PATIENCE, &mut outs).is_none());
            assert_eq!(sends(&outs), [(1, false), (3, true)]);
        }
        let got = found(get.on_answer(page(3, true, None, records)));
        assert_eq!(got, (vec![(1, 10, Some((5, 50)))], None));
        assert!(get.on_answer(page(1, true, None, records)).is_none(), "it has ended");
    }
}

// A6
#[test]
fn values_are_asked_of_a_brick_that_has_told_stamps_when_no_other_is_left() {
    let records: &[Record] = &[(1, 10, Some(5), Some(50))];
    let (mut get, _) = begun();
    assert!(get.on_answer(page(2, false, None, records)).is_none());
    let mut outs = Vec::new();
    get.on_silent(BrickId(1), &mut outs);
    outs.clear();
    // Both that were to tell values are silent.
    assert!(get.on_time(Instant(0) + PATIENCE, &mut outs).is_none());
    assert!(sends(&outs).iter().any(|(_, has_values)| *has_values));
    let mut now = PATIENCE;
    while !sends(&outs).contains(&(2, true)) {
        now += PATIENCE;
        assert!(now < WITHIN, "brick 2 is never asked for values");
        outs.clear();
        get.on_time(Instant(0) + now, &mut outs);
    }
    assert!(get.on_answer(page(2, true, None, records)).is_none(), "one brick is too few");
    // A late page without values takes nothing away.
    assert!(get.on_answer(page(2, false, None, &[])).is_none());
    let got = found(get.on_answer(page(3, false, None, records)));
    assert_eq!(got, (vec![(1, 10, Some((5, 50)))], None));
}

// A6, I6
#[test]
fn a_page_of_a_life_that_is_known_to_be_over_does_not_count() {
    let records: &[Record] = &[(1, 10, Some(5), Some(50))];
    let (mut get, _) = begun();
    assert!(get.on_answer(page(1, true, None, records)).is_none());
    let knowing = Heard { siblings: vec![(BrickId(1), Life(2))], ..page(2, false, None, records) };
    assert!(get.on_answer(knowing).is_none());
    let mut outs = Vec::new();
    assert!(get.on_time(Instant(0) + PATIENCE, &mut outs).is_none());
    assert_eq!(sends(&outs), [(1, false), (3, true)], "it is asked again, and one more");
    let again = Heard { life: Life(2), ..page(1, true, None, &[(1, 10, Some(6), Some(60))]) };
    assert_eq!(found(get.on_answer(again)), (vec![(1, 10, None)], None));
}

// A6, I1
#[test]
fn too_few_bricks_are_named_and_strangers_send_the_session_elsewhere() {
    let (mut get, _) = begun();
    assert!(get.on_answer(page(2, false, None, &[])).is_none());
    let mut outs = Vec::new();
    let end = get.on_time(Instant(0) + WITHIN, &mut outs);
    assert_eq!(end, Some(PageGot::NoQuorum(vec![BrickId(1), BrickId(3)])));
    let (mut get, _) = begun();
    assert!(get.on_answer(heard(1, PageSaid::WrongOwner)).is_none());
    assert_eq!(get.on_answer(heard(2, PageSaid::WrongOwner)), Some(PageGot::WrongOwner));
}
