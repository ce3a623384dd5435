//! `ramhold coordinator`: the one authority on servers, tables and recoveries.

mod backup;

use super::server::device::{Kind, check_kind};
use crate::admin::{self, Admin, parse_admin};
use crate::failure::Failure;
use crate::global::Global;
use crate::process::{self, Stops};
use crate::size::parse_duration;
use backup::Backup;
use clap::{Args, Subcommand};
use ramhold_admin::Door;
use ramhold_base::ServerId;
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_metadata::{BackupFile, EmbeddedStore};
use ramhold_node::{Coordinator as Machine, CoordinatorConfig, Rebuild, term_record};
use ramhold_runtime::{Runtime, RuntimeConfig, raise_file_limit};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HELP: &str = "\
Examples:
  ramhold coordinator --dir /var/lib/ramhold-coordinator
  ramhold coordinator --dir /srv/coordinator --bind 10.0.0.1:7400 \\
      --insecure-network
  ramhold coordinator --dir /var/lib/ramhold-coordinator --default-replicas 2
  ramhold coordinator --dir /var/lib/ramhold-coordinator --placement copyset
  ramhold coordinator --dir /var/lib/ramhold-coordinator --topology zones \\
      --placement zone-local
  ramhold coordinator backup --to /var/backups/ramhold-state
  ramhold coordinator --dir /var/lib/ramhold-new --rebuild-from-servers \\
      --given-up s4
  ramhold coordinator --dir /var/lib/ramhold-new \\
      --restore /var/backups/ramhold-state

The directory has all state. After a crash, start the coordinator again on its
directory, at the same address. Clients go on reading and writing meanwhile.

Options can also come from the environment (RAMHOLD_BIND=...) and from a file
(--config FILE). The command line wins over the environment, and the environment
over the file.

If the directory is lost, do not simply start on an empty directory. That would
be a new cluster, which the servers refuse. Stop the old coordinator for good,
and start another one at the same address:
  - with --rebuild-from-servers if the servers are alive. They hold copies of
    the state, and nothing is lost;
  - with --restore FILE if all servers were stopped, too. The backup must be
    newer than the last change.
docs/operating/coordinator.md says when each of them is right.

Exit codes: 0 stopped cleanly, 2 it cannot start, 6 its state is an old copy.
For any other code, see the last line of output.";

/// Requests to a running coordinator.
#[derive(Subcommand, Debug)]
enum Command {
    Backup(Backup),
}

/// Run the coordinator of a cluster.
#[derive(Args, Debug)]
#[command(after_help = HELP, subcommand_negates_reqs = true)]
pub struct Coordinator {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directory of the coordinator's state. If it does not exist, it is created, and a new cluster begins.
    #[arg(long, env = "RAMHOLD_DIR", required = true)]
    dir: Option<PathBuf>,
    /// Begin in a new directory with the state of this backup. Stop the old coordinator for good first.
    #[arg(long, value_name = "FILE", conflicts_with = "rebuild_from_servers")]
    restore: Option<PathBuf>,
    /// Begin in a new directory with the state that the servers hold copies of. Use this when the old
    /// directory is lost. All servers must be up, or named with --given-up. The old coordinator cannot act
    /// any more after that.
    #[arg(long)]
    rebuild_from_servers: bool,
    /// Ids of servers that are switched off for good, so that the rebuild does not wait for them: s4,s7.
    /// Changes that only missing servers held are lost. Nothing is lost if at most two of four or more
    /// servers are missing, or one of three.
    #[arg(long, value_name = "SERVERS", value_delimiter = ',', requires = "rebuild_from_servers",
        value_parser = parse_server)]
    given_up: Vec<ServerId>,
    /// Address to listen on.
    #[arg(long, env = "RAMHOLD_BIND", value_name = "ADDR", default_value = "127.0.0.1:7400")]
    bind: SocketAddr,
    /// Address at which others reach the coordinator [default: the address of --bind]
    #[arg(long, env = "RAMHOLD_ADVERTISE", value_name = "ADDR")]
    advertise: Option<SocketAddr>,
    /// Allow addresses that other machines can reach. There is no encryption yet, and accounts bind Redis clients alone.
    #[arg(long, env = "RAMHOLD_INSECURE_NETWORK")]
    insecure_network: bool,
    /// How long a cold start waits for all old data directories. After that, complete logs are enough.
    #[arg(
        long,
        env = "RAMHOLD_COLD_START_WAIT",
        value_name = "TIME",
        default_value = "30s",
        value_parser = parse_duration
    )]
    cold_start_wait: Duration,
    /// Replicas of a table that is created without --replicas: 0 to 7; 0 keeps the table in one server's
    /// memory alone. Existing tables keep their number.
    #[arg(long, env = "RAMHOLD_DEFAULT_REPLICAS", value_name = "COUNT", default_value_t = REPLICA_COUNT_DEFAULT,
        value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    default_replicas: u8,
    /// Placement of a segment's replicas. 'scatter': on any servers. 'copyset': on one of few sets of
    /// servers, as many sets as servers. 'copyset:RINGS': RINGS times as many sets (1 to 16). With fewer
    /// sets, a power cut after which some servers stay away is less likely to lose data, but loses more when
    /// it does; see 'ramhold plan'. 'zone-local': the first replica in the zone of its server (--label
    /// zone=...), the others in other zones, and a dead server is recovered in its own zone. 'multiring' (grids):
    /// each part of a server's data with one of the servers that share a switch with it, which recovers that
    /// part from replicas one hop away. 'multiring-strict': all replicas of a part one hop away, for servers
    /// without the labels zone and rack. 'rack-local' (racks): each part with another rack. All three also
    /// with ':COUNT', the most parts of a server. Applies to new replicas; tablets move to their parts by
    /// themselves.
    #[arg(long, env = "RAMHOLD_PLACEMENT", value_name = "HOW", default_value = "scatter")]
    placement: ReplicaPlacement,
    /// Topology of the network: 'flat', 'zones', 'bcube:N,K' or 'grid:R0,R1,...'; see 'ramhold topology'. It
    /// says which labels every server must have. The directory keeps it; another one is refused where it
    /// does not fit the servers [default: the one that is kept, 'flat' in a new cluster]
    #[arg(long, env = "RAMHOLD_TOPOLOGY", value_name = "NETWORK")]
    topology: Option<Topology>,
    /// Give bricks that hold nothing a share of the quorum tables, as 'ramhold brick add' does. Bricks that were
    /// removed get none.
    #[arg(long, env = "RAMHOLD_AUTO_SCALE")]
    auto_scale: bool,
    /// HTTP address for metrics (/metrics, for Prometheus) and health (/health, /ready), or 'off'; port 0 takes any
    /// free port.
    #[arg(long, env = "RAMHOLD_ADMIN", value_name = "ADDR", default_value = "off", value_parser = parse_admin)]
    admin: Admin,
    /// File with options: TOML, keys as the long options without --, or 'none'; see 'ramhold config' [default:
    /// /etc/ramhold/ramhold.toml, if it is there]
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    end_with: Option<u32>,
}

