//! Commands whose plain form operations of the servers carry out as it is: one operation for each key.

use crate::front::access::Access;
use crate::front::access::answer::{Answer, Kind};
use crate::front::access::tickets::Part;
use crate::front::bounds::{AHEAD_COUNT_MAX, REPLY_BYTES_MAX, REPLY_TOO_LARGE};
use crate::front::host::Host;
use crate::front::request::{CommandId, Request};
use crate::front::step::Step;
use crate::parse::integer;
use crate::{Fast, Fault, Reply};
use ramhold_base::hash::slot_of;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Number, TableId};
use ramhold_client_core::{Operation, RejectRules};
use ramhold_wire::data::{IncrementRequest, KeyRequest, WriteRequest};
use ramhold_wire::local::LocalRequest;
use std::collections::BTreeSet;

/// The result of one operation of a fast command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Got {
    Nothing,
    Value(Vec<u8>),
    Nil,
    Count(i64),
    Fault(Fault),
}

/// The operations of one fast command.
#[derive(Debug)]
pub struct FastWork {
    fast: Fast,
    table: TableId,
    got: Vec<Got>,
    missing: usize,
    /// Bytes of the values that are there.
    bytes: usize,
    /// Parts whose table was dropped before they took effect. They go to the table that takes its place.
    homeless: Vec<usize>,
}

/// The meaning of a request as a fast command.
#[derive(Debug)]
pub enum Plain {
    /// The request needs this number of operations.
    Operations(usize),
    /// The request is not in the plain form: the handler carries it out.
    No,
    Fault(Fault),
}

impl Fast {
    /// Whether the arguments are in the plain form. Their number must be as the arity demands.
    pub fn plain(self, args: &[&[u8]]) -> Plain {
        let count = match self {
            Fast::Get | Fast::Incr | Fast::Decr => 1,
            Fast::Set if args.len() == 3 => 1,
            Fast::Set => return Plain::No,
            Fast::IncrBy | Fast::DecrBy => match self.amount(args) {
                Ok(_) => 1,
                Err(fault) => return Plain::Fault(fault),
            },
            Fast::MGet | Fast::Del | Fast::Exists => args.len() - 1,
            // The handler has the error for this.
            Fast::MSet if args.len().is_multiple_of(2) => return Plain::No,
            Fast::MSet => (args.len() - 1) / 2,
        };
        let keys = (0..count).map(|index| args[self.key_at(index)]);
        if keys.into_iter().any(|key| key.len() > KEY_BYTES_MAX) {
            return Plain::Fault(Fault::KEY_TOO_LARGE);
        }
        if self.value(args, 0).is_some()
            && (0..count)
                .any(|index| self.value(args, index).is_some_and(|value| value.len() > VALUE_BYTES_MAX))
        {
            return Plain::Fault(Fault::VALUE_TOO_LARGE);
        }
        Plain::Operations(count)
    }

    /// Whether the keys of a plain `MSET` are written together. Keys of one slot are; if `has_one_owner`, any
    /// keys are.
    pub fn goes_together(self, args: &[&[u8]], has_one_owner: bool) -> bool {
        if self != Fast::MSet || args.len() == 3 {
            return false;
        }
        let mut slots = args[1..].iter().step_by(2).map(|key| slot_of(key));
        let first = slots.next();
        has_one_owner || slots.all(|slot| Some(slot) == first)
    }

    fn key_at(self, index: usize) -> usize {
        match self {
            Fast::MSet => 1 + 2 * index,
            _ => 1 + index,
        }
    }

