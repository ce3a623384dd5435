//! Crash recoveries: from the verdict to the last tablet.

use crate::harness::*;
use ramhold_base::{Epoch, KeyHash, SegmentId, ServerId, ShardId, Status, StreamId, TableId, Version};
use ramhold_coordinator::CoordinatorConfig;
use ramhold_wire::Opcode;
use ramhold_wire::membership::{CeilingRaise, Durability, HeadRecord, StreamRegister};
use ramhold_wire::recovery::*;
use ramhold_wire::status::{LossAcknowledge, RecoveriesRequest, RecoveryPhase};
use ramhold_wire::table::*;
use std::time::Duration;

fn everything(table: TableId, bytes: u64) -> TabletStat {
    TabletStat { table, first: KeyHash(0), last: KeyHash(u64::MAX), bytes, records: bytes / 100 }
}

/// Four servers, one tablet at server 1, which is then killed; nobody finishes by himself.
pub fn killed() -> (World, TableId) {
    let mut world = World::cluster(4);
    let id = world.create("users", buffered(2, 1));
    assert_eq!(world.describe("users").tablets[0].owner, ServerId(1));
    for port in 2..=4 {
        world.server_mut(port).diligent = false;
    }
    world.kill(1);
    (world, id)
}

pub fn running(world: &World) -> Option<(std::net::SocketAddr, Recover)> {
    let told = |s: &Server| s.recovers.last().cloned();
    let all = world.servers.iter().filter_map(|(at, s)| told(s).map(|r| (*at, r)));
    all.max_by_key(|(_, r)| (r.recovery, r.attempt))
}

/// The result that made the tables of these ranges live where they are now, once more.
fn as_published(world: &mut World, recover: &Recover) -> Recovered {
    let place = |r: &PartitionRange| {
        let tablets = &world.state().tables[&r.table].tablets;
        let tablet = tablets.iter().find(|t| t.first == r.first).expect("every range became a tablet");
        Assignment { shard: tablet.shard, stream: tablet.stream, first_segment: tablet.first_segment }
    };
    let assignments = recover.ranges.iter().filter(|r| r.partition == recover.partition).map(place).collect();
    recovered(
        recover,
        RecoveryOutcome::Done {
            assignments,
            bytes: 1000,
            records: 10,
            times: Default::default(),
            own_bytes: None,
        },
    )
}

// F2, F5
#[test]
fn a_crash_is_followed_by_a_recovery_and_the_tablet_serves_elsewhere() {
    let mut world = World::cluster(4);
    let id = world.create("users", buffered(2, 4));
    world.give_head(ServerId(1), 2, &[2, 3]);
    world.kill(1);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    let description = world.describe("users");
    assert_eq!(description.table, id);
    assert_covered(&description);
    assert!(description.tablets.iter().all(|t| t.state == TabletState::Serving && t.owner != ServerId(1)));
    assert!(world.state().servers[&ServerId(1)].entry.kept, "devices may not have all");
    world.settle_recovered();
    assert!(!world.state().servers.contains_key(&ServerId(1)));
    let report = &world.client(&RecoveriesRequest {}).unwrap().unwrap().recoveries[0];
    assert_eq!(report.phase, RecoveryPhase::Done);
    assert_eq!((report.tablets, report.partitions, report.partitions_live), (1, 1, 1));
    assert!(report.done_millis.is_some());
    assert!(report.cause.contains("refuses"), "{}", report.cause);
    assert!(world.state().losses.is_empty());
}

// D2, F6: by its own number, at the positions that its ranges had there, also under the next coordinator.
#[test]
fn what_is_not_settled_is_recovered_from_two_logs() {
    let (mut world, id) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, first) = running(&world).unwrap();
    assert!(first.earlier.is_empty());
    world.finish(at, &first);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    world.run(Duration::from_secs(60));
    assert!(world.state().servers[&ServerId(1)].entry.kept, "for as long as nobody has told");
    world.restart();
    let piece = world.state().tables[&id].tablets[0].clone();
    let earlier = piece.earlier.unwrap();
    let there = first.ranges[0];
    assert_eq!(
        (earlier.server, earlier.stream, earlier.first_segment),
        (ServerId(1), there.stream, there.first_segment)
    );
    let backups: Vec<u16> = (2..=4).filter(|port| addr(*port) != at).collect();
    world.give_head(piece.owner, 2, &backups);
    world.kill(at.port());
    world.run_until("told", |w| running(w).is_some_and(|(_, r)| r.crashed == piece.owner));
    let (again, second) = running(&world).unwrap();
    let [log] = &second.earlier[..] else { panic!("{second:?}") };
    assert_eq!((log.crashed, log.ranges.len()), (ServerId(1), 1));
    assert!(log.recovery > second.recovery, "a number of its own");
    assert_eq!((log.ranges[0].stream, log.ranges[0].first_segment), (there.stream, there.first_segment));
    assert_eq!(second.ranges[0].first_segment, piece.first_segment);
    assert_eq!(log.streams[0].segments.len(), 1);
    assert!(second.early, "it is live before it is replicated, too");
    world.finish(again, &second);
    world.run_until("recovered", |w| w.is_over(piece.owner));
    let last = world.state().tables[&id].tablets[0].clone();
    let logs: Vec<ServerId> = last.earlier_positions().map(|earlier| earlier.server).collect();
    assert_eq!(logs, [piece.owner, ServerId(1)], "should its owner die, too");
    world.settle_recovered();
    world.run(Duration::from_secs(1));
    assert!(world.state().tables[&id].tablets[0].earlier_positions().next().is_none());
    assert!(world.state().all_up().count() == world.state().servers.len(), "both logs are let go");
}

