//! Commands that handlers carry out: what they need is read, what they want is written if what was read is still so, and
//! otherwise they begin again (optimistic, and atomic: no other client sees a part of it).
//!
//! One key is written by a conditional write or remove, several by one commit.
//!
//! Invariant: a reply is given only when every key that its handlers saw was so at one moment.

use super::answer::{Answer, Kind};
use super::connection::Queued;
use super::running::{Running, Work};
use super::tickets::Part;
use super::{Host, Resp, fault_of};
use crate::transaction::Place;
use crate::{Call, Change, Fault, Front, Protocol, Reply, Run, Stop, Transaction};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, ConnId, Effects, Instant, Status, TableId, Version};
use ramhold_client_core::{Expiry, Operation, RejectRules};
use ramhold_wire::data::{KeyRequest, WriteRequest};
use ramhold_wire::local::LocalRequest;

/// The part of a transaction that writes.
const COMMIT: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Handlers can run.
    Ready,
    Reading,
    Committing,
}

/// What a transaction is for.
#[derive(Debug)]
pub enum Purpose {
    /// The running command itself.
    Command,
    /// `EXEC`: these commands, if the watched keys are as they were.
    Exec { queued: Vec<Queued>, watched: Vec<(Place, Option<Version>)> },
    /// `WATCH`: only to read.
    Watch,
}

#[derive(Debug)]
pub struct Transact {
    pub purpose: Purpose,
    keys: Transaction,
    phase: Phase,
    /// What is being read; a part's index is its place in here.
    places: Vec<Place>,
    missing: usize,
    pub attempts: u32,
    protocol: Protocol,
    /// The database that the connection has when it is over.
    pub db_after: Option<u16>,
}

/// What becomes of a transaction now.
enum Step {
    /// Waits for answers.
    Wait,
    /// Its reply is there.
    Over,
    Again,
}

impl Transact {
    pub fn new(purpose: Purpose, protocol: Protocol) -> Transact {
        Transact {
            purpose,
            keys: Transaction::default(),
            phase: Phase::Ready,
            places: Vec::new(),
            missing: 0,
            attempts: 0,
            protocol,
            db_after: None,
        }
    }

    /// Forgets what was seen, to begin again.
    pub fn renew(&mut self) {
        self.keys = Transaction::default();
        self.phase = Phase::Ready;
        self.attempts += 1;
    }

    /// What `WATCH` saw.
    pub fn seen(&self) -> Vec<(Place, Option<Version>)> {
        let seen = self.keys.entries().filter_map(|(place, seen, _)| seen.map(|seen| (place.clone(), seen)));
        seen.collect()
    }
}

