//! Commands that handlers carry out. The front reads the keys that the handlers need, and writes the changes
//! that they want if everything read is still so. Otherwise the handlers begin again. The method is
//! optimistic, and the command atomic: no other client sees a part of it.
//!
//! A transaction over one key ends with a conditional write or remove, a transaction over several keys with
//! one commit.
//!
//! Invariant: a reply is given only if every key that its handlers saw was so at one moment.

use super::answer::{Answer, Kind};
use super::clients::is_of_client;
use super::connection::Queued;
use super::immediate::is_publication;
use super::running::{Running, Work};
use super::tables::Databases;
use super::tickets::Part;
use super::{Host, REPLY_BYTES_MAX, REPLY_TOO_LARGE, Resp, fault_of};
use crate::transaction::Place;
use crate::{Call, Change, Command, Fault, Front, Object, Protocol, Reply, Run, Stop, Transaction};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, ConnId, Effects, Instant, Status, TableId, Version};
use ramhold_client_core::{CommitAction, CommitItem, Expiry, Operation, RejectRules};
use ramhold_wire::commit::{self, CommitRequest};
use ramhold_wire::data::{KeyRequest, WriteRequest};
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
    Exec { queued: Vec<Queued>, watched: Vec<(Place, Option<Version>)> },
    /// `WATCH`: only reads.
    Watch,
}

#[derive(Debug)]
pub struct Transact {
    pub purpose: Purpose,
    keys: Transaction,
    phase: Phase,
    /// The keys that are being read. The index of a part is its place in this list.
    places: Vec<Place>,
    missing: usize,
    /// Bytes of the values that were read.
    bytes: usize,
    pub attempts: u32,
    protocol: Protocol,
    /// The consequences for the connection of an `EXEC` that takes effect.
    pub after: Option<After>,
}

/// The consequences of queued commands about the connection, once the other commands have taken effect.
#[derive(Debug)]
pub struct After {
    /// The database that the connection then has.
    pub db: u16,
    /// Commands whose replies are still to be written, with their places in the reply.
    pub aside: Vec<Aside>,
}

#[derive(Clone, Copy, Debug)]
pub struct Aside {
    /// Bytes of the reply of `EXEC` before the reply of this command.
    pub start: usize,
    /// Position in the list of queued commands.
    pub index: usize,
    pub front: Front,
}

/// The next step of a transaction.
enum Step {
    /// The transaction waits for answers.
    Wait,
    /// The reply is there.
    Over,
    Again,
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
    pub fn renew(&mut self) {
        self.forget();
        self.phase = Phase::Ready;
        self.attempts += 1;
    }