// F2
#[test]
fn a_recovery_waits_for_what_is_missing_says_so_and_goes_on_by_itself() {
    let (mut world, _) = killed();
    world.run(Duration::from_secs(3));
    assert!(running(&world).is_none());
    let status = world.status();
    assert_eq!(status.recoveries[0].phase, RecoveryPhase::Incomplete);
    assert!(status.recoveries[0].missing[0].contains("head"), "{:?}", status.recoveries[0].missing);
    assert!(!status.recoveries[0].missing.is_empty());
    assert_eq!(world.describe("users").tablets[0].state, TabletState::Recovering);
    world.give_head(ServerId(1), 2, &[3]);
    world.run(Duration::from_secs(5));
    assert!(running(&world).is_some());
    assert!(world.state().losses.is_empty(), "the directory of the dead server has not come back");
}

// D8, F2
#[test]
fn a_head_below_the_recorded_epoch_is_never_used() {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 1));
    let record =
        HeadRecord { shard: ShardId(0), stream: StreamId(2), segment: SegmentId(1), epoch: Epoch(3) };
    world.server(addr(1), &record).unwrap().unwrap();
    world.give_head(ServerId(1), 2, &[2]);
    world.kill(1);
    world.run(Duration::from_secs(4));
    assert!(running(&world).is_none());
    let current = head_report(2, 1, 3, 400, &[1], &[]);
    world.server_mut(3).replicas.insert(ServerId(1), vec![current]);
    world.run(Duration::from_secs(5));
    let sources: Vec<ServerId> =
        running(&world).unwrap().1.streams[0].segments[0].sources.iter().map(|s| s.backup).collect();
    assert_eq!(sources, [ServerId(3)]);
}

// F4: what the masters of a large division are told is more than may wait for the store at once, and none of it is dropped.
#[test]
fn masters_of_a_large_division_are_told_by_portions() {
    const SEGMENT_COUNT: u64 = 300_000;
    let mut world = World::cluster(4);
    let config = CoordinatorConfig { partition_bytes_max: 20_000, ..CoordinatorConfig::new(addr(7400)) };
    world.config = CoordinatorConfig { segment_bytes: 4096, ..config };
    world.restart();
    world.run(Duration::from_secs(1));
    let id = world.create("users", buffered(2, 1));
    for port in 2..=4 {
        world.server_mut(port).deaf.insert(Opcode::Recover);
    }
    world.kill(1);
    world.run(Duration::from_secs(3));
    let digest: Vec<u64> = (1..=SEGMENT_COUNT).collect();
    let head = head_report(2, SEGMENT_COUNT, 0, 500, &digest, &[everything(id, 600_000)]);
    let closed = ReplicaReport { closed: true, opening: None, ..head_report(2, 1, 0, 500, &[], &[]) };
    let closed = |segment| ReplicaReport { segment: SegmentId(segment), ..closed.clone() };
    let held = (1..SEGMENT_COUNT).map(closed).chain([head]).collect();
    world.store_held = true;
    world.server_mut(3).replicas.insert(ServerId(1), held);
    world.run(Duration::from_secs(3));
    let unheard = |world: &World| world.servers.values().map(|server| server.unheard).sum::<u32>();
    assert_eq!(unheard(&world), 0, "the division is not stored");
    world.store_held = false;
    world.run(Duration::from_millis(200));
    let partitions = world.status().recoveries[0].partitions;
    assert!(partitions >= 36, "{partitions}");
    // The first ones are due again: nobody has answered.
    assert!(unheard(&world) >= partitions, "{}", unheard(&world));
    let dropped = world.reports.iter().find(|text| text.contains("dropped"));
    assert_eq!(dropped, None);
}

