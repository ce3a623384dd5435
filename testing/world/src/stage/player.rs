//! The hosts of a stage: processes of the cluster, clients that follow the script, and Redis clients.

use super::speaker::Speaker;
use crate::cluster::process::Process;
use ramhold_base::{Effects, Input, Instant, Machine};
use ramhold_client_core as core;
use ramhold_client_core::OperationId;
use std::collections::{BTreeMap, VecDeque};

/// The process or client of a host of the stage.
pub enum Player {
    Process(Box<Process>),
    Client(Box<Scripted>),
    Speaker(Box<Speaker>),
}

impl Player {
    pub fn process(&self) -> Option<&Process> {
        match self {
            Player::Process(process) => Some(process),
            Player::Client(_) | Player::Speaker(_) => None,
        }
    }

    pub fn client(&self) -> Option<&Scripted> {
        match self {
            Player::Client(client) => Some(client),
            Player::Process(_) | Player::Speaker(_) => None,
        }
    }

    pub fn speaker(&self) -> Option<&Speaker> {
        match self {
            Player::Speaker(speaker) => Some(speaker),
            Player::Process(_) | Player::Client(_) => None,
        }
    }
}

impl Machine for Player {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Player::Process(process) => process.step(now, input, effects),
            Player::Client(client) => client.step(now, input, effects),
            Player::Speaker(speaker) => speaker.step(now, input, effects),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Player::Process(process) => process.deadline(),
            Player::Client(client) => client.session.deadline(),
            Player::Speaker(speaker) => speaker.deadline(),
        }
    }

    fn puts_off(&self) -> bool {
        match self {
            Player::Process(process) => process.puts_off(),
            Player::Client(client) => client.puts_off(),
            Player::Speaker(speaker) => speaker.puts_off(),
        }
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        match self {
            Player::Process(process) => process.turn_over(now, effects),
            Player::Client(client) => client.turn_over(now, effects),
            Player::Speaker(speaker) => speaker.turn_over(now, effects),
        }
    }
}

/// A session of the real client that starts the script's operations.
pub struct Scripted {
    session: core::Session,
    pub(super) given: VecDeque<(usize, core::Operation)>,
    running: BTreeMap<OperationId, usize>,
    /// Outcomes by the number that the script got, with the moment at which they were known.
    pub(super) ended: BTreeMap<usize, (u64, core::Outcome)>,
}

impl Scripted {
    pub(super) fn new(session: core::Session) -> Scripted {
        Scripted { session, given: VecDeque::new(), running: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

impl Machine for Scripted {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        while let Some((number, operation)) = self.given.pop_front() {
            let id = self.session.start(now, operation, effects);
            self.running.insert(id, number);
        }
        while let Some((id, outcome)) = self.session.take_outcome() {
            if let Some(number) = self.running.remove(&id) {
                self.ended.insert(number, (now.0, outcome));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }
}
