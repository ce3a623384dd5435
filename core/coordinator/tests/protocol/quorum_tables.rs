//! Quorum tables: creating, describing, truncating and dropping them. Catalogue: I1, A1.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::limits::BRICK_TABLET_COUNT_MAX;
use ramhold_base::{KeyHash, ServerId, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::BrickTablet;
use ramhold_wire::shortage::{DomainLevel, Shortage};
use ramhold_wire::table::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn tablets(world: &mut World, name: &str) -> Vec<BrickTablet> {
    world.describe(name).quorum.expect("a quorum table")
}

/// The bricks of each tablet, by their numbers.
fn held(world: &mut World, name: &str) -> Vec<Vec<u64>> {
    let of = |tablet: &BrickTablet| tablet.bricks.iter().map(|place| place.brick.raw()).collect();
    tablets(world, name).iter().map(of).collect()
}

/// The shortage for which a creation is refused.
fn lacking(world: &mut World, options: TableOptions) -> Option<Shortage> {
    let number = world.number();
    let rpc = world.push(CLIENT, number, &create("lacking", options));
    world.settle();
    let (status, shortage) = told(world, rpc)?;
    shortage.filter(|_| status == Status::TooFewBackups)
}

// A1, I1
#[test]
fn a_table_is_answered_when_enough_bricks_of_each_tablet_have_it() {
    for (write, read, enough) in [(2, 2, 2), (3, 1, 3), (2, 3, 3)] {
        let mut world = World::new();
        let mut all = bricks(&mut world, 6);
        let message = create("t", quorum(3, write, read));
        assert_eq!(world.client(&message), None);
        assert_eq!(held(&mut world, "t"), [[1, 2, 3], [4, 5, 6]]);
        for brick in &mut all[..enough] {
            let assignment = brick.hello(&mut world).assignment.expect("a tablet");
            assert_eq!(world.client(&message), None, "it was told, and says nothing yet");
            brick.message.taken = assignment.version;
            brick.hello(&mut world);
        }
        for brick in &mut all[3..2 + enough] {
            brick.take(&mut world);
            assert_eq!(world.client(&message), None, "one brick of the second tablet is missing");
        }
        all[2 + enough].take(&mut world);
        let created = world.client(&message).unwrap().unwrap();
        assert_eq!(created.table, TableId(1));
        assert_eq!(world.client(&message), Some(Ok(created)));
        assert_eq!(world.client_anew(&message), Some(Err(Status::TableExists)));
    }
}

// I1
#[test]
fn bricks_get_tablets_by_their_weights_and_a_weight_may_change() {
    let mut world = World::new();
    let weights = [None, Some(50), Some(300), Some(150)];
    let mut all: Vec<Brick> = (1..)
        .zip(weights)
        .map(|(port, weight)| {
            let mut brick = Brick::new(port);
            brick.message.weight = weight;
            brick.hello(&mut world);
            brick.take(&mut world);
            brick
        })
        .collect();
    let mut counts = BTreeMap::new();
    for table in 0..6 {
        let name = format!("t{table}");
        made(&mut world, &mut all, &name, quorum(1, 1, 1));
        held(&mut world, &name).concat().into_iter().for_each(|brick| *counts.entry(brick).or_insert(0) += 1);
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [4, 2, 12, 6], "24 tablets for a weight of 600");
    // The next tables fill up a brick that has become heavier.
    all[1].message.weight = Some(10_000);
    all[1].hello(&mut world);
    made(&mut world, &mut all, "next", quorum(1, 1, 1));
    assert_eq!(held(&mut world, "next"), [[2], [2], [2], [2]]);
    for weight in [0, 10_001] {
        all[0].message.weight = Some(weight);
        assert_eq!(all[0].ask(&mut world).err(), Some(Status::BadRequest));
    }
}

// I5
#[test]
fn a_description_tells_the_zones_of_the_bricks_that_have_one() {
    let mut world = World::new();
    let mut all = vec![
        Brick::labelled(1, &[("zone", "a"), ("host", "x")]),
        Brick::labelled(2, &[("zone", "b")]),
        Brick::new(3),
        Brick::labelled(4, &[("zone", "c")]),
    ];
    for brick in &mut all {
        brick.hello(&mut world);
        brick.take(&mut world);
    }
    made(&mut world, &mut all, "t", quorum(2, 2, 1));
    let held: Vec<u64> = held(&mut world, "t").concat();
    let zones: Vec<(u64, String)> =
        world.describe("t").zones.into_iter().flatten().map(|it| (it.brick.raw(), it.zone)).collect();
    let all_zones = [(1, "a"), (2, "b"), (4, "c")];
    let expected = all_zones.iter().filter(|(brick, _)| held.contains(brick));
    assert_eq!(zones, expected.map(|(brick, zone)| (*brick, (*zone).to_owned())).collect::<Vec<_>>());
    assert!(zones.len() >= 2);
}

// A1, I1
#[test]
fn a_client_that_waits_is_answered_when_the_last_brick_says_so() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 1);
    let number = world.number();
    let rpc = world.push(CLIENT, number, &create("t", quorum(1, 1, 1)));
    world.settle();
    assert!(world.answer_to(rpc).is_none());
    all[0].take(&mut world);
    assert_eq!(told(&world, rpc), Some((Status::Ok, Some(TableCreated { table: TableId(1) }))));
}

