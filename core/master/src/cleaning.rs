//! Paces cleaning, and carries its passes through replication to the point where memory comes free.
//!
//! Copying is done in slices: every write pays for what it took, by what the present pass costs per byte that it frees,
//! and an idle shard goes on by itself. One pass copies at a time; others wait for their replicas, for their head, or
//! for the end of the stream to be durable.
//!
//! Invariants:
//! - survivors are entered only when they are on the devices of their R backups, with the roll in the same turn;
//! - sources are retired only when the head that was rolled then is on the devices, and so every head before it;
//! - no replica is made from an image before everything that made it leave entries out is on the devices.
//!
//! Not here: choosing and copying (log). Rules: docs/protocols/cleaning.md. Catalogue: C4-C7.

use crate::expiry::Over;
use crate::shard::{Shard, SideLog, begin_segments};
use crate::tablets::TabletState;
use crate::{LogSegments, Master};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Level, Position, SegmentId, StreamId};
use ramhold_log::{
    Choice, Combined, Compaction, Grant, HEADROOM_SEGMENTS, Moved, Plan, Purpose, Reference,
    Step as CopyStep, Wish,
};
use ramhold_replication::FlushWish;
use ramhold_wire::status::CleaningStatus;
use ramhold_wire::{Step, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an idle shard does before it looks for requests again: some 30 microseconds.
const IDLE_WORK: u64 = 32 * 1024;
/// What a write that finds no memory does at most before it gives up for now: some 300 microseconds.
const PRESSED_WORK: u64 = 256 * 1024;
/// Passes that wait for replicas or for a head at the same time.
const WAITING_COUNT_MAX: usize = 4;
/// How long nothing is chosen after nothing was worth it.
const FRUITLESS_PAUSE: Duration = Duration::from_millis(2);
/// How often a master looks for dead segments while backups lack frames.
const DEAD_LOOK_INTERVAL: Duration = Duration::from_millis(200);
const FRUITLESS_PAUSE_MAX: Duration = Duration::from_millis(128);

/// A combined pass and the side log of its survivors.
struct Survivors {
    pass: Combined,
    side: SideLog,
}

enum Active {
    Combined(Survivors),
    Compaction(Compaction),
}

/// Sources of an entered pass.
struct Retiring {
    stream: StreamId,
    /// The head that does not name them.
    head: SegmentId,
    sources: Vec<SegmentId>,
    /// What has taken their place.
    survivors: Vec<SegmentId>,
}

/// What cleaning has done since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleaningCounters {
    pub combined_passes: u64,
    pub compactions: u64,
    pub entries_seen: u64,
    pub entries_moved: u64,
    pub bytes_moved: u64,
    /// By combined passes: these went to the backups.
    pub bytes_combined: u64,
    pub segments_retired: u64,
    /// Objects removed because their time was over.
    pub expired: u64,
    /// Times that a pass stopped at an entry that was damaged in memory.
    pub damaged: u64,
}

#[derive(Default)]
pub(crate) struct Cleaning {
    active: Option<Active>,
    plan: Plan,
    /// Work that writes have paid for and that is not done yet.
    credit: u64,
    entering: Vec<Survivors>,
    retiring: Vec<Retiring>,
    /// Done, and put off because their segment has lost a replica.
    swapping: Vec<Compaction>,
    /// Where streams ended when something was compacted last: copies wait until this is on the devices.
    compacted: BTreeMap<StreamId, Position>,
    /// The damaged segment at which the pass that copies has stopped.
    waits_for: Option<SegmentId>,
    /// Streams with segments in which nothing lives, while backups lack frames; and when to look for them again.
    dead_in: Vec<StreamId>,
    dead_look_at: Instant,
    /// The expired object that stopped the pass could not be removed: it moves.
    expired_stay: bool,
    fruitless_until: Option<Instant>,
    /// How long the next pause is.
    pause: Duration,
    /// A remove waits for memory.
    is_pressed: bool,
    /// The write that needed memory last was refused, because nothing could be cleaned.
    pub has_refused: bool,
    pub counters: CleaningCounters,
}

