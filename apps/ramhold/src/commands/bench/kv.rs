//! `bench kv`: the throughput of a running cluster, the latency of its operations, and the number that fail.
//!
//! The command makes a load from its arguments (load), has it carried out, and prints what came of it
//! (report).

use super::folded::FoldedBackups;
use super::load::{
    self, Dialect, Distribution, Load, MEMCACHED_KEY_BYTES_MAX, Mix, SCAN_COUNT_MAX, Servers, Ycsb,
};
use super::server_cpu::ServerCpu;
use super::{machine, report};
use crate::commands::table::create::create_if_absent;
use crate::commands::table::options::OptionArguments;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use clap::Args;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_client::TableId;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// A session of the client library has at most so many operations under way.
const UNDER_WAY_MAX: u64 = 1024;
const FOLDED_COUNT_MAX: i64 = 7;
const PIPELINE_DEFAULT: u16 = 16;
const VALUE_BYTES_DEFAULT: usize = 100;
/// YCSB's records have ten fields of 100 B.
const YCSB_VALUE_BYTES: usize = 1000;

const HELP: &str = "\
Examples:
  ramhold bench kv
  ramhold bench kv --replicas 2 --read-percent 95 --clients 2 --pipeline 32 \\
      --seconds 30
  ramhold bench kv --pipeline 1 --json
      latency of one operation at a time
  ramhold bench kv --pipeline 64 --multi 64
      64 operations together, in one frame per server
  ramhold bench kv --ycsb a --clients 4
      YCSB's workload A: half reads, half writes, 1000 B, zipfian
  ramhold bench kv --distribution zipfian --value-bytes 0
  ramhold bench kv --resp 127.0.0.1:6379 --pipeline 64 --multi 64
      any server of Redis's protocol, by one MGET and one MSET at a time
  ramhold bench kv --quorum 3 --client-zone a
      a quorum table, with values from bricks in zone a
  ramhold bench kv --rate 20000 --pipeline 512
      latency at a given load
  taskset -c 1 ramhold bench kv --fold-backups 3 --replicas 3 --pipeline 1
      latency of replicated writes, with the only server on another core

All objects are written once; the first write that fails ends the command. Then
operations choose objects at random for the given time. Latency is the time from
sending an operation to its outcome; with --rate it counts from the moment at
which the operation was due. 'under way' is rate times mean latency: as many of
the places (--clients times --pipeline) were taken on average. A run whose
figures contradict each other says so, and ends with exit code 2. 'steal' is
processor time that the host took from this virtual machine. With more than a
few percent of steal, the results describe the host rather than the cluster.

--server-pid tells the processor time of servers, the kernel's for their sockets
included. A server of Ramhold also looks for work before it sleeps. That time is
in it, and --server-admin takes it off again; both figures are told. Without it,
compare where servers are busy.

With --resp the same client sends the same load as GET, SET, MGET and MSET to
the server at that address: Redis, Valkey, or a server of Ramhold, which answers
Redis's protocol at its port. With --resp-cluster it takes each key to the
master that has its slot, with one command per key. With
--memcached it sends get and set; what starts together is one get.

YCSB's workloads: a, b and c are 50, 95 and 100 % reads, the rest writes. d is
95 % reads of the newest objects and 5 % inserts. e is 95 % scans and 5 %
inserts; a scan reads 1 to 100 objects with consecutive numbers together, since
tables have no order of keys. f is half reads, half reads with a write of the
same object ('modify', one operation). Writes replace the whole value.";

