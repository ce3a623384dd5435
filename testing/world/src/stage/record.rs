//! The history of a stage: everything that its clients have asked about objects, and the ends of it.
//!
//! Not here: the requests themselves (objects, commands).

use crate::checker::search::second_opinion;
use crate::checker::{Seen, bind, version_witness};
use crate::cluster::native::{end_of_mutation, end_of_read};
use crate::history::{Action, NEVER, Operation, Outcome, ValueId};
use crate::resp::Answer;
use ramhold_base::{Status, TableId, Version};
use ramhold_client_core as core;
use std::collections::BTreeMap;

/// An operation that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    pub(super) client: usize,
    pub(super) number: usize,
    /// Its place in the history, if it is about an object.
    pub(super) at: Option<usize>,
}

/// A judged command whose reply is still to come.
pub(super) struct Asked {
    pub client: usize,
    pub reply: usize,
    /// Its place in the history.
    pub at: usize,
}

#[derive(Default)]
pub(super) struct Record {
    history: Vec<Operation>,
    /// The table and the bytes of each key number of the history.
    keys: BTreeMap<u32, (TableId, Vec<u8>)>,
    /// Operations whose ends are not in the history yet.
    pub open: Vec<Begun>,
    /// Commands whose replies are not in the history yet.
    pub asked: Vec<Asked>,
}

impl Record {
    fn key_number(&mut self, table: TableId, key: &str) -> u32 {
        let known = self.keys.iter().find(|(_, (t, k))| *t == table && k == key.as_bytes());
        if let Some((number, _)) = known {
            return *number;
        }
        let number = self.keys.len() as u32;
        self.keys.insert(number, (table, key.as_bytes().to_vec()));
        number
    }

    /// Enters an operation that begins. Returns its place in the history.
    pub fn enter(
        &mut self,
        call: u64,
        client: usize,
        (table, key): (TableId, &str),
        action: Action,
    ) -> usize {
        let key = self.key_number(table, key);
        self.history.push(Operation {
            client: client as u32,
            session: 1,
            key,
            action,
            call,
            ret: NEVER,
            outcome: Outcome::Unknown,
            commit: None,
            answered_by: None,
        });
        self.history.len() - 1
    }

    /// The operation at this place is one of a commit.
    pub fn join(&mut self, at: usize, commit: u64) {
        self.history[at].commit = Some(commit);
    }

    pub fn outcome(&self, at: usize) -> Outcome {
        self.history[at].outcome
    }

    /// The keys of all objects that were asked about, in the order of their numbers.
    pub fn keys(&self) -> Vec<(TableId, String)> {
        let text = |key: &Vec<u8>| String::from_utf8(key.clone()).expect("keys are text");
        self.keys.values().map(|(table, key)| (*table, text(key))).collect()
    }

    /// Enters the outcomes that are known by now, each with the moment at which it was known.
    pub fn note_ends(&mut self, ended: impl Fn(&Begun) -> Option<(u64, core::Outcome)>) {
        let Record { history, open, .. } = self;
        open.retain(|begun| {
            let Some((now, outcome)) = ended(begun) else { return true };
            if let Some(at) = begun.at {
                note_end(history, at, now, outcome);
            }
            false
        });
    }

    /// Enters the replies that have come.
    pub fn note_replies(&mut self, reply: impl Fn(&Asked) -> Option<(u64, Answer)>) {
        let Record { history, asked, .. } = self;
        asked.retain(|asked| {
            let Some((now, answer)) = reply(asked) else { return true };
            let operation = &mut history[asked.at];
            operation.outcome = match answer {
                ok if ok.is_ok() => Outcome::Acknowledged,
                Answer::Array(Some(parts)) => match &parts[..] {
                    [Answer::Bulk(Some(value)), Answer::Integer(version)] => {
                        Outcome::Found { version: Version(version.unsigned_abs()), value: ValueId::of(value) }
                    }
                    _ => Outcome::Absent,
                },
                Answer::Error(error) if error.starts_with("UNKNOWN") => Outcome::Unknown,
                Answer::Error(error)
                    if ["TRYAGAIN", "LOADING", "NOREPLICAS"].iter().any(|word| error.starts_with(word)) =>
                {
                    Outcome::Refused { status: Status::Retry }
                }
                other => panic!("{other:?} to a SET or a GETVER"),
            };
            if operation.outcome != Outcome::Unknown {
                operation.ret = now;
            }
            false
        });
    }

    /// Judges the answers that clients got so far.
    pub fn judge(&mut self) {
        let (mut torn, mut seen) = (Vec::new(), Seen::default());
        self.history = bind(&self.history, &mut torn, &mut seen);
        assert_eq!(torn, []);
        let verdict = version_witness(&self.history, 0);
        let found: Vec<String> = verdict.violations.iter().map(|v| v.describe(&self.history)).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        let searched = second_opinion(&self.history, &verdict, 0);
        assert!(searched.disagreements.is_empty(), "{}", searched.disagreements.join("\n"));
    }
}

fn note_end(history: &mut [Operation], at: usize, now: u64, outcome: core::Outcome) {
    let operation = &mut history[at];
    let end = match operation.action {
        Action::Read => end_of_read(outcome),
        Action::Increment { .. } | Action::Count | Action::Scan => {
            panic!("no scenario counts or scans")
        }
        Action::Write { .. } | Action::Remove { .. } => end_of_mutation(outcome),
    };
    operation.outcome = end.outcome;
    operation.answered_by = end.answered_by;
    if end.outcome != Outcome::Unknown {
        operation.ret = now;
    }
    let first = *operation;
    let same = |other: &&mut Operation| first.commit.is_some() && other.commit == first.commit;
    for other in history.iter_mut().filter(same) {
        (other.outcome, other.ret) = (first.outcome, first.ret);
    }
}
