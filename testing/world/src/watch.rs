//! Rules that must hold at every moment of a run. They are checked again and again while faults strike. They
//! are promises of the protocols whose breach the clients of one run would see only by luck.
//!
//! - No server has a read lease on tablets that are served elsewhere. No server has a read lease that the
//!   coordinator takes for over, since its tablets may be served elsewhere at any moment
//!   (docs/protocols/read-leases.md).
//! - No master takes a client's lease for alive that is over (docs/protocols/exactly-once.md).
//! - The invariants that replication and backups state of themselves hold (docs/protocols/replication.md,
//!   "Invariants"). A panic there fails the run.
//! - If a master takes a backup to have reached a position of a replica, the backup has reached it, at the
//!   same epoch (the same page).
//! - No read that begins after a tablet of its server was opened elsewhere is answered by that server.
//!
//! The watch sees things that no process of the cluster can see: the coordinator's decisions at the moment
//! when they are made, and the beliefs of each server at the same moment, by the server's own clock.
//!
//! Not here: the state at rest (audit), other wrong answers to clients (checker). Catalogue: J3, J2, F8, A3.

use crate::audit::{in_charge, servers};
use crate::cluster::process::Process;
use crate::cluster::session::ClusterSession;
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
/// Clients' leases last for seconds, and a walk over all replicas takes long. Both are checked less often.
const SELDOM: u64 = 100 * MILLI;
/// Enough findings to see the fault.
const FINDINGS_MAX: usize = 20;

type ClusterWorld = World<Actor<Process, ClusterSession>>;

#[derive(Default, Debug)]
pub struct Watch {
    /// The servers that were seen to have taken the tablets of a table, by the tablets' first hashes, with
    /// the last hashes.
    owners: BTreeMap<TableId, BTreeMap<u64, (u64, ServerId)>>,
    /// The time at which a tablet of a server was first seen at another owner.
    opened: BTreeMap<ServerId, u64>,
    /// The records of tables in the store, with their versions.
    seen: Vec<(String, u64)>,
    /// The store was lost, and is not rebuilt yet.
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

    /// The contents of the store count: no process hears of anything else.
    ///
    /// A rebuilt store may lack changes of the lost store that no process was told of. So an owner that the
    /// rebuilt store does not name has lost a tablet only if it serves the tablet: then it was told.
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
        // A rebuilt store has no tables at first.
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
                // A part of a former tablet belonged to the owner of that tablet.
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

    /// Reads that began after a tablet of the answering server was opened elsewhere.
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
