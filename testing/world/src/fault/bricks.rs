//! Faults of bricks, beside those of servers: kills, losses of power, stops, and the replacement of one by another.
//!
//! Cuts of the network are among the faults of all processes (`fault`), and end with them.
//!
//! A buffered brick that has lost its power may have forgotten what it acknowledged, until it is whole again. No more may
//! be so at one time than a tablet can do without, and a brick that joins a tablet counts as one that has forgotten
//! everything. So no power goes while a brick is being replaced, and no brick is replaced while one is not whole.
//!
//! Not here: which answers are right (checker), how a replacement is asked for (the system's sessions). Catalogue: I1, I6, J3.

use super::Swarm;
use crate::network::{MILLI, SECOND};
use crate::scenario::Actor;
use crate::system::{BrickTolerance, Session, System};
use crate::world::World;
use ramhold_base::Rng;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Crash,
    CrashInStep,
    CrashAll,
    CutPower,
    /// It dies, starts, and loses its power at some moment of its start or soon after.
    CrashThenCutPower,
    CutPowerOfAll,
    Stall,
    /// An operator ends it in order.
    Stop,
    Replace,
}

const KINDS: [Kind; 9] = [
    Kind::Crash,
    Kind::CrashInStep,
    Kind::CrashAll,
    Kind::CutPower,
    Kind::CrashThenCutPower,
    Kind::CutPowerOfAll,
    Kind::Stall,
    Kind::Stop,
    Kind::Replace,
];

/// After a replacement was seen under way, its request may still be in the network for so long.
const STRAY: u64 = 10 * SECOND;
/// For so long the coordinator may think that a brick votes that has just lost its power.
const BELIEVED: u64 = 5 * SECOND;

/// The faults of the bricks of one run, under way.
pub struct BrickFaults {
    kinds: Vec<Kind>,
    tolerance: BrickTolerance,
    swarm: Swarm,
    rng: Rng,
    bricks: Vec<usize>,
    clients: Vec<usize>,
    next_at: u64,
    /// Bricks that have lost their power, and are not whole again.
    dark: BTreeSet<usize>,
    dark_at: u64,
    /// The last time at which a replacement was under way; none: everything has been whole since.
    replaced_at: Option<u64>,
    /// The planned loss of power: its time, the brick, and the time at which the power is back.
    cut_at: Option<(u64, usize, u64)>,
}

impl BrickFaults {
    pub fn new(
        (tolerance, swarm): (BrickTolerance, Swarm),
        seed: u64,
        now: u64,
        (bricks, clients): (&[usize], &[usize]),
    ) -> BrickFaults {
        let mut rng = Rng::new(seed);
        let allowed = |kind: &Kind| match kind {
            Kind::CutPower | Kind::CrashThenCutPower => tolerance.dark_at_once > 0 || tolerance.dark_all,
            Kind::CutPowerOfAll => tolerance.dark_all,
            Kind::Replace => tolerance.replaces,
            _ => true,
        };
        // Two in three, as there are few.
        let kinds = KINDS.into_iter().filter(allowed).filter(|_| rng.chance(2, 3)).collect();
        let next_at = now + rng.below(swarm.interval_max);
        BrickFaults {
            kinds,
            tolerance,
            swarm,
            rng,
            bricks: bricks.to_vec(),
            clients: clients.to_vec(),
            next_at,
            dark: BTreeSet::new(),
            dark_at: 0,
            replaced_at: None,
            cut_at: None,
        }
    }

    /// Nothing strikes a brick until then.
    pub fn rest_until(&mut self, until: u64) {
        (self.next_at, self.cut_at) = (self.next_at.max(until), None);
    }

    /// The time of the next action.
    pub fn due(&self) -> u64 {
        self.cut_at.map_or(self.next_at, |(at, ..)| at.min(self.next_at))
    }

    pub fn act<T: System>(&mut self, system: &T, world: &mut World<Actor<T::Process, T::Session>>) {
        self.look(system, world);
        if let Some((at, node, back)) = self.cut_at
            && at <= world.now()
        {
            self.cut_at = None;
            self.cut_power::<T>(world, node, back);
        }
        if self.next_at <= world.now() {
            let most = if self.rng.chance(1, 4) { 300 * MILLI } else { self.swarm.interval_max };
            self.next_at = world.now() + 1 + self.rng.below(most);
            if let Some(kind) = self.rng.pick(&self.kinds).copied() {
                self.strike(kind, system, world);
            }
        }
    }

