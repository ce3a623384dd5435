//! Enlisting, the list, verdicts, and who may ask what.

use crate::harness::*;
use ramhold_base::{
    ClusterId, ConnId, Epoch, Input, Lost, RpcId, SegmentId, ServerId, ShardId, Status, StreamId, Term,
    Version,
};
use ramhold_wire::membership::*;
use ramhold_wire::status::Ping;
use ramhold_wire::table::TableList;
use ramhold_wire::{Header, Kind, Opcode, ReplicaPlacement, frame};
use std::time::Duration;

// B1
#[test]
fn one_token_gets_one_id_and_everybody_hears_of_it() {
    let mut world = World::cluster(2);
    let message = World::enlist_message(3, 42, 3, None);
    let first = world.ask_as(ConnId(3), Header::default(), &message).unwrap().unwrap();
    let again = world.ask_as(ConnId(3), Header::default(), &message).unwrap().unwrap();
    assert_eq!(first.server, again.server);
    assert_eq!(first.list.from, 0);
    assert_eq!(first.list.changed.len(), 3);
    world.run(Duration::from_millis(100));
    for port in [1, 2] {
        let version = world.state().meta.list_version;
        assert_eq!(world.server_mut(port).list.version(), version);
    }
}

// J1
#[test]
fn everybody_hears_where_a_server_hears_clients_of_redis_cluster() {
    let mut world = World::cluster(2);
    let message = Enlist { redis_cluster_port: Some(9403), ..World::enlist_message(3, 42, 3, None) };
    let third = world.ask_as(ConnId(3), Header::default(), &message).unwrap().unwrap().server;
    world.settle();
    let list = &world.server_mut(1).list;
    assert_eq!(list.entry(third).unwrap().redis_cluster_port, Some(9403));
    assert_eq!(list.entry(ServerId(2)).unwrap().redis_cluster_port, None);
}

// G1
#[test]
fn nothing_leaves_before_the_change_is_durable() {
    let mut world = World::cluster(1);
    world.store_held = true;
    let message = World::enlist_message(2, 42, 2, None);
    let enlist = world.push(ConnId(2), Header::default(), &message);
    world.settle();
    let list = world.push(CLIENT, Header::default(), &TableList {});
    world.settle();
    assert!(world.answer_to(enlist).is_none());
    assert!(world.answer_to(list).is_none(), "a reader waits for earlier changes too");
    let held = world.server_mut(1).list.version();
    world.store_held = false;
    world.settle();
    assert_eq!(world.answer_to(enlist).unwrap().0, Status::Ok);
    assert_eq!(world.answer_to(list).unwrap().0, Status::Ok);
    assert_eq!(world.server_mut(1).list.version(), held + 1);
}

// G1
#[test]
fn a_deposed_coordinator_ends_and_writes_nothing() {
    let mut world = World::cluster(1);
    let before = world.store.clone();
    world.store.get_mut("term").unwrap().0 += 1;
    let message = World::enlist_message(2, 42, 2, None);
    let answer = world.ask_as(ConnId(2), Header::default(), &message);
    assert!(answer.is_none());
    assert_eq!(world.exit.as_ref().unwrap().0, 3);
    assert_eq!(world.store.get("meta"), before.get("meta"));
}

// G1
#[test]
fn a_failed_store_or_an_unreadable_record_ends_the_process() {
    let mut world = World::cluster(2);
    let (_, value) = world.store.get_mut("server/00000000000000000002").unwrap();
    value[0] = 9;
    world.restart();
    let (code, reason) = world.exit.clone().unwrap();
    assert_eq!(code, 1);
    assert!(reason.contains("server/00000000000000000002"), "{reason}");
    assert!(reason.contains("format 9"), "{reason}");

    let mut world = World::cluster(2);
    let (_, value) = world.store.get_mut("server/00000000000000000001").unwrap();
    value.truncate(value.len() - 1);
    world.restart();
    assert!(world.exit.clone().unwrap().1.contains("server/00000000000000000001"));

    let mut world = World::cluster(2);
    world.store.remove("meta");
    world.restart();
    assert!(world.exit.clone().unwrap().1.contains("meta"));
}

// G1
#[test]
fn stop_waits_for_the_commit_in_flight() {
    let mut world = World::cluster(1);
    world.store_held = true;
    world.push(ConnId(2), Header::default(), &World::enlist_message(2, 42, 2, None));
    world.settle();
    world.step(Input::Stop);
    assert!(world.exit.is_none());
    world.store_held = false;
    world.settle();
    assert_eq!(world.exit.clone().unwrap().0, 0);
    assert!(world.store.contains_key("server/00000000000000000002"));
}

