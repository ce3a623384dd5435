//! Turns of a process: the inputs that it takes in before it does what it puts off.
//!
//! A machine that puts nothing off ends its turn with each input. Any other one ends it at once or some microseconds
//! later, by chance, and inputs that come until then belong to the same turn. So a run meets turns of one input and
//! turns of many. With a pace each input is a turn of its own.
//!
//! Invariant: nothing that a live process puts off stays so without an end of its turn that is planned.

use super::World;
use super::event::Happening;
use super::node::Pending;
use super::pace::Given;
use crate::network::MILLI;
use ramhold_base::{Effects, Machine};

/// The end of a turn in a trace, beside the kinds of inputs.
const TURN_OVER: u64 = 10;
/// A machine spins if it has more hurried ticks than this without any other event.
const HASTY_TICKS_MAX: u32 = 50_000;

impl<M: Machine> World<M> {
    /// An input of a process, then the completions that its effects bring in the same turn. The turn ends if it is
    /// drawn so.
    pub(super) fn step(&mut self, node: usize, first: Pending) {
        assert!(self.same_turn.is_empty(), "turns do not nest");
        self.same_turn.push_back(first);
        self.leaves_at = self.now;
        self.step_through(node);
        if self.puts_off(node) && !self.nodes[node].turn_planned {
            let is_over = self.pace.is_some() || self.rng.chance(1, 2);
            if is_over { self.end_turn(node) } else { self.plan_turn_over(node) }
        }
        self.note_busy(node);
    }

    /// Steps a process with all inputs of the present turn, unless it ends meanwhile.
    fn step_through(&mut self, node: usize) {
        let life = self.nodes[node].life;
        let mut effects = std::mem::take(&mut self.effects);
        while let Some(pending) = self.same_turn.pop_front() {
            self.step_once(node, pending, &mut effects);
            if self.nodes[node].life != life || self.nodes[node].machine.is_none() {
                self.same_turn.clear();
                break;
            }
        }
        self.effects = effects;
    }

    pub(super) fn puts_off(&self, node: usize) -> bool {
        self.nodes[node].machine.as_ref().is_some_and(Machine::puts_off)
    }

    pub(super) fn plan_turn_over(&mut self, node: usize) {
        let at = self.now + self.rng.between(1, self.costs.turn_max.max(1));
        let host = &mut self.nodes[node];
        host.turn_planned = true;
        self.queue.push(at, Happening::TurnOver { node, life: host.life });
    }

    /// The planned end of a turn has come. A process that is busy or stalled ends its turn when it is free.
    pub(super) fn turn_over(&mut self, node: usize, life: u64) {
        let host = &mut self.nodes[node];
        if host.life != life || host.machine.is_none() {
            return;
        }
        let free_at = host.busy_until.max(host.stalled_until);
        if free_at > self.now {
            return self.queue.push(free_at, Happening::TurnOver { node, life });
        }
        host.turn_planned = false;
        if self.puts_off(node) {
            self.leaves_at = self.now;
            self.end_turn(node);
            self.note_busy(node);
        }
    }

    /// The process does what it put off. Work that it puts off anew meanwhile belongs to another turn.
    fn end_turn(&mut self, node: usize) {
        assert!(self.same_turn.is_empty(), "turns do not nest");
        self.trace.note(self.now);
        self.trace.note((node as u64) << 8 | TURN_OVER);
        let host = &mut self.nodes[node];
        let now = host.clock.local(self.now);
        let machine = host.machine.as_mut().expect("only a live process ends a turn");
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        machine.turn_over(now, &mut effects);
        self.leaves_at += self.pace.as_mut().map_or(0, |pace| pace.step(node, Given::TurnOver, &effects));
        self.execute(node, &mut effects, &[]);
        self.effects = effects;
        if self.nodes[node].machine.is_none() {
            return self.same_turn.clear();
        }
        self.step_through(node);
        if self.puts_off(node) && !self.nodes[node].turn_planned {
            self.plan_turn_over(node);
        }
    }

    /// The process is busy for a while with what it just did.
    fn note_busy(&mut self, node: usize) {
        if self.nodes[node].machine.is_some() {
            self.nodes[node].busy_until = match self.pace {
                Some(_) => self.leaves_at,
                None => self.now + self.rng.between(self.costs.step_min, self.costs.step_max),
            };
            self.plan_timer(node);
        }
    }

    fn step_once(&mut self, node: usize, pending: Pending, effects: &mut Effects) {
        if let Pending::Bytes { from } = pending {
            return self.step_with_bytes(node, from, effects);
        }
        self.steps += 1;
        let host = &mut self.nodes[node];
        let (kind, length) = pending.shape();
        self.trace.note(self.now);
        self.trace.note((node as u64) << 8 | kind);
        self.trace.note(length);
        if matches!(pending, Pending::Tick) {
            let hasty = self.now - host.last_tick < MILLI;
            host.hasty_ticks = if hasty { host.hasty_ticks + 1 } else { 0 };
            host.last_tick = self.now;
            assert!(host.hasty_ticks < HASTY_TICKS_MAX, "{} spins: its deadline is always past", host.name);
        } else {
            host.hasty_ticks = 0;
        }
        let now = host.clock.local(self.now);
        let wall_millis = host.clock.wall_millis(self.now);
        let machine = host.machine.as_mut().expect("only a live process is stepped");
        effects.clear();
        let pace = &mut self.pace;
        let (cost, bytes) = pending.with_input(wall_millis, |input| {
            let given = Given::of(&input);
            machine.step(now, input, effects);
            pace.as_mut().map_or(0, |pace| pace.step(node, given, effects))
        });
        self.leaves_at += cost;
        self.execute(node, effects, bytes.as_deref().unwrap_or_default());
        self.spare.extend(bytes);
    }
}
