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

use crate::calls::{Context, PartitionKey};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, Peer, Position, SegmentId, Status, StreamId, time::earliest};
use ramhold_replication::FlushWish;
use ramhold_shard::Shard;
use ramhold_wire::recovery::Settled;
use ramhold_wire::{Calls, Step, request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
const REPORT_PAUSE: Duration = Duration::from_millis(50);
/// The most segments of one position that backups are asked about at a time.
const ASKED_COUNT: usize = 8;

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

/// The positions of all partitions that devices may not have.
#[derive(Debug, Default)]
pub(crate) struct Settlings {
    /// The positions of partitions that were published and are durable.
    published: Vec<Unsettled>,
    /// The positions of the other partitions, one for each stream that the partition was entered into. A live partition
    /// has its row before it is entered.
    entered: BTreeMap<PartitionKey, Vec<Unsettled>>,
    /// Side segments that are being entered in this very step.
    entering: Vec<SegmentId>,
}

impl Settlings {
    /// Whether this is a side segment of a position that is not settled, or is being entered now.
    pub fn has(&self, segment: SegmentId) -> bool {
        self.entering.contains(&segment)
            || self.unsettled().any(|position| position.segments.contains(&segment))
    }

    /// Notes the segments that are entered with the roll that follows.
    pub fn set_entering(&mut self, segments: Vec<SegmentId>) {
        self.entering = segments;
    }

    /// A partition is live: cleaning will have to leave its segments alone for a while.
    pub fn expect(&mut self, key: PartitionKey) {
        self.entered.entry(key).or_default();
    }

    /// A partition was entered into a stream.
    pub fn add(
        &mut self,
        key: PartitionKey,
        (stream, first_segment): (StreamId, SegmentId),
        head: SegmentId,
        segments: Vec<SegmentId>,
    ) {
        self.entered.entry(key).or_default().push(Unsettled {
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

    /// A partition is neither live nor about to be published any more.
    pub fn forget(&mut self, key: PartitionKey) {
        self.entered.remove(&key);
    }

    /// Begins with a partition that is published and durable. The coordinator knows only that it was taken in.
    pub fn publish(&mut self, key: PartitionKey) {
        let positions = self.entered.remove(&key).unwrap_or_default();
        self.published.extend(positions.into_iter().map(|position| Unsettled { is_new: true, ..position }));
    }

    /// Whether devices have all of a partition.
    pub fn is_settled(&mut self, key: PartitionKey, shard: &Shard) -> bool {
        let positions = self.entered.get_mut(&key).map(Vec::as_mut_slice).unwrap_or_default();
        positions.iter_mut().all(|position| position.is_on_devices(shard))
    }

    fn unsettled(&self) -> impl Iterator<Item = &Unsettled> {
        self.published.iter().chain(self.entered.values().flatten())
    }

    /// Whether there are segments that cleaning has to leave alone for a while.
    pub fn has_any(&self) -> bool {
        !self.published.is_empty() || !self.entered.is_empty()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let due = self.published.iter().filter(|p| (p.is_new || p.is_flushed) && !p.asked);
        due.map(|p| p.report_at).fold(None, |a, b| earliest(a, Some(b)))
    }

    /// The number of segments of positions that R buffers had, and of which no backup has the whole now.
    pub fn lone_segments(&self, shard: &Shard) -> u64 {
        let told = self.published.iter().filter(|p| !p.is_new && !p.is_flushed);
        let is_lone = |segment: &SegmentId| !shard.replicator.replicas_of(*segment).any(|seen| seen.closed);
        told.flat_map(|position| &position.segments).filter(|segment| is_lone(segment)).count() as u64
    }

    /// The wishes for all positions that devices may not have yet.
    pub fn wishes(&self, shard: &Shard) -> Vec<FlushWish> {
        self.unsettled().filter(|p| !p.is_flushed).flat_map(|p| p.wishes(shard)).collect()
    }

    /// Tells the coordinator of positions that buffers, or devices, have.
    pub fn advance(&mut self, step: &mut Step<'_>, shard: &Shard, calls: &mut Calls<Context>) {
        for position in &mut self.published {
            if position.asked
                || position.report_at > step.now
                || !(position.is_new || position.is_on_devices(shard))
            {
                continue;
            }
            (position.asked, position.report_at) = (true, step.now + REPORT_PAUSE);
            let flushed = !position.is_new;
            let context =
                Context::Settled { stream: position.stream, first: position.first_segment, flushed };
            let rpc = calls.open(step.view.coordinator, step.now, step.now + REPORT_TIMEOUT, context);
            let message = Settled {
                shard: shard.log.config().log.shard,
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
    }

    /// The coordinator's answer.
    pub fn on_answered(
        &mut self,
        step: &mut Step<'_>,
        (stream, first_segment, flushed): (StreamId, SegmentId, bool),
        status: Status,
    ) {
        if status != Status::Ok {
            return self.on_unanswered(step.now, (stream, first_segment));
        }
        if !flushed {
            let same = |p: &&mut Unsettled| (p.stream, p.first_segment) == (stream, first_segment);
            for position in self.published.iter_mut().filter(same) {
                (position.is_new, position.asked, position.report_at) = (false, false, step.now);
            }
            return;
        }
        let before = self.published.len();
        self.published.retain(|p| (p.stream, p.first_segment) != (stream, first_segment));
        if self.published.len() < before {
            step.effects.mark(Mark::RecoverySettled);
        }
    }

    pub fn on_unanswered(&mut self, now: Instant, (stream, first_segment): (StreamId, SegmentId)) {
        let same = |p: &&mut Unsettled| (p.stream, p.first_segment) == (stream, first_segment);
        for position in self.published.iter_mut().filter(same) {
            (position.asked, position.report_at) = (false, now + REPORT_PAUSE);
        }
    }
}

impl Unsettled {
    /// The wishes that must be fulfilled before devices have all of the position.
    fn wishes(&self, shard: &Shard) -> impl Iterator<Item = FlushWish> {
        let opening = shard.log.segment(self.head).map_or(0, |head| head.opening_bytes);
        let opened = Position { segment: self.head, offset: opening };
        let segments = self.unflushed.iter().take(ASKED_COUNT).map(|id| FlushWish::Whole(*id));
        segments.chain([FlushWish::UpTo(self.stream, opened)])
    }

    fn is_on_devices(&mut self, shard: &Shard) -> bool {
        while self.unflushed.pop_front_if(|segment| shard.replicator.is_flushed(*segment)).is_some() {}
        self.is_flushed |= planted(Defect::SettledEarly)
            || (self.unflushed.is_empty()
                && self.wishes(shard).all(|wish| shard.replicator.is_fulfilled(wish)));
        self.is_flushed
    }
}
