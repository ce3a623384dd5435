//! One shard's master, driven by frames without sockets. With replicas, it has three backups in this process.
//!
//! Requests come in turns, as a server's loop reads them from its connections. After each turn the master
//! gets its tick if one is due, and all frames between master and backups are delivered until none is left.
//! So cleaning is paced in the same way as in a server. The harness plays the coordinator.
//!
//! Invariant: between turns every request has its answer, or waits for something that only time or cleaning
//! can bring.
//!
//! Not here: the choice of writes (workload, sweep).

use super::backups::{self, Backups, CLUSTER, MASTER};
use super::clock::Clock;
use crate::failure::Failure;
use hdrhistogram::Histogram;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::limits::{SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_base::{
    ConnId, Effect, Effects, Instant, KeyHash, LeaseId, Peer, RpcId, Sequence, ServerId, Status, TableId,
    Term, Version,
};
use ramhold_log::Geometry;
use ramhold_master::{Master, MasterConfig};
use ramhold_wire::control::{Empty, encode_into};
use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::lease::{LeaseCheck, LeasesChecked, LiveLease};
use ramhold_wire::membership::{CeilingRaise, CeilingRaised, Durability};
use ramhold_wire::table::TabletTake;
use ramhold_wire::{CallRole, Header, Kind, Opcode, View, decode, frame};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

const TABLE: TableId = TableId(1);
const CLIENT: ConnId = ConnId(1_000);
/// Requests that the loop reads before it looks at its deadline, as with a client that keeps so many under way.
pub const TURN: u32 = 16;
/// A shard that makes a request wait for longer than this has stopped.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a client leaves a shard alone that has answered `retry`, at least until its next tick.
const RETRY_PAUSE: Duration = Duration::from_micros(100);
/// The client's lease lives for longer than any run.
const LEASE_MILLIS: u64 = 365 * 24 * 3_600_000;
/// Longer times count as this, in nanoseconds.
const NANOS_MAX: u64 = 60_000_000_000;

/// How the shard is made.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    pub log_bytes: u64,
    /// `None`: as long as a server's, or a 32nd of a small log.
    pub segment_bytes: Option<u32>,
    pub two_level: bool,
    pub replicas: u8,
    /// Below it the backups have their files.
    pub dir: PathBuf,
    /// Touch all memory beforehand, so that no request pays for the kernel's zeroing.
    pub touched: bool,
}

/// The time of the requests since `start_counting`.
pub struct Service {
    /// Nanoseconds in the master, per request.
    pub nanos: Histogram<u64>,
    /// The longest single step of the master: a request, an answer of a backup, a tick.
    pub longest_nanos: u64,
    /// Requests that were answered `retry` at least once.
    pub waits: u64,
    pub wait_longest_nanos: u64,
}

