//! Ends of operations: at the deadline with what was tried, for good by a refusal, or with the outcome.
//!
//! Not here: the meaning of an answer (`verdict`). Catalogue: A3, B1.

use super::Session;
use super::running::{Purpose, Running, Searched, State};
use crate::operation::{Operation, OperationId, Place, Repeat};
use crate::outcome::{Cause, Outcome};
use crate::trouble::Trouble;
use ramhold_base::{Instant, Status};
use ramhold_wire::shortage::Shortage;
use std::time::Duration;

impl Session {
    pub(super) fn end_at_deadline(&mut self, now: Instant, id: OperationId) {
        let running = &self.running[&id];
        let token = self.quorum.token(id);
        let unknown =
            token.is_some() || (running.fate_unknown && running.operation.repeat() != Repeat::Freely);
        let tried = now.since(running.started).max(Duration::from_millis(1));
        let attempts = running.attempt_count;
        let fetch = match running.state {
            State::Awaiting(wanted) => self.fetches.get(&wanted).map(|fetch| &self.running[fetch]),
            State::Pausing | State::Posted | State::Calling(_) | State::Asking => None,
        };
        let trouble = fetch.and_then(|fetch| fetch.trouble).or(running.trouble);
        let searched = running.searched.clone().or(fetch.and_then(searched)).or(searched(running));
        let heard = running.heard || fetch.is_some_and(|fetch| fetch.heard);
        let mut detail =
            format!("tried for {tried:.1?}, {attempts} attempt{}", if attempts == 1 { "" } else { "s" });
        if let Some(trouble) = trouble {
            detail.push_str(&format!("; last, {trouble}"));
        }
        if let Some(Searched { text, .. }) = &searched {
            detail.push_str(&format!("; {text}"));
        }
        let told = trouble.and_then(Trouble::shortage);
        let shortage = told.or_else(|| self.shortage_for(id));
        if let (None, Some(shortage)) = (told, shortage) {
            detail.push_str(&format!("; writes to this table wait: {shortage}"));
        }
        let outcome = if unknown {
            Outcome::Unknown { detail, token }
        } else {
            let status = match (trouble.map_or(Status::Retry, Trouble::status), shortage) {
                // No server has taken the tablet because of the shortage.
                (Status::NotReady, Some(_)) => Status::TooFewBackups,
                _ if searched.is_some_and(|it| it.has_part) => Status::NoQuorum,
                (status, _) => status,
            };
            let cause = if heard { Cause::Deadline } else { Cause::Unreachable };
            lacking(Outcome::refused(status, cause, detail), shortage)
        };
        self.end(now, id, outcome);
    }

    /// The shortage of a mutation's table, as the coordinator last reported it.
    pub(super) fn shortage_for(&self, id: OperationId) -> Option<Shortage> {
        let operation = &self.running[&id].operation;
        match operation.place() {
            Place::OwnerOf { table, .. } if operation.repeat() == Repeat::Numbered => {
                self.cache.shortage(table)
            }
            Place::OwnerOf { .. } | Place::Coordinator | Place::Address(_) => None,
        }
    }

    /// Ends an operation that cannot go on. A refusal does not count for one that has a number and an open
    /// attempt: that one ends as unknown.
    pub(super) fn end_for_good(&mut self, now: Instant, id: OperationId, outcome: Outcome) {
        let running = &self.running[&id];
        let token = self.quorum.token(id);
        let is_open = token.is_some() || (running.number.is_some() && running.fate_unknown);
        let outcome = match outcome {
            // A token of a table that is gone settles nothing any more.
            Outcome::Refused { status: Status::UnknownTable, .. }
                if matches!(running.operation, Operation::Resume { .. }) =>
            {
                outcome
            }
            Outcome::Refused { detail, .. } if is_open => Outcome::Unknown { detail, token },
            other => other,
        };
        self.end(now, id, outcome);
    }

    pub(super) fn end(&mut self, now: Instant, id: OperationId, outcome: Outcome) {
        let running = self.running.remove(&id).expect("only running operations end");
        if let State::Calling(attempt) = running.state {
            self.attempts.remove(&attempt.id);
        }
        if let Some(number) = running.number {
            self.lease.acknowledge(number);
        }
        let parts = self.quorum.reads(id);
        self.quorum.note_end(id, &outcome);
        self.quorum.forget(now, id, matches!(outcome, Outcome::Done(_)));
        for part in parts {
            let detail = "the page has ended".to_owned();
            self.end(now, part, Outcome::refused(Status::Retry, Cause::Unsent, detail));
        }
        match running.purpose {
            Purpose::Caller => {
                self.started_count -= 1;
                self.outcomes.push_back((id, outcome));
            }
            Purpose::Part(page) => {
                if let Some(outcome) = self.on_single_read_ended(id, outcome) {
                    self.on_part_ended(now, page, id, outcome);
                }
            }
            Purpose::Fetch(wanted) => {
                self.fetches.remove(&wanted);
                self.on_fetched(now, wanted, &running, outcome);
            }
        }
    }
}

/// The findings of an operation's own search so far.
pub(super) fn searched(running: &Running) -> Option<Searched> {
    let search = running.search.as_ref()?;
    Some(Searched { has_part: search.has_part(), text: search.text() })
}

/// The same refusal, with the shortage.
fn lacking(outcome: Outcome, shortage: Option<Shortage>) -> Outcome {
    match outcome {
        Outcome::Refused { status, cause, version, item, answered_by, detail, .. } => {
            Outcome::Refused { status, cause, version, item, shortage, answered_by, detail }
        }
        Outcome::Done(_) | Outcome::Unknown { .. } => outcome,
    }
}
