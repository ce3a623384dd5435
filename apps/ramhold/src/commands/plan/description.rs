//! The description of a cluster: the arguments of `ramhold plan`, and what they stand for.

use super::hardware::{Hardware, Profile, parse_count, parse_rate, parse_share, plain};
use super::loss::{Spread, scatter_width_of_a_ring};
use super::network::Survey;
use crate::size::{parse_bytes, parse_duration};
use clap::Args;
use ramhold_base::limits::{COPYSET_RINGS_MAX, REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_placement::Grid;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use std::time::Duration;

/// More than any cluster has; bounds the sums.
const SERVER_COUNT_MAX: u64 = 1_000_000;

const HELP: &str = "\
Examples:
  ramhold plan --servers 1000
      three replicas, scattered; 1 % of the servers do not return
  ramhold plan --servers 1000 --placement copyset
  ramhold plan --servers 1000 --placement copyset --scatter-width 10 \\
      --failures 25
  ramhold plan --servers 100000 --replicas 2 --profile sosp11 --json
  ramhold plan --servers 30 --zones 3 --placement zone-local --uplink 10Gbit
  ramhold plan --topology bcube:4,1 --placement multiring --failures 4
  ramhold plan --servers 12 --quorum 3 --data 100GiB --brick-away 1h
  ramhold plan --servers 12 --memory 256GiB --network 100Gbit --cores 16 \\
      --detection 100ms

The probability of data loss is calculated for three events:
  - a power cut of the whole cluster, after which some servers do not return;
    all DRAM is lost;
  - the same servers die at one moment, and all others keep their DRAM;
  - a year in which servers are lost one by one. A server counts as lost until
    its log is recovered and the replicas that it held are made anew.
Each server is a failure domain of its own. Failure domains of several servers,
such as racks, are safer. Formulas: SOSP11 4.5, Copysets (ATC 2013).

With --topology a server stands at each place of the network. The plan asks the
placement for the neighbourhoods of every server. It tells how many a master
employs (buffers and a small log bound them), who recovers a dead server and who
feeds them, how many sets of servers hold all copies of something, how many hops
bytes take, and how long a recovery keeps the fullest port busy. Scatter and
copysets are planned for servers without the label rack.

With --quorum a quorum table of the same data, or of --data, stands beside the
ordinary tables: the bricks it takes, its DRAM and disks, what a death costs,
how often a key is out of reach, and its losses. A brick has as much log as a
server.

A recovery begins with detection and the first segment. After that it takes as
long as the slowest of disks, network and replay. The result is the limit of the
hardware, not a promise.

Profiles, per server:
           network      disk read/write    replay per core             detection
  sosp11   25 Gbit/s    213 / 197 MB/s     800 MB/s, 3.1 M records/s   150 ms
  tut15    24 Gbit/s    540 / 360 MB/s     500 MB/s, 3.1 M records/s   200 ms
  2026     25 Gbit/s    3 / 1.5 GB/s       2.5 GB/s, 6 M records/s     1300 ms
The replay rate of profile 2026 is a goal, not a measurement. Measure the rate
of your machine with 'ramhold bench replay', and give it with --replay and
--replay-records. The detection time of profile 2026 is that of a host that
falls silent; the death of a process is detected in 100 ms (--detection 100ms).

Exit codes: 0 success, 2 the description makes no sense.";

/// Calculate data loss, copies and recovery time of a cluster.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Plan {
    /// Number of servers (machines) [default: one at each place of --topology]
    #[arg(long, value_name = "COUNT", required_unless_present = "topology",
        value_parser = clap::value_parser!(u64).range(2..=SERVER_COUNT_MAX))]
    pub servers: Option<u64>,
    /// Memory of the log on each server (DRAM).
    #[arg(long, value_name = "SIZE", default_value = "64GiB", value_parser = parse_bytes)]
    pub memory: u64,
    /// Share of the log that is live data.
    #[arg(long, value_name = "SHARE", default_value = "80%", value_parser = parse_share)]
    pub utilisation: f64,
    /// Replicas of each segment on backups [default: 3; with --quorum fewer if there are too few servers]
    #[arg(long, value_name = "COUNT",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(REPLICA_COUNT_MAX)))]
    pub replicas: Option<u8>,
    /// Placement of replicas: 'scatter', 'copyset[:RINGS]', 'zone-local', 'multiring[:MOST]',
    /// 'multiring-strict[:MOST]' or 'rack-local[:MOST]', as for 'ramhold coordinator'. 'zone-local' needs
    /// --zones, the last three --topology.
    #[arg(long, value_name = "HOW", default_value = "scatter")]
    pub placement: ReplicaPlacement,
    /// Network of switches with a server at each place: 'bcube:N,K' or 'grid:R0,R1,...'. A server has a port
    /// for each level, and --network is the rate of one port.
    #[arg(long, value_name = "NETWORK", conflicts_with = "zones")]
    pub topology: Option<Topology>,
    /// Zones of the same size in which the servers stand: tells how many bytes cross them.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..=SERVER_COUNT_MAX))]
    pub zones: Option<u64>,
    /// Network rate between a zone and all others, in each direction: 25Gbit, 3GB. Needs --zones.
    #[arg(long, value_name = "RATE", requires = "zones", value_parser = parse_rate)]
    pub uplink: Option<f64>,
    /// Use as many rings of copysets as are needed for each server to share copysets with at least this many
    /// others. When a server dies, these others make its replicas anew. Needs --placement copyset.
    #[arg(long, value_name = "SERVERS")]
    pub scatter_width: Option<u64>,
    /// Number of servers that fail together.
    #[arg(long, value_name = "COUNT", group = "failing")]
    pub failures: Option<u64>,
    /// Share of servers that fail together, rounded up [default: 1%]
    #[arg(long, value_name = "SHARE", group = "failing", value_parser = parse_share)]
    pub failure_fraction: Option<f64>,
    /// Probability with which each server fails in the power cut or at the same moment, independently of the
    /// others.
    #[arg(long, value_name = "SHARE", group = "failing", value_parser = parse_share)]
    pub failure_probability: Option<f64>,
    /// How often per year each server is lost with its disks.
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = parse_crashes)]
    pub crashes_per_year: f64,
    /// Hardware of each server; each of the options below replaces one of its figures.
    #[arg(long, value_enum, default_value_t = Profile::Now)]
    pub profile: Profile,
    /// Network rate of a server in each direction, per second: 25Gbit, 3GB. With --topology, of each port.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub network: Option<f64>,
    /// Read rate of all disks of a server together, per second: 500MB, 3GB.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub disk_read: Option<f64>,
    /// Sustained write rate of all disks of a server together, per second.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub disk_write: Option<f64>,
    /// Buffers of a server. If a recovery writes more than that, the rest waits for the disks [default: 256
    /// MiB with profile 2026, unlimited with the others]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub buffers: Option<u64>,
    /// Bytes that one core replays per second [default: 2.5GB with profile 2026]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub replay: Option<f64>,
    /// Records that one core replays per second: 800k, 6M [default: 6M with profile 2026]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub replay_records: Option<f64>,
    /// Cores of a server that replay: one per server process [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cores: Option<u32>,
    /// Size of an object with its key in the log.
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = parse_bytes)]
    pub object_bytes: u64,
    /// Time from a server's death until it is declared dead: 100ms, 1300ms.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub detection: Option<Duration>,
    /// Also plan a quorum table whose keys are held by N bricks (1 to 7), beside the ordinary tables.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub quorum: Option<u8>,
    /// Bricks that must have a write before it is acknowledged [default: more than half of N]
    #[arg(long, value_name = "W", requires = "quorum", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub write_quorum: Option<u8>,
    /// Bricks that are asked by a read [default: as many as make W + R > N]
    #[arg(long, value_name = "R", requires = "quorum", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub read_quorum: Option<u8>,
    /// Live data of the quorum table, one copy [default: that of the cluster]
    #[arg(long, value_name = "SIZE", requires = "quorum", value_parser = parse_bytes)]
    pub data: Option<u64>,
    /// How long a brick is away after a crash: until its machine is up again, or another one replaces it.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub brick_away: Duration,
}

