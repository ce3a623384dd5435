//! Bricks that take the place of others, as the coordinator orders it (docs/protocols/quorum.md, rules 50 to 55).
//! Catalogue: I6.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{ServerId, Status, TableId};
use ramhold_wire::obstacle::{Obstacle, ObstacleKind};
use ramhold_wire::quorum::{BrickReplace, BrickReplaced, Joined};
use ramhold_wire::table::*;
use std::time::Duration;

fn order(old: u64, new: u64) -> BrickReplace {
    let new = (new > 0).then_some(ServerId(new));
    BrickReplace { old: ServerId(old), new, is_destroyed: false, accepts_loss: false }
}

/// The obstacle.
fn obstacle(world: &mut World, order: BrickReplace) -> Option<(ObstacleKind, u64)> {
    let replaced = world.client_anew(&order).expect("an answer").expect("a word about it");
    replaced.obstacle.map(|it| (it.kind, it.brick.raw()))
}

// I6, C32
#[test]
fn all_tablets_of_a_brick_get_another_one() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    all[3].message.labels.clear();
    let (t, u) = {
        let mut three = all[..3].to_vec();
        // The fourth is not heard while the tables are made.
        world.run(Duration::from_secs(4));
        name_heard(&mut world, &mut three);
        let made = (
            made(&mut world, &mut three, "t", quorum(3, 2, 2)),
            made(&mut world, &mut three, "u", quorum(3, 2, 2)),
        );
        all[..3].clone_from_slice(&three);
        made
    };
    all[3].hello(&mut world);
    let number = world.number();
    let answer = world.ask_as(CLIENT, number, &order(2, 4)).unwrap().unwrap();
    assert_eq!(answer, BrickReplaced { tablets: 2, obstacle: None });
    assert_eq!(world.ask_as(CLIENT, number, &order(2, 4)).unwrap().unwrap(), answer, "repeated");
    let mut epochs = Vec::new();
    for name in ["t", "u"] {
        let tablet = world.describe(name).quorum.unwrap().remove(0);
        let bricks: Vec<u64> = tablet.bricks.iter().map(|place| place.brick.raw()).collect();
        assert_eq!(bricks, [1, 3, 4]);
        assert_eq!(tablet.joined, [Joined { brick: ServerId(4), epoch: tablet.epoch, is_lost: false }]);
        epochs.push(tablet.epoch);
    }
    assert!(epochs[0] > 1 && epochs[1] != epochs[0], "{epochs:?}");
    all[3].take(&mut world);
    assert_eq!(all[3].assignment.tablets.len(), 2);
    // The old one is told what it has lost, however late it comes, and then no more.
    world.restart();
    all[1].start_again();
    all[1].take(&mut world);
    let lost: Vec<TableId> = all[1].assignment.given_up.iter().map(|it| it.table).collect();
    assert_eq!((lost, all[1].assignment.tables.len()), (vec![t, u], 0));
    assert_eq!(all[1].assignment.given_up[0].epoch, epochs[0]);
    let former = |world: &World| {
        let tables = &world.state().quorum_tables;
        tables.values().flat_map(|table| &table.tablets).map(|tablet| tablet.former.len()).sum::<usize>()
    };
    assert_eq!(former(&world), 0);
    // It is not given new tables, until an operator says so.
    take_all(&mut world, &mut all);
    let next = made(&mut world, &mut all, "v", quorum(3, 2, 2));
    let held: Vec<u64> =
        world.describe("v").quorum.unwrap()[0].bricks.iter().map(|it| it.brick.raw()).collect();
    assert_eq!(held, [1, 3, 4]);
    assert_eq!(obstacle(&mut world, order(4, 2)), None);
    assert_eq!(world.state().quorum_tables[&next].tablets[0].bricks, [1, 2, 3].map(ServerId));
}

fn name_heard(world: &mut World, bricks: &mut [Brick]) {
    bricks.iter_mut().for_each(|brick| _ = brick.hello(world));
}