pub fn run(arguments: Coordinator, global: &Global) -> Result<(), Failure> {
    match arguments.command {
        Some(Command::Backup(backup)) => return backup.run(global),
        None => {}
    }
    let dir = arguments.dir.ok_or_else(|| Failure::usage("give the directory of the state with --dir"))?;
    if let Some(parent) = arguments.end_with {
        process::end_with(parent)?;
    }
    process::abort_on_panic();
    process::stay_on_hangup("coordinator")?;
    let advertise = arguments.advertise.unwrap_or(arguments.bind);
    process::check_exposure(&[arguments.bind, advertise], arguments.insecure_network)?;
    if advertise.ip().is_unspecified() {
        return Err(Failure::usage(format!(
            "others cannot reach {advertise}; give an address at which they can with --advertise"
        )));
    }
    if advertise.port() == 0 {
        return Err(Failure::usage("a coordinator needs a fixed port; give one with --bind or --advertise"));
    }
    let door = arguments.admin.open(arguments.insecure_network)?;
    let admin = door.as_ref().map(Door::address);
    raise_file_limit();
    let failed = |error: std::io::Error| Failure::local(&dir, &error).about("--dir");
    if !dir.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
    }
    check_kind(&dir, Kind::Coordinator)?;
    if let Some(file) = &arguments.restore {
        restore(&dir, file)?;
    }
    let store = EmbeddedStore::open(&dir.join("store"))
        .map_err(|error| Failure::usage(error.to_string()).about("--dir"))?;

    let mut config = CoordinatorConfig::new(advertise);
    config.cold_start_wait = arguments.cold_start_wait;
    config.default_replicas = arguments.default_replicas;
    config.auto_scale = arguments.auto_scale;
    if arguments.placement == ReplicaPlacement::ZoneLocal {
        check_zone_local(arguments.default_replicas)?;
    }
    config.placement = arguments.placement;
    config.topology = arguments.topology;
    config.rebuild = arguments
        .rebuild_from_servers
        .then(|| Rebuild { given_up: arguments.given_up.into_iter().collect() });
    let seed = RandomState::new().hash_one(std::process::id());
    let runtime = RuntimeConfig {
        listen: Some(arguments.bind),
        store: Some(Box::new(store)),
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(Machine::new(config, seed), runtime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    process::stop_on_signal(Stops::of(runtime.stop_handle()))?;
    if let Some(door) = door {
        drop(door.serve(&mut runtime, Machine::seen).map_err(admin::thread_failed)?);
    }
    crate::output::show(&format!(
        "ramhold coordinator {}\n  listens      {}\n{}\n  state        {}\n  replicas     {} by default, placed by {}\n  \
         processor    {}",
        env!("CARGO_PKG_VERSION"),
        arguments.bind,
        admin::line(admin),
        dir.display(),
        arguments.default_replicas,
        arguments.placement,
        ramhold_base::processor::path()
    ));
    process::ended(runtime.run())
}

/// Whether tables with this many replicas can be placed by `zone-local`.
pub fn check_zone_local(replicas: u8) -> Result<(), Failure> {
    if replicas >= 2 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--placement zone-local needs tables with 2 replicas or more, one of them in another zone, and new tables would \
         have {replicas}"
    )))
}

/// Makes the store of a backup.
fn restore(dir: &Path, file: &Path) -> Result<(), Failure> {
    let backup = BackupFile::read(file)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())).about("--restore"))?;
    let position = backup.position;
    let records = backup.records.into_iter().chain([term_record(position.term)]).collect();
    EmbeddedStore::restore(&dir.join("store"), records)
        .map_err(|error| Failure::usage(error.to_string()).about("--restore"))?;
    crate::output::show(&format!(
        "restored {}: change {} of {}",
        file.display(),
        position.number,
        position.term
    ));
    Ok(())
}

fn parse_server(text: &str) -> Result<ServerId, String> {
    let number = text.strip_prefix('s').unwrap_or(text).parse::<u64>().ok().filter(|number| *number > 0);
    number.map(ServerId).ok_or_else(|| "expected the id of a server, such as s4".into())
}
