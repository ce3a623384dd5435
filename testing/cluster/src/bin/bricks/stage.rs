//! The processes that are killed and stopped: bricks, or the servers of ordinary tables.

use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{Bricks, Cluster, End, Failure, Network, Options, between, wait_for};
use rustix::process::Signal;
use std::time::Duration;

pub const MEMBERS: usize = 6;
const REPLICA_COUNT: u8 = 3;
pub const QUORUM: u8 = 3;
/// So many tablets that each server has some.
const TABLET_COUNT: u32 = 21;
pub const PATIENCE: Duration = Duration::from_secs(10);
const MEMORY_BYTES: u64 = 512 << 20;
const START_WITHIN: Duration = Duration::from_secs(60);

pub enum Stage {
    Bricks(Bricks),
    Servers(Cluster),
}

impl Stage {
    pub fn start(is_quorum: bool) -> Result<Stage, Failure> {
        if is_quorum {
            let options = Options { servers: 0, ..Options::default() };
            return Ok(Stage::Bricks(Bricks::start_beside(options, MEMBERS, MEMORY_BYTES)?));
        }
        let options = Options { servers: MEMBERS, memory_bytes: MEMORY_BYTES, ..Options::default() };
        Ok(Stage::Servers(Cluster::start(options)?))
    }

    /// Bricks in a network of their own. This thread is then where their clients are.
    pub fn start_in_network() -> Result<Stage, Failure> {
        let network = Network::create(MEMBERS + 1)?;
        Ok(Stage::Bricks(Bricks::start_in(network, MEMBERS, MEMORY_BYTES)?))
    }

    fn network(&self) -> Result<&Network, Failure> {
        self.cluster().network().ok_or_else(|| Failure("the members have no network of their own".into()))
    }

    /// From now on all packets from and to a member are lost.
    pub fn cut_off(&self, member: usize) -> Result<(), Failure> {
        let others = (0..=MEMBERS).filter(|other| *other != member).map(End::Member);
        self.network()?.cut(&between(member, others.chain([End::Clients])))
    }

    /// No packet is lost any more.
    pub fn heal(&self) -> Result<(), Failure> {
        self.network()?.heal()
    }

    pub fn cluster(&self) -> &Cluster {
        match self {
            Stage::Bricks(bricks) => &bricks.cluster,
            Stage::Servers(cluster) => cluster,
        }
    }

    pub fn client(&self) -> Result<Client, Failure> {
        self.cluster().client(PATIENCE)
    }

    pub fn create_table(&self, name: &str) -> Result<TableId, Failure> {
        match self {
            Stage::Bricks(bricks) => bricks.create_table(name, QUORUM),
            Stage::Servers(cluster) => {
                let options = TableOptions {
                    durability: Durability::Buffered,
                    replicas: REPLICA_COUNT,
                    tablets: TABLET_COUNT,
                    slots: false,
                    zone: None,
                    quorum: None,
                };
                Ok(cluster.client(PATIENCE)?.create_table(name, options)?)
            }
        }
    }

    /// Returns when the process is gone.
    pub fn kill(&mut self, member: usize) {
        match self {
            Stage::Bricks(bricks) => bricks.kill(member),
            Stage::Servers(cluster) => cluster.kill(member),
        }
    }

    /// Starts a member that was killed, and waits until it serves again.
    pub fn start_again(&mut self, member: usize) -> Result<(), Failure> {
        match self {
            Stage::Bricks(bricks) => {
                bricks.start_brick(member);
                bricks.wait_serving(member)
            }
            Stage::Servers(cluster) => {
                cluster.start_member(member);
                let lives = || cluster.process(member).printed().matches("serving as").count();
                // It cannot serve this soon.
                let before = lives();
                // Its former life is recovered meanwhile.
                wait_for("the server serves again", START_WITHIN, || {
                    let count = lives();
                    Ok(if count > before { Ok(()) } else { Err(format!("it served in {count} lives")) })
                })?;
                cluster.wait_up(MEMBERS)
            }
        }
    }

    pub fn signal(&self, member: usize, signal: Signal) {
        match self {
            Stage::Bricks(bricks) => bricks.signal(&[member], signal),
            Stage::Servers(cluster) => cluster.process(member).signal(signal),
        }
    }

    /// Bricks need no coordinator: stops it, or lets it go on.
    pub fn signal_coordinator(&self, signal: Signal) {
        if let Stage::Bricks(bricks) = self {
            bricks.signal_coordinator(signal);
        }
    }

    /// Waits until everything is up again.
    pub fn wait_whole(&self) -> Result<(), Failure> {
        match self {
            Stage::Bricks(bricks) => bricks.wait_known(MEMBERS),
            Stage::Servers(cluster) => cluster.wait_up(MEMBERS),
        }
    }

    /// The name of a member.
    pub fn noun(&self) -> &'static str {
        match self {
            Stage::Bricks(_) => "brick",
            Stage::Servers(_) => "server",
        }
    }
}
