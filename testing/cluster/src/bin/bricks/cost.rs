//! Times and processor time of one operation, in a quorum table and in an ordinary buffered one with R = 3.
//!
//! One client, one operation at a time, in turns, so that both tables meet the same state of the machine. All processes
//! run all the time. An operation is charged with the processor time of its own side, bricks or servers, and the client's.

use crate::figures::{Figures, Times};
use crate::stage::PATIENCE;
use ramhold_base::Rng;
use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, CpuTime, Failure, Options, pass};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
const BRICKS: usize = 3;
const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 100;
const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
const NAMES: [&str; 2] = ["get", "put"];
/// The median of a get, and of a put, by that of the ordinary table.
const RATIOS_MOST: [f64; 2] = [1.5, 1.0];

#[derive(Default)]
struct Measured {
    times: Times,
    /// The bricks' or servers' own, and the client's.
    process_cpu: Duration,
    client_cpu: Duration,
    lasted: Duration,
}

pub fn measure() -> Result<bool, Failure> {
    let mut figures = Figures::new("cost", true);
    let options = Options { servers: SERVERS, memory_bytes: 256 << 20, ..Options::default() };
    let bricks = Bricks::start_beside(options, BRICKS, BRICK_MEMORY_MIN)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    let ordinary = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let tables = [
        ("quorum 3", bricks.create_table("quorum", 3)?),
        ("R = 3", client.create_table("ordinary", ordinary)?),
    ];
    let value = vec![b'v'; VALUE_BYTES];
    for (_, table) in tables {
        (0..KEYS).try_for_each(|key| client.put(table, &name(key), &value).map(|_| ()))?;
    }
    let idle = [cpu(&bricks, true)?, cpu(&bricks, false)?];
    pass(ROUND)?;
    let share = |at: usize, now: Duration| 100.0 * (now - idle[at]).as_secs_f64() / ROUND.as_secs_f64();
    let idle_shares = [share(0, cpu(&bricks, true)?), share(1, cpu(&bricks, false)?)];
    let mut measured: [[Measured; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for is_put in [false, true] {
            for (at, (_, table)) in tables.into_iter().enumerate() {
                let into = &mut measured[at][usize::from(is_put)];
                let value = is_put.then_some(&value[..]);
                one_round(&bricks, (&mut client, table), value, at == 0, into)?;
            }
        }
    }
    figures.tell("one client, one operation at a time", &format!("{KEYS} keys, values of {VALUE_BYTES} B"));
    let mut medians = [[Duration::ZERO; 2]; 2];
    for (at, (title, _)) in tables.into_iter().enumerate() {
        figures.tell(
            &format!("{title}: its processes without clients"),
            &format!("{:.1} % of a processor, in the figures below", idle_shares[at]),
        );
        for (is_put, measured) in std::mem::take(&mut measured[at]).into_iter().enumerate() {
            medians[at][is_put] = tell(&figures, &format!("{title}: {}", NAMES[is_put]), measured);
        }
    }
    for (is_put, name) in NAMES.into_iter().enumerate() {
        let ratio = medians[0][is_put].as_secs_f64() / medians[1][is_put].as_secs_f64();
        let most = RATIOS_MOST[is_put];
        figures.check(
            &format!("{name}: p50 by that with R = 3"),
            &format!("{ratio:.2}"),
            &format!("{most}"),
            ratio <= most,
        );
    }
    Ok(figures.is_good)
}

fn name(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// Processor time of all bricks, or of all servers and the coordinator.
fn cpu(bricks: &Bricks, of_bricks: bool) -> Result<Duration, Failure> {
    if of_bricks {
        return bricks.cpu();
    }
    (0..=SERVERS).map(|member| bricks.cluster.process(member).cpu().map(CpuTime::total)).sum()
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Gets, or puts of a value.
fn one_round(
    bricks: &Bricks,
    (client, table): (&mut Client, TableId),
    value: Option<&[u8]>,
    of_bricks: bool,
    into: &mut Measured,
) -> Result<(), Failure> {
    let mut rng = Rng::new(into.times.count());
    let (cpu_before, own_before, began) = (cpu(bricks, of_bricks)?, own_cpu(), Instant::now());
    while began.elapsed() < ROUND {
        let (key, start) = (name(rng.below(KEYS)), Instant::now());
        match value {
            Some(value) => drop(client.put(table, &key, value)?),
            None => drop(client.get(table, &key)?.ok_or_else(|| Failure("a key is not there".to_owned()))?),
        }
        into.times.add(start.elapsed());
    }
    into.lasted += began.elapsed();
    into.process_cpu += cpu(bricks, of_bricks)? - cpu_before;
    into.client_cpu += own_cpu() - own_before;
    Ok(())
}

/// Returns the median.
fn tell(figures: &Figures, what: &str, measured: Measured) -> Duration {
    let Measured { times, process_cpu, client_cpu, lasted } = measured;
    let count = times.count().max(1) as f64;
    let rate = count / lasted.as_secs_f64();
    let sorted = times.sorted();
    let (middle, high) = (sorted.quantile(500), sorted.quantile(990));
    let each = |time: Duration| 1e6 * time.as_secs_f64() / count;
    figures.tell(
        what,
        &format!(
            "p50 {} µs, p99 {} µs, {rate:.0}/s; processor {:.1} µs in its processes, {:.1} µs in the client",
            middle.as_micros(),
            high.as_micros(),
            each(process_cpu),
            each(client_cpu)
        ),
    );
    middle
}