    /// Looks which bricks are whole again, and whether a replacement is under way.
    fn look<T: System>(&mut self, system: &T, world: &World<Actor<T::Process, T::Session>>) {
        let is_whole = |node: usize| match world.machine(node) {
            Some(Actor::Process(process)) => system.is_whole(process),
            Some(Actor::Client(_)) | None => false,
        };
        let planned = self.cut_at.map(|(_, node, _)| node);
        self.dark.retain(|node| !is_whole(*node) || planned == Some(*node));
        let is_replacing = self.clients.iter().any(|node| match world.machine(*node) {
            Some(Actor::Client(client)) => client.session().is_replacing(),
            Some(Actor::Process(_)) | None => false,
        });
        if is_replacing {
            self.replaced_at = Some(world.now());
        }
        if self.replaced_at.is_some_and(|at| at + STRAY < world.now()) && system.bricks_are_whole(world) {
            self.replaced_at = None;
        }
    }

    /// A brick that may lose its power.
    fn darkened<T: System>(&mut self, world: &World<Actor<T::Process, T::Session>>) -> Option<usize> {
        // Synced values outlive everything.
        if !self.tolerance.dark_all && (self.replaced_at.is_some() || self.cut_at.is_some()) {
            return None;
        }
        let is_any = self.tolerance.dark_all || self.dark.len() < self.tolerance.dark_at_once;
        let up: Vec<usize> = self.bricks.iter().copied().filter(|node| world.node(*node).is_up()).collect();
        if is_any { self.rng.pick(&up).copied() } else { None }
    }

    fn cut_power<T: System>(
        &mut self,
        world: &mut World<Actor<T::Process, T::Session>>,
        node: usize,
        back: u64,
    ) {
        self.dark.insert(node);
        self.dark_at = world.now();
        world.cut_power(node);
        world.restart_at(node, back);
    }

    fn duration(&mut self) -> u64 {
        let max = if self.rng.chance(1, 2) { self.swarm.duration_max / 8 } else { self.swarm.duration_max };
        20 * MILLI + self.rng.below(max)
    }

    fn strike<T: System>(
        &mut self,
        kind: Kind,
        system: &T,
        world: &mut World<Actor<T::Process, T::Session>>,
    ) {
        let until = world.now() + self.duration();
        let up: Vec<usize> = self.bricks.iter().copied().filter(|node| world.node(*node).is_up()).collect();
        let Some(one) = self.rng.pick(&up).copied() else { return };
        match kind {
            Kind::Crash => {
                world.crash(one);
                world.restart_at(one, until);
            }
            Kind::CrashInStep => {
                world.crash_after_effects(one, self.rng.below(40) as u32);
                // If the process has not died by then, this does nothing.
                world.restart_at(one, until);
                world.restart_at(one, until + self.swarm.duration_max);
            }
            Kind::CrashAll => {
                world.note_fault("crash of all bricks", one);
                for node in up {
                    world.crash(node);
                    let back = self.rng.below(SECOND);
                    world.restart_at(node, until + back);
                }
            }
            Kind::CutPower => {
                if let Some(node) = self.darkened::<T>(world) {
                    world.note_fault("power cut of a brick", node);
                    self.cut_power::<T>(world, node, until);
                }
            }
            Kind::CrashThenCutPower => {
                if self.cut_at.is_none()
                    && let Some(node) = self.darkened::<T>(world)
                {
                    world.note_fault("power cut of a brick that starts", node);
                    world.crash(node);
                    let up_at = world.now() + self.rng.below(20 * MILLI);
                    let cut_at = up_at + self.rng.below(60 * MILLI + 2 * self.swarm.costs.disk_max);
                    world.restart_at(node, up_at);
                    self.cut_at = Some((cut_at, node, cut_at + until - world.now()));
                    self.dark.insert(node);
                }
            }
            Kind::CutPowerOfAll => {
                world.note_fault("power cut of all bricks", one);
                for node in self.bricks.clone() {
                    let back = self.rng.below(SECOND);
                    self.cut_power::<T>(world, node, until + back);
                }
            }
            Kind::Stall => world.stall(one, (until - world.now()).min(4 * SECOND)),
            Kind::Stop => {
                world.note_fault("stop of a brick", one);
                world.stop(one);
            }
            Kind::Replace => {
                let is_quiet = self.dark.is_empty() && self.dark_at + BELIEVED < world.now();
                if is_quiet
                    && self.replaced_at.is_none()
                    && system.bricks_are_whole(world)
                    && let Some(client) = self.rng.pick(&self.clients).copied()
                    && let Some(Actor::Client(it)) = world.machine_mut(client)
                {
                    it.session_mut().replace_brick();
                    self.replaced_at = Some(world.now());
                    world.nudge(client);
                    world.note_fault("replacement of a brick", one);
                }
            }
        }
    }
}
