//! Servers die under load, many times, and no acknowledged write is lost.

use ramhold_cluster_tests::rounds::{Gap, Rounds, run};

/// Longer runs: the binary `ramhold-rounds`.
fn check(rounds: Rounds) {
    println!("{rounds:?}");
    let outcome = run(rounds, |line| println!("{line}")).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{outcome:?}");
    assert!(outcome.faults.is_empty(), "seed {}: {:#?}", rounds.seed, outcome.faults);
    assert!(outcome.writes >= 700 * u64::from(rounds.rounds));
    assert!(outcome.reads > 0);
}

// D1, D6, D7, F1, F4, F5
#[test]
fn one_of_five_servers_dies_again_and_again() {
    let _machine = crate::machine();
    check(Rounds { servers: 5, victims: 1, rounds: 3, replicas: 3, seed: 11, rebuild: false, gap: None });
}

// G1: the coordinator's directory is deleted, too.
#[test]
fn a_lost_coordinator_is_made_anew_and_recovers_the_next_server_that_dies() {
    let _machine = crate::machine();
    check(Rounds { servers: 5, victims: 1, rounds: 2, replicas: 3, seed: 14, rebuild: true, gap: None });
}

// F6
#[test]
fn two_of_seven_servers_die_at_once() {
    let _machine = crate::machine();
    check(Rounds { servers: 7, victims: 2, rounds: 2, replicas: 3, seed: 12, rebuild: false, gap: None });
}

// F6, F11
#[test]
fn clients_wait_for_a_server_with_much_data_and_lose_nothing() {
    let _machine = crate::machine();
    let gap = Some(Gap { data_bytes: 64 << 20, rate_percent: 30 });
    let rounds = Rounds { servers: 6, victims: 1, rounds: 2, replicas: 3, seed: 13, rebuild: false, gap };
    let outcome = run(rounds, |line| println!("{line}")).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.faults.is_empty(), "{:#?}", outcome.faults);
    assert_eq!(outcome.waits.len(), 2);
    assert!(outcome.wanted_per_second < outcome.peak_per_second, "{outcome:?}");
}
