//! The arguments of `ramhold server`.

use super::forget::Forget;
use crate::admin::{Admin, parse_admin};
use crate::cross_slot::parse_cross_slot;
use crate::size::{parse_bytes, parse_duration};
use crate::supervising::{
    RESTART_LOAD, RESTART_THRESHOLD, RestartThreshold, parse_restart_load, parse_restart_threshold,
};
use clap::{Args, Subcommand, ValueEnum};
use ramhold_base::limits::{LABEL_BYTES_MAX, TABLE_NAME_BYTES_MAX};
use ramhold_node::{CrossSlot, RestartLoad};
use ramhold_runtime::{NetworkLimits, Poll, Transport};
use ramhold_wire::bricks::{BRICK_WEIGHT, BRICK_WEIGHT_MAX};
use ramhold_wire::membership::Label;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `ramhold_master::SCRUB_BYTES_PER_SECOND`, as people write it.
const SCRUB_RATE: &str = "8MiB";

const HELP: &str = "\
Examples:
  ramhold server --coordinator 127.0.0.1:7400 --dir /var/lib/ramhold \\
      --memory 4GiB
  ramhold server --coordinator 10.0.0.1 --bind 10.0.0.2:7401 \\
      --insecure-network --dir /srv/ramhold --memory 64GiB --disk 400GiB \\
      --label host=b --label rack=1
  ramhold server --brick --coordinator 10.0.0.1 --bind 10.0.0.2:7501 \\
      --insecure-network --dir /srv/ramhold-brick --memory 16GiB \\
      --disk 64GiB --label zone=a --weight 200
  ramhold server --coordinator 10.0.0.1 --bind 10.0.0.2:7401 \\
      --insecure-network --dir /srv/ramhold --memory 64GiB --shards 8
      eight threads, at the ports 7401 to 7408
  ramhold server --config /etc/ramhold/server.toml
  ramhold server forget s5

Options can also come from the environment (RAMHOLD_MEMORY=64GiB) and from a
file (--config FILE). The command line wins over the environment, and the
environment over the file.

RAMHOLD_CPU=baseline|sse4.2|avx512|vpclmulqdq makes any ramhold program use
these instructions for checksums and copies, for tests. By default a program
uses the best instructions of the processor. A server names them at its start.

SIGTERM or SIGINT stops the server cleanly: it flushes everything first. A
second signal ends it at once. SIGHUP has it read its options again: --copy-rate
and --scrub-rate change at once, others at the next start, and it says which.

Exit codes:
  0  stopped cleanly
  2  it cannot start
  3  the cluster has declared it dead
  4  it cannot serve: the directory is damaged or belongs to another cluster
  5  its memory is damaged where no backup has the data yet. No acknowledged
     write is lost; start it again
  7  a brick cannot go on: its directory is a copy of another one's that is in
     use, or damaged; the last line says what to do";

