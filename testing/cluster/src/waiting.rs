//! Waits that poll for a condition and end at a deadline.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The reason why a test cannot go on, in words.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<ramhold_client::Error> for Failure {
    fn from(error: ramhold_client::Error) -> Failure {
        Failure(error.to_string())
    }
}

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The flag that becomes true when a person interrupts the program. Every wait ends then, so that everything
/// is removed in order.
pub fn interrupted() -> Arc<AtomicBool> {
    Arc::clone(INTERRUPTED.get_or_init(Arc::default))
}

/// Sleeps for a time. Use it only where passing time itself is the aim, and never to wait for an event.
pub fn pass(time: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < time {
        check_interrupted()?;
        std::thread::sleep(LOOK_INTERVAL.min(time.saturating_sub(start.elapsed())));
    }
    Ok(())
}

/// Fails if a person has interrupted the program.
pub fn check_interrupted() -> Result<(), Failure> {
    let is_wanted = INTERRUPTED.get().is_some_and(|wanted| wanted.load(Ordering::SeqCst));
    if is_wanted { Err(Failure("interrupted".to_owned())) } else { Ok(()) }
}

/// Calls `look` until it answers `Ok(Ok(_))`. `Ok(Err(_))` describes the present state, for the failure at
/// the deadline. `Err` is an immediate failure.
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Result<Result<T, String>, Failure>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        check_interrupted()?;
        match look()? {
            Ok(found) => return Ok(found),
            Err(standing) if start.elapsed() >= within => {
                return Err(Failure(format!("{what}: not within {} s; {standing}", within.as_secs())));
            }
            Err(_) => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}
