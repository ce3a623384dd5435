//! One tablet on its way to another stream, stretch by stretch.
//!
//! The move goes through the phases of each stretch. It says how its turn has ended, and looks at nothing but itself
//! and the service.
//!
//! Not here: which tablet moves when, and failures of its last turns (`reclassing`).

use crate::calls::Context;
use crate::service::Service;
use crate::tablets::{Moved, Stretch};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{
    Effects, Instant, KeyHash, Level, Mark, Peer, Position, SegmentId, Status, StreamId, TableId,
};
use ramhold_log::{CopyStop, Cursor, HashRange, Reference};
use ramhold_replication::FlushWish;
use ramhold_shard::SideLog;
use ramhold_wire::table::TabletReclassed;
use ramhold_wire::{Step, View, request};
use std::time::Duration;

/// Index buckets that one turn of gathering looks at.
const BUCKETS: u64 = 256;
/// Hashes whose objects are copied in one turn, or to whose copies the index is led.
const HASHES: usize = 512;
/// The most keys of a stretch: the index is led to this many copies in some milliseconds.
const STRETCH_KEYS_MAX: u64 = 65_536;
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
const ASK_PAUSE: Duration = Duration::from_millis(50);
/// A stretch waits for room on the backups for `ROOM_PATIENCE`, while nobody may write to it.
const ROOM_PATIENCE: Duration = Duration::from_millis(500);
/// How long a gathered tablet waits for the heads of both streams before another tablet has its turn.
const HEADS_PATIENCE: Duration = Duration::from_secs(5);
const NO_MEMORY: &str = "there is no memory for copies";

/// The first hash of a tablet of a table.
pub(super) type Start = (TableId, KeyHash);

/// A tablet that is being reclassed.
#[derive(Debug)]
pub(super) struct Moving {
    pub tablet: HashRange,
    pub stream: StreamId,
    first_segment: SegmentId,
    phase: Phase,
    /// The frozen stretch, and since when it is frozen.
    stretch: Option<(HashRange, Instant)>,
    /// The old stream, and its end when the stretch was frozen. Other keys of an earlier commit may be in other
    /// stretches.
    before: (StreamId, Position),
    /// The damaged segment at which the move has stopped.
    waits_for: Option<SegmentId>,
    stretches: u32,
    longest: Duration,
}

#[derive(Debug)]
enum Phase {
    Gathering,
    /// The keys are gathered. The heads of both streams must be open on all their backups before anything is frozen.
    Gathered(Instant),
    Copying(SideLog),
    /// Side segments are being replicated.
    Replicating(SideLog),
    /// The head that names the side segments is being replicated.
    Entered(SegmentId),
    Asking {
        next: Instant,
        asked: bool,
    },
    /// The index is being led to the copies.
    Leading,
}

impl Phase {
    /// Whether the phase goes on by itself, reading memory.
    fn reads(&self) -> bool {
        match self {
            Phase::Gathering | Phase::Copying(_) | Phase::Leading => true,
            Phase::Gathered(_) | Phase::Replicating(_) | Phase::Entered(_) | Phase::Asking { .. } => false,
        }
    }
}

/// The outcome of a turn.
pub(super) enum Turn {
    /// The move goes on with the next turn.
    GoesOn,
    /// The move goes on, and the stretch is entered: the present failures of the tablet are over.
    Entered,
    /// The stretch is entered, but no head names it: the move is over for now.
    Spoilt,
    /// The stretch has to be given up. `is_slow`: the next one may take longer.
    Failed { why: &'static str, is_slow: bool },
    /// All of the tablet is in the new stream.
    Moved,
}

impl Moving {
    /// A move to `stream` that begins by gathering keys.
    pub fn new(
        tablet: HashRange,
        before: StreamId,
        (stream, first_segment): (StreamId, SegmentId),
    ) -> Moving {
        Moving {
            tablet,
            stream,
            first_segment,
            phase: Phase::Gathering,
            stretch: None,
            before: (before, Position::default()),
            waits_for: None,
            stretches: 0,
            longest: Duration::ZERO,
        }
    }

    pub fn start(&self) -> Start {
        (self.tablet.table, self.tablet.first)
    }

    /// Whether the move waits for something to become durable.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Replicating(_) | Phase::Entered(_))
    }

    /// Whether the move reads memory whose repair it waits for. Only phases that read memory wait.
    pub fn waits_for_repair(&self, is_damaged: impl Fn(SegmentId) -> bool) -> bool {
        self.phase.reads() && self.waits_for.is_some_and(is_damaged)
    }