// F3, F6
#[test]
fn a_large_tablet_is_divided_and_each_partition_goes_live_by_itself() {
    let config = CoordinatorConfig { partition_bytes_max: 20_000, ..CoordinatorConfig::new(addr(7400)) };
    let mut world = World::cluster(4);
    world.config = CoordinatorConfig { segment_bytes: 4096, ..config };
    world.restart();
    world.run(Duration::from_secs(1));
    let id = world.create("users", buffered(2, 1));
    let head = head_report(2, 1, 0, 500, &[1], &[everything(id, 100_000)]);
    world.server_mut(3).replicas.insert(ServerId(1), vec![head]);
    for port in 2..=4 {
        world.server_mut(port).diligent = false;
    }
    world.kill(1);
    world.run_until("told", |w| running(w).is_some());
    let (at, first) = running(&world).unwrap();
    let partitions = first.ranges.iter().map(|r| r.partition).max().unwrap() + 1;
    assert!(partitions >= 6, "{partitions}");
    assert!(first.ranges.iter().all(|r| r.table == id && r.first_segment == SegmentId(1)));
    world.finish(at, &first);
    world.settle();
    let tablets = world.describe("users").tablets;
    assert_covered(&world.describe("users"));
    let serving = tablets.iter().filter(|t| t.state == TabletState::Serving).count();
    assert_eq!(serving, 1, "one part is live, the others are not waited for");
    let ports = [2, 3, 4];
    for port in ports {
        world.server_mut(port).diligent = true;
        let told = world.server_mut(port).recovers.clone();
        for recover in told {
            world.finish(addr(port), &recover);
        }
    }
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    assert_covered(&world.describe("users"));
    assert_eq!(world.describe("users").tablets.len() as u32, partitions);
    let reports = world.client(&RecoveriesRequest {}).unwrap().unwrap().recoveries;
    let report = &reports[0];
    let steps = report.steps;
    assert!(steps.suspected_before.is_some() && steps.asked <= steps.fenced && steps.lease_over.is_some());
    assert_eq!(steps.last_live, report.parts.iter().filter_map(|part| part.live).max());
    let mut live: Vec<u32> = report
        .parts
        .iter()
        .filter(|p| p.accepted <= p.reported && p.live.is_some())
        .map(|p| p.partition)
        .collect();
    live.sort_unstable();
    assert!(live.into_iter().eq(0..partitions), "{:?}", report.parts);
    assert_eq!(report.parts.iter().map(|part| part.records).sum::<u64>(), report.records);
}

// F3: as many masters as there are share a log, unless that would leave them with scraps.
#[test]
fn every_master_gets_its_share() {
    for (bytes_min, partitions) in [(1000, 3), (60_000, 2), (200_000, 1)] {
        let config = CoordinatorConfig::new(addr(7400));
        let mut world = World::cluster(4);
        world.config = CoordinatorConfig { segment_bytes: 4096, partition_bytes_min: bytes_min, ..config };
        world.restart();
        world.run(Duration::from_secs(1));
        let id = world.create("users", buffered(2, 1));
        let head = head_report(2, 1, 0, 500, &[1], &[everything(id, 100_000)]);
        world.server_mut(3).replicas.insert(ServerId(1), vec![head]);
        world.kill(1);
        world.run_until("told", |w| running(w).is_some());
        let (_, recover) = running(&world).unwrap();
        let told = recover.ranges.iter().map(|r| r.partition).max().unwrap() + 1;
        assert_eq!(told, partitions, "at least {bytes_min}");
    }
}

// F3: where masters are unlike, those with more room take over more, and nobody more than two even shares.
#[test]
fn a_master_with_more_room_gets_more() {
    // Room of the three that are left, and how many partitions of how many each gets.
    let even = 100_000;
    let cases = [
        ([even, even, even], [1, 1, 1]),
        ([even, even, even + 10_000], [1, 1, 1]),
        ([even, even, 10 * even], [1, 1, 4]),
        ([even, 10 * even, 10 * even], [0, 3, 3]),
        ([0, 0, even], [1, 1, 4]),
    ];
    for (room, wanted) in cases {
        let mut world = World::cluster(4);
        let config = CoordinatorConfig::new(addr(7400));
        world.config = CoordinatorConfig { segment_bytes: 512, partition_bytes_min: 1000, ..config };
        world.restart();
        world.run(Duration::from_secs(1));
        let id = world.create("users", buffered(2, 1));
        let head = head_report(2, 1, 0, 500, &[1], &[everything(id, 100_000)]);
        world.server_mut(3).replicas.insert(ServerId(1), vec![head]);
        for (port, log_bytes) in (2..=4).zip(room) {
            let server = world.server_mut(port);
            (server.diligent, server.room.log_bytes) = (false, log_bytes);
        }
        world.kill(1);
        world.run_until("told", |w| running(w).is_some());
        world.settle();
        let told = (2..=4).map(|port| world.servers[&addr(port)].recovers.len());
        assert_eq!(told.collect::<Vec<_>>(), wanted, "{room:?}");
    }
}

