//! Clients that read and write keys of their own, in a closed or an open loop, and know what was acknowledged.
//!
//! A key has one writer, and one operation at a time. So a read must find the last acknowledged write, or one whose
//! outcome is unknown. An unknown write is resumed until that settles it, and its key waits so long.
//!
//! The time of an operation counts from when it was due, so a client that is behind does not hide its waits.

use crate::figures::Times;
use ramhold_base::Rng;
use ramhold_client::{
    Client, Error, Operation, OperationId, Outcome, RejectRules, Reply, ServerId, Status, TableId, Token,
};
use ramhold_cluster_tests::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const CLIENTS: usize = 8;
/// Below the limit of the client library.
const UNDER_WAY_MAX: usize = 1000;
const FILL_PIPELINE: usize = 16;
/// The interval of looking for a request to stop, if nothing else happens.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const SETTLE_WITHIN: Duration = Duration::from_secs(5);
/// Attempts to settle a write, each with that time limit.
const SETTLE_ATTEMPTS: u32 = 12;
/// Kinds of failures and violations that are shown.
const SHOWN_MAX: usize = 8;

/// When a get was answered, and by which process.
pub type Source = (Instant, ServerId);

/// The results of a client.
#[derive(Debug, Default)]
pub struct Tally {
    pub gets: Times,
    pub puts: Times,
    pub failed: u64,
    pub unknown: u64,
    /// Unknown writes that are settled: they took effect, or never will.
    pub settled: [u64; 2],
    /// Failures and their numbers.
    pub troubles: BTreeMap<String, u64>,
    /// Answers that were wrong when they came.
    pub violations: Vec<String>,
    pub sources: Vec<Source>,
    /// An operation that took long: when it was due, and the time that it took.
    pub slow: Vec<(Instant, Duration, &'static str)>,
}

/// Slow enough that the reason is looked for: the limit of one operation in a thousand.
pub const SLOW: Duration = Duration::from_millis(50);

impl Tally {
    pub fn operations(&self) -> u64 {
        self.gets.count() + self.puts.count() + self.failed
    }

    pub fn add(&mut self, other: Tally) {
        self.gets.extend(other.gets);
        self.puts.extend(other.puts);
        self.failed += other.failed;
        self.unknown += other.unknown;
        (self.settled[0], self.settled[1]) =
            (self.settled[0] + other.settled[0], self.settled[1] + other.settled[1]);
        self.violations.extend(other.violations);
        self.slow.extend(other.slow);
        self.sources.extend(other.sources);
        for (what, count) in other.troubles {
            *self.troubles.entry(what).or_default() += count;
        }
    }

    fn trouble(&mut self, what: String) {
        if self.troubles.len() < SHOWN_MAX || self.troubles.contains_key(&what) {
            *self.troubles.entry(what).or_default() += 1;
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Key {
    acknowledged: u64,
    /// Stamps of writes that may have taken effect after that.
    perhaps: Vec<u64>,
    is_busy: bool,
}

/// A client with its keys.
pub struct Worker {
    client: Client,
    table: TableId,
    number: usize,
    keys: Vec<Key>,
    value_bytes: usize,
    rng: Rng,
    next_stamp: u64,
    tally: Tally,
}

/// An operation under way.
struct Asked {
    key: usize,
    what: What,
    due: Instant,
}

enum What {
    Get,
    Put(u64),
    /// The stamp of an unknown write that is being settled, and how often that was tried.
    Settle(u64, u32),
}

/// A value that is known by its stamp.
fn value_of(stamp: u64, bytes: usize) -> Vec<u8> {
    let mut value = stamp.to_le_bytes().repeat(bytes.div_ceil(8));
    value.truncate(bytes);
    value
}

fn stamp_of(value: &[u8]) -> Option<u64> {
    let stamp = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
    (value_of(stamp, value.len()) == value).then_some(stamp)
}

/// All clients, each with its share of this number of keys.
pub fn workers(
    table: TableId,
    (keys, value_bytes): (usize, usize),
    seed: u64,
    connect: impl Fn() -> Result<Client, Failure>,
) -> Result<Vec<Worker>, Failure> {
    let worker = |number| {
        Ok(Worker {
            client: connect()?,
            table,
            number,
            keys: vec![Key::default(); keys / CLIENTS],
            value_bytes,
            rng: Rng::new(seed ^ ((number as u64) << 56)),
            next_stamp: (number as u64 + 1) << 40,
            tally: Tally::default(),
        })
    };
    (0..CLIENTS).map(worker).collect()
}

/// Runs something in all clients at once.
pub fn all(
    workers: &mut [Worker],
    run: impl Fn(&mut Worker) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| run(worker))).collect();
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure("a client has panicked".to_owned()))));
        ends.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Takes the results so far.
