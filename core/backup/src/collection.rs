//! Which replicas of other lives may go.
//!
//! A removed master needs nothing; a crashed one is being recovered; one that is up is asked about every replica that
//! was found at start or replaced, again and again. Who was never in the cluster is a sign of a wrong coordinator:
//! nothing of it is freed.
//!
//! Protocol: docs/protocols/replication.md, "Replica collection". Catalogue: D7.

use crate::Backup;
use crate::replica::{ReplicaKey, ReplicaNumber};
use ramhold_base::{Effects, Instant, Level, LogId, Peer, SegmentId, ServerId, ShardId, Status, StreamId};
use ramhold_wire::membership::{ReplicaName, ReplicasNeeded, ReplicasNotNeeded};
use ramhold_wire::{Header, Standing, View, decode, request};
use std::net::SocketAddr;
use std::ops::Bound;

/// Replicas named in one question; the next question goes on behind them.
const NAME_COUNT_MAX: usize = 1000;

/// Who was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    master: ServerId,
}

impl Backup {
    /// The answer to a question of this role.
    pub fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        if let Some(call) = self.calls.answered(header.rpc)
            && header.status() == Status::Ok
            && header.cluster == view.cluster
            && header.sender == call.context.master
            && let Ok(answer) = decode::<ReplicasNotNeeded>(body)
        {
            self.free_unneeded(call.context.master, &answer);
        }
        self.advance(now, view, effects);
    }

    /// A connection is gone; whoever was asked over it is asked again with the next round.
    pub fn on_lost(&mut self, now: Instant, addr: SocketAddr, view: &View, effects: &mut Effects) {
        drop(self.calls.lost(addr));
        self.advance(now, view, effects);
    }

    fn free_unneeded(&mut self, server: ServerId, answer: &ReplicasNotNeeded) {
        for name in &answer.replicas {
            let log = LogId { server, shard: name.shard };
            let key = ReplicaKey { log, segment: name.segment, stream: name.stream };
            if let Some(number) = self.found.get(&key).copied()
                && self.replicas[&number].stored.epoch == name.epoch
            {
                self.free(number);
            }
        }
    }

    /// Frees what no master needs and asks those that may.
    pub(crate) fn collect(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if std::mem::take(&mut self.is_collection_due) {
            self.free_removed(view, effects);
        }
        if self.found.is_empty() {
            self.ask_at = None;
        } else if self.ask_at.is_none_or(|at| at <= now) {
            self.ask_at = Some(now + self.config.needed_interval);
            self.ask(now, view, effects);
        }
    }

    fn free_removed(&mut self, view: &View, effects: &mut Effects) {
        let numbers: Vec<ReplicaNumber> = self.present.values().chain(self.found.values()).copied().collect();
        for number in numbers {
            let replica = &self.replicas[&number];
            let server = replica.key.log.server;
            match view.list.standing(server) {
                Standing::Removed => self.free(number),
                // Without a certificate it does not exist and nobody will ask for it.
                Standing::Crashed
                    if replica.accepted.certificate.is_none() && replica.operations.is_empty() =>
                {
                    self.free(number);
                }
                Standing::Unknown if self.never_issued.insert(server) => {
                    effects.report(
                        Level::Error,
                        format!("replicas of {server} are kept: this coordinator never knew such a server"),
                    );
                }
                Standing::Crashed | Standing::Up | Standing::Unknown => {}
            }
        }
        self.fenced.retain(|server| view.list.standing(*server) != Standing::Removed);
    }

    fn ask(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let mut server = self.found.keys().next().map(|key| key.log.server);
        while let Some(master) = server {
            if let Some(addr) = view.list.address(master) {
                let replicas = self.names_to_ask(master);
                let rpc = self.calls.open(addr, now, now + self.config.needed_interval, Question { master });
                let header = view.to_server(master);
                request(effects, Peer::Addr(addr), &header, rpc, &ReplicasNeeded { replicas });
            }
            let behind = (Bound::Excluded(last_key(master)), Bound::Unbounded);
            server = self.found.range(behind).next().map(|(key, _)| key.log.server);
        }
    }

    /// The next of a master's replicas to ask about, round and round.
    fn names_to_ask(&mut self, master: ServerId) -> Vec<ReplicaName> {
        let (first, last) = (first_key(master), last_key(master));
        let from = self.ask_from.get(&master).copied().unwrap_or(first);
        let name = |(key, number): (&ReplicaKey, &ReplicaNumber)| ReplicaName {
            shard: key.log.shard,
            stream: key.stream,
            segment: key.segment,
            epoch: self.replicas[number].stored.epoch,
        };
        let ahead = self.found.range((Bound::Excluded(from), Bound::Included(last)));
        let behind = self.found.range(first..=from);
        let chosen: Vec<_> = ahead.chain(behind).take(NAME_COUNT_MAX).collect();
        let next = chosen.last().map(|(key, _)| **key);
        let names = chosen.into_iter().map(name).collect();
        match next {
            Some(next) => self.ask_from.insert(master, next),
            None => self.ask_from.remove(&master),
        };
        names
    }
}

/// Below all replicas of a server.
pub(crate) fn first_key(server: ServerId) -> ReplicaKey {
    ReplicaKey { log: LogId { server, shard: ShardId(0) }, segment: SegmentId(0), stream: StreamId(0) }
}

/// Above all replicas of a server.
pub(crate) fn last_key(server: ServerId) -> ReplicaKey {
    ReplicaKey {
        log: LogId { server, shard: ShardId(u16::MAX) },
        segment: SegmentId(u64::MAX),
        stream: StreamId(u16::MAX),
    }
}
