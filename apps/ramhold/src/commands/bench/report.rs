//! The figures of a benchmark, for people and for programs.

use super::load::{Load, Measured};
use crate::failure::{self, Failure};
use crate::global::Global;
use crate::output::{self, Columns};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

pub fn print(
    load: &Load,
    clients: u16,
    filled: &Measured,
    measured: &Measured,
    steal: Option<f64>,
    global: &Global,
) -> Result<(), Failure> {
    if global.json {
        output::print_json(&json!({
            "objects": load.objects,
            "key_bytes": load.key_bytes,
            "value_bytes": load.value_bytes,
            "read_percent": load.read_percent,
            "pipeline": load.pipeline,
            "multi": load.multi,
            "rate": load.rate,
            "seed": load.seed,
            "clients": clients,
            "fill": phase(filled),
            "run": phase(measured),
            "steal_percent": steal,
        }))?;
    } else {
        output::print(&text(filled, measured, steal))?;
    }
    let errors: u64 = filled.errors.values().chain(measured.errors.values()).sum();
    if errors > 0 { Err(Failure::told(failure::REFUSED)) } else { Ok(()) }
}

fn rate(count: u64, measured: &Measured) -> f64 {
    count as f64 / measured.elapsed.as_secs_f64().max(1e-9)
}

fn phase(measured: &Measured) -> Value {
    let times = |histogram: &Histogram<u64>| {
        json!({
            "count": histogram.len(),
            "ops_per_second": rate(histogram.len(), measured),
            "p50_nanos": histogram.value_at_quantile(0.5),
            "p99_nanos": histogram.value_at_quantile(0.99),
            "p999_nanos": histogram.value_at_quantile(0.999),
            "max_nanos": histogram.max(),
        })
    };
    json!({
        "seconds": measured.elapsed.as_secs_f64(),
        "ops_per_second": rate(measured.done(), measured),
        "reads": times(&measured.reads),
        "writes": times(&measured.writes),
        "errors": measured.errors,
    })
}

fn text(filled: &Measured, measured: &Measured, steal: Option<f64>) -> String {
    let mut columns =
        Columns::new(["phase", "operations", "seconds", "ops/s", "p50 us", "p99 us", "p99.9 us", "max us"]);
    let mut row = |name: &str, histogram: &Histogram<u64>, of: &Measured| {
        if histogram.is_empty() {
            return;
        }
        let micros = |nanos: u64| format!("{:.1}", nanos as f64 / 1000.0);
        columns.row([
            name.to_owned(),
            histogram.len().to_string(),
            format!("{:.2}", of.elapsed.as_secs_f64()),
            format!("{:.0}", rate(histogram.len(), of)),
            micros(histogram.value_at_quantile(0.5)),
            micros(histogram.value_at_quantile(0.99)),
            micros(histogram.value_at_quantile(0.999)),
            micros(histogram.max()),
        ]);
    };
    row("fill", &filled.writes, filled);
    row("read", &measured.reads, measured);
    row("write", &measured.writes, measured);
    let mut text = columns.text();
    text.push_str(&format!("in all {:.0} ops/s", rate(measured.done(), measured)));
    if let Some(steal) = steal {
        text.push_str(&format!(", steal {steal:.1} %"));
    }
    text.push('\n');
    for (name, phase) in [("fill", filled), ("run", measured)] {
        for (error, count) in &phase.errors {
            text.push_str(&format!("{name}: {count} times: {error}\n"));
        }
    }
    text
}
