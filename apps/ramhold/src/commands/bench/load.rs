//! The load: threads with one client each, which keep their pipelines full.

use crate::failure::Failure;
use crate::global::Global;
use crate::pipeline::Pipeline;
use hdrhistogram::Histogram;
use ramhold_base::Rng;
use ramhold_client::{Error, Operation, Outcome, RejectRules, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The task of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub table: TableId,
    pub objects: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub read_percent: u8,
    pub pipeline: usize,
    /// Operations that are started together.
    pub multi: usize,
    /// Operations a second of all threads together, begun at even distances however long earlier ones take; none: as
    /// fast as the pipelines allow.
    /// Different ones choose different objects: a run that repeats the choices of the one before is no uniform load.
    pub seed: u64,
    pub rate: Option<u64>,
}

/// The results of one thread or of all.
#[derive(Debug)]
pub struct Measured {
    /// Nanoseconds.
    pub reads: Histogram<u64>,
    pub writes: Histogram<u64>,
    /// By the text of the status, or "unknown".
    pub errors: BTreeMap<String, u64>,
    /// The first operation that failed.
    pub failed: Option<Failure>,
    pub elapsed: Duration,
}

/// Longer times count as this.
const NANOS_MAX: u64 = 3_600_000_000_000;

impl Measured {
    /// Nothing yet.
    pub fn new() -> Measured {
        let histogram = || {
            Histogram::new_with_bounds(1, NANOS_MAX, 3)
                .expect("these bounds are in order and three digits are allowed")
        };
        Measured {
            reads: histogram(),
            writes: histogram(),
            errors: BTreeMap::new(),
            failed: None,
            elapsed: Duration::ZERO,
        }
    }

    fn take(&mut self, kind: Kind, began: Instant, outcome: Outcome) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(NANOS_MAX);
        match outcome {
            Outcome::Done(_) => match kind {
                Kind::Read => self.reads.saturating_record(nanos),
                Kind::Write => self.writes.saturating_record(nanos),
            },
            Outcome::Refused { status, .. } => self.note_failed(status.to_string(), outcome),
            Outcome::Unknown { .. } => self.note_failed("unknown".to_owned(), outcome),
        }
    }

    fn note_failed(&mut self, name: String, outcome: Outcome) {
        *self.errors.entry(name).or_default() += 1;
        if self.failed.is_none() {
            // Nobody settles a write of a benchmark, so its token is not told.
            let failed = Error::check(outcome).err().map(Failure::from);
            self.failed = failed.map(|failed| Failure::new(failed.code(), failed.text()));
        }
    }

    fn add(&mut self, other: Measured) {
        self.reads.add(&other.reads).expect("both have the same bounds");
        self.writes.add(&other.writes).expect("both have the same bounds");
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
        self.failed = self.failed.take().or(other.failed);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    pub fn done(&self) -> u64 {
        self.reads.len() + self.writes.len()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

/// Writes every object once. Ends with the first write that fails: each further one may take as long to fail, and a table
/// without some of its objects is not the one that is to be measured.
pub fn fill(load: &Load, global: &Global, clients: u16) -> Result<Measured, Failure> {
    let clients = u64::from(clients);
    let has_failed = AtomicBool::new(false);
    on_threads(load, global, clients, |mut worker, number| {
        for object in (number..load.objects).step_by(clients as usize) {
            if worker.measured.failed.is_some() {
                // The flag guards no other data.
                has_failed.store(true, Ordering::Relaxed);
            }
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            worker.submit(Kind::Write, object, Instant::now());
        }
        worker.finish()
    })
}

/// Reads and writes objects at random for `time`.
pub fn measure(load: &Load, global: &Global, clients: u16, time: Duration) -> Result<Measured, Failure> {
    let clients = u64::from(clients);
    on_threads(load, global, clients, |mut worker, number| {
        let Some(rate) = load.rate else {
            while worker.began.elapsed() < time {
                worker.submit_any(Instant::now());
            }
            return worker.finish();
        };
        // The operations of all threads interleave at even intervals.
        let distance = |turn: u64| Duration::from_nanos((turn * clients + number) * 1_000_000_000 / rate);
        for turn in 0.. {
            let due = worker.began + distance(turn);
            if due - worker.began >= time {
                break;
            }
            while Instant::now() < due {
                worker.poll();
            }
            worker.submit_any(due);
        }
        worker.finish()
    })
}

/// Connects one worker per thread, and starts them all only when all are connected.
fn on_threads(
    load: &Load,
    global: &Global,
    clients: u64,
    work: impl Fn(Worker<'_>, u64) -> Measured + Sync,
) -> Result<Measured, Failure> {
    let connected: Result<Vec<_>, Failure> = (0..clients).map(|_| global.connect()).collect();
    let mut sum = Measured::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, client) in (0..clients).zip(connected?) {
            let work = &work;
            let pipeline = Pipeline::new(client, load.pipeline, u64::MAX);
            threads.push(scope.spawn(move || work(Worker::new(load, pipeline, number), number)));
        }
        for thread in threads {
            match thread.join() {
                Ok(measured) => sum.add(measured),
                Err(_) => return Err(Failure::usage("a thread of the benchmark has panicked")),
            }
        }
        Ok(sum)
    })
}

