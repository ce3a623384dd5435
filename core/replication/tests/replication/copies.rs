//! Closed segments that lost a backup: copied again a few at a time, and no faster than the operator allows.

use crate::bench::{Bench, STREAM};
use ramhold_base::{Instant, SegmentId, ServerId, ShardId};
use ramhold_replication::{ReplicationConfig, Segments};
use std::collections::{BTreeMap, BTreeSet};

const SEGMENT_BYTES: usize = 100 * 1000;
const PIECE_BYTES: usize = 20 * 1000;
const SECOND: u64 = 1_000_000_000;

/// A log of so many closed segments on six backups, whole.
fn bench(segments: usize, copy_bytes_per_second: u64) -> Bench {
    let mut config = ReplicationConfig::new(ShardId(0));
    config.append_bytes_max = PIECE_BYTES as u32;
    config.copy_bytes_per_second = copy_bytes_per_second;
    let mut bench = Bench::with(config, 1, 6);
    bench.calm = true;
    bench.wire.clear(); // What was sent before it became calm is sent again.
    bench.pass(1000);
    for _ in 0..segments {
        let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
        segment.resize(SEGMENT_BYTES, 9);
        bench.pass(100);
        bench.roll();
        bench.pass(100);
    }
    assert!(bench.replicator.is_fully_replicated());
    bench.sent.clear();
    bench
}

/// The closed segments of which a backup holds a replica.
fn closed_on(bench: &Bench, backup: ServerId) -> Vec<SegmentId> {
    let seen = bench.replicator.replicas().filter(|seen| seen.closed && seen.backup == backup);
    seen.map(|seen| seen.segment).collect()
}

/// Data sent of closed segments.
fn copied(bench: &Bench) -> Vec<(Instant, SegmentId, usize)> {
    let is_closed = |id: &SegmentId| bench.log.tail(*id).is_some_and(|tail| tail.closed);
    bench.sent.iter().filter(|(_, id, _)| is_closed(id)).copied().collect()
}

fn left_bytes(bench: &Bench) -> u64 {
    bench.replicator.copying(&bench.log).left_bytes
}

// D6
#[test]
fn copies_keep_to_the_rate_and_everything_is_replicated_again() {
    for rate in [200_000, 2_000_000] {
        let mut bench = bench(24, rate);
        let lost = closed_on(&bench, ServerId(1));
        assert!(lost.len() >= 4, "a sixth of 24 segments and three replicas: {}", lost.len());
        let wanted = (lost.len() * SEGMENT_BYTES) as u64;
        bench.kill(ServerId(1));
        let begun = bench.now;
        assert_eq!(left_bytes(&bench), wanted);

        let due = wanted * 1000 / rate;
        bench.pass(due - 200);
        assert!(!bench.replicator.is_fully_replicated(), "not faster than the rate");
        let copying = bench.replicator.copying(&bench.log);
        assert!(copying.bytes_per_second.abs_diff(rate) <= rate / 8, "{copying:?}");
        bench.pass(200 + 50);
        assert!(bench.replicator.is_fully_replicated(), "not much slower either");
        let copying = bench.replicator.copying(&bench.log);
        assert_eq!((copying.segments, copying.left_bytes), (0, 0));
        assert_eq!((copying.copied_bytes, copying.bytes_per_second), (wanted, 0));

        // In no time from any message on: the limit's bytes, what may be made up for, and a message.
        let sent = copied(&bench);
        let slack = rate / 20 + PIECE_BYTES as u64;
        for (at, (from, ..)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for (time, _, more) in &sent[at..] {
                bytes += *more as u64;
                let allowed = (time.0 - from.0) as u128 * u128::from(rate) / u128::from(SECOND);
                assert!(u128::from(bytes) <= allowed + u128::from(slack), "{bytes} bytes, {allowed} allowed");
            }
        }
        assert!(sent.iter().all(|(time, ..)| *time >= begun));
    }
}

// D6
#[test]
fn writes_do_not_wait_for_copies() {
    let mut bench = bench(12, 10_000);
    bench.kill(ServerId(1));
    bench.pass(1000); // A head that was there has a new epoch, and its record.
    assert!(left_bytes(&bench) > 0);
    for _ in 0..10 {
        let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
        segment.extend([7; 1000]);
        bench.pass(3);
        assert_eq!(bench.replicator.durable(STREAM), bench.end(), "one way there and one back");
    }
    assert!(left_bytes(&bench) > 0, "the copying goes on meanwhile");
}

// D6
#[test]
fn a_few_segments_are_copied_at_a_time() {
    let mut bench = bench(24, 0);
    bench.kill(ServerId(1));
    bench.advance();
    let mut under_way: BTreeMap<SegmentId, usize> = BTreeMap::new();
    copied(&bench).iter().for_each(|(_, id, bytes)| *under_way.entry(*id).or_default() += bytes);
    let copies_max = ReplicationConfig::new(ShardId(0)).copies_max;
    assert_eq!(under_way.len(), copies_max);
    assert!(under_way.values().all(|bytes| *bytes == PIECE_BYTES), "one message each: {under_way:?}");
    bench.pass(1000);
    assert!(bench.replicator.is_fully_replicated());
}

