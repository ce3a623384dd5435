//! Lends the bytes of a step's frames to the connections that still have to send large frames.
//!
//! A large frame that the kernel does not take at once stays where it was written. Its connection keeps a
//! reference to the memory of the step, and the next step writes into other memory, reused if possible. A
//! recovery sends gigabytes in such frames. Copying them into the buffers of their connections would move
//! them twice, often into pages that the system would have to allocate first.
//!
//! Invariant: nobody writes into memory that is lent.

use std::collections::VecDeque;
use std::sync::Arc;

/// Pieces of memory that are kept for steps to come, lent or not: about as many frames as a recovery has on their way.
const KEPT_COUNT_MAX: usize = 16;

#[derive(Default)]
pub(super) struct Lending {
    /// Without bytes; so that a step whose frames are all gone at its end takes no memory for this.
    spare: Option<Arc<Vec<u8>>>,
    kept: VecDeque<Arc<Vec<u8>>>,
    /// Something was lent since the last look.
    busy: bool,
}

impl Lending {
    /// Takes a step's bytes for as long as its effects are executed.
    pub(super) fn lend(&mut self, bytes: &mut Vec<u8>) -> Arc<Vec<u8>> {
        let mut memory = self.spare.take().unwrap_or_default();
        std::mem::swap(Arc::get_mut(&mut memory).expect("a spare is nobody else's"), bytes);
        memory
    }

    /// Gives memory for the next step: the same, or other memory when this is still needed.
    pub(super) fn take_back(&mut self, mut memory: Arc<Vec<u8>>, bytes: &mut Vec<u8>) {
        if Arc::get_mut(&mut memory).is_none() {
            self.busy = true;
            self.kept.push_back(memory);
            let is_free = |memory: &mut Arc<Vec<u8>>| Arc::get_mut(memory).is_some();
            let Some(free) = self.kept.iter_mut().position(is_free) else {
                // A connection that still sends from the oldest memory is then its only owner.
                if self.kept.len() > KEPT_COUNT_MAX {
                    self.kept.pop_front();
                }
                return;
            };
            memory = self.kept.remove(free).expect("found just now");
        }
        std::mem::swap(Arc::get_mut(&mut memory).expect("found to be nobody else's"), bytes);
        self.spare = Some(memory);
    }

    /// Gives memory back when nothing was lent since the last time.
    pub(super) fn shrink(&mut self) {
        if !std::mem::take(&mut self.busy) {
            self.kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_not_written_into_and_used_again_afterwards() {
        let mut lending = Lending::default();
        let mut bytes = b"first".to_vec();
        let place = bytes.as_ptr();
        let lent = lending.lend(&mut bytes);
        let held = Arc::clone(&lent);
        lending.take_back(lent, &mut bytes);
        bytes.clear();
        bytes.extend_from_slice(b"other");
        assert_eq!(*held, b"first");

        drop(held);
        let lent = lending.lend(&mut bytes);
        let held = Arc::clone(&lent);
        lending.take_back(lent, &mut bytes);
        assert_eq!((bytes.as_ptr(), &**held), (place, &b"other"[..]));
    }

    #[test]
    fn memory_that_nobody_holds_is_the_next_steps() {
        let mut lending = Lending::default();
        let mut bytes = b"a frame".to_vec();
        let place = bytes.as_ptr();
        for _ in 0..3 {
            let lent = lending.lend(&mut bytes);
            assert!(bytes.is_empty());
            lending.take_back(lent, &mut bytes);
            assert_eq!(bytes.as_ptr(), place);
        }
    }

    #[test]
    fn no_more_is_kept_than_a_bound_and_nothing_when_idle() {
        let mut lending = Lending::default();
        let mut held = Vec::new();
        for round in 0..3 * KEPT_COUNT_MAX {
            let mut bytes = vec![round as u8];
            let lent = lending.lend(&mut bytes);
            held.push(Arc::clone(&lent));
            lending.take_back(lent, &mut bytes);
            assert!(lending.kept.len() <= KEPT_COUNT_MAX);
        }
        lending.shrink();
        assert!(!lending.kept.is_empty(), "used since the last look");
        lending.shrink();
        assert!(lending.kept.is_empty());
        assert!(held.iter().enumerate().all(|(round, bytes)| ***bytes == [round as u8]));
    }
}
