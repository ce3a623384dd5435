//! Bricks: their names, their hellos, and what operators see of them. Catalogue: I1, I6.

use crate::brick_rig::*;
use crate::harness::*;
use ramhold_base::limits::{BRICKS_TOLD_MAX, LABEL_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::{ClusterId, DirectoryId, ServerId, Status};
use ramhold_wire::bricks::{BrickHello, BrickWelcome};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Label;
use ramhold_wire::quorum::BrickPlace;
use std::collections::BTreeSet;
use std::time::Duration;

// I1
#[test]
fn a_brick_is_named_once_under_its_token_and_told_when_that_is_stored() {
    let mut world = World::cluster(2);
    let mut brick = Brick::new(101);
    world.store_held = true;
    let first = brick.push(&mut world);
    world.settle();
    assert_eq!(
        told::<BrickWelcome>(&world, first),
        None,
        "an id that is not stored could be given out again"
    );
    world.store_held = false;
    world.settle();
    let welcome = told::<BrickWelcome>(&world, first).unwrap().1.unwrap();
    assert_eq!(welcome.brick, ServerId(3), "ids of servers and bricks are counted together");
    assert_eq!(welcome.cluster, world.state().meta.cluster);
    assert_eq!(welcome.index_secret, world.state().meta.index_secret);
    assert_ne!(welcome.index_secret, 0);
    assert_eq!((welcome.assignment, welcome.siblings), (None, Vec::new()));
    world.restart();
    world.run(Duration::from_secs(3));
    assert_eq!(brick.hello(&mut world).brick, ServerId(3), "a repeated hello, also at the next coordinator");
    assert_eq!(Brick::new(102).hello(&mut world).brick, ServerId(4));
    assert_eq!(world.enlist(3), ServerId(5));
    // The token tells who it is: a copy of it that comes late says nothing else.
    brick.hello(&mut world);
    let late = BrickHello { brick: None, ..brick.message.clone() };
    assert_eq!(Brick { message: late, ..brick.clone() }.ask(&mut world).unwrap().brick, ServerId(3));
    assert_eq!(world.state().bricks.len(), 2);
}

// I1
#[test]
fn the_secret_of_the_index_is_made_for_the_first_brick_and_is_that_of_all() {
    let mut world = World::new();
    let first = Brick::new(101).hello(&mut world);
    assert_ne!(first.index_secret, 0);
    world.enlist(1);
    assert_eq!(world.state().meta.index_secret, first.index_secret);
    world.restart();
    assert_eq!(Brick::new(102).hello(&mut world).index_secret, first.index_secret);
}

// I1, I6
#[test]
fn a_process_that_died_before_it_knew_its_name_has_the_same_one_in_its_next_life() {
    let mut world = World::new();
    let mut brick = Brick::new(101);
    let id = brick.ask(&mut world).unwrap().brick;
    brick.start_again();
    assert_eq!(brick.hello(&mut world).brick, id);
    brick.hello(&mut world);
    let mut all = vec![brick];
    made(&mut world, &mut all, "t", quorum(1, 1, 1));
    world.restart();
    // A directory that has forgotten what it held is another brick.
    let mut forgetful = Brick::new(101);
    forgetful.message.token = 77;
    assert_ne!(forgetful.hello(&mut world).brick, id);
}

// I1
#[test]
fn strangers_and_bad_hellos_are_refused() {
    let mut world = World::cluster(2);
    let brick = bricks(&mut world, 1).remove(0);
    let refused = |world: &mut World, change: &dyn Fn(&mut Brick)| {
        let mut other = brick.clone();
        change(&mut other);
        other.ask(world).unwrap_err()
    };
    let status = refused(&mut world, &|b| b.message.brick = Some(ServerId(2)));
    assert_eq!(status, Status::NotInCluster, "a server is no brick");
    assert_eq!(refused(&mut world, &|b| b.message.brick = Some(ServerId::NONE)), Status::NotInCluster);
    let status = refused(&mut world, &|b| b.message.brick = Some(ServerId(4)));
    assert_eq!(status, Status::NotReady, "the state may be an old copy");
    refused(&mut world, &|b| b.message.brick = Some(ServerId(4)));
    let warnings = world.reports.iter().filter(|report| report.contains("may be an old copy")).count();
    assert_eq!(warnings, 1, "a hello is repeated every second");
    assert_eq!(refused(&mut world, &|b| b.message.directory = DirectoryId(9)), Status::NotAllowed);
    let status = refused(&mut world, &|b| (b.message.directory, b.message.brick) = (DirectoryId(9), None));
    assert_eq!(status, Status::NotAllowed, "the token of another directory");
    assert_eq!(refused(&mut world, &|b| b.cluster = ClusterId(9)), Status::WrongCluster);
    let status = refused(&mut world, &|b| (b.cluster, b.message.brick) = (ClusterId(9), None));
    assert_eq!(status, Status::WrongCluster);
    assert_eq!(refused(&mut world, &|b| b.message.token = 0), Status::BadRequest);
    assert_eq!(refused(&mut world, &|b| b.message.directory = DirectoryId::NONE), Status::BadRequest);
    assert_eq!(refused(&mut world, &|b| b.message.address = Address(addr(0))), Status::BadRequest);
    let label = Label { name: "rack".into(), value: "a".into() };
    let many = vec![label.clone(); LABEL_COUNT_MAX + 1];
    assert_eq!(refused(&mut world, &|b| b.message.labels.clone_from(&many)), Status::BadRequest);
    let long = Label { value: "x".repeat(65), ..label };
    assert_eq!(refused(&mut world, &|b| b.message.labels = vec![long.clone()]), Status::BadRequest);
    assert_eq!(world.state().bricks.len(), 1);
    assert_eq!(world.state().meta.servers, ServerId(3), "a brick that is refused takes no id");
}

// I1
#[test]
fn the_number_of_bricks_is_bounded() {
    let mut world = World::new();
    let named = |world: &mut World, number: u64| {
        let mut brick = Brick::new(101);
        (brick.message.token, brick.message.directory) = (number, DirectoryId(number));
        brick.ask(world).map(|welcome| welcome.brick)
    };
    let most = SERVER_COUNT_MAX as u64;
    for number in 1..=most {
        assert_eq!(named(&mut world, number), Ok(ServerId(number)));
    }
    assert_eq!(named(&mut world, most + 1), Err(Status::TooMany));
    assert_eq!(named(&mut world, most), Ok(ServerId(most)));
}

// I6
#[test]
fn an_earlier_life_is_fenced() {
    let mut world = World::new();
    let mut brick = bricks(&mut world, 1).remove(0);
    let mut before = brick.clone();
    brick.start_again();
    brick.hello(&mut world);
    before.message.address = Address(addr(199));
    assert_eq!(before.ask(&mut world), Err(Status::Fenced));
    before.message.brick = None;
    assert_eq!(before.ask(&mut world), Err(Status::Fenced), "its first hello, which comes late");
    assert_eq!(world.state().bricks[&brick.id()].address, Address(addr(101)));
}

// I1, I4
#[test]
fn siblings_and_clients_are_told_where_a_brick_is_now() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 4);
    made(&mut world, &mut all[..3], "t", quorum(3, 2, 2));
    let places = |ports: [u16; 2], from: u64| {
        let place = |(port, id)| BrickPlace { brick: ServerId(id), address: Address(addr(port)) };
        ports.into_iter().zip(from..).map(place).collect::<Vec<BrickPlace>>()
    };
    assert_eq!(all[0].hello(&mut world).siblings, places([102, 103], 2));
    all[1].start_again();
    all[1].message.address = Address(addr(152));
    // It may run on a copy of the directory while the brick that was heard goes on.
    assert_eq!(all[1].ask(&mut world).err(), Some(Status::Retry));
    assert_eq!(all[0].hello(&mut world).siblings, places([102, 103], 2));
    world.run(Duration::from_secs(3));
    all[1].hello(&mut world);
    let welcome = all[0].hello(&mut world);
    assert_eq!(welcome.siblings, places([152, 103], 2));
    assert_eq!(welcome.assignment, None, "an address is no assignment");
    let tablet = world.describe("t").quorum.unwrap().remove(0);
    assert_eq!(tablet.bricks[1..], places([152, 103], 2));
    assert_eq!(all[3].hello(&mut world).siblings, Vec::new());
    world.restart();
    assert_eq!(world.describe("t").quorum.unwrap()[0].bricks[1..], places([152, 103], 2), "it is stored");
    assert_eq!(all[0].hello(&mut world).siblings, places([152, 103], 2));
}

