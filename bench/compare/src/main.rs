//! Ramhold beside redis-server: one machine, one run, one kind of client.
//!
//! `cargo xtask bench compare [--seconds N] [--runs N] [--smoke]`. Servers run on core 0, clients on core 1 (where the
//! machine has two). Each test runs several times, Ramhold and Redis in turn, and the median is printed with the ratio.
//! One client thread with a given number of operations under way, random keys of 30 bytes, values of 100 bytes, over
//! TCP on the loopback. Redis runs without persistence, and Ramhold with R = 0 for the like; then Ramhold with R = 3
//! beside Redis with its log synced every second.
//!
//! Not here: memory (that comes with cleaning). Figures: docs/performance.md.

mod ramhold;
mod redis;

use std::process::ExitCode;

/// What one run of one test measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub ops_per_second: f64,
    pub p50_micros: f64,
    pub p99_micros: f64,
}

/// One test: reads or writes, so many under way.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub reads: bool,
    pub pipeline: u16,
    pub seconds: u64,
}

const TESTS: [(bool, u16); 6] = [(true, 1), (false, 1), (true, 16), (false, 16), (true, 64), (false, 64)];
pub const OBJECTS: u64 = 100_000;

fn main() -> ExitCode {
    let mut seconds = 3u64;
    let mut runs = 3u64;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse().ok());
        match argument.as_str() {
            "--smoke" => (seconds, runs) = (1, 1),
            "--seconds" => seconds = number().unwrap_or(seconds),
            "--runs" => runs = number().unwrap_or(runs),
            _ => {
                println!("usage: compare [--seconds N] [--runs N] [--smoke]");
                return ExitCode::from(2);
            }
        }
    }
    // The Redis client is in this process, so all of it belongs on the clients' core.
    if std::env::var_os("RAMHOLD_COMPARE_PINNED").is_none()
        && let Ok(own) = std::env::current_exe()
    {
        let status = pinned(1, &own.to_string_lossy())
            .args(std::env::args().skip(1))
            .env("RAMHOLD_COMPARE_PINNED", "1")
            .status();
        if let Ok(status) = status {
            return ExitCode::from(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1));
        }
    }
    match compare(seconds, runs as usize) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(seconds: u64, runs: usize) -> Result<(), String> {
    println!(
        "one client thread, keys 30 B, values 100 B, {OBJECTS} objects, medians of {runs} runs of {seconds} s"
    );
    println!("servers on core 0, client on core 1; operations per second, p50 / p99 in microseconds\n");
    {
        println!("without persistence: ramhold R = 0 (1 server), redis with appendonly off");
        let ramhold = ramhold::Cluster::start(1, 0)?;
        let redis = redis::Server::start(&["--appendonly", "no"])?;
        table(&ramhold, &redis, seconds, runs)?;
    }
    println!("\npersistent: ramhold R = 3 buffered (4 servers on one core), redis with appendfsync everysec");
    let ramhold = ramhold::Cluster::start(4, 3)?;
    let redis = redis::Server::start(&["--appendonly", "yes", "--appendfsync", "everysec"])?;
    table(&ramhold, &redis, seconds, runs)
}

fn table(ramhold: &ramhold::Cluster, redis: &redis::Server, seconds: u64, runs: usize) -> Result<(), String> {
    println!("{:<24} {:>30} {:>30} {:>8}", "test", "ramhold", "redis", "ratio");
    for (reads, pipeline) in TESTS {
        let test = Test { reads, pipeline, seconds };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            ours.push(ramhold.run(test)?);
            theirs.push(redis.run(test)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let name = format!("{}, {pipeline} under way", if reads { "read" } else { "write" });
        println!(
            "{name:<24} {:>30} {:>30} {:>7.2}x",
            text(ours),
            text(theirs),
            ours.ops_per_second / theirs.ops_per_second.max(1.0)
        );
    }
    Ok(())
}

fn text(figures: Figures) -> String {
    format!("{:>9.0}  {:>7.1} / {:>7.1}", figures.ops_per_second, figures.p50_micros, figures.p99_micros)
}

/// The run with the median rate.
fn median(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.ops_per_second.total_cmp(&b.ops_per_second));
    runs[runs.len() / 2]
}

/// A program pinned to a core, if the machine has several and `taskset` is there.
pub fn pinned(core: usize, program: &str) -> std::process::Command {
    let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    let taskset = std::path::Path::new("/usr/bin/taskset").exists();
    if several && taskset {
        let mut command = std::process::Command::new("taskset");
        command.args(["-c", &core.to_string(), program]);
        command
    } else {
        std::process::Command::new(program)
    }
}

/// A folder of our own below the system's temporary one.
pub fn scratch(name: &str) -> Result<std::path::PathBuf, String> {
    let path = std::env::temp_dir().join(format!("ramhold-compare-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}
