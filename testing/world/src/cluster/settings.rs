//! The set-up of a cluster: its size, its tables, and limits so small that rare paths are common.
//!
//! A seed draws what varies from run to run. Safety must not depend on any of it.

use super::bricks::BrickSetup;
use crate::cables::Cables;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::{Rng, ShardId};
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::ServerConfig;
use ramhold_placement::{Grid, GridLabel};
use ramhold_replication::ReplicationConfig;
use ramhold_resp::{CrossSlot, RespConfig};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Durability, Label, Link};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const SEGMENT_BYTES: u32 = 32 * 1024;
const SEGLET_BYTES: u32 = 4 * 1024;
/// Room for everything that clients keep alive, on one server.
const LOG_BYTES: u64 = 1024 * 1024;
/// Cleaning begins as soon as a few segments are in use, so that every run does much of it.
const USED_BEFORE_CLEANING: u64 = 4 * SEGMENT_BYTES as u64;
/// Less than the data that the clients of a tight cluster would keep alive.
const TIGHT_LOG_BYTES: u64 = 256 * 1024;
const INDEX_BYTES: u64 = 512 * 1024;
pub(super) const TABLE: &str = "world";
/// Operations of one session under way at once.
pub(super) const LANES_MAX: u64 = 4;
/// How long a session tries an operation.
pub(super) const DEADLINE: Duration = Duration::from_secs(8);
/// The lanes of a session that starts them together: enough that several go to one server.
pub(super) const PACKED_LANES_MAX: u64 = 16;

/// A cluster of one coordinator and some servers.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    pub servers: u8,
    pub replicas: u8,
    /// Tables are `synced`, not `buffered`.
    pub synced: bool,
    /// Half of the keys are in a second table with this durability and replica count. It is never worse than
    /// the first table.
    pub second: Option<(Durability, u8)>,
    /// So little memory that clients fill it. Writes are refused, and everything else must go on.
    pub tight: bool,
    /// Draws limits and timeouts, so that cases that are rare with good values become common. None: the usual
    /// values.
    pub limits: Option<u64>,
    /// Servers speak the Redis protocol, and half of the sessions use it. Database 0 is the table that all
    /// sessions share.
    pub resp: bool,
    pub placement: ReplicaPlacement,
    /// Frames for replicas on each server; none: more than are ever used.
    pub frames: Option<u32>,
    /// The zones over which the servers are spread in turn; 0: no server has a zone.
    pub zones: u8,
    /// The planes of the network from 1 on, on which servers reach each other; 0: they are on the first one alone.
    pub planes: u8,
    /// The servers are in BCubes of this radix, with a plane for each level, and places are drawn from the seed; with 0
    /// the servers take the places in order. None: there is no topology.
    pub cube: Option<(u16, u64)>,
    /// The racks over which the servers are spread in turn, in one zone; 0: no server has a rack.
    pub racks: u8,
    /// Servers in one process, with one host label; at least 1. Faults of a stage take them one by one.
    pub shards: u8,
    /// The rate of copies, in bytes per second; 0: no bound.
    pub copy_rate: u64,
    /// The number of tablets of the tables that sessions make; 0: as many as the coordinator finds right.
    pub tablets: u32,
    /// Bricks beside the servers, with a quorum table; none: there are no bricks.
    pub bricks: Option<BrickSetup>,
    /// The crash point at which every process dies that is to die at one of its role's; none: each draws its own.
    pub aim: Option<&'static str>,
}

/// One seed in this many has Redis clients among the others.
const RESP_ONE_IN: u64 = 3;
/// One in this many of the other seeds has synced tables.
const SYNCED_ONE_IN: u64 = 4;
/// And one in this many has two tables of different durability or replica count.
const SECOND_ONE_IN: u64 = 2;

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            servers: 5,
            replicas: 3,
            synced: false,
            second: None,
            tight: false,
            limits: None,
            resp: false,
            placement: ReplicaPlacement::Scatter,
            frames: None,
            zones: 0,
            planes: 0,
            cube: None,
            copy_rate: 0,
            racks: 0,
            shards: 1,
            tablets: 8,
            bricks: None,
            aim: None,
        }
    }
}

/// The address of the coordinator.
pub(super) fn coordinator_address() -> SocketAddr {
    SocketAddr::from(([10, 1, 0, 1], 7400))
}

