//! `ramhold server`: one storage server, master and backup.
//!
//! The command checks the machine before it takes any resource. If something is missing, it refuses to start
//! and gives the figure. At the start it reports the resources that it took. Then the loop runs until the
//! cluster or a signal ends it.

mod buffers;
pub mod device;
mod forget;

use crate::admin::{self, Admin, parse_admin};
use crate::cross_slot::parse_cross_slot;
use crate::failure::Failure;
use crate::global::Global;
use crate::memory::{MemoryPlan, PLACE_BYTES, Roles, check_available};
use crate::process;
use crate::size::{bytes_text, parse_bytes, parse_duration};
use buffers::BufferPlace;
use clap::{Args, Subcommand, ValueEnum};
use ramhold_admin::Door;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::limits::{
    LABEL_BYTES_MAX, LABEL_COUNT_MAX, SEGLET_BYTES, SEGMENT_BYTES, TABLE_NAME_BYTES_MAX,
};
use ramhold_base::processor;
use ramhold_client::parse_addresses;
use ramhold_detector::DetectorConfig;
use ramhold_log::Geometry;
use ramhold_master::MasterConfig;
use ramhold_node::{CrossSlot, Process, RespConfig, ServerConfig, ServerNode, ServerSeen};
use ramhold_runtime::{
    DiskConfig, Poll, Runtime, RuntimeConfig, StartError, free_space, memory_available, raise_file_limit,
};
use ramhold_wire::membership::Label;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames reserved on the device in one step: 128 MiB are there in milliseconds and last for a while.
const FRAMES_GROW_BY: u32 = 16;
const NEEDED_INTERVAL: Duration = Duration::from_secs(1);
const ENLIST_INTERVAL: Duration = Duration::from_millis(250);
/// How often another port is tried when somebody else takes the one that was just found free.
const PORT_ATTEMPT_COUNT: u32 = 16;

const HELP: &str = "\
Options can also come from a file (--config FILE, keys as the long options
without --) and from the environment (RAMHOLD_MEMORY=64GiB); what is typed wins
over the environment, and that over the file.

RAMHOLD_CPU=baseline|sse4.2|avx512|vpclmulqdq makes any ramhold program use
these instructions for checksums and copies, to test them; without it the
program uses the best that the processor has, and the server says at its start
which.

SIGTERM or SIGINT ends the server cleanly: everything is flushed first. A second
signal ends it at once.

Examples:
  ramhold server --coordinator 127.0.0.1:7400 --dir /var/lib/ramhold \\
      --memory 4GiB
  ramhold server --coordinator 10.0.0.1 --bind 10.0.0.2:7401 \\
      --insecure-network --dir /srv/ramhold --memory 64GiB --disk 400GiB \\
      --label host=b --label rack=1
  ramhold server --config /etc/ramhold/server.toml
  ramhold server forget s5

Exit codes: 0 stopped cleanly, 2 it cannot start, 3 the cluster has declared it
dead, 4 it cannot serve (the directory belongs to another cluster, or is
damaged), 5 its memory is damaged where no backup has it (nothing acknowledged
is lost; start it again).";

