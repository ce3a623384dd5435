//! A request that is being handled, and a request that waits for its answer.

use ramhold_base::{ConnId, Effects, Peer, Status};
use ramhold_wire::{Header, reply};

/// A request as it has arrived.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub header: &'a Header,
    pub body: &'a [u8],
    pub from: ConnId,
}

impl Request<'_> {
    /// The sender, to be answered now or later.
    pub fn asker(&self) -> Asker {
        Asker { header: *self.header, from: self.from }
    }
}

/// The sender of a request that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub header: Header,
    pub from: ConnId,
}

impl Asker {
    pub fn peer(&self) -> Peer {
        Peer::Conn(self.from)
    }

    pub fn answer(&self, status: Status, effects: &mut Effects) {
        reply(effects, self.peer(), &self.header, status);
    }
}