// F3, F7: also when several are recovered at once, if there is plenty of room for all that.
#[test]
fn masters_with_more_room_get_more_of_several_dead_logs() {
    // Frames of each that is left, how many die, and how many partitions of all each gets.
    let cases = [(1000, 2, [3, 3, 2, 6]), (50, 2, [2, 2, 2, 2]), (1000, 3, [3, 3, 3, 0])];
    for (frames, dead, wanted) in cases {
        let mut world = World::cluster(6);
        let config = CoordinatorConfig::new(addr(7400));
        world.config = CoordinatorConfig { segment_bytes: 512, partition_bytes_min: 1000, ..config };
        world.restart();
        world.run(Duration::from_secs(1));
        let id = world.create("users", buffered(2, 6));
        (1..=dead).for_each(|port| world.kill(port));
        let left = dead + 1..=6;
        for port in left.clone() {
            let server = world.server_mut(port);
            let log_bytes = if port == 6 { 10_000_000 } else { 1_000_000 };
            (server.diligent, server.room) = (false, RoomReport { frames, log_bytes, lone_segments: 0 });
        }
        world.run_until("all are dead", |w| w.state().recoveries.len() == usize::from(dead));
        for number in 1..=dead {
            let head = head_report(2, 1, 0, 500, &[1], &[everything(id, 20_000)]);
            world.server_mut(6).replicas.insert(ServerId(number.into()), vec![head]);
        }
        let is_begun = |w: &World, number: u16| {
            w.servers.values().flat_map(|s| &s.recovers).any(|r| r.crashed == ServerId(number.into()))
        };
        world.run_until("all are told", |w| (1..=dead).all(|number| is_begun(w, number)));
        world.settle();
        let told: Vec<usize> = left.map(|port| world.servers[&addr(port)].recovers.len()).collect();
        assert_eq!(told, wanted[..told.len()], "{frames} frames, {dead} dead");
    }
}

// F3: its statistics are of all tablets of the table there, each of which has its part of them.
#[test]
fn several_tablets_of_one_table_are_shared_like_one() {
    for slots in [false, true] {
        let mut world = World::cluster(4);
        let config = CoordinatorConfig::new(addr(7400));
        world.config = CoordinatorConfig { segment_bytes: 4096, partition_bytes_min: 1000, ..config };
        world.restart();
        world.run(Duration::from_secs(1));
        let options = TableOptions { slots, ..buffered(2, 12) };
        let id = world.create("users", options);
        let owned = world.describe("users").tablets.iter().filter(|t| t.owner == ServerId(1)).count();
        assert_eq!(owned, 3);
        let head = head_report(2, 1, 0, 500, &[1], &[everything(id, 400_000)]);
        world.server_mut(3).replicas.insert(ServerId(1), vec![head]);
        (2..=4).for_each(|port| world.server_mut(port).diligent = false);
        world.kill(1);
        world.run_until("told", |w| running(w).is_some());
        world.settle();
        let told = world.servers.values().flat_map(|s| s.recovers.last()).collect::<Vec<_>>();
        assert_eq!(told.len(), 3, "each of the others, slots {slots}");
        let partitions = told[0].ranges.iter().map(|r| r.partition).max().unwrap() + 1;
        assert_eq!(partitions, 3, "slots {slots}: {:?}", told[0].ranges);
    }
}

// F6
#[test]
fn a_failed_or_dead_recovery_master_is_replaced_and_its_late_answer_refused() {
    let (mut world, _) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, first) = running(&world).unwrap();
    let fences = world.server_mut(2).fences;
    let failed = recovered(&first, RecoveryOutcome::Failed { reason: "no memory".into(), no_room: false });
    assert_eq!(world.server(at, &failed), Some(Ok(Default::default())));
    world.run(Duration::from_secs(2));
    let (other, second) = running(&world).unwrap();
    assert_ne!(at, other);
    assert!(second.attempt > first.attempt);
    assert!(world.server_mut(2).fences > fences, "all are asked again");
    let assignments =
        vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(9) }];
    let done = RecoveryOutcome::Done {
        assignments,
        bytes: 1,
        records: 1,
        times: Default::default(),
        own_bytes: None,
    };
    assert_eq!(world.server(at, &recovered(&first, done.clone())), Some(Err(Status::NotAllowed)));
    assert_eq!(world.server(at, &recovered(&second, done)), Some(Err(Status::NotAllowed)), "not its turn");
    world.kill(other.port());
    world.run_until("a third turn", |w| running(w).unwrap().1.attempt > second.attempt);
    let (last, third) = running(&world).unwrap();
    assert_ne!(last, other);
    world.finish(last, &third);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    let record = world.state().recoveries.values().find(|r| r.crashed == ServerId(1)).unwrap();
    assert_eq!(record.failed_attempts, 2);
}

