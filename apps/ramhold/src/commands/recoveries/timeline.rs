//! The course of one recovery: as spans of time with the work done in each, as text, as JSON.

use super::distances::{distances_columns, fetched};
use super::reports::{phase_name, reports_columns, reports_columns_wide};
use crate::output::{Columns, bytes_for_eyes};
use crate::screen::{WIDTH, wrap};
use crate::size::bytes_text;
use ramhold_client::{BackupReport, PartReport, RecoveryReport, WorkReport};
use serde_json::{Value, json};

/// A piece of work from its begin to its end, in milliseconds after the verdict; an end that is not reached yet is
/// missing.
pub struct Span {
    pub name: &'static str,
    pub from: f64,
    pub to: Option<f64>,
    pub amount: Amount,
}

/// How much of it. Figures that are not known, or mean nothing, are missing.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    /// The count and its unit.
    pub count: Option<(u64, &'static str)>,
    pub bytes: Option<u64>,
    /// The bytes that came from another zone, or in a grid from more than one hop away.
    pub far: Option<u64>,
    /// Microseconds, of all backups together.
    pub busy: Option<u64>,
}

impl Amount {
    fn of(count: u64, what: &'static str) -> Amount {
        Amount { count: Some((count, what)), ..Amount::default() }
    }

    fn and_bytes(self, bytes: u64) -> Amount {
        Amount { bytes: Some(bytes), ..self }
    }

    pub fn text(&self) -> String {
        let count = self.count.map(|(count, what)| format!("{count} {what}"));
        let far = self.far.map(|bytes| format!("{} from far", bytes_text(bytes)));
        count.into_iter().chain(self.bytes.map(bytes_text)).chain(far).collect::<Vec<_>>().join(", ")
    }
}

fn span(name: &'static str, from: f64, to: Option<f64>) -> Span {
    Span { name, from, to, amount: Amount::default() }
}

/// All that is done for a recovery, each for all who do it together.
pub fn steps(report: &RecoveryReport) -> Vec<Span> {
    let steps = &report.steps;
    let at = |millis: Option<u64>| millis.map(|millis| millis as f64);
    let mut spans = Vec::new();
    let mut add = |name, from: Option<f64>, to, amount| {
        if let Some(from) = from {
            spans.push(Span { name, from, to, amount });
        }
    };
    let nothing = Amount::default();
    let assigned = report.parts.iter().map(|part| part.assigned as f64).reduce(f64::min);
    let partitions = Amount::of(report.partitions.into(), "partitions");
    add("verify", at(steps.suspected_before).map(|before| -before), Some(0.0), nothing);
    add("fence, ask", at(steps.asked), at(steps.fenced), nothing);
    let segments = Amount::of(report.segments, "segments");
    add("prove complete", at(steps.asked), at(report.complete_millis), segments);
    add("read lease runs out", Some(0.0), at(steps.lease_over), nothing);
    add("cut in partitions", at(report.complete_millis), assigned, partitions);
    let all = &report.backups_total;
    let is_live = steps.last_live.is_some();
    for (name, work) in [("read", &all.read), ("divide", &all.divide)] {
        let amount =
            Amount { busy: Some(work.busy), ..Amount::of(work.count, "segments").and_bytes(work.bytes) };
        add(name, at(work.from), at(work.to).filter(|_| is_live), amount);
    }
    let told: Vec<(&PartReport, f64)> = report.parts.iter().filter_map(told_from).collect();
    let sum = |figure: fn(&PartReport) -> u64| told.iter().map(|(part, _)| figure(part)).sum::<u64>();
    let first = |micros: fn(&PartReport) -> u64| {
        told.iter().map(|(part, from)| from + micros(part) as f64 / 1e3).reduce(f64::min)
    };
    let last = |micros: fn(&PartReport) -> u64| {
        let last = told.iter().map(|(part, from)| from + micros(part) as f64 / 1e3).reduce(f64::max);
        last.filter(|_| is_live)
    };
    let accepted = report.parts.iter().filter_map(|part| part.accepted).min();
    let bytes = sum(|part| part.bytes);
    let far = told.iter().filter_map(|(part, _)| part.times.far_bytes).reduce(|sum, far| sum + far);
    let fetches = Amount::of(sum(|part| part.times.fetches), "answers").and_bytes(bytes);
    let fetches = Amount { far, ..fetches };
    add("transfer", at(accepted), last(|part| part.times.fetched), fetches);
    let replayed = Amount::of(sum(|part| part.records), "records").and_bytes(bytes);
    add("replay", first(|part| part.times.first), last(|part| part.times.replayed), replayed);
    let told_count = Amount::of(told.len() as u64, "partitions");
    add("replicate", first(|part| part.times.first), last(|part| part.times.replicated), told_count);
    let live = Amount::of(report.partitions_live.into(), "partitions");
    add("publish", first(|part| part.times.durable), at(steps.last_live), live);
    add("forget the server", at(steps.last_live), at(report.done_millis), nothing);
    let freed = Amount::of(all.free.count, "replicas").and_bytes(all.free.bytes);
    // For synced tables no log is kept, so this step is missing.
    if steps.settled.is_some() || steps.freed.is_none() {
        add("settle", at(report.done_millis), at(steps.settled), nothing);
    }
    add(
        "free",
        at(steps.settled.or(report.done_millis).filter(|_| report.done_millis.is_some())),
        at(steps.freed),
        freed,
    );
    spans
}

