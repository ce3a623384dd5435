//! Cleaning passes: begins them, and carries them through replication until their memory is free.
//!
//! Only one pass copies at a time. Other passes wait for their replicas, for the head that enters them, or until that
//! head is on the devices. The role that owns the data paces the passes and removes the expired objects that they meet.
//!
//! Invariants:
//! - survivors are entered only when they are on the devices of their R backups, and the head is rolled in the same
//!   step;
//! - sources are retired only when the head that was rolled to enter their survivors is on the devices, and therefore
//!   every head before it;
//! - no replica is made from an image before the devices have everything that let the image leave entries out.
//!
//! Not here: choosing and copying (log), pacing (master). Rules: docs/protocols/cleaning.md. Catalogue: C4-C7.

use super::{Owner, Shard, SideLog, begin_segments};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Mark, Position, SegmentId, StreamId};
use ramhold_log::{
    Choice, Combined, Compaction, FRAMES_RUNWAY, Grant, HEADROOM_SEGMENTS, Moved, Plan, Purpose, Reference,
    Step as CopyStep, Wish,
};
use ramhold_replication::FlushWish;
use ramhold_wire::status::CleaningStatus;
use ramhold_wire::{Step, View};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most passes that wait for replicas or for a head at the same time.
const WAITING_COUNT_MAX: usize = 4;
/// The first pause in choosing after no pass was worth its work. Each further pause is twice as long, up to
/// `FRUITLESS_PAUSE_MAX`.
pub const FRUITLESS_PAUSE: Duration = Duration::from_millis(2);
/// How often a master looks for dead segments while backups have no frames for it.
const DEAD_LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The work that an idle shard does before it looks for requests again: some 30 microseconds.
pub const IDLE_WORK: u64 = 32 * 1024;
/// The most work that a write does that finds no memory, before it gives up for now: some 300 microseconds.
pub const PRESSED_WORK: u64 = 256 * 1024;
const FRUITLESS_PAUSE_MAX: Duration = Duration::from_millis(128);

/// When cleaning runs, and by which passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleaningConfig {
    /// Cleaning runs while less memory than this is free above the reserve.
    pub runway_bytes: u64,
    /// Bytes of frames that this log may take, counting one replica of each segment. Beyond them cleaning runs, and
    /// combined passes come first.
    pub disk_bytes_max: u64,
    /// Frames that this server gives to others. 0: it gives none, and no bound follows from it.
    pub frames_max: u64,
    /// Whether segments may be compacted in memory before their replicas are cleaned too.
    pub is_two_level: bool,
}

/// A combined pass and the side log of its survivors.
pub struct Survivors {
    pass: Combined,
    pub side: SideLog,
}

pub enum Active {
    Combined(Survivors),
    Compaction(Compaction),
}

/// The sources of a pass whose survivors are entered.
pub struct Retiring {
    stream: StreamId,
    /// The head whose digest does not name the sources any more.
    head: SegmentId,
    sources: Vec<SegmentId>,
    /// The segments that have taken their place.
    survivors: Vec<SegmentId>,
}

/// Counts of the work of cleaning since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleaningCounters {
    pub combined_passes: u64,
    pub compactions: u64,
    pub entries_seen: u64,
    pub entries_moved: u64,
    pub bytes_moved: u64,
    /// Bytes moved by combined passes: these bytes went to the backups.
    pub bytes_combined: u64,
    pub segments_retired: u64,
    /// Objects removed because their time to live was over.
    pub expired: u64,
    /// How often a pass stopped at an entry that was damaged in memory.
    pub damaged: u64,
}