// I1, I4
#[test]
fn a_brick_is_told_its_own_tablets_and_tables() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 6);
    let options = TableOptions { slots: true, durability: Durability::Synced, ..quorum(3, 2, 2) };
    let id = made(&mut world, &mut all, "t", options);
    let description = world.describe("t");
    let whole = description.quorum.unwrap();
    for (brick, tablet) in [(0, 0), (2, 0), (3, 1), (5, 1)] {
        let told = &all[brick].assignment;
        assert_eq!(told.tablets, [whole[tablet].clone()]);
        assert_eq!((told.tables.len(), told.dropped.len()), (1, 0));
        let table = &told.tables[0];
        assert_eq!((table.table, table.name.as_str(), table.seed), (id, "t", description.seed));
        assert_eq!((table.slots, table.durability), (true, Durability::Synced));
        assert_eq!(Some(table.quorum), description.options.quorum);
    }
    assert_eq!(whole[0].epoch, 1);
    // The second table adds to the assignment.
    made(&mut world, &mut all, "u", quorum(6, 4, 3));
    let told = &all[5].assignment;
    assert_eq!(told.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["t", "u"]);
    assert_eq!((told.tablets.len(), told.tablets[1].bricks.len()), (2, 6));
    assert_eq!(all[5].hello(&mut world).siblings.len(), 5);
}

// I1
#[test]
fn tablets_are_halves_of_halves_and_as_many_as_there_are_sets_of_bricks() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 11);
    for (name, slots) in [("t", false), ("u", true)] {
        made(&mut world, &mut all, name, TableOptions { slots, ..quorum(3, 2, 2) });
        let ranges: Vec<(u64, u64)> =
            tablets(&mut world, name).iter().map(|tablet| (tablet.first.0, tablet.last.0)).collect();
        let quarter = 1 << 62;
        let expected = [(0, quarter - 1), (quarter, 2 * quarter - 1), (2 * quarter, u64::MAX)];
        assert_eq!(ranges, expected);
    }
    // Two bricks were left over by the first table; they go first in the second.
    assert_eq!(held(&mut world, "t"), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
    assert_eq!(held(&mut world, "u"), [[1, 10, 11], [2, 3, 4], [5, 6, 7]]);
    let listed = world.client(&TableList {}).unwrap().unwrap().tables;
    assert_eq!(listed.iter().map(|table| table.tablets).collect::<Vec<_>>(), [3, 3]);
    // With fewer bricks than two sets there is one tablet.
    made(&mut world, &mut all, "v", quorum(6, 4, 3));
    assert_eq!(tablets(&mut world, "v").len(), 1);
}

