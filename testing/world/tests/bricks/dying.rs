//! Somebody dies at each step of a split and of a coalescence (docs/protocols/quorum.md, rules 56 to 63).
//!
//! A step is a change of what the coordinator or a brick has stored of tablets. A run without deaths counts the steps. Then
//! for each step and each victim a run with the same seed is stopped there, and the victim dies: the coordinator, a brick
//! that gives, a brick that takes, a sibling, or a session. At the end everybody is there and every key is read.

use crate::rig::{MILLI, Rig};
use crate::runs::BUFFERED;
use crate::scaling::{SPARES, bricks, heal, is_settled, order, rig, state_of, work};
use ramhold_base::KeyHash;
use ramhold_wire::quorum::ScaleOrder;
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};

const HOSTS: usize = 6;
const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Victim {
    Coordinator,
    Brick(usize),
    Sessions,
}

/// Everything that is stored of tablets, in one number. While the coordinator is away nothing of it counts.
fn stored(rig: &Rig) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(state) = rig.head_state() {
        for tablet in state.quorum_tables.values().flat_map(|table| &table.tablets) {
            (tablet.first, tablet.last, tablet.epoch, &tablet.bricks).hash(&mut hasher);
            (tablet.giving.is_some(), tablet.former.len()).hash(&mut hasher);
        }
        state.bricks.values().for_each(|brick| brick.scaling.is_some().hash(&mut hasher));
    }
    for tablet in (0..HOSTS).filter_map(|host| state_of(rig, host)).flat_map(|state| &state.tablets) {
        (tablet.first, tablet.last, tablet.epoch, tablet.votes).hash(&mut hasher);
        (tablet.is_joining, tablet.giving.is_some(), tablet.siblings.len()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Three bricks and three more that are to come or to go, under load.
fn begin(seed: u64, what: ScaleOrder) -> Rig {
    let mut rig = rig(seed, BUFFERED);
    if what == ScaleOrder::Remove {
        SPARES.into_iter().for_each(|host| order(&mut rig, host, ScaleOrder::Add));
        rig.run_until(is_settled);
    }
    SPARES.into_iter().for_each(|host| order(&mut rig, host, what));
    work(&mut rig, 200);
    rig
}

/// Runs until the tablets have changed so often, or until all is settled; gives how often they have changed.
fn run_to(rig: &mut Rig, step: usize) -> usize {
    let (last, count) = (Cell::new(stored(rig)), Cell::new(0));
    rig.run_until(|rig| {
        let now = stored(rig);
        if last.replace(now) != now {
            count.set(count.get() + 1);
        }
        count.get() == step || is_settled(rig)
    });
    count.get()
}

fn die(rig: &mut Rig, victim: Victim) {
    match victim {
        Victim::Coordinator => rig.kill_head(300 * MILLI),
        Victim::Brick(host) => {
            rig.kill(host);
            rig.start_after(host, 300 * MILLI);
        }
        Victim::Sessions => (0..CLIENTS).for_each(|client| rig.abandon(client, Vec::new())),
    }
}

fn die_at_each_step(what: ScaleOrder) {
    let (mut cases, mut steps_all) = (0, 0);
    for seed in [1, 2] {
        let steps = run_to(&mut begin(seed, what), usize::MAX);
        assert!(steps > 20, "{steps} steps");
        steps_all += steps;
        let hosts = (0..HOSTS).map(Victim::Brick);
        let victims: Vec<Victim> = [Victim::Coordinator, Victim::Sessions].into_iter().chain(hosts).collect();
        for (step, victim) in (1..=steps).flat_map(|step| victims.iter().map(move |victim| (step, *victim))) {
            println!("step {step}, {victim:?}");
            let mut rig = begin(seed, what);
            assert_eq!(run_to(&mut rig, step), step, "the same seed has the same steps");
            die(&mut rig, victim);
            work(&mut rig, 30);
            rig.run_for(600 * MILLI);
            heal(&mut rig);
            let count = if what == ScaleOrder::Add { 2 } else { 1 };
            assert_eq!(bricks(&rig).len(), count, "{:?}", bricks(&rig));
            assert_eq!(bricks(&rig)[0].0, KeyHash(0));
            cases += 1;
        }
    }
    println!("{what:?}: {cases} cases, {steps_all} steps of two runs");
}

// I7: all cases of a split.
#[test]
fn anybody_may_die_at_each_step_of_a_split() {
    die_at_each_step(ScaleOrder::Add);
}

// I7: all cases of a coalescence.
#[test]
fn anybody_may_die_at_each_step_of_a_coalescence() {
    die_at_each_step(ScaleOrder::Remove);
}
