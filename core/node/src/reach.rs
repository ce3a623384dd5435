//! Checks for the coordinator whether some servers answer from here, before they are given up for good.
//!
//! The coordinator may be cut off from servers that others reach. This server pings each of them once, at each of its
//! addresses that are known. When all have answered, or their time is over, it tells the coordinator which servers
//! answered.
//!
//! Invariants: a new question replaces the one before; an answer counts only under the id that is asked about.
//!
//! Protocol: docs/protocols/recovery.md, "Accepting a loss". Catalogue: F2.

use crate::server::{Context, ServerNode};
use ramhold_base::limits::SERVER_COUNT_MAX;
use ramhold_base::{ConnId, Effects, Instant, Peer, ServerId, Status};
use ramhold_wire::status::{Ping, Reach, ReachTarget, Reached};
use ramhold_wire::{Header, reply, reply_with, request};
use std::collections::BTreeMap;
use std::net::SocketAddr;

#[derive(Debug, Default)]
pub(crate) struct ReachCheck {
    question: u64,
    asker: Option<(ConnId, Header)>,
    /// The pings to each server that are not over.
    waiting: BTreeMap<ServerId, usize>,
    answering: Vec<ServerId>,
}

impl ReachCheck {
    /// Notes that one of the servers has answered, or has not.
    pub fn heard(&mut self, question: u64, server: ServerId, answers: bool, effects: &mut Effects) {
        if question != self.question {
            return;
        }
        let Some(pings) = self.waiting.get_mut(&server) else { return };
        *pings -= 1;
        if answers {
            self.answering.push(server);
        }
        if answers || *pings == 0 {
            self.waiting.remove(&server);
        }
        self.advance(effects);
    }

    fn advance(&mut self, effects: &mut Effects) {
        if self.waiting.is_empty()
            && let Some((from, header)) = self.asker.take()
        {
            let answering = std::mem::take(&mut self.answering);
            reply_with(effects, Peer::Conn(from), &header, Status::Ok, &Reached { answering });
        }
    }
}

impl ServerNode {
    pub(crate) fn on_reach(
        &mut self,
        now: Instant,
        header: &Header,
        from: ConnId,
        message: &Reach,
        effects: &mut Effects,
    ) {
        if message.servers.len() > SERVER_COUNT_MAX {
            return reply(effects, Peer::Conn(from), header, Status::BadRequest);
        }
        let question = self.reach.question + 1;
        let addresses = |target: &ReachTarget| {
            let links = self.view.list.entry(target.server).map(|entry| entry.links()).unwrap_or_default();
            let links = links.iter().map(|link| link.address.0);
            [target.address.0].into_iter().chain(links).collect::<Vec<_>>()
        };
        let targets: Vec<(ServerId, Vec<SocketAddr>)> =
            message.servers.iter().map(|target| (target.server, addresses(target))).collect();
        let waiting = targets.iter().map(|(server, addresses)| (*server, addresses.len())).collect();
        let asker = Some((from, *header));
        self.reach = ReachCheck { question, asker, waiting, answering: Vec::new() };
        let deadline = now + self.detector.ping_timeout();
        for (server, addresses) in targets {
            for address in addresses {
                let rpc = self.calls.open(address, now, deadline, Context::Reach { question, server });
                request(effects, Peer::Addr(address), &self.view.to_server(server), rpc, &Ping {});
            }
        }
        self.reach.advance(effects);
    }
}
