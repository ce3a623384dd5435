//! The network of a rig: frames between bricks, clients and a coordinator, each after a delay of its own.
//!
//! A frame reaches whatever life its receiver has by then, or nobody.

use crate::host::{COORDINATOR, Host};
use crate::rig::{Event, Rig, TABLE, key_of};
use crate::scans::heard;
use crate::sessions::Value;
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{ClusterId, ClusterTime, ConnId, Input, KeyHash, Peer, RpcId, ServerId, Status, TableId};
use ramhold_quorum::{Answer, Ask, BrickId, Life, Said};
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::bricks::{BrickAssignment, BrickHello, BrickTable, BrickWelcome, GivenUp};
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::{BrickPlace, BrickTablet, QuorumOptions, WriteProtocol};
use ramhold_wire::{Header, Kind, Message, Opcode, decode, frame};
use std::net::SocketAddr;

pub const CLUSTER: ClusterId = ClusterId(9);

/// Somebody who sends and gets frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    Host(usize),
    Coordinator,
    /// The supervisor of a host's brick.
    Supervisor(usize),
    Client(usize),
    /// A test that speaks for itself.
    Test,
}

impl Party {
    /// The connection over which this party's frames come to others.
    pub fn conn(self) -> ConnId {
        ConnId(match self {
            Party::Host(host) => host as u64,
            Party::Coordinator => 50,
            Party::Test => 51,
            Party::Supervisor(host) => 60 + host as u64,
            Party::Client(client) => 100 + client as u64,
        })
    }

    pub fn of(to: Peer) -> Party {
        match to {
            Peer::Addr(COORDINATOR) => Party::Coordinator,
            Peer::Addr(address) if address.port() >= SUPERVISOR_PORT => {
                Party::Supervisor(usize::from(address.port() - SUPERVISOR_PORT))
            }
            Peer::Addr(address) => Party::Host(usize::from(address.port()) - 7000),
            Peer::Conn(ConnId(50)) => Party::Coordinator,
            Peer::Conn(ConnId(51)) => Party::Test,
            Peer::Conn(ConnId(conn)) if conn >= 100 => Party::Client(conn as usize - 100),
            Peer::Conn(ConnId(conn)) if conn >= 60 => Party::Supervisor(conn as usize - 60),
            Peer::Conn(ConnId(conn)) => Party::Host(conn as usize),
        }
    }
}

/// The port of the first supervisor.
pub const SUPERVISOR_PORT: u16 = 8000;

/// Where the brick of a host listens.
pub fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + host as u16))
}

/// The frame of a request to a brick.
pub fn request<M: Message>(rpc: u64, (sender, target): (ServerId, ServerId), message: &M) -> Vec<u8> {
    let header = Header { cluster: CLUSTER, sender, target, ..Header::request(M::OPCODE, RpcId(rpc)) };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| encode_into(out, message));
    bytes
}

impl Rig {
    pub fn send(&mut self, from: Party, to: Party, bytes: Vec<u8>) {
        if self.cuts.contains(&(from, to)) {
            return;
        }
        let is_page = || frame::peek(&bytes).is_some_and(|(_, opcode)| opcode == Some(Opcode::TabletPage));
        if self.lost_pages == Some((from, to)) && is_page() {
            return;
        }
        let is_far = |(host, _): &(usize, u64)| [from, to].contains(&Party::Host(*host));
        let far = self.far.filter(is_far).map_or(0, |(_, nanos)| nanos);
        let at = self.now + self.delay() + far;
        self.at(at, Event::Frame { from, to, bytes });
    }

    /// Sends what a host's process has sent in its step.
    pub(crate) fn send_all(&mut self, host: usize) {
        for (to, bytes) in std::mem::take(&mut self.hosts[host].sent) {
            self.send(Party::Host(host), Party::of(to), bytes);
        }
    }

