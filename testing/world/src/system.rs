//! The seam between the simulator and the system that it runs: the system's processes and a client session.
//!
//! A scenario knows a system only through these traits, so that the same workload, faults and checks run the
//! real cluster and the specimen.

use crate::cables::Cables;
use crate::disk::DiskOptions;
use crate::history::{Condition, Outcome};
use crate::scenario::Actor;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::world::{Life, World};
use ramhold_base::{Effects, Input, Instant, Machine, Number, Rng, ServerId, Version};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A client's request. The system chooses the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    pub key: &'a [u8],
    pub ask: Ask<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    Read,
    Write {
        value: &'a [u8],
        condition: Condition,
        ttl: Option<Duration>,
    },
    Remove {
        condition: Condition,
    },
    /// To increment a counter.
    Increment {
        by: Number,
        condition: Condition,
    },
    /// To append this letter to a counter that keeps its increments as letters.
    Append {
        letter: u8,
    },
    /// To read a counter.
    Count,
    /// To scan all objects; the key means nothing.
    Scan,
    /// To commit several objects as one; the key is that of the first.
    Commit(&'a [Part<'a>]),
}

/// One object of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    pub key: &'a [u8],
    pub condition: Condition,
    pub change: Change<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    Check,
    Write(&'a [u8]),
    Remove,
}

/// An object that a scan has met, and the times at which its page was asked for and came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Met {
    pub key: Vec<u8>,
    pub version: Version,
    pub value: Vec<u8>,
    pub call: u64,
    pub ret: u64,
    pub answered_by: ServerId,
}

/// The outcome of an operation, and the server that answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub answered_by: Option<ServerId>,
}

/// One client session: a machine that is given one operation at a time in each of its lanes.
pub trait Session: Machine {
    /// The number of operations that may be under way at once.
    fn lanes(&self) -> usize {
        1
    }

    /// Whether the session may be used again after an operation ended as unknown.
    fn goes_on_after_unknown(&self) -> bool {
        false
    }

    /// Whether it can append.
    fn appends(&self) -> bool {
        false
    }

    /// Whether it can commit several objects.
    fn commits(&self) -> bool {
        true
    }

    /// Whether requests of its lanes go out together.
    fn packs(&self) -> bool {
        false
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects);

    /// An operator has a brick replaced by another one, as soon as that can be asked for.
    fn replace_brick(&mut self) {}

    /// Whether a replacement was ordered, and its answer has not come.
    fn is_replacing(&self) -> bool {
        false
    }

    /// All operations of this step have begun.
    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        let _ = (now, effects);
    }

    /// Another session takes its place: it closes its open connections.
    fn leave(&mut self, effects: &mut Effects) {
        let _ = effects;
    }

    /// The outcome of a lane's operation, returned once.
    fn take_end(&mut self) -> Option<(usize, End)>;

    /// The part whose condition refused the commit of a lane that has just ended.
    fn take_refusing(&mut self, lane: usize) -> Option<usize> {
        let _ = lane;
        None
    }

    /// The objects that a lane's scan met, once the scan has ended.
    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        let _ = lane;
        Vec::new()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Coordinator,
    Server,
    /// A process that holds parts of quorum tables.
    Brick,
}

/// A process of the system.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub addr: SocketAddr,
    /// Further addresses, one on each plane of the network from 1 on.
    pub links: Vec<SocketAddr>,
    pub role: Role,
    pub disk: DiskOptions,
}

/// The faults that a system promises to survive without losing anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tolerance {
    /// The most servers that are down or cut off at one time. Only chance exits may exceed it.
    pub down_at_once: usize,
    pub power_cut: bool,
    /// A power cut of all hosts at once.
    pub power_cut_of_all: bool,
    /// The most servers on whose devices bits may rot. It is less than the number of copies, with one to
    /// spare for a power cut.
    pub rotting: usize,
    /// Bits that flip in the memory of a process.
    pub memory_flips: bool,
    pub disk_errors: bool,
    /// The coordinator's store is deleted.
    pub lost_store: bool,
    /// The number of zones, all of whose servers may go at once; the servers are in them in turn. 0: there are none.
    pub zones: usize,
    /// The planes of the network from 1 on, on which servers reach each other; each may fail. 0: there are none.
    pub planes: usize,
    /// Whether the planes have switches and cables, which may fail.
    pub has_cables: bool,
}

/// The faults of bricks that a system promises to survive without losing anything, beside those of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrickTolerance {
    /// The most bricks that may have lost their power and not be whole again; 0: none.
    pub dark_at_once: usize,
    /// The power of all of them at once.
    pub dark_all: bool,
    /// A brick may take the place of another one.
    pub replaces: bool,
    /// The most bricks of a key without which everything can be read and written.
    pub may_stay_dead: usize,
}

/// How far a recovery has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// Everything is served.
    Served,
    /// Nothing needs the dead server's log any more.
    Freed,
}

/// A server, and the servers with a role in its recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    pub id: ServerId,
    /// The number of tablets that it owns.
    pub tablets: usize,
    pub neighbourhoods: Vec<Neighbourhood>,
}

/// The hosts that recover a part of a server's data, and those whose devices feed them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbourhood {
    pub recoverers: Vec<usize>,
    pub feeders: Vec<usize>,
}

pub type MakeProcess<P> = Box<dyn FnMut(Life) -> P>;
pub type MakeSession<S> = Box<dyn FnMut(u64) -> S>;

/// The time at which the coordinator declared each server dead.
pub type Deaths = BTreeMap<ServerId, u64>;