// I6, C31, C32
#[test]
fn what_stands_in_the_way_is_named_and_nothing_is_changed() {
    let mut world = World::new();
    let host = |port, name: &'static str| Brick::labelled(port, &[("host", name)]);
    let named = vec![host(101, "a"), host(102, "b"), host(103, "c")];
    let mut all = name_all(&mut world, named);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let mut later = name_all(&mut world, vec![host(104, "a"), host(105, "d"), host(106, "e")]);
    later[2].message.log_bytes = 1 << 10;
    all[0].message.used_bytes = 1 << 11;
    name_heard(&mut world, &mut later);
    name_heard(&mut world, &mut all);
    let before = world.describe("t");
    let mut refused = |order, kind, brick| {
        assert_eq!(obstacle(&mut world, order), Some((kind, brick)));
        assert_eq!(world.describe("t"), before, "nothing is changed");
    };
    refused(order(99, 5), ObstacleKind::Unknown, 99);
    refused(order(1, 99), ObstacleKind::Unknown, 99);
    refused(order(1, 2), ObstacleKind::HasTablet, 2);
    refused(order(2, 4), ObstacleKind::SameDomain, 1);
    refused(order(1, 6), ObstacleKind::TooSmall, 6);
    refused(order(1, 0), ObstacleKind::NotLost, 1);
    // Old and new are swapped: it is heard, and holds nothing.
    refused(order(5, 2), ObstacleKind::NotLost, 5);
    assert_eq!(world.client_anew(&order(1, 1)), Some(Err(Status::BadRequest)));
    // Others that cannot tell what they have.
    all[1].message.without_vote = 1;
    all[1].hello(&mut world);
    assert_eq!(obstacle(&mut world, order(1, 5)), Some((ObstacleKind::Rebuilding, 2)));
    world.run(Duration::from_secs(4));
    assert_eq!(obstacle(&mut world, order(1, 5)), Some((ObstacleKind::NotHeard, 5)));
    name_heard(&mut world, &mut later);
    all[1].message.without_vote = 0;
    all[1].hello(&mut world);
    assert_eq!(obstacle(&mut world, order(1, 5)), Some((ObstacleKind::Silent, 3)));
    let accepted = BrickReplace { accepts_loss: true, ..order(1, 5) };
    assert_eq!(obstacle(&mut world, accepted), None);
    // The new one has not taken its tablet yet, and does not tell that it lacks it.
    take_all(&mut world, &mut all);
    name_heard(&mut world, &mut later);
    assert_eq!(obstacle(&mut world, order(2, 4)), Some((ObstacleKind::Rebuilding, 5)));
}

// I6: the keys of a table with N = 1 are nowhere else.
#[test]
fn the_only_brick_of_a_table_is_not_given_up_lightly() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 2);
    let id = made(&mut world, &mut all, "t", quorum(1, 1, 1));
    let old = world.state().quorum_tables[&id].tablets[0].bricks[0].raw();
    let other = 3 - old;
    let destroyed = BrickReplace { is_destroyed: true, ..order(old, other) };
    assert_eq!(obstacle(&mut world, destroyed), Some((ObstacleKind::OnlyBrick, old)));
    world.run(Duration::from_secs(4));
    all.iter_mut().filter(|it| it.id().raw() == other).for_each(|it| _ = it.hello(&mut world));
    let lost = BrickReplace { is_destroyed: true, accepts_loss: true, ..order(old, 0) };
    assert_eq!(obstacle(&mut world, lost), Some((ObstacleKind::OnlyBrick, old)));
    assert_eq!(obstacle(&mut world, BrickReplace { accepts_loss: true, ..destroyed }), None);
}

// I6, C32: one brick is a read quorum.
#[test]
fn a_brick_that_may_be_read_alone_must_be_destroyed() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    let held = made(&mut world, &mut all, "t", quorum(3, 3, 1));
    let old = world.state().quorum_tables[&held].tablets[0].bricks[0].raw();
    let spare = (1..=4).find(|id| !world.state().quorum_tables[&held].bricks().any(|it| it.raw() == *id));
    let order = order(old, spare.unwrap());
    let answer = world.client_anew(&order).unwrap().unwrap();
    assert_eq!(
        answer.obstacle,
        Some(Obstacle { kind: ObstacleKind::MayBeRead, brick: ServerId(old), table: held })
    );
    assert_eq!(obstacle(&mut world, BrickReplace { is_destroyed: true, ..order }), None);
}