// F5
#[test]
fn a_repeated_result_is_answered_as_before_also_after_a_restart() {
    let (mut world, _) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    world.finish(at, &recover);
    world.settle();
    let again = as_published(&mut world, &recover);
    assert_eq!(world.server(at, &again), Some(Ok(Default::default())));
    world.run(Duration::from_secs(1));
    world.restart();
    assert_eq!(world.server(at, &again), Some(Ok(Default::default())));
}

// F5, A1: one partition with ranges of two tables. It is given up only when none of them is left.
#[test]
fn a_repeated_result_is_refused_when_its_tables_have_been_dropped() {
    let mut world = World::cluster(4);
    let first = world.create("first", buffered(2, 4));
    let second = world.create("second", buffered(2, 4));
    for port in 2..=4 {
        world.server_mut(port).diligent = false;
    }
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.kill(1);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    assert_eq!(
        recover.ranges.iter().map(|r| (r.partition, r.table)).collect::<Vec<_>>(),
        [(0, first), (0, second)]
    );
    world.finish(at, &recover);
    world.settle();
    let again = as_published(&mut world, &recover);
    for (table, answer) in [(first, Ok(Default::default())), (second, Err(Status::NotAllowed))] {
        let _ = world.client(&TableDrop { table });
        world.run(Duration::from_secs(5));
        assert!(world.server_mut(at.port()).drops.contains(&table));
        assert_eq!(world.server(at, &again), Some(answer));
    }
}

// F5
#[test]
fn the_master_is_answered_only_after_the_new_owner_is_stored() {
    let (mut world, id) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    let register = StreamRegister {
        neighbourhood: None,
        shard: ShardId(0),
        stream: StreamId(2),
        durability: Durability::Buffered,
        replicas: 2,
        segment: SegmentId(1),
        epoch: Epoch(0),
    };
    world.server(at, &register).unwrap().unwrap();
    world.store_held = true;
    let assignments =
        vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(1) }];
    let done = RecoveryOutcome::Done {
        assignments,
        bytes: 1,
        records: 1,
        times: Default::default(),
        own_bytes: None,
    };
    let result = world.post(at, &recovered(&recover, done));
    world.settle();
    assert!(world.answer_to(result).is_none());
    let table = format!("table/{:020}", id.raw());
    let before = world.store[&table].0;
    world.store_held = false;
    world.settle();
    assert_eq!(world.answer_to(result).unwrap().0, Status::Ok);
    assert_eq!(world.store[&table].0, before + 1);
}

// F5, F6: nothing was acknowledged in that stream, so the dead log alone has all of it should the new owner die.
#[test]
fn a_partition_is_live_though_its_stream_is_not_registered() {
    let (mut world, id) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    let assignments =
        vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(1) }];
    let done = RecoveryOutcome::Done {
        assignments,
        bytes: 1,
        records: 1,
        times: Default::default(),
        own_bytes: None,
    };
    assert!(matches!(world.server(at, &recovered(&recover, done)), Some(Ok(_))));
    assert_eq!(world.describe("users").tablets[0].state, TabletState::Serving);
    let piece = world.state().tables[&id].tablets[0].clone();
    assert_eq!(piece.earlier.map(|earlier| earlier.server), Some(ServerId(1)));
    world.kill(at.port());
    world.run_until("told", |w| running(w).is_some_and(|(_, r)| r.crashed == piece.owner));
    let (_, second) = running(&world).unwrap();
    assert!(
        second.streams.iter().all(|stream| stream.segments.is_empty()),
        "its owner had nothing: {second:?}"
    );
    assert_eq!((second.earlier.len(), second.earlier[0].crashed), (1, ServerId(1)));
}

