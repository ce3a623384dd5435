//! Commands that handlers carry out. The front reads the keys that the handlers need, and writes the changes
//! that they want if everything read is still so. Otherwise the handlers begin again. The method is
//! optimistic, and the command atomic: no other client sees a part of it.
//!
//! `advance` runs the handlers, asks for keys or writes, whatever can be done now. It may be called at any time.
//!
//! Invariant: a reply is given only if every key that its handlers saw was so at one moment.
//!
//! Not here: the conditional writes (`commit`), the commands between `MULTI` and `EXEC` (`exec`).

use super::commit::{End, Wanted, wanted};
use super::exec::{self, After, Look};
use crate::front::access::Access;
use crate::front::access::answer::{Answer, fault_of};
use crate::front::access::tickets::Part;
use crate::front::bounds::{REPLY_BYTES_MAX, REPLY_TOO_LARGE};
use crate::front::clients::block::{Queued, Watched};
use crate::front::clients::list::Clients;
use crate::front::host::Host;
use crate::front::refusals::Asked;
use crate::front::request::Request;
use crate::front::step::Step;
use crate::transaction::Place;
use crate::{Call, Command, Fault, Flags, Object, Protocol, Reply, Run, Stop, Transaction};
use ramhold_base::limits::KEY_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Status, Version};
use ramhold_client_core::{Operation, RejectRules};
use ramhold_wire::data::KeyRequest;
use ramhold_wire::local::LocalRequest;

/// Index of the part that writes.
const COMMIT: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Handlers can run.
    Ready,
    Reading,
    Committing,
}

/// The purpose of a transaction.
#[derive(Debug)]
pub enum Purpose {
    /// The running command itself.
    Command,
    /// `EXEC`: carries out these commands if the watched keys are as they were.
    Exec { queued: Vec<Queued>, watched: Vec<Watched> },
    /// `WATCH`: only reads.
    Watch,
}

#[derive(Debug)]
pub struct Transact {
    purpose: Purpose,
    keys: Transaction,
    phase: Phase,
    /// The keys that are being read. The index of a part is its place in this list.
    places: Vec<Place>,
    missing: usize,
    /// Bytes of the values that were read.
    bytes: usize,
    attempts: u32,
    protocol: Protocol,
    /// The consequences for the connection of an `EXEC` that takes effect.
    after: Option<After>,
}

/// The next move of a transaction.
enum Next {
    /// The transaction waits for answers.
    Wait,
    /// The reply is there.
    Over,
    Again,
}

/// The parts of the front that a transaction works on.
pub struct Around<'a> {
    pub access: &'a mut Access,
    pub clients: &'a mut Clients,
}

impl Transact {
    pub fn new(purpose: Purpose, protocol: Protocol, database_count: u16) -> Transact {
        Transact {
            purpose,
            keys: Transaction::over(database_count),
            phase: Phase::Ready,
            places: Vec::new(),
            missing: 0,
            bytes: 0,
            attempts: 0,
            protocol,
            after: None,
        }
    }

    /// Forgets everything that was seen, to begin again.
    fn renew(&mut self) {
        self.forget();
        self.phase = Phase::Ready;
        self.attempts += 1;
    }

    /// Ends with an error. Nothing has taken effect, not even on the connection.
    fn refuse(&mut self, reply: &mut Vec<u8>, fault: &Fault) {
        self.after = None;
        if matches!(self.purpose, Purpose::Watch) {
            self.forget(); // A `WATCH` that is refused must not watch keys unnoticed.
        }
        reply.clear();
        Reply::new(reply, self.protocol).fault(fault);
    }

    fn forget(&mut self) {
        let database_count = self.keys.database_count;
        self.keys = Transaction::over(database_count);
        self.bytes = 0;
    }

    /// Keeps the object that was read for a key.
    fn learn(&mut self, place: Place, object: Option<(Version, Object)>) -> Result<(), Fault> {
        self.missing -= 1;
        self.bytes += object.as_ref().map_or(0, |(_, object)| object.value.len());
        self.keys.learn(place, object);
        if self.bytes > REPLY_BYTES_MAX { Err(REPLY_TOO_LARGE) } else { Ok(()) }
    }

