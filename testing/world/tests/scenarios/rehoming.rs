//! Tablets of a neighbourhood that is gone move to others, and servers with a role in that die at each step.
//! Catalogue: H3, F4, A8. Rules: docs/protocols/neighbourhoods.md, 8.

use crate::neighbourhoods::{homes, rings};
use ramhold_base::TableId;
use ramhold_coordinator::State;
use ramhold_world::network::SECOND;
use ramhold_world::stage::Stage;
use ramhold_world::world::{Death, Step};

/// The steps of a move, in their order.
const STEPS: [&str; 5] =
    ["reclassing_begun", "stretch_copied", "stretch_entered", "stretch_moved", "tablet_reclassed"];

/// BCube(4, 1) in order: server `4a + b` is at place `ab`. The moving master is at 00, and place 01 is gone.
const MOVER: usize = 0;
const GONE: usize = 1;
const GONE_PLACE: &str = "01";
/// Enough keys that each tablet is moved in two stretches.
const KEYS: u32 = 1600;

/// Server 01 has lost its power and is recovered. Its neighbours are about to move the tablets that it was to recover.
fn bereaved() -> (Stage, TableId) {
    let mut stage = rings(64);
    let table = stage.spread_table("t", 3);
    stage.fill(table, "key", KEYS);
    let gone = stage.id(GONE);
    assert_eq!(homes(&stage, MOVER)[GONE_PLACE], 1);
    stage.cut_power(GONE);
    stage.wait("it is recovered", |stage| stage.is_recovered(gone));
    assert!(homes(&stage, MOVER).contains_key(GONE_PLACE), "nothing has moved yet");
    (stage, table)
}

fn step(mark: &str, number: u64) -> Step {
    Step { node: usize::MAX, mark: mark.into(), number }
}

/// Runs until a server dies as the mover takes a step.
fn die_at(stage: &mut Stage, victim: usize, step: Step) {
    let step = Step { node: stage.servers[MOVER], ..step };
    let node = stage.servers[victim];
    stage.world.crash_when(node, Death::Killed, &step);
    stage.wait(&format!("server {victim} dies at {step:?}"), |stage| stage.node(victim).is_none());
    stage.disarm();
}

/// Reads everything that `bereaved` wrote, but for what was written since.
fn expect_all(stage: &mut Stage, table: TableId) {
    stage.expect_filled(table, "key", KEYS);
    assert_eq!(stage.count(table), u64::from(KEYS) + 20);
}

fn write_meanwhile(stage: &mut Stage, table: TableId) {
    for number in 0..20 {
        stage.write(table, &format!("meanwhile{number}"), b"meanwhile");
    }
}

/// The place to which the mover's tablet of the place that is gone moves, when nobody dies.
fn destination() -> String {
    let (mut stage, _) = bereaved();
    let before = homes(&stage, MOVER);
    stage.wait("its part moves to others", |stage| !homes(stage, MOVER).contains_key(GONE_PLACE));
    let after = homes(&stage, MOVER);
    let grown = after.iter().find(|(place, count)| before.get(*place) < Some(count));
    grown.expect("some place has a tablet more").0.clone()
}

fn server_at(place: &str) -> usize {
    usize::from_str_radix(place, 4).expect("two digits below four")
}

/// A server on the ring of the mover and this recoverer: near the recoverer, and not near the mover.
fn feeder(recoverer: usize) -> usize {
    let (row, column) = (recoverer / 4, recoverer % 4);
    if row == 0 { 4 * 2 + column } else { 4 * row + 2 }
}

/// Everybody comes back, and the mover's next death shows that everything is where it should be.
fn come_back(mut stage: Stage, table: TableId) {
    (0..16).filter(|server| stage.node(*server).is_none()).collect::<Vec<_>>().into_iter().for_each(
        |server| {
            stage.restart(server);
        },
    );
    stage.settle();
    let id = stage.id(MOVER);
    stage.crash(MOVER);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    expect_all(&mut stage, table);
    stage.restart(MOVER);
    stage.close();
}

#[test]
fn a_master_that_dies_while_it_moves_a_tablet_home_is_recovered_from_both_streams() {
    for (mark, number) in STEPS.into_iter().flat_map(|mark| [(mark, 1), (mark, 2)]) {
        if (mark, number) == ("tablet_reclassed", 2) || (mark, number) == ("reclassing_begun", 2) {
            continue; // It moves one tablet.
        }
        let (mut stage, table) = bereaved();
        let id = stage.id(MOVER);
        die_at(&mut stage, MOVER, step(mark, number));
        write_meanwhile(&mut stage, table);
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
        expect_all(&mut stage, table);
        come_back(stage, table);
    }
}

#[test]
fn a_tablet_moves_home_although_the_new_recoverer_dies() {
    let recoverer = server_at(&destination());
    for mark in STEPS {
        outlives(recoverer, mark);
    }
}

#[test]
fn a_tablet_moves_home_although_a_new_feeder_dies() {
    let feeder = feeder(server_at(&destination()));
    for mark in STEPS {
        outlives(feeder, mark);
    }
}

/// A server other than the mover dies at a step of the mover. The move goes on, or its tablet moves elsewhere.
fn outlives(victim: usize, mark: &str) {
    let (mut stage, table) = bereaved();
    let (id, place) = (stage.id(victim), format!("{}{}", victim / 4, victim % 4));
    die_at(&mut stage, victim, step(mark, 1));
    write_meanwhile(&mut stage, table);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.wait(&format!("nothing is with those that are gone, after {mark}"), |stage| {
        let homes = homes(stage, MOVER);
        !homes.contains_key(GONE_PLACE) && !homes.contains_key(&place)
    });
    expect_all(&mut stage, table);
    // The master dies before any of them is back: both others are whole again.
    let mover = stage.id(MOVER);
    stage.crash(MOVER);
    stage.wait("it is recovered", |stage| stage.is_recovered(mover));
    expect_all(&mut stage, table);
    come_back(stage, table);
}

/// G1: the coordinator dies as it stores a move.
#[test]
fn a_coordinator_that_dies_as_it_stores_a_move_home_loses_nothing() {
    for mark in ["coordinator_commits_table", "stretch_stored", "coordinator_committed_table"] {
        let (mut stage, table) = bereaved();
        let node = stage.coordinator;
        stage.world.crash_at(node, mark);
        stage.wait(&format!("the coordinator dies at {mark}"), |stage| !stage.world.node(node).is_up());
        let back = stage.world.now() + SECOND / 5;
        stage.world.restart_at(node, back);
        write_meanwhile(&mut stage, table);
        let is_moved = |state: &State| !state.servers.is_empty();
        stage.wait("its part moves to others", |stage| {
            stage.state().is_some_and(is_moved) && !homes(stage, MOVER).contains_key(GONE_PLACE)
        });
        expect_all(&mut stage, table);
        come_back(stage, table);
    }
}