/// Run a storage server, or forget one that is gone for good.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Server {
    #[command(subcommand)]
    pub command: Option<ServerCommand>,
    /// Address of the coordinator: HOST or HOST:PORT, with port 7400 by default.
    #[arg(long, env = "RAMHOLD_COORDINATOR", value_name = "ADDR", required = true)]
    pub coordinator: Option<String>,
    /// Data directory, with the server's identity and the replicas of others. Created if it does not exist.
    #[arg(long, env = "RAMHOLD_DIR", required = true)]
    pub dir: Option<PathBuf>,
    /// Directory for acknowledged writes that are not flushed yet. It must be in memory (tmpfs) [default:
    /// below /dev/shm, one for each user and data directory]
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_BUFFER_DIR", value_name = "DIR")]
    pub buffer_dir: Option<PathBuf>,
    /// Address to listen on; port 0 takes any free port.
    #[arg(
        long,
        help_heading = "Network",
        env = "RAMHOLD_BIND",
        value_name = "ADDR",
        default_value = "127.0.0.1:0"
    )]
    pub bind: SocketAddr,
    /// Address at which others reach this server [default: the address of --bind]
    #[arg(long, help_heading = "Network", env = "RAMHOLD_ADVERTISE", value_name = "ADDR")]
    pub advertise: Option<SocketAddr>,
    /// All memory that grows with the data: log, index, buffers, recovery, network.
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_MEMORY", value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    pub memory: u64,
    /// Part of --memory for acknowledged writes of other servers that are not flushed yet. 0 leaves them in
    /// the page cache of the frames [default: a fifth of --memory, at most 256 MiB]
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_BUFFERS", value_name = "SIZE", value_parser = parse_bytes)]
    pub buffers: Option<u64>,
    /// Disk space for replicas of other servers' data.
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_DISK", value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
    pub disk: u64,
    /// Disk space that the log may take on each set of backups, as a multiple of the log's memory (1 to 100).
    /// More space saves the backups bandwidth when memory is nearly full.
    #[arg(
        long, help_heading = "Memory and disk",
        env = "RAMHOLD_DISK_EXPANSION",
        value_name = "FACTOR",
        default_value_t = ramhold_master::DISK_EXPANSION,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub disk_expansion: u32,
    /// Bytes of the log that are verified per second in the background, to find damaged memory; 0 turns this
    /// off.
    #[arg(
        long, help_heading = "Memory and disk",
        env = "RAMHOLD_SCRUB_RATE",
        value_name = "SIZE",
        default_value = SCRUB_RATE,
        value_parser = parse_bytes
    )]
    pub scrub_rate: u64,
    /// Bytes per second for new replicas of closed segments after a backup was lost. A limit leaves bandwidth
    /// for clients' writes; 0 means no limit.
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_COPY_RATE", value_name = "SIZE", default_value_t = 0, value_parser = parse_bytes)]
    pub copy_rate: u64,
    /// Where this server stands: host=NAME, rack=NAME, zone=NAME. Servers with the same host (else the same
    /// rack) fail together and never hold two copies of the same data; copies spread over racks and zones
    /// as far as that goes. May be repeated.
    #[arg(
        long, help_heading = "Roles and failure domains",
        env = "RAMHOLD_LABEL",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        value_parser = parse_label
    )]
    pub label: Vec<Label>,
    /// Address in a further network, NAME=ADDRESS, at which other servers reach this one; up to 8 times. The
    /// servers that have a link of one name reach each other there, and use another one while it is silent.
    /// In a grid NAME is the level of the switch behind which the address is.
    #[arg(
        long, help_heading = "Roles and failure domains",
        env = "RAMHOLD_LINK",
        value_name = "NAME=ADDRESS",
        value_delimiter = ',',
        value_parser = parse_link
    )]
    pub link: Vec<(String, SocketAddr)>,
    /// How long a neighbour may be silent before it is looked for on other ways, 100ms to 5s. Neighbours are
    /// the servers that share an edge switch with this one, by the coordinator's --topology.
    #[arg(
        long, help_heading = "Roles and failure domains",
        env = "RAMHOLD_NEIGHBOUR_TIMEOUT",
        value_name = "TIME",
        default_value = "300ms",
        value_parser = parse_neighbour_timeout
    )]
    pub neighbour_timeout: Duration,
    /// Be a brick: hold quorum tables alone, in a process that may be killed at any moment. A brick has a data
    /// directory of its own and no other role, and does not hear Redis clients.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_BRICK",
        conflicts_with_all = ["no_backup", "no_master", "allow_local_backup", "buffers_survive_power", "link",
            "disk_expansion", "copy_rate", "buffers", "neighbour_timeout", "resp_port", "resp_unix_socket", "resp_unix_socket_mode", "resp_cluster_port", "resp_table",
            "resp_password_file", "resp_idle", "resp_cross_slot", "resp_debug", "resp_stdin"])]
    pub brick: bool,
    /// Share of quorum tables' tablets that this brick holds beside other bricks: one with 200 gets twice as
    /// many as one with 100. It counts when tables are created, and when bricks are added or removed.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_WEIGHT", value_name = "N", default_value_t = BRICK_WEIGHT,
        requires = "brick", value_parser = clap::value_parser!(u16).range(1..=i64::from(BRICK_WEIGHT_MAX)))]
    pub weight: u16,
    /// When this brick serves after a start: 'preload', when all its data is in memory, or 'incremental', as
    /// soon as it can take new writes; it answers for keys as they are loaded then.
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_RESTART_LOAD", value_name = "WHEN",
        default_value = RESTART_LOAD, requires = "brick", value_parser = parse_restart_load)]
    pub restart_load: RestartLoad,
    /// Port of the process that restarts this brick, at the host of its address; the brick's siblings turn to
    /// it when the brick is silent. 'ramhold supervise' gives it to its brick.
    #[arg(long, help_heading = "Network", env = "RAMHOLD_SUPERVISOR", value_name = "PORT", requires = "brick",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub supervisor: Option<u16>,
    /// Statistics of 17 that must be unlike those of the other bricks before a brick has a sibling restarted
    /// that still answers, or 'off'. With 8, a stall for a moment may be enough.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_RESTART_THRESHOLD", value_name = "COUNT",
        default_value = RESTART_THRESHOLD, requires = "brick", value_parser = parse_restart_threshold)]
    pub restart_threshold: RestartThreshold,
    /// Hold no replicas of other servers.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_NO_BACKUP")]
    pub no_backup: bool,
    /// Own no tablets.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_NO_MASTER")]
    pub no_master: bool,
    /// Allow replicas in this server's own failure domain, for tests on one machine. Such replicas die with
    /// the server.
    #[arg(long, help_heading = "Roles and failure domains", env = "RAMHOLD_ALLOW_LOCAL_BACKUP")]
    pub allow_local_backup: bool,
    /// Longest time for which an acknowledged write may be in memory only, on all its backups.
    #[arg(
        long, help_heading = "Memory and disk",
        env = "RAMHOLD_FLUSH_INTERVAL",
        value_name = "TIME",
        default_value = "100ms",
        value_parser = parse_duration
    )]
    pub flush_interval: Duration,
    /// State that the buffers survive a power cut (battery, NVDIMM). Writes to synced tables then wait for
    /// the buffers, not for the device.
    #[arg(long, help_heading = "Memory and disk", env = "RAMHOLD_BUFFERS_SURVIVE_POWER")]
    pub buffers_survive_power: bool,
    /// Another port for Redis clients, at the address of --bind; the port of --bind serves them, too. Several
    /// servers of one machine may share this port. The kernel then gives each connection to one of them, even
    /// to one that is stopped.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub resp_port: Option<u16>,
    /// Port for clients of Redis Cluster alone, at the address of --bind. CLUSTER SLOTS then names this port.
    /// SCAN, KEYS, RANDOMKEY and DBSIZE on it cover only this server's keys, because such clients ask every
    /// server. Without this port, such clients meet each key once per server.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_CLUSTER_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub resp_cluster_port: Option<u16>,
    /// Unix socket for Redis clients of this host (redis-cli -s PATH). A path that a killed server has left
    /// is taken over.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_UNIX_SOCKET", value_name = "PATH")]
    pub resp_unix_socket: Option<PathBuf>,
    /// Mode of that socket, as for chmod. A process that may use it can also keep the server waiting. So 700,
    /// this user alone, unless all others are trusted.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_UNIX_SOCKET_MODE", value_name = "MODE", default_value = "700", value_parser = parse_mode, requires = "resp_unix_socket")]
    pub resp_unix_socket_mode: u32,
    /// Table of a Redis database: NUMBER=TABLE. May be repeated [default: database n is table db<n>]
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_TABLE", value_name = "NUMBER=TABLE", value_delimiter = ',', value_parser = parse_database)]
    pub resp_table: Vec<(u16, String)>,
    /// Number of databases that Redis clients may select (1 to 4096).
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_DATABASES", value_name = "COUNT", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub resp_databases: u16,
    /// File whose first line is the password of the account 'default' at this server, in place of those that
    /// 'ramhold user' gives it. Native clients, such as 'ramhold get', use the same port without it.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_PASSWORD_FILE", value_name = "FILE")]
    pub resp_password_file: Option<PathBuf>,
    /// Close the connection of a Redis client that has sent nothing for this time, unless it is subscribed to
    /// channels [default: never]
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_IDLE", value_name = "TIME", value_parser = parse_duration)]
    pub resp_idle: Option<Duration>,
    /// Whether a transaction, or a Redis command that changes several keys as one, may have keys of several
    /// hash slots. 'strict' refuses it with CROSSSLOT on every cluster. 'allow' carries it out if one server
    /// has all the keys.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_CROSS_SLOT", value_name = "HOW", default_value = "strict",
        value_parser = parse_cross_slot)]
    pub resp_cross_slot: CrossSlot,
    /// Allow the command DEBUG to Redis clients.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_RESP_DEBUG")]
    pub resp_debug: bool,
    /// Do not serve Redis clients.
    #[arg(long, help_heading = "Redis clients", env = "RAMHOLD_NO_RESP", conflicts_with_all = ["resp_port", "resp_unix_socket", "resp_cluster_port", "resp_table", "resp_password_file", "resp_idle", "resp_cross_slot", "resp_debug"])]
    pub no_resp: bool,
    /// Servers in this process, each with a thread, a log and a backup of its own. --memory, --disk and rates are
    /// for all of them. Shard N has the ports of --bind, --advertise, --link, --admin and
    /// --resp-cluster-port plus N; --resp-port is shared, and --resp-unix-socket is shard 0's. Without a label
    /// host or rack all have one host label, the address.
    #[arg(long, env = "RAMHOLD_SHARDS", value_name = "COUNT", default_value_t = 1, conflicts_with = "brick",
        value_parser = clap::value_parser!(u16).range(1..=SHARD_COUNT_MAX))]
    pub shards: u16,
    /// Let shards run on any core. Otherwise each has one of its own, if this process may use as many.
    #[arg(long, env = "RAMHOLD_NO_PIN", requires = "shards")]
    pub no_pin: bool,
    /// How the event loop waits when it has nothing to do.
    #[arg(long, env = "RAMHOLD_POLL", default_value = "adaptive")]
    pub poll: PollMode,
    /// Processes of this host and user that may share memory with this one instead of using TCP, 512 KiB
    /// each. 0: this process shares memory with nobody.
    #[arg(long, help_heading = "Network", env = "RAMHOLD_SHARED_MEMORY", value_name = "COUNT",
        default_value_t = SHARED_COUNT, value_parser = clap::value_parser!(u16).range(..=SHARED_COUNT_MAX))]
    pub shared_memory: u16,
    /// Allow addresses that other machines can reach. There is no encryption yet, and accounts bind Redis clients alone.
    #[arg(long, help_heading = "Network", env = "RAMHOLD_INSECURE_NETWORK")]
    pub insecure_network: bool,
    /// HTTP address for metrics (/metrics, for Prometheus) and health (/health, /ready), or 'off'; port 0 takes any
    /// free port.
    #[arg(long, help_heading = "Network", env = "RAMHOLD_ADMIN", value_name = "ADDR", default_value = "off", value_parser = parse_admin)]
    pub admin: Admin,
    /// File with options: TOML, keys as the long options without --, or 'none'; see 'ramhold config' [default:
    /// /etc/ramhold/ramhold.toml, if it is there]
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Standard input is a socket that listens for Redis clients; other servers accept from it too.
    #[arg(long, hide = true, conflicts_with = "no_resp")]
    pub resp_stdin: bool,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    pub end_with: Option<u32>,
}

