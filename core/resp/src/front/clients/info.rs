//! `INFO`: facts about this server for its clients, section by section.

use super::asker::Asker;
use super::cluster::node_id;
use super::list::Clients;
use super::subscriptions::Kind;
use crate::Reply;
use crate::front::access::Access;
use crate::front::host::Host;
use crate::front::step::Step;
use std::fmt::Write as _;

/// The version of Redis whose behaviour the commands have. Clients look at it to know what they may send.
pub const REDIS_VERSION: &str = "7.0.15";

/// The kind of server that this one is to Redis's clients.
pub fn mode(is_of_cluster: bool) -> &'static str {
    if is_of_cluster { "cluster" } else { "standalone" }
}

/// `INFO`, as the asker sees this server.
pub fn info(
    step: &mut Step<'_, impl Host>,
    clients: &Clients,
    access: &Access,
    asker: &Asker,
    args: &[&[u8]],
    mut reply: Reply<'_>,
) {
    let host = &*step.host;
    let status = host.status(step.now);
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
    // The asker itself is not counted.
    let others = clients.all.iter().filter(|(conn, _)| **conn != asker.conn);
    let subscribed = others.filter(|(_, client)| client.is_subscribed()).count();
    let seconds = status.uptime_millis / 1000;
    let port = asker.own_port;
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.into()),
            ("ramhold_version", status.version.clone()),
            ("redis_mode", mode(asker.is_of_cluster).into()),
            ("os", step.config.process.os.clone()),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", step.config.process.id.to_string()),
            ("tcp_port", port.to_string()),
            ("run_id", node_id(host.cluster(), host.me())),
            ("server_id", host.me().to_string()),
            ("server_time_usec", (host.time(step.now) * 1000).to_string()),
            ("uptime_in_seconds", seconds.to_string()),
            ("uptime_in_days", (seconds / 86_400).to_string()),
        ],
    );
    section(
        "Clients",
        &[
            ("connected_clients", clients.all.len().to_string()),
            ("blocked_clients", "0".into()),
            ("tracking_clients", "0".into()),
            ("pubsub_clients", subscribed.to_string()),
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
            ("rdb_last_save_time", (host.time(step.now) / 1000).to_string()),
            ("rdb_last_bgsave_status", "ok".into()),
            ("aof_enabled", "0".into()),
            ("aof_rewrite_in_progress", "0".into()),
            ("ramhold_replicas", status.streams.iter().map(|s| s.replicas).max().unwrap_or(0).to_string()),
        ],
    );
    let denied = |reason: &str| {
        let found = clients.denials.counts().find(|(other, _)| *other == reason);
        found.map_or(0, |(_, count)| count).to_string()
    };
    section(
        "Stats",
        &[
            ("total_connections_received", step.stats.connections.to_string()),
            ("total_commands_processed", step.stats.commands.to_string()),
            ("keyspace_hits", step.stats.hits.to_string()),
            ("keyspace_misses", step.stats.misses.to_string()),
            ("evicted_keys", "0".into()),
            ("pubsub_channels", clients.subscribers.names(Kind::Channels).count().to_string()),
            ("pubsub_patterns", clients.subscribers.names(Kind::Patterns).count().to_string()),
            ("pubsubshard_channels", clients.subscribers.names(Kind::ShardChannels).count().to_string()),
            ("total_error_replies", step.stats.faults.to_string()),
            ("acl_access_denied_auth", denied("auth")),
            ("acl_access_denied_cmd", denied("command")),
            ("acl_access_denied_key", denied("key")),
            ("acl_access_denied_channel", denied("channel")),
            ("acl_access_denied_db", denied("database")),
        ],
    );
    section(
        "Replication",
        &[
            ("role", "master".into()),
            ("connected_slaves", "0".into()),
            ("master_replid", node_id(host.cluster(), host.me())),
            ("master_repl_offset", "0".into()),
        ],
    );
    let is_ready = access.is_ready_without_coordinator(step);
    section(
        "Cluster",
        &[
            ("cluster_enabled", u8::from(asker.is_of_cluster).to_string()),
            ("ramhold_ready_without_coordinator", u8::from(is_ready).to_string()),
        ],
    );
    section(
        "Limits",
        &[
            ("ramhold_key_bytes_max", ramhold_base::limits::KEY_BYTES_MAX.to_string()),
            ("ramhold_value_bytes_max", ramhold_base::limits::VALUE_BYTES_MAX.to_string()),
            ("ramhold_cross_slot", format!("{:?}", step.config.cross_slot).to_lowercase()),
            ("ramhold_databases", step.config.databases.to_string()),
        ],
    );
    let objects = host.objects_by_table();
    // Clients read all three numbers. Nobody counts the keys that expire, so the other two are zero.
    let keyspace = access.databases.tables().into_iter().filter_map(|(db, table)| {
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
