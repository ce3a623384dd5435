//! Many objects in one call. Each part has its own result, in the order in which the parts were given.
//!
//! The session packs the operations for one server into frames. This module only waits and keeps the order. A call may
//! have any number of parts. Reads go out as multi-reads, two at a time. Other operations are under way in the number
//! that the session allows; the next ones are started when half of that number (`START_TOGETHER`) have ended.
//!
//! Catalogue: A5.

use crate::{Client, Error, Object};
use ramhold_base::{Number, Status, TableId, Version};
use ramhold_client_core::{Keys, Objects, Operation, OperationId, Outcome, ReadObject, RejectRules, Reply};
use ramhold_runtime::Turn;
use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;

/// Parts are started when so many may be, or none is under way: few large frames instead of many small ones.
const START_TOGETHER: usize = 512;
/// Multi-reads of one call of `multi_read` under way at a time, each of up to 4,096 keys.
const READS_UNDER_WAY: usize = 2;

impl Client {
    /// Does operations of any kinds, each with its own rules, and waits for all of them. The results are in the order of
    /// the operations; of two on one object the first need not come first. The time of an operation counts from its start.
    pub fn multi(&mut self, operations: impl IntoIterator<Item = Operation>) -> Vec<Result<Reply, Error>> {
        let mut waiting = operations.into_iter().peekable();
        let mut results: Vec<Option<Result<Reply, Error>>> = Vec::new();
        let mut under_way: BTreeMap<OperationId, usize> = BTreeMap::new();
        while waiting.peek().is_some() || !under_way.is_empty() {
            let room = self.runtime.machine().room();
            if waiting.peek().is_some() && room > 0 && (room >= START_TOGETHER || under_way.is_empty()) {
                let started = self.submit_all(waiting.by_ref().take(room));
                for id in started {
                    under_way.insert(id, results.len());
                    results.push(None);
                }
            }
            while let Some((id, outcome)) = self.runtime.machine_mut().take_outcome() {
                match under_way.remove(&id) {
                    Some(place) => results[place] = Some(Error::check(outcome)),
                    None => self.ended.push_back((id, outcome)),
                }
            }
            let has_room = waiting.peek().is_some() && self.runtime.machine().room() >= START_TOGETHER;
            let is_waiting = !under_way.is_empty() || waiting.peek().is_some();
            if is_waiting && !has_room && self.runtime.turn(None) == Turn::Ended {
                break;
            }
        }
        let mut results: Vec<_> =
            results.into_iter().map(|result| result.unwrap_or(Err(Error::UnexpectedReply))).collect();
        results.extend(waiting.map(|_| Err(Error::UnexpectedReply)));
        results
    }

