//! Requests about objects. Each is entered into the history, which is judged at the end.
//!
//! After a loss the history is wrong and must not be judged. `peek` and `poke` do not enter anything into it.

use super::record::Begun;
use super::{Stage, filling};
use crate::cluster::native::rules;
use crate::history::{Action, Condition, Outcome, ValueId};
use ramhold_base::{Status, TableId};
use ramhold_client_core as core;
use ramhold_client_core::{RejectRules, Reply};

impl Stage {
    /// Enters an operation that begins now into the history.
    fn enter(&mut self, client: usize, table: TableId, key: &str, action: Action) -> usize {
        self.record.enter(self.world.now(), client, (table, key), action)
    }

    pub fn begin_write(
        &mut self,
        client: usize,
        table: TableId,
        key: &str,
        value: &[u8],
        condition: Condition,
    ) -> Begun {
        let action = Action::Write { value: ValueId::of(value), condition, ttl: None };
        let at = self.enter(client, table, key, action);
        let rules = rules(condition);
        let (key, value) = (key.as_bytes().to_vec(), value.to_vec());
        self.give(client, core::Operation::Write { table, key, value, rules, expiry: None }, Some(at))
    }

    pub fn begin_remove(&mut self, client: usize, table: TableId, key: &str) -> Begun {
        let at = self.enter(client, table, key, Action::Remove { condition: Condition::Free });
        let rules = RejectRules::default();
        self.give(client, core::Operation::Remove { table, key: key.as_bytes().to_vec(), rules }, Some(at))
    }

    /// Begins a commit that writes to several keys, each with its condition.
    pub fn begin_commit(
        &mut self,
        client: usize,
        writes: &[(TableId, &str, &[u8])],
        condition: Condition,
    ) -> Begun {
        let number = self.number as u64 + 1;
        let now = self.world.now();
        let mut places = Vec::new();
        let mut items = Vec::new();
        for (table, key, value) in writes {
            let action = Action::Write { value: ValueId::of(value), condition, ttl: None };
            let at = self.record.enter(now, client, (*table, key), action);
            self.record.join(at, number);
            places.push(at);
            items.push(core::CommitItem {
                table: *table,
                key: key.as_bytes().to_vec(),
                rules: rules(condition),
                action: core::CommitAction::Write { value: value.to_vec(), expiry: None },
            });
        }
        self.give(client, core::Operation::Commit { items }, places.first().copied())
    }

    pub fn begin_read(&mut self, client: usize, table: TableId, key: &str) -> Begun {
        let at = self.enter(client, table, key, Action::Read);
        let rules = RejectRules::default();
        self.give(client, core::Operation::Read { table, key: key.as_bytes().to_vec(), rules }, Some(at))
    }

    /// The end of an operation on an object, in the terms of histories.
    pub fn end(&mut self, begun: Begun) -> Outcome {
        self.finish(begun);
        self.note_ends();
        self.record.outcome(begun.at.expect("it is about an object"))
    }

    /// Whether an operation was answered as done.
    pub fn is_done(&self, begun: Begun) -> bool {
        matches!(self.outcome(begun), Some(core::Outcome::Done(_)))
    }

    /// A plain write that must succeed. Returns its version.
    pub fn write(&mut self, table: TableId, key: &str, value: &[u8]) -> u64 {
        let begun = self.begin_write(0, table, key, value, Condition::Free);
        match self.end(begun) {
            Outcome::Done { version } => version.raw(),
            other => panic!("writing {key}: {other:?} ({:?})", self.outcome(begun)),
        }
    }

    pub fn remove(&mut self, table: TableId, key: &str) -> u64 {
        let begun = self.begin_remove(0, table, key);
        match self.end(begun) {
            Outcome::Done { version } => version.raw(),
            other => panic!("removing {key}: {other:?}"),
        }
    }

    pub fn read(&mut self, table: TableId, key: &str) -> Outcome {
        let begun = self.begin_read(1, table, key);
        self.end(begun)
    }

    /// The number of objects of a table.
    pub fn count(&mut self, table: TableId) -> u64 {
        let mut count = core::TableCount::new(table);
        while let Some(operation) = count.ask() {
            let begun = self.give(1, operation, None);
            match self.finish(begun) {
                core::Outcome::Done(Reply::Counted { last, objects }) => count.take(last, objects),
                core::Outcome::Refused { status, .. } if count.refused(status) => {}
                other => panic!("counting: {other:?}"),
            }
        }
        count.objects()
    }

    /// Asserts that a key reads as this value.
    pub fn expect(&mut self, table: TableId, key: &str, value: &[u8]) {
        match self.read(table, key) {
            Outcome::Found { value: found, .. } => assert_eq!(found, ValueId::of(value), "{key}"),
            other => panic!("{key}: {other:?}"),
        }
    }

    /// This many writes to keys `PREFIX0`.. of 1,000 bytes each. Each must succeed.
    pub fn fill(&mut self, table: TableId, prefix: &str, count: u32) {
        for number in 0..count {
            self.write(table, &format!("{prefix}{number}"), &filling(prefix, number));
        }
    }

    pub fn expect_filled(&mut self, table: TableId, prefix: &str, count: u32) {
        for number in 0..count {
            self.expect(table, &format!("{prefix}{number}"), &filling(prefix, number));
        }
    }

    /// The version of a key, or none when it is absent.
    pub fn peek(&mut self, table: TableId, key: &str) -> Option<u64> {
        let (key, rules) = (key.as_bytes().to_vec(), RejectRules::default());
        let begun = self.give(1, core::Operation::Read { table, key, rules }, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Read { version, .. }) => Some(version.raw()),
            core::Outcome::Refused { status: Status::NotFound, .. } => None,
            other => panic!("peeking: {other:?}"),
        }
    }

    /// Writes something to a key. Returns its version.
    pub fn poke(&mut self, table: TableId, key: &str) -> u64 {
        let (key, rules) = (key.as_bytes().to_vec(), RejectRules::default());
        let write = core::Operation::Write { table, key, value: b"poked".to_vec(), rules, expiry: None };
        let begun = self.give(1, write, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Written { version }) => version.raw(),
            other => panic!("poking: {other:?}"),
        }
    }
}
