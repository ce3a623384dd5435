//! Bricks that are added and removed, as the coordinator orders it (docs/protocols/quorum.md, rules 56 to 63).
//! Catalogue: I7.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_coordinator::GivingRecord;
use ramhold_wire::bricks::{BrickWelcome, TabletLoad};
use ramhold_wire::obstacle::{ObstacleKind, ScalingEnd};
use ramhold_wire::quorum::{BrickReplace, BrickScale, BrickScaled, ScaleOrder};
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

fn scale(world: &mut World, brick: u64, order: ScaleOrder) -> BrickScaled {
    let message = BrickScale { brick: ServerId(brick), order, table: None };
    world.client_anew(&message).expect("an answer").expect("a word about it")
}

fn order(world: &mut World, brick: u64, order: ScaleOrder) -> Option<ObstacleKind> {
    scale(world, brick, order).obstacle.map(|it| it.kind)
}

/// Four bricks, and a tablet on its way from the first to the last one, which does not vote.
fn moving() -> (World, Vec<Brick>, TableId) {
    let (mut world, mut all, table) = rig(4);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    for _ in 0..2 {
        take_all(&mut world, &mut all[..3]);
        world.run(LOOK);
    }
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(4))));
    all[3].message.without_vote = 1;
    take_all(&mut world, &mut all);
    (world, all, table)
}

/// The bricks are heard for so many seconds.
fn pass(world: &mut World, all: &mut [Brick], seconds: u64) {
    for _ in 0..seconds {
        take_all(world, all);
        world.run(Duration::from_secs(1));
    }
    take_all(world, all);
}

/// The reason why the order for a brick waits.
fn waits(world: &mut World, brick: u64) -> Option<(ObstacleKind, u64)> {
    let report = world.status().bricks.into_iter().find(|it| it.brick == ServerId(brick));
    report.expect("it is there").waits.map(|it| (it.kind, it.brick.raw()))
}

/// How the last order for a brick ended, and how many tablets had moved.
fn ended(world: &mut World, brick: u64) -> Option<(ScalingEnd, u32)> {
    let report = world.status().bricks.into_iter().find(|it| it.brick == ServerId(brick));
    report.expect("it is there").ended.map(|it| (it.end, it.moved))
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
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(4))));
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

// I7: a brick that is heard and cannot take a tablet holds up everything else, until an operator calls the tablet back.
#[test]
fn a_tablet_is_called_back_from_a_brick_that_cannot_take_it() {
    let (mut world, mut all, table) = moving();
    all[3].message.rebuilt = Some(300);
    pass(&mut world, &mut all, 50);
    assert_eq!(waits(&mut world, 4), Some((ObstacleKind::Rebuilding, 4)));
    all[3].message.rebuilt = Some(301);
    pass(&mut world, &mut all, 50);
    assert_eq!(waits(&mut world, 4), Some((ObstacleKind::Rebuilding, 4)), "it has come further");
    // It dies and is back again and again, and never further.
    for rebuilt in [0, 100, 301] {
        all[3].message.rebuilt = Some(rebuilt);
        pass(&mut world, &mut all, 5);
    }
    assert_eq!(waits(&mut world, 4), Some((ObstacleKind::Stalled, 4)));
    assert!(giving(&world, table).is_some(), "it is heard, so it is waited for");
    assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel), BrickScaled { before: 1, obstacle: None });
    pass(&mut world, &mut all, 1);
    assert_eq!((giving(&world, table), ordered(&world)), (None, 0));
    assert_eq!(held(&world, table), [[1, 2, 3], [1, 2, 3]]);
    assert_eq!(all[3].assignment.tablets, [], "it is told so");
    assert_eq!(ended(&mut world, 4), Some((ScalingEnd::Cancelled, 0)), "and so is whoever waits for it");
    // The tablet has changed for all its bricks, and another brick may be added.
    let tablet = &world.state().quorum_tables[&table].tablets[1];
    assert_eq!((tablet.joined.len(), tablet.joined[0].brick), (1, ServerId(1)));
    assert!(tablet.former.is_empty() && tablet.epoch > 2);
    assert_eq!(order(&mut world, 4, ScaleOrder::Cancel), Some(ObstacleKind::NotOrdered));
    all[3].message.without_vote = 0;
    pass(&mut world, &mut all, 1);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    assert_eq!(ended(&mut world, 4), None, "the next order is not over");
    carry_out(&mut world, &mut all);
    assert_eq!(held(&world, table), [[1, 2, 3], [2, 3, 4]]);
    assert_eq!(ended(&mut world, 4), Some((ScalingEnd::Done, 1)));
    world.restart();
    assert_eq!(ended(&mut world, 4), Some((ScalingEnd::Done, 1)), "it is stored");
}

