//! Bricks beside the servers of a cluster: how many, their quorum table, and their processes.
//!
//! A brick's process counts marks of what happens in it, which a set of seeds must have met.
//!
//! Not here: which of them fail (fault), the operations on the table (`carts`). Catalogue: I1, I6, J3.

use super::settings::coordinator_address;
use crate::system::{BrickTolerance, Member};
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{Effects, Input, Instant, Level, Machine, Rng};
use ramhold_log::Geometry;
use ramhold_node::{BrickConfig, BrickNode, BrickNodeConfig, Coordinator};
use ramhold_wire::brick_status::BrickStatus;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Durability, Label};
use ramhold_wire::quorum::{QuorumOptions, WriteProtocol};
use ramhold_wire::table::TableOptions;
use std::net::SocketAddr;
use std::time::Duration;

const SEGMENT_BYTES: u32 = 16 * 1024;
const INDEX_BYTES: u64 = 1 << 20;
/// Frames beyond those that the memory's segments take, if all are full.
const FRAMES_SPARE: u64 = 16;
/// Half of the runs have so little memory that cleaning never rests.
const LOG_BYTES: [u64; 2] = [384 * 1024, 1024 * 1024];
/// One seed in this many is a long one, with little memory: a tombstone goes when nobody has written its key, and its bricks
/// have lived, for some minutes, and when everything older has left the log.
const LONG_ONE_IN: u64 = 32;
const LONG_AT: u64 = 9;
/// How far clocks of hosts are off that are set as they should be, in milliseconds.
const SKEW: u64 = 40;
const HOUR: i64 = 3_600_000;
/// How far two sessions' times may be apart, in nanoseconds: a session that begins may hear late answers first.
const TIME_SPREAD: u64 = 2_000_000_000;
/// A status walks over all segments.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// The bricks of a cluster, and the table that they hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrickSetup {
    pub bricks: u8,
    pub quorum: QuorumOptions,
    pub synced: bool,
    pub log_bytes: u64,
    /// The brick whose clock is an hour off, by its index from 0, and the error in milliseconds.
    pub wrong: Option<(u8, i64)>,
    /// The clocks of all clients' hosts are off by this, in milliseconds.
    pub client_skew: i64,
}

impl BrickSetup {
    /// How far two sessions' times may be apart, in nanoseconds. When a brick is down since before the others, and sessions,
    /// began, one wrong clock of two may be taken: the earlier one.
    pub(super) fn time_spread(&self) -> u64 {
        let behind = self.wrong.map_or(0, |(_, error)| error.min(0).unsigned_abs());
        TIME_SPREAD + behind * 1_000_000
    }

    /// Whether a seed runs for minutes.
    pub fn is_long(seed: u64) -> bool {
        seed % LONG_ONE_IN == LONG_AT
    }

    pub fn draw(seed: u64) -> BrickSetup {
        let mut rng = Rng::new(seed ^ 0xB41C_0000);
        let numbers =
            [(3, 2, 2), (3, 2, 2), (3, 2, 2), (3, 2, 2), (5, 3, 3), (4, 3, 2), (3, 3, 1), (5, 4, 2)];
        let (bricks, write, read) = *rng.pick(&numbers).expect("some are given");
        let protocols = [
            WriteProtocol::Adaptive,
            WriteProtocol::Adaptive,
            WriteProtocol::Single,
            WriteProtocol::TwoPhase,
        ];
        let protocol = *rng.pick(&protocols).expect("some are given");
        // At times enough for two tablets, and mostly some that hold nothing.
        let count = (bricks + rng.below(u64::from(bricks) + 2) as u8).min(8);
        let mut hour = |chance| match rng.chance(1, chance) {
            true => *rng.pick(&[-HOUR, HOUR]).expect("two ways"),
            false => 0,
        };
        let (wrong, client_skew) = (hour(3), hour(2));
        let sizes = if Self::is_long(seed) { &LOG_BYTES[..1] } else { &LOG_BYTES[..] };
        BrickSetup {
            bricks: count,
            quorum: QuorumOptions { bricks, write, read, protocol },
            synced: rng.chance(1, 3),
            log_bytes: *rng.pick(sizes).expect("two sizes"),
            wrong: (wrong != 0).then(|| (rng.below(u64::from(count)) as u8, wrong)),
            client_skew,
        }
    }

    pub(super) fn table_options(self) -> TableOptions {
        TableOptions {
            durability: if self.synced { Durability::Synced } else { Durability::Buffered },
            replicas: 0,
            tablets: 0,
            slots: false,
            zone: None,
            quorum: Some(self.quorum),
        }
    }

    pub(super) fn tolerance(self) -> BrickTolerance {
        let QuorumOptions { bricks, write, read, .. } = self.quorum;
        BrickTolerance {
            dark_at_once: usize::from(bricks - read),
            dark_all: self.synced,
            // Where one brick is a read quorum, a replacement needs the word that the old one is destroyed.
            replaces: read > 1 && self.bricks > bricks,
            may_stay_dead: usize::from(bricks - write.max(read)),
        }
    }

    pub(super) fn address(index: u8) -> SocketAddr {
        SocketAddr::from(([10, 2, 0, index + 1], 7402))
    }

    fn index(addr: SocketAddr) -> u8 {
        match addr {
            SocketAddr::V4(addr) => addr.ip().octets()[3] - 1,
            SocketAddr::V6(_) => unreachable!("bricks have addresses of version 4"),
        }
    }

    /// The error of a brick's wall clock.
    pub(super) fn skew(self, addr: SocketAddr) -> i64 {
        let index = Self::index(addr);
        let small = Rng::new(u64::from(index) ^ 0x5CE3).below(SKEW) as i64;
        self.wrong.filter(|(wrong, _)| *wrong == index).map_or(small, |(_, skew)| skew)
    }

