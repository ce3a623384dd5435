//! The metrics and the health of a storage server.

use super::Role;
use super::parts::{write_backup, write_cleaning, write_memory, write_process, write_scrub};
use crate::page::Page;
use ramhold_base::Latencies;
use ramhold_node::{Phase, RespSeen, ServerSeen};
use ramhold_wire::Opcode;
use ramhold_wire::membership::Durability;
use ramhold_wire::status::{CopyingStatus, ReadLeaseStatus, ResultsStatus, StreamStatus, TrafficStatus};

impl Role for ServerSeen {
    const NAME: &'static str = "server";

    fn trouble(&self) -> Option<(&str, &str)> {
        let phase = match self.phase {
            Phase::Starting => "starting",
            Phase::Enlisting => "enlisting",
            Phase::Installing => "installing",
            Phase::Serving => "serving",
            Phase::Stopping => "stopping",
            Phase::Ended => "ended",
        };
        Some((phase, self.reason.as_deref()?))
    }

    fn degraded(&self) -> Option<String> {
        let backup = self.status.backup.as_ref()?;
        let failed = backup.failed.as_ref().map(|why| format!("the device of the backup has failed: {why}"));
        failed.or_else(|| Some(format!("disk full: {}", backup.full.as_ref()?)))
    }

    fn write(&self, page: &mut Page) {
        let status = &self.status;
        write_process(page, status.uptime_millis, self.cluster);
        page.gauge(
            "ramhold_server_id",
            "The id of this life in the cluster; 0: none yet.",
            status.server.raw(),
        );
        write_operations(page, &self.operations);
        if let Some(resp) = &self.resp {
            write_resp(page, resp);
        }
        write_memory(page, status);
        write_streams(page, &status.streams);
        if let Some(copying) = &status.copying {
            write_copying(page, copying);
        }
        if let Some(traffic) = &status.traffic {
            write_traffic(page, traffic);
        }
        page.gauge(
            "ramhold_recovery_partitions",
            "Partitions of dead servers that this one replays.",
            status.recovering_partitions,
        );
        if let Some(backup) = &status.backup {
            write_backup(page, backup, self.disk_free_bytes);
        }
        if let Some(cleaning) = &status.cleaning {
            write_cleaning(page, cleaning);
        }
        if let Some(scrub) = &status.scrub {
            write_scrub(page, scrub);
        }
        if let Some(results) = &status.results {
            write_results(page, results);
        }
        if let Some(lease) = &status.read_lease {
            write_read_lease(page, lease);
        }
    }
}

fn operation_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Read => "read",
        Opcode::Write => "write",
        Opcode::Remove => "remove",
        Opcode::Increment => "increment",
        Opcode::Multi => "multi",
        Opcode::Scan => "scan",
        other => other.name(),
    }
}

fn write_operations(page: &mut Page, operations: &[(Opcode, Latencies)]) {
    let counts = operations.iter().map(|(opcode, latencies)| (operation_name(*opcode), latencies.total()));
    page.by_label(
        (
            "ramhold_operations_total",
            "counter",
            "Answers to operations on this server's objects, refusals included: of native clients, of Redis clients \
             connected here (what goes on to another server counts there), each item of a multi-operation and the multi-operation itself.",
        ),
        "operation",
        counts,
    );
    page.histogram(
        "ramhold_operation_wait_seconds",
        "How long answers waited for backups or for the read lease; those that could be given at once count as 0. \
         The time of the turn comes on top, see ramhold_turn_seconds.",
        operations.iter().map(|(opcode, latencies)| (Some(("operation", operation_name(*opcode))), latencies)),
    );
}

fn write_resp(page: &mut Page, resp: &RespSeen) {
    let stats = &resp.stats;
    page.gauge("ramhold_resp_connections", "Redis clients that are connected.", resp.connections as u64);
    page.counter("ramhold_resp_connections_total", "Redis clients that have connected.", stats.connections);
    page.counter("ramhold_resp_commands_total", "Redis commands taken.", stats.commands);
    page.counter("ramhold_resp_faults_total", "Redis requests refused before they began.", stats.faults);
    page.by_label(
        (
            "ramhold_resp_denied_total",
            "counter",
            "Redis requests that an account did not allow, and logins that failed (auth), by what was lacking.",
        ),
        "reason",
        resp.denied.iter().copied(),
    );
    page.counter(
        "ramhold_resp_hits_total",
        "GET commands that found their key at once, on this server.",
        stats.hits,
    );
    page.counter(
        "ramhold_resp_misses_total",
        "GET commands that found at once that this server does not have their key.",
        stats.misses,
    );
    page.histogram(
        "ramhold_resp_wait_seconds",
        "How long replies to Redis commands took that could not be given in the turn of their command: because of \
         replication, of another server, or of earlier commands of the connection. All others are not in it.",
        [(None, &resp.waits)],
    );
}

