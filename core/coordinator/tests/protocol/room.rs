//! Several recoveries at once, and not enough room for all of them.

use crate::harness::*;
use ramhold_base::{KeyHash, RecoveryId, ServerId};
use ramhold_coordinator::{CoordinatorConfig, TabletRecord};
use ramhold_wire::Opcode;
use ramhold_wire::recovery::{Recover, RecoveryOutcome, ReplicaReport, RoomReport, TabletStat};
use ramhold_wire::status::{RecoveryPhase, RecoveryReport};
use std::net::SocketAddr;
use std::time::Duration;

/// Memory of each of the three servers that are left. A recovery needs a segment of 4 KiB: so there is room for one, not for
/// two.
const MEMORY: u64 = 2 << 10;

/// Six servers with a tablet each; the first three die, and nobody finishes by himself.
fn three_dead(room: RoomReport) -> World {
    three_dead_of(6, room)
}

/// Six servers, the first so many with a tablet each.
fn three_dead_of(owners: u32, room: RoomReport) -> World {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, owners));
    for dead in 1..=3 {
        world.give_head(ServerId(dead), 2, &[4, 5, 6]);
    }
    for port in 4..=6 {
        (world.server_mut(port).diligent, world.server_mut(port).room) = (false, room);
    }
    (1..=3).for_each(|port| world.kill(port));
    world.run_until("all three are dead", |w| w.state().recoveries.len() == 3);
    world.run(Duration::from_secs(5));
    world
}

/// The newest turn of each partition that a master was told to recover, of servers that are not recovered yet.
fn at_work(world: &World) -> Vec<(SocketAddr, Recover)> {
    let told = world.servers.iter().flat_map(|(at, s)| s.recovers.iter().map(|r| (*at, r.clone())));
    let newest = |(_, r): &(SocketAddr, Recover)| {
        let later = world.servers.values().flat_map(|s| &s.recovers);
        later.filter(|o| o.crashed == r.crashed).all(|o| (o.recovery, o.attempt) <= (r.recovery, r.attempt))
    };
    let mut told: Vec<_> = told.filter(newest).filter(|(_, r)| !world.is_over(r.crashed)).collect();
    told.sort_by_key(|(_, r)| r.crashed);
    told.dedup_by_key(|(_, r)| r.crashed);
    told
}

fn dead_at_work(world: &World) -> Vec<ServerId> {
    at_work(world).iter().map(|(_, recover)| recover.crashed).collect()
}

fn report_of(world: &mut World, crashed: ServerId) -> RecoveryReport {
    world.status().recoveries.into_iter().find(|report| report.crashed == crashed).expect("it is open")
}

fn room(frames: u64, log_bytes: u64) -> RoomReport {
    RoomReport { frames, log_bytes, lone_segments: 0 }
}

fn finish_one(world: &mut World) {
    let oldest = dead_at_work(world)[0];
    finish_one_of(world, oldest);
}

fn finish_one_of(world: &mut World, crashed: ServerId) {
    let turns = at_work(world);
    let (at, recover) =
        turns.into_iter().find(|(_, recover)| recover.crashed == crashed).expect("it is at work");
    world.finish(at, &recover);
    world.run(Duration::from_millis(100));
    assert!(world.is_over(recover.crashed));
    world.settle_recovered();
    world.run(Duration::from_millis(100));
}

// F7
#[test]
fn recoveries_for_which_there_is_room_run_side_by_side() {
    let world = three_dead(room(1000, 1 << 30));
    assert_eq!(dead_at_work(&world), [ServerId(1), ServerId(2), ServerId(3)]);
    assert!(at_work(&world).iter().all(|(_, recover)| recover.early), "before they are replicated");
}

// F7
#[test]
fn without_room_for_all_dead_logs_are_replayed_one_after_the_other() {
    for short in [room(1000, MEMORY), room(0, 0)] {
        let mut world = three_dead(short);
        for number in 1..=3 {
            let dead = ServerId(number);
            assert_eq!(dead_at_work(&world), [dead], "{short:?}");
            assert!(at_work(&world)[0].1.early, "whatever frames there are");
            let first = report_of(&mut world, dead);
            assert_eq!((first.phase, first.waits_for), (RecoveryPhase::Replaying, None));
            for waiting in number + 1..=3 {
                let waiting = report_of(&mut world, ServerId(waiting));
                assert_eq!(waiting.phase, RecoveryPhase::WaitingForRoom);
                let why = waiting.waits_for.expect("it says why");
                assert!(why.contains("bytes of memory"), "{why}");
            }
            finish_one(&mut world);
        }
        assert!(world.status().recoveries.is_empty());
    }
}