/// The address of a server, by its index from 0.
pub(super) fn server_address(index: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, index + 1], 7401))
}

fn server_index(addr: SocketAddr) -> u8 {
    match addr {
        SocketAddr::V4(addr) => addr.ip().octets()[3] - 1,
        SocketAddr::V6(_) => unreachable!("servers have addresses of version 4"),
    }
}

impl Cluster {
    /// Half of the seeds have limits of their own, and some have fewer replicas: cases that only the loss of
    /// replicas shows are common there. Half of the seeds place by copysets. Some keep synced tables, and
    /// lose the power of all their servers at once.
    #[must_use]
    pub fn varied(self, seed: u64) -> Cluster {
        if self.tight {
            return self;
        }
        if self.bricks.is_some() {
            return self.varied_with_bricks(seed);
        }
        let resp = self.resp || Rng::new(seed ^ 0x4E5B).chance(1, RESP_ONE_IN);
        let mut rng = Rng::new(seed ^ 0xC095_E700);
        let placement = match rng.chance(1, 2) {
            true => ReplicaPlacement::Copysets { rings: rng.between(1, 2) as u8 },
            false => ReplicaPlacement::Scatter,
        };
        // Redis clients make tables of the usual durability.
        let synced = !resp && rng.chance(1, SYNCED_ONE_IN);
        // With two zones or three, the zones of a run differ from those of the next one.
        let zones = if self.zones > 0 { 2 + (seed / 8 % 2) as u8 } else { 0 };
        // One run in three is placed by zones.
        let is_local = zones > 0 && seed.is_multiple_of(3);
        let placement = if is_local { ReplicaPlacement::ZoneLocal } else { placement };
        let drawn = Cluster { resp, placement, synced, zones, ..self };
        let limits = (seed % 4 >= 2).then_some(seed);
        let drawn = match seed % 8 {
            2 | 6 => Cluster { replicas: 2, servers: self.servers - 1, limits, ..drawn },
            5 => Cluster { replicas: 1, servers: self.servers - 1, limits, ..drawn },
            _ => Cluster { limits, ..drawn },
        };
        // One zone of two suffices for all replicas, so that writes go on while the other is away.
        let servers = if zones == 2 { 2 * (drawn.replicas + 1) } else { drawn.servers };
        let cube = self.cube.map(|(radix, _)| (radix, seed));
        // Half of the runs place by rings, some of them by few, or by strict ones.
        let by = if seed % 8 == 4 { Neighbouring::StrictRing } else { Neighbouring::MultiRing };
        let placement = match (cube, seed % 4) {
            (Some(_), 0) => ReplicaPlacement::Neighbourhoods { by, most: 64 },
            (Some(_), 1) => ReplicaPlacement::Neighbourhoods { by, most: 2 },
            _ => drawn.placement,
        };
        let drawn = Cluster { placement, ..drawn };
        // Six servers or more at nine places are always connected, whatever places are free.
        let servers = if cube.is_some() { 6 + (seed / 8 % 4) as u8 } else { servers };
        let drawn = Cluster { servers, cube, ..drawn };
        Cluster { second: drawn.draw_second(seed), ..drawn }
    }

    /// All that varies from seed to seed beside bricks. All sessions are native: they work on tables of both kinds.
    fn varied_with_bricks(self, seed: u64) -> Cluster {
        let plain = Cluster { bricks: None, ..self }.varied(seed);
        let Cluster { placement, synced, limits, .. } = plain;
        // Few servers: half of each run is for bricks.
        let (servers, replicas) = if seed % 4 == 1 { (3, 2) } else { (4, 3) };
        let bricks = Some(BrickSetup::draw(seed));
        Cluster { placement, synced, limits, servers, replicas, bricks, ..self }
    }

    /// Redis clients know one table only. Where frames are few, there may never be room for more copies.
    fn draw_second(self, seed: u64) -> Option<(Durability, u8)> {
        let mut rng = Rng::new(seed ^ 0x2C1A_5500);
        if self.resp || self.frames.is_some() || !rng.chance(1, SECOND_ONE_IN) {
            return None;
        }
        let is_synced = self.synced || rng.chance(1, 2);
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        let most = (self.servers - 1).min(REPLICA_COUNT_MAX);
        let replicas = rng.between(u64::from(self.replicas), u64::from(most)) as u8;
        let is_other = is_synced != self.synced || replicas != self.replicas;
        is_other.then_some((durability, replicas))
    }

