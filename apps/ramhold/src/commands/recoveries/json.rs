//! Reports of recoveries for programs.

use super::reports::phase_name;
use super::timeline;
use ramhold_client::{AwayReport, RecoveryReport};
use serde_json::json;

fn away_json(away: &AwayReport) -> serde_json::Value {
    json!({
        "server": away.server.raw(),
        "address": away.address.map(|address| address.0.to_string()),
        "directory": away.directory.to_string(),
    })
}

pub fn report_json(report: &RecoveryReport) -> serde_json::Value {
    json!({
        "recovery": report.recovery.raw(),
        "crashed": report.crashed.raw(),
        "address": report.address.0.to_string(),
        "detected_millis": report.detected.0,
        "phase": phase_name(report.phase),
        "complete_millis": report.complete_millis,
        "first_live_millis": report.first_live_millis,
        "done_millis": report.done_millis,
        "partitions": report.partitions,
        "partitions_live": report.partitions_live,
        "tablets": report.tablets,
        "segments": report.segments,
        "bytes": report.bytes,
        "records": report.records,
        "missing": report.missing,
        "waits_for": report.waits_for,
        "away": report.away.iter().map(away_json).collect::<Vec<_>>(),
        "given_up": report.given_up.iter().map(away_json).collect::<Vec<_>>(),
        "failed_attempts": report.failed_attempts,
        "cause": report.cause,
        "steps": timeline::steps_json(report),
        "course": timeline::course_json(report),
        "parts": report.parts.iter().map(timeline::part_json).collect::<Vec<_>>(),
        "backups": report.backups.iter().map(timeline::backup_json).collect::<Vec<_>>(),
    })
}
