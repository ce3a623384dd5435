//! Bricks that are added to a table and removed from it, under load and faults (docs/protocols/quorum.md, rules 56 to 63).

use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{BUFFERED, SYNCED, seeds};
use ramhold_base::{KeyHash, ServerId};
use ramhold_coordinator::State;
use ramhold_node::{BrickState, TabletState};
use ramhold_quorum::Thresholds;
use ramhold_wire::membership::Durability;
use ramhold_wire::obstacle::{EndedScaling, ObstacleKind, ScalingEnd};
use ramhold_wire::quorum::ScaleOrder;

const SECOND: u64 = 1000 * MILLI;
/// The bricks that come and go, beyond the three of the table.
pub(crate) const SPARES: [usize; 3] = [3, 4, 5];
/// Keys that are removed while they are at other bricks, and keys that are written on.
const REMOVED: std::ops::Range<usize> = 24..48;
const KEPT: std::ops::Range<usize> = 0..24;

pub(crate) fn rig(seed: u64, setting: Setting) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::with(seed, setting, Thresholds::majority(3).unwrap(), SPARES.len());
    rig.found_head(false);
    rig.add_clients(3, 100);
    rig.run_until(|rig| rig.head_state().is_some());
    rig.run_for(4 * SECOND);
    rig
}

pub(crate) fn work(rig: &mut Rig, operations: u32) {
    rig.left += operations;
    (0..3).for_each(|client| rig.go_on(client));
}

pub(crate) fn state_of(rig: &Rig, host: usize) -> Option<&BrickState> {
    rig.hosts[host].node.as_ref().and_then(|node| node.brick.state())
}

/// Nothing is ordered, and nothing moves.
fn is_at_rest(state: &State) -> bool {
    let tablets = || state.quorum_tables.values().flat_map(|table| &table.tablets);
    state.bricks.values().all(|brick| brick.scaling.is_none())
        && tablets().all(|tablet| tablet.giving.is_none() && tablet.former.is_empty())
}

/// All bricks vote in exactly the tablets that the coordinator gives them.
pub(crate) fn is_settled(rig: &Rig) -> bool {
    let Some(state) = rig.head_state().filter(|state| is_at_rest(state)) else { return false };
    let tablets = &state.quorum_tables[&TABLE].tablets;
    (0..rig.hosts.len()).all(|host| {
        let id = rig.hosts[host].id;
        let Some(node) = rig.hosts[host].node.as_ref().filter(|node| node.brick.votes()) else {
            return false;
        };
        let wanted = tablets.iter().filter(|tablet| tablet.bricks.contains(&id));
        let mut wanted: Vec<_> = wanted.map(|it| (it.first, it.last, it.epoch)).collect();
        let held = node.brick.state().into_iter().flat_map(|state| &state.tablets);
        let mut held: Vec<_> = held.map(|it| (it.first, it.last, it.epoch)).collect();
        wanted.sort_unstable();
        held.sort_unstable();
        wanted == held
    })
}

pub(crate) fn bricks(rig: &Rig) -> Vec<(KeyHash, Vec<u64>)> {
    let tablets = &rig.head_state().unwrap().quorum_tables[&TABLE].tablets;
    tablets.iter().map(|it| (it.first, it.bricks.iter().map(|brick| brick.raw()).collect())).collect()
}

pub(crate) fn order(rig: &mut Rig, host: usize, order: ScaleOrder) {
    let scaled = rig.scale(host, order);
    assert_eq!(scaled.obstacle, None, "host {host}, {order:?}");
}

/// Everybody is there: what is under way ends, and every key is read.
pub(crate) fn heal(rig: &mut Rig) {
    (0..rig.hosts.len()).for_each(|host| rig.start_if_down(host));
    rig.start_head();
    rig.run_until(is_settled);
    rig.head.as_mut().unwrap().is_told = true;
    rig.read_all();
    rig.check();
    rig.head.as_mut().unwrap().is_told = false;
    assert!((0..rig.hosts.len()).all(|host| rig.hosts[host].exit.is_none()));
}

fn reports(rig: &Rig, what: &str) -> usize {
    rig.hosts.iter().flat_map(|host| &host.reports).filter(|text| text.contains(what)).count()
}

