//! A brick that answers, and is unlike the others, is restarted (docs/protocols/quorum.md, rules 49, 64 to 68).
//!
//! Five bricks hold one tablet. The test asks all of them the same, in bursts. A slow host gets to its work later, and its
//! device takes longer, so that its queues are longer, its answers come later, and puts find the queue full.

use crate::host::Slow;
use crate::network::{CLUSTER, Party, request};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::{SYNCED, seeds};
use crate::seen::kinds;
use ramhold_base::{RpcId, ServerId, SessionId, Stamp, Status};
use ramhold_node::BrickStatistics;
use ramhold_quorum::{Class, Thresholds};
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::bricks::StatisticsReport;
use ramhold_wire::restart::{RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::statistics::{Flags, Statistics};
use ramhold_wire::{Header, Opcode, decode, frame};
use std::collections::BTreeSet;
use std::time::Duration;

const SECOND: u64 = 1000 * MILLI;
const WIDE: Setting = Setting { log_bytes: 4 * 1024 * 1024, ..SYNCED };
const VALUE: [u8; 700] = [5; 700];
/// The pause between two bursts, and the questions of a burst to each brick.
const BURST: u64 = 200 * MILLI;
const QUESTIONS: u64 = 140;
/// Longer than a brick must have reported before it is compared.
const WARM_UP: u64 = 53 * SECOND;
/// The slowness of a host that has come to its end.
const SLOWEST: Slow = Slow { device_nanos: 700 * MILLI, turn_nanos: 60 * MILLI };

struct Load {
    rig: Rig,
    bursts: u64,
    /// Seconds for which hosts have been getting slower.
    slowed: u64,
    /// Processor time that each host's process has used.
    processor: Vec<Duration>,
}

impl Load {
    fn new(seed: u64, threshold: Option<usize>) -> Load {
        println!("seed {seed}");
        let mut rig = Rig::with(seed, WIDE, Thresholds::majority(5).unwrap(), 0);
        rig.hosts.iter_mut().for_each(|host| host.restart_threshold = threshold);
        rig.supervise(RestartLimit::DEFAULT);
        let processor = vec![Duration::ZERO; rig.hosts.len()];
        Load { rig, bursts: 0, slowed: 0, processor }
    }

    fn ask(&mut self, host: usize, number: u64, key: &str, what: AskWhat<'_>) {
        let target = self.rig.hosts[host].id;
        let header = Header { cluster: CLUSTER, target, ..Header::request(Opcode::Ask, RpcId(1 + number)) };
        let mut bytes = Vec::new();
        let asked = AskRequest { table: TABLE, key: key.as_bytes(), what };
        frame::write(&mut bytes, &header, |out| asked.encode(out));
        self.rig.on_frame(Party::Test, Party::Host(host), bytes);
    }

    /// The same questions to all bricks, about a few keys that are written all the time.
    fn burst(&mut self) {
        self.bursts += 1;
        let session = SessionId::of(4).unwrap();
        let first = self.bursts * 1000;
        for host in 0..self.rig.hosts.len() {
            let Some(node) = self.rig.hosts[host].node.as_ref().filter(|node| node.brick.is_serving()) else {
                continue;
            };
            let begun = node.brick.time(self.rig.instant());
            for number in first..first + QUESTIONS {
                let key = format!("hot{}", number % 5);
                // In turn, so that the first ones of a turn are of all classes.
                match number % 14 {
                    0..3 => {
                        let stamp = Stamp::new(begun + number % 1000, session);
                        let value = Some(StampedValue { bytes: &VALUE, expires: None });
                        let write = AskedWrite { stamp, begun, is_repair: false, value };
                        self.ask(host, number, &key, AskWhat::Write(write));
                    }
                    3..9 => self.ask(host, number, &key, AskWhat::Value),
                    _ => self.ask(host, number, &key, AskWhat::Stamp),
                }
            }
        }
    }

    /// Bursts for so long, or until something is reached.
    fn run(&mut self, nanos: u64, is_reached: impl Fn(&Rig) -> bool) {
        let end = self.rig.now + nanos;
        while self.rig.now < end && !is_reached(&self.rig) {
            self.burst();
            self.rig.run_for(BURST);
            self.rig.told.clear();
            for host in 0..self.rig.hosts.len() {
                let permille = if self.rig.hosts[host].slow.is_some() { 900 } else { 250 };
                let used = permille + self.rig.rng.below(60);
                self.processor[host] += Duration::from_nanos(BURST / 1000 * used);
                let (now, processor) = (self.rig.instant(), self.processor[host]);
                if let Some(node) = &mut self.rig.hosts[host].node {
                    node.on_usage(now, processor, 1 << 21);
                }
            }
        }
    }

    /// The host gets slower from second to second, up to the slowest.
    fn degrade(&mut self, hosts: &[usize], seconds: u64, is_reached: impl Fn(&Rig) -> bool) {
        for _ in 0..seconds {
            self.slowed += 1;
            let parts = self.slowed.min(20);
            for host in hosts {
                let life = self.rig.hosts[*host].life;
                let part = |nanos: u64| nanos * parts / 20;
                if life == 2 {
                    let Slow { device_nanos, turn_nanos } = SLOWEST;
                    let slow = Slow { device_nanos: part(device_nanos), turn_nanos: part(turn_nanos) };
                    self.rig.hosts[*host].slow = Some(slow);
                }
            }
            self.run(SECOND, &is_reached);
        }
    }

    fn statistics(&self, host: usize) -> BrickStatistics {
        self.rig.hosts[host].node.as_ref().unwrap().brick.statistics()
    }
}

fn ends(rig: &Rig) -> &[(usize, Act)] {
    &rig.supervision.ends
}

/// One seed of twelve: each is two minutes of five bricks under load.
fn few() -> std::ops::Range<u64> {
    0..seeds().end.div_ceil(12)
}

// I6
#[test]
fn a_slow_brick_is_restarted_within_a_minute_and_no_other_one() {
    for seed in few() {
        let mut load = Load::new(seed, Some(11));
        load.rig.add_clients(2, 300);
        let slow = load.rig.rng.below(5) as usize;
        load.run(WARM_UP, |_| false);
        assert_eq!(ends(&load.rig), [], "all are alike");
        load.degrade(&[slow], 60, |rig| !ends(rig).is_empty());
        let own = load.rig.hosts[slow].node.as_ref().map(|node| node.brick.flagged());
        assert_eq!(ends(&load.rig), [(slow, Act::Kill)], "{own:?}");
        load.run(20 * SECOND, |_| false);
        assert_eq!(ends(&load.rig), [(slow, Act::Kill)], "and nobody else");
        assert!(load.rig.votes(slow) && load.rig.hosts[slow].life == 3);
        let about = load.rig.hosts[slow].id;
        let next = (slow + 1) % 5;
        for host in (0..5).filter(|host| *host != slow) {
            let kinds = kinds(&load.rig, host, about);
            let has = |kind: &str| kinds.iter().any(|it| it == kind);
            assert!(has("anomaly-restarted") && has("sibling-restarted"), "{kinds:?}");
            assert_eq!(
                (has("anomaly-seen"), has("anomaly-ordered")),
                (host == next, host == next),
                "{kinds:?}"
            );
            assert!(!has("restart-ordered"), "it was not silent: {kinds:?}");
        }
        let told = load.rig.supervision.reports.join("\n");
        assert!(told.contains("is anomalous") && told.contains("its siblings consent: killed"), "{told}");
        load.rig.finish();
        load.rig.check();
        assert_eq!(load.rig.failed, 0);
    }
}

// I6: without statistics a slow brick stays as it is.
#[test]
fn with_the_threshold_off_nobody_is_restarted() {
    let mut load = Load::new(1, None);
    load.run(WARM_UP, |_| false);
    load.degrade(&[2], 40, |_| false);
    assert_eq!(ends(&load.rig), []);
    let latency = |host| load.statistics(host).of(Class::Put).latency.nanos();
    assert!(latency(2) > 3 * latency(1), "it is slow");
    assert!(load.rig.supervision.orders.is_empty());
}

// I6: D29
#[test]
fn a_shift_of_the_load_on_all_bricks_restarts_nobody() {
    let mut load = Load::new(2, Some(11));
    load.run(WARM_UP, |_| false);
    load.degrade(&[0, 1, 2, 3, 4], 40, |_| false);
    assert_eq!(ends(&load.rig), []);
}

// I6: D29
#[test]
fn two_slow_bricks_are_restarted_one_after_the_other_or_not_at_all() {
    let mut load = Load::new(3, Some(11));
    load.run(WARM_UP, |_| false);
    // While both are anomalous they are more than a third, and nobody knows who is to blame.
    for _ in 0..40 {
        load.degrade(&[1, 3], 1, |_| false);
        let voting = (0..5).filter(|host| load.rig.votes(*host)).count();
        assert!(voting >= 4, "{:?}", ends(&load.rig));
    }
    let ended: Vec<usize> = ends(&load.rig).iter().map(|(host, _)| *host).collect();
    let once = |host: &usize| ended.iter().filter(|it| *it == host).count() == 1;
    assert!(ended.iter().all(|host| [1, 3].contains(host) && once(host)), "{ended:?}");
}

// I6
#[test]
fn announcements_that_are_cut_make_no_brick_anomalous() {
    let mut load = Load::new(4, Some(11));
    load.run(WARM_UP, |_| false);
    let cut = |from: usize| {
        (0..5).filter(move |to| *to != from).map(move |to| (Party::Host(from), Party::Host(to)))
    };
    load.rig.cuts.extend(cut(2));
    load.run(5 * SECOND, |_| false);
    load.rig.cuts.clear();
    load.run(5 * SECOND, |_| false);
    load.rig.cuts.extend((0..5).flat_map(cut));
    load.run(5 * SECOND, |_| false);
    load.rig.cuts.clear();
    load.run(20 * SECOND, |_| false);
    assert_eq!(ends(&load.rig), []);
    assert!((0..5).all(|host| load.rig.votes(host)));
}

/// An order of a sibling about a host's brick in its present life: it is unlike the others.
fn order_for(rig: &Rig, host: usize) -> Vec<u8> {
    let state = rig.hosts[host].node.as_ref().unwrap().brick.state().unwrap();
    let sibling = rig.hosts[(host + 1) % 3].id;
    let flagged = Some(Flags(0b1_1111_1111_1100));
    let order =
        RestartOrder { brick: state.brick, life: state.life, mark: state.mark, silent_millis: 0, flagged };
    request(500 + host as u64, (sibling, state.brick), &order)
}

fn order(rig: &mut Rig, host: usize) {
    let bytes = order_for(rig, host);
    rig.send(Party::Test, Party::Supervisor(host), bytes);
}

fn said(rig: &mut Rig) -> Vec<RestartSaid> {
    let told = rig.told.drain(..).filter(|(header, _)| header.opcode() == Some(Opcode::RestartOrder));
    told.map(|(header, body)| {
        assert_eq!(header.status(), Status::Ok);
        decode::<RestartAnswer>(&body).unwrap().said
    })
    .collect()
}

// I6: D29: the siblings' consent sees to it, whoever orders.
#[test]
fn at_most_one_brick_of_a_tablet_is_restarted_at_a_time() {
    let mut both_held = 0;
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SYNCED);
        rig.supervise(RestartLimit::None);
        for _ in 0..10 {
            let before = ends(&rig).len();
            let voting: BTreeSet<usize> = (0..3).filter(|host| rig.votes(*host)).collect();
            assert_eq!(voting.len(), 3);
            // All of them, at about the same time. The restarted one takes some time to vote.
            let orders: Vec<Vec<u8>> = (0..3).map(|host| order_for(&rig, host)).collect();
            for (host, bytes) in orders.into_iter().enumerate() {
                rig.send(Party::Test, Party::Supervisor(host), bytes);
                let pause = rig.rng.below(30) * MILLI;
                rig.run_for(pause);
            }
            rig.device_nanos = 60 * MILLI;
            for _ in 0..4000 {
                rig.run_for(MILLI);
                let voting = (0..3).filter(|host| rig.votes(*host)).count();
                assert!(voting >= 2, "at {} ms: {:?}", rig.now / MILLI, ends(&rig));
            }
            rig.device_nanos = 0;
            let restarted = ends(&rig).len() - before;
            let said = said(&mut rig);
            let held = said.iter().filter(|it| **it == RestartSaid::Held).count();
            assert_eq!((said.len(), held + restarted), (3, 3), "{said:?}");
            both_held += usize::from(restarted == 0);
            rig.run_for(12 * SECOND);
            rig.run_until(Rig::all_vote);
        }
    }
    println!("nobody was restarted in {both_held} rounds");
    assert!(both_held < 5 * seeds().count(), "somebody is restarted mostly");
}

