//! What must hold at every moment of a run, looked at again and again while faults strike: promises of the protocols
//! that the clients of one run can see broken only by luck.
//!
//! - Nobody has a read lease whose tablets are served elsewhere, or whose lease the coordinator takes for over, so that
//!   they may be at any moment (docs/protocols/read-leases.md).
//! - No master takes a client's lease for alive that is over (docs/protocols/exactly-once.md).
//! - What replication and backups state of themselves (docs/protocols/replication.md, "Invariants"). A panic there fails
//!   the run.
//! - What a master takes a backup to have reached of a replica, that has reached, at the same epoch (the same).
//! - No read that begins after a tablet of its server was opened elsewhere is answered by that server.
//!
//! It sees what no process of the cluster can: the coordinator's decisions at the moment when they are made, and what
//! each server holds for true at the same moment, by the server's own clock.
//!
//! Not here: the state at rest (audit), what the clients were told otherwise (checker). Catalogue: J3, J2, F8, A3.

use crate::audit::{in_charge, servers};
use crate::cluster::{ClusterSession, Process};
use crate::history::{Action, Operation};
use crate::network::MILLI;
use crate::scenario::Actor;
use crate::world::World;
use ramhold_backup::ReplicaState;
use ramhold_base::{KeyHash, LeaseId, LogId, ServerId, ShardId, TableId};
use ramhold_coordinator::State;
use ramhold_master::TabletSeen;
use ramhold_node::{Coordinator, ServerNode};
use std::collections::{BTreeMap, BTreeSet};

/// Simulated nanoseconds between two looks.
pub const INTERVAL: u64 = 10 * MILLI;
/// Clients' leases last for seconds, and a walk over all replicas takes long: they are looked at less often.
const SELDOM: u64 = 100 * MILLI;
/// Enough to see what is wrong.
const FINDINGS_MAX: usize = 20;

type ClusterWorld = World<Actor<Process, ClusterSession>>;

#[derive(Default, Debug)]
pub struct Watch {
    /// Who was seen to have taken the tablets of a table, by their first hashes, with the last ones.
    owners: BTreeMap<TableId, BTreeMap<u64, (u64, ServerId)>>,
    /// When a tablet of a server was first seen to be another's.
    opened: BTreeMap<ServerId, u64>,
    /// The records of tables in the store, with their versions.
    seen: Vec<(String, u64)>,
    /// The store was lost, and is not made anew yet.
    is_lost: bool,
    next: u64,
    pub findings: Vec<String>,
}

impl Watch {
    pub fn look(&mut self, world: &ClusterWorld) {
        self.see_owners(world);
        let Some(coordinator) = in_charge(world) else { return };
        let over = taken_for_over(world);
        let is_time = world.now() >= self.next;
        if is_time {
            self.next = world.now() + SELDOM;
        }
        for node in 0..world.node_count() {
            let Some(Actor::Process(process)) = world.machine(node) else { continue };
            let Some(server) = process.server() else { continue };
            self.look_at_read_lease(world, node, server);
            if over.contains(&server.id()) {
                self.look_at_lease_taken_for_over(world, node, server);
            }
            if let Some(master) = server.master() {
                master.replicator().check_invariants();
            }
            if is_time {
                self.look_at_leases(world, node, server, coordinator);
                server.backup().check_invariants();
            }
        }
        if is_time {
            self.look_at_replicas(world);
        }
    }

    fn look_at_replicas(&mut self, world: &ClusterWorld) {
        let servers = servers(world);
        let mut held: BTreeMap<_, Vec<ReplicaState>> = BTreeMap::new();
        for server in &servers {
            for replica in server.backup().replicas() {
                held.entry((server.id(), replica.log, replica.segment)).or_default().push(replica);
            }
        }
        for server in servers {
            let Some(master) = server.master() else { continue };
            let log = LogId { server: server.id(), shard: ShardId(0) };
            for seen in master.replicator().replicas() {
                let Some(replicas) = held.get(&(seen.backup, log, seen.segment)) else { continue };
                let has_reached = |replica: &&ReplicaState| {
                    (replica.closed || !seen.closed)
                        && replica.certificate.map_or(0, |it| it.length) >= seen.certified
                };
                let mut same = replicas.iter().filter(|replica| replica.epoch == seen.epoch).peekable();
                if same.peek().is_some() && !same.any(|replica| has_reached(&replica)) {
                    let now = seconds(world.now());
                    self.find(format!("at {now} {log:?} takes {seen:?} for reached, it is {replicas:?}"));
                }
            }
        }
    }

