//! Runs with faults at random. `RAMHOLD_RUNS` says how many of each; a failure names its seed.

use crate::host::{DATE_MILLIS, Host};
use crate::network::{Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use ramhold_base::{KeyHash, ServerId, Status};
use ramhold_wire::bricks::{PageWanted, TabletPage, TabletPageTold};
use ramhold_wire::decode;
use ramhold_wire::membership::Durability;

pub const BUFFERED: Setting = Setting {
    durability: Durability::Buffered,
    log_bytes: 256 * 1024,
    keys: 24,
    value_bytes_max: 900,
    has_wrong_clock: false,
};
pub const SYNCED: Setting = Setting { durability: Durability::Synced, ..BUFFERED };

pub fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("RAMHOLD_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(12);
    0..count
}

pub fn rebuilding(host: &Host) -> usize {
    host.node.as_ref().unwrap().brick.rebuilding_count()
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

// I6: kills alone. Every brick serves and votes again, and nothing is lost.
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
        assert!(rig.hosts.iter().all(|host| rebuilding(host) == 0));
        rig.run_until(Rig::all_vote);
        rig.check();
        sums.add(&rig);
    }
    println!("{} done, {} unknown, {} failed, {} passes", sums.done, sums.unknown, sums.failed, sums.passes);
    assert!(sums.done > 10 * (sums.unknown + sums.failed), "{} done, {} unknown", sums.done, sums.unknown);
    assert!(sums.passes > 0, "cleaning is a part of it");
}

// I6: what is synced survives the loss of all power.
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
            if rig.rng.chance(1, 2) {
                // Values in buffers alone are taken over, and told, before the power goes.
                (0..3).for_each(|host| rig.kill(host));
                (0..3).for_each(|host| rig.start_if_down(host));
                let wait = rig.rng.between(1, 120) * MILLI;
                rig.run_for(wait);
            }
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
        assert!(rig.hosts.iter().all(|host| rebuilding(host) == 0));
        rig.run_until(Rig::all_vote);
        rig.check();
        sums.add(&rig);
    }
    assert!(sums.done > 1000 && sums.unknown + sums.failed > 0);
}

// I6: a buffered brick that lost its power may have forgotten what it acknowledged. It is rebuilt, however often it
// starts meanwhile, and votes again. Nothing that was acknowledged is lost.
#[test]
fn a_brick_that_lost_its_power_is_rebuilt_before_it_votes() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(4, 600);
        let wait = rig.rng.between(50, 300) * MILLI;
        rig.run_for(wait);
        let lost = rig.rng.below(3) as usize;
        rig.cut_power(lost);
        // It is killed at any moment of its next starts, of its rebuilding, and of its life after them.
        for _ in 0..5 {
            rig.start(lost);
            let longest = if rig.rng.chance(1, 4) { 200 } else { 25 };
            let wait = rig.rng.between(MILLI / 10, longest * MILLI);
            rig.run_for(wait);
            rig.kill(lost);
        }
        rig.start(lost);
        rig.run_until(Rig::all_vote);
        assert!(rig.pages > 0, "nobody votes again without having asked");
        // Now another one loses its power: what the rebuilt one has must suffice.
        let other = (lost + 1) % 3;
        rig.cut_power(other);
        rig.read_all();
        rig.start(other);
        rig.run_until(Rig::all_vote);
        rig.check();
    }
}

// I6: power cuts of one brick after the other, with kills of others, under load.
#[test]
fn bricks_that_lose_their_power_in_turn_lose_nothing() {
    let mut pages = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, Setting { keys: 200, ..BUFFERED });
        rig.add_clients(4, 1500);
        for _ in 0..6 {
            let wait = rig.rng.between(20, 300) * MILLI;
            rig.run_for(wait);
            let lost = rig.rng.below(3) as usize;
            rig.cut_power(lost);
            if rig.rng.chance(1, 4) {
                rig.hosts[lost].disks.wipe_frames();
            }
            let away = rig.rng.between(1, 200) * MILLI;
            rig.start_after(lost, away);
            if rig.rng.chance(1, 2) {
                let killed = (lost + 1) % 3;
                let wait = rig.rng.between(1, 250) * MILLI;
                rig.run_for(wait);
                rig.kill(killed);
                rig.start_after(killed, 30 * MILLI);
            }
            rig.run_until(Rig::all_vote);
            // Records that a rebuilding has dropped are gone for good.
            rig.restart(lost);
            rig.run_until(Rig::all_vote);
        }
        rig.read_all();
        rig.check();
        pages += rig.pages;
    }
    assert!(u64::from(pages) > 8 * seeds().end, "{pages}");
}