// F7
#[test]
fn a_recovery_that_waits_goes_on_when_room_is_told_of() {
    let mut world = three_dead(room(1000, MEMORY));
    assert_eq!(dead_at_work(&world), [ServerId(1)]);
    assert!(world.status().warnings.iter().any(|w| w.contains("2 recoveries wait for room")));
    (4..=6).for_each(|port| world.server_mut(port).room.log_bytes = 3 << 10);
    world.run(Duration::from_secs(1));
    assert_eq!(dead_at_work(&world), [ServerId(1), ServerId(2)]);
    (4..=6).for_each(|port| world.server_mut(port).room.log_bytes = 1 << 30);
    world.run(Duration::from_secs(1));
    assert_eq!(dead_at_work(&world), [ServerId(1), ServerId(2), ServerId(3)]);
}

// F7
#[test]
fn a_new_coordinator_begins_with_the_oldest_again() {
    let mut world = three_dead(room(1000, MEMORY));
    finish_one(&mut world);
    assert_eq!(dead_at_work(&world), [ServerId(2)]);
    let before = at_work(&world)[0].1.recovery;
    world.restart();
    world.run_until("told anew", |w| at_work(w)[0].1.recovery > before);
    world.run(Duration::from_secs(3));
    assert_eq!(dead_at_work(&world), [ServerId(2)]);
    finish_one(&mut world);
    assert_eq!(dead_at_work(&world), [ServerId(3)]);
}

// F7
#[test]
fn one_that_lacks_something_does_not_hold_up_the_others() {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 6));
    (2..=3).for_each(|dead| world.give_head(ServerId(dead), 2, &[4, 5, 6]));
    for port in 4..=6 {
        (world.server_mut(port).diligent, world.server_mut(port).room) = (false, room(1000, MEMORY));
    }
    (1..=3).for_each(|port| world.kill(port));
    world.run_until("all three are dead", |w| w.state().recoveries.len() == 3);
    world.run(Duration::from_secs(5));
    assert!(!report_of(&mut world, ServerId(1)).missing.is_empty());
    assert_eq!(dead_at_work(&world), [ServerId(2)]);
    finish_one(&mut world);
    assert_eq!(dead_at_work(&world), [ServerId(3)]);
}

// F7, F6
#[test]
fn when_a_master_has_no_room_after_all_only_the_oldest_goes_on() {
    let mut world = three_dead(room(1000, 1 << 30));
    let turns = at_work(&world);
    let failed: Vec<RecoveryId> = turns.iter().map(|(_, recover)| recover.recovery).collect();
    for (at, recover) in turns {
        let outcome = RecoveryOutcome::Failed { reason: "no frames".into(), no_room: true };
        world.server(at, &recovered(&recover, outcome)).expect("an answer").expect("taken");
    }
    world.run(Duration::from_secs(20));
    let again = at_work(&world);
    let is_again = |crashed: u64| {
        let turn =
            again.iter().find(|(_, recover)| recover.crashed == ServerId(crashed)).expect("one before");
        turn.1.attempt > 1 || !failed.contains(&turn.1.recovery)
    };
    assert!(is_again(1), "the oldest is tried again: {again:?}");
    assert!(!is_again(2) && !is_again(3), "the others wait: {again:?}");
    assert!(report_of(&mut world, ServerId(2)).waits_for.is_some());
    finish_one(&mut world);
    world.run_until("the others go on", |w| {
        at_work(w).iter().all(|(_, recover)| recover.attempt > 1 || !failed.contains(&recover.recovery))
    });
}

/// The turn of the only one at work fails for want of room.
fn find_no_room(world: &mut World, crashed: ServerId) {
    let turns = at_work(world);
    let (at, recover) = turns.iter().find(|(_, recover)| recover.crashed == crashed).expect("it is at work");
    let outcome = RecoveryOutcome::Failed { reason: "no frames".into(), no_room: true };
    world.server(*at, &recovered(recover, outcome)).expect("an answer").expect("taken");
}

