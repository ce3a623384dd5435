//! The real cluster as a system of the simulator: a coordinator and storage servers, wired as on Linux.
//!
//! Not here: the set-up (settings), processes and sessions (process, session), which faults strike (fault),
//! which outcomes are right (checker), and the audit at the end (audit).
//! Catalogue: J3, E1.

pub mod bricks;
pub mod process;
pub mod session;
mod settings;

mod carts;
mod dividing;
mod door;
pub mod native;
mod resp;
mod roles;
mod scan;
mod tables;

use crate::cables::Cables;
use crate::disk::DiskOptions;
use crate::network::MILLI;
use crate::scenario::{Actor, RATE_PPM_MAX};
use crate::system::{
    BrickTolerance, MakeProcess, MakeSession, Member, Recovered, Role, Standing, System, Tolerance,
};
use crate::watch::Watch;
use crate::workload::{MANY_TAGS_FROM, Workload};
use crate::world::World;
use bricks::{BrickProcess, BrickSetup};
use native::NativeSession;
use process::{Process, Server, TIME_SLACK};
use ramhold_base::{Mark, MarkUse, Rng, SegmentId, ServerId};
use ramhold_node::{Coordinator, CoordinatorConfig, Rebuild, ServerNode};
use ramhold_wire::membership::Durability;
use resp::RespSession;
use session::ClusterSession;
pub use settings::Cluster;
use settings::{SEGMENT_BYTES, coordinator_address};
use std::net::SocketAddr;
use std::time::Duration;

impl Cluster {
    /// The named crash points of a role's processes. A point that is there twice is drawn twice as often.
    fn crash_points_of(&self, role: Role) -> Vec<&'static str> {
        let with = |purposes: &'static [MarkUse]| {
            Mark::ALL.iter().filter(|mark| purposes.contains(&mark.purpose())).map(|mark| mark.name())
        };
        use MarkUse::*;
        match role {
            Role::Server if self.zones > 0 => with(&[ServerCrash, RareServerCrash])
                .chain(with(&[RareServerCrash, FurtherServerCrash, ZonesServerCrash]))
                .chain(with(&[ZonesServerCrash]))
                .collect(),
            Role::Server if self.planes > 0 => with(&[ServerCrash, RareServerCrash])
                .chain(with(&[RareServerCrash, FurtherServerCrash, LinksServerCrash]))
                .chain(with(&[LinksServerCrash]))
                .collect(),
            Role::Server => with(&[ServerCrash, RareServerCrash])
                .chain(with(&[RareServerCrash, FurtherServerCrash]))
                .collect(),
            // They have no marks of their own.
            Role::Brick => Vec::new(),
            Role::Coordinator if self.bricks.is_some() => {
                let all = with(&[CoordinatorCrash, FurtherCoordinatorCrash, BricksCoordinatorCrash]);
                all.chain(with(&[CoordinatorCrash, BricksCoordinatorCrash])).collect()
            }
            Role::Coordinator => {
                with(&[CoordinatorCrash]).chain(with(&[CoordinatorCrash, FurtherCoordinatorCrash])).collect()
            }
        }
    }
}

impl System for Cluster {
    type Process = Process;
    type Session = ClusterSession;

    fn members(&self) -> Vec<Member> {
        let coordinator = Member {
            name: "coordinator".into(),
            addr: coordinator_address(),
            links: Vec::new(),
            role: Role::Coordinator,
            disk: DiskOptions::default(),
        };
        let server = |index: u8| Member {
            name: format!("server {index}"),
            addr: settings::server_address(index - 1),
            links: self.links(index - 1).into_iter().map(|link| link.address.0).collect(),
            role: Role::Server,
            disk: DiskOptions::default(),
        };
        let brick = |index: u8| Member {
            name: format!("brick {}", index + 1),
            addr: BrickSetup::address(index),
            links: Vec::new(),
            role: Role::Brick,
            disk: DiskOptions::default(),
        };
        let bricks = (0..self.bricks.map_or(0, |setup| setup.bricks)).map(brick);
        [coordinator].into_iter().chain((1..=self.servers).map(server)).chain(bricks).collect()
    }

    fn is_tight(&self) -> bool {
        self.tight
    }

    fn workload(&self, rng: &mut Rng) -> Workload {
        let drawn = Workload {
            counting_percent: rng.between(5, 30),
            scan_permille: rng.below(4),
            commit_percent: rng.between(3, 20),
            ..Workload::draw(rng)
        };
        if self.bricks.is_some() {
            return Workload {
                register_keys: rng.between(5, 40) as u32,
                register_percent: rng.between(40, 75),
                scan_permille: drawn.scan_permille.max(2),
                ..drawn
            };
        }
        if !self.tight {
            return drawn;
        }
        // Enough keys and writes to fill the memory within a few seconds, and to stay at the limit.
        Workload {
            cold_keys: rng.between(900, 2000) as u32,
            cold_from: MANY_TAGS_FROM,
            hot_percent: rng.below(20),
            reads: rng.between(1, 2),
            writes: rng.between(4, 6),
            removes: rng.below(2),
            value_bytes_max: 6000,
            think_max: 1_000_000 * rng.between(10, 20),
            ..drawn
        }
    }

