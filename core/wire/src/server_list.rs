//! A process's copy of the server list, and the process's knowledge of its own identity.
//!
//! Invariants:
//! - the version only grows within a term;
//! - `issued` only grows;
//! - a crashed server never comes back under its id.

use crate::Header;
use crate::clock::ClusterClock;
use crate::control::Address;
use crate::membership::{ServerEntry, ServerListUpdate, ServerState};
use crate::replica_placement::ReplicaPlacement;
use crate::topology::Topology;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, ClusterTime, Instant, ServerId, Status, Term};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct ServerList {
    version: u64,
    entries: BTreeMap<ServerId, ServerEntry>,
    issued: ServerId,
}

/// The standing of a server id in this copy of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Up,
    Crashed,
    /// Was in the cluster once, and everything that it owned is recovered.
    Removed,
    /// Newer than this copy of the list, or never given out.
    Unknown,
}

impl ServerList {
    /// Applies an update. `false`: the update does not follow this version; the sender must be told
    /// [`Self::version`].
    pub fn apply(&mut self, update: &ServerListUpdate) -> bool {
        if update.to <= self.version {
            return true; // It was overtaken by a newer one.
        }
        if update.from == 0 {
            self.entries.clear();
        } else if update.from > self.version {
            return false;
        }
        for entry in &update.changed {
            self.entries.insert(entry.id, entry.clone());
        }
        for id in &update.removed {
            self.entries.remove(id);
        }
        self.version = update.to;
        self.issued = self.issued.max(update.issued);
        true
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn issued(&self) -> ServerId {
        self.issued
    }

    pub fn entry(&self, id: ServerId) -> Option<&ServerEntry> {
        self.entries.get(&id)
    }

    pub fn entries(&self) -> impl Iterator<Item = &ServerEntry> {
        self.entries.values()
    }

    pub fn up(&self) -> impl Iterator<Item = &ServerEntry> {
        self.entries.values().filter(|e| e.state == ServerState::Up)
    }

    /// Whether a server may replicate the data that it has recovered from these dead logs: one log that is
    /// still listed allows it, or no log is listed any more. Only the coordinator knows which of the logs the
    /// server's pieces still note, and which of them is the oldest.
    pub fn may_replicate(&self, logs: impl Iterator<Item = ServerId>, server: ServerId) -> bool {
        let mut listed = logs.filter_map(|log| self.entries.get(&log)).peekable();
        let is_its = |entry: &ServerEntry| entry.replicates_only.is_none_or(|only| only == server);
        listed.peek().is_none() || listed.any(|entry| entry.replicates && is_its(entry))
    }

    /// Dead servers whose data is not all live again.
    pub fn recovered(&self) -> impl Iterator<Item = ServerId> {
        self.entries.values().filter(|e| e.state == ServerState::Crashed && !e.kept).map(|e| e.id)
    }

    pub fn standing(&self, id: ServerId) -> Standing {
        match self.entries.get(&id) {
            Some(entry) if entry.state == ServerState::Up => Standing::Up,
            Some(_) => Standing::Crashed,
            None if id <= self.issued && !id.is_none() => Standing::Removed,
            None => Standing::Unknown,
        }
    }

    /// Where an Up server listens.
    pub fn address(&self, id: ServerId) -> Option<SocketAddr> {
        self.entry(id).filter(|e| e.state == ServerState::Up).map(|e| e.address.0)
    }
}

/// A server's knowledge of its cluster, as every role of the process sees it.
#[derive(Clone, Debug)]
pub struct View {
    pub cluster: ClusterId,
    pub me: ServerId,
    /// The term of the coordinator that acts, as last heard.
    pub term: Term,
    /// A coordinator that has lost its store has asked under this term, and does not act yet. No coordinator
    /// of a lower term acts any more (docs/protocols/rebuild.md, rule 6).
    pub bound: Term,
    pub coordinator: SocketAddr,
    pub list: ServerList,
    pub placement: ReplicaPlacement,
    pub topology: Topology,
    /// Where bricks listen, as the coordinator said with the newest list. It tells a bounded number of them.
    pub bricks: Vec<Address>,
    clock: ClusterClock,
}

impl View {
    pub fn new(coordinator: SocketAddr) -> View {
        View {
            cluster: ClusterId::NONE,
            me: ServerId::NONE,
            term: Term::NONE,
            bound: Term::NONE,
            coordinator,
            list: ServerList::default(),
            placement: ReplicaPlacement::default(),
            topology: Topology::default(),
            bricks: Vec::new(),
            clock: ClusterClock::default(),
        }
    }