fn turns_of(world: &World, crashed: ServerId) -> usize {
    world.servers.values().flat_map(|s| &s.recovers).filter(|recover| recover.crashed == crashed).count()
}

// F7, F6
#[test]
fn who_finds_no_room_alone_leaves_it_to_one_that_fits_as_a_whole() {
    let mut world = three_dead(room(1000, MEMORY));
    let turns = |world: &World| [1, 2, 3].map(|dead| turns_of(world, ServerId(dead)) > 0);
    assert_eq!(turns(&world), [true, false, false]);
    find_no_room(&mut world, ServerId(1));
    world.run(Duration::from_secs(1));
    assert_eq!(turns(&world), [true, true, false], "one at a time");
    find_no_room(&mut world, ServerId(2));
    world.run(Duration::from_secs(1));
    assert_eq!(turns(&world), [true, true, true]);
    finish_one_of(&mut world, ServerId(3));
    world.run_until("the oldest is tried again", |w| {
        at_work(w).iter().any(|(_, it)| it.crashed == ServerId(1) && it.attempt > 1)
    });
}

// F7, F6: parts of many recoveries would fill the memory, and none would be over.
#[test]
fn and_to_nobody_that_does_not_fit() {
    let mut world = three_dead(room(1000, MEMORY));
    (4..=6).for_each(|port| world.server_mut(port).room.log_bytes = MEMORY / 2);
    world.run(Duration::from_secs(1));
    for _ in 2..6 {
        let told = turns_of(&world, ServerId(1));
        find_no_room(&mut world, ServerId(1));
        world.run_until("the oldest is tried again", |w| turns_of(w, ServerId(1)) > told);
    }
    assert_eq!([2, 3].map(|dead| turns_of(&world, ServerId(dead))), [0, 0]);
}

// F7: seeds 342 and 581 of `--tight`: all servers together have room, and none has enough for a partition.
#[test]
fn what_fits_nobody_is_divided_into_smaller_parts() {
    let config = CoordinatorConfig { partition_bytes_min: 40_000, ..CoordinatorConfig::new(addr(7400)) };
    let mut world = World::cluster(4);
    world.config = CoordinatorConfig { segment_bytes: 4096, ..config };
    world.restart();
    world.run(Duration::from_secs(1));
    let table = world.create("users", buffered(2, 1));
    let everything =
        TabletStat { table, first: KeyHash(0), last: KeyHash(u64::MAX), bytes: 30_000, records: 300 };
    let head = head_report(2, 1, 0, 400, &[1], &[everything]);
    for port in 2..=4 {
        let server = world.server_mut(port);
        server.replicas.insert(ServerId(1), vec![head.clone()]);
        server.diligent = false;
        server.room = room(1000, 12_000);
    }
    world.kill(1);
    let parts = |w: &World| at_work(w).first().map(|(_, it)| it.ranges.len());
    world.run_until("told", |w| parts(w) == Some(1));
    for attempt in 1..=3 {
        world.run_until("told", |w| at_work(w)[0].1.attempt == attempt);
        assert_eq!(parts(&world), Some(1), "another may have more room");
        find_no_room(&mut world, ServerId(1));
    }
    world.run_until("divided anew", |w| parts(w) != Some(1));
    let (halves, ranges) = (parts(&world).unwrap(), at_work(&world)[0].1.ranges.clone());
    assert!((2..=3).contains(&halves), "{halves}");
    assert_eq!((ranges[0].first, ranges[halves - 1].last), (KeyHash(0), KeyHash(u64::MAX)));
    let division = at_work(&world)[0].1.recovery;
    let turn_of = |w: &World, partition: u32| {
        let mut told =
            w.servers.iter().flat_map(|(at, server)| server.recovers.iter().map(|it| (*at, it.clone())));
        told.rfind(|(_, it)| (it.recovery, it.partition) == (division, partition))
    };
    for partition in 0..halves as u32 {
        world.run_until("told", |w| turn_of(w, partition).is_some());
        let (at, recover) = turn_of(&world, partition).unwrap();
        world.finish(at, &recover);
    }
    world.run_until("over", |w| w.is_over(ServerId(1)));
}

