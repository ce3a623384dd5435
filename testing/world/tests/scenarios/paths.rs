//! Servers that reach each other on networks of their own, which fail in parts. Catalogue: H1, H4; N1 to N3 of the fault
//! list.

use ramhold_base::TableId;
use ramhold_world::cluster::Cluster;
use ramhold_world::stage::{Setting, Stage};

/// Five servers with a link on each of two planes. Among each other they do not reach their first addresses.
fn stage() -> Stage {
    let plain = Setting::of(5);
    let mut stage = Stage::unborn(Setting { cluster: Cluster { planes: 2, ..plain.cluster }, ..plain });
    let hosts = stage.hosts(&[0, 1, 2, 3, 4]);
    stage.world.network.cut_plane(0, &hosts, &hosts);
    stage.wait("every server is up", |stage| stage.state().is_some_and(|s| s.all_up().count() == 5));
    stage
}

/// Writes for so many milliseconds, and returns the longest time that a write took.
fn write_for(stage: &mut Stage, table: TableId, millis: u64) -> u64 {
    let end = stage.world.now() + millis * 1_000_000;
    let (mut longest, mut number) = (0, 0);
    while stage.world.now() < end {
        let begun = stage.world.now();
        stage.write(table, &format!("key {begun} {number}"), b"value");
        longest = longest.max(stage.world.now() - begun);
        number += 1;
        stage.pass(5);
    }
    longest / 1_000_000
}

/// Nobody was declared dead, nor suspected since `before`.
fn is_quiet(stage: &Stage, before: u64) -> bool {
    let is_well = stage.deaths().is_empty() && stage.state().is_some_and(|state| state.recoveries.is_empty());
    is_well && suspected(stage) == before
}

/// The number of wrong suspicions that the coordinator has cleared, or is about to.
fn suspected(stage: &Stage) -> u64 {
    let now = stage.world.local_now(stage.coordinator);
    stage.in_charge().expect("a coordinator").seen(now).cleared
}

#[test]
fn servers_with_links_do_not_need_each_others_first_addresses() {
    let mut stage = stage();
    let table = stage.table("t", 3);
    stage.fill(table, "key", 100);
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    stage.crash(master);
    stage.wait("it is recovered over the links", |stage| stage.is_recovered(id));
    stage.expect_filled(table, "key", 100);
    stage.restart(master);
    stage.close();
}

#[test]
fn a_plane_that_is_down_costs_no_server_and_no_second() {
    let mut stage = stage();
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let before = suspected(&stage);
    let hosts = stage.hosts(&[0, 1, 2, 3, 4]);
    stage.world.network.cut_plane(1, &hosts, &hosts);
    let longest = write_for(&mut stage, table, 12_000);
    assert!(longest < 1000, "a write took {longest} ms");
    assert!(is_quiet(&stage, before), "{:?}", stage.deaths());
    stage.close();
}

#[test]
fn one_way_of_one_plane_costs_nothing_either() {
    let mut stage = stage();
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let before = suspected(&stage);
    let master = stage.owner(table).unwrap();
    let backup = stage.head_backups(master, table)[0];
    let (from, to) = (stage.hosts(&[master]), stage.hosts(&[backup]));
    for (from, to) in [(&from, &to), (&to, &from)] {
        stage.world.network.cut_plane(1, from, to);
        let longest = write_for(&mut stage, table, 5000);
        assert!(longest < 1000, "a write took {longest} ms");
        stage.world.network.heal();
        let hosts = stage.hosts(&[0, 1, 2, 3, 4]);
        stage.world.network.cut_plane(0, &hosts, &hosts);
        stage.pass(1000);
    }
    assert_eq!(stage.marks("copied_again"), 0, "no replica was given up");
    assert!(is_quiet(&stage, before));
    stage.close();
}

#[test]
fn a_path_that_was_silent_is_taken_again() {
    let mut stage = stage();
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let before = suspected(&stage);
    let hosts = stage.hosts(&[0, 1, 2, 3, 4]);
    for down in [1, 2, 1] {
        stage.world.network.heal();
        stage.world.network.cut_plane(0, &hosts, &hosts);
        stage.pass(1000);
        stage.world.network.cut_plane(down, &hosts, &hosts);
        let longest = write_for(&mut stage, table, 3000);
        assert!(longest < 1000, "a write took {longest} ms");
    }
    assert!(stage.marks("path_back") > 0);
    assert!(is_quiet(&stage, before));
    stage.close();
}