/// Read and write objects as fast as the cluster answers.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct KeyValue {
    /// Table to use; created if it does not exist, and not dropped afterwards.
    #[arg(long, default_value = "bench")]
    table: String,
    #[command(flatten)]
    options: OptionArguments,
    /// Measure servers at these addresses over Redis's protocol instead of a table. Client threads, with
    /// one connection each, take the addresses in turn.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',',
          conflicts_with_all = ["table", "replicas", "durability", "slots", "zone", "quorum"])]
    resp: Vec<String>,
    /// The --resp servers are a Redis cluster: ask one of them who has which slot, and take each key there.
    #[arg(long, requires = "resp")]
    resp_cluster: bool,
    /// The same over memcached's text protocol.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',',
          conflicts_with_all = ["resp", "table", "replicas", "durability", "slots", "zone", "quorum"])]
    memcached: Vec<String>,
    /// Number of objects, each with its own key.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 30)]
    key_bytes: usize,
    /// Bytes of a value, 0 to 1 MiB [default: 100; with --ycsb 1000]
    #[arg(long)]
    value_bytes: Option<usize>,
    /// Percentage of reads; all other operations are writes.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_percent: u8,
    /// Which objects are chosen more often than others.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// A workload of YCSB, with its operations, its distribution and its size of values.
    #[arg(long, value_enum, value_name = "LETTER", ignore_case = true,
          conflicts_with_all = ["read_percent", "distribution"])]
    ycsb: Option<Ycsb>,
    /// Operations in flight per client [default: 16; with --ycsb e 8]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=UNDER_WAY_MAX as i64))]
    pipeline: Option<u16>,
    /// Start this many operations together; those for one server travel in one frame. The next ones start
    /// when the pipeline has room for all of them.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate",
          value_parser = clap::value_parser!(u16).range(1..=UNDER_WAY_MAX as i64))]
    multi: u16,
    /// Processes of servers on this machine: tells the processor time that they use together, per
    /// operation and as a share of one processor.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    server_pid: Vec<u32>,
    /// Where these servers show metrics (their --admin): takes the time off in which they looked for work
    /// and found none.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "server_pid")]
    server_admin: Vec<String>,
    /// Use the objects of an earlier run with the same keys instead of writing them first.
    #[arg(long)]
    no_fill: bool,
    /// Start this many operations per second at even intervals, even if earlier ones are late (open loop).
    /// Latency then counts from the moment at which the operation was due [default: keep the pipelines full]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: Option<u64>,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seed of the choice of objects and operations [default: random; --json prints it]
    #[arg(long)]
    seed: Option<u64>,
    /// Client threads, each with its own connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Be this many backups of the cluster in the client's thread, which then never sleeps: latency of
    /// replicated writes without a scheduler between the processes. The cluster has one other server, and
    /// loses these copies at the end.
    #[arg(long, value_name = "COUNT",
          conflicts_with_all = ["resp", "memcached", "quorum", "clients"],
          value_parser = clap::value_parser!(u8).range(1..=FOLDED_COUNT_MAX))]
    fold_backups: Option<u8>,
    /// Zone of the clients: values of a quorum table are read from bricks there first. --zone is the table's.
    #[arg(long, env = "RAMHOLD_ZONE", value_name = "NAME")]
    client_zone: Option<String>,
}

