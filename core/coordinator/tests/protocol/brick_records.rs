//! Records of bricks and quorum tables: they outlive coordinators, and contradictions stop a start. Catalogue: I1, G1, G3.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::{KeyHash, ServerId, TableId};
use ramhold_coordinator::{BrickRecord, Key, Meta, QuorumTableRecord, QuorumTabletRecord};
use ramhold_wire::control::encode_into;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TableDrop, TableOptions, TableTruncate};
use std::time::Duration;

/// Bricks come, a table is made, emptied and dropped, and another one stays.
fn story(crash_at: Option<(u64, bool)>) -> (World, u64) {
    let mut world = World::new();
    world.crash_at = crash_at;
    let mut all: Vec<Brick> = (101..=104).map(Brick::new).collect();
    for brick in &mut all {
        // A brick repeats until it is answered.
        while brick.message.brick.is_none() {
            let rpc = brick.push(&mut world);
            world.settle();
            if let Some((_, Some(welcome))) = told::<ramhold_wire::bricks::BrickWelcome>(&world, rpc) {
                (brick.cluster, brick.message.brick) = (welcome.cluster, Some(welcome.brick));
            }
        }
    }
    let kept = until_answered(&mut world, &mut all, &create("kept", quorum(3, 2, 2))).table;
    let first = until_answered(&mut world, &mut all, &create("t", quorum(4, 3, 2))).table;
    let second = until_answered(&mut world, &mut all, &TableTruncate { table: first }).table;
    until_answered(&mut world, &mut all, &TableDrop { table: second });
    hellos(&mut world, &mut all);
    hellos(&mut world, &mut all);
    assert_eq!(world.state().quorum_tables.keys().copied().collect::<Vec<_>>(), [kept]);
    assert_eq!((kept, first, second), (TableId(1), TableId(2), TableId(3)), "each is made once");
    assert_eq!(world.state().bricks.len(), 4);
    let commits = world.commits;
    (world, commits)
}

/// Every brick says hello, and takes what it hears.
fn hellos(world: &mut World, bricks: &mut [Brick]) {
    for brick in bricks {
        let rpc = brick.push(world);
        world.settle();
        if let Some((_, Some(welcome))) = told::<ramhold_wire::bricks::BrickWelcome>(world, rpc)
            && let Some(assignment) = welcome.assignment
        {
            brick.message.taken = assignment.version;
        }
    }
    world.run(Duration::from_millis(300));
}

fn until_answered<M: ramhold_wire::Message>(
    world: &mut World,
    bricks: &mut [Brick],
    message: &M,
) -> M::Reply {
    hellos(world, bricks);
    let number = world.number();
    for _ in 0..30 {
        match world.ask_as(CLIENT, number, message) {
            Some(Ok(reply)) => return reply,
            // A coordinator that has just started waits for bricks.
            Some(Err(status)) => assert_eq!(status, ramhold_base::Status::NotReady),
            None => {}
        }
        hellos(world, bricks);
    }
    panic!("{:?} was never answered", M::OPCODE);
}

// G1, G3, I1
#[test]
fn a_coordinator_that_dies_at_any_commit_finishes_what_was_begun_with_bricks() {
    let (_, commits) = story(None);
    assert!(commits > 10, "{commits}");
    for at in 1..=commits {
        for applied in [false, true] {
            let (world, _) = story(Some((at, applied)));
            assert!(world.crashes <= 1);
        }
    }
}

// G1, I1
#[test]
fn records_in_the_store_are_those_in_memory() {
    let mut world = World::new();
    let zones = [("a", 101), ("b", 102), ("c", 103)];
    let mut all = zones.map(|(zone, port)| Brick::labelled(port, &[("zone", zone)])).to_vec();
    all = name_all(&mut world, all);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let dropped = made(&mut world, &mut all, "u", quorum(2, 2, 1));
    assert_eq!(world.client(&TableDrop { table: dropped }), None);
    let before = world.state().clone();
    assert_eq!((before.bricks.len(), before.quorum_tables.len()), (3, 2));
    world.restart();
    let after = world.state();
    assert_eq!((&after.bricks, &after.quorum_tables), (&before.bricks, &before.quorum_tables));
    assert_eq!(after.meta.assignments, before.meta.assignments);
    assert!(after.quorum_tables[&dropped].dropping);
}

