//! A BCube(4, 1) of real processes: how soon a dead server is declared dead, that cables, ports and switches cost nobody,
//! what a recovery reaches, and what a write waits for and costs.
//!
//! Sixteen servers, each in a network namespace of its own, eight switches, and a bridge for the coordinator and clients,
//! which counts what servers send each other over it: nothing, or the run fails.

mod acks;
mod at_one;
mod capture;
mod peers;
mod recovery;
mod writes;

use clap::{Parser, ValueEnum};
use ramhold_cluster_tests::{
    Cluster, Failure, Finding, Load, Network, Options, interrupted, is_network_possible,
};
use ramhold_wire::topology::Topology;
use rustix::process::Signal;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TOPOLOGY: &str = "bcube:4,1";
const LEVELS: usize = 2;
const SERVERS: usize = 16;
/// The server at place 00, and a neighbour of it at level 0.
const P: usize = 1;
const R: usize = 2;
/// Longer than any verdict takes.
const VERDICT_WITHIN: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Break a BCube(4, 1) of real processes, and measure what that costs.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  cargo xtask bench bcube
  cargo xtask bench bcube --only dead --rounds 10
  cargo xtask bench bcube --only switch,port
  cargo xtask bench bcube --only acks,writes

Needs root, ip, nft and tc (packages iproute2 and nftables). `acks` and `writes`
need tcpdump, `acks` also mkfs.ext4 and fsfreeze, `writes` also memcached and
redis-server.")]
struct Arguments {
    /// Parts to run, with commas between them [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of `dead`.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Stops of each length in `paused`.
    #[arg(long, default_value_t = 50)]
    stops: u32,
    /// Cuts of each length in `paths`.
    #[arg(long, default_value_t = 10)]
    cuts: u32,
    /// Seconds for which a switch or a port is down.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The rate of both ends of each cable, in megabits per second; 0: as fast as it goes. `recovery` has 50 by itself.
    #[arg(long, default_value_t = 0)]
    megabits: u32,
    /// Megabytes of values of 4 KB on each server in `recovery`.
    #[arg(long, default_value_t = 64)]
    megabytes: u64,
    /// Seconds for each number of clients in `writes`.
    #[arg(long, default_value_t = 4)]
    write_seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// A server without any cable: how long until it is declared dead.
    Dead,
    /// A server that is stopped for a while.
    Paused,
    /// A switch that is down, under load.
    Switch,
    /// A port that is down, under load.
    Port,
    /// One path between two servers, and all of them.
    Paths,
    /// A server without its cables, but for the one to the coordinator.
    Isolated,
    /// The recovery of a server by its neighbours, over slow cables.
    Recovery,
    /// A write waits for its backups' acknowledgements, and no device.
    Acks,
    /// Writes to one server from 1 to 64 clients, beside memcached and redis-server.
    Writes,
}

const ALL: [Part; 6] = [Part::Paused, Part::Paths, Part::Switch, Part::Port, Part::Isolated, Part::Dead];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The network moves its thread into a namespace.
    match std::thread::spawn(move || run(&arguments)).join() {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(failure)) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted())
            .map_err(|error| Failure(format!("cannot watch for signals: {error}")))?;
    }
    is_network_possible()?;
    let only = &arguments.only;
    let is_asked = |part: Part| only.is_empty() || only.contains(&part);
    let mut is_good = true;
    if is_asked(Part::Recovery) {
        let (megabits, megabytes) = (arguments.megabits, arguments.megabytes);
        is_good &= apart(move || recovery::measure(megabits, megabytes))?;
    }
    if is_asked(Part::Acks) {
        is_good &= apart(acks::measure)?;
    }
    if is_asked(Part::Writes) {
        let seconds = arguments.write_seconds;
        is_good &= apart(move || writes::measure(seconds))?;
    }
    if ALL.into_iter().any(is_asked) {
        is_good &= run_faults(arguments)?;
    }
    Ok(is_good)
}

/// A part in a cluster of its own. A network moves its thread into it.
fn apart(measure: impl FnOnce() -> Result<bool, Failure> + Send + 'static) -> Result<bool, Failure> {
    let measured = std::thread::spawn(measure).join();
    measured.unwrap_or_else(|_| Err(Failure("the measurement has panicked".to_owned())))
}

