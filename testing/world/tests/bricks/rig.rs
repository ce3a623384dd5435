//! Several hosts with bricks, sessions on some keys, and the events between them, in the order of one made-up clock.

use crate::head::{Head, HeadEvent};
use crate::history::{Operation, is_linearizable};
use crate::host::{Host, Pending};
use crate::network::{Party, address};
use crate::sessions::{Client, Doing};
use crate::supervised::Supervision;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{Instant, Rng, ServerId, Stamp, TableId};
use ramhold_node::{BrickState, RestartLoad, TabletState};
use ramhold_quorum::Thresholds;
use ramhold_wire::Header;
use ramhold_wire::bricks::{BrickAssignment, BrickHello, PageRecord};
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::Joined;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

pub const TABLE: TableId = TableId(7);
pub const MILLI: u64 = 1_000_000;

pub(crate) enum Event {
    Disk { host: usize, number: u64 },
    Tick { host: usize, life: u64 },
    Start { host: usize },
    Frame { from: Party, to: Party, bytes: Vec<u8> },
    Begin { client: usize },
    Wake { client: usize, number: u64 },
    Supervise { host: usize },
    Head { what: HeadEvent },
}

/// The properties of a rig.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub durability: Durability,
    pub log_bytes: u64,
    pub keys: usize,
    pub value_bytes_max: u64,
    /// One brick's clock is an hour off.
    pub has_wrong_clock: bool,
}

pub struct Rig {
    pub(crate) setting: Setting,
    pub rng: Rng,
    /// Nanoseconds.
    pub now: u64,
    pub(crate) events: BinaryHeap<Reverse<(u64, u64)>>,
    pub(crate) content: BTreeMap<u64, Event>,
    pub(crate) last: u64,
    pub hosts: Vec<Host>,
    pub(crate) pending: BTreeMap<u64, (usize, Pending)>,
    pub(crate) clients: Vec<Client>,
    /// Answers to the frames of `Party::Test`.
    pub told: Vec<(Header, Vec<u8>)>,
    /// Questions of siblings for pages that have come.
    pub pages: u32,
    /// The question of a client by the number of its frame: client, operation, attempt.
    pub(crate) askers: BTreeMap<u64, (usize, u64, u32)>,
    pub(crate) rpc_last: u64,
    /// Directions in which nothing comes through.
    pub cuts: BTreeSet<(Party, Party)>,
    pub(crate) supervision: Supervision,
    /// The bricks have their tablet.
    pub is_founded: bool,
    /// The coordinator is back, and gives this.
    pub assignment: Option<BrickAssignment>,
    /// A real coordinator has taken the place of that.
    pub(crate) head: Option<Head>,
    /// The first hello of each host.
    pub(crate) hellos: BTreeMap<usize, BrickHello>,
    /// The hosts that the coordinator answers then; empty: all.
    pub answered: Vec<usize>,
    /// Hosts of bricks that the coordinator names to others beside their siblings.
    pub others: Vec<usize>,
    /// Hosts to which no frame of another host comes.
    pub deaf: Vec<usize>,
    pub tablet: Tablet,
    pub thresholds: Thresholds,
    pub(crate) histories: Vec<Vec<Operation>>,
    pub(crate) value_last: u64,
    /// The keys on which clients begin operations.
    pub used: std::ops::Range<usize>,
    /// All that is put is nothing: tombstones.
    pub removes: bool,
    /// Devices take so much longer than they would.
    pub device_nanos: u64,
    /// Reads of frames take so much longer.
    pub read_nanos: u64,
    /// Frames to and from this host take so much longer.
    pub far: Option<(usize, u64)>,
    /// The questions for pages that one brick asks another do not come.
    pub lost_pages: Option<(Party, Party)>,
    /// A record that no brick has, and that is in every page of stamps, or of values, that bricks tell each other.
    pub forged: Option<PageRecord>,
    /// Operations that clients may still begin.
    pub left: u32,
    pub done: u32,
    pub unknown: u32,
    pub failed: u32,
    pub refused: u32,
}