    pub(super) fn process(self, member: &Member, seed: u64) -> BrickProcess {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: 1024 };
        let config = BrickConfig::new(Address(member.addr), geometry, self.log_bytes, INDEX_BYTES);
        // As few as a brick is started with.
        let frames = (self.log_bytes / u64::from(SEGMENT_BYTES)) + FRAMES_SPARE;
        let disk_bytes_max = (frames - FRAMES_SPARE / 2) * u64::from(SEGMENT_BYTES);
        let place = u64::from(Self::index(member.addr)) + 1;
        let config = BrickNodeConfig {
            brick: BrickConfig { place, disk_bytes_max, scrub_round_min: Duration::from_secs(2), ..config },
            backup: BackupConfig {
                segment_bytes: SEGMENT_BYTES,
                frames_max: frames as u32,
                frames_grow_by: 4,
                buffers: Buffers::Reserved { count: 8 },
                buffers_survive_power: false,
                flush_interval: Duration::from_millis(100),
                recovery_cache_bytes: 2 * u64::from(SEGMENT_BYTES),
                found_cache_bytes: 0,
                needed_interval: Duration::from_secs(1),
                directory: "/data".into(),
                is_own: true,
                mode: "buffers".into(),
            },
            coordinator: coordinator_address(),
            labels: vec![Label { name: "host".into(), value: member.name.clone() }],
            weight: 100,
            memory_bytes: self.log_bytes,
            version: "world".into(),
        };
        BrickProcess::new(BrickNode::new(config, vec![0; self.log_bytes as usize], seed))
    }
}

/// A brick, and what was counted of it.
pub struct BrickProcess {
    pub node: BrickNode,
    /// The number of its newest event that was counted.
    event: u64,
    counted: Counted,
    next: Instant,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    repairs: u64,
    rejected: u64,
    unknown: u64,
    refused: u64,
    swept: u64,
    graves: u64,
    graves_gone: u64,
    bound: u64,
}

impl Counted {
    fn of(node: &BrickNode, status: &BrickStatus) -> Counted {
        let classes = [status.gets, status.puts, status.stamps];
        Counted {
            repairs: status.repairs,
            rejected: classes.iter().map(|class| class.rejected).sum(),
            unknown: classes.iter().map(|class| class.unknown).sum(),
            refused: classes.iter().map(|class| class.refused).sum(),
            swept: status.sweep.stored,
            graves: status.graves,
            graves_gone: status.graves_gone,
            bound: node.brick.log().map_or(0, |log| log.bound()),
        }
    }
}

impl BrickProcess {
    fn new(node: BrickNode) -> BrickProcess {
        BrickProcess { node, event: 0, counted: Counted::default(), next: Instant::ZERO }
    }

    /// Counts what has happened: its events by their names, and what its counts tell.
    fn mark(&mut self, now: Instant, effects: &mut Effects) {
        let brick = &self.node.brick;
        for event in brick.events_after(self.event).events {
            self.event = event.number;
            let name = event.kind.replace('-', "_");
            effects.report(Level::Debug, format!("mark:brick_{name}"));
        }
        let Some(status) = self.node.seen(now).status.brick else { return };
        let counted = Counted::of(&self.node, &status);
        let before = std::mem::replace(&mut self.counted, counted);
        let places = [
            ("brick_repaired", before.repairs < counted.repairs),
            ("brick_rejected", before.rejected < counted.rejected),
            ("brick_forgot_a_stamp", before.unknown < counted.unknown),
            ("brick_refused", before.refused < counted.refused),
            ("brick_swept", before.swept < counted.swept),
            ("brick_grave_found", before.graves < counted.graves),
            ("brick_grave_gone", before.graves_gone < counted.graves_gone),
            ("brick_bound_rose", before.bound < counted.bound && before.bound > 0),
        ];
        for (name, _) in places.iter().filter(|(_, is_there)| *is_there) {
            effects.report(Level::Debug, format!("mark:{name}"));
        }
    }

    /// Whether all of its tablets vote.
    pub fn is_whole(&self) -> bool {
        self.node.brick.votes()
    }
}

impl Machine for BrickProcess {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.node.step(now, input, effects);
        if self.node.brick.is_serving() && self.next <= now {
            self.next = now + COUNT_EVERY;
            self.mark(now, effects);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.node.deadline()
    }
}

/// The first disagreement between the quorum tables as they are stored and the bricks that are up.
pub fn unsettled(coordinator: &Coordinator, bricks: &[&BrickProcess]) -> Option<String> {
    for process in bricks {
        let (brick, bytes) = (&process.node.brick, process.node.brick.queued_bytes());
        if bytes > 0 {
            let id = process.node.view().me;
            return Some(format!("{id} has questions of {bytes} bytes that wait: {:?}", brick.statistics()));
        }
    }
    let tables = coordinator.state().quorum_tables.values();
    for table in tables {
        if table.dropping {
            return Some(format!("{} is being dropped", table.id));
        }
        for tablet in &table.tablets {
            for member in &tablet.bricks {
                let has_it = bricks.iter().any(|process| {
                    let Some(state) = process.node.brick.state() else { return false };
                    let has = state.tablets.iter().any(|own| {
                        (own.table, own.first, own.last, own.epoch)
                            == (table.id, tablet.first, tablet.last, tablet.epoch)
                    });
                    state.brick == *member && has && process.is_whole()
                });
                if !has_it {
                    return Some(format!("{member} does not vote in epoch {} of {}", tablet.epoch, table.id));
                }
            }
        }
    }
    None
}
