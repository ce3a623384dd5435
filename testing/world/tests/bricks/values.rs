//! Values that a rebuilding fetches over a slow link, and the bound that it ends with (docs/protocols/quorum.md, rules 82, 83).

use crate::full::{new_stamp, put_at, put_stamped};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, rebuilding, seeds};
use ramhold_base::TableId;
use ramhold_wire::membership::Durability;

const OTHER: TableId = TableId(8);
/// A stretch of each of two tablets has values of some 15 pages.
const VALUE: [u8; 7000] = [5; 7000];
const KEYS: u64 = 530;

// I6: a stretch takes longer than another tablet is kept waiting, and each tablet gets its turn once.
#[test]
fn two_tablets_with_long_stretches_do_not_displace_each_other() {
    for seed in seeds().take(2) {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, Setting { log_bytes: 16 << 20, ..BUFFERED });
        rig.add_tables(&[(OTHER, Durability::Buffered)]);
        let mut number = 0;
        for table in [TABLE, OTHER] {
            for key in 0..KEYS {
                number += 1;
                assert!(put_at(&mut rig, &[1, 2], number, (table, &format!("big{key}")), &VALUE));
            }
        }
        rig.cut_power(0);
        rig.hosts[0].disks.wipe_frames();
        rig.far = Some((0, 200 * MILLI));
        rig.start(0);
        rig.run_until(|rig| rig.votes(0));
        let keys = rig.hosts[0].node.as_ref().unwrap().brick.log().unwrap().key_count();
        assert_eq!(keys, 2 * KEYS);
        rig.hosts.iter().for_each(|host| host.node.as_ref().unwrap().check_invariants());
    }
}

// I6: rule 82. The first brick stored a put before it lost its power, and no other one did. The put goes on, and reaches them
// when they have told their stamps, and not yet their values. So the first one is told what it has, and was to drop.
#[test]
fn a_write_that_goes_on_while_its_brick_is_rebuilt_stays_there() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        // The first sweeps are over.
        rig.run_for(8000 * MILLI);
        let place = (TABLE, "key0");
        assert!(put_at(&mut rig, &[0, 1, 2], 1, place, b"before"));
        let stamp = new_stamp(&rig, 100);
        assert!(put_stamped(&mut rig, &[0], (2, stamp), place, b"after"));
        // The device has it.
        rig.run_for(1000 * MILLI);
        rig.cut_power(0);
        assert!((1..3).all(|host| rig.stamps(host)[0].is_some_and(|it| it < stamp)));
        (rig.far, rig.pages) = (Some((0, 120 * MILLI)), 0);
        rig.start(0);
        rig.run_until(|rig| rig.pages == 2);
        rig.run_for(40 * MILLI);
        assert!(put_stamped(&mut rig, &[2, 1], (3, stamp), place, b"after"));
        assert_eq!((rig.pages, rebuilding(&rig.hosts[0])), (2, 1), "they have told their stamps alone");
        rig.run_until(|rig| rig.votes(0));
        assert_eq!(rig.pages, 3, "one of them was asked for its value");
        assert_eq!(rig.stamps(0)[0], Some(stamp));
        rig.far = None;
        // Its next life has it, too.
        rig.restart(0);
        rig.run_until(Rig::all_vote);
        assert!((0..3).all(|host| rig.stamps(host)[0] == Some(stamp)));
        rig.check();
    }
}

// I2, I6: a rebuilt brick does not know what it stored before. Its later lives know that, whatever happens to its power.
#[test]
fn the_bound_of_a_rebuilt_brick_is_on_its_device_when_it_votes() {
    let bound = |rig: &Rig| rig.hosts[0].node.as_ref().unwrap().brick.log().unwrap().bound();
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(3, 200);
        rig.finish();
        for _ in 0..3 {
            rig.cut_power(0);
            rig.start(0);
            rig.run_until(|rig| rig.votes(0));
            let before = bound(&rig);
            rig.cut_power(0);
            rig.start(0);
            // It has not been rebuilt again by then.
            rig.run_until(|rig| rig.hosts[0].node.as_ref().is_some_and(|node| node.brick.is_serving()));
            assert!(bound(&rig) >= before, "{} was told, and {before} must be", bound(&rig));
            rig.run_until(|rig| rig.votes(0));
        }
        rig.read_all();
        rig.check();
    }
}