    fn processes(&self, member: &Member) -> MakeProcess<Process> {
        let (cluster, member) = (*self, member.clone());
        Box::new(move |life| match member.role {
            Role::Coordinator => {
                let plain = CoordinatorConfig::new(member.addr);
                let config = CoordinatorConfig {
                    verify_timeout: cluster.verify_timeout().unwrap_or(plain.verify_timeout),
                    cold_start_wait: Duration::from_secs(5),
                    partition_bytes_min: cluster.partition_bytes_min(),
                    partition_bytes_max: cluster.partition_bytes_max(),
                    segment_bytes: SEGMENT_BYTES,
                    default_replicas: cluster.replicas,
                    placement: cluster.placement,
                    topology: cluster.topology(),
                    // Leases end within a run, and some of them end while requests under them still wait.
                    lease_term_min: Duration::from_secs(1),
                    rebuild: life.store_lost.then(Rebuild::default),
                    ..plain
                };
                Process::Coordinator(Box::new(Coordinator::new(config, life.seed)))
            }
            Role::Brick => {
                let setup = cluster.bricks.expect("who has bricks has their set-up");
                Process::Brick(Box::new(setup.process(&member, life.seed)))
            }
            Role::Server => {
                let config = cluster.server_config(member.addr, &member.name);
                let region = vec![0; config.master_config.log_bytes as usize];
                Process::Server(Box::new(Server::new(ServerNode::new(config, region, life.seed))))
            }
        })
    }

    fn hears_bytes(&self) -> bool {
        self.resp
    }