// I6: the whole site is dark. The newest of what is left counts, and it is said that something may be lost.
#[test]
fn after_a_power_cut_of_all_what_is_left_is_served_and_the_loss_is_told() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(4, 400);
        let wait = rig.rng.between(100, 600) * MILLI;
        rig.run_for(wait);
        (0..3).for_each(|host| rig.cut_power(host));
        rig.forget_history();
        for host in 0..3 {
            let away = rig.rng.between(1, 300) * MILLI;
            rig.start_after(host, away);
        }
        rig.run_until(Rig::all_vote);
        let is_told = |report: &String| report.contains("rebuilt from what is left");
        assert!(rig.hosts.iter().any(|host| host.reports.iter().any(is_told)));
        rig.read_all();
        rig.check();
    }
}

// I6: two that lost their power, and one that is dead: nobody votes before the third one is back.
#[test]
fn nobody_votes_before_enough_siblings_have_told() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 100);
        rig.finish();
        // Everything is on the devices: more than one brick loses its power, and only the last moments may be lost.
        rig.run_for(1000 * MILLI);
        rig.kill(0);
        for host in [1, 2] {
            rig.cut_power(host);
            rig.start(host);
        }
        rig.run_for(3000 * MILLI);
        let votes = |rig: &Rig, host: usize| rig.hosts[host].node.as_ref().unwrap().brick.votes();
        assert!(!votes(&rig, 1) && !votes(&rig, 2), "what the dead one has is not known");
        rig.start(0);
        rig.run_until(Rig::all_vote);
        rig.read_all();
        rig.check();
    }
}

// I6: who tells knows the life that asks, on its device. Strangers, and lives that are over, are told nothing.
#[test]
fn a_page_is_told_when_the_life_that_asks_is_on_the_device() {
    let mut rig = Rig::new(1, BUFFERED);
    let page = |life, mark| TabletPage {
        table: TABLE,
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        epoch: 1,
        life,
        mark,
        wanted: PageWanted::Stamps { from: 0, on_device: false },
        stands_in: false,
    };
    let ask = |rig: &mut Rig, asker: u64, page: &TabletPage| {
        rig.told.clear();
        let bytes = request(1, (ServerId(asker), ServerId(1)), page);
        rig.on_frame(Party::Test, Party::Host(0), bytes);
    };
    let known = |rig: &Rig| {
        let state = rig.hosts[0].node.as_ref().unwrap().brick.state().unwrap();
        state.lives.iter().find(|life| life.brick == ServerId(2)).map(|life| (life.life, life.mark))
    };
    // The others are gone, or their announcements would be refused.
    rig.kill(1);
    rig.kill(2);
    // A later life that was not announced may be a copy's. It counts when the life before it has been silent.
    rig.run_for(3_000_000_000);
    ask(&mut rig, 2, &page(7, 99));
    let before = known(&rig);
    assert_ne!(before, Some((7, 99)));
    // The answer goes out in the step in which the life is durable, and not before.
    rig.run_until(|rig| !rig.hosts[0].sent.is_empty() || !rig.told.is_empty() || known(rig) != before);
    assert!(rig.told.is_empty());
    rig.run_until(|rig| !rig.told.is_empty());
    assert_eq!((rig.told[0].0.status(), known(&rig)), (Status::Ok, Some((7, 99))));
    ask(&mut rig, 2, &page(7, 99));
    rig.run_until(|rig| !rig.told.is_empty());
    let (header, body) = rig.told.pop().unwrap();
    let told: TabletPageTold = decode(&body).unwrap();
    assert_eq!((header.status(), header.target), (Status::Ok, ServerId(2)));
    assert!(told.votes && told.next.is_none());
    let refusals = [
        (2, page(6, 99), Status::Fenced),
        (2, page(7, 98), Status::Fenced),
        (9, page(1, 1), Status::NotAllowed),
        (1, page(1, 1), Status::NotAllowed),
        (2, TabletPage { epoch: 2, ..page(8, 1) }, Status::NotAllowed),
        (2, TabletPage { last: KeyHash(9), ..page(8, 1) }, Status::NotAllowed),
    ];
    for (asker, page, status) in refusals {
        ask(&mut rig, asker, &page);
        rig.run_until(|rig| !rig.told.is_empty());
        assert_eq!(rig.told[0].0.status(), status, "{page:?}");
    }
    assert_eq!(known(&rig), Some((7, 99)), "a refused question changes nothing");
}

