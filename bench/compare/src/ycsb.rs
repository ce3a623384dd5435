//! YCSB's workloads A to F: five servers of Ramhold beside a Redis cluster of three masters with a replica each.
//!
//! The client is `ramhold bench kv` for all. Ramhold has two tables on the same servers: one with three replicas, buffered,
//! and one without replicas. Redis appends to its file and flushes it every second (`appendfsync everysec`); a write is
//! acknowledged before the replica has it. Runs of all alternate. All servers share core 0, so what is compared is the
//! processor time that an operation takes in all processes together.
//!
//! A scan of E reads objects with consecutive numbers: Ramhold's client sends one frame to each server, and to the Redis
//! cluster one GET for each object goes out, since MGET takes keys of one slot only.

mod redis_cluster;

use crate::process::{is_installed, pinned, ramhold};
use crate::ramhold::{Cluster, Transport};
use clap::Args;
use redis_cluster::RedisCluster;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

/// Compare YCSB's workloads on five servers with a Redis cluster of 3 + 3, with the same client.
#[derive(Args, Clone, Debug)]
pub struct Ycsb {
    /// Objects of 30 + 1000 B, all of them written before the measurement.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    objects: u64,
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Runs of each workload; the median is printed, and the lowest and highest rate.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Operations under way; workload E has 8.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipeline: u16,
    /// Workloads.
    #[arg(long, value_delimiter = ',', default_values_t = ['a', 'b', 'c', 'd', 'e', 'f'])]
    only: Vec<char>,
    /// How the processes of Ramhold and their client reach each other.
    #[arg(long, value_enum, default_value_t = Transport::SharedMemory)]
    transport: Transport,
    /// A new file that gets what 'ramhold bench kv' printed, a line of JSON for each run.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Few objects and one run of one second per workload: shows that the benchmark works, not the speed.
    #[arg(long)]
    smoke: bool,
}

const SERVERS: usize = 5;

struct Subject {
    name: &'static str,
    arguments: Vec<String>,
}

impl Ycsb {
    pub fn run(self) -> Result<(), String> {
        let plan = if self.smoke { Ycsb { objects: 2000, seconds: 1, runs: 1, ..self } } else { self };
        for program in ["redis-server", "redis-cli"] {
            if !is_installed(program) {
                return Err(format!("{program} is not installed; it is what this comparison is with"));
            }
        }
        let mut raw = match &plan.raw {
            Some(path) => {
                Some(File::create_new(path).map_err(|error| format!("{}: {error}", path.display()))?)
            }
            None => None,
        };
        let cluster = Cluster::start(SERVERS, 3, plan.transport)?;
        let redis = RedisCluster::start()?;
        let subjects = plan.subjects(&cluster, &redis);
        println!(
            "{} objects of 30 + 1000 B, {} under way (E: 8), medians of {} runs of {} s; all servers on core 0,\n\
             client on core 1; redis-server {}; times in us, of the whole operation\n",
            plan.objects,
            plan.pipeline,
            plan.runs,
            plan.seconds,
            redis.version()?
        );
        for subject in &subjects {
            let (objects, fill) = (plan.objects.to_string(), ["--pipeline", "64", "--seconds", "1"]);
            plan.bench(subject, &[&["--objects", &objects][..], &fill].concat())?;
        }
        println!(
            "{:<9} {:<26} {:>9} {:>19} {:>9} {:>9}  {:>8}",
            "workload", "", "/s", "lowest, highest", "p50", "p99", "by Redis"
        );
        for workload in &plan.only {
            plan.measure(*workload, &subjects, raw.as_mut())?;
        }
        Ok(())
    }

    fn subjects(&self, cluster: &Cluster, redis: &RedisCluster) -> Vec<Subject> {
        let table = |name: &str, replicas: &str, durability: &str| {
            let transport = match self.transport {
                Transport::Tcp => "tcp",
                Transport::SharedMemory => "auto",
            };
            let cluster = ["--cluster", cluster.coordinator(), "--transport", transport];
            let options = ["--table", name, "--replicas", replicas, "--durability", durability];
            [&cluster[..], &options].concat().into_iter().map(str::to_owned).collect()
        };
        vec![
            Subject { name: "ramhold, R = 3, buffered", arguments: table("ycsb3", "3", "buffered") },
            Subject { name: "ramhold, R = 0", arguments: table("ycsb0", "0", "none") },
            Subject {
                name: "Redis 3 + 3, everysec",
                arguments: vec!["--resp".into(), redis.addresses().join(","), "--resp-cluster".into()],
            },
        ]
    }

    fn measure(&self, workload: char, subjects: &[Subject], raw: Option<&mut File>) -> Result<(), String> {
        let mut raw = raw;
        let (letter, seconds, objects) =
            (workload.to_string(), self.seconds.to_string(), self.objects.to_string());
        let pipeline = if workload == 'e' { "8".to_owned() } else { self.pipeline.to_string() };
        let run = ["--ycsb", &letter, "--seconds", &seconds, "--objects", &objects];
        let arguments = [&run[..], &["--pipeline", &pipeline, "--no-fill"]].concat();
        let mut runs: Vec<Vec<Figures>> = subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.runs {
            for (subject, runs) in subjects.iter().zip(&mut runs) {
                let told = self.bench(subject, &arguments)?;
                runs.push(Figures::of(&told).ok_or_else(|| format!("bench kv told too little: {told}"))?);
                if let Some(raw) = &mut raw {
                    let line = json!({ "servers": subject.name, "workload": letter, "told": told });
                    writeln!(raw, "{line}").map_err(|error| format!("--raw: {error}"))?;
                }
            }
        }
        runs.iter_mut().for_each(|runs| runs.sort_by(|a, b| a.rate.total_cmp(&b.rate)));
        let medians: Vec<Figures> = runs.iter().map(|runs| runs[runs.len() / 2]).collect();
        let redis = medians.last().map_or(f64::NAN, |figures| figures.rate);
        for ((subject, runs), median) in subjects.iter().zip(&runs).zip(&medians) {
            let Figures { rate, p50, p99 } = *median;
            println!(
                "{letter:<9} {:<26} {rate:>9.0} {:>9.0} {:>9.0} {p50:>9.1} {p99:>9.1}  {:>7.2}x",
                subject.name,
                runs[0].rate,
                runs[runs.len() - 1].rate,
                rate / redis
            );
        }
        Ok(())
    }

    /// The output of `ramhold bench kv`.
    fn bench(&self, subject: &Subject, arguments: &[&str]) -> Result<Value, String> {
        let mut command = pinned(1, &ramhold());
        command.args(["--json", "bench", "kv", "--value-bytes", "1000"]).args(&subject.arguments);
        let output = command.args(arguments).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("{}: {error}", ramhold()))?;
        if !output.status.success() {
            return Err(format!("bench kv of {} ended with {}", subject.name, output.status));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("bench kv: {error}"))
    }
}

/// The figures of one run. Times are of the kind of operations that the workload has most of.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Figures {
    fn of(told: &Value) -> Option<Figures> {
        let run = &told["run"];
        let kinds = ["reads", "writes", "inserts", "modifies", "scans"].map(|kind| &run[kind]);
        let most = kinds.into_iter().max_by_key(|times| times["count"].as_u64())?;
        let micros = |name: &str| most[name].as_f64().map(|nanos| nanos / 1000.0);
        let rate = run["ops_per_second"].as_f64()?;
        Some(Figures { rate, p50: micros("p50_nanos")?, p99: micros("p99_nanos")? })
    }
}
