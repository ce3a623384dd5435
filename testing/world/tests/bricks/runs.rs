//! Runs with faults at random. `RAMHOLD_RUNS` says how many of each; a failure names its seed.

use crate::rig::{MILLI, Rig, Setting};
use ramhold_wire::membership::Durability;

const BUFFERED: Setting = Setting {
    durability: Durability::Buffered,
    log_bytes: 256 * 1024,
    keys: 24,
    value_bytes_max: 900,
    has_wrong_clock: false,
};
const SYNCED: Setting = Setting { durability: Durability::Synced, ..BUFFERED };

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("RAMHOLD_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(12);
    0..count
}

/// Sums over runs: a run that does nothing shows nothing.
#[derive(Default)]
struct Sums {
    done: u32,
    unknown: u32,
    failed: u32,
    passes: u64,
}

impl Sums {
    fn add(&mut self, rig: &Rig) {
        self.done += rig.done;
        self.unknown += rig.unknown;
        self.failed += rig.failed;
    }
}

fn passes(rig: &Rig) -> u64 {
    let logs = rig.hosts.iter().filter_map(|host| host.node.as_ref());
    logs.map(|node| node.brick.cleaning_counters().combined_passes).sum()
}

// I5: kills alone. Every brick serves and votes again, and nothing is lost.
#[test]
fn killed_bricks_come_back_with_everything() {
    let mut sums = Sums::default();
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(4, 1500);
        for _ in 0..12 {
            let wait = rig.rng.between(20, 400) * MILLI;
            rig.run_for(wait);
            sums.passes += passes(&rig);
            // Mostly one, sometimes all at once.
            let who: Vec<usize> =
                if rig.rng.chance(1, 5) { (0..3).collect() } else { vec![rig.rng.below(3) as usize] };
            for host in who {
                rig.kill(host);
                let away = rig.rng.between(1, 300) * MILLI;
                rig.start_after(host, away);
            }
        }
        rig.run_until(Rig::all_serve);
        rig.read_all();
        sums.passes += passes(&rig);
        assert!(rig.hosts.iter().all(|host| host.node.as_ref().unwrap().brick.votes()));
        rig.check();
        sums.add(&rig);
    }
    println!("{} done, {} unknown, {} failed, {} passes", sums.done, sums.unknown, sums.failed, sums.passes);
    assert!(sums.done > 10 * (sums.unknown + sums.failed), "{} done, {} unknown", sums.done, sums.unknown);
    assert!(sums.passes > 0, "cleaning is a part of it");
}

// I5: what is synced survives the loss of all power.
#[test]
fn synced_values_survive_power_cuts_of_all_bricks() {
    let mut sums = Sums::default();
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SYNCED);
        rig.add_clients(4, 800);
        for _ in 0..6 {
            let wait = rig.rng.between(20, 400) * MILLI;
            rig.run_for(wait);
            let all = rig.rng.chance(1, 2);
            for host in 0..3 {
                if all || rig.rng.chance(1, 3) {
                    rig.cut_power(host);
                    let away = rig.rng.between(1, 300) * MILLI;
                    rig.start_after(host, away);
                }
            }
        }
        rig.run_until(Rig::all_serve);
        rig.read_all();
        assert!(rig.hosts.iter().all(|host| host.node.as_ref().unwrap().brick.votes()));
        rig.check();
        sums.add(&rig);
    }
    assert!(sums.done > 1000 && sums.unknown + sums.failed > 0);
}

// I5: a buffered brick that lost its power may have forgotten what it acknowledged. It does not vote, over restarts.
#[test]
fn a_brick_that_lost_its_power_does_not_vote() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(4, 600);
        let wait = rig.rng.between(50, 300) * MILLI;
        rig.run_for(wait);
        let lost = rig.rng.below(3) as usize;
        rig.cut_power(lost);
        // It is killed at any moment of its next starts, and of its life after them.
        for _ in 0..5 {
            rig.start(lost);
            let longest = if rig.rng.chance(1, 4) { 200 } else { 25 };
            let wait = rig.rng.between(MILLI / 10, longest * MILLI);
            rig.run_for(wait);
            rig.kill(lost);
        }
        rig.start(lost);
        rig.run_until(Rig::all_serve);
        rig.read_all();
        assert!(!rig.hosts[lost].node.as_ref().unwrap().brick.votes(), "it may have forgotten something");
        rig.check();
    }
}

// I5: an end in order leaves nothing to lose, whatever happens to the power then.
#[test]
fn a_brick_that_was_stopped_in_order_votes_after_a_power_cut() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 200);
        rig.finish();
        for host in 0..3 {
            rig.stop(host);
        }
        rig.run_until(|rig| rig.hosts.iter().all(|host| host.exit.is_some()));
        for host in 0..3 {
            rig.hosts[host].exit = None;
            rig.cut_power(host);
            rig.start_after(host, MILLI);
        }
        rig.run_until(Rig::all_serve);
        assert!(rig.hosts.iter().all(|host| host.node.as_ref().unwrap().brick.votes()));
        rig.read_all();
        rig.check();
    }
}

// I2: the session's time is the median of three.
#[test]
fn one_brick_whose_clock_is_an_hour_off_disturbs_nobody() {
    for seed in seeds() {
        println!("seed {seed}");
        // With little memory a brick forgets young stamps, and a write that meets a newer one may end unknown.
        let setting = Setting { has_wrong_clock: true, log_bytes: 1 << 20, keys: 4, ..BUFFERED };
        let mut rig = Rig::new(seed, setting);
        rig.add_clients(4, 300);
        rig.read_all();
        assert_eq!((rig.unknown, rig.failed), (0, 0));
        // It starts again, and has heard nobody yet.
        let wrong = rig.hosts.iter().position(|host| host.clock_off > 1000).unwrap();
        rig.kill(wrong);
        rig.start(wrong);
        rig.run_until(Rig::all_serve);
        rig.run_for(1000 * MILLI);
        rig.left = 300;
        (0..4).for_each(|client| rig.go_on(client));
        rig.read_all();
        assert_eq!((rig.unknown, rig.failed), (0, 0));
        rig.check();
    }
}
