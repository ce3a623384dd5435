//! A stage for scripted scenarios: a real cluster on a calm network, clients that follow the script, and
//! faults at the places where the script wants them.
//!
//! The script speaks of servers by their place (0 is the first) and of time by `pass` and `wait`. Only the
//! seed of the stage brings chance into a run. At the end `close` heals everything, lets the cluster come to
//! rest and reads every key back. It then judges state and history as a random run is judged.
//!
//! Not here: random faults and workloads (scenario, fault). Catalogue: J3.

mod resp;

use crate::checker::search::second_opinion;
use crate::checker::{Seen, bind, version_witness};
use crate::cluster::Cluster;
use crate::cluster::native::{end_of_mutation, end_of_read, rules};
use crate::cluster::process::Process;
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use crate::network::{MILLI, NetworkOptions, SECOND};
use crate::system::{Deaths, Role, System};
use crate::world::{Clock, NodeOptions, World};
use ramhold_base::{Effects, Input, Instant, Machine, Rng, SegmentId, ServerId, Status, StreamId, TableId};
use ramhold_client_core as core;
use ramhold_client_core::{OperationId, RejectRules, Reply};
use ramhold_coordinator::State;
use ramhold_node::{Coordinator, Phase, ServerNode};
use ramhold_wire::membership::Durability;
use ramhold_wire::status::{LossAccepted, RecoveryReport};
use ramhold_wire::table::{Division, TableOptions};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// The process or client of a host of the stage.
pub enum Player {
    Process(Box<Process>),
    Client(Box<Scripted>),
    Speaker(Box<resp::Speaker>),
}

impl Machine for Player {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Player::Process(process) => process.step(now, input, effects),
            Player::Client(client) => client.step(now, input, effects),
            Player::Speaker(speaker) => speaker.step(now, input, effects),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Player::Process(process) => process.deadline(),
            Player::Client(client) => client.session.deadline(),
            Player::Speaker(speaker) => speaker.deadline(),
        }
    }
}

/// A session of the real client that starts the script's operations.
pub struct Scripted {
    session: core::Session,
    given: VecDeque<(usize, core::Operation)>,
    running: BTreeMap<OperationId, usize>,
    /// Outcomes by the number that the script got, with the moment at which they were known.
    ended: BTreeMap<usize, (u64, core::Outcome)>,
}

