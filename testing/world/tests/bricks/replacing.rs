//! Bricks that take the place of others (docs/protocols/quorum.md, rules 50 to 55).

use crate::host::Host;
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, rebuilding, seeds};
use crate::seen::kinds;
use ramhold_quorum::Thresholds;

const SECOND: u64 = 1000 * MILLI;
/// Keys that are removed, and keys that are written on.
const REMOVED: std::ops::Range<usize> = 12..24;
const KEPT: std::ops::Range<usize> = 0..12;
/// The brick that has no tablet at first.
const SPARE: usize = 3;

fn rig(seed: u64, setting: Setting) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::with(seed, setting, Thresholds::majority(3).unwrap(), 1);
    rig.add_clients(3, 150);
    rig.finish();
    rig
}

/// Clients begin so many operations more.
fn work(rig: &mut Rig, operations: u32) {
    rig.left += operations;
    (0..3).for_each(|client| rig.go_on(client));
}

/// The epoch of the tablet in a brick; 0: it does not have it.
fn epoch(host: &Host) -> u64 {
    let state = host.node.as_ref().and_then(|node| node.brick.state());
    let tablet = state.and_then(|state| state.tablets.iter().find(|tablet| tablet.table == TABLE));
    tablet.map_or(0, |tablet| tablet.epoch)
}

// I6, C32
#[test]
fn a_replaced_brick_has_everything_before_it_votes() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let old = rig.rng.below(3) as usize;
        rig.kill(old);
        rig.hosts[old].disks = Default::default();
        work(&mut rig, 100);
        let at = rig.rng.below(200) * MILLI;
        rig.run_for(at);
        rig.replace(old, SPARE);
        rig.run_until(Rig::all_vote);
        let noted = |host| kinds(&rig, host, rig.hosts[host].id);
        assert_eq!(noted(SPARE), ["life-begun", "tablets-taken", "rebuild-begun", "rebuilt"]);
        assert!(
            (0..3).filter(|host| *host != old).all(|host| noted(host).contains(&"tablets-changed".into()))
        );
        rig.read_all();
        rig.check();
        // With another one away, the new brick is needed for every quorum.
        let other = (old + 1) % 3;
        rig.kill(other);
        rig.tablet.former.clear();
        rig.read_all();
        rig.start(other);
        rig.run_until(Rig::all_vote);
        // Any one may forget now, as before.
        work(&mut rig, 100);
        let at = rig.rng.below(100) * MILLI;
        rig.run_for(at);
        let forgets = rig.tablet.members[rig.rng.below(3) as usize];
        rig.cut_power(forgets);
        rig.start(forgets);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
        assert!(!rig.hosts[forgets].reports.iter().any(|text| text.contains("from what is left")));
    }
}

// I4, C32: one brick that has heard of a change is enough.
#[test]
fn a_change_reaches_all_by_word_of_mouth() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let old = rig.rng.below(3) as usize;
        if rig.rng.chance(1, 2) {
            rig.kill(old);
        }
        let teller = (old + 1 + rig.rng.below(2) as usize) % 3;
        let other = 3 - old - teller;
        rig.answered = vec![teller];
        // Sometimes one of those that are to hear of it starts later.
        if rig.rng.chance(1, 3) {
            rig.kill(other);
            rig.start_after(other, SECOND);
        }
        rig.replace(old, SPARE);
        rig.run_until(|rig| epoch(&rig.hosts[teller]) == 2);
        rig.assignment = None;
        work(&mut rig, 100);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
}

// C32: the old brick runs on, and does not know of the change yet.
#[test]
fn a_brick_that_was_replaced_stands_aside() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let old = rig.rng.below(3) as usize;
        rig.answered = (0..4).filter(|host| *host != old).collect();
        rig.replace(old, SPARE);
        work(&mut rig, 150);
        rig.run_until(Rig::all_vote);
        rig.finish();
        if rig.rng.chance(1, 2) {
            rig.kill(old);
            rig.start(old);
            rig.run_for(3 * SECOND);
            assert!(!rig.hosts[old].node.as_ref().unwrap().brick.votes(), "nobody there is its sibling");
        }
        rig.answered.clear();
        rig.run_until(|rig| {
            let log = rig.hosts[old].node.as_ref().and_then(|node| node.brick.log());
            epoch(&rig.hosts[old]) == 0 && log.is_some_and(|log| log.key_count() == 0)
        });
        rig.read_all();
        rig.check();
    }
}

// C32: bricks die and start again while a brick is replaced; the old one too, and it may hear of the change or not.
#[test]
fn bricks_die_while_one_is_replaced() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let old = rig.rng.below(3) as usize;
        let hears = rig.rng.chance(1, 2);
        rig.answered = (0..4).filter(|host| hears || *host != old).collect();
        work(&mut rig, 300);
        rig.replace(old, SPARE);
        for _ in 0..6 {
            let after = rig.rng.below(300) * MILLI;
            rig.run_for(after);
            let host = rig.rng.below(4) as usize;
            if rig.hosts[host].node.is_some() {
                rig.kill(host);
                let after = rig.rng.below(400) * MILLI;
                rig.start_after(host, after);
            }
        }
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
        assert!((0..4).all(|host| rig.hosts[host].exit.is_none()));
    }
}

