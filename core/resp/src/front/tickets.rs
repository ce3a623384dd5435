//! Who waits for which answer.

use super::answer::Kind;
use ramhold_base::ConnId;
use ramhold_base::map::FastMap;
use ramhold_client_core::OperationId;

/// Whom an answer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The `index`th part of a running command, in its `attempt`.
    Command { conn: ConnId, seq: u64, index: u32, attempt: u32 },
    /// Who wants to know the table of a database.
    Database(u16),
    /// Nobody yet: what commands will need.
    Ready,
}

#[derive(Debug, Default)]
pub struct Tickets {
    last: u64,
    local: FastMap<u64, (Part, Kind)>,
    operations: FastMap<OperationId, Part>,
}

impl Tickets {
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn enter_local(&mut self, ticket: u64, part: Part, kind: Kind) {
        self.local.insert(ticket, (part, kind));
    }

    pub fn enter_operation(&mut self, id: OperationId, part: Part) {
        self.operations.insert(id, part);
    }

    pub fn of_local(&mut self, ticket: u64) -> Option<(Part, Kind)> {
        self.local.remove(&ticket)
    }

    pub fn of_operation(&mut self, id: OperationId) -> Option<Part> {
        self.operations.remove(&id)
    }
}
