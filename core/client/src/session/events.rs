//! The events of an operation under way: its answer, the loss of a connection, its timer.

use super::Session;
use super::running::{Attempt, AttemptId, Running, State};
use super::verdict::{self, Verdict};
use crate::operation::{OperationId, Place};
use crate::outcome::{Cause, Outcome, Reply};
use crate::trouble::{Trouble, What, Who};
use ramhold_base::{ClusterId, Instant, Lost, Status};
use ramhold_wire::{Header, Kind, Opcode, frame};
use std::net::SocketAddr;

impl Session {
    pub(super) fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        let Ok((header, body)) = frame::parse(bytes) else {
            return; // Its sender will be silent, or has closed the connection.
        };
        if header.kind != Kind::Reply {
            return;
        }
        let attempt = AttemptId(header.rpc.raw().wrapping_sub(self.rpc_base));
        if header.opcode == Opcode::Multi.code() {
            if !self.on_reads_answered(now, attempt, &header, body) {
                self.on_answers(now, attempt, &header, body);
            }
        } else if [Opcode::Ask.code(), Opcode::BrickPage.code()].contains(&header.opcode) {
            self.on_brick_answer(now, &header, body);
        } else {
            self.on_answer(now, attempt, None, &header, body);
        }
    }

    /// The answer to one operation. If it came in a frame with others, `packed` is the first item of that
    /// frame.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        attempt: AttemptId,
        packed: Option<AttemptId>,
        header: &Header,
        body: &[u8],
    ) {
        let Some(id) = self.attempts.get(&attempt).copied() else {
            return; // Late, doubled, or for somebody else.
        };
        let running = self.running.get_mut(&id).expect("attempts belong to running operations");
        let State::Calling(attempt) = running.state else {
            unreachable!("an awaited attempt belongs to an operation that is calling");
        };
        let is_its_opcode = packed.is_some() || header.opcode == running.operation.opcode().code();
        if attempt.packed != packed || !is_its_opcode {
            return;
        }
        self.attempts.remove(&attempt.id);
        running.heard = true;
        let is_for_coordinator = matches!(running.operation.place(), Place::Coordinator);
        if attempt.who == Who::Coordinator {
            // Another process may be there by now.
            _ = self.strangers.remove(&attempt.addr);
        }
        if is_for_coordinator && self.cluster.is_none() {
            self.cluster = header.cluster;
        }
        if self.on_hint(now, id, attempt, (header.status(), body)) {
            return;
        }
        let running = self.running.get_mut(&id).expect("it runs");
        let trouble = |what| Trouble { who: attempt.who, addr: attempt.addr, what };
        match verdict::judge(&running.operation, running.fate_unknown, header, body) {
            Verdict::Done(Reply::Table(table)) => self.on_described(now, id, attempt, table),
            Verdict::Done(reply) => {
                let is_usable = match &reply {
                    Reply::ClusterStatus(status) => self.learn_cluster(status.cluster),
                    _ => true,
                };
                if !is_usable {
                    return self.set_back(now, id, trouble(What::Unreadable));
                }
                self.end(now, id, Outcome::Done(reply));
            }
            Verdict::Refused { status, version, item, shortage } => {
                let what = shortage.map_or(What::Answered(status), What::Lacks);
                let outcome = Outcome::Refused {
                    status,
                    cause: Cause::Answered,
                    version,
                    item,
                    shortage,
                    answered_by: header.sender,
                    detail: trouble(what).to_string(),
                };
                self.end(now, id, outcome);
            }
            Verdict::Again => {
                // The coordinator tells the result of a numbered request, or nothing about it.
                running.fate_unknown |= attempt.who == Who::Coordinator && running.number.is_some();
                self.renumber(id);
                let shortage = verdict::shortage(header.status(), body);
                let trouble = trouble(shortage.map_or(What::Answered(header.status()), What::Lacks));
                if header.status() == Status::AnswerFull {
                    // The server has answered other items, so there is nothing to wait for.
                    self.running.get_mut(&id).expect("it runs").trouble = Some(trouble);
                    self.change(id, State::Pausing, now);
                    self.ready.push_back(id);
                } else {
                    self.set_back(now, id, trouble);
                }
            }
            Verdict::Anew => {
                running.fate_unknown = false;
                self.renumber(id);
                self.set_back(now, id, trouble(What::Answered(header.status())));
            }
            Verdict::LeaseOver => {
                // The refusal may belong to a doubled frame whose first copy was carried out.
                running.fate_unknown = true;
                let (lease, _) = running.number.expect("judged so for what has a number");
                self.lose_lease(now, lease);
            }
            Verdict::Elsewhere => {
                if verdict::is_before_numbers(header.status()) && running.number.is_some() {
                    running.fate_unknown = true;
                }
                self.renumber(id);
                let running = self.running.get_mut(&id).expect("it runs");
                if let Place::OwnerOf { table, target } = running.operation.place() {
                    self.cache.doubt(table, attempt.routed_by, target);
                }
                if attempt.who == Who::Coordinator {
                    self.leave_coordinator(attempt.addr);
                }
                self.set_back(now, id, trouble(What::Answered(header.status())));
                let is_stranger = header.status() == Status::NotCoordinator && !header.sender.is_none();
                if attempt.who == Who::Coordinator && is_stranger {
                    self.note_stranger(now, attempt.addr, header.sender);
                }
            }
            Verdict::Unreadable => {
                running.fate_unknown = true;
                self.set_back(now, id, trouble(What::Unreadable));
            }
        }
    }

    /// The server has treated an operation and says nothing about it: that counts like silence.
    pub(super) fn on_no_answer(&mut self, now: Instant, attempt: AttemptId) {
        let Some(id) = self.attempts.remove(&attempt) else { return };
        let running = self.running.get_mut(&id).expect("attempts belong to running operations");
        let State::Calling(attempt) = running.state else {
            unreachable!("an awaited attempt belongs to an operation that is calling");
        };
        running.heard = true;
        running.fate_unknown = true;
        self.set_back(now, id, Trouble { who: attempt.who, addr: attempt.addr, what: What::Silent });
    }

    /// A coordinator may have told the id of its cluster. `false`: it has not.
    fn learn_cluster(&mut self, cluster: ClusterId) -> bool {
        if self.cluster.is_none() {
            self.cluster = cluster;
        }
        !cluster.is_none()
    }

    pub(super) fn on_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost) {
        self.cache.doubt_address(addr);
        self.leave_coordinator(addr);
        let is_concerned =
            |running: &Running| matches!(running.state, State::Calling(attempt) if attempt.addr == addr);
        for id in self.running.those(is_concerned) {
            let running = self.running.get_mut(&id).expect("it was found running");
            let State::Calling(attempt) = running.state else { continue };
            self.attempts.remove(&attempt.id);
            running.fate_unknown |= how == Lost::Broken; // If it was refused, nothing of it has arrived.
            let what = match how {
                Lost::Refused => What::RefusedConnection,
                Lost::Broken => What::BrokenConnection,
            };
            self.set_back(now, id, Trouble { who: attempt.who, addr, what });
        }
        self.on_reads_lost(now, addr, how);
        self.on_brick_lost(now, addr, how);
    }

    pub(super) fn on_timers(&mut self, now: Instant) {
        while let Some(id) = self.running.due(now) {
            let running = self.running.get_mut(&id).expect("timers belong to running operations");
            match running.state {
                State::Calling(attempt) => self.on_silence(now, id, attempt),
                State::Asking => self.on_asking_time(now, id),
                State::Pausing | State::Awaiting(_) if running.deadline <= now => {
                    self.end_at_deadline(now, id);
                }
                State::Pausing | State::Awaiting(_) => {
                    // The operation is ready now. Its timer stands at the deadline until the next state sets
                    // its own.
                    let state = running.state;
                    self.change(id, state, Instant::FAR);
                    self.ready.push_back(id);
                }
                State::Posted => unreachable!("what is posted goes out in the same step"),
            }
        }
    }

    /// An attempt has not been answered in time.
    fn on_silence(&mut self, now: Instant, id: OperationId, attempt: Attempt) {
        self.cache.doubt_address(attempt.addr);
        if attempt.who == Who::Coordinator {
            self.leave_coordinator(attempt.addr);
        }
        let running = self.running.get_mut(&id).expect("it was found running");
        let trouble = Trouble { who: attempt.who, addr: attempt.addr, what: What::Silent };
        running.trouble = Some(trouble);
        running.fate_unknown = true;
        if running.deadline <= now {
            self.end_at_deadline(now, id);
        } else {
            self.attempts.remove(&attempt.id);
            self.set_back(now, id, trouble);
        }
    }
}
