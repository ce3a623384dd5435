//! When a start serves: before its log is loaded, or after.
//!
//! Not here: the loading (`loading`). Catalogue: I6.

use ramhold_base::Instant;

/// When a start serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RestartLoad {
    /// When everything is loaded.
    Preload,
    /// As soon as new writes can be taken. Keys are answered as they are loaded.
    #[default]
    Incremental,
}

/// The loading of the log behind the serving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loading {
    pub began: Instant,
    /// The bytes that were awaited when it began.
    pub bytes: u64,
}