    fn sessions(&self) -> MakeSession<ClusterSession> {
        let (replicas, resp, second) = (self.replicas, self.resp, self.second);
        // Where frames are few, there may never be room for more copies.
        let may_grow = self.frames.is_none();
        // Where memory is full, there may never be room for copies. A stretch that cannot be moved is not cut
        // either (docs/protocols/reclassing.md).
        let may_alter = !self.tight;
        let (zones, tablets, bricks) = (self.zones, self.tablets, self.bricks);
        let durability = if self.synced { Durability::Synced } else { Durability::Buffered };
        let servers: Vec<SocketAddr> =
            self.members().into_iter().filter(|m| m.role == Role::Server).map(|m| m.addr).collect();
        Box::new(move |seed| {
            if resp && Rng::new(seed ^ 0x4E5B).chance(1, 2) {
                ClusterSession::Resp(Box::new(RespSession::new(seed, servers.clone())))
            } else {
                let may = (may_alter, may_grow);
                let session = NativeSession::new(seed, (durability, replicas), second, may, zones)
                    .with_tablets(tablets)
                    .with_bricks(bricks);
                ClusterSession::Native(Box::new(session))
            }
        })
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            // Killed processes keep the contents of their files and buffers, so any number may be down for a
            // while.
            down_at_once: usize::from(self.servers) - 1,
            // A fault that takes one replica away for good needs two others, since the next may be lost
            // before the replica is replaced.
            power_cut: self.replicas >= 3 || self.synced,
            power_cut_of_all: self.synced,
            rotting: usize::from(self.replicas).saturating_sub(2),
            memory_flips: self.replicas >= 3,
            disk_errors: self.replicas >= 3,
            lost_store: true,
            zones: usize::from(self.zones),
            planes: usize::from(self.planes),
            has_cables: self.cube.is_some(),
        }
    }

    fn brick_tolerance(&self) -> Option<BrickTolerance> {
        self.bricks.map(BrickSetup::tolerance)
    }

    fn wall_skew(&self, member: Option<&Member>) -> Option<i64> {
        let setup = self.bricks?;
        match member {
            Some(member) if member.role == Role::Brick => Some(setup.skew(member.addr)),
            Some(_) => None,
            None => Some(setup.client_skew),
        }
    }

    fn is_whole(&self, process: &Process) -> bool {
        process.brick().is_none_or(BrickProcess::is_whole)
    }

    fn bricks_are_whole(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        crate::audit::in_charge(world)
            .is_some_and(|coordinator| bricks::unsettled(coordinator, &crate::audit::bricks(world)).is_none())
    }

    fn cables(&self, servers: &[usize]) -> Option<Cables> {
        Cluster::cables(*self, servers)
    }

    fn flip_memory(&self, process: &mut Process, rng: &mut Rng) -> bool {
        let Process::Server(server) = process else { return false };
        let Some(master) = server.node.master_mut() else { return false };
        let segments: Vec<(SegmentId, u32)> =
            master.log().segments().map(|segment| (segment.id, segment.len_bytes)).collect();
        let Some((segment, bytes)) = rng.pick(&segments).copied().filter(|(_, bytes)| *bytes > 0) else {
            return false;
        };
        master.flip_bit(segment, rng.below(u64::from(bytes)) as u32, rng.below(8) as u8);
        true
    }

    /// Whether every acknowledged write is on R whole backups again, so that another host may lose its
    /// buffers. If writes were on R devices before they were acknowledged, there is nothing to wait for.
    fn may_cut_power(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        self.synced || self.unsettled(world).is_none()
    }

    /// While the new coordinator collects the state, no further server dies. So the servers that it needs are
    /// there at this moment, but for one.
    fn may_lose_store(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        let Some(coordinator) = crate::audit::in_charge(world) else { return false };
        let processes = crate::audit::servers(world);
        let serving = processes.iter().filter(|server| server.phase() == ramhold_node::Phase::Serving);
        let living: Vec<_> = serving.map(|server| server.id()).collect();
        let up: Vec<_> = coordinator.state().all_up().map(|record| record.entry.id).collect();
        let missing = up.iter().filter(|id| !living.contains(id)).count();
        processes.len() == usize::from(self.servers)
            && coordinator.is_copied()
            && missing + 2 < up.len().min(4)
    }

    /// All but one of the servers that hold a segment's replicas. With little memory the others might have no
    /// room.
    fn may_stay_dead(&self) -> usize {
        if self.tight { 0 } else { usize::from(self.replicas) - 1 }
    }

    fn is_in_charge(&self, world: &World<Actor<Process, ClusterSession>>) -> bool {
        crate::audit::in_charge(world).is_some()
    }

    fn crash_points(&self, role: Role) -> Vec<&'static str> {
        let points = self.crash_points_of(role);
        match self.aim {
            Some(aim) if points.contains(&aim) => vec![aim],
            _ => points,
        }
    }

    /// The cluster time of two servers differs by much in two cases. A server may hear it late (a frame that
    /// is held, a process that stands still). A server that enlists soon after a coordinator's start is told
    /// the ceiling, up to 10 s ahead. The facts contain both. Added are the drift of the servers' own clocks
    /// in the meantime, and rounding.
    fn clock_spread(&self, world: &World<Actor<Process, ClusterSession>>) -> u64 {
        let offsets = world.facts.iter().filter_map(|fact| {
            let millis: i64 = fact.text.strip_prefix("time ")?.parse().ok()?;
            Some(millis - i64::try_from(fact.at / MILLI).expect("a run of less than centuries"))
        });
        let (least, most) = offsets.fold((i64::MAX, i64::MIN), |(a, b), o| (a.min(o), b.max(o)));
        let told = most.saturating_sub(least).max(0).unsigned_abs() * MILLI;
        let drift = world.now() / 1_000_000 * u64::from(RATE_PPM_MAX);
        let told = told + 2 * drift + 2 * (TIME_SLACK + MILLI);
        self.bricks.map_or(told, |setup| told.max(setup.time_spread()))
    }

    fn is_broken(&self, process: &Process) -> bool {
        match process {
            Process::Server(server) => server.node.backup().has_failed(),
            Process::Coordinator(_) | Process::Brick(_) => false,
        }
    }

    fn unsettled(&self, world: &World<Actor<Process, ClusterSession>>) -> Option<String> {
        use crate::audit::{changing, in_charge, overdue, servers, unsettled};
        let Some(coordinator) = in_charge(world) else { return Some("no coordinator is in charge".into()) };
        let of_bricks = || bricks::unsettled(coordinator, &crate::audit::bricks(world));
        changing(coordinator)
            .or_else(of_bricks)
            .or_else(|| unsettled(self.servers, &servers(world)))
            .or_else(|| overdue(world))
    }

    fn standing(&self, world: &World<Actor<Process, ClusterSession>>, node: usize) -> Option<Standing> {
        roles::standing(world, self.placement, node)
    }

    fn is_recovered(
        &self,
        world: &World<Actor<Process, ClusterSession>>,
        dead: ServerId,
        how: Recovered,
    ) -> bool {
        crate::audit::in_charge(world)
            .is_some_and(|coordinator| roles::is_recovered(coordinator.state(), dead, how))
    }

    fn watch(&self, world: &World<Actor<Process, ClusterSession>>, watch: &mut Watch) {
        watch.look(world);
    }

    fn audit(&self, world: &World<Actor<Process, ClusterSession>>) -> Vec<String> {
        use crate::audit::{audit, servers, stored};
        let coordinator = crate::audit::in_charge(world).expect("a settled cluster has a coordinator");
        crate::audit::bricks(world).iter().for_each(|brick| brick.node.check_invariants());
        // This is a minimum: a second table, and tables altered later, have no fewer.
        let mut findings = audit(Some(self.replicas), &stored(coordinator), &servers(world));
        findings.extend(crate::audit::gone_and_there(coordinator));
        let there: Vec<&str> = coordinator.state().tables.values().map(|t| t.name.as_str()).collect();
        let facts = world.facts.iter().map(|fact| fact.text.as_str());
        findings.extend(tables::contradictions(facts, &there));
        let wrong = world.facts.iter().filter_map(|fact| fact.text.strip_prefix(door::OPEN));
        findings.extend(wrong.take(20).map(ToString::to_string));
        findings
    }
}