    /// Draws limits that safety must not depend on.
    fn draw_limits(self, config: &mut ServerConfig) {
        let Some(seed) = self.limits else { return };
        let mut rng = Rng::new(seed ^ 0x11A1_7500);
        let mut millis = |some: &[u64]| Duration::from_millis(*rng.pick(some).expect("some are given"));
        let replication = &mut config.master_config.replication;
        replication.replica_timeout = millis(&[400, 3000, 10_000]);
        replication.append_timeout = millis(&[60, 250]);
        let ping_timeout = millis(&[50, 150, 400]);
        config.detector = DetectorConfig { ping_timeout, ..config.detector };
        config.backup_config.flush_interval = millis(&[5, 100, 1000]);
        config.backup_config.needed_interval = millis(&[300, 2000]);
        replication.append_bytes_max = *rng.pick(&[512, SEGLET_BYTES, SEGMENT_BYTES]).expect("three sizes");
        replication.in_flight_max = rng.between(1, 4) as u16;
        replication.copies_max = rng.between(1, 4) as usize;
        config.backup_config.buffers = Buffers::Reserved { count: rng.between(2, 8) as u32 };
        replication.copy_bytes_per_second = *rng.pick(&[0, 0, 512 * 1024, 2048 * 1024]).expect("four rates");
        config.backup_config.frames_grow_by = *rng.pick(&[1, 4, 16]).expect("three steps");
        let replication = &mut config.master_config.replication;
        replication.collected_bytes_max = *rng.pick(&[0, 300, 64 * 1024]).expect("three sizes");
    }

    /// The time after which a server that does not answer is dead, where limits are drawn. It may be shorter
    /// than the read lease.
    pub(super) fn verify_timeout(self) -> Option<Duration> {
        let mut rng = Rng::new(self.limits? ^ 0x7E81_F700);
        rng.pick(&[100, 100, 300, 1000]).map(|millis| Duration::from_millis(*millis))
    }

    fn resp_config(self) -> RespConfig {
        let plain = RespConfig::new(coordinator_address());
        // Short leases end while requests that were sent may still arrive.
        let drawn = self.limits.map(|seed| Rng::new(seed ^ 0xDEAD_1100).between(200, 8000));
        RespConfig {
            deadline: drawn.map_or(plain.deadline, Duration::from_millis),
            tables: vec![(0, TABLE.into())],
            // The servers decide which keys may take effect together, so that their check is tested, too.
            cross_slot: CrossSlot::Allow,
            // A low limit, so that connections are held.
            running_count_max: 8,
            ..plain
        }
    }

    /// The further addresses of a server, by its index from 0.
    pub(super) fn links(self, index: u8) -> Vec<Link> {
        let link = |plane: u8| Link {
            name: match self.cube {
                Some(_) => (plane - 1).to_string(),
                None => format!("plane-{plane}"),
            },
            address: Address(SocketAddr::from(([10, 1, plane, index + 1], 7401))),
        };
        (1..=self.planes).map(link).collect()
    }

    fn labels(self, addr: SocketAddr, host: &str) -> Vec<Label> {
        let label = |name: &str, value: String| Label { name: name.into(), value };
        let zone = (self.zones > 0).then(|| label("zone", format!("z{}", server_index(addr) % self.zones)));
        let rack = (self.racks > 0).then(|| {
            let rack = format!("r{}", server_index(addr) % self.racks);
            [label("zone", "z".into()), label("rack", rack)]
        });
        let place = self
            .places()
            .map(|(grid, places)| label("bcube", grid.name(&places[usize::from(server_index(addr))])));
        let host = match self.shards {
            1 => host.to_owned(),
            shards => format!("host-{}", server_index(addr) / shards),
        };
        [label("host", host)].into_iter().chain(zone).chain(rack.into_iter().flatten()).chain(place).collect()
    }

    /// The topology that the coordinator is given.
    pub(super) fn topology(self) -> Option<Topology> {
        let cube = self.cube.map(|(radix, _)| Topology::Bcube { radix, order: u16::from(self.planes) - 1 });
        cube.or_else(|| (self.racks > 0).then_some(Topology::Zones))
    }

