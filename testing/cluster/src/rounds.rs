//! Rounds: kill some servers under load, wait until all is recovered and replicated again, and start the
//! killed servers again.

use crate::cluster::{Cluster, Frames, Options};
use crate::journal::value_bytes_mean;
use crate::load::{Load, Pace, Shape};
use crate::waiting::{Failure, pass};
use ramhold_base::Rng;
use ramhold_client::{Durability, RecoveryReport, TableOptions};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub servers: usize,
    /// Servers killed at the same moment in each round; fewer than the replicas.
    pub victims: usize,
    pub rounds: u32,
    pub replicas: u8,
    pub seed: u64,
    /// Before the servers die, the coordinator is killed, its directory is deleted, and the state is rebuilt
    /// from the servers.
    pub rebuild: bool,
    /// None: a few hundred keys per client, and a small load.
    pub gap: Option<Gap>,
}

/// Enough data and load to measure the clients' waits when servers die.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Spread over all servers, written before the first round.
    pub data_bytes: u64,
    /// A percentage of the peak rate, which the same clients reach when each begins an operation as soon as
    /// its last is answered. They keep this rate while operations wait for dead servers.
    pub rate_percent: u32,
}

/// Enough clients to keep all processors of a small machine busy, with one operation at a time each.
const GAP_CLIENTS: u64 = 8;
const FILL_WITHIN: Duration = Duration::from_secs(600);
const PEAK_FOR: Duration = Duration::from_secs(5);
/// Far longer than any recovery here.
const WAIT_WITHIN: Duration = Duration::from_secs(120);

/// A table that is made to see whether tables can be made.
const SMALL: TableOptions = TableOptions {
    durability: Durability::Buffered,
    replicas: 3,
    tablets: 4,
    slots: false,
    zone: None,
    quorum: None,
};

/// The results of one run of rounds.
#[derive(Debug, Default)]
pub struct Outcome {
    pub writes: u64,
    pub reads: u64,
    pub longest_gap: Duration,
    /// Sentences about lost or wrong data; empty when there is none.
    pub faults: Vec<String>,
    /// Writes that were not acknowledged, by the error text.
    pub troubles: Vec<String>,
    /// At the end, without load.
    pub frames: Frames,
    /// The time from the kill until everything was served again, per round.
    pub recovered: Vec<Duration>,
    /// The longest time from the start of any client's operation to its success, per round.
    pub waits: Vec<Duration>,
    /// Operations per second of all clients together: at their peak; begun while servers died; succeeded
    /// meanwhile.
    pub peak_per_second: u64,
    pub wanted_per_second: u64,
    pub rate_per_second: u64,
}

