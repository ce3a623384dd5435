//! The replicator learns what its backups' devices have, and asks where it must.
//!
//! The network is calm here; see `lossy_backups` for the other one.

use crate::bench::{Bench, OPENING, STREAM};
use ramhold_base::{Instant, Position, SegmentId, ServerId, StreamId};
use ramhold_replication::{FlushWish, Segments};
use ramhold_wire::class::StreamClass;
use ramhold_wire::membership::Durability;

const FIRST: SegmentId = SegmentId(1);

/// A stream whose first head is durable and known to the coordinator, on these backups.
fn bench(backups: u64) -> Bench {
    let mut bench = Bench::new(1, backups);
    bench.calm = true;
    bench.wire.clear(); // What was sent before it became calm is sent again.
    bench.pass(1000);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    bench
}

fn append(bench: &mut Bench, bytes: usize) {
    let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
    segment.extend(std::iter::repeat_n(9, bytes));
    bench.pass(10);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
}

fn roll(bench: &mut Bench) {
    bench.roll();
    bench.pass(20);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
}

/// Flushes everything everywhere and lets the replicator hear of it.
fn flush_all(bench: &mut Bench) {
    (1..=9).for_each(|id| bench.flush(ServerId(id)));
    bench.pass(30);
}

// C4, D1
#[test]
fn the_flushed_position_waits_for_every_device() {
    let mut bench = bench(3);
    append(&mut bench, 100);
    let end = bench.end();
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    for backup in 1..=3 {
        bench.pass(100);
        assert_eq!(bench.replicator.flushed(STREAM), Position::default(), "{} devices have it", backup - 1);
        bench.flush(ServerId(backup));
    }
    bench.pass(22);
    assert_eq!(bench.replicator.flushed(STREAM), end, "told within a probe and its way");
}

// C4
#[test]
fn an_idle_place_is_asked_every_20_ms_while_somebody_waits_and_never_otherwise() {
    let mut bench = bench(3);
    let before = bench.appends;
    bench.pass(1000);
    assert_eq!(bench.appends, before, "nobody waits");
    let end = bench.end();
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    assert_eq!(bench.replicator.deadline(), Some(Instant::ZERO), "due at once");
    bench.pass(500);
    for _ in 0..50 {
        // A wish that is stated again asks no more often.
        bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end), FlushWish::UpTo(STREAM, end)]);
        assert!(bench.replicator.deadline() > Some(Instant::ZERO));
        bench.pass(10);
    }
    let probes = bench.appends - before;
    assert!((140..=153).contains(&probes), "{probes} probes of three places in a second");
    flush_all(&mut bench);
    assert_eq!(bench.replicator.flushed(STREAM), end);
    let before = bench.appends;
    bench.pass(1000);
    assert_eq!(bench.appends, before, "the wish is fulfilled");
    assert_eq!(bench.replicator.deadline(), None);
}

// C4
#[test]
fn a_place_that_does_not_answer_has_one_probe_under_way() {
    let mut bench = bench(3);
    let end = bench.end();
    bench.paused = (1..=3).map(ServerId).collect();
    let before = bench.appends;
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    bench.pass(240);
    assert_eq!(bench.appends - before, 3);
}

// C4, D9
#[test]
fn a_head_counts_as_flushed_only_when_the_devices_have_its_closing() {
    let mut bench = bench(3);
    append(&mut bench, 100);
    let whole = bench.end();
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, whole)]);
    flush_all(&mut bench);
    assert_eq!(bench.replicator.flushed(STREAM), whole);
    roll(&mut bench);
    let end = bench.end();
    assert_eq!(end, Position { segment: SegmentId(2), offset: OPENING as u32 });
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end), FlushWish::Whole(FIRST)]);
    bench.pass(100);
    assert!(bench.replicator.is_complete(FIRST));
    assert!(!bench.replicator.is_flushed(FIRST), "the devices have all of it, but open");
    assert_eq!(bench.replicator.flushed(STREAM), whole);
    flush_all(&mut bench);
    assert!(bench.replicator.is_flushed(FIRST));
    assert_eq!(bench.replicator.flushed(STREAM), end);
}

// C4, D6
#[test]
fn a_lost_place_is_flushed_only_when_its_successor_is() {
    let mut bench = bench(4);
    append(&mut bench, 100);
    roll(&mut bench);
    let end = bench.end();
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end), FlushWish::Whole(FIRST)]);
    flush_all(&mut bench);
    assert!(bench.replicator.is_flushed(FIRST));
    let victim = bench.replicator.replicas().find(|r| r.segment == FIRST).unwrap().backup;
    bench.kill(victim);
    assert!(!bench.replicator.is_flushed(FIRST));
    bench.pass(200);
    assert!(bench.replicator.is_complete(FIRST), "copied again");
    assert_eq!(bench.replicator.flushed(STREAM), end, "a position never goes back");
    bench.replicator.want_flushed([FlushWish::Whole(FIRST)]);
    bench.pass(100);
    assert!(!bench.replicator.is_flushed(FIRST), "only in a buffer");
    flush_all(&mut bench);
    assert!(bench.replicator.is_flushed(FIRST));
}