impl Cleaning {
    fn is_waiting(&self) -> bool {
        !self.entering.is_empty() || !self.retiring.is_empty() || !self.swapping.is_empty()
    }

    /// Whether a pass is to be entered yet, which takes a roll.
    pub fn is_under_way(&self) -> bool {
        self.active.is_some() || !self.entering.is_empty()
    }

    fn waiting_count(&self) -> usize {
        self.entering.len() + self.retiring.len() + self.swapping.len()
    }
}

impl Master {
    /// Free memory is so low that cleaning pays, or frames are so many. A head takes a frame however little is in it: of
    /// many tables that come and go the frames are gone long before the memory.
    pub(crate) fn wants_cleaning(&self) -> bool {
        let usage = self.shard.log.usage();
        let frame = u64::from(self.config.geometry.segment_bytes);
        usage.free_bytes < usage.reserve_bytes + self.config.cleaning_runway_bytes
            || (self.shard.replicator.replicated_count() + HEADROOM_SEGMENTS) * frame > self.disk_bytes_max()
    }

    /// Bytes that the frames of this log may take on each set of backups. Where all masters take no more than they give, frames
    /// are left for heads and for what is recovered: without a frame for its next head a master can free none either.
    fn disk_bytes_max(&self) -> u64 {
        let replicas = u64::from(self.shard.replicator.replicas_max());
        let frame = u64::from(self.config.geometry.segment_bytes);
        let fair = match (self.config.frames_max, replicas) {
            (0, _) | (_, 0) => u64::MAX,
            (frames, replicas) => (frames * 3 / 4 / replicas).saturating_mul(frame),
        };
        self.config.disk_bytes_max.min(fair)
    }

    pub(crate) fn cleaning_status(&self) -> CleaningStatus {
        let counters = self.shard.cleaning.counters;
        CleaningStatus {
            is_needed: self.wants_cleaning(),
            is_full: self.shard.cleaning.has_refused && self.wants_cleaning(),
            combined_passes: counters.combined_passes,
            compactions: counters.compactions,
            entries_moved: counters.entries_moved,
            bytes_moved: counters.bytes_moved,
            bytes_combined: counters.bytes_combined,
            segments_retired: counters.segments_retired,
            expired: counters.expired,
        }
    }

    /// Whether ticks have something to do.
    pub(crate) fn is_cleaning(&self, now: Instant) -> bool {
        self.may_clean() && self.shard.cleaning.fruitless_until.is_none_or(|until| until <= now)
    }

    /// Whether there is something to clean and nothing else has to come first. A pass that was begun is ended, also when
    /// memory has come free meanwhile.
    fn may_clean(&self) -> bool {
        let has_more = self.shard.cleaning.active.is_some()
            || (self.wants_cleaning() && self.shard.cleaning.waiting_count() < WAITING_COUNT_MAX);
        has_more && !self.is_pass_waiting()
    }

    /// Whether the pass that copies has met damage that is being repaired.
    fn is_pass_waiting(&self) -> bool {
        self.shard.cleaning.waits_for.is_some_and(|segment| self.shard.scrub.is_damaged(segment))
    }

    /// When to look again whether something is worth cleaning.
    pub(crate) fn cleaning_deadline(&self) -> Option<Instant> {
        self.shard.cleaning.fruitless_until.filter(|_| self.may_clean())
    }

    /// What a write of so many bytes pays.
    pub(crate) fn pay_for_cleaning(&mut self, step: &mut Step<'_>, bytes: u64) {
        if !self.wants_cleaning() {
            self.shard.cleaning.credit = 0;
            return;
        }
        self.shard.cleaning.pause = FRUITLESS_PAUSE;
        let usage = self.shard.log.usage();
        let plan = self.shard.cleaning.plan;
        // A quarter more than what keeps the level; twice as much when the runway is half gone.
        let runway = self.config.cleaning_runway_bytes;
        let is_short = usage.free_bytes < usage.reserve_bytes + runway / 2;
        let quarters = if is_short { 8 } else { 5 };
        let work = (bytes * plan.work).checked_div(plan.gain).map_or(bytes, |work| work * quarters / 4);
        self.shard.cleaning.credit = (self.shard.cleaning.credit + work).min(4 * PRESSED_WORK);
        if self.shard.cleaning.credit >= IDLE_WORK / 4 {
            self.clean(step, self.shard.cleaning.credit);
        }
    }

