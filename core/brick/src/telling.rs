//! Between siblings: pages that this brick tells, and the rebuilding of its own tablets.
//!
//! A page is told when the life of the brick that asks is on the device.
//!
//! Invariant: one tablet is rebuilt at a time; it votes when the state on the device says so.
//!
//! Not here: what counts (`rebuild`), messages. Protocol: docs/protocols/quorum.md, rules 10, 16. Catalogue: I6.

use crate::Brick;
use crate::announcing::fingerprint;
use crate::changes::hears;
use crate::events::{EventKind, counted, tablet_name};
use crate::pages::{is_possible, tell};
use crate::phase::{Context, Phase};
use crate::question::{Asker, Refusal};
use crate::rebuild::{Call, Me, Outcome, Rebuilding, Told};
use crate::siblings::Waiting;
use crate::state::{BrickState, TabletState};
use crate::words::{answer_refused, answer_told};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, Level, Peer, ServerId, Status, TableId};
use ramhold_log::HashRange;
use ramhold_wire::bricks::{Announced, PageWanted, TabletPage, TabletPageTold};
use ramhold_wire::{Step, request};
use std::collections::BTreeSet;
use std::time::Duration;

/// The most pages that wait for the state to be on the device.
const WAITING_COUNT_MAX: usize = 64;

/// When nothing is heard of a question to a sibling any more. It is asked again before.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

impl Brick {
    /// A sibling that is rebuilt asks for a page.
    pub(crate) fn on_tablet_page(&mut self, step: &mut Step<'_>, ask: TabletPage, asker: Asker) {
        let state = self.state_file.newest().filter(|_| self.phase == Phase::Serving && !self.is_loading());
        let checked = match state {
            None => Err(Refusal::NotReady),
            Some(state) => match tablet_of(state, &ask, asker.brick) {
                None => Err(Refusal::NotSibling),
                // The brick to which this one gives the tablet has told nobody anything yet that could count.
                Some(tablet) if ask.stands_in && !tablet.is_shared_with(asker.brick) => Ok(()),
                Some(_) => self.hear_life(step, asker.brick, (ask.life, ask.mark), None),
            },
        };
        if checked.is_ok() && !ask.stands_in {
            self.hear_again(step, asker.brick, &ask);
        }
        self.wait_for_state(step, checked, Waiting::Page(ask), asker);
    }

    /// A sibling whose loss was accepted is back.
    fn hear_again(&mut self, step: &mut Step<'_>, from: ServerId, ask: &TabletPage) {
        let Some(state) = self.state_file.newest() else { return };
        let range = HashRange { table: ask.table, first: ask.first, last: ask.last };
        let mut next = state.clone();
        hears(&mut next, from, range, ask.epoch);
        if &next != state {
            self.state_file.want(next, step.effects);
            self.siblings.forget(range);
        }
    }

    /// Tells something when the state, with the life that asks, is on the device.
    pub(crate) fn wait_for_state(
        &mut self,
        step: &mut Step<'_>,
        checked: Result<(), Refusal>,
        waiting: Waiting,
        asker: Asker,
    ) {
        let opcode = match &waiting {
            Waiting::Page(_) => ramhold_wire::Opcode::TabletPage,
            Waiting::Announcement => ramhold_wire::Opcode::Announce,
        };
        match checked {
            Ok(()) if self.siblings.waiting.len() + self.siblings.held.len() < WAITING_COUNT_MAX => {
                self.siblings.waiting.push((waiting, asker));
                self.tell_waiting(step);
            }
            Ok(()) => answer_refused(step, opcode, asker, Refusal::TooMany),
            Err(refusal) => answer_refused(step, opcode, asker, refusal),
        }
    }