pub fn take_tally(workers: &mut [Worker]) -> Tally {
    let mut tally = Tally::default();
    workers.iter_mut().for_each(|worker| tally.add(std::mem::take(&mut worker.tally)));
    tally
}

/// Reads all keys back with new clients. Sentences about what is lost.
pub fn lost(
    workers: &mut [Worker],
    connect: impl Fn() -> Result<Client, Failure>,
) -> Result<Vec<String>, Failure> {
    workers.iter().try_fold(Vec::new(), |mut lost, worker| {
        lost.extend(worker.read_all(connect()?)?);
        Ok(lost)
    })
}

impl Worker {
    fn key(&self, key: usize) -> Vec<u8> {
        format!("{}-{key}", self.number).into_bytes()
    }

    fn write(&mut self, key: usize) -> (Operation, u64) {
        self.next_stamp += 1;
        let value = value_of(self.next_stamp, self.value_bytes);
        let (table, rules) = (self.table, RejectRules::default());
        (Operation::Write { table, key: self.key(key), value, rules, expiry: None }, self.next_stamp)
    }

    /// Writes every key once.
    pub fn fill(&mut self) -> Result<(), Failure> {
        let mut under_way = BTreeMap::new();
        let mut next = 0;
        loop {
            while under_way.len() < FILL_PIPELINE && next < self.keys.len() {
                let (operation, stamp) = self.write(next);
                under_way.insert(self.client.submit(operation), (next, stamp));
                next += 1;
            }
            let Some((id, outcome)) = self.client.wait_any() else { return Ok(()) };
            let Some((key, stamp)) = under_way.remove(&id) else { continue };
            let Outcome::Done(_) = outcome else {
                return Err(Failure(format!("a key could not be written at first: {outcome:?}")));
            };
            self.keys[key].acknowledged = stamp;
        }
    }

    /// One operation after the other.
    pub fn run_closed(&mut self, stops: &AtomicBool) -> Result<(), Failure> {
        let mut under_way = BTreeMap::new();
        while !stops.load(Ordering::Relaxed) {
            if under_way.is_empty() {
                self.begin(&mut under_way, Instant::now());
            }
            self.take_end(&mut under_way, LOOK_INTERVAL);
        }
        self.drain(&mut under_way);
        Ok(())
    }

    /// An operation at each interval, however long earlier ones take.
    pub fn run_open(&mut self, interval: Duration, stops: &AtomicBool) -> Result<(), Failure> {
        let mut under_way = BTreeMap::new();
        // The clients do not begin at the same moments.
        let mut due = Instant::now() + interval.mul_f64(self.number as f64 / CLIENTS as f64);
        while !stops.load(Ordering::Relaxed) {
            while due <= Instant::now() && under_way.len() < UNDER_WAY_MAX {
                self.begin(&mut under_way, due);
                due += interval;
            }
            let left = due.saturating_duration_since(Instant::now()).min(LOOK_INTERVAL);
            if under_way.is_empty() {
                std::thread::sleep(left);
            } else {
                let is_full = under_way.len() == UNDER_WAY_MAX;
                self.take_end(&mut under_way, if is_full { LOOK_INTERVAL } else { left });
            }
        }
        self.drain(&mut under_way);
        Ok(())
    }

    fn begin(&mut self, under_way: &mut BTreeMap<OperationId, Asked>, due: Instant) {
        let mut key = self.rng.below(self.keys.len() as u64) as usize;
        while self.keys[key].is_busy {
            key = (key + 1) % self.keys.len();
        }
        self.keys[key].is_busy = true;
        let (operation, what) = if self.rng.chance(1, 2) {
            let rules = RejectRules::default();
            (Operation::Read { table: self.table, key: self.key(key), rules }, What::Get)
        } else {
            let (operation, stamp) = self.write(key);
            (operation, What::Put(stamp))
        };
        under_way.insert(self.client.submit(operation), Asked { key, what, due });
    }

    /// Waits for the next end, and judges it.
    fn take_end(&mut self, under_way: &mut BTreeMap<OperationId, Asked>, within: Duration) {
        if let Some((id, outcome)) = self.client.wait_any_within(within)
            && let Some(asked) = under_way.remove(&id)
            && let Some((id, asked)) = self.settle(asked, outcome)
        {
            under_way.insert(id, asked);
        }
    }