#[derive(Subcommand, Clone, Debug)]
pub enum ServerCommand {
    Forget(Forget),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PollMode {
    /// Look for work for 50 microseconds, then sleep. Where others use the same core: sleep early.
    Adaptive,
    /// Never sleep: for a core of its own.
    Busy,
    /// Sleep at once: least processor time, and each request pays for a wake-up.
    Sleep,
}

impl From<PollMode> for Poll {
    fn from(mode: PollMode) -> Poll {
        match mode {
            PollMode::Adaptive => Poll::ADAPTIVE,
            PollMode::Busy => Poll::Busy,
            PollMode::Sleep => Poll::Sleep,
        }
    }
}

impl Server {
    /// Bytes per second of each of `count` shards: of copies, and of verifying. A rate that is not 0 stays one, since 0 is
    /// no bound for copies.
    pub fn rates_of_shard(&self, count: u16) -> (u64, u64) {
        let share = |rate: u64| (rate / u64::from(count)).max(rate.min(1));
        (share(self.copy_rate), share(self.scrub_rate))
    }

    pub fn dir(&self) -> &Path {
        self.dir.as_deref().expect("the parser requires it where no subcommand is given")
    }
}

fn parse_label(text: &str) -> Result<Label, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not a label like host=a: give NAME=VALUE"))?;
    let is_fitting = |part: &str| !part.is_empty() && part.len() <= LABEL_BYTES_MAX;
    if !is_fitting(name) || !is_fitting(value) {
        return Err(format!("the name and the value of a label have 1 to {LABEL_BYTES_MAX} bytes: '{text}'"));
    }
    Ok(Label { name: name.to_owned(), value: value.to_owned() })
}