fn write_streams(page: &mut Page, streams: &[StreamStatus]) {
    const KINDS: [Durability; 3] = [Durability::None, Durability::Buffered, Durability::Synced];
    let sums = |of: fn(&StreamStatus) -> u64| {
        KINDS.map(|kind| {
            let sum = streams.iter().filter(|stream| stream.durability == kind).map(of).sum::<u64>();
            (kind.name(), sum)
        })
    };
    type Family = (&'static str, &'static str, fn(&StreamStatus) -> u64);
    let families: [Family; 6] = [
        ("ramhold_replication_segments", "Segments of the log, by how their writes are kept.", |s| {
            s.segments
        }),
        (
            "ramhold_replication_incomplete_segments",
            "Segments with fewer replicas than wanted, or not yet whole; the open one may be among them.",
            |s| s.incomplete_segments,
        ),
        (
            "ramhold_replication_waiting_bytes",
            "Bytes appended and not yet acknowledged by all their backups.",
            |s| s.unreplicated_bytes,
        ),
        (
            "ramhold_replication_unspread_segments",
            "Segments whose copies are all in one zone, or in one rack, though another one is up.",
            |s| s.unspread_segments,
        ),
        (
            "ramhold_replication_outside_segments",
            "Segments whose primary is in another zone than their master, although placement is zone-local.",
            |s| s.outside_segments,
        ),
        (
            "ramhold_replication_streams_waiting",
            "Streams whose writes wait for something, such as a backup ('ramhold status' says for what).",
            |s| u64::from(s.waits_for.is_some()),
        ),
    ];
    for (name, help, of) in families {
        page.by_label((name, "gauge", help), "durability", sums(of));
    }
}

fn write_traffic(page: &mut Page, traffic: &TrafficStatus) {
    let kinds =
        [("replication", traffic.replication), ("copying", traffic.copying), ("recovery", traffic.recovery)];
    let samples = kinds.into_iter().flat_map(|(kind, bytes)| {
        let distances = [("near", bytes.near), ("zone", bytes.zone), ("other_zone", bytes.other_zone)];
        distances
            .map(|(distance, bytes)| ([("kind", kind.to_owned()), ("distance", distance.to_owned())], bytes))
    });
    page.by_labels(
        (
        "ramhold_traffic_bytes_total",
        "counter",
        "Log data that its master sent to backups when it was written (replication) or because a replica was lost (copying), \
         or fetched from backups (recovery), by where the other server stands: it shares a switch or rack (near), is in the \
         same zone, or in another one.",
        ),
        samples,
    );
}

fn write_copying(page: &mut Page, copying: &CopyingStatus) {
    page.gauge(
        "ramhold_copying_segments",
        "Closed segments that lack a replica, which are copied again.",
        copying.segments,
    );
    page.gauge("ramhold_copying_left_bytes", "Bytes of them that are still to be sent.", copying.left_bytes);
    page.gauge(
        "ramhold_copying_bytes_per_second",
        "How many are sent, on average since there is something to copy; 0: there is nothing.",
        copying.bytes_per_second,
    );
    page.counter("ramhold_copied_bytes_total", "Bytes that were sent so.", copying.copied_bytes);
}

fn write_results(page: &mut Page, results: &ResultsStatus) {
    page.gauge("ramhold_client_leases", "Leases of clients that this server knows.", results.leases);
    page.gauge(
        "ramhold_results",
        "Results of mutations that are remembered for those who ask again.",
        results.remembered,
    );
    page.counter(
        "ramhold_results_recalled_total",
        "Repeated mutations that got their first answer.",
        results.recalled,
    );
    page.counter(
        "ramhold_results_dropped_total",
        "Mutations not answered because there was no room to remember them.",
        results.dropped,
    );
}

fn write_read_lease(page: &mut Page, lease: &ReadLeaseStatus) {
    page.counter(
        "ramhold_read_lease_waits_total",
        "Reads that had to wait for the read lease.",
        lease.waited,
    );
    page.counter("ramhold_read_lease_refusals_total", "Those of them that were refused.", lease.refused);
}