    /// Ends with an error. Nothing has taken effect, not even on the connection.
    fn refuse(&mut self, running: &mut Running, fault: &Fault) {
        self.after = None;
        if matches!(self.purpose, Purpose::Watch) {
            self.forget(); // A `WATCH` that is refused must not watch keys unnoticed.
        }
        running.reply.clear();
        Reply::new(&mut running.reply, self.protocol).fault(fault);
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
    pub fn lookups(&self, row: &Command, args: &[&[u8]]) -> Vec<bool> {
        let is_seen = |key: &[u8]| {
            let mut entries = self.keys.entries();
            entries.find(|((_, of), ..)| of == key).and_then(|(_, seen, _)| seen).map(|seen| seen.is_some())
        };
        row.keys.of(args).filter_map(is_seen).collect()
    }

    /// The keys that `WATCH` saw, with their versions.
    pub fn seen(&self) -> Vec<(Place, Option<Version>)> {
        let seen = self.keys.entries().filter_map(|(place, seen, _)| seen.map(|seen| (place.clone(), seen)));
        seen.collect()
    }
}

impl Resp {
    /// Advances a transaction as far as possible, and returns whether its reply is there. `running.work` is
    /// taken out meanwhile and passed as `work`.
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
            if now.since(running.started) > self.config.deadline {
                let text =
                    "TRYAGAIN the keys were changed by others each time that this command had read them";
                work.refuse(running, &Fault::fixed(text));
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
                work.refuse(running, &fault);
            }
            Ok(()) => {}
        }
        self.commit(now, conn, running, work, host, effects)
    }

    /// Runs the commands between `MULTI` and `EXEC`, one after the other over the same keys.
    fn run_queued(
        &mut self,
        conn: ConnId,
        time: u64,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
    ) -> Result<(), Stop> {
        let Purpose::Exec { queued, watched } = &work.purpose else { return Ok(()) };
        work.after = None;
        let mut needs = false;
        for ((db, key), version) in watched {
            match work.keys.version(*db, key) {
                Ok(present) if present != *version && !planted(Defect::RespWatchIgnored) => {
                    self.stats.watch_failed += 1;
                    // The reply is as if nothing had been asked for: the keys that were read are not checked
                    // again.
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
        let mut aside = Vec::new();
        for (index, Queued { row, args }) in queued.iter().enumerate() {
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
                Run::Front(front) if is_of_client(front) || is_publication(front) => {
                    aside.push(Aside { start, index, front });
                    Ok(())
                }
                Run::Front(front) => {
                    self.answer_within(conn, front, &args, reply.by_ref(), host);
                    Ok(())
                }
                Run::Container(_) => Err(Stop::Fault(Fault::SYNTAX)),
            };
            match ran {
                Ok(()) => {}
                // The commands behind it may need more keys; all keys are read together.
                Err(Stop::Need) => needs = true,
                Err(Stop::Fault(fault)) => {
                    reply.truncate(start);
                    reply.fault(&fault);
                }
            }
            if reply.len() > REPLY_BYTES_MAX {
                return Err(Stop::Fault(REPLY_TOO_LARGE));
            }
        }
        work.after = Some(After { db, aside });
        if needs { Err(Stop::Need) } else { Ok(()) }
    }

    /// Asks for the keys that the handlers need.
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
            work.refuse(running, &Fault::KEY_TOO_LARGE);
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
                        let place = (*db, key.clone());
                        if let Err(fault) = work.learn(place, object) {
                            work.refuse(running, &fault);
                            return Step::Over;
                        }
                    }
                    Err(Answer::Fault(fault)) => {
                        work.refuse(running, &fault);
                        return Step::Over;
                    }
                    Err(_) => self.posted.push((Operation::Read { table, key: key.clone(), rules }, part)),
                },
                None => self.tickets.enter_local(self.now, ticket, part, Kind::Read),
            }
            self.answers.clear();
        }
        if work.missing == 0 {
            work.phase = Phase::Ready;
            return Step::Again;
        }
        Step::Wait
    }

    /// Writes the changes that the handlers want. If there are none, has it proven that the keys seen were so
    /// at one moment.
    fn commit(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        work: &mut Transact,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Step {
        let places: Vec<u16> = work.keys.entries().map(|((db, _), ..)| *db).collect();
        if let Some(db) = places.into_iter().find(|db| self.databases.table(*db).is_none()) {
            self.wait_for_table(db, conn, running.seq);
            return Step::Wait;
        }
        let part = Part::Command { conn, seq: running.seq, index: COMMIT, attempt: work.attempts };
        let allowed = self.config.cross_slot.check_databases(&work.keys);
        let end = match allowed.and_then(|()| wanted(&work.keys, &self.databases)) {
            Ok(Wanted::Nothing) => return Step::Over,
            Ok(wanted) => {
                let kind = wanted.kind();
                let answer = wanted.with_request(|request| {
                    let ticket = self.ask_host(now, request, host, effects);
                    let answer = self.answers.iter().find(|(of, ..)| *of == ticket);
                    let answer = answer.map(|(_, status, body)| Answer::of_local(kind, status, body));
                    if answer.is_none() {
                        self.tickets.enter_local(self.now, ticket, part, kind);
                    }
                    answer.map(Answer::into_end)
                });
                self.answers.clear();
                match answer {
                    Ok(Some(End::Elsewhere)) => {
                        self.posted.push((wanted.operation(), part));
                        End::Later
                    }
                    Ok(answer) => answer.unwrap_or(End::Later),
                    Err(status) => End::Fault(fault_of(status, "")),
                }
            }
            Err(fault) => End::Fault(fault),
        };
        match end {
            End::Done => Step::Over,
            End::Later | End::Elsewhere => {
                work.phase = Phase::Committing;
                Step::Wait
            }
            End::Conflict => {
                self.stats.retried += 1;
                work.renew();
                Step::Again
            }
            End::Fault(fault) => {
                work.refuse(running, &fault);
                Step::Over
            }
        }
    }

    /// Takes an answer to a read or write of a transaction. Returns true when the reply is there.
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
        if attempt != work.attempts {
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
                Answer::Elsewhere => match wanted(&work.keys, &self.databases) {
                    Ok(wanted) => {
                        self.posted.push((wanted.operation(), part));
                        return false;
                    }
                    Err(_) => work.renew(),
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
                if let Err(fault) = work.learn((db, key), object) {
                    work.refuse(running, &fault);
                    return true;
                }
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
}

fn end_with(running: &mut Running, work: &mut Transact, answer: Answer<'_>) -> bool {
    let fault = match answer {
        Answer::Fault(fault) => fault,
        other => fault_of(Status::BadRequest, &format!("unexpected answer: {other:?}")),
    };
    work.refuse(running, &fault);
    true
}

/// The result of an attempt to write.
enum End {
    Done,
    Later,
    Elsewhere,
    Conflict,
    Fault(Fault),
}

impl Answer<'_> {
    fn into_end(self) -> End {
        match self {
            Answer::Written | Answer::Removed(_) => End::Done,
            Answer::Conflict if planted(Defect::RespConflictIsDone) => End::Done,
            Answer::Conflict | Answer::Absent => End::Conflict,
            Answer::Fault(fault) => End::Fault(fault),
            _ => End::Elsewhere,
        }
    }
}

/// The write that a transaction ends with.
enum Wanted<'a> {
    Nothing,
    /// One key is changed, whether it was seen or not, and no other key was seen.
    One(Item<'a>),
    /// All of these keys are checked and changed together.
    Several(Vec<Item<'a>>),
}

/// One key, with the condition that it is as it was seen, and with the change wanted.
#[derive(Clone, Copy)]
struct Item<'a> {
    table: TableId,
    key: &'a [u8],
    rules: RejectRules,
    change: Option<&'a Change>,
}

fn wanted<'a>(keys: &'a Transaction, databases: &Databases) -> Result<Wanted<'a>, Fault> {
    let mut items = Vec::new();
    let mut changes = 0;
    for ((db, key), seen, change) in keys.entries() {
        if key.len() > KEY_BYTES_MAX {
            return Err(Fault::KEY_TOO_LARGE);
        }
        if let Some(Change::Write(object)) = change
            && object.value.len() > VALUE_BYTES_MAX
        {
            return Err(Fault::VALUE_TOO_LARGE);
        }
        // A key that was absent need not be removed.
        let change = change.filter(|change| seen != Some(None) || **change != Change::Remove);
        let table = databases.table(*db).ok_or(Fault::NO_SUCH_DATABASE)?;
        changes += usize::from(change.is_some());
        items.push(Item { table, key, rules: rules(seen), change });
    }
    Ok(match (items.len(), changes) {
        (0, _) | (1, 0) => Wanted::Nothing,
        (1, _) => Wanted::One(items[0]),
        _ => Wanted::Several(items),
    })
}