// F7: it says nothing of how much room there is.
#[test]
fn what_fails_for_another_reason_or_for_frames_is_not_divided_into_smaller_parts() {
    for frames in [1000, 0] {
        let mut world = three_dead(room(frames, 1 << 30));
        world.run(Duration::from_secs(2));
        let oldest = |w: &World| at_work(w).into_iter().find(|(_, it)| it.crashed == ServerId(1));
        for attempt in 1..=6 {
            world.run_until("told", |w| oldest(w).is_some_and(|(_, it)| it.attempt == attempt));
            let (at, recover) = oldest(&world).unwrap();
            let outcome = RecoveryOutcome::Failed { reason: "why".into(), no_room: frames == 0 };
            world.server(at, &recovered(&recover, outcome)).expect("an answer").expect("taken");
        }
        assert_eq!(world.reports.iter().filter(|text| text.contains("divided_finer")).count(), 0);
    }
}

/// Server 1 dies, and then the one that has taken over from it before devices have it. So there are two logs, of which the
/// second is with so many backups; and there is no room.
fn two_logs_and_no_room(backups: u16) -> (World, ServerId) {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 1));
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    (2..=6).for_each(|port| world.server_mut(port).diligent = false);
    world.kill(1);
    world.run_until("told", |w| !at_work(w).is_empty());
    let (at, first) = at_work(&world).remove(0);
    world.finish(at, &first);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    world.tell_settled(false);
    let owner = world.server_mut(at.port()).id;
    let others: Vec<u16> = (2..=6).filter(|port| addr(*port) != at).take(usize::from(backups)).collect();
    world.give_head(owner, 2, &others);
    (2..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    world.kill(at.port());
    for _ in 0..6 {
        world.run_until("told", |w| at_work(w).iter().any(|(_, it)| it.crashed == owner));
        if at_work(&world)[0].1.earlier.is_empty() {
            break;
        }
        world.run(Duration::from_secs(5));
        find_no_room(&mut world, owner);
        let told = turns_of(&world, owner);
        world.run_until("told again", |w| turns_of(w, owner) > told);
    }
    (world, owner)
}

// F7, D2: its frames may be what is waited for, by nobody but that recovery itself.
#[test]
fn a_kept_log_is_let_go_for_want_of_room_when_a_dead_owner_has_it_all() {
    let (mut world, owner) = two_logs_and_no_room(2);
    let newest = at_work(&world).remove(0).1;
    assert_eq!((newest.crashed, newest.earlier.len()), (owner, 0), "from its own log alone");
    assert!(!world.state().servers.contains_key(&ServerId(1)), "its frames are free");
    finish_one(&mut world);
}

// D2
#[test]
fn but_not_when_only_one_backup_has_it() {
    let (world, owner) = two_logs_and_no_room(1);
    let newest = at_work(&world).remove(0).1;
    assert_eq!((newest.crashed, newest.earlier.len()), (owner, 1));
    assert!(world.state().servers[&ServerId(1)].entry.kept);
}

/// Two owners of one tablet die, one after the other. The buffers of the second one's backups had all of it, so its log is
/// whole; the third notes both logs.
fn whole_and_older_log() -> (World, [ServerId; 2]) {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 1));
    (2..=6).for_each(|port| world.server_mut(port).diligent = false);
    let second = pass_on(&mut world, ServerId(1));
    world.tell_settled(false);
    let third = pass_on(&mut world, second);
    let piece = live_piece(&world);
    let noted: Vec<(ServerId, bool)> = piece.earlier_positions().map(|e| (e.server, e.whole)).collect();
    assert_eq!((piece.owner, noted), (third, vec![(second, true), (ServerId(1), true)]));
    (world, [second, third])
}

/// Everybody else has the log of a server, which dies; who has taken over from it.
fn pass_on(world: &mut World, owner: ServerId) -> ServerId {
    kill_owner(world, owner);
    let (at, recover) = at_work(world).remove(0);
    world.finish(at, &recover);
    world.run_until("recovered", |w| w.is_over(owner));
    world.server_mut(at.port()).id
}

fn kill_owner(world: &mut World, owner: ServerId) {
    let others: Vec<u16> = world.state().all_up().map(|s| s.entry.address.0.port()).collect();
    let (of_owner, others): (Vec<u16>, Vec<u16>) =
        others.into_iter().partition(|port| world.servers[&addr(*port)].id == owner);
    world.give_head(owner, 2, &others);
    world.kill(of_owner[0]);
    world.run_until("told", |w| dead_at_work(w) == [owner]);
}

