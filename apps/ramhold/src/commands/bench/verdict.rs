//! `bench verdict`: the time from a server's death until the coordinator knows of it for certain, and the
//! number of living servers that the coordinator declares dead.
//!
//! Catalogue: F1, F7, F11.

mod stage;

use super::busy::Busy;
use super::load::{self, Load, Servers};
use super::machine;
use crate::failure::{Failure, REFUSED};
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use crate::size::parse_duration;
use clap::Args;
use ramhold_base::Rng;
use ramhold_client::{Durability, TableOptions};
use serde_json::{Value, json};
use stage::{Setting, Stage};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const AIM: Duration = Duration::from_millis(500);
const OBJECTS: u64 = 1000;
const TABLETS_PER_SERVER: u32 = 2;
const REPLICAS: u8 = 2;
/// A death may come at any moment between two pings of a server.
const PING_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at the coordinator's record in a soak: it keeps far more recoveries than come meanwhile.
const SOAK_LOOK_INTERVAL: Duration = Duration::from_millis(100);
const SOAK_TELL_INTERVAL: Duration = Duration::from_secs(60);

const HELP: &str = "\
Examples:
  ramhold bench verdict
  ramhold bench verdict --rounds 50 --busy 2
      while two threads compute all the time
  ramhold bench verdict --soak 1h
      no server is killed, every processor is kept busy

The command starts a cluster of its own with little data. In each round it kills
a server (SIGKILL) at a random moment. The time counts until the coordinator,
which pings the suspect itself, has declared the server dead. Then the server is
started again. The next round begins when nothing is left to recover.

A false verdict declares a server dead that was not killed. One false verdict is
enough for exit code 3.

'gap' is the longest delay with which a thread woke up after sleeping for a
millisecond. 'steal' is processor time that the host took from this virtual
machine. A server without processor time cannot answer.";

/// Measure how fast a dead server is declared dead.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Verdict {
    /// Number of servers to kill, one after the other.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Number of servers.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(4..=64))]
    servers: u16,
    /// Kill no server, and count false verdicts for this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rounds")]
    soak: Option<Duration>,
    /// Threads of normal priority that compute all the time [default: 0; with --soak one per processor]
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(0..=1024))]
    busy: Option<u16>,
    /// Seed of the choice of servers and moments [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Parent directory of the cluster's files, which are removed at the end [default: the system's
    /// directory for temporary files]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Keep the cluster's files and logs.
    #[arg(long)]
    keep: bool,
}

/// The results, told at the end.
struct Outcome {
    seed: u64,
    busy: u16,
    took: Duration,
    /// From each kill to the verdict.
    verdicts: Vec<Duration>,
    false_verdicts: Vec<String>,
    cleared: u64,
    gap: Duration,
    steal: Option<f64>,
}

