//! Returns freed memory to the system.
//!
//! The allocator of glibc takes each large piece from the system separately, and returns it when it is freed.
//! But each such piece that is freed raises the size from which glibc does so, up to 32 MiB. Smaller pieces
//! come from a heap that shrinks only at its end. So a server that once held millions of small objects would
//! keep the memory of their index for ever.
//!
//! Not here: the log, whose memory is one piece; the size of the index's pieces (log).

/// Pieces of this size and more are taken and given back one by one: glibc's own first setting, which then stays.
pub const LARGE_PIECE_BYTES: i32 = 128 * 1024;

/// To be called once, when a process that may hold much begins. Elsewhere than with glibc it does nothing.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no crate in use offers mallopt")]
    {
        const M_MMAP_THRESHOLD: i32 = -3;
        // SAFETY: this is the declaration in malloc.h, with C's int as `i32`.
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        // SAFETY: mallopt takes two numbers by value and may be called at any time, from any thread.
        let done = unsafe { mallopt(M_MMAP_THRESHOLD, LARGE_PIECE_BYTES) };
        debug_assert_eq!(done, 1, "glibc takes every threshold up to half of a heap");
    }
}