// I1
#[test]
fn numbers_that_are_no_quorum_are_refused() {
    let mut world = World::new();
    bricks(&mut world, 8);
    for bricks in 0..=8 {
        for write in 0..=9 {
            for read in 0..=9 {
                let is_one = (1..=7).contains(&bricks)
                    && (1..=bricks).contains(&write)
                    && (1..=bricks).contains(&read)
                    && write + read > bricks
                    && 2 * write > bricks;
                let name = format!("t{bricks}{write}{read}");
                let answer = world.client_anew(&create(&name, quorum(bricks, write, read)));
                assert_eq!(answer, (!is_one).then_some(Err(Status::BadRequest)), "{name}");
            }
        }
    }
    let good = quorum(3, 2, 2);
    let bad = [
        TableOptions { durability: Durability::None, ..good.clone() },
        TableOptions { replicas: 3, ..good.clone() },
        TableOptions { zone: Some("a".into()), ..good.clone() },
        TableOptions { tablets: 4097, ..good.clone() },
    ];
    for options in bad {
        assert_eq!(world.client_anew(&create("t", options)), Some(Err(Status::BadRequest)));
    }
    assert_eq!(world.client_anew(&create("", good.clone())), Some(Err(Status::NameTooLong)));
    assert_eq!(world.client_anew(&create(&"x".repeat(256), good)), Some(Err(Status::NameTooLong)));
}

// I1, H1
#[test]
fn the_bricks_of_a_tablet_are_in_different_zones_and_racks() {
    let mut world = World::new();
    let place = |(port, (zone, rack)): (u16, (&str, &str))| {
        let host = format!("h{port}");
        Brick::labelled(port, &[("zone", zone), ("rack", rack), ("host", &host)])
    };
    // Two racks in each of three zones; zone c has twice as many bricks.
    let places =
        [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1"), ("c", "1"), ("c", "2"), ("c", "2")];
    let mut all = name_all(&mut world, (101..).zip(places).map(place).collect());
    let zones: BTreeMap<u64, (&str, &str)> = (1..).zip(places).collect();
    for index in 0..6 {
        let name = format!("t{index}");
        made(&mut world, &mut all, &name, quorum(3, 2, 2));
        for bricks in held(&mut world, &name) {
            let of: Vec<&str> = bricks.iter().map(|brick| zones[brick].0).collect();
            assert!(["a", "b", "c"].iter().all(|zone| of.contains(zone)), "{bricks:?}");
        }
    }
    made(&mut world, &mut all, "six", quorum(6, 4, 3));
    let six = held(&mut world, "six").remove(0);
    let mut racks: Vec<(&str, &str)> = six.iter().map(|brick| zones[brick]).collect();
    racks.dedup();
    assert_eq!(racks.len(), 6, "two of each zone, in its two racks: {six:?}");
}

// I1, D3
#[test]
fn too_few_failure_domains_are_a_shortage() {
    let mut world = World::new();
    let shortage =
        Shortage { replicas: 3, up: 0, level: DomainLevel::Server, own_counts: true, bricks: true };
    assert_eq!(lacking(&mut world, quorum(3, 2, 2)), Some(shortage));
    let hosts = [(101, "x"), (102, "x"), (103, "x"), (104, "y")];
    let mut all = hosts.map(|(port, host)| Brick::labelled(port, &[("host", host)])).to_vec();
    all = name_all(&mut world, all);
    let shortage = Shortage { up: 2, level: DomainLevel::Host, ..shortage };
    let number = world.number();
    let rpc = world.push(CLIENT, number, &create("t", quorum(3, 2, 2)));
    world.settle();
    assert_eq!(told(&world, rpc), Some((Status::TooFewBackups, Some(shortage))));
    assert!(world.state().quorum_tables.is_empty());
    made(&mut world, &mut all, "two", quorum(2, 2, 1));
    // Servers are no bricks.
    world.enlist(1);
    assert_eq!(lacking(&mut world, quorum(3, 2, 2)), Some(shortage));
    // The refusal is final for its number, also when there are enough.
    let third = name_all(&mut world, vec![Brick::labelled(105, &[("host", "z")])]);
    world.restart();
    all.iter_mut().chain(&mut third.clone()).for_each(|brick| drop(brick.hello(&mut world)));
    let rpc = world.push(CLIENT, number, &create("t", quorum(3, 2, 2)));
    world.settle();
    assert_eq!(told(&world, rpc), Some((Status::TooFewBackups, Some(shortage))));
    all.extend(third);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
}

// I1
#[test]
fn a_brick_that_is_not_heard_gets_no_tablet() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    // One that was named, and says nothing under its name.
    Brick::new(109).hello(&mut world);
    world.run(Duration::from_secs(3));
    all.iter_mut().for_each(|brick| drop(brick.hello(&mut world)));
    let shortage =
        Shortage { replicas: 3, up: 3, level: DomainLevel::Server, own_counts: true, bricks: true };
    assert_eq!(lacking(&mut world, quorum(4, 3, 2)), Some(Shortage { replicas: 4, ..shortage }));
    world.run(Duration::from_secs(2));
    all[0].hello(&mut world);
    all[1].hello(&mut world);
    world.run(Duration::from_millis(900));
    assert_eq!(lacking(&mut world, quorum(4, 3, 2)), Some(Shortage { replicas: 4, ..shortage }));
    world.run(Duration::from_millis(100));
    assert_eq!(lacking(&mut world, quorum(3, 2, 2)), Some(Shortage { up: 2, ..shortage }));
    all[2].hello(&mut world);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
}

