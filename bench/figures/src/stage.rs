//! One measurement. The real code sets up a cluster and fills one of its servers, at no cost. Then that
//! server is killed. From then on everything takes its modelled time, until the cluster has recovered.
//!
//! The server that dies is a master alone, on a host of its own. The coordinator is on another host. At the
//! end all its objects must be there again, object by object: a recovery that loses some gives no figure.

use crate::charge::{Busy, Charge, Meter};
use crate::costs::record_cost;
use crate::fabric::Fabric;
use crate::layout::{Crowd, DEAD, Layout};
use crate::loader::{Loader, Spread};
use crate::process::{Process, address, is_serving, server, settle};
use crate::profile::Profile;
use crate::scale::{FINE, Scale};
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::limits::APPEND_BYTES_MAX;
use ramhold_base::{Rng, ServerId, ShardId};
use ramhold_coordinator::RecoveryRecord;
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::{Coordinator, CoordinatorConfig, ServerConfig, ServerNode};
use ramhold_placement::{HeadRoom, buffers_for};
use ramhold_replication::ReplicationConfig;
use ramhold_wire::membership::Label;
use ramhold_wire::status::{PartReport, RecoverySteps};
use ramhold_wire::{NEIGHBOURHOODS_MAX, Neighbouring, ReplicaPlacement};
use ramhold_world::disk::Disks;
use ramhold_world::network::{NetworkOptions, SECOND};
use ramhold_world::world::{Clock, NodeOptions, World};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How the crashed server chose its backups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The backups that would finish their share soonest: as in a cluster.
    ReadTime,
    /// The backups with the fewest segments: all devices are reported as equally fast.
    Segments,
    /// Any backups: all devices are reported as so fast that a share takes no time.
    Random,
    /// By copysets of one ring; within them as by read time.
    Copysets,
    /// Those of the neighbourhood in which an object lies; within it as by read time.
    Neighbourhoods(Neighbouring),
}

/// One recovery that is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    pub profile: Profile,
    pub scale: Scale,
    /// Hosts with a recovery master.
    pub masters: usize,
    /// Backups, each with a device, `devices` of the profile on each host.
    pub backups: usize,
    /// Backups have hosts of their own. Otherwise they share the masters' hosts first.
    pub apart: bool,
    /// Master and backup are one process, if there are as many of each.
    pub together: bool,
    /// Bytes of log on the server that dies.
    pub data: f64,
    pub value_bytes: u32,
    pub replicas: u8,
    /// The size of partitions in bytes of log, whatever their records. None: the coordinator decides.
    pub partition: Option<f64>,
    pub choice: Choice,
    /// The speed of the slowest device, relative to the fastest. The speeds between are drawn evenly.
    pub slowest: f64,
    pub layout: Layout,
    /// The share of all ports that the rings of the dead server do not use which other traffic takes.
    pub cross_traffic: f64,
    pub end: End,
    pub seed: u64,
}

/// How the server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its process is killed: its host tells most of its peers at once.
    Killed,
    /// Its host loses its power: nobody is told anything.
    Dark,
}

/// The results. Times are seconds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the kill to the verdict.
    pub detection: f64,
    /// From the verdict to the last partition live.
    pub recovery: f64,
    /// Bytes of log that were recovered, in bytes that they stand for.
    pub bytes: f64,
    pub partitions: usize,
    pub timeline: RecoverySteps,
    pub parts: Vec<PartReport>,
    pub busy: Busy,
    pub nodes: Nodes,
    /// The real time of this computation.
    pub wall: Duration,
    pub steps: u64,
}

/// The role of each node.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    pub coordinator: usize,
    pub dead: usize,
    pub masters: Vec<usize>,
    pub backups: Vec<usize>,
}

/// An object with its result and headers, in the simulation.
const WRITTEN_BYTES: f64 = 140.0;
/// No recovery may take this long.
const RECOVERY_MAX: u64 = 3600 * SECOND;
/// The reported speed of a device that takes no time (see `Choice::Random`).
const BOUNDLESS: u32 = u32::MAX;

/// A cluster whose writes are flushed, before anything is charged.
pub struct Stage {
    pub world: World<Process>,
    pub nodes: Nodes,
    pub meter: Rc<RefCell<Meter>>,
    pub coordinator: SocketAddr,
    /// The objects on the server that is to die.
    pub count: u64,
}

struct Member {
    host: usize,
    master: bool,
    /// The speed of its device, relative to the profile's. None: it keeps no replicas.
    device: Option<f64>,
    /// Bytes of log in the simulation.
    log_bytes: u64,
}