/// The condition that the key is still as it was seen.
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

fn expiry(expires: Option<u64>) -> Option<Expiry> {
    expires.map(|end| Expiry::At(ClusterTime(end)))
}

impl Wanted<'_> {
    fn kind(&self) -> Kind {
        match self {
            Wanted::One(Item { change: Some(Change::Write(_)), .. }) => Kind::Write,
            Wanted::One(_) => Kind::Remove,
            Wanted::Several(_) | Wanted::Nothing => Kind::Commit,
        }
    }

    /// Passes the request for the host to `ask`, or says why there can be none.
    fn with_request<R>(&self, ask: impl FnOnce(&LocalRequest<'_>) -> R) -> Result<R, Status> {
        let one = match self {
            Wanted::Nothing => return Err(Status::BadRequest),
            Wanted::One(item) => item,
            Wanted::Several(items) => {
                let request = CommitRequest::new(items.iter().map(Item::for_commit).collect())?;
                return Ok(ask(&LocalRequest::Commit(&request)));
            }
        };
        let Item { table, key, rules, .. } = *one;
        Ok(match one.change {
            Some(Change::Write(object)) => {
                let (expiry, value) = (expiry(object.expires), &object.value[..]);
                ask(&LocalRequest::Write(WriteRequest { table, rules, expiry, key, value }))
            }
            _ => ask(&LocalRequest::Remove(KeyRequest { table, rules, key })),
        })
    }

    fn operation(&self) -> Operation {
        let items = match self {
            Wanted::Nothing => Vec::new(),
            Wanted::One(Item { table, key, rules, change }) => {
                let (table, key, rules) = (*table, key.to_vec(), *rules);
                return match change {
                    Some(Change::Write(object)) => {
                        let (value, expiry) = (object.value.clone(), expiry(object.expires));
                        Operation::Write { table, key, value, rules, expiry }
                    }
                    _ => Operation::Remove { table, key, rules },
                };
            }
            Wanted::Several(items) => items.iter().map(Item::for_session).collect(),
        };
        Operation::Commit { items }
    }
}

impl<'a> Item<'a> {
    fn for_commit(&self) -> commit::CommitItem<'a> {
        let Item { table, key, rules, change } = *self;
        let action = match change {
            None => commit::CommitAction::Check,
            Some(Change::Remove) => commit::CommitAction::Remove,
            Some(Change::Write(object)) => {
                commit::CommitAction::Write { value: &object.value, expiry: expiry(object.expires) }
            }
        };
        commit::CommitItem { table, key, rules, action }
    }

    fn for_session(&self) -> CommitItem {
        let action = match self.change {
            None => CommitAction::Check,
            Some(Change::Remove) => CommitAction::Remove,
            Some(Change::Write(object)) => {
                CommitAction::Write { value: object.value.clone(), expiry: expiry(object.expires) }
            }
        };
        CommitItem { table: self.table, key: self.key.to_vec(), rules: self.rules, action }
    }
}

/// The work of a running command, if it is a transaction. It is taken out while it is advanced.
pub fn take_work(running: &mut Running) -> Option<Box<Transact>> {
    match std::mem::replace(&mut running.work, Work::Waiting) {
        Work::Transact(work) => Some(work),
        other => {
            running.work = other;
            None
        }
    }
}
