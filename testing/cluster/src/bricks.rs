//! Bricks beside a cluster's coordinator: each is a process on a directory and a port of its own.
//!
//! A brick has a number from 1 on, as servers have. It keeps its port and directories over all its starts.
//!
//! Not here: the coordinator, servers, scratch directories (cluster).

use crate::cluster::{Cluster, Options, free_ports};
use crate::namespace::COORDINATOR;
use crate::network::Network;
use crate::process::{CpuTime, Process};
use crate::waiting::{Failure, wait_for};
use ramhold_client::{
    BrickPlace, Client, Durability, Error, QuorumOptions, TableId, TableOptions, WriteProtocol,
};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

/// The least memory of a brick.
pub const BRICK_MEMORY_MIN: u64 = 128 << 20;
/// The time limit from the start of a brick until it serves, on a busy machine.
const START_WITHIN: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(20);

pub struct Bricks {
    // Dropped before the cluster, which removes the directories.
    processes: Vec<Option<Process>>,
    /// The length of each brick's log when its present life began.
    log_starts: Vec<usize>,
    addresses: Vec<SocketAddr>,
    memory_bytes: u64,
    /// Each brick is the child of a supervisor with this limit.
    restart_limit: Option<String>,
    /// When the next lives of bricks serve: `preload` or `incremental`; none: as a brick does by default.
    pub restart_load: Option<&'static str>,
    restart_threshold: &'static str,
    pub cluster: Cluster,
}

impl Bricks {
    /// Starts a coordinator without servers, and bricks of the least memory.
    pub fn start(count: usize) -> Result<Bricks, Failure> {
        Bricks::start_beside(Options { servers: 0, ..Options::default() }, count, BRICK_MEMORY_MIN)
    }

    /// Like `start`, with a supervisor above each brick.
    pub fn start_supervised(count: usize, memory_bytes: u64, limit: &str) -> Result<Bricks, Failure> {
        let options = Options { servers: 0, ..Options::default() };
        Bricks::start_all(options, count, memory_bytes, Some((limit, "11")))
    }

    /// The same, with this number of statistics that make a brick anomalous, or `off`.
    pub fn start_supervised_at(
        count: usize,
        memory_bytes: u64,
        limit: &str,
        threshold: &'static str,
    ) -> Result<Bricks, Failure> {
        let options = Options { servers: 0, ..Options::default() };
        Bricks::start_all(options, count, memory_bytes, Some((limit, threshold)))
    }

    /// Starts a cluster, then bricks, and waits until the coordinator has heard all of them.
    pub fn start_beside(options: Options, count: usize, memory_bytes: u64) -> Result<Bricks, Failure> {
        Bricks::start_all(options, count, memory_bytes, None)
    }

    /// A coordinator without servers, and the first ones of so many bricks; `start_brick` starts the others.
    pub fn start_first(first: usize, count: usize, memory_bytes: u64) -> Result<Bricks, Failure> {
        let options = Options { servers: 0, ..Options::default() };
        Bricks::start_some(options, (first, count), memory_bytes, None)
    }