impl Verdict {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        interrupt::watch()?;
        let mut stage = Stage::set(&Setting {
            servers: self.servers,
            work_dir: self.work_dir.as_deref(),
            keeps: self.keep,
        })?;
        let result = self.play(&mut stage, global);
        stage.clear_away();
        let outcome = result?;
        if global.json {
            output::print_json(&self.json(&outcome))?;
        } else {
            output::print(&self.text(&outcome))?;
        }
        match outcome.false_verdicts.len() {
            0 => Ok(()),
            count => Err(Failure::new(REFUSED, format!("{count} living servers were declared dead"))),
        }
    }

    fn play(&self, stage: &mut Stage, global: &Global) -> Result<Outcome, Failure> {
        let mut progress = Progress::new("measuring", global.json);
        progress.show_text(|| format!("starting {} servers", self.servers));
        stage.start()?;
        fill(&stage.global(global), u32::from(self.servers) * TABLETS_PER_SERVER)?;
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get() as u16);
        let count = self.busy.unwrap_or_else(|| if self.soak.is_some() { processors() } else { 0 });
        let busy = Busy::start(count).map_err(|e| Failure::usage(format!("cannot start threads: {e}")))?;
        progress.finish();
        let tell = |line: &str| {
            if !global.json {
                progress.tell(line);
            }
        };
        let (before, began) = (machine::Times::now(), Instant::now());
        let verdicts = match self.soak {
            Some(time) => self.soak(stage, time, &busy, &tell).map(|()| Vec::new()),
            None => self.rounds(stage, &mut Rng::new(seed), &tell),
        }?;
        Ok(Outcome {
            seed,
            busy: count,
            took: began.elapsed(),
            verdicts,
            false_verdicts: stage.false_verdicts().iter().map(|(id, why)| format!("{id}: {why}")).collect(),
            cleared: stage.cleared()?,
            gap: busy.longest_gap(),
            steal: machine::steal_percent(before, machine::Times::now()),
        })
    }

    fn rounds(
        &self,
        stage: &mut Stage,
        rng: &mut Rng,
        tell: &dyn Fn(&str),
    ) -> Result<Vec<Duration>, Failure> {
        let mut verdicts = Vec::new();
        for round in 1..=self.rounds {
            std::thread::sleep(Duration::from_micros(rng.below(PING_INTERVAL.as_micros() as u64)));
            let member = rng.between(1, u64::from(self.servers)) as usize;
            let verdict = stage.kill(member)?;
            verdicts.push(verdict);
            stage.wait_whole()?;
            let count = stage.false_verdicts().len();
            tell(&format!(
                "round {round}: killed server-{member}, verdict after {}; {count} false verdicts so far",
                millis(verdict)
            ));
        }
        Ok(verdicts)
    }

    fn soak(
        &self,
        stage: &mut Stage,
        time: Duration,
        busy: &Busy,
        tell: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut told = began;
        while began.elapsed() < time {
            interrupt::check()?;
            stage.look()?;
            if told.elapsed() >= SOAK_TELL_INTERVAL {
                told = Instant::now();
                tell(&format!(
                    "{} s: {} false verdicts, {} suspicions cleared, longest gap {}",
                    began.elapsed().as_secs(),
                    stage.false_verdicts().len(),
                    stage.cleared()?,
                    millis(busy.longest_gap())
                ));
            }
            std::thread::sleep(SOAK_LOOK_INTERVAL);
        }
        stage.look()
    }

    fn text(&self, outcome: &Outcome) -> String {
        let took = outcome.took.as_secs();
        let mut lines = match Quantiles::of(&outcome.verdicts) {
            None => vec![format!("soak         {took} s, nobody killed")],
            Some(q) => vec![
                format!(
                    "killed       {} times one of {} servers, in {took} s (seed {})",
                    outcome.verdicts.len(),
                    self.servers,
                    outcome.seed
                ),
                format!(
                    "verdict      p50 {}, p99 {}, max {} after the kill",
                    millis(q.p50),
                    millis(q.p99),
                    millis(q.max)
                ),
                format!("aim          p99 at most {}: {}", millis(AIM), aim_text(q.p99)),
            ],
        };
        lines.push(format!(
            "false        {} living servers declared dead; {} suspicions cleared",
            outcome.false_verdicts.len(),
            outcome.cleared
        ));
        lines.extend(outcome.false_verdicts.iter().map(|text| format!("             {text}")));
        let steal = outcome.steal.map(|steal| format!(", steal {steal:.1} %")).unwrap_or_default();
        let (busy, gap) = (outcome.busy, millis(outcome.gap));
        lines.push(format!("machine      {busy} threads computing, longest gap {gap}{steal}"));
        lines.join("\n") + "\n"
    }

    fn json(&self, outcome: &Outcome) -> Value {
        let quantiles = Quantiles::of(&outcome.verdicts);
        let seconds = |of: fn(&Quantiles) -> Duration| quantiles.as_ref().map(|q| of(q).as_secs_f64());
        json!({
            "servers": self.servers,
            "rounds": outcome.verdicts.len(),
            "seconds": outcome.took.as_secs_f64(),
            "seed": outcome.seed,
            "p50_seconds": seconds(|q| q.p50),
            "p99_seconds": seconds(|q| q.p99),
            "max_seconds": seconds(|q| q.max),
            "aim_p99_seconds": AIM.as_secs_f64(),
            "verdict_seconds": outcome.verdicts.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "false_verdicts": outcome.false_verdicts,
            "cleared": outcome.cleared,
            "busy_threads": outcome.busy,
            "longest_gap_seconds": outcome.gap.as_secs_f64(),
            "steal_percent": outcome.steal,
        })
    }
}

/// So that there is something to recover.
fn fill(global: &Global, tablets: u32) -> Result<(), Failure> {
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: REPLICAS,
        tablets,
        slots: false,
        zone: None,
        quorum: None,
    };
    let table = global.connect()?.create_table("bench", options)?;
    let load = Load::filling(table, OBJECTS, 30, 100, 0);
    let filled = load::fill(&load, Servers::Native(global))?;
    match filled.errors.first_key_value() {
        None => Ok(()),
        Some((error, count)) => Err(Failure::usage(format!("{count} objects could not be written: {error}"))),
    }
}

/// By nearest rank: each is a time that was measured.
#[derive(Debug, PartialEq, Eq)]
struct Quantiles {
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Quantiles {
    fn of(times: &[Duration]) -> Option<Quantiles> {
        let mut times = times.to_vec();
        times.sort();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Quantiles { p50: at(50)?, p99: at(99)?, max: at(100)? })
    }
}

fn aim_text(p99: Duration) -> &'static str {
    if p99 <= AIM { "reached" } else { "falls short" }
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        let expected = Quantiles {
            p50: Duration::from_millis(100),
            p99: Duration::from_millis(198),
            max: Duration::from_millis(200),
        };
        assert_eq!(Quantiles::of(&times), Some(expected));
        let one = Duration::from_millis(7);
        assert_eq!(Quantiles::of(&[one]), Some(Quantiles { p50: one, p99: one, max: one }));
        assert_eq!(Quantiles::of(&[]), None);
    }

    // F1
    #[test]
    fn the_aim_is_told_as_reached_or_not() {
        assert_eq!(aim_text(AIM), "reached");
        assert_eq!(aim_text(AIM + Duration::from_millis(1)), "falls short");
    }
}