/// The only tablet, as the coordinator has it.
pub struct Tablet {
    pub epoch: u64,
    /// The hosts of its bricks.
    pub members: Vec<usize>,
    pub joined: Vec<Joined>,
    /// The hosts of bricks that had it before.
    pub former: Vec<usize>,
}

impl Rig {
    pub fn new(seed: u64, setting: Setting) -> Rig {
        Rig::with(seed, setting, Thresholds::majority(3).unwrap(), 0)
    }

    /// So many bricks beyond those of the tablet have no tablet.
    pub fn with(seed: u64, setting: Setting, thresholds: Thresholds, spares: usize) -> Rig {
        let mut rng = Rng::new(seed);
        let wrong = rng.below(3) as usize;
        let bricks = thresholds.bricks();
        let hosts = (0..bricks + spares)
            .map(|at| {
                let hour = if rng.chance(1, 2) { 3_600_000 } else { -3_600_000 };
                let off = if setting.has_wrong_clock && at == wrong { hour } else { rng.below(40) as i64 };
                Host::new(ServerId(at as u64 + 1), address(at), setting.log_bytes, off)
            })
            .collect();
        let mut rig = Rig {
            setting,
            rng,
            now: MILLI,
            events: BinaryHeap::new(),
            content: BTreeMap::new(),
            last: 0,
            hosts,
            pending: BTreeMap::new(),
            clients: Vec::new(),
            told: Vec::new(),
            pages: 0,
            askers: BTreeMap::new(),
            cuts: BTreeSet::new(),
            supervision: Supervision::default(),
            rpc_last: 0,
            is_founded: false,
            assignment: None,
            head: None,
            hellos: BTreeMap::new(),
            answered: Vec::new(),
            others: Vec::new(),
            deaf: Vec::new(),
            tablet: Tablet {
                epoch: 1,
                members: (0..bricks).collect(),
                joined: Vec::new(),
                former: Vec::new(),
            },
            thresholds,
            histories: vec![Vec::new(); setting.keys],
            value_last: 0,
            used: 0..setting.keys,
            removes: false,
            device_nanos: 0,
            read_nanos: 0,
            far: None,
            lost_pages: None,
            forged: None,
            left: 0,
            done: 0,
            unknown: 0,
            failed: 0,
            refused: 0,
        };
        rig.found();
        rig
    }

    /// Starts all bricks for the first time, and gives them the tablet.
    fn found(&mut self) {
        for host in 0..self.hosts.len() {
            self.start(host);
        }
        let is_founded = |rig: &Rig, host: usize| {
            let brick = &rig.hosts[host].node.as_ref().unwrap().brick;
            let taken = u64::from(rig.tablet.members.contains(&host));
            brick.is_serving() && brick.taken() == taken
        };
        self.run_until(|rig| (0..rig.hosts.len()).all(|host| is_founded(rig, host)));
        self.is_founded = true;
        self.run_until(Rig::all_vote);
    }

    /// All bricks of the tablet vote in its newest epoch.
    pub fn all_vote(&self) -> bool {
        self.tablet.members.iter().all(|host| self.votes(*host))
    }

    pub fn votes(&self, host: usize) -> bool {
        let node = self.hosts[host].node.as_ref();
        node.is_some_and(|node| {
            let state = node.brick.state();
            let is_newest = |state: &BrickState| {
                let is_old = |it: &TabletState| it.table == TABLE && it.epoch != self.tablet.epoch;
                !state.tablets.is_empty() && !state.tablets.iter().any(is_old)
            };
            node.brick.votes() && state.is_some_and(is_newest)
        })
    }

    /// A brick takes the place of another one, which may be itself.
    pub fn replace(&mut self, old: usize, new: usize) {
        let epoch = self.tablet.epoch + 1;
        let joined = Joined { brick: self.hosts[new].id, epoch, is_lost: old == new };
        let (old_id, tablet) = (self.hosts[old].id, &mut self.tablet);
        tablet.epoch = epoch;
        tablet.members.iter_mut().filter(|host| **host == old).for_each(|host| *host = new);
        tablet.members.sort_unstable();
        tablet.joined.retain(|it| it.brick != old_id && it.brick != joined.brick);
        tablet.joined.push(joined);
        tablet.former.retain(|host| *host != new);
        if old != new {
            tablet.former.push(old);
        }
        self.assignment = Some(self.assignment(epoch, TABLE, Vec::new()));
    }

