//! Announcements: each brick tells its siblings twice a second that it lives, and which life this is.
//!
//! The answer to an announcement proves that the sibling has this life on its device, and tells the sibling's clock. A brick
//! that has had no such answer does not vote (`clock`).
//!
//! Two processes may run on copies of one directory. The sibling takes the higher life, and of two with one number the one
//! that it heard first; the other one ends. A higher life at another address counts only when the life before it has been
//! silent for a while: the copy of a directory does not end the brick that still runs on the original, and ends itself.
//!
//! An announcement also spreads changes of tablets, until both have the same.
//!
//! Not here: which changes count (`changes`), missed announcements (`restarting`). Protocol: docs/protocols/quorum.md,
//! rules 3, 10, 18, 53. Source: DSTORE04 5.1. Catalogue: I4.

use crate::Brick;
use crate::events::{EventKind, counted};
use crate::phase::{Context, Phase};
use crate::question::{Asker, Refusal};
use crate::siblings::Waiting;
use crate::silence::Change;
use crate::state::{BrickState, LifeState, SiblingState, TableState, TabletState};
use crate::tables::number;
use ramhold_base::hash::index_hash;
use ramhold_base::limits::BRICKS_TOLD_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, KeyHash, Level, Peer, ServerId, Status};
use ramhold_quorum::Life;
use ramhold_wire::bricks::{ANNOUNCE_INTERVAL, Announce, Announced, Shared};
use ramhold_wire::control::Address;
use ramhold_wire::quorum::{BrickPlace, BrickTablet};
use ramhold_wire::{Header, Step, decode, request};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// The least pause between two announcements.
pub(crate) const ANNOUNCE_AGAIN: Duration = Duration::from_millis(20);
/// When it is said that tablets do not vote, and how often.
const COMPLAIN_AFTER: Duration = Duration::from_secs(5);
pub(crate) const COMPLAIN_INTERVAL: Duration = Duration::from_secs(60);
/// How long a life must have been silent before a later one at another address counts.
const SILENCE: Duration = Duration::from_secs(2);

/// The most refused lives that are noted.
const REFUSED_COUNT_MAX: usize = 64;

/// Where a brick that announces is reached, and the port of its supervisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    address: Address,
    supervisor: Option<u16>,
}

/// Where a sibling listens, as the state knows.
fn address_of(state: &BrickState, brick: ServerId) -> Option<SocketAddr> {
    let mut siblings = state.tablets.iter().flat_map(|tablet| &tablet.siblings);
    let sibling = siblings.find(|sibling| sibling.brick == brick).map(|sibling| sibling.address.0);
    // A brick that gives a tablet away may share no other one.
    let givers = state.tablets.iter().filter_map(|tablet| tablet.giving).map(|giving| giving.old);
    sibling.or_else(|| givers.into_iter().find(|place| place.brick == brick).map(|place| place.address.0))
}

/// Names the ranges and epochs of the tablets that this brick shares with another one; 0: they share none.
pub(crate) fn fingerprint(state: &BrickState, other: ServerId) -> u64 {
    let shared = state.tablets.iter().filter(|tablet| tablet.is_shared_with(other));
    let print = |tablet: &TabletState| {
        let TabletState { table, first, last, epoch, .. } = tablet;
        index_hash(*epoch, *table, KeyHash(index_hash(first.0, *table, *last)))
    };
    // In any order.
    shared.map(print).fold(0, u64::wrapping_add)
}

/// The tablets that this brick shares with another one, and their tables.
fn shared(state: &BrickState, other: ServerId, here: BrickPlace) -> Shared {
    let tablets = state.tablets.iter().filter(|tablet| tablet.is_shared_with(other));
    let tablets: Vec<BrickTablet> = tablets.map(|tablet| tablet.whole(here)).collect();
    let is_named = |table: &&TableState| tablets.iter().any(|tablet| tablet.table == table.table);
    let tables = state.tables.iter().filter(is_named).map(TableState::description).collect();
    Shared { tables, tablets }
}

/// Enters a sibling's address wherever it stands.
fn set_address(state: &mut BrickState, brick: ServerId, address: Address) {
    let siblings = state.tablets.iter_mut().flat_map(|tablet| &mut tablet.siblings);
    siblings.filter(|sibling| sibling.brick == brick).for_each(|sibling| sibling.address = address);
}

impl Brick {
    pub(crate) fn address(&self, brick: ServerId) -> Option<SocketAddr> {
        address_of(self.state_file.newest()?, brick)
    }