// I7: a tablet goes back when nothing would be lost by that, also after a start of the coordinator.
#[test]
fn a_tablet_that_is_called_back_waits_for_the_bricks_that_stay() {
    for restarts in [false, true] {
        let (mut world, mut all, table) = moving();
        all[1].message.without_vote = 1;
        pass(&mut world, &mut all, 1);
        assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel).before, 1);
        if restarts {
            world.restart();
        }
        pass(&mut world, &mut all, 5);
        assert!(giving(&world, table).is_some_and(|giving| giving.is_called_back), "one lacks something");
        all[1].message.without_vote = 0;
        pass(&mut world, &mut all, 1);
        assert_eq!(held(&world, table), [[1, 2, 3], [1, 2, 3]]);
    }
}

// I7: a brick that has voted keeps the tablet: it may have what only one other brick has.
#[test]
fn a_tablet_that_is_called_back_too_late_arrives() {
    let (mut world, mut all, table) = moving();
    all[1].message.without_vote = 1;
    pass(&mut world, &mut all, 1);
    assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel).before, 1);
    all[3].message.without_vote = 0;
    all[3].hello(&mut world);
    all[1].message.without_vote = 0;
    pass(&mut world, &mut all, 1);
    assert_eq!(held(&world, table), [[1, 2, 3], [2, 3, 4]]);
    assert_eq!((giving(&world, table), ordered(&world)), (None, 0));
}

/// A tablet moves from brick 1 to brick 4, which was to be added, and is replaced by brick 5: its order is gone, and brick 5
/// cannot take the tablet.
fn moving_without_an_order() -> (World, Vec<Brick>, TableId) {
    let (mut world, mut all, table) = rig(5);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    for _ in 0..2 {
        take_all(&mut world, &mut all[..3]);
        world.run(LOOK);
    }
    all[3].message.without_vote = 1;
    take_all(&mut world, &mut all);
    all[4].message.without_vote = 1;
    let replace =
        BrickReplace { old: ServerId(4), new: Some(ServerId(5)), is_destroyed: false, accepts_loss: false };
    let replaced = world.client_anew(&replace).expect("an answer").expect("a word about it");
    assert_eq!((replaced.tablets, replaced.obstacle), (1, None));
    (world, all, table)
}

// I7, I6: the brick that takes a tablet is replaced, and its order goes with it; the new one cannot take the tablet either.
#[test]
fn a_tablet_without_an_order_is_called_back() {
    let (mut world, mut all, table) = moving_without_an_order();
    pass(&mut world, &mut all, 1);
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(5))));
    assert_eq!((ordered(&world), ended(&mut world, 4)), (0, Some((ScalingEnd::Replaced, 0))));
    assert_eq!(order(&mut world, 2, ScaleOrder::Cancel), Some(ObstacleKind::NotOrdered));
    assert_eq!(scale(&mut world, 5, ScaleOrder::Cancel), BrickScaled { before: 1, obstacle: None });
    pass(&mut world, &mut all, 1);
    assert_eq!(held(&world, table), [[1, 2, 3], [1, 2, 3]]);
}