/// Run a storage server, or forget one that is gone for good.
#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Server {
    #[command(subcommand)]
    command: Option<ServerCommand>,
    /// Where the coordinator is: HOST[:PORT].
    #[arg(long, env = "RAMHOLD_COORDINATOR", value_name = "ADDR", required = true)]
    coordinator: Option<String>,
    /// The data directory: identity and replicas. Made when it is missing.
    #[arg(long, env = "RAMHOLD_DIR", required = true)]
    dir: Option<PathBuf>,
    /// Where acknowledged writes wait to be flushed; must be in memory (tmpfs).
    /// By default below /dev/shm, in a directory of this user and data directory.
    #[arg(long, env = "RAMHOLD_BUFFER_DIR", value_name = "DIR")]
    buffer_dir: Option<PathBuf>,
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, env = "RAMHOLD_BIND", value_name = "ADDR", default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// Where others reach this server, when that is not the address it listens on.
    #[arg(long, env = "RAMHOLD_ADVERTISE", value_name = "ADDR")]
    advertise: Option<SocketAddr>,
    /// All memory that grows with data: log, index, buffers, recovery, network.
    #[arg(long, env = "RAMHOLD_MEMORY", value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    memory: u64,
    /// The part of --memory where acknowledged writes of others wait to be flushed; 0: in the page cache of the frames. By
    /// default a fifth, at most 256 MiB.
    #[arg(long, env = "RAMHOLD_BUFFERS", value_name = "SIZE", value_parser = parse_bytes)]
    buffers: Option<u64>,
    /// Room on the device for replicas of other servers' data.
    #[arg(long, env = "RAMHOLD_DISK", value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
    disk: u64,
    /// How many times the log's memory its replicas may take in frames, on each set of backups. More spares them
    /// bandwidth when memory is nearly full.
    #[arg(
        long,
        env = "RAMHOLD_DISK_EXPANSION",
        value_name = "FACTOR",
        default_value_t = ramhold_master::DISK_EXPANSION,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    disk_expansion: u32,
    /// How much of the log's memory is verified in a second, in the background, to find what has rotted there; 0: none.
    #[arg(
        long,
        env = "RAMHOLD_SCRUB_RATE",
        value_name = "SIZE",
        default_value_t = ramhold_master::SCRUB_BYTES_PER_SECOND,
        value_parser = parse_bytes
    )]
    scrub_rate: u64,
    /// How much of closed segments whose replicas were lost with a backup this server copies again in a second, so that
    /// clients' writes have the rest; 0: as fast as it goes.
    #[arg(long, env = "RAMHOLD_COPY_RATE", value_name = "SIZE", default_value_t = 0, value_parser = parse_bytes)]
    copy_rate: u64,
    /// What this server shares with others, and fails together with: host=NAME, rack=NAME.
    #[arg(
        long,
        env = "RAMHOLD_LABEL",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        value_parser = parse_label
    )]
    label: Vec<Label>,
    /// Hold no replicas of others.
    #[arg(long, env = "RAMHOLD_NO_BACKUP")]
    no_backup: bool,
    /// Own no tablets.
    #[arg(long, env = "RAMHOLD_NO_MASTER")]
    no_master: bool,
    /// Allow replicas in this server's own failure domain. They die with it: for tests on one machine.
    #[arg(long, env = "RAMHOLD_ALLOW_LOCAL_BACKUP")]
    allow_local_backup: bool,
    /// How long an acknowledged write may be in memory only, on all its backups.
    #[arg(
        long,
        env = "RAMHOLD_FLUSH_INTERVAL",
        value_name = "TIME",
        default_value = "100ms",
        value_parser = parse_duration
    )]
    flush_interval: Duration,
    /// State that the buffers outlive a loss of power (battery, NVDIMM): writes to synced tables then wait for them, not
    /// for the device.
    #[arg(long, env = "RAMHOLD_BUFFERS_SURVIVE_POWER")]
    buffers_survive_power: bool,
    /// Where else to listen for Redis clients, at the address of --bind: several servers of one machine may share a port,
    /// and each connection goes to one of them, also to one that is stopped. Redis clients are heard at --bind too.
    #[arg(long, env = "RAMHOLD_RESP_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    resp_port: Option<u16>,
    /// A port of this server, at the address of --bind, for clients of Redis Cluster alone. CLUSTER SLOTS tells it instead of
    /// the server's own port. A client that comes to it finds only this server's keys with SCAN, KEYS, RANDOMKEY and DBSIZE,
    /// as such clients ask every server; without this port they meet each key as often as there are servers.
    #[arg(long, env = "RAMHOLD_RESP_CLUSTER_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    resp_cluster_port: Option<u16>,
    /// The table of a Redis database, where it is not db0, db1 and so on: NUMBER=TABLE.
    #[arg(long, env = "RAMHOLD_RESP_TABLE", value_name = "NUMBER=TABLE", value_delimiter = ',', value_parser = parse_database)]
    resp_table: Vec<(u16, String)>,
    /// Databases that Redis clients may select.
    #[arg(long, env = "RAMHOLD_RESP_DATABASES", value_name = "COUNT", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    resp_databases: u16,
    /// A file whose first line is the password that Redis clients must give. It guards Redis commands alone: native clients,
    /// such as 'ramhold get', reach the same port without it until there are accounts.
    #[arg(long, env = "RAMHOLD_RESP_PASSWORD_FILE", value_name = "FILE")]
    resp_password_file: Option<PathBuf>,
    /// End a Redis client's connection that has asked for nothing for so long, unless it listens to channels; without this
    /// it may be silent for as long as it likes.
    #[arg(long, env = "RAMHOLD_RESP_IDLE", value_name = "TIME", value_parser = parse_duration)]
    resp_idle: Option<Duration>,
    /// Whether a Redis command of several keys that takes effect as one, or a transaction, may have keys of different hash
    /// slots: 'strict' refuses it with CROSSSLOT on any cluster; 'allow' carries it out if one server has all the keys, so
    /// on a cluster of one server always.
    #[arg(long, env = "RAMHOLD_RESP_CROSS_SLOT", value_name = "HOW", default_value = "strict",
        value_parser = parse_cross_slot)]
    resp_cross_slot: CrossSlot,
    /// Allow Redis clients DEBUG.
    #[arg(long, env = "RAMHOLD_RESP_DEBUG")]
    resp_debug: bool,
    /// Do not speak the Redis protocol.
    #[arg(long, env = "RAMHOLD_NO_RESP", conflicts_with_all = ["resp_port", "resp_cluster_port", "resp_table", "resp_password_file", "resp_idle", "resp_cross_slot", "resp_debug"])]
    no_resp: bool,
    /// How to wait for work; busy takes a core for itself.
    #[arg(long, env = "RAMHOLD_POLL", default_value = "adaptive")]
    poll: PollMode,
    /// Allow addresses that other machines can reach. There is neither encryption nor any account yet.
    #[arg(long, env = "RAMHOLD_INSECURE_NETWORK")]
    insecure_network: bool,
    /// Where metrics (/metrics, for Prometheus) and health (/health) are told over HTTP, or 'off'; port 0 takes any that is
    /// free.
    #[arg(long, env = "RAMHOLD_ADMIN", value_name = "ADDR", default_value = "off", value_parser = parse_admin)]
    admin: Admin,
    /// A file with options.
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Standard input is a socket that listens for Redis clients; other servers accept from it too.
    #[arg(long, hide = true, conflicts_with = "no_resp")]
    resp_stdin: bool,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    end_with: Option<u32>,
}