impl Service {
    pub fn new() -> Service {
        let nanos = Histogram::new_with_bounds(1, NANOS_MAX, 3).expect("these bounds are in order");
        Service { nanos, longest_nanos: 0, waits: 0, wait_longest_nanos: 0 }
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Done,
    /// The log is full.
    Refused,
}

pub struct Shard {
    master: Master,
    view: View,
    backups: Option<Backups>,
    clock: Clock,
    effects: Effects,
    request: Vec<u8>,
    sequence: u64,
    in_turn: u32,
    /// The status of the request under way, when it was answered.
    answered: Option<(RpcId, Status)>,
    outbox: VecDeque<(Peer, Vec<u8>)>,
    pub service: Service,
    /// Answers of `Ok` that are still to come.
    unanswered: u64,
}

/// Segments and seglets of a log of this size.
pub fn geometry(log_bytes: u64, segment_bytes: Option<u32>) -> Geometry {
    let fitting = || (log_bytes / 32).max(64 * 1024).min(u64::from(SEGMENT_BYTES));
    let segment_bytes = segment_bytes.unwrap_or_else(|| 1 << fitting().ilog2());
    let seglet_bytes = (segment_bytes / (SEGMENT_BYTES / SEGLET_BYTES)).clamp(4096, SEGLET_BYTES);
    Geometry { segment_bytes, seglet_bytes }
}

/// The index may be this large; it takes only what it needs.
pub fn index_bytes_max(log_bytes: u64) -> u64 {
    (log_bytes / 2).max(1 << 20)
}

impl Shard {
    pub fn new(config: &ShardConfig) -> Result<Shard, Failure> {
        let geometry = geometry(config.log_bytes, config.segment_bytes);
        let index_bytes = index_bytes_max(config.log_bytes);
        let mut master_config = MasterConfig::new(geometry, config.log_bytes, index_bytes);
        // No process is there to grant a read lease.
        master_config.read_lease = None;
        master_config.two_level_cleaning = config.two_level;
        let clock = Clock::default();
        let replicas_max = master_config.disk_bytes_max / u64::from(geometry.segment_bytes);
        let backups = match config.replicas {
            0 => None,
            count => {
                let count = u64::from(count);
                Some(Backups::start(count, &config.dir, geometry.segment_bytes, replicas_max, &clock)?)
            }
        };
        let view = backups::view(MASTER, u64::from(config.replicas));
        let bytes = usize::try_from(master_config.log_bytes).expect("memory fits the address space");
        let mut region = vec![0u8; bytes];
        if config.touched {
            region.iter_mut().step_by(4096).for_each(|byte| *std::hint::black_box(byte) = 0);
        }
        let master = Master::new(master_config, region, &view, Version(1 << 40), 1);
        let mut shard = Shard {
            master,
            view,
            backups,
            clock,
            effects: Effects::new(),
            request: Vec::new(),
            sequence: 0,
            in_turn: 0,
            answered: None,
            outbox: VecDeque::new(),
            service: Service::new(),
            unanswered: 0,
        };
        shard.take_tablet(config.replicas)?;
        Ok(shard)
    }

    pub fn master(&self) -> &Master {
        &self.master
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Bytes of all `Append` frames to backups so far.
    pub fn append_bytes(&self) -> u64 {
        self.backups.as_ref().map_or(0, Backups::append_bytes)
    }

    pub fn start_counting(&mut self) {
        self.service = Service::new();
    }

    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<Ended, Failure> {
        self.ask(Opcode::Write, |out| write_body(out, key, value))
    }

    pub fn remove(&mut self, key: &[u8]) -> Result<Ended, Failure> {
        let body = KeyRequest { table: TABLE, rules: RejectRules::default(), key };
        self.ask(Opcode::Remove, |out| body.encode(out))
    }

    /// Hands over and ticks until every request has its answer.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let began = self.clock.now();
        self.turn()?;
        while self.unanswered > 0 {
            self.pause(began)?;
        }
        Ok(())
    }

    /// Asks until the answer is no longer `retry`. With replicas `Ok` may come in a later turn.
    fn ask(&mut self, opcode: Opcode, body: impl Fn(&mut Vec<u8>)) -> Result<Ended, Failure> {
        let mut waits_since = None;
        let ended = loop {
            match self.ask_once(opcode, &body) {
                None | Some(Status::Ok) => break Ended::Done,
                Some(Status::OutOfMemory) => break Ended::Refused,
                Some(Status::Retry | Status::TooMany) => {
                    let since = *waits_since.get_or_insert(self.clock.now());
                    self.pause(since)?;
                }
                Some(status) => return Err(Failure::usage(format!("the shard answered: {status}"))),
            }
        };
        if let Some(since) = waits_since {
            let nanos = self.clock.now().0 - since.0;
            self.service.waits += 1;
            self.service.wait_longest_nanos = self.service.wait_longest_nanos.max(nanos);
        }
        self.in_turn += 1;
        if self.in_turn >= TURN {
            self.turn()?;
        }
        Ok(ended)
    }

