//! A run: connections play episodes side by side until enough commands are compared, and the differences are
//! collected.

use crate::differences::Differences;
use crate::episode::{BATCH_MAX, Found, Tally, play};
use crate::generate::{Ground, episode};
use crate::link::{Link, Servers};
use crate::shrink::shrink;
use crate::step::Step;
use ramhold_base::Rng;
use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The limit of connections: a server has two databases for each.
pub const CONNECTION_COUNT_MAX: u32 = 8;
const STEPS: usize = 500;

#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: Servers,
    pub seed: u64,
    /// The least number of commands to compare.
    pub commands: u64,
    pub connections: u32,
    /// The most kinds of differences to find.
    pub kinds_max: usize,
    /// This episode of the first connection alone.
    pub only: Option<u64>,
    /// Names of commands that are left out.
    pub without: BTreeSet<String>,
}

/// A difference, as short as it could be made.
#[derive(Debug)]
pub struct Finding {
    pub connection: u32,
    pub episode: u64,
    pub steps: Vec<Step>,
    pub found: Found,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    pub episodes: u64,
    /// All differences. `findings` has one of each kind.
    pub count: u64,
    pub findings: Vec<Finding>,
}

/// The steps of an episode. The seed and the two numbers decide them.
pub fn steps_of(seed: u64, connection: u32, number: u64, ground: &Ground) -> Vec<Step> {
    let mut of_connection = Rng::new(seed ^ u64::from(connection) << 48);
    let mut rng = Rng::new(of_connection.u64() ^ number);
    episode(&mut rng, ground, STEPS)
}

fn ground(connection: u32, connections: u32) -> Ground {
    Ground { databases: [2 * connection, 2 * connection + 1], is_alone: connections == 1 }
}

/// Plays the episodes. An error: a server cannot be reached, or cannot be emptied at the start.
pub fn run(plan: &Plan, differences: &Differences, progress: impl Fn(u64) + Sync) -> io::Result<Outcome> {
    for address in [plan.servers.left, plan.servers.right] {
        Link::open(address)?.ask(&vec![b"FLUSHALL".to_vec()]);
    }
    let outcome = Mutex::new(Outcome::default());
    let (compared, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = |connection: u32| -> io::Result<()> {
        let ground = ground(connection, plan.connections);
        for number in plan.only.unwrap_or(0).. {
            let mut steps = steps_of(plan.seed, connection, number, &ground);
            steps.retain(|step| !plan.without.contains(&step.name()));
            let mut tally = Tally::default();
            let found = play(plan.servers, &ground, &steps, differences, &mut tally)?;
            let sum = compared.fetch_add(tally.total(), Ordering::Relaxed) + tally.total();
            progress(sum);
            let mut outcome = outcome.lock().expect("no thread panics while it holds this");
            outcome.tally.add(tally);
            outcome.episodes += 1;
            if let Some(found) = found {
                outcome.count += 1;
                // Commands that were sent together with it may be the reason.
                let end = steps.len().min(found.at + BATCH_MAX);
                let steps = steps[..end].to_vec();
                let finding = Finding { connection, episode: number, steps, found };
                let known: BTreeSet<String> = outcome.findings.iter().map(kind).collect();
                if !known.contains(&kind(&finding)) {
                    outcome.findings.push(finding);
                }
            }
            let is_enough = sum >= plan.commands || outcome.findings.len() >= plan.kinds_max;
            if is_enough || plan.only.is_some() {
                is_over.store(true, Ordering::Relaxed);
            }
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    };
    let ended: io::Result<Vec<()>> = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..plan.connections).map(|number| scope.spawn(move || work(number))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    ended?;
    let mut outcome = outcome.into_inner().expect("no thread panicked while it held this");
    // Only now, when no other connection sends commands.
    for finding in &mut outcome.findings {
        let ground = ground(finding.connection, plan.connections);
        let steps = std::mem::take(&mut finding.steps);
        (finding.steps, finding.found) =
            shrink(plan.servers, &ground, steps, finding.found.clone(), differences)?;
    }
    // Differences that seemed to be of several kinds may be of one.
    let mut kinds = BTreeSet::new();
    outcome.findings.retain(|finding| kinds.insert(kind(finding)));
    Ok(outcome)
}

/// Differences of one command with answers of the same beginning are one kind.
fn kind(finding: &Finding) -> String {
    let name = finding.steps.get(finding.found.at).map(Step::name).unwrap_or_default();
    let head = |answer: &str| answer.chars().take_while(|c| !c.is_ascii_digit()).take(24).collect::<String>();
    format!("{name} {} {}", head(&finding.found.left), head(&finding.found.right))
}
