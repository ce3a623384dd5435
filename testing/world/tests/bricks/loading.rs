//! Bricks that serve before their logs are loaded: reads of frames are slow, and the bricks are killed again and again
//! meanwhile.

use crate::history::Operation;
use crate::network::{Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, rebuilding, seeds};
use crate::sessions::{AGAIN, Doing};
use ramhold_base::{DiskFile, KeyHash, ServerId, Stamp, Status};
use ramhold_node::{Brick, RestartLoad};
use ramhold_quorum::{BrickId, Out, Phases, Put};
use ramhold_wire::bricks::{PageWanted, TabletPage};
use ramhold_wire::membership::Durability;
use std::time::Duration;

/// Some 30 segments of 16 KiB, of keys that are mostly written once.
const MANY: Setting = Setting { log_bytes: 1 << 20, keys: 400, value_bytes_max: 1800, ..BUFFERED };

fn brick(rig: &Rig, host: usize) -> Option<&Brick> {
    rig.hosts[host].node.as_ref().map(|node| &node.brick)
}

fn is_loading(rig: &Rig, host: usize) -> bool {
    brick(rig, host).is_some_and(Brick::is_loading)
}

/// Each key was written once, and some were read.
fn filled(seed: u64, setting: Setting) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, setting);
    rig.hosts.iter_mut().for_each(|host| host.restart_load = RestartLoad::Incremental);
    rig.add_clients(4, 0);
    // A brick that has heard the wrong clock alone is silent about writes.
    rig.run_for(1000 * MILLI);
    for key in 0..setting.keys {
        rig.begin_on(key % 4, key, true);
        rig.run_until(|rig| matches!(rig.clients[key % 4].doing, Doing::Nothing));
    }
    for client in &mut rig.clients {
        client.goes_on = true;
    }
    rig.read_nanos = 15 * MILLI;
    rig
}

/// Sums over runs.
#[derive(Default, Debug)]
struct Sums {
    done: u32,
    unknown: u32,
    failed: u32,
    /// Questions that loading bricks answered, and those about keys that were not loaded.
    early: u64,
    unloaded: u64,
    /// Ends of lives that were still loading.
    cut_short: u32,
    loaded: u32,
}

impl Sums {
    /// A life ends.
    fn note(&mut self, rig: &Rig, host: usize) {
        let Some(brick) = brick(rig, host) else { return };
        let (early, unloaded) = brick.asked_while_loading();
        self.early += early;
        self.unloaded += unloaded;
        self.cut_short += u32::from(brick.is_loading());
        self.loaded += u32::from(early > 0 && !brick.is_loading());
    }
}

/// Kills, or cuts the power of, bricks of a full rig under load, most of them while they load.
fn run(rig: &mut Rig, cuts_power: bool, sums: &mut Sums) {
    rig.left = 1200;
    (0..4).for_each(|client| rig.go_on(client));
    for _ in 0..14 {
        let wait = rig.rng.between(1, 250) * MILLI;
        rig.run_for(wait);
        let who: Vec<usize> =
            if rig.rng.chance(1, 6) { (0..3).collect() } else { vec![rig.rng.below(3) as usize] };
        for host in who {
            sums.note(rig, host);
            if cuts_power && rig.rng.chance(1, 2) {
                rig.cut_power(host);
            } else {
                rig.kill(host);
            }
            let away = rig.rng.between(1, 60) * MILLI;
            rig.start_after(host, away);
        }
    }
    rig.run_until(Rig::all_serve);
    rig.read_all();
    assert!(rig.hosts.iter().all(|host| rebuilding(host) == 0));
    rig.run_until(Rig::all_vote);
    (0..3).for_each(|host| sums.note(rig, host));
    rig.check();
    sums.done += rig.done;
    sums.unknown += rig.unknown;
    sums.failed += rig.failed;
}

fn check(sums: &Sums) {
    println!("{sums:?}");
    assert!(sums.early > 50 && sums.unloaded > 50, "both above the floor and below: {sums:?}");
    assert!(sums.cut_short > 5 && sums.loaded > 0, "lives end while they load: {sums:?}");
    assert!(sums.done > 5 * (sums.unknown + sums.failed), "{sums:?}");
}

// I6: rules 76 and 77. Nothing is lost, and no key is told as absent, however often bricks die while they load.
#[test]
fn bricks_that_load_their_logs_are_killed_again_and_again() {
    let mut sums = Sums::default();
    for seed in seeds() {
        run(&mut filled(seed, MANY), false, &mut sums);
    }
    check(&sums);
}