    pub fn all_serve(&self) -> bool {
        self.hosts.iter().all(|host| host.node.as_ref().is_some_and(|node| node.brick.is_serving()))
    }

    pub fn instant(&self) -> Instant {
        Instant(self.now)
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.last += 1;
        self.events.push(Reverse((time.max(self.now), self.last)));
        self.content.insert(self.last, event);
    }

    /// Devices answer in 20 microseconds to 4 milliseconds.
    pub(crate) fn begin_disk(&mut self, host: usize, begun: Vec<Pending>) {
        for pending in begun {
            let read_nanos = if pending.is_frame_read() { self.read_nanos } else { 0 };
            let slow = self.hosts[host].slow.map_or(0, |slow| slow.device_nanos);
            let at =
                self.now + self.rng.between(MILLI / 50, 4 * MILLI) + self.device_nanos + read_nanos + slow;
            self.at(at, Event::Disk { host, number: self.last + 1 });
            self.pending.insert(self.last, (host, pending));
        }
        self.send_all(host);
        if let Some(node) = &self.hosts[host].node
            && let Some(deadline) = ramhold_base::Machine::deadline(node)
        {
            let life = self.hosts[host].life;
            // A busy process does not spin in no time.
            let slow = self.hosts[host].slow.map_or(0, |slow| slow.turn_nanos);
            self.at(deadline.0.max(self.now + MILLI / 10 + slow), Event::Tick { host, life });
        }
    }

    pub(crate) fn delay(&mut self) -> u64 {
        if self.rng.chance(5, 100) {
            self.rng.between(5 * MILLI, 50 * MILLI)
        } else {
            self.rng.between(MILLI / 20, 2 * MILLI)
        }
    }

    pub fn start(&mut self, host: usize) {
        let now = self.instant();
        let begun = self.hosts[host].start(now, &mut self.rng);
        self.begin_disk(host, begun);
    }

    pub fn start_if_down(&mut self, host: usize) {
        if self.hosts[host].node.is_none() {
            self.start(host);
        }
    }

    pub fn start_after(&mut self, host: usize, nanos: u64) {
        self.at(self.now + nanos, Event::Start { host });
    }

    fn take_pending(&mut self, host: usize) -> Vec<Pending> {
        let numbers: Vec<u64> =
            self.pending.iter().filter(|(_, (of, _))| *of == host).map(|(number, _)| *number).collect();
        numbers.into_iter().map(|number| self.pending.remove(&number).unwrap().1).collect()
    }

    pub fn kill(&mut self, host: usize) {
        let pending = self.take_pending(host);
        self.hosts[host].kill(pending, &mut self.rng);
        self.lost(host);
    }

    /// The operator stops the process.
    pub fn stop(&mut self, host: usize) {
        let now = self.instant();
        let begun = self.hosts[host].step(now, ramhold_base::Input::Stop);
        self.begin_disk(host, begun);
    }

    pub fn cut_power(&mut self, host: usize) {
        let pending = self.take_pending(host);
        self.hosts[host].cut_power(pending, &mut self.rng);
        self.lost(host);
    }

    pub fn run_until(&mut self, is_reached: impl Fn(&Rig) -> bool) {
        let end = self.now + 60_000 * MILLI;
        while !is_reached(self) {
            assert!(self.now < end && self.step(), "it is never reached");
        }
    }