    fn value<'a>(self, args: &[&'a [u8]], index: usize) -> Option<&'a [u8]> {
        match self {
            Fast::Set | Fast::MSet => Some(args[self.key_at(index) + 1]),
            _ => None,
        }
    }

    fn amount(self, args: &[&[u8]]) -> Result<i64, Fault> {
        match self {
            Fast::Decr => Ok(-1),
            Fast::IncrBy => integer(args[2]).ok_or(Fault::NOT_AN_INTEGER),
            Fast::DecrBy => match integer(args[2]).ok_or(Fault::NOT_AN_INTEGER)? {
                i64::MIN => Err(Fault::fixed("ERR decrement would overflow")),
                by => Ok(-by),
            },
            _ => Ok(1),
        }
    }

    pub fn changes(self) -> bool {
        !matches!(self, Fast::Get | Fast::MGet | Fast::Exists)
    }

    fn kind(self) -> Kind {
        match self {
            Fast::Get | Fast::MGet | Fast::Exists => Kind::Read,
            Fast::Set | Fast::MSet => Kind::Write,
            Fast::Del => Kind::Remove,
            Fast::Incr | Fast::Decr | Fast::IncrBy | Fast::DecrBy => Kind::Increment,
        }
    }

    fn request<'a>(self, table: TableId, args: &[&'a [u8]], index: usize) -> LocalRequest<'a> {
        let (key, rules) = (args[self.key_at(index)], RejectRules::default());
        match self.kind() {
            Kind::Read => LocalRequest::Read(KeyRequest { table, rules, key }),
            Kind::Remove => LocalRequest::Remove(KeyRequest { table, rules, key }),
            Kind::Write => {
                let value = self.value(args, index).unwrap_or_default();
                LocalRequest::Write(WriteRequest { table, rules, expiry: None, key, value })
            }
            Kind::Increment | Kind::Commit => {
                let by = Number::Integer(self.amount(args).unwrap_or_default());
                LocalRequest::Increment(IncrementRequest { table, rules, by, key })
            }
        }
    }

    fn operation(self, table: TableId, args: &[&[u8]], index: usize) -> Operation {
        let (key, rules) = (args[self.key_at(index)].to_vec(), RejectRules::default());
        match self.kind() {
            Kind::Read => Operation::Read { table, key, rules },
            Kind::Remove => Operation::Remove { table, key, rules },
            Kind::Write => {
                let value = self.value(args, index).unwrap_or_default().to_vec();
                Operation::Write { table, key, value, rules, expiry: None }
            }
            Kind::Increment | Kind::Commit => {
                let by = Number::Integer(self.amount(args).unwrap_or_default());
                Operation::Increment { table, key, by, rules }
            }
        }
    }
}

impl FastWork {
    pub fn is_over(&self) -> bool {
        self.missing == 0
    }

    /// For each key that was read, whether it was there.
    pub fn lookups(&self) -> impl Iterator<Item = bool> {
        let reads = matches!(self.fast, Fast::Get | Fast::MGet | Fast::Exists);
        self.got.iter().filter(move |_| reads).filter_map(|got| match got {
            Got::Value(_) => Some(true),
            Got::Nil => Some(false),
            Got::Count(count) => Some(*count > 0),
            Got::Nothing | Got::Fault(_) => None,
        })
    }

    fn take(&mut self, index: usize, answer: Answer<'_>) {
        let got = match answer {
            Answer::Found { .. } if self.fast == Fast::Exists => Got::Count(1),
            Answer::Absent if self.fast == Fast::Exists => Got::Count(0),
            Answer::Found { value, .. } if self.bytes + value.len() > REPLY_BYTES_MAX => {
                Got::Fault(REPLY_TOO_LARGE)
            }
            Answer::Found { value, .. } => {
                self.bytes += value.len();
                Got::Value(value.into_owned())
            }
            Answer::Absent => Got::Nil,
            Answer::Written => Got::Count(1),
            Answer::Removed(was_there) => Got::Count(i64::from(was_there)),
            Answer::Sum(sum) => Got::Count(sum),
            Answer::Fault(fault) => Got::Fault(fault),
            other => Got::Fault(Fault::said(format!("ERR unexpected answer: {other:?}"))),
        };
        if let Some(place) = self.got.get_mut(index).filter(|place| **place == Got::Nothing) {
            *place = got;
            self.missing -= 1;
        }
    }

    pub fn write(&self, reply: &mut Reply<'_>) {
        // If one part has failed, the reply is its error: the other parts may have taken effect.
        for got in &self.got {
            if let Got::Fault(fault) = got {
                return reply.fault(fault);
            }
        }
        match self.fast {
            Fast::Set | Fast::MSet => reply.ok(),
            Fast::Del | Fast::Exists => {
                let count = |got: &Got| if let Got::Count(count) = got { *count } else { 0 };
                reply.integer(self.got.iter().map(count).sum());
            }
            Fast::MGet => {
                reply.array(self.got.len());
                for got in &self.got {
                    write_one(got, reply);
                }
            }
            _ => {
                if let Some(got) = self.got.first() {
                    write_one(got, reply);
                }
            }
        }
    }
}

fn write_one(got: &Got, reply: &mut Reply<'_>) {
    match got {
        Got::Value(value) => reply.bulk(value),
        Got::Nil | Got::Nothing => reply.null(),
        Got::Count(count) => reply.integer(*count),
        Got::Fault(fault) => reply.fault(fault),
    }
}

/// The result of beginning a fast command.
pub enum Begun {
    /// The reply is written.
    Replied,
    /// Some of the answers are still to come.
    Under(FastWork),
}

/// A fast command in its plain form, and the table of its keys.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub fast: Fast,
    pub table: TableId,
    pub args: &'a [&'a [u8]],
    /// Number of operations that the command needs.
    pub count: usize,
}