// A1, I1
#[test]
fn a_coordinator_that_has_just_started_waits_for_bricks_before_it_refuses() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    world.restart();
    let message = create("t", quorum(3, 2, 2));
    assert_eq!(world.client(&message), Some(Err(Status::NotReady)));
    all[0].hello(&mut world);
    all[1].hello(&mut world);
    assert_eq!(world.client(&message), Some(Err(Status::NotReady)), "nothing was decided");
    all[2].hello(&mut world);
    assert_eq!(world.client(&message), None);
    take_all(&mut world, &mut all);
    assert!(world.client(&message).unwrap().is_ok());
    // A brick that stays away is not waited for.
    world.restart();
    let more = create("u", quorum(3, 2, 2));
    assert_eq!(world.client(&more), Some(Err(Status::NotReady)));
    world.run(Duration::from_secs(3));
    assert_eq!(world.client(&more), Some(Err(Status::TooFewBackups)));
}

// A1, G1, I1
#[test]
fn a_creation_ends_also_at_the_next_coordinator() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    let message = create("t", quorum(3, 2, 2));
    assert_eq!(world.client(&message), None);
    all[0].take(&mut world);
    world.restart();
    assert_eq!(world.client(&message), None, "its result is known, and no brick has told this coordinator");
    all[1].take(&mut world);
    assert_eq!(world.client(&message), None);
    all[0].hello(&mut world);
    let created = world.client(&message).unwrap().unwrap();
    world.restart();
    assert_eq!(world.client(&message), None);
    take_all(&mut world, &mut all);
    assert_eq!(world.client(&message), Some(Ok(created)));
    assert_eq!(world.state().quorum_tables.len(), 1);
}

// I1
#[test]
fn what_a_brick_has_taken_counts_by_its_life_and_by_versions_that_were_given_out() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 1);
    let message = create("t", quorum(1, 1, 1));
    assert_eq!(world.client(&message), None);
    // A version of a state that was lost: the brick is assigned anew.
    for taken in [1000, u64::MAX] {
        all[0].message.taken = taken;
        let assigned = all[0].hello(&mut world).assignment.unwrap();
        assert_eq!(assigned.tablets.len(), 1);
        assert!(assigned.version > 1000, "a brick may pass over what is older than what it has");
        assert_eq!(world.client(&message), None);
        assert!(world.reports.iter().any(|report| report.contains("may be an old copy")));
    }
    all[0].take(&mut world);
    assert!(world.client(&message).unwrap().is_ok());
    let drop = TableDrop { table: TableId(1) };
    assert_eq!(world.client(&drop), None);
    all[0].take(&mut world);
    assert_eq!(world.client(&drop), Some(Ok(Default::default())));
    // A later life may have less.
    made(&mut world, &mut all, "u", quorum(1, 1, 1));
    all[0].start_again();
    all[0].message.taken = 0;
    all[0].hello(&mut world);
    let more = create("v", quorum(1, 1, 1));
    assert_eq!(world.client(&more), None);
    assert_eq!(all[0].hello(&mut world).assignment.unwrap().tablets.len(), 2);
    assert_eq!(world.client(&more), None);
    all[0].take(&mut world);
    assert!(world.client(&more).unwrap().is_ok());
}

// I1
#[test]
fn a_hello_that_was_overtaken_takes_nothing_back() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 2);
    let message = create("t", quorum(2, 2, 1));
    assert_eq!(world.client(&message), None);
    let late = all[0].clone();
    all[0].take(&mut world);
    assert!(late.ask(&mut world).unwrap().assignment.is_some());
    all[1].take(&mut world);
    assert!(world.client(&message).unwrap().is_ok());
}

