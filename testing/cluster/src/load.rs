//! Clients that read and write all the time, until they are told to stop.

mod compare;
mod open;

use crate::cluster::Cluster;
use crate::journal::{Acknowledged, Journal, KeyHistory, stamp_of, value_of};
use crate::waiting::Failure;
use ramhold_base::Rng;
use ramhold_client::{
    Client, Durability, Error, Operation, Outcome, RejectRules, Reply, Status, TableId, TableOptions, Version,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So many tablets that a returned server gets some when another dies.
const TABLET_COUNT: u32 = 21;
/// Longer than any recovery here.
const PATIENCE: Duration = Duration::from_secs(90);
/// The interval between operations of a client. It keeps four closed loops from taking the cores that the
/// cluster needs.
const INTERVAL: Duration = Duration::from_millis(1);
const FILL_PIPELINE: usize = 16;

/// The size of the load.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub clients: u64,
    /// Keys of each client: no key has two writers.
    pub keys: u64,
    /// Whether every key is written before the load begins.
    pub filled: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { clients: 4, keys: 400, filled: false }
    }
}

pub struct Load {
    table: TableId,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Journal, Failure>>>,
}

struct Shared {
    stops: AtomicBool,
    /// Acknowledged writes.
    acknowledged: AtomicU64,
    /// Operations that succeeded.
    done: AtomicU64,
    /// Whether clients go on with other keys while an operation waits.
    is_open: AtomicBool,
    /// From the start of an operation to the start of the same client's next.
    interval_nanos: AtomicU64,
    longest_wait_nanos: AtomicU64,
    longest_read_nanos: AtomicU64,
    began: Instant,
    /// For each client: everything that it began at this time after `began`, or earlier, has ended.
    reached_nanos: Vec<AtomicU64>,
}

impl Shared {
    fn reach(&self, number: u64, at: Instant) {
        let reached = nanos(at.saturating_duration_since(self.began));
        self.reached_nanos[number as usize].store(reached, Ordering::SeqCst);
    }
}

/// The pace at which a client begins operations.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// When the last operation has ended, and no sooner than this interval after its start.
    Closed(Duration),
    /// This interval after the last start, however many operations have not ended. There is no way back to
    /// `Closed`.
    Open(Duration),
}

impl Load {
    /// Makes the table and begins. `seed` decides keys and values.
    pub fn start(cluster: &Cluster, name: &str, replicas: u8, seed: u64) -> Result<Load, Failure> {
        Load::start_shaped(cluster, name, replicas, seed, Shape::default())
    }

    pub fn start_shaped(
        cluster: &Cluster,
        name: &str,
        replicas: u8,
        seed: u64,
        shape: Shape,
    ) -> Result<Load, Failure> {
        let options = TableOptions {
            durability: Durability::Buffered,
            replicas,
            tablets: TABLET_COUNT,
            slots: false,
            zone: None,
            quorum: None,
        };
        let table = cluster.client(PATIENCE)?.create_table(name, options)?;
        let shared = Arc::new(Shared {
            stops: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
            interval_nanos: AtomicU64::new(nanos(INTERVAL)),
            longest_wait_nanos: AtomicU64::new(0),
            longest_read_nanos: AtomicU64::new(0),
            began: Instant::now(),
            reached_nanos: (0..shape.clients).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut threads = Vec::new();
        for number in 0..shape.clients {
            let client = cluster.client(PATIENCE)?;
            let shared = Arc::clone(&shared);
            let mut worker = Worker {
                client,
                table,
                number,
                keys: shape.keys,
                rng: Rng::new(seed ^ (number << 56)),
                journal: Journal::default(),
                next_stamp: number << 40,
                last: Instant::now(),
            };
            threads.push(std::thread::spawn(move || {
                if shape.filled {
                    worker.fill(&shared)?;
                }
                worker.run(&shared)
            }));
        }
        Ok(Load { table, shared, threads })
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    /// Writes acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until `more` further writes are acknowledged.
    pub fn wait_acknowledged(&self, more: u64) -> Result<(), Failure> {
        let wanted = self.acknowledged() + more;
        crate::wait_for("writes are acknowledged", PATIENCE, || {
            self.check_running()?;
            let now = self.acknowledged();
            Ok(if now >= wanted { Ok(()) } else { Err(format!("{now} of {wanted}")) })
        })
    }

    /// Waits until all operations that clients began before this call have ended.
    pub fn wait_begun(&self, within: Duration) -> Result<(), Failure> {
        let now = nanos(self.shared.began.elapsed());
        crate::wait_for("what was begun ends", within, || {
            self.check_running()?;
            let reached = self.shared.reached_nanos.iter().map(|reached| reached.load(Ordering::SeqCst));
            let left = reached.filter(|reached| *reached <= now).count();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} clients wait")) })
        })
    }

    /// Operations that have succeeded so far.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::SeqCst)
    }

    pub fn set_pace(&self, pace: Pace) {
        let (is_open, interval) = match pace {
            Pace::Closed(interval) => (false, interval),
            Pace::Open(interval) => (true, interval),
        };
        self.shared.interval_nanos.store(nanos(interval), Ordering::SeqCst);
        self.shared.is_open.store(is_open, Ordering::SeqCst);
    }

    /// The longest time from the start of an operation to its success, over all clients, among operations
    /// that ended since the last call.
    pub fn take_longest_wait(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_wait_nanos.swap(0, Ordering::SeqCst))
    }

