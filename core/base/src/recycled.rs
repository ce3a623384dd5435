//! Memory that is given away for reading, and used again when all readers are done with it.
//!
//! A recovery sends gigabytes in messages of a megabyte; in new memory each time, finding its pages would cost more than
//! filling them.
//!
//! Who has a budget for it keeps it within that (`bound`), others give it back when nothing was taken for a while (`shrink`).
//!
//! Invariant: what is taken is nobody else's.

use crate::Instant;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Memory that was not asked for in so long is given back.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// What fits has room for so many times what is wanted at most.
const ROOM_MAX: usize = 4;

#[derive(Debug)]
pub struct Recycled {
    kept: VecDeque<Arc<Vec<u8>>>,
    count_max: usize,
    taken_at: Instant,
}

impl Recycled {
    /// Keeps so many pieces at most.
    pub fn new(count_max: usize) -> Recycled {
        Recycled { kept: VecDeque::new(), count_max, taken_at: Instant::ZERO }
    }

    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.count_max
    }

    /// Of all that is kept.
    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|memory| memory.capacity() as u64).sum()
    }

    /// Gives back what is beyond so many bytes.
    pub fn bound(&mut self, bytes_max: u64) {
        let mut bytes = self.bytes();
        while bytes > bytes_max
            && let Some(memory) = self.kept.pop_front()
        {
            bytes -= memory.capacity() as u64;
        }
    }

    /// Memory without bytes in it, used before if somebody is done with some.
    pub fn take(&mut self, now: Instant) -> Vec<u8> {
        self.take_if(now, |_| true).unwrap_or_default()
    }

    /// Memory that has room for so many bytes, and not much more: who takes many pieces has to pay for what they could hold.
    pub fn take_fitting(&mut self, now: Instant, bytes: usize) -> Vec<u8> {
        let fits = |capacity: usize| capacity >= bytes && capacity / ROOM_MAX <= bytes;
        self.take_if(now, fits).unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    fn take_if(&mut self, now: Instant, fits: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        self.taken_at = now;
        let usable = |memory: &mut Arc<Vec<u8>>| Arc::get_mut(memory).is_some_and(|m| fits(m.capacity()));
        let place = self.kept.iter_mut().position(usable)?;
        let mut memory = Arc::into_inner(self.kept.remove(place)?)?;
        memory.clear();
        Some(memory)
    }

    /// Keeps memory for later, though others may still read it.
    pub fn keep(&mut self, memory: Arc<Vec<u8>>) {
        if self.kept.len() == self.count_max {
            // Who still reads the oldest has it for himself.
            self.kept.pop_front();
        }
        self.kept.push_back(memory);
    }

    /// Gives everything back when nothing was taken for a while, and tells whether that is so.
    pub fn shrink(&mut self, now: Instant) -> bool {
        let is_idle = now.since(self.taken_at) > KEPT_FOR;
        if is_idle && !self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
        is_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_nobody_reads_it() {
        let mut recycled = Recycled::new(2);
        let mut bytes = recycled.take(Instant(0));
        bytes.extend_from_slice(b"first");
        let place = bytes.as_ptr();
        let read = Arc::new(bytes);
        recycled.keep(Arc::clone(&read));
        assert_eq!(recycled.take(Instant(0)).capacity(), 0, "it is still read");
        assert_eq!(**read, *b"first");
        drop(read);
        let again = recycled.take(Instant(0));
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn what_is_much_too_large_or_too_small_is_left() {
        let mut recycled = Recycled::new(4);
        for bytes in [1000, 10, 100] {
            recycled.keep(Arc::new(Vec::with_capacity(bytes)));
        }
        let mut take = |bytes| recycled.take_fitting(Instant(0), bytes).capacity();
        assert_eq!(take(30), 100);
        assert_eq!(take(30), 30, "1000 is too much, 10 too little");
        assert_eq!(take(10), 10);
        assert_eq!(take(250), 1000);
        assert_eq!(recycled.bytes(), 0);
    }

    #[test]
    fn memory_stays_within_its_bound() {
        let mut recycled = Recycled::new(4);
        for byte in 0..3 {
            recycled.keep(Arc::new(vec![byte; 10]));
        }
        assert_eq!(recycled.bytes(), 30);
        recycled.bound(29);
        assert_eq!(recycled.bytes(), 20);
        recycled.bound(20);
        assert_eq!(recycled.bytes(), 20);
        recycled.bound(0);
        assert_eq!(recycled.bytes(), 0);
    }

    #[test]
    fn so_much_is_kept_and_for_so_long() {
        let mut recycled = Recycled::new(2);
        for byte in 0..3 {
            recycled.keep(Arc::new(vec![byte; 10]));
        }
        assert_eq!(recycled.kept.len(), 2);
        assert!(recycled.take(Instant(7)).capacity() > 0);
        assert!(!recycled.shrink(Instant(7) + KEPT_FOR));
        assert_eq!(recycled.kept.len(), 1);
        assert!(recycled.shrink(Instant(8) + KEPT_FOR));
        assert!(recycled.kept.is_empty());
    }
}
