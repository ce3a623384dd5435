//! The write that a transaction ends with: its changes, under the condition that every key is still as it was seen.
//!
//! A transaction over one key ends with a conditional write or remove, a transaction over several keys with one
//! commit.
//!
//! Not here: when a transaction writes (`transact`).

use crate::front::access::answer::Answer;
use crate::front::access::tables::Databases;
use crate::{Change, Fault, Transaction};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Status, TableId, Version};
use ramhold_client_core::{CommitAction, CommitItem, Expiry, Operation, RejectRules};
use ramhold_wire::commit::{self, CommitRequest};
use ramhold_wire::data::{KeyRequest, WriteRequest};
use ramhold_wire::local::LocalRequest;

/// The result of an attempt to write.
pub enum End {
    Done,
    Later,
    Elsewhere,
    Conflict,
    Fault(Fault),
}

impl End {
    pub fn of(answer: Answer<'_>) -> End {
        match answer {
            Answer::Written | Answer::Removed(_) => End::Done,
            Answer::Conflict if planted(Defect::RespConflictIsDone) => End::Done,
            Answer::Conflict | Answer::Absent => End::Conflict,
            Answer::Fault(fault) => End::Fault(fault),
            _ => End::Elsewhere,
        }
    }
}

/// The write that a transaction ends with.
pub enum Wanted<'a> {
    Nothing,
    /// One key is changed, whether it was seen or not, and no other key was seen.
    One(Item<'a>),
    /// All of these keys are checked and changed together.
    Several(Vec<Item<'a>>),
}

/// One key, with the condition that it is as it was seen, and with the change wanted.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    table: TableId,
    key: &'a [u8],
    rules: RejectRules,
    change: Option<&'a Change>,
}

pub fn wanted<'a>(keys: &'a Transaction, databases: &Databases) -> Result<Wanted<'a>, Fault> {
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

pub fn expiry(expires: Option<u64>) -> Option<Expiry> {
    expires.map(|end| Expiry::At(ClusterTime(end)))
}

impl Wanted<'_> {
    /// Passes the request for the host to `ask`, or says why there can be none.
    pub fn with_request<R>(&self, ask: impl FnOnce(&LocalRequest<'_>) -> R) -> Result<R, Status> {
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

    pub fn operation(&self) -> Operation {
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
