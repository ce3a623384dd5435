//! Writes to one server with nine backups, from one client to many: how many a second, and what each costs the server.
//!
//! A client is a thread with a connection of its own and one write under way: Ramhold's own client, or one that speaks a
//! peer's protocol. Everything runs on the same processors, the clients and all sixteen servers. So writes by the clock
//! tell of the machine; writes per second of the server's processor time can be compared.
//!
//! Source: RAMCUBE 4, Fig. 5.

use crate::at_one::{self, KEY_BYTES, OPTIONS};
use crate::capture::Capture;
use crate::peers::{Peer, PeerClient, Running};
use crate::{LEVELS, P, SERVERS, TOPOLOGY};
use ramhold_base::{Rng, ServerId};
use ramhold_client::Durability;
use ramhold_cluster_tests::{Cluster, CpuTime, Failure, Network, Process, pass};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Kind, Opcode};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 100;
const KEYS: usize = 20_000;
const REPLICAS: u8 = 3;
const CLIENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Told only: where more clients change nothing any more.
const MORE_CLIENTS: [usize; 2] = [128, 256];
/// Writes whose packets are looked at.
const CAPTURED: usize = 500;
const PATIENCE: Duration = Duration::from_secs(60);
/// From the start of the clients to the start of a measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// The limits: writes per second of the primary's processor time; how much the last doubling of clients changes; the
/// processor time of a write without replicas by that of one with three.
const WRITES_LEAST: f64 = 26_000.0;
const DOUBLING_MOST: f64 = 0.10;
const RATIO_LEAST: f64 = 0.4;

/// A client: writes one object, and returns when that is answered.
type Set = Box<dyn FnMut(&str, &str) -> Result<(), Failure> + Send>;

/// The result of one number of clients.
#[derive(Clone, Copy, Debug)]
struct Reached {
    per_second: f64,
    /// Microseconds of processor time for each write.
    primary: f64,
    /// The part of it that is in the server's own code.
    own: f64,
    others: f64,
}

impl Reached {
    fn per_processor_second(&self) -> f64 {
        1e6 / self.primary.max(1e-9)
    }
}

pub fn measure(seconds: u64) -> Result<bool, Failure> {
    let topology: Topology = TOPOLOGY.parse().map_err(Failure)?;
    let network = Network::create_cube(&topology, None)?;
    network.count_among_servers()?;
    let cluster = Cluster::start_in(network, OPTIONS)?;
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!(
        "writes    set of {VALUE_BYTES} B, keys of {KEY_BYTES} B, {KEYS} keys, to 00 of {SERVERS} servers in {TOPOLOGY}; {seconds} s each"
    );
    println!(
        "writes    {cores} processors for the clients and all servers: compare processor time, not the clock"
    );
    println!(
        "writes    clients: a thread each with one write under way, Ramhold's native client and alike for peers"
    );

    let idle = idle_share(cluster.process(P), seconds)?;
    println!(
        "writes    the primary without clients uses {:.1} % of a processor, which is in ramhold's figures",
        100.0 * idle
    );
    let network = cluster.network().ok_or_else(|| Failure("there is no network".into()))?;
    // Peers come first, since one of them may be missing.
    let peers = peers(network, seconds)?;
    let (kept, bare) = ramhold(&cluster, seconds)?;
    Ok(judge(&kept, &bare, &peers, network.counted()?))
}

/// The part of a processor that a process uses while nobody asks it for anything.
fn idle_share(process: &Process, seconds: u64) -> Result<f64, Failure> {
    let before = process.cpu()?.total();
    pass(Duration::from_secs(seconds))?;
    Ok((process.cpu()?.total() - before).as_secs_f64() / seconds as f64)
}

/// The rate of each peer where the primary is.
fn peers(network: &Network, seconds: u64) -> Result<Vec<(Peer, Vec<Reached>)>, Failure> {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{number:0KEY_BYTES$}")).collect();
    let measure = |peer: Peer| {
        let running = Running::start(peer, network, P)?;
        let connect = || -> Result<Set, Failure> {
            let mut client = PeerClient::connect(peer, running.address)?;
            Ok(Box::new(move |key, value| client.set(key, value)))
        };
        let bench =
            Bench { title: peer.name(), seconds, keys: &keys, primary: &running.process, others: &[] };
        Ok((peer, bench.series(&CLIENTS, &connect)?))
    };
    [Peer::Memcached, Peer::Redis].into_iter().map(measure).collect()
}

