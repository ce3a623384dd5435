//! The values of a simulated brick: of each key the newest stamp, and what the medium has not stored yet.
//!
//! Values themselves all have one size and no content, so 27 bricks fit into memory.
//!
//! Not here: which writes are stored (core/quorum), when the medium has them (`medium`).

use ramhold_quorum::{Applied, NoRoom, Shelf, Stamp, Stored, Ticket};
use std::collections::VecDeque;

/// A key by its number.
pub type Key = u32;
/// A value: its size.
pub type Size = u32;

#[derive(Debug)]
pub struct Values {
    newest: Vec<Stamp>,
    size: Size,
    applied: Applied<Key>,
    ticket_last: u64,
    /// All that is stored and not on the medium: ticket, key, and the stamp before.
    open: VecDeque<(Ticket, Key, Stamp)>,
}

impl Values {
    /// Every key has been written long ago.
    pub fn new(count: u32, (size, stamp): (Size, Stamp)) -> Values {
        let newest = vec![stamp; count as usize];
        Values { newest, size, applied: Applied::default(), ticket_last: 0, open: VecDeque::new() }
    }

    /// The last ticket that was given out.
    pub fn ticket_last(&self) -> Ticket {
        Ticket(self.ticket_last)
    }

    /// The medium has everything up to this ticket.
    pub fn is_durable(&mut self, through: Ticket) {
        while self.open.pop_front_if(|(ticket, ..)| *ticket <= through).is_some() {}
    }

    /// Stamps up to this time are forgotten as overwritten ones.
    pub fn forget(&mut self, bound: u64) {
        self.applied.forget(bound);
    }

    /// The process was killed: what the medium does not have is gone, and nothing is known of what was overwritten up to
    /// this time.
    pub fn lose(&mut self, now: u64) {
        while let Some((_, key, before)) = self.open.pop_back() {
            self.newest[key as usize] = before;
        }
        self.applied = Applied::default();
        self.applied.forget(now);
    }

    /// The keys of which this brick has something older than another one.
    pub fn behind(&self, other: &Values, keys: impl Iterator<Item = Key>) -> usize {
        keys.filter(|key| self.newest[*key as usize] < other.newest[*key as usize]).count()
    }

    /// Takes a key over from another brick.
    pub fn copy(&mut self, other: &Values, key: Key) {
        let stamp = other.newest[key as usize];
        let own = &mut self.newest[key as usize];
        *own = stamp.max(*own);
    }
}

impl Shelf<Key, Size> for Values {
    fn newest(&self, key: &Key) -> Stamp {
        self.newest[*key as usize]
    }

    fn value(&self, _: &Key) -> Option<Size> {
        Some(self.size)
    }

    fn has_applied(&self, key: &Key, stamp: Stamp) -> bool {
        self.applied.has(key, stamp)
    }

    fn has_forgotten(&self, stamp: Stamp) -> bool {
        self.applied.has_forgotten(stamp)
    }

    fn store(&mut self, key: &Key, stamp: Stamp, _: Option<Size>) -> Result<Stored, NoRoom> {
        let before = std::mem::replace(&mut self.newest[*key as usize], stamp);
        self.applied.note(key, before);
        self.ticket_last += 1;
        let ticket = Ticket(self.ticket_last);
        self.open.push_back((ticket, *key, before));
        Ok(Stored::Later(ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I2
    #[test]
    fn a_killed_brick_has_what_the_medium_had_and_knows_nothing_of_what_was_overwritten() {
        let at = |time| Stamp { time, session: 2 };
        let mut values = Values::new(2, (1024, at(1)));
        for (key, time) in [(0, 5), (1, 6), (0, 7)] {
            values.store(&key, at(time), Some(1024)).expect("there is room");
        }
        assert!(values.has_applied(&0, at(5)));
        values.is_durable(Ticket(1));
        values.lose(9);
        assert_eq!((values.newest(&0), values.newest(&1)), (at(5), at(1)));
        assert!(values.has_forgotten(at(7)) && !values.has_applied(&0, at(5)));
        let mut other = Values::new(2, (1024, at(1)));
        assert_eq!(other.behind(&values, 0..2), 1);
        other.copy(&values, 0);
        assert_eq!(other.behind(&values, 0..2), 0);
    }
}