/// A turn that was told of, and when it was accepted: all times come together, with the report. The coordinator may hear of
/// the acceptance late, but what was reported was durable before.
fn told_from(part: &PartReport) -> Option<(&PartReport, f64)> {
    let accepted = part.accepted.filter(|_| part.times.durable > 0)? as f64;
    let latest = part.reported.map_or(accepted, |reported| reported as f64 - part.times.durable as f64 / 1e3);
    Some((part, accepted.min(latest.max(part.assigned as f64))))
}

/// The work of a recovery master for its partition.
pub fn part_spans(part: &PartReport) -> Vec<Span> {
    let Some(accepted) = part.accepted.map(|millis| millis as f64) else {
        return vec![span("assign", part.assigned as f64, None)];
    };
    let over = part.failed.map(|millis| millis as f64);
    let Some((_, accepted)) = told_from(part) else {
        return vec![span("assign", part.assigned as f64, Some(accepted)), span("transfer", accepted, over)];
    };
    let at = |micros: u64| accepted + micros as f64 / 1e3;
    let times = &part.times;
    let live = part.live.map(|millis| millis as f64);
    vec![
        span("assign", part.assigned as f64, Some(accepted)),
        span("transfer", accepted, Some(at(times.fetched))),
        span("replay", at(times.first), Some(at(times.replayed))),
        span("replicate", at(times.first), Some(at(times.replicated))),
        span("enter", at(times.replicated), Some(at(times.durable))),
        span("publish", at(times.durable), live.or(over)),
    ]
}

/// The work of a backup for the recovery.
pub fn backup_spans(backup: &BackupReport) -> Vec<Span> {
    let work = |name, work: &WorkReport, what| {
        let to = work.to.map(|to| to as f64);
        let amount = Amount { busy: Some(work.busy), ..Amount::of(work.count, what).and_bytes(work.bytes) };
        work.from.map(|from| Span { name, from: from as f64, to, amount })
    };
    let spans = [
        work("read", &backup.read, "segments"),
        work("divide", &backup.divide, "segments"),
        work("free", &backup.free, "replicas"),
    ];
    spans.into_iter().flatten().collect()
}

pub fn text(report: &RecoveryReport, is_wide: bool) -> String {
    let one = std::slice::from_ref(report);
    let mut text = if is_wide {
        reports_columns_wide(one).text()
    } else {
        // The cause is shown in full below.
        let cause = wrap("cause: ", &bytes_for_eyes(report.cause.as_bytes()));
        reports_columns(one).fitted(WIDTH) + &cause
    };
    let mut add = |columns: Option<Columns>| {
        if let Some(columns) = columns {
            text.push('\n');
            text.push_str(&if is_wide { columns.text() } else { columns.fitted(WIDTH) });
        }
    };
    add(Some(steps_columns(report)));
    if is_wide {
        add(parts_columns_wide(&report.parts));
        add(backups_columns_wide(&report.backups));
    } else {
        add(parts_columns(&report.parts));
        add(distances_columns(&report.parts, part_name));
        add(backups_columns(&report.backups));
    }
    text
}

