//! Kill some servers under load, wait until all is recovered and replicated again, bring them back; again and again.

use crate::cluster::{Cluster, Frames, Options};
use crate::load::Load;
use crate::waiting::Failure;
use ramhold_base::Rng;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub servers: usize,
    /// Servers killed at the same moment in each round; fewer than the replicas.
    pub victims: usize,
    pub rounds: u32,
    pub replicas: u8,
    pub seed: u64,
}

/// What one run of rounds came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub writes: u64,
    pub reads: u64,
    pub longest_gap: Duration,
    /// Sentences about what is lost or wrong; empty when all is well.
    pub faults: Vec<String>,
    /// Writes that ended otherwise than acknowledged, by what was said.
    pub troubles: Vec<String>,
    /// At the end, without load.
    pub frames: Frames,
    /// From the kill until everything was served again, per round.
    pub recovered: Vec<Duration>,
}

/// Runs them; `tell` gets a line per round.
pub fn run(rounds: Rounds, mut tell: impl FnMut(&str)) -> Result<Outcome, Failure> {
    assert!(rounds.victims < usize::from(rounds.replicas));
    assert!(rounds.victims + usize::from(rounds.replicas) < rounds.servers);
    let mut rng = Rng::new(rounds.seed);
    let mut cluster = Cluster::start(Options { servers: rounds.servers, ..Options::default() })?;
    // Opened heads and segments on their way, on each server, under load.
    let spare = 2 * u64::from(rounds.replicas) * rounds.servers as u64;
    let load = Load::start(&cluster, "rounds", rounds.replicas, rounds.seed)?;
    let mut outcome = Outcome::default();
    let result = (1..=rounds.rounds).try_for_each(|round| {
        load.wait_acknowledged(500)?;
        let mut members: Vec<usize> = (1..=rounds.servers).collect();
        rng.shuffle(&mut members);
        let victims = &members[..rounds.victims];
        let killed = Instant::now();
        for victim in victims {
            cluster.kill(*victim);
        }
        cluster.wait_counted(rounds.servers - rounds.victims)?;
        let noticed = killed.elapsed();
        cluster.wait_up(rounds.servers - rounds.victims)?;
        let recovered = killed.elapsed();
        outcome.recovered.push(recovered);
        let frames = cluster.wait_replicated(spare)?;
        let replicated = killed.elapsed();
        load.wait_acknowledged(200)?;
        for victim in victims {
            cluster.start_member(*victim);
        }
        cluster.wait_up(rounds.servers)?;
        tell(&format!(
            "round {round}: killed {victims:?}; noticed after {:.2} s, recovered after {:.2} s, \
             replicated after {:.2} s with {} frames in use for {} replicas; {} writes so far",
            noticed.as_secs_f64(),
            recovered.as_secs_f64(),
            replicated.as_secs_f64(),
            frames.used,
            frames.wanted,
            load.acknowledged()
        ));
        Ok(())
    });
    let table = load.table();
    let journal = load.stop()?;
    result.map_err(|failure: Failure| Failure(format!("seed {}: {failure}", rounds.seed)))?;
    outcome.frames = cluster.wait_replicated(0)?;
    outcome.faults = journal.violations.clone();
    for (key, finding) in journal.compare(&cluster, table)? {
        outcome.faults.push(format!("{key}: {finding:?}"));
    }
    for loss in cluster.status()?.losses {
        outcome.faults.push(format!("a loss is reported: {}", loss.reason));
    }
    outcome.writes = journal.writes;
    outcome.reads = journal.reads;
    outcome.longest_gap = journal.longest_gap;
    outcome.troubles = journal.troubles.iter().map(|(what, count)| format!("{count} {what}")).collect();
    Ok(outcome)
}
