//! Memory that is given away for reading, and used again when all readers are done with it.
//!
//! A recovery sends gigabytes in messages of a megabyte. With new memory for each message, page faults would
//! cost more than filling the memory.
//!
//! An owner that has a memory budget keeps within it (`bound`). Others give the memory back when nothing was
//! taken for a while (`shrink`).
//!
//! Invariant: memory that is taken has no other user.

use crate::Instant;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Memory that was not asked for during this time is given back.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// `take_fitting` takes memory of at most `ROOM_MAX` times the wanted size.
const ROOM_MAX: usize = 4;

#[derive(Debug)]
pub struct Recycled {
    kept: VecDeque<Arc<Vec<u8>>>,
    count_max: usize,
    taken_at: Instant,
}

impl Recycled {
    /// Keeps at most `count_max` pieces.
    pub fn new(count_max: usize) -> Recycled {
        Recycled { kept: VecDeque::new(), count_max, taken_at: Instant::ZERO }
    }

    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.count_max
    }

    /// The size of all kept pieces.
    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|memory| memory.capacity() as u64).sum()
    }

    /// Gives back the oldest pieces until at most `bytes_max` are kept.
    pub fn bound(&mut self, bytes_max: u64) {
        let mut bytes = self.bytes();
        while bytes > bytes_max
            && let Some(memory) = self.kept.pop_front()
        {
            bytes -= memory.capacity() as u64;
        }
    }

    /// Empty memory, used before if the readers of some piece are done.
    pub fn take(&mut self, now: Instant) -> Vec<u8> {
        self.take_if(now, |_| true).unwrap_or_default()
    }

    /// Memory with room for `bytes`, and not much more: an owner of many pieces has to pay for all that they
    /// could hold.
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
            // Its readers, if any, keep the oldest piece to themselves.
            self.kept.pop_front();
        }
        self.kept.push_back(memory);
    }

    /// Gives everything back when nothing was taken for a while. Returns whether that is so.
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
