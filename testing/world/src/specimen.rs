//! A small store in which faults can be planted. It proves that the scenario finds such faults.
//!
//! Each server owns a part of the keys and keeps them in memory and in a log on its device. It answers a
//! mutation once the record is synced. That is correct. Each `Planted` breaks one thing in a way that real
//! stores have been broken.
//!
//! Not here: replication, and recovery by other servers; the real cluster is run for those.

mod server;
mod session;

pub use server::SpecimenServer;
pub use session::SpecimenSession;

use crate::disk::DiskOptions;
use crate::system::{MakeProcess, MakeSession, Member, Role, System, Tolerance};
use crate::workload::Workload;
use ramhold_base::Rng;
use std::net::SocketAddr;

/// One deliberate defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Acknowledges when a write is in the page cache.
    AcknowledgeUnsynced,
    /// Reads see writes that are not synced yet.
    ReadUnsynced,
    /// After a restart it serves the contents of the page cache without syncing them.
    ServeUnsynced,
    /// A request that arrives twice is carried out twice.
    ForgetRequests,
    /// Forgets requests that it refused because it was not ready or was busy. A second copy may be carried
    /// out later.
    ForgetRefused,
    /// A removed key begins again at version 1.
    RestartVersions,
    /// Conditions are checked against a state that writes under way may change.
    CheckConditionsEarly,
    /// Answers a remove before it is written.
    RemoveInMemory,
    /// Now and then answers a read with the object before the last write of the key.
    ReadOld,
}

impl Planted {
    pub const ALL: [Planted; 9] = [
        Planted::AcknowledgeUnsynced,
        Planted::ReadUnsynced,
        Planted::ServeUnsynced,
        Planted::ForgetRequests,
        Planted::ForgetRefused,
        Planted::RestartVersions,
        Planted::CheckConditionsEarly,
        Planted::RemoveInMemory,
        Planted::ReadOld,
    ];
}

pub struct Specimen {
    pub servers: u8,
    pub planted: Option<Planted>,
}

impl Specimen {
    fn addresses(&self) -> Vec<SocketAddr> {
        (1..=self.servers).map(|host| SocketAddr::from(([10, 0, 0, host], 7000))).collect()
    }
}

impl System for Specimen {
    type Process = SpecimenServer;
    type Session = SpecimenSession;

    fn members(&self) -> Vec<Member> {
        let member = |addr: SocketAddr| Member {
            name: format!("server {addr}"),
            addr,
            links: Vec::new(),
            role: Role::Server,
            disk: DiskOptions::default(),
        };
        self.addresses().into_iter().map(member).collect()
    }

    /// The specimen's objects do not expire.
    fn workload(&self, rng: &mut Rng) -> Workload {
        Workload { ttl_percent: 0, ..Workload::draw(rng) }
    }

    fn processes(&self, _: &Member) -> MakeProcess<SpecimenServer> {
        let planted = self.planted;
        Box::new(move |_| SpecimenServer::new(planted))
    }

    fn sessions(&self) -> MakeSession<SpecimenSession> {
        let addresses = self.addresses();
        Box::new(move |seed| SpecimenSession::new(addresses.clone(), seed))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            down_at_once: self.servers.into(),
            power_cut: true,
            power_cut_of_all: true,
            rotting: 0,
            memory_flips: false,
            disk_errors: false,
            lost_store: false,
            zones: 0,
            planes: 0,
            has_cables: false,
        }
    }
}
