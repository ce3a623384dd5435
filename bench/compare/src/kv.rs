//! One client for all: `ramhold bench kv` sends the same load to Ramhold, and to those of redis-server, valkey-server,
//! dragonfly, pogocache and memcached that are installed.
//!
//! Ramhold is measured three times: over its own protocol, through TCP and through shared memory, and over Redis's.
//! Each server has one thread for requests. Nothing is replicated or written to disks, so the servers are compared and not their promises. Runs of all servers alternate. A test has its
//! median, and the lowest and highest rate of its runs.
//!
//! Not here: each server's own client (speed, resp); replicas and append-only files (speed).

use crate::process::{Process, is_installed, pinned, ramhold};
use crate::ramhold::Cluster;
use clap::Args;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Measure Ramhold and other servers that are installed with the same client, 'ramhold bench kv'.
#[derive(Args, Clone, Debug)]
pub struct KeyValue {
    /// Objects with keys of 30 B and values of 100 B, all of them written before the measurement.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    objects: u64,
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Runs of each test; the median is printed, and the lowest and highest rate.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// A new file that gets what 'ramhold bench kv' printed, a line of JSON for each run.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Few objects and one run of one second per test: shows that the benchmark works, not the speed.
    #[arg(long)]
    smoke: bool,
}

struct Test {
    name: &'static str,
    reads: bool,
    arguments: &'static [&'static str],
}

const fn test(name: &'static str, reads: bool, arguments: &'static [&'static str]) -> Test {
    Test { name, reads, arguments }
}

const TESTS: [Test; 9] = [
    test("read, 1 under way", true, &["--pipeline", "1"]),
    test("write, 1 under way", false, &["--pipeline", "1"]),
    test("read, 16 under way", true, &["--pipeline", "16"]),
    test("write, 16 under way", false, &["--pipeline", "16"]),
    test("read, 64 under way", true, &["--pipeline", "64"]),
    test("write, 64 under way", false, &["--pipeline", "64"]),
    test("read, 70 together", true, &["--pipeline", "70", "--multi", "70"]),
    test("read, 70 together, twice", true, &["--pipeline", "140", "--multi", "70"]),
    test("write, 70 together", false, &["--pipeline", "70", "--multi", "70"]),
];

/// A server, and how the client reaches it.
struct Subject {
    name: String,
    arguments: Vec<String>,
    pid: u32,
}

/// The figures of one run.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
    server_micros: f64,
}

impl KeyValue {
    pub fn run(self) -> Result<(), String> {
        let plan = if self.smoke { KeyValue { objects: 10_000, seconds: 1, runs: 1, ..self } } else { self };
        let mut raw = match &plan.raw {
            Some(path) => {
                Some(File::create_new(path).map_err(|error| format!("{}: {error}", path.display()))?)
            }
            None => None,
        };
        let cluster = Cluster::resp()?;
        let mut others = Vec::new();
        for other in OTHERS {
            if is_installed(other.program) {
                others.push((other, Process::start(other.program, other.arguments)?));
            } else {
                println!("{} is not installed: left out", other.program);
            }
        }
        let subjects = subjects(&cluster, &others)?;
        println!(
            "one client for all, {} objects of 30 + 100 B, medians of {} runs of {} s; servers on core 0, client on core 1;\n\
             times in us; us/op: the server's processor time for one operation, whether it was busy or waited",
            plan.objects, plan.runs, plan.seconds
        );
        for subject in &subjects {
            plan.fill(subject)?;
        }
        for test in &TESTS {
            println!(
                "\n{:<34} {:>10} {:>21} {:>9} {:>9} {:>7}",
                test.name, "/s", "lowest, highest", "p50", "p99", "us/op"
            );
            let mut runs: Vec<Vec<Figures>> = subjects.iter().map(|_| Vec::new()).collect();
            for _ in 0..plan.runs {
                for (subject, runs) in subjects.iter().zip(&mut runs) {
                    runs.push(plan.measure(subject, test, raw.as_mut())?);
                }
            }
            for (subject, runs) in subjects.iter().zip(runs) {
                print(&subject.name, runs);
            }
        }
        Ok(())
    }

    fn fill(&self, subject: &Subject) -> Result<(), String> {
        self.bench(subject, &["--seconds", "1", "--pipeline", "64", "--multi", "64"]).map(drop)
    }

    fn measure(&self, subject: &Subject, test: &Test, raw: Option<&mut File>) -> Result<Figures, String> {
        let (seconds, pid) = (self.seconds.to_string(), subject.pid.to_string());
        let percent = if test.reads { "100" } else { "0" };
        let own = ["--no-fill", "--read-percent", percent, "--seconds", &seconds, "--server-pid", &pid];
        let told = self.bench(subject, &[&own[..], test.arguments].concat())?;
        if let Some(raw) = raw {
            let line = json!({ "server": subject.name, "test": test.name, "told": told });
            writeln!(raw, "{line}").map_err(|error| format!("--raw: {error}"))?;
        }
        let times = &told["run"][if test.reads { "reads" } else { "writes" }];
        let number =
            |value: &Value| value.as_f64().ok_or_else(|| format!("bench kv told too little: {told}"));
        Ok(Figures {
            rate: number(&times["ops_per_second"])?,
            p50: number(&times["p50_nanos"])? / 1000.0,
            p99: number(&times["p99_nanos"])? / 1000.0,
            server_micros: number(&told["server_cpu"]["micros_per_operation"])?,
        })
    }