/// Less than a few pings would call every busy server silent.
fn parse_neighbour_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    let range = Duration::from_millis(100)..=Duration::from_secs(5);
    if range.contains(&time) { Ok(time) } else { Err("it must be from 100ms to 5s".into()) }
}

/// Port 0: the port that the server listens at.
fn parse_link(text: &str) -> Result<(String, SocketAddr), String> {
    let wrong = || format!("'{text}' is not a link like fast=10.1.0.7 or fast=10.1.0.7:7401");
    let (name, address) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || name.len() > LABEL_BYTES_MAX {
        return Err(format!("the name of a link has 1 to {LABEL_BYTES_MAX} bytes: '{text}'"));
    }
    let ip = address.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let address = address.parse().or(ip).map_err(|_| wrong())?;
    Ok((name.to_owned(), address))
}

pub fn parse_database(text: &str) -> Result<(u16, String), String> {
    let parsed = text.split_once('=').and_then(|(number, table)| Some((number.parse().ok()?, table)));
    match parsed {
        Some((number, table)) if (1..=TABLE_NAME_BYTES_MAX).contains(&table.len()) => {
            Ok((number, table.to_owned()))
        }
        _ => Err(format!(
            "'{text}' is not like 0=sessions; give the number of a database and the name of its table"
        )),
    }
}

