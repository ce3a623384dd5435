//! Multi-reads: frames for the owners, and what a frame leaves open is read key by key.

use crate::fake::*;
use ramhold_base::{Effects, Lost, Rng, ServerId, Status, Version};
use ramhold_client_core::{Cause, Keys, Objects, OperationId, Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::multi::{MULTI_COUNT_MAX, encode_answer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A session that knows the table, whose tablets are these.
fn described(parts: &[Part]) -> Fake {
    let mut fake = Fake::new();
    let (_, sent) = fake.start_described(read(b"a"), parts);
    fake.answer_value(&sent, 1, b"one");
    fake.outcome();
    fake
}

impl Fake {
    fn start_reads(&mut self, keys: &[Vec<u8>], time: Duration) -> OperationId {
        let mut together = Keys::of(TABLE);
        keys.iter().for_each(|key| together.push(key).unwrap());
        let mut effects = Effects::new();
        let id = self.session.start_reads(self.now, together, time, &mut effects);
        self.take_effects(&effects);
        id
    }

    fn objects(&mut self, id: OperationId) -> Objects {
        match self.outcome() {
            (ended, Outcome::Done(Reply::Objects(objects))) if ended == id => *objects,
            other => panic!("{other:?}"),
        }
    }
}

fn keys(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key {number}").into_bytes()).collect()
}

fn values(objects: &Objects) -> Vec<Option<Vec<u8>>> {
    objects.iter().map(|found| found.unwrap().map(|object| object.value.to_vec())).collect()
}

const LONG: Duration = Duration::from_secs(10);

// A5
#[test]
fn each_owner_gets_frames_and_each_key_has_its_own_end() {
    let mut fake = described(HALVES);
    let keys: Vec<Vec<u8>> = [(false, 1), (true, 2), (false, 3), (true, 4)]
        .map(|(upper, number)| key_in_half(upper, number).to_vec())
        .to_vec();
    let id = fake.start_reads(&keys, LONG);
    let sent = std::mem::take(&mut fake.sent);
    let seen: Vec<_> = sent.iter().map(|sent| (sent.to, sent.packed.unwrap().count)).collect();
    assert_eq!(seen, [(server(1), 2), (server(1), 2), (server(2), 2), (server(2), 2)]);
    assert!(sent.iter().all(|sent| sent.opcode() == Opcode::Read && sent.header.sequence.is_none()));
    assert_eq!(fake.session.under_way_count(), 1);
    fake.answer_value(&sent[3], 8, b"four");
    fake.answer_version(&sent[2], Status::NotFound, 0);
    fake.expect_none_ended();
    fake.answer_value(&sent[0], 5, b"one");
    // A loss is an end like others, but another read says so.
    fake.answer(&sent[1], Status::Corrupt, b"");
    fake.expect_none_ended();
    let alone = fake.expect(server(1), Opcode::Read);
    assert!(alone.packed.is_none());
    fake.answer(&alone, Status::Corrupt, b"");
    let objects = fake.objects(id);
    assert_eq!(objects.get(0).unwrap().unwrap().version, Version(5));
    assert_eq!(objects.get(1), Ok(None));
    assert!(matches!(objects.get(2), Err(Outcome::Refused { status: Status::Corrupt, .. })));
    assert_eq!(objects.get(3).unwrap().unwrap().value, b"four");
    assert_eq!(fake.session.under_way_count(), 0);
    fake.expect_silence();
}

// A5, B5
#[test]
fn keys_of_a_table_that_is_not_known_are_read_one_by_one() {
    let mut fake = Fake::new();
    let id = fake.start_reads(&keys(3), LONG);
    fake.describe(ALL_AT_1);
    let sent = std::mem::take(&mut fake.sent);
    assert_eq!(sent.len(), 3);
    for (sent, value) in sent.iter().zip([b"0", b"1", b"2"]) {
        fake.answer_value(sent, 3, value);
    }
    let objects = fake.objects(id);
    assert_eq!(values(&objects), [Some(b"0".to_vec()), Some(b"1".to_vec()), Some(b"2".to_vec())]);
}

// A5
#[test]
fn a_frame_keeps_to_the_limits_and_a_multi_read_too() {
    let mut fake = described(ALL_AT_1);
    let id = fake.start_reads(&keys(MULTI_COUNT_MAX as u32 * 2 + 1), LONG);
    let sent = std::mem::take(&mut fake.sent);
    let mut counts: Vec<usize> =
        sent.iter().map(|sent| sent.packed.map_or(1, |packed| packed.count)).collect();
    counts.dedup();
    assert_eq!(counts, [MULTI_COUNT_MAX, 1]);
    sent.iter().for_each(|sent| fake.answer_value(sent, 3, b"v"));
    assert_eq!(fake.objects(id).len(), MULTI_COUNT_MAX * 2 + 1);
    let long: Vec<Vec<u8>> = (0..20u8).map(|number| vec![number; 60_000]).collect();
    fake.start_reads(&long, LONG);
    let counts: Vec<usize> = fake.sent.iter().map(|sent| sent.packed.unwrap().count).collect();
    assert_eq!(counts, [[17; 17].as_slice(), &[3; 3]].concat(), "a frame has at most 1 MiB");
    fake.sent.clear();

    let none = fake.start_reads(&[], LONG);
    let (ended, outcome) = fake.outcome();
    assert_eq!(ended, none);
    assert!(matches!(outcome, Outcome::Refused { status: Status::BadRequest, cause: Cause::Unsent, .. }));
    for _ in 0..15 {
        fake.start_reads(&keys(Keys::COUNT_MAX as u32), LONG);
        fake.sent.clear();
    }
    fake.start_reads(&keys(Keys::COUNT_MAX as u32), LONG);
    let refused = fake.expect_refused(Status::TooMany);
    assert!(refused.contains("too many keys"), "{refused}");
}

// A5, B5
#[test]
fn silence_a_lost_connection_and_a_refused_frame_leave_keys_to_be_read_one_by_one() {
    for how in 0..4 {
        let mut fake = described(ALL_AT_1);
        let id = fake.start_reads(&keys(2), LONG);
        let sent = std::mem::take(&mut fake.sent);
        match how {
            0 => {
                let waited = fake.wait(LONG);
                assert_eq!(waited, Duration::from_secs(1), "the time of an attempt");
            }
            1 => fake.lose(server(1), Lost::Broken),
            2 => fake.answer_frame(&sent[0].packed.unwrap(), Status::WrongOwner, b""),
            _ => fake.answer_frame(&sent[0].packed.unwrap(), Status::Ok, b"no answers"),
        }
        if how < 2 {
            // The owner is doubted.
            fake.describe(ALL_AT_2);
        }
        let owner = if how < 2 { server(2) } else { server(1) };
        let again = std::mem::take(&mut fake.sent);
        assert_eq!(again.iter().map(|sent| sent.to).collect::<Vec<_>>(), [owner; 2], "way {how}");
        // The late answer to the frame changes nothing.
        fake.answer_value(&sent[0], 9, b"late");
        fake.answer_value(&sent[1], 9, b"late");
        fake.expect_none_ended();
        again.iter().for_each(|sent| fake.answer_value(sent, 3, b"new"));
        assert_eq!(values(&fake.objects(id)), [Some(b"new".to_vec()), Some(b"new".to_vec())], "way {how}");
    }
}

// A5
#[test]
fn an_answer_that_names_a_place_twice_or_one_that_is_not_there_settles_nothing_twice() {
    let mut fake = described(ALL_AT_1);
    let id = fake.start_reads(&keys(2), LONG);
    let sent = std::mem::take(&mut fake.sent);
    let mut body = Vec::new();
    for place in [0, 0, 7] {
        encode_answer(place, Some(Status::NotFound), &mut body, |_| {});
    }
    fake.answer_frame(&sent[0].packed.unwrap(), Status::Ok, &body);
    let alone = fake.expect(server(1), Opcode::Read);
    fake.answer_value(&alone, 3, b"v");
    assert_eq!(values(&fake.objects(id)), [None, Some(b"v".to_vec())]);
}

// B5
#[test]
fn a_multi_read_ends_at_its_deadline_with_what_it_has() {
    let mut fake = described(ALL_AT_1);
    let id = fake.start_reads(&keys(2), millis(2500));
    let sent = std::mem::take(&mut fake.sent);
    let mut body = Vec::new();
    encode_answer(1, Some(Status::NotFound), &mut body, |_| {});
    fake.answer_frame(&sent[0].packed.unwrap(), Status::Ok, &body);
    let begin = fake.now;
    while fake.session.under_way_count() > 0 {
        fake.sent.clear();
        fake.wait(millis(500));
    }
    assert!(fake.now.since(begin) <= millis(2500));
    let objects = fake.objects(id);
    assert!(matches!(objects.get(0), Err(Outcome::Refused { cause: Cause::Deadline, .. })), "{objects:?}");
    assert_eq!(objects.get(1), Ok(None));
}

// B5: less time than an attempt has.
#[test]
fn a_multi_read_with_little_time_ends_in_it_and_names_the_silent_server() {
    let mut fake = described(ALL_AT_1);
    let id = fake.start_reads(&keys(2), millis(300));
    fake.sent.clear();
    assert_eq!(fake.wait(LONG), millis(300));
    match fake.objects(id).get(1) {
        Err(Outcome::Refused { cause: Cause::Unreachable, detail, .. }) => {
            assert!(detail.starts_with("tried for 300.0ms, 1 attempt; last, server s1"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    fake.expect_silence();
}

// A5, B5: whatever a cluster answers, each key has one end by the deadline, and no value that was not answered for it.
#[test]
fn random_answers_losses_and_silence_end_every_key_once() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut fake = described(HALVES);
        let mut under_way: BTreeMap<OperationId, Vec<Vec<u8>>> = BTreeMap::new();
        let mut started = 0;
        let end = fake.now + Duration::from_secs(3);
        while fake.now < end || fake.session.under_way_count() > 0 {
            if fake.now < end && rng.chance(1, 4) {
                let keys: Vec<Vec<u8>> =
                    (0..rng.between(1, 12)).map(|_| rng.below(40).to_le_bytes().to_vec()).collect();
                under_way.insert(fake.start_reads(&keys, millis(rng.between(100, 3000))), keys);
                started += 1;
            }
            for sent in std::mem::take(&mut fake.sent) {
                if sent.opcode() == Opcode::TableDescribe {
                    let parts = *rng.pick(&[ALL_AT_1, ALL_AT_2, HALVES, RECOVERING]).unwrap();
                    fake.answer_with(&sent, &description(parts));
                    continue;
                }
                let key = sent.body[5..].to_vec();
                match rng.below(12) {
                    0 => fake.pass_over(&sent),
                    1 => {}
                    2 => fake.answer(&sent, *rng.pick(&[Status::WrongOwner, Status::Retry]).unwrap(), b""),
                    3 => fake.answer(&sent, Status::Ok, b"short"),
                    4..=6 => fake.answer_version(&sent, Status::NotFound, 0),
                    _ => fake.answer_value(&sent, 3, &key),
                }
            }
            if rng.chance(1, 30) {
                fake.lose(server(rng.between(1, 2)), Lost::Broken);
            }
            if fake.sent.is_empty() {
                fake.wait(millis(rng.between(1, 100)));
            }
            while let Some((id, outcome)) = fake.session.take_outcome() {
                let keys = under_way.remove(&id).unwrap_or_else(|| panic!("seed {seed}: {id:?} ended twice"));
                let Outcome::Done(Reply::Objects(objects)) = outcome else {
                    panic!("seed {seed}: {outcome:?}")
                };
                assert_eq!(objects.len(), keys.len());
                for (key, found) in keys.iter().zip(objects.iter()) {
                    if let Ok(Some(object)) = found {
                        assert_eq!(object.value, key, "seed {seed}: a value of another key");
                    }
                }
            }
        }
        assert!(under_way.is_empty() && started > 0, "seed {seed}");
    }
}

// A5: the short form of an item is the form of all.
#[test]
fn a_multi_read_is_encoded_as_any_frame_of_reads() {
    let mut fake = described(ALL_AT_1);
    fake.start_reads(&keys(2), LONG);
    let together = std::mem::take(&mut fake.sent);
    fake.start_all(keys(2).iter().map(|key| read(key)).collect());
    let packed = std::mem::take(&mut fake.sent);
    for (one, other) in together.iter().zip(&packed) {
        assert_eq!((&one.body, one.opcode(), one.to), (&other.body, other.opcode(), other.to));
        assert_eq!(one.header.target, other.header.target);
        assert_eq!(one.header.target, ServerId(1));
    }
}
