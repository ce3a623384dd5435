//! Statistics of this backup's work for the recovery of a dead server.
//!
//! Reading, dividing and freeing are counted when they end. The coordinator may ask for the counts at any time, also
//! after the recovery. Several reads may be under way at once: their time is counted once. A step cannot measure its
//! own duration, so the account of a division ends when the next step begins. The division is answered at once.
//!
//! Invariants: nothing here influences a decision; the number of remembered servers is bounded.
//!
//! Protocol: docs/protocols/recovery.md, "To be watched". Catalogue: F11.

use crate::replicas::Replicas;
use ramhold_base::{Instant, ServerId};
use ramhold_wire::recovery::{RecoveryWorked, WorkDone};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most dead servers that are remembered: the newest ones by their ids.
const SERVER_COUNT_MAX: usize = 64;

/// The work for one dead server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub read: Account,
    pub divide: Account,
    pub free: Account,
}

/// One kind of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    count: u64,
    bytes: u64,
    under_way: u64,
    /// While work is under way, the instant since when.
    since: Instant,
    busy: Duration,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Account {
    pub fn begin(&mut self, now: Instant) {
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
        self.began.get_or_insert(now);
    }

    /// One piece of work is over. `bytes` is `None` if it failed.
    pub fn end(&mut self, now: Instant, bytes: Option<u64>) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.busy += now.since(self.since);
        }
        if let Some(bytes) = bytes {
            self.count += 1;
            self.bytes += bytes;
            self.ended = Some(now);
        }
    }

    fn told(&self, now: Instant) -> WorkDone {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let running = if self.under_way > 0 { now.since(self.since) } else { Duration::ZERO };
        let ago = |at: Option<Instant>| at.map(|at| micros(now.since(at)));
        WorkDone {
            count: self.count,
            bytes: self.bytes,
            busy: micros(self.busy + running),
            began: ago(self.began),
            ended: ago(self.ended),
        }
    }
}

/// The end of the read of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentRead {
    Failed,
    Corrupt { bytes: u64 },
    Sound { bytes: u64 },
}

/// A segment that was divided in this step. Only the next step can tell how long that took.
#[derive(Debug)]
struct Dividing {
    dead: ServerId,
    /// `None` if the segment was found to be corrupt.
    bytes: Option<u64>,
}

/// The work for all dead servers.
#[derive(Debug, Default)]
pub(crate) struct Works {
    by_server: BTreeMap<ServerId, Work>,
    dividing: Vec<Dividing>,
}

impl Works {
    pub fn of(&mut self, dead: ServerId) -> &mut Work {
        // The server in question is kept, even if all others are newer.
        while self.by_server.len() >= SERVER_COUNT_MAX && !self.by_server.contains_key(&dead) {
            self.by_server.pop_first();
        }
        self.by_server.entry(dead).or_default()
    }

    pub fn known(&mut self, dead: ServerId) -> Option<&mut Work> {
        self.by_server.get_mut(&dead)
    }

    /// The read of a segment is over. A segment that was read is divided in this step.
    pub fn on_read(&mut self, now: Instant, dead: ServerId, read: SegmentRead) {
        let Some(work) = self.by_server.get_mut(&dead) else { return };
        let (read, divided) = match read {
            SegmentRead::Failed => return work.read.end(now, None),
            SegmentRead::Corrupt { bytes } => (bytes, None),
            SegmentRead::Sound { bytes } => (bytes, Some(bytes)),
        };
        work.read.end(now, Some(read));
        work.divide.begin(now);
        self.dividing.push(Dividing { dead, bytes: divided });
    }

    /// Accounts for the segments that the step before has divided. Called when a step begins.
    pub fn note_divided(&mut self, now: Instant) {
        for Dividing { dead, bytes } in self.dividing.drain(..) {
            if let Some(work) = self.by_server.get_mut(&dead) {
                work.divide.end(now, bytes);
            }
        }
    }

    /// The device has failed: what was divided in this step does not count.
    pub fn fail(&mut self) {
        self.dividing.clear();
    }

    pub fn told(&self, now: Instant, dead: ServerId, replicas: &Replicas) -> RecoveryWorked {
        let work = self.by_server.get(&dead).copied().unwrap_or_default();
        let held = replicas.iter().filter(|replica| replica.key.log.server == dead).count();
        RecoveryWorked {
            read: work.read.told(now),
            divide: work.divide.told(now),
            free: work.free.told(now),
            held: held as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant(micros * 1000)
    }

    // F11
    #[test]
    fn time_of_work_side_by_side_is_counted_once() {
        let mut account = Account::default();
        account.begin(at(10));
        account.begin(at(20));
        account.end(at(30), Some(7));
        account.end(at(50), None);
        account.begin(at(100));
        let told = WorkDone { count: 1, bytes: 7, busy: 45, began: Some(95), ended: Some(75) };
        assert_eq!(account.told(at(105)), told, "40 of the first two, 5 of what is under way");
    }

    #[test]
    fn the_servers_that_are_remembered_are_bounded() {
        let mut works = Works::default();
        (1..=100).for_each(|id| works.of(ServerId(id)).read.begin(at(1)));
        assert_eq!(works.by_server.len(), SERVER_COUNT_MAX);
        assert!(works.known(ServerId(100)).is_some());
        assert!(works.known(ServerId(1)).is_none());
    }
}