// Consistency rule 8: what was created and removed again may have left nothing but the dead log's safe version, and the new
// owner has no head yet that tells it.
#[test]
fn a_log_of_which_nothing_is_needed_leaves_its_safe_version() {
    let (mut world, id) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    assert_eq!((recover.safe_version, recover.version_floor), (Version(30), Version(0)));
    let assignments =
        vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(1) }];
    let done = RecoveryOutcome::Done {
        assignments,
        bytes: 0,
        records: 0,
        times: Default::default(),
        own_bytes: Some(0),
    };
    assert!(matches!(world.server(at, &recovered(&recover, done)), Some(Ok(_))));
    let piece = world.state().tables[&id].tablets[0].clone();
    assert_eq!((piece.earlier, piece.version_floor), (None, Version(30)));
    world.kill(at.port());
    world.run_until("told", |w| running(w).is_some_and(|(_, r)| r.crashed == piece.owner));
    let (_, second) = running(&world).unwrap();
    assert!(second.earlier.is_empty() && second.version_floor == Version(30), "{second:?}");
}

// A8: the class of a stream is known when it is registered, however long before that the table was altered.
#[test]
fn what_is_in_a_stream_that_is_registered_late_is_moved() {
    for restarts in [false, true] {
        let (mut world, id) = killed();
        world.give_head(ServerId(1), 2, &[2, 3, 4]);
        world.run_until("told", |w| running(w).is_some());
        let (at, recover) = running(&world).unwrap();
        let assignments =
            vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(1) }];
        let done = RecoveryOutcome::Done {
            assignments,
            bytes: 1,
            records: 1,
            times: Default::default(),
            own_bytes: None,
        };
        assert!(matches!(world.server(at, &recovered(&recover, done)), Some(Ok(_))));
        world.server_mut(at.port()).deaf.insert(Opcode::TabletReclass);
        let alter =
            TableAlter { table: id, durability: Some(Durability::Synced), replicas: None, zone: None };
        world.client_anew(&alter);
        world.run(Duration::from_secs(10));
        assert_eq!(world.describe("users").options.durability, Durability::Synced);
        if restarts {
            world.restart();
            world.run(Duration::from_secs(1));
        }
        assert_eq!(world.server_mut(at.port()).unheard, 0, "nothing is acknowledged in that stream");
        let register = StreamRegister {
            neighbourhood: None,
            shard: ShardId(0),
            stream: StreamId(2),
            durability: Durability::Buffered,
            replicas: 2,
            segment: SegmentId(1),
            epoch: Epoch(0),
        };
        assert!(matches!(world.server(at, &register), Some(Ok(_))));
        world.run(Duration::from_secs(1));
        assert_ne!(world.server_mut(at.port()).unheard, 0, "its owner is to move it");
        assert_eq!(world.describe("users").reclassing, 1);
    }
}

// F6
#[test]
fn once_a_partition_is_live_the_end_is_fixed() {
    let config = CoordinatorConfig { partition_bytes_max: 20_000, ..CoordinatorConfig::new(addr(7400)) };
    let mut world = World::cluster(4);
    world.config = CoordinatorConfig { segment_bytes: 4096, ..config };
    world.restart();
    world.run(Duration::from_secs(1));
    let id = world.create("users", buffered(2, 1));
    let head = |certified| head_report(2, 1, 0, certified, &[1], &[everything(id, 30_000)]);
    world.server_mut(3).replicas.insert(ServerId(1), vec![head(400)]);
    for port in 2..=4 {
        world.server_mut(port).diligent = false;
    }
    world.kill(1);
    world.run_until("told", |w| running(w).is_some());
    let (at, first) = running(&world).unwrap();
    assert_eq!(first.streams[0].segments[0].end, Some(400));
    assert!(first.tail_short, "one of two backups has it");
    world.finish(at, &first);
    world.settle();
    assert!(!world.is_over(ServerId(1)));
    world.server_mut(2).replicas.insert(ServerId(1), vec![head(700)]);
    world.restart();
    world.run_until("told anew", |w| running(w).unwrap().1.recovery > first.recovery);
    let (_, second) = running(&world).unwrap();
    assert_eq!(
        second.streams[0].segments[0].end,
        Some(400),
        "longer replicas found later are cut at the end"
    );
    assert_eq!(second.streams[0].segments[0].sources.len(), 2);
    assert!(!second.tail_short);
    let left: Vec<(KeyHash, KeyHash)> = second.ranges.iter().map(|r| (r.first, r.last)).collect();
    let live = first.ranges.iter().find(|r| r.partition == first.partition).unwrap();
    assert!(left.iter().all(|(first, last)| *last < live.first || *first > live.last));
}

// F6, faults D7
#[test]
fn a_table_dropped_during_its_recovery_vanishes_from_it() {
    let (mut world, id) = killed();
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    let _ = world.client(&TableDrop { table: id });
    let assignments =
        vec![Assignment { shard: ShardId(0), stream: StreamId(2), first_segment: SegmentId(9) }];
    let done = RecoveryOutcome::Done {
        assignments,
        bytes: 1,
        records: 1,
        times: Default::default(),
        own_bytes: None,
    };
    assert_eq!(world.server(at, &recovered(&recover, done)), Some(Err(Status::NotAllowed)));
    world.run_until("gone", |w| w.is_over(ServerId(1)));
    assert!(world.state().tables.is_empty());
}

