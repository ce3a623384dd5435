//! Reclassing (a change of the tablet's stream): moves tablets to another stream, because the durability or replica
//! count of their table is changed.
//!
//! Writes go on in the old stream, except for one stretch at a time. The keys of that stretch are copied into a side log
//! of the new stream. When the side log is whole on its backups, and a durable head names it, the master asks the
//! coordinator to store that the stretch is in the new stream. When the coordinator has stored that, the index is led
//! to the copies. Meanwhile reads of the stretch go on, and mutations of it are answered with `Retry`, for as long as
//! it takes to copy and replicate some megabytes.
//!
//! Tablets have their turns in order. A tablet that could not be moved is left alone for a while.
//!
//! Invariants:
//! - nothing in a stretch changes from the copy of its first key until its copies count, or are given up;
//! - copies count only when the backups' devices have them: the devices had the originals long before;
//! - a question to the coordinator is repeated until it is answered: nobody else can say whether the move has been
//!   stored;
//! - all stretches of a tablet have one first segment, older than their side logs. The exception is a tablet whose
//!   stretch failed after its side log was entered.
//!
//! Not here: the phases of one tablet's move (`moving`), whose move makes shares even (`shares`), copying (log), the wish to reclass (coordinator). Rules:
//! docs/protocols/reclassing.md. Catalogue: A8, D2.

mod moving;
mod shares;

use crate::division::Divisions;
use crate::service::Service;
use crate::tablets::{Tablet, TabletState, Tablets, WantedClass};
use moving::{Moving, Start, Turn};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Instant, KeyHash, Level, Mark, Peer, SegmentId, Status, StreamId, TableId};
use ramhold_log::HashRange;
use ramhold_shard::Shard;
use ramhold_wire::class::StreamClass;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TabletReclass;
use ramhold_wire::{Header, Step, decode, reply};
use shares::{Load, to_move};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A tablet that could not be moved is left alone for `PAUSE` at least.
const PAUSE: Duration = Duration::from_millis(500);
/// A stretch may take `PATIENCE` until it is entered. A stretch that takes longer thaws, and the next try may take
/// twice as long, up to `PATIENCE_MAX`.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// A tablet that could not be moved is left alone for this many times the time that it was frozen.
const REST: u32 = 4;
/// The pause between the turns of different tablets.
const TURN_PAUSE: Duration = Duration::from_millis(50);
/// How long the coordinator's request counts. The coordinator repeats it every few seconds.
const WANTED_FOR: Duration = Duration::from_secs(30);
/// A warning is given when a tablet has been given up this often in a row, and again at each further power of two.
const FAILURES_TOLD: u32 = 4;
/// How often it is looked whether a tablet should be with another neighbourhood.
const REHOME_INTERVAL: Duration = Duration::from_secs(5);
/// A neighbourhood that is gone for longer does not come back soon: its tablets move to others.
const GONE_FOR: Duration = Duration::from_secs(10);
/// A tablet that could not be moved home a few times is left alone for this much longer.
const REHOME_REST: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Reclassing {
    moving: Option<Moving>,
    /// Nothing is begun before this.
    not_before: Instant,
    /// The tablet that had its turn last.
    last: Option<Start>,
    /// Tablets that could not be moved in their last turns.
    failures: BTreeMap<Start, Failed>,
    /// When the next look at neighbourhoods is due; none: the placement has none.
    rehome_at: Option<Instant>,
    /// Streams whose neighbourhood is gone, and since when.
    gone: BTreeMap<StreamId, Instant>,
}

/// The failures of a tablet's last turns.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// Failures in a row.
    count: u32,
    not_before: Instant,
    /// How long a stretch of the tablet may take until it is entered.
    patience: Duration,
}

impl Reclassing {
    /// Whether the move waits for something to become durable.
    pub fn is_waiting(&self) -> bool {
        self.moving.as_ref().is_some_and(Moving::is_waiting)
    }

