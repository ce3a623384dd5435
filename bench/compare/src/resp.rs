//! Redis's protocol: Ramhold beside redis-server, and both beside the floor, a server that only answers.
//!
//! The three servers run in turn on core 0, and the load runs on core 1. Each run takes a few seconds, and
//! the median counts. Keys are chosen at random from a set too large for the caches, and all keys exist
//! before the measurement begins. The load is our own: redis-benchmark spends more on a reply than the empty
//! server does, and would measure itself.
//!
//! CPU per operation is the time that the kernel charges to the server's process, including the kernel's work
//! for the server's sockets.
//!
//! Not here: latency under an offered rate, several servers, replicas.

mod empty;
mod load;
mod request;

pub use empty::Empty;
pub use request::{Request, TOGETHER};

use crate::process::Process;
use crate::{process, ramhold};
use clap::Args;
use empty::hex;
use load::Load;
use request::{KEY_BYTES, VALUE_BYTES};
use std::time::Duration;

/// Measure operations and CPU over Redis's protocol, beside redis-server and the empty server.
#[derive(Args, Clone, Debug)]
pub struct Resp {
    /// Number of keys, all of them written before the measurement.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// Duration of each run in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Runs of each test; the median is printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub runs: u16,
    /// Connections of the load.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=20_000))]
    pub connections: u16,
    /// Few keys and one run of one second per test: shows that the benchmark works, not the speed.
    #[arg(long)]
    pub smoke: bool,
}

/// Commands under way on each connection.
pub const PIPELINES: [usize; 2] = [1, 16];

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub ops_per_second: f64,
    pub server_micros: f64,
}

/// A server that is measured.
struct Subject {
    name: &'static str,
    process: Server,
}

enum Server {
    Process(Process),
    Ramhold(ramhold::Cluster),
}

impl Server {
    fn port(&self) -> u16 {
        match self {
            Server::Process(process) => process.port(),
            Server::Ramhold(cluster) => cluster.resp_port(),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Server::Process(process) => process.pid(),
            Server::Ramhold(cluster) => cluster.server_pid(),
        }
    }
}

impl Resp {
    pub fn run(self) -> Result<(), String> {
        let plan = self.plan();
        plan.head()?;
        let redis = Process::start("redis-server", |command, port, dir| {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
            command.args(["--maxclients", &(u32::from(plan.connections) + 100).to_string()]);
            command.args(["--appendonly", "no", "--dir"]).arg(dir);
        })?;
        let subjects = [
            Subject { name: "redis", process: Server::Process(redis) },
            Subject { name: "ramhold", process: Server::Ramhold(ramhold::Cluster::resp()?) },
        ];
        for subject in &subjects {
            let load = Load::open(subject.process.port(), plan.connections, Request::Set, plan.keys, 64)?;
            let seconds = load.fill()?;
            println!("{}: {} keys written in {seconds:.1} s", subject.name, plan.keys);
        }
        println!(
            "\n{:<20} {:>26} {:>26} {:>26}   {:>22} {:>14}",
            "test", "empty: /s, us/op, busy", "redis", "ramhold", "rate of empty, redis", "us of empty's"
        );
        for (request, pipeline) in tests() {
            let mut runs: [Vec<Figures>; 3] = Default::default();
            for _ in 0..plan.runs {
                runs[0].push(plan.measure_empty(request, pipeline)?);
                for (subject, runs) in subjects.iter().zip(&mut runs[1..]) {
                    runs.push(plan.measure(&subject.process, request, pipeline)?);
                }
            }
            let [empty, redis, ours] = runs.map(median);
            println!(
                "{:<20} {} {} {}   {:>10.2} {:>11.2} {:>13.2}x",
                name(request, pipeline),
                text(empty),
                text(redis),
                text(ours),
                ours.ops_per_second / empty.ops_per_second,
                ours.ops_per_second / redis.ops_per_second,
                ours.server_micros / empty.server_micros,
            );
        }
        Ok(())
    }

    /// The load to be measured, little of it to try the benchmark out.
    pub fn plan(&self) -> Resp {
        if self.smoke { Resp { keys: 10_000, seconds: 1, runs: 1, ..self.clone() } } else { self.clone() }
    }

    pub fn with_one_connection(&self) -> Resp {
        Resp { connections: 1, ..self.clone() }
    }

    fn head(&self) -> Result<(), String> {
        println!(
            "Redis's protocol, {} random keys of {} B, values of {} B, {} connections, medians of {} runs of {} s;\n\
             servers on core 0, our own load on core 1; us/op: the server's CPU time for one operation; busy: its part of the\n\
             core. A server that is not busy waited for the load, or for whoever else used the core",
            self.keys, KEY_BYTES, VALUE_BYTES, self.connections, self.runs, self.seconds
        );
        println!(
            "a byte to a sleeping process and back: {:.1} us on the other core\n",
            process::echo_micros(0)?
        );
        Ok(())
    }

    fn measure_empty(&self, request: Request, pipeline: usize) -> Result<Figures, String> {
        let (own, form) = (std::env::current_exe().map_err(|error| error.to_string())?, request.form());
        let empty = Process::start(&own.to_string_lossy(), |command, port, _| {
            command.args(["empty", "--port", &port.to_string(), "--reply", &hex(&form.reply)]);
            command.args(["--request-bytes", &form.request.len().to_string()]);
        })?;
        self.measure(&Server::Process(empty), request, pipeline)
    }

    /// The empty server with these requests: the most that any server can answer here.
    pub fn floor(&self, request: Request, pipeline: usize) -> Result<Figures, String> {
        let runs: Result<Vec<Figures>, String> =
            (0..self.runs).map(|_| self.measure_empty(request, pipeline)).collect();
        Ok(median(runs?))
    }

    fn measure(&self, server: &Server, request: Request, pipeline: usize) -> Result<Figures, String> {
        let load = Load::open(server.port(), self.connections, request, self.keys, pipeline)?;
        let before = process::cpu_micros(server.pid())?;
        let (count, seconds) = load.run(Duration::from_secs(self.seconds))?;
        let used = process::cpu_micros(server.pid())? - before;
        Ok(Figures { ops_per_second: count as f64 / seconds, server_micros: used as f64 / count as f64 })
    }
}

fn tests() -> impl Iterator<Item = (Request, usize)> {
    PIPELINES.into_iter().flat_map(|pipeline| [(Request::Get, pipeline), (Request::Set, pipeline)])
}

pub fn name(request: Request, pipeline: usize) -> String {
    format!("{request}, pipeline {pipeline}")
}

pub fn text(figures: Figures) -> String {
    let busy = figures.ops_per_second * figures.server_micros / 10_000.0;
    format!("{:>12.0} {:>7.2} {busy:>4.0}%", figures.ops_per_second, figures.server_micros)
}

/// The run with the median rate.
fn median(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.ops_per_second.total_cmp(&b.ops_per_second));
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}
