//! What happens to an operation under way: its answer, the loss of a connection, its timer.

use super::running::{Attempt, Running, State};
use super::verdict::{self, Verdict};
use super::{OperationId, Session};
use crate::operation::{Place, Repeat};
use crate::outcome::{Cause, Outcome, Reply};
use crate::trouble::{Trouble, What, Who};
use ramhold_base::{ClusterId, Instant, Lost, Sequence};
use ramhold_wire::{Kind, frame};
use std::net::SocketAddr;

impl Session {
    pub(super) fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        let Ok((header, body)) = frame::parse(bytes) else {
            return; // Whoever sent it will be silent, or has closed the connection.
        };
        let sequence = Sequence(header.rpc.raw().wrapping_sub(self.rpc_base));
        let Some(id) = self.attempts.get(&sequence).copied() else {
            return; // Late, doubled, or for somebody else.
        };
        let running = self.running.get_mut(&id).expect("attempts belong to running operations");
        if header.kind != Kind::Reply || header.opcode != running.operation.opcode().code() {
            return;
        }
        let State::Calling(attempt) = running.state else {
            unreachable!("an awaited attempt belongs to an operation that is calling");
        };
        assert_eq!(attempt.sequence, sequence);
        self.attempts.remove(&sequence);
        running.heard = true;
        if running.operation.repeat() == Repeat::Never {
            running.fate_unknown = false; // This was the only attempt whose fate was open.
        }
        if attempt.who == Who::Coordinator && self.cluster.is_none() {
            self.cluster = header.cluster;
        }
        let trouble = |what| Trouble { who: attempt.who, addr: attempt.addr, what };
        match verdict::judge(&running.operation, running.fate_unknown, &header, body) {
            Verdict::Done(reply) => {
                let is_usable = if let Reply::Table(description) = &reply {
                    self.cache.keep(now, description)
                } else if let Reply::ClusterStatus(status) = &reply {
                    self.learn_cluster(status.cluster)
                } else {
                    true
                };
                if !is_usable {
                    return self.set_back(now, id, trouble(What::Unreadable));
                }
                self.end(now, id, Outcome::Done(reply));
            }
            Verdict::Refused { status, version } => {
                let outcome = Outcome::Refused {
                    status,
                    cause: Cause::Answered,
                    version,
                    answered_by: header.sender,
                    detail: trouble(What::Answered(status)).to_string(),
                };
                self.end(now, id, outcome);
            }
            Verdict::Again => self.set_back(now, id, trouble(What::Answered(header.status()))),
            Verdict::Elsewhere => {
                if let Place::OwnerOf { table, key } = running.operation.place() {
                    self.cache.doubt(table, attempt.routed_by, key);
                }
                if attempt.who == Who::Coordinator {
                    self.leave_coordinator(attempt.addr);
                }
                self.set_back(now, id, trouble(What::Answered(header.status())));
            }
            Verdict::Unreadable => match running.operation.repeat() {
                Repeat::Never => {
                    let detail = trouble(What::Unreadable).to_string();
                    self.end(now, id, Outcome::Unknown { detail });
                }
                Repeat::Freely | Repeat::Idempotent => {
                    running.fate_unknown = true;
                    self.set_back(now, id, trouble(What::Unreadable));
                }
            },
        }
    }

    /// A coordinator has told which cluster it is of. `false`: it has told nothing.
    fn learn_cluster(&mut self, cluster: ClusterId) -> bool {
        if self.cluster.is_none() {
            self.cluster = cluster;
        }
        !cluster.is_none()
    }

    pub(super) fn on_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost) {
        self.cache.doubt_address(addr);
        self.leave_coordinator(addr);
        let calling = |(id, running): (&OperationId, &Running)| match running.state {
            State::Calling(attempt) if attempt.addr == addr => Some((*id, attempt)),
            State::Calling(_) | State::Pausing | State::Awaiting(_) => None,
        };
        let concerned: Vec<_> = self.running.iter().filter_map(calling).collect();
        for (id, attempt) in concerned {
            self.attempts.remove(&attempt.sequence);
            let running = self.running.get_mut(&id).expect("it was found running");
            let repeat = running.operation.repeat();
            let what = match how {
                Lost::Refused => What::RefusedConnection,
                Lost::Broken => What::BrokenConnection,
            };
            let trouble = Trouble { who: attempt.who, addr, what };
            if how == Lost::Broken && repeat == Repeat::Never {
                let detail = format!("the request was sent, but {trouble}");
                self.end(now, id, Outcome::Unknown { detail });
                continue;
            }
            match repeat {
                Repeat::Never => running.fate_unknown = false, // Nothing of it has arrived.
                Repeat::Freely | Repeat::Idempotent => running.fate_unknown |= how == Lost::Broken,
            }
            self.set_back(now, id, trouble);
        }
    }

    pub(super) fn on_timers(&mut self, now: Instant) {
        while let Some((wake, id)) = self.timers.first().copied()
            && wake <= now
        {
            let running = self.running.get_mut(&id).expect("timers belong to running operations");
            match running.state {
                State::Calling(attempt) => self.on_silence(now, id, attempt),
                State::Pausing | State::Awaiting(_) if running.deadline <= now => {
                    self.end_at_deadline(now, id);
                }
                State::Pausing | State::Awaiting(_) => {
                    // Ready now; the timer is the deadline's until the next state sets its own.
                    let state = running.state;
                    self.change(id, state, Instant::FAR);
                    self.ready.push_back(id);
                }
            }
        }
    }

    /// An attempt has not been answered in time.
    fn on_silence(&mut self, now: Instant, id: OperationId, attempt: Attempt) {
        if !attempt.late {
            self.cache.doubt_address(attempt.addr);
            if attempt.who == Who::Coordinator {
                self.leave_coordinator(attempt.addr);
            }
        }
        let running = self.running.get_mut(&id).expect("it was found running");
        let trouble = Trouble { who: attempt.who, addr: attempt.addr, what: What::Silent };
        running.trouble = Some(trouble);
        running.fate_unknown = true;
        if running.deadline <= now {
            self.end_at_deadline(now, id);
        } else if running.operation.repeat() == Repeat::Never {
            // It may still be done, and be answered.
            self.change(id, State::Calling(Attempt { late: true, ..attempt }), Instant::FAR);
        } else {
            self.attempts.remove(&attempt.sequence);
            self.set_back(now, id, trouble);
        }
    }
}
