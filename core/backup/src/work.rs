//! Statistics of this backup's work for the recovery of a dead server.
//!
//! Reading, dividing and freeing are counted when they end. The coordinator may ask for the counts at any time, also
//! after the recovery. Several reads may be under way at once: their time is counted once. A step cannot measure its
//! own duration, so the account of a division ends when the next step begins (`recovery_read`). The division is
//! answered at once.
//!
//! Invariants: nothing here influences a decision; the number of remembered servers is bounded.
//!
//! Protocol: docs/protocols/recovery.md, "To be watched". Catalogue: F11.

use crate::Backup;
use ramhold_base::{ConnId, Effects, Instant, Peer, ServerId, Status};
use ramhold_wire::recovery::{RecoveryWork, RecoveryWorked, WorkDone};
use ramhold_wire::{Header, View, decode, reply, reply_with};
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

/// The work for all dead servers.
#[derive(Debug, Default)]
pub(crate) struct Works(BTreeMap<ServerId, Work>);

impl Works {
    pub fn of(&mut self, dead: ServerId) -> &mut Work {
        // The server in question is kept, even if all others are newer.
        while self.0.len() >= SERVER_COUNT_MAX && !self.0.contains_key(&dead) {
            self.0.pop_first();
        }
        self.0.entry(dead).or_default()
    }

    pub fn known(&mut self, dead: ServerId) -> Option<&mut Work> {
        self.0.get_mut(&dead)
    }
}

impl Backup {
    pub(crate) fn on_recovery_work(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let to = Peer::Conn(from);
        match self.check_sender(header, view).and_then(|()| decode::<RecoveryWork>(body)) {
            Ok(question) => {
                let worked = self.worked(now, question.crashed);
                reply_with(effects, to, header, Status::Ok, &worked);
            }
            Err(status) => reply(effects, to, header, status),
        }
    }

    fn worked(&mut self, now: Instant, dead: ServerId) -> RecoveryWorked {
        let work = self.works.known(dead).copied().unwrap_or_default();
        let held = self.replicas.values().filter(|replica| replica.key.log.server == dead).count();
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
        assert_eq!(works.0.len(), SERVER_COUNT_MAX);
        assert!(works.known(ServerId(100)).is_some());
        assert!(works.known(ServerId(1)).is_none());
    }
}