// C4, D6
#[test]
fn the_position_does_not_wait_for_a_copy_that_waits_for_it() {
    let mut bench = bench(4);
    append(&mut bench, 100);
    roll(&mut bench);
    append(&mut bench, 10);
    let end = bench.end();
    bench.log.1.insert(FIRST, end);
    let victim = bench.replicator.replicas_of(FIRST).next().unwrap().backup;
    bench.kill(victim);
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    bench.pass(300);
    assert!(!bench.replicator.is_complete(FIRST), "it waits");
    assert_eq!(bench.replicator.flushed(STREAM), Position::default(), "two backups have it only in buffers");
    flush_all(&mut bench);
    assert_eq!(bench.replicator.flushed(STREAM), end);
    bench.pass(500);
    assert!(bench.replicator.is_complete(FIRST));
}

// C4
#[test]
fn a_wish_that_was_fulfilled_is_forgotten() {
    let mut bench = bench(4);
    append(&mut bench, 100);
    roll(&mut bench);
    bench.replicator.want_flushed([FlushWish::Whole(FIRST)]);
    flush_all(&mut bench);
    let victim = bench.replicator.replicas().find(|r| r.segment == FIRST).unwrap().backup;
    bench.kill(victim);
    bench.pass(200);
    assert!(bench.replicator.is_complete(FIRST), "copied again");
    flush_all(&mut bench);
    assert!(!bench.replicator.is_flushed(FIRST), "it is flushed again, but nobody asks");
}

// C4, D8
#[test]
fn after_an_epoch_is_raised_the_devices_must_have_it() {
    let mut bench = bench(4);
    append(&mut bench, 100);
    let end = bench.end();
    let backups = |bench: &Bench| bench.replicator.replicas().map(|r| r.backup).collect::<Vec<_>>();
    let before = backups(&bench);
    before[1..].iter().for_each(|id| bench.flush(*id));
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    bench.pass(100);
    bench.kill(before[0]);
    bench.pass(100);
    let successor = *backups(&bench).iter().find(|id| !before.contains(id)).unwrap();
    bench.flush(successor);
    bench.pass(100);
    assert_eq!(bench.replicator.flushed(STREAM), Position::default(), "the others have the older epoch");
    flush_all(&mut bench);
    assert_eq!(bench.replicator.flushed(STREAM), end);
}

// C4
#[test]
fn side_segments_are_flushed_when_they_are_closed_and_on_all_devices() {
    let mut bench = bench(3);
    let side = SegmentId(77);
    bench.log.0.insert(side, (vec![7; OPENING], false));
    let opening = bench.log.tail(side).unwrap();
    bench.replicator.side_begun(STREAM, side, opening);
    bench.replicator.want_flushed([FlushWish::Whole(side)]);
    bench.pass(50);
    let before = bench.appends;
    flush_all(&mut bench);
    assert_eq!(bench.appends, before, "while it may grow it cannot be whole");
    assert!(!bench.replicator.is_flushed(side));
    bench.log.0.get_mut(&side).unwrap().1 = true;
    bench.pass(50);
    assert!(bench.replicator.is_complete(side));
    assert!(!bench.replicator.is_flushed(side));
    flush_all(&mut bench);
    assert!(bench.replicator.is_flushed(side));
}

// C4, C5
#[test]
fn a_segment_that_is_shorter_in_memory_by_now_is_probed_all_the_same() {
    let mut bench = bench(3);
    append(&mut bench, 100);
    roll(&mut bench);
    bench.log.0.get_mut(&FIRST).unwrap().0 = vec![3; OPENING + 10];
    let places = bench.replicator.replicas().filter(|r| r.segment == FIRST).count();
    bench.replicator.want_flushed([FlushWish::Whole(FIRST)]);
    bench.pass(100);
    assert_eq!(bench.replicator.replicas().filter(|r| r.segment == FIRST).count(), places);
    flush_all(&mut bench);
    assert!(bench.replicator.is_flushed(FIRST));
}

// C4
#[test]
fn what_is_gone_is_not_waited_for() {
    let mut bench = bench(3);
    append(&mut bench, 100);
    roll(&mut bench);
    roll(&mut bench);
    let end = bench.end();
    bench.replicator.want_flushed([FlushWish::Whole(FIRST)]);
    bench.pass(100);
    bench.replicator.retire(FIRST);
    bench.log.0.remove(&FIRST);
    (1..=3).for_each(|id| bench.flush(ServerId(id)));
    bench.replicator.want_flushed([FlushWish::Whole(FIRST), FlushWish::UpTo(StreamId(9), end)]);
    bench.pass(100);
    let before = bench.appends;
    bench.pass(300);
    assert_eq!(bench.appends, before);
    assert!(!bench.replicator.is_flushed(FIRST));
    bench.replicator.want_flushed([FlushWish::UpTo(STREAM, end)]);
    flush_all(&mut bench);
    assert_eq!(bench.replicator.flushed(STREAM), end, "a retired head holds up nothing");
}

// C4
#[test]
fn without_replicas_what_is_durable_is_flushed() {
    let mut bench = bench(3);
    let (stream, segment) = (StreamId(2), SegmentId(50));
    bench.replicator.add_stream(stream, StreamClass { durability: Durability::None, replicas: 0 }, None);
    bench.log.0.insert(segment, (vec![1; OPENING], false));
    let opening = bench.log.tail(segment).unwrap();
    bench.replicator.head_rolled(stream, segment, opening);
    bench.pass(100);
    let durable = bench.replicator.durable(stream);
    assert_eq!(durable, Position { segment, offset: OPENING as u32 });
    assert_eq!(bench.replicator.flushed(stream), durable);
    assert!(!bench.replicator.is_flushed(segment), "it is open");
}
