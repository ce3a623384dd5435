//! One stream: its heads that are not durably closed or not flushed, oldest first, and how far it is both.

use ramhold_base::{Instant, Position, SegmentId};
use ramhold_wire::membership::Durability;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Stream {
    pub durability: Durability,
    pub replicas: u8,
    /// The coordinator has an entry for it.
    pub registered: bool,
    pub registering: bool,
    /// The coordinator is not asked for a registration or record before this.
    pub ask_at: Instant,
    /// The first is the head that recovery would choose, the second the next one; later ones are not sent yet.
    pub order: VecDeque<SegmentId>,
    pub durable: Position,
    /// Heads that are not known to be on all devices as a whole, oldest first; a durably closed one may be among them.
    pub unflushed: VecDeque<SegmentId>,
    pub flushed: Position,
}

impl Stream {
    pub fn new(durability: Durability, replicas: u8) -> Stream {
        Stream {
            durability,
            replicas,
            registered: false,
            registering: false,
            ask_at: Instant::ZERO,
            order: VecDeque::new(),
            durable: Position::default(),
            unflushed: VecDeque::new(),
            flushed: Position::default(),
        }
    }
}
