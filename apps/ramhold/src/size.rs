//! Durations and sizes as people write and read them.

use ramhold_base::limits::EXPIRY_MILLIS_MAX;
use std::time::Duration;

/// `500ms`, `10s`, `2m`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match parse_millis(text)? {
        Some(millis @ 1..=86_400_000) => Ok(Duration::from_millis(millis)),
        Some(_) | None => Err(format!("'{text}' is not between 1ms and 24h")),
    }
}

/// How long an object is to live: like `parse_duration`, but up to a hundred years.
pub fn parse_lifetime(text: &str) -> Result<Duration, String> {
    match parse_millis(text)? {
        Some(millis @ 1..=EXPIRY_MILLIS_MAX) => Ok(Duration::from_millis(millis)),
        Some(_) | None => Err(format!("'{text}' is not between 1ms and {}d", EXPIRY_MILLIS_MAX / DAY_MILLIS)),
    }
}

const DAY_MILLIS: u64 = 86_400_000;

/// None: more than can be counted.
fn parse_millis(text: &str) -> Result<Option<u64>, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("'{text}' is not a time like 500ms, 10s, 2m, 1h or 7d");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Some(number)),
        "" | "s" => Ok(number.checked_mul(1000)),
        "m" => Ok(number.checked_mul(60_000)),
        "h" => Ok(number.checked_mul(3_600_000)),
        "d" => Ok(number.checked_mul(DAY_MILLIS)),
        _ => Err(wrong()),
    }
}

/// `4096`, `64KiB`, `1MiB`, `10GiB`; without a unit, bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("'{text}' is not a size like 4096, 64KiB, 1MiB or 10GiB");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// With one decimal and a binary unit. Shown beside an exact number, or where it is a gauge.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "s", "-1s", "0s", "1.5s", "10 s", "25h", "99999999999999999999s", "2d", "1w"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lifetimes_are_read_up_to_a_hundred_years() {
        // A12
        assert_eq!(parse_lifetime("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_lifetime("36525d"), Ok(Duration::from_millis(EXPIRY_MILLIS_MAX)));
        for text in ["0", "0ms", "36526d", "99999999999999999d", "-1s", "1y"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        assert!(parse_bytes("2X").is_err());
        assert!(parse_bytes("99999999999T").is_err());
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1536), "1.5 KiB");
        assert_eq!(bytes_text(5 << 40), "5.0 TiB");
    }
}
