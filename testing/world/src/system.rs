//! The seam between the simulator and what it runs: the processes of a system and a client session of it.
//!
//! A scenario knows a system only through these traits, so that the same workload, faults and checks run the real
//! cluster and the specimen.

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

/// What a client asks for; the system says which table it means.
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
    /// Of a counter.
    Increment {
        by: Number,
        condition: Condition,
    },
    /// Of this letter, to a counter that keeps its increments as letters.
    Append {
        letter: u8,
    },
    /// To read a counter.
    Count,
    /// Of all objects; the key means nothing.
    Scan,
    /// Of several objects as one; the key is that of the first.
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

/// An object that a scan has met, in a page that was asked for and came at these times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Met {
    pub key: Vec<u8>,
    pub version: Version,
    pub value: Vec<u8>,
    pub call: u64,
    pub ret: u64,
    pub answered_by: ServerId,
}

/// How an operation ended, and who answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub answered_by: Option<ServerId>,
}

/// One client session: a machine that is given one operation at a time in each of its lanes.
pub trait Session: Machine {
    /// How many operations may be under way at once.
    fn lanes(&self) -> usize {
        1
    }

    /// Whether it may be used again after an operation ended as unknown.
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

    /// Whether what its lanes ask for goes out together.
    fn packs(&self) -> bool {
        false
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects);

    /// All operations of this step have begun.
    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        let _ = (now, effects);
    }

    /// Another session takes its place: closes what it has open.
    fn leave(&mut self, effects: &mut Effects) {
        let _ = effects;
    }

    /// How the operation of a lane ended, once.
    fn take_end(&mut self) -> Option<(usize, End)>;

    /// Which part's condition refused the commit of a lane that has just ended.
    fn take_refusing(&mut self, lane: usize) -> Option<usize> {
        let _ = lane;
        None
    }

    /// What the scan of a lane met that has just ended.
    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        let _ = lane;
        Vec::new()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Coordinator,
    Server,
}

/// A process that the system consists of.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub addr: SocketAddr,
    pub role: Role,
    pub disk: DiskOptions,
}

/// What a system promises to survive without losing anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tolerance {
    /// Servers down or cut off at one time. More is allowed to happen only by chance of exits.
    pub down_at_once: usize,
    pub power_cut: bool,
    /// All hosts at once.
    pub power_cut_of_all: bool,
    /// Servers on whose devices bits may rot. Fewer than hold copies of anything, with one to spare for a power cut.
    pub rotting: usize,
    /// Bits that flip in the memory of a process.
    pub memory_flips: bool,
    pub disk_errors: bool,
    /// The coordinator's store is deleted.
    pub lost_store: bool,
}

pub type MakeProcess<P> = Box<dyn FnMut(Life) -> P>;
pub type MakeSession<S> = Box<dyn FnMut(u64) -> S>;

/// When the coordinator declared each server dead.
pub type Deaths = BTreeMap<ServerId, u64>;

pub trait System {
    type Process: Machine + 'static;
    type Session: Session + 'static;

    /// In the order of their start.
    fn members(&self) -> Vec<Member>;

    /// What the clients of one run ask for.
    fn workload(&self, rng: &mut Rng) -> Workload {
        Workload::draw(rng)
    }

    /// Whether clients may fill the memory, so that a refusal for want of it is an answer like any other.
    fn is_tight(&self) -> bool {
        false
    }

    /// Whether its processes hear connections that do not speak in frames.
    fn hears_bytes(&self) -> bool {
        false
    }

    /// Makes the machine of each life of a member.
    fn processes(&self, member: &Member) -> MakeProcess<Self::Process>;

    /// Makes a session from a seed; its first input is `Start`.
    fn sessions(&self) -> MakeSession<Self::Session>;

    fn tolerance(&self) -> Tolerance;

    /// Whether another host may lose its power now: what the last one lost has been made good.
    fn may_cut_power(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        true
    }

    /// Whether the coordinator's store may be lost now: enough servers hold what is in it.
    fn may_lose_store(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        false
    }

    /// Whether a coordinator that has lost its store has made it anew.
    fn is_in_charge(&self, world: &World<Actor<Self::Process, Self::Session>>) -> bool {
        let _ = world;
        true
    }

    /// How many servers may die at once at rest, and stay dead, with everything readable soon after.
    fn may_stay_dead(&self) -> usize {
        0
    }

    /// The named crash points of a role's processes: marks that they report.
    fn crash_points(&self, role: Role) -> Vec<&'static str> {
        let _ = role;
        Vec::new()
    }

    /// By how many nanoseconds what two processes take for the time may differ, from each other and over the whole run,
    /// when both are held against the world's time. Expiry goes by that time.
    fn clock_spread(&self, world: &World<Actor<Self::Process, Self::Session>>) -> u64 {
        let _ = world;
        0
    }

    /// Flips one bit of the data that a process holds in memory; false when it holds none.
    fn flip_memory(&self, process: &mut Self::Process, rng: &mut Rng) -> bool {
        let _ = (process, rng);
        false
    }

    /// Whether a process can be of use again only after an operator has acted.
    fn is_broken(&self, process: &Self::Process) -> bool {
        let _ = process;
        false
    }

    /// Looks at what must hold at every moment; called again and again.
    fn watch(&self, world: &World<Actor<Self::Process, Self::Session>>, watch: &mut Watch) {
        let _ = (world, watch);
    }

    /// What is still under way after the last operation, or none when the system is at rest.
    fn unsettled(&self, world: &World<Actor<Self::Process, Self::Session>>) -> Option<String> {
        let _ = world;
        None
    }

    /// Whatever does not agree in the system at rest, in words.
    fn audit(&self, world: &World<Actor<Self::Process, Self::Session>>) -> Vec<String> {
        let _ = world;
        Vec::new()
    }

    /// When each server was declared dead. By default from facts `dead NUMBER` that the coordinator stated.
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

/// A machine that belongs to one of two kinds steps as the one it is.
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
}
