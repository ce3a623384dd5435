//! Decides which faults happen when. They are drawn from the seed, within the limits that the system promises
//! to survive.
//!
//! Every seed leaves out some kinds of faults (swarm testing), so that rare combinations of the others become
//! common.

pub mod bricks;

use crate::disk::DiskOptions;
use crate::network::{MICRO, MILLI, NetworkOptions, SECOND};
use crate::scenario::Actor;
use crate::system::{Role, System, Tolerance};
use crate::world::{Costs, World};
use ramhold_base::Rng;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    CrashServer,
    CrashServerInStep,
    /// A process dies when it next passes a named crash point.
    CrashAtPoint,
    CrashCoordinator,
    CrashClient,
    CutPower,
    /// A process dies and starts again, and soon the power goes. State that the new life took over may not be
    /// durable.
    CrashThenCutPower,
    CutPowerOfAll,
    /// Every process dies at once, as by `kill -9`. Written data stays.
    CrashAll,
    Stall,
    StallCoordinator,
    CutBothWays,
    CutOneWay,
    Isolate,
    /// Each way between two processes is cut or not, by chance.
    CutSomeLinks,
    Clog,
    BitRot,
    MemoryFlip,
    /// The coordinator dies, and its store is deleted.
    LoseStore,
    /// Devices of servers have no room for a while, and then they have room again. Nothing is lost by this.
    FillDisks,
    /// All servers of a zone die, or nobody reaches them.
    LoseZone,
    /// On one plane: the way from one server to another is cut, or both ways, or all ways of a server, or the plane is down.
    CutPlane,
    /// A switch, or a port of a server in one direction or both.
    CutCable,
}

const KINDS: [FaultKind; 23] = [
    FaultKind::CrashServer,
    FaultKind::CrashServerInStep,
    FaultKind::CrashAtPoint,
    FaultKind::CrashCoordinator,
    FaultKind::CrashClient,
    FaultKind::CutPower,
    FaultKind::CrashThenCutPower,
    FaultKind::CutPowerOfAll,
    FaultKind::CrashAll,
    FaultKind::Stall,
    FaultKind::StallCoordinator,
    FaultKind::CutBothWays,
    FaultKind::CutOneWay,
    FaultKind::Isolate,
    FaultKind::CutSomeLinks,
    FaultKind::Clog,
    FaultKind::BitRot,
    FaultKind::MemoryFlip,
    FaultKind::LoseStore,
    FaultKind::FillDisks,
    FaultKind::LoseZone,
    FaultKind::CutPlane,
    FaultKind::CutCable,
];

/// The faults that one seed plays on its cluster.
#[derive(Clone, Debug)]
pub struct Swarm {
    pub kinds: Vec<FaultKind>,
    pub network: NetworkOptions,
    /// Nanoseconds between two faults, at most.
    pub interval_max: u64,
    /// The longest time for which something stays down, cut or stalled.
    pub duration_max: u64,
    /// Whether faults come faster while the network is cut, and processes that die then are soon back.
    pub bursts: bool,
    /// Whether devices are full when the faults begin. No server has many frames then.
    pub begins_full: bool,
    /// Whether cuts are between processes alone, so that clients reach the processes on every side.
    pub clients_reach_all: bool,
    pub read_error_ppm: u32,
    pub sync_error_ppm: u32,
    pub store_failure_ppm: u32,
    /// The cost of processors, devices and the store.
    pub costs: Costs,
}