    /// Whether another turn would get further without any input.
    pub fn is_busy(&self, is_damaged: impl Fn(SegmentId) -> bool) -> bool {
        self.phase.reads() && !self.waits_for.is_some_and(is_damaged)
    }

    /// When to look again without any input. `patience`: how long a stretch may take until it is entered.
    pub fn deadline(&self, patience: Duration) -> Option<Instant> {
        match self.phase {
            Phase::Asking { next, asked: false } => Some(next),
            Phase::Replicating(_) => self.stretch.map(|(_, since)| since + patience),
            Phase::Gathered(since) => Some(since + HEADS_PATIENCE),
            Phase::Gathering
            | Phase::Copying(_)
            | Phase::Entered(_)
            | Phase::Asking { asked: true, .. }
            | Phase::Leading => None,
        }
    }

    /// The oldest head with which the side log may be entered that is about to be.
    pub fn head_wanted(&self) -> Option<SegmentId> {
        match &self.phase {
            Phase::Replicating(side) => Some(side.head_from()),
            Phase::Gathering
            | Phase::Gathered(_)
            | Phase::Copying(_)
            | Phase::Entered(_)
            | Phase::Asking { .. }
            | Phase::Leading => None,
        }
    }

    /// The stretch to which nobody may write.
    pub fn frozen(&self) -> Option<Stretch> {
        let is_led = matches!(self.phase, Phase::Leading);
        self.stretch.map(|(range, _)| Stretch { range, is_led })
    }

    /// How long the stretch has been frozen.
    pub fn frozen_for(&self, now: Instant) -> Duration {
        self.stretch.map_or(Duration::ZERO, |(_, since)| now.since(since))
    }

    /// The coordinator did not answer in time.
    pub fn on_unanswered(&mut self, now: Instant, range: HashRange) {
        if let Moving { phase: Phase::Asking { next, asked }, stretch: Some((stretch, _)), .. } = self
            && *stretch == range
        {
            (*next, *asked) = (now + ASK_PAUSE, false);
        }
    }

    /// The coordinator's answer.
    pub fn on_answered(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        range: HashRange,
        status: Status,
    ) {
        let is_awaited = matches!(self.phase, Phase::Asking { asked: true, .. })
            && self.stretch.is_some_and(|(stretch, _)| stretch == range)
            && service.tablets.exact(self.tablet).is_some();
        if status != Status::Ok {
            self.on_unanswered(step.now, range);
        } else if is_awaited {
            self.lead_stretch(service, step.effects);
        }
    }

    /// Takes the move as far as it can go. `patience`: how long a stretch may take until it is entered.
    pub fn advance(&mut self, step: &mut Step<'_>, service: &mut Service, patience: Duration) -> Turn {
        if matches!(self.phase, Phase::Gathering) {
            if !self.gather_slice(step, service) {
                // Others have their turn.
                return Turn::GoesOn;
            }
            self.phase = Phase::Gathered(step.now);
        }
        if let Phase::Gathered(since) = self.phase {
            let is_open = |stream| service.shard.replicator.is_head_open(stream);
            if is_open(self.stream) && is_open(self.before.0) {
                self.begin_stretch(step.now, service, step.view);
            } else if step.now.since(since) >= HEADS_PATIENCE {
                let why =
                    "a head of the stream that it is in, or is to be in, lacks a backup or the coordinator";
                return Turn::Failed { why, is_slow: false };
            }
            return Turn::GoesOn;
        }
        if matches!(self.phase, Phase::Copying(_)) {
            return self.copy_slice(step, service);
        }
        if let Phase::Replicating(side) = &self.phase {
            if service.shard.is_side_starved(step.now, side, ROOM_PATIENCE) {
                step.effects.mark(Mark::ReclassingWithoutRoom);
                return Turn::Failed { why: "no backup has room for copies", is_slow: false };
            }
            if self.stretch.is_some_and(|(_, since)| step.now.since(since) >= patience) {
                step.effects.mark(Mark::ReclassingTooSlow);
                let why = "its copies do not come to the devices of enough backups in time";
                return Turn::Failed { why, is_slow: true };
            }
            if self.may_enter(service, side) {
                let side = side.clone();
                return self.enter_stretch(step, service, &side);
            }
        }
        if let Phase::Entered(head) = self.phase
            && service.shard.replicator.is_registered(self.stream)
            && service.shard.durable(self.stream).segment >= head
            && self.wishes(service).iter().all(|wish| service.shard.replicator.is_fulfilled(*wish))
            && (service.shard.durable(self.before.0) >= self.before.1 || planted(Defect::ReclassedUndurable))
        {
            self.phase = Phase::Asking { next: step.now, asked: false };
        }
        if let Phase::Asking { next, asked: false } = self.phase
            && next <= step.now
        {
            self.ask(step, service);
            if planted(Defect::ReclassedUnasked) {
                self.lead_stretch(service, step.effects);
            }
        }
        if matches!(self.phase, Phase::Leading) {
            return self.lead_slice(step, service);
        }
        Turn::GoesOn
    }