    /// The coordinator's clock showed this time at some moment before now.
    pub fn tell_time(&mut self, now: Instant, time: ClusterTime) {
        self.clock.told(now, time);
    }

    /// The coordinator was asked at `sent`, and answers now that its clock showed `micros` since 1970.
    pub fn answer_time(&mut self, sent: Instant, now: Instant, micros: u64) {
        self.clock.answered(sent, now, micros);
    }

    /// The distance between the earliest and the latest time that the cluster may have now.
    pub fn time_span(&self, now: Instant) -> Duration {
        self.clock.span(now)
    }

    /// The cluster time, carried on with this process's clock since it was last told. It never goes back.
    pub fn time(&self, now: Instant) -> ClusterTime {
        self.clock.time(now)
    }

    /// A time that is past for every server that may serve from now on; none: not known yet.
    pub fn past_for_all(&self, now: Instant) -> Option<ClusterTime> {
        self.clock.past_for_all(now)
    }

    /// A header with this server's identity, for a request to another server.
    pub fn to_server(&self, target: ServerId) -> Header {
        Header { cluster: self.cluster, term: self.term, sender: self.me, target, ..Header::default() }
    }

    /// A header for a request to the coordinator. A coordinator that acts no more finds a term above its own
    /// there, and refuses.
    pub fn to_coordinator(&self) -> Header {
        Header { term: self.least_term(), ..self.to_server(ServerId::NONE) }
    }

    /// The lowest term under which a process may still act as coordinator.
    pub fn least_term(&self) -> Term {
        self.term.max(self.bound)
    }

    /// Whether a request is for this life of this server in this cluster.
    pub fn check_target(&self, header: &Header) -> Result<(), Status> {
        if header.cluster != self.cluster && !planted(Defect::ClusterIgnored) {
            return Err(Status::WrongCluster);
        }
        if header.target != self.me && !planted(Defect::AnyLifeAnswers) {
            return Err(Status::WrongServer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Address;
    use crate::membership::ServerState;

    fn update(from: u64, to: u64, ids: &[u64]) -> ServerListUpdate {
        let entry = |id: &u64| ServerEntry {
            id: ServerId(*id),
            address: Address(SocketAddr::from(([10, 0, 0, 1], 1))),
            labels: vec![],
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 1,
            directory: Default::default(),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: None,
        };
        let changed = ids.iter().map(entry).collect();
        ServerListUpdate {
            from,
            to,
            changed,
            removed: vec![],
            issued: ServerId(9),
            time: ClusterTime(0),
            coordinator: None,
            copyset_rings: None,
            placement: None,
            topology: Default::default(),
            bricks: None,
            accounts: None,
        }
    }

    /// A10: a server that came back at its old address answers nothing that was meant for the one before.
    #[test]
    fn what_is_for_another_life_or_another_cluster_is_refused() {
        let mut view = View::new(SocketAddr::from(([10, 0, 0, 1], 1)));
        (view.cluster, view.me) = (ClusterId(1), ServerId(2));
        let header = |cluster, target| Header {
            cluster: ClusterId(cluster),
            target: ServerId(target),
            ..Header::default()
        };
        assert_eq!(view.check_target(&header(1, 2)), Ok(()));
        assert_eq!(view.check_target(&header(1, 1)), Err(Status::WrongServer));
        assert_eq!(view.check_target(&header(1, 0)), Err(Status::WrongServer));
        assert_eq!(view.check_target(&header(3, 2)), Err(Status::WrongCluster));
    }

    /// Seed 5 of the simulator: an old whole list came last, and the server never heard of later changes.
    #[test]
    fn a_list_never_goes_back() {
        let mut list = ServerList::default();
        assert!(list.apply(&update(0, 5, &[1, 2])));
        assert!(list.apply(&update(5, 6, &[3])));
        assert!(list.apply(&update(0, 4, &[1])));
        assert_eq!((list.version(), list.entries().count()), (6, 3));
        assert!(!list.apply(&update(8, 9, &[4])), "there is a gap");
        assert_eq!(list.standing(ServerId(7)), Standing::Removed);
        assert_eq!(list.standing(ServerId(10)), Standing::Unknown);
    }
}