fn live_piece(world: &World) -> TabletRecord {
    world.state().tables.values().next().expect("a table").tablets[0].clone()
}

// F6, F7: the division would name a log that nobody has any more, and fail for ever.
#[test]
fn an_older_log_is_not_let_go_while_a_division_names_it() {
    let (mut world, [second, third]) = whole_and_older_log();
    kill_owner(&mut world, third);
    (2..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    let logs = |world: &World| -> Vec<ServerId> {
        let (_, newest) = at_work(world).remove(0);
        newest.earlier.iter().map(|log| log.crashed).collect()
    };
    for _ in 0..30 {
        world.run(Duration::from_secs(1));
        let gone: Vec<ServerId> =
            logs(&world).into_iter().filter(|log| !world.state().servers.contains_key(log)).collect();
        assert_eq!(gone, [], "the newest turn is to read them");
    }
    assert_eq!(logs(&world), [ServerId(1), second], "it is at work");
    find_no_room(&mut world, third);
    world.run_until("told to read what is needed", |w| logs(w) == [second]);
    assert!(!world.state().servers.contains_key(&ServerId(1)), "its frames are free");
    finish_one(&mut world);
}

fn is_listed(world: &World, server: ServerId) -> bool {
    world.state().servers.contains_key(&server)
}

/// Backups on these ports have the log of a server, and nobody else.
fn leave_log_to(world: &mut World, owner: ServerId, ports: &[u16]) {
    for (at, server) in &mut world.servers {
        if !ports.contains(&at.port()) {
            server.replicas.remove(&owner);
        }
    }
}

// F7, D2: the older log takes frames, and the whole one has all of the piece.
#[test]
fn an_older_log_is_let_go_for_want_of_frames_when_two_backups_have_the_whole_one() {
    let (mut world, [second, third]) = whole_and_older_log();
    (2..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    world.run(Duration::from_secs(30));
    assert!(!is_listed(&world, ServerId(1)), "its frames are free");
    assert!(is_listed(&world, second));
    let piece = live_piece(&world);
    assert!(piece.owner == third && piece.is_recovered_from(second));
}

// D2: those that had it have died, and others have no frames.
#[test]
fn a_kept_log_stays_while_its_piece_is_in_one_memory_alone() {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 1));
    (2..=6).for_each(|port| world.server_mut(port).diligent = false);
    let owner = pass_on(&mut world, ServerId(1));
    world.tell_settled(false);
    (2..=6).for_each(|port| world.server_mut(port).room = RoomReport { lone_segments: 1, ..room(0, 0) });
    world.run(Duration::from_secs(60));
    assert!(is_listed(&world, ServerId(1)) && live_piece(&world).owner == owner);
    (2..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    world.run(Duration::from_secs(30));
    assert!(!is_listed(&world, ServerId(1)), "its frames are free");
}

// F6: one piece of the dead owner is in an older log too, and that lacks something. Its other tablets do not wait for it.
#[test]
fn an_older_log_that_lacks_something_holds_up_its_own_pieces_alone() {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 6));
    (1..=6).for_each(|port| world.server_mut(port).diligent = false);
    let owner = pass_on(&mut world, ServerId(1));
    let away = (2..=6).find(|port| world.server_mut(*port).id != owner).expect("four others");
    let away_id = world.server_mut(away).id;
    leave_log_to(&mut world, ServerId(1), &[away]);
    pass_on(&mut world, away_id);
    let named =
        |world: &World| world.state().tables.values().flat_map(|t| t.tablets.clone()).collect::<Vec<_>>();
    let is_of_both = |piece: &TabletRecord| piece.owner == owner && piece.is_recovered_from(ServerId(1));
    assert!(named(&world).iter().any(is_of_both));
    assert!(named(&world).iter().any(|piece| piece.owner == owner && !is_of_both(piece)));

    kill_owner(&mut world, owner);
    world.run(Duration::from_secs(3));
    let (at, recover) = at_work(&world).into_iter().find(|(_, r)| r.crashed == owner).expect("divided");
    world.finish(at, &recover);
    world.run(Duration::from_secs(3));
    assert!(named(&world).iter().filter(|piece| piece.owner == owner).all(is_of_both));
    let missing = report_of(&mut world, owner).missing;
    assert!(missing.iter().any(|text| text.contains("of the log of s1")), "{missing:?}");

    world.enlist_again(away, Some(away_id));
    world.give_head(ServerId(1), 2, &[away]);
    world.run_until("recovered", |w| w.is_over(owner));
    let is_from_both =
        |piece: &TabletRecord| piece.is_recovered_from(owner) && piece.is_recovered_from(ServerId(1));
    assert_eq!(named(&world).iter().filter(|piece| is_from_both(piece)).count(), 1);
}

