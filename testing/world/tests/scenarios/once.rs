//! Exactly once, whatever is lost in between. Catalogue: A11, D8.

use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::SECOND;
use ramhold_world::stage::{Begun, Setting, Stage};
use std::time::Duration;

/// A write of client 0 whose answer is lost.
fn write_unheard(
    stage: &mut Stage,
    table: ramhold_base::TableId,
    value: &[u8],
    condition: Condition,
) -> Begun {
    let master = stage.owner(table).unwrap();
    let (own, client) = (stage.hosts(&[master]), [stage.clients[0]]);
    stage.world.network.cut(&own, &client);
    let begun = stage.begin_write(0, table, "key", value, condition);
    stage.pass(100);
    assert!(stage.outcome(begun).is_none());
    begun
}

/// R1
#[test]
fn a_repetition_to_the_same_master_hears_the_first_answer() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let first = stage.write(table, "key", b"1");
    let begun = write_unheard(&mut stage, table, b"2", Condition::Free);
    stage.world.network.heal();
    assert_eq!(stage.end(begun), Outcome::Done { version: ramhold_base::Version(first + 1) });
    assert_eq!(stage.write(table, "key", b"3"), first + 2);
    stage.close();
}

/// R1
#[test]
fn a_repetition_to_the_recovery_master_hears_the_first_answer() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let first = stage.write(table, "key", b"1");
    let begun = write_unheard(&mut stage, table, b"2", Condition::Free);
    stage.crash(stage.owner(table).unwrap());
    stage.world.network.heal();
    assert_eq!(stage.end(begun), Outcome::Done { version: ramhold_base::Version(first + 1) });
    assert!(stage.marks("result_recalled") > 0);
    stage.expect(table, "key", b"2");
    stage.close();
}

/// R2: a rejection is an answer too, though its cause has gone.
#[test]
fn a_rejection_is_repeated_although_its_cause_is_gone() {
    for dies in [false, true] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        let version = stage.write(table, "key", b"1");
        let begun = write_unheard(&mut stage, table, b"2", Condition::Absent);
        let removed = stage.begin_remove(1, table, "key");
        assert!(matches!(stage.end(removed), Outcome::Done { .. }));
        if dies {
            stage.crash(stage.owner(table).unwrap());
        }
        stage.world.network.heal();
        let told = Some(ramhold_base::Version(version));
        assert_eq!(stage.end(begun), Outcome::ConditionFailed { version: told });
        assert_eq!(stage.read(table, "key"), Outcome::Absent);
        stage.close();
    }
}

/// R3: the master dies after any number of effects; effect and result come together or not at all.
#[test]
fn a_crash_between_any_two_effects_leaves_a_write_done_once() {
    for effects in 0..24 {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        let first = stage.write(table, "key", b"1");
        let master = stage.owner(table).unwrap();
        let node = stage.servers[master];
        stage.world.crash_after_effects(node, effects);
        let begun =
            stage.begin_write(0, table, "key", b"2", Condition::VersionIs(ramhold_base::Version(first)));
        assert_eq!(
            stage.end(begun),
            Outcome::Done { version: ramhold_base::Version(first + 1) },
            "{effects}"
        );
        stage.disarm();
        stage.expect(table, "key", b"2");
        stage.close();
    }
}

/// A client that is cut off from all processes for longer than its lease.
fn outlive_the_lease(frame_arrives: bool) -> (Stage, ramhold_base::TableId, Outcome) {
    let setting =
        Setting { lease_term: Duration::from_secs(10), patience: Duration::from_secs(50), ..Setting::of(5) };
    let mut stage = Stage::with(setting);
    let table = stage.table("t", 3);
    stage.write(table, "key", b"1");
    let all = [stage.servers.clone(), vec![stage.coordinator]].concat();
    let client = [stage.clients[0]];
    stage.world.network.cut(&all, &client);
    if !frame_arrives {
        stage.world.network.cut(&client, &all);
    }
    let begun = stage.begin_write(0, table, "key", b"2", Condition::Free);
    stage.pass(50);
    stage.world.network.cut(&client, &all);
    stage.pass(25_000);
    stage.world.network.heal();
    let outcome = stage.end(begun);
    (stage, table, outcome)
}

/// R5
#[test]
fn a_write_whose_lease_is_over_is_unknown_and_never_carried_out_again() {
    let (mut stage, table, outcome) = outlive_the_lease(true);
    assert_eq!(outcome, Outcome::Unknown);
    stage.expect(table, "key", b"2");
    let version = stage.write(table, "key", b"3");
    stage.pass(20_000);
    assert_eq!(stage.write(table, "key", b"4"), version + 1);
    stage.close();
}

/// R5
#[test]
fn a_write_that_never_arrived_is_not_carried_out_when_its_lease_is_over() {
    let (mut stage, table, outcome) = outlive_the_lease(false);
    assert_eq!(outcome, Outcome::Unknown);
    stage.expect(table, "key", b"1");
    stage.pass(20_000);
    stage.expect(table, "key", b"1");
    stage.close();
}

/// R6: a coordinator that was stopped, or that restarts, ends no lease of a client that could not renew it.
#[test]
fn leases_outlive_a_coordinator_that_was_away() {
    let mut stage = Stage::with(Setting { lease_term: Duration::from_secs(10), ..Setting::of(5) });
    let table = stage.table("t", 3);
    let first = stage.write(table, "key", b"1");
    let begun = write_unheard(&mut stage, table, b"2", Condition::Free);
    stage.world.stall(stage.coordinator, 4 * SECOND);
    stage.pass(4500);
    stage.world.crash(stage.coordinator);
    stage.pass(1500);
    stage.world.restart(stage.coordinator);
    stage.world.network.heal();
    assert_eq!(stage.end(begun), Outcome::Done { version: ramhold_base::Version(first + 1) });
    stage.close();
}