impl Swarm {
    pub fn draw(rng: &mut Rng, tolerance: Tolerance) -> Swarm {
        let allowed = |kind: &FaultKind| match kind {
            FaultKind::CutPower | FaultKind::CrashThenCutPower => tolerance.power_cut,
            FaultKind::CutPowerOfAll => tolerance.power_cut_of_all,
            FaultKind::BitRot => tolerance.rotting > 0,
            FaultKind::MemoryFlip => tolerance.memory_flips,
            FaultKind::LoseStore => tolerance.lost_store,
            FaultKind::LoseZone => tolerance.zones > 0,
            FaultKind::CutPlane => tolerance.planes > 0,
            FaultKind::CutCable => tolerance.has_cables,
            _ => true,
        };
        let kinds: Vec<FaultKind> = KINDS.into_iter().filter(allowed).filter(|_| rng.chance(1, 2)).collect();
        let begins_full = kinds.contains(&FaultKind::FillDisks) && rng.chance(1, 2);
        let mut some = |ppm: u64| if rng.chance(1, 2) { rng.below(ppm) as u32 } else { 0 };
        let network = NetworkOptions {
            hold_ppm: some(50_000),
            loss_ppm: some(10_000),
            duplicate_ppm: some(20_000),
            corrupt_ppm: some(2_000),
            break_ppm: some(1_000),
            ..NetworkOptions::calm()
        };
        // A failed sync ends a device for good, so failed syncs must be rare enough that R replicas outlive
        // them.
        let (read_error, sync_error) = if tolerance.disk_errors { (2_000, 100) } else { (1, 1) };
        let (read_error_ppm, sync_error_ppm, store_failure_ppm) =
            (some(read_error), some(sync_error), some(20_000));
        let hold_max = rng.between(1, 400) * MILLI;
        // One network in six doubles many frames, with a short delay. Then an answer and the effect of a
        // request's copy are close together.
        let doubles = rng.chance(1, 6);
        let duplicate_ppm = if doubles { rng.between(50_000, 300_000) as u32 } else { network.duplicate_ppm };
        let network = NetworkOptions {
            hold_max,
            duplicate_ppm,
            // Some networks keep a copy until no process remembers the original.
            again_max: if doubles || rng.chance(1, 2) { 0 } else { rng.between(1, 40) * SECOND },
            latency_max: rng.between(1, 30) * MILLI / 10,
            ..network
        };
        Swarm {
            kinds,
            network,
            interval_max: rng.between(1, 8) * SECOND,
            duration_max: rng.between(1, 8) * SECOND,
            bursts: rng.chance(1, 2),
            begins_full,
            clients_reach_all: rng.chance(1, 2),
            read_error_ppm,
            sync_error_ppm,
            store_failure_ppm,
            costs: Costs {
                step_max: MICRO * rng.between(2, 60),
                disk_max: MILLI * *rng.pick(&[1, 5, 30, 150]).expect("four speeds"),
                store_max: MILLI * *rng.pick(&[1, 8, 60]).expect("three speeds"),
                ..Costs::default()
            },
        }
    }
}

/// The faults of one run, under way.
pub struct Faults {
    swarm: Swarm,
    rng: Rng,
    servers: Vec<usize>,
    coordinators: Vec<usize>,
    /// Cuts concern them, too.
    pub bricks: Vec<usize>,
    clients: Vec<usize>,
    /// Servers; those whose devices rot come first.
    rotting: Vec<usize>,
    next_at: u64,
    heal_at: Option<u64>,
    /// The planned power cut: its time, the server, and the time at which the power is back.
    cut_at: Option<(u64, usize, u64)>,
    /// The coordinator rebuilds its state from the servers, which must stay alive meanwhile.
    rebuilding: bool,
    /// The time at which each full device has room again.
    full_until: BTreeMap<usize, u64>,
}

impl Faults {
    pub fn new(
        swarm: Swarm,
        seed: u64,
        now: u64,
        servers: Vec<usize>,
        coordinators: Vec<usize>,
        clients: Vec<usize>,
    ) -> Faults {
        let mut rng = Rng::new(seed);
        let next_at = now + rng.below(swarm.interval_max);
        let mut rotting = servers.clone();
        rng.shuffle(&mut rotting);
        Faults {
            swarm,
            rng,
            servers,
            coordinators,
            bricks: Vec::new(),
            clients,
            rotting,
            next_at,
            heal_at: None,
            cut_at: None,
            rebuilding: false,
            full_until: BTreeMap::new(),
        }
    }

    /// Begins the faults that are there from the start.
    pub fn begin<T: System>(&mut self, system: &T, world: &mut World<Actor<T::Process, T::Session>>) {
        if self.swarm.begins_full {
            self.strike(FaultKind::FillDisks, system, world);
        }
    }

    /// The time of the next fault action.
    pub fn due(&self) -> u64 {
        let emptied = self.full_until.values().min().copied();
        let others = [self.heal_at, self.cut_at.map(|(at, _, _)| at), emptied];
        others.into_iter().flatten().fold(self.next_at, u64::min)
    }