/// Runs the rounds; `tell` gets a line per round.
pub fn run(rounds: Rounds, mut tell: impl FnMut(&str)) -> Result<Outcome, Failure> {
    assert!(rounds.victims < usize::from(rounds.replicas));
    assert!(rounds.victims + usize::from(rounds.replicas) < rounds.servers);
    let mut rng = Rng::new(rounds.seed);
    let mut cluster = Cluster::start(rounds.options())?;
    // Heads that are being opened and segments under way, on each server, under load.
    let spare = 2 * u64::from(rounds.replicas) * rounds.servers as u64;
    let shape = rounds.gap.map_or_else(Shape::default, |gap| gap.shape());
    let load = Load::start_shaped(&cluster, "rounds", rounds.replicas, rounds.seed, shape)?;
    let mut outcome = Outcome::default();
    if let Some(gap) = rounds.gap {
        tell(&format!("writing {} keys, {} MB", shape.clients * shape.keys, gap.data_bytes / 1_000_000));
        pace(gap, &load, &mut outcome)?;
        tell(&format!(
            "{} operations/s at the peak of {} clients, {} from now on",
            outcome.peak_per_second, shape.clients, outcome.wanted_per_second
        ));
    }
    let (began, before) = (Instant::now(), load.done());
    let result = (1..=rounds.rounds).try_for_each(|round| {
        load.wait_acknowledged(500)?;
        let victims = choose_victims(&rounds, &cluster, &mut rng)?;
        load.wait_begun(WAIT_WITHIN)?;
        load.take_longest_wait();
        load.take_longest_read();
        if rounds.rebuild {
            let lost = Instant::now();
            cluster.rebuild_coordinator(&[]);
            load.wait_acknowledged(200)?;
            cluster.wait_up(rounds.servers)?;
            let rebuilt = lost.elapsed();
            // Making a table depends on the coordinator's state: the table's name and number are new.
            let name = format!("after {round}");
            cluster.client(WAIT_WITHIN)?.create_table(&name, TableOptions { replicas: rounds.replicas, ..SMALL })?;
            tell(&format!(
                "round {round}: the coordinator and its directory were lost, and were there again after {:.2} s; longest \
                 wait {:.2} s",
                rebuilt.as_secs_f64(),
                load.take_longest_wait().as_secs_f64()
            ));
        }
        let killed = Instant::now();
        cluster.kill_at_once(&victims);
        cluster.wait_counted(rounds.servers - rounds.victims)?;
        let noticed = killed.elapsed();
        cluster.wait_up(rounds.servers - rounds.victims)?;
        let recovered = killed.elapsed();
        outcome.recovered.push(recovered);
        let reports = cluster.recoveries(rounds.victims)?;
        let log_bytes: u64 = reports.iter().map(|report| report.bytes).sum();
        let last = |millis: fn(&RecoveryReport) -> Option<u64>| reports.iter().filter_map(millis).max();
        let complete = last(|report| report.complete_millis).unwrap_or_default();
        let live = last(|report| report.done_millis).unwrap_or_default();
        let frames = cluster.wait_replicated(spare)?;
        let replicated = killed.elapsed();
        load.wait_acknowledged(200)?;
        for victim in &victims {
            cluster.start_member(*victim);
        }
        cluster.wait_up(rounds.servers)?;
        load.wait_begun(WAIT_WITHIN)?;
        let wait = load.take_longest_wait();
        outcome.waits.push(wait);
        tell(&format!(
            "round {round}: killed {victims:?} with {} MB of log; noticed after {:.2} s, log complete {complete} ms \
             and all live {live} ms later, recovered and settled after {:.2} s, replicated after {:.2} s with {} frames in use for {} replicas; longest wait {:.2} s, of a \
             read {:.2} s; {} writes so far",
            log_bytes / 1_000_000,
            noticed.as_secs_f64(),
            recovered.as_secs_f64(),
            replicated.as_secs_f64(),
            frames.used,
            frames.wanted,
            wait.as_secs_f64(),
            load.take_longest_read().as_secs_f64(),
            load.acknowledged()
        ));
        Ok(())
    });
    outcome.rate_per_second = ((load.done() - before) as f64 / began.elapsed().as_secs_f64()) as u64;
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

/// With a small load any server. With much data only servers with at least half of an even share of it: a
/// server that was just restarted has no data whose loss a client could feel.
fn choose_victims(rounds: &Rounds, cluster: &Cluster, rng: &mut Rng) -> Result<Vec<usize>, Failure> {
    let mut members: Vec<usize> = match rounds.gap {
        None => (1..=rounds.servers).collect(),
        Some(_) => {
            let held = cluster.live_bytes()?;
            let even = held.iter().map(|(_, bytes)| bytes).sum::<u64>() / held.len() as u64;
            held.into_iter().filter(|(_, bytes)| *bytes >= even / 2).map(|(member, _)| member).collect()
        }
    };
    if members.len() < rounds.victims {
        return Err(Failure(format!("only {members:?} have much of the data")));
    }
    rng.shuffle(&mut members);
    members.truncate(rounds.victims);
    Ok(members)
}

/// Waits until the data is there, measures the peak, and lets the clients go on below it.
fn pace(gap: Gap, load: &Load, outcome: &mut Outcome) -> Result<(), Failure> {
    load.wait_begun(FILL_WITHIN)?;
    load.set_pace(Pace::Closed(Duration::ZERO));
    let (began, before) = (Instant::now(), load.done());
    pass(PEAK_FOR)?;
    let count = load.done() - before;
    let peak = count as f64 / began.elapsed().as_secs_f64();
    let rate = peak * f64::from(gap.rate_percent) / 100.0;
    if rate < 1.0 {
        return Err(Failure(format!("only {count} operations ended while the peak was measured")));
    }
    load.set_pace(Pace::Open(Duration::from_secs_f64(GAP_CLIENTS as f64 / rate)));
    outcome.peak_per_second = peak as u64;
    outcome.wanted_per_second = rate as u64;
    Ok(())
}

impl Rounds {
    fn options(&self) -> Options {
        let mut options = Options { servers: self.servers, ..Options::default() };
        if let Some(gap) = self.gap {
            // Room for an uneven spread over the remaining servers, and for data that is not cleaned yet.
            options.memory_bytes += 3 * gap.data_bytes / (self.servers - self.victims) as u64;
            options.disk_bytes += 4 * options.memory_bytes;
        }
        options
    }
}

impl Gap {
    fn shape(self) -> Shape {
        let keys = self.data_bytes.div_ceil(value_bytes_mean() * GAP_CLIENTS);
        Shape { clients: GAP_CLIENTS, keys, filled: true }
    }
}

/// The quantile by nearest rank, so it is a time that was measured. Zero when there is none.
pub fn quantile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=50).rev().map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 50), Duration::from_millis(25));
        assert_eq!(quantile(&times, 99), Duration::from_millis(50));
        assert_eq!(quantile(&times, 100), Duration::from_millis(50));
        assert_eq!(quantile(&times[..1], 50), Duration::from_millis(50));
        assert_eq!(quantile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn a_gap_has_as_much_data_as_was_asked_for() {
        let shape = Gap { data_bytes: 1_000_000_000, rate_percent: 30 }.shape();
        let bytes = shape.clients * shape.keys * value_bytes_mean();
        assert!((1_000_000_000..1_001_000_000).contains(&bytes), "{bytes}");
    }
}
