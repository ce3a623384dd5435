//! Pages between bricks that come late, and damage in the way of pages (docs/protocols/quorum.md, rules 87 and 88).

use crate::host::Host;
use crate::network::{Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE, key_of};
use crate::runs::{BUFFERED, seeds};
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{KeyHash, SegmentId, ServerId, Status};
use ramhold_log::Log;
use ramhold_quorum::Thresholds;
use ramhold_wire::bricks::{PageKey, PageWanted, TabletPage};

const SECOND: u64 = 1000 * MILLI;

pub fn log(host: &Host) -> &Log {
    host.node.as_ref().unwrap().brick.log().unwrap()
}

pub fn has_said(host: &Host, what: &str) -> bool {
    host.reports.iter().any(|text| text.contains(what))
}

// I6: rule 87. Every answer comes after the next question would have gone out.
#[test]
fn a_brick_whose_answers_take_long_is_rebuilt() {
    for seed in seeds().take(6) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 100);
        rig.finish();
        let lost = rig.rng.below(3) as usize;
        rig.cut_power(lost);
        rig.far = Some((lost, 300 * MILLI));
        rig.start(lost);
        rig.run_until(Rig::all_vote);
        rig.far = None;
        rig.read_all();
        rig.check();
    }
}

/// Flips a bit of a key's newest record in a closed segment.
pub fn damage(rig: &mut Rig, host: usize) -> SegmentId {
    let hasher = PlacementHasher::new(PlacementSeed(5));
    let keys = rig.setting.keys;
    let place = |key: Vec<u8>| {
        let log = log(&rig.hosts[host]);
        let place = log.place_of(log.newest(TABLE, hasher.hash(&key), &key).unwrap()?.at);
        Some(place).filter(|(segment, _)| log.segment(*segment).is_some_and(|it| it.closed))
    };
    let (segment, offset) = (0..keys).find_map(|key| place(key_of(key))).expect("some segment is closed");
    let host = &mut rig.hosts[host];
    host.may_rot = true;
    host.node.as_mut().unwrap().brick.flip_bit(segment, offset + 20, 3);
    segment
}

/// Small values in many segments.
pub const MANY: Setting = Setting { keys: 96, ..BUFFERED };

/// The status of a page that the second brick asks the first one for.
fn ask(rig: &mut Rig, wanted: PageWanted) -> Status {
    let asker = rig.hosts[1].node.as_ref().unwrap().brick.state().unwrap();
    let (life, mark) = (asker.life, asker.mark);
    let (first, last) = (KeyHash(0), KeyHash(u64::MAX));
    let page = TabletPage { table: TABLE, first, last, epoch: 1, life, mark, wanted, stands_in: false };
    rig.told.clear();
    rig.on_frame(Party::Test, Party::Host(0), request(1, (ServerId(2), ServerId(1)), &page));
    rig.run_until(|rig| !rig.told.is_empty());
    rig.told[0].0.status()
}

// C8, I6: rule 88. The brick that asks cannot do anything about it but ask again.
#[test]
fn damage_in_the_way_of_a_page_is_repaired() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, MANY);
        rig.hosts.iter_mut().for_each(|host| host.scrubs = false);
        (0..3).for_each(|host| rig.restart(host));
        rig.run_until(Rig::all_vote);
        rig.add_clients(2, 400);
        rig.finish();
        damage(&mut rig, 0);
        let wanted = match seed % 2 {
            0 => PageWanted::Stamps { from: 0, on_device: false },
            _ => PageWanted::Values { keys: (0..MANY.keys).map(|key| PageKey(key_of(key))).collect() },
        };
        assert_eq!(ask(&mut rig, wanted.clone()), Status::Retry);
        assert!(has_said(&rig.hosts[0], "is damaged in memory"));
        rig.run_until(|rig| has_said(&rig.hosts[0], "is whole again"));
        assert_eq!(ask(&mut rig, wanted), Status::Ok);
        rig.check();
    }
}

// C8, I6: rule 88. Nobody reads the key, and the log is not verified otherwise.
#[test]
fn damage_that_a_sweep_meets_is_repaired() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::with(seed, MANY, Thresholds::majority(1).unwrap(), 0);
        rig.hosts[0].scrubs = false;
        rig.restart(0);
        rig.run_until(Rig::all_vote);
        rig.add_clients(2, 400);
        rig.finish();
        damage(&mut rig, 0);
        rig.run_for(130 * SECOND);
        assert!(has_said(&rig.hosts[0], "is whole again"));
        rig.read_all();
        rig.check();
    }
}
