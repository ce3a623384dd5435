//! The coordinator's store is lost and rebuilt from the servers, or an old copy of it is started.
//!
//! Catalogue: G1, G3. Protocol: docs/protocols/rebuild.md.

use ramhold_world::stage::{Setting, Stage};
use ramhold_world::system::{Role, System};
use std::time::Duration;

/// The directory is deleted, and a coordinator begins on an empty one, unless a supervisor restarted the
/// coordinator sooner.
fn lose_store(stage: &mut Stage) {
    stage.world.lose_store(stage.coordinator);
    stage.pass(300);
    let now = stage.world.now();
    stage.world.restart_at(stage.coordinator, now);
    stage.pass(1);
}

fn is_copied(stage: &Stage) -> bool {
    stage.in_charge().is_some_and(|coordinator| coordinator.is_copied())
}

// G1
#[test]
fn a_cluster_whose_coordinator_lost_its_store_goes_on() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 30);
    let before = stage.state().unwrap().clone();
    for round in 0..3u8 {
        lose_store(&mut stage);
        // The data path is not affected.
        stage.write(table, "key1", &[round]);
        stage.expect(table, "key1", &[round]);
        stage.wait("the state is made anew", |stage| stage.state().is_some());
        let after = stage.state().unwrap();
        assert_eq!(
            (after.meta.cluster, &after.tables[&table]),
            (before.meta.cluster, &before.tables[&table])
        );
        assert!(stage.deaths().is_empty(), "every server is alive");
        let other = stage.table(&format!("after {round}"), 3);
        stage.write(other, "key", b"1");
        stage.wait("servers hold copies", is_copied);
    }
    // A server that dies is recovered, from the registrations of its streams.
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    stage.crash(master);
    stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
    stage.write(table, "key1", b"end");
    stage.restart(master);
    stage.close();
}

// G1: the store is lost at every step while tables are made and dropped, and at every step of a recovery.
#[test]
fn what_was_under_way_when_the_store_was_lost_is_finished() {
    let mut met = 0;
    for point in Stage::new(4).cluster.crash_points(Role::Coordinator) {
        for delay in [0, 40] {
            let mut stage = Stage::new(5);
            let table = stage.table("t", 3);
            stage.fill(table, "key", 20);
            let second = stage.table("u", 3);
            stage.wait("servers hold copies", is_copied);
            stage.world.crash_at(stage.coordinator, point);
            let master = stage.owner(table).unwrap();
            let id = stage.id(master);
            stage.crash(master);
            stage.pass(delay);
            let dropping = stage.begin_drop(second);
            let creating = stage.begin_table("v", 3);
            let died = stage.try_for(3000, |stage| stage.in_charge().is_none());
            met += u64::from(died);
            lose_store(&mut stage);
            stage.restart(master);
            stage.wait("the state is made anew", |stage| stage.state().is_some());
            stage.wait("nothing of the dead server is left", |stage| stage.is_recovered(id));
            stage.expect(table, "key0", &ramhold_world::stage::filling("key", 0));
            stage.finish(dropping);
            let third = stage.finish_table(creating);
            stage.write(third, "key", b"1");
            stage.expect_filled(table, "key", 20);
            stage.close();
        }
    }
    assert!(met >= 8, "only {met} points were met");
}

// G3: an operator who has lost the directory starts on a copy of yesterday, again and again, and then
// rebuilds the state.
#[test]
fn a_coordinator_on_an_old_copy_of_its_store_does_nothing() {
    // Clients renew their leases at the coordinator. These leases last until there is a coordinator again.
    let patient = Setting { lease_term: Duration::from_secs(300), ..Setting::of(5) };
    let mut stage = Stage::with(patient);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 10);
    stage.wait("servers hold copies", is_copied);
    let old = stage.world.store(0).clone();
    // Changes that the copy does not have: a table, a death, a new life.
    let other = stage.table("u", 3);
    stage.fill(other, "key", 10);
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    stage.crash(master);
    stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
    stage.restart(master);
    stage.wait("servers hold copies", |stage| is_copied(stage) && stage.is_up(stage.id(master)));

    stage.world.replace_store(stage.coordinator, old);
    let exits = stage.world.exits.len();
    stage.world.restart(stage.coordinator);
    for round in 0..20u8 {
        stage.write(other, "key1", &[round]);
        stage.pass(500);
    }
    let mine: Vec<_> =
        stage.world.exits[exits..].iter().filter(|exit| exit.node == stage.coordinator).collect();
    assert!(mine.len() > 3, "it is started again and again");
    assert!(mine.iter().all(|exit| [3, 6].contains(&exit.code)), "{mine:?}");
    assert!(mine.last().unwrap().reason.contains("--rebuild-from-servers"), "{mine:?}");
    assert!(stage.world.exits[exits..].iter().all(|exit| exit.node == stage.coordinator));
    stage.world.errors.clear();

    lose_store(&mut stage);
    stage.wait("the state is made anew", |stage| stage.state().is_some());
    stage.expect(other, "key1", &[19]);
    stage.table("w", 3);
    stage.close();
}

// G1: two of five processes are restarted while there is no coordinator. The state that they held is gone.
#[test]
fn servers_that_are_started_again_meanwhile_are_recovered_afterwards() {
    let mut stage = Stage::with(Setting { seed: 3, ..Setting::of(5) });
    let table = stage.table("t", 3);
    stage.fill(table, "key", 30);
    stage.wait("servers hold copies", is_copied);
    stage.world.crash(stage.coordinator);
    let lost = [stage.id(0), stage.id(1)];
    for server in [0, 1] {
        stage.crash(server);
        stage.restart(server);
    }
    stage.pass(500);
    lose_store(&mut stage);
    stage.wait("the state is made anew", |stage| stage.state().is_some());
    for id in lost {
        stage.wait("nothing of it is left", |stage| stage.is_recovered(id));
    }
    stage.expect_filled(table, "key", 30);
    stage.close();
}
