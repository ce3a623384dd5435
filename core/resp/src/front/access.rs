//! The ways from a front to objects, tables and other servers.
//!
//! A request about an object first goes the direct way (`direct`): this process's own master treats it in the same
//! step. If the master refuses it, because the object is not here or cannot be changed now, the request goes
//! through the client session (`posted`). Other servers are told and asked by calls of their own (`peers`).
//!
//! Invariant: each answer reaches the command that waits for it, or nobody if the command is gone (`Part`).
//!
//! Not here: what a command makes of an answer (`execution`, `clients`). Nothing here knows a client, or
//! its other commands.

pub mod answer;
pub mod direct;
pub mod peers;
pub mod posted;
pub mod ready;
pub mod tables;
pub mod tickets;

use super::host::Host;
use super::request::CommandId;
use super::step::Step;
use direct::Direct;
use peers::Peers;
use posted::Posted;
use ramhold_base::map::FastMap;
use ramhold_base::time::earliest;
use ramhold_base::{Instant, Machine, SecretToken};
use ready::Ready;
use tables::Databases;
use tickets::Part;

pub struct Access {
    pub direct: Direct,
    pub posted: Posted,
    pub databases: Databases,
    pub ready: Ready,
    pub peers: Peers,
    /// Commands that wait for work with passwords.
    pub secrets: FastMap<SecretToken, CommandId>,
    /// Those of them that make a password.
    pub making_count: usize,
    /// Changes of accounts that this process has not been told of yet, each with the time until which it waits.
    pub changes: Vec<(Instant, CommandId)>,
}

impl Access {
    pub fn new(posted: Posted, peers: Peers) -> Access {
        Access {
            direct: Direct::default(),
            posted,
            databases: Databases::default(),
            ready: Ready::default(),
            peers,
            secrets: FastMap::default(),
            making_count: 0,
            changes: Vec::new(),
        }
    }

    /// The time of the next step that is needed without any input, except for overdue answers of the host.
    pub fn deadline(&self) -> Option<Instant> {
        let calls = earliest(self.posted.session.deadline(), self.peers.deadline());
        let changes = self.changes.iter().map(|(until, _)| *until).min();
        earliest(earliest(calls, changes), Some(self.ready.deadline()))
    }

    /// Has a command begin anew when the table of a database is known.
    pub fn wait_for_table(&mut self, step: &mut Step<'_, impl Host>, db: u16, command: CommandId) {
        self.databases.wait(step, &mut self.posted, db, command);
    }

    /// Asks for the description of a database's table, on behalf of a command.
    pub fn ask_table(&mut self, step: &Step<'_, impl Host>, db: u16, command: CommandId) {
        self.posted.push(tables::describe(step.config, db), Part::of(command));
    }

    /// Whether commands on database 0 need nothing from the coordinator. `INFO` tells it.
    pub fn is_ready_without_coordinator(&self, step: &Step<'_, impl Host>) -> bool {
        self.ready.is_ready(step, &self.posted, &self.databases)
    }

    /// Looks for what is missing to serve without the coordinator, if it is time to.
    pub fn look_ready(&mut self, step: &mut Step<'_, impl Host>) {
        self.ready.look(step, &mut self.posted, &self.databases, &mut self.peers);
    }
}
