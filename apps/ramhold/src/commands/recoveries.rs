//! `recoveries`: for each recovery, the server that died, how its death was noticed, and the duration of the
//! recovery (F11).

mod svg;
pub mod timeline;

use crate::cli::Global;
use crate::failure::{Failure, NOT_FOUND};
use crate::output::{self, Columns};
use crate::screen::{WIDTH, wrap};
use crate::size::bytes_text;
use clap::Args;
use ramhold_client::{AwayReport, RecoveryPhase, RecoveryReport};
use serde_json::json;
use std::path::PathBuf;

/// Show recoveries of dead servers, or the course of one.
#[derive(Args, Debug)]
#[command(after_help = "\
Times are milliseconds after the coordinator declared the server dead:
  complete    its log was proven complete
  first live  the first part was served again
  done        all of it was

With the name of a recovery, its course: what was done when and how much of it,
by all together; how each recovery master fared with its partition; and what
each backup did.
  verify      from the first suspicion to the verdict; when the server really
              died, nobody can tell
  read        backups read segments, divide: verified them and cut them up for
              the recovery masters; ahead of demand. 'busy' is the time in which
              any of it was under way, of all backups together
  transfer    records travelled from backups to recovery masters, until publish:
              as in the second table
  replicate   copies were made. Where there is room a partition is readable
              before that: then this tells when all of it was taken in, and the
              copies are made under 'settle'
  settle      backups wrote to their devices what was recovered; until then the
              dead server's log is kept beside it, in case all power goes
  free        backups freed what they held of the dead server. For neither
              anybody waits
In the second table:
  fetched     the last records had come from the backups
  replayed    and were taken in; replicated: and stood on their backups;
              durable: and a head named them
  fetch       the mean time of a request for records, 'backup' that part of it
              at the backup; 'read' is how long the backup needed to read the
              segment, mostly before it was asked for
Backups are asked once a second while a recovery runs, and when it is over until
all is freed. While a recovery runs, what is not reached yet is '-'.

Examples:
  ramhold recoveries
  ramhold recoveries r3
  ramhold recoveries r3 --svg recovery.svg
  ramhold recoveries --json")]
pub struct Recoveries {
    /// Which one: r3, or 'last'.
    #[arg(value_name = "RECOVERY")]
    recovery: Option<String>,
    /// Draw the course of it (without a name: of the last one) into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show everything, in lines as long as it takes.
    #[arg(long)]
    wide: bool,
}

impl Recoveries {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let recoveries = global.connect()?.recoveries()?;
        let chosen = match (&self.recovery, &self.svg) {
            (None, None) => None,
            (None, Some(_)) => Some(find(&recoveries, "last")?),
            (Some(name), _) => Some(find(&recoveries, name)?),
        };
        if let Some((path, report)) = self.svg.as_ref().zip(chosen) {
            std::fs::write(path, svg::draw(report))
                .map_err(|error| Failure::local(path, &error).about("--svg"))?;
        }
        if global.json {
            return match chosen {
                Some(report) => output::print_json(&report_json(report)),
                None => output::print_json(&json!(recoveries.iter().map(report_json).collect::<Vec<_>>())),
            };
        }
        match chosen {
            Some(report) => output::print(&(timeline::text(report, self.wide) + &waits_text(report))),
            None if recoveries.is_empty() => output::print("no recoveries\n"),
            None => {
                let mut text = match self.wide {
                    true => reports_columns_wide(&recoveries).text(),
                    false => reports_columns(&recoveries).fitted(WIDTH),
                };
                recoveries.iter().for_each(|report| text.push_str(&waits_text(report)));
                output::print(&text)
            }
        }
    }
}

pub fn find<'a>(recoveries: &'a [RecoveryReport], name: &str) -> Result<&'a RecoveryReport, Failure> {
    let found = match name {
        "last" => recoveries.first(),
        _ => recoveries.iter().find(|report| report.recovery.to_string() == name),
    };
    found.ok_or_else(|| {
        let text = match recoveries.first() {
            Some(newest) => format!("there is no recovery '{name}'; the newest is {}", newest.recovery),
            None => "there was no recovery yet".to_owned(),
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

/// What is missing, who is away or was given up, and what can be done.
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

fn phase_name(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Asking => "asking",
        RecoveryPhase::Incomplete => "incomplete",
        RecoveryPhase::WaitingForRoom => "waiting for room",
        RecoveryPhase::Replaying => "replaying",
        RecoveryPhase::Done => "done",
    }
}