impl Resp {
    /// Takes a transaction as far as it gets. `running.work` is taken out meanwhile and given here.
    pub fn advance_transact(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> bool {
        loop {
            // What is being written may yet be done.
            if work.phase != Phase::Committing && now.since(running.started) > self.config.deadline {
                let text =
                    "TRYAGAIN the keys were changed by others each time that this command had read them";
                running.reply.clear();
                Reply::new(&mut running.reply, work.protocol).fault(&Fault::fixed(text));
                return true;
            }
            let step = match work.phase {
                Phase::Ready => self.run_handlers(now, conn, running, work, host, effects),
                Phase::Reading if work.missing == 0 => {
                    work.phase = Phase::Ready;
                    Step::Again
                }
                Phase::Reading | Phase::Committing => Step::Wait,
            };
            match step {
                Step::Wait => return false,
                Step::Over => return true,
                Step::Again => {}
            }
        }
    }

    fn run_handlers(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Step {
        work.keys.drop_changes();
        running.reply.clear();
        let time = host.time(now);
        let ran = match &work.purpose {
            Purpose::Watch => {
                let args = running.args.list();
                let mut needs = false;
                for key in &args[1..] {
                    needs |= work.keys.version(running.db, key).is_err();
                }
                Reply::new(&mut running.reply, work.protocol).ok();
                if needs { Err(Stop::Need) } else { Ok(()) }
            }
            Purpose::Command => {
                let args = running.args.list();
                let reply = Reply::new(&mut running.reply, work.protocol);
                let mut call = Call { args: &args, db: running.db, now: time, keys: &mut work.keys, reply };
                match running.row.run {
                    Run::Keys(handler) | Run::Fast(_, handler) => handler(&mut call),
                    Run::Front(_) | Run::Container(_) => Err(Stop::Fault(Fault::fixed("ERR no handler"))),
                }
            }
            Purpose::Exec { .. } => self.run_queued(conn, time, running, work, host),
        };
        match ran {
            Err(Stop::Need) => return self.read(now, conn, running, work, host, effects),
            Err(Stop::Fault(fault)) => {
                work.keys.drop_changes();
                running.reply.clear();
                Reply::new(&mut running.reply, work.protocol).fault(&fault);
            }
            Ok(()) => {}
        }
        self.commit(now, conn, running, work, host, effects)
    }

    /// The commands between `MULTI` and `EXEC`, one after the other over the same keys.
    fn run_queued(
        &mut self,
        conn: ConnId,
        time: u64,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
    ) -> Result<(), Stop> {
        let Purpose::Exec { queued, watched } = &work.purpose else { return Ok(()) };
        let mut needs = false;
        for ((db, key), version) in watched {
            match work.keys.version(*db, key) {
                Ok(present) if present != *version && !planted(Defect::RespWatchIgnored) => {
                    self.stats.watch_failed += 1;
                    // As if nothing had been asked for: what was read is not looked at again.
                    work.keys = Transaction::default();
                    running.reply.clear();
                    Reply::new(&mut running.reply, work.protocol).null_array();
                    return Ok(());
                }
                Ok(_) => {}
                Err(_) => needs = true,
            }
        }
        let mut db = running.db;
        let mut reply = Reply::new(&mut running.reply, work.protocol);
        reply.array(queued.len());
        for Queued { row, args } in queued {
            let args = args.list();
            let start = reply.len();
            let ran = match row.run {
                Run::Keys(handler) | Run::Fast(_, handler) => {
                    let keys = &mut work.keys;
                    let reply = reply.by_ref();
                    handler(&mut Call { args: &args, db, now: time, keys, reply })
                }
                Run::Front(Front::Select) => match self.database_of(args[1]) {
                    Ok(selected) => {
                        db = selected;
                        reply.ok();
                        Ok(())
                    }
                    Err(fault) => Err(Stop::Fault(fault)),
                },
                Run::Front(front) => {
                    self.answer_within(conn, front, &args, reply.by_ref(), host);
                    Ok(())
                }
                Run::Container(_) => Err(Stop::Fault(Fault::SYNTAX)),
            };
            match ran {
                Ok(()) => {}
                // The others may need more keys; all are read together.
                Err(Stop::Need) => needs = true,
                Err(Stop::Fault(fault)) => {
                    reply.truncate(start);
                    reply.fault(&fault);
                }
            }
        }
        work.db_after = Some(db);
        if needs { Err(Stop::Need) } else { Ok(()) }
    }

    /// Asks for what the handlers need.
    fn read(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Step {
        work.places = work.keys.take_needed();
        if work.places.iter().any(|(_, key)| key.len() > KEY_BYTES_MAX) {
            running.reply.clear();
            Reply::new(&mut running.reply, work.protocol).fault(&Fault::KEY_TOO_LARGE);
            return Step::Over;
        }
        if let Some((db, _)) = work.places.iter().find(|(db, _)| self.databases.table(*db).is_none()) {
            self.wait_for_table(*db, conn, running.seq);
            return Step::Wait;
        }
        work.phase = Phase::Reading;
        work.missing = work.places.len();
        for index in 0..work.places.len() {
            let (db, key) = &work.places[index];
            let Some(table) = self.databases.table(*db) else { continue };
            let rules = RejectRules::default();
            let part = Part::Command { conn, seq: running.seq, index: index as u32, attempt: work.attempts };
            let request = LocalRequest::Read(KeyRequest { table, rules, key });
            let ticket = self.ask_host(now, &request, host, effects);
            match self.answers.iter().find(|(of, ..)| *of == ticket) {
                Some((_, status, body)) => match Answer::of_local(Kind::Read, status, body).into_object() {
                    Ok(object) => {
                        work.keys.learn((*db, key.clone()), object);
                        work.missing -= 1;
                    }
                    Err(Answer::Fault(fault)) => {
                        running.reply.clear();
                        Reply::new(&mut running.reply, work.protocol).fault(&fault);
                        return Step::Over;
                    }
                    Err(_) => self.posted.push((Operation::Read { table, key: key.clone(), rules }, part)),
                },
                None => self.tickets.enter_local(ticket, part, Kind::Read),
            }
            self.answers.clear();
        }
        if work.missing == 0 {
            work.phase = Phase::Ready;
            return Step::Again;
        }
        Step::Wait
    }

    /// Writes what the handlers want, if there is something, or has it proven that what they saw was so at one moment.
    fn commit(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Step {
        let refused = match wanted(&work.keys) {
            Ok(None) => return Step::Over,
            Ok(Some(Wanted::One { place, rules, change })) => {
                let (db, key) = place;
                let Some(table) = self.databases.table(*db) else {
                    self.wait_for_table(*db, conn, running.seq);
                    return Step::Wait;
                };
                let one = One { table, key, rules, change };
                let part = Part::Command { conn, seq: running.seq, index: COMMIT, attempt: work.attempts };
                let ticket = self.ask_host(now, &one.request(), host, effects);
                let answer = self.answers.iter().find(|(of, ..)| *of == ticket);
                let answer = answer.map(|(_, status, body)| Answer::of_local(one.kind(), status, body));
                let step = match answer {
                    Some(Answer::Written | Answer::Removed(_)) => Ok(Step::Over),
                    Some(Answer::Conflict) if planted(Defect::RespConflictIsDone) => Ok(Step::Over),
                    Some(Answer::Conflict | Answer::Absent) => Ok(Step::Again),
                    Some(Answer::Fault(fault)) => Err(fault),
                    Some(_) => {
                        self.posted.push((one.operation(), part));
                        Ok(Step::Wait)
                    }
                    None => {
                        self.tickets.enter_local(ticket, part, one.kind());
                        Ok(Step::Wait)
                    }
                };
                self.answers.clear();
                match step {
                    Ok(Step::Over) => return Step::Over,
                    Ok(Step::Wait) => {
                        work.phase = Phase::Committing;
                        return Step::Wait;
                    }
                    Ok(Step::Again) => {
                        self.stats.retried += 1;
                        work.renew();
                        return Step::Again;
                    }
                    Err(fault) => fault,
                }
            }
            Ok(Some(Wanted::Several)) => {
                Fault::fixed("ERR commands that change several keys at once are not built yet")
            }
            Err(fault) => fault,
        };
        running.reply.clear();
        Reply::new(&mut running.reply, work.protocol).fault(&refused);
        Step::Over
    }

    /// An answer to a transaction's reading or writing. True when its reply is there.
    pub fn on_transact_answer(
        &mut self,
        now: Instant,
        running: &mut Running,
        work: &mut Transact,
        part: Part,
        answer: Answer<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> bool {
        let Part::Command { conn, index, attempt, .. } = part else { return false };
        if attempt != work.attempts && !planted(Defect::RespStaleAttempt) {
            return false;
        }
        if index == COMMIT {
            match answer {
                Answer::Written | Answer::Removed(_) => return true,
                Answer::Conflict if planted(Defect::RespConflictIsDone) => return true,
                Answer::Conflict | Answer::Absent => {
                    self.stats.retried += 1;
                    work.renew();
                }
                Answer::Elsewhere => match self.one_operation(work) {
                    Some(operation) => self.posted.push((operation, part)),
                    None => work.renew(),
                },
                Answer::NoTable => {
                    self.databases.forget_all();
                    work.renew();
                }
                other => return end_with(running, work, other),
            }
            return self.advance_transact(now, conn, running, work, host, effects);
        }
        if work.phase != Phase::Reading {
            return false;
        }
        let Some((db, key)) = work.places.get(index as usize).cloned() else { return false };
        match answer.into_object() {
            Ok(object) => {
                work.keys.learn((db, key), object);
                work.missing -= 1;
            }
            Err(Answer::Elsewhere) => match self.databases.table(db) {
                Some(table) => {
                    self.posted.push((Operation::Read { table, key, rules: RejectRules::default() }, part));
                }
                None => work.renew(),
            },
            Err(Answer::NoTable) => {
                self.databases.forget(db);
                work.renew();
            }
            Err(other) => return end_with(running, work, other),
        }
        self.advance_transact(now, conn, running, work, host, effects)
    }

    fn one_operation(&self, work: &Transact) -> Option<Operation> {
        match wanted(&work.keys) {
            Ok(Some(Wanted::One { place: (db, key), rules, change })) => {
                let table = self.databases.table(*db)?;
                Some(One { table, key, rules, change }.operation())
            }
            _ => None,
        }
    }
}

fn end_with(running: &mut Running, work: &Transact, answer: Answer<'_>) -> bool {
    let fault = match answer {
        Answer::Fault(fault) => fault,
        other => fault_of(Status::BadRequest, &format!("unexpected answer: {other:?}")),
    };
    running.reply.clear();
    Reply::new(&mut running.reply, work.protocol).fault(&fault);
    true
}

/// What a transaction comes to.
enum Wanted<'a> {
    /// One key, seen or not, is changed and no other was seen.
    One {
        place: &'a Place,
        rules: RejectRules,
        change: &'a Change,
    },
    Several,
}

fn wanted(keys: &Transaction) -> Result<Option<Wanted<'_>>, Fault> {
    let mut one = None;
    let (mut count, mut changes) = (0, 0);
    for (place, seen, change) in keys.entries() {
        count += 1;
        let Some(change) = change else { continue };
        if place.1.len() > KEY_BYTES_MAX {
            return Err(Fault::KEY_TOO_LARGE);
        }
        match change {
            Change::Write(object) if object.value.len() > VALUE_BYTES_MAX => {
                return Err(Fault::VALUE_TOO_LARGE);
            }
            // There was nothing, and there is to be nothing.
            Change::Remove if seen == Some(None) && keys.entries().count() == 1 => return Ok(None),
            _ => {}
        }
        changes += 1;
        one = Some(Wanted::One { place, rules: rules(seen), change });
    }
    Ok(match (count, changes) {
        (0, _) | (1, 0) => None,
        (1, 1) => one,
        _ => Some(Wanted::Several),
    })
}

/// The key is still as it was seen.
fn rules(seen: Option<Option<Version>>) -> RejectRules {
    match seen {
        _ if planted(Defect::RespUnconditional) => RejectRules::default(),
        None => RejectRules::default(),
        Some(None) => RejectRules { exists: true, ..RejectRules::default() },
        Some(Some(version)) => {
            RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() }
        }
    }
}

/// A conditional write or remove.
struct One<'a> {
    table: TableId,
    key: &'a [u8],
    rules: RejectRules,
    change: &'a Change,
}

impl One<'_> {
    fn kind(&self) -> Kind {
        match self.change {
            Change::Write(_) => Kind::Write,
            Change::Remove => Kind::Remove,
        }
    }

    fn request(&self) -> LocalRequest<'_> {
        let One { table, key, rules, .. } = *self;
        match self.change {
            Change::Remove => LocalRequest::Remove(KeyRequest { table, rules, key }),
            Change::Write(object) => {
                let expiry = object.expires.map(|end| Expiry::At(ClusterTime(end)));
                LocalRequest::Write(WriteRequest { table, rules, expiry, key, value: &object.value })
            }
        }
    }

    fn operation(&self) -> Operation {
        let (table, key, rules) = (self.table, self.key.to_vec(), self.rules);
        match self.change {
            Change::Remove => Operation::Remove { table, key, rules },
            Change::Write(object) => {
                let expiry = object.expires.map(|end| Expiry::At(ClusterTime(end)));
                Operation::Write { table, key, value: object.value.clone(), rules, expiry }
            }
        }
    }
}

/// Whether the work of a running command is a transaction's; taken out while it is carried on.
pub fn take_work(running: &mut Running) -> Option<Box<Transact>> {
    match std::mem::replace(&mut running.work, Work::Waiting) {
        Work::Transact(work) => Some(work),
        other => {
            running.work = other;
            None
        }
    }
}