    /// The other bricks of all tablets.
    pub(crate) fn siblings(&self) -> BTreeSet<ServerId> {
        self.tables.all().flat_map(|tablet| &tablet.siblings).copied().collect()
    }

    pub(crate) fn announcing_deadline(&self) -> Option<Instant> {
        let has_siblings = self.tables.all().any(|tablet| !tablet.siblings.is_empty())
            || !self.siblings_of_waiting().is_empty();
        has_siblings.then_some(self.siblings.announce_at)
    }

    pub(crate) fn advance_announcing(&mut self, step: &mut Step<'_>) {
        if self.siblings.announce_at > step.now {
            return;
        }
        let late = step.now.since(self.siblings.announce_at);
        self.siblings.announce_at = step.now + ANNOUNCE_INTERVAL;
        self.siblings.announced_at = step.now;
        self.complain(step);
        self.look_for_silence(step.now);
        let report = self.report(step);
        let wants_restart = self.consents.is_wanted(step.now);
        let Some(state) = self.state_file.durable() else { return };
        let here = BrickPlace { brick: state.brick, address: self.config.address };
        // Others have tablets that wait here, and would take it for silent.
        for sibling in self.siblings().union(&self.siblings_of_waiting()).copied() {
            let Some(address) = self.address(sibling) else { continue };
            let is_agreed = self.siblings.agreed.get(&sibling) == Some(&fingerprint(state, sibling));
            let shared = (!is_agreed).then(|| shared(state, sibling, here));
            let message = Announce {
                life: state.life,
                mark: state.mark,
                address: self.config.address,
                supervisor: self.config.supervisor,
                shared,
                report,
                wants_restart,
            };
            let until = step.now + ANNOUNCE_INTERVAL * 4;
            let rpc = self.calls.open(address, step.now, until, Context::Announce(sibling));
            request(step.effects, Peer::Addr(address), &step.view.to_server(sibling), rpc, &message);
        }
        self.order_restarts(step, late);
        self.judge(step, late);
    }

    /// Notes which siblings have missed their announcements, and which are heard again.
    fn look_for_silence(&mut self, now: Instant) {
        let siblings = self.siblings();
        let changes = self.siblings.silence.look(now, &siblings, &self.siblings.heard);
        for change in changes {
            match change {
                Change::Silent(sibling) => {
                    let indicator = format!("no announcement of {} for 1.25 s", self.name_of(sibling));
                    let treatment = "none: its tablets go on without it";
                    self.note(now, EventKind::SiblingSilent, sibling, (indicator, treatment));
                }
                Change::Heard(sibling, after) => {
                    let name = self.name_of(sibling);
                    let indicator = format!("{name} is heard again after {:.1} s", after.as_secs_f64());
                    let treatment = "none: it fetches what it has missed by itself";
                    self.note(now, EventKind::SiblingHeard, sibling, (indicator, treatment));
                }
            }
        }
    }

    pub(crate) fn name_of(&self, sibling: ServerId) -> String {
        match self.address(sibling) {
            Some(address) => format!("{sibling} at {address}"),
            None => sibling.to_string(),
        }
    }

    /// Says for whom tablets wait that do not vote.
    fn complain(&mut self, step: &mut Step<'_>) {
        let (mut unheard, mut waiting) = (BTreeSet::new(), 0u64);
        for tablet in self.tables.all() {
            let is_known = self.clock.is_known(&tablet.siblings);
            if is_known && tablet.register.votes() {
                continue;
            }
            waiting += 1;
            let is_missing = |it: &&ServerId| !self.answers(step.now, **it);
            unheard.extend(tablet.siblings.iter().filter(is_missing).copied());
        }
        if waiting == 0 {
            self.siblings.unvoting_since = None;
            return;
        }
        let since = *self.siblings.unvoting_since.get_or_insert(step.now);
        if step.now.since(since) < COMPLAIN_AFTER || self.siblings.complain_at > step.now {
            return;
        }
        self.siblings.complain_at = step.now + COMPLAIN_INTERVAL;
        let names: Vec<String> = unheard.into_iter().map(|sibling| self.name_of(sibling)).collect();
        let (tablets, it, vote) = match waiting {
            1 => (counted(1u64, "tablet"), "it is", "does not vote"),
            count => (counted(count, "tablet"), "they are", "do not vote"),
        };
        let why = match names.len() {
            0 => match self.stalled(step.now) {
                Some(stalled) => {
                    format!(
                        "the rebuilding comes no further: {}; {}",
                        stalled.why(),
                        stalled.obstacle.way_out()
                    )
                }
                None => format!("{it} being rebuilt from the other bricks"),
            },
            1 => format!("{} does not answer", names[0]),
            _ => format!("{} do not answer", names.join(", ")),
        };
        step.effects.report(Level::Warn, format!("{tablets} here {vote}: {why}"));
    }

