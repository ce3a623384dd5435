//! The state that a brick tells operators, and the events that it notes (docs/protocols/quorum.md, rules 47, 48).

use crate::network::{CLUSTER, Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, SYNCED, seeds};
use ramhold_base::{ClusterTime, RpcId, ServerId, Stamp, Status, TableId};
use ramhold_node::BrickNode;
use ramhold_quorum::Thresholds;
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::brick_status::{BrickEvent, BrickEvents, BrickEventsTold, BrickStatus};
use ramhold_wire::{Header, Opcode, decode, frame};

const SECOND: u64 = 1000 * MILLI;

fn node(rig: &Rig, host: usize) -> &BrickNode {
    rig.hosts[host].node.as_ref().unwrap()
}

fn status(rig: &Rig, host: usize) -> BrickStatus {
    node(rig, host).seen(rig.instant()).status.brick.unwrap()
}

fn events(rig: &Rig, host: usize) -> Vec<BrickEvent> {
    node(rig, host).brick.events_after(0).events
}

/// The kinds of the events about a brick, in order.
pub fn kinds(rig: &Rig, host: usize, about: ServerId) -> Vec<String> {
    let events = events(rig, host).into_iter().filter(|event| event.about == about);
    events.map(|event| event.kind).collect()
}

fn loaded(seed: u64) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, BUFFERED);
    rig.add_clients(4, 200);
    rig.finish();
    rig
}

fn work(rig: &mut Rig) {
    rig.left = 200;
    (0..4).for_each(|client| rig.go_on(client));
    rig.finish();
}

// I6
#[test]
fn siblings_note_a_death_and_a_return_and_who_was_away_notes_what_it_missed() {
    for seed in seeds() {
        let mut rig = loaded(seed);
        rig.run_for(70 * SECOND);
        let away = rig.rng.below(3) as usize;
        let others = [1, 2].map(|step| (away + step) % 3);
        for host in 0..3 {
            let status = status(&rig, host);
            assert!(status.is_serving && status.without_vote == 0);
            assert!(status.siblings.iter().all(|it| !it.is_silent && it.heard_millis.unwrap() <= 1000));
            assert!(status.sweep.whole > 0 && status.sweep.whole_millis.unwrap() <= 65_000);
            let noted = kinds(&rig, host, rig.hosts[host].id);
            assert_eq!(noted[..2], ["life-begun", "tablets-taken"], "{noted:?}");
            assert!(events(&rig, host).iter().all(|event| !event.kind.starts_with("sibling")));
        }
        rig.kill(away);
        work(&mut rig);
        rig.run_for(3 * SECOND);
        for host in others {
            let silent = status(&rig, host).siblings.into_iter().filter(|sibling| sibling.is_silent);
            assert!(silent.map(|sibling| sibling.brick).eq([rig.hosts[away].id]));
            assert_eq!(kinds(&rig, host, rig.hosts[away].id), ["sibling-silent"]);
        }
        rig.start(away);
        rig.run_until(|rig| rig.hosts[away].node.is_some() && status(rig, away).sweep.behind > 0);
        assert!(status(&rig, away).sweep.behind_millis.is_some());
        rig.run_for(10 * SECOND);
        // A round in which a sibling was late is made again.
        rig.run_until(|rig| status(rig, away).sweep.whole > 0);
        for host in others {
            let noted = kinds(&rig, host, rig.hosts[away].id);
            assert_eq!(noted, ["sibling-silent", "sibling-restarted", "sibling-heard"]);
            assert!(status(&rig, host).siblings.iter().all(|sibling| !sibling.is_silent));
        }
        let after = status(&rig, away);
        assert_eq!((after.life, after.sweep.behind, after.sweep.behind_millis), (2, 0, None));
        assert!(after.sweep.stored > 0 && after.sweep.whole == 1, "{after:?}");
        let mut noted = kinds(&rig, away, rig.hosts[away].id);
        noted.retain(|kind| kind != "log-loaded");
        assert_eq!(noted, ["life-begun", "sweep-behind"]);
        let last = events(&rig, away).pop().unwrap();
        assert!(last.indicator.contains(&format!(" {} key", after.sweep.stored)), "{last:?}");
    }
}

