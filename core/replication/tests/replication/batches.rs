//! How many messages appended bytes take. Catalogue: E3. Protocol: docs/protocols/replication.md, "Batches".

use crate::bench::{Bench, STREAM};
use ramhold_base::{Effects, ServerId, ShardId};
use ramhold_replication::ReplicationConfig;
use std::time::Duration;

const REPLICAS: usize = 3;
const COLLECTED_BYTES_MAX: u32 = 1000;

/// A stream whose first head is durable; each frame takes a millisecond.
fn bench() -> Bench {
    bench_of(ReplicationConfig::new(ShardId(0)))
}

fn bench_of(mut config: ReplicationConfig) -> Bench {
    config.collected_bytes_max = COLLECTED_BYTES_MAX;
    let mut bench = Bench::with(config, 1, 5);
    bench.calm = true;
    bench.wire.clear(); // Messages of before it became calm are sent again.
    bench.pass(1000);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    bench
}

fn append(bench: &mut Bench, bytes: u32) {
    let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
    segment.extend(std::iter::repeat_n(7, bytes as usize));
    bench.advance();
}

// E3
#[test]
fn an_append_that_is_under_way_collects_what_is_appended_meanwhile() {
    let mut bench = bench();
    let before = bench.appends;
    append(&mut bench, 10);
    assert_eq!(bench.appends - before, REPLICAS, "at once: nothing is under way");
    (0..50).for_each(|_| append(&mut bench, 10));
    assert_eq!(bench.appends - before, REPLICAS);
    bench.pass(3);
    assert_eq!(bench.appends - before, 2 * REPLICAS, "the fifty together");
    bench.pass(3);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    assert_eq!(bench.appends - before, 2 * REPLICAS);
}

// E3
#[test]
fn much_does_not_wait_for_an_answer_and_neither_does_a_new_head() {
    let mut bench = bench();
    append(&mut bench, 10);
    let before = bench.appends;
    append(&mut bench, COLLECTED_BYTES_MAX - 1);
    assert_eq!(bench.appends, before);
    append(&mut bench, 1);
    assert_eq!(bench.appends - before, REPLICAS);
    append(&mut bench, 10);
    assert_eq!(bench.appends - before, REPLICAS);
    bench.roll();
    bench.advance();
    assert_eq!(bench.appends - before, 2 * REPLICAS, "the opening of the next head");
    bench.pass(20);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
}

// E3
#[test]
fn the_rest_of_what_one_message_does_not_hold_follows_at_once() {
    let mut config = ReplicationConfig::new(ShardId(0));
    config.append_bytes_max = 4 * COLLECTED_BYTES_MAX;
    let mut bench = bench_of(config);
    let before = bench.appends;
    append(&mut bench, 4 * COLLECTED_BYTES_MAX + 50);
    assert_eq!(bench.appends - before, 2 * REPLICAS);
    append(&mut bench, 10);
    assert_eq!(bench.appends - before, 2 * REPLICAS, "only this was appended meanwhile");
    bench.pass(5);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
}

// E3, J2
#[test]
fn the_renewal_of_a_grant_holds_up_no_bytes() {
    let mut bench = bench();
    let before = bench.appends;
    let mut effects = Effects::new();
    bench.replicator.keep_granted(bench.now, Duration::ZERO, &bench.view, &mut effects);
    bench.send(effects);
    assert_eq!(bench.appends - before, REPLICAS);
    append(&mut bench, 10);
    assert_eq!(bench.appends - before, 2 * REPLICAS, "at once: no bytes are under way");
}

// D1, E3
#[test]
fn a_backup_that_stands_still_collects_alone_and_nothing_is_durable_without_it() {
    let mut bench = bench();
    let head = *bench.log.0.keys().next_back().unwrap();
    let holders: Vec<ServerId> =
        bench.alive.keys().copied().filter(|backup| bench.replicator.has_replica(head, *backup)).collect();
    assert_eq!(holders.len(), REPLICAS);
    let durable = bench.replicator.durable(STREAM);
    bench.paused.insert(holders[1]);
    let before = bench.appends;
    for round in 0..10 {
        append(&mut bench, 10);
        bench.pass(3);
        // Once to the one that does not answer; to the others each time.
        assert_eq!(bench.appends - before, REPLICAS + round * (REPLICAS - 1));
        assert_eq!(bench.replicator.durable(STREAM), durable);
    }
    bench.paused.clear();
    bench.pass(2000);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    // The same when it is dead: another one takes its place.
    append(&mut bench, 10);
    bench.kill(holders[1]);
    append(&mut bench, 10);
    bench.pass(2000);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    assert!(
        bench.replicator.has_replica(head, holders[0]) && !bench.replicator.has_replica(head, holders[1])
    );
}
