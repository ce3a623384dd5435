//! Clients that read and write all the time, until they are told to stop.

use crate::cluster::Cluster;
use crate::journal::{Acknowledged, Finding, Journal, KeyHistory, stamp_of, value_of};
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

const CLIENT_COUNT: u64 = 4;
/// Enough that a server which has come back gets some when another dies.
const TABLET_COUNT: u32 = 21;
const KEY_COUNT: u64 = 400;
/// Long enough to outlast any recovery here.
const PATIENCE: Duration = Duration::from_secs(90);
/// Keeps four closed loops from taking the cores that the cluster needs.
const PAUSE: Duration = Duration::from_micros(500);
const VERIFY_PIPELINE: usize = 64;

pub struct Load {
    table: TableId,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Journal, Failure>>>,
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    acknowledged: AtomicU64,
}

impl Load {
    /// Makes the table and begins. `seed` decides keys and values.
    pub fn start(cluster: &Cluster, name: &str, replicas: u8, seed: u64) -> Result<Load, Failure> {
        let options =
            TableOptions { durability: Durability::Buffered, replicas, tablets: TABLET_COUNT, slots: false };
        let table = cluster.client(PATIENCE)?.create_table(name, options)?;
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for number in 0..CLIENT_COUNT {
            let client = cluster.client(PATIENCE)?;
            let shared = Arc::clone(&shared);
            let mut worker = Worker {
                client,
                table,
                number,
                rng: Rng::new(seed ^ (number << 56)),
                journal: Journal::default(),
                next_stamp: number << 40,
                last: Instant::now(),
            };
            threads.push(std::thread::spawn(move || worker.run(&shared)));
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
            if self.threads.iter().any(JoinHandle::is_finished) {
                return Err(Failure("a client of the load has ended early".to_owned()));
            }
            let now = self.acknowledged();
            Ok(if now >= wanted { Ok(()) } else { Err(format!("{now} of {wanted}")) })
        })
    }

    /// Ends the clients. `Unknown` is what is under way when everything is dead, so this may be called then too.
    pub fn stop(mut self) -> Result<Journal, Failure> {
        self.shared.stops.store(true, Ordering::SeqCst);
        let mut journal = Journal::default();
        for thread in std::mem::take(&mut self.threads) {
            journal.add(thread.join().map_err(|_| Failure("a client has panicked".to_owned()))??);
        }
        Ok(journal)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
    }
}

struct Worker {
    client: Client,
    table: TableId,
    number: u64,
    rng: Rng,
    journal: Journal,
    next_stamp: u64,
    last: Instant,
}

impl Worker {
    fn run(&mut self, shared: &Shared) -> Result<Journal, Failure> {
        self.last = Instant::now();
        while !shared.stops.load(Ordering::SeqCst) {
            let key = format!("{}-{}", self.number, self.rng.below(KEY_COUNT)).into_bytes();
            let is_done =
                if self.rng.chance(1, 4) { self.read(key, shared) } else { self.write(key, shared) };
            if is_done {
                self.journal.longest_gap = self.journal.longest_gap.max(self.last.elapsed());
                self.last = Instant::now();
            }
            std::thread::sleep(PAUSE);
        }
        Ok(std::mem::take(&mut self.journal))
    }

    /// Waits for one operation, but not beyond the wish to stop by more than a moment.
    fn complete(&mut self, operation: Operation, shared: &Shared) -> Outcome {
        let slice = Duration::from_millis(500);
        let start = Instant::now();
        loop {
            // A read or a refused write may be tried again; in slices, so that the end does not wait for the dead.
            let outcome =
                match self.client.complete_within(operation.clone(), slice.max(Duration::from_secs(5))) {
                    Ok(reply) => return Outcome::Done(reply),
                    Err(error) => error,
                };
            let is_over = shared.stops.load(Ordering::SeqCst) || start.elapsed() > PATIENCE;
            match outcome {
                Error::Refused { status, version, detail } => {
                    let is_final = matches!(status, Status::NotFound | Status::Exists | Status::WrongVersion);
                    if is_final || is_over {
                        let cause = ramhold_client::Cause::Answered;
                        return Outcome::Refused {
                            status,
                            cause,
                            version,
                            item: None,
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
                        answered_by: Default::default(),
                        detail,
                    };
                }
                Error::Unreachable { .. } => {}
                Error::Unknown { detail } => return Outcome::Unknown { detail },
                other => return Outcome::Unknown { detail: other.to_string() },
            }
        }
    }

    fn write(&mut self, key: Vec<u8>, shared: &Shared) -> bool {
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        let rules = self.rules_that_hold(&key);
        let operation = Operation::Write {
            table: self.table,
            key: key.clone(),
            value: value_of(stamp),
            rules,
            expiry: None,
        };
        let outcome = self.complete(operation, shared);
        let history = self.journal.keys.entry(key).or_default();
        match outcome {
            Outcome::Done(Reply::Written { version }) => {
                let now = Acknowledged { version: version.raw(), stamp, at: Instant::now() };
                self.journal.violations.extend(history.acknowledge(now));
                self.journal.writes += 1;
                shared.acknowledged.fetch_add(1, Ordering::SeqCst);
                true
            }
            Outcome::Done(other) => {
                self.journal.violations.push(format!("a write was answered with {other:?}"));
                false
            }
            // This is the key's only writer, and knows of all that it did: so only an attempt of this very write, whose
            // answer was lost, can have come before it.
            Outcome::Refused { status: status @ (Status::Exists | Status::WrongVersion), .. } => {
                self.journal.violations.push(format!("a write was carried out and then refused: {status}"));
                false
            }
            Outcome::Refused { status, .. } => {
                *self.journal.troubles.entry(format!("refused: {status}")).or_default() += 1;
                false
            }
            Outcome::Unknown { .. } => {
                history.unknown.push(stamp);
                *self.journal.troubles.entry("unknown".to_owned()).or_default() += 1;
                false
            }
        }
    }

    /// For half of the writes to a key whose state is known: rules that it fulfils, so that a write that is carried out
    /// twice is refused the second time (A3, A11).
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

impl Journal {
    /// Compares every key with what the cluster has; an empty answer is a good one.
    pub fn compare(&self, cluster: &Cluster, table: TableId) -> Result<Vec<(String, Finding)>, Failure> {
        let mut client = cluster.client(PATIENCE)?;
        let mut under_way = BTreeMap::new();
        let mut findings = Vec::new();
        let mut take = |client: &mut Client, under_way: &mut BTreeMap<_, &Vec<u8>>| {
            let (id, outcome) = client.wait_any().expect("operations are under way");
            let key = under_way.remove(&id).expect("only our own operations are under way");
            let name = String::from_utf8_lossy(key).into_owned();
            let finding = match found(outcome.clone()) {
                Some(found) => self.keys[key].judge(found),
                None => Some(Finding::Wrong { what: format!("no answer: {outcome:?}") }),
            };
            findings.extend(finding.map(|finding| (name, finding)));
        };
        for key in self.keys.keys() {
            if under_way.len() >= VERIFY_PIPELINE {
                take(&mut client, &mut under_way);
            }
            let rules = RejectRules::default();
            let id = client.submit(Operation::Read { table, key: key.clone(), rules });
            under_way.insert(id, key);
        }
        while !under_way.is_empty() {
            take(&mut client, &mut under_way);
        }
        Ok(findings)
    }
}