#[derive(Subcommand, Debug)]
enum ServerCommand {
    Forget(forget::Forget),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PollMode {
    /// Spins for a moment after each piece of work, then sleeps.
    Adaptive,
    /// Never sleeps; for a core of its own.
    Busy,
}

fn parse_label(text: &str) -> Result<Label, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not a label like host=a"))?;
    let is_fitting = |part: &str| !part.is_empty() && part.len() <= LABEL_BYTES_MAX;
    if !is_fitting(name) || !is_fitting(value) {
        return Err(format!("the name and the value of a label have 1 to {LABEL_BYTES_MAX} bytes: '{text}'"));
    }
    Ok(Label { name: name.to_owned(), value: value.to_owned() })
}

fn parse_database(text: &str) -> Result<(u16, String), String> {
    let parsed = text.split_once('=').and_then(|(number, table)| Some((number.parse().ok()?, table)));
    match parsed {
        Some((number, table)) if (1..=TABLE_NAME_BYTES_MAX).contains(&table.len()) => {
            Ok((number, table.to_owned()))
        }
        _ => Err(format!(
            "'{text}' is not like 0=sessions: the number of a database and the name of its table"
        )),
    }
}

/// The first line of a password file.
fn password(path: &Path) -> Result<String, Failure> {
    let about = |text: String| Failure::usage(format!("--resp-password-file {}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    match text.lines().next().map(str::trim_end) {
        Some("") | None => Err(about("its first line is empty".into())),
        Some(password) => Ok(password.to_owned()),
    }
}

pub fn run(arguments: Server, global: &Global) -> Result<(), Failure> {
    if let Some(ServerCommand::Forget(forget)) = arguments.command {
        return forget.run(global);
    }
    if let Some(parent) = arguments.end_with {
        process::end_with(parent)?;
    }
    process::abort_on_panic();
    let door = arguments.admin.open(arguments.insecure_network)?;
    let admin = door.as_ref().map(Door::address);
    let prepared = Prepared::new(&arguments)?;
    let mut runtime = prepared.start(&arguments)?;
    process::stop_on_signal(runtime.stop_handle())?;
    if let Some(door) = door {
        let dir = arguments.dir().to_owned();
        let seen = move |node: &ServerNode, now| ServerSeen {
            disk_free_bytes: free_space(&dir).ok(),
            ..node.seen(now)
        };
        door.serve(&mut runtime, seen).map_err(admin::thread_failed)?;
    }
    prepared.tell(&arguments, runtime.local_addr(), admin);

    let exit = runtime.run();
    let is_flushed = runtime.machine().backup().is_stopped();
    // This unlocks the directories before anything in them is removed.
    drop(runtime);
    if is_flushed && exit.code == 0 {
        prepared.buffers.give_back();
    }
    process::ended(exit)
}

impl Server {
    fn dir(&self) -> &Path {
        self.dir.as_deref().expect("the parser requires it where no subcommand is given")
    }
}

/// What was found and chosen before the start.
struct Prepared {
    coordinator: SocketAddr,
    memory: MemoryPlan,
    buffers: BufferPlace,
    mode: Buffers,
    frames_max: u32,
    read_speed: device::ReadSpeed,
    resp: Option<RespConfig>,
}

impl Prepared {
    fn new(arguments: &Server) -> Result<Prepared, Failure> {
        let mut addresses = vec![arguments.bind];
        addresses.extend(arguments.advertise);
        process::check_exposure(&addresses, arguments.insecure_network)?;
        let roles = Roles { master: !arguments.no_master, backup: !arguments.no_backup };
        if !roles.master && !roles.backup {
            return Err(Failure::usage("--no-master with --no-backup leaves nothing to do"));
        }
        if arguments.label.len() > LABEL_COUNT_MAX {
            return Err(Failure::usage(format!("a server has at most {LABEL_COUNT_MAX} labels")));
        }
        if arguments.bind.ip().is_unspecified() && arguments.advertise.is_none() {
            let text = format!("others cannot reach {}; say with --advertise where they can", arguments.bind);
            return Err(Failure::usage(text));
        }
        let coordinator = *parse_addresses(arguments.coordinator.as_deref().expect("the parser requires it"))
            .map_err(|error| Failure::from(error).about("--coordinator"))?
            .first()
            .expect("a list of addresses is not empty");
        raise_file_limit();

        let dir = device::make_dir(arguments.dir())?;
        let buffers = BufferPlace::new(arguments.buffer_dir.as_deref(), &dir)?;
        let memory = MemoryPlan::new(arguments.memory, roles, arguments.buffers).map_err(Failure::usage)?;
        if let Some(told) = buffers::abandoned() {
            crate::output::tell(&format!("ramhold: {told}"));
        }
        check_available(memory.total_bytes, buffers.held_bytes(), memory_available())
            .map_err(Failure::usage)?;
        let frames_max = if roles.backup { device::frames_max(&dir, arguments.disk)? } else { 0 };
        check_resp_ports(arguments)?;
        let resp = if arguments.no_resp { None } else { Some(resp_config(arguments, coordinator)?) };
        let mode = buffers.reserve(&memory)?;
        let read_speed = device::ReadSpeed::of(&dir);
        Ok(Prepared { coordinator, memory, buffers, mode, frames_max, read_speed, resp })
    }

    /// Opens everything. The address must be known before the machine is made, so a port of 0 is settled here.
    fn start(&self, arguments: &Server) -> Result<Runtime<ServerNode>, Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let listen = settle(arguments.bind)?;
            let advertise = arguments.advertise.unwrap_or(listen);
            let region_bytes = usize::try_from(self.memory.log_bytes).expect("memory fits the address space");
            // The kernel supplies zeroed pages when they are first touched.
            let region = vec![0; region_bytes];
            let seed = RandomState::new().hash_one(std::process::id());
            let node = ServerNode::new(self.server_config(arguments, advertise), region, seed);
            let config = RuntimeConfig {
                listen: Some(listen),
                listen_also: [arguments.resp_port, arguments.resp_cluster_port]
                    .into_iter()
                    .flatten()
                    .map(|port| SocketAddr::new(listen.ip(), port))
                    .collect(),
                listen_open: handed(arguments.resp_stdin)?,
                hears_bytes: self.resp.is_some(),
                poll: match arguments.poll {
                    PollMode::Adaptive => Poll::ADAPTIVE,
                    PollMode::Busy => Poll::Busy,
                },
                disk: Some(DiskConfig {
                    data_dir: arguments.dir().to_owned(),
                    buffer_dir: self.buffers.path().to_owned(),
                }),
                read_memory_bytes: self.memory.recovery_cache_bytes,
                ..RuntimeConfig::default()
            };
            match Runtime::new(node, config) {
                Ok(runtime) => return Ok(runtime),
                Err(StartError::Listen { .. })
                    if arguments.bind.port() == 0 && attempt < PORT_ATTEMPT_COUNT => {}
                Err(error) => return Err(Failure::usage(error.to_string())),
            }
        }
    }

    fn server_config(&self, arguments: &Server, advertise: SocketAddr) -> ServerConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        let mut master_config = MasterConfig::new(geometry, self.memory.log_bytes, self.memory.index_bytes);
        master_config.profile_bytes_max = self.memory.profile_bytes;
        master_config.replication.local_allowed = arguments.allow_local_backup;
        master_config.replication.copy_bytes_per_second = arguments.copy_rate;
        master_config.scrub_bytes_per_second = arguments.scrub_rate;
        master_config.disk_bytes_max = u64::from(arguments.disk_expansion) * self.memory.log_bytes;
        master_config.frames_max = u64::from(self.frames_max);
        ServerConfig {
            advertise,
            coordinator: self.coordinator,
            labels: arguments.label.clone(),
            master: !arguments.no_master,
            master_config,
            backup_config: BackupConfig {
                segment_bytes: SEGMENT_BYTES,
                frames_max: self.frames_max,
                frames_grow_by: FRAMES_GROW_BY,
                buffers: self.mode,
                buffers_survive_power: arguments.buffers_survive_power,
                flush_interval: arguments.flush_interval,
                recovery_cache_bytes: self.memory.recovery_cache_bytes.max(u64::from(SEGMENT_BYTES)),
                found_cache_bytes: self.memory.recovery_cache_bytes / 2,
                needed_interval: NEEDED_INTERVAL,
                directory: arguments.dir().display().to_string(),
                mode: self.mode_text(),
            },
            detector: DetectorConfig::default(),
            resp: self.resp.clone(),
            memory_bytes: self.memory.total_bytes,
            read_speed: self.read_speed.megabytes_per_second,
            enlist_interval: ENLIST_INTERVAL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn mode_text(&self) -> String {
        match self.mode {
            Buffers::Reserved { count } => format!("{count} buffers in {}", self.buffers.path().display()),
            Buffers::InFrames => "page cache of the frames".to_owned(),
        }
    }

    /// What an operator must know about this process, on stdout.
    fn tell(&self, arguments: &Server, listens: Option<SocketAddr>, admin: Option<SocketAddr>) {
        let interval = arguments.flush_interval;
        let mut lines = vec![
            format!("ramhold server {}", env!("CARGO_PKG_VERSION")),
            format!("  coordinator  {}", self.coordinator),
            format!("  listens      {}", listens.expect("a server always listens")),
            redis_line(arguments),
            admin::line(admin),
            format!("  data         {}", arguments.dir().display()),
            format!("  memory       {}", self.memory.text()),
            format!("  processor    {}", processor::path()),
        ];
        if self.frames_max > 0 {
            lines.push(format!(
                "  disk         {} frames, {}; reads {}",
                self.frames_max,
                bytes_text(u64::from(self.frames_max) * PLACE_BYTES),
                self.read_speed.text()
            ));
            lines.push(format!("  buffers      {}", self.mode_text()));
            lines.push(format!(
                "  promise      an acknowledged write survives the death of every process at once; \
                 a power cut of all its backups can take what is younger than {interval:?}, \
                 of a synced table nothing"
            ));
        }
        crate::output::show(&lines.join("\n"));
    }
}

