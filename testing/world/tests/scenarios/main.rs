//! Named scenarios: one script each, one outcome each.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

mod masters;
