//! The medium behind a brick: one spindle that does one read or write after the other, and the file cache before it.
//!
//! A read of a value that is not in the cache is waited for before the register is asked. A write is stored in the register
//! at once, and its answer waits for the ticket, as with synced tables. Classes share the spindle as the paper's threads
//! do, 32 gets to 14 puts to 10 stamps.
//!
//! This is a model. The product has all values in memory, and a log instead of random writes.
//!
//! Invariant: writes end in the order in which they came.

use ramhold_brick::SHARES;
use ramhold_quorum::Class;
use std::collections::VecDeque;

/// Divided by a share it is the weight of one access.
const STRIDE: u64 = 32 * 14 * 10;

/// Accesses of the kind `T` that wait for the spindle.
pub struct Medium<T> {
    lists: [VecDeque<T>; Class::ALL.len()],
    /// The service that each class has had, in weights. The next is of the class that has had the least.
    passed: [u64; Class::ALL.len()],
    /// The service that the last one had had before its turn.
    turn: u64,
    under_way: Option<T>,
}

impl<T> Default for Medium<T> {
    fn default() -> Medium<T> {
        Medium { lists: Default::default(), passed: [0; Class::ALL.len()], turn: 0, under_way: None }
    }
}

impl<T> Medium<T> {
    pub fn push(&mut self, class: Class, access: T) {
        let at = class.index();
        if self.lists[at].is_empty() {
            // A class that was idle has saved nothing up.
            self.passed[at] = self.passed[at].max(self.turn);
        }
        self.lists[at].push_back(access);
    }

    /// Begins the next access, if the spindle is free.
    pub fn begin(&mut self) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        let waiting = (0..Class::ALL.len()).filter(|at| !self.lists[*at].is_empty());
        let Some(at) = waiting.min_by_key(|at| self.passed[*at]) else { return false };
        self.turn = self.passed[at];
        self.passed[at] += STRIDE / SHARES[at] as u64;
        self.under_way = self.lists[at].pop_front();
        true
    }

    /// All that wait or are under way.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.lists.iter().flatten().chain(&self.under_way)
    }

    /// The access under way is over.
    pub fn end(&mut self) -> Option<T> {
        self.under_way.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I5
    #[test]
    fn classes_share_the_spindle_and_a_class_alone_has_all_of_it() {
        let mut medium = Medium::default();
        for class in Class::ALL {
            (0..560).for_each(|_| medium.push(class, class));
        }
        let mut counts = [0; Class::ALL.len()];
        for _ in 0..560 {
            assert!(medium.begin() && !medium.begin(), "one at a time");
            counts[medium.end().expect("it is under way").index()] += 1;
        }
        let is_close =
            counts.iter().zip([320, 140, 100]).all(|(count, due): (&i32, i32)| count.abs_diff(due) <= 2);
        assert!(is_close, "{counts:?}");
        while medium.begin() {
            assert!(medium.end().is_some());
        }
        medium.push(Class::Put, Class::Put);
        medium.push(Class::Put, Class::Put);
        medium.push(Class::Get, Class::Get);
        let mut next = || {
            assert!(medium.begin());
            medium.end()
        };
        let order = [next(), next(), next()].map(|class| class.expect("it is under way"));
        assert!(order[..2].contains(&Class::Get), "nobody has saved anything up: {order:?}");
    }
}
