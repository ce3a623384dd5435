//! The recovery of a server by its six neighbours over slow cables: how fast they fetch together, and how even.

use crate::{P, SERVERS, TOPOLOGY};
use ramhold_base::ServerId;
use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Network, Options, Recordings, VALUE_BYTES, fill, verify};
use ramhold_wire::status::{PartReport, RecoveryPhase};
use ramhold_wire::topology::Topology;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const MEGABITS: u32 = 50;
/// The neighbourhoods of a server in BCube(4, 1).
const NEIGHBOURHOODS: usize = 6;
const TABLES_MOST: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(120);
/// The replicas that the dead server held are made anew meanwhile. That is to leave the cables to the recovery.
const COPY_RATE: &str = "256KiB";
/// Between two operations of a session that records a history. One value in sixteen is 64 KiB, and the cables are slow.
const SESSION_PAUSE: Duration = Duration::from_millis(20);
/// The history grows by this before the kill, and again after the recovery: some 500 operations.
const HISTORY_BYTES: u64 = 100_000;
const SAMPLE: Duration = Duration::from_millis(25);
/// Rates are of windows of so many samples.
const WINDOW: usize = 8;
/// The limits: the share of the ports of all recovery masters together, and the last one's time by the first one's.
const SHARE_LEAST: f64 = 0.61;
const UNEVEN_MOST: f64 = 2.4;

pub fn measure(megabits: u32, megabytes: u64, recordings: &Recordings) -> Result<bool, Failure> {
    let megabits = if megabits == 0 { MEGABITS } else { megabits };
    let topology: Topology = TOPOLOGY.parse().map_err(Failure)?;
    let network = Network::create_cube(&topology, Some(megabits))?;
    network.count_among_servers()?;
    let options = Options {
        servers: SERVERS,
        memory_bytes: 640 << 20,
        coordinator_options: &["--topology", TOPOLOGY, "--placement", "multiring"],
        // Six neighbourhoods of three replicas each.
        server_options: &["--buffers", "208MiB", "--copy-rate", COPY_RATE],
        ..Options::default()
    };
    let mut cluster = Cluster::start_in(network, options)?;
    let mut client = cluster.client(PATIENCE)?;
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 1,
        slots: false,
        zone: None,
        quorum: None,
    };
    let dead = cluster.entry(P)?.map(|entry| entry.id);
    let mut tables = tables_on(&mut client, dead, options)?;
    // One more, of which a history is recorded.
    let (_, of_history) = tables.pop().ok_or_else(|| Failure("no table for a history".into()))?;
    let tables: Vec<TableId> = tables.into_iter().map(|(table, _)| table).collect();
    let count = megabytes * 1_000_000 / VALUE_BYTES as u64 / tables.len() as u64;
    for table in &tables {
        fill(&mut client, *table, count)?;
    }
    cluster.wait_replicated(0)?;
    let mut recording = recordings.start_on(&cluster, "recovery", of_history, SESSION_PAUSE)?;
    recording.wait_progress(HISTORY_BYTES)?;

    let near: Vec<usize> =
        cluster.network().and_then(Network::cube).map_or_else(Vec::new, |cube| cube.near(P));
    let neighbours: Vec<_> = near
        .iter()
        .map(|member| Ok(cluster.entry(*member)?.map(|entry| entry.id)))
        .collect::<Result<_, Failure>>()?;
    let cube = cluster.network().and_then(Network::cube);
    let level = |member: &usize| cube.and_then(|cube| cube.shared_level(P, *member)).unwrap_or(0);
    let levels: Vec<usize> = near.iter().map(level).collect();
    cluster.kill(P);
    let began = Instant::now();
    let mut samples: Vec<(Duration, Vec<u64>)> = Vec::new();
    let recovery = loop {
        let received = cluster.network().map_or_else(|| Ok(Vec::new()), Network::received)?;
        // Feeders send on the other level than the one that a recovery master shares with the dead server.
        let fed = |(member, level): (&usize, &usize)| received[member - 1][1 - level];
        samples.push((began.elapsed(), near.iter().zip(&levels).map(fed).collect()));
        if samples.len().is_multiple_of(8)
            && let Some(newest) = cluster.recoveries(1)?.pop().filter(|r| r.phase == RecoveryPhase::Done)
        {
            break newest;
        }
        if began.elapsed() > PATIENCE {
            return Err(Failure(format!("not recovered\n{}", cluster.logs())));
        }
        std::thread::sleep(SAMPLE);
    };
    recording.note("kill -9 of a server", "00", began, "recovery")?;
    let live: Vec<&PartReport> = recovery.parts.iter().filter(|part| part.live.is_some()).collect();
    let by_neighbours = live.iter().all(|part| neighbours.contains(&Some(part.server)));
    let bytes: u64 = live.iter().map(|part| part.bytes).sum();
    let far: u64 = live.iter().filter_map(|part| part.times.far_bytes).sum();
    // When each recovery master had fetched the last of its partitions, in milliseconds after the verdict.
    let mut done: BTreeMap<_, u64> = BTreeMap::new();
    for part in &live {
        let at = done.entry(part.server).or_default();
        *at = (*at).max(part.accepted.unwrap_or(part.assigned) + part.times.fetched / 1000);
    }
    let (first, last) =
        (done.values().min().copied().unwrap_or(0), done.values().max().copied().unwrap_or(0));
    let peak = peak(&samples);
    let possible = near.len() as f64 * f64::from(megabits) / 8.0 * 1e6;
    let (share, uneven) = (peak / possible, last as f64 / first.max(1) as f64);
    println!(
        "recovery  {} MB of 00 by {} servers, {megabits} Mbit/s: peak {:.1} of {:.1} MB/s ({:.0} %), last/first {last}/{first} ms = {uneven:.2}",
        bytes / 1_000_000,
        done.len(),
        peak / 1e6,
        possible / 1e6,
        100.0 * share,
    );
    println!("recovery  from two hops away {far} B, by neighbours alone: {by_neighbours}");
    for (index, member) in near.iter().enumerate() {
        let label =
            cluster.network().and_then(Network::cube).map_or_else(String::new, |cube| cube.label(*member));
        println!("          {label}  {}", curve(&samples, index, possible / near.len() as f64));
    }
    for table in &tables {
        verify(&mut client, *table, count)?;
    }
    println!("recovery  all {} objects as they were written", count * tables.len() as u64);
    recording.wait_progress(HISTORY_BYTES)?;
    let judged = recording.judge()?;
    println!("recovery  history: {judged}");
    let crossed = cluster.network().map_or(Ok(0), Network::counted)?;
    let mut is_good = true;
    for (holds, what) in [
        (share >= SHARE_LEAST, "the recovery masters fetched too slowly"),
        (uneven <= UNEVEN_MOST, "some recovery masters took too long"),
        (by_neighbours && far == 0, "something was recovered from far, or elsewhere"),
        (judged.is_good(), "the history is not linearizable, or hardly a history"),
        (crossed == 0, "servers talk over the coordinator's network"),
    ] {
        if !holds {
            println!("WRONG: {what}");
            is_good = false;
        }
    }
    Ok(is_good)
}

