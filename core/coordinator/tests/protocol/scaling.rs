//! Bricks that are added and removed, as the coordinator orders it (docs/protocols/quorum.md, rules 56 to 63).
//! Catalogue: I7.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_coordinator::GivingRecord;
use ramhold_wire::bricks::{BrickWelcome, TabletLoad};
use ramhold_wire::obstacle::ObstacleKind;
use ramhold_wire::quorum::{BrickReplace, BrickScale, ScaleOrder};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(250);

/// So many bricks, of which three have the table.
fn rig(count: u16) -> (World, Vec<Brick>, TableId) {
    let mut world = World::new();
    let mut all = bricks(&mut world, count);
    // The others are not heard while the table is made.
    world.run(Duration::from_secs(4));
    all[..3].iter_mut().for_each(|brick| _ = brick.hello(&mut world));
    let table = made(&mut world, &mut all[..3], "t", quorum(3, 2, 2));
    all.iter_mut().for_each(|brick| _ = brick.hello(&mut world));
    (world, all, table)
}

fn order(world: &mut World, brick: u64, order: ScaleOrder) -> Option<ObstacleKind> {
    let message = BrickScale { brick: ServerId(brick), order, table: None };
    let scaled = world.client_anew(&message).expect("an answer").expect("a word about it");
    scaled.obstacle.map(|it| it.kind)
}

fn held(world: &World, table: TableId) -> Vec<Vec<u64>> {
    let tablets = world.state().quorum_tables[&table].tablets.iter();
    tablets.map(|tablet| tablet.bricks.iter().map(|brick| brick.raw()).collect()).collect()
}

fn giving(world: &World, table: TableId) -> Option<GivingRecord> {
    world.state().quorum_tables[&table].tablets.iter().find_map(|tablet| tablet.giving)
}

fn ordered(world: &World) -> usize {
    world.state().bricks.values().filter(|brick| brick.scaling.is_some()).count()
}

/// A brick takes what it is assigned, if it is answered: a coordinator that dies answers nothing.
fn take_if_answered(world: &mut World, brick: &mut Brick) {
    for _ in 0..3 {
        let rpc = brick.push(world);
        world.settle();
        let Some((Status::Ok, Some(welcome))) = told::<BrickWelcome>(world, rpc) else { return };
        let Some(assignment) = welcome.assignment else { return };
        brick.message.taken = assignment.version;
        brick.assignment = assignment;
    }
}

/// Bricks take what they are assigned, and vote at once, until nothing is ordered any more.
fn carry_out(world: &mut World, all: &mut [Brick]) {
    for _ in 0..100 {
        all.iter_mut().for_each(|brick| take_if_answered(world, brick));
        world.run(LOOK);
        if ordered(world) == 0
            && world.state().quorum_tables.values().all(|it| it.bricks().count() == it.concerned().count())
        {
            return;
        }
    }
    panic!("{:?}", world.reports.last());
}

// I7, G1: an order is carried out whenever the coordinator dies, before a commit or right after it.
#[test]
fn an_order_survives_the_coordinator_at_every_step() {
    let mut crashes = 0;
    for at in 1..40 {
        for applied in [false, true] {
            let (mut world, mut all, table) = rig(6);
            for brick in 4..=6 {
                assert_eq!(order(&mut world, brick, ScaleOrder::Add), None);
            }
            world.crash_at = Some((world.commits + at, applied));
            carry_out(&mut world, &mut all);
            assert_eq!(held(&world, table), [[1, 2, 3], [4, 5, 6]]);
            world.crash_at = None;
            // A coordinator that has just started takes no order before it has heard all bricks.
            all.iter_mut().for_each(|brick| _ = brick.hello(&mut world));
            for brick in 4..=6 {
                assert_eq!(order(&mut world, brick, ScaleOrder::Remove), None);
            }
            world.crash_at = Some((world.commits + at, applied));
            carry_out(&mut world, &mut all);
            assert_eq!(held(&world, table), [[1, 2, 3]]);
            assert!(all[3..].iter().all(|brick| world.state().bricks[&brick.id()].is_removed));
            crashes += world.crashes;
        }
    }
    println!("{crashes} crashes");
    assert!(crashes > 40, "{crashes}");
}