// I6: D29
#[test]
fn a_brick_is_not_restarted_while_a_sibling_does_not_vote() {
    for seed in seeds() {
        println!("seed {seed}");
        let mut rig = Rig::new(seed, SYNCED);
        rig.supervise(RestartLimit::DEFAULT);
        // The third one hangs. Nobody has it restarted, as its supervisor is not reached.
        rig.cuts.extend([0, 1].map(|host| (Party::Host(host), Party::Supervisor(2))));
        rig.hosts[2].is_hung = true;
        rig.run_for(300 * MILLI);
        order(&mut rig, 0);
        rig.run_for(5 * SECOND);
        let first = said(&mut rig);
        assert_eq!((ends(&rig), first), (&[][..], vec![RestartSaid::Held]));
        rig.hosts[2].is_hung = false;
        rig.run_for(2 * SECOND);
        order(&mut rig, 0);
        rig.run_for(5 * SECOND);
        let second = said(&mut rig);
        assert_eq!((ends(&rig), second), (&[(0, Act::Kill)][..], vec![RestartSaid::Restarting]));
    }
}

// I6: three bricks of one tablet could not tell who is the odd one. Others report to them, too.
#[test]
fn bricks_report_to_some_that_share_no_tablet_and_strangers_count_only_so_far() {
    let mut rig = Rig::with(7, SYNCED, Thresholds::majority(3).unwrap(), 3);
    rig.others = vec![3, 4];
    rig.assignment = Some(rig.assignment(1, TABLE, Vec::new()));
    let reporting = |rig: &Rig, host: usize| rig.hosts[host].node.as_ref().unwrap().brick.reporting_count();
    rig.run_for(3 * SECOND);
    assert_eq!(
        [0, 1, 2].map(|host| reporting(&rig, host)),
        [3; 3],
        "a brick without a tablet reports nothing"
    );
    assert_eq!([3, 4, 5].map(|host| reporting(&rig, host)), [3, 3, 0], "who is named is reported to");
    let report = StatisticsReport { life: 1, votes: true, statistics: Statistics::default() };
    for (sender, status) in [(0, Status::NotAllowed), (1, Status::NotAllowed), (2, Status::NotAllowed)] {
        let bytes = request(600, (ServerId(sender), ServerId(1)), &report);
        rig.on_frame(Party::Test, Party::Host(0), bytes);
        rig.run_for(100 * MILLI);
        assert_eq!(rig.told.pop().map(|(header, _)| header.status()), Some(status), "{sender}");
    }
    for sender in 100..200 {
        let bytes = request(600, (ServerId(sender), ServerId(1)), &report);
        rig.on_frame(Party::Test, Party::Host(0), bytes);
    }
    rig.run_for(100 * MILLI);
    assert!(rig.told.is_empty(), "a report has no answer");
    assert_eq!(reporting(&rig, 0), 32);
    rig.run_for(70 * SECOND);
    assert_eq!(reporting(&rig, 0), 3, "they are forgotten");
}
