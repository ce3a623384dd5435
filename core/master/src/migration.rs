//! Reclassing (a change of the tablet's stream): moves tablets to another stream, because the durability or replica
//! count of their table is changed.
//!
//! In names of the code and of the protocol reclassing is *migration*. Writes go on in the old stream, except for one
//! stretch at a time. The keys of that stretch are copied into a side log of the new stream. When the side log is whole
//! on its backups, and a durable head names it, the master asks the coordinator to store that the stretch is in the new
//! stream. When the coordinator has stored that, the index is led to the copies. Meanwhile reads of the stretch go on,
//! and mutations of it are answered with `Retry`, for as long as it takes to copy and replicate some megabytes.
//!
//! Invariants:
//! - nothing in a stretch changes from the copy of its first key until its copies count, or are given up;
//! - copies count only when the backups' devices have them: the devices had the originals long before;
//! - a question to the coordinator is repeated until it is answered: nobody else can say whether the move has been
//!   stored;
//! - all stretches of a tablet have one first segment, older than their side logs. The exception is a tablet whose
//!   stretch failed after its side log was entered.
//!
//! Not here: copying (log), the wish to reclass (coordinator). Rules: docs/protocols/migration.md. Catalogue: A8, D2.

use crate::tablets::{Moved, Tablet, TabletState};
use crate::{Context, Master};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effects, Instant, KeyHash, Level, Mark, Peer, Position, SegmentId, Status, StreamId, TableId,
};
use ramhold_log::{CopyStop, Cursor, HashRange};
use ramhold_replication::FlushWish;
use ramhold_shard::SideLog;
use ramhold_wire::class::StreamClass;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TabletMigrate, TabletMigrated};
use ramhold_wire::{Header, Step, View, decode, reply, request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Index buckets that one turn of gathering looks at.
const BUCKETS: u64 = 256;
/// Hashes whose objects are copied in one turn, or to whose copies the index is led.
const HASHES: usize = 512;
/// The most keys of a stretch: the index is led to this many copies in some milliseconds.
const STRETCH_KEYS_MAX: u64 = 65_536;
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
const ASK_PAUSE: Duration = Duration::from_millis(50);
/// A stretch waits for room on the backups for `ROOM_PATIENCE`, while nobody may write to it. Then it is left alone for
/// `PAUSE` at least.
const ROOM_PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);
/// A stretch may take `PATIENCE` until it is entered. A stretch that takes longer thaws, and the next try may take
/// twice as long, up to `PATIENCE_MAX`.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// A tablet that could not be moved is left alone for this many times the time that it was frozen.
const REST: u32 = 4;
/// How long a gathered tablet waits for the heads of both streams before another tablet has its turn.
const HEADS_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between the turns of different tablets.
const TURN_PAUSE: Duration = Duration::from_millis(50);
const NO_MEMORY: &str = "there is no memory for copies";
/// How long the coordinator's request counts. The coordinator repeats it every few seconds.
const WANTED_FOR: Duration = Duration::from_secs(30);
/// A warning is given when a tablet has been given up this often in a row, and again at each further power of two.
const FAILURES_TOLD: u32 = 4;

/// The first hash of a tablet of a table.
type Start = (TableId, KeyHash);

#[derive(Debug, Default)]
pub(crate) struct Migrating {
    /// Tables whose tablets here are to have this class, by the coordinator's last request, and how long the request
    /// counts.
    wanted: BTreeMap<TableId, (StreamClass, Instant)>,
    moving: Option<Moving>,
    /// Nothing is begun before this.
    not_before: Instant,
    /// The tablet that had its turn last.
    last: Option<Start>,
    /// Tablets that could not be moved in their last turns.
    failures: BTreeMap<Start, Failed>,
}

/// The failures of a tablet's last turns.
#[derive(Clone, Copy, Debug, Default)]
struct Failed {
    /// Failures in a row.
    count: u32,
    not_before: Instant,
    /// How long a stretch of the tablet may take until it is entered.
    patience: Duration,
}

/// A tablet that is being reclassed.
#[derive(Debug)]
struct Moving {
    tablet: HashRange,
    stream: StreamId,
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

impl Moving {
    fn start(&self) -> Start {
        (self.tablet.table, self.tablet.first)
    }
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
        matches!(self, Phase::Gathering | Phase::Copying(_) | Phase::Leading)
    }
}

