//! The cluster's state for programs. Names are stable. Ids of 64 random bits are text.

use super::findings::{findings, verdict};
use super::picture::Picture;
use crate::commands::brick::scale::state_json;
use crate::commands::{recoveries, table};
use crate::findings::Finding;
use ramhold_client::{
    BackupStatus, BrickReport, CleaningStatus, ClearedReport, CopyingStatus, GoneReport, Label, LossReport,
    ProcessStatus, ReadLeaseStatus, ResultsStatus, ScrubStatus, ServerEntry, ServerState, StreamStatus,
};
use serde_json::{Map, Value, json};

pub fn picture(picture: &Picture) -> Value {
    let cluster = &picture.cluster;
    let servers = cluster.servers.iter().map(|entry| server(picture, entry));
    let findings = findings(picture);
    json!({
        "verdict": verdict(picture, &findings).0.verdict(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "cluster": cluster.cluster.to_string(),
        "expected": cluster.expected,
        "gone": cluster.gone.iter().flatten().map(gone).collect::<Vec<_>>(),
        "term": cluster.term.raw(),
        "time_millis": cluster.time.0,
        "version": cluster.version,
        "tablets": cluster.tablets,
        "tablets_recovering": cluster.tablets_recovering,
        "placement": cluster.replica_placement().to_string(),
        "topology": cluster.topology.to_string(),
        "warnings": cluster.warnings,
        "losses": cluster.losses.iter().map(loss).collect::<Vec<_>>(),
        "outages": cluster.outages.iter().flatten().map(crate::commands::topology::links::outage_json).collect::<Vec<_>>(),
        "cleared": cluster.cleared.iter().map(cleared).collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
        "bricks": cluster.bricks.iter().map(|it| brick(picture, it)).collect::<Vec<_>>(),
        "tables": picture.tables.iter().map(table::describe::summary_json).collect::<Vec<_>>(),
        "recoveries": cluster.recoveries.iter().map(recoveries::json::report_json).collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({ "grade": finding.grade.name(), "what": finding.what, "do": finding.action })
}

fn brick(picture: &Picture, brick: &BrickReport) -> Value {
    json!({
        "id": brick.brick.raw(),
        "address": brick.address.0.to_string(),
        "labels": labels(&brick.labels),
        "life": brick.life,
        "heard_millis": brick.heard_millis,
        "tablets": brick.tablets,
        "tablets_without_vote": brick.rebuilding,
        "log_bytes": brick.log_bytes,
        "log_used_bytes": brick.used_bytes,
        "is_replaced": brick.is_replaced,
        "is_offline": picture.is_offline(brick.brick),
        "is_removed": brick.is_removed,
        "scaling": state_json(brick),
    })
}

fn gone(gone: &GoneReport) -> Value {
    json!({
        "id": gone.server.raw(),
        "address": gone.address.0.to_string(),
        "labels": labels(&gone.labels),
        "directory": gone.directory.to_string(),
        "since_millis": gone.since.0,
        "cause": gone.cause,
    })
}

fn labels(labels: &[Label]) -> Map<String, Value> {
    labels.iter().map(|label| (label.name.clone(), label.value.clone().into())).collect()
}

fn loss(loss: &LossReport) -> Value {
    json!({
        "id": loss.id,
        "crashed": loss.crashed.raw(),
        "stream": loss.stream.raw(),
        "durability": loss.durability.name(),
        "tables": loss.tables.iter().map(|table| table.raw()).collect::<Vec<_>>(),
        "certified_millis": loss.certified.0,
        "crash_millis": loss.crash.0,
        "reason": loss.reason,
    })
}

fn cleared(report: &ClearedReport) -> Value {
    json!({ "server": report.server.raw(), "count": report.count, "cause": report.cause })
}

fn server(picture: &Picture, entry: &ServerEntry) -> Value {
    let mut fields = json!({
        "id": entry.id.raw(),
        "address": entry.address.0.to_string(),
        "state": match entry.state {
            ServerState::Up => "up",
            // The server's log is kept until devices have the data that was recovered from it.
            ServerState::Crashed if entry.kept => "recovered",
            ServerState::Crashed => "crashed",
        },
        "labels": labels(&entry.labels),
        "master": entry.master,
        "takes_replicas": entry.backup,
        "read_speed_megabytes": entry.read_speed,
        "directory": entry.directory.to_string(),
    });
    let figures = match picture.processes.get(&entry.id) {
        Some(Ok(status)) => process(status),
        Some(Err(why)) => json!({ "unreachable": why }),
        None => json!({}),
    };
    if let (Some(fields), Value::Object(figures)) = (fields.as_object_mut(), figures) {
        fields.extend(figures);
    }
    fields
}

fn process(process: &ProcessStatus) -> Value {
    json!({
        "version": process.version,
        "uptime_millis": process.uptime_millis,
        "memory_bytes": process.memory_bytes,
        "log_bytes": process.log_bytes,
        "log_used_bytes": process.log_used_bytes,
        "log_live_bytes": process.log_live_bytes,
        "index_bytes": process.index_bytes,
        "index_bytes_max": process.index_bytes_max,
        "buffer_bytes": process.buffer_bytes,
        "objects": process.objects,
        "tablets": process.tablets,
        "reads": process.reads,
        "writes": process.writes,
        "connections": process.connections,
        "recovering_partitions": process.recovering_partitions,
        "bad_frames": process.bad_frames,
        "cleaning": process.cleaning.as_ref().map(cleaning),
        "scrub": process.scrub.as_ref().map(scrub),
        "results": process.results.as_ref().map(results),
        "read_lease": process.read_lease.as_ref().map(read_lease),
        "copying": process.copying.as_ref().map(copying),
        "streams": process.streams.iter().map(stream).collect::<Vec<_>>(),
        "backup": process.backup.as_ref().map(backup),
    })
}

fn cleaning(cleaning: &CleaningStatus) -> Value {
    json!({
        "is_needed": cleaning.is_needed,
        "is_full": cleaning.is_full,
        "combined_passes": cleaning.combined_passes,
        "compactions": cleaning.compactions,
        "entries_moved": cleaning.entries_moved,
        "bytes_moved": cleaning.bytes_moved,
        "bytes_combined": cleaning.bytes_combined,
        "segments_retired": cleaning.segments_retired,
        "expired": cleaning.expired,
    })
}

fn results(results: &ResultsStatus) -> Value {
    json!({
        "leases": results.leases,
        "remembered": results.remembered,
        "recalled": results.recalled,
        "dropped": results.dropped,
    })
}

fn read_lease(lease: &ReadLeaseStatus) -> Value {
    json!({ "waited": lease.waited, "refused": lease.refused })
}

fn copying(copying: &CopyingStatus) -> Value {
    json!({
        "segments": copying.segments,
        "left_bytes": copying.left_bytes,
        "copied_bytes": copying.copied_bytes,
        "bytes_per_second": copying.bytes_per_second,
        "limit": copying.limit,
    })
}

fn scrub(scrub: &ScrubStatus) -> Value {
    json!({
        "bytes": scrub.bytes,
        "rounds": scrub.rounds,
        "damaged": scrub.damaged,
        "repaired": scrub.repaired,
        "lost": scrub.lost,
        "waiting": scrub.waiting,
    })
}

fn stream(stream: &StreamStatus) -> Value {
    json!({
        "stream": stream.stream.raw(),
        "durability": stream.durability.name(),
        "replicas": stream.replicas,
        "segments": stream.segments,
        "incomplete_segments": stream.incomplete_segments,
        "waits_for": stream.waits_for,
        "unreplicated_bytes": stream.unreplicated_bytes,
        "unspread_segments": stream.unspread_segments,
        "outside_segments": stream.outside_segments,
    })
}

fn backup(backup: &BackupStatus) -> Value {
    json!({
        "frames": backup.frames,
        "frames_used": backup.frames_used,
        "frames_max": backup.frames_max,
        "buffers": backup.buffers,
        "buffers_used": backup.buffers_used,
        "mode": backup.mode,
        "unflushed_bytes": backup.unflushed_bytes,
        "cut_replicas": backup.cut_replicas,
        "failed": backup.failed,
        "disk_bytes": backup.disk_bytes,
        "full": backup.full.as_ref().map(|full| json!({
            "since_millis": full.since_millis,
            "free_bytes": full.free_bytes,
            "wanted_bytes": full.wanted_bytes,
            "frames_free": full.frames_free,
            "directory": full.directory,
        })),
    })
}
