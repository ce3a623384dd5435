//! The peak memory of a piece of code.
//!
//! The meter wraps the system's allocator and counts each thread by itself, so that tests on other threads do
//! not disturb it.

#![expect(unsafe_code, reason = "an allocator is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Metered;

#[global_allocator]
static METERED: Metered = Metered;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending is not counted any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: everything is left to the system's allocator. The counting beside it allocates nothing.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // The old block stands beside the new one while it is copied.
        count(bytes as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(block, layout, bytes) }
    }
}

/// The result of `work`, and the most bytes that this thread held meanwhile, beyond those that it held
/// before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, usize::try_from(MOST.get() - before).unwrap_or(0))
}

/// The bytes that this thread holds.
pub fn held() -> isize {
    HELD.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_told_after_it_was_given_back() {
        let before = held();
        let ((), most) = peak(|| drop(std::hint::black_box(vec![1u8; 100_000])));
        assert!((100_000..101_000).contains(&most), "{most}");
        assert_eq!(held(), before);
        assert_eq!(peak(|| ()).1, 0);
    }

    /// Marks cost real processes no allocation: a step's list of effects is used again.
    #[test]
    fn marks_take_no_memory_once_a_step_has_had_as_many() {
        use ramhold_base::{Effects, Mark};
        let mut effects = Effects::new();
        let step = |effects: &mut Effects| {
            Mark::ALL.iter().for_each(|mark| effects.mark(*mark));
            effects.clear();
        };
        step(&mut effects);
        assert_eq!(peak(|| (0..1000).for_each(|_| step(&mut effects))).1, 0);
    }
}