// I7, Fig 19: three bricks more, and three fewer again. Nothing fails but what meets an old map.
#[test]
fn three_bricks_come_and_go() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Add);
        }
        work(&mut rig, 300);
        rig.run_until(is_settled);
        assert_eq!(bricks(&rig).iter().map(|it| &it.1[..]).collect::<Vec<_>>(), [[1, 2, 3], [4, 5, 6]]);
        heal(&mut rig);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Remove);
        }
        work(&mut rig, 300);
        rig.run_until(is_settled);
        assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])], "one tablet again");
        assert!(
            SPARES.iter().all(|host| state_of(&rig, *host).is_some_and(|state| state.tablets.is_empty()))
        );
        heal(&mut rig);
        assert_eq!(reports(&rig, "from what is left"), 0);
    }
}

/// Whether a brick may lose its power: no other one lacks anything, but for one that takes a tablet for the first time. Before
/// a brick serves, its state does not say yet what it has forgotten.
fn may_lose_power(rig: &Rig, host: usize) -> bool {
    let is_whole = |other: usize| {
        let is_sound = |it: &TabletState| {
            it.votes || (it.is_joining && it.giving.is_some_and(|giving| giving.new == rig.hosts[other].id))
        };
        let is_serving = rig.hosts[other].node.as_ref().is_some_and(|node| node.brick.is_serving());
        is_serving && state_of(rig, other).is_some_and(|state| state.tablets.iter().all(is_sound))
    };
    (0..rig.hosts.len()).filter(|other| *other != host).all(is_whole)
}

/// Faults at random until nothing is ordered any more, or for long.
fn disturb(rig: &mut Rig, cuts: &mut u32) {
    for _ in 0..60 {
        let wait = rig.rng.between(5, 400) * MILLI;
        rig.run_for(wait);
        if rig.head_state().is_some_and(is_at_rest) {
            return;
        }
        work(rig, 6);
        match rig.rng.below(10) {
            0 | 1 => {
                let away = rig.rng.below(1500) * MILLI;
                rig.kill_head(away);
            }
            2..=5 => {
                let host = rig.rng.below(6) as usize;
                if rig.hosts[host].node.is_some() {
                    rig.kill(host);
                    let away = rig.rng.below(600) * MILLI;
                    rig.start_after(host, away);
                }
            }
            6 | 7 => {
                let host = rig.rng.below(6) as usize;
                let is_synced = rig.setting.durability == Durability::Synced;
                if is_synced && rig.rng.chance(1, 3) {
                    for host in 0..6 {
                        rig.cut_power(host);
                        let away = rig.rng.below(400) * MILLI;
                        rig.start_after(host, away);
                    }
                    *cuts += 1;
                } else if is_synced || may_lose_power(rig, host) {
                    rig.cut_power(host);
                    let away = rig.rng.below(400) * MILLI;
                    rig.start_after(host, away);
                    *cuts += 1;
                }
            }
            _ => {}
        }
    }
}

fn come_and_go_under_faults(setting: Setting) {
    let (mut cuts, mut back, mut stood_in) = (0, 0, 0);
    for seed in seeds() {
        let mut rig = rig(seed, setting);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Add);
            disturb(&mut rig, &mut cuts);
        }
        heal(&mut rig);
        assert_eq!(bricks(&rig).iter().map(|it| &it.1[..]).collect::<Vec<_>>(), [[1, 2, 3], [4, 5, 6]]);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Remove);
            disturb(&mut rig, &mut cuts);
        }
        heal(&mut rig);
        assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])]);
        assert_eq!(reports(&rig, "from what is left"), 0);
        back += rig
            .head
            .as_ref()
            .unwrap()
            .reports
            .iter()
            .filter(|text| text.contains("takes the tablet again"))
            .count();
        stood_in += reports(&rig, "is rebuilt");
    }
    println!("{cuts} power cuts, {back} tablets went back, {stood_in} rebuilt");
    assert!(cuts > 0 && stood_in > 0);
}

// I7, I6: kills of every brick, of the coordinator and of sessions; power cuts of N - R bricks.
#[test]
fn bricks_come_and_go_under_faults() {
    come_and_go_under_faults(BUFFERED);
}

// I7, I6: power cuts of all bricks at once.
#[test]
fn synced_bricks_come_and_go_under_faults() {
    come_and_go_under_faults(SYNCED);
}

