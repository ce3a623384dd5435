//! A client that goes on with other keys while some of its operations wait. So the load does not fall when a
//! server dies.

use super::{Shared, Worker, nanos};
use crate::journal::Journal;
use crate::waiting::Failure;
use ramhold_client::{Operation, OperationId, RejectRules};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Below the limit of the client library. When all of them wait, so does the load.
const UNDER_WAY_MAX: usize = 1000;
/// The interval of looking for a request to stop, if nothing else happens.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Operations under way. A key has at most one, as the journal requires.
#[derive(Default)]
struct UnderWay {
    operations: BTreeMap<OperationId, Asked>,
    keys: BTreeSet<Vec<u8>>,
}

struct Asked {
    key: Vec<u8>,
    /// The stamp of a write; none: a read.
    stamp: Option<u64>,
    began: Instant,
}

impl Worker {
    /// Begins operations at even intervals, however long earlier ones take, until the load must stop.
    pub(super) fn run_open(&mut self, shared: &Shared) -> Result<Journal, Failure> {
        let mut under_way = UnderWay::default();
        let mut due = Instant::now();
        while !shared.stops.load(Ordering::SeqCst) {
            while due <= Instant::now() && under_way.operations.len() < UNDER_WAY_MAX {
                self.begin(&mut under_way);
                due += Duration::from_nanos(shared.interval_nanos.load(Ordering::SeqCst));
            }
            // Their numbers rise.
            let oldest = under_way.operations.values().next().map(|asked| asked.began);
            shared.reach(self.number, oldest.unwrap_or_else(Instant::now));
            let is_full = under_way.operations.len() == UNDER_WAY_MAX;
            let until = if is_full { LOOK_INTERVAL } else { due.saturating_duration_since(Instant::now()) };
            let left = until.min(LOOK_INTERVAL);
            match self.client.wait_any_within(left) {
                Some((id, outcome)) => {
                    if let Some(asked) = under_way.operations.remove(&id) {
                        under_way.keys.remove(&asked.key);
                        self.settle(asked, outcome, shared);
                    }
                }
                None if under_way.operations.is_empty() => std::thread::sleep(left),
                None => {}
            }
        }
        while let Some((id, outcome)) = self.client.wait_any() {
            if let Some(asked) = under_way.operations.remove(&id) {
                self.settle(asked, outcome, shared);
            }
        }
        Ok(std::mem::take(&mut self.journal))
    }

    fn begin(&mut self, under_way: &mut UnderWay) {
        let number = self.rng.below(self.keys);
        let key = self.key(number);
        if !under_way.keys.insert(key.clone()) {
            return;
        }
        let (operation, stamp) = if self.rng.chance(1, 4) {
            let rules = RejectRules::default();
            (Operation::Read { table: self.table, key: key.clone(), rules }, None)
        } else {
            self.next_stamp += 1;
            let rules = self.rules_that_hold(&key);
            (self.write_of(key.clone(), self.next_stamp, rules), Some(self.next_stamp))
        };
        let began = Instant::now();
        let id = self.client.submit(operation);
        under_way.operations.insert(id, Asked { key, stamp, began });
    }

    fn settle(&mut self, asked: Asked, outcome: ramhold_client::Outcome, shared: &Shared) {
        if asked.stamp.is_none() {
            shared.longest_read_nanos.fetch_max(nanos(asked.began.elapsed()), Ordering::SeqCst);
        }
        let is_done = match asked.stamp {
            Some(stamp) => self.settle_write(asked.key, stamp, outcome, shared),
            None => self.settle_read(asked.key, outcome),
        };
        if is_done {
            self.note_gap();
        }
        // An operation that ended otherwise is counted among the troubles. Its client has waited all the
        // same.
        shared.longest_wait_nanos.fetch_max(nanos(asked.began.elapsed()), Ordering::SeqCst);
        shared.done.fetch_add(u64::from(is_done), Ordering::SeqCst);
    }
}
