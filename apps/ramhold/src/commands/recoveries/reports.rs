//! Reports of recoveries as text: a row each, and what a recovery waits for.

use crate::failure::{Failure, NOT_FOUND};
use crate::output::{self, Columns};
use crate::screen::wrap;
use crate::size::bytes_text;
use ramhold_client::{AwayReport, RecoveryPhase, RecoveryReport};

/// The recovery of this name, or the newest for `last`.
pub fn find<'a>(recoveries: &'a [RecoveryReport], name: &str) -> Result<&'a RecoveryReport, Failure> {
    let found = match name {
        "last" => recoveries.first(),
        _ => recoveries.iter().find(|report| report.recovery.to_string() == name),
    };
    found.ok_or_else(|| {
        let text = match recoveries.first() {
            Some(newest) => format!(
                "there is no recovery '{name}'; the newest is {}, and 'ramhold recoveries' lists all",
                newest.recovery
            ),
            None => "there has been no recovery yet".to_owned(),
        };
        Failure::new(NOT_FOUND, text)
    })
}

/// One row each, in 80 columns.
pub fn reports_columns(recoveries: &[RecoveryReport]) -> Columns {
    let mut columns =
        Columns::new(["recovery", "of", "phase", "first live", "done", "parts", "bytes", "cause"]);
    for report in recoveries {
        columns.row([
            report.recovery.to_string(),
            report.crashed.to_string(),
            phase_name(report.phase).to_owned(),
            millis(report.first_live_millis),
            millis(report.done_millis),
            format!("{}/{}", report.partitions_live, report.partitions),
            bytes_text(report.bytes),
            output::bytes_for_eyes(report.cause.as_bytes()),
        ]);
    }
    columns
}

fn millis(time: Option<u64>) -> String {
    time.map_or_else(|| "-".to_owned(), |millis| format!("{millis} ms"))
}

pub fn reports_columns_wide(recoveries: &[RecoveryReport]) -> Columns {
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
    columns
}

/// The missing parts, the servers that are away or were given up, and the way out.
pub fn waits_text(report: &RecoveryReport) -> String {
    let list = |some: &[AwayReport]| some.iter().map(away_text).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    let first = format!("{} ", report.recovery);
    for missing in report.missing.iter().chain(&report.waits_for) {
        text.push_str(&wrap(&first, &format!("waits for: {}", output::bytes_for_eyes(missing.as_bytes()))));
    }
    if !report.away.is_empty() {
        let line = format!(
            "goes on when one of these comes back: {}; if all are gone for good, see 'ramhold accept-loss --help'",
            list(&report.away)
        );
        text.push_str(&wrap(&first, &line));
    }
    if !report.given_up.is_empty() {
        text.push_str(&wrap(&first, &format!("does not wait for {}: given up", list(&report.given_up))));
    }
    text
}

pub fn away_text(away: &AwayReport) -> String {
    match (away.server.is_none(), away.address) {
        (true, _) => away.directory.to_string(),
        (false, None) => away.server.to_string(),
        (false, Some(address)) => format!("{} ({})", away.server, address.0),
    }
}

pub fn phase_name(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Asking => "asking",
        RecoveryPhase::Incomplete => "incomplete",
        RecoveryPhase::WaitingForRoom => "waiting for room",
        RecoveryPhase::Replaying => "replaying",
        RecoveryPhase::Done => "done",
    }
}