    pub(crate) fn on_announce(&mut self, step: &mut Step<'_>, announce: &Announce, asker: Asker) {
        let life = (announce.life, announce.mark);
        if let Some(shared) = &announce.shared {
            self.hear_shared(asker.brick, shared, step.effects);
        }
        let told = Told { address: announce.address, supervisor: announce.supervisor };
        let checked = self.hear_life(step, asker.brick, life, Some(told));
        if checked.is_ok() && !self.clock.has_told(asker.brick) {
            // It may not have known its tablet when it was last announced to.
            let soon = self.siblings.announced_at + ANNOUNCE_AGAIN;
            self.siblings.announce_at = self.siblings.announce_at.min(soon.max(step.now));
        }
        if checked.is_ok() {
            if let Some(report) = &announce.report {
                self.hear_sibling_report(step.now, asker.brick, report);
            }
            if announce.wants_restart {
                self.on_restart_wanted(step, (asker.brick, announce.life));
            }
        }
        self.wait_for_state(step, checked, Waiting::Announcement, asker);
    }

    /// Notes the life of a brick that asks, if it may ask.
    pub(crate) fn hear_life(
        &mut self,
        step: &mut Step<'_>,
        brick: ServerId,
        (life, mark): (u64, u64),
        told: Option<Told>,
    ) -> Result<(), Refusal> {
        let state = self.state_file.newest().filter(|_| self.phase == Phase::Serving);
        let state = state.ok_or(Refusal::NotReady)?;
        if !state.tablets.iter().any(|tablet| tablet.is_shared_with(brick)) {
            return Err(Refusal::NotSibling);
        }
        let known = state.lives.iter().find(|known| known.brick == brick);
        let (known_life, known_mark) = known.map_or((0, 0), |known| (known.life, known.mark));
        let is_twin = life == known_life && mark != known_mark && !planted(Defect::QuorumTwinsHeard);
        let address = told.map(|told| told.address);
        let moved = address.filter(|address| self.address(brick).is_some_and(|before| before != address.0));
        if life < known_life || is_twin {
            // A frame of the life before may come late, from where the brick still is.
            let since = self.siblings.life_since.get(&brick);
            let is_late = !is_twin && moved.is_none() && since.is_some_and(|at| *at + SILENCE > step.now);
            if !is_late {
                self.note_outlived(step.now, brick, (life, mark), known_life);
            }
            return Err(Refusal::OldLife);
        }
        // A question tells no address, and a copy that is rebuilt asks, too: only an announcement begins a later life.
        let is_elsewhere = address.is_none() || moved.is_some();
        let is_silent = self.siblings.may_be_heard(brick).is_none_or(|heard| heard + SILENCE <= step.now);
        if life > known_life && is_elsewhere && !is_silent && !planted(Defect::QuorumCopyEndsOriginal) {
            let is_copy = moved.is_some() && self.siblings.runs_on(step.now, brick, (life, mark));
            if !is_copy || planted(Defect::QuorumCopyRunsOn) {
                return Err(Refusal::Retry);
            }
            self.note_outlived(step.now, brick, (life, mark), known_life);
            return Err(Refusal::OldLife);
        }
        self.siblings.heard.insert(brick, step.now);
        let known_supervisor = known.and_then(|known| known.supervisor);
        let supervisor = told.map_or(known_supervisor, |told| told.supervisor);
        if life > known_life || moved.is_some() || supervisor != known_supervisor {
            let mut next = state.clone();
            next.lives.retain(|known| known.brick != brick);
            next.lives.push(LifeState { brick, life, mark, supervisor });
            if let Some(address) = moved {
                set_address(&mut next, brick, address);
            }
            self.state_file.want(next, step.effects);
            self.tables.hear_of(number(brick), Life(life));
        }
        if life > known_life {
            self.siblings.life_since.insert(brick, step.now);
            self.siblings.claims.remove(&brick);
        }
        if known_life > 0 && life > known_life {
            let indicator = format!("{} began life {life}", self.name_of(brick));
            let treatment = format!("its answers of life {known_life} count no more");
            self.note(step.now, EventKind::SiblingRestarted, brick, (indicator, treatment));
        }
        Ok(())
    }

