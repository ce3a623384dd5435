//! A brick whose memory or whose frames are full, and that dies then (docs/protocols/quorum.md, rules 40 and 80).

use crate::host::{SEGMENT_BYTES, Slow};
use crate::network::{CLUSTER, Party};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, seeds};
use ramhold_base::{RpcId, SessionId, Stamp, Status, TableId};
use ramhold_log::PASS_FRAMES;
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::brick_status::BrickLimit;
use ramhold_wire::membership::Durability;
use ramhold_wire::{Header, Opcode, frame};

pub const VALUE: [u8; 700] = [5; 700];
/// More values than the log has room for.
pub const PUTS_MAX: u64 = 1000;

/// Asks a brick about a key of a table, and waits for its answer.
pub fn ask_at(
    rig: &mut Rig,
    host: usize,
    number: u64,
    (table, key): (TableId, &str),
    what: AskWhat<'_>,
) -> Status {
    let target = rig.hosts[host].id;
    let header = Header { cluster: CLUSTER, target, ..Header::request(Opcode::Ask, RpcId(number)) };
    let mut bytes = Vec::new();
    let request = AskRequest { table, key: key.as_bytes(), what };
    frame::write(&mut bytes, &header, |out| request.encode(out));
    rig.told.clear();
    rig.send(Party::Test, Party::Host(host), bytes);
    rig.run_until(|rig| !rig.told.is_empty());
    rig.told[0].0.status()
}

/// Asks the first brick, and waits for its answer.
fn ask(rig: &mut Rig, number: u64, key: &str, what: AskWhat<'_>) -> Status {
    ask_at(rig, 0, number, (TABLE, key), what)
}

fn write(rig: &mut Rig, number: u64, key: &str, value: Option<&[u8]>, is_repair: bool) -> Status {
    let begun = rig.hosts[0].node.as_ref().unwrap().brick.time(rig.instant());
    let stamp = Stamp::new(begun + number, SessionId::of(4).unwrap());
    let value = value.map(|bytes| StampedValue { bytes, expires: None });
    ask(rig, number, key, AskWhat::Write(AskedWrite { stamp, begun, is_repair, value }))
}

/// The stamp of a put that begins now.
pub fn new_stamp(rig: &Rig, number: u64) -> Stamp {
    let begun = rig.hosts[1].node.as_ref().unwrap().brick.time(rig.instant());
    Stamp::new(begun + number, SessionId::of(4).unwrap())
}

/// One put at some bricks, one after the other, as long as they have room for it.
pub fn put_at(rig: &mut Rig, hosts: &[usize], number: u64, place: (TableId, &str), bytes: &[u8]) -> bool {
    let stamp = new_stamp(rig, number);
    put_stamped(rig, hosts, (number, stamp), place, bytes)
}

/// The same, with a stamp that some of the bricks may have already.
pub fn put_stamped(
    rig: &mut Rig,
    hosts: &[usize],
    (number, stamp): (u64, Stamp),
    place: (TableId, &str),
    bytes: &[u8],
) -> bool {
    let value = Some(StampedValue { bytes, expires: None });
    let asked = AskedWrite { stamp, begun: stamp.time, is_repair: false, value };
    hosts.iter().all(|host| {
        for _ in 0..100 {
            match ask_at(rig, *host, number, place, AskWhat::Write(asked)) {
                Status::Ok => return true,
                Status::OutOfMemory => return false,
                // Too much waits for its device.
                Status::TooMany => rig.run_for(20 * MILLI),
                other => panic!("put {number} at {host}: {other:?}"),
            }
        }
        panic!("put {number} at {host} is refused for ever");
    })
}

/// Writes again until the brick takes it: cleaning waits for the device.
pub fn write_until_taken(rig: &mut Rig, number: &mut u64, key: &str, value: Option<&[u8]>) {
    for _ in 0..100 {
        *number += 1;
        match write(rig, *number, key, value, false) {
            Status::Ok => return,
            Status::OutOfMemory => rig.run_for(20 * MILLI),
            other => panic!("{key}: {other:?}"),
        }
    }
    panic!("{key} is refused for ever");
}

