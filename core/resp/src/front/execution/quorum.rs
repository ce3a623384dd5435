//! Commands about keys of a quorum table: the handler decides, and each read and each change is an operation of its own.
//!
//! The handlers are those of ordinary tables. All keys that a handler asks for are read, the handler runs again, and its
//! changes then go out as plain writes and removes. Nothing ties these operations together: bricks take no conditions, so
//! another client's write may fall between a command's read and its write. `OnQuorum` lets only those commands come here
//! for which this is allowed. All operations go through the session, because no master has keys of quorum tables.
//!
//! Invariants:
//! - nothing is written before the handler has ended without an error;
//! - a reply tells success only if every operation of the command is done.
//!
//! Not here: bricks and stamps (client), the errors of refused commands (`refusals`).
//! Protocol: docs/protocols/resp.md, section 8. Catalogue: J1, J3, A12.

use super::commit::expiry;
use crate::front::access::Access;
use crate::front::access::answer::{Answer, fault_of};
use crate::front::access::tables::Known;
use crate::front::access::tickets::Part;
use crate::front::bounds::{REPLY_BYTES_MAX, REPLY_TOO_LARGE};
use crate::front::host::Host;
use crate::front::refusals::{Asked, REPLACED};
use crate::front::request::Request;
use crate::front::step::Step;
use crate::{Call, Change, Fault, Flags, OnQuorum, Protocol, Reply, Run, Stop, Transaction};
use ramhold_base::{Status, TableId};
use ramhold_client_core::{Operation, RejectRules};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The handler can run, as soon as the table is known.
    Ready,
    Reading,
    Writing,
}

#[derive(Debug)]
pub struct QuorumWork {
    table: TableId,
    protocol: Protocol,
    phase: Phase,
    keys: Transaction,
    /// The keys that are being read or changed. The index of a part is its place in this list.
    places: Vec<Vec<u8>>,
    missing: usize,
    /// Bytes of the values that were read.
    bytes: usize,
    /// Counts the runs from the beginning. Answers to an earlier run mean nothing to the present one.
    attempt: u32,
    /// Why a change failed, or may have failed.
    fault: Option<Fault>,
    /// Changes that were refused because their table is gone. They go to the table that takes its place.
    homeless: Vec<usize>,
}

impl QuorumWork {
    /// Begins a command. `None`: its reply is there.
    pub fn begin(
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        (request, known, protocol): (&Request, Known, Protocol),
        reply: &mut Vec<u8>,
    ) -> Option<QuorumWork> {
        let args = request.args.list();
        let asked = Asked { row: request.row, args: &args, db: request.db };
        let mut work = QuorumWork {
            table: known.table,
            protocol,
            phase: Phase::Ready,
            keys: Transaction::over(step.config.databases),
            places: Vec::new(),
            missing: 0,
            bytes: 0,
            attempt: 0,
            fault: None,
            homeless: Vec::new(),
        };
        if let Err(fault) = asked.check(step.config) {
            work.refuse(reply, &fault);
            return None;
        }
        let is_over = work.run(step, access, request, reply);
        (!is_over).then_some(work)
    }

    /// Goes on, because the table of the database is known again. Returns whether the reply is there.
    pub fn go_on(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        (request, known): (&Request, Known),
        reply: &mut Vec<u8>,
    ) -> bool {
        if !known.is_quorum {
            self.refuse(reply, &REPLACED);
            return true;
        }
        self.table = known.table;
        match self.phase {
            Phase::Ready => self.run(step, access, request, reply),
            Phase::Reading => false,
            Phase::Writing => {
                let homeless = std::mem::take(&mut self.homeless);
                homeless.into_iter().for_each(|index| self.post_change(access, request, index));
                false
            }
        }
    }