/// Servers that fail together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Failing {
    Count(u64),
    Each(f64),
}

impl Plan {
    /// The replicas of an ordinary table. One that a quorum table is compared with may have too few servers for three.
    pub fn replicas(&self) -> u8 {
        let servers = self.servers.filter(|_| self.quorum.is_some());
        let most = servers.map_or(u64::MAX, |servers| servers.saturating_sub(1).max(1));
        let usual = u64::from(REPLICA_COUNT_DEFAULT).min(most);
        self.replicas.unwrap_or(u8::try_from(usual).unwrap_or(REPLICA_COUNT_DEFAULT))
    }

    pub fn hardware(&self) -> Hardware {
        let profile = self.profile.hardware();
        Hardware {
            network: self.network.unwrap_or(profile.network),
            disk_read: self.disk_read.unwrap_or(profile.disk_read),
            disk_write: self.disk_write.unwrap_or(profile.disk_write),
            replay: self.replay.unwrap_or(profile.replay),
            replay_records: self.replay_records.unwrap_or(profile.replay_records),
            cores: self.cores.unwrap_or(profile.cores),
            buffers: self.buffers.or(profile.buffers),
            detection: self.detection.unwrap_or(profile.detection),
        }
    }

    /// The number of servers.
    pub fn servers(&self) -> Result<u64, String> {
        let places = self.topology.as_ref().and_then(Grid::of).map(|grid| grid.server_count());
        match (self.servers, places) {
            (Some(servers), Some(places)) if servers != places => Err(format!(
                "--servers {servers}: this topology has {places} places, and a plan has a server at each; leave \
                 --servers out, or give a --topology with as many places"
            )),
            (given, places) => given.or(places).ok_or_else(|| {
                "--topology without levels tells no number of servers; give --servers".to_owned()
            }),
        }
    }