// I7: the tablet of another order goes on.
#[test]
fn an_order_that_is_taken_back_leaves_alone_what_moves_for_another_one() {
    let (mut world, mut all, table) = moving();
    assert_eq!(order(&mut world, 1, ScaleOrder::Remove), None);
    assert_eq!(scale(&mut world, 1, ScaleOrder::Cancel), BrickScaled { before: 0, obstacle: None });
    pass(&mut world, &mut all, 5);
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(4))));
    assert_eq!(order(&mut world, 1, ScaleOrder::Cancel), Some(ObstacleKind::NotOrdered));
    // It moves because of the brick that takes it, whoever else is removed.
    assert_eq!(order(&mut world, 1, ScaleOrder::Remove), None);
    assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel).before, 1);
    assert!(giving(&world, table).is_none_or(|giving| giving.is_called_back));
}

// I7: what moves because a brick is removed stays where it is with that order, and with no other one.
#[test]
fn a_tablet_that_moves_for_a_removal_is_called_back_with_it() {
    let (mut world, mut all, table) = rig(5);
    assert_eq!(order(&mut world, 1, ScaleOrder::Remove), None);
    world.run(LOOK);
    all[3].message.without_vote = 1;
    take_all(&mut world, &mut all);
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(4))));
    assert_eq!(order(&mut world, 4, ScaleOrder::Remove), None);
    assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel).before, 0, "it does not move because of that");
    pass(&mut world, &mut all, 1);
    assert!(giving(&world, table).is_some_and(|giving| !giving.is_called_back));
    assert_eq!(scale(&mut world, 1, ScaleOrder::Cancel).before, 1);
    pass(&mut world, &mut all, 1);
    assert_eq!((held(&world, table), ordered(&world)), (vec![vec![1, 2, 3]], 0));
}

// I7, D38: what an operator has called back does not come again by itself.
#[test]
fn a_brick_from_which_a_tablet_without_an_order_was_called_back_is_not_added_by_itself() {
    for cancelled in [5, 1] {
        let (mut world, mut all, table) = moving_without_an_order();
        world.config.auto_scale = true;
        world.restart();
        pass(&mut world, &mut all, 5);
        assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(5))));
        assert_eq!(scale(&mut world, cancelled, ScaleOrder::Cancel).before, 1);
        pass(&mut world, &mut all, 5);
        all[4].message.without_vote = 0;
        pass(&mut world, &mut all, 5);
        assert_eq!((held(&world, table), ordered(&world)), (vec![vec![1, 2, 3]; 2], 0));
    }
}

// I7, D38: a brick whose order was taken back is not added by itself again.
#[test]
fn a_cancelled_brick_is_not_added_by_itself() {
    let mut world = World::new();
    world.config.auto_scale = true;
    world.restart();
    let mut all = bricks(&mut world, 4);
    world.run(Duration::from_secs(4));
    all[..3].iter_mut().for_each(|brick| _ = brick.hello(&mut world));
    let table = made(&mut world, &mut all[..3], "t", quorum(3, 2, 2));
    all[3].hello(&mut world);
    for _ in 0..3 {
        take_all(&mut world, &mut all[..3]);
        world.run(LOOK);
    }
    all[3].message.without_vote = 1;
    take_all(&mut world, &mut all);
    assert_eq!(giving(&world, table), Some(GivingRecord::begin(ServerId(1), ServerId(4))));
    assert_eq!(scale(&mut world, 4, ScaleOrder::Cancel).before, 1);
    pass(&mut world, &mut all, 5);
    all[3].message.without_vote = 0;
    pass(&mut world, &mut all, 5);
    assert_eq!(held(&world, table), [[1, 2, 3], [1, 2, 3]]);
    assert_eq!(order(&mut world, 4, ScaleOrder::Add), None);
    carry_out(&mut world, &mut all);
    assert_eq!(held(&world, table), [[1, 2, 3], [2, 3, 4]]);
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