/// An octal number of three digits.
fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "not a mode; three octal digits, such as 700 or 770".to_owned())
}

/// Processes that share memory with a server by default, and at most: each of them is looked at in each turn.
const SHARED_COUNT: u16 = 64;
const SHARED_COUNT_MAX: i64 = 1024;
/// Shards of one process.
const SHARD_COUNT_MAX: i64 = 64;

impl Server {
    /// The limits of the network that an operator sets.
    pub fn network_limits(&self) -> NetworkLimits {
        let transport = if self.shared_memory == 0 { Transport::Tcp } else { Transport::Automatic };
        NetworkLimits {
            shared_count_max: usize::from(self.shared_memory),
            process_share: self.shards.max(1),
            transport,
            ..NetworkLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scrub_rate_is_that_of_the_master() {
        assert_eq!(parse_bytes(SCRUB_RATE), Ok(ramhold_master::SCRUB_BYTES_PER_SECOND));
    }

    #[test]
    fn links_are_read() {
        // H1
        let read = |text| parse_link(text).map(|(name, at)| format!("{name} {at}"));
        assert_eq!(read("fast=10.1.0.7").unwrap(), "fast 10.1.0.7:0");
        assert_eq!(read("0=[fd00::1]:7401").unwrap(), "0 [fd00::1]:7401");
        for text in ["", "fast", "=10.1.0.7", "fast=", "fast=host", "fast=10.1.0.7:x"] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains("link"), "{refused}");
        }
    }

    #[test]
    fn labels_are_read() {
        assert_eq!(parse_label("host=a=b").unwrap().value, "a=b");
        for text in ["", "host", "=a", "host=", &format!("host={}", "x".repeat(65))] {
            assert!(parse_label(text).is_err(), "{text}");
        }
    }
}
