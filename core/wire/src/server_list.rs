//! A process's copy of the server list, and what it knows of itself.
//!
//! Invariants: the version only grows within a term; `issued` only grows; a crashed server never comes back under its id.

use crate::Header;
use crate::membership::{ServerEntry, ServerListUpdate, ServerState};
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

/// What is known of a server id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Up,
    Crashed,
    /// Was in the cluster once; all that was its is recovered.
    Removed,
    /// Newer than this copy of the list, or never given out.
    Unknown,
}

impl ServerList {
    /// Applies an update. `false`: it does not follow this version; the sender must be told [`Self::version`].
    pub fn apply(&mut self, update: &ServerListUpdate) -> bool {
        if update.from == 0 {
            self.entries.clear();
        } else if update.from > self.version {
            return false;
        }
        if update.from != 0 && update.to <= self.version {
            return true;
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
    pub term: Term,
    pub coordinator: SocketAddr,
    pub list: ServerList,
    told: (Instant, ClusterTime),
}

impl View {
    pub fn new(coordinator: SocketAddr) -> View {
        View {
            cluster: ClusterId::NONE,
            me: ServerId::NONE,
            term: Term::NONE,
            coordinator,
            list: ServerList::default(),
            told: (Instant::ZERO, ClusterTime::default()),
        }
    }

    /// Takes over a newer cluster time; it never goes back.
    pub fn tell_time(&mut self, now: Instant, time: ClusterTime) {
        let time = time.max(self.time(now));
        self.told = (now, time);
    }

    /// The cluster time, carried on with the own clock since it was last told.
    pub fn time(&self, now: Instant) -> ClusterTime {
        let since: Duration = now.since(self.told.0);
        ClusterTime(self.told.1.0.saturating_add(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }

    /// A header with this server's identity, for a request to another server.
    pub fn to_server(&self, target: ServerId) -> Header {
        Header { cluster: self.cluster, term: self.term, sender: self.me, target, ..Header::default() }
    }

    /// A header for a request to the coordinator.
    pub fn to_coordinator(&self) -> Header {
        self.to_server(ServerId::NONE)
    }

    /// Whether a request is for this life of this server in this cluster.
    pub fn check_target(&self, header: &Header) -> Result<(), Status> {
        if header.cluster != self.cluster {
            return Err(Status::WrongCluster);
        }
        if header.target != self.me {
            return Err(Status::WrongServer);
        }
        Ok(())
    }
}
