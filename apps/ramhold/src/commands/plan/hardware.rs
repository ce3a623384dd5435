//! The performance of a server: profiles of the papers' machines and of a present one, and the notation of
//! rates.

use ramhold_base::limits::SEGMENT_BYTES;
use std::time::Duration;

/// Per server; bytes and records per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hardware {
    /// In each direction.
    pub network: f64,
    /// Rate of all its disks together.
    pub disk_read: f64,
    pub disk_write: f64,
    /// Rate of one core that replays.
    pub replay: f64,
    pub replay_records: f64,
    pub cores: u32,
    /// Buffers for replicas that are not on the disk yet; none: as much as comes.
    pub buffers: Option<u64>,
    /// From the death of a server to the verdict.
    pub detection: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Profile {
    /// The machines of SOSP11, table 1: two disks, Infiniband.
    Sosp11,
    /// The rule of TUT15: 500 MB/s per server, whatever the bottleneck.
    Tut15,
    /// 25 Gbit Ethernet, NVMe, one core per server process.
    #[value(name = "2026")]
    Now,
}

const MB: f64 = 1e6;
const GB: f64 = 1e9;
const GBIT: f64 = 1e9 / 8.0;

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Profile::Sosp11 => "sosp11",
            Profile::Tut15 => "tut15",
            Profile::Now => "2026",
        }
    }

    pub fn hardware(self) -> Hardware {
        match self {
            // Table 1. Section 4.1: 400 MB/s with objects of 128 bytes, 800 with large ones. Section 4.6: 150
            // ms to detect.
            Profile::Sosp11 => Hardware {
                network: 25.0 * GBIT,
                disk_read: 213.0 * MB,
                disk_write: 197.0 * MB,
                replay: 800.0 * MB,
                replay_records: 3.1e6,
                cores: 1,
                buffers: None,
                detection: Duration::from_millis(150),
            },
            // "Scale and Recovery". Two flash drives keep up with a server. Detection takes place "in a few
            // hundred ms".
            Profile::Tut15 => Hardware {
                network: 24.0 * GBIT,
                disk_read: 540.0 * MB,
                disk_write: 360.0 * MB,
                replay: 500.0 * MB,
                replay_records: 3.1e6,
                cores: 1,
                buffers: None,
                detection: Duration::from_millis(200),
            },
            // The disk rates are the sustained rates of a data-centre drive. The replay rate is a goal until
            // it is measured on such a machine. The death of a process is noticed in 0.1 s. A host that falls
            // silent is detected by the coordinator's `ping_timeout` (300 ms) and `verify_timeout` (1 s).
            Profile::Now => Hardware {
                network: 25.0 * GBIT,
                disk_read: 3.0 * GB,
                disk_write: 1.5 * GB,
                replay: 2.5 * GB,
                replay_records: 6e6,
                cores: 1,
                buffers: Some(32 * SEGMENT_BYTES as u64),
                detection: Duration::from_millis(1300),
            },
        }
    }
}

/// `25Gbit`, `500MB`, `2.5GB`, each per second, also with `/s` behind it.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let bare = text.strip_suffix("/s").unwrap_or(text);
    let unit = bare.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(bare.len());
    let (number, unit) = bare.split_at(unit);
    let scale = match unit {
        "kB" => Some(1e3),
        "MB" => Some(MB),
        "GB" => Some(GB),
        "Mbit" => Some(1e6 / 8.0),
        "Gbit" => Some(GBIT),
        _ => None,
    };
    positive(number)
        .zip(scale)
        .map(|(number, scale)| number * scale)
        .ok_or_else(|| format!("'{text}' is not a rate like 500MB/s, 2.5GB/s or 25Gbit/s"))
}

/// `6M`, `800k`, `1.5M` records per second.
pub fn parse_count(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some(_) | None => (text, 1.0),
    };
    positive(number)
        .map(|number| number * scale)
        .ok_or_else(|| format!("'{text}' is not a number like 800k or 6M"))
}

/// `1%` or `0.01`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share = plain(number).map(|number| number * scale);
    share.filter(|share| *share <= 1.0).ok_or_else(|| format!("'{text}' is not a share like 1% or 0.01"))
}

fn positive(text: &str) -> Option<f64> {
    plain(text).filter(|number| *number > 0.0)
}

/// Digits with at most one point: no sign, no exponent, nothing infinite.
pub fn plain(text: &str) -> Option<f64> {
    let is_plain =
        !text.is_empty() && text.len() <= 20 && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_numbers_and_shares_are_read() {
        assert_eq!(parse_rate("25Gbit"), Ok(3.125e9));
        assert_eq!(parse_rate("25Gbit/s"), Ok(3.125e9));
        assert_eq!(parse_rate("2.5GB/s"), Ok(2.5e9));
        assert_eq!(parse_count("6M"), Ok(6e6));
        assert_eq!(parse_count("800k"), Ok(8e5));
        assert_eq!(parse_count("12"), Ok(12.0));
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_share("0"), Ok(0.0));
        for text in ["", "0MB", "-1MB", "5", "5XB", "infGB", "1e3MB", "nanMB", "GB", "1.2.3GB"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        for text in ["", "0", "M", "-1", "inf", "1G"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        for text in ["", "%", "101%", "1.1", "-1%", "NaN"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