// B1, G1
#[test]
fn terms_rise_ids_are_never_reused_and_time_never_goes_back() {
    let mut world = World::cluster(2);
    let cluster = world.state().meta.cluster;
    let before = world.status();
    world.run(Duration::from_secs(30));
    let later = world.status();
    assert!(later.time > before.time);
    world.restart();
    world.run(Duration::from_millis(200));
    let after = world.status();
    assert_eq!(after.cluster, cluster);
    assert_eq!(after.term, Term(2));
    assert!(after.time >= later.time, "the wall clock of the second start is older");
    assert_eq!(world.enlist(3), ServerId(3));
}

/// A slow store makes answers late, and a late answer says little about the time.
// A12, G2
#[test]
fn the_time_is_told_without_waiting_for_the_store_but_never_above_the_stored_ceiling() {
    // None: not answered, or without the time.
    let asked =
        |world: &mut World| world.server(addr(1), &Ping {}).and_then(|pong| pong.unwrap().time_micros);
    let mut world = World::cluster(1);
    asked(&mut world);
    world.run(Duration::from_secs(1));
    world.store_held = true;
    let before = asked(&mut world).expect("told at once");
    world.run(Duration::from_secs(2));
    let later = asked(&mut world).expect("told at once");
    assert_eq!(later - before, 2_000_000);
    world.run(Duration::from_secs(10));
    assert_eq!(asked(&mut world), None, "there is no higher ceiling yet");

    let highest = world.state().meta.time_ceiling;
    world.store_held = false;
    world.restart();
    asked(&mut world);
    world.run(Duration::from_secs(1));
    let after = asked(&mut world).expect("everything is durable");
    assert!((later..highest.0 * 1000).contains(&after), "not above what was never stored");
}

// F1
#[test]
fn a_refused_address_is_a_dead_server_within_a_fraction_of_a_second() {
    let mut world = World::cluster(3);
    world.kill(2);
    world.run(Duration::from_millis(600));
    assert!(world.is_over(ServerId(2)), "it had nothing, so it is gone at once");
    assert!(!world.state().servers.contains_key(&ServerId(2)));
    for port in [1, 3] {
        assert!(world.server_mut(port).list.entry(ServerId(2)).is_none());
        let issued = world.server_mut(port).list.issued();
        assert_eq!(issued, ServerId(3));
    }
}

// F1: the first ping goes out over the connection from before, which breaks with the process.
#[test]
fn a_connection_that_breaks_under_a_ping_delays_no_verdict() {
    let mut world = World::cluster(3);
    world.server_mut(2).mood = Mood::Silent;
    world.server(addr(1), &SuspectServer { server: ServerId(2) }).unwrap().unwrap();
    world.kill(2);
    world.step(Input::Lost { addr: addr(2), how: Lost::Broken });
    world.run(Duration::from_millis(40));
    assert!(world.state().is_up(ServerId(2)), "refused once");
    world.run(Duration::from_millis(20));
    assert!(!world.state().is_up(ServerId(2)), "and once more, an interval later");
}

// F1
#[test]
fn a_silent_server_is_dead_after_the_verification_and_not_before() {
    let mut world = World::cluster(3);
    world.server_mut(2).mood = Mood::Silent;
    let at = addr(1);
    world.server(at, &SuspectServer { server: ServerId(2) }).unwrap().unwrap();
    world.run(Duration::from_millis(900));
    assert!(world.state().is_up(ServerId(2)));
    world.run(Duration::from_millis(300));
    assert!(!world.state().is_up(ServerId(2)));
}

/// How often the coordinator tells that this server was suspected and answered.
fn cleared(world: &mut World, id: u64) -> u64 {
    let reports = world.status().cleared;
    reports.iter().find(|report| report.server == ServerId(id)).map_or(0, |report| report.count)
}

// F1
#[test]
fn one_observer_kills_nobody() {
    let mut world = World::cluster(3);
    let before = [1, 2, 3].map(|id| cleared(&mut world, id));
    for _ in 0..20 {
        world.server(addr(1), &SuspectServer { server: ServerId(2) }).unwrap().unwrap();
        world.step(Input::Lost { addr: addr(3), how: Lost::Broken });
        world.run(Duration::from_millis(200));
    }
    assert!(world.state().is_up(ServerId(2)));
    assert!(world.state().is_up(ServerId(3)));
    assert_eq!([1, 2, 3].map(|id| cleared(&mut world, id) - before[id as usize - 1]), [0, 20, 20]);
}