/// The backups of a recovery whose simulation takes some 8 GB of memory or more.
const LARGE: usize = 500;

impl Plan {
    /// Whether it is better not to simulate two such recoveries at the same time: they take several gigabytes each.
    pub fn is_large(&self) -> bool {
        self.backups >= LARGE || self.scale.segment_bytes > FINE.segment_bytes
    }

    fn members(&self) -> Vec<Member> {
        let mut rng = Rng::new(self.seed ^ 0xDE71CE);
        let mut speed = || 1.0 - (1.0 - self.slowest) * rng.below(1_000_001) as f64 / 1e6;
        let segment = u64::from(self.scale.segment_bytes);
        let dead_bytes = self.scale.down(self.data) * 5 / 4 + 32 * segment;
        let recoverers = match self.choice {
            Choice::Neighbourhoods(_) => self.layout.recoverer_count().unwrap_or(self.masters),
            _ => self.masters,
        };
        let share = self.scale.down(self.data) / recoverers as u64;
        // Several partitions may come to one master, and each neighbourhood has heads.
        let room = share * 4 + (32 + 4 * self.neighbourhoods()) * segment;
        let mut members = vec![Member { host: DEAD, master: true, device: None, log_bytes: dead_bytes }];
        if let Layout::Cube { crowd: Crowd::Neighbourhood, .. } = self.layout {
            let around = self.layout.neighbourhood().expect("a BCube has neighbourhoods");
            let recoverer =
                |host: &usize| Member { host: *host, master: true, device: None, log_bytes: room };
            members.extend(around.recoverers.iter().map(recoverer));
            let mut backup = |host: &usize| {
                let device = Some(speed());
                Member { host: *host, master: false, device, log_bytes: 0 }
            };
            members.extend(around.backups.iter().map(&mut backup));
            assert_eq!((self.masters, self.backups), (around.recoverers.len(), around.backups.len()));
            return members;
        }
        assert!(
            self.layout.servers().is_none_or(|servers| self.together && servers == self.masters + 1),
            "each place has a server: {:?}",
            self.layout
        );
        let host = |index: usize| index + 2;
        if self.together {
            assert_eq!(self.masters, self.backups, "one process of both each");
            let both = |i| Member { host: host(i), master: true, device: Some(speed()), log_bytes: room };
            members.extend((0..self.masters).map(both));
            return members;
        }
        let master = |i| Member { host: host(i), master: true, device: None, log_bytes: room };
        members.extend((0..self.masters).map(master));
        // Backups beyond the hosts of masters are on hosts of their own.
        let backup = |i: usize| {
            let device = Some(speed());
            let before = if self.apart { self.masters } else { 0 };
            Member { host: host(before + i / self.profile.devices), master: false, device, log_bytes: 0 }
        };
        members.extend((0..self.backups).map(backup));
        members
    }

    fn server_config(&self, member: &Member, addr: SocketAddr, coordinator: SocketAddr) -> ServerConfig {
        let segment_bytes = self.scale.segment_bytes;
        let geometry = Geometry { segment_bytes, seglet_bytes: (segment_bytes / 16).next_power_of_two() };
        let log_bytes = if member.master { member.log_bytes } else { 0 };
        let plain = MasterConfig::new(geometry, log_bytes, log_bytes.max(1 << 20));
        let append_bytes = APPEND_BYTES_MAX;
        let replication = ReplicationConfig {
            append_bytes_max: self.scale.down(f64::from(append_bytes)).max(256) as u32,
            // Scaled to the bytes that an append stands for: 2 MiB in a millisecond.
            append_timeout: Duration::from_millis(250 + u64::from(append_bytes / 2048)),
            head_room: HeadRoom::new(Some(self.buffers()), u32::MAX),
            ..ReplicationConfig::new(ShardId(0))
        };
        let speed = member.device.map(|device| (device * self.profile.read / 1e6) as u32);
        let read_speed = match (speed, self.choice) {
            (Some(speed), Choice::ReadTime | Choice::Copysets | Choice::Neighbourhoods(_)) => speed,
            (Some(_), Choice::Segments) => 100,
            (Some(_), Choice::Random) => BOUNDLESS,
            (None, _) => 0,
        };
        ServerConfig {
            advertise: addr,
            coordinator,
            labels: [Label { name: "host".into(), value: format!("h{}", member.host) }]
                .into_iter()
                .chain(self.layout.labels(member.host))
                .collect(),
            links: self.layout.links(member.host),
            master: member.master,
            master_config: MasterConfig {
                replication,
                scrub_bytes_per_second: 0,
                parked_count_max: 1 << 20,
                ..plain
            },
            backup_config: BackupConfig {
                is_own: false,
                segment_bytes,
                frames_max: if member.device.is_some() { 100_000 } else { 0 },
                // All frames at the start: a cluster that has run for a while has its frames.
                frames_grow_by: self.frames(),
                buffers: Buffers::Reserved { count: self.buffers() },
                buffers_survive_power: false,
                flush_interval: Duration::from_millis(100),
                recovery_cache_bytes: self.recovery_cache_bytes(),
                found_cache_bytes: 0,
                needed_interval: Duration::from_secs(2),
                directory: String::new(),
                mode: "buffers".into(),
            },
            detector: DetectorConfig::default(),
            resp: None,
            memory_bytes: 0,
            read_speed,
            enlist_interval: Duration::from_millis(100),
            version: "figures".into(),
        }
    }