impl Machine for Scripted {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        while let Some((number, operation)) = self.given.pop_front() {
            let id = self.session.start(now, operation, effects);
            self.running.insert(id, number);
        }
        while let Some((id, outcome)) = self.session.take_outcome() {
            if let Some(number) = self.running.remove(&id) {
                self.ended.insert(number, (now.0, outcome));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.session.deadline()
    }
}

/// An operation that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    client: usize,
    number: usize,
    /// Its place in the history, if it is about an object.
    at: Option<usize>,
}

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
    asked: Vec<resp::Asked>,
    /// The number of commands that each of them was given since it was connected.
    given: Vec<usize>,
    history: Vec<Operation>,
    /// The table and the bytes of each key number of the history.
    keys: BTreeMap<u32, (TableId, Vec<u8>)>,
    open: Vec<Begun>,
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
                ..NodeOptions::plain(member.name.clone(), member.addr)
            };
            options.disks.options = member.disk.clone();
            let node = world.add_node(options, move |life| Player::Process(Box::new(make(life))));
            match member.role {
                Role::Coordinator => coordinator = node,
                Role::Server => servers.push(node),
            }
        }
        let address = world.node(coordinator).addr;
        let clients = (0..clients).map(|index| {
            let addr = SocketAddr::from(([10, 9, 0, index as u8 + 1], 1));
            world.add_node(NodeOptions::plain(format!("client {index}"), addr), move |life| {
                let mut config = core::SessionConfig::new(vec![address]);
                config.deadline = patience;
                config.lease_term = lease_term;
                Player::Client(Box::new(Scripted {
                    session: core::Session::new(config, life.seed),
                    given: VecDeque::new(),
                    running: BTreeMap::new(),
                    ended: BTreeMap::new(),
                }))
            })
        });
        let clients = clients.collect();
        let given = vec![0; speakers];
        let speakers = (0..speakers).map(|index| {
            let addr = SocketAddr::from(([10, 9, 1, index as u8 + 1], 1));
            world.add_node(NodeOptions::plain(format!("speaker {index}"), addr), |life| {
                Player::Speaker(Box::new(resp::Speaker::new(life.seed)))
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
            asked: Vec::new(),
            given,
            history: Vec::new(),
            keys: BTreeMap::new(),
            open: Vec::new(),
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

    // State.

    /// The process of a server, while it runs.
    pub fn node(&self, server: usize) -> Option<&ServerNode> {
        match self.world.machine(self.servers[server])? {
            Player::Process(process) => process.server(),
            Player::Client(_) | Player::Speaker(_) => None,
        }
    }

    pub fn id(&self, server: usize) -> ServerId {
        self.node(server).map_or(ServerId::NONE, ServerNode::id)
    }

    /// The coordinator's state, while it runs and is in charge.
    pub fn state(&self) -> Option<&State> {
        self.in_charge().map(Coordinator::state)
    }

    /// The coordinator, while it runs and is in charge.
    pub fn in_charge(&self) -> Option<&Coordinator> {
        match self.world.machine(self.coordinator)? {
            Player::Process(process) => process.coordinator().filter(|c| c.is_active()),
            Player::Client(_) | Player::Speaker(_) => None,
        }
    }

    /// The owner of this table, all of whose hashes are one tablet.
    pub fn owner(&self, table: TableId) -> Option<usize> {
        let serves = |server: &usize| {
            let master = self.node(*server).and_then(ServerNode::master);
            master.is_some_and(|m| m.tablets_seen().any(|t| t.table == table && t.serving))
        };
        (0..self.servers.len()).find(serves)
    }

    pub fn stream(&self, server: usize, table: TableId) -> StreamId {
        let master = self.node(server).and_then(ServerNode::master).expect("a master");
        let tablet = master.tablets_seen().find(|t| t.table == table).expect("a tablet of the table");
        tablet.stream
    }

    /// The head of a table's stream at its owner.
    pub fn head(&self, server: usize, table: TableId) -> SegmentId {
        let stream = self.stream(server, table);
        self.node(server)
            .and_then(ServerNode::master)
            .expect("a master")
            .log()
            .head_segment(stream)
            .expect("a head")
    }

    /// The holders of a segment's replicas, in order of place.
    pub fn backups(&self, server: usize, segment: SegmentId) -> Vec<usize> {
        let master = self.node(server).and_then(ServerNode::master).expect("a master");
        let ids: Vec<ServerId> = master.replicator().replicas_of(segment).map(|r| r.backup).collect();
        (0..self.servers.len()).filter(|s| ids.contains(&self.id(*s))).collect()
    }

    pub fn head_backups(&self, server: usize, table: TableId) -> Vec<usize> {
        self.backups(server, self.head(server, table))
    }

    /// Whether the coordinator has this server among those that are up.
    pub fn is_up(&self, id: ServerId) -> bool {
        self.state().is_some_and(|state| state.is_up(id))
    }

    /// Whether nothing of this server is left to recover.
    pub fn is_recovered(&self, id: ServerId) -> bool {
        self.state().is_some_and(|state| !state.servers.contains_key(&id))
    }

    pub fn marks(&self, mark: &str) -> u64 {
        self.world.marks.get(mark).copied().unwrap_or(0)
    }

    /// All servers that the coordinator has declared dead, in this run.
    pub fn deaths(&self) -> Deaths {
        let mut deaths = Deaths::new();
        for fact in &self.world.facts {
            let number = fact.text.strip_prefix("dead ").and_then(|number| number.parse().ok());
            if let Some(number) = number {
                deaths.entry(ServerId(number)).or_insert(fact.at);
            }
        }
        deaths
    }

    /// The tables that the coordinator knows, and the owners of their tablets.
    pub fn tables(&self) -> BTreeMap<TableId, Vec<crate::audit::Owned>> {
        self.in_charge().map(crate::audit::stored).unwrap_or_default()
    }

    /// The bytes of each tablet of a table, as its owner counts them.
    pub fn tablet_bytes(&self, table: TableId) -> Vec<u64> {
        let tablets = self.tables().remove(&table).expect("the table is there");
        let of = |(first, _, owner): &crate::audit::Owned| {
            let server = (0..self.servers.len()).find(|server| self.id(*server) == *owner).expect("it is up");
            let log = self.node(server).and_then(|node| node.master()).expect("it runs").log();
            let stat = log.stats().find(|stat| (stat.table, stat.first.0) == (table, *first));
            stat.expect("what is served is tracked").bytes
        };
        tablets.iter().map(of).collect()
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
        self.open.push(begun);
        begun
    }

    /// The outcome of an operation, once it is known.
    pub fn outcome(&self, begun: Begun) -> Option<&core::Outcome> {
        match self.world.machine(self.clients[begun.client])? {
            Player::Client(client) => client.ended.get(&begun.number).map(|(_, outcome)| outcome),
            Player::Process(_) | Player::Speaker(_) => None,
        }
    }

    /// Waits for the end of an operation.
    pub fn finish(&mut self, begun: Begun) -> core::Outcome {
        self.wait("the end of an operation", |stage| stage.outcome(begun).is_some());
        self.outcome(begun).expect("waited for it").clone()
    }

    /// The coordinator's reports of recoveries, newest first.
    pub fn recoveries(&mut self) -> Vec<RecoveryReport> {
        let begun = self.give(1, core::Operation::Recoveries, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Recoveries(recoveries)) => recoveries,
            other => panic!("asking for recoveries: {other:?}"),
        }
    }

    /// An operator confirms that all servers that a recovery waits for are switched off.
    pub fn accept_loss(&mut self, report: &RecoveryReport) -> LossAccepted {
        let directories = report.away.iter().map(|away| away.directory).collect();
        let accept = core::Operation::AcceptLoss { recovery: report.recovery, directories };
        let begun = self.give(1, accept, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::LossAccepted(accepted)) => accepted,
            other => panic!("accepting a loss: {other:?}"),
        }
    }

    /// A table of one tablet with this number of replicas of each segment.
    pub fn table(&mut self, name: &str, replicas: u8) -> TableId {
        let begun = self.begin_table(name, replicas);
        self.finish_table(begun)
    }

    /// The same, as soon as there are servers for it.
    pub fn table_when_possible(&mut self, name: &str, replicas: u8) -> TableId {
        loop {
            let begun = self.begin_table(name, replicas);
            match self.finish(begun) {
                core::Outcome::Done(Reply::TableCreated { table }) => return table,
                core::Outcome::Refused { status: Status::TooFewBackups, .. } => self.pass(20),
                other => panic!("creating a table: {other:?}"),
            }
            assert!(self.world.now() < WAIT_MAX, "never enough servers; {}", self.troubles());
        }
    }

    pub fn begin_table(&mut self, name: &str, replicas: u8) -> Begun {
        self.begin_table_of(0, name, replicas)
    }

    /// A table by slots.
    pub fn slotted_table(&mut self, name: &str, replicas: u8) -> TableId {
        let durability = Durability::Buffered;
        let options = TableOptions { durability, replicas, tablets: 1, slots: true };
        let create = core::Operation::CreateTable { name: name.into(), options, left_open: None };
        let begun = self.give(0, create, None);
        self.finish_table(begun)
    }

    /// A table whose writes are acknowledged when they are on devices.
    pub fn synced_table(&mut self, name: &str, replicas: u8) -> TableId {
        let begun = self.begin_table_with(0, name, Durability::Synced, replicas);
        self.finish_table(begun)
    }

    pub fn begin_table_of(&mut self, client: usize, name: &str, replicas: u8) -> Begun {
        let durability = if replicas == 0 { Durability::None } else { Durability::Buffered };
        self.begin_table_with(client, name, durability, replicas)
    }

    fn begin_table_with(&mut self, client: usize, name: &str, durability: Durability, replicas: u8) -> Begun {
        let options = TableOptions { durability, replicas, tablets: 1, slots: false };
        let create = core::Operation::CreateTable { name: name.into(), options, left_open: None };
        self.give(client, create, None)
    }

    pub fn finish_table(&mut self, begun: Begun) -> TableId {
        match self.finish(begun) {
            core::Outcome::Done(Reply::TableCreated { table }) => table,
            other => panic!("creating a table: {other:?}"),
        }
    }

    pub fn begin_drop(&mut self, table: TableId) -> Begun {
        self.give(0, core::Operation::DropTable { table }, None)
    }

    pub fn drop_table(&mut self, table: TableId) {
        let begun = self.begin_drop(table);
        let outcome = self.finish(begun);
        assert!(matches!(outcome, core::Outcome::Done(_)), "dropping {table:?}: {outcome:?}");
    }

    pub fn begin_divide(&mut self, table: TableId, division: Division) -> Begun {
        self.give(0, core::Operation::DivideTable { table, division }, None)
    }

    /// Cuts or joins tablets of a table. Returns the number of tablets after that.
    pub fn divide(&mut self, table: TableId, division: Division) -> u32 {
        let begun = self.begin_divide(table, division);
        match self.finish(begun) {
            core::Outcome::Done(Reply::TableDivided { tablets }) => tablets,
            other => panic!("dividing {table:?}: {other:?}"),
        }
    }

    /// Alters a table's durability or replicas, and does not wait for its tablets.
    pub fn alter(&mut self, table: TableId, durability: Option<Durability>, replicas: Option<u8>) {
        let begun = self.begin_alter(table, durability, replicas);
        let outcome = self.finish(begun);
        assert!(
            matches!(outcome, core::Outcome::Done(Reply::TableAltered)),
            "altering {table:?}: {outcome:?}"
        );
    }

    pub fn begin_alter(
        &mut self,
        table: TableId,
        durability: Option<Durability>,
        replicas: Option<u8>,
    ) -> Begun {
        self.give(0, core::Operation::AlterTable { table, durability, replicas }, None)
    }

    fn key_number(&mut self, table: TableId, key: &str) -> u32 {
        let known = self.keys.iter().find(|(_, (t, k))| *t == table && k == key.as_bytes());
        if let Some((number, _)) = known {
            return *number;
        }
        let number = self.keys.len() as u32;
        self.keys.insert(number, (table, key.as_bytes().to_vec()));
        number
    }

    fn record(&mut self, client: usize, table: TableId, key: &str, action: Action) -> usize {
        let key = self.key_number(table, key);
        self.history.push(Operation {
            client: client as u32,
            session: 1,
            key,
            action,
            call: self.world.now(),
            ret: NEVER,
            outcome: Outcome::Unknown,
            commit: None,
            answered_by: None,
        });
        self.history.len() - 1
    }

    pub fn begin_write(
        &mut self,
        client: usize,
        table: TableId,
        key: &str,
        value: &[u8],
        condition: Condition,
    ) -> Begun {
        let action = Action::Write { value: ValueId::of(value), condition, ttl: None };
        let at = self.record(client, table, key, action);
        let rules = rules(condition);
        let (key, value) = (key.as_bytes().to_vec(), value.to_vec());
        self.give(client, core::Operation::Write { table, key, value, rules, expiry: None }, Some(at))
    }

    pub fn begin_remove(&mut self, client: usize, table: TableId, key: &str) -> Begun {
        let at = self.record(client, table, key, Action::Remove { condition: Condition::Free });
        let rules = RejectRules::default();
        self.give(client, core::Operation::Remove { table, key: key.as_bytes().to_vec(), rules }, Some(at))
    }

    /// Begins a commit that writes to several keys, each with its condition.
    pub fn begin_commit(
        &mut self,
        client: usize,
        writes: &[(TableId, &str, &[u8])],
        condition: Condition,
    ) -> Begun {
        let number = Some(self.number as u64 + 1);
        let mut places = Vec::new();
        let mut items = Vec::new();
        for (table, key, value) in writes {
            let action = Action::Write { value: ValueId::of(value), condition, ttl: None };
            let at = self.record(client, *table, key, action);
            self.history[at].commit = number;
            places.push(at);
            items.push(core::CommitItem {
                table: *table,
                key: key.as_bytes().to_vec(),
                rules: rules(condition),
                action: core::CommitAction::Write { value: value.to_vec(), expiry: None },
            });
        }
        self.give(client, core::Operation::Commit { items }, places.first().copied())
    }

    pub fn begin_read(&mut self, client: usize, table: TableId, key: &str) -> Begun {
        let at = self.record(client, table, key, Action::Read);
        let rules = RejectRules::default();
        self.give(client, core::Operation::Read { table, key: key.as_bytes().to_vec(), rules }, Some(at))
    }

    /// The end of an operation on an object, in the terms of histories.
    pub fn end(&mut self, begun: Begun) -> Outcome {
        self.finish(begun);
        self.note_ends();
        self.history[begun.at.expect("it is about an object")].outcome
    }

    /// Whether an operation was answered as done.
    pub fn is_done(&self, begun: Begun) -> bool {
        matches!(self.outcome(begun), Some(core::Outcome::Done(_)))
    }

    /// A plain write that must succeed. Returns its version.
    pub fn write(&mut self, table: TableId, key: &str, value: &[u8]) -> u64 {
        let begun = self.begin_write(0, table, key, value, Condition::Free);
        match self.end(begun) {
            Outcome::Done { version } => version.raw(),
            other => panic!("writing {key}: {other:?} ({:?})", self.outcome(begun)),
        }
    }

    pub fn remove(&mut self, table: TableId, key: &str) -> u64 {
        let begun = self.begin_remove(0, table, key);
        match self.end(begun) {
            Outcome::Done { version } => version.raw(),
            other => panic!("removing {key}: {other:?}"),
        }
    }

    pub fn read(&mut self, table: TableId, key: &str) -> Outcome {
        let begun = self.begin_read(1, table, key);
        self.end(begun)
    }

    /// The number of objects of a table.
    pub fn count(&mut self, table: TableId) -> u64 {
        let mut count = core::TableCount::new(table);
        while let Some(operation) = count.ask() {
            let begun = self.give(1, operation, None);
            match self.finish(begun) {
                core::Outcome::Done(Reply::Counted { last, objects }) => count.take(last, objects),
                core::Outcome::Refused { status, .. } if count.refused(status) => {}
                other => panic!("counting: {other:?}"),
            }
        }
        count.objects()
    }

    /// Asserts that a key reads as this value.
    pub fn expect(&mut self, table: TableId, key: &str, value: &[u8]) {
        match self.read(table, key) {
            Outcome::Found { value: found, .. } => assert_eq!(found, ValueId::of(value), "{key}"),
            other => panic!("{key}: {other:?}"),
        }
    }

    /// This many writes to keys `PREFIX0`.. of 1,000 bytes each. Each must succeed.
    pub fn fill(&mut self, table: TableId, prefix: &str, count: u32) {
        for number in 0..count {
            self.write(table, &format!("{prefix}{number}"), &filling(prefix, number));
        }
    }

    pub fn expect_filled(&mut self, table: TableId, prefix: &str, count: u32) {
        for number in 0..count {
            self.expect(table, &format!("{prefix}{number}"), &filling(prefix, number));
        }
    }

    // After a loss the history is wrong and must not be judged. These requests do not record anything in it.

    /// The version of a key, or none when it is absent.
    pub fn peek(&mut self, table: TableId, key: &str) -> Option<u64> {
        let (key, rules) = (key.as_bytes().to_vec(), RejectRules::default());
        let begun = self.give(1, core::Operation::Read { table, key, rules }, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Read { version, .. }) => Some(version.raw()),
            core::Outcome::Refused { status: Status::NotFound, .. } => None,
            other => panic!("peeking: {other:?}"),
        }
    }

    /// Writes something to a key. Returns its version.
    pub fn poke(&mut self, table: TableId, key: &str) -> u64 {
        let (key, rules) = (key.as_bytes().to_vec(), RejectRules::default());
        let write = core::Operation::Write { table, key, value: b"poked".to_vec(), rules, expiry: None };
        let begun = self.give(1, write, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Written { version }) => version.raw(),
            other => panic!("poking: {other:?}"),
        }
    }

    /// Enters the outcomes that are known by now into the history.
    fn note_ends(&mut self) {
        self.note_replies();
        for begun in std::mem::take(&mut self.open) {
            let ended = match self.world.machine(self.clients[begun.client]) {
                Some(Player::Client(client)) => client.ended.get(&begun.number).cloned(),
                Some(Player::Process(_) | Player::Speaker(_)) | None => None,
            };
            let Some((now, outcome)) = ended else {
                self.open.push(begun);
                continue;
            };
            let Some(at) = begun.at else { continue };
            let operation = &mut self.history[at];
            let end = match operation.action {
                Action::Read => end_of_read(outcome),
                Action::Increment { .. } | Action::Count | Action::Scan => {
                    panic!("no scenario counts or scans")
                }
                Action::Write { .. } | Action::Remove { .. } => end_of_mutation(outcome),
            };
            operation.outcome = end.outcome;
            operation.answered_by = end.answered_by;
            if end.outcome != Outcome::Unknown {
                operation.ret = now;
            }
            let first = *operation;
            let same = |other: &&mut Operation| first.commit.is_some() && other.commit == first.commit;
            for other in self.history.iter_mut().filter(same) {
                (other.outcome, other.ret) = (first.outcome, first.ret);
            }
        }
    }

    // Faults.

    pub fn crash(&mut self, server: usize) {
        self.world.crash(self.servers[server]);
    }

    pub fn restart(&mut self, server: usize) {
        self.world.restart(self.servers[server]);
    }

    /// Flips a bit of the log in a server's memory.
    pub fn flip_memory(&mut self, server: usize, rng: &mut Rng) {
        let node = self.servers[server];
        if let Some(Player::Process(process)) = self.world.machine_mut(node) {
            self.cluster.flip_memory(process, rng);
        }
    }

    pub fn cut_power(&mut self, server: usize) {
        self.world.cut_power(self.servers[server]);
    }

    /// Cuts both ways between two sets of hosts.
    pub fn part(&mut self, some: &[usize], others: &[usize]) {
        self.world.network.cut(some, others);
        self.world.network.cut(others, some);
    }

    /// The hosts of these servers.
    pub fn hosts(&self, servers: &[usize]) -> Vec<usize> {
        servers.iter().map(|s| self.servers[*s]).collect()
    }

    /// All servers but these.
    pub fn others(&self, but: &[usize]) -> Vec<usize> {
        (0..self.servers.len()).filter(|s| !but.contains(s)).collect()
    }

    /// Each of these dies when it next passes this mark.
    pub fn arm(&mut self, servers: &[usize], mark: &str) {
        for server in servers {
            self.world.crash_at(self.servers[*server], mark);
        }
    }

    pub fn disarm(&mut self) {
        for node in 0..self.world.node_count() {
            self.world.spare_process(node);
        }
    }

    /// Runs until a server has died at an armed mark, then disarms the others. Returns the dead server.
    pub fn wait_for_death_at(&mut self, mark: &str) -> usize {
        let before = self.world.crash_points.get(mark).copied().unwrap_or(0);
        self.wait(&format!("somebody dies at {mark}"), |stage| {
            stage.world.crash_points.get(mark).copied().unwrap_or(0) > before
        });
        self.disarm();
        (0..self.servers.len()).find(|s| !self.world.node(self.servers[*s]).is_up()).unwrap_or(usize::MAX)
    }

    // The end.

    /// Starts processes that are down, heals the network, and waits for rest.
    pub fn settle(&mut self) {
        self.world.network.heal();
        self.world.network.options = NetworkOptions::calm();
        self.world.store_failure_ppm = 0;
        self.world.resume_all();
        self.disarm();
        for node in 0..self.world.node_count() {
            let broken = match self.world.machine(node) {
                Some(Player::Process(process)) => self.cluster.is_broken(process),
                Some(Player::Client(_) | Player::Speaker(_)) | None => false,
            };
            let options = &mut self.world.disks_mut(node).options;
            (options.read_error_ppm, options.sync_error_ppm) = (0, 0);
            options.frames_bytes_max = 1 << 30;
            if broken {
                self.world.crash(node);
            }
            if !self.world.node(node).is_up() {
                self.world.restart(node);
            }
        }
        let end = self.world.now() + 120 * SECOND;
        while let Some(what) = self.unsettled() {
            assert!(self.world.now() < end, "not at rest: {what}; {}", self.troubles());
            self.pass(20);
        }
    }

    fn nodes(&self) -> Vec<&ServerNode> {
        (0..self.servers.len()).filter_map(|server| self.node(server)).collect()
    }

    fn unsettled(&self) -> Option<String> {
        let Some(coordinator) = self.in_charge() else { return Some("no coordinator is in charge".into()) };
        crate::audit::changing(coordinator)
            .or_else(|| crate::audit::unsettled(self.cluster.servers, &self.nodes()))
    }

    /// The cluster as the audit sees it.
    pub fn seen(&self) -> Vec<crate::audit::ServerSeen> {
        self.nodes().into_iter().map(crate::audit::look).collect()
    }

    /// Comes to rest, reads every key back, and judges everything.
    pub fn close(mut self) {
        self.settle();
        self.judge();
    }

    /// Like `close`, where some data is lost for good.
    pub fn judge(&mut self) {
        self.try_for(30_000, |stage| stage.open.iter().all(|begun| stage.outcome(*begun).is_some()));
        for (table, key) in self.keys.values().cloned().collect::<Vec<_>>() {
            let key = String::from_utf8(key).expect("keys are text");
            let read = self.begin_read(1, table, &key);
            let outcome = self.end(read);
            let is_told = matches!(outcome, Outcome::Found { .. } | Outcome::Absent);
            assert!(is_told || self.is_dropped(table), "{key} cannot be read back: {outcome:?}");
        }
        let findings = crate::audit::audit(None, &self.tables(), &self.nodes());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        self.judge_history();
    }

    /// Judges the answers that clients got so far.
    pub fn judge_history(&mut self) {
        self.note_ends();
        let (mut torn, mut seen) = (Vec::new(), Seen::default());
        self.history = bind(&self.history, &mut torn, &mut seen);
        assert_eq!(torn, []);
        let verdict = version_witness(&self.history, 0);
        let found: Vec<String> = verdict.violations.iter().map(|v| v.describe(&self.history)).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        let searched = second_opinion(&self.history, &verdict, 0);
        assert!(searched.disagreements.is_empty(), "{}", searched.disagreements.join("\n"));
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.state().is_some_and(|state| !state.tables.contains_key(&table))
    }
}

/// The value of a key that `fill` wrote.
pub fn filling(prefix: &str, number: u32) -> Vec<u8> {
    let mut bytes = format!("{prefix} {number} ").into_bytes();
    bytes.resize(1000, b'.');
    bytes
}
