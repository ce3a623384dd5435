//! The messages of a server about its neighbours: beats, questions to other servers, and reports to the coordinator.
//!
//! Not here: what silence means (detector). Protocol: docs/protocols/neighbours.md. Catalogue: H3, F1.

use crate::reach::Asker;
use crate::server::{Context, ServerNode};
use ramhold_base::{ConnId, Effect, Effects, Instant, Peer, ServerId, Status};
use ramhold_detector::neighbours::{LOOK_TIME, Question};
use ramhold_wire::frame::peek;
use ramhold_wire::neighbours::{REACH_MILLIS_MAX, ReachNeighbour};
use ramhold_wire::status::{Ping, Reached};
use ramhold_wire::{Header, Opcode, Standing, decode, reply, request};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a helper waits for the neighbour's answer, so that its own comes before the look is over.
const HELP_TIME: Duration = Duration::from_millis(60);
/// How long the coordinator's answer to a report is waited for. The next report comes anyway.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

impl ServerNode {
    /// Pings neighbours, looks for silent ones, and tells the coordinator.
    pub(crate) fn advance_neighbours(&mut self, now: Instant, effects: &mut Effects) {
        self.neighbours.follow(&self.view);
        if !self.neighbours.is_on() {
            return;
        }
        let orders = self.neighbours.tick(now);
        let deadline = now + self.config.detector.neighbour_timeout;
        for (server, address) in orders.pings {
            let rpc = self.calls.open(address, now, deadline, Context::Beat(server));
            request(effects, Peer::Addr(address), &self.view.to_server(server), rpc, &Ping {});
        }
        for question in orders.questions {
            let Some(address) = self.view.list.address(question.helper) else { continue };
            let rpc = self.calls.open(address, now, now + 2 * LOOK_TIME, Context::Helper(question));
            let within_millis = u32::try_from(HELP_TIME.as_millis()).unwrap_or(REACH_MILLIS_MAX);
            let message = ReachNeighbour { server: question.about, within_millis };
            request(effects, Peer::Addr(address), &self.view.to_server(question.helper), rpc, &message);
        }
        if let Some(report) = self.neighbours.report(now) {
            let to = self.config.coordinator;
            let rpc = self.calls.open(to, now, now + REPORT_TIMEOUT, Context::Suspect);
            request(effects, Peer::Addr(to), &self.view.to_coordinator(), rpc, &report);
        }
    }

    /// Notes where large answers may come from, now that messages have their paths.
    pub(crate) fn note_bulk(&mut self, now: Instant, effects: &Effects) {
        if !self.neighbours.is_on() {
            return;
        }
        for effect in &effects.list {
            let Effect::Send { to: Peer::Addr(address), frame } = effect else { continue };
            if let Some((_, Some(Opcode::RecoveryRead | Opcode::ReplicaRead))) =
                peek(&effects.bytes[frame.own.clone()])
            {
                self.neighbours.expect_bulk(now, *address);
            }
        }
    }

    pub(crate) fn on_helper_replied(&mut self, question: Question, header: &Header, body: &[u8]) {
        if header.status() == Status::Ok
            && let Ok(reached) = decode::<Reached>(body)
        {
            self.neighbours.on_helper(question, reached.answering.contains(&question.about));
        }
    }

    /// Another server looks for its neighbour.
    pub(crate) fn on_reach_neighbour(
        &mut self,
        now: Instant,
        header: &Header,
        from: ConnId,
        message: &ReachNeighbour,
        effects: &mut Effects,
    ) {
        let to = Peer::Conn(from);
        let is_sound = message.within_millis <= REACH_MILLIS_MAX
            && !header.sender.is_none()
            && message.server != self.view.me
            && self.view.list.standing(message.server) == Standing::Up;
        if !is_sound {
            return reply(effects, to, header, Status::BadRequest);
        }
        let expects_bulk =
            self.neighbours.expects_bulk(now, message.server) || self.paths.expects_bulk(now, message.server);
        if expects_bulk {
            return reply(effects, to, header, Status::Retry);
        }
        let addresses = self.addresses_of(message.server);
        let deadline = now + Duration::from_millis(u64::from(message.within_millis));
        let targets = vec![(message.server, addresses)];
        self.begin_reach(now, (from, *header), (Asker::Server, targets), deadline, effects);
    }

    /// The addresses at which this server may talk to another one: its links, or its first address.
    fn addresses_of(&self, server: ServerId) -> Vec<SocketAddr> {
        let links: Vec<SocketAddr> =
            ramhold_placement::path_order(&self.view, server).iter().map(|link| link.address.0).collect();
        if links.is_empty() { self.view.list.address(server).into_iter().collect() } else { links }
    }
}
