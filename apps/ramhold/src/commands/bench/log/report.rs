//! The figures of `bench log`, for people and for programs.

use super::sweep;
use super::workload::{self, Plan};
use crate::failure::Failure;
use crate::global::Global;
use crate::output::{self, Columns};
use crate::size::bytes_text;
use serde_json::{Value, json};

/// One object, which `cargo xtask bench compare memory` reads.
pub fn print_workload(plan: &Plan, outcome: &workload::Outcome, global: &Global) -> Result<(), Failure> {
    if global.json {
        output::print_json(&workload_json(plan, outcome))
    } else {
        output::print(&workload_text(plan, outcome))
    }
}

fn workload_json(plan: &Plan, outcome: &workload::Outcome) -> Value {
    let cleaning = &outcome.cleaning;
    json!({
        "workload": plan.workload.name(),
        "live_bytes": outcome.worst.live_bytes,
        "resident_bytes_worst": outcome.worst.resident_bytes,
        "live_over_resident_worst": outcome.worst.live_over_resident(),
        "live_over_resident_end": outcome.end.live_over_resident(),
        "writes": outcome.writes,
        "refused": outcome.refused,
        "seconds": outcome.seconds,
        "log_bytes": outcome.log_bytes,
        "seed": plan.seed,
        "live_bytes_target": plan.live_bytes,
        "refused_removes": outcome.refused_removes,
        "waits": outcome.waits,
        "wait_longest_nanos": outcome.wait_longest_nanos,
        "longest_nanos": outcome.longest_nanos,
        "index_bytes": outcome.index_bytes,
        "generator_bytes_taken_off": outcome.generator_bytes,
        "combined_passes": cleaning.combined_passes,
        "entries_moved": cleaning.entries_moved,
        "bytes_moved": cleaning.bytes_moved,
    })
}

fn workload_text(plan: &Plan, outcome: &workload::Outcome) -> String {
    let mut columns = Columns::new([
        "workload",
        "live",
        "resident",
        "live/resident",
        "at the end",
        "writes",
        "refused",
        "waits",
        "s",
    ]);
    columns.row([
        plan.workload.name().to_owned(),
        bytes_text(outcome.worst.live_bytes),
        bytes_text(outcome.worst.resident_bytes),
        format!("{:.3}", outcome.worst.live_over_resident()),
        format!("{:.3}", outcome.end.live_over_resident()),
        outcome.writes.to_string(),
        outcome.refused.to_string(),
        outcome.waits.to_string(),
        format!("{:.1}", outcome.seconds),
    ]);
    let mut text = columns.text();
    text.push_str(&format!(
        "resident: the whole process (Pss) at its worst moment, without {} of the generator of the steps\n\
         log {}, index {}; {} entries moved by {} passes; longest step {:.1} us, longest wait {:.1} us\n",
        bytes_text(outcome.generator_bytes),
        bytes_text(outcome.log_bytes),
        bytes_text(outcome.index_bytes),
        outcome.cleaning.entries_moved,
        outcome.cleaning.combined_passes,
        micros(outcome.longest_nanos),
        micros(outcome.wait_longest_nanos),
    ));
    if outcome.refused_removes > 0 {
        text.push_str(&format!("{} removes were refused\n", outcome.refused_removes));
    }
    text
}

/// An array with an object for each case.
pub fn print_sweep(outcomes: &[sweep::Outcome], global: &Global) -> Result<(), Failure> {
    if global.json {
        output::print_json(&Value::Array(outcomes.iter().map(case_json).collect()))
    } else {
        output::print(&sweep_text(outcomes))
    }
}