    /// Tells whatever waits for nothing any more.
    pub(crate) fn tell_waiting(&mut self, step: &mut Step<'_>) {
        let votes = self.votes();
        let Brick { siblings, state_file, store: Some(store), tables, clock, consents, .. } = self else {
            return;
        };
        if !state_file.is_durable() && !planted(Defect::QuorumToldBeforeLife) {
            return;
        }
        let Some(state) = state_file.durable() else { return };
        let mut unreadable = Vec::new();
        for (waiting, asker) in std::mem::take(&mut siblings.waiting) {
            let ask = match waiting {
                Waiting::Page(ask) => ask,
                Waiting::Announcement => {
                    let shared = fingerprint(state, asker.brick);
                    let consents = votes && consents.has_given(step.now, asker.brick);
                    let told = Announced { clock: clock.own(step.now), life: state.life, shared, consents };
                    answer_told(step, ramhold_wire::Opcode::Announce, asker, &told);
                    continue;
                }
            };
            let range = HashRange { table: ask.table, first: ask.first, last: ask.last };
            let page = match tablet_of(state, &ask, asker.brick) {
                None => Err(Refusal::NotSibling),
                // Sessions are still answered under the epoch before.
                Some(tablet) if tables.epoch(range) != Some(tablet.epoch) => Err(Refusal::Retry),
                Some(tablet) => {
                    let told = tell(store, tables, range, &ask.wanted);
                    let siblings: Vec<ServerId> = tablet.siblings.iter().map(|it| it.brick).collect();
                    // Nobody is told so before a sibling could have told of a later life.
                    let votes = tablet.votes && tables.votes(range) && clock.is_known(&siblings);
                    let TabletState { epoch, is_joining, .. } = *tablet;
                    told.map(|(records, next)| TabletPageTold { epoch, votes, records, next, is_joining })
                        .map_err(|why| {
                            unreadable.push(why);
                            Refusal::Retry
                        })
                }
            };
            let opcode = ramhold_wire::Opcode::TabletPage;
            let waits = matches!(ask.wanted, PageWanted::Stamps { on_device: true, .. });
            match page {
                Ok(page) if waits && !planted(Defect::QuorumGraveBeforeDevice) => {
                    match tables.stream(range) {
                        Some(stream) => siblings.held.push((store.everything(stream), page, asker)),
                        None => answer_refused(step, opcode, asker, Refusal::NotSibling),
                    }
                }
                Ok(page) => answer_told(step, opcode, asker, &page),
                Err(refusal) => answer_refused(step, opcode, asker, refusal),
            }
        }
        for (wish, page, asker) in std::mem::take(&mut siblings.held) {
            if store.is_on_device(wish) {
                answer_told(step, ramhold_wire::Opcode::TabletPage, asker, &page);
            } else {
                siblings.held.push((wish, page, asker));
            }
        }
        // The asker comes again while it is being repaired.
        for why in unreadable {
            self.unreadable(step, why);
        }
    }

    /// Asks siblings. Questions that are lost are asked again by the rebuilding.
    pub(crate) fn ask_siblings(&mut self, step: &mut Step<'_>, calls: Vec<Call>) {
        for Call { to, number, ask } in calls {
            let Some(address) = self.address(to) else { continue };
            let context = Context::Page { from: to, number };
            let rpc = self.calls.open(address, step.now, step.now + CALL_TIMEOUT, context);
            request(step.effects, Peer::Addr(address), &step.view.to_server(to), rpc, &ask);
        }
    }

    /// The answer to a question to a sibling.
    pub(crate) fn on_page(&mut self, step: &mut Step<'_>, from: ServerId, number: u64, page: Told) {
        let page = match page {
            Ok(page) if !self.may_take(step, from, &page) => Err(Some(Status::BadRequest)),
            page => page,
        };
        if self.siblings.sweeping.has_asked(from, number) {
            self.siblings.sweeping.on_page(from, number, page.ok());
            return self.advance_sweep(step);
        }
        if let Some(rebuilding) = &mut self.siblings.rebuilding {
            rebuilding.on_page(step.now, from, number, page);
        }
        self.advance_rebuilding(step);
    }

    /// Whether a page counts: a record that no log can hold says that its sibling is damaged or no brick.
    fn may_take(&mut self, step: &mut Step<'_>, from: ServerId, page: &TabletPageTold) -> bool {
        let is_possible = is_possible(page);
        if !is_possible && self.siblings.impossible.insert(from) {
            let text = format!("{from} tells records that no log can hold: such pages of it do not count");
            step.effects.report(Level::Warn, text);
        }
        is_possible
    }

    /// Rebuilds the tablets that do not vote, one after the other.
    pub(crate) fn advance_rebuilding(&mut self, step: &mut Step<'_>) {
        let is_loaded = self.phase == Phase::Serving && !self.is_loading();
        let Some(state) = self.state_file.durable().filter(|_| is_loaded) else { return };
        if self.siblings.rebuilding.is_none() && self.state_file.is_durable() {
            let next = self.next_to_rebuild(state);
            if next.is_none() {
                self.siblings.stalling.keep(|_| false);
                return;
            }
            let table = next.and_then(|tablet| state.tables.iter().find(|table| table.table == tablet.table));
            let thresholds = table.and_then(|table| table.thresholds().ok());
            let stream = next.and_then(|tablet| self.tables.stream(tablet.range()));
            let (Some(tablet), Some(thresholds), Some(stream)) = (next, thresholds, stream) else { return };
            self.siblings.rebuilding =
                Some(Rebuilding::new(tablet, stream, thresholds, self.siblings.number));
            // One that gives way to another tablet begins again, every few seconds perhaps for days.
            if self.siblings.noted.insert((tablet.table, tablet.first, tablet.epoch)) {
                let name = tablet_name(tablet.range());
                let indicator = format!("{name} may lack acknowledged writes here");
                let siblings = counted(tablet.siblings.len(), "sibling");
                let treatment = format!("asks its {siblings} for their newest stamps");
                let time = self.clock.own_millis(step.now);
                self.events.note(time, EventKind::RebuildBegun, state.brick, (indicator, treatment));
            }
            let open: BTreeSet<(TableId, KeyHash, u64)> = state
                .tablets
                .iter()
                .filter(|tablet| !tablet.votes)
                .map(|tablet| (tablet.table, tablet.first, tablet.epoch))
                .collect();
            self.siblings.noted.retain(|noted| open.contains(noted));
            self.siblings.stalling.keep(|tablet| open.contains(tablet));
        }
        let (life, mark) = (state.life, state.mark);
        let Brick { siblings, store: Some(store), tables, clock, .. } = self else { return };
        let Some(rebuilding) = &mut siblings.rebuilding else { return };
        // The bound comes from the time, which nobody has told yet.
        if !tables.siblings(rebuilding.range).is_some_and(|siblings| clock.is_known(siblings)) {
            return;
        }
        let me = Me { life, mark, time: clock.now(step.now).later };
        let mut calls = Vec::new();
        let outcome = rebuilding.advance(step, (store, tables), me, &mut calls);
        siblings.number = rebuilding.number();
        siblings.decided_at = siblings.decided_at.max(rebuilding.decided_at());
        let (range, epoch) = (rebuilding.range, rebuilding.epoch());
        let at = ((range.table, range.first, epoch), rebuilding.progress());
        let news = match outcome {
            Outcome::Rebuilt { .. } => siblings.stalling.moved(step.now),
            Outcome::Working => siblings.stalling.look(step.now, at, rebuilding.hindrance()),
        };
        if let Outcome::Rebuilt { is_complete } = outcome {
            siblings.rebuilding = None;
            self.finish_rebuilding(step, (range, epoch), is_complete);
        } else if rebuilding.is_stuck(step.now) && tables.all().filter(|it| !it.register.votes()).count() > 1
        {
            siblings.stuck = Some((range.table, range.first));
            siblings.rebuilding = None;
        }
        self.ask_siblings(step, calls);
        self.advance_appended(step);
        if let Some(news) = news {
            self.tell_stalling(step, news);
        }
    }