// I1: hellos of all bricks come every second.
#[test]
fn a_hello_that_says_nothing_new_is_not_stored_and_nobody_is_asked() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 3);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    let commits = world.commits;
    for _ in 0..3 {
        for brick in &mut all {
            brick.message.used_bytes += 1;
            brick.message.without_vote = 1;
            brick.hello(&mut world);
        }
    }
    assert_eq!(world.commits, commits);
    assert!(world.sent.iter().all(|(_, header, _)| header.kind == ramhold_wire::Kind::Reply));
    all[0].message.log_bytes *= 2;
    all[0].hello(&mut world);
    assert_eq!(world.commits, commits + 1);
}

// I1, J5
#[test]
fn the_status_tells_of_each_brick_what_it_last_told() {
    let mut world = World::new();
    assert_eq!(world.status().bricks, Vec::new());
    let zones = [Brick::labelled(101, &[("zone", "a")]), Brick::labelled(102, &[("zone", "b")])];
    let mut all = name_all(&mut world, zones.into());
    made(&mut world, &mut all, "t", quorum(1, 1, 1));
    (all[0].message.used_bytes, all[0].message.without_vote) = (500, 1);
    all[0].start_again();
    all[0].hello(&mut world);
    world.run(Duration::from_secs(7));
    all[1].hello(&mut world);
    let status = world.status();
    assert_eq!((status.tables, status.tablets, status.tablets_recovering), (1, 2, 0));
    let told = &status.bricks[0];
    assert_eq!(
        (told.brick, told.address, &told.labels),
        (ServerId(1), Address(addr(101)), &all[0].message.labels)
    );
    assert_eq!((told.life, told.heard_millis, told.tablets), (2, Some(7000), 1));
    assert_eq!((told.rebuilding, told.log_bytes, told.used_bytes), (1, 1 << 20, 500));
    assert_eq!((status.bricks[1].brick, status.bricks[1].heard_millis), (ServerId(2), Some(0)));
    world.restart();
    let told = world.status().bricks.remove(0);
    assert_eq!((told.life, told.heard_millis, told.tablets, told.used_bytes), (0, None, 1, 0));
}

