//! Things that operations wait for: the cluster's id, descriptions of tables, the lease. The session fetches each with an
//! operation of its own, at most one per thing.
//!
//! Not here: who is asked (`attempts`), bricks in the coordinator's place (`searching`). Catalogue: A3, B5.

use super::Session;
use super::ending::searched;
use super::running::{Purpose, Running, State, Wanted};
use crate::operation::{Operation, OperationId, WhichTable};
use crate::outcome::{Cause, Outcome};
use ramhold_base::{Instant, Status};

impl Session {
    /// Lets an operation wait for a thing that is fetched not before `at`.
    pub(super) fn fetch_for(&mut self, now: Instant, id: OperationId, wanted: Wanted, at: Instant) {
        self.change(id, State::Awaiting(wanted), Instant::FAR);
        self.fetch(now, wanted, at);
    }

    /// Has a thing fetched, not before `at`. A fetch that is under way is used.
    pub(super) fn fetch(&mut self, now: Instant, wanted: Wanted, at: Instant) {
        let at = at.max(now);
        let Some(fetch) = self.fetches.get(&wanted).copied() else {
            let operation = match wanted {
                Wanted::Cluster => Operation::ClusterStatus,
                Wanted::Tablets(table) => Operation::DescribeTable { which: WhichTable::Id(table) },
                Wanted::Lease => self.lease_operation(),
            };
            // Long enough to find a coordinator that answers among a few. After that, the previous knowledge
            // is tried.
            let deadline = at + self.config.attempt_timeout * 2;
            let fetch = self.enter(now, operation, Purpose::Fetch(wanted), deadline, at);
            self.fetches.insert(wanted, fetch);
            if at <= now {
                self.ready.push_back(fetch);
            }
            return;
        };
        let running = &self.running[&fetch];
        if matches!(running.state, State::Pausing) && running.attempt_count == 0 && at < running.wake {
            self.change(fetch, State::Pausing, at);
            if at <= now {
                self.ready.push_back(fetch);
            }
        }
    }

    /// A fetched thing has come, or has failed to come: all operations that wait for it go on.
    pub(super) fn on_fetched(&mut self, now: Instant, wanted: Wanted, fetch: &Running, outcome: Outcome) {
        if wanted == Wanted::Lease {
            self.on_lease_fetched(now, fetch, &outcome);
        }
        let is_waiting = |running: &Running| match running.state {
            State::Awaiting(theirs) => theirs == wanted,
            State::Pausing | State::Posted | State::Calling(_) | State::Asking => false,
        };
        let mut waiting = self.running.those(is_waiting);
        let is_final = match &outcome {
            Outcome::Done(_) | Outcome::Refused { status: Status::LeaseOver, .. } => false,
            Outcome::Refused { cause, .. } => matches!(cause, Cause::Answered | Cause::Unsent),
            Outcome::Unknown { .. } => unreachable!("what changes nothing never ends as unknown"),
        };
        let has_failed = matches!(outcome, Outcome::Refused { .. });
        if let Wanted::Tablets(table) = wanted
            && has_failed
        {
            if is_final {
                self.cache.forget(table);
                waiting.extend(self.asking_about(table, &outcome));
            } else {
                self.cache.trust_again(table);
                let is_found = searched(fetch).is_some_and(|searched| searched.has_part);
                let denied = if is_found { Vec::new() } else { self.quorum.denied(table) };
                for id in denied {
                    let detail = "its bricks say that there is no such table any more".to_owned();
                    self.end_for_good(
                        now,
                        id,
                        Outcome::refused(Status::UnknownTable, Cause::Answered, detail),
                    );
                }
            }
        }
        for id in waiting {
            // A read for a page ends with its page.
            let Some(running) = self.running.get_mut(&id) else { continue };
            running.heard |= fetch.heard;
            if is_final {
                self.end_for_good(now, id, outcome.clone());
                continue;
            }
            if has_failed {
                running.trouble = fetch.trouble;
                running.searched = searched(fetch);
            }
            self.ready.push_back(id);
        }
    }
}