/// Tables of one tablet each that the server has: one for each of its neighbourhoods, and one more. The other servers have
/// as many, and nothing is in them.
fn tables_on(
    client: &mut Client,
    server: Option<ServerId>,
    options: TableOptions,
) -> Result<Vec<(TableId, String)>, Failure> {
    let mut tables = Vec::new();
    for number in 0..TABLES_MOST {
        let name = format!("part-{number}");
        let table = client.create_table(&name, options.clone())?;
        if client.describe_table(&name)?.tablets.first().map(|tablet| tablet.owner) == server {
            tables.push((table, name));
        }
        if tables.len() == NEIGHBOURHOODS + 1 {
            return Ok(tables);
        }
    }
    Err(Failure(format!("of {TABLES_MOST} tables only {} are on one server", tables.len())))
}

/// The bytes that one of the servers, or all, received per second in the window that ends with a sample.
fn rate(samples: &[(Duration, Vec<u64>)], at: usize, of: Option<usize>) -> f64 {
    let sum = |sample: &Vec<u64>| of.map_or_else(|| sample.iter().sum(), |index| sample[index]);
    let (from, to) = (&samples[at - WINDOW], &samples[at]);
    (sum(&to.1) - sum(&from.1)) as f64 / (to.0 - from.0).as_secs_f64().max(1e-9)
}

fn peak(samples: &[(Duration, Vec<u64>)]) -> f64 {
    (WINDOW..samples.len()).map(|at| rate(samples, at, None)).fold(0.0, f64::max)
}

/// Ten steps from nothing to the rate of one port, a character for each window.
fn curve(samples: &[(Duration, Vec<u64>)], index: usize, full: f64) -> String {
    let steps = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
    let windows = (WINDOW..samples.len()).step_by(WINDOW).take(60);
    let step = |at: usize| (rate(samples, at, Some(index)) / full * 9.0).round().clamp(0.0, 9.0) as usize;
    windows.map(|at| steps[step(at)]).collect()
}
