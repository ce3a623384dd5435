//! The rebuilding of a tablet of which this brick may have forgotten something (docs/protocols/quorum.md, rules 10, 16, 51,
//! 82, 87, 88, 97).
//!
//! All siblings are asked for the stamps of their keys, in the order of walks, which is the same in all bricks. A stretch
//! that enough of them have told is decided key by key:
//! - from R siblings that vote: the newest of what they have. This brick's own counts only if it is the same;
//! - from all siblings whose data was not taken for lost, whether they vote or not: the newest of what is left, this
//!   brick's own included. Something that was acknowledged may then be lost, and the operator is told.
//!
//! A brick that has joined by a change of the tablet waits until enough siblings have the new epoch.
//!
//! While a tablet moves, the brick that gives it keeps what it has, and *stands in* for the one that takes it: until that
//! one has voted, nothing was written with its help. So the giving brick's page counts as one that votes, under the epoch
//! before, if fewer than R siblings vote. Without it a tablet would stand one loss of power less while it moves.
//!
//! ```text
//!   stamps of siblings ─┐              ┌─ keep    the same stamp
//!   own stamps ─────────┴─ decide ─────┼─ fetch   the value from a sibling that has it, then store
//!                                      └─ drop    and its segment must leave the log
//!   all stretches ─ closing ─ votes
//! ```
//!
//! Invariants:
//! - a tablet votes only when everything that was decided is on the device, and no segment of the log holds a record that
//!   was dropped: a later start would take it for the newest;
//! - nothing is stored but what a sibling had when the stretch was decided.
//!
//! Not here: who is asked for what (`asking`), what is heard (`hearing`), the decision (`deciding`), what was decided and is
//! fetched (`stretch`), the end (`closing`), telling pages (`pages`), the register. Catalogue: I6.

mod asking;
mod deciding;
mod hearing;

pub(crate) use hearing::Told;

use crate::closing::{Closed, Closing};
use crate::stalling::{Hindrance, Progress};
use crate::stand_in::StandIn;
use crate::state::{SiblingState, TabletState};
use crate::store::Store;
use crate::stretch::Stretch;
use crate::tables::Tables;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId, Status, StreamId};
use ramhold_log::HashRange;
use ramhold_quorum::Thresholds;
use ramhold_wire::Step;
use ramhold_wire::brick_status::RebuildObstacle;
use ramhold_wire::bricks::{TabletPage, TabletPageTold};
use std::collections::BTreeMap;
use std::time::Duration;

/// A page that is not told for this long is asked for again.
const PAGE_TIMEOUT: Duration = Duration::from_millis(500);
/// A page of values may be as large as two frames, a sibling may have much to do, and its link may be slow: with each page
/// that is late the next ones have twice as long, up to this. It is well below `STUCK_AFTER`, so that a page comes before
/// another tablet goes first.
const PAGE_TIMEOUT_MAX: Duration = Duration::from_secs(2);
/// The pause before the next try when siblings have told too little, or memory is short.
const PAUSE: Duration = Duration::from_millis(50);
/// The same when there is no room, and cleaning makes none.
const ROOM_PAUSE: Duration = Duration::from_secs(1);
/// How often a tablet for which there is no room is decided anew from its beginning.
const ALL_AGAIN: Duration = Duration::from_secs(60);
/// The pause between two segments that are searched.
const SEARCH_PAUSE: Duration = Duration::from_millis(1);
/// A rebuilding that comes no further for this long lets another tablet go first.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A question to a sibling, which is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub to: ServerId,
    /// The answer is to come with it.
    pub number: u64,
    pub ask: TabletPage,
}

/// Whether cleaning, or a repair, may end what is in the way within moments.
fn may_get_room(store: &Store, obstacle: RebuildObstacle) -> bool {
    match obstacle {
        RebuildObstacle::Index => false,
        RebuildObstacle::Memory | RebuildObstacle::Frames => store.shard.may_get_room(),
        RebuildObstacle::Device | RebuildObstacle::Damage | RebuildObstacle::Pages => true,
    }
}

/// The state of a tablet's rebuilding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Working,
    /// The tablet may vote, when the state says so. `is_complete`: nothing that was acknowledged can be lost.
    Rebuilt {
        is_complete: bool,
    },
}

/// The life that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me {
    pub life: u64,
    pub mark: u64,
    /// The brick's time, in microseconds.
    pub time: u64,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    until: Instant,
    is_for_values: bool,
}

/// The numbers of siblings of which a brick needs the stamps, and the new epoch.
fn needed(thresholds: Thresholds, is_joining: bool) -> (usize, usize) {
    let others = thresholds.bricks() - 1;
    // With all bricks in every quorum, the one that refused a write may be alone with its reason. One that joins has
    // refused nothing.
    let is_all = thresholds.write() == thresholds.bricks() && !is_joining;
    let reads = if is_all { thresholds.read() } else { thresholds.read().min(others).max(1) };
    (reads, thresholds.refusals().min(others))
}

