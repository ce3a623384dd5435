//! Reads and writes allocate nothing in the servers once every buffer has its size.
//!
//! The allocator of this test counts the allocations of each thread, and all simulated processes are stepped on the test's
//! own. Only steps that a read or a write consists of are told: its frame, the appends at its backups and their answers,
//! what devices complete, the ends of turns. Work that comes once for many of them (a new head, cleaning) may allocate;
//! so may pings and the coordinator.
//!
//! Not here: the event loop and its buffers (io/runtime). Catalogue: E3.

#![expect(unsafe_code, reason = "an allocator is one")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use ramhold_base::{Effects, Input, Instant, Machine, TableId};
use ramhold_client_core::{Operation, Outcome, RejectRules, Reply, Session, SessionConfig};
use ramhold_wire::Opcode;
use ramhold_wire::frame::{self, Kind};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TableOptions;
use ramhold_world::cluster::Cluster;
use ramhold_world::cluster::process::{Process, Server};
use ramhold_world::network::{MILLI, NetworkOptions};
use ramhold_world::system::System;
use ramhold_world::world::{NodeOptions, World};
use std::alloc::{GlobalAlloc, Layout, System as SystemAllocator};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static STEPS: RefCell<BTreeMap<&'static str, Steps>> = const { RefCell::new(BTreeMap::new()) };
}

fn count() {
    // A thread that is ending is not counted any more.
    _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: everything is left to the system's allocator. The counting beside it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { SystemAllocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { SystemAllocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are handed on.
        unsafe { SystemAllocator.realloc(block, layout, bytes) }
    }
}

/// Steps of one kind at all servers.
#[derive(Clone, Copy, Default, Debug)]
struct Steps {
    count: u64,
    /// Those in which something was allocated.
    allocating: u64,
}

enum Host {
    Server(Box<Server>),
    Coordinator(Box<Process>),
    Client(Box<Client>),
}

/// Keeps eight operations under way until all that were given have ended.
struct Client {
    session: Session,
    given: VecDeque<Operation>,
    replies: Vec<Reply>,
}

const UNDER_WAY_MAX: usize = 8;
/// Operations of which the steps are counted.
const COUNT: usize = 5000;

impl Client {
    fn go_on(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((_, outcome)) = self.session.take_outcome() {
            match outcome {
                Outcome::Done(reply) => self.replies.push(reply),
                other => panic!("{other:?}"),
            }
        }
        while self.session.under_way_count() < UNDER_WAY_MAX
            && let Some(operation) = self.given.pop_front()
        {
            self.session.start(now, operation, effects);
        }
    }
}

/// The name of a kind of step; none for what is neither a read's nor a write's.
fn kind(input: &Input<'_>) -> Option<&'static str> {
    match input {
        Input::Frame { bytes, .. } => {
            let (header, _) = frame::parse(bytes).ok()?;
            let is_of = |opcode: Opcode| header.opcode == opcode.code();
            match header.kind {
                Kind::Request if is_of(Opcode::Read) => Some("read"),
                Kind::Request if is_of(Opcode::Write) => Some("write"),
                Kind::Request if is_of(Opcode::Append) => Some("append"),
                Kind::Reply if is_of(Opcode::Append) => Some("answer to an append"),
                _ => None,
            }
        }
        Input::Disk { .. } => Some("completion of a device"),
        _ => None,
    }
}

fn counted(kind: Option<&'static str>, step: impl FnOnce()) {
    let before = ALLOCATIONS.get();
    step();
    let has_allocated = ALLOCATIONS.get() > before;
    let Some(kind) = kind else { return };
    STEPS.with_borrow_mut(|steps| {
        let steps = steps.entry(kind).or_default();
        steps.count += 1;
        steps.allocating += u64::from(has_allocated);
    });
}

impl Machine for Host {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Host::Server(server) => counted(kind(&input), || server.node.step(now, input, effects)),
            Host::Coordinator(coordinator) => coordinator.step(now, input, effects),
            Host::Client(client) => {
                client.session.step(now, input, effects);
                client.go_on(now, effects);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Host::Server(server) => server.node.deadline(),
            Host::Coordinator(coordinator) => coordinator.deadline(),
            Host::Client(client) => client.session.deadline(),
        }
    }

    fn puts_off(&self) -> bool {
        matches!(self, Host::Server(server) if server.node.puts_off())
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        if let Host::Server(server) = self {
            counted(Some("end of a turn"), || server.node.turn_over(now, effects));
        }
    }
}