fn millis(time: f64) -> String {
    format!("{time:.0} ms")
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn steps_columns(report: &RecoveryReport) -> Columns {
    let mut columns = Columns::new(["step", "from", "to", "took", "busy", "count", "bytes"]);
    for span in steps(report) {
        let amount = span.amount;
        columns.row([
            span.name.to_owned(),
            millis(span.from),
            or_dash(span.to.map(millis)),
            or_dash(span.to.map(|to| millis(to - span.from))),
            amount.busy.map_or_else(String::new, |micros| millis(micros as f64 / 1e3)),
            amount.count.map_or_else(String::new, |(count, what)| format!("{count} {what}")),
            amount.bytes.map_or_else(String::new, bytes_text),
        ]);
    }
    columns
}

/// When it was all there, and how much it was.
fn parts_columns(parts: &[PartReport]) -> Option<Columns> {
    let mut columns =
        Columns::new(["partition", "at", "accepted", "fetched", "replayed", "live", "bytes", "records"]);
    for part in parts {
        let after =
            |micros: u64| or_dash(told_from(part).map(|(_, from)| millis(from + micros as f64 / 1e3)));
        columns.row([
            part_name(part),
            part.server.to_string(),
            or_dash(part.accepted.map(|accepted| millis(accepted as f64))),
            after(part.times.fetched),
            after(part.times.replayed),
            live_text(part),
            bytes_text(part.bytes),
            part.records.to_string(),
        ]);
    }
    (!parts.is_empty()).then_some(columns)
}

fn part_name(part: &PartReport) -> String {
    match part.attempt {
        1 => part.partition.to_string(),
        attempt => format!("{} (attempt {attempt})", part.partition),
    }
}

fn live_text(part: &PartReport) -> String {
    match (part.live, part.failed) {
        (Some(live), _) => millis(live as f64),
        (None, Some(failed)) => format!("failed at {failed} ms"),
        (None, None) => "-".to_owned(),
    }
}

fn backups_columns(backups: &[BackupReport]) -> Option<Columns> {
    let mut columns = Columns::new(["backup", "read", "bytes", "busy", "divided", "busy", "freed", "held"]);
    let busy = |work: &WorkReport| millis(work.busy as f64 / 1e3);
    for BackupReport { server, read, divide, free, held } in backups {
        columns.row([
            server.to_string(),
            format!("{} segments", read.count),
            bytes_text(read.bytes),
            busy(read),
            format!("{} segments", divide.count),
            busy(divide),
            free.count.to_string(),
            held.to_string(),
        ]);
    }
    (!backups.is_empty()).then_some(columns)
}

fn parts_columns_wide(parts: &[PartReport]) -> Option<Columns> {
    let mut columns = Columns::new([
        "partition",
        "at",
        "accepted",
        "fetched",
        "replayed",
        "replicated",
        "durable",
        "live",
        "bytes",
        "records",
        "fetches",
        "fetch",
        "backup",
        "read",
        "from far",
        "near",
        "same zone",
        "other zone",
    ]);
    for part in parts {
        let after =
            |micros: u64| or_dash(told_from(part).map(|(_, from)| millis(from + micros as f64 / 1e3)));
        let mean = |micros: u64| match part.times.fetches {
            0 => "-".to_owned(),
            count => format!("{:.1} ms", micros as f64 / 1e3 / count as f64),
        };
        columns.row([
            part_name(part),
            part.server.to_string(),
            or_dash(part.accepted.map(|accepted| millis(accepted as f64))),
            after(part.times.fetched),
            after(part.times.replayed),
            after(part.times.replicated),
            after(part.times.durable),
            live_text(part),
            bytes_text(part.bytes),
            part.records.to_string(),
            part.times.fetches.to_string(),
            mean(part.times.fetching),
            mean(part.times.waiting),
            mean(part.times.reading),
            or_dash(part.times.far_bytes.map(bytes_text)),
            or_dash(fetched(part).map(|fetched| bytes_text(fetched.near))),
            or_dash(fetched(part).map(|fetched| bytes_text(fetched.zone))),
            or_dash(fetched(part).map(|fetched| bytes_text(fetched.other_zone))),
        ]);
    }
    (!parts.is_empty()).then_some(columns)
}

fn backups_columns_wide(backups: &[BackupReport]) -> Option<Columns> {
    let mut columns = Columns::new([
        "backup", "read", "bytes", "from", "to", "busy", "divided", "from", "to", "busy", "freed", "to",
        "held",
    ]);
    let at = |time: Option<u64>| or_dash(time.map(|time| millis(time as f64)));
    let busy = |work: &WorkReport| millis(work.busy as f64 / 1e3);
    for BackupReport { server, read, divide, free, held } in backups {
        columns.row([
            server.to_string(),
            format!("{} segments", read.count),
            bytes_text(read.bytes),
            at(read.from),
            at(read.to),
            busy(read),
            format!("{} segments", divide.count),
            at(divide.from),
            at(divide.to),
            busy(divide),
            format!("{} replicas", free.count),
            at(free.to),
            held.to_string(),
        ]);
    }
    (!backups.is_empty()).then_some(columns)
}

pub fn steps_json(report: &RecoveryReport) -> Value {
    let steps = &report.steps;
    json!({
        "phase": phase_name(report.phase),
        "suspected_before_millis": steps.suspected_before,
        "asked_millis": steps.asked,
        "fenced_millis": steps.fenced,
        "complete_millis": report.complete_millis,
        "lease_over_millis": steps.lease_over,
        "first_live_millis": report.first_live_millis,
        "last_live_millis": steps.last_live,
        "done_millis": report.done_millis,
        "settled_millis": steps.settled,
        "freed_millis": steps.freed,
    })
}

/// The rows of the course, by their names.
pub fn course_json(report: &RecoveryReport) -> Value {
    let row = |span: Span| {
        json!({
            "step": span.name,
            "from_millis": span.from,
            "to_millis": span.to,
            "count": span.amount.count.map(|(count, _)| count),
            "of": span.amount.count.map(|(_, what)| what),
            "bytes": span.amount.bytes,
            "far_bytes": span.amount.far,
            "busy_micros": span.amount.busy,
        })
    };
    steps(report).into_iter().map(row).collect()
}

pub fn part_json(part: &PartReport) -> Value {
    let times = &part.times;
    json!({
        "partition": part.partition,
        "attempt": part.attempt,
        "server": part.server.raw(),
        "assigned_millis": part.assigned,
        "accepted_millis": part.accepted,
        "reported_millis": part.reported,
        "live_millis": part.live,
        "failed_millis": part.failed,
        "bytes": part.bytes,
        "records": part.records,
        "first_micros": times.first,
        "fetched_micros": times.fetched,
        "replayed_micros": times.replayed,
        "replicated_micros": times.replicated,
        "durable_micros": times.durable,
        "fetches": times.fetches,
        "fetching_micros": times.fetching,
        "waiting_micros": times.waiting,
        "reading_micros": times.reading,
        "far_bytes": times.far_bytes,
        "fetched_bytes": times.fetched_bytes.map(|fetched| {
            json!({ "near": fetched.near, "zone": fetched.zone, "other_zone": fetched.other_zone })
        }),
    })
}

pub fn backup_json(backup: &BackupReport) -> Value {
    let work = |work: &WorkReport| {
        json!({
            "count": work.count,
            "bytes": work.bytes,
            "busy_micros": work.busy,
            "from_millis": work.from,
            "to_millis": work.to,
        })
    };
    json!({
        "server": backup.server.raw(),
        "read": work(&backup.read),
        "divide": work(&backup.divide),
        "free": work(&backup.free),
        "held": backup.held,
    })
}
