//! Sessions that record a history while something else is measured, and the verdict on that history.
//!
//! The sessions run in this process, in the network namespace of the thread that starts them. A recording has a
//! folder of its own: `client-1.jsonl` of the sessions, `client-2.jsonl` of one read of each key at the end, and
//! `faults.jsonl`. The folder stays, so that a history can be judged again.
//!
//! Not here: client processes that are killed themselves (histories).

use crate::checker::{Checker, Verdict};
use crate::cluster::Cluster;
use crate::history::{FILE_BYTES_MAX, Recorder, RunName, commit, now};
use crate::namespace::COORDINATOR;
use crate::sessions::{KeyCounts, Operations, Workload};
use crate::waiting::{Failure, wait_for};
use ramhold_client::{Durability, TableOptions};
use serde_json::json;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So few keys for so many sessions that several are often at the same key. The first session is slow.
const KEYS: KeyCounts = KeyCounts { hot: 4, counters: 2, cold: 40 };
const PLAIN_KEYS: KeyCounts = KeyCounts { hot: 4, counters: 0, cold: 40 };
const PLAIN_PAUSE: Duration = Duration::from_millis(40);
const SESSION_COUNT: u64 = 9;
const REPLICA_COUNT: u8 = 3;
/// So many tablets that each of a few dozen servers gets some.
const TABLET_COUNT: u32 = 21;
const PATIENCE: Duration = Duration::from_secs(60);
/// The processes in the history: the sessions, and the reads at the end.
const SESSIONS: u64 = 1;
const READER: u64 = 2;

/// The folder of all recordings of a run, and their judge.
#[derive(Clone, Debug)]
pub struct Recordings {
    folder: PathBuf,
    /// None: histories are recorded, and not judged.
    checker: Option<Checker>,
    seed: u64,
}

impl Recordings {
    /// A new folder for this run within `folder`. It is made with the first recording.
    pub fn new(folder: &Path, checker: Option<Checker>, seed: u64) -> Recordings {
        Recordings { folder: folder.join(format!("{seed}-{}", std::process::id())), checker, seed }
    }

    /// Makes a table with tablets on all servers, and begins to work on it. `pause`: of a session between two
    /// operations, on average.
    pub fn start(&self, cluster: &Cluster, name: &str, pause: Duration) -> Result<Recording, Failure> {
        let table = format!("history-{name}");
        let options = TableOptions {
            durability: Durability::Buffered,
            replicas: REPLICA_COUNT,
            tablets: TABLET_COUNT,
            slots: false,
            zone: None,
            quorum: None,
        };
        cluster.client(PATIENCE)?.create_table(&table, options)?;
        self.start_on(cluster, name, table, pause)
    }

    /// Begins to work on a table that is empty.
    pub fn start_on(
        &self,
        cluster: &Cluster,
        name: &str,
        table: String,
        pause: Duration,
    ) -> Result<Recording, Failure> {
        self.begin(cluster, name, (table, KEYS, Operations::All), pause)
    }

    /// Begins to work on a quorum table that is empty.
    pub fn start_plain(&self, cluster: &Cluster, name: &str, table: &str) -> Result<Recording, Failure> {
        self.begin(cluster, name, (table.to_owned(), PLAIN_KEYS, Operations::Plain), PLAIN_PAUSE)
    }

    fn begin(
        &self,
        cluster: &Cluster,
        name: &str,
        (table, keys, operations): (String, KeyCounts, Operations),
        pause: Duration,
    ) -> Result<Recording, Failure> {
        let dir = self.folder.join(name);
        let made = |error: std::io::Error| Failure(format!("{}: {error}", dir.display()));
        std::fs::create_dir_all(&dir).map_err(made)?;
        let faults = File::create_new(dir.join("faults.jsonl")).map_err(made)?;
        let workload = Workload {
            coordinator: cluster.address(COORDINATOR),
            table,
            begun: now(),
            seed: self.seed,
            keys,
            operations,
            sessions: SESSION_COUNT,
            pause,
        };
        let mut recording = Recording {
            recorder: Arc::new(recorder(&dir, SESSIONS, &workload)?),
            workload,
            dir,
            faults,
            checker: self.checker.clone(),
            stops: Arc::default(),
            sessions: None,
        };
        recording.run();
        Ok(recording)
    }
}