fn run_faults(arguments: &Arguments) -> Result<bool, Failure> {
    let topology: Topology = TOPOLOGY.parse().map_err(Failure)?;
    let rate = Some(arguments.megabits).filter(|rate| *rate > 0);
    let network = Network::create_cube(&topology, rate)?;
    network.count_among_servers()?;
    let servers = SERVERS;
    let options = Options { servers, coordinator_options: &["--topology", TOPOLOGY], ..Options::default() };
    let cluster = Cluster::start_in(network, options)?;
    println!("{servers} servers in {TOPOLOGY}, {} Mbit/s on each cable", text_of(rate));
    println!("part      what                                  measured");
    let mut bench = Bench { cluster, servers, wrong: Vec::new() };
    let only = &arguments.only;
    for part in ALL.into_iter().filter(|part| only.is_empty() || only.contains(part)) {
        match part {
            Part::Dead => bench.dead(arguments.rounds)?,
            Part::Paused => bench.paused(arguments.stops)?,
            Part::Switch => bench.outage(arguments.seconds, true)?,
            Part::Port => bench.outage(arguments.seconds, false)?,
            Part::Paths => bench.paths(arguments.cuts)?,
            Part::Isolated => bench.isolated()?,
            Part::Recovery | Part::Acks | Part::Writes => {}
        }
    }
    let crossed = bench.network()?.counted()?;
    bench.row("network", "bytes between servers on the first bridge", &crossed.to_string());
    bench.expect(crossed == 0, "servers talk over the coordinator's network");
    for wrong in &bench.wrong {
        println!("WRONG: {wrong}");
    }
    Ok(bench.wrong.is_empty())
}

fn text_of(rate: Option<u32>) -> String {
    rate.map_or_else(|| "unshaped".to_owned(), |rate| rate.to_string())
}

struct Bench {
    cluster: Cluster,
    servers: usize,
    wrong: Vec<String>,
}

/// One kind of fault, done and undone.
type Fault<'a> = &'a dyn Fn(&Network) -> Result<(), Failure>;

impl Bench {
    fn network(&self) -> Result<&Network, Failure> {
        self.cluster.network().ok_or_else(|| Failure("there is no network".into()))
    }

