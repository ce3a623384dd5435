//! The words of shared memory: atomic ones, so that the other process may store at any time.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::Ordering;
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::atomic::Ordering;

/// A word of shared memory.
#[cfg(feature = "loom")]
pub type Word = loom::sync::atomic::AtomicU64;
/// A word of shared memory.
#[cfg(not(feature = "loom"))]
pub type Word = std::sync::atomic::AtomicU64;