/// The rate of the primary with replicas, and without.
fn ramhold(cluster: &Cluster, seconds: u64) -> Result<(Vec<Reached>, Vec<Reached>), Failure> {
    let others: Vec<&Process> = (1..=SERVERS).filter(|it| *it != P).map(|it| cluster.process(it)).collect();
    let mut admin = cluster.client(PATIENCE)?;
    let mut reached = Vec::new();
    for (name, durability, replicas) in [("r3", Durability::Buffered, REPLICAS), ("r0", Durability::None, 0)]
    {
        let table = at_one::table(&mut admin, name, (durability, replicas, 0))?;
        let keys = at_one::keys(&mut admin, name, P, KEYS)?;
        let keys: Vec<String> =
            keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect();
        let connect = || -> Result<Set, Failure> {
            let mut client = cluster.client(PATIENCE)?;
            Ok(Box::new(move |key, value| {
                client.put(table, key.as_bytes(), value.as_bytes())?;
                Ok(())
            }))
        };
        let title = format!("ramhold, R = {replicas}");
        let bench =
            Bench { title: &title, seconds, keys: &keys, primary: cluster.process(P), others: &others };
        if replicas == 0 {
            reached.push(bench.series(&CLIENTS, &connect)?);
            continue;
        }
        let before = appended(cluster, connect()?, &keys)?;
        reached.push(bench.series(&CLIENTS, &connect)?);
        println!("          more clients than asked:");
        bench.series(&MORE_CLIENTS, &connect)?;
        let backups = &before | &appended(cluster, connect()?, &keys)?;
        let near = at_one::near(cluster)?.intersection(&backups).count();
        println!(
            "writes    {title}: appends seen to {} of 9 servers two hops away ({}), to {near} others (asked: 0)",
            backups.len() - near,
            labels(cluster, &backups)?
        );
    }
    let bare = reached.pop().unwrap_or_default();
    Ok((reached.pop().unwrap_or_default(), bare))
}

fn judge(kept: &[Reached], bare: &[Reached], peers: &[(Peer, Vec<Reached>)], crossed: u64) -> bool {
    let last = |series: &[Reached]| series[series.len() - 1];
    let change = last(kept).per_second / kept[kept.len() - 2].per_second - 1.0;
    let by_processor = last(kept).per_processor_second();
    let by_clock = kept.iter().map(|reached| reached.per_second).fold(0.0, f64::max);
    let ratio = last(bare).primary / last(kept).primary;
    println!(
        "writes    R = {REPLICAS}: {by_processor:.0} writes per second of the primary's processor (asked: {WRITES_LEAST:.0})"
    );
    println!(
        "writes    R = {REPLICAS}: at most {by_clock:.0} writes/s by the clock (told; in the paper {WRITES_LEAST:.0} on one core of a server)"
    );
    println!(
        "writes    R = {REPLICAS}: the last doubling of clients changes writes/s by {:+.1} % (asked: at most {:.0} %)",
        100.0 * change,
        100.0 * DOUBLING_MOST
    );
    println!(
        "writes    processor time of a write, R = 0 by R = {REPLICAS}: {ratio:.2} (asked: at least {RATIO_LEAST})"
    );
    for (peer, series) in peers {
        let share = by_processor / last(series).per_processor_second();
        println!("writes    R = {REPLICAS} by {}, per processor second: {share:.2} (told)", peer.name());
    }
    let mut is_good = true;
    for (holds, what) in [
        (by_processor >= WRITES_LEAST, "too few writes per second of the primary's processor"),
        (change.abs() <= DOUBLING_MOST, "the last doubling of clients is no plateau"),
        (ratio >= RATIO_LEAST, "replicas cost the primary too much"),
        (crossed == 0, "servers talk over the coordinator's network"),
    ] {
        if !holds {
            println!("WRONG: {what}");
            is_good = false;
        }
    }
    is_good
}

/// One store to be measured.
struct Bench<'a> {
    title: &'a str,
    seconds: u64,
    keys: &'a [String],
    primary: &'a Process,
    others: &'a [&'a Process],
}