// I1, J5
#[test]
fn a_cluster_of_bricks_alone_is_not_warned_that_it_has_no_servers() {
    let has_warning = |world: &mut World| {
        world.status().warnings.iter().any(|warning| warning.contains("no server is up that takes tablets"))
    };
    let mut world = World::new();
    assert!(has_warning(&mut world));
    bricks(&mut world, 1);
    assert!(!has_warning(&mut world));
    world.enlist(1);
    world.kill(1);
    world.run_until("its death is known", |w| !w.state().is_up(ServerId(2)));
    assert!(has_warning(&mut world));
}

// I1: traces and stores of clusters without bricks are what they were.
#[test]
fn a_cluster_without_bricks_stores_nothing_about_them() {
    let mut world = World::cluster(2);
    world.create("t", buffered(1, 2));
    let (_, meta) = &world.store["meta"];
    // An array of at most 13 fields, the last one of which is the placement.
    assert!((0x80..=0x8d).contains(&meta[1]), "{meta:02x?}");
    assert!(world.store.keys().all(|key| !key.starts_with("brick") && !key.starts_with("quorum")));
}

// I1, I4: a server leads sessions to bricks while the coordinator is away.
#[test]
fn servers_hear_where_bricks_listen() {
    let mut world = World::cluster(2);
    world.settle();
    let before = world.state().meta.list_version;
    assert_eq!(world.server_mut(1).bricks, None, "there are none");
    let mut all = bricks(&mut world, 3);
    world.settle();
    let told = |world: &mut World, server: u16| world.server_mut(server).bricks.clone();
    let addresses = |ports: &[u16]| Some(ports.iter().map(|port| Address(addr(*port))).collect::<Vec<_>>());
    for server in [1, 2] {
        assert_eq!(told(&mut world, server), addresses(&[101, 102, 103]));
    }
    // Hellos and tables change nothing of that.
    let with_bricks = world.state().meta.list_version;
    assert_eq!(with_bricks, before + 3);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    assert_eq!(world.state().meta.list_version, with_bricks);
    // A brick comes back elsewhere.
    world.run(Duration::from_secs(4));
    all[1].start_again();
    all[1].message.address = Address(addr(202));
    all[1].hello(&mut world);
    world.settle();
    assert_eq!(told(&mut world, 2), addresses(&[101, 202, 103]));
    // A server that comes later is told with its id.
    world.enlist(3);
    assert_eq!(told(&mut world, 3), addresses(&[101, 202, 103]));
}