/// A port that means two things would mean the first: connections do not say which one they want.
fn check_resp_ports(arguments: &Server) -> Result<(), Failure> {
    let Some(port) = arguments.resp_cluster_port else { return Ok(()) };
    let others = [("--bind", Some(arguments.bind.port())), ("--resp-port", arguments.resp_port)];
    match others.into_iter().find(|(_, other)| *other == Some(port)) {
        Some((option, _)) => Err(Failure::usage(format!(
            "--resp-cluster-port {port} is the port of {option}, too: give it one of its own"
        ))),
        None => Ok(()),
    }
}

/// Where Redis clients are heard.
fn redis_line(arguments: &Server) -> String {
    if arguments.no_resp {
        return "  redis        not spoken".to_owned();
    }
    let at = |port| SocketAddr::new(arguments.bind.ip(), port);
    let mut text = "  redis        there too".to_owned();
    if arguments.resp_stdin {
        text += ", and at the port that all servers share";
    }
    if let Some(port) = arguments.resp_port {
        text += &format!("; at {}", at(port));
    }
    if let Some(port) = arguments.resp_cluster_port {
        text += &format!("; clients of Redis Cluster at {}", at(port));
    }
    text
}

/// The listening socket that a server of 'ramhold dev' has as its standard input.
fn handed(is_handed: bool) -> Result<Vec<OwnedFd>, Failure> {
    let stdin = is_handed.then(|| std::io::stdin().as_fd().try_clone_to_owned()).transpose();
    let stdin = stdin.map_err(|error| Failure::usage(format!("--resp-stdin: {error}")))?;
    Ok(stdin.into_iter().collect())
}

