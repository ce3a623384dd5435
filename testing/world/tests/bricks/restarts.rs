//! Restarts by order of a sibling (docs/protocols/quorum.md, rules 42 to 45). Clients go on meanwhile.

use crate::network::{Party, request};
use crate::rig::{MILLI, Rig, TABLE};
use crate::runs::{BUFFERED, seeds};
use crate::seen::kinds;
use ramhold_base::{ServerId, Status, TableId};
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::bricks::BrickAssignment;
use ramhold_wire::restart::{RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::{Kind, Opcode, decode};

fn supervised(seed: u64, limit: RestartLimit) -> Rig {
    println!("seed {seed}");
    let mut rig = Rig::new(seed, BUFFERED);
    rig.supervise(limit);
    rig.add_clients(3, 300);
    assert!(rig.supervision.orders.is_empty() && rig.supervision.ends.is_empty());
    rig
}

fn life(rig: &Rig, host: usize) -> Option<(u64, u64)> {
    let state = rig.hosts[host].node.as_ref()?.brick.state()?;
    Some((state.life, state.mark))
}

fn orderers(rig: &Rig) -> Vec<(Party, usize)> {
    let mut orders = rig.supervision.orders.clone();
    orders.dedup();
    orders
}

fn finish(rig: &mut Rig) {
    rig.run_until(Rig::all_vote);
    rig.read_all();
    rig.check();
    assert_eq!(rig.failed, 0, "two of three bricks answer at any time");
}

// I6: a process that hangs. The coordinator is away all the time.
#[test]
fn the_next_brick_has_a_hung_one_restarted_once() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        let hung = rig.rng.below(3) as usize;
        let before = life(&rig, hung);
        rig.hosts[hung].is_hung = true;
        rig.run_for(4000 * MILLI);
        assert_eq!(rig.supervision.ends, [(hung, Act::Kill)]);
        assert_eq!(orderers(&rig), [(Party::Host((hung + 1) % 3), hung)], "only the next one orders it");
        assert!(life(&rig, hung) > before && rig.hosts[hung].node.as_ref().unwrap().brick.votes());
        let told = &rig.hosts[(hung + 1) % 3].reports;
        let is_event =
            |text: &String| text.starts_with("event: ") && text.contains("its restart was ordered");
        assert!(told.iter().any(is_event), "{told:?}");
        let about = rig.hosts[hung].id;
        assert!(kinds(&rig, (hung + 1) % 3, about).iter().any(|kind| kind == "restart-ordered"));
        assert!(kinds(&rig, (hung + 2) % 3, about).iter().all(|kind| kind != "restart-ordered"));
        rig.run_for(20_000 * MILLI);
        assert_eq!(rig.supervision.ends.len(), 1);
        finish(&mut rig);
    }
}

// I6
#[test]
fn the_brick_after_the_next_one_has_both_restarted() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        let first = rig.rng.below(3) as usize;
        let (next, last) = ((first + 1) % 3, (first + 2) % 3);
        rig.hosts[first].is_hung = true;
        rig.hosts[next].is_hung = true;
        rig.run_for(4000 * MILLI);
        let mut ends = rig.supervision.ends.clone();
        ends.sort_by_key(|(host, _)| *host);
        let mut wanted = [(first, Act::Kill), (next, Act::Kill)];
        wanted.sort_by_key(|(host, _)| *host);
        assert_eq!(ends, wanted);
        assert!(orderers(&rig).iter().all(|(from, _)| *from == Party::Host(last)));
        rig.run_until(Rig::all_vote);
        rig.run_for(20_000 * MILLI);
        assert_eq!(rig.supervision.ends.len(), 2);
        rig.read_all();
        rig.check();
    }
}

// I6
#[test]
fn a_brick_that_ends_by_itself_is_started_at_once_without_an_order() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        rig.run_for(1000 * MILLI);
        rig.kill(1);
        rig.process_ended(1);
        rig.run_for(500 * MILLI);
        assert!(rig.hosts[1].node.as_ref().is_some_and(|node| node.brick.votes()));
        rig.run_for(20_000 * MILLI);
        assert!(rig.supervision.orders.is_empty() && rig.supervision.ends.is_empty());
        finish(&mut rig);
    }
}

/// Nothing goes between bricks in these directions.
fn cut(rig: &mut Rig, pairs: &[(usize, usize)]) {
    rig.cuts.extend(pairs.iter().map(|(from, to)| (Party::Host(*from), Party::Host(*to))));
}

// I6: bricks that share no tablet announce nothing to each other. They are not silent when they share one again.
#[test]
fn a_new_table_makes_nobody_order_a_restart() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        rig.finish();
        let has_taken = |version: u64| {
            move |rig: &Rig| {
                let all = rig.hosts.iter().map(|host| host.node.as_ref().map(|node| node.brick.taken()));
                all.into_iter().all(|taken| taken == Some(version))
            }
        };
        let (tables, tablets) = (Vec::new(), Vec::new());
        let nothing = BrickAssignment { tables, tablets, ..rig.assignment(2, TABLE, vec![TABLE]) };
        rig.assignment = Some(nothing);
        rig.run_until(has_taken(2));
        rig.run_for(300_000 * MILLI);
        rig.assignment = Some(rig.assignment(3, TableId(8), Vec::new()));
        rig.run_until(has_taken(3));
        rig.run_for(5000 * MILLI);
        assert_eq!(rig.supervision.orders, []);
        for (host, about) in (0..3).flat_map(|host| (0..3).map(move |about| (host, about))) {
            let noted = kinds(&rig, host, rig.hosts[about].id);
            assert!(!noted.iter().any(|kind| kind == "sibling-silent"), "{host} about {about}: {noted:?}");
        }
        // One that is silent from then on is still found.
        rig.hosts[1].is_hung = true;
        rig.run_for(4000 * MILLI);
        assert_eq!(rig.supervision.ends, [(1, Act::Kill)]);
    }
}