// I7: the giving brick keeps its part until the new one votes, and an overtaken hello does not say that it does.
#[test]
fn a_tablet_arrives_when_the_new_brick_votes() {
    let (mut world, mut all, table) = rig(4);
    let old = all[3].message.clone();
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    take_all(&mut world, &mut all[..3]);
    world.run(LOOK);
    take_all(&mut world, &mut all[..3]);
    world.run(LOOK);
    assert_eq!(giving(&world, table), Some(GivingRecord { old: ServerId(1), new: ServerId(4) }));
    all[3].message.without_vote = 1;
    take_all(&mut world, &mut all);
    assert!(all[0].assignment.given_up.is_empty(), "it keeps what it has");
    let told = all[3].assignment.tablets[0].giving.expect("it moves");
    assert_eq!((told.old.brick, told.new), (ServerId(1), ServerId(4)));
    // It dates from before the brick had the tablet: it was on its way for long.
    let late = Brick { message: old, ..all[3].clone() };
    late.push(&mut world);
    world.settle();
    world.run(LOOK * 3);
    assert!(giving(&world, table).is_some(), "it does not vote yet");
    all[3].message.without_vote = 0;
    take_all(&mut world, &mut all);
    world.run(LOOK);
    assert_eq!(giving(&world, table), None);
    take_all(&mut world, &mut all);
    let given: Vec<KeyHash> = all[0].assignment.given_up.iter().map(|it| it.first).collect();
    assert_eq!(given, [KeyHash(1 << 63)]);
}

// I7: a step waits for a brick that is silent or does not vote, and says so.
#[test]
fn a_step_waits_for_all_bricks_of_its_tablet() {
    let (mut world, mut all, table) = rig(4);
    all[1].message.without_vote = 1;
    all[1].hello(&mut world);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    world.run(LOOK);
    let report = world.status().bricks.into_iter().find(|it| it.brick == ServerId(4)).expect("it is there");
    let waits = report.waits.expect("it waits");
    assert_eq!((waits.kind, waits.brick), (ObstacleKind::Rebuilding, ServerId(2)));
    assert_eq!(held(&world, table), [[1, 2, 3]]);
    assert_eq!(order(&mut world, 4, ScaleOrder::Cancel), None);
    all[1].message.without_vote = 0;
    take_all(&mut world, &mut all);
    world.run(LOOK * 4);
    assert_eq!((held(&world, table), ordered(&world)), (vec![vec![1, 2, 3]], 0));
}

// I7, I6: a giving brick that is lost is waited for no more.
#[test]
fn a_giving_brick_may_be_replaced() {
    let (mut world, mut all, table) = rig(5);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    for _ in 0..2 {
        take_all(&mut world, &mut all[..3]);
        world.run(LOOK);
    }
    assert!(giving(&world, table).is_some());
    all[3].message.without_vote = 1;
    all.iter_mut().skip(1).for_each(|brick| brick.take(&mut world));
    let replace =
        BrickReplace { old: ServerId(1), new: Some(ServerId(5)), is_destroyed: false, accepts_loss: false };
    let replaced = world.client_anew(&replace).expect("an answer").expect("a word about it");
    assert_eq!((replaced.tablets, replaced.obstacle), (1, None));
    assert_eq!(giving(&world, table), None);
    all[3].message.without_vote = 0;
    carry_out(&mut world, &mut all);
    assert_eq!(held(&world, table), [[2, 3, 5], [2, 3, 4]]);
}

// I7: the tablet that most is asked of is relieved, and it is cut where that is.
#[test]
fn the_hottest_tablet_is_relieved() {
    let (mut world, mut all, table) = rig(9);
    for brick in 4..=6 {
        assert_eq!(order(&mut world, brick, ScaleOrder::Add), None);
        carry_out(&mut world, &mut all);
    }
    let half = 1 << 63;
    let load =
        |first, last, asks| TabletLoad { table, first: KeyHash(first), last: KeyHash(last), asks, bytes: 1 };
    all[..3].iter_mut().for_each(|brick| brick.message.loads = Some(vec![load(0, half - 1, 100)]));
    all[3..6].iter_mut().for_each(|brick| brick.message.loads = Some(vec![load(half, u64::MAX, 900)]));
    take_all(&mut world, &mut all);
    all.iter_mut().for_each(|brick| brick.message.loads = None);
    for brick in 7..=9 {
        assert_eq!(order(&mut world, brick, ScaleOrder::Add), None);
        carry_out(&mut world, &mut all);
    }
    assert_eq!(held(&world, table), [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "the upper half was cut");
    assert_eq!(order(&mut world, 99, ScaleOrder::Add), Some(ObstacleKind::Unknown));
    assert_eq!(order(&mut world, 1, ScaleOrder::Cancel), Some(ObstacleKind::NotOrdered));
}

// I7: a table that needs all its bricks for a put is not moved.
#[test]
fn a_table_without_a_brick_to_spare_is_not_moved() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    world.run(Duration::from_secs(4));
    all[..3].iter_mut().for_each(|brick| _ = brick.hello(&mut world));
    made(&mut world, &mut all[..3], "t", quorum(3, 3, 1));
    all[3].hello(&mut world);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), Some(ObstacleKind::NoneToSpare));
    assert_eq!(order(&mut world, 1, ScaleOrder::Remove), Some(ObstacleKind::NoneToSpare));
}