// F1
#[test]
fn who_was_cleared_once_and_is_dead_now_is_not_told_as_cleared() {
    let mut world = World::cluster(3);
    world.server(addr(1), &SuspectServer { server: ServerId(2) }).unwrap().unwrap();
    world.run(Duration::from_millis(200));
    assert!(cleared(&mut world, 2) > 0);
    world.kill(2);
    world.run(Duration::from_millis(600));
    assert_eq!(cleared(&mut world, 2), 0);
}

// F1
#[test]
fn a_coordinator_that_hears_nobody_gives_no_verdict() {
    let mut world = World::cluster(3);
    for port in [1, 2, 3] {
        world.server_mut(port).mood = Mood::Silent;
    }
    world.run(Duration::from_secs(10));
    assert_eq!(world.state().all_up().count(), 3);
    assert!(world.status().warnings.iter().any(|w| w.contains("cut off")));
    world.server_mut(1).mood = Mood::Answering;
    world.server_mut(2).mood = Mood::Answering;
    world.run(Duration::from_secs(3));
    assert!(world.state().is_up(ServerId(1)));
    assert!(!world.state().is_up(ServerId(3)), "now its silence counts");
}

// F1
#[test]
fn when_the_first_answers_again_the_others_have_time_to_answer_too() {
    for silent_millis in [1250, 1500, 2000, 5000] {
        let mut world = World::cluster(3);
        for port in [1, 2, 3] {
            world.server_mut(port).mood = Mood::Silent;
        }
        world.run(Duration::from_millis(silent_millis));
        // Connections come back one after the other: each waits for a repetition of its own.
        world.server_mut(1).mood = Mood::Answering;
        world.run(Duration::from_millis(800));
        assert_eq!(world.state().all_up().count(), 3, "after {silent_millis} ms");
        world.server_mut(2).mood = Mood::Answering;
        world.run(Duration::from_millis(700));
        assert!(world.state().is_up(ServerId(2)), "after {silent_millis} ms");
        assert!(!world.state().is_up(ServerId(3)), "it had its time, after {silent_millis} ms");
    }
}

// F1
#[test]
fn a_stall_of_the_coordinator_convicts_nobody() {
    let mut world = World::cluster(3);
    world.server_mut(2).mood = Mood::Silent;
    world.server(addr(1), &SuspectServer { server: ServerId(2) }).unwrap().unwrap();
    world.run(Duration::from_millis(500));
    // Others were heard meanwhile, so only its own standing still speaks for server 2.
    world.now = world.now + Duration::from_secs(5);
    world.step(Input::Tick);
    world.server_mut(2).mood = Mood::Answering;
    world.run(Duration::from_secs(3));
    assert_eq!(world.state().all_up().count(), 3);
}

// F1
#[test]
fn another_life_on_the_address_proves_the_old_one_dead() {
    let mut world = World::cluster(3);
    let new = world.enlist_again(2, None);
    world.run(Duration::from_millis(700));
    assert!(!world.state().is_up(ServerId(2)));
    assert!(world.state().is_up(new));
}

// F1: on a busy machine a server answers a ping, learns its id and tells more, all before the coordinator reads any of it.
#[test]
fn an_answer_from_before_a_server_knew_its_id_convicts_nobody() {
    let mut world = World::cluster(2);
    let id = world.enlist(3);
    let server = world.server_mut(3);
    (server.id, server.holds_pongs) = (ServerId::NONE, true);
    world.server(addr(1), &SuspectServer { server: id }).unwrap().unwrap();
    world.run(Duration::from_millis(5));
    // It knows now, and takes in the list under its id, before its answer arrives.
    let server = world.server_mut(3);
    (server.id, server.holds_pongs) = (id, false);
    server.deaf.insert(Opcode::Ping);
    world.run(Duration::from_millis(300));
    assert!(world.release_pongs(3));
    world.server_mut(3).deaf.clear();
    world.run(Duration::from_secs(2));
    assert!(world.state().is_up(id), "{}", world.reports.join("\n"));
}

// B1, F8
#[test]
fn a_replaced_life_is_crashed_first_and_then_fenced() {
    let mut world = World::cluster(3);
    let new = world.enlist_again(2, Some(ServerId(2)));
    assert_eq!(new, ServerId(4));
    assert!(!world.state().is_up(ServerId(2)));
    let header = Header { sender: ServerId(2), ..world.header() };
    let answer = world.ask_as(ConnId(9), header, &MembershipVerify::default());
    assert_eq!(answer, Some(Err(Status::Fenced)));
    let answer = world.ask_as(ConnId(9), header, &CeilingRaise { needed: Version(1) });
    assert_eq!(answer, Some(Err(Status::Fenced)));
    let living = world.server(addr(1), &MembershipVerify::default());
    assert_eq!(living, Some(Ok(Default::default())));
}

