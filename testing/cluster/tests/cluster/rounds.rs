//! Servers die under load, again and again, and nothing that was acknowledged is lost.

use ramhold_cluster_tests::rounds::{Rounds, run};

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
    check(Rounds { servers: 5, victims: 1, rounds: 3, replicas: 3, seed: 11 });
}

// F6
#[test]
fn two_of_seven_servers_die_at_once() {
    let _machine = crate::machine();
    check(Rounds { servers: 7, victims: 2, rounds: 2, replicas: 3, seed: 12 });
}
