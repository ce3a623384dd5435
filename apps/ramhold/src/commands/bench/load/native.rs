//! Ramhold's own protocol, through the client library.
//!
//! With `--multi`, reads that start together are one multi-read of the library, and so is a read of several objects. Writes
//! that start together are as many operations, which the library packs into frames.

use super::link::{Ending, Link, Request, Tag};
use super::plan::Load;
use super::values::{Values, key};
use crate::failure::Failure;
use crate::pipeline::Pipeline;
use ramhold_client::{Client, Error, Keys, Operation, Outcome, ReadObject, RejectRules, Reply, Status};
use std::collections::VecDeque;

pub struct Native<'a> {
    load: &'a Load,
    values: &'a Values,
    pipeline: Pipeline<Part>,
    /// Operations that have ended together with one that was told.
    ended: VecDeque<(Tag, Ending)>,
}

/// An operation of the client library, as the benchmark counts it.
enum Part {
    Whole(Tag),
    /// Operations that are one multi-read, each with the number of its keys.
    Reads(Vec<(Tag, usize)>),
}

impl<'a> Native<'a> {
    pub fn new(load: &'a Load, values: &'a Values, client: Client) -> Native<'a> {
        // The worker keeps the bounds of its places itself.
        let pipeline = Pipeline::new(client, usize::MAX, u64::MAX);
        Native { load, values, pipeline, ended: VecDeque::new() }
    }

    /// Whether no operation is under way, and all that have ended are told.
    pub fn is_idle(&self) -> bool {
        self.ended.is_empty() && self.pipeline.is_empty()
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

    /// Starts a multi-read of all objects of these operations.
    fn read_together(&mut self, reads: &[(u64, u64, Tag)]) {
        let (mut keys, mut parts) = (Keys::of(self.load.table), Vec::with_capacity(reads.len()));
        for (first, count, tag) in reads {
            if keys.len() + *count as usize > Keys::COUNT_MAX {
                let full = std::mem::replace(&mut keys, Keys::of(self.load.table));
                self.pipeline.submit_reads(full, Part::Reads(std::mem::take(&mut parts)));
            }
            for object in *first..first + count {
                keys.push(&key(object, self.load.key_bytes))
                    .expect("keys are short, and few scans start together");
            }
            parts.push((*tag, *count as usize));
        }
        self.pipeline.submit_reads(keys, Part::Reads(parts));
    }

    /// The operation that has ended with a part, the first one of several.
    fn ended(&mut self, part: Part, outcome: Outcome) -> Option<(Tag, Ending)> {
        let parts = match part {
            Part::Whole(tag) => return Some((tag, ending(outcome))),
            Part::Reads(parts) => parts,
        };
        let Outcome::Done(Reply::Objects(objects)) = outcome else {
            let tags = parts.into_iter().map(|(tag, _)| (tag, ending(outcome.clone())));
            self.ended.extend(tags);
            return self.ended.pop_front();
        };
        let mut found = objects.iter();
        for (tag, count) in parts {
            let failed = found.by_ref().take(count).map(ending_of).filter(|end| !matches!(end, Ending::Done));
            self.ended.push_back((tag, failed.last().unwrap_or(Ending::Done)));
        }
        self.ended.pop_front()
    }
}

impl Link for Native<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        let (mut operations, mut reads) = (Vec::new(), Vec::new());
        let are_multi = self.load.multi > 1 && requests.len() > 1;
        for (request, tag) in requests.drain(..) {
            match request {
                Request::Read { object } if are_multi => reads.push((object, 1, tag)),
                Request::Read { object } => operations.push((self.read(object), 0, Part::Whole(tag))),
                Request::Write { object } => operations.push((self.write(object), 0, Part::Whole(tag))),
                Request::ReadSeveral { first, count } => reads.push((first, count, tag)),
            }
        }
        if !operations.is_empty() {
            self.pipeline.submit_all(operations.into_iter());
        }
        if are_multi && !reads.is_empty() {
            self.read_together(&reads);
        } else {
            // Scans that start together are operations of their own.
            reads.iter().for_each(|scan| self.read_together(std::slice::from_ref(scan)));
        }
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        loop {
            let (part, outcome) = self.pipeline.next_outcome()?;
            if let Some(ended) = self.ended(part, outcome) {
                return Some(ended);
            }
        }
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        loop {
            let (part, outcome) = self.pipeline.poll_outcome()?;
            if let Some(ended) = self.ended(part, outcome) {
                return Some(ended);
            }
        }
    }
}

fn ending_of(found: Result<Option<ReadObject<'_>>, &Outcome>) -> Ending {
    match found {
        Ok(Some(_)) => Ending::Done,
        Ok(None) => {
            let (status, detail) = (Status::NotFound, Status::NotFound.text().to_owned());
            let failure = Failure::from(Error::Refused { status, version: None, shortage: None, detail });
            Ending::Failed { name: status.to_string(), failure }
        }
        Err(outcome) => ending(outcome.clone()),
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
