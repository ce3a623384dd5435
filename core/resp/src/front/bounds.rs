//! Bounds that several commands share.

use crate::Fault;

/// Keys whose memory is fetched ahead at once; more would push each other out of the caches.
pub const AHEAD_COUNT_MAX: usize = 256;

/// Bytes of one reply, and of the values that one command reads.
pub const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
pub const REPLY_TOO_LARGE: Fault =
    Fault::fixed("ERR a command reads and answers at most 33554432 bytes: ask for less at once");

/// Bytes of a pattern. The cost of matching grows with the pattern's length (Z18).
pub const PATTERN_BYTES_MAX: usize = 1024;
pub const PATTERN_TOO_LONG: Fault = Fault::fixed("ERR a pattern has at most 1024 bytes");
