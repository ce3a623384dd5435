//! The state of a stage, as the script looks at it: processes, the coordinator, tables, heads, marks.

use super::Stage;
use crate::audit::{Owned, ServerSeen, look, stored};
use crate::system::Deaths;
use ramhold_base::{SegmentId, ServerId, StreamId, TableId};
use ramhold_coordinator::State;
use ramhold_node::{Coordinator, ServerNode};
use std::collections::BTreeMap;

impl Stage {
    /// The process of a server, while it runs.
    pub fn node(&self, server: usize) -> Option<&ServerNode> {
        self.world.machine(self.servers[server])?.process()?.server()
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
        self.world.machine(self.coordinator)?.process()?.coordinator().filter(|c| c.is_active())
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
    pub fn tables(&self) -> BTreeMap<TableId, Vec<Owned>> {
        self.in_charge().map(stored).unwrap_or_default()
    }

    /// The bytes of each tablet of a table, as its owner counts them.
    pub fn tablet_bytes(&self, table: TableId) -> Vec<u64> {
        let tablets = self.tables().remove(&table).expect("the table is there");
        let of = |(first, _, owner): &Owned| {
            let server = (0..self.servers.len()).find(|server| self.id(*server) == *owner).expect("it is up");
            let log = self.node(server).and_then(|node| node.master()).expect("it runs").log();
            let stat = log.stats().find(|stat| (stat.table, stat.first.0) == (table, *first));
            stat.expect("what is served is tracked").bytes
        };
        tablets.iter().map(of).collect()
    }

    /// The processes of all servers that run.
    pub(super) fn nodes(&self) -> Vec<&ServerNode> {
        (0..self.servers.len()).filter_map(|server| self.node(server)).collect()
    }

    /// The cluster as the audit sees it.
    pub fn seen(&self) -> Vec<ServerSeen> {
        self.nodes().into_iter().map(look).collect()
    }
}