    /// Notes that a life of a sibling was refused: its process ends, and its own events with it.
    fn note_outlived(&mut self, now: Instant, brick: ServerId, (life, mark): (u64, u64), known: u64) {
        if self.siblings.refused.len() >= REFUSED_COUNT_MAX
            || !self.siblings.refused.insert((brick, life, mark))
        {
            return;
        }
        let indicator = match life.cmp(&known) {
            Ordering::Equal => format!("a second process has life {life} of {}", self.name_of(brick)),
            Ordering::Less => {
                format!("a process has life {life} of {}, and life {known} is known", self.name_of(brick))
            }
            Ordering::Greater => {
                format!(
                    "a process elsewhere has life {life} of {}, and life {known} runs",
                    self.name_of(brick)
                )
            }
        };
        let treatment = "refused: it ends, and nothing votes there; its directory was copied or restored";
        self.note(now, EventKind::Outlived, brick, (indicator, treatment));
    }

    /// The answer to an announcement.
    pub(crate) fn on_announced(
        &mut self,
        step: &mut Step<'_>,
        sibling: ServerId,
        header: &Header,
        body: &[u8],
    ) {
        if header.status() == Status::Fenced {
            return self.end_as_old(step.now, sibling, step.effects);
        }
        if let (Status::Ok, Ok(told)) = (header.status(), decode::<Announced>(body)) {
            self.clock.hear(step.now, sibling, told.clock);
            self.siblings.answered.insert(sibling, step.now);
            self.siblings.agreed.insert(sibling, told.shared);
            if told.consents {
                self.consents.hear(step.now, sibling);
            }
        }
    }

    /// A sibling knows a later life of this brick, or another one with this number. Nothing votes here any more, also after
    /// further starts: what that other life has acknowledged is not here. Then this process ends.
    pub(crate) fn end_as_old(&mut self, now: Instant, sibling: ServerId, effects: &mut Effects) {
        let text = format!(
            "{sibling} knows a later life of this brick, or another process with its id: its directory was copied, or \
             restored from a copy; keep the original, and start a new brick on an empty directory"
        );
        let Some(state) = self.state_file.newest().filter(|_| self.outlived.is_none()) else { return };
        let (me, mut next) = (state.brick, state.clone());
        let indicator = format!("{sibling} knows a later life of this brick, or another process with its id");
        self.note(now, EventKind::Outlived, me, (indicator, "nothing votes here any more; the process ends"));
        next.tablets.iter_mut().for_each(|tablet| tablet.votes = planted(Defect::QuorumOutlivedVotes));
        self.outlived = Some(text);
        self.state_file.want(next, effects);
    }

    /// The coordinator tells where siblings listen now, and which other bricks sessions may need.
    pub fn hear_places(
        &mut self,
        now: Instant,
        places: &[BrickPlace],
        others: &[BrickPlace],
        effects: &mut Effects,
    ) {
        let Some(state) = self.state_file.newest().filter(|_| self.phase == Phase::Serving) else { return };
        let mut next = state.clone();
        // A sibling that is heard says itself where it listens.
        let is_silent =
            |brick| self.siblings.may_be_heard(brick).is_none_or(|heard: Instant| heard + SILENCE <= now);
        let moved = places.iter().filter(|place| is_silent(place.brick));
        moved.for_each(|place| set_address(&mut next, place.brick, place.address));
        let has_moved = next.tablets != state.tablets;
        let others = others.iter().filter(|place| place.brick != state.brick).take(BRICKS_TOLD_MAX);
        next.others = others.map(SiblingState::at).collect();
        if &next != state {
            self.state_file.want(next, effects);
        }
        if has_moved {
            self.siblings.announce_at = now;
        }
    }

    /// Where bricks listen that a session may ask next: those of other tablets first, then the siblings.
    pub fn named(&self) -> Vec<Address> {
        let Some(state) = self.state_file.durable().filter(|_| self.phase == Phase::Serving) else {
            return Vec::new();
        };
        let siblings = state.tablets.iter().flat_map(|tablet| &tablet.siblings);
        let mut named: Vec<Address> = Vec::new();
        for place in state.others.iter().chain(siblings) {
            if named.len() < BRICKS_TOLD_MAX && !named.contains(&place.address) {
                named.push(place.address);
            }
        }
        named
    }
}