struct Worker<'a> {
    load: &'a Load,
    pipeline: Pipeline<(Kind, Instant)>,
    rng: Rng,
    measured: Measured,
    /// Operations to be started together with those that follow.
    collected: Vec<(Operation, u64, (Kind, Instant))>,
    began: Instant,
    values: Values,
}

/// The values to write: random bytes, the same for an object each time, so that values differ, cannot be compressed, and
/// can be compared with those that are read.
pub struct Values {
    material: Vec<u8>,
    bytes: usize,
}

impl Values {
    pub fn new(load: &Load) -> Values {
        let mut rng = Rng::new(load.seed);
        let words = load.value_bytes / 8 + 1024;
        let material = (0..words).flat_map(|_| rng.u64().to_le_bytes()).collect();
        Values { material, bytes: load.value_bytes }
    }

    pub fn of(&self, object: u64) -> &[u8] {
        // Any fixed choice among 4096 offsets is good enough.
        let start = (object.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize;
        &self.material[start..start + self.bytes]
    }
}

impl Worker<'_> {
    fn new(load: &Load, pipeline: Pipeline<(Kind, Instant)>, number: u64) -> Worker<'_> {
        Worker {
            load,
            pipeline,
            rng: Rng::new(load.seed.wrapping_add(number)),
            measured: Measured::new(),
            collected: Vec::with_capacity(load.multi),
            began: Instant::now(),
            values: Values::new(load),
        }
    }

    /// A read or a write of any object. Its time counts from `due`.
    fn submit_any(&mut self, due: Instant) {
        let is_read = self.rng.chance(u64::from(self.load.read_percent), 100);
        let object = self.rng.below(self.load.objects);
        self.submit(if is_read { Kind::Read } else { Kind::Write }, object, due);
    }

    /// Takes in what has ended.
    fn poll(&mut self) {
        while let Some(((kind, began), outcome)) = self.pipeline.poll_outcome() {
            self.measured.take(kind, began, outcome);
        }
    }

    /// Starts one operation, perhaps together with the next ones, when there is room in the pipeline.
    fn submit(&mut self, kind: Kind, object: u64, due: Instant) {
        let key = key(object, self.load.key_bytes);
        let (table, rules) = (self.load.table, RejectRules::default());
        let operation = match kind {
            Kind::Read => Operation::Read { table, key, rules },
            Kind::Write => {
                let value = self.values.of(object).to_vec();
                Operation::Write { table, key, value, rules, expiry: None }
            }
        };
        self.collected.push((operation, 0, (kind, due)));
        if self.collected.len() >= self.load.multi {
            self.start();
        }
    }

    fn start(&mut self) {
        while !self.pipeline.has_room(self.collected.len()) && self.take_one() {}
        if self.load.multi > 1 {
            // The time of operations that start together counts from their start, not from the moment they
            // were generated.
            let now = Instant::now();
            self.collected.iter_mut().for_each(|(.., (_, due))| *due = now);
        }
        self.pipeline.submit_all(self.collected.drain(..));
    }

    fn take_one(&mut self) -> bool {
        let Some(((kind, began), outcome)) = self.pipeline.next_outcome() else {
            return false;
        };
        self.measured.take(kind, began, outcome);
        true
    }

    fn finish(mut self) -> Measured {
        self.start();
        while self.take_one() {}
        self.measured.elapsed = self.began.elapsed();
        self.measured
    }
}

/// The number in decimal with zeros in front.
pub fn key(object: u64, bytes: usize) -> Vec<u8> {
    format!("{object:0bytes$}").into_bytes()
}

/// The shortest keys that tell all objects apart.
pub fn key_bytes_min(objects: u64) -> usize {
    (objects - 1).to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_wanted_length_and_differ() {
        assert_eq!(key(7, 4), b"0007");
        for objects in [1, 10, 11, 100_000] {
            assert_eq!(key(objects - 1, key_bytes_min(objects)).len(), key_bytes_min(objects));
        }
        assert_eq!(key_bytes_min(10), 1);
        assert_eq!(key_bytes_min(11), 2);
    }
}
