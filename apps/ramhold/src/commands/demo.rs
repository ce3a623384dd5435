//! `ramhold demo`: loses a server, then everything, and shows that no acknowledged write is lost.
//!
//! A real cluster of child processes gets a tree of real files and a stream of small writes. One server is
//! killed under load, then every process at once. The recovered data is compared byte for byte with the
//! files, and write by write with a journal that the writer keeps separately.
//!
//! `--sabotage` shows that the comparison can fail: it damages the stored data, and the demo must end with an
//! error that names the losses.

mod comparison;
mod crash;
mod files;
mod journal;
mod readers;
mod sabotage;
mod scene;
mod tree;
mod writer;

pub use writer::{DemoWriter, run as run_writer};

use crate::failure::{Failure, NOT_FOUND};
use crate::interrupt;
use crate::local::{connect_to, wait_until_healthy};
use crate::size::bytes_text;
use clap::{Args, ValueEnum};
use journal::Journal;
use ramhold_client::{Client, Durability, TableId, TableOptions};
use readers::Readers;
use scene::{PATIENCE, REPLICAS, SERVER_COUNT, Scene, Setting};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tree::Tree;

/// The server that is killed under load.
const VICTIM: usize = 3;
const START_WITHIN: Duration = Duration::from_secs(60);
/// A cold start replays everything; on a slow disk that takes a while.
const COLD_START_WITHIN: Duration = Duration::from_secs(180);
/// When the log has been damaged on purpose nothing will ever come; this is long after everything else has.
const SABOTAGED_START_WITHIN: Duration = Duration::from_secs(45);
/// Acknowledged writes before the next act, so that there is something to lose.
const WRITES_BETWEEN_ACTS: u64 = 5000;

const HELP: &str = "\
Examples:
  ramhold demo
  ramhold demo --dir ~/photos --keep
  ramhold demo --sabotage flip
      damages every copy of a segment; the demo must fail and name the losses
  ramhold demo --sabotage drop
      removes an object secretly; the demo must fail and name it

The demo starts a cluster on this machine and stores files and small writes. It
kills a server under load, and later all processes at once. Each time it
compares what is left with the files, and finally with a journal of the writes.

The demo takes less than a minute, 3 GiB of memory and 4 GiB of disk. It removes
everything at the end, unless --keep is given.

Exit codes: 0 nothing was lost, 1 something was lost or wrong (the output names
it), 2 the demo could not run.";

/// See a cluster lose servers but no acknowledged write.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Demo {
    /// Directory with the files to store [default: sources and documents of this machine]
    #[arg(long, value_name = "TREE")]
    dir: Option<PathBuf>,
    /// Parent directory of the cluster's files [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Keep the cluster's files and logs, and the journal.
    #[arg(long)]
    keep: bool,
    /// Damage the stored data, to see that the demo notices.
    #[arg(long)]
    sabotage: Option<Sabotage>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Sabotage {
    /// Flip one bit in every copy of a segment while no process runs.
    Flip,
    /// Remove an acknowledged object behind the back of the journal.
    Drop,
}

pub fn run(arguments: Demo) -> Result<(), Failure> {
    interrupt::watch()?;
    let tree = Tree::choose(arguments.dir.as_deref())?;
    let mut scene =
        Scene::set(Setting { work_dir: arguments.work_dir.as_deref(), keeps: arguments.keep }, &tree)?;
    let result = play(&mut scene, &tree, arguments.sabotage);
    scene.clear_away(&result);
    result
}

/// The two tables of the demo.
struct Tables {
    files: TableId,
    writes: TableId,
}

/// The results, told at the end.
#[derive(Default)]
struct Summary {
    objects: u64,
    bytes: u64,
    crash: Option<crash::Times>,
    gap: Duration,
    cold_start: Duration,
}

fn play(scene: &mut Scene, tree: &Tree, sabotage: Option<Sabotage>) -> Result<(), Failure> {
    let mut summary = Summary::default();
    let (mut client, tables) = begin(scene)?;
    let imported = files::import(scene, &mut client, tables.files, tree)?;
    summary.objects = imported.objects.len() as u64;
    summary.bytes = imported.bytes;

    scene.tell("a writer and two readers go to work; the writer keeps a journal of what was acknowledged");
    scene.start_writer("writes")?;
    let readers = Readers::start(scene.coordinator(), tables.files, &imported, tree)?;
    scene.wait_for_writes(WRITES_BETWEEN_ACTS)?;

    summary.crash = Some(crash::kill_one(scene, &mut client, VICTIM)?);
    let seen = scene.journal()?.acknowledged();
    scene.wait_for_writes(seen + WRITES_BETWEEN_ACTS)?;
    let read = readers.stop()?;
    scene.tell(&format!("{} reads meanwhile, all of them right", read.count));
    let after_crash = files::verify(scene, &mut client, tables.files, tree, &imported, PATIENCE)?;
    scene.tell_differences(&after_crash, "after the loss of a server");
    let mut faults = after_crash.count();

    scene.tell("killing every process at once: coordinator, servers, writer (SIGKILL)");
    drop(client);
    let targets = scene.live_servers()?;
    scene.kill_everything();
    let journal = scene.journal()?;
    summary.gap = read.gap.max(journal.longest_gap());
    if sabotage == Some(Sabotage::Flip) {
        sabotage::flip(scene, &targets)?;
    }

    let (mut client, is_whole, time) = cold_start(scene, sabotage)?;
    summary.cold_start = time;
    if sabotage == Some(Sabotage::Drop) {
        sabotage::drop_one(scene, &mut client, tables.writes, &journal)?;
    }
    faults += check(scene, &mut client, &tables, tree, &imported, &journal, is_whole)?;
    summary.tell(scene, &journal, faults);
    scene.end(is_whole)?;
    if faults == 0 {
        return Ok(());
    }
    Err(Failure::new(NOT_FOUND, format!("lost or wrong: {faults}; the output above names them")))
}