// D2, consistency rule 8
#[test]
fn tables_without_replicas_come_back_empty_with_a_loss_report() {
    let mut world = World::cluster(3);
    let options = TableOptions {
        durability: Durability::None,
        replicas: 0,
        tablets: 3,
        slots: false,
        zone: None,
        quorum: None,
    };
    let id = world.create("cache", options);
    let ceiling = world.state().servers[&ServerId(1)].ceiling;
    world.kill(1);
    world.run_until("gone", |w| w.is_over(ServerId(1)));
    world.run(Duration::from_secs(1));
    let description = world.describe("cache");
    assert_covered(&description);
    assert!(description.tablets.iter().all(|t| t.state == TabletState::Serving && t.owner != ServerId(1)));
    let takes = world.servers.values().flat_map(|s| &s.takes);
    assert!(takes.clone().any(|t| t.version_floor == ceiling), "versions jump above the dead owner's");
    let status = world.status();
    assert_eq!(status.losses.len(), 1);
    assert_eq!((status.losses[0].crashed, status.losses[0].tables.clone()), (ServerId(1), vec![id]));
    assert_eq!(world.client(&TableList {}).unwrap().unwrap().tables[0].losses, 1);
    let loss = LossAcknowledge { id: status.losses[0].id };
    assert!(world.client(&loss).unwrap().is_ok());
    assert!(world.client_anew(&loss).unwrap().is_ok(), "seen twice is seen");
    assert!(world.status().losses.is_empty());
}

// D2, F7: schedule 1C.
#[test]
fn lost_buffers_end_in_a_loss_report_when_every_directory_has_answered() {
    let (mut world, id) = killed();
    let ceiling = world.state().servers[&ServerId(1)].ceiling;
    let cut = ReplicaReport { cut: true, ..head_report(2, 1, 0, 300, &[1], &[]) };
    world.server_mut(2).replicas.insert(ServerId(1), vec![cut.clone()]);
    let longer = ReplicaReport { certified: 450, ..cut };
    world.server_mut(3).replicas.insert(ServerId(1), vec![longer]);
    world.run(Duration::from_secs(5));
    assert!(running(&world).is_none(), "server 1's directory is still away");
    assert!(world.state().losses.is_empty());
    world.enlist_again(1, Some(ServerId(1)));
    world.server_mut(1).diligent = false;
    world.run_until("told", |w| running(w).is_some());
    let (at, recover) = running(&world).unwrap();
    assert_eq!(recover.streams[0].segments[0].end, Some(450));
    assert_eq!(recover.streams[0].segments[0].sources.len(), 1);
    assert_eq!(recover.version_floor, ceiling);
    let losses = world.status().losses;
    assert_eq!((losses.len(), losses[0].tables.clone()), (1, vec![id]));
    world.finish(at, &recover);
    world.run_until("recovered", |w| w.is_over(ServerId(1)));
    assert_eq!(world.status().losses.len(), 1, "until somebody has seen it");
    assert_eq!(recover.safe_version, Version(30));
}

// D2, consistency rule 8: keys that nobody wrote between the crashes.
#[test]
fn the_floor_of_a_loss_outlives_the_next_owners() {
    let (mut world, id) = killed();
    // Later owners have handed out far fewer versions.
    let needed = CeilingRaise { needed: Version(1 << 40) };
    let ceiling = world.server(addr(1), &needed).unwrap().unwrap().ceiling;
    let cut = ReplicaReport { cut: true, ..head_report(2, 1, 0, 300, &[1], &[]) };
    world.server_mut(2).replicas.insert(ServerId(1), vec![cut]);
    world.enlist_again(1, Some(ServerId(1)));
    world.server_mut(1).diligent = false;
    let mut crashed = ServerId(1);
    for crash in 1..=3 {
        world.run_until("told", |w| running(w).is_some_and(|(_, r)| r.crashed == crashed));
        let (at, recover) = running(&world).unwrap();
        assert_eq!(recover.version_floor, ceiling, "crash {crash}");
        world.finish(at, &recover);
        world.run_until("recovered", |w| w.is_over(crashed));
        world.settle_recovered();
        world.restart();
        let tablet = world.state().tables[&id].tablets[0].clone();
        assert_eq!(tablet.version_floor, ceiling);
        crashed = tablet.owner;
        let ports: Vec<u16> = world.state().all_up().map(|s| s.entry.address.0.port()).collect();
        for port in ports.into_iter().filter(|port| *port != at.port()) {
            world.give_head(crashed, 2, &[port]);
        }
        world.kill(at.port());
    }
    assert_eq!(world.state().losses.len(), 1, "only the first lost something");
}