    /// Gathers a slice. Returns whether all keys are gathered.
    fn gather_slice(&mut self, step: &mut Step<'_>, service: &mut Service) -> bool {
        let tablets = &service.tablets;
        let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        match service.shard.log.gather_step(BUCKETS, &hash_of) {
            Ok(is_over) => is_over,
            Err(at) => {
                self.wait_for_repair(step, service, at);
                false
            }
        }
    }

    fn wait_for_repair(&mut self, step: &mut Step<'_>, service: &mut Service, at: Reference) {
        let (segment, offset) = service.shard.log.place_of(at);
        self.waits_for = Some(segment);
        service.shard.note_damage(step, segment, offset);
    }

    fn begin_stretch(&mut self, now: Instant, service: &mut Service, view: &View) {
        let log = &mut service.shard.log;
        let whole = (self.tablet.table, self.tablet.first, self.tablet.last);
        let stat = log.stats().find(|stat| (stat.table, stat.first, stat.last) == whole);
        let each = stat.map_or(1, |stat| stat.bytes / stat.records.max(1)).max(1);
        let count = (service.config.reclassing_stretch_bytes / each).clamp(1, STRETCH_KEYS_MAX);
        let side = log.open_side_for_survivors(self.stream, view.time(now));
        let range = log.begin_stretch(side, count as usize);
        self.stretch = Some((range, now));
        self.before.1 = log.head_end(self.before.0);
        self.phase = Phase::Copying(SideLog::new(self.stream, side, self.first_segment));
    }

    fn copy_slice(&mut self, step: &mut Step<'_>, service: &mut Service) -> Turn {
        let tablets = &service.tablets;
        let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        let copied = service.shard.log.copy_step(HASHES, &hash_of);
        let Phase::Copying(side) = &mut self.phase else { return Turn::GoesOn };
        service.shard.begin_side_segments(side, usize::MAX);
        service.shard.side_appended = true;
        match copied {
            Ok(false) => Turn::GoesOn,
            Ok(true) => {
                self.phase = Phase::Replicating(side.clone());
                step.effects.mark(Mark::StretchCopied);
                Turn::GoesOn
            }
            Err(CopyStop::Damaged(at)) => {
                // Nothing stays frozen while the move waits for the repair.
                self.wait_for_repair(step, service, at);
                Turn::Failed { why: "damaged memory is to be repaired first", is_slow: false }
            }
            Err(CopyStop::NoMemory) => {
                step.effects.mark(Mark::ReclassingWithoutMemory);
                Turn::Failed { why: NO_MEMORY, is_slow: false }
            }
        }
    }

    fn may_enter(&self, service: &Service, side: &SideLog) -> bool {
        service.shard.is_side_whole(side)
            && self.wishes(service).iter().all(|wish| service.shard.replicator.is_fulfilled(*wish))
            && service.shard.has_frames_to_enter(side)
    }

    fn enter_stretch(&mut self, step: &mut Step<'_>, service: &mut Service, side: &SideLog) -> Turn {
        let needed = service.shard.opening_bytes(self.stream, side.begun.len())
            + service.config.cleaning_reserve_bytes;
        if service.shard.log.usage().free_bytes < needed {
            step.effects.mark(Mark::ReclassingWithoutMemory);
            return Turn::Failed { why: NO_MEMORY, is_slow: false };
        }
        let held = service.shard.head_held(side).expect("it was looked up before");
        service.shard.log.keep_stretch();
        service.shard.enter_side(side);
        match service.roll_held(step, self.stream, held) {
            Some(head) => {
                self.phase = Phase::Entered(head);
                step.effects.mark(Mark::StretchEntered);
                Turn::Entered
            }
            None => {
                // The digest has outgrown a segment. The next head will name copies that do not count.
                service.shard.log.end_reclassing();
                if let Some(moved) = service.tablets.exact_mut(self.tablet).and_then(|t| t.moved.as_mut()) {
                    moved.is_spoilt = true;
                }
                Turn::Spoilt
            }
        }
    }

