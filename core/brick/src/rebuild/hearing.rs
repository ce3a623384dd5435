//! The answers of siblings to the questions of a rebuilding: pages that come, are refused, or are late.
//!
//! Not here: questions (`asking`), what is decided of pages (`deciding`). Protocol: docs/protocols/quorum.md, rules 16, 61,
//! 82 and 98. Catalogue: I6.

use super::{PAGE_TIMEOUT_MAX, Phase, Rebuilding};
use ramhold_base::{Instant, ServerId, Status};
use ramhold_wire::bricks::TabletPageTold;

/// A sibling's answer to a question for a page. `Err`: there is no page, with the status; without one nothing has come.
pub(crate) type Told = Result<TabletPageTold, Option<Status>>;

impl Rebuilding {
    /// A sibling's page. `Err`: it has none now, and answered so.
    pub fn on_page(&mut self, now: Instant, from: ServerId, number: u64, page: Told) {
        if self.asked.get(&from).is_none_or(|asked| asked.number != number) {
            return;
        }
        let asked = self.asked.remove(&from).expect("looked up before");
        let stands_in = self.stands_in(from);
        let counts =
            |page: &TabletPageTold| page.epoch == self.epoch || (stands_in && page.epoch < self.epoch);
        let page = match page {
            Ok(page) if counts(&page) => page,
            told => {
                self.refusing.insert(from, told.err().unwrap_or(Some(Status::NotAllowed)));
                return self.wait(now);
            }
        };
        self.refusing.remove(&from);
        match &mut self.phase {
            Phase::Joining => {
                self.pages.insert(from, page);
                if self.pages.len() >= self.witnesses {
                    // Pages of before do not count.
                    self.phase = Phase::Asking { from: 0 };
                    self.pages.clear();
                    self.asked.clear();
                }
            }
            Phase::Asking { .. } if !asked.is_for_values => _ = self.pages.insert(from, page),
            Phase::Fetching { stretch, .. } if asked.is_for_values => {
                let before = stretch.missing_count();
                let is_known = stretch.take(page);
                if stretch.missing_count() < before && self.starved.is_none() {
                    (self.moved_at, self.decided_at) = (Some(now), now);
                }
                if !is_known {
                    self.again();
                }
            }
            Phase::Asking { .. } | Phase::Fetching { .. } | Phase::Closing(_) => {}
        }
    }

    /// Asks for the present stretch once more: something newer was written meanwhile, or a holder is silent. Values
    /// that have come are stored before.
    pub(super) fn again(&mut self) {
        if let Phase::Fetching { from, stretch } = &mut self.phase {
            stretch.give_up(*from);
            self.pages.clear();
            self.asked.clear();
        }
    }

    /// A sibling that did not vote when it told may vote by now. Where nobody votes, the pages of all siblings are needed at
    /// the same time, so they stay as long as one of them may take.
    pub(super) fn refresh(&mut self, now: Instant) {
        if self.refresh_at <= now {
            self.refresh_at = now + self.patience;
            self.pages.retain(|_, page| page.votes);
        }
    }

    pub(super) fn drop_silent(&mut self, now: Instant) {
        let late = self.asked.extract_if(.., |_, asked| asked.until <= now);
        let late: Vec<ServerId> = late.map(|(sibling, _)| sibling).collect();
        if !late.is_empty() {
            self.refusing.extend(late.into_iter().map(|sibling| (sibling, None)));
            self.patience = (self.patience * 2).min(PAGE_TIMEOUT_MAX);
            self.again();
        }
    }
}
