//! Neighbours in a BCube: dead servers are found soon, and cables, ports and switches cost nobody. Catalogue: F1, H3, H4;
//! A7, N4, N7, O3 of the fault list.

use ramhold_base::ServerId;
use ramhold_wire::outage::OutageKind;
use ramhold_world::cluster::Cluster;
use ramhold_world::network::MILLI;
use ramhold_world::stage::{Setting, Stage};

/// BCube(n, 1): server `a * n + b` is at the place `ab`. Servers reach each other over cables alone.
fn cube(radix: u16, servers: u8) -> Stage {
    let plain = Setting::of(servers);
    let cluster = Cluster { planes: 2, cube: Some((radix, 0)), ..plain.cluster };
    let mut stage = Stage::unborn(Setting { cluster, ..plain });
    let hosts = stage.servers.clone();
    stage.world.network.cut_plane(0, &hosts, &hosts);
    stage.wait("every server is up", |stage| {
        stage.state().is_some_and(|state| state.all_up().count() == usize::from(servers))
    });
    stage.pass(500);
    stage
}

/// Repairs all, but servers do not reach each other over the first plane.
fn heal(stage: &mut Stage) {
    let hosts = stage.servers.clone();
    stage.world.network.heal();
    stage.world.network.cut_plane(0, &hosts, &hosts);
}

fn is_up(stage: &Stage, id: ServerId) -> bool {
    stage.state().is_some_and(|state| state.is_up(id))
}

/// Milliseconds until this server is declared dead.
fn millis_to_verdict(stage: &mut Stage, id: ServerId) -> u64 {
    let begun = stage.world.now();
    stage.wait("it is declared dead", |stage| !is_up(stage, id));
    (stage.world.now() - begun) / MILLI
}

fn outages(stage: &Stage) -> Vec<String> {
    let now = stage.world.local_now(stage.coordinator);
    let coordinator = stage.in_charge().expect("a coordinator");
    coordinator.seen(now).outages.iter().map(|standing| standing.outage.to_string()).collect()
}

fn is_unharmed(stage: &Stage) -> bool {
    stage.deaths().is_empty() && stage.state().is_some_and(|state| state.recoveries.is_empty())
}

#[test]
fn a_host_without_power_is_declared_dead_in_less_than_half_a_second() {
    let mut stage = cube(4, 16);
    let mut all = Vec::new();
    for server in [0, 5, 10, 15, 3, 12] {
        let id = stage.id(server);
        stage.world.cut_power(stage.servers[server]);
        all.push(millis_to_verdict(&mut stage, id));
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
        stage.restart(server);
        stage.pass(3000);
    }
    all.sort_unstable();
    assert!(all[0] >= 300 && all[5] <= 500, "{all:?} ms");
    stage.close();
}

#[test]
fn a_server_that_stands_still_for_a_quarter_of_a_second_is_not_convicted() {
    let mut stage = cube(3, 9);
    for (server, millis) in [(0, 150), (4, 250), (8, 250), (2, 150), (0, 250)] {
        stage.world.stall(stage.servers[server], millis * MILLI);
        stage.pass(2000);
    }
    assert!(is_unharmed(&stage), "{:?}", stage.deaths());
    stage.close();
}

#[test]
fn a_port_and_a_switch_are_told_and_cost_nobody() {
    let mut stage = cube(4, 16);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 50);
    let host = stage.servers[0];
    for (expected, level, is_switch) in [
        ("link down: s1 on switch <0,0>", 0, false),
        ("switch <0,0> down", 0, true),
        ("switch <1,0> down", 1, true),
    ] {
        let cables = stage.world.network.cables.as_mut().expect("cables");
        match is_switch {
            true => cables.cut_switch(host, level),
            false => cables.cut_port(host, level, true, true),
        }
        stage.pass(4000);
        // Which server is at the place depends on who enlisted first.
        let expected = expected.replace("s1", &stage.id(0).to_string());
        assert_eq!(outages(&stage), [expected]);
        stage.fill(table, "key", 50);
        heal(&mut stage);
        stage.pass(3000);
        assert_eq!(outages(&stage), Vec::<String>::new());
    }
    assert!(is_unharmed(&stage), "{:?}", stage.deaths());
    stage.close();
}

