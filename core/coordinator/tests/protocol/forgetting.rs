//! Bricks that do not come back and hold nothing, as the coordinator forgets them (docs/protocols/quorum.md, rule 78), and
//! the ports of supervisors, which outlive it. Catalogue: I6.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{ServerId, Status, TableId};
use ramhold_coordinator::Key;
use ramhold_wire::obstacle::{Obstacle, ObstacleKind};
use ramhold_wire::quorum::{BrickForget, BrickReplace, BrickScale, ScaleOrder};
use ramhold_wire::status::ClusterStatusRequest;
use ramhold_wire::table::TableDrop;
use std::time::Duration;

fn forget(world: &mut World, brick: u64) -> Option<Obstacle> {
    let brick = ServerId(brick);
    world.client_anew(&BrickForget { brick }).expect("an answer").expect("a word about it").obstacle
}

fn kept(kind: ObstacleKind, brick: u64, table: TableId) -> Option<Obstacle> {
    Some(Obstacle { kind, brick: ServerId(brick), table })
}

/// Four bricks, a table on three of them, and the id of the one that has no tablet.
fn with_spare(world: &mut World) -> (Vec<Brick>, TableId, u64, u64) {
    let mut all = bricks(world, 4);
    let table = made(world, &mut all, "t", quorum(3, 2, 2));
    let held: Vec<u64> = world.state().quorum_tables[&table].bricks().map(|it| it.raw()).collect();
    let spare = (1..=4).find(|id| !held.contains(id)).expect("one has no tablet");
    (all, table, held[0], spare)
}

// I6
#[test]
fn a_replaced_brick_is_forgotten_and_one_that_is_heard_or_holds_tablets_is_not() {
    let mut world = World::new();
    let (mut all, table, old, spare) = with_spare(&mut world);
    let nothing = TableId(0);
    assert_eq!(forget(&mut world, 77), kept(ObstacleKind::Unknown, 77, nothing));
    assert_eq!(forget(&mut world, old), kept(ObstacleKind::NotLost, old, nothing));
    // It is not heard any more; the others are.
    world.run(Duration::from_secs(4));
    for brick in all.iter_mut().filter(|brick| brick.id().raw() != old) {
        brick.hello(&mut world);
    }
    assert_eq!(forget(&mut world, old), kept(ObstacleKind::HoldsTablets, old, table));
    let order = BrickReplace {
        old: ServerId(old),
        new: Some(ServerId(spare)),
        is_destroyed: false,
        accepts_loss: false,
    };
    assert_eq!(world.client_anew(&order).unwrap().unwrap().obstacle, None);
    let former = |world: &World| world.state().quorum_tables[&table].tablets[0].former.clone();
    assert_eq!(former(&world), [ServerId(old)]);
    assert_eq!(forget(&mut world, old), None);
    assert!(!world.state().bricks.contains_key(&ServerId(old)) && former(&world).is_empty());
    assert_eq!(forget(&mut world, old), kept(ObstacleKind::Unknown, old, nothing));
    // The state is sound for the next coordinator, which refuses the brick.
    world.restart();
    assert_eq!(world.exit.take(), None);
    let back = all.iter().find(|brick| brick.id().raw() == old).unwrap();
    assert_eq!(back.ask(&mut world).unwrap_err(), Status::NotInCluster);
    let new = name_all(&mut world, vec![Brick::new(150)]);
    assert_eq!(new[0].id(), ServerId(5), "no id is given out twice");
}

// I6, A1: a dropped table waits for a brick that never comes.
#[test]
fn a_dropped_table_goes_with_the_last_brick_that_it_waits_for() {
    let mut world = World::new();
    let (mut all, table, old, _) = with_spare(&mut world);
    world.run(Duration::from_secs(4));
    for brick in all.iter_mut().filter(|brick| brick.id().raw() != old) {
        brick.hello(&mut world);
    }
    _ = world.client_anew(&TableDrop { table });
    let number = all.iter().filter(|brick| brick.id().raw() != old).count();
    for brick in all.iter_mut().filter(|brick| brick.id().raw() != old).take(number - 2) {
        brick.take(&mut world);
    }
    assert_eq!(forget(&mut world, old), kept(ObstacleKind::HoldsTablets, old, table), "others lack it, too");
    for brick in all.iter_mut().filter(|brick| brick.id().raw() != old) {
        brick.take(&mut world);
    }
    assert!(world.state().quorum_tables.contains_key(&table));
    assert_eq!(forget(&mut world, old), None);
    assert!(!world.state().quorum_tables.contains_key(&table));
    world.restart();
    assert_eq!(world.exit.take(), None);
}

/// The last tablet of the third brick is on its way to the fourth, which does not vote, and the third is not heard.
fn with_giver(world: &mut World) -> (Vec<Brick>, TableId) {
    let mut all = bricks(world, 4);
    world.run(Duration::from_secs(4));
    all[..3].iter_mut().for_each(|brick| _ = brick.hello(world));
    let table = made(world, &mut all[..3], "t", quorum(3, 2, 2));
    all.iter_mut().for_each(|brick| _ = brick.hello(world));
    let order = BrickScale { brick: ServerId(3), order: ScaleOrder::Remove, table: None };
    let ordered = world.client_anew(&order).expect("an answer").expect("a word about it");
    assert_eq!(ordered.obstacle, None);
    world.run(Duration::from_millis(250));
    all[3].message.without_vote = 1;
    take_all(world, &mut all);
    let tablet = &world.state().quorum_tables[&table].tablets[0];
    assert_eq!(tablet.bricks, [1, 2, 4].map(ServerId));
    assert_eq!(tablet.giving.map(|giving| giving.old), Some(ServerId(3)));
    pass(world, &mut all, 4);
    (all, table)
}