    /// Frames for the log that dies and for its successors, with half as much to spare.
    fn frames(&self) -> u32 {
        let segments =
            self.scale.down(self.data * f64::from(self.replicas)) / u64::from(self.scale.segment_bytes);
        // Every master has heads in all of its neighbourhoods.
        let heads = self.heads() as u32;
        (segments / self.backups as u64) as u32 * 3 + 4 * (self.masters / self.backups) as u32 + 12 + heads
    }

    /// The neighbourhoods of each master, at most.
    fn neighbourhoods(&self) -> u64 {
        match self.choice {
            Choice::Neighbourhoods(Neighbouring::MultiRing | Neighbouring::StrictRing) => {
                self.layout.recoverer_count().unwrap_or(0) as u64
            }
            Choice::Neighbourhoods(Neighbouring::RackLocal) => match self.layout {
                Layout::Racks { racks, .. } => racks as u64 - 1,
                Layout::Star | Layout::Cube { .. } => 0,
            },
            Choice::ReadTime | Choice::Segments | Choice::Random | Choice::Copysets => 0,
        }
    }

    /// Replicas of heads that each backup has, while the masters that recover have heads for what they
    /// recover, too.
    fn heads(&self) -> u64 {
        2 * self.neighbourhoods() * u64::from(self.replicas) * (self.masters as u64 + 1) / self.backups as u64
    }

    /// As many buffers as the profile says, or, if fewer can ever be filled, only that many. There are enough
    /// that a coarse simulation does not run out of them, and that a master employs all of its neighbourhoods.
    fn buffers(&self) -> u32 {
        let segments =
            self.scale.down(self.data * f64::from(self.replicas)) / u64::from(self.scale.segment_bytes);
        let filled = segments as u32 / self.backups as u32 * 2
            + 4 * self.masters as u32 * u32::from(self.replicas) / self.backups as u32;
        let wanted = buffers_for(self.neighbourhoods() as u32, self.replicas);
        self.scale.down_count(self.profile.buffers).min(filled).max(16).max(wanted)
    }

    /// 256 MiB, as a server with 4 GiB or more has. There are as many notes on places of records as records.
    /// Simulated records are fewer and smaller, so the notes weigh more. Twice as much is given for that.
    fn recovery_cache_bytes(&self) -> u64 {
        (self.scale.down(256.0 * 1024.0 * 1024.0) * 2).max(8 * u64::from(self.scale.segment_bytes))
    }

    fn coordinator_config(&self, addr: SocketAddr) -> CoordinatorConfig {
        let plain = CoordinatorConfig::new(addr);
        let bytes_max = self.partition.unwrap_or(plain.partition_bytes_max as f64);
        let bytes_min = self.partition.unwrap_or(plain.partition_bytes_min as f64);
        // Converts the bound of records to bytes of such records, and to the number of simulated records:
        // each object has a result beside it.
        let bytes_of_records =
            plain.partition_records_max as f64 * record_cost(self.value_bytes).record_bytes;
        let records_max = match self.partition {
            Some(_) => u64::MAX / 4,
            None => (self.scale.down(bytes_of_records) as f64 / (WRITTEN_BYTES / 2.0)) as u64 + 1,
        };
        CoordinatorConfig {
            partition_bytes_min: self.scale.down(bytes_min),
            partition_bytes_max: self.scale.down(bytes_max),
            partition_records_max: records_max,
            // The bytes that a head may have grown must weigh as much as they would at full size.
            segment_bytes: self.scale.segment_bytes / self.scale.segments,
            default_replicas: self.replicas,
            placement: match self.choice {
                Choice::Copysets => ReplicaPlacement::Copysets { rings: 1 },
                Choice::ReadTime | Choice::Segments | Choice::Random => ReplicaPlacement::Scatter,
                Choice::Neighbourhoods(by) => {
                    ReplicaPlacement::Neighbourhoods { by, most: NEIGHBOURHOODS_MAX }
                }
            },
            topology: self.layout.topology(),
            ..plain
        }
    }

