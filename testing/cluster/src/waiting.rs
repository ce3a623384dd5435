//! Waits that look for a condition and end at a deadline.

use std::fmt;
use std::time::{Duration, Instant};

const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Why a test cannot go on, in words.
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

/// Looks until `look` answers `Ok(Ok(_))`. `Ok(Err(_))` says how things stand, for the failure at the deadline; `Err` is a
/// failure at once.
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Result<Result<T, String>, Failure>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        match look()? {
            Ok(found) => return Ok(found),
            Err(standing) if start.elapsed() >= within => {
                return Err(Failure(format!("{what}: not within {} s; {standing}", within.as_secs())));
            }
            Err(_) => std::thread::sleep(LOOK_INTERVAL),
        }
    }
}
