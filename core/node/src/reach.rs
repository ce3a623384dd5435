//! Checks for the coordinator whether some servers answer from here, before they are given up for good.
//!
//! The coordinator may be cut off from servers that others reach. This server pings each of them once. When all have
//! answered, or their time is over, it tells the coordinator which servers answered.
//!
//! Invariants: a new question replaces the one before; an answer counts only under the id that is asked about.
//!
//! Protocol: docs/protocols/recovery.md, "Accepting a loss". Catalogue: F2.

use crate::server::{Context, ServerNode};
use ramhold_base::limits::SERVER_COUNT_MAX;
use ramhold_base::{ConnId, Effects, Instant, Peer, ServerId, Status};
use ramhold_wire::status::{Ping, Reach, Reached};
use ramhold_wire::{Header, reply, reply_with, request};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct ReachCheck {
    question: u64,
    asker: Option<(ConnId, Header)>,
    waiting: BTreeSet<ServerId>,
    answering: Vec<ServerId>,
}

impl ReachCheck {
    /// Notes that one of the servers has answered, or has not.
    pub fn heard(&mut self, question: u64, server: ServerId, answers: bool, effects: &mut Effects) {
        if question != self.question || !self.waiting.remove(&server) {
            return;
        }
        if answers {
            self.answering.push(server);
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
        let waiting = message.servers.iter().map(|target| target.server).collect();
        let asker = Some((from, *header));
        self.reach = ReachCheck { question, asker, waiting, answering: Vec::new() };
        let deadline = now + self.detector.ping_timeout();
        for target in &message.servers {
            let (server, address) = (target.server, target.address.0);
            let rpc = self.calls.open(address, now, deadline, Context::Reach { question, server });
            request(effects, Peer::Addr(address), &self.view.to_server(server), rpc, &Ping {});
        }
        self.reach.advance(effects);
    }
}
