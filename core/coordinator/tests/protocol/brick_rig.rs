//! Bricks as the coordinator sees them: they say hello when a test wants it, and take what they are assigned.

use crate::harness::*;
use ramhold_base::{ClusterId, ConnId, DirectoryId, RpcId, ServerId, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::bricks::{BrickAssignment, BrickHello, BrickWelcome};
use ramhold_wire::control::Address;
use ramhold_wire::decode;
use ramhold_wire::membership::{Durability, Label};
use ramhold_wire::quorum::{QuorumOptions, WriteProtocol};
use ramhold_wire::table::{TableCreate, TableOptions};

/// One brick process. Its directory has the number of the port on which it began.
#[derive(Clone)]
pub struct Brick {
    pub port: u16,
    pub cluster: ClusterId,
    pub message: BrickHello,
    /// The last assignment that it took.
    pub assignment: BrickAssignment,
}

impl Brick {
    pub fn new(port: u16) -> Brick {
        let message = BrickHello {
            weight: None,
            token: 1000 + u64::from(port),
            directory: DirectoryId(u64::from(port)),
            brick: None,
            life: 1,
            address: Address(addr(port)),
            labels: Vec::new(),
            log_bytes: 1 << 20,
            taken: 0,
            without_vote: 0,
            used_bytes: 0,
            supervisor: None,
            loads: None,
            rebuilt: None,
        };
        Brick { port, cluster: ClusterId::NONE, message, assignment: BrickAssignment::default() }
    }

    pub fn labelled(port: u16, labels: &[(&str, &str)]) -> Brick {
        let mut brick = Brick::new(port);
        let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
        brick.message.labels = labels.iter().map(label).collect();
        brick
    }

    pub fn id(&self) -> ServerId {
        self.message.brick.expect("it was named")
    }

    fn header(&self) -> Header {
        Header { cluster: self.cluster, ..Header::default() }
    }

    fn conn(&self) -> ConnId {
        ConnId(u64::from(self.port))
    }

    /// Says hello; the answer is found by its number.
    pub fn push(&self, world: &mut World) -> RpcId {
        world.push(self.conn(), self.header(), &self.message)
    }

    /// Says hello, and does nothing because of the answer.
    pub fn ask(&self, world: &mut World) -> Result<BrickWelcome, Status> {
        world.ask_as(self.conn(), self.header(), &self.message).expect("an answer")
    }

    /// Says hello, and remembers who it is.
    pub fn hello(&mut self, world: &mut World) -> BrickWelcome {
        let welcome = self.ask(world).expect("to be welcome");
        self.cluster = welcome.cluster;
        self.message.brick = Some(welcome.brick);
        welcome
    }

    /// Says hello until it has told that it has everything it is assigned.
    pub fn take(&mut self, world: &mut World) {
        for _ in 0..3 {
            let Some(assignment) = self.hello(world).assignment else { return };
            self.message.taken = assignment.version;
            self.assignment = assignment;
        }
        panic!("a brick is assigned the same again and again");
    }

    /// Its process ends, and another one starts on its directory.
    pub fn start_again(&mut self) {
        self.message.life += 1;
        self.message.token += 10_000;
    }
}

/// All take what they are assigned.
pub fn take_all(world: &mut World, bricks: &mut [Brick]) {
    bricks.iter_mut().for_each(|brick| brick.take(world));
}

/// Names these bricks; each is heard under its name.
pub fn name_all(world: &mut World, mut bricks: Vec<Brick>) -> Vec<Brick> {
    for brick in &mut bricks {
        brick.hello(world);
        brick.hello(world);
    }
    bricks
}

/// Bricks without labels on ports from 101 on.
pub fn bricks(world: &mut World, count: u16) -> Vec<Brick> {
    name_all(world, (101..101 + count).map(Brick::new).collect())
}

/// A quorum table of N, W and R.
pub fn quorum(bricks: u8, write: u8, read: u8) -> TableOptions {
    TableOptions {
        durability: Durability::Buffered,
        replicas: 0,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: Some(QuorumOptions { bricks, write, read, protocol: WriteProtocol::Adaptive }),
    }
}

pub fn create(name: &str, options: TableOptions) -> TableCreate {
    TableCreate { name: name.into(), options, left_open: None }
}

/// Creates a table, which all of these bricks take.
pub fn made(world: &mut World, bricks: &mut [Brick], name: &str, options: TableOptions) -> TableId {
    let (number, message) = (world.number(), create(name, options));
    assert_eq!(world.ask_as(CLIENT, number, &message), None, "no brick has it yet");
    take_all(world, bricks);
    world.ask_as(CLIENT, number, &message).expect("an answer").expect("a table").table
}

/// The status and the body of an answer, if it has come.
pub fn told<T: for<'b> minicbor::Decode<'b, ()>>(world: &World, rpc: RpcId) -> Option<(Status, Option<T>)> {
    let (status, body) = world.answer_to(rpc)?;
    Some((status, decode(body).ok()))
}