fn case_json(outcome: &sweep::Outcome) -> Value {
    let sweep::Outcome { case, counted, .. } = outcome;
    let service = &counted.service;
    let mut object = json!({
        "log_bytes": counted.log_bytes,
        "utilisation_percent": case.utilisation,
        "value_bytes": case.value_bytes,
        "keys": case.keys.name(),
        "levels": levels(outcome),
        "replicas": case.replicas,
        "seed": case.seed,
        "objects": case.object_count(),
        "live_bytes": counted.live_bytes,
        "utilisation_of_log": outcome.utilisation_of_log(),
        "utilisation_of_used": outcome.utilisation_of_used(),
        "fill_refused": outcome.fill_refused,
        "writes": counted.writes,
        "is_warm": outcome.is_warm,
        "is_cut": outcome.is_cut(),
        "refused": counted.refused,
        "waits": service.waits,
        "seconds": counted.seconds,
        "writes_per_second": outcome.writes_per_second(),
        "relative_throughput": outcome.relative(),
        "cpu_nanos_per_write": counted.cpu_nanos_per_write(),
        "baseline_cpu_nanos_per_write": outcome.baseline_nanos_per_write,
    });
    let more = json!({
        "moved_bytes_per_new_byte": outcome.moved_per_new_byte(),
        "combined_bytes_per_new_byte": outcome.combined_per_new_byte(),
        "predicted_bytes_per_new_byte": outcome.predicted(),
        "entries_moved_per_write": outcome.moved_per_write(),
        "cpu_nanos_per_moved_entry": outcome.nanos_per_moved(),
        "entries_seen": counted.cleaning.entries_seen,
        "entries_moved": counted.cleaning.entries_moved,
        "combined_passes": counted.cleaning.combined_passes,
        "compactions": counted.cleaning.compactions,
        "segments_retired": counted.cleaning.segments_retired,
        "append_bytes_per_new_byte": outcome.appended_per_new_byte(),
        "p50_nanos": service.nanos.value_at_quantile(0.5),
        "p99_nanos": service.nanos.value_at_quantile(0.99),
        "p999_nanos": service.nanos.value_at_quantile(0.999),
        "max_nanos": service.nanos.max(),
        "longest_step_nanos": service.longest_nanos,
        "wait_longest_nanos": service.wait_longest_nanos,
    });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn sweep_text(outcomes: &[sweep::Outcome]) -> String {
    let mut cost = Columns::new([
        "full",
        "used",
        "value",
        "keys",
        "R",
        "levels",
        "writes/s",
        "of uncleaned",
        "B moved/B",
        "model",
        "moved/write",
        "ns/moved",
        "combined",
        "compacted",
        "B sent/B",
    ]);
    let mut time = Columns::new([
        "full",
        "value",
        "keys",
        "R",
        "levels",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "longest step us",
        "refused",
        "waits",
        "longest wait us",
    ]);
    for outcome in outcomes {
        let sweep::Outcome { case, counted, .. } = outcome;
        let service = &counted.service;
        let full = format!("{} %", case.utilisation);
        let value = format!("{} B", case.value_bytes);
        let or_none = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        cost.row([
            full.clone(),
            format!("{:.1} %", outcome.utilisation_of_used() * 100.0),
            value.clone(),
            case.keys.name().to_owned(),
            case.replicas.to_string(),
            levels(outcome).to_string(),
            format!("{:.0}", outcome.writes_per_second()),
            format!("{:.2}", outcome.relative()),
            format!("{:.2}", outcome.moved_per_new_byte()),
            or_none(outcome.predicted(), 2),
            format!("{:.2}", outcome.moved_per_write()),
            or_none(outcome.nanos_per_moved(), 0),
            counted.cleaning.combined_passes.to_string(),
            counted.cleaning.compactions.to_string(),
            format!("{:.2}", outcome.appended_per_new_byte()),
        ]);
        let quantile = |quantile: f64| format!("{:.1}", micros(service.nanos.value_at_quantile(quantile)));
        time.row([
            full,
            value,
            case.keys.name().to_owned(),
            case.replicas.to_string(),
            levels(outcome).to_string(),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            format!("{:.1}", micros(service.nanos.max())),
            format!("{:.1}", micros(service.longest_nanos)),
            (counted.refused + outcome.fill_refused).to_string(),
            service.waits.to_string(),
            format!("{:.1}", micros(service.wait_longest_nanos)),
        ]);
    }
    let mut text = format!("{}\n{}", cost.text(), time.text());
    for outcome in outcomes.iter().filter(|outcome| outcome.is_cut()) {
        let warm = if outcome.is_warm {
            ""
        } else {
            ", and warming up had not ended: the figures are not those of a steady state"
        };
        text.push_str(&format!(
            "at {} % with {} B and {} level(s) the time was over after {} writes{warm}\n",
            outcome.case.utilisation,
            outcome.case.value_bytes,
            levels(outcome),
            outcome.counted.writes
        ));
    }
    text
}

fn levels(outcome: &sweep::Outcome) -> u8 {
    if outcome.case.two_level { 2 } else { 1 }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}