    pub(crate) fn on_frame(&mut self, from: Party, to: Party, bytes: Vec<u8>) {
        let bytes = self.with_forged(bytes);
        match to {
            Party::Host(host) if self.deaf.contains(&host) && matches!(from, Party::Host(_)) => {}
            Party::Host(host) => {
                if let (None, Party::Client(client)) = (&self.hosts[host].node, from) {
                    self.refused_by(client, BrickId(self.hosts[host].id.raw()));
                }
                let is_page =
                    frame::peek(&bytes).is_some_and(|(_, opcode)| opcode == Some(Opcode::TabletPage));
                self.pages += u32::from(is_page);
                let input = Input::Frame { from: from.conn(), bytes: &bytes };
                let now = self.instant();
                let begun = self.hosts[host].step(now, input);
                self.begin_disk(host, begun);
            }
            Party::Coordinator if self.head.is_some() => self.send_to_head(from, bytes),
            Party::Coordinator => self.coordinate(from, &bytes),
            Party::Supervisor(host) => self.on_supervisor_frame(host, from, &bytes),
            Party::Client(client) => self.on_asked(client, &bytes),
            Party::Test => {
                let (header, body) = frame::parse(&bytes).unwrap();
                self.told.push((header, body.to_vec()));
            }
        }
    }

    fn place(&self, host: usize) -> BrickPlace {
        BrickPlace { brick: self.hosts[host].id, address: Address(address(host)) }
    }

    fn places(&self) -> Vec<BrickPlace> {
        self.tablet.members.iter().map(|host| self.place(*host)).collect()
    }

    /// One table, whole, for all bricks.
    pub fn assignment(&self, version: u64, table: TableId, dropped: Vec<TableId>) -> BrickAssignment {
        let (write, read) = (self.thresholds.write() as u8, self.thresholds.read() as u8);
        let quorum = QuorumOptions {
            bricks: self.thresholds.bricks() as u8,
            write,
            read,
            protocol: WriteProtocol::Adaptive,
        };
        BrickAssignment {
            version,
            tables: vec![BrickTable {
                table,
                name: "carts".into(),
                seed: PlacementSeed(5),
                slots: false,
                durability: self.setting.durability,
                quorum,
            }],
            tablets: vec![BrickTablet {
                table,
                first: KeyHash(0),
                last: KeyHash(u64::MAX),
                epoch: self.tablet.epoch,
                bricks: self.places(),
                joined: self.tablet.joined.clone(),
                giving: None,
            }],
            dropped,
            given_up: Vec::new(),
        }
    }

    /// As `assignment`, with further tables, each whole on the same bricks.
    pub fn assignment_with(&self, version: u64, others: &[(TableId, Durability)]) -> BrickAssignment {
        let mut assignment = self.assignment(version, TABLE, Vec::new());
        for (table, durability) in others {
            let (first, whole) = (assignment.tables[0].clone(), assignment.tablets[0].clone());
            let name = format!("carts{}", table.0);
            assignment.tables.push(BrickTable { table: *table, name, durability: *durability, ..first });
            assignment.tablets.push(BrickTablet { table: *table, epoch: 1, joined: Vec::new(), ..whole });
        }
        assignment
    }

    /// Gives all bricks further tables, with their second assignment.
    pub fn add_tables(&mut self, others: &[(TableId, Durability)]) {
        self.assignment = Some(self.assignment_with(2, others));
        self.run_until(|rig| {
            let has_taken = |host: &Host| host.node.as_ref().is_some_and(|node| node.brick.taken() == 2);
            rig.hosts.iter().all(has_taken) && rig.all_vote()
        });
    }