/// Asks for every part of a fast command, from this process or through the session.
pub fn begin(
    step: &mut Step<'_, impl Host>,
    access: &mut Access,
    asked: Asked<'_>,
    command: CommandId,
    reply: &mut Reply<'_>,
) -> Begun {
    let Asked { fast, table, args, count } = asked;
    if let [_, key] = args
        && fast == Fast::Get
    {
        return begin_get(step, access, table, key, command, reply);
    }
    let mut work = FastWork::new(fast, table, count);
    let overtaken = if count > 1 && fast.changes() { overtaken(fast, args, count) } else { BTreeSet::new() };
    if count > 1 {
        let mut keys = (0..count.min(AHEAD_COUNT_MAX)).map(|index| args[fast.key_at(index)]);
        step.host.prefetch(table, &mut keys);
    }
    for index in 0..count {
        if overtaken.contains(&index) {
            work.take(index, if fast == Fast::Del { Answer::Removed(false) } else { Answer::Written });
            continue;
        }
        let part = Part::Command { command, index: index as u32, attempt: 0 };
        let request = fast.request(table, args, index);
        match access.direct.ask(step, &request, part) {
            Some(Answer::Elsewhere) if planted(Defect::RespElsewhereIsDone) && fast.kind() == Kind::Write => {
                work.take(index, Answer::Written);
            }
            Some(Answer::Elsewhere | Answer::NoTable) => {
                access.posted.push(fast.operation(table, args, index), part);
            }
            Some(answer) => work.take(index, answer),
            None => {}
        }
    }
    if work.is_over() {
        step.stats.count_lookups(work.lookups());
        work.write(reply);
        return Begun::Replied;
    }
    Begun::Under(work)
}

/// `GET`, the most frequent command: a value goes straight from the log into the reply.
fn begin_get(
    step: &mut Step<'_, impl Host>,
    access: &mut Access,
    table: TableId,
    key: &[u8],
    command: CommandId,
    reply: &mut Reply<'_>,
) -> Begun {
    let rules = RejectRules::default();
    let part = Part::of(command);
    match access.direct.ask(step, &LocalRequest::Read(KeyRequest { table, rules, key }), part) {
        Some(Answer::Found { value, .. }) => {
            step.stats.hits += 1;
            reply.bulk(&value);
            return Begun::Replied;
        }
        Some(Answer::Absent) => {
            step.stats.misses += 1;
            reply.null();
            return Begun::Replied;
        }
        Some(Answer::Fault(fault)) => {
            reply.fault(&fault);
            return Begun::Replied;
        }
        Some(_) => access.posted.push(Operation::Read { table, key: key.to_vec(), rules }, part),
        None => {}
    }
    Begun::Under(FastWork::new(Fast::Get, table, 1))
}

impl FastWork {
    fn new(fast: Fast, table: TableId, count: usize) -> FastWork {
        let got = vec![Got::Nothing; count];
        FastWork { fast, table, got, missing: count, bytes: 0, homeless: Vec::new() }
    }

    /// Takes the answer to one part of the command.
    pub fn on_answer(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        request: &Request,
        part: Part,
        answer: Answer<'_>,
    ) {
        let Part::Command { command, index, .. } = part else { return };
        if let Answer::NoTable = answer {
            access.databases.forget_one(request.db, self.table);
        }
        match answer {
            Answer::Elsewhere => {
                let operation = self.fast.operation(self.table, &request.args.list(), index as usize);
                access.posted.push(operation, part);
            }
            Answer::NoTable if planted(Defect::RespDroppedIsEmpty) && self.fast.kind() == Kind::Read => {
                self.take(index as usize, Answer::Absent);
            }
            // The database was emptied, perhaps long ago. Its objects are in another table now.
            Answer::NoTable => {
                if self.homeless.is_empty() {
                    access.wait_for_table(step, request.db, command);
                }
                self.homeless.push(index as usize);
            }
            answer => self.take(index as usize, answer),
        }
    }

    /// Sends the refused parts to the table that took the place of a dropped one.
    pub fn rehouse(&mut self, access: &mut Access, request: &Request, table: TableId) {
        self.table = table;
        let args = request.args.list();
        for index in std::mem::take(&mut self.homeless) {
            let part = Part::Command { command: request.id, index: index as u32, attempt: 0 };
            access.posted.push(self.fast.operation(table, &args, index), part);
        }
    }
}

/// Parts whose key occurs again in a later part. Nobody could ever see their effect.
fn overtaken(fast: Fast, args: &[&[u8]], count: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    (0..count).rev().filter(|index| !seen.insert(args[fast.key_at(*index)])).collect()
}
