//! A brick whose process gets too little of a processor, and nothing else: it stands still most of the time, and answers all
//! that has come meanwhile when it runs (docs/protocols/quorum.md, rules 40 and 64).
//!
//! It refuses nothing, its device is as fast as the others', and at each of its reports nobody waits. So it is known by the
//! times since its looks alone, and by sessions that ask it less because its answers are late.
//!
//! The test is the load and the processor: five bricks of one tablet are asked evenly. The stalled one runs for a moment every
//! `STALL`. Catalogue: I6.

use crate::network::{CLUSTER, Party};
use crate::rig::{MILLI, Rig, Setting, TABLE};
use crate::runs::SYNCED;
use ramhold_base::{Instant, Machine, RpcId, SessionId, Stamp};
use ramhold_quorum::{Class, Thresholds};
use ramhold_supervisor::{Act, RestartLimit};
use ramhold_wire::ask::{AskRequest, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::statistics::Statistic;
use ramhold_wire::{Header, Opcode, frame};
use std::time::Duration;

const SECOND: u64 = 1000 * MILLI;
const WIDE: Setting = Setting { log_bytes: 4 * 1024 * 1024, ..SYNCED };
const BRICKS: usize = 5;
/// The pause between two questions to each brick.
const PAUSE: u64 = 2 * MILLI;
/// How long a process without a processor stands still: as long as the shortest period of a control group, and more.
const STALL: u64 = 30 * MILLI;
const WARM_UP: u64 = 53 * SECOND;
/// Processor time that is used, of 1,000: by a brick, and by the stalled one.
const USED: (u64, u64) = (250, 180);

struct Load {
    rig: Rig,
    asked: u64,
    stalled: Option<usize>,
    /// Questions that came while the process stood still, and when it looked last.
    came: Vec<Vec<u8>>,
    looked: u64,
    processor: [Duration; BRICKS],
}

impl Load {
    fn new(seed: u64, threshold: usize) -> Load {
        let mut rig = Rig::with(seed, WIDE, Thresholds::majority(5).unwrap(), 0);
        rig.hosts.iter_mut().for_each(|host| host.restart_threshold = Some(threshold));
        rig.supervise(RestartLimit::DEFAULT);
        Load { rig, asked: 0, stalled: None, came: Vec::new(), looked: 0, processor: Default::default() }
    }

    /// The next question to a brick, of a session that has few windows open at the stalled one.
    fn question(&self, host: usize) -> Option<Vec<u8>> {
        let node = self.rig.hosts[host].node.as_ref().filter(|node| node.brick.is_serving())?;
        let session = SessionId::of(4).unwrap();
        let key = format!("key{}", self.asked % 50);
        let begun = node.brick.time(self.rig.instant());
        let is_left_out = self.stalled == Some(host) && !(self.asked / 7).is_multiple_of(4);
        let value = Some(StampedValue { bytes: &[7; 300], expires: None });
        let what = match self.asked % 7 {
            0 => AskWhat::Write(AskedWrite {
                stamp: Stamp::new(begun, session),
                begun,
                is_repair: false,
                value,
            }),
            _ if is_left_out => return None,
            1..4 => AskWhat::Value,
            _ => AskWhat::Stamp,
        };
        let target = self.rig.hosts[host].id;
        let rpc = RpcId(1 + self.asked);
        let header = Header { cluster: CLUSTER, target, ..Header::request(Opcode::Ask, rpc) };
        let mut bytes = Vec::new();
        let asked = AskRequest { table: TABLE, key: key.as_bytes(), what };
        frame::write(&mut bytes, &header, |out| asked.encode(out));
        Some(bytes)
    }

    /// Tells the process since when what it finds may have waited, as the loop of a real one does.
    fn look(&mut self, host: usize, came_after: u64) {
        if let Some(node) = &mut self.rig.hosts[host].node {
            node.came_after(Instant(came_after));
        }
    }

    fn ask(&mut self) {
        self.asked += 1;
        for host in 0..BRICKS {
            let Some(bytes) = self.question(host) else { continue };
            if self.stalled == Some(host) {
                self.came.push(bytes);
            } else {
                self.look(host, self.rig.now);
                self.rig.on_frame(Party::Test, Party::Host(host), bytes);
            }
        }
        if let Some(host) = self.stalled.filter(|_| self.rig.now >= self.looked + STALL) {
            self.look(host, self.looked);
            self.looked = self.rig.now;
            for bytes in std::mem::take(&mut self.came) {
                self.rig.on_frame(Party::Test, Party::Host(host), bytes);
            }
        }
    }

    fn run(&mut self, nanos: u64, is_reached: impl Fn(&Rig) -> bool) {
        let end = self.rig.now + nanos;
        while self.rig.now < end && !is_reached(&self.rig) {
            self.ask();
            self.rig.run_for(PAUSE);
            self.rig.told.clear();
            if self.asked.is_multiple_of(50) {
                self.tell_usage();
            }
        }
    }

    fn tell_usage(&mut self) {
        for host in 0..BRICKS {
            let used = if self.stalled == Some(host) { USED.1 } else { USED.0 } + self.rig.rng.below(20);
            self.processor[host] += Duration::from_nanos(50 * PAUSE / 1000 * used);
            let (now, processor) = (self.rig.instant(), self.processor[host]);
            if let Some(node) = &mut self.rig.hosts[host].node {
                node.on_usage(now, processor, 1 << 21);
            }
        }
    }
}

// I6: the brick of a process without a processor was found by none of its queues' lengths, and had 9 flagged statistics.
#[test]
fn a_brick_without_a_processor_is_restarted_within_a_minute_and_no_other_one() {
    let mut load = Load::new(1, 11);
    load.run(WARM_UP, |_| false);
    assert_eq!(load.rig.supervision.ends, [], "all are alike");
    load.stalled = Some(3);
    load.looked = load.rig.now;
    load.run(60 * SECOND, |rig| !rig.supervision.ends.is_empty());
    let node = load.rig.hosts[3].node.as_ref();
    let flagged = node.and_then(|node| node.brick.flagged()).unwrap_or_default();
    assert_eq!(load.rig.supervision.ends, [(3, Act::Kill)], "{}: {flagged}", flagged.count());
    load.stalled = None;
    load.came.clear();
    load.run(20 * SECOND, |_| false);
    assert_eq!(load.rig.supervision.ends, [(3, Act::Kill)], "and nobody else");
    let of = |class| load.rig.hosts[0].node.as_ref().unwrap().brick.statistics().of(class).dropped;
    assert_eq!(Class::ALL.map(of), [0; 3], "nothing was refused");
}

// I6
#[test]
fn a_stalled_brick_is_flagged_by_lengths_delays_and_times_of_all_classes() {
    let mut load = Load::new(2, 17);
    load.run(WARM_UP + 10 * SECOND, |_| false);
    let node =
        |load: &Load| load.rig.hosts[3].node.as_ref().unwrap().brick.flagged().expect("it is compared");
    assert!(node(&load).count() < 4, "{}", node(&load));
    load.stalled = Some(3);
    load.looked = load.rig.now;
    load.run(30 * SECOND, |_| false);
    let flagged: Vec<Statistic> = node(&load).all().collect();
    let stalls = |it: &Statistic| {
        matches!(it, Statistic::QueueLength(_) | Statistic::QueueDelay(_) | Statistic::Latency(_))
    };
    assert!(Statistic::ALL.iter().filter(|it| stalls(it)).all(|it| flagged.contains(it)), "{}", node(&load));
}
