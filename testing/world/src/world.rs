//! Runs whole clusters of machines in one thread, in virtual time, from one seed.
//!
//! All future events stand in one queue ordered by time. A process takes one input at a time. Each step costs
//! the process some microseconds, during which further inputs wait. A process that puts something off is in a turn,
//! which is over at once or some microseconds later, by chance; inputs that come until then belong to it. Faults are calls on the world (`crash`,
//! `cut_power`, `stall`, cuts of the network) or chances in its options. `fault` decides on them.
//!
//! Invariants:
//! - same seed, same calls: same trace;
//! - a process never sees an input of an earlier life; an effect of an earlier life never takes place later;
//! - `Lost::Refused` is told only if nothing sent since the last loss has arrived.
//!
//! Not here: the kinds of machines, the clients' requests, the right outcomes (scenario, checker). Catalogue:
//! J3, E1.

mod connection;
mod crash_point;
mod effect;
mod event;
mod marks;
mod node;
mod pace;
mod stream;
mod turn;

pub use crash_point::{Death, Step};
pub use node::{Clock, Life, Node};
pub use pace::{DeviceWork, Given, Pace, Passed};

use crate::disk::Disks;
use crate::network::{MICRO, MILLI, Network, NetworkOptions, SECOND};
use crate::secrets::Secrets;
use crate::store::Store;
use crate::trace::Trace;
use connection::Connection;
use event::{Happening, Queue};
use node::Pending;
use ramhold_base::{Effects, Instant, Machine, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The durations in a world, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Costs {
    pub step_min: u64,
    pub step_max: u64,
    /// How long a turn may go on after the input that began it.
    pub turn_max: u64,
    pub disk_min: u64,
    pub disk_max: u64,
    pub store_min: u64,
    pub store_max: u64,
    /// The time of one work with passwords; the works of a process are done one after the other.
    pub secret_min: u64,
    pub secret_max: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            step_min: MICRO,
            step_max: 20 * MICRO,
            turn_max: 50 * MICRO,
            disk_min: 50 * MICRO,
            disk_max: 5 * MILLI,
            store_min: 200 * MICRO,
            store_max: 8 * MILLI,
            secret_min: MILLI,
            secret_max: 60 * MILLI,
        }
    }
}

/// A process that ended by its own decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    pub at: u64,
    pub node: usize,
    pub code: u8,
    pub reason: String,
}

/// A statement of a machine, by a report `fact:...`, for checks that look at the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    pub at: u64,
    pub node: usize,
    pub text: String,
}

/// The receiver of lines about events.
pub type Log = Box<dyn FnMut(&str)>;

/// The options of a new host.
pub struct NodeOptions {
    pub name: String,
    pub addr: SocketAddr,
    /// Further addresses, one on each plane from 1 on.
    pub links: Vec<SocketAddr>,
    pub clock: Clock,
    pub disks: Disks,
    /// The store to use, from `World::add_store`.
    pub store: usize,
    pub supervised: bool,
}

impl NodeOptions {
    /// A host with a true clock, empty disks, the first store, and nobody who restarts it.
    pub fn plain(name: impl Into<String>, addr: SocketAddr) -> NodeOptions {
        NodeOptions {
            name: name.into(),
            addr,
            links: Vec::new(),
            clock: Clock::TRUE,
            disks: Disks::default(),
            store: 0,
            supervised: false,
        }
    }
}

const ERRORS_KEPT: usize = 50;

pub struct World<M: Machine> {
    pub network: Network,
    pub costs: Costs,
    pub trace: Trace,
    /// How often each kind of fault really took place.
    pub faults: BTreeMap<&'static str, u64>,
    /// Places that machines reported passing with `mark:NAME`.
    pub marks: BTreeMap<String, u64>,
    /// How often each process passed each mark, while that is noted.
    passes: Option<BTreeMap<(usize, String), u64>>,
    /// How often a process died at a named crash point.
    pub crash_points: BTreeMap<String, u64>,
    pub exits: Vec<Exit>,
    pub facts: Vec<Fact>,
    /// The first reports of level error, with time and node.
    pub errors: Vec<String>,
    pub steps: u64,
    /// Gets a line for each report, step and fault, if set.
    pub log: Option<Log>,
    now: u64,
    rng: Rng,
    queue: Queue,
    nodes: Vec<Node<M>>,
    /// The host and the plane of each address.
    by_addr: BTreeMap<SocketAddr, (usize, usize)>,
    stores: Vec<Store>,
    connections: Vec<Connection>,
    effects: Effects,
    /// Completions that belong to the turn that is being executed.
    same_turn: VecDeque<Pending>,
    pace: Option<Box<dyn Pace>>,
    /// The time at which the effects of the present step leave its process.
    leaves_at: u64,
    spare: Vec<Vec<u8>>,
    /// The chance per million that a store request fails, with unknown fate.
    pub store_failure_ppm: u32,
    /// Whether connections that do not begin with a frame carry bytes. Otherwise everything that is sent is a
    /// frame.
    pub hears_bytes: bool,
}

