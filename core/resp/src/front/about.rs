//! Facts about the front for its clients: `INFO`, `CONFIG`, `SLOWLOG`, and the lines of `CLIENT LIST`.

use super::connection::Connection;
use super::running::Running;
use super::subscriptions::Kind;
use super::{Host, Resp, RespConfig};
use crate::glob::{Case, matches};
use crate::parse::integer;
use crate::{Fault, Front, Reply};
use ramhold_base::Instant;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// The version of Redis whose behaviour the commands have. Clients look at it to know what they may send.
pub const REDIS_VERSION: &str = "7.0.15";

#[derive(Debug)]
struct Slow {
    id: u64,
    at_seconds: u64,
    micros: u64,
    args: Vec<Vec<u8>>,
    name: Vec<u8>,
}

/// Commands that took long.
#[derive(Debug, Default)]
pub struct SlowLog {
    last: u64,
    entries: VecDeque<Slow>,
}

/// Arguments of a command that the slow log keeps, and bytes that it keeps of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

impl SlowLog {
    /// Enters a command that took long, and was answered `at_seconds` after the beginning of 1970.
    pub fn note(
        &mut self,
        done: &Running,
        took: Duration,
        at_seconds: u64,
        connection: &Connection,
        config: &RespConfig,
    ) {
        if config.slow_count_max == 0 || done.args.bytes() == 0 {
            return;
        }
        let list = done.args.list();
        let mut args: Vec<Vec<u8>> = Vec::new();
        for arg in list.iter().take(ARGS_MAX) {
            let mut kept = arg[..arg.len().min(ARG_BYTES_MAX)].to_vec();
            if arg.len() > ARG_BYTES_MAX {
                kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes());
            }
            args.push(kept);
        }
        if list.len() > ARGS_MAX {
            args.pop();
            args.push(format!("... ({} more arguments)", list.len() - ARGS_MAX + 1).into_bytes());
        }
        self.entries.push_front(Slow {
            id: self.last,
            at_seconds,
            micros: took.as_micros() as u64,
            args,
            name: connection.name.clone(),
        });
        self.last += 1;
        self.entries.truncate(config.slow_count_max);
    }

    pub fn answer(&mut self, front: Front, args: &[&[u8]], mut reply: Reply<'_>) {
        match front {
            Front::SlowlogLen => reply.integer(self.entries.len() as i64),
            Front::SlowlogReset => {
                self.entries.clear();
                reply.ok();
            }
            _ => {
                let count = match args.get(2).map(|count| integer(count)) {
                    None => 10,
                    Some(Some(-1)) => self.entries.len(),
                    Some(Some(count)) if count >= 0 => count as usize,
                    Some(Some(_)) => {
                        let text = "ERR count should be greater than or equal to -1";
                        return reply.fault(&Fault::fixed(text));
                    }
                    Some(None) => return reply.fault(&Fault::NOT_AN_INTEGER),
                };
                let count = count.min(self.entries.len());
                reply.array(count);
                for entry in self.entries.iter().take(count) {
                    reply.array(6);
                    reply.integer(entry.id as i64);
                    reply.integer(entry.at_seconds as i64);
                    reply.integer(entry.micros as i64);
                    reply.array(entry.args.len());
                    for arg in &entry.args {
                        reply.bulk(arg);
                    }
                    reply.bulk(b"");
                    reply.bulk(&entry.name);
                }
            }
        }
    }
}

pub fn client_line(connection: &Connection, now: Instant) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flags = if connection.is_subscribed() {
        "P"
    } else if connection.multi.is_some() {
        "x"
    } else {
        "N"
    };
    format!(
        "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={} watch={} cmd={} user=default \
         lib-name={} lib-ver={} resp={} tot-cmds={}",
        connection.id,
        address(connection.addresses.map(|(peer, _)| peer)),
        address(connection.addresses.map(|(_, own)| own)),
        text(&connection.name),
        now.since(connection.since).as_secs(),
        now.since(connection.last).as_secs(),
        connection.db,
        connection.subscriptions.names(Kind::Channels).len(),
        connection.subscriptions.names(Kind::Patterns).len(),
        connection.subscriptions.names(Kind::ShardChannels).len(),
        connection.multi.as_ref().map_or(-1, |multi| multi.queued.len() as i64),
        connection.watched.len(),
        connection.command,
        text(&connection.library.0),
        text(&connection.library.1),
        if connection.protocol == crate::Protocol::Resp3 { 3 } else { 2 },
        connection.commands,
    )
}