    /// Takes the answer to a part of the command. Returns whether the reply is there.
    pub fn on_answer(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
        (part, answer): (Part, Answer<'_>),
    ) -> bool {
        let Part::Command { index, attempt, .. } = part else { return false };
        let index = index as usize;
        match self.phase {
            _ if attempt != self.attempt => false,
            Phase::Ready => false,
            Phase::Reading => self.on_read(step, access, request, reply, (index, answer)),
            Phase::Writing => self.on_written(step, access, request, reply, (index, answer)),
        }
    }

    /// Runs the handler from its beginning, and asks for what it needs. Returns whether the reply is there.
    fn run(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> bool {
        self.keys.drop_changes();
        reply.clear();
        let args = request.args.list();
        let now = step.host.time(step.now);
        let writer = Reply::new(reply, self.protocol);
        let mut call = Call { args: &args, db: request.db, now, keys: &mut self.keys, reply: writer };
        let ran = match request.row.run {
            Run::Keys(handler) | Run::Fast(_, handler) => handler(&mut call),
            Run::Front(_) | Run::Container(_) => Err(Stop::Fault(Fault::fixed("ERR no handler"))),
        };
        match ran {
            Err(Stop::Need) if !may_read(request) => {
                let asked = Asked { row: request.row, args: &args, db: request.db };
                self.refuse(reply, &asked.form_fault(step.config));
                true
            }
            Err(Stop::Need) => {
                self.read(access, request);
                false
            }
            Err(Stop::Fault(fault)) => {
                self.refuse(reply, &fault);
                true
            }
            Ok(()) => self.write(step, access, request, reply),
        }
    }

    fn read(&mut self, access: &mut Access, request: &Request) {
        self.phase = Phase::Reading;
        self.places = self.keys.take_needed().into_iter().map(|(_, key)| key).collect();
        self.missing = self.places.len();
        for (index, key) in self.places.iter().enumerate() {
            let (table, key, rules) = (self.table, key.clone(), RejectRules::default());
            access.posted.push(Operation::Read { table, key, rules }, self.part(request, index));
        }
    }

    fn on_read(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
        (index, answer): (usize, Answer<'_>),
    ) -> bool {
        let Some(key) = self.places.get(index) else { return false };
        match answer.into_object() {
            Ok(object) => {
                self.missing -= 1;
                self.bytes += object.as_ref().map_or(0, |(_, object)| object.value.len());
                self.keys.learn((request.db, key.clone()), object);
                if self.bytes > REPLY_BYTES_MAX {
                    self.refuse(reply, &REPLY_TOO_LARGE);
                    return true;
                }
                self.missing == 0 && self.run(step, access, request, reply)
            }
            // The database was emptied. The command begins anew in the table that is there now.
            Err(Answer::NoTable) => {
                self.phase = Phase::Ready;
                self.keys = Transaction::over(step.config.databases);
                self.bytes = 0;
                self.attempt += 1;
                self.wait_for_table(step, access, request);
                false
            }
            Err(other) => {
                self.refuse(reply, &fault_in(other));
                true
            }
        }
    }

    /// Sends the changes that the handler wants. Returns true if there are none.
    fn write(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> bool {
        let changed = self.keys.entries().filter(|(_, _, change)| change.is_some());
        self.places = changed.map(|((_, key), ..)| key.clone()).collect();
        self.missing = self.places.len();
        if self.places.is_empty() {
            self.count_lookups(step, request);
            return true;
        }
        if step.now.since(request.started) > step.config.deadline {
            self.refuse(reply, &Fault::fixed("TRYAGAIN reading the keys has taken too long"));
            return true;
        }
        self.phase = Phase::Writing;
        (0..self.places.len()).for_each(|index| self.post_change(access, request, index));
        false
    }

    fn post_change(&self, access: &mut Access, request: &Request, index: usize) {
        let (table, key, rules) = (self.table, self.places[index].clone(), RejectRules::default());
        let operation = match self.keys.change_of(&(request.db, key.clone())) {
            Some(Change::Write(object)) => {
                let (value, expiry) = (object.value.clone(), expiry(object.expires));
                Operation::Write { table, key, value, rules, expiry }
            }
            Some(Change::Remove) | None => Operation::Remove { table, key, rules },
        };
        access.posted.push(operation, self.part(request, index));
    }

    fn on_written(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
        (index, answer): (usize, Answer<'_>),
    ) -> bool {
        match answer {
            Answer::NoTable => {
                if self.homeless.is_empty() {
                    self.wait_for_table(step, access, request);
                }
                self.homeless.push(index);
                return false;
            }
            Answer::Written | Answer::Removed(_) => {}
            other => self.note(fault_in(other)),
        }
        self.missing -= 1;
        if self.missing > 0 {
            return false;
        }
        if let Some(fault) = self.fault.take() {
            self.refuse(reply, &fault);
        }
        true
    }

    /// Keeps the error that the reply tells: the first one, but an unknown outcome before a refusal.
    fn note(&mut self, fault: Fault) {
        let is_unknown = |fault: &Fault| fault.0.starts_with("UNKNOWN");
        let is_first = self.fault.as_ref().is_none_or(|noted| !is_unknown(noted) && is_unknown(&fault));
        if is_first {
            self.fault = Some(fault);
        }
    }

    fn wait_for_table(&self, step: &mut Step<'_, impl Host>, access: &mut Access, request: &Request) {
        access.databases.forget_one(request.db, self.table);
        access.wait_for_table(step, request.db, request.id);
    }

    fn part(&self, request: &Request, index: usize) -> Part {
        let index = u32::try_from(index).expect("a request has fewer arguments");
        Part::Command { command: request.id, index, attempt: self.attempt }
    }

    fn refuse(&self, reply: &mut Vec<u8>, fault: &Fault) {
        reply.clear();
        Reply::new(reply, self.protocol).fault(fault);
    }

    fn count_lookups<H>(&mut self, step: &mut Step<'_, H>, request: &Request) {
        if request.row.flags.has(Flags::READONLY) {
            let args = request.args.list();
            let keys = request.row.keys.of(&args);
            let found = keys.filter_map(|key| self.keys.version(request.db, key).ok());
            step.stats.count_lookups(found.map(|version| version.is_some()));
        }
    }
}

/// Whether the command may read keys: it writes none, or may count those that it removes.
fn may_read(request: &Request) -> bool {
    request.row.flags.has(Flags::READONLY) || request.row.on_quorum() == OnQuorum::ReadFirst
}

fn fault_in(answer: Answer<'_>) -> Fault {
    match answer {
        Answer::Fault(fault) => fault,
        other => fault_of(Status::BadRequest, &format!("unexpected answer: {other:?}")),
    }
}
