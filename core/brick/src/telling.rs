//! Between siblings: pages that this brick tells, and the rebuilding of its own tablets.
//!
//! A page is told when the life of the brick that asks is on the device.
//!
//! Invariant: one tablet is rebuilt at a time; it votes when the state on the device says so.
//!
//! Not here: what counts (`rebuild`), messages. Protocol: docs/protocols/quorum.md, rules 10, 16. Catalogue: I6.

use crate::pages::{Page, PageAsk, tell};
use crate::phase::Phase;
use crate::rebuild::{Call, Me, Outcome, Rebuilding};
use crate::siblings::Told;
use crate::state::{BrickState, LifeState, TabletState};
use crate::tables::number;
use crate::{Asker, Brick, Refusal};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Level, ServerId};
use ramhold_log::HashRange;
use ramhold_quorum::Life;
use ramhold_wire::Step;

/// The most pages that wait for the state to be on the device.
const WAITING_COUNT_MAX: usize = 64;

impl Brick {
    /// A sibling that is rebuilt asks for a page. The answer is among those of `take_told`.
    pub fn ask_page(&mut self, step: &mut Step<'_>, ask: PageAsk, asker: Asker) {
        match self.hear_life(step, &ask) {
            Ok(()) if self.siblings.waiting.len() < WAITING_COUNT_MAX => {
                self.siblings.waiting.push((ask, asker));
                self.tell_pages(step);
            }
            Ok(()) => self.siblings.told.push(Told { asker, page: Err(Refusal::TooMany) }),
            Err(refusal) => self.siblings.told.push(Told { asker, page: Err(refusal) }),
        }
    }

    /// Notes the life of a brick that asks, if it may ask.
    fn hear_life(&mut self, step: &mut Step<'_>, ask: &PageAsk) -> Result<(), Refusal> {
        let state = self.state_file.newest().filter(|_| self.phase == Phase::Serving);
        let state = state.ok_or(Refusal::NotReady)?;
        tablet_of(state, ask).ok_or(Refusal::NotSibling)?;
        let known = state.lives.iter().find(|known| known.brick == ask.asker);
        let (life, mark) = known.map_or((0, 0), |known| (known.life, known.mark));
        if ask.life < life || (ask.life == life && ask.mark != mark) {
            return Err(Refusal::OldLife);
        }
        if ask.life > life {
            let mut next = state.clone();
            next.lives.retain(|known| known.brick != ask.asker);
            next.lives.push(LifeState { brick: ask.asker, life: ask.life, mark: ask.mark });
            self.state_file.want(next, step.effects);
            self.tables.hear_of(number(ask.asker), Life(ask.life));
        }
        Ok(())
    }

    /// Tells the pages that wait for nothing any more.
    pub(crate) fn tell_pages(&mut self, step: &mut Step<'_>) {
        let Brick { siblings, state_file, store: Some(store), tables, .. } = self else { return };
        if !state_file.is_durable() && !planted(Defect::QuorumToldBeforeLife) {
            return;
        }
        let mut damaged = false;
        for (ask, asker) in std::mem::take(&mut siblings.waiting) {
            let tablet = state_file.durable().and_then(|state| tablet_of(state, &ask));
            let page = match tablet {
                None => Err(Refusal::NotSibling),
                Some(tablet) => {
                    let range = HashRange { table: ask.table, first: ask.first, last: ask.last };
                    let told = tell(store, tables, range, &ask.wanted);
                    damaged |= told.is_none();
                    let page = told.map(|(records, next)| Page {
                        epoch: ask.epoch,
                        votes: tablet.votes && tables.votes(range),
                        records,
                        next,
                    });
                    page.ok_or(Refusal::Retry)
                }
            };
            siblings.told.push(Told { asker, page });
        }
        if damaged {
            self.advance_repairs(step);
        }
    }

    /// The pages since this was last asked.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.siblings.told)
    }

    /// The questions to siblings since this was last asked. They may be lost: they are asked again.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.siblings.calls)
    }

    /// The answer to a question to a sibling.
    pub fn on_page(&mut self, step: &mut Step<'_>, from: ServerId, number: u64, page: Result<Page, Refusal>) {
        if page == Err(Refusal::OldLife) {
            let text = format!(
                "{from} knows a later life of this brick: another process runs on a copy of its directory"
            );
            self.failure.get_or_insert(text);
            return;
        }
        if let Some(rebuilding) = &mut self.siblings.rebuilding {
            rebuilding.on_page(step.now, from, number, page.ok());
        }
        self.advance_rebuilding(step);
    }

    /// Rebuilds the tablets that do not vote, one after the other.
    pub(crate) fn advance_rebuilding(&mut self, step: &mut Step<'_>) {
        let Some(state) = self.state_file.durable().filter(|_| self.phase == Phase::Serving) else { return };
        for tablet in state.tablets.iter().filter(|tablet| tablet.votes) {
            self.tables.rebuilt(tablet.range());
        }
        if self.siblings.rebuilding.is_none() && self.state_file.is_durable() {
            let next = state.tablets.iter().find(|tablet| !tablet.votes);
            let table = next.and_then(|tablet| state.tables.iter().find(|table| table.table == tablet.table));
            let reads = table.and_then(|table| table.thresholds().ok()).map(|numbers| numbers.read());
            let stream = next.and_then(|tablet| self.tables.stream(tablet.range()));
            let (Some(tablet), Some(reads), Some(stream)) = (next, reads, stream) else { return };
            self.siblings.rebuilding = Some(Rebuilding::new(tablet, stream, reads, self.siblings.number));
        }
        let (life, mark) = (state.life, state.mark);
        let Brick { siblings, store: Some(store), tables, clock, .. } = self else { return };
        let Some(rebuilding) = &mut siblings.rebuilding else { return };
        // The bound comes from the time, which nobody has told yet.
        if !tables.siblings(rebuilding.range).is_some_and(|siblings| clock.is_known(siblings)) {
            return;
        }
        let me = Me { life, mark, time: clock.now(step.now).later };
        let outcome = rebuilding.advance(step, (store, tables), me, &mut siblings.calls);
        siblings.number = rebuilding.number();
        let range = rebuilding.range;
        if let Outcome::Rebuilt { is_complete } = outcome {
            siblings.rebuilding = None;
            self.finish_rebuilding(step, range, is_complete);
        }
        self.advance_appended(step);
    }

    fn finish_rebuilding(&mut self, step: &mut Step<'_>, range: HashRange, is_complete: bool) {
        let mut next = self.state_file.newest().expect("a life has begun").clone();
        next.tablets
            .iter_mut()
            .filter(|tablet| tablet.range() == range)
            .for_each(|tablet| tablet.votes = true);
        let HashRange { table, first, last } = range;
        let (level, text) = if is_complete {
            (Level::Info, format!("{table} {first:?} to {last:?} is rebuilt"))
        } else {
            let lost = "too few siblings had everything: writes of the last moments before the power loss may be lost";
            (Level::Error, format!("{table} {first:?} to {last:?} is rebuilt from what is left; {lost}"))
        };
        step.effects.report(level, text);
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

/// The tablet that a question is about, if its asker is one of the siblings.
fn tablet_of<'a>(state: &'a BrickState, ask: &PageAsk) -> Option<&'a TabletState> {
    let range = HashRange { table: ask.table, first: ask.first, last: ask.last };
    let is_it = |tablet: &&TabletState| tablet.range() == range && tablet.epoch == ask.epoch;
    let tablet = state.tablets.iter().find(is_it)?;
    tablet.siblings.iter().any(|sibling| sibling.brick == ask.asker).then_some(tablet)
}