    /// The coordinator names bricks and gives each the whole table. Afterwards it is away: nobody needs it.
    fn coordinate(&mut self, from: Party, bytes: &[u8]) {
        if self.is_founded && self.assignment.is_none() {
            return;
        }
        let (header, body) = frame::parse(bytes).unwrap();
        assert_eq!((header.kind, header.opcode()), (Kind::Request, Some(Opcode::BrickHello)));
        let hello: BrickHello = decode(body).unwrap();
        let Party::Host(host) = from else { panic!("only bricks speak to the coordinator") };
        let me = self.hosts[host].id;
        self.hellos.insert(host, hello.clone());
        assert!(hello.brick.is_none_or(|brick| brick == me) && hello.address.0 == address(host));
        if !self.answered.is_empty() && !self.answered.contains(&host) {
            return;
        }
        let mut bricks = self.places();
        let mut assignment = self.assignment.clone().unwrap_or_else(|| self.assignment(1, TABLE, Vec::new()));
        if !self.tablet.members.contains(&host) {
            let BrickTablet { table, first, last, epoch, .. } = assignment.tablets[0];
            let given_up = vec![GivenUp { table, first, last, epoch }];
            let version = if self.tablet.former.contains(&host) { assignment.version } else { 0 };
            assignment = BrickAssignment { version, given_up, ..BrickAssignment::default() };
            bricks.clear();
        }
        let welcome = BrickWelcome {
            cluster: CLUSTER,
            brick: me,
            index_secret: 77,
            time: ClusterTime(0),
            assignment: Some(assignment).filter(|assignment| hello.taken != assignment.version),
            siblings: bricks.into_iter().filter(|place| place.brick != me).collect(),
            others: self.others.iter().copied().filter(|it| *it != host).map(|it| self.place(it)).collect(),
        };
        let mut reply = Vec::new();
        frame::write(&mut reply, &header.answer(Status::Ok), |out| encode_into(out, &welcome));
        self.send(Party::Coordinator, from, reply);
    }

    pub(crate) fn ask(
        &mut self,
        client: usize,
        number: u64,
        (to, attempt): (BrickId, u32),
        ask: &Ask<Value>,
    ) {
        let key = key_of(self.clients[client].key);
        let what = match ask {
            Ask::Value => AskWhat::Value,
            Ask::Stamp => AskWhat::Stamp,
            Ask::Write(write) => AskWhat::Write(AskedWrite {
                stamp: write.stamp,
                begun: write.begun,
                is_repair: write.is_repair,
                value: write.value.as_ref().map(|bytes| StampedValue { bytes, expires: None }),
            }),
        };
        self.rpc_last += 1;
        self.askers.insert(self.rpc_last, (client, number, attempt));
        let header = Header {
            cluster: CLUSTER,
            target: ServerId(to.0),
            ..Header::request(Opcode::Ask, RpcId(self.rpc_last))
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| AskRequest { table: TABLE, key: &key, what }.encode(out));
        self.send(Party::Client(client), Party::Host(to.0 as usize - 1), bytes);
    }

    fn on_asked(&mut self, client: usize, bytes: &[u8]) {
        let (header, body) = frame::parse(bytes).unwrap();
        let Some((_, number, attempt)) = self.askers.remove(&header.rpc.raw()) else {
            panic!("a brick answers once");
        };
        match header.status() {
            Status::Ok if header.opcode() == Some(Opcode::BrickPage) => {
                self.page_answered(client, number, heard(header.sender, body));
            }
            Status::Ok => {
                let reply = AskReply::decode(body).unwrap();
                self.answered(client, number, attempt, answer_of(header.sender, &reply));
            }
            // A brick that does not have its tablet yet, or not any more, does not know the table.
            Status::NotReady
            | Status::TooMany
            | Status::OutOfMemory
            | Status::Retry
            | Status::UnknownTable => {
                self.refused += 1;
                self.refused_by(client, BrickId(header.sender.raw()));
            }
            status => panic!("{status}"),
        }
    }
}

fn answer_of(from: ServerId, reply: &AskReply<'_>) -> Answer<Value> {
    let value = |it: StampedValue<'_>| it.bytes.to_vec();
    let said = match reply.said {
        AskSaid::Value(stamp, it) => Said::Value(stamp, it.map(value)),
        AskSaid::Stamp(stamp) => Said::Stamp(stamp),
        AskSaid::Applied => Said::Applied,
        AskSaid::Rejected(stamp) => Said::Rejected(stamp),
        AskSaid::Unknown(stamp) => Said::Unknown(stamp),
        AskSaid::WrongOwner => Said::WrongOwner,
    };
    let siblings = reply.siblings.iter().map(|(brick, life)| (BrickId(brick.raw()), Life(*life)));
    Answer {
        from: BrickId(from.raw()),
        life: Life(reply.life),
        siblings: siblings.collect(),
        epoch: reply.epoch,
        clock: reply.clock,
        said,
    }
}