    /// One request into the master, and its answer if that comes at once.
    fn ask_once(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> Option<Status> {
        let rpc = self.write_frame(opcode, body);
        let now = self.clock.now();
        let (header, body) = frame::parse(&self.request).expect("just written");
        self.master.on_request(
            now,
            opcode.try_into().expect("an operation of masters"),
            &header,
            body,
            CLIENT,
            &self.view,
            &mut self.effects,
        );
        self.master.turn_over(now, &self.view, &mut self.effects);
        let nanos = self.clock.now().0 - now.0;
        self.service.nanos.saturating_record(nanos);
        self.service.longest_nanos = self.service.longest_nanos.max(nanos);
        self.unanswered += 1;
        self.answered = None;
        self.sort_effects();
        self.answered.filter(|(answered, _)| *answered == rpc).map(|(_, status)| status)
    }

    fn write_frame(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> RpcId {
        self.sequence += 1;
        // Answers come in the order of the requests, except refusals, which come at once.
        let unacknowledged = Sequence(self.sequence.saturating_sub(self.unanswered).max(1));
        let header = Header {
            cluster: CLUSTER,
            target: MASTER,
            lease: LeaseId(1),
            sequence: Sequence(self.sequence),
            unacknowledged,
            ..Header::request(opcode, RpcId(self.sequence))
        };
        self.request.clear();
        frame::write(&mut self.request, &header, body);
        header.rpc
    }

    /// The end of one turn of the loop.
    fn turn(&mut self) -> Result<(), Failure> {
        self.in_turn = 0;
        let now = self.clock.now();
        if self.backups.as_ref().is_some_and(|backups| backups.is_due(now)) {
            let backups = self.backups.as_mut().expect("just looked at");
            self.clock.elsewhere(|| backups.tick(now))?;
        }
        self.hand_over()?;
        if self.master.deadline().is_some_and(|deadline| deadline <= self.clock.now()) {
            self.step(|master, now, view, effects| master.tick(now, view, effects));
            self.hand_over()?;
        }
        Ok(())
    }

    /// Lets a little time pass, up to the master's deadline. A failure when a request has waited too long.
    fn pause(&mut self, since: Instant) -> Result<(), Failure> {
        let until = self.clock.now() + RETRY_PAUSE;
        let until = self.master.deadline().map_or(until, |deadline| deadline.min(until));
        while self.clock.now() < until {
            std::hint::spin_loop();
        }
        if self.clock.now().since(since) > WAIT_MAX {
            let usage = self.master.log().usage();
            return Err(Failure::usage(format!(
                "the shard has made a request wait for {} s with {} of {} bytes free: cleaning stands still",
                WAIT_MAX.as_secs(),
                usage.free_bytes,
                usage.log_bytes
            )));
        }
        self.turn()
    }

    /// Hands over what master and backups say to each other until nothing is on its way.
    fn hand_over(&mut self) -> Result<(), Failure> {
        while !self.outbox.is_empty() {
            let sent = std::mem::take(&mut self.outbox);
            let now = self.clock.now();
            for (to, bytes) in &sent {
                if *to == Peer::Addr(self.view.coordinator) {
                    self.coordinate(bytes);
                    continue;
                }
                let backups = self.backups.as_mut().expect("without replicas only the coordinator is asked");
                self.clock.elsewhere(|| match *to {
                    Peer::Addr(to) => backups.hand(now, to, bytes),
                    Peer::Conn(to) => backups.answer(now, ServerId(to.0), bytes),
                })?;
            }
            let said = self.backups.as_mut().map(Backups::take_said).unwrap_or_default();
            for said in said {
                self.hear(&said.frame, ConnId(said.by.raw()));
            }
        }
        Ok(())
    }

    /// A frame of a backup or of the coordinator.
    fn hear(&mut self, bytes: &[u8], from: ConnId) {
        let (header, body) = frame::parse(bytes).expect("a frame of our own");
        self.step(|master, now, view, effects| match header.kind {
            Kind::Request => {
                let opcode = header.opcode().expect("an operation of our own");
                master.on_request(
                    now,
                    opcode.try_into().expect("an operation of masters"),
                    &header,
                    body,
                    from,
                    view,
                    effects,
                );
            }
            Kind::Reply if CallRole::of(header.rpc) == Some(CallRole::Master) => {
                master.on_reply(now, &header, body, view, effects);
            }
            Kind::Reply => master.on_replication_reply(now, &header, body, view),
        });
    }

    /// The coordinator agrees to everything.
    fn coordinate(&mut self, bytes: &[u8]) {
        let (header, body) = frame::parse(bytes).expect("the master's own frame");
        let mut answer = Vec::new();
        frame::write(&mut answer, &header.answer(Status::Ok), |out| match header.opcode() {
            Some(Opcode::CeilingRaise) => {
                let asked: CeilingRaise = decode(body).expect("the master's own message");
                encode_into(out, &CeilingRaised { ceiling: Version(asked.needed.raw() + (1 << 40)) });
            }
            Some(Opcode::LeaseCheck) => {
                let asked: LeaseCheck = decode(body).expect("the master's own message");
                let live = asked.leases.iter().map(|lease| LiveLease { lease: *lease, millis: LEASE_MILLIS });
                encode_into(out, &LeasesChecked { live: live.collect(), never: Vec::new() });
            }
            _ => encode_into(out, &Empty {}),
        });
        self.hear(&answer, ConnId(0));
    }

    fn step(&mut self, step: impl FnOnce(&mut Master, Instant, &View, &mut Effects)) {
        let now = self.clock.now();
        step(&mut self.master, now, &self.view, &mut self.effects);
        self.master.turn_over(now, &self.view, &mut self.effects);
        self.service.longest_nanos = self.service.longest_nanos.max(self.clock.now().0 - now.0);
        self.sort_effects();
    }

    /// Answers to the client are counted, other frames wait for the end of the turn.
    fn sort_effects(&mut self) {
        for effect in &self.effects.list {
            let Effect::Send { to, frame } = effect else { continue };
            let bytes = frame.of(&self.effects.bytes);
            if *to == Peer::Conn(CLIENT) {
                let (header, _) = frame::parse(&bytes).expect("the master's own frame");
                self.answered = Some((header.rpc, header.status()));
                self.unanswered -= 1;
                continue;
            }
            self.outbox.push_back((*to, bytes.into_owned()));
        }
        self.effects.clear();
    }

    fn take_tablet(&mut self, replicas: u8) -> Result<(), Failure> {
        let take = TabletTake {
            table: TABLE,
            seed: PlacementSeed(7),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            durability: if replicas == 0 { Durability::None } else { Durability::Buffered },
            replicas,
            version_floor: Version(0),
            slots: false,
        };
        let mut body = Vec::new();
        encode_into(&mut body, &take);
        let header = Header {
            cluster: CLUSTER,
            target: MASTER,
            term: Term(1),
            ..Header::request(Opcode::TabletTake, RpcId(0))
        };
        self.unanswered += 1;
        self.step(|master, now, view, effects| {
            master.on_request(
                now,
                Opcode::TabletTake.try_into().expect("an operation of masters"),
                &header,
                &body,
                CLIENT,
                view,
                effects,
            );
        });
        self.finish()?;
        match self.answered {
            Some((_, Status::Ok)) => Ok(()),
            other => Err(Failure::usage(format!("the shard did not take its tablet: {other:?}"))),
        }
    }
}

/// The body of a write, as a client makes it.
pub fn write_body(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    WriteRequest { table: TABLE, rules: RejectRules::default(), expiry: None, key, value }.encode(out);
}

/// Nanoseconds of CPU that a client's share of a write takes, which is no part of the shard: choosing, making the
/// frame, reading the clock and the answer. `body` makes the next request.
pub fn client_nanos(mut body: impl FnMut(&mut Vec<u8>)) -> f64 {
    const COUNT: u64 = 200_000;
    let clock = Clock::default();
    let (mut bytes, mut service, mut sum) = (Vec::new(), Service::new(), 0);
    let began = clock.cpu_nanos();
    for number in 0..COUNT {
        bytes.clear();
        let header = Header { cluster: CLUSTER, ..Header::request(Opcode::Write, RpcId(number)) };
        frame::write(&mut bytes, &header, &mut body);
        let now = clock.now();
        // This call stands for reading the answer.
        sum += frame::parse(&bytes).map_or(0, |(_, body)| body.len());
        service.nanos.saturating_record(clock.now().0 - now.0);
    }
    std::hint::black_box(sum);
    (clock.cpu_nanos() - began) as f64 / COUNT as f64
}
