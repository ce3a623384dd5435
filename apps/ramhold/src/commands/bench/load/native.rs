//! Ramhold's own protocol, through the client library.
//!
//! A read of several objects is as many operations of the library, which packs those for one server into one
//! frame. It has ended when all of them have.

use super::link::{Ending, Link, Request, Tag};
use super::plan::Load;
use super::values::{Values, key};
use crate::failure::Failure;
use crate::pipeline::Pipeline;
use ramhold_client::{Client, Error, Operation, Outcome, RejectRules};
use std::collections::BTreeMap;

pub struct Native<'a> {
    load: &'a Load,
    values: &'a Values,
    pipeline: Pipeline<Part>,
    /// Reads of several objects that are under way.
    groups: BTreeMap<u64, Group>,
    groups_begun: u64,
}

/// An operation of the client library, as the benchmark counts it.
enum Part {
    Whole(Tag),
    /// One of several reads that end together.
    Of(u64),
}

struct Group {
    tag: Tag,
    left: u64,
    ending: Ending,
}

impl<'a> Native<'a> {
    pub fn new(load: &'a Load, values: &'a Values, client: Client) -> Native<'a> {
        // The worker keeps the bounds of its places itself.
        let pipeline = Pipeline::new(client, usize::MAX, u64::MAX);
        Native { load, values, pipeline, groups: BTreeMap::new(), groups_begun: 0 }
    }

    fn read(&self, object: u64) -> Operation {
        let key = key(object, self.load.key_bytes);
        Operation::Read { table: self.load.table, key, rules: RejectRules::default() }
    }

    fn write(&self, object: u64) -> Operation {
        let (key, value) = (key(object, self.load.key_bytes), self.values.of(object).to_vec());
        let (table, rules) = (self.load.table, RejectRules::default());
        Operation::Write { table, key, value, rules, expiry: None }
    }

    fn begin_group(&mut self, tag: Tag, count: u64) -> u64 {
        self.groups_begun += 1;
        self.groups.insert(self.groups_begun, Group { tag, left: count, ending: Ending::Done });
        self.groups_begun
    }

    /// The operation that has ended with a part; nothing while others of its group are under way.
    fn ended(&mut self, part: Part, outcome: Outcome) -> Option<(Tag, Ending)> {
        let number = match part {
            Part::Whole(tag) => return Some((tag, ending(outcome))),
            Part::Of(number) => number,
        };
        let group = self.groups.get_mut(&number).expect("a group is there until its last part has ended");
        group.left -= 1;
        if let failed @ Ending::Failed { .. } = ending(outcome) {
            group.ending = failed;
        }
        if group.left > 0 {
            return None;
        }
        self.groups.remove(&number).map(|group| (group.tag, group.ending))
    }
}

impl Link for Native<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        let mut operations = Vec::with_capacity(requests.len());
        for (request, tag) in requests.drain(..) {
            match request {
                Request::Read { object } => operations.push((self.read(object), 0, Part::Whole(tag))),
                Request::Write { object } => operations.push((self.write(object), 0, Part::Whole(tag))),
                Request::ReadSeveral { first, count } => {
                    let group = self.begin_group(tag, count);
                    let reads = (first..first + count).map(|object| (self.read(object), 0, Part::Of(group)));
                    operations.extend(reads);
                }
            }
        }
        self.pipeline.submit_all(operations.into_iter());
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        loop {
            let (part, outcome) = self.pipeline.next_outcome()?;
            if let Some(ended) = self.ended(part, outcome) {
                return Some(ended);
            }
        }
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        loop {
            let (part, outcome) = self.pipeline.poll_outcome()?;
            if let Some(ended) = self.ended(part, outcome) {
                return Some(ended);
            }
        }
    }
}

fn ending(outcome: Outcome) -> Ending {
    let name = match &outcome {
        Outcome::Done(_) => return Ending::Done,
        Outcome::Refused { status, .. } => status.to_string(),
        Outcome::Unknown { .. } => "unknown".to_owned(),
    };
    let failure = match Error::check(outcome) {
        Ok(_) => return Ending::Done,
        Err(error) => Failure::from(error),
    };
    // Nobody settles a write of a benchmark, so its token is not told.
    Ending::Failed { name, failure: Failure::new(failure.code(), failure.text()) }
}