/// The first brick dies, starts again and votes.
pub fn die(rig: &mut Rig) {
    rig.kill(0);
    rig.start(0);
    rig.run_until(|rig| rig.votes(0));
}

pub fn frames_left(rig: &Rig) -> u64 {
    rig.hosts[0].node.as_ref().unwrap().backup.frames_left()
}

fn is_full(rig: &Rig) -> bool {
    rig.hosts[0].node.as_ref().unwrap().seen(rig.instant()).status.cleaning.unwrap().is_full
}

/// The limit that the first brick names.
fn limit(rig: &Rig) -> Option<BrickLimit> {
    rig.hosts[0].node.as_ref().unwrap().seen(rig.instant()).status.brick.unwrap().full
}

// I5, C6: it says so, and what ends the shortage goes on: reads with their repairs, and removals.
#[test]
fn a_full_brick_says_so_and_takes_repairs_and_removals_until_it_has_room_again() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        let mut number = 1;
        let key = |number: u64| format!("fill{number}");
        while write(&mut rig, number, &key(number), Some(&VALUE), false) == Status::Ok {
            assert!(number < PUTS_MAX && !is_full(&rig), "after {number} puts");
            number += 1;
        }
        let stored = number - 1;
        assert!(stored > 100, "{stored} puts were stored");
        number += 1;
        assert_eq!(write(&mut rig, number, "more", Some(&VALUE), false), Status::OutOfMemory);
        assert!(is_full(&rig) && limit(&rig) == Some(BrickLimit::Memory));
        number += 1;
        assert_eq!(ask(&mut rig, number, &key(1), AskWhat::Value), Status::Ok);
        // Others have stored these, and a get waits for one more brick.
        for missed in 0..4 {
            number += 1;
            let status = write(&mut rig, number, &format!("missed{missed}"), Some(&VALUE), true);
            assert_eq!(status, Status::Ok, "repair {missed}");
        }
        number += 1;
        assert_eq!(write(&mut rig, number, "missed by this one", None, false), Status::Ok);
        assert!(is_full(&rig), "repairs say nothing of room for puts");
        for removed in 1..=stored {
            write_until_taken(&mut rig, &mut number, &key(removed), None);
        }
        for again in 1..=stored / 3 {
            write_until_taken(&mut rig, &mut number, &key(again), Some(&VALUE));
        }
        assert!(!is_full(&rig) && limit(&rig).is_none());
        rig.check();
    }
}

// I5, C2: keys and values so small that the index is full before the log. Cleaning makes no place there.
#[test]
fn a_brick_whose_index_is_full_says_so_and_takes_what_needs_no_place_in_it() {
    for seed in seeds().take(2) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, Setting { log_bytes: 1 << 20, ..BUFFERED });
        rig.kill(0);
        rig.hosts[0].index_bytes = 1 << 16;
        rig.start(0);
        rig.run_until(|rig| rig.votes(0));
        let mut number = 0;
        for life in 0..2 {
            // Some hashes have places longer than others.
            let mut refused = 0;
            assert_eq!(limit(&rig), None);
            while refused < 100 {
                number += 1;
                assert!(number < 10 * PUTS_MAX, "after {number} puts");
                match write(&mut rig, number, &format!("small{number}"), Some(b"1"), false) {
                    Status::Ok => {}
                    Status::OutOfMemory => refused += 1,
                    other => panic!("life {life}, put {number}: {other:?}"),
                }
            }
            for (key, value) in [("small1", Some(&b"2"[..])), ("small2", None)] {
                number += 1;
                assert_eq!(write(&mut rig, number, key, value, false), Status::Ok, "life {life}, {key}");
            }
            // Nothing else is full, and it says so as long as further keys may be refused.
            rig.run_for(20_000 * MILLI);
            assert!(!is_full(&rig) && limit(&rig) == Some(BrickLimit::Index));
            die(&mut rig);
        }
        rig.check();
    }
}