/// A look at the clock, the writes so far, and the processor time of the primary and of all other servers.
struct Look(Instant, u64, CpuTime, Duration);

impl Bench<'_> {
    /// Measures with each of these numbers of clients.
    fn series(
        &self,
        numbers: &[usize],
        connect: &dyn Fn() -> Result<Set, Failure>,
    ) -> Result<Vec<Reached>, Failure> {
        println!("writes    {}", self.title);
        println!(
            "          clients   writes/s   server us/write   in its own code   writes/CPU s   other servers us/write"
        );
        let mut series = Vec::new();
        for clients in numbers {
            let connected = (0..*clients).map(|_| connect()).collect::<Result<Vec<Set>, Failure>>()?;
            let reached = self.load(connected)?;
            println!(
                "          {clients:>7} {:>10.0} {:>17.1} {:>17.1} {:>14.0} {:>23.1}",
                reached.per_second,
                reached.primary,
                reached.own,
                reached.per_processor_second(),
                reached.others
            );
            series.push(reached);
        }
        Ok(series)
    }

    fn load(&self, clients: Vec<Set>) -> Result<Reached, Failure> {
        let (stops, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let value = "v".repeat(VALUE_BYTES);
        let (from, to) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, set) in (0u64..).zip(clients) {
                let (stops, done, value, keys) = (&stops, &done, &value, self.keys);
                threads.push(scope.spawn(move || client(number, set, (keys, value), stops, done)));
            }
            let looks = pass(WARM_UP).and_then(|()| {
                let from = self.look(&done)?;
                pass(Duration::from_secs(self.seconds))?;
                Ok((from, self.look(&done)?))
            });
            stops.store(true, Ordering::SeqCst);
            for thread in threads {
                thread.join().unwrap_or_else(|_| Err(Failure("a client has panicked".to_owned())))?;
            }
            looks
        })?;
        let writes = (to.1 - from.1).max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / writes;
        Ok(Reached {
            per_second: writes / (to.0 - from.0).as_secs_f64(),
            primary: each(to.2.total() - from.2.total()),
            own: each(to.2.own - from.2.own),
            others: each(to.3 - from.3),
        })
    }

    fn look(&self, done: &AtomicU64) -> Result<Look, Failure> {
        let others =
            self.others.iter().map(|process| process.cpu().map(CpuTime::total)).sum::<Result<_, _>>()?;
        Ok(Look(Instant::now(), done.load(Ordering::SeqCst), self.primary.cpu()?, others))
    }
}

/// Writes until it is to stop.
fn client(
    number: u64,
    mut set: Set,
    (keys, value): (&[String], &str),
    stops: &AtomicBool,
    done: &AtomicU64,
) -> Result<(), Failure> {
    let mut rng = Rng::new(number);
    while !stops.load(Ordering::Relaxed) {
        set(&keys[rng.below(keys.len() as u64) as usize], value)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The servers to which the primary sends appends now.
fn appended(cluster: &Cluster, mut set: Set, keys: &[String]) -> Result<BTreeSet<ServerId>, Failure> {
    let network = cluster.network().ok_or_else(|| Failure("there is no network".into()))?;
    let own = cluster.entry(P)?.map(|entry| entry.id);
    let capture = Capture::start(network, P, LEVELS)?;
    keys.iter().take(CAPTURED).try_for_each(|key| set(key, "v"))?;
    let frames = capture.stop()?.frames;
    let headers = frames.iter().map(|seen| &seen.header);
    let appends = headers.filter(|it| (it.opcode(), it.kind) == (Some(Opcode::Append), Kind::Request));
    Ok(appends.filter(|header| Some(header.sender) == own).map(|header| header.target).collect())
}

/// The places of these servers.
fn labels(cluster: &Cluster, ids: &BTreeSet<ServerId>) -> Result<String, Failure> {
    let mut labels = Vec::new();
    for server in 1..=SERVERS {
        let is_one = cluster.entry(server)?.is_some_and(|entry| ids.contains(&entry.id));
        let cube = cluster.network().and_then(Network::cube).filter(|_| is_one);
        labels.extend(cube.map(|cube| cube.label(server)));
    }
    Ok(labels.join(" "))
}