    /// Sets the cluster up and fills the server that is to die, at no cost.
    pub fn set_up(&self) -> Stage {
        let members = self.members();
        let coordinator = address(0, 7400);
        let meter = Rc::new(RefCell::new(Meter::default()));
        // The coordinator, the servers, and two clients on the coordinator's host: one fills, and one may ask.
        let hosts: Vec<usize> = [0].into_iter().chain(members.iter().map(|m| m.host)).chain([0, 0]).collect();
        let speeds =
            [1.0].into_iter().chain(members.iter().map(|m| m.device.unwrap_or(1.0))).chain([1.0, 1.0]);
        let record = record_cost(self.value_bytes);
        let fabric = self.fabric(hosts.iter().max().map_or(0, |last| last + 1));
        let speeds = speeds.collect();
        let charge = Charge::new(self.profile, self.scale, record, fabric, hosts, speeds, Rc::clone(&meter));
        let mut world: World<Process> = World::new(self.seed, NetworkOptions::calm());
        world.set_pace(charge);

        let config = self.coordinator_config(coordinator);
        let make = move |life: ramhold_world::world::Life| {
            Process::Coordinator(Box::new(Coordinator::new(config.clone(), life.seed)))
        };
        let mut nodes = Nodes {
            coordinator: world.add_node(NodeOptions::plain("coordinator", coordinator), make),
            ..Nodes::default()
        };
        for (index, member) in members.iter().enumerate() {
            let addr = address(member.host, 7401 + index as u16 % 50_000);
            let config = self.server_config(member, addr, coordinator);
            let mut disks = Disks::default();
            disks.options.frames_bytes_max = 1 << 40;
            let options = NodeOptions {
                name: format!("server {index}"),
                addr,
                links: config.links.iter().map(|link| link.address.0).collect(),
                clock: Clock::TRUE,
                disks,
                store: 0,
                supervised: false,
            };
            let node = world.add_node(options, move |life| {
                let region = vec![0; config.master_config.log_bytes as usize];
                Process::Server(Box::new(ServerNode::new(config.clone(), region, life.seed)))
            });
            match index {
                0 => {
                    nodes.dead = node;
                    // The first server to serve has the lowest number, so it owns the table.
                    settle(&mut world, "the first server", |world| is_serving(world, node));
                }
                _ => {
                    if member.master {
                        nodes.masters.push(node);
                    }
                    if member.device.is_some() {
                        nodes.backups.push(node);
                    }
                }
            }
        }
        meter.borrow_mut().gathering = true;
        let servers = 1..=members.len();
        settle(&mut world, "the servers", |world| servers.clone().all(|node| is_serving(world, node)));

        meter.borrow_mut().gathering = false;
        let first = server(&world, nodes.dead).id();
        let count = (self.scale.down(self.data) as f64 / WRITTEN_BYTES).ceil().max(1.0) as u64;
        let (replicas, seed) = (self.replicas, self.seed);
        let client = address(0, 9000);
        let spread = match self.layout {
            Layout::Star => Spread::OneTablet,
            Layout::Racks { .. } | Layout::Cube { .. } => Spread::AsUsual { owner: first },
        };
        let loader = world.add_node(NodeOptions::plain("loader", client), move |_| {
            Process::Loader(Box::new(Loader::new(coordinator, replicas, count, spread, seed)))
        });
        settle(
            &mut world,
            "the writes",
            |world| matches!(world.machine(loader), Some(Process::Loader(loader)) if loader.is_done()),
        );
        // Everything is flushed, and the loader is gone.
        world.crash(loader);
        let until = world.now() + 3 * SECOND;
        world.run_until(until);
        Stage { world, nodes, meter, coordinator, count }
    }