// I1
#[test]
fn the_number_of_bricks_that_are_told_is_bounded() {
    let mut world = World::cluster(1);
    let count = BRICKS_TOLD_MAX as u16 + 3;
    let mut all = bricks(&mut world, count);
    world.settle();
    let told = world.server_mut(1).bricks.clone().unwrap();
    assert_eq!(told.len(), BRICKS_TOLD_MAX);
    assert_eq!(told[0], Address(addr(101)));
    let others = all[0].hello(&mut world).others;
    assert!(others.len() < BRICKS_TOLD_MAX);
    // Many tables with other bricks.
    for name in 0..30 {
        made(&mut world, &mut all, &format!("t{name}"), quorum(7, 4, 4));
    }
    for brick in &mut all {
        assert!(brick.hello(&mut world).others.len() <= BRICKS_TOLD_MAX);
    }
}

// I1: whoever asks the bricks that one names, and so on, comes to all of them.
#[test]
fn bricks_lead_from_each_to_all() {
    let mut world = World::new();
    let mut all = bricks(&mut world, 20);
    made(&mut world, &mut all, "t", quorum(3, 2, 2));
    made(&mut world, &mut all, "u", quorum(5, 3, 3));
    let named: Vec<Vec<ServerId>> = all
        .iter_mut()
        .map(|brick| {
            let welcome = brick.hello(&mut world);
            assert!(welcome.others.iter().all(|place| place.brick != welcome.brick));
            welcome.others.iter().map(|place| place.brick).collect()
        })
        .collect();
    let ids: Vec<ServerId> = all.iter().map(Brick::id).collect();
    // Three bricks in a row are away, and each brick leads on to the tablet behind its own by three.
    for gap in 0..all.len() {
        let is_away = |id: &ServerId| (gap..gap + 3).any(|at| ids[at % ids.len()] == *id);
        let start = ids[(gap + 3) % ids.len()];
        let mut met = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            let at = ids.iter().position(|it| *it == id).unwrap();
            for next in named[at].iter().filter(|next| !is_away(next)) {
                if met.insert(*next) {
                    open.push(*next);
                }
            }
        }
        assert_eq!(met.len(), ids.len() - 3, "without three from {gap} on");
    }
    let whole = world.describe("t").quorum.unwrap();
    for (at, tablet) in whole.iter().enumerate() {
        let next = &whole[(at + 1) % whole.len()];
        for place in &tablet.bricks {
            let here = ids.iter().position(|id| *id == place.brick).unwrap();
            assert!(next.bricks.iter().all(|next| named[here].contains(&next.brick)));
        }
    }
}