    fn row(&self, part: &str, what: &str, measured: &str) {
        println!("{part:<9} {what:<44} {measured}");
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.wrong.push(what.to_owned());
        }
    }

    /// The number of servers that were declared dead since the start.
    fn deaths(&self) -> Result<u64, Failure> {
        // Recoveries are numbered. Old ones are forgotten.
        Ok(self.cluster.recoveries(1)?.first().map_or(0, |newest| newest.recovery.raw()))
    }

    /// Makes everything whole again: cables, and servers that were declared dead.
    fn mend(&mut self) -> Result<(), Failure> {
        self.network()?.heal()?;
        let began = Instant::now();
        loop {
            for (member, _) in self.cluster.take_ended() {
                self.cluster.start_member(member);
            }
            let up = self.cluster.status().map(|status| {
                status.servers.iter().filter(|entry| entry.state == ramhold_client::ServerState::Up).count()
            });
            if up.is_ok_and(|up| up == self.servers) {
                return self.cluster.wait_up(self.servers);
            }
            if began.elapsed() > Duration::from_secs(60) {
                return Err(Failure(format!("servers do not come back\n{}", self.cluster.logs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does something to the network for a while, and returns how many servers were declared dead for it.
    fn during(&mut self, fault: Fault<'_>, time: Duration) -> Result<u64, Failure> {
        let before = self.deaths()?;
        fault(self.network()?)?;
        std::thread::sleep(time);
        self.network()?.heal()?;
        // The consequences come within this time.
        std::thread::sleep(2 * SECOND);
        let dead = self.deaths()? - before;
        if dead > 0 {
            self.mend()?;
        }
        Ok(dead)
    }

    fn dead(&mut self, rounds: u32) -> Result<(), Failure> {
        let mut millis = Vec::new();
        for _ in 0..rounds {
            let before = self.deaths()?;
            let id = self.cluster.entry(P)?.ok_or_else(|| Failure("no server at 00".into()))?.id;
            let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            let network = self.network()?;
            network.plug(P, false)?;
            (0..LEVELS).try_for_each(|level| network.plug_level(P, level, false))?;
            let told = ramhold_cluster_tests::wait_for("the verdict", VERDICT_WITHIN, || {
                Ok(if self.deaths()? > before { Ok(()) } else { Err("it is still up".into()) })
            });
            told?;
            let recoveries = self.cluster.recoveries(1)?;
            let recovery = recoveries.first().ok_or_else(|| Failure("no recovery is told".into()))?;
            self.expect(recovery.crashed == id, "another server than P was declared dead");
            millis.push(recovery.detected.0.saturating_sub(began));
            self.mend()?;
        }
        millis.sort_unstable();
        let at = |share: usize| millis[(millis.len() * share / 100).min(millis.len() - 1)];
        let (median, high) = (at(50), at(99));
        let text = format!(
            "median {median} ms, p99 {high} ms, {} to {} ms, {rounds} rounds (most: 500, 700)",
            millis[0],
            millis[millis.len() - 1]
        );
        self.row("dead", "unplugged, until declared dead", &text);
        self.expect(median <= 500, "the median of verdicts is above 500 ms");
        self.expect(high <= 700, "p99 of verdicts is above 700 ms");
        Ok(())
    }

    fn paused(&mut self, stops: u32) -> Result<(), Failure> {
        for (millis, most) in [(150, Some(0)), (250, Some(0)), (500, None)] {
            let mut dead = 0;
            for round in 0..stops {
                let before = self.deaths()?;
                let member = 1 + round as usize % self.servers;
                let process = self.cluster.process(member);
                process.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(millis));
                process.signal(Signal::CONT);
                std::thread::sleep(Duration::from_millis(700));
                let now = self.deaths()? - before;
                dead += now;
                if now > 0 {
                    self.mend()?;
                }
            }
            let text = format!("{dead} of {stops} declared dead");
            self.row("paused", &format!("a process stopped for {millis} ms"), &text);
            self.expect(most.is_none_or(|most| dead <= most), "a process that stood still was declared dead");
        }
        Ok(())
    }

    fn paths(&mut self, cuts: u32) -> Result<(), Failure> {
        for levels in [&[0][..], &[0, 1][..]] {
            let cut = |network: &Network| network.cut_paths((P, R), levels);
            for time in [SECOND / 10, SECOND, 10 * SECOND] {
                let mut dead = 0;
                for _ in 0..cuts {
                    dead += self.during(&cut, time)?;
                }
                let what = if levels.len() == 1 { "one path" } else { "all paths" };
                let what = format!("{what} from 01 to 00 cut for {} s", time.as_secs_f32());
                self.row("paths", &what, &format!("{dead} of {cuts} declared dead"));
                self.expect(dead == 0, "a server was declared dead for a path");
            }
        }
        Ok(())
    }

    fn isolated(&mut self) -> Result<(), Failure> {
        let unplug =
            |network: &Network| (0..LEVELS).try_for_each(|level| network.plug_level(R, level, false));
        for (time, expected) in [(SECOND / 10, 0), (SECOND, 0), (10 * SECOND, 1)] {
            let dead = self.during(&unplug, time)?;
            let what = format!("01 without its cables for {} s", time.as_secs_f32());
            let cause = match dead {
                0 => String::new(),
                _ => self.cluster.recoveries(1)?.first().map_or(String::new(), |recovery| {
                    format!(", as {}", recovery.cause.split(':').next().unwrap_or_default())
                }),
            };
            self.row("isolated", &what, &format!("{dead} declared dead{cause}"));
            self.expect(dead == expected, "not the isolated server alone was declared dead");
        }
        Ok(())
    }

    /// A switch or a port that is down under load.
    fn outage(&mut self, seconds: u64, is_switch: bool) -> Result<(), Failure> {
        let part = if is_switch { "switch" } else { "port" };
        let before = self.deaths()?;
        let load = Load::start(&self.cluster, part, 3, 1)?;
        load.wait_acknowledged(500)?;
        let rate = |load: &Load, time: Duration| {
            let (begun, done) = (Instant::now(), load.done());
            std::thread::sleep(time);
            (load.done() - done) as f64 / begun.elapsed().as_secs_f64()
        };
        let usual = rate(&load, 5 * SECOND);
        load.take_longest_wait();
        let network = self.network()?;
        let name = network.cube().map_or_else(String::new, |cube| cube.switch_name(P, 0));
        match is_switch {
            true => network.power(P, 0, false)?,
            false => network.plug_level(P, 0, false)?,
        }
        let mut worst = f64::INFINITY;
        let mut outages = Vec::new();
        for second in 0..seconds {
            worst = worst.min(rate(&load, SECOND));
            if second + 1 == seconds {
                outages = self.cluster.status()?.outages.unwrap_or_default();
            }
        }
        let mean = worst;
        let network = self.network()?;
        network.heal()?;
        std::thread::sleep(SECOND);
        let after = rate(&load, 4 * SECOND);
        let longest = load.take_longest_wait();
        let table = load.table();
        let journal = load.stop()?;
        let findings: Vec<(String, Finding)> = journal.compare(&self.cluster, table)?;
        let dead = self.deaths()? - before;
        let told: Vec<String> = outages.iter().map(|standing| standing.outage.to_string()).collect();
        let what = if is_switch {
            format!("switch {name} down for {seconds} s")
        } else {
            format!("port of 00 at {name} down")
        };
        let text = format!(
            "{dead} declared dead, {} of {} writes lost, longest wait {:.0} ms, worst second {:.2} of before, {:.2} after",
            findings.len() + journal.violations.len(),
            journal.writes,
            longest.as_secs_f64() * 1000.0,
            mean / usual,
            after / usual
        );
        self.row(part, &what, &text);
        self.row(part, "told as", &told.join("; "));
        self.expect(dead == 0, "a server was declared dead for a cable or a switch");
        self.expect(findings.is_empty() && journal.violations.is_empty(), "writes were lost");
        self.expect(longest <= SECOND, "a client waited for more than a second");
        self.expect(mean / usual >= 0.6, "the throughput fell below 0.6");
        self.expect(after / usual >= 0.95, "the throughput did not come back within 5 s");
        let expected = if is_switch {
            format!("switch {name} down")
        } else {
            format!(
                "link down: {} on switch {name}",
                self.cluster.entry(P)?.map_or_else(String::new, |e| e.id.to_string())
            )
        };
        self.expect(told == [expected], "it was not told as one event");
        Ok(())
    }
}