// I6, C31: the brick joins again, should it ever come.
#[test]
fn the_loss_of_a_brick_is_accepted() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    world.run(Duration::from_secs(4));
    all[0].hello(&mut world);
    all[1].message.without_vote = 1;
    all[1].hello(&mut world);
    let accepted = BrickReplace { is_destroyed: true, accepts_loss: true, ..order(3, 0) };
    assert_eq!(world.client_anew(&accepted).unwrap().unwrap(), BrickReplaced { tablets: 1, obstacle: None });
    let tablet = world.describe("t").quorum.unwrap().remove(0);
    assert_eq!(tablet.bricks.iter().map(|it| it.brick.raw()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(tablet.joined, [Joined { brick: ServerId(3), epoch: tablet.epoch, is_lost: true }]);
    all[2].take(&mut world);
    assert_eq!((all[2].assignment.tablets.len(), all[2].assignment.given_up.len()), (1, 0));
    all[1].message.without_vote = 0;
    take_all(&mut world, &mut all);
    let joined = world.describe("t").quorum.unwrap().remove(0).joined;
    assert!(!joined[0].is_lost, "it votes again, and others wait for it");
}

// A1, I6: a brick that has still to give a tablet up hears of a drop, too.
#[test]
fn a_dropped_table_waits_for_the_brick_that_was_replaced() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    let id = made(&mut world, &mut all[..], "t", quorum(3, 2, 2));
    let held: Vec<u64> = world.state().quorum_tables[&id].bricks().map(|it| it.raw()).collect();
    let spare = (1..=4).find(|id| !held.contains(id)).unwrap();
    assert_eq!(obstacle(&mut world, order(held[0], spare)), None);
    assert_eq!(world.client(&TableDrop { table: id }), None);
    for brick in all.iter_mut().filter(|brick| brick.id().raw() != held[0]) {
        brick.take(&mut world);
    }
    assert!(world.state().quorum_tables.contains_key(&id));
    let old = all.iter_mut().find(|brick| brick.id().raw() == held[0]).unwrap();
    old.take(&mut world);
    assert_eq!(old.assignment.dropped, [id]);
    assert!(!world.state().quorum_tables.contains_key(&id));
}

// A1, I6: a brick that is destroyed is told what it has given up all the same, should it come; no drop waits for it.
#[test]
fn a_destroyed_brick_is_told_what_it_gave_up_and_is_not_waited_for() {
    for comes_back in [true, false] {
        let mut world = World::new();
        let mut all = bricks(&mut world, 4);
        let id = made(&mut world, &mut all[..], "t", quorum(3, 2, 2));
        let held: Vec<u64> = world.state().quorum_tables[&id].bricks().map(|it| it.raw()).collect();
        let spare = (1..=4).find(|id| !held.contains(id)).unwrap();
        let destroyed = BrickReplace { is_destroyed: true, ..order(held[0], spare) };
        assert_eq!(obstacle(&mut world, destroyed), None);
        let old = all.iter().position(|brick| brick.id().raw() == held[0]).unwrap();
        if comes_back {
            all[old].take(&mut world);
            assert_eq!(all[old].assignment.given_up.len(), 1);
            assert!(all[old].assignment.tables.is_empty());
            continue;
        }
        world.run(Duration::from_secs(4));
        let mut others = all.clone();
        others.remove(old);
        name_heard(&mut world, &mut others);
        assert_eq!(world.client(&TableDrop { table: id }), None);
        take_all(&mut world, &mut others);
        assert!(!world.state().quorum_tables.contains_key(&id), "it may never come");
    }
}

// D2, I6: an accepted loss stays in the status until somebody has acknowledged it.
#[test]
fn an_accepted_loss_is_reported_if_something_may_be_lost() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    let alone = made(&mut world, &mut all, "alone", quorum(1, 1, 1));
    let old = world.state().quorum_tables[&alone].tablets[0].bricks[0];
    let new = if old.raw() == 1 { 2 } else { 1 };
    let accepted = BrickReplace { is_destroyed: true, accepts_loss: true, ..order(old.raw(), new) };
    assert_eq!(obstacle(&mut world, accepted), None);
    let losses = |world: &mut World| world.status().losses;
    let reports = losses(&mut world);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!((reports[0].crashed, &reports[0].tables), (old, &vec![alone]));
    assert!(reports[0].reason.contains("it was the only brick"), "{}", reports[0].reason);
    // Nothing is lost where enough others have everything.
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    let held = made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let of_t: Vec<u64> = world.state().quorum_tables[&held].bricks().map(|it| it.raw()).collect();
    let spare = (1..=4).find(|id| !of_t.contains(id)).unwrap();
    let accepted = BrickReplace { accepts_loss: true, ..order(of_t[0], spare) };
    assert_eq!(obstacle(&mut world, accepted), None);
    assert!(losses(&mut world).is_empty());
    // One of the others has forgotten something, and so the next loss may be one.
    let lost = BrickReplace { accepts_loss: true, ..order(of_t[1], of_t[0]) };
    assert_eq!(obstacle(&mut world, lost), None);
    let reports = losses(&mut world);
    assert_eq!((reports.len(), reports[0].crashed), (1, ServerId(of_t[1])), "{reports:?}");
    assert!(reports[0].reason.contains("too few of the other bricks"), "{}", reports[0].reason);
}