// D2: should its owner die, the rest of what is live stands in the older log alone.
#[test]
fn an_older_log_stays_while_the_whole_one_is_with_one_backup_only() {
    let (mut world, [second, third]) = whole_and_older_log();
    let up: Vec<u16> = world.state().all_up().map(|s| s.entry.address.0.port()).collect();
    let one = up.into_iter().find(|port| world.servers[&addr(*port)].id != third).unwrap();
    leave_log_to(&mut world, second, &[one]);
    (2..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    world.run(Duration::from_secs(60));
    assert!(is_listed(&world, ServerId(1)));
    let noted: Vec<ServerId> = live_piece(&world).earlier_positions().map(|e| e.server).collect();
    assert_eq!(noted, [second, ServerId(1)]);
}

// D2: the dead owner's buffers had all of the piece, and power took a part of them.
#[test]
fn a_log_that_was_recovered_with_a_loss_is_not_whole() {
    let mut world = World::cluster(6);
    world.create("users", buffered(2, 1));
    (2..=6).for_each(|port| world.server_mut(port).diligent = false);
    let second = pass_on(&mut world, ServerId(1));
    world.tell_settled(false);
    let cut = ReplicaReport { cut: true, ..head_report(2, 1, 0, 300, &[1], &[]) };
    let port = world.state().servers[&second].entry.address.0.port();
    for other in (2..=6).filter(|other| *other != port) {
        world.server_mut(other).replicas.insert(second, vec![cut.clone()]);
    }
    world.kill(port);
    world.run_until("dead", |w| !w.state().is_up(second));
    world.enlist_again(1, Some(ServerId(1)));
    world.enlist_again(port, Some(second));
    [1, port].into_iter().for_each(|port| world.server_mut(port).diligent = false);
    world.run_until("told", |w| dead_at_work(w) == [second]);
    let (at, recover) = at_work(&world).remove(0);
    assert_eq!(recover.streams[0].segments[0].end, Some(300));
    world.finish(at, &recover);
    world.run_until("recovered", |w| w.is_over(second));
    let noted: Vec<(ServerId, bool)> =
        live_piece(&world).earlier_positions().map(|e| (e.server, e.whole)).collect();
    assert_eq!(noted, [(second, false), (ServerId(1), true)]);
    (1..=6).for_each(|port| world.server_mut(port).room = room(0, 0));
    world.run(Duration::from_secs(60));
    assert!(is_listed(&world, ServerId(1)), "it alone has what was lost");
}

// F7, F6: or two that fail in turns would let each other in for ever.
#[test]
fn who_is_asked_again_after_a_failure_keeps_its_place() {
    let mut world = three_dead(room(1000, 1 << 30));
    let (at, oldest) = at_work(&world).remove(0);
    assert_eq!(oldest.crashed, ServerId(1));
    for port in 4..=6 {
        world.server_mut(port).deaf.insert(Opcode::Fence);
    }
    let outcome = RecoveryOutcome::Failed { reason: "no frames".into(), no_room: true };
    world.server(at, &recovered(&oldest, outcome)).expect("an answer").expect("taken");
    world.run(Duration::from_secs(2));
    assert!(!report_of(&mut world, ServerId(1)).missing.is_empty(), "nobody has answered yet");
    for waiting in [ServerId(2), ServerId(3)] {
        assert!(report_of(&mut world, waiting).waits_for.is_some(), "{waiting}");
    }
    (4..=6).for_each(|port| world.server_mut(port).deaf.clear());
    world.run_until("the oldest goes on", |w| {
        at_work(w).iter().any(|(_, it)| {
            it.crashed == ServerId(1) && (it.recovery, it.attempt) > (oldest.recovery, oldest.attempt)
        })
    });
}