    /// For a write that found no memory: works for it. Whether trying again, now or later, may help.
    pub(crate) fn clean_for_room(&mut self, step: &mut Step<'_>, purpose: Purpose) -> bool {
        self.shard.cleaning.is_pressed = purpose == Purpose::Freeing;
        if self.shard.cleaning.is_pressed {
            self.shard.cleaning.fruitless_until = None;
        }
        self.clean(step, PRESSED_WORK);
        self.shard.cleaning.is_pressed = false;
        self.shard.cleaning.active.is_some() || self.shard.cleaning.is_waiting() || self.has_room()
    }

    /// There is room above what is held back, for objects of any size.
    fn has_room(&self) -> bool {
        let usage = self.shard.log.usage();
        let segment = u64::from(self.config.geometry.segment_bytes);
        let seglet = u64::from(self.config.geometry.seglet_bytes);
        let largest = ((KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64 + seglet).min(segment);
        usage.free_bytes > usage.reserve_bytes + largest + seglet
    }

    /// A slice for its own sake, when the shard has nothing else to do.
    pub(crate) fn clean_when_idle(&mut self, step: &mut Step<'_>) {
        if self.is_cleaning(step.now) {
            self.clean(step, IDLE_WORK);
        }
    }

    /// Does so much work, as far as there is something to do.
    fn clean(&mut self, step: &mut Step<'_>, mut work: u64) {
        while work > 0 && !self.is_pass_waiting() && self.begin_pass(step) {
            let before = self.moved();
            let copied = self.copy(step.now, work, step.view);
            let after = self.moved();
            let done = after.bytes - before.bytes
                + ramhold_log::LOOK_COST * (after.entries_seen - before.entries_seen);
            work = work.saturating_sub(done);
            self.shard.cleaning.credit = self.shard.cleaning.credit.saturating_sub(done);
            self.count(before, after);
            self.begin_survivors();
            match copied {
                CopyStep::Working => break,
                CopyStep::NoMemory => {
                    self.pause_cleaning(step.now);
                    break;
                }
                CopyStep::Done => self.finish_copy(step.effects),
                CopyStep::Expired(at) => {
                    self.shard.cleaning.expired_stay = !self.expire_at(step, at);
                }
                CopyStep::Damaged { segment, offset } => {
                    self.shard.cleaning.counters.damaged += 1;
                    self.shard.cleaning.waits_for = Some(segment);
                    self.note_damage(step, segment, offset);
                    break;
                }
            }
        }
        self.advance_cleaning(step);
        self.replicate_cleaning(step);
    }

    /// Sends what cleaning has appended.
    pub(crate) fn replicate_cleaning(&mut self, step: &mut Step<'_>) {
        while std::mem::take(&mut self.shard.appended) | std::mem::take(&mut self.shard.side_appended) {
            self.shard.replicator.advance(step.now, &LogSegments(&self.shard.log), step.view, step.effects);
            self.advance_cleaning(step);
            self.release_parked(step);
        }
    }

    /// There was nothing to do: ticks look again after a while, and after twice as long each time, until a write comes.
    fn pause_cleaning(&mut self, now: Instant) {
        self.shard.cleaning.pause = self.shard.cleaning.pause.clamp(FRUITLESS_PAUSE, FRUITLESS_PAUSE_MAX);
        self.shard.cleaning.fruitless_until = Some(now + self.shard.cleaning.pause);
        self.shard.cleaning.pause *= 2;
    }

    fn moved(&self) -> Moved {
        match &self.shard.cleaning.active {
            Some(Active::Combined(survivors)) => survivors.pass.moved(),
            Some(Active::Compaction(pass)) => pass.moved(),
            None => Moved::default(),
        }
    }

    fn count(&mut self, before: Moved, after: Moved) {
        let is_combined = matches!(self.shard.cleaning.active, Some(Active::Combined(_)));
        let counters = &mut self.shard.cleaning.counters;
        counters.entries_seen += after.entries_seen - before.entries_seen;
        counters.entries_moved += after.entries - before.entries;
        counters.bytes_moved += after.bytes - before.bytes;
        if is_combined {
            counters.bytes_combined += after.bytes - before.bytes;
        }
    }

    /// Whether a pass is copying; begins one if need be and worth it.
    fn begin_pass(&mut self, step: &mut Step<'_>) -> bool {
        if self.shard.cleaning.active.is_some() {
            return true;
        }
        if !self.wants_cleaning()
            || self.shard.cleaning.waiting_count() >= WAITING_COUNT_MAX
            || self.shard.cleaning.fruitless_until.is_some_and(|until| until > step.now)
        {
            return false;
        }
        let (replicator, scrub) = (&self.shard.replicator, &self.shard.scrub);
        let wish = Wish {
            now: step.view.time(step.now).seconds(),
            is_replicated: &|stream| replicator.replica_count(stream) > 0,
            is_whole: &|segment| replicator.is_complete(segment) && !scrub.is_damaged(segment),
            is_settled: &|segment| replicator.is_settled(segment),
            may_leave: &|segment| !self.is_settling(segment) || planted(Defect::SettlingCleaned),
            disk_bytes_max: self.disk_bytes_max(),
            is_two_level: self.config.two_level_cleaning,
            is_pressed: self.shard.cleaning.is_pressed,
        };
        match self.shard.log.choose(&wish) {
            Some(Choice::Combined { stream, sources, plan }) => {
                let pass = self.shard.log.begin_combined(stream, &sources, step.view.time(step.now));
                // Any head behind its segments may name them.
                let side = SideLog::new(pass.stream(), pass.side(), SegmentId::default());
                self.shard.cleaning.active = Some(Active::Combined(Survivors { pass, side }));
                self.shard.cleaning.plan = plan;
                self.shard.cleaning.counters.combined_passes += 1;
                step.effects.report(Level::Debug, "mark:combined_begun");
            }
            Some(Choice::Compaction { segment, plan }) => {
                self.shard.cleaning.active =
                    Some(Active::Compaction(self.shard.log.begin_compaction(segment)));
                self.shard.cleaning.plan = plan;
                self.shard.cleaning.counters.compactions += 1;
                step.effects.report(Level::Debug, "mark:compaction_begun");
            }
            None => {
                self.pause_cleaning(step.now);
                return false;
            }
        }
        self.shard.cleaning.fruitless_until = None;
        self.shard.cleaning.pause = FRUITLESS_PAUSE;
        true
    }

    fn copy(&mut self, now: Instant, work: u64, view: &View) -> CopyStep {
        let expired_stay = std::mem::take(&mut self.shard.cleaning.expired_stay);
        let grant = Grant { work, now: view.time(now), expired_stay };
        let tablets = &self.tablets;
        let hash_of =
            |table, key: &[u8]| tablets.hash(table, key).expect("a table is known as long as we live");
        match self.shard.cleaning.active.as_mut().expect("begun before") {
            Active::Combined(survivors) => self.shard.log.combined_step(&mut survivors.pass, grant, &hash_of),
            Active::Compaction(pass) => self.shard.log.compaction_step(pass, grant, &hash_of),
        }
    }

    /// Tells the replicator of side segments that have come into being.
    fn begin_survivors(&mut self) {
        let Shard { log, replicator, cleaning, side_appended, .. } = &mut self.shard;
        let Some(Active::Combined(survivors)) = &mut cleaning.active else { return };
        *side_appended |= begin_segments(log, replicator, &mut survivors.side, usize::MAX) > 0;
    }

    fn finish_copy(&mut self, effects: &mut Effects) {
        match self.shard.cleaning.active.take().expect("only a pass that copies is done") {
            Active::Combined(survivors) => {
                self.shard.side_appended = true;
                effects.report(Level::Debug, "mark:survivors_copied");
                self.shard.cleaning.entering.push(survivors);
            }
            Active::Compaction(pass) => {
                self.shard.cleaning.swapping.push(pass);
            }
        }
    }

    /// Takes every waiting pass as far as replication allows.
    pub(crate) fn advance_cleaning(&mut self, step: &mut Step<'_>) {
        self.swap_images(step.effects);
        self.enter_survivors(step);
        self.retire_sources(step.effects);
        self.wish_flushed();
    }

    /// An object whose time is over is next in a pass: removes it as a client would. Whether it is gone.
    fn expire_at(&mut self, step: &mut Step<'_>, at: Reference) -> bool {
        let (table, key) = self.shard.log.key_of(at);
        let Some((tablet, hash)) = self.tablets.find(table, &key) else { return false };
        if tablet.state != TabletState::Serving || self.shard.is_blocked(step.now, tablet.stream) {
            return false;
        }
        let found = self.shard.log.lookup(table, hash, &key).ok().flatten().filter(|found| found.at == at);
        let Some(over) = found.as_ref().map(Over::of) else { return false };
        // Without room it moves: a pass under way cannot wait for another.
        self.shard.cleaning_runs = true;
        let outcome = self.take_out_over(step, &tablet, table, hash, &key, over);
        self.shard.cleaning_runs = false;
        outcome.is_ok()
    }

    fn swap_images(&mut self, effects: &mut Effects) {
        let waiting = std::mem::take(&mut self.shard.cleaning.swapping);
        for pass in waiting {
            if !self.shard.replicator.is_complete(pass.segment()) {
                self.shard.cleaning.swapping.push(pass);
                continue;
            }
            let (stream, segment) = (pass.stream(), pass.segment());
            self.shard.log.swap_compaction(pass);
            let after = self.shard.log.segment(segment).expect("just swapped in").copy_after;
            self.shard.cleaning.compacted.insert(stream, after);
            effects.report(Level::Debug, "mark:compacted");
        }
    }

    fn enter_survivors(&mut self, step: &mut Step<'_>) {
        let waiting = std::mem::take(&mut self.shard.cleaning.entering);
        for survivors in waiting {
            let whole = survivors.side.begun.iter().all(|segment| self.shard.replicator.is_flushed(*segment))
                || planted(Defect::EnteredEarly);
            let stream = survivors.pass.stream();
            if !whole || !self.shard.log.may_roll(survivors.side.begun.len()) {
                self.shard.cleaning.entering.push(survivors);
                continue;
            }
            self.shard.log.enter_combined(&survivors.pass);
            let head = self.shard.roll_entering(step, stream).expect("there is room for its opening");
            step.effects.report(Level::Debug, "mark:survivors_entered");
            let sources = survivors.pass.sources().to_vec();
            self.shard.cleaning.retiring.push(Retiring {
                stream,
                head,
                sources,
                survivors: survivors.side.begun,
            });
        }
    }

    /// Segments in which nothing lives have left their stream with the roll to this head.
    pub(crate) fn retire_left(
        &mut self,
        stream: StreamId,
        head: SegmentId,
        left: Vec<SegmentId>,
        effects: &mut Effects,
    ) {
        self.shard.cleaning.retiring.push(Retiring { stream, head, sources: left, survivors: Vec::new() });
        effects.report(Level::Debug, "mark:empty_head_left");
    }

    /// Segments in which nothing lives and that may leave their stream with the next head: as sources of a pass without
    /// survivors.
    pub(crate) fn dead_segments(&self, stream: StreamId) -> Vec<SegmentId> {
        if self.shard.replicator.replica_count(stream) == 0 {
            return Vec::new();
        }
        let may_leave = |segment: &SegmentId| {
            self.shard.replicator.is_complete(*segment)
                && !self.shard.scrub.is_damaged(*segment)
                && !self.is_settling(*segment)
        };
        self.shard.log.dead_segments(stream).filter(may_leave).collect()
    }

    /// Backups have no frames for something of this master: so it looks for its own segments in which nothing lives, such as
    /// a recovery leaves behind that was taken back. They leave with the next head, which is rolled as soon as its frames
    /// are held, since a stream must not wait for the frames of a head that nobody needs.
    pub(crate) fn look_for_dead(&mut self, now: Instant) {
        if !self.shard.replicator.has_refusals() {
            self.shard.cleaning.dead_in.clear();
        } else if self.shard.cleaning.dead_look_at <= now {
            self.shard.cleaning.dead_look_at = now + DEAD_LOOK_INTERVAL;
            let streams: Vec<StreamId> = self.shard.replicator.streams().map(|(stream, ..)| stream).collect();
            self.shard.cleaning.dead_in =
                streams.into_iter().filter(|stream| !self.dead_segments(*stream).is_empty()).collect();
        }
    }

    /// Rolls the heads with which dead segments leave.
    pub(crate) fn leave_dead(&mut self, step: &mut Step<'_>) {
        for stream in std::mem::take(&mut self.shard.cleaning.dead_in) {
            let held = self
                .shard
                .held_from(stream, SegmentId::NONE)
                .filter(|held| self.shard.replicator.is_held(*held));
            match held.filter(|_| self.shard.replicator.is_head_open(stream)) {
                Some(held) => {
                    self.roll_held(step, stream, held);
                }
                None => self.shard.cleaning.dead_in.push(stream),
            }
        }
    }

    /// Streams for whose next heads frames are to be held, so that dead segments can leave.
    pub(crate) fn dead_wanted(&self) -> impl Iterator<Item = (StreamId, SegmentId)> {
        self.shard.cleaning.dead_in.iter().map(|stream| (*stream, SegmentId::NONE))
    }

    /// What must be on the devices before sources are retired: the head that does not name them, hence every head before
    /// it, and all survivors. A survivor that was cleaned itself meanwhile has seen to it that its own are.
    fn wishes_of(&self, retiring: &Retiring) -> impl Iterator<Item = FlushWish> {
        let opening = self.shard.log.segment(retiring.head).map_or(0, |head| head.opening_bytes);
        let opened = Position { segment: retiring.head, offset: opening };
        let survivors = retiring.survivors.iter().filter(|id| self.shard.log.segment(**id).is_some());
        survivors.map(|id| FlushWish::Whole(*id)).chain([FlushWish::UpTo(retiring.stream, opened)])
    }

    /// Asks the backups for what passes, copies, a tablet on its way and what was recovered wait for.
    pub(crate) fn wish_flushed(&mut self) {
        let mut moving = self.migration_wishes();
        moving.extend(self.settling_wishes());
        if !self.shard.cleaning.is_waiting() && self.shard.cleaning.compacted.is_empty() && moving.is_empty()
        {
            return;
        }
        let replicator = &self.shard.replicator;
        self.shard.cleaning.compacted.retain(|stream, position| replicator.flushed(*stream) < *position);
        let compacted =
            self.shard.cleaning.compacted.iter().map(|(stream, at)| FlushWish::UpTo(*stream, *at));
        let retiring = self.shard.cleaning.retiring.iter().flat_map(|retiring| self.wishes_of(retiring));
        let entering = self.shard.cleaning.entering.iter().flat_map(|survivors| &survivors.side.begun);
        let entering = entering.map(|segment| FlushWish::Whole(*segment));
        let wishes: Vec<FlushWish> = compacted.chain(entering).chain(retiring).chain(moving).collect();
        self.shard.replicator.want_flushed(wishes);
    }

    fn retire_sources(&mut self, effects: &mut Effects) {
        let waiting = std::mem::take(&mut self.shard.cleaning.retiring);
        for retiring in waiting {
            let is_safe = self.wishes_of(&retiring).all(|wish| self.shard.replicator.is_fulfilled(wish))
                || planted(Defect::RetiredEarly);
            if !is_safe {
                self.shard.cleaning.retiring.push(retiring);
                continue;
            }
            for source in &retiring.sources {
                self.shard.log.retire(*source);
                self.shard.replicator.retire(*source);
            }
            retiring.survivors.iter().for_each(|survivor| self.shard.replicator.settled(*survivor));
            self.shard.cleaning.counters.segments_retired += retiring.sources.len() as u64;
            effects.report(Level::Debug, "mark:sources_retired");
        }
    }
}
