//! Memory that was freed goes back to the system.
//!
//! The allocator of glibc takes large pieces from the system one by one, and gives each back when it is freed; but each
//! such piece that is freed raises the size from which it does so, up to 32 MiB. Smaller pieces come from a heap that
//! shrinks only at its end: a server that held millions of small objects would keep the memory of their index for ever.
//!
//! Not here: the log, whose memory is one piece; how large the pieces of the index are (log).

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