impl Migrating {
    /// Whether a mutation of this key has to wait.
    pub fn blocks(&self, table: TableId, hash: KeyHash) -> bool {
        let stretch = self.moving.as_ref().and_then(|moving| moving.stretch);
        stretch.is_some_and(|(range, _)| range.contains(table, hash)) && !planted(Defect::MigratedUnblocked)
    }

    /// Whether all that the old stream holds of a key is durable in the new stream, and counts there.
    pub fn is_led(&self, table: TableId, hash: KeyHash) -> bool {
        let leading = self.moving.as_ref().filter(|moving| matches!(moving.phase, Phase::Leading));
        leading.and_then(|moving| moving.stretch).is_some_and(|(range, _)| range.contains(table, hash))
    }

    /// Whether tablets of this table are in two streams, or may soon be.
    pub fn is_wanted(&self, table: TableId) -> bool {
        self.wanted.contains_key(&table)
    }

    /// Whether tablets of some table are to have this class.
    pub fn wants(&self, class: StreamClass) -> bool {
        self.wanted.values().any(|(wanted, _)| *wanted == class)
    }

    /// Whether a tablet of this table is being reclassed.
    pub fn is_moving(&self, table: TableId) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.tablet.table == table)
    }

    /// Whether the move waits for something to become durable.
    pub fn is_waiting(&self) -> bool {
        let phase = self.moving.as_ref().map(|moving| &moving.phase);
        matches!(phase, Some(Phase::Replicating(_) | Phase::Entered(_)))
    }

    /// Whether another turn would get further without any input.
    pub fn is_busy(&self, is_damaged: impl Fn(SegmentId) -> bool) -> bool {
        match &self.moving {
            Some(moving) => {
                moving.waits_for.is_none_or(|segment| !is_damaged(segment)) && moving.phase.reads()
            }
            None => false,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        let asking = self.moving.as_ref().and_then(|moving| match moving.phase {
            Phase::Asking { next, asked: false } => Some(next),
            Phase::Replicating(_) => moving.stretch.map(|(_, since)| since + self.patience(moving.start())),
            Phase::Gathered(since) => Some(since + HEADS_PATIENCE),
            _ => None,
        });
        let is_waiting = self.moving.is_none() && !self.wanted.is_empty();
        earliest(asking, is_waiting.then_some(self.not_before))
    }

    fn patience(&self, start: Start) -> Duration {
        self.failures.get(&start).map_or(PATIENCE, |failed| failed.patience)
    }

    /// Notes that the tablet could not be moved, and was frozen for `frozen`. Returns the number of failures in a row.
    fn failed(&mut self, now: Instant, start: Start, frozen: Duration, is_slow: bool) -> u32 {
        let failed = self.failures.entry(start).or_insert(Failed { patience: PATIENCE, ..Failed::default() });
        failed.count = failed.count.saturating_add(1);
        failed.not_before = now + PAUSE.max(frozen * REST);
        if is_slow {
            failed.patience = (2 * failed.patience).min(PATIENCE_MAX);
        }
        failed.count
    }

    /// The stream into which a side log is about to be entered, and the oldest head with which it may be.
    pub fn head_wanted(&self) -> Option<(StreamId, SegmentId)> {
        let moving = self.moving.as_ref()?;
        let Phase::Replicating(side) = &moving.phase else { return None };
        Some((moving.stream, side.head_from()))
    }

    /// The coordinator did not answer in time.
    pub fn not_answered(&mut self, now: Instant, range: HashRange) {
        if let Some(Moving { phase: Phase::Asking { next, asked }, stretch, .. }) = &mut self.moving
            && stretch.is_some_and(|(stretch, _)| stretch == range)
        {
            (*next, *asked) = (now + ASK_PAUSE, false);
        }
    }

    /// Forgets that the table is to be reclassed.
    pub fn forget(&mut self, table: TableId) {
        self.wanted.remove(&table);
        self.failures.retain(|(of, _), _| *of != table);
    }
}

