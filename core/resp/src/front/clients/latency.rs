//! Samples for `LATENCY`: commands that took long to answer, by kind and second.
//!
//! Nothing is kept while `latency-monitor-threshold` is 0, which is its value at the start. Commands that are
//! answered in the step in which they came are not timed.
//!
//! Invariant: there are at most `SAMPLES_MAX` samples of each kind; the oldest go first.

use crate::{Command, Fault, Flags, Front, Reply};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Redis keeps as many.
const SAMPLES_MAX: usize = 160;

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Seconds since 1970.
    seconds: u64,
    /// The longest time of that second.
    millis: u64,
}

#[derive(Debug, Default)]
struct Event {
    samples: VecDeque<Sample>,
    /// The longest time since the last reset.
    millis_max: u64,
}

#[derive(Debug, Default)]
pub struct Latency {
    events: BTreeMap<&'static str, Event>,
}

impl Latency {
    /// Notes a command that was answered at `seconds` since 1970.
    pub fn note(&mut self, row: &Command, took: Duration, seconds: u64) {
        let name = if row.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        let event = self.events.entry(name).or_default();
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        event.millis_max = event.millis_max.max(millis);
        match event.samples.back_mut().filter(|sample| sample.seconds == seconds) {
            Some(sample) => sample.millis = sample.millis.max(millis),
            None => event.samples.push_back(Sample { seconds, millis }),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    pub fn answer(&mut self, front: Front, args: &[&[u8]], threshold: Duration, mut reply: Reply<'_>) {
        match front {
            Front::LatencyLatest => {
                reply.array(self.events.len());
                for (name, event) in &self.events {
                    let last = event.samples.back().copied().unwrap_or(Sample { seconds: 0, millis: 0 });
                    reply.array(4);
                    reply.bulk(name.as_bytes());
                    reply.integer(last.seconds as i64);
                    reply.integer(last.millis as i64);
                    reply.integer(event.millis_max as i64);
                }
            }
            Front::LatencyHistory => {
                let samples = self.find(args[2]).map(|name| &self.events[name].samples);
                reply.array(samples.map_or(0, VecDeque::len));
                for sample in samples.into_iter().flatten() {
                    reply.array(2);
                    reply.integer(sample.seconds as i64);
                    reply.integer(sample.millis as i64);
                }
            }
            Front::LatencyReset => {
                let before = self.events.len();
                if args.len() == 2 {
                    self.events.clear();
                }
                for name in &args[2..] {
                    if let Some(name) = self.find(name) {
                        self.events.remove(name);
                    }
                }
                reply.integer((before - self.events.len()) as i64);
            }
            Front::LatencyDoctor => reply.verbatim(&self.told(threshold)),
            _ => reply.fault(&Fault::SYNTAX),
        }
    }

    fn find(&self, name: &[u8]) -> Option<&'static str> {
        self.events.keys().copied().find(|known| known.as_bytes() == name)
    }

    fn told(&self, threshold: Duration) -> String {
        if threshold.is_zero() {
            return "Nothing is recorded: CONFIG SET latency-monitor-threshold MILLISECONDS begins.\n"
                .to_owned();
        }
        let mut text = format!("Recorded is what takes {} ms or longer.\n", threshold.as_millis());
        for (name, event) in &self.events {
            let _ =
                writeln!(text, "{name}: in {} seconds, at most {} ms", event.samples.len(), event.millis_max);
        }
        if !self.events.is_empty() {
            text.push_str("Which commands these were: SLOWLOG. Where time goes: /metrics of the servers.\n");
        }
        text
    }
}
