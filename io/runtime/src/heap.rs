//! Memory that was freed goes back to the system, and large pieces have huge pages.
//!
//! The allocator of glibc takes large pieces from the system one by one, and gives each back when it is freed; but each
//! such piece that is freed raises the size from which it does so, up to 32 MiB. Smaller pieces come from a heap that
//! shrinks only at its end: a server that held millions of small objects would keep the memory of their index for ever.
//!
//! A look-up of a random key goes to an address that the processor has no page of at hand: it has to walk through four
//! levels of tables first, through twice as many in a virtual machine. Huge pages have a level less, and as one of
//! them is 2 MiB, the tables stay in the caches. The kernel gives them to whoever asks; what is not given makes no
//! difference but in speed.
//!
//! Not here: the log, whose memory is one piece; how large the pieces of the index are (log).

use std::alloc::{GlobalAlloc, Layout, System};

/// Pieces of this size and more are taken and given back one by one: glibc's own first setting, which then stays.
pub const LARGE_PIECE_BYTES: i32 = 128 * 1024;

/// To be called once, when a process that may hold much begins. Elsewhere than with glibc it does nothing.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no crate in use offers mallopt")]
    {
        const M_MMAP_THRESHOLD: i32 = -3;
        // SAFETY: the declaration of malloc.h, with C's int.
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        // SAFETY: mallopt takes two numbers by value and may be called at any time, from any thread.
        let done = unsafe { mallopt(M_MMAP_THRESHOLD, LARGE_PIECE_BYTES) };
        debug_assert_eq!(done, 1, "glibc takes every threshold up to half of a heap");
    }
}

/// The size of a huge page, and what pieces have at least that get them.
const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The system's allocator, which asks for huge pages for large pieces. For the one `#[global_allocator]` of a program.
pub struct Heap;

#[expect(unsafe_code, reason = "an allocator cannot be declared otherwise; measured in docs/performance.md")]
// SAFETY: every piece comes from `System` and goes back to it; what is asked of it is what was asked of us, but for a
// greater alignment, which `System` needs not be told when the piece is given back: it frees by the address alone.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < HUGE_PAGE_BYTES {
            // SAFETY: the caller's promises, handed on.
            return unsafe { System.alloc(layout) };
        }
        let aligned = layout.align_to(HUGE_PAGE_BYTES).unwrap_or(layout);
        // SAFETY: the size is not zero.
        let piece = unsafe { System.alloc(aligned) };
        ask_for_huge_pages(piece, layout.size());
        piece
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Not aligned: the system's way to zero what is would touch all of it at once.
        // SAFETY: the caller's promises, handed on.
        let piece = unsafe { System.alloc_zeroed(layout) };
        ask_for_huge_pages(piece, layout.size());
        piece
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises, handed on; the alignment asked for is kept, ours need not be.
        let piece = unsafe { System.realloc(piece, layout, size) };
        ask_for_huge_pages(piece, size);
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises, handed on.
        unsafe { System.dealloc(piece, layout) }
    }
}

/// Says to the kernel that a piece of memory, if it is a large one, had better lie in huge pages.
fn ask_for_huge_pages(piece: *mut u8, size: usize) {
    if piece.is_null() || size < HUGE_PAGE_BYTES {
        return;
    }
    // Whole pages within the piece; what stands beside it is none of our business.
    let before = piece.align_offset(rustix::param::page_size());
    let Some(rest) = size.checked_sub(before) else { return };
    let advice = rustix::mm::Advice::LinuxHugepage;
    #[expect(unsafe_code, reason = "advice about raw memory")]
    // SAFETY: the range is a part of a piece that was allocated just now, and the advice changes none of its contents.
    // A kernel without huge pages refuses, which is as good.
    let _ = unsafe { rustix::mm::madvise(piece.add(before).cast(), rest, advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    // What a program does with an allocator, at sizes around that of a huge page.
    #[test]
    fn pieces_of_all_sizes_keep_what_is_in_them() {
        for size in [1, 4096, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1, 5 * HUGE_PAGE_BYTES]
        {
            for align in [1, 64, 4096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                #[expect(unsafe_code, reason = "the allocator's own interface")]
                // SAFETY: the size is not zero; writes and reads stay within each piece; each is given back once, with
                // the layout that it has then.
                unsafe {
                    let zeroed = Heap.alloc_zeroed(layout);
                    assert!(!zeroed.is_null() && zeroed.addr().is_multiple_of(align));
                    assert_eq!((*zeroed, *zeroed.add(size / 2), *zeroed.add(size - 1)), (0, 0, 0));
                    Heap.dealloc(zeroed, layout);
                    let piece = Heap.alloc(layout);
                    assert!(!piece.is_null() && piece.addr().is_multiple_of(align));
                    *piece = 1;
                    *piece.add(size - 1) = 2;
                    let longer = Heap.realloc(piece, layout, 2 * size + 1);
                    assert!(longer.addr().is_multiple_of(align));
                    assert_eq!((*longer, *longer.add(size - 1)), (if size == 1 { 2 } else { 1 }, 2));
                    let layout = Layout::from_size_align(2 * size + 1, align).unwrap();
                    let shorter = Heap.realloc(longer, layout, size);
                    assert_eq!(*shorter.add(size - 1), 2);
                    Heap.dealloc(shorter, Layout::from_size_align(size, align).unwrap());
                }
            }
        }
    }
}