impl<M: Machine> World<M> {
    pub fn new(seed: u64, network: NetworkOptions) -> World<M> {
        World {
            network: Network::new(network),
            costs: Costs::default(),
            trace: Trace::default(),
            faults: BTreeMap::new(),
            marks: BTreeMap::new(),
            passes: None,
            crash_points: BTreeMap::new(),
            exits: Vec::new(),
            facts: Vec::new(),
            errors: Vec::new(),
            steps: 0,
            log: None,
            now: 0,
            rng: Rng::new(seed),
            queue: Queue::default(),
            nodes: Vec::new(),
            by_addr: BTreeMap::new(),
            stores: vec![Store::default()],
            connections: Vec::new(),
            effects: Effects::new(),
            same_turn: VecDeque::new(),
            pace: None,
            leaves_at: 0,
            spare: Vec::new(),
            store_failure_ppm: 0,
            hears_bytes: false,
        }
    }

    /// Another store, for a coordinator that does not share the first one.
    pub fn add_store(&mut self) -> usize {
        self.stores.push(Store::default());
        self.stores.len() - 1
    }

    /// From now on this pace decides the duration of everything.
    pub fn set_pace(&mut self, pace: impl Pace + 'static) {
        self.pace = Some(Box::new(pace));
    }

    /// Adds a host and starts its process; the factory makes the machine of each life.
    pub fn add_node(&mut self, options: NodeOptions, factory: impl FnMut(Life) -> M + 'static) -> usize {
        let NodeOptions { name, addr, links, clock, disks, store, supervised } = options;
        assert!(store < self.stores.len());
        let node = self.nodes.len();
        for (plane, addr) in [addr].into_iter().chain(links).enumerate() {
            assert!(self.by_addr.insert(addr, (node, plane)).is_none(), "two nodes have the address {addr}");
        }
        self.nodes.push(Node {
            name,
            addr,
            clock,
            disks,
            store,
            supervised,
            store_lost: false,
            machine: None,
            life: 0,
            powered: true,
            factory: Box::new(factory),
            inbox: VecDeque::new(),
            wake_planned: false,
            turn_planned: false,
            busy_until: 0,
            stalled_until: 0,
            secrets: Secrets::default(),
            secrets_planned: 0,
            secrets_busy_until: 0,
            timer_at: None,
            outgoing: BTreeMap::new(),
            connections: BTreeSet::new(),
            dies_after: None,
            dies_at: None,
            last_tick: 0,
            hasty_ticks: 0,
        });
        self.network.grow(self.nodes.len());
        self.restart(node);
        node
    }

    /// Nanoseconds since the world began.
    pub fn now(&self) -> u64 {
        self.now
    }

