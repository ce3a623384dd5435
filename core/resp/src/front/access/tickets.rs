//! Remembers for each awaited answer of the host whom it is for, and since when it is awaited.
//!
//! Not here: answers of the session (`posted`).

use super::answer::Kind;
use crate::front::request::CommandId;
use ramhold_base::Instant;
use ramhold_base::map::FastMap;
use std::collections::VecDeque;
use std::time::Duration;

/// Waits of answered requests that are kept until they are swept out together.
const WAITS_SPARE: usize = 1024;

/// Whom an answer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The `index`th part of a running command, in its `attempt`.
    Command { command: CommandId, index: u32, attempt: u32 },
    /// The commands that wait for the table of a database.
    Database(u16),
    /// No command: the answer prepares for commands to come (`ready`).
    Ready,
}

impl Part {
    /// The only part of a command.
    pub fn of(command: CommandId) -> Part {
        Part::Command { command, index: 0, attempt: 0 }
    }
}

#[derive(Debug, Default)]
pub struct Tickets {
    last: u64,
    local: FastMap<u64, (Part, Kind)>,
    /// When requests to the host began to wait, oldest first; also of requests that are answered by now.
    waits: VecDeque<(Instant, u64)>,
}

impl Tickets {
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A request to the host waits from now on.
    pub fn enter(&mut self, now: Instant, ticket: u64, part: Part, kind: Kind) {
        self.forget_answered();
        self.waits.push_back((now, ticket));
        self.local.insert(ticket, (part, kind));
    }

    /// Takes out a request that has waited for `patience`, and tells how long it has waited.
    pub fn take_overdue(&mut self, now: Instant, patience: Duration) -> Option<(Duration, Part, Kind)> {
        self.forget_answered();
        let (since, ticket) = *self.waits.front().filter(|(since, _)| *since + patience <= now)?;
        let (part, kind) = self.local.remove(&ticket)?;
        Some((now.since(since), part, kind))
    }

    /// When the request that waits longest may have begun to wait.
    pub fn oldest_wait(&self) -> Option<Instant> {
        self.waits.front().map(|(since, _)| *since)
    }

    /// Requests are mostly answered in the order in which they came. One that waits for long must not keep those behind.
    fn forget_answered(&mut self) {
        while self.waits.front().is_some_and(|(_, ticket)| !self.local.contains_key(ticket)) {
            self.waits.pop_front();
        }
        if self.waits.len() > 2 * self.local.len() + WAITS_SPARE {
            self.waits.retain(|(_, ticket)| self.local.contains_key(ticket));
        }
    }

    pub fn take(&mut self, ticket: u64) -> Option<(Part, Kind)> {
        self.local.remove(&ticket)
    }
}