    pub fn run_for(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.events.peek().is_some_and(|Reverse((time, _))| *time <= end) {
            self.step();
        }
        self.now = end;
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((time, number))) = self.events.pop() else { return false };
        self.now = time;
        let now = self.instant();
        match self.content.remove(&number).unwrap() {
            Event::Disk { host, number } => {
                let Some((_, pending)) = self.pending.remove(&number) else { return true };
                let begun = self.hosts[host].complete(now, &pending);
                self.begin_disk(host, begun);
            }
            Event::Tick { host, life } => {
                let is_due = self.hosts[host].life == life
                    && self.hosts[host].node.as_ref().is_some_and(|node| {
                        ramhold_base::Machine::deadline(node).is_some_and(|deadline| deadline <= now)
                    });
                if is_due {
                    let begun = self.hosts[host].step(now, ramhold_base::Input::Tick);
                    self.begin_disk(host, begun);
                }
            }
            Event::Start { host } => {
                if self.hosts[host].node.is_none() {
                    self.start(host);
                }
            }
            Event::Frame { from, to, bytes } => self.on_frame(from, to, bytes),
            Event::Begin { client } => self.begin(client),
            Event::Wake { client, number } => self.wake(client, number),
            Event::Supervise { host } => self.tick_supervisor(host),
            Event::Head { what } => self.on_head(what),
        }
        true
    }

    /// Values that were acknowledged so far may be lost from here on.
    pub fn forget_history(&mut self) {
        for history in &mut self.histories {
            for operation in history.iter_mut().filter(|operation| operation.is_put) {
                operation.ended = u64::MAX;
            }
            history.retain(|operation| operation.is_put);
        }
        for client in &mut self.clients {
            client.number += 1;
            client.doing = Doing::Nothing;
        }
        for client in 0..self.clients.len() {
            self.go_on(client);
        }
    }

    /// The newest stamp of each key in a brick.
    pub fn stamps(&self, host: usize) -> Vec<Option<Stamp>> {
        self.newest(host, |_| true)
    }

    /// The stamps of the keys that have a value in a brick.
    pub fn stamps_of_values(&self, host: usize) -> Vec<Option<Stamp>> {
        self.newest(host, |has_value| has_value)
    }

    fn newest(&self, host: usize, counts: impl Fn(bool) -> bool) -> Vec<Option<Stamp>> {
        let log = self.hosts[host].node.as_ref().unwrap().brick.log().unwrap();
        let hasher = PlacementHasher::new(PlacementSeed(5));
        let newest = |key: Vec<u8>| {
            let newest = log.newest(TABLE, hasher.hash(&key), &key).unwrap();
            newest.filter(|it| counts(it.value.is_some())).map(|it| it.stamp)
        };
        (0..self.setting.keys).map(|key| newest(key_of(key))).collect()
    }

    /// A brick starts again. It has no newer value of any key than it had before.
    pub fn restart(&mut self, host: usize) {
        let before = self.stamps(host);
        self.kill(host);
        // When it serves, all that it has is there to be compared.
        let restart_load = std::mem::replace(&mut self.hosts[host].restart_load, RestartLoad::Preload);
        self.start(host);
        self.hosts[host].restart_load = restart_load;
        self.run_until(|rig| rig.hosts[host].node.as_ref().is_some_and(|node| node.brick.is_serving()));
        // It has not heard its siblings' clocks yet, so nobody can have written to it.
        for (key, (after, before)) in self.stamps(host).iter().zip(&before).enumerate() {
            assert!(after <= before, "{}, key {key}: {after:?} is back", self.hosts[host].id);
        }
    }

    /// Reads every key once more. Each get succeeds, as enough bricks are up.
    pub fn read_all(&mut self) {
        self.finish();
        for key in 0..self.setting.keys {
            let before = self.failed;
            self.begin_on(0, key, false);
            self.run_until(|rig| matches!(rig.clients[0].doing, Doing::Nothing));
            assert_eq!(self.failed, before, "key {key} is read while enough bricks are up");
        }
    }

    pub fn check(&self) {
        self.check_keys(0..self.histories.len());
    }

    /// Checks all bricks, and the operations on these keys.
    pub fn check_keys(&self, keys: std::ops::Range<usize>) {
        for host in self.hosts.iter().filter_map(|host| host.node.as_ref()) {
            host.check_invariants();
        }
        for (key, history) in self.histories.iter().enumerate().filter(|(key, _)| keys.contains(key)) {
            assert!(is_linearizable(history), "key {key}: {history:#?}");
        }
    }
}

pub fn key_of(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}