fn address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "?:0".into(), |address| address.to_string())
}

/// The kind of server that this one is to Redis's clients.
pub fn mode(connection: &Connection) -> &'static str {
    if connection.is_of_cluster { "cluster" } else { "standalone" }
}

pub fn info(
    resp: &Resp,
    connection: &Connection,
    args: &[&[u8]],
    mut reply: Reply<'_>,
    host: &mut impl Host,
) {
    let status = host.status(resp.now);
    let wants = |section: &str| {
        args.len() == 1
            || args[1..].iter().any(|arg| {
                let arg = arg.to_ascii_lowercase();
                arg == section.as_bytes() || arg == b"all" || arg == b"everything" || arg == b"default"
            })
    };
    let mut text = String::new();
    let mut section = |name: &str, lines: &[(&str, String)]| {
        if !wants(&name.to_ascii_lowercase()) {
            return;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let _ = write!(text, "# {name}\r\n");
        for (key, value) in lines {
            let _ = write!(text, "{key}:{value}\r\n");
        }
    };
    let seconds = status.uptime_millis / 1000;
    let port = connection.addresses.map_or(0, |(_, own)| own.port());
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.into()),
            ("ramhold_version", status.version.clone()),
            ("redis_mode", mode(connection).into()),
            ("os", resp.config.process.os.clone()),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", resp.config.process.id.to_string()),
            ("tcp_port", port.to_string()),
            ("run_id", super::cluster::node_id(host.cluster(), host.me())),
            ("server_id", host.me().to_string()),
            ("server_time_usec", (host.time(resp.now) * 1000).to_string()),
            ("uptime_in_seconds", seconds.to_string()),
            ("uptime_in_days", (seconds / 86_400).to_string()),
        ],
    );
    section(
        "Clients",
        &[
            ("connected_clients", (resp.connections.len() + 1).to_string()),
            ("blocked_clients", "0".into()),
            ("tracking_clients", "0".into()),
            ("pubsub_clients", resp.connections.values().filter(|c| c.is_subscribed()).count().to_string()),
        ],
    );
    let used = status.log_used_bytes + status.index_bytes;
    let memory_max = status.log_bytes + status.index_bytes_max;
    section(
        "Memory",
        &[
            ("used_memory", used.to_string()),
            ("used_memory_human", human(used)),
            ("used_memory_dataset", status.log_live_bytes.to_string()),
            ("maxmemory", memory_max.to_string()),
            ("maxmemory_human", human(memory_max)),
            ("maxmemory_policy", "noeviction".into()),
            ("ramhold_log_bytes", status.log_bytes.to_string()),
            ("ramhold_log_used_bytes", status.log_used_bytes.to_string()),
            ("ramhold_log_live_bytes", status.log_live_bytes.to_string()),
            ("ramhold_log_free_bytes", status.log_bytes.saturating_sub(status.log_used_bytes).to_string()),
            ("ramhold_index_bytes", status.index_bytes.to_string()),
            ("ramhold_index_bytes_max", status.index_bytes_max.to_string()),
            ("ramhold_buffer_bytes", status.buffer_bytes.to_string()),
        ],
    );
    section(
        "Persistence",
        &[
            ("loading", "0".into()),
            ("async_loading", "0".into()),
            ("rdb_bgsave_in_progress", "0".into()),
            ("rdb_last_save_time", (host.time(resp.now) / 1000).to_string()),
            ("rdb_last_bgsave_status", "ok".into()),
            ("aof_enabled", "0".into()),
            ("aof_rewrite_in_progress", "0".into()),
            ("ramhold_replicas", status.streams.iter().map(|s| s.replicas).max().unwrap_or(0).to_string()),
        ],
    );
    section(
        "Stats",
        &[
            ("total_connections_received", resp.stats.connections.to_string()),
            ("total_commands_processed", resp.stats.commands.to_string()),
            ("keyspace_hits", resp.stats.hits.to_string()),
            ("keyspace_misses", resp.stats.misses.to_string()),
            ("evicted_keys", "0".into()),
            ("pubsub_channels", resp.subscribers.names(Kind::Channels).count().to_string()),
            ("pubsub_patterns", resp.subscribers.names(Kind::Patterns).count().to_string()),
            ("pubsubshard_channels", resp.subscribers.names(Kind::ShardChannels).count().to_string()),
            ("total_error_replies", resp.stats.faults.to_string()),
        ],
    );
    section(
        "Replication",
        &[
            ("role", "master".into()),
            ("connected_slaves", "0".into()),
            ("master_replid", super::cluster::node_id(host.cluster(), host.me())),
            ("master_repl_offset", "0".into()),
        ],
    );
    let is_ready = resp.is_ready_without_coordinator(host);
    section(
        "Cluster",
        &[
            ("cluster_enabled", u8::from(connection.is_of_cluster).to_string()),
            ("ramhold_ready_without_coordinator", u8::from(is_ready).to_string()),
        ],
    );
    section(
        "Limits",
        &[
            ("ramhold_key_bytes_max", ramhold_base::limits::KEY_BYTES_MAX.to_string()),
            ("ramhold_value_bytes_max", ramhold_base::limits::VALUE_BYTES_MAX.to_string()),
            ("ramhold_cross_slot", format!("{:?}", resp.config.cross_slot).to_lowercase()),
            ("ramhold_databases", resp.config.databases.to_string()),
        ],
    );
    let objects = host.objects_by_table();
    // Clients read all three numbers. Nobody counts the keys that expire, so the other two are zero.
    let keyspace = resp.databases.known().into_iter().filter_map(|(db, table)| {
        let count = objects.get(&table).copied().flatten().filter(|count| *count > 0)?;
        Some((format!("db{db}"), format!("keys={count},expires=0,avg_ttl=0")))
    });
    let keyspace: Vec<(String, String)> = keyspace.collect();
    let lines: Vec<(&str, String)> = keyspace.iter().map(|(db, text)| (&db[..], text.clone())).collect();
    section("Keyspace", &lines);
    reply.verbatim(&text);
}