    pub fn node(&self, node: usize) -> &Node<M> {
        &self.nodes[node]
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn disks_mut(&mut self, node: usize) -> &mut Disks {
        &mut self.nodes[node].disks
    }

    pub fn store(&self, store: usize) -> &Store {
        &self.stores[store]
    }

    /// The time on a node's own clock.
    pub fn local_now(&self, node: usize) -> Instant {
        self.nodes[node].clock.local(self.now)
    }

    pub fn machine(&self, node: usize) -> Option<&M> {
        self.nodes[node].machine.as_ref()
    }

    /// For changes from outside of the simulation. Follow it with `nudge` if the machine must act on the
    /// change.
    pub fn machine_mut(&mut self, node: usize) -> Option<&mut M> {
        self.nodes[node].machine.as_mut()
    }

    /// Steps a machine with a tick as soon as it is free.
    pub fn nudge(&mut self, node: usize) {
        let life = self.nodes[node].life;
        self.queue.push(self.now, Happening::Input { node, life, pending: Pending::Tick });
    }

    /// Randomness for callers that act on the world.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    // Running.

    /// Runs all events before or at `time`.
    pub fn run_until(&mut self, time: u64) {
        while self.queue.next_time().is_some_and(|at| at <= time) {
            self.happen_next();
        }
        self.now = self.now.max(time);
    }

    /// Runs while `wanted` holds, looking every millisecond, until `limit`. Returns whether it ceased to
    /// hold.
    pub fn run_while(&mut self, limit: u64, mut wanted: impl FnMut(&World<M>) -> bool) -> bool {
        while wanted(self) {
            if self.now >= limit {
                return false;
            }
            self.run_until((self.now + MILLI).min(limit));
        }
        true
    }

    fn happen_next(&mut self) {
        let Some((at, happening)) = self.queue.pop() else { return };
        assert!(at >= self.now, "time does not run backwards");
        self.now = at;
        match happening {
            Happening::Pass { connection, side, port, bytes } => self.pass(connection, side, port, bytes),
            Happening::Arrive { connection, side, bytes } => self.arrive(connection, side, bytes),
            Happening::End { connection, side, how } => self.end(connection, side, how),
            Happening::Wake { node, life } => self.wake(node, life),
            Happening::Timer { node, life } => self.timer(node, life),
            Happening::TurnOver { node, life } => self.turn_over(node, life),
            Happening::Disk { node, life, token, work } => self.complete_disk(node, life, token, work),
            Happening::Store { node, life, token, work } => self.complete_store(node, life, token, work),
            Happening::Secret { node, life, token, work } => self.complete_secret(node, life, token, work),
            Happening::Input { node, life, pending } => self.deliver(node, life, pending),
            Happening::Restart { node } => {
                if !self.nodes[node].is_up() {
                    self.restart(node);
                }
            }
        }
    }

    /// Gives a process an input, or lets the input wait while the process is busy. Inputs of another life
    /// vanish.
    fn deliver(&mut self, node: usize, life: u64, pending: Pending) {
        let host = &mut self.nodes[node];
        if host.life != life || host.machine.is_none() {
            return;
        }
        let free_at = host.busy_until.max(host.stalled_until);
        if host.inbox.is_empty() && free_at <= self.now && !host.wake_planned {
            self.step(node, pending);
            return;
        }
        host.inbox.push_back(pending);
        self.plan_wake(node);
    }

    fn plan_wake(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if !host.wake_planned && !host.inbox.is_empty() {
            host.wake_planned = true;
            let at = host.busy_until.max(host.stalled_until).max(self.now);
            self.queue.push(at, Happening::Wake { node, life: host.life });
        }
    }

    fn wake(&mut self, node: usize, life: u64) {
        let host = &mut self.nodes[node];
        if host.life != life || host.machine.is_none() {
            return;
        }
        host.wake_planned = false;
        if host.busy_until.max(host.stalled_until) <= self.now
            && let Some(pending) = host.inbox.pop_front()
        {
            self.step(node, pending);
        }
        self.plan_wake(node);
    }

    fn timer(&mut self, node: usize, life: u64) {
        let host = &mut self.nodes[node];
        if host.life != life || host.timer_at != Some(self.now) {
            return;
        }
        host.timer_at = None;
        let due = host
            .machine
            .as_ref()
            .and_then(Machine::deadline)
            .is_some_and(|d| d <= host.clock.local(self.now));
        if due {
            self.deliver(node, life, Pending::Tick);
        }
        self.plan_timer(node);
    }

    /// Plans a tick for the machine's deadline unless an earlier one is planned.
    fn plan_timer(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let Some(deadline) = host.machine.as_ref().and_then(Machine::deadline) else { return };
        if deadline == Instant::FAR {
            return;
        }
        let at = host.clock.world(deadline).max(self.now + 1).max(host.busy_until).max(host.stalled_until);
        if host.timer_at.is_none_or(|planned| at < planned) {
            host.timer_at = Some(at);
            self.queue.push(at, Happening::Timer { node, life: host.life });
        }
    }

    // Faults.

    /// Kills a process. Written data stays in its files. Effects still under way do not take place.
    pub fn crash(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            self.note_fault("crash", node);
            self.end_process(node, connection::Parting::Killed);
        }
    }

    /// Kills a process in the middle of a step, after this many further effects.
    pub fn crash_after_effects(&mut self, node: usize, effects: u32) {
        self.nodes[node].dies_after = Some(effects);
    }