// I6: its siblings may know a later life of it, from which this directory was put back.
#[test]
fn a_brick_that_no_sibling_has_answered_tells_no_page_as_one_that_votes() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 20);
        rig.finish();
        let votes_told = |rig: &mut Rig| {
            rig.told.clear();
            let state = rig.hosts[0].node.as_ref().expect("it runs").brick.state().expect("it has started");
            let sibling = *state.lives.iter().find(|it| it.brick == ServerId(2)).expect("they have met");
            let page = TabletPage {
                table: TABLE,
                first: KeyHash(0),
                last: KeyHash(u64::MAX),
                epoch: 1,
                life: sibling.life,
                mark: sibling.mark,
                wanted: PageWanted::Stamps { from: 0, on_device: false },
                stands_in: false,
            };
            rig.on_frame(Party::Test, Party::Host(0), request(1, (ServerId(2), ServerId(1)), &page));
            rig.run_until(|rig| !rig.told.is_empty());
            let (header, body) = rig.told.pop().expect("just told");
            assert_eq!(header.status(), Status::Ok);
            let told: TabletPageTold = decode(&body).expect("it is a page");
            told.votes
        };
        assert!(votes_told(&mut rig));
        (0..3).for_each(|host| rig.kill(host));
        rig.start(0);
        rig.run_until(|rig| rig.hosts[0].node.as_ref().is_some_and(|node| node.brick.is_serving()));
        assert!(!votes_told(&mut rig), "nobody has told it a clock, or a later life");
        rig.start(1);
        rig.start(2);
        rig.run_until(Rig::all_vote);
        assert!(votes_told(&mut rig));
        rig.read_all();
        rig.check();
    }
}

// I6: a brick ends in order at any moment of its start.
#[test]
fn a_brick_that_starts_can_be_stopped() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, BUFFERED);
        rig.add_clients(2, 200);
        rig.finish();
        for _ in 0..5 {
            let host = rig.rng.below(3) as usize;
            rig.kill(host);
            rig.start(host);
            let wait = rig.rng.between(MILLI / 20, 15 * MILLI);
            rig.run_for(wait);
            rig.stop(host);
            rig.run_until(|rig| rig.hosts[host].exit.is_some());
            rig.hosts[host].exit = None;
            rig.start(host);
            rig.run_until(Rig::all_vote);
        }
        rig.read_all();
        rig.check();
    }
}

// I6: an end in order leaves nothing to lose, whatever happens to the power then.
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
        assert!(rig.hosts.iter().all(|host| rebuilding(host) == 0));
        rig.run_until(Rig::all_vote);
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
        // A brick that has heard the wrong clock alone is silent about writes.
        rig.run_for(1000 * MILLI);
        rig.add_clients(4, 300);
        rig.read_all();
        assert_eq!((rig.unknown, rig.failed), (0, 0));
        // It starts again, and has heard nobody yet.
        let wrong = rig.hosts.iter().position(|host| host.clock_off.abs() > 1000).unwrap();
        (0..3).for_each(|host| rig.kill(host));
        rig.start(wrong);
        rig.run_for(2500 * MILLI);
        let bound = rig.hosts[wrong].node.as_ref().unwrap().brick.log().unwrap().bound();
        assert!(
            bound <= DATE_MILLIS * 1000 + rig.now / 1000,
            "nobody has told the time, and stamps are forgotten"
        );
        (0..3).for_each(|host| rig.start_if_down(host));
        rig.run_until(Rig::all_vote);
        rig.run_for(1000 * MILLI);
        rig.left = 300;
        (0..4).for_each(|client| rig.go_on(client));
        rig.read_all();
        assert_eq!((rig.unknown, rig.failed), (0, 0));
        rig.check();
    }
}
