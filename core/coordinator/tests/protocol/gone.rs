//! Servers that are dead for good leave a trace until they are back or forgotten.

use crate::harness::*;
use ramhold_base::{ConnId, ServerId, Status};
use ramhold_wire::Header;
use ramhold_wire::status::ServerForget;
use std::time::Duration;

fn gone(world: &mut World) -> Vec<ServerId> {
    world.status().gone.expect("it tells").iter().map(|gone| gone.server).collect()
}

fn expected(world: &mut World) -> u64 {
    world.status().expected.expect("it tells")
}

/// Five servers, of which the one on port 1 dies and is recovered.
fn one_is_dead() -> World {
    let mut world = World::cluster(5);
    world.create("users", buffered(2, 5));
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.kill(1);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    world
}

// B1, J5
#[test]
fn a_server_that_died_for_good_is_gone_since_its_verdict() {
    let mut world = World::cluster(5);
    assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![]));
    world.create("users", buffered(2, 5));
    world.server_mut(2).diligent = false;
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.kill(1);
    world.run_until("dead", |w| w.state().recoveries.len() == 1);
    assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![]), "it is being recovered");
    world.server_mut(2).diligent = true;
    let open: Vec<_> = world.server_mut(2).recovers.drain(..).collect();
    for recover in open {
        world.finish(addr(2), &recover);
    }
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    world.settle_recovered();
    world.run(Duration::from_secs(120));
    let status = world.status();
    assert_eq!(status.servers.len(), 4, "nothing of it is in the list");
    assert_eq!(status.expected, Some(5));
    let reports = status.gone.unwrap();
    let detected = world.state().recoveries.values().next().unwrap().detected;
    assert_eq!((reports.len(), reports[0].server, reports[0].since), (1, ServerId(1), detected));
    assert_eq!(reports[0].address.0, addr(1));
    assert!(!reports[0].cause.is_empty());
    let seen = world.coordinator.seen(world.now);
    assert_eq!((seen.servers_up, seen.servers_expected, seen.servers_gone), (4, 5, 1));
    // G1
    world.restart();
    world.run(Duration::from_secs(1));
    assert_eq!(world.status().gone, Some(reports));
}

// B1, F7
#[test]
fn a_server_that_is_back_with_its_directory_is_not_gone_any_more() {
    let mut world = one_is_dead();
    assert_eq!(gone(&mut world), [ServerId(1)]);
    let back = world.enlist_again(1, Some(ServerId(1)));
    assert!(back > ServerId(5), "another life");
    assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![]));
    // It dies again and again: it is gone once.
    for life in [back, ServerId(7)] {
        world.kill(1);
        world.run_until("recovered", |w| w.is_over(life));
        assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![life]));
        world.enlist_again(1, Some(life));
    }
    // One that died before it was ever gone, and is back before its recovery is over.
    world.kill(2);
    let second = world.enlist_again(2, Some(ServerId(2)));
    world.run_until("recovered", |w| w.is_over(ServerId(2)));
    assert!(world.state().is_up(second));
    assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![]));
}

// B1: seed 870 of the simulator with short tails.
#[test]
fn a_directory_that_is_up_is_not_gone_whatever_late_copies_of_older_lives_came_to() {
    let mut world = World::cluster(5);
    // An older life of the directory on port 1 had asked, and its question comes only now.
    let late = World::enlist_message(1, 99, 1, None);
    world.ask_as(ConnId(77), Header::default(), &late).unwrap().unwrap();
    assert_eq!(world.state().meta.servers, ServerId(6), "nobody could know");
    world.run_until("seen to be nobody", |w| !w.state().servers.contains_key(&ServerId(6)));
    assert!(world.state().is_up(ServerId(1)));
    assert_eq!((expected(&mut world), gone(&mut world)), (5, vec![]));
}

// B1
#[test]
fn a_server_that_is_forgotten_is_expected_no_more() {
    let mut world = one_is_dead();
    let forget = |world: &mut World, server| world.client_anew(&ServerForget { server }).expect("an answer");
    assert_eq!(forget(&mut world, ServerId(2)), Err(Status::NotAllowed), "it is up");
    assert_eq!(forget(&mut world, ServerId(99)), Err(Status::NotFound));
    assert!(forget(&mut world, ServerId(1)).is_ok());
    assert_eq!((expected(&mut world), gone(&mut world)), (4, vec![]));
    assert_eq!(forget(&mut world, ServerId(1)), Err(Status::NotFound));
    world.restart();
    world.run(Duration::from_secs(1));
    assert_eq!((expected(&mut world), gone(&mut world)), (4, vec![]));
    // It is welcome all the same.
    world.enlist_again(1, Some(ServerId(1)));
    assert_eq!(expected(&mut world), 5);
}

// B1
#[test]
fn a_cluster_that_is_stopped_and_started_misses_nobody() {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 4));
    // 'ramhold stop' ends the coordinator first. At the next start the servers come back under new ids.
    for port in 1..=4 {
        world.kill(port);
    }
    world.restart();
    world.run(Duration::from_secs(2));
    for port in 1..=3 {
        world.enlist_again(port, Some(ServerId(u64::from(port))));
    }
    world.run(Duration::from_secs(5));
    assert_eq!(expected(&mut world), 4);
    world.enlist_again(4, Some(ServerId(4)));
    world.run(Duration::from_secs(60));
    assert_eq!((expected(&mut world), gone(&mut world)), (4, vec![]));
}

/// One dies and comes back, one dies and stays away, one dies and is forgotten.
fn story(crash_at: Option<(u64, bool)>) -> (World, u64) {
    let mut world = World::new();
    world.crash_at = crash_at;
    for port in 1..=5 {
        world.enlist(port);
    }
    world.run(Duration::from_millis(500));
    for port in 1..=3 {
        let victim = ServerId(u64::from(port));
        world.kill(port);
        world.run_until("recovered", |w| w.is_over(victim));
        if port == 1 {
            world.enlist_again(1, Some(victim));
        }
    }
    for _ in 0..30 {
        if world.client(&ServerForget { server: ServerId(3) }).is_some() {
            break;
        }
        world.run(Duration::from_millis(500));
    }
    world.run(Duration::from_secs(2));
    let commits = world.commits;
    assert_eq!((expected(&mut world), gone(&mut world)), (4, vec![ServerId(2)]), "{crash_at:?}");
    world.restart();
    world.run(Duration::from_secs(1));
    assert_eq!((expected(&mut world), gone(&mut world)), (4, vec![ServerId(2)]), "{crash_at:?}");
    (world, commits)
}

// B1, G1, G3
#[test]
fn who_is_gone_outlives_a_coordinator_that_dies_at_any_commit() {
    let (_, commits) = story(None);
    assert!(commits > 10, "{commits}");
    for at in 1..=commits {
        for applied in [false, true] {
            story(Some((at, applied)));
        }
    }
}