    /// The places in the order of the servers that take them.
    fn places(self) -> Option<(Grid, Vec<GridLabel>)> {
        let grid = Grid::of(&self.topology()?)?;
        let mut places: Vec<GridLabel> = grid.labels().collect();
        if let Some((_, seed)) = self.cube.filter(|(_, seed)| *seed > 0) {
            Rng::new(seed ^ 0xCAB1_E500).shuffle(&mut places);
        }
        Some((grid, places))
    }

    /// The cables between the hosts of the servers, which are given in their order.
    pub fn cables(self, hosts: &[usize]) -> Option<Cables> {
        let (grid, places) = self.places()?;
        let places: Vec<(usize, GridLabel)> = hosts.iter().copied().zip(places).collect();
        Some(Cables::new(grid, &places))
    }

    pub(super) fn server_config(self, addr: SocketAddr, host: &str) -> ServerConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        let log_bytes = if self.tight { TIGHT_LOG_BYTES } else { LOG_BYTES };
        let plain = MasterConfig::new(geometry, log_bytes, INDEX_BYTES);
        let mut config = ServerConfig {
            advertise: addr,
            coordinator: coordinator_address(),
            labels: self.labels(addr, host),
            links: self.links(server_index(addr)),
            master: true,
            master_config: MasterConfig {
                // Small messages, so that a copy of a segment takes several.
                replication: ReplicationConfig {
                    append_bytes_max: SEGLET_BYTES,
                    copy_bytes_per_second: self.copy_rate,
                    ..ReplicationConfig::new(ShardId(0))
                },
                // Damage is found within a run.
                scrub_round_min: Duration::from_secs(2),
                lease_sweep_interval: Duration::from_secs(2),
                // A walk has many slices, and much happens between them.
                recount_buckets: 2,
                // Moving a tablet to another stream also takes many steps, one per stretch.
                gather_count_max: 300,
                reclassing_stretch_bytes: 12_000,
                // Some dozen arrays: tablets are large beside the log here.
                profile_bytes_max: 128 * 1024,
                cleaning_runway_bytes: match self.frames {
                    None => log_bytes - USED_BEFORE_CLEANING - plain.reserve_bytes,
                    // As in production, where frames may be short long before memory is.
                    Some(_) => plain.cleaning_runway_bytes,
                },
                ..plain
            },
            backup_config: BackupConfig {
                segment_bytes: SEGMENT_BYTES,
                frames_max: self.frames.unwrap_or(1000),
                frames_grow_by: 16,
                // The heads of all neighbourhoods have buffers.
                buffers: Buffers::Reserved {
                    count: if self.placement.neighbouring().is_some() { 30 } else { 6 },
                },
                buffers_survive_power: false,
                flush_interval: Duration::from_millis(100),
                recovery_cache_bytes: 1024 * 1024,
                found_cache_bytes: 0,
                needed_interval: Duration::from_secs(2),
                directory: "/data".into(),
                is_own: false,
                mode: "buffers".into(),
            },
            resp: self.resp.then(|| self.resp_config()),
            detector: DetectorConfig::default(),
            memory_bytes: log_bytes + INDEX_BYTES,
            read_speed: 100,
            enlist_interval: Duration::from_millis(100),
            version: "world".into(),
        };
        self.draw_limits(&mut config);
        config
    }

    /// From partitions for every master to one for all, which is the usual case: a run writes too little for
    /// more.
    pub(super) fn partition_bytes_min(&self) -> u64 {
        if self.frames.is_some() {
            return 4 * u64::from(SEGMENT_BYTES); // As in production, so that as many frames go to heads and last segments.
        }
        let drawn = self.limits.map(|seed| Rng::new(seed ^ 0x9A27).below(3));
        [64 * 1024, 1024, 8 * 1024][drawn.unwrap_or_default() as usize]
    }
    /// Neighbours recover few large partitions, which they cut on for their own neighbourhoods.
    pub(super) fn partition_bytes_max(&self) -> u64 {
        let least = if self.cube.is_some() { 1024 * 1024 } else { 64 * 1024 };
        self.partition_bytes_min().max(least)
    }
}
