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
    /// No head before this one counts to the coordinator.
    pub recorded: SegmentId,
    /// The newest segment whose replicas are to be freed and that was a head: a newer one must be recorded before.
    pub retired: SegmentId,
    /// The first is the head that recovery would choose, the second the next one; later ones are not sent yet.
    pub order: VecDeque<SegmentId>,
    pub durable: Position,
    /// Heads that are not known to be on all devices as a whole, oldest first; a durably closed one may be among them.
    pub unflushed: VecDeque<SegmentId>,
    pub flushed: Position,
}

impl Stream {
    /// Whether the coordinator would take replicas of this segment for those of a head, if it found them open.
    pub fn may_be_head(&self, segment: SegmentId) -> bool {
        segment >= self.recorded
    }

    pub fn new(durability: Durability, replicas: u8) -> Stream {
        Stream {
            durability,
            replicas,
            registered: false,
            registering: false,
            ask_at: Instant::ZERO,
            recorded: SegmentId::NONE,
            retired: SegmentId::NONE,
            order: VecDeque::new(),
            durable: Position::default(),
            unflushed: VecDeque::new(),
            flushed: Position::default(),
        }
    }
}