// C31: two of three have forgotten what was in their buffers, and the third does not come.
#[test]
fn bricks_go_on_without_one_whose_loss_was_accepted() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let lost = rig.rng.below(3) as usize;
        rig.kill(lost);
        work(&mut rig, 60);
        rig.finish();
        let others: Vec<usize> = (0..3).filter(|host| *host != lost).collect();
        for host in &others {
            rig.cut_power(*host);
        }
        others.iter().for_each(|host| rig.start(*host));
        rig.run_for(5 * SECOND);
        let forgot = others.iter().all(|host| rebuilding(&rig.hosts[*host]) > 0);
        if forgot {
            assert!(others.iter().all(|host| !rig.votes(*host)), "they wait for the third");
        }
        rig.replace(lost, lost);
        rig.run_until(|rig| others.iter().all(|host| rig.votes(*host)));
        rig.forget_history();
        let told =
            |host: &usize| rig.hosts[*host].reports.iter().any(|text| text.contains("from what is left"));
        assert!(!forgot || others.iter().any(told), "the loss is told");
        work(&mut rig, 100);
        rig.finish();
        // It comes back after all, with values that were overwritten meanwhile.
        rig.start(lost);
        rig.run_until(|rig| epoch(&rig.hosts[lost]) == 2);
        assert!(rebuilding(&rig.hosts[lost]) > 0, "others have written without it");
        rig.run_until(Rig::all_vote);
        rig.kill(others[0]);
        rig.read_all();
        rig.check();
    }
}

// C32: two bricks of five may be read together, so nobody may write without them and without their having heard.
#[test]
fn a_brick_joins_when_no_quorum_is_left_in_the_epoch_before() {
    const OLD: usize = 4;
    const NEW: usize = 5;
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::with(seed, BUFFERED, Thresholds::new(5, 4, 2).unwrap(), 1);
        rig.add_clients(4, 100);
        rig.finish();
        let cut_off = rig.rng.below(4) as usize;
        (rig.answered, rig.deaf) = (vec![(cut_off + 1) % 4, NEW], vec![cut_off, OLD]);
        rig.replace(OLD, NEW);
        work(&mut rig, 100);
        rig.run_for(2 * SECOND);
        assert_eq!((epoch(&rig.hosts[cut_off]), epoch(&rig.hosts[NEW])), (1, 2));
        assert!(rebuilding(&rig.hosts[NEW]) > 0, "those two can still be read");
        rig.deaf.clear();
        rig.run_until(Rig::all_vote);
        rig.finish();
        rig.tablet.former.clear();
        rig.read_all();
        rig.check();
    }
}

// I7: a brick gives a tablet up, its keys are removed and forgotten elsewhere, and it gets the tablet back.
#[test]
fn removed_keys_do_not_come_back_with_a_tablet() {
    let mut gone = 0;
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        let old = rig.rng.below(3) as usize;
        rig.replace(old, SPARE);
        rig.run_until(Rig::all_vote);
        rig.run_until(|rig| epoch(&rig.hosts[old]) == 0);
        if rig.rng.chance(1, 2) {
            rig.kill(old);
            rig.start(old);
        }
        rig.tablet.former.clear();
        rig.removes = true;
        for key in REMOVED {
            rig.begin_on(0, key, true);
            rig.finish();
        }
        (rig.removes, rig.used) = (false, KEPT);
        let is_gone = |rig: &Rig| {
            let left = |host: &usize| rig.stamps(*host)[REMOVED].iter().flatten().count();
            rig.tablet.members.iter().map(left).sum::<usize>() == 0
        };
        // Segments leave the log as it turns over, and then tombstones go.
        for _ in 0..20 {
            work(&mut rig, 250);
            rig.finish();
            rig.run_for(60 * SECOND);
            rig.histories[KEPT].iter_mut().for_each(Vec::clear);
        }
        gone += u32::from(is_gone(&rig));
        rig.replace(SPARE, old);
        if rig.rng.chance(1, 2) {
            // It finds the old records again, and is not rebuilt yet.
            rig.run_until(|rig| epoch(&rig.hosts[old]) == 3);
            rig.kill(old);
            rig.start(old);
        }
        rig.run_until(Rig::all_vote);
        rig.kill(old);
        rig.start(old);
        rig.run_until(Rig::all_vote);
        rig.tablet.former.clear();
        rig.read_all();
        rig.check_keys(REMOVED);
    }
    assert!(gone > 0, "tombstones have gone");
}
