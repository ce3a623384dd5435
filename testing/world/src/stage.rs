//! A stage for scripted scenarios: a real cluster on a calm network, clients that follow the script, and
//! faults at the places where the script wants them.
//!
//! The script speaks of servers by their place (0 is the first) and of time by `pass` and `wait`. Only the
//! seed of the stage brings chance into a run. At the end `close` heals everything, lets the cluster come to
//! rest and reads every key back. It then judges state and history as a random run is judged.
//!
//! Not here: random faults and workloads (scenario, fault). Catalogue: J3.

mod player;
mod record;
mod speaker;

mod close;
mod commands;
mod faults;
mod look;
mod objects;
mod tables;

use crate::cluster::Cluster;
use crate::network::{MILLI, NetworkOptions, SECOND};
use crate::system::{Role, System};
use crate::world::{Clock, NodeOptions, World};
use player::{Player, Scripted};
use ramhold_client_core as core;
use ramhold_node::Phase;
pub use record::Begun;
use record::Record;
use speaker::Speaker;
use std::net::SocketAddr;
use std::time::Duration;

/// The set-up of a stage.
pub struct Setting {
    pub cluster: Cluster,
    pub seed: u64,
    pub clients: usize,
    /// Redis clients. Servers speak their protocol if there are any.
    pub speakers: usize,
    /// The longest time that a client tries before an operation ends as refused or unknown.
    pub patience: Duration,
    /// The term that clients ask for their leases.
    pub lease_term: Duration,
}

impl Setting {
    pub fn of(servers: u8) -> Setting {
        Setting {
            cluster: Cluster { servers, ..Cluster::default() },
            seed: 1,
            clients: 2,
            speakers: 0,
            patience: Duration::from_secs(8),
            lease_term: Duration::from_secs(60),
        }
    }
}

pub struct Stage {
    pub world: World<Player>,
    pub cluster: Cluster,
    pub coordinator: usize,
    pub servers: Vec<usize>,
    pub clients: Vec<usize>,
    /// Redis clients.
    pub speakers: Vec<usize>,
    /// The number of commands that each of them was given since it was connected.
    given: Vec<usize>,
    record: Record,
    /// The number of operations that were given to clients.
    number: usize,
}

const WAIT_MAX: u64 = 60 * SECOND;

impl Stage {
    /// A serving cluster with this number of servers, and two clients.
    pub fn new(servers: u8) -> Stage {
        Stage::with(Setting::of(servers))
    }

    pub fn with(setting: Setting) -> Stage {
        let mut stage = Stage::unborn(setting);
        stage.wait("every server serves", |stage| {
            (0..stage.servers.len()).all(|s| stage.node(s).is_some_and(|n| n.phase() == Phase::Serving))
        });
        stage
    }

    /// The same before anything has happened.
    pub fn unborn(setting: Setting) -> Stage {
        let Setting { cluster, seed, clients, speakers, patience, lease_term } = setting;
        let cluster = Cluster { resp: speakers > 0, ..cluster };
        let mut world = World::new(seed, NetworkOptions::calm());
        world.hears_bytes = cluster.resp;
        let (mut servers, mut coordinator) = (Vec::new(), usize::MAX);
        for member in cluster.members() {
            let mut make = cluster.processes(&member);
            // Times in histories are the world's, whatever a host's clock shows.
            let mut options = NodeOptions {
                clock: Clock { origin: (world.node_count() as u64 + 1) * SECOND, ..Clock::TRUE },
                supervised: true,
                links: member.links.clone(),
                ..NodeOptions::plain(member.name.clone(), member.addr)
            };
            options.disks.options = member.disk.clone();
            let node = world.add_node(options, move |life| Player::Process(Box::new(make(life))));
            match member.role {
                Role::Coordinator => coordinator = node,
                Role::Server => servers.push(node),
                Role::Brick => unreachable!("stages have no bricks"),
            }
        }
        world.network.cables = System::cables(&cluster, &servers);
        let address = world.node(coordinator).addr;
        let clients = (0..clients).map(|index| {
            let addr = SocketAddr::from(([10, 9, 0, index as u8 + 1], 1));
            world.add_node(NodeOptions::plain(format!("client {index}"), addr), move |life| {
                let mut config = core::SessionConfig::new(vec![address]);
                config.deadline = patience;
                config.lease_term = lease_term;
                Player::Client(Box::new(Scripted::new(core::Session::new(config, life.seed))))
            })
        });
        let clients = clients.collect();
        let given = vec![0; speakers];
        let speakers = (0..speakers).map(|index| {
            let addr = SocketAddr::from(([10, 9, 1, index as u8 + 1], 1));
            world.add_node(NodeOptions::plain(format!("speaker {index}"), addr), |life| {
                Player::Speaker(Box::new(Speaker::new(life.seed)))
            })
        });
        let speakers = speakers.collect();
        Stage {
            world,
            cluster,
            coordinator,
            servers,
            clients,
            speakers,
            given,
            record: Record::default(),
            number: 0,
        }
    }

