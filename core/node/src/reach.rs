//! Checks for others whether some servers answer from here.
//!
//! The coordinator may be cut off from servers that others reach, and asks before they are given up for good. A server
//! asks when a neighbour does not answer it. This server pings each of the servers once, at each of its addresses that
//! are known. When all have answered, or their time is over, it tells which servers answered.
//!
//! Invariants:
//! - one question of the coordinator is open, the last one, and at most `QUESTION_COUNT_MAX` of servers;
//! - an answer counts only under the id that is asked about;
//! - a server is not told that another one does not answer if this one was late to hear it.
//!
//! Protocol: docs/protocols/recovery.md, "Accepting a loss"; docs/protocols/neighbours.md. Catalogue: F2, H3.

use crate::server::{Context, ServerNode};
use ramhold_base::limits::SERVER_COUNT_MAX;
use ramhold_base::{ConnId, Effects, Instant, Peer, ServerId, Status};
use ramhold_wire::status::{Ping, Reach, ReachTarget, Reached};
use ramhold_wire::{Header, reply, reply_with, request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The most questions of servers that are answered at once.
const QUESTION_COUNT_MAX: usize = 256;
/// Who looks for an answer later than this after its time was busy, and may not have read it yet.
const LATE_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct ReachCheck {
    asked: u64,
    open: BTreeMap<u64, Question>,
    /// The number of the coordinator's last question.
    last: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    Coordinator,
    Server,
}

#[derive(Debug)]
struct Question {
    asker: (ConnId, Header),
    /// The pings to each server that are not over.
    waiting: BTreeMap<ServerId, usize>,
    answering: Vec<ServerId>,
    deadline: Instant,
    by: Asker,
}

impl ReachCheck {
    /// Notes that one of the servers has answered, or has not.
    pub fn heard(
        &mut self,
        now: Instant,
        (number, server): (u64, ServerId),
        answers: bool,
        effects: &mut Effects,
    ) {
        let Some(question) = self.open.get_mut(&number) else { return };
        let Some(pings) = question.waiting.get_mut(&server) else { return };
        *pings -= 1;
        if answers {
            question.answering.push(server);
        }
        if answers || *pings == 0 {
            question.waiting.remove(&server);
        }
        self.advance(now, number, effects);
    }

    fn advance(&mut self, now: Instant, number: u64, effects: &mut Effects) {
        let is_over = self.open.get(&number).is_some_and(|question| question.waiting.is_empty());
        if is_over && let Some(question) = self.open.remove(&number) {
            let Question { asker: (from, header), answering, deadline, by, .. } = question;
            if by == Asker::Server && answering.is_empty() && now > deadline + LATE_MAX {
                return reply(effects, Peer::Conn(from), &header, Status::Retry);
            }
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
        let addresses = |target: &ReachTarget| {
            let links = self.view.list.entry(target.server).map(|entry| entry.links()).unwrap_or_default();
            let links = links.iter().map(|link| link.address.0);
            [target.address.0].into_iter().chain(links).collect::<Vec<_>>()
        };
        let targets: Vec<(ServerId, Vec<SocketAddr>)> =
            message.servers.iter().map(|target| (target.server, addresses(target))).collect();
        let deadline = now + self.detector.ping_timeout();
        self.begin_reach(now, (from, *header), (Asker::Coordinator, targets), deadline, effects);
    }

    /// Pings servers at their addresses, and answers when that is over.
    pub(crate) fn begin_reach(
        &mut self,
        now: Instant,
        asker: (ConnId, Header),
        (by, targets): (Asker, Vec<(ServerId, Vec<SocketAddr>)>),
        deadline: Instant,
        effects: &mut Effects,
    ) {
        self.reach.asked += 1;
        let question = self.reach.asked;
        let waiting = targets.iter().map(|(server, addresses)| (*server, addresses.len()));
        let waiting = waiting.filter(|(_, pings)| *pings > 0).collect();
        match by {
            Asker::Coordinator => {
                let before = self.reach.last.replace(question);
                before.and_then(|before| self.reach.open.remove(&before));
            }
            Asker::Server if self.reach.open.len() > QUESTION_COUNT_MAX => {
                return reply(effects, Peer::Conn(asker.0), &asker.1, Status::TooMany);
            }
            Asker::Server => {}
        }
        self.reach.open.insert(question, Question { asker, waiting, answering: Vec::new(), deadline, by });
        for (server, addresses) in targets {
            for address in addresses {
                let rpc = self.calls.open(address, now, deadline, Context::Reach { question, server });
                request(effects, Peer::Addr(address), &self.view.to_server(server), rpc, &Ping {});
            }
        }
        self.reach.advance(now, question, effects);
    }
}
