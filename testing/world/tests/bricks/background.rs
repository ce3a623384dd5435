//! The background sweep, and tombstones that go (docs/protocols/quorum.md, rules 33, 34).

use crate::host::Host;
use crate::network::{Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, rebuilding, seeds};
use crate::sessions::Doing;
use ramhold_base::{KeyHash, ServerId, StreamId, TableId};
use ramhold_wire::bricks::{PageWanted, TabletPage};
use ramhold_wire::membership::Durability;

const SECOND: u64 = 1000 * MILLI;
/// Keys that are removed, and keys that are written on.
const REMOVED: std::ops::Range<usize> = 12..24;
const KEPT: std::ops::Range<usize> = 0..12;
const SETTING: Setting = Setting { keys: 24, ..BUFFERED };

fn brick(host: &Host) -> &ramhold_node::Brick {
    &host.node.as_ref().unwrap().brick
}

/// Clients begin so many operations, and end them.
fn work(rig: &mut Rig, operations: u32) {
    rig.left = operations;
    (0..4).for_each(|client| rig.go_on(client));
    rig.finish();
}

// I6: a brick that was away has everything again, though nobody reads.
#[test]
fn keys_that_nobody_reads_are_repaired() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SETTING);
        rig.add_clients(4, 200);
        rig.finish();
        let away = rig.rng.below(3) as usize;
        rig.kill(away);
        work(&mut rig, 200);
        rig.start(away);
        rig.run_until(Rig::all_vote);
        assert_ne!(rig.stamps(away), rig.stamps((away + 1) % 3), "it has missed something");
        rig.run_for(130 * SECOND);
        // A tombstone is not brought to a brick that has nothing of the key.
        let values = |host| rig.stamps_of_values(host);
        assert!((1..3).all(|host| values(host) == values(0)), "{:?}", values(away));
        assert!(rig.hosts.iter().all(|host| brick(host).swept().1.is_some()));
        rig.check();
    }
}

/// Some keys are written, and removed while a brick is away that has their values.
fn removed_while_one_is_away(seed: u64) -> (Rig, usize) {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, SETTING);
    rig.add_clients(4, 300);
    rig.finish();
    let away = rig.rng.below(3) as usize;
    rig.kill(away);
    (rig.used, rig.removes) = (REMOVED, true);
    work(&mut rig, 120);
    (rig.used, rig.removes) = (KEPT, false);
    (rig, away)
}

/// All segments of the log leave it.
fn turn_over(rig: &mut Rig) {
    for _ in 0..4 {
        work(rig, 250);
        rig.run_for(20 * SECOND);
    }
    // Writes to the other keys are not judged.
    rig.histories[KEPT].iter_mut().for_each(Vec::clear);
}

fn tombstones(rig: &Rig, host: usize) -> usize {
    rig.stamps(host)[REMOVED].iter().flatten().count()
}

// A12: a tombstone goes when all bricks have it on their devices and nothing older is left, and nothing comes back.
#[test]
fn tombstones_go_and_no_value_comes_back() {
    let mut gone = 0;
    for seed in seeds() {
        let (mut rig, away) = removed_while_one_is_away(seed);
        // However long it is away, and though the log turns over.
        rig.run_for(130 * SECOND);
        turn_over(&mut rig);
        rig.run_for(250 * SECOND);
        for host in (0..3).filter(|host| *host != away) {
            assert!(tombstones(&rig, host) > 0, "a brick that has the value may come back");
        }
        rig.start(away);
        rig.run_until(Rig::all_vote);
        rig.run_for(300 * SECOND);
        assert!((0..3).all(|host| tombstones(&rig, host) > 0), "the segments of the values are still there");
        // Sometimes its power goes before it has told that its device has the tombstones, sometimes after.
        let who = rig.rng.below(3) as usize;
        rig.cut_power(who);
        rig.start_after(who, MILLI);
        rig.run_until(|rig| rig.hosts[who].node.is_some());
        rig.run_until(Rig::all_vote);
        rig.run_for(250 * SECOND);
        turn_over(&mut rig);
        rig.run_for(200 * SECOND);
        gone += (0..3).map(|host| REMOVED.len() - tombstones(&rig, host)).sum::<usize>();
        for host in 0..3 {
            rig.kill(host);
            rig.start(host);
        }
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check_keys(REMOVED);
    }
    assert!(gone > 20 * seeds().count(), "most tombstones have gone: {gone}");
}