    /// For each key of one of its commands that was read: whether the key was there, whatever the commands
    /// before did.
    fn lookups(&self, row: &Command, args: &[&[u8]]) -> Vec<bool> {
        let is_seen = |key: &[u8]| {
            let mut entries = self.keys.entries();
            entries.find(|((_, of), ..)| of == key).and_then(|(_, seen, _)| seen).map(|seen| seen.is_some())
        };
        row.keys.of(args).filter_map(is_seen).collect()
    }

    /// The keys that `WATCH` saw, with their versions.
    fn seen(&self) -> Vec<(Place, Option<Version>)> {
        let seen = self.keys.entries().filter_map(|(place, seen, _)| seen.map(|seen| (place.clone(), seen)));
        seen.collect()
    }

    /// Advances the transaction as far as possible, and returns whether its reply is there. Its consequences for the
    /// client have then happened.
    pub fn advance(
        &mut self,
        step: &mut Step<'_, impl Host>,
        mut around: Around<'_>,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> bool {
        let is_over = self.go_on(step, &mut around, request, reply);
        if is_over {
            self.conclude(step, around.clients, request, reply);
        }
        is_over
    }

    /// Takes an answer to a read or write of the transaction. Returns true when the reply is there, as `advance` does.
    pub fn on_answer(
        &mut self,
        step: &mut Step<'_, impl Host>,
        mut around: Around<'_>,
        request: &Request,
        reply: &mut Vec<u8>,
        (part, answer): (Part, Answer<'_>),
    ) -> bool {
        let Part::Command { index, attempt, .. } = part else { return false };
        if attempt != self.attempts {
            return false;
        }
        let taken = if index == COMMIT {
            self.take_outcome(step, around.access, part, answer)
        } else {
            self.take_object(around.access, part, index as usize, answer)
        };
        let is_over = match taken {
            Ok(Next::Over) => true,
            Ok(Next::Wait) => false,
            Ok(Next::Again) => self.go_on(step, &mut around, request, reply),
            Err(fault) => {
                self.refuse(reply, &fault);
                true
            }
        };
        if is_over {
            self.conclude(step, around.clients, request, reply);
        }
        is_over
    }

    fn go_on(
        &mut self,
        step: &mut Step<'_, impl Host>,
        around: &mut Around<'_>,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> bool {
        loop {
            if step.now.since(request.started) > step.config.deadline {
                let text =
                    "TRYAGAIN the keys were changed by others each time that this command had read them";
                self.refuse(reply, &Fault::fixed(text));
                return true;
            }
            let next = match self.phase {
                Phase::Ready => self.run_handlers(step, around, request, reply),
                Phase::Reading if self.missing == 0 => {
                    self.phase = Phase::Ready;
                    Next::Again
                }
                Phase::Reading | Phase::Committing => Next::Wait,
            };
            match next {
                Next::Wait => return false,
                Next::Over => return true,
                Next::Again => {}
            }
        }
    }

    fn run_handlers(
        &mut self,
        step: &mut Step<'_, impl Host>,
        around: &mut Around<'_>,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> Next {
        self.keys.drop_changes();
        self.after = None;
        reply.clear();
        let ran = match &self.purpose {
            Purpose::Watch => {
                let args = request.args.list();
                let mut needs = false;
                for key in &args[1..] {
                    needs |= self.keys.version(request.db, key).is_err();
                }
                Reply::new(reply, self.protocol).ok();
                if needs { Err(Stop::Need) } else { Ok(()) }
            }
            Purpose::Command => {
                let args = request.args.list();
                let now = step.host.time(step.now);
                let reply = Reply::new(reply, self.protocol);
                let mut call = Call { args: &args, db: request.db, now, keys: &mut self.keys, reply };
                match request.row.run {
                    Run::Keys(handler) | Run::Fast(_, handler) => handler(&mut call),
                    Run::Front(_) | Run::Container(_) => Err(Stop::Fault(Fault::fixed("ERR no handler"))),
                }
            }
            Purpose::Exec { queued, watched } => {
                let look = exec::look(&mut self.keys, watched);
                let mut writer = Reply::new(reply, self.protocol);
                match look {
                    Look::Changed => {
                        step.stats.watch_failed += 1;
                        // The reply is as if nothing had been asked for: the keys that were read are not
                        // checked again.
                        self.keys = Transaction::default();
                        writer.null_array();
                        Ok(())
                    }
                    Look::AsWatched | Look::Unknown => {
                        let parts = (&*around.access, &mut *around.clients);
                        match exec::run(step, parts, request, queued, &mut self.keys, writer) {
                            Ok(_) if matches!(look, Look::Unknown) => Err(Stop::Need),
                            ran => ran.map(|after| self.after = Some(after)),
                        }
                    }
                }
            }
        };
        let is_quorum = |db: &u16| around.access.databases.is_quorum(*db);
        let quorum = self.keys.databases().find(is_quorum);
        if let (Ok(()) | Err(Stop::Need), Some(db)) = (&ran, quorum) {
            let args = request.args.list();
            self.refuse(reply, &Asked { row: request.row, args: &args, db }.fault(step.config));
            return Next::Over;
        }
        match ran {
            Err(Stop::Need) => return self.read(step, around.access, request, reply),
            Err(Stop::Fault(fault)) => {
                self.keys.drop_changes();
                self.refuse(reply, &fault);
            }
            Ok(()) => {}
        }
        self.commit(step, around.access, request, reply)
    }

    /// Asks for the keys that the handlers need.
    fn read(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> Next {
        self.places = self.keys.take_needed();
        if self.places.iter().any(|(_, key)| key.len() > KEY_BYTES_MAX) {
            self.refuse(reply, &Fault::KEY_TOO_LARGE);
            return Next::Over;
        }
        if let Some((db, _)) = self.places.iter().find(|(db, _)| access.databases.table(*db).is_none()) {
            access.wait_for_table(step, *db, request.id);
            return Next::Wait;
        }
        self.phase = Phase::Reading;
        self.missing = self.places.len();
        for index in 0..self.places.len() {
            let (db, key) = &self.places[index];
            let Some(table) = access.databases.table(*db) else { continue };
            let rules = RejectRules::default();
            let part = Part::Command { command: request.id, index: index as u32, attempt: self.attempts };
            let read = LocalRequest::Read(KeyRequest { table, rules, key });
            let Some(answer) = access.direct.ask(step, &read, part) else { continue };
            match answer.into_object() {
                Ok(object) => {
                    let place = (*db, key.clone());
                    if let Err(fault) = self.learn(place, object) {
                        self.refuse(reply, &fault);
                        return Next::Over;
                    }
                }
                Err(Answer::Fault(fault)) => {
                    self.refuse(reply, &fault);
                    return Next::Over;
                }
                Err(_) => access.posted.push(Operation::Read { table, key: key.clone(), rules }, part),
            }
        }
        if self.missing == 0 {
            self.phase = Phase::Ready;
            return Next::Again;
        }
        Next::Wait
    }

    /// Writes the changes that the handlers want. If there are none, has it proven that the keys seen were so
    /// at one moment.
    fn commit(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        reply: &mut Vec<u8>,
    ) -> Next {
        let unknown = |db: &u16| access.databases.table(*db).is_none();
        if let Some(db) = self.keys.entries().map(|((db, _), ..)| *db).find(unknown) {
            access.wait_for_table(step, db, request.id);
            return Next::Wait;
        }
        let part = Part::Command { command: request.id, index: COMMIT, attempt: self.attempts };
        let allowed = step.config.cross_slot.check_databases(&self.keys);
        let end = match allowed.and_then(|()| wanted(&self.keys, &access.databases)) {
            Ok(Wanted::Nothing) => return Next::Over,
            Ok(wanted) => {
                let ask = |request: &LocalRequest<'_>| access.direct.ask(step, request, part).map(End::of);
                match wanted.with_request(ask) {
                    Ok(Some(End::Elsewhere)) => {
                        access.posted.push(wanted.operation(), part);
                        End::Later
                    }
                    Ok(answer) => answer.unwrap_or(End::Later),
                    Err(status) => End::Fault(fault_of(status, "")),
                }
            }
            Err(fault) => End::Fault(fault),
        };
        match end {
            End::Done => Next::Over,
            End::Later | End::Elsewhere => {
                self.phase = Phase::Committing;
                Next::Wait
            }
            End::Conflict => {
                step.stats.retried += 1;
                self.renew();
                Next::Again
            }
            End::Fault(fault) => {
                self.refuse(reply, &fault);
                Next::Over
            }
        }
    }

    /// Whether this is a command by itself, which is then carried out differently on a quorum table.
    pub fn is_command(&self) -> bool {
        matches!(self.purpose, Purpose::Command)
    }

    /// Takes the answer to the write.
    fn take_outcome<H>(
        &mut self,
        step: &mut Step<'_, H>,
        Access { databases, posted, .. }: &mut Access,
        part: Part,
        answer: Answer<'_>,
    ) -> Result<Next, Fault> {
        match answer {
            Answer::Written | Answer::Removed(_) => return Ok(Next::Over),
            Answer::Conflict if planted(Defect::RespConflictIsDone) => return Ok(Next::Over),
            Answer::Conflict | Answer::Absent => {
                step.stats.retried += 1;
                self.renew();
            }
            Answer::Elsewhere => match wanted(&self.keys, databases) {
                Ok(wanted) => {
                    posted.push(wanted.operation(), part);
                    return Ok(Next::Wait);
                }
                Err(_) => self.renew(),
            },
            Answer::NoTable => {
                databases.forget_all();
                self.renew();
            }
            other => return Err(unexpected(other)),
        }
        Ok(Next::Again)
    }

    /// Takes the answer to a read.
    fn take_object(
        &mut self,
        Access { databases, posted, .. }: &mut Access,
        part: Part,
        index: usize,
        answer: Answer<'_>,
    ) -> Result<Next, Fault> {
        if self.phase != Phase::Reading {
            return Ok(Next::Wait);
        }
        let Some((db, key)) = self.places.get(index).cloned() else { return Ok(Next::Wait) };
        match answer.into_object() {
            Ok(object) => self.learn((db, key), object)?,
            Err(Answer::Elsewhere) => match databases.table(db) {
                Some(table) => {
                    posted.push(Operation::Read { table, key, rules: RejectRules::default() }, part);
                }
                None => self.renew(),
            },
            Err(Answer::NoTable) => {
                databases.forget(db);
                self.renew();
            }
            Err(other) => return Err(unexpected(other)),
        }
        Ok(Next::Again)
    }

    /// Applies to the client what follows from a transaction that is over.
    fn conclude<H>(
        &self,
        step: &mut Step<'_, H>,
        clients: &mut Clients,
        request: &Request,
        reply: &mut Vec<u8>,
    ) {
        let conn = request.id.conn;
        match (&self.purpose, &self.after) {
            (Purpose::Watch, _) => {
                if let Some(client) = clients.get_mut(conn) {
                    client.block.watched.extend(self.seen());
                }
            }
            (Purpose::Exec { queued, .. }, Some(After { db, aside })) => {
                if let Some(client) = clients.get_mut(conn) {
                    client.db = *db;
                }
                let is_reading = |queued: &&Queued| queued.row.flags.has(Flags::READONLY);
                for Queued { row, args, .. } in queued.iter().filter(is_reading) {
                    step.stats.count_lookups(self.lookups(row, &args.list()));
                }
                exec::answer_aside(step, clients, conn, queued, aside, reply);
            }
            (Purpose::Command, _) if request.row.flags.has(Flags::READONLY) => {
                step.stats.count_lookups(self.lookups(request.row, &request.args.list()));
            }
            (Purpose::Command | Purpose::Exec { .. }, _) => {}
        }
    }
}

/// The error of a transaction whose request was refused.
fn unexpected(answer: Answer<'_>) -> Fault {
    match answer {
        Answer::Fault(fault) => fault,
        other => fault_of(Status::BadRequest, &format!("unexpected answer: {other:?}")),
    }
}