    fn start_all(
        options: Options,
        count: usize,
        memory_bytes: u64,
        supervision: Option<(&str, &'static str)>,
    ) -> Result<Bricks, Failure> {
        Bricks::start_some(options, (count, count), memory_bytes, supervision)
    }

    fn start_some(
        options: Options,
        (first, count): (usize, usize),
        memory_bytes: u64,
        supervision: Option<(&str, &'static str)>,
    ) -> Result<Bricks, Failure> {
        let cluster = Cluster::start(options)?;
        let ports = free_ports(count).into_iter();
        let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect();
        Bricks::start_at(cluster, addresses, first, memory_bytes, supervision)
    }

    /// A coordinator without servers, and bricks, in a network that was made for them: brick 1 is member 1.
    pub fn start_in(network: Network, count: usize, memory_bytes: u64) -> Result<Bricks, Failure> {
        Bricks::start_all_in(network, count, memory_bytes, None)
    }

    /// The same, with a supervisor above each brick.
    pub fn start_supervised_in(
        network: Network,
        count: usize,
        memory_bytes: u64,
        limit: &str,
    ) -> Result<Bricks, Failure> {
        Bricks::start_all_in(network, count, memory_bytes, Some((limit, "11")))
    }

    fn start_all_in(
        network: Network,
        count: usize,
        memory_bytes: u64,
        supervision: Option<(&str, &'static str)>,
    ) -> Result<Bricks, Failure> {
        let options = Options { servers: 0, ..Options::default() };
        let cluster = Cluster::start_in(network, options)?;
        let addresses = (1..=count).map(Network::address).collect();
        Bricks::start_at(cluster, addresses, count, memory_bytes, supervision)
    }

    fn start_at(
        cluster: Cluster,
        addresses: Vec<SocketAddr>,
        first: usize,
        memory_bytes: u64,
        supervision: Option<(&str, &'static str)>,
    ) -> Result<Bricks, Failure> {
        let count = addresses.len();
        let mut bricks = Bricks {
            processes: (0..count).map(|_| None).collect(),
            log_starts: vec![0; count],
            addresses,
            memory_bytes,
            restart_limit: supervision.map(|(limit, _)| limit.to_owned()),
            restart_load: None,
            restart_threshold: supervision.map_or("11", |(_, threshold)| threshold),
            cluster,
        };
        (1..=first).for_each(|brick| bricks.start_brick(brick));
        (1..=first).try_for_each(|brick| bricks.wait_serving(brick))?;
        bricks.wait_known(first)?;
        Ok(bricks)
    }

    pub fn count(&self) -> usize {
        self.addresses.len()
    }

    pub fn address(&self, brick: usize) -> SocketAddr {
        self.addresses[brick - 1]
    }

    pub fn data_dir(&self, brick: usize) -> PathBuf {
        self.cluster.scratch.dir().join(name(brick))
    }

    pub fn buffer_dir(&self, brick: usize) -> PathBuf {
        self.cluster.scratch.buffer_dir().join(name(brick))
    }

    /// The arguments of a brick's process.
    pub fn arguments(&self, brick: usize) -> Vec<OsString> {
        let end_with: [OsString; 2] = ["--end-with".into(), std::process::id().to_string().into()];
        let mut arguments: Vec<OsString> = match &self.restart_limit {
            None => [&["server".into()], &end_with[..]].concat(),
            Some(limit) => {
                let words = ["supervise", "--restart-limit", limit].map(OsString::from);
                [&words[..], &end_with, &["--".into(), "server".into()]].concat()
            }
        };
        arguments.push("--brick".into());
        let mut push = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        push("--dir", self.data_dir(brick).into());
        push("--bind", self.address(brick).to_string().into());
        push("--coordinator", self.cluster.address(COORDINATOR).to_string().into());
        push("--buffer-dir", self.buffer_dir(brick).into());
        push("--memory", self.memory_bytes.to_string().into());
        push("--disk", (4 * self.memory_bytes).to_string().into());
        push("--label", format!("host={}", name(brick)).into());
        push("--restart-threshold", self.restart_threshold.into());
        push("--admin", "127.0.0.1:0".into());
        if let Some(load) = self.restart_load {
            push("--restart-load", load.into());
        }
        if self.cluster.network().is_some() {
            arguments.push("--insecure-network".into());
        }
        arguments
    }

    pub fn log(&self, brick: usize) -> PathBuf {
        self.cluster.scratch.dir().join("logs").join(format!("{}.log", name(brick)))
    }

    /// Starts a brick that does not run. Call this from a thread that outlives the process.
    pub fn start_brick(&mut self, brick: usize) {
        let (arguments, log) = (self.arguments(brick), self.log(brick));
        let slot = &mut self.processes[brick - 1];
        assert!(slot.is_none(), "{} runs already", name(brick));
        self.log_starts[brick - 1] = std::fs::read_to_string(&log).map_or(0, |text| text.len());
        let start = || Process::start(&name(brick), &arguments, &log);
        *slot = Some(match self.cluster.network() {
            None => start(),
            Some(network) => network.within(brick, start).unwrap_or_else(|failure| panic!("{failure}")),
        });
    }

    pub fn process(&self, brick: usize) -> &Process {
        self.processes[brick - 1].as_ref().expect("the brick runs")
    }

    /// The process of a brick that has a supervisor; none while it is being restarted.
    pub fn supervised(&self, brick: usize) -> Option<Pid> {
        self.process(brick).children().first().copied()
    }

    /// Sends a signal to a brick that has a supervisor, and gives the number of its process.
    pub fn signal_supervised(&self, brick: usize, signal: Signal) -> Result<Pid, Failure> {
        let pid = self.supervised(brick).ok_or_else(|| Failure(format!("{} does not run", name(brick))))?;
        // Only its supervisor reaps it, so the number may at worst be nobody's.
        kill_process(pid, signal).map_err(|error| Failure(format!("{}: {error}", name(brick))))?;
        Ok(pid)
    }

    /// Waits until a brick with a supervisor has served in this number of lives.
    pub fn wait_restarted(&self, brick: usize, lives: usize) -> Result<(), Failure> {
        wait_for(&format!("{} serves in its next life", name(brick)), START_WITHIN, || {
            let printed = self.printed(brick);
            let served = printed.matches("serving as brick").count();
            Ok(if served >= lives { Ok(()) } else { Err(format!("{served} lives: {printed}")) })
        })
    }

    /// Everything that a brick has printed in its present life.
    pub fn printed(&self, brick: usize) -> String {
        self.process(brick).printed().split_off(self.log_starts[brick - 1])
    }

    /// The address at which a brick serves its metrics in its present life.
    pub fn admin_address(&self, brick: usize) -> Result<SocketAddr, Failure> {
        wait_for("the admin address", START_WITHIN, || {
            let printed = self.printed(brick);
            let found = printed.lines().find_map(|line| line.trim().strip_prefix("admin"));
            let address =
                found.and_then(|line| line.trim().strip_prefix("http://")?.split('/').next()?.parse().ok());
            Ok(address.ok_or(printed))
        })
    }

    /// Waits until a brick serves in its present life.
    pub fn wait_serving(&self, brick: usize) -> Result<(), Failure> {
        wait_for(&format!("{} serves", name(brick)), START_WITHIN, || {
            let printed = self.printed(brick);
            if let Some(status) = self.process(brick).ended() {
                return Err(Failure(format!("{} has ended: {status}\n{printed}", name(brick))));
            }
            Ok(if printed.contains("serving as brick") { Ok(()) } else { Err(printed) })
        })
    }

    /// Waits until the coordinator hears this number of bricks, and none of them is being rebuilt.
    pub fn wait_known(&self, count: usize) -> Result<(), Failure> {
        wait_for("bricks that the coordinator hears", START_WITHIN, || {
            let known = self.cluster.status()?.bricks;
            let heard = known.iter().filter(|it| it.heard_millis.is_some_and(|millis| millis < 2000));
            let whole = heard.filter(|it| it.rebuilding == 0).count();
            Ok(if whole == count { Ok(()) } else { Err(format!("{whole} of {count}: {known:?}")) })
        })
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self, brick: usize) {
        if let Some(process) = self.processes[brick - 1].take() {
            process.kill();
        }
    }

    /// Sends SIGKILL to all bricks before waiting for any.
    pub fn kill_all(&mut self) {
        self.processes.iter().flatten().for_each(|process| process.signal(Signal::KILL));
        (1..=self.count()).for_each(|brick| self.kill(brick));
    }

    /// Stops processes, or lets them go on.
    pub fn signal(&self, bricks: &[usize], signal: Signal) {
        bricks.iter().for_each(|brick| self.process(*brick).signal(signal));
    }

    /// Stops the coordinator, or lets it go on.
    pub fn signal_coordinator(&self, signal: Signal) {
        self.cluster.process(COORDINATOR).signal(signal);
    }

    /// Waits until a brick has ended by itself.
    pub fn wait_ended(&mut self, brick: usize, within: Duration) -> Result<ExitStatus, Failure> {
        let status = self.process(brick).wait_ended(within)?;
        self.processes[brick - 1] = None;
        Ok(status)
    }

    /// A client that is given a brick's address.
    pub fn client_of(&self, brick: usize, deadline: Duration) -> Result<Client, Error> {
        let options = ramhold_client::Options { deadline, connect_timeout: deadline, ..Default::default() };
        Client::connect_with(&[self.address(brick)], options)
    }

    /// Makes a quorum table with majorities of this number of bricks.
    pub fn create_table(&self, table: &str, bricks: u8) -> Result<TableId, Failure> {
        self.create_table_written(table, bricks, WriteProtocol::Adaptive)
    }

    /// Like `create_table`, with this protocol of writes.
    pub fn create_table_written(
        &self,
        table: &str,
        bricks: u8,
        protocol: WriteProtocol,
    ) -> Result<TableId, Failure> {
        let write = bricks / 2 + 1;
        let options = TableOptions {
            durability: Durability::Buffered,
            replicas: 0,
            tablets: 0,
            slots: false,
            zone: None,
            quorum: Some(QuorumOptions { bricks, write, read: bricks + 1 - write, protocol }),
        };
        Ok(self.cluster.client(PATIENCE)?.create_table(table, options)?)
    }

    /// All bricks of a table's tablets, without those that come twice.
    pub fn places(&self, client: &mut Client, table: &str) -> Result<Vec<BrickPlace>, Failure> {
        let tablets = client.describe_table(table)?.quorum.unwrap_or_default();
        let mut places: Vec<BrickPlace> = tablets.into_iter().flat_map(|tablet| tablet.bricks).collect();
        places.sort();
        places.dedup();
        Ok(places)
    }

    /// Runs the program with these words, at the coordinator.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the program can be started")
    }

    /// The program with these words, at the coordinator.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_at(self.cluster.address(COORDINATOR), words)
    }

    /// Runs the program with these words, at the process that listens there.
    pub fn run_at(&self, address: SocketAddr, words: &[&str]) -> Output {
        self.command_at(address, words).output().expect("the program can be started")
    }

    fn command_at(&self, address: SocketAddr, words: &[&str]) -> Command {
        let mut command = Command::new(crate::program());
        command.args(["--cluster", &address.to_string()]).args(words);
        command
    }

    /// Processor time of all bricks that run, each since its start.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        self.processes.iter().flatten().map(|process| process.cpu().map(CpuTime::total)).sum()
    }
}

impl Drop for Bricks {
    /// A brick outlives its supervisor's kill for a moment, and would write to directories that are being removed.
    fn drop(&mut self) {
        if self.restart_limit.is_none() {
            return;
        }
        let running = || self.processes.iter().flatten();
        // One that hangs would hold up its supervisor.
        running().flat_map(Process::children).for_each(|child| {
            let _ = kill_process(child, Signal::CONT);
        });
        running().for_each(|process| process.signal(Signal::TERM));
        running().for_each(|process| {
            let _ = process.wait_ended(STOP_WITHIN);
        });
    }
}

pub fn name(brick: usize) -> String {
    format!("brick-{brick}")
}