#[derive(Debug)]
enum Phase {
    /// Siblings are being asked whether they have the epoch in which this brick joined.
    Joining,
    /// The stamps of a stretch from here on are being told.
    Asking {
        from: u64,
    },
    Fetching {
        from: u64,
        stretch: Stretch,
    },
    /// Everything is decided and stored.
    Closing(Closing),
}

/// The rebuilding of one tablet.
#[derive(Debug)]
pub(crate) struct Rebuilding {
    pub range: HashRange,
    stream: StreamId,
    epoch: u64,
    siblings: Vec<ServerId>,
    /// The siblings whose data was not taken for lost.
    awaited: Vec<ServerId>,
    /// So many siblings that vote are enough.
    reads: usize,
    stand_in: Option<StandIn>,
    /// So many siblings must have the epoch on their devices before any is read.
    witnesses: usize,
    phase: Phase,
    pages: BTreeMap<ServerId, TabletPageTold>,
    asked: BTreeMap<ServerId, Asked>,
    number: u64,
    is_complete: bool,
    wait_until: Instant,
    is_waiting: bool,
    /// When pages of siblings that do not vote are asked for again.
    refresh_at: Instant,
    /// How long a page may take.
    patience: Duration,
    /// When siblings' pages last brought it further, or the rebuilding began.
    moved_at: Option<Instant>,
    /// When siblings' pages last brought it further.
    decided_at: Instant,
    /// The obstacle of this brick itself. `None`: nothing, or siblings.
    obstacle: Option<RebuildObstacle>,
    /// Siblings that told no page when they were last asked, with their answers.
    refusing: BTreeMap<ServerId, Option<Status>>,
    /// There was no room for so many keys of the stretch, and what had come was given up: that it comes again is no progress.
    starved: Option<usize>,
    /// When all is decided anew for want of room. `None`: there always was some.
    all_again_at: Option<Instant>,
}

