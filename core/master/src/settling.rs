//! Keeps account of recovered positions until the devices of their backups have them. Only then need the dead log not
//! be kept any more.
//!
//! A partition is published when devices have it, or (as a rule) before it is replicated. In the second case the
//! coordinator is told when buffers have the partition, and again when devices have it. From its entry on, the side
//! segments of a partition are no sources of combined passes: the tombstones that name them keep removed objects of the
//! dead log dead. When devices have all of these segments, and the opening of the head that names them, the coordinator
//! is told, again and again until it has answered.
//!
//! Invariants:
//! - data that was on devices once counts as being there, even if a replica of it is lost and made anew later;
//! - side segments of a position that is not settled stay in the log.
//!
//! Protocol: docs/protocols/recovery.md, "Until devices have it". Catalogue: D2, F6.

use crate::{Context, Master};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, Peer, Position, SegmentId, Status, StreamId, time::earliest};
use ramhold_replication::FlushWish;
use ramhold_wire::recovery::Settled;
use ramhold_wire::{Step, request};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// The most segments of one position that backups are asked about at a time.
const ASKED_COUNT: usize = 8;

/// The positions of one partition, one for each stream that it is in.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    positions: Vec<Unsettled>,
}

/// Everything that was recovered to one position.
#[derive(Debug)]
struct Unsettled {
    stream: StreamId,
    first_segment: SegmentId,
    /// The head that names the side segments.
    head: SegmentId,
    segments: BTreeSet<SegmentId>,
    /// Side segments that devices were not seen to have yet.
    unflushed: VecDeque<SegmentId>,
    /// The coordinator does not know yet that buffers have the position.
    is_new: bool,
    /// Devices were seen to have all of the position.
    is_flushed: bool,
    report_at: Instant,
    asked: bool,
}

/// The positions of all partitions that were published and are durable.
#[derive(Debug, Default)]
pub(crate) struct Settlings {
    positions: Vec<Unsettled>,
    /// Side segments that are being entered in this very step.
    entering: Vec<SegmentId>,
}

impl Settlings {
    /// Whether this is a side segment of a position that is not settled, or is being entered now.
    pub fn has(&self, segment: SegmentId) -> bool {
        self.entering.contains(&segment)
            || self.positions.iter().any(|position| position.segments.contains(&segment))
    }
}

impl Settling {
    /// Whether this is a side segment of the partition.
    pub fn has(&self, segment: SegmentId) -> bool {
        self.positions.iter().any(|position| position.segments.contains(&segment))
    }

    pub fn add(
        &mut self,
        stream: StreamId,
        first_segment: SegmentId,
        head: SegmentId,
        segments: Vec<SegmentId>,
    ) {
        self.positions.push(Unsettled {
            stream,
            first_segment,
            head,
            segments: segments.iter().copied().collect(),
            unflushed: segments.into(),
            is_new: false,
            is_flushed: false,
            report_at: Instant::ZERO,
            asked: false,
        });
    }
}

impl Settlings {
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let due = self.positions.iter().filter(|p| (p.is_new || p.is_flushed) && !p.asked);
        due.map(|p| p.report_at).fold(None, |a, b| earliest(a, Some(b)))
    }
}

impl Master {
    /// The wishes that must be fulfilled before devices have all of a position.
    fn wishes_to_settle(&self, position: &Unsettled) -> impl Iterator<Item = FlushWish> {
        let opening = self.shard.log.segment(position.head).map_or(0, |head| head.opening_bytes);
        let opened = Position { segment: position.head, offset: opening };
        let segments = position.unflushed.iter().take(ASKED_COUNT).map(|id| FlushWish::Whole(*id));
        segments.chain([FlushWish::UpTo(position.stream, opened)])
    }

    fn unsettled(&self) -> impl Iterator<Item = &Unsettled> {
        let entered = self.replays.values().flat_map(|replay| &replay.settling().positions);
        self.settling.positions.iter().chain(entered)
    }

    /// Whether there are segments that cleaning has to leave alone for a while.
    pub(crate) fn has_unsettled(&self) -> bool {
        self.unsettled().next().is_some() || self.replays.values().any(|replay| replay.is_live())
    }