struct Rig {
    world: World<Host>,
    client: usize,
}

impl Rig {
    fn new() -> Rig {
        let cluster = Cluster { servers: 4, ..Cluster::default() };
        let mut world = World::new(29, NetworkOptions::calm());
        let members = cluster.members();
        let coordinator = members[0].addr;
        for member in &members {
            let mut make = cluster.processes(member);
            let mut options = NodeOptions::plain(member.name.clone(), member.addr);
            options.disks.options = member.disk.clone();
            world.add_node(options, move |life| match make(life) {
                Process::Server(server) => Host::Server(server),
                other => Host::Coordinator(Box::new(other)),
            });
        }
        let addr = SocketAddr::from(([10, 9, 0, 1], 1));
        let client = world.add_node(NodeOptions::plain("client", addr), move |life| {
            let session = Session::new(SessionConfig::new(vec![coordinator]), life.seed);
            Host::Client(Box::new(Client { session, given: VecDeque::new(), replies: Vec::new() }))
        });
        world.run_until(3000 * MILLI);
        Rig { world, client }
    }

    /// The last reply, when all operations have ended.
    fn play(&mut self, operations: impl IntoIterator<Item = Operation>) -> Reply {
        let Some(Host::Client(client)) = self.world.machine_mut(self.client) else { panic!("a client") };
        client.given.extend(operations);
        let wanted = client.replies.len() + client.given.len();
        self.world.nudge(self.client);
        let end = self.world.now() + 60_000 * MILLI;
        loop {
            let now = self.world.now();
            assert!(now < end, "an operation does not end");
            self.world.run_until(now + MILLI);
            let Some(Host::Client(client)) = self.world.machine(self.client) else { panic!("a client") };
            if client.replies.len() == wanted {
                return client.replies.last().unwrap().clone();
            }
        }
    }

    /// The steps of these operations, by kind.
    fn steps_of(&mut self, operations: impl IntoIterator<Item = Operation>) -> BTreeMap<&'static str, Steps> {
        STEPS.with_borrow_mut(BTreeMap::clear);
        self.play(operations);
        STEPS.take()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key {}", number % 100).into_bytes()
}

fn writes(table: TableId, count: usize) -> impl Iterator<Item = Operation> {
    let rules = RejectRules::default();
    (0..count).map(move |number| Operation::Write {
        table,
        key: key(number),
        value: vec![7; 100],
        rules,
        expiry: None,
    })
}

fn reads(table: TableId, count: usize) -> impl Iterator<Item = Operation> {
    let rules = RejectRules::default();
    (0..count).map(move |number| Operation::Read { table, key: key(number), rules })
}

/// Fails if more than one step in twenty allocates. A segment of these clusters holds about 120 writes, and opening or
/// closing one may allocate at the master and at each backup.
fn check(steps: &BTreeMap<&'static str, Steps>, wanted: &[&str]) {
    for name in wanted {
        let steps = steps.get(name).copied().unwrap_or_default();
        println!("{name}: {steps:?}");
        assert!(steps.count >= COUNT as u64 / 20, "{name}: {steps:?}");
        assert!(steps.allocating * 20 <= steps.count, "{name}: {steps:?}");
    }
}

#[test]
fn reads_and_replicated_writes_allocate_nothing() {
    let mut rig = Rig::new();
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 1,
        slots: false,
        zone: None,
        quorum: None,
    };
    let create = Operation::CreateTable { name: "t".into(), options, left_open: None };
    let Reply::TableCreated { table } = rig.play([create]) else { panic!("a table was made") };
    // Until memory was cleaned a few times, buffers grow.
    rig.play(writes(table, 2 * COUNT));
    rig.play(reads(table, COUNT));
    let steps = rig.steps_of(writes(table, COUNT));
    check(&steps, &["write", "append", "answer to an append", "completion of a device", "end of a turn"]);
    let steps = rig.steps_of(reads(table, COUNT));
    check(&steps, &["read"]);
    assert_eq!(steps["read"].allocating, 0, "a read has nothing to allocate for");
}