    pub fn act<T: System>(&mut self, system: &T, world: &mut World<Actor<T::Process, T::Session>>) {
        if self.heal_at.is_some_and(|at| at <= world.now()) {
            self.heal_at = None;
            world.network.heal();
        }
        if let Some((at, node, back_at)) = self.cut_at
            && at <= world.now()
        {
            self.cut_at = None;
            world.cut_power(node);
            world.restart_at(node, back_at);
        }
        self.rebuilding &= !system.is_in_charge(world);
        if self.rebuilding && self.next_at <= world.now() {
            self.next_at = world.now() + 200 * MILLI;
        }
        let now = world.now();
        for (node, _) in self.full_until.extract_if(.., |_, until| *until <= now) {
            world.disks_mut(node).options.is_full = false;
        }
        if self.next_at <= world.now() {
            // Now and then the next fault comes while the cluster still handles this one.
            let interval = match self.swarm.interval_max {
                _ if self.rng.chance(1, 4) => 300 * MILLI,
                usual if self.is_burst() => usual / 8,
                usual => usual,
            };
            self.next_at = world.now() + 1 + self.rng.below(interval);
            if let Some(kind) = self.rng.pick(&self.swarm.kinds).copied() {
                self.strike(kind, system, world);
            }
        }
    }

    /// Ends all faults. Processes that are down start.
    pub fn end<T: System>(&self, system: &T, world: &mut World<Actor<T::Process, T::Session>>) {
        let silence = world.network.options.silence;
        world.network.options = NetworkOptions { silence, ..NetworkOptions::calm() };
        world.network.heal();
        world.store_failure_ppm = 0;
        world.resume_all();
        let is_broken = |world: &World<_>, node: usize| match world.machine(node) {
            Some(Actor::Process(process)) => system.is_broken(process),
            Some(Actor::Client(_)) | None => false,
        };
        for node in 0..world.node_count() {
            let disk = &mut world.disks_mut(node).options;
            *disk = DiskOptions { read_error_ppm: 0, sync_error_ppm: 0, is_full: false, ..disk.clone() };
            world.spare_process(node);
        }
        // While the state is made anew from the servers, an operator ends none of them.
        if self.rebuilding && (0..world.node_count()).any(|node| is_broken(world, node)) {
            for node in self.coordinators.iter().copied() {
                if !world.node(node).is_up() {
                    world.restart(node);
                }
            }
            let limit = world.now() + 30 * SECOND;
            world.run_while(limit, |world| !system.is_in_charge(world));
        }
        for node in 0..world.node_count() {
            // As an operator does with a server whose device has failed: another device, another life.
            if is_broken(world, node) {
                world.crash(node);
            }
            if !world.node(node).is_up() {
                world.restart(node);
            }
        }
    }

    /// One cut in three is long enough for both sides to go on without each other.
    fn long_cut(&mut self) -> u64 {
        if self.rng.chance(1, 3) { 4 * SECOND } else { 0 }
    }

    fn is_burst(&self) -> bool {
        self.swarm.bursts && self.heal_at.is_some()
    }

    fn duration(&mut self) -> u64 {
        if self.is_burst() && self.rng.chance(1, 2) {
            return 1 + self.rng.below(100 * MILLI);
        }
        // Short faults are more interesting: they end in the middle of their consequences.
        let max = if self.rng.chance(1, 2) { self.swarm.duration_max / 8 } else { self.swarm.duration_max };
        20 * MILLI + self.rng.below(max)
    }

    /// A server that may go down at this moment.
    fn victim<T: System>(
        &mut self,
        system: &T,
        world: &World<Actor<T::Process, T::Session>>,
    ) -> Option<usize> {
        let up: Vec<usize> = self.servers.iter().copied().filter(|s| world.node(*s).is_up()).collect();
        let down = self.servers.len() - up.len();
        if down >= system.tolerance().down_at_once { None } else { self.rng.pick(&up).copied() }
    }

