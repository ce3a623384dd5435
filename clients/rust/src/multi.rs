//! Many objects in one call. Each part has its own result, in the order in which the parts were given.
//!
//! The session packs the operations for one server into frames. This module only waits and keeps the order. A
//! call may have any number of parts: as many are under way at a time as the session allows. The next ones
//! are started when half of that number (`START_TOGETHER`) have ended.
//!
//! Catalogue: A5.

use crate::{Client, Error, Object};
use ramhold_base::{Number, Status, TableId, Version};
use ramhold_client_core::{Operation, OperationId, RejectRules, Reply};
use ramhold_runtime::Turn;
use std::collections::BTreeMap;

/// Parts are started when so many may be, or none is under way: few large frames instead of many small ones.
const START_TOGETHER: usize = 512;

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
        let rules = RejectRules::default();
        let reads = keys.into_iter().map(|key| Operation::Read { table, key: key.as_ref().to_vec(), rules });
        let found = |result| match result {
            Ok(Reply::Read { version, time, expires, value, .. }) => {
                Ok(Some(Object { value, version, time, expires }))
            }
            Err(Error::Refused { status: Status::NotFound, .. }) => Ok(None),
            other => Err(other.err().unwrap_or(Error::UnexpectedReply)),
        };
        self.multi(reads).into_iter().map(found).collect()
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
