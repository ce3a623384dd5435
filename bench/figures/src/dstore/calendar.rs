//! The next events in a simulated cluster. Events at one time happen in the order in which they were noted.

use ramhold_base::{Instant, Lost};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// An event. Bricks and sessions are named by their places; `life` makes events of a killed process void.
#[derive(Debug)]
pub enum Event {
    /// A session's frame reaches a brick.
    Asked {
        brick: usize,
        session: usize,
        frame: Vec<u8>,
    },
    /// A frame reaches a session.
    Told {
        session: usize,
        frame: Vec<u8>,
    },
    Lost {
        session: usize,
        addr: SocketAddr,
        how: Lost,
    },
    /// A session's timer.
    Tick {
        session: usize,
    },
    /// The processor of a brick has done its question.
    Worked {
        brick: usize,
        life: u64,
    },
    /// The spindle of a brick has done its access.
    Turned {
        brick: usize,
        life: u64,
    },
    /// A client begins an operation.
    Begin {
        session: usize,
        lane: usize,
    },
    /// Bricks announce themselves.
    Announce,
}

struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
pub struct Calendar {
    pub now: Instant,
    number: u64,
    entries: BinaryHeap<Reverse<Entry>>,
}

impl Calendar {
    pub fn note(&mut self, at: Instant, event: Event) {
        self.number += 1;
        self.entries.push(Reverse(Entry { at: at.max(self.now), number: self.number, event }));
    }

    /// Takes the next event before `end`, and goes on to its time. Without one it goes on to `end`.
    pub fn next(&mut self, end: Instant) -> Option<Event> {
        if self.entries.peek().is_none_or(|Reverse(first)| first.at >= end) {
            self.now = end;
            return None;
        }
        let Reverse(first) = self.entries.pop()?;
        self.now = first.at;
        Some(first.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_noting() {
        let mut calendar = Calendar::default();
        for (at, act) in [(3, 0), (1, 1), (3, 2), (2, 3)] {
            calendar.note(Instant(at), Event::Tick { session: act });
        }
        let mut order = Vec::new();
        while let Some(Event::Tick { session: act }) = calendar.next(Instant(4)) {
            order.push(act);
        }
        assert_eq!((order, calendar.now), (vec![1, 3, 0, 2], Instant(4)));
    }
}