    /// Whether another turn would get further without any input.
    pub fn is_busy(&self, shard: &Shard) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.is_busy(|segment| shard.scrub.is_damaged(segment)))
    }

    pub fn deadline(&self, tablets: &Tablets) -> Option<Instant> {
        let own =
            self.moving.as_ref().and_then(|moving| moving.deadline(self.patience(tablets, moving.start())));
        let is_waiting = self.moving.is_none() && tablets.wanted().next().is_some();
        let rehoming = self.rehome_at.filter(|_| self.moving.is_none()).map(|at| at.max(self.not_before));
        earliest(earliest(own, is_waiting.then_some(self.not_before)), rehoming)
    }

    /// How long a stretch of this tablet may take until it is entered. Writers wait no longer than usual for a move that
    /// nobody has asked for.
    fn patience(&self, tablets: &Tablets, start: Start) -> Duration {
        let failed = self.failures.get(&start).filter(|_| tablets.is_wanted(start.0));
        failed.map_or(PATIENCE, |failed| failed.patience)
    }

    /// The stream into which a side log is about to be entered, and the oldest head with which it may be.
    pub fn head_wanted(&self) -> Option<(StreamId, SegmentId)> {
        let moving = self.moving.as_ref()?;
        Some((moving.stream, moving.head_wanted()?))
    }

    /// Forgets that the table is to be reclassed.
    pub fn forget(&mut self, tablets: &mut Tablets, table: TableId) {
        tablets.forget_wanted(table);
        self.failures.retain(|(of, _), _| *of != table);
    }

    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        let status = match decode::<TabletReclass>(body) {
            Ok(reclass) => self.want_class(step.now, service, &reclass),
            Err(status) => status,
        };
        reply(step.effects, Peer::Conn(from), header, status);
    }

    /// Notes the wanted class. The tablets are reclassed in their turn. The coordinator repeats its request until it
    /// has seen that they are.
    fn want_class(&mut self, now: Instant, service: &mut Service, reclass: &TabletReclass) -> Status {
        let TabletReclass { table, durability, replicas, division } = *reclass;
        if durability == Durability::None || !(1..=REPLICA_COUNT_MAX).contains(&replicas) {
            return Status::BadRequest;
        }
        if service.tablets.was_dropped(table) {
            return Status::UnknownTable;
        }
        if service.tablets.of(table).any(|tablet| tablet.unreplicated) {
            return Status::Unsupported;
        }
        if service.tablets.of(table).next().is_some() {
            if !service.tablets.hear_division(table, division) {
                return Status::NotAllowed;
            }
            let wanted = WantedClass { class: reclass.class(), until: now + WANTED_FOR };
            let before = service.tablets.want(table, wanted);
            if before.is_some_and(|class| class != wanted.class) {
                // The obstacle to the old class may not be one to the new class.
                self.failures.retain(|(of, _), _| *of != table);
            }
        }
        Status::Ok
    }

    /// Takes the move as far as it can go.
    pub fn advance(&mut self, step: &mut Step<'_>, service: &mut Service, divisions: &Divisions) {
        if step.view.placement.neighbouring().is_some() || !service.to_unite.is_empty() {
            self.rehome_at.get_or_insert(step.now + REHOME_INTERVAL);
        }
        if self.moving.is_none() && step.now >= self.not_before {
            self.begin(step, service, divisions);
        }
        let Some(moving) = &mut self.moving else { return };
        let is_served =
            service.tablets.exact(moving.tablet).is_some_and(|tablet| tablet.state == TabletState::Serving);
        let goes_on = if !is_served {
            moving.give_up_stretch(service);
            false
        } else if moving.waits_for_repair(|segment| service.shard.scrub.is_damaged(segment)) {
            true
        } else {
            let failed =
                self.failures.get(&moving.start()).filter(|_| service.tablets.is_wanted(moving.start().0));
            let patience = failed.map_or(PATIENCE, |failed| failed.patience);
            let turn = moving.advance(step, service, patience);
            self.goes_on(step, service, turn)
        };
        if !goes_on {
            self.moving = None;
        }
        self.tell(service);
        if goes_on {
            service.wish_flushed();
        }
    }

    /// Draws the consequences of a turn. Returns whether the move goes on.
    fn goes_on(&mut self, step: &mut Step<'_>, service: &mut Service, turn: Turn) -> bool {
        let Some(moving) = &mut self.moving else { return false };
        match turn {
            Turn::GoesOn => true,
            Turn::Entered => {
                self.failures.remove(&moving.start());
                true
            }
            Turn::Spoilt => {
                self.failures.remove(&moving.start());
                self.not_before = step.now + PAUSE;
                false
            }
            Turn::Failed { why, is_slow } => {
                let (start, stream) = (moving.start(), moving.stream);
                let frozen = moving.frozen_for(step.now);
                moving.give_up_stretch(service);
                let count = self.failed(step.now, start, frozen, is_slow);
                if count >= FAILURES_TOLD && count.is_power_of_two() {
                    let table = start.0;
                    let text =
                        format!("a tablet of {table} could not be moved to {stream} {count} times: {why}");
                    step.effects.report(Level::Warn, text);
                }
                self.not_before = step.now + TURN_PAUSE;
                false
            }
            Turn::Moved => {
                let (start, stream) = (moving.start(), moving.stream);
                self.not_before = step.now;
                // Nobody waits for a tablet that is moved home, so such moves keep to the rate of copies on the average.
                let pause = match service.tablets.is_wanted(start.0) || planted(Defect::MovedHomeUnpaced) {
                    true => Duration::ZERO,
                    false => service.copying_time(start, stream),
                };
                self.rehome_at = self.rehome_at.map(|_| step.now + pause);
                false
            }
        }
    }

    /// Notes that the tablet could not be moved, and was frozen for `frozen`. Returns the number of failures in a row.
    fn failed(&mut self, now: Instant, start: Start, frozen: Duration, is_slow: bool) -> u32 {
        let new = Failed { count: 0, not_before: now, patience: PATIENCE };
        let failed = self.failures.entry(start).or_insert(new);
        failed.count = failed.count.saturating_add(1);
        failed.not_before = now + PAUSE.max(frozen * REST);
        if is_slow {
            failed.patience = (2 * failed.patience).min(PATIENCE_MAX);
        }
        failed.count
    }

    /// Leaves with the service everything that requests and cleaning must know of the move.
    fn tell(&self, service: &mut Service) {
        let moving = self.moving.as_ref();
        let frozen = moving.and_then(Moving::frozen);
        service.tablets.set_moving(moving.map(|moving| moving.tablet.table), frozen);
        service.wishes_to_move = moving.map(|moving| moving.wishes(service)).unwrap_or_default();
    }

    /// The coordinator's answer to the question whether a stretch is in its new stream.
    pub fn on_answered(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        range: HashRange,
        status: Status,
    ) {
        let Some(moving) = &mut self.moving else { return };
        moving.on_answered(step, service, range, status);
        self.tell(service);
    }

    /// The coordinator did not answer in time.
    pub fn on_unanswered(&mut self, now: Instant, range: HashRange) {
        if let Some(moving) = &mut self.moving {
            moving.on_unanswered(now, range);
        }
    }

    /// Begins with the next tablet that is not in the stream of its wanted class.
    fn begin(&mut self, step: &mut Step<'_>, service: &mut Service, divisions: &Divisions) {
        let mut ready: Vec<(Tablet, StreamClass)> = Vec::new();
        let wanted: Vec<(TableId, WantedClass)> = service.tablets.wanted().collect();
        for (table, WantedClass { class, until }) in wanted {
            let is_other = |t: &&Tablet| t.moved.is_some() || service.shard.class_of(t.stream) != Some(class);
            let others: Vec<Tablet> = service.tablets.of(table).filter(is_other).copied().collect();
            // The coordinator may want the tablets as they are by now, and it does not tell that.
            let is_old = until <= step.now && others.iter().all(|tablet| tablet.moved.is_none());
            if others.is_empty() || is_old {
                self.forget(&mut service.tablets, table);
                continue;
            }
            let is_divided = divisions.has(table);
            let is_ready = |t: &Tablet| {
                let failed = self.failures.get(&(table, t.range.first));
                t.state == TabletState::Serving
                    && !is_divided
                    && failed.is_none_or(|f| f.not_before <= step.now)
            };
            ready.extend(others.into_iter().filter(is_ready).map(|tablet| (tablet, class)));
        }
        // Tablets that are not served yet, are just being cut, or could not be moved a moment ago, have their turn
        // later.
        self.not_before = step.now + PAUSE;
        let start = |tablet: &Tablet| (tablet.range.table, tablet.range.first);
        let next = ready.iter().find(|(tablet, _)| Some(start(tablet)) > self.last);
        let next = next.or(ready.first()).map(|(tablet, class)| (*tablet, *class, None));
        let Some((tablet, class, target)) = next.or_else(|| self.next_to_rehome(step, service, divisions))
        else {
            return;
        };
        self.last = Some(start(&tablet));
        // A tablet that is on its way to another stream gets there first.
        let stream = match tablet.moved {
            Some(moved) => Ok(moved.stream),
            None => match target {
                Some(stream) => Ok(stream),
                None => service.stream_for(class, step.view, &[]),
            },
        };
        let Ok(stream) = stream else {
            let text = format!("{} cannot be kept in another way: too many streams", tablet.range.table);
            step.effects.report(Level::Warn, text);
            self.forget(&mut service.tablets, tablet.range.table);
            return;
        };
        if service.shard.log.head_segment(stream).is_none() && service.roll(step, stream).is_none() {
            return;
        }
        let first_segment = match tablet.moved {
            Some(moved) if !moved.is_spoilt => moved.first_segment,
            _ => service.shard.log.take_first_segment(),
        };
        let first = tablet.moved.map_or(tablet.range.first, |moved| KeyHash(moved.last.0 + 1));
        service.gather(HashRange { first, ..tablet.range });
        self.moving = Some(Moving::new(tablet.range, tablet.stream, (stream, first_segment)));
        step.effects.mark(Mark::ReclassingBegun);
    }

    /// A tablet that should be with another neighbourhood: its own is gone, or has a larger share than another one.
    fn next_to_rehome(
        &mut self,
        step: &Step<'_>,
        service: &mut Service,
        divisions: &Divisions,
    ) -> Option<(Tablet, StreamClass, Option<StreamId>)> {
        self.rehome_at.filter(|at| *at <= step.now && !planted(Defect::NeverMovedHome))?;
        self.rehome_at = Some(step.now + REHOME_INTERVAL);
        let is_rested = |tablet: &Tablet| {
            let failed = self.failures.get(&(tablet.range.table, tablet.range.first));
            failed.is_none_or(|failed| {
                let rest = if failed.count >= FAILURES_TOLD { REHOME_REST } else { Duration::ZERO };
                failed.not_before + rest <= step.now
            })
        };
        let may_move = |tablet: &&Tablet| {
            tablet.state == TabletState::Serving
                && !tablet.unreplicated
                && !divisions.has(tablet.range.table)
                && is_rested(tablet)
        };
        let tablets: Vec<Tablet> = service.tablets.all().filter(may_move).copied().collect();
        // A tablet that is on its way gets there first.
        if let Some(tablet) = tablets.iter().find(|tablet| tablet.moved.is_some()) {
            return Some((*tablet, service.shard.class_of(tablet.stream)?, None));
        }
        service.to_unite.retain(|_, (until, _)| *until > step.now);
        for (range, stream) in service.to_unite.values().flat_map(|(_, moves)| moves) {
            let Some(class) = service.shard.class_of(*stream) else { continue };
            let is_it = |t: &&Tablet| t.range == *range && t.stream != *stream;
            if let Some(tablet) = tablets.iter().find(is_it)
                && service.shard.class_of(tablet.stream) == Some(class)
            {
                return Some((*tablet, class, Some(*stream)));
            }
        }
        if step.view.placement.neighbouring().is_none() {
            // Everything that was on its way has arrived.
            self.rehome_at = self.rehome_at.filter(|_| !service.to_unite.is_empty());
            return None;
        }
        let replicator = &mut service.shard.replicator;
        let mut employed: BTreeMap<StreamClass, Vec<Option<StreamId>>> = BTreeMap::new();
        for (_, class) in replicator.streams().collect::<Vec<_>>() {
            if class.replicas == 0 || employed.contains_key(&class) {
                continue;
            }
            let names = replicator.neighbourhoods(step.view, class.replicas).unwrap_or_default();
            let streams = names.iter().map(|name| replicator.stream_of(class, Some(name))).collect();
            employed.insert(class, streams);
        }
        self.gone.retain(|stream, _| !employed.values().any(|streams| streams.contains(&Some(*stream))));
        let tablets: Vec<Tablet> =
            tablets.into_iter().filter(|t| !service.to_unite.contains_key(&t.range.table)).collect();
        for tablet in &tablets {
            let Some(class) = service.shard.class_of(tablet.stream) else { continue };
            let Some(streams) = employed.get(&class).filter(|streams| !streams.is_empty()) else { continue };
            if !streams.contains(&Some(tablet.stream)) {
                let named = service.shard.replicator.neighbourhood_of(tablet.stream).is_some();
                let patience = if named { GONE_FOR } else { Duration::ZERO };
                if *self.gone.entry(tablet.stream).or_insert(step.now) + patience <= step.now {
                    return Some((*tablet, class, None));
                }
            }
        }
        let may_move: BTreeSet<HashRange> = tablets.iter().map(|tablet| tablet.range).collect();
        let loads = loads(service, |range| may_move.contains(&range));
        employed.into_iter().find_map(|(class, streams)| {
            let (range, to) = to_move(&streams, &loads)?;
            Some((*tablets.iter().find(|tablet| tablet.range == range)?, class, to))
        })
    }
}

/// The weights of all tablets.
fn loads(service: &Service, may_move: impl Fn(HashRange) -> bool) -> Vec<Load> {
    let log = &service.shard.log;
    // An empty tablet counts like one that fills an eighth of a segment.
    let least = u64::from(log.config().geometry.segment_bytes / 8);
    let bytes: BTreeMap<(TableId, KeyHash), u64> =
        log.stats().map(|stat| ((stat.table, stat.first), stat.bytes)).collect();
    let load = |tablet: &Tablet| {
        let (range, stream) = (tablet.range, tablet.stream);
        let known = bytes.get(&(range.table, range.first)).filter(|_| !planted(Defect::SharesByNumber));
        let weight = known.copied().unwrap_or(0) + least;
        Load { range, stream, weight, may_move: may_move(range) }
    };
    service.tablets.all().map(load).collect()
}