#[derive(Default)]
pub struct Cleaning {
    pub config: CleaningConfig,
    pub active: Option<Active>,
    pub plan: Plan,
    /// Work that writes have paid for and that is not done yet.
    pub credit: u64,
    pub entering: Vec<Survivors>,
    pub retiring: Vec<Retiring>,
    /// Empty between two uses; kept for its memory.
    wishes: Vec<FlushWish>,
    /// Finished compactions whose image is not swapped in yet, because their segment has lost a replica.
    swapping: Vec<Compaction>,
    /// Where each stream ended at its last compaction. Replicas made from compacted segments wait until the devices
    /// have the stream up to there.
    pub compacted: BTreeMap<StreamId, Position>,
    /// The damaged segment at which the copying pass has stopped.
    pub waits_for: Option<SegmentId>,
    /// Streams with dead segments, found while backups have no frames; and when to look for dead segments again.
    dead_in: Vec<StreamId>,
    dead_look_at: Instant,
    /// The expired object that stopped the pass could not be removed. So the pass moves it.
    pub expired_stay: bool,
    pub fruitless_until: Option<Instant>,
    /// Length of the next pause.
    pub pause: Duration,
    /// Segments that must leave the log, whatever they hold.
    pub must_leave: BTreeSet<SegmentId>,
    /// A remove waits for memory.
    pub is_pressed: bool,
    /// The last write that needed memory was refused, because nothing could be cleaned.
    pub has_refused: bool,
    pub counters: CleaningCounters,
}

impl Cleaning {
    pub fn new(config: CleaningConfig) -> Cleaning {
        Cleaning { config, ..Cleaning::default() }
    }

    pub fn is_waiting(&self) -> bool {
        !self.entering.is_empty() || !self.retiring.is_empty() || !self.swapping.is_empty()
    }

    /// A remove waits for memory, or does not any more.
    pub fn press(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
        if is_pressed {
            self.fruitless_until = None;
        }
    }

    /// Whether something waits for the devices.
    pub fn has_wishes(&self) -> bool {
        self.is_waiting() || !self.compacted.is_empty()
    }

    /// Whether a pass still has to be entered, which needs a roll.
    pub fn is_under_way(&self) -> bool {
        self.active.is_some() || !self.entering.is_empty()
    }

    fn waiting_count(&self) -> usize {
        self.entering.len() + self.retiring.len() + self.swapping.len()
    }
}

impl Shard {
    /// Whether free memory is so low that cleaning pays, or frames are so many. A head takes a whole frame, however
    /// little it holds. So when many tables come and go, the frames run out long before the memory.
    pub fn wants_cleaning(&self) -> bool {
        let usage = self.log.usage();
        usage.free_bytes < usage.reserve_bytes + self.cleaning.config.runway_bytes
            || self.lacks_frames()
            || !self.cleaning.must_leave.is_empty()
    }

    /// Whether this log takes all the frames that it may, but for a few.
    pub fn lacks_frames(&self) -> bool {
        let frame = u64::from(self.log.config().geometry.segment_bytes);
        (self.replicator.replicated_count() + HEADROOM_SEGMENTS) * frame > self.disk_bytes_max()
            || self.frames_left().is_some_and(|left| left < FRAMES_RUNWAY)
    }

    /// Bytes of frames that this log may take, counting one replica of each segment. If all masters stay below their
    /// share of the frames that their servers give, frames are left for heads and for recovered data. A master that has
    /// no frame for its next head cannot free any frame either.
    pub fn disk_bytes_max(&self) -> u64 {
        let replicas = u64::from(self.replicator.replicas_max());
        let frame = u64::from(self.log.config().geometry.segment_bytes);
        let fair = match (self.cleaning.config.frames_max, replicas) {
            (0, _) | (_, 0) => u64::MAX,
            (frames, replicas) => (frames * 3 / 4 / replicas).saturating_mul(frame),
        };
        self.cleaning.config.disk_bytes_max.min(fair)
    }

    pub fn cleaning_status(&self) -> CleaningStatus {
        let counters = self.cleaning.counters;
        CleaningStatus {
            is_needed: self.wants_cleaning(),
            is_full: self.cleaning.has_refused && self.wants_cleaning(),
            combined_passes: counters.combined_passes,
            compactions: counters.compactions,
            entries_moved: counters.entries_moved,
            bytes_moved: counters.bytes_moved,
            bytes_combined: counters.bytes_combined,
            segments_retired: counters.segments_retired,
            expired: counters.expired,
        }
    }