impl Rebuilding {
    /// `number`: no question of an earlier rebuilding had it or a higher one.
    pub fn new(tablet: &TabletState, stream: StreamId, thresholds: Thresholds, number: u64) -> Rebuilding {
        let siblings: Vec<ServerId> = tablet.siblings.iter().map(|sibling| sibling.brick).collect();
        let is_awaited = |it: &&SiblingState| !it.is_missing || planted(Defect::QuorumMissingAwaited);
        let awaited: Vec<ServerId> =
            tablet.siblings.iter().filter(is_awaited).map(|sibling| sibling.brick).collect();
        let (reads, witnesses) = needed(thresholds, tablet.is_joining);
        let witnesses = witnesses.min(awaited.len());
        let has_joined = tablet.is_joining && witnesses > 0 && !planted(Defect::QuorumJoinedUnwitnessed);
        Rebuilding {
            range: tablet.range(),
            stream,
            epoch: tablet.epoch,
            siblings,
            awaited,
            reads,
            stand_in: StandIn::of(tablet),
            witnesses,
            phase: if has_joined { Phase::Joining } else { Phase::Asking { from: 0 } },
            pages: BTreeMap::new(),
            asked: BTreeMap::new(),
            number,
            is_complete: true,
            wait_until: Instant::ZERO,
            is_waiting: false,
            refresh_at: Instant::ZERO,
            patience: PAGE_TIMEOUT,
            moved_at: None,
            decided_at: Instant::ZERO,
            obstacle: None,
            refusing: BTreeMap::new(),
            starved: None,
            all_again_at: None,
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it has come no further for long: siblings are silent. The device alone takes its time at the end.
    pub fn is_stuck(&self, now: Instant) -> bool {
        !self.is_closing() && self.moved_at.is_some_and(|moved| moved + STUCK_AFTER <= now)
    }

    /// Whether everything is decided, and only this brick's own device is awaited.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    pub fn decided_at(&self) -> Instant {
        self.decided_at
    }

    /// The number of the last question.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The part of the tablet's keys that is decided and stored, of 1,000. Keys are uniform over positions.
    pub fn permille(&self) -> u32 {
        match self.phase {
            Phase::Joining => 0,
            Phase::Asking { from } | Phase::Fetching { from, .. } => {
                u32::try_from((u128::from(from) * 1000) >> 64).expect("less than 1,000")
            }
            Phase::Closing(_) => 1000,
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        match &self.phase {
            Phase::Joining => (0, 0, 0),
            Phase::Asking { from } => (1, *from, 0),
            Phase::Fetching { from, stretch } => (1, *from, u64::MAX - stretch.lacking_count() as u64),
            Phase::Closing(closing) => (2, closing.progress(), 0),
        }
    }

    /// The obstacle that it waits for.
    pub fn hindrance(&self) -> Option<Hindrance> {
        let pages = || Some(self.refusing.clone()).filter(|it| !it.is_empty()).map(Hindrance::Pages);
        self.obstacle.map(Hindrance::Own).or_else(pages)
    }

    pub fn deadline(&self) -> Option<Instant> {
        let asked = self.asked.values().map(|asked| asked.until).min();
        asked.or(self.is_waiting.then_some(self.wait_until))
    }

    /// Takes the next steps.
    pub fn advance(
        &mut self,
        step: &mut Step<'_>,
        (store, tables): (&mut Store, &Tables),
        me: Me,
        calls: &mut Vec<Call>,
    ) -> Outcome {
        self.drop_silent(step.now);
        self.moved_at.get_or_insert(step.now);
        self.is_waiting = self.wait_until > step.now;
        if self.is_waiting {
            return Outcome::Working;
        }
        self.obstacle = self.obstacle.filter(|_| self.starved.is_some());
        loop {
            match &mut self.phase {
                Phase::Joining => {
                    self.ask_stamps(step, 0, me, calls);
                    return Outcome::Working;
                }
                Phase::Asking { from } => {
                    let from = *from;
                    let stretch = match self.decide(store, tables, from) {
                        Ok(Some(stretch)) => stretch,
                        Ok(None) => {
                            self.refresh(step.now);
                            self.ask_stamps(step, from, me, calls);
                            return Outcome::Working;
                        }
                        Err(unreadable) => {
                            store.note_unreadable(step, unreadable);
                            self.obstacle = Some(RebuildObstacle::Damage);
                            self.wait(step.now);
                            return Outcome::Working;
                        }
                    };
                    self.pages.clear();
                    self.asked.clear();
                    self.phase = Phase::Fetching { from, stretch };
                    if self.starved.is_none() {
                        (self.moved_at, self.decided_at) = (Some(step.now), step.now);
                    }
                }
                Phase::Fetching { from, stretch } => {
                    let (from, place) = (*from, (self.range.table, self.stream));
                    if let Err(obstacle) = stretch.carry_out(step, (store, tables), place) {
                        let lacking = stretch.lacking_count();
                        self.obstacle = Some(obstacle);
                        match may_get_room(store, obstacle) {
                            true => self.wait(step.now),
                            false => self.starve(step.now, from, lacking),
                        }
                        return Outcome::Working;
                    }
                    if stretch.missing_count() > 0 {
                        self.ask_values(step, me, calls);
                        return Outcome::Working;
                    }
                    self.phase = match stretch.next() {
                        Some(from) => Phase::Asking { from },
                        None => Phase::Closing(Closing::default()),
                    };
                    if self.starved.take().is_some() && self.obstacle.take() == Some(RebuildObstacle::Index) {
                        store.has_places();
                    }
                    // Nobody's page is waited for.
                    if self.awaited.is_empty() {
                        self.breathe(step.now);
                        return Outcome::Working;
                    }
                }
                Phase::Closing(closing) => {
                    let place = (self.range.table, self.stream);
                    match closing.advance(step, (store, tables), place, me.time) {
                        Closed::Breathing => self.breathe(step.now),
                        Closed::NoRoom(obstacle) => {
                            self.obstacle = Some(obstacle);
                            self.wait(step.now);
                        }
                        Closed::Waiting => self.obstacle = Some(RebuildObstacle::Device),
                        Closed::Over => return Outcome::Rebuilt { is_complete: self.is_complete },
                    }
                    return Outcome::Working;
                }
            }
        }
    }

    fn wait(&mut self, now: Instant) {
        (self.wait_until, self.is_waiting) = (now + PAUSE, true);
    }

    /// There is no room, and nothing makes any: what has come is given up, and the stretch is decided anew after a pause. Keys
    /// may have been removed by then, or the brick may have been relieved of other tablets. Keys that are stored here already
    /// may have been removed as well, which makes room here only when they are decided anew.
    fn starve(&mut self, now: Instant, from: u64, lacking: usize) {
        if self.starved.is_some_and(|before| lacking < before) {
            self.moved_at = Some(now);
        }
        self.starved = Some(self.starved.map_or(lacking, |before| before.min(lacking)));
        let all_again_at = *self.all_again_at.get_or_insert(now + ALL_AGAIN);
        let is_all = all_again_at <= now;
        if is_all {
            self.all_again_at = Some(now + ALL_AGAIN);
        }
        self.phase = Phase::Asking { from: if is_all { 0 } else { from } };
        self.pages.clear();
        self.asked.clear();
        (self.wait_until, self.is_waiting) = (now + ROOM_PAUSE, true);
    }

    /// Lets others have the processor.
    fn breathe(&mut self, now: Instant) {
        (self.wait_until, self.is_waiting) = (now + SEARCH_PAUSE, true);
    }
}

#[cfg(test)]
pub(crate) mod tests;
