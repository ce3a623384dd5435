//! The direct way to objects: requests that this process's own master treats.
//!
//! An answer that comes at once is lent to the caller, so that a value goes straight from the log into the
//! reply. For any other answer a ticket remembers whom it is for.
//!
//! Not here: requests that the master refuses (`posted`).

use super::answer::{Answer, Kind};
use super::tickets::{Part, Tickets};
use crate::front::host::Host;
use crate::front::request::CommandId;
use crate::front::step::Step;
use ramhold_base::{ConnId, Instant, Status};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Direct {
    tickets: Tickets,
    answers: LocalAnswers,
    /// Answers to earlier requests that came together with the answer to a later one.
    late: Vec<(u64, Status, Vec<u8>)>,
    /// Bytes of requests given to the host since it was last told to finish. `None`: no requests were given.
    unfinished_bytes: Option<u64>,
}

impl Direct {
    /// The name of the next command of a connection.
    pub fn next_command(&mut self, conn: ConnId) -> CommandId {
        CommandId { conn, seq: self.tickets.next() }
    }

    /// Has the host treat a request. `None`: the answer comes later, for `part`.
    // Inlined, because an answer is large: it is taken apart where it is made.
    #[inline]
    pub fn ask(
        &mut self,
        step: &mut Step<'_, impl Host>,
        request: &LocalRequest<'_>,
        part: Part,
    ) -> Option<Answer<'_>> {
        let ticket = self.tickets.next();
        let bytes = match request {
            LocalRequest::Read(_) => 0,
            LocalRequest::Write(write) => write.key.len() + write.value.len() + 64,
            LocalRequest::Remove(request) => request.key.len() + 64,
            LocalRequest::Increment(request) => request.key.len() + 64,
            LocalRequest::Commit(request) => request.items().iter().map(|item| item.bytes_max() + 64).sum(),
        };
        *self.unfinished_bytes.get_or_insert(0) += bytes as u64;
        self.answers.clear();
        step.host.treat(step.now, request, ticket, step.effects);
        step.host.swap_answers(&mut self.answers);
        for (of, status, body) in self.answers.iter().filter(|(of, ..)| *of != ticket) {
            self.late.push((of, status, body.to_vec()));
        }
        let kind = Kind::of(request);
        let answer = self.answers.iter().find(|(of, ..)| *of == ticket);
        if answer.is_none() {
            self.tickets.enter(step.now, ticket, part, kind);
        }
        answer.map(|(_, status, body)| Answer::of_local(kind, status, body))
    }

    /// Takes the bytes of the requests since the host was last told to finish.
    pub fn take_unfinished(&mut self) -> Option<u64> {
        self.unfinished_bytes.take()
    }

    /// Takes the answers that came together with another answer.
    pub fn take_late(&mut self) -> Vec<(u64, Status, Vec<u8>)> {
        std::mem::take(&mut self.late)
    }

    /// Whom an answer of the host is for, and the kind of the request. `None`: nobody waits for it any more.
    pub fn take_waiter(&mut self, ticket: u64) -> Option<(Part, Kind)> {
        self.tickets.take(ticket)
    }

    /// Takes out a request that has waited for `patience`, and tells how long it has waited.
    pub fn take_overdue(&mut self, now: Instant, patience: Duration) -> Option<(Duration, Part, Kind)> {
        self.tickets.take_overdue(now, patience)
    }

    /// When the request that waits longest may have begun to wait.
    pub fn oldest_wait(&self) -> Option<Instant> {
        self.tickets.oldest_wait()
    }
}
