//! Operations that go through the client session of this process: for objects of other servers, for tables, and for
//! whatever the direct way refuses.
//!
//! Operations are collected, and go out together before the step ends. So the session can put operations for one
//! server into one request.

use super::answer::Answer;
use super::tickets::Part;
use crate::front::step::Step;
use ramhold_base::map::FastMap;
use ramhold_client_core::{Operation, OperationId, Session, SessionConfig};

pub struct Posted {
    pub session: Session,
    /// Operations that go out together at the end of the step.
    waiting: Vec<(Operation, Part)>,
    /// Operations that are under way.
    parts: FastMap<OperationId, Part>,
}

impl Posted {
    pub fn new(config: SessionConfig, seed: u64) -> Posted {
        Posted { session: Session::new(config, seed), waiting: Vec::new(), parts: FastMap::default() }
    }

    pub fn push(&mut self, operation: Operation, part: Part) {
        self.waiting.push((operation, part));
    }

    /// Gives the collected operations to the session.
    pub fn send<H>(&mut self, step: &mut Step<'_, H>) {
        if self.waiting.is_empty() {
            return;
        }
        step.stats.posted += self.waiting.len() as u64;
        let (operations, parts): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let ids = self.session.start_all(step.now, operations, step.config.deadline, step.effects);
        for (id, part) in ids.into_iter().zip(parts) {
            self.parts.insert(id, part);
        }
    }

    /// The next answer of the session that somebody waits for.
    pub fn take_answer(&mut self) -> Option<(Part, Answer<'static>)> {
        loop {
            let (id, outcome) = self.session.take_outcome()?;
            if let Some(part) = self.parts.remove(&id) {
                return Some((part, Answer::of_outcome(outcome)));
            }
        }
    }
}
