//! Commands whose plain form operations of the servers carry out as it is: one operation for each key.

use super::answer::{Answer, Kind};
use super::tickets::Part;
use super::{AHEAD_COUNT_MAX, Host, REPLY_BYTES_MAX, REPLY_TOO_LARGE, Resp};
use crate::parse::integer;
use crate::{Fast, Fault, Reply};
use ramhold_base::hash::slot_of;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Number, TableId};
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
    pub fast: Fast,
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

impl Resp {
    /// Asks for every part of a fast command, from this process or through the session.
    pub fn begin_fast(
        &mut self,
        now: Instant,
        fast: Fast,
        (table, args, count): (TableId, &[&[u8]], usize),
        (conn, seq): (ConnId, u64),
        reply: &mut Reply<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Begun {
        if let [_, key] = args
            && fast == Fast::Get
        {
            let request = LocalRequest::Read(KeyRequest { table, rules: RejectRules::default(), key });
            return self.begin_get(now, table, &request, (conn, seq), reply, host, effects);
        }
        let mut work = FastWork {
            fast,
            table,
            got: vec![Got::Nothing; count],
            missing: count,
            bytes: 0,
            homeless: Vec::new(),
        };
        let overtaken =
            if count > 1 && fast.changes() { overtaken(fast, args, count) } else { BTreeSet::new() };
        if count > 1 {
            host.prefetch(table, &mut (0..count.min(AHEAD_COUNT_MAX)).map(|index| args[fast.key_at(index)]));
        }
        for index in 0..count {
            if overtaken.contains(&index) {
                work.take(index, if fast == Fast::Del { Answer::Removed(false) } else { Answer::Written });
                continue;
            }
            let part = Part::Command { conn, seq, index: index as u32, attempt: 0 };
            let request = fast.request(table, args, index);
            let ticket = self.ask_host(now, &request, host, effects);
            let answer = self.answers.iter().find(|(of, ..)| *of == ticket);
            match answer.map(|(_, status, body)| Answer::of_local(fast.kind(), status, body)) {
                Some(Answer::Elsewhere)
                    if planted(Defect::RespElsewhereIsDone) && fast.kind() == Kind::Write =>
                {
                    work.take(index, Answer::Written);
                }
                Some(Answer::Elsewhere | Answer::NoTable) => {
                    self.posted.push((fast.operation(table, args, index), part));
                }
                Some(answer) => work.take(index, answer),
                None => self.tickets.enter_local(self.now, ticket, part, fast.kind()),
            }
            self.answers.clear();
        }
        if work.is_over() {
            self.count_lookups(work.lookups());
            work.write(reply);
            return Begun::Replied;
        }
        Begun::Under(work)
    }

    /// `GET`, the most frequent command: a value goes straight from the log into the reply.
    fn begin_get(
        &mut self,
        now: Instant,
        table: TableId,
        request: &LocalRequest<'_>,
        (conn, seq): (ConnId, u64),
        reply: &mut Reply<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Begun {
        let LocalRequest::Read(KeyRequest { key, rules, .. }) = *request else { return Begun::Replied };
        let part = Part::Command { conn, seq, index: 0, attempt: 0 };
        let ticket = self.ask_host(now, request, host, effects);
        let mut is_answered = true;
        match self.answers.iter().find(|(of, ..)| *of == ticket) {
            Some((_, status, body)) => match Answer::of_local(Kind::Read, status, body) {
                Answer::Found { value, .. } => {
                    self.stats.hits += 1;
                    reply.bulk(&value);
                }
                Answer::Absent => {
                    self.stats.misses += 1;
                    reply.null();
                }
                Answer::Fault(fault) => reply.fault(&fault),
                _ => {
                    self.posted.push((Operation::Read { table, key: key.to_vec(), rules }, part));
                    is_answered = false;
                }
            },
            None => {
                self.tickets.enter_local(self.now, ticket, part, Kind::Read);
                is_answered = false;
            }
        }
        self.answers.clear();
        if is_answered {
            return Begun::Replied;
        }
        Begun::Under(FastWork {
            fast: Fast::Get,
            table,
            got: vec![Got::Nothing],
            missing: 1,
            bytes: 0,
            homeless: Vec::new(),
        })
    }

    /// Takes the answer to one part of a fast command.
    pub fn on_fast_answer(
        &mut self,
        work: &mut FastWork,
        db: u16,
        args: &[&[u8]],
        part: Part,
        answer: Answer<'_>,
    ) {
        let Part::Command { conn, seq, index, .. } = part else { return };
        if let Answer::NoTable = answer {
            self.databases.forget_one(db, work.table);
        }
        match answer {
            Answer::Elsewhere => {
                self.posted.push((work.fast.operation(work.table, args, index as usize), part))
            }
            Answer::NoTable if planted(Defect::RespDroppedIsEmpty) && work.fast.kind() == Kind::Read => {
                work.take(index as usize, Answer::Absent);
            }
            // The database was emptied, perhaps long ago. Its objects are in another table now.
            Answer::NoTable => {
                if work.homeless.is_empty() {
                    self.wait_for_table(db, conn, seq);
                }
                work.homeless.push(index as usize);
            }
            answer => work.take(index as usize, answer),
        }
    }
}

impl Resp {
    /// Sends the refused parts to the table that took the place of a dropped one.
    pub fn rehouse(&mut self, work: &mut FastWork, args: &[&[u8]], table: TableId, conn: ConnId, seq: u64) {
        work.table = table;
        for index in std::mem::take(&mut work.homeless) {
            let part = Part::Command { conn, seq, index: index as u32, attempt: 0 };
            self.posted.push((work.fast.operation(table, args, index), part));
        }
    }
}

/// Parts whose key occurs again in a later part. Nobody could ever see their effect.
fn overtaken(fast: Fast, args: &[&[u8]], count: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    (0..count).rev().filter(|index| !seen.insert(args[fast.key_at(*index)])).collect()
}
