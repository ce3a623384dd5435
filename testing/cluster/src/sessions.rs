//! The inside of a client process: sessions that do one operation after the other and record the answers.
//!
//! There are three kinds of keys:
//! - A few hot keys per generation. A new generation begins every few seconds, so that each key has many
//!   clients at once and yet a history that can be checked. Every generation has counters too. The generation
//!   follows from the clock, so all processes agree on it.
//! - Keys of an earlier generation, used now and then. They may have been recovered several times since.
//! - Cold keys, which live as long as the run.
//!
//! The first session of a process is slow. It often has not learnt yet that a server has died, and asks the
//! old owner.
//!
//! Every value is written once in a run: it names its client and a number. Many values are short, and some
//! fill segments.

use crate::history::{Condition, Invocation, Recorder, Response, Verb, now};
use crate::journal::{stamp_of, value_of};
use crate::waiting::Failure;
use ramhold_base::Rng;
use ramhold_client::{Client, Error, Number, Operation, RejectRules, Reply, Status, TableId, Version};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long each generation lasts, in nanoseconds: some thousand operations per key.
const GENERATION_NANOS: u64 = 8_000_000_000;

/// The deadline of an operation. It is longer than a recovery takes here, so that few operations end as
/// unknown.
const PATIENCE: Duration = Duration::from_secs(10);
/// The deadline of the reads at the end, when all faults are over.
const PATIENCE_AT_END: Duration = Duration::from_secs(60);
/// The pause after an operation that did not succeed, so that refusals do not fill the history.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// The average pause between two operations of a slow session: longer than it takes to declare a server dead.
const SLOW_PAUSE: Duration = Duration::from_secs(1);
/// The number of keys whose versions are remembered, for conditions.
const SEEN_COUNT_MAX: usize = 1000;
/// Operations of a hundred that are on counters.
const COUNTER_SHARE: u64 = 15;
/// The bits of a stamp for the number of the client's write. The client stands in the higher bits.
const STAMP_BITS: u32 = 40;

/// How many keys there are. The fewer, the more often several clients are at one of them at once.
#[derive(Clone, Copy, Debug)]
pub struct KeyCounts {
    /// In one generation.
    pub hot: u64,
    /// In one generation: keys that are only incremented and read.
    pub counters: u64,
    pub cold: u64,
}

impl Default for KeyCounts {
    fn default() -> KeyCounts {
        KeyCounts { hot: 12, counters: 6, cold: 150 }
    }
}

/// The operations of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operations {
    /// With conditions and increments.
    All,
    /// Reads, writes and removes: those of quorum tables.
    Plain,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub coordinator: SocketAddr,
    pub table: String,
    /// When the first generation began, on the clock of the histories.
    pub begun: u64,
    pub seed: u64,
    pub keys: KeyCounts,
    pub operations: Operations,
    pub sessions: u64,
    /// Between two operations of a session on average, so that the clients leave the cores to the cluster.
    pub pause: Duration,
}

impl Workload {
    /// Runs the sessions until `stops`, or until the file is full, or until something fails that is not the
    /// cluster's fault.
    pub fn run(&self, recorder: &Recorder, stops: &AtomicBool) -> Result<(), Failure> {
        let mut sessions =
            (0..self.sessions).map(|number| self.session(recorder, number)).collect::<Result<Vec<_>, _>>()?;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                sessions.iter_mut().map(|session| scope.spawn(|| session.run(stops))).collect();
            let ends = threads.into_iter().map(|thread| {
                let end = thread.join().unwrap_or_else(|_| Err(Failure("a session has panicked".to_owned())));
                // A session that has failed ends all: otherwise the loss of a session would go unnoticed.
                if end.is_err() {
                    stops.store(true, Ordering::SeqCst);
                }
                end
            });
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Reads every key once that a run may have touched until now.
    pub fn read_all(&self, recorder: &Recorder) -> Result<(), Failure> {
        let mut session = self.session(recorder, 0)?;
        let generations = 0..=session.generation();
        let KeyCounts { hot, counters, cold } = self.keys;
        let of_generation = |generation| {
            let hot = (0..hot).map(move |key| hot_key(generation, key));
            hot.chain((0..counters).map(move |key| counter_key(generation, key)))
        };
        for key in (0..cold).map(cold_key).chain(generations.flat_map(of_generation)) {
            session.read(&key, PATIENCE_AT_END)?;
        }
        Ok(())
    }

    fn session<'a>(&'a self, recorder: &'a Recorder, number: u64) -> Result<Session<'a>, Failure> {
        let options = ramhold_client::Options {
            deadline: PATIENCE,
            connect_timeout: PATIENCE_AT_END,
            ..Default::default()
        };
        let mut client = Client::connect_with(&[self.coordinator], options)?;
        client.set_deadline(PATIENCE_AT_END);
        let table = client.table(&self.table)?;
        Ok(Session {
            workload: self,
            recorder,
            client,
            table,
            name: new_name(recorder)?,
            written: 0,
            pause: if number == 0 { SLOW_PAUSE } else { self.pause },
            rng: Rng::new(self.seed ^ (number << 48)),
            seen: BTreeMap::new(),
        })
    }
}

fn hot_key(generation: u64, key: u64) -> String {
    format!("hot-{generation}-{key}")
}

fn cold_key(key: u64) -> String {
    format!("cold-{key}")
}

const COUNTER: &str = "count-";

fn counter_key(generation: u64, key: u64) -> String {
    format!("{COUNTER}{generation}-{key}")
}

fn new_name(recorder: &Recorder) -> Result<u64, Failure> {
    recorder.new_client().ok_or_else(|| Failure("too many operations have ended as unknown".to_owned()))
}

/// The text of a value that a stamp makes, for the history.
fn value_name(stamp: Option<u64>) -> String {
    stamp.map_or_else(
        || "damaged".to_owned(),
        |stamp| format!("{}.{}", stamp >> STAMP_BITS, stamp & ((1 << STAMP_BITS) - 1)),
    )
}

struct Session<'a> {
    workload: &'a Workload,
    recorder: &'a Recorder,
    client: Client,
    table: TableId,
    /// Its client number in the history. It takes a new number after an operation of unknown outcome.
    name: u64,
    written: u64,
    /// On average.
    pause: Duration,
    rng: Rng,
    /// The versions that this session saw last; 0: absent.
    seen: BTreeMap<String, u64>,
}

