//! Bricks beside a cluster's coordinator: each is a process on a directory and a port of its own.
//!
//! A brick has a number from 1 on, as servers have. It keeps its port and directories over all its starts.
//!
//! Not here: the coordinator, servers, scratch directories (cluster).

use crate::cluster::{Cluster, Options, free_ports};
use crate::namespace::COORDINATOR;
use crate::process::{CpuTime, Process};
use crate::waiting::{Failure, wait_for};
use ramhold_client::{
    BrickPlace, Client, Durability, Error, QuorumOptions, TableId, TableOptions, WriteProtocol,
};
use rustix::process::Signal;
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

pub struct Bricks {
    // Dropped before the cluster, which removes the directories.
    processes: Vec<Option<Process>>,
    /// The length of each brick's log when its present life began.
    log_starts: Vec<usize>,
    addresses: Vec<SocketAddr>,
    memory_bytes: u64,
    pub cluster: Cluster,
}

impl Bricks {
    /// Starts a coordinator without servers, and bricks of the least memory.
    pub fn start(count: usize) -> Result<Bricks, Failure> {
        Bricks::start_beside(Options { servers: 0, ..Options::default() }, count, BRICK_MEMORY_MIN)
    }

    /// Starts a cluster, then bricks, and waits until the coordinator has heard all of them.
    pub fn start_beside(options: Options, count: usize, memory_bytes: u64) -> Result<Bricks, Failure> {
        let cluster = Cluster::start(options)?;
        let ports = free_ports(count).into_iter();
        let mut bricks = Bricks {
            processes: (0..count).map(|_| None).collect(),
            log_starts: vec![0; count],
            addresses: ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect(),
            memory_bytes,
            cluster,
        };
        (1..=count).for_each(|brick| bricks.start_brick(brick));
        (1..=count).try_for_each(|brick| bricks.wait_serving(brick))?;
        bricks.wait_known(count)?;
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
        let mut arguments: Vec<OsString> = vec!["server".into(), "--brick".into()];
        let mut push = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        push("--dir", self.data_dir(brick).into());
        push("--bind", self.address(brick).to_string().into());
        push("--end-with", std::process::id().to_string().into());
        push("--coordinator", self.cluster.address(COORDINATOR).to_string().into());
        push("--buffer-dir", self.buffer_dir(brick).into());
        push("--memory", self.memory_bytes.to_string().into());
        push("--disk", (4 * self.memory_bytes).to_string().into());
        push("--label", format!("host={}", name(brick)).into());
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
        *slot = Some(Process::start(&name(brick), &arguments, &log));
    }

    pub fn process(&self, brick: usize) -> &Process {
        self.processes[brick - 1].as_ref().expect("the brick runs")
    }

    /// Everything that a brick has printed in its present life.
    pub fn printed(&self, brick: usize) -> String {
        self.process(brick).printed().split_off(self.log_starts[brick - 1])
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
        self.run_at(self.cluster.address(COORDINATOR), words)
    }

    /// Runs the program with these words, at the process that listens there.
    pub fn run_at(&self, address: SocketAddr, words: &[&str]) -> Output {
        let address = address.to_string();
        let output = Command::new(crate::program()).args(["--cluster", &address]).args(words).output();
        output.expect("the program can be started")
    }

    /// Processor time of all bricks that run, each since its start.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        self.processes.iter().flatten().map(|process| process.cpu().map(CpuTime::total)).sum()
    }
}

pub fn name(brick: usize) -> String {
    format!("brick-{brick}")
}