// D6
#[test]
fn a_side_segment_is_copied_at_once_while_something_waits_for_it_and_else_in_its_turn() {
    let mut bench = bench(1, 10_000);
    let sides = [SegmentId(1000), SegmentId(1001)];
    for side in sides {
        bench.log.0.insert(side, (vec![7; SEGMENT_BYTES], true));
        bench.replicator.side_begun(STREAM, side, bench.log.tail(side).unwrap());
    }
    bench.pass(1000);
    bench.sent.clear();
    assert!(sides.iter().all(|side| bench.replicator.is_complete(*side)));
    bench.replicator.settled(sides[1]);
    for backup in 1..=3 {
        bench.kill(ServerId(backup));
    }
    bench.pass(1000);
    assert!(bench.replicator.is_complete(sides[0]), "whatever the limit");
    let sent =
        |side| bench.sent.iter().filter(|(_, id, _)| *id == side).map(|(.., bytes)| *bytes).sum::<usize>();
    assert!(sent(sides[0]) >= SEGMENT_BYTES, "it has lost one at least");
    assert!(sent(sides[1]) <= 10_000 + 2 * PIECE_BYTES, "{} in a second", sent(sides[1]));
    assert!(!bench.replicator.is_complete(sides[1]));
    bench.pass(60_000);
    assert!(bench.replicator.is_fully_replicated());
}

// D6
#[test]
fn segments_with_the_fewest_replicas_come_first() {
    let mut bench = bench(24, 100_000);
    let (one, two) = (closed_on(&bench, ServerId(1)), closed_on(&bench, ServerId(2)));
    let both: Vec<SegmentId> = one.iter().filter(|id| two.contains(id)).copied().collect();
    assert!(both.len() >= 2 && both.len() < one.len());
    bench.alive.remove(&ServerId(1)).map(|backup| bench.dead.push(backup)).unwrap();
    bench.kill(ServerId(2));
    bench.pass(60_000);
    assert!(bench.replicator.is_fully_replicated());
    let mut order = Vec::new();
    for (_, id, _) in copied(&bench) {
        if !order.contains(&id) {
            order.push(id);
        }
    }
    let mut first = order[..both.len()].to_vec();
    first.sort_unstable();
    assert_eq!(first, both, "of {order:?}");
}

/// The segments of which something was copied since this was last asked.
fn copied_since(bench: &mut Bench) -> BTreeSet<SegmentId> {
    let segments = copied(bench).iter().map(|(_, id, _)| *id).collect();
    bench.sent.clear();
    segments
}

// D6, E4
#[test]
fn what_can_lose_one_more_leaves_the_machines_to_a_recovery() {
    let mut bench = bench(24, 0);
    let one: BTreeSet<SegmentId> = closed_on(&bench, ServerId(1)).into_iter().collect();
    let two: BTreeSet<SegmentId> = closed_on(&bench, ServerId(2)).into_iter().collect();
    let (both, all): (BTreeSet<SegmentId>, BTreeSet<SegmentId>) = (&one & &two, &one | &two);
    assert!(both.len() >= 2 && both.len() < one.len());
    bench.recovering.insert(ServerId(1));
    bench.kill(ServerId(1));
    bench.pass(1500);
    assert_eq!(copied_since(&mut bench), BTreeSet::new(), "two are left of each");
    bench.recovering.insert(ServerId(2));
    bench.kill(ServerId(2));
    bench.pass(1500);
    assert_eq!(copied_since(&mut bench), both, "one is left of these");
    bench.recovering.remove(&ServerId(1));
    bench.publish();
    bench.pass(1000);
    assert_eq!(copied_since(&mut bench), BTreeSet::new());
    bench.recovering.clear();
    bench.publish();
    bench.pass(1000);
    assert!(bench.replicator.is_fully_replicated());
    assert_eq!(copied_since(&mut bench), &all - &both);
}

// D6
#[test]
fn a_recovery_that_does_not_end_holds_up_no_copies() {
    let mut bench = bench(24, 0);
    bench.recovering.insert(ServerId(1));
    bench.kill(ServerId(1));
    bench.pass(4900);
    assert!(!bench.replicator.is_fully_replicated());
    bench.pass(1000);
    assert!(bench.replicator.is_fully_replicated());
    // Nor is that waited for again when somebody else dies meanwhile.
    bench.recovering.insert(ServerId(2));
    bench.kill(ServerId(2));
    bench.pass(1000);
    assert!(bench.replicator.is_fully_replicated());
}

// D6
#[test]
fn what_no_backup_fits_is_copied_when_one_does() {
    let mut bench = bench(12, 0);
    (1..=3).for_each(|id| bench.kill(ServerId(id)));
    bench.pass(3000);
    assert!(bench.replicator.is_fully_replicated(), "three are left for three");
    bench.kill(ServerId(4));
    bench.pass(3000);
    let copying = bench.replicator.copying(&bench.log);
    assert!(copying.segments > 0, "two are not enough for three");
    let appends = bench.appends;
    bench.pass(3000);
    assert_eq!(bench.appends, appends, "nothing can be sent");
    bench.alive.insert(ServerId(7), Default::default());
    bench.publish();
    bench.pass(3000);
    assert!(bench.replicator.is_fully_replicated());
}