// A12: where one brick alone has each key (N = 1), it lets tombstones go by its own words.
#[test]
fn tombstones_go_where_a_key_has_one_brick() {
    let mut gone = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::with(seed, SETTING, ramhold_quorum::Thresholds::majority(1).unwrap(), 0);
        rig.add_clients(4, 300);
        rig.finish();
        (rig.used, rig.removes) = (REMOVED, true);
        work(&mut rig, 120);
        (rig.used, rig.removes) = (KEPT, false);
        rig.run_for(90 * SECOND);
        assert!(tombstones(&rig, 0) > 0, "the writes that they would meet may still come");
        rig.run_for(130 * SECOND);
        turn_over(&mut rig);
        // A brick that starts finds what its segments hold, and counts anew.
        if rig.rng.chance(1, 2) {
            rig.cut_power(0);
            rig.start(0);
            rig.run_until(Rig::all_vote);
        }
        rig.run_for(130 * SECOND);
        turn_over(&mut rig);
        rig.run_for(130 * SECOND);
        assert!(brick(&rig.hosts[0]).swept().1.is_some());
        gone += REMOVED.len() - tombstones(&rig, 0);
        rig.kill(0);
        rig.start(0);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check_keys(REMOVED);
    }
    assert!(gone > 9 * seeds().count(), "most tombstones have gone: {gone}");
}

// A12: what a sibling lets a tombstone go for must outlive a power cut.
#[test]
fn a_page_for_the_sweep_waits_for_the_device() {
    let (mut held, stream) = (0, StreamId(1));
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SETTING);
        rig.add_clients(2, 60);
        rig.finish();
        let (asker, told) = (ServerId(2), brick(&rig.hosts[1]).state().unwrap());
        let page = TabletPage {
            table: TABLE,
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            epoch: 1,
            life: told.life,
            mark: told.mark,
            wanted: PageWanted::Stamps { from: 0, on_device: true },
            stands_in: false,
        };
        let end = brick(&rig.hosts[0]).log().unwrap().head_end(stream);
        let flushed = |rig: &Rig| brick(&rig.hosts[0]).replicator().unwrap().flushed(stream);
        held += u32::from(flushed(&rig) < end);
        rig.on_frame(Party::Test, Party::Host(0), request(1, (asker, ServerId(1)), &page));
        // The answer leaves in the step in which it is made.
        rig.run_until(|rig| flushed(rig) >= end || !rig.told.is_empty());
        assert!(flushed(&rig) >= end, "it tells what a power cut would take away");
        rig.run_until(|rig| !rig.told.is_empty());
    }
    assert!(held > 0, "something was in buffers alone");
}

/// A synced table in which nobody writes anything, beside the buffered one.
const IDLE: [(TableId, Durability); 1] = [(TableId(8), Durability::Synced)];
const MANY: Setting = Setting { keys: 240, value_bytes_max: 40, ..BUFFERED };

/// All keys of the buffered table are written and removed. Then nobody writes anything.
fn removed_beside_an_idle_stream(seed: u64) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, MANY);
    rig.add_tables(&IDLE);
    rig.add_clients(4, 0);
    for removes in [false, true] {
        rig.removes = removes;
        for key in 0..MANY.keys {
            rig.begin_on(key % 4, key, true);
            rig.run_until(|rig| matches!(rig.clients[key % 4].doing, Doing::Nothing));
        }
    }
    rig.run_for(60 * SECOND);
    assert!(all_tombstones(&rig).iter().all(|count| *count > 200), "{:?}", all_tombstones(&rig));
    rig
}

fn all_tombstones(rig: &Rig) -> [usize; 3] {
    let count = |stamps: Vec<_>| stamps.iter().flatten().count();
    [0, 1, 2].map(|host| count(rig.stamps(host)) - count(rig.stamps_of_values(host)))
}

// A12: rule 84. The head of a stream without writes is older than every tombstone, and stays. So is, after a while, the head
// of the tombstones' own stream.
#[test]
fn tombstones_go_though_nobody_writes_any_more() {
    for seed in seeds().take(3) {
        let mut rig = removed_beside_an_idle_stream(seed);
        rig.run_for(2500 * SECOND);
        assert_eq!(all_tombstones(&rig), [0; 3]);
        rig.read_all();
        rig.check();
    }
}

// I6: rule 83. Graves have asked more than a thousand times for the oldest segment to leave.
#[test]
fn a_rebuilding_does_not_wait_for_the_head_of_an_idle_stream() {
    for seed in seeds().take(3) {
        let mut rig = removed_beside_an_idle_stream(seed);
        rig.run_for(1000 * SECOND);
        rig.replace(0, 0);
        rig.assignment = Some(rig.assignment_with(3, &IDLE));
        rig.run_until(|rig| rebuilding(&rig.hosts[0]) > 0);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
}
