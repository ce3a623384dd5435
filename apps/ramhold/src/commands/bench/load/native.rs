//! Ramhold's own protocol, through the client library.

use super::link::{Ending, Link, Request, Tag};
use super::plan::Load;
use super::values::{Values, key};
use crate::failure::Failure;
use crate::pipeline::Pipeline;
use ramhold_client::{Client, Error, Operation, Outcome, RejectRules};

pub struct Native<'a> {
    load: &'a Load,
    values: &'a Values,
    pipeline: Pipeline<Tag>,
}

impl<'a> Native<'a> {
    pub fn new(load: &'a Load, values: &'a Values, client: Client) -> Native<'a> {
        // The worker keeps the bounds of its places itself.
        Native { load, values, pipeline: Pipeline::new(client, usize::MAX, u64::MAX) }
    }
}

impl Link for Native<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        let (load, values) = (self.load, self.values);
        let operations = requests.drain(..).map(|(request, tag)| (operation(load, values, request), 0, tag));
        self.pipeline.submit_all(operations);
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        self.pipeline.next_outcome().map(|(tag, outcome)| (tag, ending(outcome)))
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        self.pipeline.poll_outcome().map(|(tag, outcome)| (tag, ending(outcome)))
    }
}

fn operation(load: &Load, values: &Values, request: Request) -> Operation {
    let (table, rules) = (load.table, RejectRules::default());
    let key = |object| key(object, load.key_bytes);
    match request {
        Request::Read { object } => Operation::Read { table, key: key(object), rules },
        Request::Write { object } => {
            let value = values.of(object).to_vec();
            Operation::Write { table, key: key(object), value, rules, expiry: None }
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