// I6
#[test]
fn synced_bricks_lose_their_power_while_they_load() {
    let mut sums = Sums::default();
    for seed in seeds() {
        run(&mut filled(seed, Setting { durability: Durability::Synced, ..MANY }), true, &mut sums);
    }
    check(&sums);
}

// I2, I6: stamps are compared with the floor; clocks are not.
#[test]
fn a_clock_that_is_an_hour_off_does_not_mislead_bricks_that_load() {
    let mut sums = Sums::default();
    for seed in seeds() {
        run(&mut filled(seed, Setting { has_wrong_clock: true, ..MANY }), false, &mut sums);
    }
    check(&sums);
}

/// One brick starts again, and has begun to load. The others serve.
fn one_loads(seed: u64) -> Rig {
    let mut rig = filled(seed, MANY);
    rig.kill(0);
    rig.start(0);
    rig.run_until(|rig| is_loading(rig, 0));
    rig
}

/// A put that these hosts alone have stored, and whose session has died. Its token: stamp, value and begin.
fn half_put(rig: &mut Rig, key: usize, hosts: [usize; 2]) -> (Stamp, Option<Vec<u8>>, u64) {
    let now = rig.instant();
    let bricks: Vec<BrickId> = rig.hosts.iter().map(|host| BrickId(host.id.raw())).collect();
    rig.value_last += 1;
    let value = rig.value_last;
    rig.histories[key].push(Operation { is_put: true, value, began: rig.now, ended: u64::MAX });
    let bytes = Some(value.to_le_bytes().to_vec());
    let (of, within) = ((&bricks[..], rig.thresholds), (now + Duration::from_secs(1), AGAIN));
    let (it, mut outs) = (&mut rig.clients[0], Vec::new());
    (it.number, it.key) = (it.number + 1, key);
    let mut put = Put::new(now, of, (bytes.clone(), Phases::One), &it.clock, within).unwrap();
    put.start(now, &mut it.clock, &mut outs);
    let is_one = |to: BrickId| hosts.iter().any(|host| to.0 == *host as u64 + 1);
    outs.retain(|out| matches!(out, Out::Send { to, .. } if is_one(*to)));
    rig.carry_out(0, outs);
    rig.clients[0].number += 1;
    rig.run_for(20 * MILLI);
    (put.open().unwrap(), bytes, put.begun())
}

/// A client puts a key until it is done.
fn put_done(rig: &mut Rig, client: usize, key: usize) {
    let done = rig.done;
    while rig.done == done {
        rig.begin_on(client, key, true);
        rig.run_until(|rig| matches!(rig.clients[client].doing, Doing::Nothing));
    }
}

