//! Bricks whose rebuilding comes no further: their index or memory is full, or a sibling tells no pages
//! (docs/protocols/quorum.md, rules 97 and 98).

use crate::full::{ask_at, new_stamp, put_at};
use crate::network::Party;
use crate::pages::{MANY, damage, has_said};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, seeds};
use crate::seen::kinds;
use ramhold_base::{Status, TableId};
use ramhold_wire::ask::{AskWhat, AskedWrite};
use ramhold_wire::brick_status::{BrickLimit, BrickStatus, RebuildObstacle, RefusingStatus};
use ramhold_wire::membership::Durability;

const SECOND: u64 = 1000 * MILLI;
const WIDE: Setting = Setting { log_bytes: 1 << 20, ..BUFFERED };
const BESIDE: (TableId, Durability) = (TableId(8), Durability::Buffered);
/// The log of the first brick says so.
const STALLED: &str = "the rebuilding has come no further for 60 s";

fn status(rig: &Rig) -> BrickStatus {
    rig.hosts[0].node.as_ref().unwrap().seen(rig.instant()).status.brick.unwrap()
}

fn obstacle(rig: &Rig) -> Option<RebuildObstacle> {
    status(rig).stalled.map(|stalled| stalled.obstacle)
}

fn stalled_events(rig: &Rig) -> usize {
    kinds(rig, 0, rig.hosts[0].id).iter().filter(|kind| *kind == "rebuild-stalled").count()
}

/// Puts at some bricks. Each has room.
fn put_all(rig: &mut Rig, hosts: &[usize], table: TableId, numbers: std::ops::Range<u64>, value: &[u8]) {
    for number in numbers {
        assert!(put_at(rig, hosts, number, (table, &format!("key{number}")), value), "put {number}");
        if number.is_multiple_of(20) {
            rig.run_for(200 * MILLI);
        }
    }
}

/// The first brick loses its buffers, and misses something.
fn lose(rig: &mut Rig) {
    assert!(put_at(rig, &[0], 1, (TABLE, "lonely"), b"1"));
    rig.cut_power(0);
}

/// It tries for a minute, and then says why it comes no further.
fn is_told_after_a_minute(rig: &mut Rig, expected: RebuildObstacle) {
    rig.run_for(55 * SECOND);
    assert_eq!((obstacle(rig), stalled_events(rig)), (None, 0));
    rig.run_for(30 * SECOND);
    assert_eq!((obstacle(rig), stalled_events(rig)), (Some(expected), 1));
    assert!(has_said(&rig.hosts[0], STALLED));
    let (word, why) = rig.hosts[0].node.as_ref().unwrap().seen(rig.instant()).trouble.unwrap();
    assert!(word == "waiting" && why.contains("comes no further"), "{word}: {why}");
    rig.run_for(30 * SECOND);
    assert_eq!((obstacle(rig), stalled_events(rig)), (Some(expected), 1), "one event");
}

fn goes_on(rig: &mut Rig) {
    rig.run_until(|rig| rig.votes(0));
    assert_eq!(obstacle(rig), None);
    assert!(has_said(&rig.hosts[0], "the rebuilding goes on"));
    rig.check();
}

// I6, C2: rule 97. Removals are no help, and a table that is dropped is.
#[test]
fn a_brick_whose_index_has_no_place_for_a_rebuilding_says_so_and_goes_on_when_a_table_is_dropped() {
    for seed in seeds().take(2) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, WIDE);
        rig.kill(0);
        rig.hosts[0].index_bytes = 1 << 14;
        rig.start(0);
        rig.run_until(|rig| rig.votes(0));
        rig.add_tables(&[BESIDE]);
        put_all(&mut rig, &[0, 1, 2], BESIDE.0, 2..802, b"1");
        rig.run_for(2 * SECOND);
        lose(&mut rig);
        put_all(&mut rig, &[1, 2], TABLE, 2..902, b"1");
        rig.start(0);
        rig.run_for(10 * SECOND);
        // The other table needs no further places.
        assert_eq!((status(&rig).without_vote, status(&rig).full), (1, Some(BrickLimit::Index)));
        rig.run_for(45 * SECOND);
        assert_eq!((obstacle(&rig), stalled_events(&rig)), (None, 0));
        rig.run_for(30 * SECOND);
        assert_eq!((obstacle(&rig), stalled_events(&rig)), (Some(RebuildObstacle::Index), 1));
        assert!(has_said(&rig.hosts[0], STALLED));
        rig.assignment = Some(rig.assignment(3, TABLE, vec![BESIDE.0]));
        goes_on(&mut rig);
        assert_eq!(status(&rig).full, None);
    }
}