    // Time.

    pub fn pass(&mut self, millis: u64) {
        let end = self.world.now() + millis * MILLI;
        self.world.run_until(end);
    }

    /// Runs until this holds, and looks every millisecond. It must hold within a minute.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&Stage) -> bool) {
        assert!(self.try_for(WAIT_MAX / MILLI, wanted), "never came about: {what}; {}", self.troubles());
    }

    /// Runs until this holds, for this many milliseconds at most. Returns whether it does.
    pub fn try_for(&mut self, millis: u64, wanted: impl Fn(&Stage) -> bool) -> bool {
        let end = self.world.now() + millis * MILLI;
        while !wanted(self) {
            if self.world.now() >= end {
                return false;
            }
            self.pass(1);
        }
        true
    }

    /// Whether this stays true for this many milliseconds.
    pub fn stays(&mut self, millis: u64, wanted: impl Fn(&Stage) -> bool) -> bool {
        !self.try_for(millis, |stage| !wanted(stage))
    }

    fn troubles(&self) -> String {
        let recoveries = self
            .state()
            .map(|state| format!("{:?}", state.recoveries.values().filter(|r| !r.done).collect::<Vec<_>>()));
        format!("exits {:?}, errors {:?}, recoveries {recoveries:?}", self.world.exits, self.world.errors)
    }

    // Requests of clients.

    fn give(&mut self, client: usize, operation: core::Operation, at: Option<usize>) -> Begun {
        self.number += 1;
        let begun = Begun { client, number: self.number, at };
        let node = self.clients[client];
        let Some(Player::Client(scripted)) = self.world.machine_mut(node) else {
            panic!("a client that runs")
        };
        scripted.given.push_back((begun.number, operation));
        self.world.nudge(node);
        self.record.open.push(begun);
        begun
    }

    /// The outcome of an operation, once it is known.
    pub fn outcome(&self, begun: Begun) -> Option<&core::Outcome> {
        let client = self.world.machine(self.clients[begun.client])?.client()?;
        client.ended.get(&begun.number).map(|(_, outcome)| outcome)
    }

    /// Waits for the end of an operation.
    pub fn finish(&mut self, begun: Begun) -> core::Outcome {
        self.wait("the end of an operation", |stage| stage.outcome(begun).is_some());
        self.outcome(begun).expect("waited for it").clone()
    }

    /// Enters the ends and the replies that are known by now into the history.
    fn note_ends(&mut self) {
        let Stage { world, clients, speakers, record, .. } = self;
        record.note_replies(|asked| {
            let speaker = world.machine(speakers[asked.client])?.speaker()?;
            speaker.replies.get(asked.reply).cloned()
        });
        record.note_ends(|begun| {
            let client = world.machine(clients[begun.client])?.client()?;
            client.ended.get(&begun.number).cloned()
        });
    }
}

/// The value of a key that `fill` wrote.
pub fn filling(prefix: &str, number: u32) -> Vec<u8> {
    let mut bytes = format!("{prefix} {number} ").into_bytes();
    bytes.resize(1000, b'.');
    bytes
}