pub struct Recording {
    workload: Workload,
    recorder: Arc<Recorder>,
    dir: PathBuf,
    faults: File,
    checker: Option<Checker>,
    stops: Arc<AtomicBool>,
    sessions: Option<JoinHandle<Result<(), Failure>>>,
}

impl Recording {
    fn run(&mut self) {
        let (workload, recorder) = (self.workload.clone(), Arc::clone(&self.recorder));
        let stops = Arc::clone(&self.stops);
        self.sessions = Some(std::thread::spawn(move || workload.run(&recorder, &stops)));
    }

    /// Waits until the history has grown by this number of bytes.
    pub fn wait_progress(&self, bytes: u64) -> Result<(), Failure> {
        let wanted = self.recorder.bytes() + bytes;
        wait_for("a history grows", PATIENCE, || {
            if self.sessions.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(Failure("the sessions of a history have ended early".to_owned()));
            }
            let now = self.recorder.bytes();
            Ok(if now >= wanted { Ok(()) } else { Err(format!("{now} of {wanted} bytes")) })
        })
    }

    /// Notes a fault that is over, for a reader of the history. `effect`: as the coordinator has it on record.
    pub fn note(&mut self, kind: &str, target: &str, began: Instant, effect: &str) -> Result<(), Failure> {
        let (end, lasted) = (now(), began.elapsed());
        let nanos = u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX);
        let record = json!({
            "t0": end.saturating_sub(nanos), "t1": end, "kind": kind, "target": target,
            "millis": nanos / 1_000_000, "effect": effect,
        });
        writeln!(self.faults, "{record}").map_err(|error| Failure(format!("faults.jsonl: {error}")))
    }

    /// Ends the sessions, reads every key once, and has the history judged. The cluster must be whole again.
    pub fn judge(mut self) -> Result<Judged, Failure> {
        self.stops.store(true, Ordering::SeqCst);
        if let Some(sessions) = self.sessions.take() {
            let ended = sessions.join();
            ended.unwrap_or_else(|_| Err(Failure("the sessions of a history have panicked".to_owned())))?;
        }
        let reader = recorder(&self.dir, READER, &self.workload)?;
        self.workload.read_all(&reader)?;
        let files = [SESSIONS, READER].map(|process| path(&self.dir, process));
        let evidence = self.dir.join("evidence.jsonl");
        let judge = |checker: Checker| checker.judge(&files, &evidence, self.workload.seed);
        let verdict = self.checker.take().map(judge).transpose()?;
        Ok(Judged { verdict, dir: self.dir.clone() })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
    }
}

fn path(dir: &Path, process: u64) -> PathBuf {
    dir.join(format!("client-{process}.jsonl"))
}

fn recorder(dir: &Path, process: u64, workload: &Workload) -> Result<Recorder, Failure> {
    let path = path(dir, process);
    let run = RunName { seed: workload.seed, begun: workload.begun, git: &commit() };
    let pause_micros = u64::try_from(workload.pause.as_micros()).unwrap_or(u64::MAX);
    let header = run.header(json!({
        "process": process, "sessions": workload.sessions, "pause_micros": pause_micros,
    }));
    Recorder::create(&path, process, FILE_BYTES_MAX, header)
        .map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// The verdict on a recording; none: there is no checker.
pub struct Judged {
    verdict: Option<Verdict>,
    dir: PathBuf,
}

impl Judged {
    /// Whether no check failed, and enough happened to say so. A history that nobody judged is not wrong.
    pub fn is_good(&self) -> bool {
        self.verdict.as_ref().is_none_or(Verdict::is_good)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.dir.display();
        let Some(verdict) = &self.verdict else {
            return write!(f, "NOT JUDGED, there is no checker (it needs Go): {dir}");
        };
        write!(
            f,
            "{} violations, {} lost, {} undecided; {} of {} operations ok, {} unknown, {} keys; \
             {} kinds of mistakes found in copies; {dir}",
            verdict.violations.len(),
            verdict.of_process(READER),
            verdict.undecided,
            verdict.ok,
            verdict.operations,
            verdict.unknown,
            verdict.keys,
            verdict.mistakes_found,
        )
    }
}