/// Writes a record into the store, and starts a coordinator on it. Why it ends, if it does.
fn start_on<T: minicbor::Encode<()>>(world: &mut World, key: Key, record: &T) -> Option<String> {
    let mut bytes = vec![1];
    encode_into(&mut bytes, record);
    let (_, before) = world.store.insert(key.to_string(), (1, bytes)).expect("there was one");
    world.restart();
    let ended = world.exit.take().map(|(code, reason)| {
        assert_eq!(code, 1);
        reason
    });
    world.store.insert(key.to_string(), (1, before));
    ended
}

// G3, I1
#[test]
fn records_that_contradict_themselves_or_others_stop_the_start() {
    let mut world = World::cluster(1);
    let mut all = bricks(&mut world, 6);
    let none = TableOptions { durability: Durability::None, ..buffered(0, 1) };
    let masters = world.create("m", none);
    let id = made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let good: QuorumTableRecord = world.state().quorum_tables[&id].clone();
    assert_eq!(start_on(&mut world, Key::QuorumTable(id), &good), None);
    let options = |change: &dyn Fn(&mut QuorumTableRecord)| {
        let mut record = good.clone();
        change(&mut record);
        record
    };
    let tablet = |change: &dyn Fn(&mut QuorumTabletRecord)| options(&|r| change(&mut r.tablets[1]));
    let bad = [
        options(&|r| r.options.quorum = None),
        options(&|r| r.options.quorum.as_mut().unwrap().write = 1),
        options(&|r| r.options.quorum.as_mut().unwrap().bricks = 4),
        options(&|r| r.options.durability = Durability::None),
        options(&|r| r.tablets.clear()),
        options(&|r| r.tablets.truncate(1)),
        options(&|r| r.tablets.reverse()),
        options(&|r| r.version = 0),
        options(&|r| r.version += 1),
        tablet(&|t| t.first = KeyHash(t.first.0 + 1)),
        tablet(&|t| t.last = KeyHash(t.last.0 - 1)),
        tablet(&|t| t.epoch = 0),
        tablet(&|t| t.bricks = vec![t.bricks[0]; 3]),
        tablet(&|t| t.bricks.reverse()),
        tablet(&|t| t.bricks.truncate(2)),
        tablet(&|t| t.bricks[2] = ServerId(99)),
        tablet(&|t| t.bricks[0] = ServerId(1)),
    ];
    for record in bad {
        let reason =
            start_on(&mut world, Key::QuorumTable(id), &record).unwrap_or_else(|| panic!("{record:?}"));
        assert!(reason.contains(&Key::QuorumTable(id).to_string()), "{reason}");
    }
    let other = QuorumTableRecord { id: masters, ..good.clone() };
    let reason = start_on(&mut world, Key::QuorumTable(id), &other).unwrap();
    assert!(reason.contains("it says it is quorum/"), "{reason}");
    let brick = all[0].id();
    world.restart();
    let good: BrickRecord = world.state().bricks[&brick].clone();
    assert_eq!(start_on(&mut world, Key::Brick(brick), &good), None);
    let bad = [
        BrickRecord { assigned: good.assigned + 1, ..good.clone() },
        BrickRecord { assigned: 0, ..good.clone() },
        BrickRecord { id: ServerId(99), ..good.clone() },
    ];
    for record in bad {
        let reason = start_on(&mut world, Key::Brick(brick), &record).unwrap_or_else(|| panic!("{record:?}"));
        assert!(reason.contains("brick/") || reason.contains("quorum/"), "{reason}");
    }
    // A key without a sound record, and an id that nobody gave out.
    let cut = world.store[&Key::Brick(brick).to_string()].1[..5].to_vec();
    let whole = world.store.insert(Key::Brick(brick).to_string(), (1, cut)).unwrap();
    world.restart();
    assert!(world.exit.take().is_some());
    world.store.insert(Key::Brick(brick).to_string(), whole);
    world.restart();
    let meta = world.state().meta.clone();
    let reason = start_on(&mut world, Key::Meta, &Meta { servers: ServerId(2), ..meta.clone() }).unwrap();
    assert!(reason.contains("ids that are in use"), "{reason}");
    let reason = start_on(&mut world, Key::Meta, &Meta { assignments: 1, ..meta }).unwrap();
    assert!(reason.contains("an assignment that nobody gave"), "{reason}");
}