// I6, J5
#[test]
fn a_brick_that_has_forgotten_is_not_ready_and_tells_how_far_it_is() {
    let mut seen_rebuilding = 0;
    for seed in seeds() {
        let mut rig = loaded(seed);
        let who = rig.rng.below(3) as usize;
        rig.cut_power(who);
        rig.start(who);
        rig.run_until(|rig| rig.hosts[who].node.is_some());
        while !rig.hosts[who].node.as_ref().unwrap().brick.votes() {
            let seen = node(&rig, who).seen(rig.instant());
            let word = seen.trouble.map(|(word, _)| word);
            assert!(word.is_some(), "nothing votes here");
            let rebuilding = seen.status.brick.unwrap().rebuilding;
            assert!(rebuilding.is_none_or(|it| it.permille <= 1000));
            seen_rebuilding += u32::from(word == Some("rebuilding"));
            rig.run_for(MILLI / 4);
        }
        let seen = node(&rig, who).seen(rig.instant());
        assert_eq!(seen.trouble, None);
        assert_eq!(seen.status.brick.unwrap().rebuilding, None);
        let noted = kinds(&rig, who, rig.hosts[who].id);
        assert_eq!(noted, ["log-not-whole", "life-begun", "rebuild-begun", "rebuilt"]);
    }
    assert!(seen_rebuilding > 0);
}

// I6
#[test]
fn a_brick_that_starts_votes_in_none_of_its_tablets() {
    let mut rig = loaded(1);
    rig.kill(0);
    rig.start(0);
    // Its state is on the device, and its log is not taken over yet.
    rig.run_until(|rig| rig.hosts[0].node.is_some() && status(rig, 0).life == 2);
    let starting = status(&rig, 0);
    assert!(!starting.is_serving);
    assert_eq!((starting.without_vote, starting.tablets.len(), starting.tablets[0].votes), (1, 1, false));
    rig.run_until(Rig::all_vote);
    let after = status(&rig, 0);
    assert_eq!((after.without_vote, after.tablets[0].votes, after.tablets[0].needed), (0, true, 2));
    let ids: Vec<ServerId> = rig.hosts.iter().map(|host| host.id).collect();
    assert_eq!((after.tablets[0].table, &after.tablets[0].bricks), (TABLE, &ids));
}

/// Two bricks have lost their buffers, and the third one, which has not, is away. Writes of the last moments may be lost.
fn all_but_the_lost_one(rig: &mut Rig) {
    rig.cut_power(0);
    rig.cut_power(1);
    rig.kill(2);
    (0..2).for_each(|host| rig.start(host));
    rig.run_until(|rig| (0..2).all(|host| rig.hosts[host].node.is_some() && status(rig, host).is_serving));
}

// I6
#[test]
fn a_tablet_that_waits_for_a_lost_brick_names_it() {
    for seed in seeds() {
        let mut rig = loaded(seed);
        all_but_the_lost_one(&mut rig);
        rig.run_for(2 * SECOND);
        let early = status(&rig, 0);
        assert!(!early.tablets[0].votes && early.tablets[0].waits_for.is_empty(), "it may be decided yet");
        rig.run_for(8 * SECOND);
        let lost = rig.hosts[2].id;
        for host in 0..2 {
            assert_eq!(status(&rig, host).tablets[0].waits_for, [lost]);
            let (word, text) = node(&rig, host).seen(rig.instant()).trouble.unwrap();
            assert_eq!(word, "waiting");
            assert!(
                text.contains(&format!("{lost} does not answer")) && text.contains("accept-loss"),
                "{text}"
            );
        }
        rig.start(2);
        rig.run_until(Rig::all_vote);
        assert!((0..3).all(|host| status(&rig, host).tablets[0].waits_for.is_empty()));
        rig.read_all();
    }
}

// I6: each gives way to the other every five seconds.
#[test]
fn tablets_that_wait_for_days_are_noted_once_and_leave_room_for_the_causes() {
    let mut rig = loaded(1);
    rig.assignment = Some(rig.assignment(2, TableId(8), Vec::new()));
    rig.run_until(|rig| rig.hosts.iter().all(|host| host.node.as_ref().unwrap().brick.taken() == 2));
    rig.run_until(Rig::all_vote);
    all_but_the_lost_one(&mut rig);
    rig.run_for(120 * SECOND);
    for host in 0..2 {
        let noted = kinds(&rig, host, rig.hosts[host].id);
        let begun = noted.iter().filter(|kind| *kind == "rebuild-begun").count();
        assert_eq!((begun, noted[0].as_str()), (2, "log-not-whole"), "{noted:?}");
    }
    rig.start(2);
    rig.run_until(Rig::all_vote);
}

// I6
#[test]
fn a_brick_that_has_just_started_does_not_say_that_it_has_heard_the_dead() {
    let mut rig = loaded(1);
    rig.kill(2);
    rig.run_for(60 * SECOND);
    rig.restart(1);
    rig.run_for(SECOND);
    let heard = |host: usize| {
        let siblings = status(&rig, host).siblings;
        siblings.iter().find(|it| it.brick == rig.hosts[2].id).unwrap().heard_millis
    };
    assert_eq!(heard(1), None);
    assert!(heard(0).unwrap() >= 60_000);
}