    /// Whether a tick has something to clean.
    pub fn is_cleaning(&self, now: Instant) -> bool {
        self.may_clean() && self.cleaning.fruitless_until.is_none_or(|until| until <= now)
    }

    /// Whether there is something to clean and nothing else has to come first. A pass that has begun is finished, even
    /// when memory has become free meanwhile.
    pub fn may_clean(&self) -> bool {
        let has_more = self.cleaning.active.is_some()
            || (self.wants_cleaning() && self.cleaning.waiting_count() < WAITING_COUNT_MAX);
        has_more && !self.is_pass_waiting()
    }

    /// Whether the copying pass has met damage that is being repaired.
    pub fn is_pass_waiting(&self) -> bool {
        self.cleaning.waits_for.is_some_and(|segment| self.scrub.is_damaged(segment))
    }

    /// When to look again for something worth cleaning.
    pub fn cleaning_deadline(&self) -> Option<Instant> {
        self.cleaning.fruitless_until.filter(|_| self.may_clean())
    }

    /// Whether there is room above the reserve for objects of any size, and a frame for a head.
    pub fn has_room(&self) -> bool {
        self.has_memory() && self.may_take_frame(Purpose::Ordinary)
    }

    /// Whether there is memory above the reserve for objects of any size.
    pub fn has_memory(&self) -> bool {
        let usage = self.log.usage();
        let segment = u64::from(self.log.config().geometry.segment_bytes);
        let seglet = u64::from(self.log.config().geometry.seglet_bytes);
        let largest = ((KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64 + seglet).min(segment);
        usage.free_bytes > usage.reserve_bytes + largest + seglet
    }

    /// The price of a write of `bytes`. Returns the work to be done now, if it is worth a slice.
    pub fn pay_for_cleaning(&mut self, bytes: u64) -> Option<u64> {
        if !self.wants_cleaning() {
            self.cleaning.credit = 0;
            return None;
        }
        self.cleaning.pause = FRUITLESS_PAUSE;
        let (usage, plan) = (self.log.usage(), self.cleaning.plan);
        // A quarter more than the work that keeps the level of free memory; twice that work when half of the runway is
        // used.
        let is_short = usage.free_bytes < usage.reserve_bytes + self.cleaning.config.runway_bytes / 2;
        let quarters = if is_short { 8 } else { 5 };
        let work = (bytes * plan.work).checked_div(plan.gain).map_or(bytes, |work| work * quarters / 4);
        self.cleaning.credit = (self.cleaning.credit + work).min(4 * PRESSED_WORK);
        (self.cleaning.credit >= IDLE_WORK / 4).then_some(self.cleaning.credit)
    }

    /// Whether there is room, or cleaning may make some.
    pub fn may_get_room(&self) -> bool {
        self.cleaning.active.is_some() || self.cleaning.is_waiting() || self.has_room()
    }

    /// Cleans until `work` is done or nothing is left to do. Returns an expired object at which the pass has stopped:
    /// the caller removes it, or sets `expired_stay`, and goes on.
    pub fn clean(&mut self, step: &mut Step<'_>, owner: &dyn Owner, work: &mut u64) -> Option<Reference> {
        while *work > 0 && !self.is_pass_waiting() && self.begin_pass(step, owner) {
            let before = self.moved();
            let copied = self.copy(step.now, *work, step.view, owner);
            let after = self.moved();
            let done = after.bytes - before.bytes
                + ramhold_log::LOOK_COST * (after.entries_seen - before.entries_seen);
            *work = work.saturating_sub(done);
            self.cleaning.credit = self.cleaning.credit.saturating_sub(done);
            self.count(before, after);
            self.begin_survivors();
            match copied {
                CopyStep::Working => break,
                CopyStep::NoMemory => {
                    self.pause_cleaning(step.now);
                    break;
                }
                CopyStep::Done => self.finish_copy(step.effects),
                CopyStep::Expired(at) => return Some(at),
                CopyStep::Damaged { segment, offset } => {
                    self.cleaning.counters.damaged += 1;
                    self.cleaning.waits_for = Some(segment);
                    self.note_damage(step, segment, offset);
                    break;
                }
            }
        }
        None
    }

    /// Wishes for the positions that the devices must have so that passes can go on, and replicas be made from compacted
    /// segments; and for others.
    pub fn want_flushed(&mut self, others: impl IntoIterator<Item = FlushWish>) {
        let mut wishes = std::mem::take(&mut self.cleaning.wishes);
        let replicator = &self.replicator;
        self.cleaning.compacted.retain(|stream, position| replicator.flushed(*stream) < *position);
        let compacted = self.cleaning.compacted.iter().map(|(stream, at)| FlushWish::UpTo(*stream, *at));
        let retiring = self.cleaning.retiring.iter().flat_map(|retiring| self.wishes_of(retiring));
        let entering = self.cleaning.entering.iter().flat_map(|survivors| &survivors.side.begun);
        wishes.extend(compacted.chain(entering.map(|segment| FlushWish::Whole(*segment))).chain(retiring));
        wishes.extend(others);
        self.replicator.want_flushed(wishes.drain(..));
        self.cleaning.wishes = wishes;
    }

    /// Nothing was worth cleaning. Ticks look again after a pause, which doubles each time until a write comes.
    pub fn pause_cleaning(&mut self, now: Instant) {
        self.cleaning.pause = self.cleaning.pause.clamp(FRUITLESS_PAUSE, FRUITLESS_PAUSE_MAX);
        self.cleaning.fruitless_until = Some(now + self.cleaning.pause);
        self.cleaning.pause *= 2;
    }

    fn moved(&self) -> Moved {
        match &self.cleaning.active {
            Some(Active::Combined(survivors)) => survivors.pass.moved(),
            Some(Active::Compaction(pass)) => pass.moved(),
            None => Moved::default(),
        }
    }

    fn count(&mut self, before: Moved, after: Moved) {
        let is_combined = matches!(self.cleaning.active, Some(Active::Combined(_)));
        let counters = &mut self.cleaning.counters;
        counters.entries_seen += after.entries_seen - before.entries_seen;
        counters.entries_moved += after.entries - before.entries;
        counters.bytes_moved += after.bytes - before.bytes;
        if is_combined {
            counters.bytes_combined += after.bytes - before.bytes;
        }
    }

    /// Begins a pass if none is copying, and one is needed and worth its work. Returns whether a pass is copying.
    fn begin_pass(&mut self, step: &mut Step<'_>, owner: &dyn Owner) -> bool {
        if self.cleaning.active.is_some() {
            return true;
        }
        if !self.wants_cleaning()
            || self.cleaning.waiting_count() >= WAITING_COUNT_MAX
            || self.cleaning.fruitless_until.is_some_and(|until| until > step.now)
        {
            return false;
        }
        let (replicator, scrub) = (&self.replicator, &self.scrub);
        let wish = Wish {
            now: step.view.time(step.now).seconds(),
            is_replicated: &|stream| replicator.replica_count(stream) > 0,
            is_whole: &|segment| replicator.is_complete(segment) && !scrub.is_damaged(segment),
            is_settled: &|segment| replicator.is_settled(segment),
            may_leave: &|segment| owner.may_leave(segment) || planted(Defect::SettlingCleaned),
            disk_bytes_max: self.disk_bytes_max(),
            must_leave: &self.cleaning.must_leave,
            frames_left: self.frames_left(),
            is_two_level: self.cleaning.config.is_two_level,
            is_pressed: self.cleaning.is_pressed,
        };
        match self.log.choose(&wish) {
            Some(Choice::Combined { stream, sources, plan }) => {
                let pass = self.log.begin_combined(stream, &sources, step.view.time(step.now));
                // Any head that is newer than its segments may name them.
                let side = SideLog::new(pass.stream(), pass.side(), SegmentId::default());
                self.cleaning.active = Some(Active::Combined(Survivors { pass, side }));
                self.cleaning.plan = plan;
                self.cleaning.counters.combined_passes += 1;
                step.effects.mark(Mark::CombinedBegun);
            }
            Some(Choice::Compaction { segment, plan }) => {
                self.cleaning.active = Some(Active::Compaction(self.log.begin_compaction(segment)));
                self.cleaning.plan = plan;
                self.cleaning.counters.compactions += 1;
                step.effects.mark(Mark::CompactionBegun);
            }
            None => {
                self.pause_cleaning(step.now);
                return false;
            }
        }
        self.cleaning.fruitless_until = None;
        self.cleaning.pause = FRUITLESS_PAUSE;
        true
    }

    fn copy(&mut self, now: Instant, work: u64, view: &View, owner: &dyn Owner) -> CopyStep {
        let expired_stay = std::mem::take(&mut self.cleaning.expired_stay);
        let grant = Grant { work, now: view.time(now), expired_stay };
        let hash_of =
            |table, key: &[u8]| owner.hash(table, key).expect("a table is known as long as we live");
        match self.cleaning.active.as_mut().expect("begun before") {
            Active::Combined(survivors) => self.log.combined_step(&mut survivors.pass, grant, &hash_of),
            Active::Compaction(pass) => self.log.compaction_step(pass, grant, &hash_of),
        }
    }

    /// Tells the replicator of new side segments of the pass.
    fn begin_survivors(&mut self) {
        let Shard { log, replicator, cleaning, side_appended, .. } = self;
        let Some(Active::Combined(survivors)) = &mut cleaning.active else { return };
        *side_appended |= begin_segments(log, replicator, &mut survivors.side, usize::MAX) > 0;
    }

    fn finish_copy(&mut self, effects: &mut Effects) {
        match self.cleaning.active.take().expect("only a pass that copies is done") {
            Active::Combined(survivors) => {
                self.side_appended = true;
                effects.mark(Mark::SurvivorsCopied);
                self.cleaning.entering.push(survivors);
            }
            Active::Compaction(pass) => {
                self.cleaning.swapping.push(pass);
            }
        }
    }

    pub fn swap_images(&mut self, effects: &mut Effects) {
        let waiting = std::mem::take(&mut self.cleaning.swapping);
        for pass in waiting {
            if !self.replicator.is_complete(pass.segment()) {
                self.cleaning.swapping.push(pass);
                continue;
            }
            let (stream, segment) = (pass.stream(), pass.segment());
            self.log.swap_compaction(pass);
            let after = self.log.segment(segment).expect("just swapped in").copy_after;
            self.cleaning.compacted.insert(stream, after);
            effects.mark(Mark::Compacted);
        }
    }

    pub fn enter_survivors(&mut self, step: &mut Step<'_>, owner: &dyn Owner) {
        let mut index = 0;
        while let Some(survivors) = self.cleaning.entering.get(index) {
            let whole = survivors.side.begun.iter().all(|segment| self.replicator.is_flushed(*segment))
                || planted(Defect::EnteredEarly);
            let stream = survivors.pass.stream();
            if !whole || !self.log.may_roll(survivors.side.begun.len()) {
                index += 1;
                continue;
            }
            let survivors = self.cleaning.entering.remove(index);
            self.log.enter_combined(&survivors.pass);
            let head = self.roll_entering(step, stream, owner).expect("there is room for its opening");
            step.effects.mark(Mark::SurvivorsEntered);
            let sources = survivors.pass.sources().to_vec();
            self.cleaning.retiring.push(Retiring { stream, head, sources, survivors: survivors.side.begun });
        }
    }

    /// Notes segments that have left their stream with the roll to this head. They wait to be retired.
    pub fn retire_left(
        &mut self,
        stream: StreamId,
        head: SegmentId,
        left: Vec<SegmentId>,
        effects: &mut Effects,
    ) {
        self.cleaning.retiring.push(Retiring { stream, head, sources: left, survivors: Vec::new() });
        effects.mark(Mark::EmptyHeadLeft);
    }

    /// Dead segments that may leave their stream with the next head, as the sources of a pass without survivors.
    pub fn dead_segments(&self, stream: StreamId, owner: &dyn Owner) -> Vec<SegmentId> {
        if self.replicator.replica_count(stream) == 0 {
            return Vec::new();
        }
        let may_leave = |segment: &SegmentId| {
            self.replicator.is_complete(*segment)
                && !self.scrub.is_damaged(*segment)
                && owner.may_leave(*segment)
        };
        self.log.dead_segments(stream).filter(may_leave).collect()
    }

    /// Looks for dead segments of this log while backups have no frames for some segment of it. For example, a recovery
    /// that was taken back leaves such segments behind. They leave with the next head. That head is rolled as soon as
    /// its frames are held and not before, since a stream must not wait for the frames of a head that nobody needs.
    pub fn look_for_dead(&mut self, now: Instant, owner: &dyn Owner) {
        if !self.replicator.has_refusals() {
            self.cleaning.dead_in.clear();
        } else if self.cleaning.dead_look_at <= now {
            self.cleaning.dead_look_at = now + DEAD_LOOK_INTERVAL;
            let streams: Vec<StreamId> = self.replicator.streams().map(|(stream, _)| stream).collect();
            self.cleaning.dead_in =
                streams.into_iter().filter(|stream| !self.dead_segments(*stream, owner).is_empty()).collect();
        }
    }

    /// Rolls the heads with which dead segments leave their streams.
    pub fn leave_dead(&mut self, step: &mut Step<'_>, owner: &dyn Owner) {
        for stream in std::mem::take(&mut self.cleaning.dead_in) {
            let held = self.held_from(stream, SegmentId::NONE).filter(|held| self.replicator.is_held(*held));
            match held.filter(|_| self.replicator.is_head_open(stream)) {
                Some(held) => {
                    self.roll_held(step, stream, held, owner);
                }
                None => self.cleaning.dead_in.push(stream),
            }
        }
    }

    /// Streams for whose next heads frames are to be held, so that dead segments can leave.
    pub fn dead_wanted(&self) -> impl Iterator<Item = (StreamId, SegmentId)> {
        self.cleaning.dead_in.iter().map(|stream| (*stream, SegmentId::NONE))
    }

    /// The wishes that must be fulfilled before the sources are retired: the devices must have the head that does not
    /// name them, hence every head before it, and all survivors. A survivor that has been retired meanwhile needs no
    /// wish: its own pass has put its survivors on the devices.
    pub fn wishes_of(&self, retiring: &Retiring) -> impl Iterator<Item = FlushWish> {
        let opening = self.log.segment(retiring.head).map_or(0, |head| head.opening_bytes);
        let opened = Position { segment: retiring.head, offset: opening };
        let survivors = retiring.survivors.iter().filter(|id| self.log.segment(**id).is_some());
        survivors.map(|id| FlushWish::Whole(*id)).chain([FlushWish::UpTo(retiring.stream, opened)])
    }

    pub fn retire_sources(&mut self, effects: &mut Effects) {
        let mut index = 0;
        while let Some(retiring) = self.cleaning.retiring.get(index) {
            let is_safe = self.wishes_of(retiring).all(|wish| self.replicator.is_fulfilled(wish))
                || planted(Defect::RetiredEarly);
            if !is_safe {
                index += 1;
                continue;
            }
            let retiring = self.cleaning.retiring.remove(index);
            for source in &retiring.sources {
                self.log.retire(*source);
                self.cleaning.must_leave.remove(source);
                self.replicator.retire(*source);
            }
            retiring.survivors.iter().for_each(|survivor| self.replicator.settled(*survivor));
            self.cleaning.counters.segments_retired += retiring.sources.len() as u64;
            effects.mark(Mark::SourcesRetired);
        }
    }
}