    /// The same for reads alone, while clients go on with other keys; since the last call.
    pub fn take_longest_read(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_read_nanos.swap(0, Ordering::SeqCst))
    }

    fn check_running(&self) -> Result<(), Failure> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            return Err(Failure("a client of the load has ended early".to_owned()));
        }
        Ok(())
    }

    /// Ends the clients. It may be called when everything is dead, too: operations under way are `Unknown`
    /// then.
    pub fn stop(mut self) -> Result<Journal, Failure> {
        self.shared.stops.store(true, Ordering::SeqCst);
        let mut journal = Journal::default();
        for thread in std::mem::take(&mut self.threads) {
            journal.add(thread.join().map_err(|_| Failure("a client has panicked".to_owned()))??);
        }
        Ok(journal)
    }

    /// Ends the clients, and compares every key with what they saw, while the cluster is up.
    ///
    /// # Panics
    /// When a client saw what must not be, or something that was acknowledged is gone.
    pub fn end_with_nothing_lost(self, cluster: &Cluster) -> Result<(), Failure> {
        let table = self.table();
        let journal = self.stop()?;
        assert_eq!(journal.violations, Vec::<String>::new());
        let findings = journal.compare(cluster, table)?;
        assert!(findings.is_empty(), "{findings:#?}");
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct Worker {
    client: Client,
    table: TableId,
    number: u64,
    keys: u64,
    rng: Rng,
    journal: Journal,
    next_stamp: u64,
    last: Instant,
}

impl Worker {
    /// Writes every key once, many at a time.
    fn fill(&mut self, shared: &Shared) -> Result<(), Failure> {
        let mut under_way = BTreeMap::new();
        let mut numbers = 0..self.keys;
        loop {
            while under_way.len() < FILL_PIPELINE
                && let Some(number) = numbers.next()
            {
                self.next_stamp += 1;
                let (key, stamp) = (self.key(number), self.next_stamp);
                let id = self.client.submit(self.write_of(key.clone(), stamp, RejectRules::default()));
                under_way.insert(id, (key, stamp));
            }
            let Some((id, outcome)) = self.client.wait_any() else { return Ok(()) };
            let Some((key, stamp)) = under_way.remove(&id) else { continue };
            let Outcome::Done(Reply::Written { version }) = outcome else {
                return Err(Failure(format!("a key could not be written at first: {outcome:?}")));
            };
            self.acknowledge(key, Acknowledged { version: version.raw(), stamp, at: Instant::now() }, shared);
            if shared.stops.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}-{number}", self.number).into_bytes()
    }

    fn run(&mut self, shared: &Shared) -> Result<Journal, Failure> {
        self.last = Instant::now();
        // The start of an operation that did not succeed. Its client waits until another operation succeeds.
        let mut waits_since = None;
        while !shared.stops.load(Ordering::SeqCst) {
            if shared.is_open.load(Ordering::SeqCst) {
                return self.run_open(shared);
            }
            let began = Instant::now();
            let waiting = *waits_since.get_or_insert(began);
            shared.reach(self.number, waiting);
            let number = self.rng.below(self.keys);
            let key = self.key(number);
            let is_done =
                if self.rng.chance(1, 4) { self.read(key, shared) } else { self.write(key, shared) };
            if is_done {
                self.note_gap();
                waits_since = None;
                shared.longest_wait_nanos.fetch_max(nanos(waiting.elapsed()), Ordering::SeqCst);
                shared.done.fetch_add(1, Ordering::SeqCst);
            }
            let interval = Duration::from_nanos(shared.interval_nanos.load(Ordering::SeqCst));
            std::thread::sleep(interval.saturating_sub(began.elapsed()));
        }
        Ok(std::mem::take(&mut self.journal))
    }

    /// Notes that an operation has succeeded.
    fn note_gap(&mut self) {
        self.journal.longest_gap = self.journal.longest_gap.max(self.last.elapsed());
        self.last = Instant::now();
    }

    /// Waits for one operation, but at most a moment beyond the request to stop.
    fn complete(&mut self, operation: Operation, shared: &Shared) -> Outcome {
        let slice = Duration::from_millis(500);
        let start = Instant::now();
        loop {
            // A read or a refused write may be tried again. It waits in slices, so that the end of the test
            // does not wait for dead servers.
            let outcome =
                match self.client.complete_within(operation.clone(), slice.max(Duration::from_secs(5))) {
                    Ok(reply) => return Outcome::Done(reply),
                    Err(error) => error,
                };
            let is_over = shared.stops.load(Ordering::SeqCst) || start.elapsed() > PATIENCE;
            match outcome {
                Error::Refused { status, version, shortage, detail } => {
                    let is_final = matches!(status, Status::NotFound | Status::Exists | Status::WrongVersion);
                    if is_final || is_over {
                        let cause = ramhold_client::Cause::Answered;
                        return Outcome::Refused {
                            status,
                            cause,
                            version,
                            item: None,
                            shortage,
                            answered_by: Default::default(),
                            detail,
                        };
                    }
                }
                Error::Unreachable { detail } if is_over => {
                    let (status, cause) = (Status::Retry, ramhold_client::Cause::Unreachable);
                    return Outcome::Refused {
                        status,
                        cause,
                        version: None,
                        item: None,
                        shortage: None,
                        answered_by: Default::default(),
                        detail,
                    };
                }
                Error::Unreachable { .. } => {}
                Error::Unknown { detail, token } => return Outcome::Unknown { detail, token },
                other => return Outcome::Unknown { detail: other.to_string(), token: None },
            }
        }
    }

    fn write(&mut self, key: Vec<u8>, shared: &Shared) -> bool {
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        let rules = self.rules_that_hold(&key);
        let operation = self.write_of(key.clone(), stamp, rules);
        let outcome = self.complete(operation, shared);
        self.settle_write(key, stamp, outcome, shared)
    }

    /// Whether the write was acknowledged.
    fn settle_write(&mut self, key: Vec<u8>, stamp: u64, outcome: Outcome, shared: &Shared) -> bool {
        match outcome {
            Outcome::Done(Reply::Written { version }) => {
                let now = Acknowledged { version: version.raw(), stamp, at: Instant::now() };
                self.acknowledge(key, now, shared);
                true
            }
            Outcome::Done(other) => {
                self.journal.violations.push(format!("a write was answered with {other:?}"));
                false
            }
            // This client is the key's only writer and knows of all its own writes. So only an attempt of
            // this very write, whose answer was lost, can have come before it.
            Outcome::Refused { status: status @ (Status::Exists | Status::WrongVersion), .. } => {
                self.journal.violations.push(format!("a write was carried out and then refused: {status}"));
                false
            }
            Outcome::Refused { status, .. } => {
                *self.journal.troubles.entry(format!("refused: {status}")).or_default() += 1;
                false
            }
            Outcome::Unknown { .. } => {
                self.journal.keys.entry(key).or_default().unknown.push(stamp);
                *self.journal.troubles.entry("unknown".to_owned()).or_default() += 1;
                false
            }
        }
    }

    fn write_of(&self, key: Vec<u8>, stamp: u64, rules: RejectRules) -> Operation {
        Operation::Write { table: self.table, key, value: value_of(stamp), rules, expiry: None }
    }

    fn acknowledge(&mut self, key: Vec<u8>, now: Acknowledged, shared: &Shared) {
        let history = self.journal.keys.entry(key).or_default();
        self.journal.violations.extend(history.acknowledge(now));
        self.journal.writes += 1;
        shared.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// For half of the writes to a key whose state is known: rules that the key fulfils, so that a write that
    /// is carried out twice is refused the second time (A3, A11).
    fn rules_that_hold(&mut self, key: &[u8]) -> RejectRules {
        let any = RejectRules::default();
        if self.rng.chance(1, 2) {
            return any;
        }
        match self.journal.keys.get(key) {
            Some(history) if !history.unknown.is_empty() => any,
            Some(KeyHistory { last: Some(last), .. }) => {
                RejectRules { absent: true, version_other_than: Some(Version(last.version)), ..any }
            }
            Some(KeyHistory { last: None, .. }) | None => RejectRules { exists: true, ..any },
        }
    }

    fn read(&mut self, key: Vec<u8>, shared: &Shared) -> bool {
        let operation =
            Operation::Read { table: self.table, key: key.clone(), rules: RejectRules::default() };
        let outcome = self.complete(operation, shared);
        self.settle_read(key, outcome)
    }

    /// Whether there was an answer.
    fn settle_read(&mut self, key: Vec<u8>, outcome: Outcome) -> bool {
        let Some(found) = found(outcome) else { return false };
        self.journal.reads += 1;
        let history = self.journal.keys.entry(key.clone()).or_default();
        if let Some(finding) = history.judge(found) {
            let key = String::from_utf8_lossy(&key).into_owned();
            self.journal.violations.push(format!("{key} was read wrongly: {finding:?}"));
        }
        true
    }
}

/// Version and stamp, or nothing, when there was an answer.
fn found(outcome: Outcome) -> Option<Option<(u64, Option<u64>)>> {
    match outcome {
        Outcome::Done(Reply::Read { version, value, .. }) => Some(Some((version.raw(), stamp_of(&value)))),
        Outcome::Refused { status: Status::NotFound, .. } => Some(None),
        Outcome::Done(_) | Outcome::Refused { .. } | Outcome::Unknown { .. } => None,
    }
}