// J5, A12: a value that has ended here is not one that was missed.
#[test]
fn values_that_a_sweep_overwrites_because_they_have_ended_are_counted_apart() {
    const KEYS: u64 = 10;
    let mut rig = Rig::new(1, BUFFERED);
    put_ending(&mut rig, KEYS);
    rig.run_for(180 * SECOND);
    let sweeps: Vec<(u64, u64)> =
        (0..3).map(|host| status(&rig, host).sweep).map(|sweep| (sweep.stored, sweep.ended)).collect();
    assert!(sweeps.iter().all(|(stored, ended)| stored + ended == KEYS), "{sweeps:?}");
    // The first one to sweep finds that all have the value, and the others fetch its tombstone.
    assert!(sweeps.iter().map(|(_, ended)| ended).sum::<u64>() >= KEYS, "{sweeps:?}");
}

// A12: a brick that has each key alone (N = 1) sweeps in stretches, too, so no step of it is long.
#[test]
fn a_brick_without_siblings_sweeps_in_stretches() {
    const KEYS: u64 = 2500;
    let setting = Setting { log_bytes: 1 << 20, ..BUFFERED };
    let mut rig = Rig::with(1, setting, Thresholds::majority(1).unwrap(), 0);
    put_ending(&mut rig, KEYS);
    let mut ended = vec![0];
    while ended.len() < 30_000 && *ended.last().unwrap() < KEYS {
        rig.run_for(5 * MILLI);
        ended.push(status(&rig, 0).sweep.ended);
    }
    let most = ended.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert_eq!(ended.last(), Some(&KEYS));
    // A stretch ends with the piece of the index in which it is full.
    assert!((1000..1100).contains(&most), "{most} of them in one step");
}

/// Puts values that end after some seconds into all bricks of the table.
fn put_ending(rig: &mut Rig, keys: u64) {
    rig.run_for(SECOND);
    let begun = node(rig, 0).brick.time(rig.instant());
    let expires = Some(ClusterTime(begun / 1000 + 10_000));
    let hosts = rig.hosts.len() as u64;
    for number in 0..hosts * keys {
        let (host, key) = ((number % hosts) as usize, number / hosts);
        let value = Some(StampedValue { bytes: b"value", expires });
        let stamp = Stamp { time: begun + key, session: 2 };
        let what = AskWhat::Write(AskedWrite { stamp, begun, is_repair: false, value });
        let header = Header {
            cluster: CLUSTER,
            target: rig.hosts[host].id,
            ..Header::request(Opcode::Ask, RpcId(number + 1))
        };
        let name = format!("ends{key}");
        let request = AskRequest { table: TABLE, key: name.as_bytes(), what };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| request.encode(out));
        rig.send(Party::Test, Party::Host(host), bytes);
        if number.is_multiple_of(100) {
            rig.run_for(100 * MILLI);
        }
    }
}

// I6
#[test]
fn a_copied_directory_is_noted() {
    let mut rig = Rig::new(1, SYNCED);
    rig.kill(0);
    rig.hosts[0].place += 1;
    rig.start(0);
    rig.run_until(Rig::all_vote);
    let noted = kinds(&rig, 0, rig.hosts[0].id);
    assert_eq!(noted, ["directory-moved", "life-begun", "rebuild-begun", "rebuilt"]);
}

// J5
#[test]
fn questions_are_counted_by_what_was_wanted_and_how_it_ended() {
    let rig = loaded(1);
    let (mut repairs, mut rejected) = (0, 0);
    for host in 0..3 {
        let status = status(&rig, host);
        for asks in [status.gets, status.puts, status.stamps] {
            let ended = asks.answered + asks.rejected + asks.unknown + asks.refused;
            assert!(asks.asked > 0 && ended <= asks.asked, "{asks:?}");
            assert!(asks.answered * 10 > asks.asked * 8, "{asks:?}");
        }
        assert_eq!(status.gets.rejected + status.gets.unknown + status.stamps.rejected, 0);
        (repairs, rejected) = (repairs + status.repairs, rejected + status.puts.rejected);
    }
    assert!(repairs > 0 && rejected > 0, "four clients on 24 keys meet: {repairs}, {rejected}");
}

// J5
#[test]
fn anybody_may_ask_a_brick_for_its_events() {
    let mut rig = Rig::new(1, BUFFERED);
    let nobody = (ServerId::NONE, ServerId::NONE);
    rig.on_frame(Party::Test, Party::Host(0), request(1, nobody, &BrickEvents { after: 1 }));
    rig.run_until(|rig| !rig.told.is_empty());
    let (header, body) = rig.told.pop().unwrap();
    assert_eq!(header.status(), Status::Ok);
    let told: BrickEventsTold = decode(&body).unwrap();
    assert_eq!((told.brick, told.life, told.newest), (ServerId(1), 1, 2));
    let noted: Vec<(u64, &str, &str)> =
        told.events.iter().map(|it| (it.number, it.kind.as_str(), it.monitor.as_str())).collect();
    assert_eq!(noted, [(2, "tablets-taken", "assignment")]);
}