impl Session<'_> {
    fn run(&mut self, stops: &AtomicBool) -> Result<(), Failure> {
        while !stops.load(Ordering::SeqCst) {
            if !self.recorder.has_room(self.workload.sessions) {
                return Err(Failure("the history is full".to_owned()));
            }
            if self.workload.operations == Operations::Plain {
                self.run_plain()?;
                self.pause();
                continue;
            }
            let share = self.rng.below(100);
            let key = if share >= 100 - COUNTER_SHARE { self.choose_counter() } else { self.choose_key() };
            let seen = self.seen.get(&key).copied();
            match (self.rng.below(100), seen) {
                (0..30, _) if key.starts_with(COUNTER) => self.read(&key, PATIENCE)?,
                (_, _) if key.starts_with(COUNTER) => self.increment(&key)?,
                (0..45, _) => self.read(&key, PATIENCE)?,
                (45..67, _) => self.mutate(Verb::Write, &key, None)?,
                (67..73, _) => self.mutate(Verb::Delete, &key, None)?,
                (73..76, _) => {
                    self.mutate(Verb::Write, &key, Some(Condition { exists: true, ..Condition::default() }))?;
                }
                (76..96, Some(version)) if version > 0 => {
                    let condition = Condition { version: Some(version), ..Condition::default() };
                    let verb = if self.rng.chance(1, 6) { Verb::Delete } else { Verb::Write };
                    self.mutate(verb, &key, Some(condition))?;
                }
                _ => {
                    self.mutate(Verb::Write, &key, Some(Condition { absent: true, ..Condition::default() }))?;
                }
            }
            self.pause();
        }
        Ok(())
    }

    fn run_plain(&mut self) -> Result<(), Failure> {
        let key = self.choose_key();
        match self.rng.below(100) {
            0..50 => self.read(&key, PATIENCE),
            50..92 => self.mutate(Verb::Put, &key, None),
            _ => self.mutate(Verb::Clear, &key, None),
        }
    }

    fn pause(&mut self) {
        let pause = self.rng.below(2 * u64::try_from(self.pause.as_micros()).expect("a short time") + 1);
        std::thread::sleep(Duration::from_micros(pause));
    }

    fn generation(&self) -> u64 {
        now().saturating_sub(self.workload.begun) / GENERATION_NANOS
    }

    fn choose_key(&mut self) -> String {
        let (present, keys) = (self.generation(), self.workload.keys);
        let generation = match self.rng.below(10) {
            0..2 => return cold_key(self.rng.below(keys.cold)),
            2 => self.rng.between(0, present),
            _ => present,
        };
        hot_key(generation, self.rng.below(keys.hot))
    }

    /// A counter of the present generation, and now and then of an earlier one.
    fn choose_counter(&mut self) -> String {
        let present = self.generation();
        let generation = if self.rng.chance(1, 8) { self.rng.between(0, present) } else { present };
        counter_key(generation, self.rng.below(self.workload.keys.counters))
    }

    fn increment(&mut self, key: &str) -> Result<(), Failure> {
        let by = 1 + i64::try_from(self.rng.below(1000)).expect("a small number");
        let (op, table) = (Verb::Incr, self.table);
        let invocation =
            Invocation { op, table: table.raw(), key, value: None, delta: Some(by), condition: None };
        let (key_bytes, rules) = (key.as_bytes().to_vec(), RejectRules::default());
        let operation = Operation::Increment { table, key: key_bytes, by: Number::Integer(by), rules };
        self.complete(key, &invocation, operation, PATIENCE)
    }

    fn read(&mut self, key: &str, patience: Duration) -> Result<(), Failure> {
        let (op, table) = (Verb::Read, self.table.raw());
        let invocation = Invocation { op, table, key, value: None, delta: None, condition: None };
        let operation = Operation::Read { table: self.table, key: key.into(), rules: RejectRules::default() };
        self.complete(key, &invocation, operation, patience)
    }

    fn mutate(&mut self, op: Verb, key: &str, condition: Option<Condition>) -> Result<(), Failure> {
        let rules = condition.map_or_else(RejectRules::default, |condition| RejectRules {
            absent: condition.exists || condition.version.is_some(),
            exists: condition.absent,
            version_other_than: condition.version.map(Version),
            ..RejectRules::default()
        });
        let (table, key_bytes) = (self.table, key.as_bytes().to_vec());
        if matches!(op, Verb::Delete | Verb::Clear) {
            let invocation = Invocation { op, table: table.raw(), key, value: None, delta: None, condition };
            return self.complete(
                key,
                &invocation,
                Operation::Remove { table, key: key_bytes, rules },
                PATIENCE,
            );
        }
        self.written += 1;
        assert!(self.written < 1 << STAMP_BITS);
        let stamp = self.name << STAMP_BITS | self.written;
        let value = value_name(Some(stamp));
        let invocation =
            Invocation { op, table: table.raw(), key, value: Some(&value), delta: None, condition };
        let operation =
            Operation::Write { table, key: key_bytes, value: value_of(stamp), rules, expiry: None };
        self.complete(key, &invocation, operation, PATIENCE)
    }

    fn complete(
        &mut self,
        key: &str,
        invocation: &Invocation<'_>,
        operation: Operation,
        patience: Duration,
    ) -> Result<(), Failure> {
        let written = |error: std::io::Error| Failure(format!("the history cannot be written: {error}"));
        let id = self.recorder.begin(self.name, invocation).map_err(written)?;
        let outcome = self.client.complete_within(operation, patience);
        let response = response(invocation, outcome);
        self.recorder.end(id, &response).map_err(written)?;
        match &response {
            Response::Ok { ver, .. } | Response::Fail { ver: Some(ver), .. } => self.see(key, *ver),
            Response::Fail { ver: None, .. } => std::thread::sleep(REFUSED_PAUSE),
            Response::Info { .. } => {
                self.name = new_name(self.recorder)?;
                std::thread::sleep(REFUSED_PAUSE);
            }
        }
        Ok(())
    }

    fn see(&mut self, key: &str, version: u64) {
        if self.seen.len() >= SEEN_COUNT_MAX {
            self.seen.clear();
        }
        self.seen.insert(key.to_owned(), version);
    }
}