    pub fn measure(&self) -> Measured {
        let begun = std::time::Instant::now();
        let Stage { mut world, nodes, meter, count, .. } = self.set_up();
        let dead = server(&world, nodes.dead).id();
        let killed = world.now();
        let steps_before = world.steps;
        (meter.borrow_mut().on, meter.borrow_mut().began) = (true, killed);
        match self.end {
            End::Killed => world.crash(nodes.dead),
            End::Dark => world.cut_power(nodes.dead),
        }
        let (detection, record) = self.watch(&mut world, &nodes, dead, killed, count);
        let live: Vec<_> = record.parts.iter().filter(|part| part.live.is_some()).collect();
        let bytes: u64 = live.iter().map(|part| part.bytes).sum();
        let busy = meter.borrow().busy.clone();
        Measured {
            detection,
            recovery: record.steps.last_live.expect("a recovery that is over has a last partition") as f64
                / 1e3,
            bytes: bytes as f64 * self.scale.bytes(),
            partitions: live.len(),
            timeline: record.steps,
            parts: live.into_iter().copied().collect(),
            busy,
            nodes,
            wall: begun.elapsed(),
            steps: world.steps - steps_before,
        }
    }

    /// The ports of the cluster's hosts, and what is between them.
    pub fn fabric(&self, hosts: usize) -> Fabric {
        Fabric::new(self.layout, hosts, self.profile.network).with_cross_traffic(self.cross_traffic)
    }

    fn watch(
        &self,
        world: &mut World<Process>,
        nodes: &Nodes,
        dead: ServerId,
        killed: u64,
        count: u64,
    ) -> (f64, RecoveryRecord) {
        let recovery = |world: &World<Process>| match world.machine(nodes.coordinator) {
            Some(Process::Coordinator(coordinator)) => coordinator.state().recovery_of(dead).cloned(),
            _ => None,
        };
        world.run_while(killed + RECOVERY_MAX, |world| recovery(world).is_none());
        let detection = (world.now() - killed) as f64 / 1e9;
        let mut last = None;
        // The record goes with the dead server.
        world.run_while(killed + RECOVERY_MAX, |world| match recovery(world) {
            Some(record) => {
                let is_done = record.done;
                last = Some(record);
                !is_done
            }
            None => false,
        });
        let record = last.expect("a recovery has begun");
        assert!(record.done, "it has not ended within an hour: {:?}", record.steps);
        let objects: u64 =
            nodes.masters.iter().map(|node| server(world, *node).master().map_or(0, objects)).sum();
        assert_eq!(objects, count, "objects are missing after {:?}", record.steps);
        (detection, record)
    }
}

fn objects(master: &ramhold_master::Master) -> u64 {
    master.log().usage().index_entry_count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{NOW, SOSP11_DISK};

    fn small(profile: Profile) -> Plan {
        Plan {
            profile,
            scale: FINE,
            masters: 4,
            backups: 8,
            apart: false,
            together: false,
            data: 0.4e9,
            value_bytes: 1024,
            replicas: 3,
            partition: None,
            choice: Choice::ReadTime,
            slowest: 1.0,
            layout: Layout::Star,
            cross_traffic: 0.0,
            end: End::Killed,
            seed: 1,
        }
    }

    // F11 J3
    #[test]
    fn the_same_recovery_takes_the_same_time() {
        let (one, other) = (small(NOW).measure(), small(NOW).measure());
        assert_eq!(
            (one.recovery, one.steps, one.partitions),
            (other.recovery, other.steps, other.partitions)
        );
        assert_eq!(one.busy.processors, other.busy.processors);
    }

    #[test]
    fn what_limits_a_recovery_is_what_it_takes_its_time_from() {
        let disks = small(SOSP11_DISK).measure().recovery;
        let slower = Profile { read: SOSP11_DISK.read / 4.0, ..SOSP11_DISK };
        let by_disks = small(slower).measure().recovery / disks;
        assert!((3.0..4.5).contains(&by_disks), "disks limit: {by_disks}");
        let slower = Profile { slower: SOSP11_DISK.slower * 1.5, ..SOSP11_DISK };
        let by_cores = small(slower).measure().recovery / disks;
        assert!((0.95..1.3).contains(&by_cores), "processors hardly: {by_cores}");
        let slower = Profile { network: NOW.network / 100.0, ..NOW };
        let by_network = small(slower).measure().recovery / small(NOW).measure().recovery;
        assert!(by_network > 3.0, "a hundredth of the network: {by_network}");
    }

    /// A coarser simulation of the same recovery gives about the same results.
    #[test]
    fn a_coarser_simulation_tells_about_the_same() {
        let large = Plan { data: 2.4e9, ..small(SOSP11_DISK) };
        let fine = large.measure().recovery;
        let coarse = Plan { scale: Scale::coarse(4), ..large }.measure().recovery;
        assert!((0.85..1.5).contains(&(coarse / fine)), "{coarse} instead of {fine}");
    }
}