fn remove_at(rig: &mut Rig, hosts: &[usize], number: u64, key: &str) {
    let stamp = new_stamp(rig, number);
    let asked = AskedWrite { stamp, begun: stamp.time, is_repair: false, value: None };
    for host in hosts {
        while ask_at(rig, *host, number, (TABLE, key), AskWhat::Write(asked)) != Status::Ok {
            rig.run_for(20 * MILLI);
        }
    }
}

// I6, C6: rule 97. The way out is the one that is told: removals at the bricks that vote.
#[test]
fn a_brick_whose_memory_has_no_room_for_a_rebuilding_says_so_and_goes_on_when_keys_are_removed() {
    // The brick has room for the first stretch of a thousand keys, and not for the second one.
    const PUTS: u64 = 2000;
    for seed in seeds().take(2) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        for host in [1, 2] {
            rig.kill(host);
            rig.hosts[host].log_bytes = 1 << 20;
            rig.start(host);
            rig.run_until(Rig::all_vote);
        }
        lose(&mut rig);
        put_all(&mut rig, &[1, 2], TABLE, 2..PUTS, &[5; 100]);
        rig.start(0);
        is_told_after_a_minute(&mut rig, RebuildObstacle::Memory);
        assert_eq!(status(&rig).full, Some(BrickLimit::Memory));
        for number in (2..PUTS).filter(|number| number % 4 > 0) {
            remove_at(&mut rig, &[1, 2], PUTS + number, &format!("key{number}"));
        }
        // Once a minute it looks at all keys.
        rig.run_for(60 * SECOND);
        goes_on(&mut rig);
    }
}

// I6: rule 98. The second brick has a damaged entry, whose repair waits for its device; it is heard all the time.
#[test]
fn a_brick_that_gets_no_page_from_a_sibling_that_is_heard_names_it() {
    for seed in seeds().take(2) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, MANY);
        rig.hosts.iter_mut().for_each(|host| host.scrubs = false);
        (0..3).for_each(|host| rig.restart(host));
        rig.run_until(Rig::all_vote);
        rig.add_clients(2, 400);
        rig.finish();
        // The repair ends some time after it is told.
        rig.read_nanos = 150 * SECOND;
        damage(&mut rig, 1);
        rig.replace(0, 0);
        is_told_after_a_minute(&mut rig, RebuildObstacle::Pages);
        let told = status(&rig);
        let retry = RefusingStatus { brick: rig.hosts[1].id, status: Some(Status::Retry.code()) };
        assert_eq!(told.stalled.unwrap().bricks, [retry]);
        assert!(told.tablets.iter().all(|tablet| tablet.waits_for.is_empty()), "both are heard");
        rig.read_nanos = 0;
        goes_on(&mut rig);
    }
}

// I6: rule 98. All other frames come through.
#[test]
fn a_brick_to_which_pages_of_a_sibling_do_not_come_names_it() {
    let mut rig = Rig::new(1, BUFFERED);
    rig.add_clients(2, 100);
    rig.finish();
    rig.lost_pages = Some((Party::Host(0), Party::Host(2)));
    rig.replace(0, 0);
    is_told_after_a_minute(&mut rig, RebuildObstacle::Pages);
    let silent = RefusingStatus { brick: rig.hosts[2].id, status: None };
    assert_eq!(status(&rig).stalled.unwrap().bricks, [silent]);
    rig.lost_pages = None;
    goes_on(&mut rig);
}