    /// What counts is what is in the store: nobody hears of anything else.
    ///
    /// A store that is made anew need not have what the lost one had told to nobody. So an owner that it does not know
    /// has lost a tablet only if it serves it: then it was told.
    fn see_owners(&mut self, world: &ClusterWorld) {
        let store = world.store(0);
        if store.below("").next().is_none() {
            self.is_lost = true;
            return;
        }
        let seen: Vec<(String, u64)> =
            store.below("table/").map(|(key, version, _)| (key.to_string(), version)).collect();
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        // At first it has no tables.
        let is_anew = !self.seen.is_empty() && std::mem::take(&mut self.is_lost);
        // The term stands beside the records.
        let records = store.below("").filter(|(key, ..)| *key != "term");
        let records: Vec<(String, Vec<u8>)> =
            records.map(|(key, _, value)| (key.to_string(), value.to_vec())).collect();
        let state = State::load(&records).expect("the coordinator can read its records");
        let now = world.now();
        for table in state.map(|state| state.tables).unwrap_or_default().values() {
            let before = self.owners.remove(&table.id).unwrap_or_default();
            let mut owners = BTreeMap::new();
            for tablet in &table.tablets {
                // A part of what was one tablet before was that one's owner's.
                let known = before.range(..=tablet.first.0).next_back().map(|(_, known)| *known);
                let known = known.filter(|(last, _)| tablet.first.0 <= *last).map(|(_, owner)| owner);
                let owner = if tablet.taken { Some(tablet.owner) } else { known };
                owners.extend(owner.map(|owner| (tablet.first.0, (tablet.last.0, owner))));
                let was_told = |known: &ServerId| !is_anew || serves(world, *known, table.id, tablet.first);
                if let Some(known) = known.filter(|known| Some(*known) != owner).filter(was_told) {
                    self.opened.entry(known).or_insert(now);
                }
            }
            self.owners.insert(table.id, owners);
        }
    }

    fn look_at_read_lease(&mut self, world: &ClusterWorld, node: usize, server: &ServerNode) {
        let (Some(opened), Some(master)) = (self.opened.get(&server.id()), server.master()) else { return };
        let until = world.node(node).clock.world(master.leased_until());
        if until > world.now() {
            let (now, opened) = (seconds(world.now()), seconds(*opened));
            let until = seconds(until);
            self.find(format!(
                "{} has the read lease at {now} until {until}, a tablet of it was opened elsewhere by {opened}",
                server.id()
            ));
        }
    }

    fn look_at_lease_taken_for_over(&mut self, world: &ClusterWorld, node: usize, server: &ServerNode) {
        let Some(master) = server.master() else { return };
        let until = world.node(node).clock.world(master.leased_until());
        if until > world.now() {
            let (now, until) = (seconds(world.now()), seconds(until));
            self.find(format!(
                "{} has the read lease at {now} until {until}, the coordinator takes it for over",
                server.id()
            ));
        }
    }

    fn look_at_leases(
        &mut self,
        world: &ClusterWorld,
        node: usize,
        server: &ServerNode,
        coordinator: &Coordinator,
    ) {
        let Some(master) = server.master() else { return };
        let now = world.node(node).clock.local(world.now());
        let is_over = |lease: &LeaseId| !coordinator.state().leases.contains_key(lease);
        let over: Vec<LeaseId> = master.live_leases(now).filter(is_over).collect();
        if let Some(lease) = over.first() {
            let at = seconds(world.now());
            self.find(format!("{} takes {lease:?} for alive at {at}, which is over", server.id()));
        }
    }

    fn find(&mut self, finding: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Reads that began after a tablet of the server that answered them was opened elsewhere.
    pub fn reads_of_the_dead(&self, history: &[Operation]) -> Vec<String> {
        let is_read = |o: &&Operation| matches!(o.action, Action::Read | Action::Count);
        let is_late = |o: &&Operation| {
            let opened = o.answered_by.and_then(|server| self.opened.get(&server));
            opened.is_some_and(|opened| o.call > *opened)
        };
        let late = history.iter().filter(is_read).filter(is_late).take(FINDINGS_MAX);
        late.map(|o| format!("answered by who owns nothing any more: {o}")).collect()
    }
}

fn serves(world: &ClusterWorld, server: ServerId, table: TableId, hash: KeyHash) -> bool {
    let mut masters = servers(world).into_iter().filter(|known| known.id() == server);
    let is_there =
        |seen: &TabletSeen| seen.table == table && seen.serving && (seen.first..=seen.last).contains(&hash);
    masters
        .any(|known| known.master().is_some_and(|master| master.tablets_seen().any(|seen| is_there(&seen))))
}

/// Dead servers whose read lease the coordinator in charge takes for over.
fn taken_for_over(world: &ClusterWorld) -> BTreeSet<ServerId> {
    let mut over = BTreeSet::new();
    for node in 0..world.node_count() {
        let Some(Actor::Process(process)) = world.machine(node) else { continue };
        if let Some(coordinator) = process.coordinator().filter(|coordinator| coordinator.is_active()) {
            over.extend(coordinator.read_leases_over(world.node(node).clock.local(world.now())));
        }
    }
    over
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