#[test]
fn one_way_of_a_port_costs_nobody_either() {
    let mut stage = cube(4, 16);
    for (into, out) in [(true, false), (false, true)] {
        let cables = stage.world.network.cables.as_mut().expect("cables");
        cables.cut_port(stage.servers[6], 1, into, out);
        stage.pass(3000);
        let expected = format!("link down: {} on switch <1,2>", stage.id(6));
        assert_eq!(outages(&stage), [expected]);
        heal(&mut stage);
        stage.pass(3000);
    }
    assert!(is_unharmed(&stage));
    stage.close();
}

#[test]
fn a_server_without_cables_is_isolated_after_three_seconds_and_nobody_else() {
    let mut stage = cube(4, 16);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 50);
    let id = stage.id(9);
    let cut = |stage: &mut Stage| {
        let cables = stage.world.network.cables.as_mut().expect("cables");
        (0..2).for_each(|level| cables.cut_port(stage.servers[9], level, true, true));
    };
    for millis in [100, 1000] {
        cut(&mut stage);
        stage.pass(millis);
        heal(&mut stage);
        stage.pass(5000);
        assert!(is_unharmed(&stage), "after {millis} ms: {:?}", stage.deaths());
    }
    cut(&mut stage);
    let millis = millis_to_verdict(&mut stage, id);
    assert!((3000..5000).contains(&millis), "{millis} ms");
    heal(&mut stage);
    stage.pass(5000);
    assert_eq!(stage.deaths().len(), 1, "{:?}", stage.deaths());
    stage.close();
}

#[test]
fn two_servers_that_lose_each_other_are_both_left_alone() {
    let mut stage = cube(4, 16);
    let (one, other) = (stage.servers[0], stage.servers[1]);
    for plane in [1, 2] {
        stage.world.network.cut_plane(plane, &[one], &[other]);
        stage.world.network.cut_plane(plane, &[other], &[one]);
    }
    stage.pass(10_000);
    assert!(is_unharmed(&stage), "{:?}", stage.deaths());
    let (one, other) = (stage.id(0), stage.id(1));
    let (first, second) = (one.min(other), one.max(other));
    assert_eq!(outages(&stage), [format!("path down: {first} and {second} on switch <0,0>")]);
    stage.close();
}

#[test]
fn the_one_that_is_left_of_a_rack_is_not_isolated() {
    // Places 00 to 03, and 10: the survivor's other neighbour is dead, too.
    let mut stage = cube(4, 5);
    let survivor = stage.id(0);
    for server in [1, 2, 3, 4] {
        stage.world.cut_power(stage.servers[server]);
    }
    stage.pass(8000);
    assert!(is_up(&stage, survivor));
    for server in [1, 2, 3, 4] {
        stage.restart(server);
    }
    stage.close();
}

#[test]
fn a_rack_without_power_is_one_event() {
    let mut stage = cube(4, 16);
    for server in [4, 5, 6, 7] {
        stage.world.cut_power(stage.servers[server]);
    }
    let kinds = |stage: &Stage| {
        let now = stage.world.local_now(stage.coordinator);
        let outages = stage.in_charge().map(|coordinator| coordinator.seen(now).outages).unwrap_or_default();
        outages.iter().map(|standing| standing.outage.what).collect::<Vec<_>>()
    };
    stage.wait("the rack is told", |stage| {
        let kinds = kinds(stage);
        assert!(kinds.iter().all(|kind| *kind == OutageKind::Rack), "{kinds:?}");
        kinds.len() == 1
    });
    for server in [4, 5, 6, 7] {
        stage.restart(server);
    }
    stage.close();
}