// I7: one more loss of power is survived while a tablet moves, since the brick that gives it has everything.
#[test]
fn a_sibling_may_forget_while_a_tablet_moves() {
    let mut stood_in = 0;
    for seed in seeds() {
        let mut rig = rig(seed, Setting { keys: 120, ..BUFFERED });
        work(&mut rig, 300);
        rig.finish();
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        rig.device_nanos = 5 * MILLI;
        let new = rig.hosts[SPARES[0]].id;
        let is_moving = |rig: &Rig| state_of(rig, SPARES[0]).is_some_and(|state| !state.tablets.is_empty());
        rig.run_until(is_moving);
        let taken = state_of(&rig, SPARES[0]).unwrap().tablets[0].clone();
        assert!(!taken.votes && taken.giving.is_some_and(|giving| giving.new == new));
        work(&mut rig, 60);
        let wait = rig.rng.below(60) * MILLI;
        rig.run_for(wait);
        let sibling = taken.siblings[rig.rng.below(2) as usize].brick.raw() as usize - 1;
        stood_in += u32::from(state_of(&rig, SPARES[0]).is_some_and(|state| !state.tablets[0].votes));
        rig.cut_power(sibling);
        rig.start(sibling);
        rig.run_until(is_settled);
        rig.device_nanos = 0;
        heal(&mut rig);
        assert_eq!(reports(&rig, "from what is left"), 0);
    }
    assert!(stood_in > 0, "one forgot before the new brick voted");
}

// I7: the brick that gave a tablet lacks what was written with the new one's vote.
#[test]
fn nobody_stands_in_for_a_brick_that_has_voted() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        rig.run_until(|rig| {
            state_of(rig, SPARES[0]).is_some_and(|state| state.tablets.iter().any(|it| it.votes))
        });
        // The coordinator has not heard that yet, so the giving brick still has everything.
        rig.kill_head(50 * SECOND);
        let taken = state_of(&rig, SPARES[0]).unwrap().tablets[0].clone();
        assert!(taken.giving.is_some());
        let siblings: Vec<usize> = taken.siblings.iter().map(|it| it.brick.raw() as usize - 1).collect();
        rig.kill(siblings[1]);
        rig.head.as_mut().unwrap().is_told = true;
        work(&mut rig, 100);
        rig.finish();
        // It was put with the new brick's vote, which forgets it; the one that knows is away.
        rig.kill(siblings[0]);
        rig.start(siblings[1]);
        rig.cut_power(SPARES[0]);
        rig.start(SPARES[0]);
        rig.run_for(4 * SECOND);
        assert!(
            !state_of(&rig, SPARES[0]).unwrap().tablets[0].votes,
            "it would lack what it has acknowledged"
        );
        heal(&mut rig);
        assert_eq!(reports(&rig, "from what is left"), 0);
    }
}

// I7: one brick of a tablet at a time.
#[test]
fn a_move_waits_until_the_last_one_has_arrived() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        work(&mut rig, 100);
        rig.finish();
        rig.device_nanos = 150 * MILLI;
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Add);
        }
        let is_moved = |rig: &Rig| bricks(rig).iter().any(|(_, bricks)| *bricks == [4, 5, 6]);
        rig.run_until(is_moved);
        rig.device_nanos = 0;
        heal(&mut rig);
        assert_eq!(reports(&rig, "from what is left"), 0);
    }
}

// I7: a new brick that dies for good before it votes is taken out again.
#[test]
fn a_tablet_goes_back_when_the_new_brick_dies() {
    for seed in seeds() {
        let mut rig = rig(seed, Setting { keys: 120, ..BUFFERED });
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        rig.run_until(|rig| bricks(rig).iter().any(|(_, bricks)| bricks.contains(&4)));
        rig.kill(SPARES[0]);
        work(&mut rig, 100);
        rig.run_until(|rig| {
            rig.head_state().is_some_and(|state| state.bricks[&ServerId(4)].scaling.is_none())
        });
        rig.run_for(3 * SECOND);
        assert!(bricks(&rig).iter().all(|(_, bricks)| *bricks == [1, 2, 3]), "{:?}", bricks(&rig));
        let ended = rig.head_state().unwrap().bricks[&ServerId(4)].ended;
        assert_eq!(ended, Some(EndedScaling { end: ScalingEnd::Silent, moved: 0 }));
        rig.start(SPARES[0]);
        heal(&mut rig);
        assert!(state_of(&rig, SPARES[0]).unwrap().tablets.is_empty(), "it was told so");
        // The halves are still there: the next one takes one of them.
        order(&mut rig, SPARES[1], ScaleOrder::Add);
        rig.run_until(is_settled);
        assert_eq!(bricks(&rig).len(), 2);
        // The first one would take its place.
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Remove);
        }
        rig.run_until(is_settled);
        assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])]);
        heal(&mut rig);
    }
}