/// A number of bytes as Redis writes it for people.
fn human(bytes: u64) -> String {
    let units = [("G", 1u64 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes}B"),
        |(letter, unit)| {
            let hundredths = u128::from(bytes) * 100 / u128::from(unit);
            format!("{}.{:02}{letter}", hundredths / 100, hundredths % 100)
        },
    )
}

/// All settings of `CONFIG GET`, with their values.
fn settings(config: &RespConfig) -> Vec<(&'static str, String)> {
    vec![
        ("appendonly", "no".into()),
        ("databases", config.databases.to_string()),
        ("latency-monitor-threshold", config.latency_threshold.as_millis().to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("save", String::new()),
        ("slowlog-log-slower-than", config.slow.as_micros().to_string()),
        ("slowlog-max-len", config.slow_count_max.to_string()),
        ("timeout", "0".into()),
    ]
}

pub fn config(resp: &mut Resp, front: Front, args: &[&[u8]], mut reply: Reply<'_>) {
    match front {
        Front::ConfigGet => {
            let settings = settings(&resp.config);
            let is_asked =
                |name: &str| args[2..].iter().any(|pattern| matches(pattern, name.as_bytes(), Case::Ignored));
            let found: Vec<_> = settings.iter().filter(|(name, _)| is_asked(name)).collect();
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        Front::ConfigSet => {
            if args.len() % 2 == 1 {
                return reply.fault(&Fault::SYNTAX);
            }
            let mut changed = resp.config.clone();
            for pair in args[2..].chunks(2) {
                if let Err(fault) = set(&mut changed, pair[0], pair[1]) {
                    return reply.fault(&fault);
                }
            }
            resp.config = changed;
            reply.ok();
        }
        _ => {
            resp.stats = Default::default();
            reply.ok();
        }
    }
}

fn set(config: &mut RespConfig, name: &[u8], value: &[u8]) -> Result<(), Fault> {
    let shown = crate::fault::shown(name).to_ascii_lowercase();
    let failed = |why: &str| {
        Fault::said(format!(
            "ERR CONFIG SET failed (possibly related to argument '{shown}') - argument {why}"
        ))
    };
    let number = || {
        let number = integer(value).ok_or_else(|| failed("couldn't be parsed into an integer"))?;
        u64::try_from(number).map_err(|_| failed("must be between 0 and 9223372036854775807 inclusive"))
    };
    match shown.as_str() {
        "latency-monitor-threshold" => config.latency_threshold = Duration::from_millis(number()?),
        "slowlog-log-slower-than" => config.slow = Duration::from_micros(number()?),
        "slowlog-max-len" => config.slow_count_max = number()?.min(100_000) as usize,
        name if settings(config).iter().any(|(known, _)| *known == name) => {
            return Err(Fault::said(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"
            )));
        }
        _ => {
            return Err(Fault::said(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                crate::fault::shown(name)
            )));
        }
    }
    Ok(())
}