// B1
#[test]
fn a_late_copy_of_a_dead_lifes_enlisting_makes_no_ghost() {
    let mut world = World::cluster(2);
    let message = World::enlist_message(3, 42, 3, None);
    world.ask_as(ConnId(3), Header::default(), &message).unwrap().unwrap();
    world.run(Duration::from_secs(2));
    assert!(!world.state().servers.contains_key(&ServerId(3)), "nobody listens there");
    let late = world.ask_as(ConnId(3), Header::default(), &message);
    assert_eq!(late.unwrap().unwrap_err(), Status::Fenced);
}

// B1
#[test]
fn foreign_and_hostile_requests_are_refused() {
    let mut world = World::cluster(1);
    let other = Header { cluster: ClusterId(99), ..Header::default() };
    assert_eq!(world.ask_as(CLIENT, other, &TableList {}).unwrap().unwrap_err(), Status::WrongCluster);
    let nameless = Header { sender: ServerId(1), ..Header::default() };
    assert_eq!(world.ask_as(CLIENT, nameless, &TableList {}).unwrap().unwrap_err(), Status::WrongCluster);
    let unknown = Header { sender: ServerId(50), ..world.header() };
    assert_eq!(world.ask_as(CLIENT, unknown, &TableList {}).unwrap().unwrap_err(), Status::NotInCluster);
    let newer = Header { term: Term(9), ..world.header() };
    assert_eq!(world.ask_as(CLIENT, newer, &TableList {}).unwrap().unwrap_err(), Status::NotCoordinator);
    let mut labels = World::enlist_message(3, 42, 3, None);
    labels.labels = vec![Label { name: "x".into(), value: "y".repeat(65) }];
    assert_eq!(world.ask_as(CLIENT, Header::default(), &labels).unwrap().unwrap_err(), Status::BadRequest);
    let pong = world.client(&Ping {}).unwrap().unwrap();
    assert_eq!(pong.server, ServerId::NONE);

    // Every opcode with garbage for a body, seed 7, and unknown opcodes.
    let mut rng = ramhold_base::Rng::new(7);
    for round in 0..2000u64 {
        let opcode = if round % 7 == 0 { rng.u64() as u16 } else { rng.pick(Opcode::ALL).unwrap().code() };
        let sender = if rng.chance(1, 2) { ServerId(1) } else { ServerId::NONE };
        let kind = if rng.chance(1, 5) { Kind::Reply } else { Kind::Request };
        let header = Header { kind, opcode, rpc: RpcId(1_000_000 + round), sender, ..world.header() };
        let body: Vec<u8> = (0..rng.below(40)).map(|_| rng.u64() as u8).collect();
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| out.extend_from_slice(&body));
        world.step(Input::Frame { from: CLIENT, bytes: &bytes });
        world.step(Input::Frame { from: CLIENT, bytes: &bytes[..bytes.len() / 2] });
    }
    world.settle();
    assert!(world.exit.is_none());
    assert_eq!(world.answer_to(RpcId(1_000_000)).unwrap().0, Status::UnknownOpcode);
}

// D8
#[test]
fn stream_records_only_rise() {
    let mut world = World::cluster(2);
    let register = StreamRegister {
        neighbourhood: None,
        shard: ShardId(0),
        stream: StreamId(1),
        durability: Durability::Buffered,
        replicas: 3,
        segment: SegmentId(5),
        epoch: Epoch(1),
    };
    let record = |segment, epoch| HeadRecord {
        shard: ShardId(0),
        stream: StreamId(1),
        segment: SegmentId(segment),
        epoch: Epoch(epoch),
    };
    let at = addr(1);
    assert_eq!(world.server(at, &record(5, 1)), Some(Err(Status::NotAllowed)));
    assert!(world.server(at, &register).unwrap().is_ok());
    assert!(world.server(at, &record(6, 0)).unwrap().is_ok());
    assert!(world.server(at, &record(5, 9)).unwrap().is_ok());
    assert!(world.server(at, &register).unwrap().is_ok(), "a repetition does not take the record back");
    world.restart();
    let stream = world.state().servers[&ServerId(1)].streams[0].clone();
    assert_eq!((stream.segment, stream.epoch), (SegmentId(6), Epoch(0)));
    let synced = StreamRegister { durability: Durability::Synced, stream: StreamId(2), ..register.clone() };
    assert!(world.server(at, &synced).unwrap().is_ok());
    let unreplicated = StreamRegister { replicas: 0, stream: StreamId(3), ..synced };
    assert_eq!(world.server(at, &unreplicated), Some(Err(Status::BadRequest)));
    let other = StreamRegister { replicas: 2, ..register.clone() };
    assert_eq!(world.server(at, &other), Some(Err(Status::NotAllowed)));
}

