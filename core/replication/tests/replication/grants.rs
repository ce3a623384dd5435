//! The replicator knows since when the read lease counts that backups have granted, and asks for it anew. `Bench::check`
//! looks after each step whether every set of backups that a recovery would be content with accepted something as late.

use crate::bench::{Bench, STREAM};
use ramhold_base::{Effects, Instant, ServerId};
use std::time::Duration;

const AGE: Duration = Duration::from_millis(30);

/// A stream whose first head is durable and known to the coordinator.
fn bench(seed: u64, backups: u64) -> Bench {
    let mut bench = Bench::new(seed, backups);
    bench.calm = true;
    bench.wire.clear(); // What was sent before it became calm is sent again.
    bench.pass(1000);
    assert_eq!(bench.replicator.durable(STREAM), bench.end());
    bench
}

/// A look at the lease; how many empty appends it sends.
fn keep(bench: &mut Bench) -> usize {
    let before = bench.appends;
    let mut effects = Effects::new();
    bench.replicator.keep_granted(bench.now, AGE, &bench.view, &mut effects);
    bench.send(effects);
    bench.appends - before
}

fn granted_ago(bench: &Bench) -> Option<u64> {
    bench.replicator.granted_since().map(|since| bench.now.since(since).as_millis() as u64)
}

// J2
#[test]
fn the_head_grants_when_each_of_its_replicas_has_accepted_something() {
    let mut bench = bench(1, 5);
    assert!(granted_ago(&bench).is_some_and(|ago| ago > 500), "since its head was opened");
    assert_eq!(keep(&mut bench), 3);
    let sent = bench.now;
    bench.pass(10);
    assert_eq!(bench.replicator.granted_since(), Some(sent), "counted from when it was sent");
    assert_eq!(keep(&mut bench), 0, "what is young is not asked for again");
    bench.pass(30);
    assert_eq!(keep(&mut bench), 3);
}

// F8, J2: one of three stands still.
#[test]
fn a_silent_replica_grants_nothing_and_holds_the_others_up() {
    let mut bench = bench(2, 3);
    keep(&mut bench);
    bench.pass(10);
    bench.paused.insert(ServerId(2));
    let before = bench.replicator.granted_since();
    for _ in 0..5 {
        bench.pass(40);
        keep(&mut bench);
        bench.pass(10);
    }
    assert_eq!(bench.replicator.granted_since(), before);
    bench.paused.clear();
    bench.pass(1000);
    keep(&mut bench);
    bench.pass(10);
    assert_eq!(granted_ago(&bench), Some(10));
}

// D8, J2: why-these-rules 4d, 5.
#[test]
fn a_head_grants_nothing_while_a_replica_is_replaced_and_its_epoch_is_not_recorded() {
    let mut bench = bench(3, 4);
    keep(&mut bench);
    bench.pass(10);
    let dead = bench.replicator.replicas().next().expect("three of them").backup;
    bench.kill(dead);
    assert_eq!(bench.replicator.granted_since(), None, "one place is empty");
    let mut seen_unrecorded = false;
    for _ in 0..40 {
        bench.pass(1);
        let is_whole = bench.replicator.replicas().count() == 3;
        seen_unrecorded |= is_whole && bench.replicator.granted_since().is_none();
    }
    assert!(seen_unrecorded, "whole, and the coordinator has not answered yet");
    keep(&mut bench);
    bench.pass(10);
    assert!(granted_ago(&bench).is_some_and(|ago| ago <= 50));
}

// J2: why-these-rules 4a. The newer head is open while the older is not closed everywhere.
#[test]
fn until_the_old_head_is_closed_everywhere_it_is_the_one_that_grants() {
    for seed in 0..200 {
        let mut bench = Bench::new(seed, 6);
        bench.late = seed % 2 == 0;
        for round in 0..60_u64 {
            if round % 4 == 0 {
                let (_, (segment, _)) = bench.log.0.iter_mut().next_back().unwrap();
                segment.extend([7; 50]);
            }
            if round % 9 == 5 {
                bench.roll();
            }
            if round == 30 {
                let one = *bench.alive.keys().next().expect("six of them");
                bench.kill(one);
            }
            keep(&mut bench);
            bench.pass(1 + round % 7);
        }
    }
}

// J2: both open heads are kept, so that the lease goes on when the older is closed.
#[test]
fn the_lease_goes_on_over_a_roll() {
    let mut bench = bench(4, 6);
    for round in 0..20 {
        if round == 10 {
            bench.roll();
        }
        keep(&mut bench);
        bench.pass(10);
        keep(&mut bench);
        bench.pass(25);
        assert!(granted_ago(&bench).is_some_and(|ago| ago <= 60), "{round}: {:?}", granted_ago(&bench));
    }
    assert!(bench.now > Instant(0));
}