    fn strike<T: System>(
        &mut self,
        kind: FaultKind,
        system: &T,
        world: &mut World<Actor<T::Process, T::Session>>,
    ) {
        let duration = self.duration();
        let until = world.now() + duration;
        match kind {
            FaultKind::CrashServer => {
                if let Some(node) = self.victim(system, world) {
                    world.crash(node);
                    world.restart_at(node, until);
                }
            }
            FaultKind::CrashServerInStep => {
                if let Some(node) = self.victim(system, world) {
                    world.crash_after_effects(node, self.rng.below(40) as u32);
                    // If the process has not died by then, this does nothing.
                    world.restart_at(node, until);
                    world.restart_at(node, until + self.swarm.duration_max);
                }
            }
            FaultKind::CrashAtPoint => {
                let (nodes, role) = if self.rng.chance(1, 4) {
                    (&self.coordinators, Role::Coordinator)
                } else {
                    (&self.servers, Role::Server)
                };
                let points = system.crash_points(role);
                if let Some(point) = self.rng.pick(&points)
                    && let Some(node) = self.rng.pick(nodes).copied()
                {
                    world.crash_at(node, point);
                    world.restart_at(node, until);
                    world.restart_at(node, until + self.swarm.duration_max);
                    world.restart_at(node, until + 4 * self.swarm.duration_max);
                }
            }
            FaultKind::LoseZone => {
                let until = until + self.long_cut();
                let zones = system.tolerance().zones;
                let zone = self.rng.below(zones as u64) as usize;
                let is_gone = |index: usize| index % zones == zone;
                let of = |gone: bool| {
                    let servers = self.servers.iter().enumerate();
                    servers
                        .filter(|(index, _)| is_gone(*index) == gone)
                        .map(|(_, node)| *node)
                        .collect::<Vec<_>>()
                };
                let (gone, rest) = (of(true), of(false));
                world.note_fault("lost zone", gone[0]);
                if self.rng.chance(1, 2) {
                    for node in gone {
                        world.crash(node);
                        world.restart_at(node, until + self.rng.below(SECOND));
                    }
                } else {
                    let rest = [&rest[..], &self.coordinators[..]].concat();
                    world.network.cut(&gone, &rest);
                    world.network.cut(&rest, &gone);
                    self.heal_at = Some(until);
                }
            }
            FaultKind::CutPlane => {
                let plane = 1 + self.rng.below(system.tolerance().planes as u64) as usize;
                let (Some(one), Some(other)) =
                    (self.rng.pick(&self.servers).copied(), self.rng.pick(&self.servers).copied())
                else {
                    return;
                };
                world.note_fault("cut on a plane", one);
                let (all, network) = (&self.servers, &mut world.network);
                let ways: &[(&[usize], &[usize])] = match self.rng.below(4) {
                    0 => &[(&[one], &[other])],
                    1 => &[(&[one], &[other]), (&[other], &[one])],
                    2 => &[(&[one], all), (all, &[one])],
                    _ => &[(all, all)],
                };
                ways.iter().for_each(|(from, to)| network.cut_plane(plane, from, to));
                self.heal_at = Some(until);
            }
            FaultKind::CutCable => {
                let (Some(host), Some(cables)) =
                    (self.rng.pick(&self.servers).copied(), &mut world.network.cables)
                else {
                    return;
                };
                let level = self.rng.below(cables.level_count() as u64) as usize;
                match self.rng.below(4) {
                    0 => cables.cut_switch(host, level),
                    1 => cables.cut_port(host, level, true, false),
                    2 => cables.cut_port(host, level, false, true),
                    _ => cables.cut_port(host, level, true, true),
                }
                // Sometimes nothing is left to the server but the coordinator.
                if self.rng.chance(1, 4) {
                    (0..cables.level_count()).for_each(|level| cables.cut_port(host, level, true, true));
                }
                world.note_fault("cut cable", host);
                let until = until + self.long_cut();
                self.heal_at = Some(until);
            }
            FaultKind::CrashCoordinator => {
                if let Some(node) = self.rng.pick(&self.coordinators).copied() {
                    world.crash(node);
                    world.restart_at(node, until);
                }
            }
            FaultKind::CrashClient => {
                if let Some(node) = self.rng.pick(&self.clients).copied() {
                    world.crash(node);
                    world.restart_at(node, until);
                }
            }
            FaultKind::CutPower => {
                if system.may_cut_power(world)
                    && let Some(node) = self.victim(system, world)
                {
                    world.cut_power(node);
                    world.restart_at(node, until);
                }
            }
            FaultKind::CrashThenCutPower => {
                if system.may_cut_power(world)
                    && self.cut_at.is_none()
                    && let Some(node) = self.victim(system, world)
                {
                    world.crash(node);
                    let up_at = world.now() + self.rng.below(20 * MILLI);
                    // The process reads its files first, which takes a while. Then it serves for a moment.
                    let cut_at = up_at + self.rng.below(60 * MILLI + 2 * self.swarm.costs.disk_max);
                    world.restart_at(node, up_at);
                    self.cut_at = Some((cut_at, node, cut_at + duration));
                }
            }
            FaultKind::CutPowerOfAll => {
                if self.rng.chance(1, 3) {
                    world.note_fault("power cut of all", 0);
                    for node in [&self.servers[..], &self.coordinators[..]].concat() {
                        world.cut_power(node);
                        let back = self.rng.below(duration);
                        world.restart_at(node, until + back);
                    }
                }
            }
            FaultKind::CrashAll => {
                if self.rng.chance(1, 3) {
                    world.note_fault("crash of all", 0);
                    // One of them may lose its power: the others keep the data that it had in its buffers.
                    let may_cut = system.tolerance().power_cut && system.may_cut_power(world);
                    let dark = self.rng.pick(&self.servers).filter(|_| may_cut).copied();
                    for node in [&self.servers[..], &self.coordinators[..]].concat() {
                        if dark == Some(node) {
                            world.cut_power(node)
                        } else {
                            world.crash(node)
                        }
                        let back = self.rng.below(duration);
                        world.restart_at(node, until + back);
                    }
                }
            }
            FaultKind::Stall => {
                if let Some(node) = self.rng.pick(&self.servers).copied() {
                    world.stall(node, duration.min(4 * SECOND));
                }
            }
            FaultKind::StallCoordinator => {
                if let Some(node) = self.rng.pick(&self.coordinators).copied() {
                    world.stall(node, duration.min(4 * SECOND));
                }
            }
            FaultKind::CutSomeLinks => {
                let until = until + self.long_cut();
                let processes = [&self.servers[..], &self.coordinators[..], &self.bricks[..]].concat();
                let both_ways = self.rng.chance(1, 2);
                for (index, a) in processes.iter().enumerate() {
                    for b in &processes[..index] {
                        let there = self.rng.chance(1, 3);
                        let back = if both_ways { there } else { self.rng.chance(1, 3) };
                        if there {
                            world.network.cut(&[*a], &[*b]);
                        }
                        if back {
                            world.network.cut(&[*b], &[*a]);
                        }
                    }
                }
                world.note_fault("cut of some links", processes[0]);
                self.heal_at = Some(until);
            }
            FaultKind::CutBothWays | FaultKind::CutOneWay | FaultKind::Isolate => {
                let until = until + self.long_cut();
                let clients = if self.swarm.clients_reach_all { &[] } else { &self.clients[..] };
                let mut all = [&self.servers[..], &self.coordinators[..], clients, &self.bricks[..]].concat();
                self.rng.shuffle(&mut all);
                let size = if kind == FaultKind::Isolate {
                    1
                } else {
                    1 + self.rng.below(all.len() as u64 / 2) as usize
                };
                let (some, others) = all.split_at(size);
                world.network.cut(some, others);
                if kind != FaultKind::CutOneWay {
                    world.network.cut(others, some);
                }
                world.note_fault(
                    if kind == FaultKind::CutOneWay { "one-way cut" } else { "two-way cut" },
                    some[0],
                );
                self.heal_at = Some(until);
            }
            FaultKind::Clog => {
                let hosts = world.node_count() as u64;
                let (from, to) = (self.rng.below(hosts) as usize, self.rng.below(hosts) as usize);
                world.network.clog(from, to, until.min(world.now() + 3 * SECOND));
                world.note_fault("clog", from);
            }
            FaultKind::BitRot => {
                // The same devices rot in the whole run: rotten data stays rotten until it is read.
                let rotting = &self.rotting[..system.tolerance().rotting.min(self.rotting.len())];
                if let Some(node) = self.rng.pick(rotting).copied() {
                    world.rot(node);
                }
            }
            FaultKind::LoseStore => {
                if let Some(node) = self.rng.pick(&self.coordinators).copied()
                    && self.cut_at.is_none()
                    && system.may_lose_store(world)
                {
                    self.servers.iter().for_each(|server| world.spare_process(*server));
                    world.lose_store(node);
                    world.restart_at(node, until);
                    self.rebuilding = true;
                }
            }
            FaultKind::FillDisks => {
                // Often many at once: servers of one kind fill up together.
                let count = 1 + self.rng.below(self.servers.len() as u64) as usize;
                let mut servers = self.servers.clone();
                self.rng.shuffle(&mut servers);
                let until = until + self.long_cut();
                for node in servers.into_iter().take(count) {
                    world.disks_mut(node).options.is_full = true;
                    self.full_until.insert(node, until + self.rng.below(SECOND));
                    world.note_fault("full disk", node);
                }
            }
            FaultKind::MemoryFlip => {
                if let Some(node) = self.rng.pick(&self.servers).copied()
                    && let Some(Actor::Process(process)) = world.machine_mut(node)
                    && system.flip_memory(process, &mut self.rng)
                {
                    world.note_fault("memory flip", node);
                }
            }
        }
    }
}