// Consistency rule 8.
#[test]
fn ceilings_are_raised_ahead_and_survive() {
    let mut world = World::cluster(1);
    let at = addr(1);
    let first = world.server(at, &CeilingRaise { needed: Version(5) }).unwrap().unwrap().ceiling;
    assert!(first >= Version(5));
    let next = world.server(at, &CeilingRaise { needed: Version(first.raw() + 1) }).unwrap().unwrap().ceiling;
    assert!(next.raw() >= first.raw() + (1 << 20));
    world.restart();
    assert_eq!(world.state().servers[&ServerId(1)].ceiling, next);
    let absurd = world.server(at, &CeilingRaise { needed: Version(u64::MAX) });
    assert_eq!(absurd, Some(Err(Status::BadRequest)));
}

// G3
#[test]
fn a_server_that_missed_pushes_is_told_again_and_after_a_restart_in_full() {
    let mut world = World::cluster(2);
    world.server_mut(1).deaf.insert(Opcode::ServerListUpdate);
    world.enlist(3);
    world.run(Duration::from_millis(500));
    let missed = world.server_mut(1).list.version();
    assert!(missed < world.state().meta.list_version);
    world.server_mut(1).deaf.clear();
    world.run(Duration::from_secs(5));
    assert_eq!(world.server_mut(1).list.version(), world.state().meta.list_version);
    world.restart();
    world.kill(2);
    world.run(Duration::from_secs(2));
    assert_eq!(world.server_mut(1).list.version(), world.state().meta.list_version);
    assert!(world.server_mut(1).list.entry(ServerId(2)).is_none());
}

// D4
#[test]
fn another_placement_is_told_to_all_servers_though_the_list_is_the_same() {
    let mut world = World::cluster(3);
    for (port, name) in (10..).zip(["copyset:2", "scatter", "copyset:1", "zone-local", "scatter"]) {
        let placement: ReplicaPlacement = name.parse().unwrap();
        let version = world.state().meta.list_version;
        world.config.placement = placement;
        world.restart();
        world.run(Duration::from_secs(1));
        assert_eq!(world.state().meta.list_version, version);
        assert_eq!([1, 2, 3].map(|id| world.server_mut(id).placement), [placement; 3]);
        let told =
            |world: &World| world.reports.iter().filter(|text| text.contains("were placed by")).count();
        let told_before = told(&world);
        assert!(world.reports.iter().any(|text| text.contains(&format!("are placed by {name} from now on"))));
        world.restart();
        world.run(Duration::from_secs(1));
        assert_eq!(told(&world), told_before, "the same again is nothing to tell");
        assert_eq!(world.status().replica_placement(), placement);
        world.enlist(port);
        world.run(Duration::from_secs(1));
        assert_eq!([1, 2, 3].map(|id| world.server_mut(id).placement), [placement; 3]);
    }
}

// D8
#[test]
fn a_registration_repeated_with_a_raised_epoch_is_recorded_before_it_is_answered() {
    let mut world = World::cluster(2);
    let register = StreamRegister {
        neighbourhood: None,
        shard: ShardId(0),
        stream: StreamId(1),
        durability: Durability::Buffered,
        replicas: 3,
        segment: SegmentId(1),
        epoch: Epoch(0),
    };
    assert!(world.server(addr(1), &register).unwrap().is_ok());
    world.store_held = true;
    let raised = world.post(addr(1), &StreamRegister { epoch: Epoch(1), ..register.clone() });
    world.settle();
    assert!(world.answer_to(raised).is_none());
    world.store_held = false;
    world.settle();
    assert_eq!(world.answer_to(raised).unwrap().0, Status::Ok);
    assert!(world.server(addr(1), &register).unwrap().is_ok(), "the old one, late, does not lower it");
    world.restart();
    let stream = world.state().servers[&ServerId(1)].streams[0].clone();
    assert_eq!((stream.segment, stream.epoch), (SegmentId(1), Epoch(1)));
}
