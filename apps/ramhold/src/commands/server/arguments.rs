//! The arguments of `ramhold server`.

use super::forget::Forget;
use crate::admin::{Admin, parse_admin};
use crate::cross_slot::parse_cross_slot;
use crate::size::{parse_bytes, parse_duration};
use clap::{Args, Subcommand, ValueEnum};
use ramhold_base::limits::{LABEL_BYTES_MAX, TABLE_NAME_BYTES_MAX};
use ramhold_node::CrossSlot;
use ramhold_wire::membership::Label;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    pub command: Option<ServerCommand>,
    /// Where the coordinator is: HOST[:PORT].
    #[arg(long, env = "RAMHOLD_COORDINATOR", value_name = "ADDR", required = true)]
    pub coordinator: Option<String>,
    /// The data directory: identity and replicas. Made when it is missing.
    #[arg(long, env = "RAMHOLD_DIR", required = true)]
    pub dir: Option<PathBuf>,
    /// Where acknowledged writes wait to be flushed; must be in memory (tmpfs).
    /// By default below /dev/shm, in a directory of this user and data directory.
    #[arg(long, env = "RAMHOLD_BUFFER_DIR", value_name = "DIR")]
    pub buffer_dir: Option<PathBuf>,
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, env = "RAMHOLD_BIND", value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub bind: SocketAddr,
    /// Where others reach this server, when that is not the address it listens on.
    #[arg(long, env = "RAMHOLD_ADVERTISE", value_name = "ADDR")]
    pub advertise: Option<SocketAddr>,
    /// All memory that grows with data: log, index, buffers, recovery, network.
    #[arg(long, env = "RAMHOLD_MEMORY", value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    pub memory: u64,
    /// The part of --memory where acknowledged writes of others wait to be flushed; 0: in the page cache of the frames. By
    /// default a fifth, at most 256 MiB.
    #[arg(long, env = "RAMHOLD_BUFFERS", value_name = "SIZE", value_parser = parse_bytes)]
    pub buffers: Option<u64>,
    /// Room on the device for replicas of other servers' data.
    #[arg(long, env = "RAMHOLD_DISK", value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
    pub disk: u64,
    /// How many times the log's memory its replicas may take in frames, on each set of backups. More spares them
    /// bandwidth when memory is nearly full.
    #[arg(
        long,
        env = "RAMHOLD_DISK_EXPANSION",
        value_name = "FACTOR",
        default_value_t = ramhold_master::DISK_EXPANSION,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub disk_expansion: u32,
    /// How much of the log's memory is verified in a second, in the background, to find what has rotted there; 0: none.
    #[arg(
        long,
        env = "RAMHOLD_SCRUB_RATE",
        value_name = "SIZE",
        default_value_t = ramhold_master::SCRUB_BYTES_PER_SECOND,
        value_parser = parse_bytes
    )]
    pub scrub_rate: u64,
    /// How much of closed segments whose replicas were lost with a backup this server copies again in a second, so that
    /// clients' writes have the rest; 0: as fast as it goes.
    #[arg(long, env = "RAMHOLD_COPY_RATE", value_name = "SIZE", default_value_t = 0, value_parser = parse_bytes)]
    pub copy_rate: u64,
    /// What this server shares with others, and fails together with: host=NAME, rack=NAME.
    #[arg(
        long,
        env = "RAMHOLD_LABEL",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        value_parser = parse_label
    )]
    pub label: Vec<Label>,
    /// Hold no replicas of others.
    #[arg(long, env = "RAMHOLD_NO_BACKUP")]
    pub no_backup: bool,
    /// Own no tablets.
    #[arg(long, env = "RAMHOLD_NO_MASTER")]
    pub no_master: bool,
    /// Allow replicas in this server's own failure domain. They die with it: for tests on one machine.
    #[arg(long, env = "RAMHOLD_ALLOW_LOCAL_BACKUP")]
    pub allow_local_backup: bool,
    /// How long an acknowledged write may be in memory only, on all its backups.
    #[arg(
        long,
        env = "RAMHOLD_FLUSH_INTERVAL",
        value_name = "TIME",
        default_value = "100ms",
        value_parser = parse_duration
    )]
    pub flush_interval: Duration,
    /// State that the buffers outlive a loss of power (battery, NVDIMM): writes to synced tables then wait for them, not
    /// for the device.
    #[arg(long, env = "RAMHOLD_BUFFERS_SURVIVE_POWER")]
    pub buffers_survive_power: bool,
    /// Where else to listen for Redis clients, at the address of --bind: several servers of one machine may share a port,
    /// and each connection goes to one of them, also to one that is stopped. Redis clients are heard at --bind too.
    #[arg(long, env = "RAMHOLD_RESP_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub resp_port: Option<u16>,
    /// A port of this server, at the address of --bind, for clients of Redis Cluster alone. CLUSTER SLOTS tells it instead of
    /// the server's own port. A client that comes to it finds only this server's keys with SCAN, KEYS, RANDOMKEY and DBSIZE,
    /// as such clients ask every server; without this port they meet each key as often as there are servers.
    #[arg(long, env = "RAMHOLD_RESP_CLUSTER_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub resp_cluster_port: Option<u16>,
    /// The table of a Redis database, where it is not db0, db1 and so on: NUMBER=TABLE.
    #[arg(long, env = "RAMHOLD_RESP_TABLE", value_name = "NUMBER=TABLE", value_delimiter = ',', value_parser = parse_database)]
    pub resp_table: Vec<(u16, String)>,
    /// Databases that Redis clients may select.
    #[arg(long, env = "RAMHOLD_RESP_DATABASES", value_name = "COUNT", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub resp_databases: u16,
    /// A file whose first line is the password that Redis clients must give. It guards Redis commands alone: native clients,
    /// such as 'ramhold get', reach the same port without it until there are accounts.
    #[arg(long, env = "RAMHOLD_RESP_PASSWORD_FILE", value_name = "FILE")]
    pub resp_password_file: Option<PathBuf>,
    /// End a Redis client's connection that has asked for nothing for so long, unless it listens to channels; without this
    /// it may be silent for as long as it likes.
    #[arg(long, env = "RAMHOLD_RESP_IDLE", value_name = "TIME", value_parser = parse_duration)]
    pub resp_idle: Option<Duration>,
    /// Whether a Redis command of several keys that takes effect as one, or a transaction, may have keys of different hash
    /// slots: 'strict' refuses it with CROSSSLOT on any cluster; 'allow' carries it out if one server has all the keys, so
    /// on a cluster of one server always.
    #[arg(long, env = "RAMHOLD_RESP_CROSS_SLOT", value_name = "HOW", default_value = "strict",
        value_parser = parse_cross_slot)]
    pub resp_cross_slot: CrossSlot,
    /// Allow Redis clients DEBUG.
    #[arg(long, env = "RAMHOLD_RESP_DEBUG")]
    pub resp_debug: bool,
    /// Do not speak the Redis protocol.
    #[arg(long, env = "RAMHOLD_NO_RESP", conflicts_with_all = ["resp_port", "resp_cluster_port", "resp_table", "resp_password_file", "resp_idle", "resp_cross_slot", "resp_debug"])]
    pub no_resp: bool,
    /// How to wait for work; busy takes a core for itself.
    #[arg(long, env = "RAMHOLD_POLL", default_value = "adaptive")]
    pub poll: PollMode,
    /// Allow addresses that other machines can reach. There is neither encryption nor any account yet.
    #[arg(long, env = "RAMHOLD_INSECURE_NETWORK")]
    pub insecure_network: bool,
    /// Where metrics (/metrics, for Prometheus) and health (/health) are told over HTTP, or 'off'; port 0 takes any that is
    /// free.
    #[arg(long, env = "RAMHOLD_ADMIN", value_name = "ADDR", default_value = "off", value_parser = parse_admin)]
    pub admin: Admin,
    /// A file with options.
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Standard input is a socket that listens for Redis clients; other servers accept from it too.
    #[arg(long, hide = true, conflicts_with = "no_resp")]
    pub resp_stdin: bool,
    /// Stop when this process, the parent, ends.
    #[arg(long, hide = true, value_name = "PID")]
    pub end_with: Option<u32>,
}

#[derive(Subcommand, Debug)]
pub enum ServerCommand {
    Forget(Forget),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PollMode {
    /// Spins for a moment after each piece of work, then sleeps.
    Adaptive,
    /// Never sleeps; for a core of its own.
    Busy,
}

impl Server {
    pub fn dir(&self) -> &Path {
        self.dir.as_deref().expect("the parser requires it where no subcommand is given")
    }
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
}
