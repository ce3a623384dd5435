//! Points in time, as values that are handed in.
//!
//! `Instant` counts nanoseconds of one machine's monotonic clock (one that counts suspension). Only instants
//! of one process may be compared. `ClusterTime` counts milliseconds since 1970 as told by the coordinator;
//! it never goes back.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    pub const ZERO: Instant = Instant(0);
    pub const FAR: Instant = Instant(u64::MAX);

    /// The time from `earlier` to this instant; zero when this one is not later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000_000, self.0 / 1000 % 1_000_000)
    }
}

/// The earlier of two deadlines, where either may be absent.
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, None) => a,
        (None, b) => b,
    }
}

#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, minicbor::Encode, minicbor::Decode,
)]
#[cbor(transparent)]
pub struct ClusterTime(#[n(0)] pub u64);

impl ClusterTime {
    /// Whole seconds, as stored with every object (A2). Good until the year 2106.
    pub fn seconds(self) -> u32 {
        u32::try_from(self.0 / 1000).unwrap_or(u32::MAX)
    }
}