    /// The output of `ramhold bench kv`.
    fn bench(&self, subject: &Subject, arguments: &[&str]) -> Result<Value, String> {
        let mut command = pinned(1, &ramhold());
        command.args(["--json", "bench", "kv", "--objects", &self.objects.to_string()]);
        command.args(&subject.arguments).args(arguments).stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("{}: {error}", ramhold()))?;
        if !output.status.success() {
            return Err(format!("bench kv of {} ended with {}", subject.name, output.status));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("bench kv: {error}"))
    }
}

/// A server that is not ours.
struct Other {
    program: &'static str,
    /// The option of `bench kv` for its protocol.
    option: &'static str,
    /// The option that makes it tell its version.
    version: &'static str,
    arguments: fn(&mut Command, u16, &Path),
}

const OTHERS: [&Other; 5] = [
    &Other { program: "redis-server", option: "--resp", version: "--version", arguments: like_redis },
    &Other { program: "valkey-server", option: "--resp", version: "--version", arguments: like_redis },
    &Other { program: "dragonfly", option: "--resp", version: "--version", arguments: dragonfly },
    &Other { program: "pogocache", option: "--resp", version: "--version", arguments: pogocache },
    &Other { program: "memcached", option: "--memcached", version: "-V", arguments: memcached },
];

/// Without dumps and without an append-only file.
fn like_redis(command: &mut Command, port: u16, dir: &Path) {
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(dir);
}

fn dragonfly(command: &mut Command, port: u16, dir: &Path) {
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dbfilename", ""]);
    command.args(["--proactor_threads", "1", "--dir"]).arg(dir);
}

fn pogocache(command: &mut Command, port: u16, _: &Path) {
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "--threads", "1"]);
}

/// With memory for all objects, since it would drop those that have no room. It does not start as root unless it is given
/// a user.
fn memcached(command: &mut Command, port: u16, _: &Path) {
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-t", "1", "-m", "16384"]);
    command.args(["-c", "1024", "-u", "root"]);
}

fn subjects(cluster: &Cluster, others: &[(&Other, Process)]) -> Result<Vec<Subject>, String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let resp = |port: u16| words(&["--resp", &format!("127.0.0.1:{port}")]);
    let own = words(&["--cluster", cluster.coordinator(), "--replicas", "0", "--durability", "none"]);
    let mut subjects = vec![
        Subject {
            name: "ramhold, its own protocol, TCP".into(),
            arguments: [&own[..], &words(&["--transport", "tcp"])].concat(),
            pid: cluster.server_pid(),
        },
        Subject {
            name: "ramhold, own, shared memory".into(),
            arguments: [&own[..], &words(&["--transport", "shared-memory"])].concat(),
            pid: cluster.server_pid(),
        },
        Subject {
            name: "ramhold, Redis's protocol".into(),
            arguments: resp(cluster.resp_port()),
            pid: cluster.server_pid(),
        },
    ];
    for (other, process) in others {
        let name = format!("{} {}", other.program, version(other)?);
        let arguments = words(&[other.option, &format!("127.0.0.1:{}", process.port())]);
        subjects.push(Subject { name, arguments, pid: process.pid() });
    }
    Ok(subjects)
}

/// The first word with a digit and a point in it of what the program says about itself.
fn version(other: &Other) -> Result<String, String> {
    let output = Command::new(other.program).arg(other.version).output();
    let output = output.map_err(|e| format!("{}: {e}", other.program))?;
    Ok(version_in(&String::from_utf8_lossy(&output.stdout)).to_owned())
}

fn version_in(text: &str) -> &str {
    let is_version = |word: &&str| word.contains('.') && word.contains(|c: char| c.is_ascii_digit());
    let word = text.split_whitespace().find(is_version).unwrap_or_default();
    word.trim_start_matches("v=").trim_start_matches("df-").trim_start_matches('v')
}

fn print(name: &str, mut runs: Vec<Figures>) {
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let (Some(lowest), Some(highest)) = (runs.first(), runs.last()) else { return };
    let Figures { rate, p50, p99, server_micros } = runs[runs.len() / 2];
    let (lowest, highest) = (lowest.rate, highest.rate);
    println!(
        "{name:<34} {rate:>10.0} {lowest:>10.0} {highest:>10.0} {p50:>9.1} {p99:>9.1} {server_micros:>7.2}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(
            version_in("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"),
            "7.0.15"
        );
        assert_eq!(version_in("Valkey server v=9.1.0 sha=0 malloc=jemalloc-5.3.0"), "9.1.0");
        assert_eq!(version_in("memcached 1.6.18"), "1.6.18");
        assert_eq!(version_in("dragonfly v1.27.1-abc\nbuild time: 2025"), "1.27.1-abc");
        assert_eq!(version_in("pogocache"), "");
    }
}
