//! Options of a run: workloads, stores, and sizes.

use super::store::Store;
use clap::Args;
use ramhold_workload::Workload;
use std::path::PathBuf;

/// The default fill level of Ramhold's log, in percent.
const LOG_USED_PERCENT: u32 = 90;
/// More would need keys of more than 32 bits in the generator.
const LIVE_BYTES_MAX: u64 = 64 << 30;
/// Bytes of an entry in Ramhold's log beyond key and value; docs/formats/log.md.
pub const ENTRY_OVERHEAD_BYTES: u32 = 22;
/// About the rate of redis-server and memcached with one client on this kind of machine. It is used only to
/// estimate the duration.
const STEPS_PER_SECOND_ABOUT: u64 = 500_000;

/// Compare live data with resident memory, under workloads that fragment memory.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask bench compare memory --log 512M
  cargo xtask bench compare memory --workloads W2,W8 --stores redis,ramhold \\
      --json memory.json

The workload 'fill' only writes objects with keys of 30 bytes and values of 100
bytes; it shows the bytes beyond these. The workloads W1 to W8 write objects,
delete a share of them, and then write twice the live bytes in other sizes,
while as many old bytes are deleted at random.")]
pub struct Memory {
    /// Workloads, separated by commas: fill, W1 to W8.
    #[arg(long, value_delimiter = ',', default_values_t = Workload::ALL)]
    workloads: Vec<Workload>,
    /// Stores, separated by commas: redis, redis+defrag, memcached, ramhold.
    #[arg(long, value_delimiter = ',', default_values_t = Store::ALL)]
    stores: Vec<Store>,
    /// Memory of Ramhold's log. Without --live, the live bytes fill 90 % of the log.
    #[arg(long, default_value = "2G", value_parser = parse_bytes)]
    log: u64,
    /// Bytes of live keys and values.
    #[arg(long, value_parser = parse_bytes)]
    live: Option<u64>,
    /// Objects of the workload 'fill'; its log is as large as they need at 90 %.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    objects: u64,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File to write the rows to, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// A few MiB of each: shows that the benchmark works, not the results.
    #[arg(long)]
    smoke: bool,
}

/// Sizes of one workload's run.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Live bytes of keys and values.
    pub live: u64,
    /// Bytes of Ramhold's log.
    pub log: u64,
}

#[derive(Debug)]
pub struct Plan {
    pub workloads: Vec<(Workload, Bytes)>,
    pub stores: Vec<Store>,
    pub seed: u64,
    pub json: Option<PathBuf>,
}

impl Memory {
    pub fn plan(self) -> Result<Plan, String> {
        let (log, objects) = if self.smoke { (8 << 20, 50_000) } else { (self.log, self.objects) };
        let object_bytes = Workload::Fill.object_bytes_max();
        let of = |workload: Workload| {
            if workload == Workload::Fill && self.live.is_none() {
                let entry_bytes = object_bytes + u64::from(ENTRY_OVERHEAD_BYTES);
                let log = objects * entry_bytes * 100 / u64::from(LOG_USED_PERCENT);
                return Bytes { live: objects * object_bytes, log };
            }
            let live = || workload.live_bytes_in_log(log, LOG_USED_PERCENT, ENTRY_OVERHEAD_BYTES);
            Bytes { live: self.live.unwrap_or_else(live), log }
        };
        let workloads: Vec<(Workload, Bytes)> = self.workloads.iter().map(|w| (*w, of(*w))).collect();
        for (workload, bytes) in &workloads {
            // A hundred objects at least: with fewer, one object more or less would be the result.
            let live_min = workload.object_bytes_max() * 100;
            if bytes.live < live_min {
                return Err(format!("{workload} needs at least {live_min} live bytes, not {}", bytes.live));
            }
            if bytes.live > LIVE_BYTES_MAX {
                return Err(format!("{workload}: {} live bytes are too many", bytes.live));
            }
        }
        Ok(Plan { workloads, stores: self.stores, seed: self.seed, json: self.json })
    }
}

impl Plan {
    /// The estimated duration of the run with this number of stores, as text.
    pub fn cost(&self, store_count: u64) -> String {
        let steps: u64 = self.workloads.iter().map(|(w, bytes)| w.step_count_about(bytes.live)).sum();
        let live_max = self.workloads.iter().map(|(_, bytes)| bytes.live).max().unwrap_or(0);
        let minutes = (steps * store_count).div_ceil(STEPS_PER_SECOND_ABOUT * 60);
        format!(
            "about {:.1} M operations for each of {store_count} stores, some {minutes} min at {} k op/s; up to {} MiB live, \
             of memory up to three times that",
            steps as f64 / 1e6,
            STEPS_PER_SECOND_ABOUT / 1000,
            live_max >> 20
        )
    }
}

/// A number of bytes, or of KiB, MiB, GiB: `512M`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no size such as 512M or 2G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        memory: Memory,
    }

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let line = Line::try_parse_from([&["memory"], arguments].concat()).map_err(|e| e.to_string())?;
        line.memory.plan()
    }

    #[test]
    fn live_bytes_make_the_log_nine_tenths_full_unless_given() {
        let of = |arguments: &[&str]| plan(arguments).unwrap().workloads[0].1.live;
        assert_eq!(of(&["--workloads", "W1", "--log", "1520M"]), (1520 << 20) / 152 * 130 / 10 * 9);
        assert_eq!(of(&["--workloads", "w1", "--log", "1520M", "--live", "2M"]), 2 << 20);
        assert_eq!(of(&["--workloads", "fill"]), 650_000_000);
    }

    #[test]
    fn everything_is_compared_unless_named() {
        let all = plan(&["--smoke"]).unwrap();
        assert_eq!((all.workloads.len(), all.stores.len()), (9, 4));
        let some = plan(&["--workloads", "W3,fill", "--stores", "memcached"]).unwrap();
        assert_eq!((some.workloads.len(), some.stores), (2, vec![Store::Memcached]));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            ["--workloads", "W9"],
            ["--stores", "mysql"],
            ["--log", "2T"],
            ["--live", "99999999999G"],
            ["--live", "1K"],
            ["--live", "65G"],
        ] {
            assert!(plan(&arguments).is_err(), "{arguments:?}");
        }
    }
}