// A1, I1
#[test]
fn a_table_is_described_by_name_and_by_id_and_is_listed() {
    let mut world = World::cluster(2);
    let mut all = bricks(&mut world, 3);
    let first = world.create("masters", buffered(1, 2));
    let id = made(&mut world, &mut all, "bricks", quorum(3, 2, 2));
    let last = world.create("more", buffered(1, 1));
    let described = world.describe("bricks");
    assert_eq!((described.table, described.name.as_str(), described.tablets.len()), (id, "bricks", 0));
    assert_eq!((described.reclassing, described.shortage, described.outside), (0, None, None));
    assert_eq!(described.options, quorum(3, 2, 2));
    let tablet = &described.quorum.as_ref().unwrap()[0];
    assert_eq!((tablet.table, tablet.first, tablet.last), (id, KeyHash(0), KeyHash(u64::MAX)));
    let by_id = world.client(&TableDescribe { name: String::new(), table: id }).unwrap().unwrap();
    assert_eq!(by_id, described);
    assert_eq!(world.describe("masters").quorum, None);
    let listed = world.client(&TableList {}).unwrap().unwrap().tables;
    assert_eq!(listed.iter().map(|table| table.table).collect::<Vec<_>>(), [first, id, last]);
    assert_eq!((listed[1].name.as_str(), listed[1].tablets, listed[1].losses), ("bricks", 1, 0));
    assert_eq!(listed[1].options, quorum(3, 2, 2));
    let status = world.status();
    assert_eq!((status.tables, status.tablets), (3, 4));
    // One name, one table, of whatever kind.
    assert_eq!(world.client_anew(&create("masters", quorum(3, 2, 2))), Some(Err(Status::TableExists)));
    assert_eq!(world.client_anew(&create("bricks", buffered(1, 1))), Some(Err(Status::TableExists)));
}

// A1, I1: an assignment has to fit a frame.
#[test]
fn the_number_of_tablets_of_a_brick_is_bounded() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 1);
    let longest = "x".repeat(250);
    let asked = |world: &mut World, index: u32| {
        let number = world.number();
        let header = Header { unacknowledged: number.sequence, ..number };
        world.ask_as(CLIENT, header, &create(&format!("{index:05}{longest}"), quorum(1, 1, 1)))
    };
    for index in 0..BRICK_TABLET_COUNT_MAX {
        assert_eq!(asked(&mut world, index), None);
    }
    assert_eq!(asked(&mut world, BRICK_TABLET_COUNT_MAX), Some(Err(Status::TooManyTables)));
    all[0].take(&mut world);
    assert_eq!(all[0].assignment.tablets.len(), BRICK_TABLET_COUNT_MAX as usize, "all of them in one answer");
    assert_eq!(world.client(&TableDrop { table: TableId(7) }), None);
    all[0].take(&mut world);
    made(&mut world, &mut all, "there is room again", quorum(1, 1, 1));
}

// A1, I1
#[test]
fn a_drop_waits_for_the_bricks_that_are_there_and_the_record_for_all() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    let id = made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let drop = TableDrop { table: id };
    assert_eq!(world.client(&drop), None);
    let by_name = TableDescribe { name: "t".into(), table: TableId::NONE };
    assert_eq!(world.client(&by_name), Some(Err(Status::UnknownTable)));
    assert_eq!(world.client(&TableList {}).unwrap().unwrap().tables, []);
    let namesake = made(&mut world, &mut all[..2], "t", quorum(2, 2, 1));
    assert_ne!(namesake, id);
    assert_eq!(all[0].assignment.dropped, [id], "it is named until all bricks have heard it");
    assert_eq!(world.client(&drop), None, "the third brick was just heard");
    world.run(Duration::from_secs(2));
    assert_eq!(world.client(&drop), None);
    world.run(Duration::from_secs(1));
    assert_eq!(world.client(&drop), Some(Ok(Default::default())), "it is silent now");
    assert!(world.state().quorum_tables.contains_key(&id), "it may come back, and has to hear it");
    all[0].hello(&mut world);
    made(&mut world, &mut all[..1], "u", quorum(1, 1, 1));
    assert!(world.state().quorum_tables.contains_key(&id), "also after others have told something new");
    assert_eq!(world.client_anew(&drop), Some(Ok(Default::default())));
    world.restart();
    all[2].start_again();
    all[2].take(&mut world);
    assert_eq!(all[2].assignment.dropped, [id]);
    assert!(world.state().quorum_tables.contains_key(&id), "the others have told an earlier coordinator");
    take_all(&mut world, &mut all);
    assert!(!world.state().quorum_tables.contains_key(&id));
    assert_eq!(world.client_anew(&drop), Some(Err(Status::UnknownTable)));
    assert_eq!(world.client(&drop), Some(Ok(Default::default())));
    assert_eq!(world.describe("t").table, namesake);
}