impl Master {
    pub(crate) fn on_tablet_migrate(
        &mut self,
        step: &mut Step<'_>,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        let status = match decode::<TabletMigrate>(body) {
            Ok(migrate) => self.want_class(step.now, &migrate),
            Err(status) => status,
        };
        reply(step.effects, Peer::Conn(from), header, status);
    }

    /// Notes the wanted class. The tablets are reclassed in their turn. The coordinator repeats its request until it
    /// has seen that they are.
    fn want_class(&mut self, now: Instant, migrate: &TabletMigrate) -> Status {
        let TabletMigrate { table, durability, replicas, division } = *migrate;
        if durability == Durability::None || !(1..=REPLICA_COUNT_MAX).contains(&replicas) {
            return Status::BadRequest;
        }
        if self.tablets.was_dropped(table) {
            return Status::UnknownTable;
        }
        if self.tablets.of(table).any(|tablet| tablet.unreplicated) {
            return Status::Unsupported;
        }
        if self.tablets.of(table).next().is_some() {
            if !self.tablets.hear_division(table, division) {
                return Status::NotAllowed;
            }
            let wanted = (migrate.class(), now + WANTED_FOR);
            let before = self.migrating.wanted.insert(table, wanted);
            if before.is_some_and(|(class, _)| class != wanted.0) {
                // The obstacle to the old class may not be one to the new class.
                self.migrating.failures.retain(|(of, _), _| *of != table);
            }
        }
        Status::Ok
    }

    pub(crate) fn advance_migration(&mut self, step: &mut Step<'_>) {
        if self.migrating.moving.is_none() && step.now >= self.migrating.not_before {
            self.begin_migration(step);
        }
        let Some(mut moving) = self.migrating.moving.take() else { return };
        let is_served =
            self.tablets.exact(moving.tablet).is_some_and(|tablet| tablet.state == TabletState::Serving);
        if !is_served {
            return self.give_up_stretch(&mut moving);
        }
        // Only phases that read memory wait for its repair.
        let is_waiting = moving.phase.reads()
            && moving.waits_for.is_some_and(|segment| self.shard.scrub.is_damaged(segment));
        let is_over = !is_waiting && self.advance_moving(step, &mut moving);
        if !is_over {
            self.migrating.moving = Some(moving);
            self.wish_flushed();
        }
    }

    /// Begins with the next tablet that is not in the stream of its wanted class.
    fn begin_migration(&mut self, step: &mut Step<'_>) {
        let mut ready: Vec<(Tablet, StreamClass)> = Vec::new();
        let wanted: Vec<(TableId, StreamClass, Instant)> =
            self.migrating.wanted.iter().map(|(t, (class, until))| (*t, *class, *until)).collect();
        for (table, class, until) in wanted {
            let is_other = |t: &&Tablet| t.moved.is_some() || self.shard.class_of(t.stream) != Some(class);
            let others: Vec<Tablet> = self.tablets.of(table).filter(is_other).copied().collect();
            // The coordinator may want the tablets as they are by now, and it does not tell that.
            let is_old = until <= step.now && others.iter().all(|tablet| tablet.moved.is_none());
            if others.is_empty() || is_old {
                self.migrating.forget(table);
                continue;
            }
            let is_divided = self.divisions.iter().any(|division| division.is_of(table));
            let is_ready = |t: &Tablet| {
                let failed = self.migrating.failures.get(&(table, t.range.first));
                t.state == TabletState::Serving
                    && !is_divided
                    && failed.is_none_or(|f| f.not_before <= step.now)
            };
            ready.extend(others.into_iter().filter(is_ready).map(|tablet| (tablet, class)));
        }
        // Tablets that are not served yet, are just being cut, or could not be moved a moment ago, have their turn
        // later.
        self.migrating.not_before = step.now + PAUSE;
        let start = |tablet: &Tablet| (tablet.range.table, tablet.range.first);
        let next = ready.iter().find(|(tablet, _)| Some(start(tablet)) > self.migrating.last);
        let Some(&(tablet, class)) = next.or(ready.first()) else { return };
        self.migrating.last = Some(start(&tablet));
        // A tablet that is on its way to another stream gets there first.
        let stream = match tablet.moved {
            Some(moved) => Ok(moved.stream),
            None => self.shard.stream_for(class),
        };
        let Ok(stream) = stream else {
            let text = format!("{} cannot be kept in another way: too many streams", tablet.range.table);
            step.effects.report(Level::Warn, text);
            self.migrating.forget(tablet.range.table);
            return;
        };
        if self.shard.log.head_segment(stream).is_none() && self.shard.roll(step, stream).is_none() {
            return;
        }
        let first_segment = match tablet.moved {
            Some(moved) if !moved.is_spoilt => moved.first_segment,
            _ => self.shard.log.take_first_segment(),
        };
        let first = tablet.moved.map_or(tablet.range.first, |moved| KeyHash(moved.last.0 + 1));
        self.gather(HashRange { first, ..tablet.range });
        self.migrating.moving = Some(Moving {
            tablet: tablet.range,
            stream,
            first_segment,
            phase: Phase::Gathering,
            stretch: None,
            before: (tablet.stream, Position::default()),
            waits_for: None,
            stretches: 0,
            longest: Duration::ZERO,
        });
        step.effects.mark(Mark::MigrationBegun);
    }

    fn gather(&mut self, range: HashRange) {
        let by_slots = self.tablets.is_by_slots(range.table);
        self.shard.log.begin_gather(range, by_slots, self.config.gather_count_max);
    }

    /// Advances the move. Returns whether it has come to its end, for now or for good.
    fn advance_moving(&mut self, step: &mut Step<'_>, moving: &mut Moving) -> bool {
        if matches!(moving.phase, Phase::Gathering) {
            if !self.gather_slice(step, moving) {
                // Others have their turn.
                return false;
            }
            moving.phase = Phase::Gathered(step.now);
        }
        if let Phase::Gathered(since) = moving.phase {
            let is_open = |stream| self.shard.replicator.is_head_open(stream);
            if is_open(moving.stream) && is_open(moving.before.0) {
                self.begin_stretch(step.now, moving, step.view);
            } else if step.now.since(since) >= HEADS_PATIENCE {
                let why =
                    "a head of the stream that it is in, or is to be in, lacks a backup or the coordinator";
                return self.pause_migration(step, moving, why, false);
            }
            return false;
        }
        if matches!(moving.phase, Phase::Copying(_)) {
            return self.copy_slice(step, moving);
        }
        if let Phase::Replicating(side) = &moving.phase {
            let side = side.clone();
            if self.shard.is_side_starved(step.now, &side, ROOM_PATIENCE) {
                step.effects.mark(Mark::MigrationWithoutRoom);
                return self.pause_migration(step, moving, "no backup has room for copies", false);
            }
            let patience = self.migrating.patience(moving.start());
            if moving.stretch.is_some_and(|(_, since)| step.now.since(since) >= patience) {
                step.effects.mark(Mark::MigrationTooSlow);
                let why = "its copies do not come to the devices of enough backups in time";
                return self.pause_migration(step, moving, why, true);
            }
            if self.may_enter_stretch(moving, &side) {
                return self.enter_stretch(step, moving, side);
            }
        }
        if let Phase::Entered(head) = moving.phase
            && self.shard.replicator.is_registered(moving.stream)
            && self.shard.replicator.durable(moving.stream).segment >= head
            && self.wishes_to_move(moving).iter().all(|wish| self.shard.replicator.is_fulfilled(*wish))
            && (self.shard.replicator.durable(moving.before.0) >= moving.before.1
                || planted(Defect::MigratedUndurable))
        {
            moving.phase = Phase::Asking { next: step.now, asked: false };
        }
        if let Phase::Asking { next, asked: false } = moving.phase
            && next <= step.now
        {
            self.ask_to_move(step, moving);
            if planted(Defect::MigratedUnasked) {
                self.lead_stretch(moving, step.effects);
            }
        }
        if matches!(moving.phase, Phase::Leading) {
            return self.lead_slice(step, moving);
        }
        false
    }

    /// Gathers a slice. Returns whether all keys are gathered.
    fn gather_slice(&mut self, step: &mut Step<'_>, moving: &mut Moving) -> bool {
        let tablets = &self.tablets;
        let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        match self.shard.log.gather_step(BUCKETS, &hash_of) {
            Ok(is_over) => is_over,
            Err(at) => {
                self.wait_for_repair(step, moving, at);
                false
            }
        }
    }

    fn wait_for_repair(&mut self, step: &mut Step<'_>, moving: &mut Moving, at: ramhold_log::Reference) {
        let (segment, offset) = self.shard.log.place_of(at);
        moving.waits_for = Some(segment);
        self.shard.note_damage(step, segment, offset);
    }

    fn begin_stretch(&mut self, now: Instant, moving: &mut Moving, view: &View) {
        let stat = self.shard.log.stats().find(|stat| {
            (stat.table, stat.first, stat.last)
                == (moving.tablet.table, moving.tablet.first, moving.tablet.last)
        });
        let each = stat.map_or(1, |stat| stat.bytes / stat.records.max(1)).max(1);
        let count = (self.config.migration_stretch_bytes / each).clamp(1, STRETCH_KEYS_MAX);
        let side = self.shard.log.open_side_for_survivors(moving.stream, view.time(now));
        let range = self.shard.log.begin_stretch(side, count as usize);
        moving.stretch = Some((range, now));
        moving.before.1 = self.shard.log.head_end(moving.before.0);
        moving.phase = Phase::Copying(SideLog::new(moving.stream, side, moving.first_segment));
    }

    fn copy_slice(&mut self, step: &mut Step<'_>, moving: &mut Moving) -> bool {
        let tablets = &self.tablets;
        let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
        let copied = self.shard.log.copy_step(HASHES, &hash_of);
        let Phase::Copying(side) = &mut moving.phase else { return false };
        self.shard.begin_side_segments(side, usize::MAX);
        self.shard.side_appended = true;
        match copied {
            Ok(false) => {}
            Ok(true) => {
                moving.phase = Phase::Replicating(side.clone());
                step.effects.mark(Mark::StretchCopied);
            }
            Err(CopyStop::Damaged(at)) => {
                // Nothing stays frozen while the move waits for the repair.
                self.wait_for_repair(step, moving, at);
                return self.pause_migration(step, moving, "damaged memory is to be repaired first", false);
            }
            Err(CopyStop::NoMemory) => {
                step.effects.mark(Mark::MigrationWithoutMemory);
                return self.pause_migration(step, moving, NO_MEMORY, false);
            }
        }
        false
    }

    fn may_enter_stretch(&self, moving: &Moving, side: &SideLog) -> bool {
        self.shard.is_side_whole(side)
            && self.wishes_to_move(moving).iter().all(|wish| self.shard.replicator.is_fulfilled(*wish))
            && self.shard.has_frames_to_enter(side)
    }

    fn enter_stretch(&mut self, step: &mut Step<'_>, moving: &mut Moving, side: SideLog) -> bool {
        let needed =
            self.shard.opening_bytes(moving.stream, side.begun.len()) + self.config.cleaning_reserve_bytes;
        if self.shard.log.usage().free_bytes < needed {
            step.effects.mark(Mark::MigrationWithoutMemory);
            return self.pause_migration(step, moving, NO_MEMORY, false);
        }
        self.migrating.failures.remove(&moving.start());
        let held = self.shard.head_held(&side).expect("it was looked up before");
        self.shard.log.keep_stretch();
        self.shard.enter_side(&side);
        match self.roll_held(step, moving.stream, held) {
            Some(head) => {
                moving.phase = Phase::Entered(head);
                step.effects.mark(Mark::StretchEntered);
                false
            }
            None => {
                // The digest has outgrown a segment. The next head will name copies that do not count.
                self.shard.log.end_migration();
                if let Some(moved) = self.tablets.exact_mut(moving.tablet).and_then(|t| t.moved.as_mut()) {
                    moved.is_spoilt = true;
                }
                self.migrating.not_before = step.now + PAUSE;
                true
            }
        }
    }

    fn ask_to_move(&mut self, step: &mut Step<'_>, moving: &mut Moving) {
        let Some((range, _)) = moving.stretch else { return };
        let rpc = self.calls.open(
            step.view.coordinator,
            step.now,
            step.now + ASK_TIMEOUT,
            Context::Migrated(range),
        );
        let message = TabletMigrated {
            table: range.table,
            first: range.first,
            last: range.last,
            shard: self.config.shard,
            stream: moving.stream,
            first_segment: moving.first_segment,
        };
        request(step.effects, Peer::Addr(step.view.coordinator), &step.view.to_coordinator(), rpc, &message);
        moving.phase = Phase::Asking { next: step.now, asked: true };
    }

    /// The coordinator's answer.
    pub(crate) fn on_migrated(&mut self, step: &mut Step<'_>, range: HashRange, status: Status) {
        let Some(mut moving) = self.migrating.moving.take() else { return };
        let is_awaited = matches!(moving.phase, Phase::Asking { asked: true, .. })
            && moving.stretch.is_some_and(|(stretch, _)| stretch == range)
            && self.tablets.exact(moving.tablet).is_some();
        match status {
            Status::Ok if is_awaited => self.lead_stretch(&mut moving, step.effects),
            _ => {}
        }
        self.migrating.moving = Some(moving);
        if status != Status::Ok {
            self.migrating.not_answered(step.now, range);
        }
    }

    /// The coordinator has stored that the stretch is in the new stream: the copies count from now on.
    fn lead_stretch(&mut self, moving: &mut Moving, effects: &mut Effects) {
        let Some((range, _)) = moving.stretch else { return };
        self.shard.log.lead_to_results();
        let tablet = self.tablets.exact_mut(moving.tablet).expect("looked at before");
        tablet.moved = Some(Moved {
            last: range.last,
            stream: moving.stream,
            first_segment: moving.first_segment,
            is_spoilt: false,
        });
        // The coordinator could not have stored the stretch without having stored the tablet.
        tablet.is_confirmed = true;
        moving.phase = Phase::Leading;
        effects.mark(Mark::StretchMoved);
    }

    fn lead_slice(&mut self, step: &mut Step<'_>, moving: &mut Moving) -> bool {
        match self.shard.log.lead_step(HASHES) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(at) => {
                self.wait_for_repair(step, moving, at);
                return false;
            }
        }
        let (range, since) = moving.stretch.take().expect("what is led to is a stretch");
        moving.stretches += 1;
        moving.longest = moving.longest.max(step.now.since(since));
        moving.phase = Phase::Gathering;
        if range.last < moving.tablet.last {
            if self.shard.log.gathered().is_none() {
                self.gather(HashRange { first: KeyHash(range.last.0 + 1), ..moving.tablet });
            }
            return false;
        }
        let tablet = self.tablets.exact_mut(moving.tablet).expect("looked at before");
        tablet.moved = None;
        (tablet.stream, tablet.first_segment) = (moving.stream, moving.first_segment);
        step.effects.mark(Mark::TabletMigrated);
        let text = format!(
            "a tablet of {} is in {} now, moved in {} stretches; writes to one waited for at most {} ms",
            range.table,
            moving.stream,
            moving.stretches,
            moving.longest.as_millis()
        );
        step.effects.report(Level::Info, text);
        self.migrating.not_before = step.now;
        true
    }

    /// Gives the stretch up, and tries again after a pause that is longer than the stretch was frozen.
    fn pause_migration(
        &mut self,
        step: &mut Step<'_>,
        moving: &mut Moving,
        why: &str,
        is_slow: bool,
    ) -> bool {
        let frozen = moving.stretch.map_or(Duration::ZERO, |(_, since)| step.now.since(since));
        self.give_up_stretch(moving);
        let count = self.migrating.failed(step.now, moving.start(), frozen, is_slow);
        if count >= FAILURES_TOLD && count.is_power_of_two() {
            let table = moving.tablet.table;
            let text =
                format!("a tablet of {table} could not be moved to {} {count} times: {why}", moving.stream);
            step.effects.report(Level::Warn, text);
        }
        self.migrating.not_before = step.now + TURN_PAUSE;
        true
    }

    /// The wishes that must be fulfilled before the move goes on: the devices must have everything that takes the place
    /// of entries that the old stream's devices have.
    fn wishes_to_move(&self, moving: &Moving) -> Vec<FlushWish> {
        match &moving.phase {
            _ if planted(Defect::MigratedUnflushed) => Vec::new(),
            Phase::Replicating(side) => side.begun.iter().map(|segment| FlushWish::Whole(*segment)).collect(),
            Phase::Entered(head) => {
                let opening = self.shard.log.segment(*head).map_or(0, |head| head.opening_bytes);
                vec![FlushWish::UpTo(moving.stream, Position { segment: *head, offset: opening })]
            }
            _ => Vec::new(),
        }
    }

    /// The wishes of the tablet that is being reclassed.
    pub(crate) fn migration_wishes(&self) -> Vec<FlushWish> {
        self.migrating.moving.as_ref().map(|moving| self.wishes_to_move(moving)).unwrap_or_default()
    }

    fn give_up_stretch(&mut self, moving: &mut Moving) {
        if let Phase::Copying(side) | Phase::Replicating(side) = &moving.phase {
            let tablets = &self.tablets;
            let hash_of = |table, key: &[u8]| tablets.hash(table, key).unwrap_or_default();
            // No index entry leads into the side log, so one step suffices.
            let left = self.shard.log.abandon_side_step(side.side, Cursor::default(), 1, &hash_of);
            assert!(left.is_none(), "the index does not know of copies");
            self.shard.abandon_side(side);
        }
        self.shard.log.end_migration();
    }
}