    /// Asks the coordinator to store that the stretch is in the new stream.
    fn ask(&mut self, step: &mut Step<'_>, service: &mut Service) {
        let Some((range, _)) = self.stretch else { return };
        let context = Context::Reclassed(range);
        let rpc = service.calls.open(step.view.coordinator, step.now, step.now + ASK_TIMEOUT, context);
        let message = TabletReclassed {
            table: range.table,
            first: range.first,
            last: range.last,
            shard: service.config.shard,
            stream: self.stream,
            first_segment: self.first_segment,
        };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
        self.phase = Phase::Asking { next: step.now, asked: true };
    }

    /// The coordinator has stored that the stretch is in the new stream: the copies count from now on.
    fn lead_stretch(&mut self, service: &mut Service, effects: &mut Effects) {
        let Some((range, _)) = self.stretch else { return };
        service.shard.log.lead_to_results();
        let tablet = service.tablets.exact_mut(self.tablet).expect("looked at before");
        tablet.moved = Some(Moved {
            last: range.last,
            stream: self.stream,
            first_segment: self.first_segment,
            is_spoilt: false,
        });
        // The coordinator could not have stored the stretch without having stored the tablet.
        tablet.is_confirmed = true;
        self.phase = Phase::Leading;
        effects.mark(Mark::StretchMoved);
    }

    fn lead_slice(&mut self, step: &mut Step<'_>, service: &mut Service) -> Turn {
        match service.shard.log.lead_step(HASHES) {
            Ok(false) => return Turn::GoesOn,
            Ok(true) => {}
            Err(at) => {
                self.wait_for_repair(step, service, at);
                return Turn::GoesOn;
            }
        }
        let (range, since) = self.stretch.take().expect("what is led to is a stretch");
        self.stretches += 1;
        self.longest = self.longest.max(step.now.since(since));
        self.phase = Phase::Gathering;
        if range.last < self.tablet.last {
            if service.shard.log.gathered().is_none() {
                service.gather(HashRange { first: KeyHash(range.last.0 + 1), ..self.tablet });
            }
            return Turn::GoesOn;
        }
        let tablet = service.tablets.exact_mut(self.tablet).expect("looked at before");
        tablet.moved = None;
        (tablet.stream, tablet.first_segment) = (self.stream, self.first_segment);
        step.effects.mark(Mark::TabletReclassed);
        let text = format!(
            "a tablet of {} is in {} now, moved in {} stretches; writes to one waited for at most {} ms",
            range.table,
            self.stream,
            self.stretches,
            self.longest.as_millis()
        );
        step.effects.report(Level::Info, text);
        Turn::Moved
    }

    /// The wishes that must be fulfilled before the move goes on: the devices must have everything that takes the place
    /// of entries that the old stream's devices have.
    pub fn wishes(&self, service: &Service) -> Vec<FlushWish> {
        match &self.phase {
            _ if planted(Defect::ReclassedUnflushed) => Vec::new(),
            Phase::Replicating(side) => side.begun.iter().map(|segment| FlushWish::Whole(*segment)).collect(),
            Phase::Entered(head) => {
                let opening = service.shard.log.segment(*head).map_or(0, |head| head.opening_bytes);
                vec![FlushWish::UpTo(self.stream, Position { segment: *head, offset: opening })]
            }
            Phase::Gathering
            | Phase::Gathered(_)
            | Phase::Copying(_)
            | Phase::Asking { .. }
            | Phase::Leading => Vec::new(),
        }
    }

    /// Gives the stretch up.
    pub fn give_up_stretch(&mut self, service: &mut Service) {
        if let Phase::Copying(side) | Phase::Replicating(side) = &self.phase {
            let tablets = &service.tablets;
            let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
            // No index entry leads into the side log, so one step suffices.
            let left = service.shard.log.abandon_side_step(side.side, Cursor::default(), 1, &hash_of);
            assert!(left.is_none(), "the index does not know of copies");
            service.shard.abandon_side(side);
        }
        service.shard.log.end_reclassing();
    }
}

impl Service {
    /// Begins to gather the keys of a range.
    pub fn gather(&mut self, range: HashRange) {
        let by_slots = self.tablets.is_by_slots(range.table);
        self.shard.log.begin_gather(range, by_slots, self.config.gather_count_max);
    }
}
