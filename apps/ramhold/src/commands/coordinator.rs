//! `ramhold coordinator`: the one authority on servers, tables and recoveries.

use crate::admin::{self, Admin, parse_admin};
use crate::failure::Failure;
use crate::placement::{parse_placement, placement_text};
use crate::process;
use crate::size::parse_duration;
use clap::Args;
use ramhold_admin::Door;
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_metadata::EmbeddedStore;
use ramhold_node::{Coordinator as Machine, CoordinatorConfig};
use ramhold_runtime::{Runtime, RuntimeConfig, raise_file_limit};
use ramhold_wire::ReplicaPlacement;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
All state is in the directory; start the coordinator on it again after a crash,
at the same address. The data path goes on meanwhile. Options can also come from
a file (--config FILE) and from the environment (RAMHOLD_BIND=...).

Examples:
  ramhold coordinator --dir /var/lib/ramhold-coordinator
  ramhold coordinator --dir /srv/coordinator --bind 10.0.0.1:7400 \\
      --insecure-network
  ramhold coordinator --dir /var/lib/ramhold-coordinator --default-replicas 2
  ramhold coordinator --dir /var/lib/ramhold-coordinator --placement copyset

Exit codes: 0 stopped cleanly, 2 it cannot start, others: see the last line that
it printed.";

/// Run the coordinator of a cluster.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Coordinator {
    /// Where its state is kept. Made when it is missing: then a new cluster begins.
    #[arg(long, env = "RAMHOLD_DIR")]
    dir: PathBuf,
    /// Where to listen.
    #[arg(long, env = "RAMHOLD_BIND", value_name = "ADDR", default_value = "127.0.0.1:7400")]
    bind: SocketAddr,
    /// Where others reach it, when that is not the address it listens on.
    #[arg(long, env = "RAMHOLD_ADVERTISE", value_name = "ADDR")]
    advertise: Option<SocketAddr>,
    /// Allow addresses that other machines can reach. There is neither encryption nor any account yet.
    #[arg(long, env = "RAMHOLD_INSECURE_NETWORK")]
    insecure_network: bool,
    /// How long a cold start waits for every old directory before it is content with complete logs.
    #[arg(
        long,
        env = "RAMHOLD_COLD_START_WAIT",
        value_name = "TIME",
        default_value = "30s",
        value_parser = parse_duration
    )]
    cold_start_wait: Duration,
    /// Replicas of a table that is made without '--replicas': 0 to 7; with 0 it is in one server's memory alone. Tables
    /// that are there keep theirs.
    #[arg(long, env = "RAMHOLD_DEFAULT_REPLICAS", value_name = "COUNT", default_value_t = REPLICA_COUNT_DEFAULT,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    default_replicas: u8,
    /// How the replicas of a segment are placed: 'scatter', on any servers; 'copyset', on one of few sets of servers, as
    /// many as there are servers; 'copyset:N', N times as many (1 to 16). Fewer sets: a power cut after which some
    /// servers stay away is less likely to lose anything, but loses more when it does; see 'ramhold plan'. Counts for
    /// replicas made from now on.
    #[arg(long, env = "RAMHOLD_PLACEMENT", value_name = "HOW", default_value = "scatter",
        value_parser = parse_placement)]
    placement: ReplicaPlacement,
    /// Where metrics (/metrics, for Prometheus) and health (/health) are told over HTTP, or 'off'; port 0 takes any that is
    /// free.
    #[arg(long, env = "RAMHOLD_ADMIN", value_name = "ADDR", default_value = "off", value_parser = parse_admin)]
    admin: Admin,
    /// A file with options.
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    end_with: Option<u32>,
}

pub fn run(arguments: Coordinator) -> Result<(), Failure> {
    if let Some(parent) = arguments.end_with {
        process::end_with(parent)?;
    }
    process::abort_on_panic();
    let advertise = arguments.advertise.unwrap_or(arguments.bind);
    process::check_exposure(&[arguments.bind, advertise], arguments.insecure_network)?;
    if advertise.ip().is_unspecified() {
        return Err(Failure::usage(format!(
            "others cannot reach {advertise}; say with --advertise where they can"
        )));
    }
    if advertise.port() == 0 {
        return Err(Failure::usage("a coordinator needs a port by which it can be found again"));
    }
    let door = arguments.admin.open(arguments.insecure_network)?;
    let admin = door.as_ref().map(Door::address);
    raise_file_limit();
    let failed = |error: std::io::Error| Failure::local(&arguments.dir, &error).about("--dir");
    if !arguments.dir.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(&arguments.dir).map_err(failed)?;
    }
    let store = EmbeddedStore::open(&arguments.dir.join("store"))
        .map_err(|error| Failure::usage(error.to_string()).about("--dir"))?;

    let mut config = CoordinatorConfig::new(advertise);
    config.cold_start_wait = arguments.cold_start_wait;
    config.default_replicas = arguments.default_replicas;
    config.placement = arguments.placement;
    let seed = RandomState::new().hash_one(std::process::id());
    let runtime = RuntimeConfig {
        listen: Some(arguments.bind),
        store: Some(Box::new(store)),
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(Machine::new(config, seed), runtime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    process::stop_on_signal(runtime.stop_handle())?;
    if let Some(door) = door {
        door.serve(&mut runtime, Machine::seen).map_err(admin::thread_failed)?;
    }
    crate::output::show(&format!(
        "ramhold coordinator {}\n  listens      {}\n{}\n  state        {}\n  replicas     {} by default, placed by {}",
        env!("CARGO_PKG_VERSION"),
        arguments.bind,
        admin::line(admin),
        arguments.dir.display(),
        arguments.default_replicas,
        placement_text(arguments.placement)
    ));
    process::ended(runtime.run())
}