// I7: a new brick that hears nothing of the others is heard by the coordinator. It keeps the tablet from going anywhere until
// an operator calls it back, at any moment: also when the brick has just begun to hear, and has voted.
#[test]
fn a_tablet_that_hangs_is_called_back() {
    let (mut back, mut arrived) = (0, 0);
    for seed in seeds() {
        let mut rig = rig(seed, Setting { keys: 120, ..BUFFERED });
        rig.deaf = vec![SPARES[0]];
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        order(&mut rig, SPARES[1], ScaleOrder::Add);
        rig.run_until(|rig| bricks(rig).iter().any(|(_, bricks)| bricks.contains(&4)));
        work(&mut rig, 100);
        rig.run_for(40 * SECOND);
        assert!(bricks(&rig).iter().any(|(_, bricks)| bricks.contains(&4)), "it is heard");
        if rig.rng.chance(1, 2) {
            rig.deaf.clear();
            let wait = rig.rng.below(2500) * MILLI;
            rig.run_for(wait);
        }
        // The order is over if the brick was quick.
        _ = rig.scale(SPARES[0], ScaleOrder::Cancel);
        work(&mut rig, 100);
        let is_over = |rig: &Rig| {
            let tablets = &rig.head_state().unwrap().quorum_tables[&TABLE].tablets;
            tablets.iter().all(|it| it.giving.is_none_or(|giving| giving.new != ServerId(4)))
        };
        rig.run_until(is_over);
        let has_it = bricks(&rig).iter().any(|(_, bricks)| bricks.contains(&4));
        (back, arrived) = (back + u32::from(!has_it), arrived + u32::from(has_it));
        // The next order is carried out.
        rig.run_until(|rig| bricks(rig).iter().any(|(_, bricks)| bricks.contains(&5)));
        rig.deaf.clear();
        heal(&mut rig);
        assert_eq!(reports(&rig, "from what is left"), 0);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Remove);
        }
        rig.run_until(is_settled);
        assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])]);
        heal(&mut rig);
    }
    println!("{back} went back, {arrived} arrived");
    assert!(back > 0 && arrived > 0);
}

// I7, I6: nobody stands in while a tablet goes back, so a loss may be reported. Nothing is lost: the silent brick never voted.
#[test]
fn a_sibling_may_forget_while_a_tablet_goes_back() {
    let (mut reported, mut forgot) = (0, 0);
    for seed in seeds() {
        let mut rig = rig(seed, Setting { keys: 120, ..BUFFERED });
        work(&mut rig, 200);
        rig.finish();
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        rig.run_until(|rig| bricks(rig).iter().any(|(_, bricks)| bricks.contains(&4)));
        rig.kill(SPARES[0]);
        rig.device_nanos = 20 * MILLI;
        let joins = |rig: &Rig, host: usize| {
            let state = state_of(rig, host);
            state.is_some_and(|state| state.tablets.iter().any(|tablet| tablet.is_joining && !tablet.votes))
        };
        work(&mut rig, 2000);
        rig.run_until(|rig| (0..3).any(|host| joins(rig, host)));
        let giver = (0..3).find(|host| joins(&rig, *host)).expect("one takes its tablet again");
        let wait = rig.rng.below(40) * MILLI;
        rig.run_for(wait);
        let sibling = (giver + 1 + rig.rng.below(2) as usize) % 3;
        forgot += u32::from(joins(&rig, giver));
        rig.cut_power(sibling);
        rig.start(sibling);
        rig.device_nanos = 0;
        rig.finish();
        heal(&mut rig);
        reported += reports(&rig, "from what is left");
        assert!(bricks(&rig).iter().all(|(_, bricks)| *bricks == [1, 2, 3]), "{:?}", bricks(&rig));
    }
    println!("{forgot} forgot in time, {reported} reports");
    assert!(forgot > 0, "one forgot before the giving brick voted");
}

// I7: the bricks finish a step among themselves.
#[test]
fn a_step_needs_no_coordinator() {
    for seed in seeds() {
        let mut rig = rig(seed, BUFFERED);
        order(&mut rig, SPARES[0], ScaleOrder::Add);
        rig.run_until(|rig| {
            let hears = |host: usize| {
                state_of(rig, host)
                    .is_some_and(|state| state.tablets.iter().any(|it| it.is_shared_with(ServerId(4))))
            };
            (0..3).any(hears)
        });
        // It is away until the test is over.
        rig.kill_head(50 * SECOND);
        work(&mut rig, 100);
        rig.run_until(|rig| {
            let votes = |state: &BrickState| state.tablets.iter().any(|tablet| tablet.votes);
            state_of(rig, SPARES[0]).is_some_and(votes)
        });
        rig.finish();
        heal(&mut rig);
    }
}

