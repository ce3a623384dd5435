//! Dead logs that are kept until devices have everything recovered from them. Catalogue: D2, F6.

use ramhold_base::{ServerId, TableId};
use ramhold_world::stage::{Setting, Stage, filling};

fn is_live(stage: &Stage, crashed: ServerId) -> bool {
    stage.state().and_then(|state| state.recovery_of(crashed)).is_some_and(|record| record.done)
}

fn losses_of(stage: &Stage, crashed: ServerId) -> usize {
    stage.state().unwrap().losses.values().filter(|loss| loss.crashed == crashed).count()
}

/// A table of 200 keys that are on devices, and whose owner was just recovered. Returns the stage, the table
/// and the dead owner.
fn recovered(seed: u64, servers: u8, replicas: u8) -> (Stage, TableId, (usize, ServerId)) {
    let mut stage = Stage::with(Setting { seed, ..Setting::of(servers) });
    let table = stage.table("t", replicas);
    stage.fill(table, "key", 200);
    stage.pass(3000);
    let dead = recover(&mut stage, table);
    (stage, table, dead)
}

/// The owner of the first tablet dies, and all its tablets become live elsewhere.
fn recover(stage: &mut Stage, table: TableId) -> (usize, ServerId) {
    let owner = stage.owner(table).unwrap();
    let id = stage.id(owner);
    stage.crash(owner);
    stage.wait("it is live", |stage| is_live(stage, id) && stage.owner(table).is_some());
    (owner, id)
}

fn change_coordinator(stage: &mut Stage) {
    stage.world.crash(stage.coordinator);
    stage.pass(200);
    stage.world.restart(stage.coordinator);
    stage.wait("one is in charge", |stage| stage.state().is_some());
}

/// D2: however soon after a recovery all power goes, data that was on devices before is there again.
#[test]
fn power_that_goes_just_after_a_recovery_takes_nothing_that_was_on_devices() {
    for seed in 1..=12 {
        let (mut stage, table, (dead, id)) = recovered(seed, 4, 2);
        assert!(stage.marks("log_kept") > 0, "seed {seed}: devices had it at once");
        stage.pass(seed % 4 * 20);
        stage.others(&[dead]).into_iter().for_each(|server| stage.cut_power(server));
        (0..4).for_each(|server| stage.restart(server));
        stage.expect_filled(table, "key", 200);
        assert!(stage.marks("recovered_from_two_logs") > 0, "seed {seed}");
        assert_eq!(losses_of(&stage, id), 0, "seed {seed}: what its devices had was as long as before");
        stage.close();
    }
}

/// The same when power comes and goes, at any moment of the recoveries that follow.
#[test]
fn power_may_come_and_go() {
    let mut again = 0;
    for seed in 1..=12 {
        let (mut stage, table, _) = recovered(seed, 5, 3);
        for round in 0..6 {
            (0..5)
                .filter(|server| stage.node(*server).is_some())
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|server| stage.cut_power(server));
            (0..5).for_each(|server| stage.restart(server));
            if (seed + round) % 3 == 0 {
                stage.expect(table, "key7", &filling("key", 7));
            }
            stage.pass((seed * 37 + round * 61) % 800);
        }
        stage.expect_filled(table, "key", 200);
        again += stage.marks("recovered_from_two_logs");
        stage.close();
    }
    assert!(again > 0, "nothing was recovered from two logs");
}

/// D1: the new owner dies before devices have the data that it recovered. Writes to the new owner count, and
/// removed objects stay removed.
#[test]
fn an_owner_that_dies_before_it_is_settled_is_recovered_from_both_logs() {
    for seed in 1..=8 {
        let (mut stage, table, _) = recovered(seed, 6, 3);
        for n in 0..40 {
            stage.remove(table, &format!("key{n}"));
            stage.write(table, &format!("new{n}"), &[n]);
        }
        stage.write(table, "key50", b"changed");
        let kept = stage.state().unwrap().servers.values().any(|server| server.entry.kept);
        recover(&mut stage, table);
        assert!(!kept || stage.marks("recovered_from_two_logs") > 0, "seed {seed}");
        for n in 0..40 {
            assert_eq!(stage.peek(table, &format!("key{n}")), None, "seed {seed}: {n}");
            stage.expect(table, &format!("new{n}"), &[n]);
        }
        stage.expect(table, "key50", b"changed");
        assert_eq!(stage.count(table), 200, "seed {seed}");
        stage.close();
    }
}

/// A backup of the kept log dies, then the new owner. Other backups have replicas of both logs.
#[test]
fn a_kept_log_is_read_from_what_is_left_of_it() {
    for seed in 1..=8 {
        let (mut stage, table, (dead, _)) = recovered(seed, 7, 3);
        let owner = stage.owner(table).unwrap();
        let backup = stage.others(&[dead, owner])[seed as usize % 5];
        stage.crash(backup);
        recover(&mut stage, table);
        stage.expect_filled(table, "key", 200);
        stage.close();
    }
}

/// A new owner dies while other parts of the log are still being recovered. Then those recoveries end, and
/// all servers that hold the log come back in new lives.
#[test]
fn a_log_that_is_over_is_still_asked_for_while_it_is_needed() {
    let mut again = 0;
    for seed in 1..=10 {
        let mut stage = Stage::with(Setting { seed, ..Setting::of(6) });
        let table = stage.table("t", 3);
        stage.fill(table, "key", 200);
        stage.pass(3000);
        let dead = stage.owner(table).unwrap();
        let rest = stage.others(&[dead]);
        // One of the servers that recover a part dies when its part is live.
        stage.arm(&rest[..3], "recovery_published");
        stage.crash(dead);
        let died = stage.wait_for_death_at("recovery_published");
        for server in rest.into_iter().filter(|server| *server != died) {
            stage.pass(seed * 7);
            stage.crash(server);
            stage.pass(20);
            stage.restart(server);
        }
        stage.expect_filled(table, "key", 200);
        again += stage.marks("recovered_from_two_logs");
        stage.close();
    }
    assert!(again > 0, "nothing was recovered from two logs");
}

/// The coordinator dies at any moment of such a recovery.
#[test]
fn a_new_coordinator_knows_which_logs_are_kept() {
    for seed in 1..=6 {
        let (mut stage, table, _) = recovered(seed, 5, 2);
        change_coordinator(&mut stage);
        stage.pass(seed % 3 * 10);
        recover(&mut stage, table);
        change_coordinator(&mut stage);
        stage.expect_filled(table, "key", 200);
        stage.close();
    }
}

/// No log is kept for ever: a dead server leaves the list when devices have everything that was recovered, or
/// when it is not needed.
#[test]
fn a_kept_log_is_let_go() {
    let (mut stage, table, (_, id)) = recovered(1, 5, 3);
    assert!(!stage.is_recovered(id));
    stage.wait("it is let go", |stage| stage.is_recovered(id));
    let (mut other, dropped, (_, id)) = recovered(2, 5, 3);
    other.drop_table(dropped);
    other.wait("it is let go", |stage| stage.is_recovered(id));
    other.close();
    stage.expect_filled(table, "key", 200);
    stage.close();
}