    /// Takes the power from a host: its process dies, unsynced writes meet their fate, and nothing answers
    /// there.
    pub fn cut_power(&mut self, node: usize) {
        if !self.nodes[node].powered {
            return;
        }
        self.note_fault("power cut", node);
        if self.nodes[node].is_up() {
            self.end_process(node, connection::Parting::Silent);
        }
        if let Some(cables) = &mut self.network.cables {
            cables.dark.insert(node);
        }
        let host = &mut self.nodes[node];
        host.powered = false;
        let torn = host.disks.cut_power(&mut self.rng);
        *self.faults.entry("torn write").or_default() += torn;
    }

    /// Starts the process of a host that is down, with power.
    pub fn restart(&mut self, node: usize) {
        let seed = self.rng.u64();
        let booted_at = self.rng.between(SECOND, 100 * SECOND);
        let host = &mut self.nodes[node];
        assert!(!host.is_up(), "{} is up", host.name);
        if !host.powered {
            if let Some(cables) = &mut self.network.cables {
                cables.dark.remove(&node);
            }
            host.powered = true;
            // A booted host's monotonic clock begins anew.
            host.clock.origin = booted_at;
            host.clock.since = self.now;
        }
        host.life += 1;
        host.busy_until = self.now;
        host.stalled_until = 0;
        let life = Life { number: host.life, seed, store_lost: host.store_lost };
        let machine = (host.factory)(life);
        host.machine = Some(machine);
        self.line(node, "starts");
        self.queue.push(self.now, Happening::Input { node, life: life.number, pending: Pending::Start });
    }

    /// Takes away the store of a host, with its process, and puts another store in its place.
    pub fn replace_store(&mut self, node: usize, by: Store) -> Store {
        self.crash(node);
        std::mem::replace(&mut self.stores[self.nodes[node].store], by)
    }

    /// Deletes the store of a host. The following lives are told.
    pub fn lose_store(&mut self, node: usize) {
        self.note_fault("lost store", node);
        self.replace_store(node, Store::default());
        self.nodes[node].store_lost = true;
    }

    pub fn restart_at(&mut self, node: usize, time: u64) {
        self.queue.push(time.max(self.now), Happening::Restart { node });
    }

    /// Stops a process for a while as SIGSTOP does: its clock runs on, its inputs wait.
    pub fn stall(&mut self, node: usize, duration: u64) {
        if self.nodes[node].is_up() {
            self.note_fault("stall", node);
            let host = &mut self.nodes[node];
            host.stalled_until = host.stalled_until.max(self.now + duration);
        }
    }

    /// Takes back a planned death in the middle of a step.
    pub fn spare_process(&mut self, node: usize) {
        self.nodes[node].dies_after = None;
        self.nodes[node].dies_at = None;
    }

    /// Ends all stalls.
    pub fn resume_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].stalled_until = 0;
            // The wake that is planned for the end of the stall stays. The new wake comes before it.
            self.nodes[node].wake_planned = false;
            self.plan_wake(node);
            self.nodes[node].turn_planned = false;
            if self.puts_off(node) {
                self.plan_turn_over(node);
            }
            self.nodes[node].timer_at = None;
            self.plan_timer(node);
        }
    }

    /// The operator asks the process to end.
    pub fn stop(&mut self, node: usize) {
        let life = self.nodes[node].life;
        self.queue.push(self.now, Happening::Input { node, life, pending: Pending::Stop });
    }

    /// Flips one bit of the frames file.
    pub fn rot(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if host.disks.file_mut(ramhold_base::DiskFile::Frames).rot(&mut self.rng).is_some() {
            self.note_fault("bit rot", node);
        }
    }

    pub fn note_fault(&mut self, kind: &'static str, node: usize) {
        *self.faults.entry(kind).or_default() += 1;
        self.line(node, kind);
    }

    fn end_process(&mut self, node: usize, parting: connection::Parting) {
        let host = &mut self.nodes[node];
        host.machine = None;
        host.inbox.clear();
        host.wake_planned = false;
        host.turn_planned = false;
        host.timer_at = None;
        host.secrets = Secrets::default();
        host.secrets_planned = 0;
        host.secrets_busy_until = 0;
        host.dies_after = None;
        host.dies_at = None;
        host.hasty_ticks = 0;
        self.trace.note(u64::MAX ^ node as u64);
        for store in &mut self.stores {
            store.end_watches(node);
        }
        self.part_connections(node, parting);
    }

    fn line(&mut self, node: usize, text: &str) {
        if let Some(log) = &mut self.log {
            let host = &self.nodes[node];
            log(&format!("{:?} {} (life {}): {text}", Instant(self.now), host.name, host.life));
        }
    }
}

#[cfg(test)]
mod tests;