// I7: keys that are removed while a half of the table is elsewhere do not come back with it. Two tests, since this one takes
// longer than all others together and would leave a processor idle.
#[test]
fn removed_keys_do_not_come_back_with_a_half() {
    removed_keys_do_not_come_back(seeds().step_by(2));
}

#[test]
fn removed_keys_do_not_come_back_with_a_half_in_other_runs() {
    removed_keys_do_not_come_back(seeds().skip(1).step_by(2));
}

fn removed_keys_do_not_come_back(seeds: impl Iterator<Item = u64>) {
    let mut gone = 0;
    for seed in seeds {
        let mut rig = rig(seed, Setting { keys: 48, ..BUFFERED });
        work(&mut rig, 200);
        rig.finish();
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Add);
        }
        rig.run_until(is_settled);
        rig.head.as_mut().unwrap().is_told = true;
        rig.removes = true;
        for key in REMOVED {
            rig.begin_on(0, key, true);
            rig.finish();
        }
        (rig.removes, rig.used) = (false, KEPT);
        // Segments leave the log as it turns over, and then tombstones go.
        for _ in 0..12 {
            work(&mut rig, 250);
            rig.finish();
            rig.run_for(60 * SECOND);
            rig.histories[KEPT].iter_mut().for_each(Vec::clear);
        }
        let left: usize = SPARES.iter().map(|host| rig.stamps(*host)[REMOVED].iter().flatten().count()).sum();
        gone += u32::from(left == 0);
        for host in SPARES {
            order(&mut rig, host, ScaleOrder::Remove);
            if rig.rng.chance(1, 2) {
                // They find the old records again.
                let host = rig.rng.below(3) as usize;
                let wait = rig.rng.below(3000) * MILLI;
                rig.run_for(wait);
                rig.cut_power(host);
                rig.start(host);
            }
            rig.run_until(is_settled);
        }
        assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])]);
        for host in 0..3 {
            rig.kill(host);
            rig.start(host);
            rig.run_until(is_settled);
        }
        rig.read_all();
        rig.check_keys(REMOVED);
    }
    assert!(gone > 0, "tombstones have gone");
}

// I7: typed answers.
#[test]
fn orders_that_cannot_be_carried_out_are_refused() {
    let mut rig = rig(1, BUFFERED);
    let mut refused = |host, order| rig.scale(host, order).obstacle.map(|it| it.kind);
    assert_eq!(refused(3, ScaleOrder::Cancel), Some(ObstacleKind::NotOrdered));
    assert_eq!(refused(3, ScaleOrder::Add), None);
    assert_eq!(refused(3, ScaleOrder::Add), Some(ObstacleKind::Ordered));
    assert_eq!(refused(3, ScaleOrder::Remove), Some(ObstacleKind::Ordered));
    assert_eq!(refused(3, ScaleOrder::Cancel), None);
    rig.run_until(is_settled);
    for host in [4, 5] {
        order(&mut rig, host, ScaleOrder::Remove);
    }
    rig.run_until(is_settled);
    rig.kill(3);
    rig.run_for(5 * SECOND);
    let told = rig.scale(0, ScaleOrder::Remove).obstacle.map(|it| it.kind);
    // Where the tablet was cut for brick 4, that one holds a half.
    assert_eq!(told, Some(ObstacleKind::LastSibling));
}

// I7, D38: bricks that hold nothing get their share by themselves; those that were removed do not.
#[test]
fn free_bricks_are_added_by_themselves_if_so_told() {
    let mut rig = Rig::with(1, BUFFERED, Thresholds::majority(3).unwrap(), SPARES.len());
    rig.found_head(true);
    rig.run_until(|rig| rig.head_state().is_some() && is_settled(rig) && bricks(rig).len() == 2);
    assert_eq!(bricks(&rig).iter().map(|it| &it.1[..]).collect::<Vec<_>>(), [[1, 2, 3], [4, 5, 6]]);
    for host in SPARES {
        order(&mut rig, host, ScaleOrder::Remove);
    }
    rig.run_until(|rig| is_settled(rig) && bricks(rig).len() == 1);
    rig.run_for(10 * SECOND);
    assert_eq!(bricks(&rig), [(KeyHash(0), vec![1, 2, 3])]);
}
