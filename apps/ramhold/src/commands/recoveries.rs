//! `recoveries`: what died, how it was noticed, and how fast it came back (F11).

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{self, Columns};
use crate::size::bytes_text;
use clap::Args;
use ramhold_client::{RecoveryPhase, RecoveryReport};
use serde_json::json;

/// Show recoveries of dead servers, newest first.
#[derive(Args, Debug)]
#[command(after_help = "\
Times are milliseconds after the coordinator declared the server dead:
  complete    its log was proven complete
  first live  the first part was served again
  done        all of it was
Example:
  ramhold recoveries --json")]
pub struct Recoveries {}

impl Recoveries {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let recoveries = global.connect()?.recoveries()?;
        if global.json {
            return output::print_json(&json!(recoveries.iter().map(report_json).collect::<Vec<_>>()));
        }
        if recoveries.is_empty() {
            return output::print("no recoveries\n");
        }
        output::print(&reports_text(&recoveries))
    }
}

pub fn reports_text(recoveries: &[RecoveryReport]) -> String {
    let mut columns = Columns::new([
        "recovery",
        "server",
        "phase",
        "complete",
        "first live",
        "done",
        "partitions",
        "segments",
        "bytes",
        "records",
        "failed",
        "cause",
    ]);
    let millis = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), |millis| format!("{millis} ms"));
    for report in recoveries {
        columns.row([
            report.recovery.to_string(),
            format!("{} {}", report.crashed, report.address.0),
            phase_name(report.phase).to_owned(),
            millis(report.complete_millis),
            millis(report.first_live_millis),
            millis(report.done_millis),
            format!("{}/{}", report.partitions_live, report.partitions),
            report.segments.to_string(),
            format!("{} ({})", report.bytes, bytes_text(report.bytes)),
            report.records.to_string(),
            report.failed_attempts.to_string(),
            output::bytes_for_eyes(report.cause.as_bytes()),
        ]);
    }
    let mut text = columns.text();
    for report in recoveries {
        for missing in &report.missing {
            let missing = output::bytes_for_eyes(missing.as_bytes());
            text.push_str(&format!("{} waits for: {missing}\n", report.recovery));
        }
    }
    text
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
        "failed_attempts": report.failed_attempts,
        "cause": report.cause,
    })
}

fn phase_name(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Asking => "asking",
        RecoveryPhase::Incomplete => "incomplete",
        RecoveryPhase::Replaying => "replaying",
        RecoveryPhase::Done => "done",
    }
}