// A1, G1, I1
#[test]
fn a_drop_ends_also_at_the_next_coordinator_and_when_nobody_took_the_table() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 2);
    let message = create("t", quorum(2, 2, 1));
    assert_eq!(world.client(&message), None);
    let drop = TableDrop { table: TableId(1) };
    assert_eq!(world.client(&drop), None);
    assert!(world.client(&message).unwrap().is_ok(), "made and dropped");
    world.restart();
    assert_eq!(world.client(&drop), None, "a brick may be there that this coordinator has not heard yet");
    all[0].take(&mut world);
    world.run(Duration::from_millis(2900));
    all[0].hello(&mut world);
    assert_eq!(world.client(&drop), None);
    world.run(Duration::from_millis(200));
    assert_eq!(world.client(&drop), Some(Ok(Default::default())));
    all[1].take(&mut world);
    assert_eq!(all[1].assignment.tables, []);
    assert!(world.state().quorum_tables.is_empty());
}

// A1, I1
#[test]
fn an_emptied_table_has_another_id_and_is_otherwise_the_same() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 6);
    let old = made(&mut world, &mut all, "t", TableOptions { slots: true, ..quorum(3, 2, 2) });
    let before = world.describe("t");
    let number = world.number();
    let message = TableTruncate { table: old };
    assert_eq!(world.ask_as(CLIENT, number, &message), None);
    take_all(&mut world, &mut all[..5]);
    assert_eq!(world.ask_as(CLIENT, number, &message), None, "one still has the old table");
    all[5].take(&mut world);
    let new = world.ask_as(CLIENT, number, &message).unwrap().unwrap().table;
    let after = world.describe("t");
    assert_eq!((after.table, after.seed, &after.options), (new, before.seed, &before.options));
    let anew = |tablet: &BrickTablet| BrickTablet { table: new, ..tablet.clone() };
    assert_eq!(after.quorum.unwrap(), before.quorum.unwrap().iter().map(anew).collect::<Vec<_>>());
    assert_eq!(all[0].assignment.dropped, [old]);
    assert_eq!(all[0].assignment.tablets.iter().map(|tablet| tablet.table).collect::<Vec<_>>(), [new]);
    assert_eq!(world.state().quorum_tables.keys().copied().collect::<Vec<_>>(), [new]);
    assert_eq!(world.ask_as(CLIENT, number, &message).unwrap().unwrap().table, new);
    assert_eq!(world.client_anew(&message), Some(Err(Status::UnknownTable)));
}

// A8, I1
#[test]
fn a_quorum_table_is_neither_altered_nor_divided() {
    let mut world = World::cluster(3);
    let mut all = bricks(&mut world, 3);
    let table = made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let alters = [
        TableAlter { table, durability: Some(Durability::Synced), replicas: None, zone: None },
        TableAlter { table, durability: None, replicas: Some(2), zone: None },
        TableAlter { table, durability: None, replicas: None, zone: Some("a".into()) },
    ];
    for alter in alters {
        assert_eq!(world.client_anew(&alter), Some(Err(Status::Unsupported)));
    }
    let divisions =
        [Division::Parts { count: 2 }, Division::Split { at: KeyHash(1 << 60) }, Division::Join { at: None }];
    for division in divisions {
        assert_eq!(world.client_anew(&TableDivide { table, division }), Some(Err(Status::Unsupported)));
    }
    let before = world.describe("t");
    world.kill(1);
    world.run_until("its death is known", |w| !w.state().is_up(ServerId(1)));
    assert_eq!(world.describe("t"), before, "servers are nothing to it");
    assert_eq!(world.client(&TableDrop { table }), None);
    take_all(&mut world, &mut all);
    assert_eq!(world.client(&TableDrop { table }), Some(Ok(Default::default())));
    let division = Division::Join { at: None };
    assert_eq!(world.client_anew(&TableDivide { table, division }), Some(Err(Status::UnknownTable)));
}