// I5, D9: the digest of a next head may fill half a segment at most. No real log has so many segments.
#[test]
fn a_brick_with_too_many_segments_for_a_digest_refuses_puts_as_one_without_memory() {
    let mut rig = Rig::new(1, Setting { log_bytes: 32 << 20, ..BUFFERED });
    let put = |rig: &mut Rig, number: u64| {
        assert!(number < 2 * PUTS_MAX, "after {number} puts");
        write(rig, number, &format!("fill{number}"), Some(&[5; 7000]), false)
    };
    let refused = (1..).map(|number| put(&mut rig, number)).find(|status| *status != Status::Ok);
    assert_eq!(refused, Some(Status::OutOfMemory), "it does not help to ask for less");
    let log = rig.hosts[0].node.as_ref().unwrap().brick.log().unwrap();
    let (segments, digest_max) = (log.segments().count(), SEGMENT_BYTES as usize / 2);
    assert!(segments * 8 <= digest_max && (segments + 16) * 8 > digest_max, "{segments} segments");
}

// I6, C6: each life has heads of its own, which take frames, so a brick that dies often runs out of frames before it runs
// out of memory. It refuses some puts then, and cleaning makes room.
#[test]
fn a_brick_without_frames_refuses_puts_until_cleaning_has_freed_some() {
    let (mut least, mut refused) = (u64::MAX, 0);
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        let mut number = 1;
        for round in 0..4 {
            for _ in 0..15 {
                rig.kill(0);
                rig.start(0);
                rig.run_until(|rig| rig.hosts[0].node.as_ref().is_some_and(|node| node.brick.is_serving()));
            }
            rig.run_until(|rig| rig.votes(0));
            // Writes are faster than the device, and so than cleaning.
            rig.hosts[0].slow = Some(Slow { device_nanos: 1000 * MILLI, turn_nanos: 0 });
            for put in 0..300 {
                number += 1;
                let key = format!("key{}", put % 90);
                match write(&mut rig, number, &key, Some(&VALUE), false) {
                    Status::Ok => {}
                    Status::OutOfMemory => refused += 1,
                    other => panic!("put {put}: {other:?}"),
                }
                least = least.min(frames_left(&rig));
            }
            rig.hosts[0].slow = None;
            for put in 0..30 {
                write_until_taken(&mut rig, &mut number, &format!("key{}", round * 30 + put), Some(&VALUE));
            }
        }
        rig.check();
    }
    assert!(least < 9 && refused > 0, "frames were never short: {least} were left, {refused} puts refused");
}

// I6, C6: a brick that dies again and again before it can clean anything starts each time.
#[test]
fn a_brick_that_dies_again_and_again_with_no_frame_left_starts_each_time() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        let mut number = 1;
        for round in 0..60 {
            number += 1;
            write(&mut rig, number, &format!("key{round}"), Some(&VALUE), false);
            die(&mut rig);
        }
        for round in 0..60 {
            write_until_taken(&mut rig, &mut number, &format!("key{round}"), Some(&VALUE));
        }
        rig.check();
    }
}

/// Writes values to new keys at the first brick until it refuses one. Returns the frames that are left when it is at rest.
fn fill(rig: &mut Rig, number: &mut u64, is_repair: bool) -> u64 {
    for _ in 0..PUTS_MAX {
        *number += 1;
        match write(rig, *number, &format!("fill{number}"), Some(&VALUE), is_repair) {
            Status::Ok => {}
            // Too much waits for its device.
            Status::TooMany => rig.run_for(20 * MILLI),
            Status::OutOfMemory => {
                rig.run_for(2000 * MILLI);
                return frames_left(rig);
            }
            other => panic!("write {number}: {other:?}"),
        }
    }
    panic!("it is never full");
}