    /// The objects with these keys; none where there is none.
    pub fn multi_read<K: AsRef<[u8]>>(
        &mut self,
        table: TableId,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Object>, Error>> {
        let mut waiting = keys.into_iter().peekable();
        let mut results = Vec::new();
        let mut under_way: VecDeque<(OperationId, Vec<usize>)> = VecDeque::new();
        loop {
            while under_way.len() < READS_UNDER_WAY && waiting.peek().is_some() {
                if !self.runtime.machine().has_room_for_reads() {
                    // Others of the caller's are under way.
                    if under_way.is_empty() && self.runtime.turn(None) != Turn::Ended {
                        continue;
                    }
                    break;
                }
                let (keys, places) = take_keys(table, &mut waiting, &mut results);
                if keys.is_empty() {
                    // All of them were too long.
                    continue;
                }
                under_way.push_back((self.submit_reads(keys), places));
            }
            let Some((id, places)) = under_way.pop_front() else {
                results.extend(waiting.map(|_| Err(Error::UnexpectedReply)));
                return results;
            };
            match self.outcome_of(id) {
                Ok(Reply::Objects(objects)) => {
                    for (place, found) in places.into_iter().zip(objects.iter()) {
                        results[place] = owned(found);
                    }
                }
                other => {
                    let why = other.err().unwrap_or(Error::UnexpectedReply);
                    for place in places {
                        results[place] = Err(same(&why));
                    }
                }
            }
        }
    }

    /// The objects of 1 to 4,096 keys, all values in one piece of memory. Each key has an end of its own. Refused with
    /// `BadRequest` if there is no key.
    pub fn read_keys(&mut self, keys: Keys) -> Result<Objects, Error> {
        let id = self.submit_reads(keys);
        match self.outcome_of(id)? {
            Reply::Objects(objects) => Ok(*objects),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Writes objects, whatever was there before; gives their new versions.
    pub fn multi_write<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: TableId,
        objects: impl IntoIterator<Item = (K, V)>,
    ) -> Vec<Result<Version, Error>> {
        let rules = RejectRules::default();
        let writes = objects.into_iter().map(|(key, value)| Operation::Write {
            table,
            key: key.as_ref().to_vec(),
            value: value.as_ref().to_vec(),
            rules,
            expiry: None,
        });
        let written = |result| match result {
            Ok(Reply::Written { version }) => Ok(version),
            other => Err(other.err().unwrap_or(Error::UnexpectedReply)),
        };
        self.multi(writes).into_iter().map(written).collect()
    }

    /// Removes objects; gives the versions of the removals, none where there was no object.
    pub fn multi_remove<K: AsRef<[u8]>>(
        &mut self,
        table: TableId,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Version>, Error>> {
        let rules = RejectRules::default();
        let removes =
            keys.into_iter().map(|key| Operation::Remove { table, key: key.as_ref().to_vec(), rules });
        let removed = |result| match result {
            Ok(Reply::Removed { version }) => Ok((!version.is_none()).then_some(version)),
            other => Err(other.err().unwrap_or(Error::UnexpectedReply)),
        };
        self.multi(removes).into_iter().map(removed).collect()
    }

    /// Adds to numbers, as `increment` and `increment_float` do; gives the sums.
    pub fn multi_increment<K: AsRef<[u8]>>(
        &mut self,
        table: TableId,
        amounts: impl IntoIterator<Item = (K, Number)>,
    ) -> Vec<Result<Number, Error>> {
        let rules = RejectRules::default();
        let increments = amounts.into_iter().map(|(key, by)| Operation::Increment {
            table,
            key: key.as_ref().to_vec(),
            by,
            rules,
        });
        let counted = |result| match result {
            Ok(Reply::Incremented { sum, .. }) => Ok(sum),
            other => Err(other.err().unwrap_or(Error::UnexpectedReply)),
        };
        self.multi(increments).into_iter().map(counted).collect()
    }
}

/// The next keys of a multi-read, and where their results belong. A key that is too long has its result already.
fn take_keys<K: AsRef<[u8]>>(
    table: TableId,
    waiting: &mut Peekable<impl Iterator<Item = K>>,
    results: &mut Vec<Result<Option<Object>, Error>>,
) -> (Keys, Vec<usize>) {
    let (mut keys, mut places) = (Keys::of(table), Vec::new());
    while let Some(key) = waiting.peek() {
        match keys.push(key.as_ref()) {
            Ok(()) => {
                places.push(results.len());
                results.push(Ok(None));
            }
            Err(Status::TooMany) => break,
            Err(status) => {
                let detail = status.text().to_owned();
                results.push(Err(Error::Refused { status, version: None, shortage: None, detail }));
            }
        }
        waiting.next();
    }
    (keys, places)
}

fn owned(found: Result<Option<ReadObject<'_>>, &Outcome>) -> Result<Option<Object>, Error> {
    match found {
        Ok(found) => Ok(found.map(|ReadObject { value, version, time, expires, .. }| Object {
            value: value.to_vec(),
            version,
            time,
            expires,
        })),
        Err(outcome) => Err(Error::check(outcome.clone()).err().unwrap_or(Error::UnexpectedReply)),
    }
}

/// The end of all keys of a multi-read that was refused as a whole.
fn same(why: &Error) -> Error {
    match why {
        Error::Refused { status, detail, .. } => {
            Error::Refused { status: *status, version: None, shortage: None, detail: detail.clone() }
        }
        _ => Error::UnexpectedReply,
    }
}
