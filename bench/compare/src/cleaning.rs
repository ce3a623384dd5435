//! The cost of cleaning for clients: writes to a nearly full server, beside the same writes to a server that
//! never cleans.
//!
//! Two clusters of the same binary run side by side. Each has a coordinator, one server that owns the data,
//! and three backups with files. Both hold the same objects. The log of one server is so small that the
//! objects fill it to the given part. The log of the other server is so large that a run never fills it.
//! Overwrites are uniform. The clusters are measured in turn, and medians are compared. Then both are offered
//! half of the peak rate at even intervals. Latency is counted from the moment at which a write was due.
//!
//! Figures: throughput against utilisation, latency percentiles with and without cleaning. Catalogue: C6, C7.

use crate::ramhold::Cluster;
use clap::Args;
use serde_json::Value;

/// Compare writes to a nearly full server with writes to one that never cleans.
#[derive(Args, Debug)]
pub struct Cleaning {
    /// Memory of the server that cleans, in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(128..=65_536))]
    memory_mebibytes: u64,
    /// Share of the log that live objects fill, in percent.
    #[arg(long, value_delimiter = ',', default_values_t = [80, 90])]
    used: Vec<u64>,
    /// Bytes of a value.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 100])]
    value_bytes: Vec<u64>,
    /// Overwrites before the measurement, as a multiple of the live data; cleaning is steady after about two.
    #[arg(long, default_value_t = 2.0)]
    warm: f64,
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Runs of each kind; medians are printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Writes in flight.
    #[arg(long, default_value_t = 16)]
    pipeline: u16,
}

const KEY_BYTES: u64 = 30;
/// Bytes of an object in the log beyond key and value.
const OVERHEAD_BYTES: u64 = 22;

impl Cleaning {
    pub fn run(self) -> Result<(), String> {
        println!(
            "overwrites, uniform, R = 3 buffered, keys {KEY_BYTES} B, {} under way, medians of {} runs of {} s;\n\
             servers on core 0, client on core 1\n",
            self.pipeline, self.runs, self.seconds
        );
        println!(
            "{:>6} {:>5} {:>10} {:>10} {:>6}  {:>8} {:>8}  {:>9} {:>9} {:>9} {:>9}  {:>6}",
            "value",
            "used",
            "cleaning",
            "without",
            "ratio",
            "moved/B",
            "combined",
            "p50 us",
            "without",
            "p99.9 us",
            "without",
            "steal"
        );
        for value_bytes in &self.value_bytes {
            for used in &self.used {
                self.one(*value_bytes, *used)?;
            }
        }
        Ok(())
    }

    fn one(&self, value_bytes: u64, used: u64) -> Result<(), String> {
        let cleans = Cluster::split(self.memory_mebibytes)?;
        let log_bytes = number(&cleans.owner()?, "log_bytes")?;
        let objects = log_bytes * used / 100 / (KEY_BYTES + value_bytes + OVERHEAD_BYTES);
        // Never full: it has room for the objects and for all that the runs can write.
        let plain = Cluster::split(self.memory_mebibytes + 6 * 1024)?;
        let load = |cluster: &Cluster, seconds: u64, more: &[&str]| -> Result<Value, String> {
            let (objects, value, seconds) =
                (objects.to_string(), value_bytes.to_string(), seconds.to_string());
            let mut arguments = vec!["bench", "kv", "--objects", &objects, "--value-bytes", &value];
            arguments.extend(["--replicas", "3", "--read-percent", "0", "--seconds", &seconds]);
            arguments.extend(more);
            cluster.json(&arguments)
        };
        let pipeline = self.pipeline.to_string();
        let closed = ["--pipeline", pipeline.as_str(), "--no-fill"];
        for cluster in [&cleans, &plain] {
            load(cluster, 1, &["--pipeline", "64"])?;
        }
        // Warm up until cleaning is steady. The log that is never cleaned needs no warm-up.
        let (mut warm, needed) = (0.0, self.warm * objects as f64);
        while warm < needed {
            let written = float(&load(&cleans, 10, &["--pipeline", "64", "--no-fill"])?, "/run/writes/count");
            warm += written;
            eprintln!("warming up: {:.0} of {needed:.0} writes", warm.min(needed));
            if written == 0.0 {
                return Err("no write was acknowledged for 10 s".to_owned());
            }
        }
        load(&plain, 1, &closed)?;
        let before = cleans.owner()?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            with.push(load(&cleans, self.seconds, &closed)?);
            without.push(load(&plain, self.seconds, &closed)?);
        }
        let after = cleans.owner()?;
        let written: f64 = with.iter().map(|run| float(run, "/run/writes/count")).sum();
        let new_bytes = written * (KEY_BYTES + value_bytes + OVERHEAD_BYTES) as f64;
        let moved = |name: &str| {
            let of = |status: &Value| status["cleaning"][name].as_f64().unwrap_or_default();
            (of(&after) - of(&before)) / new_bytes
        };
        let rate = |runs: &[Value]| median(runs.iter().map(|run| float(run, "/run/writes/ops_per_second")));
        let (with_rate, without_rate) = (rate(&with), rate(&without));

        let half = ((with_rate / 2.0) as u64).max(1).to_string();
        let open = ["--pipeline", "1024", "--rate", half.as_str(), "--no-fill"];
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            slow.push(load(&cleans, self.seconds, &open)?);
            fast.push(load(&plain, self.seconds, &open)?);
        }
        let micros = |runs: &[Value], name: &str| {
            median(runs.iter().map(|run| float(run, &format!("/run/writes/{name}")) / 1000.0))
        };
        let steal = slow.iter().chain(&with).map(|run| float(run, "/steal_percent")).fold(0.0, f64::max);
        println!(
            "{value_bytes:>6} {used:>4}% {with_rate:>10.0} {without_rate:>10.0} {:>6.2}  {:>8.2} {:>8.2}  {:>9.1} {:>9.1} {:>9.1} {:>9.1}  {steal:>5.1}%",
            with_rate / without_rate.max(1.0),
            moved("bytes_moved"),
            moved("bytes_combined"),
            micros(&slow, "p50_nanos"),
            micros(&fast, "p50_nanos"),
            micros(&slow, "p999_nanos"),
            micros(&fast, "p999_nanos"),
        );
        Ok(())
    }
}

fn number(value: &Value, name: &str) -> Result<u64, String> {
    value[name].as_u64().ok_or_else(|| format!("the server's status tells no {name}"))
}

fn float(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_default()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