// I6, C6: rule 80. Puts leave eight frames, and repairs seven: a pass may need six, and a removal one more head.
#[test]
fn writes_leave_the_frames_that_a_pass_may_need() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, Setting { log_bytes: 1 << 20, ..BUFFERED });
        rig.hosts[0].frames_max = Some(24);
        die(&mut rig);
        let mut number = 0;
        for (is_repair, leaves) in [(false, PASS_FRAMES + 2), (true, PASS_FRAMES + 1)] {
            let left = fill(&mut rig, &mut number, is_repair);
            assert!(number > 200, "{number} writes");
            assert!((leaves..leaves + 4).contains(&left), "{left} are left, repair: {is_repair}");
            assert_eq!(limit(&rig), Some(BrickLimit::Frames));
        }
        // So there is a way out.
        for removed in 1..=number / 2 {
            write_until_taken(&mut rig, &mut number, &format!("fill{removed}"), None);
        }
        write_until_taken(&mut rig, &mut number, "more", Some(&VALUE));
        rig.check();
    }
}

/// The first brick has far fewer frames than memory, and all of them hold values that are alive.
fn with_live_frames(seed: u64, others: &[(TableId, Durability)]) -> (Rig, u64, u64) {
    println!("seed {seed}, {others:?}");
    let mut rig = Rig::new(seed, Setting { log_bytes: 1 << 20, ..BUFFERED });
    rig.hosts[0].frames_max = Some(24);
    die(&mut rig);
    rig.add_tables(others);
    let mut number = 1;
    while put_at(&mut rig, &[0, 1, 2], number, (TABLE, &format!("fill{number}")), &VALUE) {
        assert!(number < PUTS_MAX);
        number += 1;
        if number.is_multiple_of(20) {
            rig.run_for(200 * MILLI);
        }
    }
    let stored = number - 1;
    assert!(stored > 200, "{stored} puts were stored");
    // Later lives have the frames that each start may take for their heads, and nothing else.
    die(&mut rig);
    die(&mut rig);
    (rig, number, stored)
}

// I6, C6: rule 80. The first heads of a life take some of the frames that each start may take. Tablets are rebuilt with the
// others, one after the other: they take values that they have missed, and drop some that nobody else has.
#[test]
fn a_brick_is_rebuilt_while_all_its_frames_hold_live_values() {
    let table = |number: u32| TableId(8 + number);
    let buffered: Vec<(TableId, Durability)> = (0..5).map(|at| (table(at), Durability::Buffered)).collect();
    let synced = [(table(9), Durability::Synced)];
    let mut least = u64::MAX;
    for seed in seeds().take(4) {
        for others in [&synced[..], &buffered, &[&synced[..], &buffered].concat()] {
            let (mut rig, mut number, stored) = with_live_frames(seed, others);
            for round in 0..3 {
                for (table, _) in others.iter().chain(&[(TABLE, Durability::Buffered)]) {
                    number += 1;
                    put_at(&mut rig, &[0], number, (*table, &format!("lonely{round}")), b"1");
                }
                rig.run_for(300 * MILLI);
                rig.cut_power(0);
                for missed in 0..30 {
                    number += 1;
                    let key = format!("fill{}", 1 + (missed * 7 + round) % stored);
                    assert!(put_at(&mut rig, &[1, 2], number, (TABLE, &key), &VALUE));
                }
                rig.start(0);
                rig.run_until(|rig| rig.votes(0));
                least = least.min(frames_left(&rig));
            }
            // It is not stuck afterwards either.
            for removed in 1..=stored {
                write_until_taken(&mut rig, &mut number, &format!("fill{removed}"), None);
            }
            for again in 1..=stored / 3 {
                write_until_taken(&mut rig, &mut number, &format!("fill{again}"), Some(&VALUE));
            }
            rig.check();
        }
    }
    assert!(least <= 6, "frames were never short: {least} were left");
}
