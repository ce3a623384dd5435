//! The clocks of this machine.
//!
//! `now` counts nanoseconds since boot and goes on counting while the machine is suspended. Otherwise a lease
//! would look younger than it is after a suspension. The wall clock is read only for the operator's eyes and
//! for `Input::Start`.

use ramhold_base::Instant;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// The present instant: nanoseconds of `CLOCK_BOOTTIME`.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("time since boot is not negative");
    let nanos = u64::try_from(time.tv_nsec).expect("nanoseconds of a second are not negative");
    Instant(seconds * 1_000_000_000 + nanos)
}

/// The wall clock: milliseconds since 1970, zero when the clock stands before that. Untrusted.
pub fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `millis` since 1970 as `2026-11-21T01:55:56.123Z`.
pub fn utc(millis: u64) -> String {
    let seconds = millis / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1000)
}

/// Year, month and day of the day that is `days` after 1 January 1970.
/// Counts in years that begin in March, so that the leap day is the last day of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let since_march_of_year_0 = days + 719_468;
    let era = since_march_of_year_0 / DAYS_OF_400_YEARS;
    let day_of_era = since_march_of_year_0 % DAYS_OF_400_YEARS;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(utc(951_868_800_000), "2000-03-01T00:00:00.000Z");
        assert_eq!(utc(1_795_225_556_007), "2026-11-21T01:45:56.007Z");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn time_does_not_go_back() {
        let before = now();
        assert!(now() >= before);
        assert!(wall_millis() > 1_700_000_000_000);
    }
}