pub trait System {
    type Process: Machine + 'static;
    type Session: Session + 'static;

    /// In the order of their start.
    fn members(&self) -> Vec<Member>;

    /// The cables between the hosts of the servers, which are given in the order of `members`.
    fn cables(&self, _servers: &[usize]) -> Option<Cables> {
        None
    }

    /// The workload of the clients of one run.
    fn workload(&self, rng: &mut Rng) -> Workload {
        Workload::draw(rng)
    }

    /// Whether clients may fill the memory, so that a refusal for lack of memory is an ordinary answer.
    fn is_tight(&self) -> bool {
        false
    }

    /// Whether its processes accept connections that do not carry frames.
    fn hears_bytes(&self) -> bool {
        false
    }

    /// Makes the machine of each life of a member.
    fn processes(&self, member: &Member) -> MakeProcess<Self::Process>;

    /// Makes a session from a seed; its first input is `Start`.
    fn sessions(&self) -> MakeSession<Self::Session>;

    fn tolerance(&self) -> Tolerance;

    /// None: the system has no bricks.
    fn brick_tolerance(&self) -> Option<BrickTolerance> {
        None
    }

    /// The error of a host's wall clock in milliseconds, if the system does not leave it to chance. None as a member: the
    /// host is a client's.
    fn wall_skew(&self, member: Option<&Member>) -> Option<i64> {
        let _ = member;
        None
    }

    /// Whether a brick has everything that it ever had: its power may go again.
    fn is_whole(&self, process: &Self::Process) -> bool {
        let _ = process;
        true
    }

    /// Whether all bricks have taken the last change of their tablets, and are whole.
    fn bricks_are_whole(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        true
    }

    /// Whether another host may lose its power now: the replicas that the last one lost have been made anew.
    fn may_cut_power(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        true
    }

    /// Whether the coordinator's store may be lost now: enough servers hold a copy of its contents.
    fn may_lose_store(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        false
    }

    /// Whether a coordinator that has lost its store has rebuilt its state.
    fn is_in_charge(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        true
    }

    /// The number of servers that may die at once at rest, and stay dead, with everything readable soon
    /// after.
    fn may_stay_dead(&self) -> usize {
        0
    }

    /// The named crash points of a role's processes: marks that they report.
    fn crash_points(&self, role: Role) -> Vec<&'static str> {
        let _ = role;
        Vec::new()
    }

    /// The greatest difference, in nanoseconds, between the times that two processes take for the present,
    /// both from each other and over the whole run, when both are compared with the world's time. Expiry goes
    /// by that time.
    fn clock_spread(&self, world: &World<Actor<Self::Process, Self::Session>>) -> u64 {
        let _ = world;
        0
    }

    /// Flips one bit of the data that a process holds in memory; false when it holds none.
    fn flip_memory(&self, process: &mut Self::Process, rng: &mut Rng) -> bool {
        let _ = (process, rng);
        false
    }

    /// Whether a process needs an operator before it can be of use again.
    fn is_broken(&self, process: &Self::Process) -> bool {
        let _ = process;
        false
    }

    /// Checks the rules that must hold at every moment. It is called again and again.
    fn watch(&self, world: &World<Actor<Self::Process, Self::Session>>, watch: &mut Watch) {
        let _ = (world, watch);
    }

    /// A host's server and its neighbourhoods. None: the host has no server that is up, or there are no neighbourhoods.
    fn standing(&self, world: &World<Actor<Self::Process, Self::Session>>, node: usize) -> Option<Standing> {
        let _ = (world, node);
        None
    }

    /// Whether all tablets of a server that has died are served by others, and, with `Recovered::Freed`, nothing needs
    /// its log any more.
    fn is_recovered(
        &self,
        world: &World<Actor<Self::Process, Self::Session>>,
        dead: ServerId,
        how: Recovered,
    ) -> bool {
        let _ = (world, dead, how);
        true
    }

    /// The work that is still under way after the last operation, or none when the system is at rest.
    fn unsettled(&self, world: &World<Actor<Self::Process, Self::Session>>) -> Option<String> {
        let _ = world;
        None
    }

    /// All disagreements in the system at rest, in words.
    fn audit(&self, world: &World<Actor<Self::Process, Self::Session>>) -> Vec<String> {
        let _ = world;
        Vec::new()
    }

    /// The time at which each server was declared dead. By default from facts `dead NUMBER` that the
    /// coordinator stated.
    fn deaths(&self, world: &World<Actor<Self::Process, Self::Session>>) -> Deaths {
        let mut deaths = Deaths::new();
        for fact in &world.facts {
            let number = fact.text.strip_prefix("dead ").and_then(|number| number.parse().ok());
            if let Some(number) = number {
                deaths.entry(ServerId(number)).or_insert(fact.at);
            }
        }
        deaths
    }
}

/// A machine of one of two kinds steps as the one that it is.
impl<P: Machine, S: Session> Machine for Actor<P, S> {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Actor::Process(process) => process.step(now, input, effects),
            Actor::Client(client) => client.step(now, input, effects),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Actor::Process(process) => process.deadline(),
            Actor::Client(client) => client.deadline(),
        }
    }

    fn puts_off(&self) -> bool {
        match self {
            Actor::Process(process) => process.puts_off(),
            Actor::Client(client) => client.puts_off(),
        }
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        match self {
            Actor::Process(process) => process.turn_over(now, effects),
            Actor::Client(client) => client.turn_over(now, effects),
        }
    }
}