    fn drain(&mut self, under_way: &mut BTreeMap<OperationId, Asked>) {
        while !under_way.is_empty() {
            self.take_end(under_way, LOOK_INTERVAL);
        }
    }

    /// Judges the end of an operation. Returns the operation that settles it.
    fn settle(&mut self, asked: Asked, outcome: Outcome) -> Option<(OperationId, Asked)> {
        let Asked { key, what, due } = asked;
        let took = due.elapsed();
        if took > SLOW {
            let kind = match what {
                What::Get => "get",
                What::Put(_) => "put",
                What::Settle(..) => "settle",
            };
            self.tally.slow.push((due, took, kind));
        }
        self.keys[key].is_busy = false;
        match (what, Error::check(outcome)) {
            (What::Get, Ok(Reply::Read { value, answered_by, .. })) => {
                self.tally.gets.add(took);
                self.tally.sources.push((Instant::now(), answered_by));
                let found = self.judge(key, Some(&value));
                self.tally.violations.extend(found);
            }
            (What::Put(stamp), Ok(Reply::Written { .. })) => {
                self.tally.puts.add(took);
                self.keys[key] = Key { acknowledged: stamp, ..Key::default() };
            }
            (What::Put(stamp), Err(Error::Unknown { token, detail })) => {
                self.tally.unknown += 1;
                self.tally.trouble(format!("unknown: {}", detail.split(';').next().unwrap_or_default()));
                self.keys[key].perhaps.push(stamp);
                return self.resume(key, (stamp, SETTLE_ATTEMPTS), token, due);
            }
            (What::Settle(stamp, _), Ok(_)) => {
                self.tally.settled[0] += 1;
                self.keys[key] = Key { acknowledged: stamp, ..Key::default() };
            }
            (What::Settle(stamp, _), Err(Error::Refused { status: Status::WrongVersion, .. })) => {
                self.tally.settled[1] += 1;
                self.keys[key].perhaps.retain(|other| *other != stamp);
            }
            (What::Settle(stamp, left), Err(Error::Unknown { token, .. })) => {
                return self.resume(key, (stamp, left), token, due);
            }
            (What::Settle(..), Err(error)) => self.tally.trouble(format!("not settled: {error}")),
            (_, Err(error)) => {
                self.tally.failed += 1;
                self.tally.trouble(error.to_string());
            }
            (_, Ok(other)) => {
                self.tally.failed += 1;
                self.tally.trouble(format!("answered with {other:?}"));
            }
        }
        None
    }

    fn resume(
        &mut self,
        key: usize,
        (stamp, left): (u64, u32),
        token: Option<Box<Token>>,
        due: Instant,
    ) -> Option<(OperationId, Asked)> {
        let left = left.checked_sub(1)?;
        let id = self.client.submit_within(Operation::Resume { token: token? }, SETTLE_WITHIN);
        self.keys[key].is_busy = true;
        Some((id, Asked { key, what: What::Settle(stamp, left), due }))
    }

    /// A sentence about a value that must not be there.
    fn judge(&self, key: usize, value: Option<&[u8]>) -> Option<String> {
        let known = &self.keys[key];
        let stamp = value.map(stamp_of);
        if let Some(Some(stamp)) = stamp
            && (stamp == known.acknowledged || known.perhaps.contains(&stamp))
        {
            return None;
        }
        Some(format!("key {}-{key}: found {stamp:?}, acknowledged {}", self.number, known.acknowledged))
    }

    /// Reads all keys back with another client. Returns sentences about what is lost.
    fn read_all(&self, mut client: Client) -> Result<Vec<String>, Failure> {
        let (mut under_way, mut lost) = (BTreeMap::new(), Vec::new());
        let mut next = 0;
        loop {
            while under_way.len() < FILL_PIPELINE && next < self.keys.len() {
                let (table, rules) = (self.table, RejectRules::default());
                let id = client.submit(Operation::Read { table, key: self.key(next), rules });
                under_way.insert(id, next);
                next += 1;
            }
            let Some((id, outcome)) = client.wait_any() else { return Ok(lost) };
            let Some(key) = under_way.remove(&id) else { continue };
            let found = match Error::check(outcome) {
                Ok(Reply::Read { value, .. }) => self.judge(key, Some(&value)),
                Err(Error::Refused { status: Status::NotFound, .. }) => self.judge(key, None),
                other => return Err(Failure(format!("a key cannot be read back: {other:?}"))),
            };
            lost.extend(found);
        }
    }
}
