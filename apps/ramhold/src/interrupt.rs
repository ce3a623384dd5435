//! Ctrl-C and SIGTERM for commands that must clean up in order: children, temporary directories.

use crate::failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The exit code that a shell expects of a command that Ctrl-C has ended.
const EXIT_INTERRUPTED: u8 = 130;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals only leave a note.
pub fn watch() -> Result<(), Failure> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(asked))
            .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}")))?;
    }
    Ok(())
}

/// Whether somebody wanted the end since this was asked last.
pub fn take() -> bool {
    ASKED.get().is_some_and(|asked| asked.swap(false, Ordering::SeqCst))
}

/// An early end, when somebody wants it. The note stays, so that everything ends.
pub fn check() -> Result<(), Failure> {
    let is_asked = ASKED.get().is_some_and(|asked| asked.load(Ordering::SeqCst));
    if is_asked { Err(Failure::new(EXIT_INTERRUPTED, "interrupted")) } else { Ok(()) }
}
