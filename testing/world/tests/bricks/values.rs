//! Values that a rebuilding fetches over a slow link, and the bound that it ends with (docs/protocols/quorum.md, rules 82, 83).

use crate::full::put_at;
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, seeds};
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