    /// `survey`: what follows from the topology, if there is one.
    pub fn spread(&self, survey: Option<&Survey>) -> Result<Spread, String> {
        match (self.placement, self.scatter_width) {
            (ReplicaPlacement::ZoneLocal, _) if self.zones.is_none() => {
                Err("--placement zone-local needs zones; give --zones".to_owned())
            }
            (placement @ ReplicaPlacement::Neighbourhoods { .. }, width) => match (survey, width) {
                (Some(Survey { neighbourhoods: Some(employed), .. }), None) => {
                    Ok(Spread::Sets(employed.sets))
                }
                (_, Some(_)) => {
                    Err("--scatter-width applies to copysets only; give --placement copyset".to_owned())
                }
                (_, None) => Err(format!(
                    "--placement {placement} needs a network of switches; give --topology bcube:N,K or \
                     grid:R0,R1,... with two levels or more"
                )),
            },
            (ReplicaPlacement::Copysets { .. }, _) if self.zones.is_some() => {
                Err("copysets in zones are not in the model; give --placement scatter or zone-local"
                    .to_owned())
            }
            (ReplicaPlacement::ZoneLocal, Some(_)) => {
                Err("--scatter-width applies to copysets only; give --placement copyset".to_owned())
            }
            // The servers of a segment are drawn by chance within zones, and die whatever their zones.
            (ReplicaPlacement::ZoneLocal | ReplicaPlacement::Scatter, None) => Ok(Spread::Scatter),
            (ReplicaPlacement::Scatter, Some(_)) => {
                Err("--scatter-width applies to copysets only; give --placement copyset".to_owned())
            }
            (ReplicaPlacement::Copysets { rings }, None) => Ok(Spread::Copysets { rings }),
            (ReplicaPlacement::Copysets { rings: 1 }, Some(width)) => {
                let of_a_ring = scatter_width_of_a_ring(u64::from(self.replicas()));
                let rings = width.checked_div(of_a_ring).map(|_| width.div_ceil(of_a_ring));
                let rings = rings.and_then(|rings| u8::try_from(rings).ok());
                let rings = rings.filter(|rings| (1..=COPYSET_RINGS_MAX).contains(rings));
                rings.map(|rings| Spread::Copysets { rings }).ok_or_else(|| {
                    format!(
                        "--scatter-width {width}: with {} replicas, give 1 to {}, {of_a_ring} for each ring",
                        self.replicas(),
                        of_a_ring * u64::from(COPYSET_RINGS_MAX)
                    )
                })
            }
            (ReplicaPlacement::Copysets { .. }, Some(_)) => {
                Err("--scatter-width and 'copyset:RINGS' both set the rings; give one of them".to_owned())
            }
        }
    }

    pub fn failing(&self, servers: u64) -> Result<Failing, String> {
        if let Some(probability) = self.failure_probability {
            return Ok(Failing::Each(probability));
        }
        let failed = self.failures.unwrap_or_else(|| {
            let share = self.failure_fraction.unwrap_or(0.01);
            // The product is made slightly smaller, so that rounding up does not make 1 % of 1,000 into 11.
            (share * servers as f64 - 1e-6).ceil().max(0.0) as u64
        });
        if failed > servers {
            return Err(format!("--failures {failed}: there are {servers} servers"));
        }
        Ok(Failing::Count(failed))
    }
}

fn parse_crashes(text: &str) -> Result<f64, String> {
    let crashes = plain(text).filter(|crashes| *crashes <= 10_000.0);
    crashes.ok_or_else(|| format!("'{text}' is not a number of crashes a year like 2 or 0.5"))
}