    /// The tablet that is rebuilt next: the one behind the last that made no progress.
    fn next_to_rebuild<'a>(&self, state: &'a BrickState) -> Option<&'a TabletState> {
        let place = |tablet: &TabletState| (tablet.table, tablet.first);
        let is_open =
            |tablet: &&TabletState| !tablet.votes && self.tables.epoch(tablet.range()) == Some(tablet.epoch);
        let open = || state.tablets.iter().filter(is_open);
        let is_behind = |tablet: &&TabletState| self.siblings.stuck.is_none_or(|stuck| place(tablet) > stuck);
        let behind = open().filter(is_behind).min_by_key(|tablet| place(tablet));
        behind.or_else(|| open().min_by_key(|tablet| place(tablet)))
    }

    fn finish_rebuilding(
        &mut self,
        step: &mut Step<'_>,
        (range, epoch): (HashRange, u64),
        is_complete: bool,
    ) {
        let mut next = self.state_file.newest().expect("a life has begun").clone();
        let is_it = |tablet: &&mut TabletState| tablet.range() == range && tablet.epoch == epoch;
        // The tablet may have other bricks by now, and this process may be the older one of two.
        let Some(tablet) = next.tablets.iter_mut().find(is_it).filter(|_| self.outlived.is_none()) else {
            return;
        };
        (tablet.votes, tablet.is_joining) = (true, false);
        let has_siblings = !tablet.siblings.is_empty();
        let HashRange { table, first, last } = range;
        let (level, text) = if is_complete {
            (Level::Info, format!("{table} {first:?} to {last:?} is rebuilt"))
        } else {
            let lost = match has_siblings {
                false => "no other brick has its keys: what is not here is lost",
                true => "too few siblings had everything: writes that were acknowledged may be lost",
            };
            (Level::Error, format!("{table} {first:?} to {last:?} is rebuilt from what is left; {lost}"))
        };
        step.effects.report(level, text);
        let indicator = format!("the newest of each key of {} is here", tablet_name(range));
        let (kind, treatment) = match is_complete {
            true => (EventKind::Rebuilt, "it votes"),
            false => (
                EventKind::RebuiltWithLoss,
                match has_siblings {
                    true => "it votes with what is left: writes that were acknowledged may be lost",
                    false => "it votes with what is left here: no other brick has its keys",
                },
            ),
        };
        self.note(step.now, kind, next.brick, (indicator, treatment));
        if next.tablets.iter().all(|tablet| tablet.votes)
            && let Some(store) = &mut self.store
        {
            for left in std::mem::take(&mut store.left_over) {
                store.shard.replicator.free_found(left.stream, left.segment, left.epoch, step.view.me);
            }
        }
        self.state_file.want(next, step.effects);
    }
}

/// The tablet that a question is about, if its asker is one of the siblings. A brick that gives the tablet away has an
/// earlier epoch of it, and may not know the brick that takes it.
fn tablet_of<'a>(state: &'a BrickState, ask: &TabletPage, asker: ServerId) -> Option<&'a TabletState> {
    let range = HashRange { table: ask.table, first: ask.first, last: ask.last };
    let same = state.tablets.iter().find(|tablet| tablet.range() == range)?;
    let may_know = if ask.stands_in {
        same.epoch < ask.epoch
    } else {
        same.epoch == ask.epoch && same.is_shared_with(asker)
    };
    may_know.then_some(same)
}
