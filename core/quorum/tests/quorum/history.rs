//! The operations of sessions on one key, and whether one register could have done it.

use crate::model::has_end;
use std::collections::BTreeSet;

/// One operation. An end of `u64::MAX` is none.
#[derive(Clone, Debug)]
pub struct Operation {
    pub is_put: bool,
    /// A put puts it, a get got it; 0 is nothing.
    pub value: u64,
    pub began: u64,
    pub ended: u64,
    /// Without it a put may have taken effect at any later time or never, and a get says nothing.
    pub is_done: bool,
}

impl Operation {
    pub fn begin(is_put: bool, value: u64, began: u64) -> Operation {
        Operation { is_put, value, began, ended: u64::MAX, is_done: false }
    }

    pub fn end(&mut self, ended: u64) {
        (self.ended, self.is_done) = (ended, true);
    }
}

/// Whether there is an order of the operations that a register allows, and that keeps to the clock: a search.
pub fn is_linearizable(history: &[Operation]) -> bool {
    let operations: Vec<&Operation> = history.iter().filter(|it| it.is_done || it.is_put).collect();
    assert!(operations.len() < 64, "the search has a bit for each operation");
    let done = operations.iter().enumerate().filter(|(_, it)| it.is_done);
    let must: u64 = done.map(|(at, _)| 1 << at).sum();
    let mut seen = BTreeSet::new();
    let mut stack = vec![(0_u64, 0_u64)];
    while let Some((taken, value)) = stack.pop() {
        if taken & must == must {
            return true;
        }
        if !seen.insert((taken, value)) {
            continue;
        }
        let left = || operations.iter().enumerate().filter(move |(at, _)| taken >> at & 1 == 0);
        // A value that ends may have done so by now: sessions' clocks differ.
        if has_end(value) {
            stack.push((taken, 0));
        }
        // Nothing may be taken that began after something else has ended.
        let first_end = left().map(|(_, it)| it.ended).min().unwrap_or(u64::MAX);
        for (at, operation) in left().filter(|(_, it)| it.began <= first_end) {
            if operation.is_put {
                stack.push((taken | 1 << at, operation.value));
            } else if operation.value == value {
                stack.push((taken | 1 << at, value));
            }
        }
    }
    false
}

#[test]
fn the_search_knows_stale_reads_from_concurrent_ones() {
    let at = |is_put, value, began, ended| Operation { is_put, value, began, ended, is_done: true };
    let puts = [at(true, 1, 0, 10), at(true, 2, 20, 30)];
    let with = |more: &[Operation]| is_linearizable(&[&puts[..], more].concat());
    assert!(with(&[at(false, 2, 40, 50)]));
    assert!(!with(&[at(false, 1, 40, 50)]), "a stale read");
    assert!(with(&[at(false, 1, 25, 50)]), "the second put was under way");
    assert!(!with(&[at(false, 2, 22, 25), at(false, 1, 26, 29)]), "seen, and not seen again");
    let lost = Operation::begin(true, 3, 5);
    assert!(with(&[lost.clone(), at(false, 3, 90, 95)]), "an unknown put may take effect late");
    assert!(with(&[lost]), "or never");
}