/// How the Redis protocol is to be spoken.
fn resp_config(arguments: &Server, coordinator: SocketAddr) -> Result<RespConfig, Failure> {
    let mut config = RespConfig::new(coordinator);
    config.databases = arguments.resp_databases;
    config.cluster_port = arguments.resp_cluster_port;
    config.cross_slot = arguments.resp_cross_slot;
    config.debug = arguments.resp_debug;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let os = format!("Linux {} {}", release.trim(), std::env::consts::ARCH);
    config.process = Process { id: std::process::id(), os };
    config.tables = arguments.resp_table.clone();
    config.idle = arguments.resp_idle;
    config.password = arguments.resp_password_file.as_deref().map(password).transpose()?;
    Ok(config)
}

/// An address with a port: the given one, or one that is free now.
fn settle(bind: SocketAddr) -> Result<SocketAddr, Failure> {
    if bind.port() != 0 {
        return Ok(bind);
    }
    let free = TcpListener::bind(bind).and_then(|listener| listener.local_addr());
    free.map_err(|error| Failure::usage(format!("cannot listen on {bind}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read() {
        assert_eq!(parse_label("host=a=b").unwrap().value, "a=b");
        for text in ["", "host", "=a", "host=", &format!("host={}", "x".repeat(65))] {
            assert!(parse_label(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_is_found() {
        let found = settle("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(found.port() != 0);
    }
}
