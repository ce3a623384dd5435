//! The end of an operation on a quorum table: the outcome that the end of a register's machine means for it.
//!
//! Invariant: a put of which any brick may have stored the stamp ends done, refused for good, or unknown.
//!
//! Not here: the way to it (`under_way`).

use super::{End, Machine, Next, Open, UnderWay};
use crate::outcome::{Cause, Outcome, Reply};
use crate::quorum::order::{Value, What};
use crate::token::Token;
use crate::trouble::What as Problem;
use ramhold_base::{ClusterTime, Instant, ServerId, Stamp, Status, Version};
use ramhold_quorum::{AHEAD_PUT, BrickId, GRAVE_TIME, Got, SessionClock, StaleGot, Written};
use std::sync::Arc;
use std::time::Duration;

impl UnderWay {
    pub(super) fn end(&mut self, now: Instant, end: End, clock: &SessionClock) -> Next {
        let is_settling = matches!(self.machine, Machine::Settling(_));
        if self.is_read() && !matches!(self.machine, Machine::Get(_)) {
            return self.end_settling(now, end);
        }
        let is_removal = match &self.order.what {
            What::Read | What::ReadStale | What::Write { .. } => false,
            What::Remove => true,
            What::Resume => self.open.as_ref().is_some_and(|open| open.value.is_none()),
        };
        match end {
            End::Put(Written::Done(stamp)) => {
                self.settled = Some(stamp);
                Next::End(written(stamp, is_removal))
            }
            End::Put(Written::Unknown(stamp)) => {
                let needed = self.needed();
                // Without a brick that may have stored the stamp, the put has surely had no effect.
                let silent = self.stop_writing(Some(stamp).filter(|stamp| self.may_be_stored(*stamp)));
                if !silent.is_empty() {
                    return Next::End(self.too_few(&silent, needed));
                }
                // With R below W, a brick that is rebuilt may take the value over, and the put is committed after all.
                let thresholds = self.bricks.thresholds;
                let may_change = thresholds.read() < thresholds.write();
                Next::End(nobody_knows(self.token().filter(|_| may_change)))
            }
            End::Put(Written::WrongOwner(stamp)) => {
                self.stop_writing(stamp);
                Next::Elsewhere(self.trouble(Problem::Answered(Status::WrongOwner)))
            }
            End::Got(Got::WrongOwner) | End::Stale(StaleGot::WrongOwner) => {
                self.suspend();
                Next::Elsewhere(self.trouble(Problem::Answered(Status::WrongOwner)))
            }
            End::Put(Written::NoQuorum(silent))
            | End::Got(Got::NoQuorum(silent))
            | End::Stale(StaleGot::NoAnswer(silent)) => Next::End(self.too_few(&silent, self.needed())),
            End::Put(Written::Never) => self.never("the key's bricks have something newer"),
            End::Got(Got::Found(newest, _)) if is_settling => self.settle(newest, is_removal, clock.now(now)),
            End::Got(Got::Found(stamp, value)) => Next::End(self.found(stamp, value)),
            End::Stale(StaleGot::Told { from, stamp, value, time }) => {
                self.value_from = ServerId(from.0);
                let value = value.filter(|value| value.end().is_none_or(|end| time < end));
                Next::End(self.found(stamp, value))
            }
            End::Got(Got::Contended) => {
                let detail = "something newer was written to the key each time it was read".to_owned();
                Next::End(match self.token() {
                    None => Outcome::refused(Status::Retry, Cause::Deadline, detail),
                    token => Outcome::Unknown { detail, token },
                })
            }
        }
    }

    /// A get has settled a put of its session, or has tried to.
    fn end_settling(&mut self, now: Instant, end: End) -> Next {
        let silent = match end {
            End::Put(Written::WrongOwner(_)) | End::Got(Got::WrongOwner) => {
                self.machine = Machine::Waiting;
                return Next::Elsewhere(self.trouble(Problem::Answered(Status::WrongOwner)));
            }
            // Every later get finds the put or something newer.
            End::Put(Written::Done(_) | Written::Never) | End::Got(Got::Found(..)) => {
                self.settled = self.open.as_ref().map(|open| open.stamp);
                None
            }
            End::Put(Written::Unknown(_)) => match &self.machine {
                Machine::Put { put, .. } => Some(put.silent()),
                _ => None,
            },
            End::Put(Written::NoQuorum(silent)) | End::Got(Got::NoQuorum(silent)) => Some(silent),
            // A get that may be stale settles nothing.
            End::Got(Got::Contended) | End::Stale(_) => None,
        };
        if let Some(silent) = silent.filter(|_| now >= self.deadline) {
            let needed = self.needed();
            self.machine = Machine::Waiting;
            return Next::End(self.too_few(&silent, needed));
        }
        self.open = None;
        self.machine = Machine::Waiting;
        self.is_next_due = true;
        Next::Wait
    }

