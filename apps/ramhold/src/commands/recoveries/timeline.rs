//! The course of one recovery: as spans of time, as text, as JSON.

use super::{phase_name, reports_text};
use crate::output::Columns;
use crate::size::bytes_text;
use ramhold_client::{PartReport, RecoveryReport};
use serde_json::{Value, json};

/// What was done from when to when, in milliseconds after the verdict; an end that is not reached yet is missing.
pub struct Span {
    pub name: &'static str,
    pub from: f64,
    pub to: Option<f64>,
}

/// The coordinator's own steps.
pub fn steps(report: &RecoveryReport) -> Vec<Span> {
    let steps = &report.steps;
    let at = |millis: Option<u64>| millis.map(|millis| millis as f64);
    let mut spans = Vec::new();
    let mut add = |name, from: Option<f64>, to| {
        if let Some(from) = from {
            spans.push(Span { name, from, to });
        }
    };
    add("verify", at(steps.suspected_before).map(|before| -before), Some(0.0));
    add("store the verdict, ask", at(steps.asked), at(steps.fenced));
    add("prove complete", at(steps.asked), at(report.complete_millis));
    add("read lease runs out", Some(0.0), at(steps.lease_over));
    let assigned = report.parts.iter().map(|part| part.assigned as f64).reduce(f64::min);
    add("divide", at(report.complete_millis), assigned);
    add("replay", assigned, at(steps.last_live));
    add("forget the server", at(steps.last_live), at(report.done_millis));
    spans
}

/// What a recovery master did for its partition.
pub fn part_spans(part: &PartReport) -> Vec<Span> {
    let Some(accepted) = part.accepted.map(|millis| millis as f64) else {
        return vec![Span { name: "assign", from: part.assigned as f64, to: None }];
    };
    let over = part.failed.map(|millis| millis as f64);
    // Told together, with the report.
    let is_told = part.times.durable > 0;
    let at = |micros: u64| is_told.then_some(accepted + micros as f64 / 1e3);
    let times = &part.times;
    let first = at(times.first).unwrap_or(accepted);
    let mut spans = vec![
        Span { name: "assign", from: part.assigned as f64, to: Some(accepted) },
        Span { name: "fetch", from: accepted, to: at(times.fetched).or(over) },
    ];
    if is_told {
        spans.push(Span { name: "replay", from: first, to: at(times.replayed) });
        spans.push(Span { name: "replicate", from: first, to: at(times.replicated) });
        let (replicated, durable) = (accepted + times.replicated as f64 / 1e3, at(times.durable));
        spans.push(Span { name: "enter", from: replicated, to: durable });
        let live = part.live.map(|millis| millis as f64);
        spans.push(Span { name: "publish", from: durable.unwrap_or(replicated), to: live.or(over) });
    }
    spans
}

pub fn text(report: &RecoveryReport) -> String {
    let mut text = reports_text(std::slice::from_ref(report));
    text.push('\n');
    let mut columns = Columns::new(["step", "from", "to", "took"]);
    let millis = |time: f64| format!("{time:.0} ms");
    for span in steps(report) {
        columns.row([
            span.name.to_owned(),
            millis(span.from),
            span.to.map_or_else(|| "-".to_owned(), millis),
            span.to.map_or_else(|| "-".to_owned(), |to| millis(to - span.from)),
        ]);
    }
    text.push_str(&columns.text());
    if report.parts.is_empty() {
        return text;
    }
    text.push('\n');
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
    ]);
    for part in &report.parts {
        let is_told = part.times.durable > 0;
        let after = |micros: u64| match part.accepted {
            Some(accepted) if is_told => millis(accepted as f64 + micros as f64 / 1e3),
            _ => "-".to_owned(),
        };
        let mean = |micros: u64| match part.times.fetches {
            0 => "-".to_owned(),
            count => format!("{:.1} ms", micros as f64 / 1e3 / count as f64),
        };
        let live = match (part.live, part.failed) {
            (Some(live), _) => millis(live as f64),
            (None, Some(failed)) => format!("failed at {failed} ms"),
            (None, None) => "-".to_owned(),
        };
        columns.row([
            match part.attempt {
                1 => part.partition.to_string(),
                attempt => format!("{} (attempt {attempt})", part.partition),
            },
            part.server.to_string(),
            part.accepted.map_or_else(|| "-".to_owned(), |accepted| millis(accepted as f64)),
            after(part.times.fetched),
            after(part.times.replayed),
            after(part.times.replicated),
            after(part.times.durable),
            live,
            bytes_text(part.bytes),
            part.records.to_string(),
            part.times.fetches.to_string(),
            mean(part.times.fetching),
            mean(part.times.waiting),
            mean(part.times.reading),
        ]);
    }
    text.push_str(&columns.text());
    text
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
    })
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
    })
}