// I3, I6: rules 5 and 77. Two bricks have stored a put, and the third one never will. One of the two loads its log, and has
// something newer: what it says before it finds the put must not be taken for its last word.
#[test]
fn a_put_that_a_loading_brick_has_stored_is_settled_when_that_has_loaded() {
    let mut unloaded = 0;
    for seed in seeds() {
        let mut rig = filled(seed, MANY);
        let token = half_put(&mut rig, 0, [0, 2]);
        let operation = rig.histories[0].len() - 1;
        (1..200).for_each(|key| put_done(&mut rig, 1, key));
        rig.kill(2);
        rig.start(2);
        rig.run_until(|rig| is_loading(rig, 2));
        put_done(&mut rig, 1, 0);
        // It has reached the third brick, too.
        rig.run_for(5 * MILLI);
        let now = rig.instant();
        let bricks: Vec<BrickId> = rig.hosts.iter().map(|host| BrickId(host.id.raw())).collect();
        let within = (now + Duration::from_secs(5), AGAIN);
        let mut put = Put::resume(now, (&bricks, rig.thresholds), token, within);
        let (it, mut outs) = (&mut rig.clients[0], Vec::new());
        (it.number, it.key, it.operation) = (it.number + 1, 0, operation);
        put.start(now, &mut it.clock, &mut outs);
        it.doing = Doing::Put(put);
        rig.carry_out(0, outs);
        rig.run_until(|rig| matches!(rig.clients[0].doing, Doing::Nothing));
        assert_ne!(rig.histories[0][operation].ended, u64::MAX, "it took effect, and nobody says so");
        unloaded += brick(&rig, 2).unwrap().asked_while_loading().1;
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
    assert!(unloaded > 0, "no brick was asked while it did not know");
}

// I6: pages wait, announcements do not.
#[test]
fn a_brick_that_loads_tells_no_pages_and_counts_as_without_vote() {
    for seed in seeds() {
        let mut rig = one_loads(seed);
        let state = brick(&rig, 1).and_then(Brick::state).unwrap();
        let page = TabletPage {
            table: TABLE,
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            epoch: 1,
            life: state.life,
            mark: state.mark,
            wanted: PageWanted::Stamps { from: 0, on_device: false },
            stands_in: false,
        };
        rig.on_frame(Party::Test, Party::Host(0), request(1, (ServerId(2), ServerId(1)), &page));
        rig.run_until(|rig| !rig.told.is_empty());
        assert_eq!(rig.told.pop().unwrap().0.status(), Status::NotReady);
        assert!(brick(&rig, 0).unwrap().without_vote_count() == 1 && !rig.votes(0));
        let seen = rig.hosts[0].node.as_ref().unwrap().seen(rig.instant());
        assert_eq!(seen.trouble.unwrap().0, "loading");
        assert!(seen.status.brick.unwrap().loaded_permille.is_some_and(|permille| permille < 1000));
        rig.run_until(|rig| !is_loading(rig, 0));
        rig.run_until(Rig::all_vote);
        let events = brick(&rig, 0).unwrap().events_after(0).events;
        assert!(events.iter().any(|event| event.kind == "log-loaded"), "{events:?}");
        rig.read_all();
        rig.check();
    }
}

// I6: what is taken away or given meanwhile waits until everything is loaded.
#[test]
fn a_brick_that_loads_takes_no_assignment_before_it_has_loaded() {
    for seed in seeds() {
        let mut rig = one_loads(seed);
        rig.assignment = Some(rig.assignment(2, TABLE, Vec::new()));
        while is_loading(&rig, 0) {
            assert_eq!(brick(&rig, 0).unwrap().taken(), 1);
            rig.run_for(MILLI);
        }
        rig.run_until(|rig| (0..3).all(|host| brick(rig, host).unwrap().taken() == 2));
        rig.read_all();
        rig.check();
    }
}

// I6: a segment on which answers may rest already cannot be read. The life ends before anything is rebuilt.
#[test]
fn a_brick_whose_log_rots_while_it_loads_ends_and_is_rebuilt_by_its_next_life() {
    let mut ended = 0;
    for seed in seeds() {
        let mut rig = one_loads(seed);
        rig.hosts[0].may_rot = true;
        rig.left = 200;
        (0..4).for_each(|client| rig.go_on(client));
        while is_loading(&rig, 0) {
            let Rig { hosts, rng, .. } = &mut rig;
            (0..4).for_each(|_| _ = hosts[0].disks.file_mut(DiskFile::Frames).rot(rng));
            rig.run_for(MILLI);
        }
        if let Some(why) = rig.hosts[0].exit.take() {
            assert!(why.contains("could not be read after the brick had begun to serve"), "{why}");
            ended += 1;
            rig.pages = 0;
            rig.start(0);
            rig.run_until(|rig| brick(rig, 0).is_some_and(Brick::is_serving));
            assert!(rebuilding(&rig.hosts[0]) == 1 && !is_loading(&rig, 0));
            rig.run_until(Rig::all_vote);
            assert!(rig.pages > 0);
        }
        rig.read_all();
        rig.check();
    }
    assert!(ended > 0, "nothing rotted where it mattered");
}

// I6: with `preload` nothing is answered before everything is loaded.
#[test]
fn a_brick_that_preloads_serves_when_all_is_loaded() {
    let mut rig = filled(1, MANY);
    for load in [RestartLoad::Preload, RestartLoad::Incremental] {
        rig.hosts[0].restart_load = load;
        rig.run_for(1000 * MILLI);
        rig.kill(0);
        let began = rig.now;
        rig.start(0);
        rig.run_until(|rig| brick(rig, 0).is_some_and(Brick::is_serving));
        let serving = rig.now - began;
        println!("{load:?}: serving after {} ms", serving / MILLI);
        assert_eq!(is_loading(&rig, 0), load == RestartLoad::Incremental);
        assert_eq!(serving < 150 * MILLI, load == RestartLoad::Incremental, "{serving}");
        rig.run_until(Rig::all_vote);
    }
    rig.read_all();
    rig.check();
}
