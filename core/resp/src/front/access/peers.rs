//! Calls to other servers that are not requests about objects: to their fronts, about subscribers, and to their
//! masters, about this front's lease.
//!
//! Not here: what the answers are used for (`pubsub`, `ready`).

use crate::front::host::Host;
use crate::front::request::CommandId;
use crate::front::step::Step;
use ramhold_base::{Input, Instant, LeaseId, Lost, Peer, ServerId, Status};
use ramhold_wire::control::Message;
use ramhold_wire::{CallRole, Calls, frame, request};
use std::net::SocketAddr;
use std::time::Duration;

/// The reason why the front awaits an answer of another server.
#[derive(Clone, Copy, Debug)]
pub enum Awaited {
    /// A command waits for how many of the server's subscribers heard a message, or for what they listen to.
    Listeners(CommandId),
    /// The server's master was told of the session's lease.
    Met { server: ServerId, lease: LeaseId },
}

/// A call that is over, with the answer. `None`: no answer came.
pub type Over<'a> = (Awaited, Option<(Status, &'a [u8])>);

pub struct Peers {
    calls: Calls<Awaited>,
}

impl Peers {
    pub fn new(seed: u64) -> Peers {
        Peers { calls: Calls::new(CallRole::Peers, seed) }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.calls.deadline()
    }

    /// Calls a server. The answer is awaited for `timeout`.
    pub fn call(
        &mut self,
        step: &mut Step<'_, impl Host>,
        (server, address): (ServerId, SocketAddr),
        message: &impl Message,
        timeout: Duration,
        awaited: Awaited,
    ) {
        let rpc = self.calls.open(address, step.now, step.now + timeout, awaited);
        request(step.effects, Peer::Addr(address), &step.host.to_server(server), rpc, message);
    }

    /// The calls that an input ends: by an answer, by the loss of a connection, or by the time.
    pub fn take_over<'a>(&mut self, now: Instant, input: &Input<'a>) -> Vec<Over<'a>> {
        let mut over = Vec::new();
        match input {
            Input::Frame { bytes, .. } => {
                let Ok((header, body)) = frame::parse(bytes) else { return over };
                if CallRole::of(header.rpc) != Some(CallRole::Peers) {
                    return over;
                }
                if let Some(call) = self.calls.answered(header.rpc) {
                    over.push((call.context, Some((header.status(), body))));
                }
            }
            Input::Lost { addr, how: Lost::Refused | Lost::Broken } => {
                over.extend(self.calls.lost(*addr).into_iter().map(|call| (call.context, None)));
            }
            _ => {
                while let Some(call) = self.calls.overdue(now) {
                    over.push((call.context, None));
                }
            }
        }
        over
    }
}