// D2, consistency rule 8
#[test]
fn a_table_without_replicas_keeps_its_floor_over_further_crashes() {
    let mut world = World::cluster(3);
    let needed = CeilingRaise { needed: Version(1 << 40) };
    let ceiling = world.server(addr(1), &needed).unwrap().unwrap().ceiling;
    let options = TableOptions {
        durability: Durability::None,
        replicas: 0,
        tablets: 1,
        slots: false,
        zone: None,
        quorum: None,
    };
    let id = world.create("cache", options);
    for _ in 0..2 {
        let owner = world.state().tables[&id].tablets[0].owner;
        let port = world.state().servers[&owner].entry.address.0.port();
        world.kill(port);
        world.run_until("gone", |w| w.is_over(owner));
        world.run(Duration::from_secs(1));
        let tablet = world.state().tables[&id].tablets[0].clone();
        assert!(tablet.taken && tablet.owner != owner);
        let port = world.state().servers[&tablet.owner].entry.address.0.port();
        assert_eq!(world.server_mut(port).takes.last().unwrap().version_floor, ceiling);
    }
}

// F6: several at once, one of them a recovery master.
#[test]
fn several_servers_die_at_once_and_all_is_recovered() {
    let mut world = World::cluster(5);
    world.create("users", buffered(2, 10));
    for dead in [1, 2] {
        world.give_head(ServerId(dead), 2, &[3, 4, 5]);
    }
    world.kill(1);
    world.kill(2);
    world.run_until("both", |w| w.is_over(ServerId(1)) && w.is_over(ServerId(2)));
    world.give_head(ServerId(3), 2, &[4, 5]);
    world.kill(3);
    world.run_until("the third", |w| w.is_over(ServerId(3)));
    let description = world.describe("users");
    assert_covered(&description);
    assert!(description.tablets.iter().all(|t| t.owner == ServerId(4) || t.owner == ServerId(5)));
}

// F7
#[test]
fn after_a_power_cut_nothing_is_divided_before_all_directories_are_back() {
    let mut world = World::cluster(3);
    world.create("users", buffered(1, 3));
    for port in 1..=3 {
        world.kill(port);
    }
    world.restart();
    world.run(Duration::from_secs(2));
    assert_eq!(world.state().all_up().count(), 0);
    assert!(world.state().recoveries.values().all(|r| r.cold));
    for (port, old) in [(1, 1), (2, 2)] {
        world.enlist_again(port, Some(ServerId(old)));
        for dead in 1..=3 {
            world.give_head(ServerId(dead), 1, &[port]);
        }
    }
    world.run(Duration::from_secs(5));
    assert!(running(&world).is_none(), "the third directory is awaited");
    world.enlist_again(3, Some(ServerId(3)));
    world.run_until("all", |w| (1..=3).all(|s| w.is_over(ServerId(s))));
    assert_covered(&world.describe("users"));
}

// F7
#[test]
fn a_cold_start_goes_on_without_a_directory_when_all_logs_are_complete() {
    let mut world = World::cluster(3);
    world.create("users", buffered(1, 3));
    for port in 1..=3 {
        world.kill(port);
    }
    world.restart();
    world.run(Duration::from_secs(2));
    world.enlist_again(1, Some(ServerId(1)));
    for dead in 1..=3 {
        world.give_head(ServerId(dead), 1, &[1]);
    }
    world.run(Duration::from_secs(20));
    assert!(running(&world).is_none());
    world.run(Duration::from_secs(20));
    assert!((1..=3).all(|s| world.is_over(ServerId(s))));
}

// F6
#[test]
fn a_server_that_dies_while_the_coordinator_is_away_is_found() {
    let mut world = World::cluster(4);
    world.create("users", buffered(2, 4));
    world.give_head(ServerId(2), 2, &[1, 3]);
    world.kill(2);
    world.restart();
    world.run_until("recovered", |w| w.is_over(ServerId(2)));
    assert_eq!(world.state().all_up().count(), 3);
    assert!(!world.state().recoveries.values().any(|r| r.cold));
}

// F2
#[test]
fn a_silent_backup_delays_a_complete_recovery_only_shortly() {
    let (mut world, _) = killed();
    world.give_head(ServerId(1), 2, &[2, 3]);
    world.server_mut(4).deaf.insert(Opcode::Fence);
    world.run(Duration::from_millis(1500));
    assert!(running(&world).is_some());
}