    /// The number of segments of positions that R buffers had, and of which no backup has the whole now.
    pub fn lone_segments(&self) -> u64 {
        let told = self.settling.positions.iter().filter(|p| !p.is_new && !p.is_flushed);
        let is_lone =
            |segment: &SegmentId| !self.shard.replicator.replicas_of(*segment).any(|seen| seen.closed);
        told.flat_map(|position| &position.segments).filter(|segment| is_lone(segment)).count() as u64
    }

    /// The wishes for all positions that devices may not have yet.
    pub(crate) fn settling_wishes(&self) -> Vec<FlushWish> {
        self.unsettled().filter(|p| !p.is_flushed).flat_map(|p| self.wishes_to_settle(p)).collect()
    }

    /// Notes the segments that are entered with the roll that follows.
    pub(crate) fn set_entering(&mut self, segments: Vec<SegmentId>) {
        self.settling.entering = segments;
    }

    /// Whether devices have all of a partition.
    pub(crate) fn is_settled(&self, settling: &mut Settling) -> bool {
        settling.positions.iter_mut().all(|position| self.is_on_devices(position))
    }

    fn is_on_devices(&self, position: &mut Unsettled) -> bool {
        while position.unflushed.pop_front_if(|segment| self.shard.replicator.is_flushed(*segment)).is_some()
        {
        }
        position.is_flushed |= planted(Defect::SettledEarly)
            || (position.unflushed.is_empty()
                && self.wishes_to_settle(position).all(|wish| self.shard.replicator.is_fulfilled(wish)));
        position.is_flushed
    }

    /// Begins with a partition that is published and durable. The coordinator knows only that it was taken in.
    pub(crate) fn begin_settling(&mut self, settling: Settling) {
        let positions = settling.positions.into_iter().map(|position| Unsettled { is_new: true, ..position });
        self.settling.positions.extend(positions);
    }

    pub(crate) fn advance_settling(&mut self, step: &mut Step<'_>) {
        if self.settling.is_empty() {
            return;
        }
        let mut positions = std::mem::take(&mut self.settling.positions);
        for position in &mut positions {
            if position.asked
                || position.report_at > step.now
                || !(position.is_new || self.is_on_devices(position))
            {
                continue;
            }
            (position.asked, position.report_at) = (true, step.now + REPORT_PAUSE);
            let flushed = !position.is_new;
            let context =
                Context::Settled { stream: position.stream, first: position.first_segment, flushed };
            let rpc = self.calls.open(step.view.coordinator, step.now, step.now + REPORT_TIMEOUT, context);
            let message = Settled {
                shard: self.config.shard,
                stream: position.stream,
                first_segment: position.first_segment,
                flushed,
            };
            request(
                step.effects,
                Peer::Addr(step.view.coordinator),
                &step.view.to_coordinator(),
                rpc,
                &message,
            );
        }
        self.settling.positions = positions;
    }

    /// The coordinator's answer.
    pub(crate) fn on_settled(
        &mut self,
        step: &mut Step<'_>,
        (stream, first_segment, flushed): (StreamId, SegmentId, bool),
        status: Status,
    ) {
        if status != Status::Ok {
            return self.settled_unanswered(step.now, (stream, first_segment));
        }
        if !flushed {
            let same = |p: &&mut Unsettled| (p.stream, p.first_segment) == (stream, first_segment);
            for position in self.settling.positions.iter_mut().filter(same) {
                (position.is_new, position.asked, position.report_at) = (false, false, step.now);
            }
            return;
        }
        let before = self.settling.positions.len();
        self.settling.positions.retain(|p| (p.stream, p.first_segment) != (stream, first_segment));
        if self.settling.positions.len() < before {
            step.effects.mark(Mark::RecoverySettled);
        }
    }

    pub(crate) fn settled_unanswered(
        &mut self,
        now: Instant,
        (stream, first_segment): (StreamId, SegmentId),
    ) {
        let same = |p: &&mut Unsettled| (p.stream, p.first_segment) == (stream, first_segment);
        for position in self.settling.positions.iter_mut().filter(same) {
            (position.asked, position.report_at) = (false, now + REPORT_PAUSE);
        }
    }
}
