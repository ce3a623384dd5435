//! Pages of scans among the operations of a session.
//!
//! Not here: the life of one page (`paging`), the operations that read its keys (`session::asking`). Catalogue: A6.

use super::paging::{PageNext, Paging, heard};
use super::post::Question;
use super::under_way::Next;
use super::{Call, Progress, Quorum};
use crate::operation::{OperationId, Target};
use crate::outcome::{Cause, Outcome};
use crate::trouble::{Trouble, What, Who};
use ramhold_base::{Instant, Status};
use ramhold_quorum::{BrickId, PageOut, PageSaid};
use ramhold_wire::brick_page::BrickPageReply;

impl Quorum {
    pub(super) fn start_page(&mut self, now: Instant, id: OperationId) -> Option<Progress> {
        let ranked = self.ranked(now, &self.pages.get(&id)?.bricks);
        let page = self.pages.get_mut(&id)?;
        let mut outs = Vec::new();
        page.start(now, &ranked, &mut outs);
        Some(self.post_pages(id, PageNext::Wait, outs))
    }

    fn post_pages(&mut self, operation: OperationId, next: PageNext, outs: Vec<PageOut>) -> Progress {
        let page = &self.pages[&operation];
        let next = next_of(page, next);
        let (bricks, round) = (page.bricks.clone(), page.round);
        let mut wake = None;
        for out in outs {
            let (to, has_values) = match out {
                PageOut::WakeAt(at) => {
                    wake = Some(at);
                    continue;
                }
                PageOut::Send { to, has_values } => (to, has_values),
            };
            let place = bricks.places.iter().find(|place| place.brick.raw() == to.0);
            let Some(place) = place else { continue };
            let question = Question::Page(self.pages[&operation].request(has_values));
            self.post(operation, round, (place.brick, place.address.0), question);
        }
        Progress { operation, next, wake, is_contradicted: false, has_changed: false }
    }

    /// The answer to a question for a page.
    pub(super) fn on_page(
        &mut self,
        now: Instant,
        call: &Call,
        position: u64,
        body: &[u8],
    ) -> Option<Progress> {
        let read = BrickPageReply::decode(body).ok().and_then(|reply| heard(call.brick, position, reply));
        let Some(heard) = read else { return self.on_trouble(now, call, What::Unreadable) };
        self.health.heard(now, call.brick);
        let clock = self.clock.as_mut().expect("made with the first operation");
        clock.hear(now, heard.from, heard.clock);
        let page = self.pages.get_mut(&call.operation).filter(|page| page.round == call.round)?;
        page.silence.heard(heard.from);
        let has_changed = heard.epoch > page.bricks.epoch;
        let is_contradicted = has_changed || matches!(heard.said, PageSaid::WrongOwner);
        let next = page.on_answer(now, heard, clock);
        let progress = self.post_pages(call.operation, next, Vec::new());
        Some(Progress { is_contradicted, has_changed, ..progress })
    }

    pub(super) fn on_page_trouble(&mut self, call: &Call, what: What) -> Option<Progress> {
        let page = self.pages.get_mut(&call.operation).filter(|page| page.round == call.round)?;
        let brick = BrickId(call.brick.raw());
        page.silence.note(brick, what);
        let mut outs = Vec::new();
        page.on_silent(brick, &mut outs);
        Some(self.post_pages(call.operation, PageNext::Wait, outs))
    }

    pub(super) fn on_page_time(&mut self, now: Instant, id: OperationId) -> Option<Progress> {
        let page = self.pages.get_mut(&id)?;
        let clock = self.clock.as_ref().expect("made with the first operation");
        let mut outs = Vec::new();
        let mut next = page.on_time(now, clock, &mut outs);
        if now >= page.deadline && matches!(next, PageNext::Wait) {
            let reads = page.reads();
            next = PageNext::End(self.reads_ended(now, &reads));
        }
        Some(self.post_pages(id, next, outs))
    }

    /// The time is over, and a key of a page is still being read: the first such read says why.
    fn reads_ended(&mut self, now: Instant, reads: &[OperationId]) -> Outcome {
        let clock = self.clock.as_mut().expect("made with the first operation");
        for read in reads {
            let Some(it) = self.under_way.get_mut(read) else { continue };
            if let Next::End(outcome) = it.on_time(now, clock, &mut Vec::new()) {
                return outcome;
            }
        }
        let detail = "the bricks differ about some keys, which could not be read in time".to_owned();
        Outcome::refused(Status::Retry, Cause::Deadline, detail)
    }

    /// The next key that a page wants to be read. `read_began` must follow.
    pub fn next_read(&mut self, id: OperationId) -> Option<Vec<u8>> {
        self.pages.get_mut(&id)?.next_read()
    }

    pub fn read_began(&mut self, id: OperationId, read: OperationId) {
        if let Some(page) = self.pages.get_mut(&id) {
            page.read_began(read);
        }
    }

    /// The operations that read keys for a page.
    pub fn reads(&self, id: OperationId) -> Vec<OperationId> {
        self.pages.get(&id).map(Paging::reads).unwrap_or_default()
    }

    /// A read for a page has ended. `None`: the page has ended before.
    pub fn on_read(
        &mut self,
        now: Instant,
        id: OperationId,
        read: OperationId,
        outcome: Outcome,
    ) -> Option<Progress> {
        let next = self.pages.get_mut(&id)?.on_read(now, read, outcome);
        Some(self.post_pages(id, next, Vec::new()))
    }

    /// The hash of a page, as the target of its operation.
    pub(super) fn page_target(page: &Paging) -> Target<'_> {
        Target::Hash(page.cursor.first())
    }
}

fn next_of(page: &Paging, next: PageNext) -> Next {
    match next {
        PageNext::Wait => Next::Wait,
        PageNext::Read => Next::Read,
        PageNext::End(outcome) => Next::End(outcome),
        PageNext::Elsewhere => {
            let place = page.bricks.places[0];
            let what = What::Answered(Status::WrongOwner);
            Next::Elsewhere(Trouble { who: Who::Brick(place.brick), addr: place.address.0, what })
        }
        PageNext::TooFew(silent) => {
            let thresholds = page.bricks.thresholds;
            let needed = thresholds.write().max(thresholds.read());
            let detail = page.silence.text(&page.bricks, &silent, ("tablet", needed));
            let status = page.silence.status(&page.bricks, &silent, needed);
            Next::End(Outcome::refused(status, Cause::Deadline, detail))
        }
    }
}