fn begin(scene: &mut Scene) -> Result<(Client, Tables), Failure> {
    scene.tell(&format!("starting a coordinator and {SERVER_COUNT} servers, each a process"));
    scene.cluster.start_all()?;
    drop(wait_until_healthy(&mut scene.cluster, usize::from(SERVER_COUNT), START_WITHIN, |_| true)?);
    let mut client = connect_to(scene.coordinator(), PATIENCE)?;
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: REPLICAS,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let files = client.create_table("files", options.clone())?;
    let writes = client.create_table("writes", options)?;
    scene.tell(&format!(
        "the cluster is up; two tables, each write on {REPLICAS} other servers before it is acknowledged"
    ));
    Ok((client, Tables { files, writes }))
}

/// Starts everything again on what is left; whether every recovery came to its end, and how long that took.
fn cold_start(scene: &mut Scene, sabotage: Option<Sabotage>) -> Result<(Client, bool, Duration), Failure> {
    scene.tell("starting everything again on the same directories");
    let start = Instant::now();
    scene.cluster.start_all()?;
    let within = if sabotage == Some(Sabotage::Flip) { SABOTAGED_START_WITHIN } else { COLD_START_WITHIN };
    let mut waiting = String::new();
    let is_over = |status: &ramhold_client::ClusterStatus| {
        let missing: Vec<String> = status.recoveries.iter().flat_map(|r| r.missing.clone()).collect();
        waiting = missing.join("; ");
        status.recoveries.is_empty() && status.tablets_recovering == 0
    };
    let waited = wait_until_healthy(&mut scene.cluster, usize::from(SERVER_COUNT), within, is_over);
    interrupt::check()?;
    match waited {
        Ok(client) => {
            let time = start.elapsed();
            scene.tell(&format!("everything is served again after {:.1} s", time.as_secs_f64()));
            drop(client);
            Ok((connect_to(scene.coordinator(), PATIENCE)?, true, time))
        }
        Err(failure) => {
            scene.tell(&format!("not everything came back: {}", failure.text()));
            if !waiting.is_empty() {
                scene.tell(&format!("the cluster waits for: {waiting}"));
            }
            Ok((connect_to(scene.coordinator(), PATIENCE)?, false, start.elapsed()))
        }
    }
}

/// Everything against the files and the journal; how many things are lost or wrong.
fn check(
    scene: &Scene,
    client: &mut Client,
    tables: &Tables,
    tree: &Tree,
    imported: &files::Imported,
    journal: &Journal,
    is_whole: bool,
) -> Result<u64, Failure> {
    // An operation that gets no answer for this long, while nothing else happens, will never get one.
    let patience = if is_whole { PATIENCE } else { Duration::from_secs(2) };
    let after = files::verify(scene, client, tables.files, tree, imported, patience)?;
    scene.tell_differences(&after, "after the loss of everything");
    let writes = journal::verify(client, tables.writes, journal, patience)?;
    scene.tell_differences(&writes, "in the journal after the loss of everything");
    let losses = client.cluster_status()?.losses;
    for loss in &losses {
        scene.tell(&format!("the cluster reports a loss: {}", loss.reason));
    }
    Ok(after.count() + writes.count() + losses.len() as u64 + u64::from(!is_whole))
}

impl Summary {
    fn tell(&self, scene: &Scene, journal: &Journal, faults: u64) {
        let crash = self.crash.as_ref().expect("a server was killed before");
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let lines = [
            format!(
                "objects             {} files, {} ({})",
                self.objects,
                self.bytes,
                bytes_text(self.bytes)
            ),
            format!("time to detect      {:.0} ms", millis(crash.detect)),
            format!("time to recover     {:.0} ms after that ({})", millis(crash.recover), crash.what),
            format!("longest gap         {:.0} ms without an answer, seen by any client", millis(self.gap)),
            format!("cold start          {:.1} s", self.cold_start.as_secs_f64()),
            format!(
                "acknowledged writes {} in the journal, {} keys",
                journal.acknowledged(),
                journal.key_count()
            ),
            format!("lost or wrong       {faults}"),
        ];
        scene.tell("the end:");
        for line in lines {
            crate::output::show(&format!("            {line}"));
        }
    }
}