/// The response that is recorded for an outcome.
fn response(invocation: &Invocation<'_>, outcome: Result<Reply, Error>) -> Response {
    let op = invocation.op;
    let is_counter = invocation.key.starts_with(COUNTER);
    let refused = |err: &str, version: Option<Version>| Response::Fail {
        err: err.to_owned(),
        ver: Some(version.unwrap_or_default().raw()),
    };
    match outcome {
        Ok(Reply::Read { version, value, .. }) if op == Verb::Read && is_counter => {
            Response::Ok { ver: version.raw(), v: Some(Some(String::from_utf8_lossy(&value).into_owned())) }
        }
        Ok(Reply::Incremented { version, sum }) if op == Verb::Incr => {
            Response::Ok { ver: version.raw(), v: Some(Some(sum.to_string())) }
        }
        Ok(Reply::Read { version, value, .. }) if op == Verb::Read => {
            Response::Ok { ver: version.raw(), v: Some(Some(value_name(stamp_of(&value)))) }
        }
        Ok(Reply::Written { version }) if matches!(op, Verb::Write | Verb::Put) => {
            Response::Ok { ver: version.raw(), v: None }
        }
        Ok(Reply::Removed { version }) if matches!(op, Verb::Delete | Verb::Clear) => {
            Response::Ok { ver: version.raw(), v: None }
        }
        Ok(other) => Response::Info { err: format!("answered with {other:?}").chars().take(100).collect() },
        Err(Error::Refused { status: Status::NotFound, .. }) if op == Verb::Read => {
            Response::Ok { ver: 0, v: Some(None) }
        }
        Err(Error::Refused { status: Status::NotFound, version, .. }) => refused("not_found", version),
        Err(Error::Refused { status: Status::Exists, version, .. }) => refused("exists", version),
        Err(Error::Refused { status: Status::WrongVersion, version, .. }) => {
            refused("wrong_version", version)
        }
        Err(Error::Refused { status, .. }) => Response::Fail { err: status.text().to_owned(), ver: None },
        Err(Error::Unreachable { .. }) => Response::Fail { err: "unreachable".to_owned(), ver: None },
        Err(error) => Response::Info { err: error.to_string().chars().take(200).collect() },
    }
}
