//! The processes of a simulated cluster, and waiting until they are where a measurement begins.
//!
//! Not here: the processes' configurations and the order in which they start (`stage`).

use crate::asker::Asker;
use crate::loader::Loader;
use ramhold_base::{Effects, Input, Instant, Machine};
use ramhold_node::{Coordinator, Phase, ServerNode};
use ramhold_world::network::SECOND;
use ramhold_world::world::World;
use std::net::SocketAddr;

/// The limit for each step of the set-up.
const SETUP_MAX: u64 = 3600 * SECOND;

/// A simulated process.
pub enum Process {
    Coordinator(Box<Coordinator>),
    Server(Box<ServerNode>),
    Loader(Box<Loader>),
    Asker(Box<Asker>),
}

impl Machine for Process {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Process::Coordinator(coordinator) => coordinator.step(now, input, effects),
            Process::Server(server) => server.step(now, input, effects),
            Process::Loader(loader) => loader.step(now, input, effects),
            Process::Asker(asker) => asker.step(now, input, effects),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Process::Coordinator(coordinator) => coordinator.deadline(),
            Process::Server(server) => server.deadline(),
            Process::Loader(loader) => loader.deadline(),
            Process::Asker(asker) => asker.deadline(),
        }
    }

    fn puts_off(&self) -> bool {
        match self {
            Process::Coordinator(coordinator) => coordinator.puts_off(),
            Process::Server(server) => server.puts_off(),
            Process::Loader(loader) => loader.puts_off(),
            Process::Asker(asker) => asker.puts_off(),
        }
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        match self {
            Process::Coordinator(coordinator) => coordinator.turn_over(now, effects),
            Process::Server(server) => server.turn_over(now, effects),
            Process::Loader(loader) => loader.turn_over(now, effects),
            Process::Asker(asker) => asker.turn_over(now, effects),
        }
    }
}

pub fn address(host: usize, port: u16) -> SocketAddr {
    let [_, a, b, c] = (host as u32).to_be_bytes();
    SocketAddr::from(([10 + a, 0, b, c], port))
}

pub fn server(world: &World<Process>, node: usize) -> &ServerNode {
    match world.machine(node) {
        Some(Process::Server(server)) => server,
        _ => panic!("node {node} is a server that runs: {:?}", world.errors),
    }
}

pub fn is_serving(world: &World<Process>, node: usize) -> bool {
    matches!(world.machine(node), Some(Process::Server(server)) if server.phase() == Phase::Serving)
}

pub fn settle(world: &mut World<Process>, what: &str, is_there: impl Fn(&World<Process>) -> bool) {
    let limit = world.now() + SETUP_MAX;
    let there = world.run_while(limit, |world| !is_there(world));
    assert!(there, "{what} are not there after an hour: {:?}", world.errors);
}