    /// A put has ended without its end, and this stamp of it is open. Returns the bricks that are silent.
    fn stop_writing(&mut self, stamp: Option<Stamp>) -> Vec<BrickId> {
        let Machine::Put { put, value } = std::mem::replace(&mut self.machine, Machine::Waiting) else {
            unreachable!("only a put ends as one");
        };
        let begun = put.begun();
        self.open = stamp.map(|stamp| Open { stamp, value, begun });
        put.silent()
    }

    /// All bricks have told their newest value by this time, and the newest of all is committed.
    fn settle(&mut self, newest: Stamp, is_removal: bool, time: Option<u64>) -> Next {
        let Some(Open { stamp, begun, .. }) = self.open else {
            unreachable!("only an open put is settled");
        };
        // Now, and not when the get began: the last brick may have answered long after that. Two sessions may see the
        // time as differently as a put may be ahead.
        let age = time.map(|time| Duration::from_micros(time.saturating_sub(begun)));
        let may_be_buried = age.is_none_or(|age| age + AHEAD_PUT > GRAVE_TIME);
        self.settled = Some(stamp);
        match newest.cmp(&stamp) {
            std::cmp::Ordering::Equal => Next::End(written(stamp, is_removal)),
            // It was done, and its end has come since.
            std::cmp::Ordering::Greater if newest == stamp.of_expiry() => {
                Next::End(written(stamp, is_removal))
            }
            // A tombstone that was newer may have gone since, and everything older with it.
            std::cmp::Ordering::Less if newest.is_none() && may_be_buried => Next::End(nobody_knows(None)),
            std::cmp::Ordering::Less => self.never("no brick has it, and none stores it any more"),
            std::cmp::Ordering::Greater => Next::End(nobody_knows(None)),
        }
    }

    /// The open stamp was never committed, and never will be.
    fn never(&mut self, why: &str) -> Next {
        self.settled = self.open.take().map(|open| open.stamp);
        self.machine = Machine::Waiting;
        if matches!(self.order.what, What::Resume) {
            let detail = format!("the operation never took effect, and never will: {why}");
            return Next::End(Outcome::refused(Status::WrongVersion, Cause::Answered, detail));
        }
        // The operation begins anew, with another stamp.
        Next::Anew(self.trouble(Problem::Answered(Status::Retry)))
    }

    fn found(&self, stamp: Stamp, value: Option<Value>) -> Outcome {
        let Some(Value { bytes, expires }) = value else {
            let who = match self.order.what {
                What::ReadStale => "the brick that was asked",
                What::Read | What::Write { .. } | What::Remove | What::Resume => "the key's bricks",
            };
            let detail = format!("{who} answered: {}", Status::NotFound);
            return Outcome::refused(Status::NotFound, Cause::Answered, detail);
        };
        Outcome::Done(Reply::Read {
            version: Version(stamp.time),
            time: ClusterTime(stamp.time / 1000).seconds(),
            expires,
            value: Arc::try_unwrap(bytes).unwrap_or_else(|bytes| bytes.to_vec()),
            answered_by: self.value_from,
        })
    }
}

/// The fate of a put that was overwritten before anybody could tell whether it was committed.
fn nobody_knows(token: Option<Box<Token>>) -> Outcome {
    let detail = "the key was written again since, so nobody can tell any more".to_owned();
    Outcome::Unknown { detail, token }
}

fn written(stamp: Stamp, is_removal: bool) -> Outcome {
    let version = Version(stamp.time);
    Outcome::Done(if is_removal { Reply::Removed { version } } else { Reply::Written { version } })
}
