//! Asks for keys from the kill on, and notes the time at which each can be read.

use super::super::load::{Load, Values, key};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::pipeline::Pipeline;
use ramhold_client::{Operation, Outcome, RejectRules, Reply};
use std::time::{Duration, Instant};

/// Far more than any recovery of what fits one machine takes.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Probe<'a> {
    load: &'a Load,
    pipeline: Pipeline<()>,
    asked: u64,
    began: Instant,
    /// Rising.
    times: Vec<Duration>,
}

impl<'a> Probe<'a> {
    /// A client that knows where the keys are.
    pub fn new(global: &Global, load: &'a Load, count: u64) -> Result<Probe<'a>, Failure> {
        let client = Global { patience: Some(PATIENCE), ..global.clone() }.connect()?;
        let asked = count.min(load.objects);
        let pipeline = Pipeline::new(client, asked as usize, u64::MAX);
        let mut probe = Probe { load, pipeline, asked, began: Instant::now(), times: Vec::new() };
        probe.ask(Instant::now());
        probe.wait()?;
        Ok(probe)
    }

    /// Asks for every key, spread over all of them. Times count from `began`.
    pub fn ask(&mut self, began: Instant) {
        self.began = began;
        self.times.clear();
        for number in 0..self.asked {
            let object = self.load.objects / self.asked * number;
            self.pipeline.submit(read(self.load, object), 0, ());
        }
    }

    /// Until every key was read.
    pub fn wait(&mut self) -> Result<(), Failure> {
        while let Some(((), outcome)) = self.pipeline.next_outcome() {
            interrupt::check()?;
            match outcome {
                Outcome::Done(_) => self.times.push(self.began.elapsed()),
                Outcome::Refused { status, detail, .. } => {
                    let text = format!("a key that was written cannot be read: {status} ({detail})");
                    return Err(Failure::usage(text));
                }
                Outcome::Unknown { detail, .. } => {
                    return Err(Failure::usage(format!("a key that was written cannot be read: {detail}")));
                }
            }
        }
        Ok(())
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// When the first, the middle and the last key was read.
    pub fn times(&self) -> [Duration; 3] {
        let at = |index: usize| self.times.get(index).copied().unwrap_or_default();
        [at(0), at(self.times.len() / 2), at(self.times.len().saturating_sub(1))]
    }
}

fn read(load: &Load, object: u64) -> Operation {
    Operation::Read { table: load.table, key: key(object, load.key_bytes), rules: RejectRules::default() }
}

/// How many objects are not there, or not as they were written.
pub fn wrong(global: &Global, load: &Load) -> Result<u64, Failure> {
    let values = Values::new(load);
    let mut pipeline = Pipeline::new(global.connect()?, 2 * load.pipeline, u64::MAX);
    let mut wrong = 0;
    let mut look = |object: u64, outcome: Outcome| match outcome {
        Outcome::Done(Reply::Read { value, .. }) if value == values.of(object) => {}
        _ => wrong += 1,
    };
    for object in 0..load.objects {
        interrupt::check()?;
        while pipeline.is_full() {
            pipeline.next_outcome().into_iter().for_each(|(object, outcome)| look(object, outcome));
        }
        pipeline.submit(read(load, object), 0, object);
    }
    while let Some((object, outcome)) = pipeline.next_outcome() {
        look(object, outcome);
    }
    Ok(wrong)
}