// I6: the word of a sibling ends nobody (C33).
#[test]
fn announcements_that_are_cut_one_way_or_in_all_cost_no_brick_its_life() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        // The third brick is heard by nobody, and hears all.
        cut(&mut rig, &[(2, 0), (2, 1)]);
        rig.run_for(5000 * MILLI);
        assert!(!rig.supervision.orders.is_empty(), "it is silent to the others");
        rig.cuts.clear();
        rig.run_for(3000 * MILLI);
        rig.supervision.orders.clear();
        cut(&mut rig, &[(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        rig.run_for(5000 * MILLI);
        assert!(!rig.supervision.orders.is_empty(), "all are silent to all");
        rig.cuts.clear();
        rig.run_for(20_000 * MILLI);
        assert_eq!(rig.supervision.ends, []);
        finish(&mut rig);
    }
}

// I6: an order that comes when its life is over, while the next life is silent itself.
#[test]
fn a_late_order_does_not_end_the_next_life() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        rig.finish();
        let (former, mark) = life(&rig, 0).unwrap();
        rig.kill(0);
        rig.process_ended(0);
        rig.run_for(2500 * MILLI);
        assert!(life(&rig, 0).is_some_and(|(life, _)| life > former));
        // The orders of its siblings do not come through.
        rig.cuts.extend([1, 2].map(|host| (Party::Host(host), Party::Supervisor(0))));
        rig.hosts[0].is_hung = true;
        let order =
            RestartOrder { brick: ServerId(1), life: former, mark, silent_millis: 1100, flagged: None };
        let bytes = request(70, (ServerId(2), ServerId(1)), &order);
        rig.told.clear();
        rig.send(Party::Test, Party::Supervisor(0), bytes);
        rig.run_for(1300 * MILLI);
        assert_eq!(rig.supervision.ends, []);
        let answer = rig.told.first().map(|(header, _)| (header.kind, header.opcode(), header.status()));
        assert_eq!(answer, Some((Kind::Reply, Some(Opcode::RestartOrder), Status::Fenced)));
        rig.hosts[0].is_hung = false;
        rig.cuts.clear();
        rig.run_for(5000 * MILLI);
        assert_eq!(rig.supervision.ends, []);
    }
}

// I6: twenty siblings and their doubles are one restart; strangers are none.
#[test]
fn many_orders_are_one_restart_and_those_of_strangers_are_refused() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        let (life, mark) = life(&rig, 0).unwrap();
        let order = RestartOrder { brick: ServerId(1), life, mark, silent_millis: 1100, flagged: None };
        rig.hosts[0].is_hung = true;
        for (sender, target) in [(0, 1), (77, 1)] {
            let bytes = request(70, (ServerId(sender), ServerId(target)), &order);
            rig.send(Party::Test, Party::Supervisor(0), bytes);
        }
        rig.run_for(100 * MILLI);
        let told: Vec<Status> = rig.told.drain(..).map(|(header, _)| header.status()).collect();
        assert_eq!(told, [Status::NotAllowed; 2]);
        for number in 0..20 {
            let bytes = request(71 + number, (ServerId(2 + number % 2), ServerId(1)), &order);
            rig.send(Party::Test, Party::Supervisor(0), bytes);
        }
        rig.run_for(4000 * MILLI);
        assert_eq!(rig.supervision.ends, [(0, Act::Kill)]);
        let said = |body: &[u8]| decode::<RestartAnswer>(body).unwrap().said;
        assert!(rig.told.iter().all(|(_, body)| said(body) == RestartSaid::Restarting));
        assert_eq!(rig.told.len(), 20);
        finish(&mut rig);
    }
}

// I6
#[test]
fn a_brick_that_hangs_again_and_again_stays_offline_and_that_is_said() {
    for seed in seeds() {
        let mut rig = supervised(seed, RestartLimit::DEFAULT);
        for _ in 0..4 {
            rig.hosts[2].is_hung = true;
            rig.run_for(6000 * MILLI);
        }
        assert_eq!(rig.supervision.ends, [(2, Act::Kill); 4]);
        rig.run_for(30_000 * MILLI);
        assert!(rig.hosts[2].node.is_none());
        let last = rig.supervision.reports.last().unwrap();
        assert!(last.contains("offline after 3 restarts") && last.contains("brick restart s3"), "{last}");
        let told = &rig.hosts[0].reports;
        assert!(told.iter().any(|text| text.contains("restarted too often and stays offline")), "{told:?}");
        // The others go on without it.
        rig.read_all();
        rig.check();
    }
}