/// All but the third brick are heard for so many seconds.
fn pass(world: &mut World, all: &mut [Brick], seconds: u32) {
    for _ in 0..=seconds {
        for brick in all.iter_mut().filter(|brick| brick.id() != ServerId(3)) {
            brick.take(world);
        }
        world.run(Duration::from_secs(1));
    }
}

// I6, I7: until the brick that takes a tablet votes, the one that gives it may be needed.
#[test]
fn a_brick_that_gives_its_last_tablet_is_not_forgotten() {
    let mut world = World::new();
    let (mut all, table) = with_giver(&mut world);
    assert_eq!(forget(&mut world, 3), kept(ObstacleKind::GivesTablets, 3, table));
    all[3].message.without_vote = 0;
    pass(&mut world, &mut all, 1);
    assert_eq!(world.state().quorum_tables[&table].tablets[0].giving, None);
    assert_eq!(forget(&mut world, 3), None);
    pass(&mut world, &mut all, 1);
    world.restart();
    assert_eq!(world.exit.take(), None);
}

// I6, I7: the operator says that what it has is lost.
#[test]
fn a_giving_brick_whose_data_is_lost_is_forgotten() {
    let mut world = World::new();
    let (mut all, table) = with_giver(&mut world);
    let lost = BrickReplace { old: ServerId(3), new: None, is_destroyed: false, accepts_loss: true };
    assert_eq!(world.client_anew(&lost).unwrap().unwrap().obstacle, None);
    assert_eq!(forget(&mut world, 3), None);
    all[3].message.without_vote = 0;
    pass(&mut world, &mut all, 1);
    let tablet = &world.state().quorum_tables[&table].tablets[0];
    assert_eq!((tablet.bricks.as_slice(), tablet.giving), (&[1, 2, 4].map(ServerId)[..], None));
}

// I6, A1: a table that is dropped while its tablet moves goes from the brick that gives the tablet, too.
#[test]
fn a_table_is_dropped_while_its_tablet_moves() {
    let mut world = World::new();
    let (mut all, table) = with_giver(&mut world);
    _ = world.client_anew(&TableDrop { table });
    pass(&mut world, &mut all, 1);
    assert!(world.state().quorum_tables.contains_key(&table), "it waits for the brick that is away");
    all[2].take(&mut world);
    assert_eq!(all[2].assignment.dropped, [table]);
    pass(&mut world, &mut all, 1);
    assert!(!world.state().quorum_tables.contains_key(&table));
    assert_eq!(forget(&mut world, 3), kept(ObstacleKind::NotLost, 3, TableId(0)));
    pass(&mut world, &mut all, 4);
    assert_eq!(forget(&mut world, 3), None);
    // The same, with a brick that never comes.
    let mut world = World::new();
    let (mut all, table) = with_giver(&mut world);
    _ = world.client_anew(&TableDrop { table });
    pass(&mut world, &mut all, 1);
    assert_eq!(forget(&mut world, 3), None);
    assert!(!world.state().quorum_tables.contains_key(&table));
}

// I6, G3: an earlier version has forgotten a brick that was giving a tablet away.
#[test]
fn a_state_that_lacks_a_giving_brick_recovers() {
    for drops in [false, true] {
        let mut world = World::new();
        let (mut all, table) = with_giver(&mut world);
        world.store.remove(&Key::Brick(ServerId(3)).to_string()).expect("its record");
        world.restart();
        assert_eq!(world.exit.take(), None);
        assert_eq!(world.state().quorum_tables[&table].tablets[0].giving, None);
        all[3].message.without_vote = 0;
        if drops {
            _ = world.client_anew(&TableDrop { table });
        }
        pass(&mut world, &mut all, 5);
        assert_eq!(world.state().quorum_tables.contains_key(&table), !drops);
        assert_eq!(world.exit.take(), None);
    }
}

// I6: a brick that hangs says nothing to a coordinator that has just started.
#[test]
fn the_port_of_a_supervisor_outlives_the_coordinator() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 1);
    let supervisor = |world: &mut World| {
        let status = world.client(&ClusterStatusRequest {}).unwrap().unwrap();
        (status.bricks[0].supervisor, status.bricks[0].heard_millis.is_some())
    };
    assert_eq!(supervisor(&mut world), (None, true));
    all[0].message.supervisor = Some(7601);
    all[0].hello(&mut world);
    assert_eq!(supervisor(&mut world), (Some(7601), true));
    world.restart();
    assert_eq!(supervisor(&mut world), (Some(7601), false));
    all[0].start_again();
    all[0].message.supervisor = None;
    all[0].hello(&mut world);
    assert_eq!(supervisor(&mut world), (None, true), "it was started without one");
}