impl KeyValue {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let load = self.load()?;
        let Some((dialect, names)) = self.text() else {
            let global = &global.from(self.client_zone.as_deref());
            return match self.fold_backups {
                None => self.play_table(load, Servers::Native(global), global),
                Some(count) => self.play_folded(load, count, global),
            };
        };
        let option = dialect.option();
        let addresses =
            names.iter().map(|name| resolve(option, name)).collect::<Result<Vec<_>, Failure>>()?;
        let patience = global.timeout();
        if self.resp_cluster {
            return self.play(&load, Servers::Cluster { addresses: &addresses, patience }, global);
        }
        self.play(&load, Servers::Text { dialect, addresses: &addresses, patience }, global)
    }

    fn play_table(&self, load: Load, servers: Servers<'_>, global: &Global) -> Result<(), Failure> {
        let wish = self.options.wish(0)?;
        let table = create_if_absent(&mut global.connect()?, &self.table, &wish)?;
        self.play(&Load { table, ..load }, servers, global)
    }

    /// With `count` backups of its own.
    fn play_folded(&self, load: Load, count: u8, global: &Global) -> Result<(), Failure> {
        interrupt::watch()?;
        let backups = FoldedBackups::start(count, global)?;
        std::thread::scope(|scope| {
            let keeping = backups.keep(scope);
            let played = backups
                .wait_until_up(global)
                .and_then(|()| self.play_table(load, Servers::Folded(global, &backups), global));
            drop(keeping);
            let ended = backups.end();
            interrupt::check().and(played).and(ended)
        })
    }

    /// The servers that are measured instead of a table, and their protocol.
    fn text(&self) -> Option<(Dialect, &[String])> {
        match (&self.resp[..], &self.memcached[..]) {
            ([], []) => None,
            ([], names) => Some((Dialect::Memcached, names)),
            (names, _) => Some((Dialect::Redis, names)),
        }
    }

    fn play(&self, load: &Load, servers: Servers<'_>, global: &Global) -> Result<(), Failure> {
        let filled = if self.no_fill { load::Measured::new() } else { self.fill(load, servers)? };
        let (before, cpu) = (machine::Times::now(), ServerCpu::begin(&self.server_pid, &self.server_admin)?);
        let measured = load::measure(load, servers, Duration::from_secs(self.seconds))?;
        let machine = report::Machine {
            folded: self.fold_backups.unwrap_or(0),
            steal_percent: machine::steal_percent(before, machine::Times::now()),
            server: cpu.map(|cpu| cpu.end(measured.elapsed)).transpose()?,
        };
        report::print(load, servers, &filled, &measured, &machine, global)
    }

    /// The load, with a table that is still to be named if there is one.
    fn load(&self) -> Result<Load, Failure> {
        let (mix, distribution) = match self.ycsb {
            Some(ycsb) => (ycsb.mix(), ycsb.distribution()),
            None => (Mix::reads(self.read_percent), self.distribution),
        };
        let scans = mix.percent(load::Kind::Scan) > 0;
        let load = Load {
            table: TableId(0),
            clients: self.clients,
            objects: self.objects,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes.unwrap_or(match self.ycsb {
                Some(_) => YCSB_VALUE_BYTES,
                None => VALUE_BYTES_DEFAULT,
            }),
            mix,
            distribution,
            pipeline: self.pipeline.unwrap_or(if scans { 8 } else { PIPELINE_DEFAULT }).into(),
            multi: self.multi.into(),
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id())),
            rate: self.rate,
        };
        let key_bytes_min = load::key_bytes_min(load.objects);
        let key_bytes_max = if self.memcached.is_empty() { KEY_BYTES_MAX } else { MEMCACHED_KEY_BYTES_MAX };
        if !(key_bytes_min..=key_bytes_max).contains(&load.key_bytes) {
            let objects = load.objects;
            return Err(Failure::usage(format!(
                "--key-bytes must be between {key_bytes_min} and {key_bytes_max} for {objects} objects"
            )));
        }
        if load.value_bytes > VALUE_BYTES_MAX {
            return Err(Failure::usage(format!("--value-bytes must be at most {VALUE_BYTES_MAX}")));
        }
        if load.multi > load.pipeline {
            return Err(Failure::usage("--multi must not be more than --pipeline"));
        }
        let scans_max = UNDER_WAY_MAX / SCAN_COUNT_MAX;
        if scans && load.pipeline as u64 > scans_max {
            return Err(Failure::usage(format!(
                "a scan of --ycsb e reads up to {SCAN_COUNT_MAX} objects, so --pipeline must be at most {scans_max}"
            )));
        }
        Ok(load)
    }

    fn fill(&self, load: &Load, servers: Servers<'_>) -> Result<load::Measured, Failure> {
        let mut filled = load::fill(load, servers)?;
        match filled.failed.take() {
            None => Ok(filled),
            Some(failed) => {
                let (done, all) = (filled.done(), self.objects);
                let filling = match servers {
                    Servers::Native(_) | Servers::Folded(..) => format!("'{}'", self.table),
                    Servers::Text { .. } | Servers::Cluster { .. } => {
                        [&self.resp[..], &self.memcached].concat().join(", ")
                    }
                };
                Err(failed.about(&format!("filling {filling}: {done} of {all} objects were written")))
            }
        }
    }
}

fn resolve(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| Failure::usage(format!("{option} {text}: {why}"));
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("this name has no address".to_owned()))
}
