//! One stream: its heads that are not durably closed or not flushed, and its durable and flushed positions.

use ramhold_base::{Instant, Position, SegmentId};
use ramhold_wire::class::StreamClass;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Stream {
    pub class: StreamClass,
    /// The neighbourhood that is to recover what is in it; none: anybody.
    pub neighbourhood: Option<String>,
    /// The coordinator has an entry for the stream.
    pub registered: bool,
    pub registering: bool,
    /// The coordinator is not asked for a registration or record before this instant.
    pub ask_at: Instant,
    /// The head that the coordinator has recorded: no segment before it counts as the head.
    pub recorded: SegmentId,
    /// The newest former head whose replicas are to be freed. A newer head must be recorded before.
    pub retired: SegmentId,
    /// The head order, oldest first: the head that recovery would choose, and the next head. Later ones are not sent
    /// yet.
    pub order: VecDeque<SegmentId>,
    pub durable: Position,
    /// Heads that are not known to be on all devices as a whole, oldest first. Some may be durably closed.
    pub unflushed: VecDeque<SegmentId>,
    pub flushed: Position,
}

impl Stream {
    /// Whether the coordinator would take open replicas of this segment for those of a head.
    pub fn may_be_head(&self, segment: SegmentId) -> bool {
        segment >= self.recorded
    }

    pub fn new(class: StreamClass, neighbourhood: Option<String>) -> Stream {
        Stream {
            class,
            neighbourhood,
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
