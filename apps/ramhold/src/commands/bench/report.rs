//! The figures of a benchmark, for people and for programs.

use super::load::{Dialect, Kind, Little, Load, Measured, Servers};
use super::server_cpu::{Used, micros_per};
use crate::failure::{self, Failure};
use crate::global::Global;
use crate::output::{self, Columns};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// The machine's doings during the measurement.
pub struct Machine {
    /// The processor time that the host took away.
    pub steal_percent: Option<f64>,
    /// Backups in the client's thread.
    pub folded: u8,
    /// The processor time of the servers, if it was asked for.
    pub server: Option<Used>,
}

pub fn print(
    load: &Load,
    servers: Servers<'_>,
    filled: &Measured,
    measured: &Measured,
    machine: &Machine,
    global: &Global,
) -> Result<(), Failure> {
    let little = Little::of(measured, load);
    if global.json {
        output::print_json(&json!({
            "protocol": match servers {
                Servers::Native(_) | Servers::Folded(..) => "native",
                Servers::Text { dialect: Dialect::Redis, .. } => "resp",
                Servers::Text { dialect: Dialect::Memcached, .. } => "memcached",
                Servers::Cluster { .. } => "resp cluster",
            },
            "folded_backups": machine.folded,
            "objects": load.objects,
            "key_bytes": load.key_bytes,
            "value_bytes": load.value_bytes,
            "mix_percent": by_kind(name, |kind| json!(load.mix.percent(kind))),
            "distribution": load.distribution.to_string(),
            "pipeline": load.pipeline,
            "multi": load.multi,
            "rate": load.rate,
            "seed": load.seed,
            "clients": load.clients,
            "fill": phase(filled),
            "run": phase(measured),
            "places": little.places,
            "under_way_mean": little.sent,
            "rate_times_mean_latency": little.told,
            "contradiction": little.contradiction(),
            "server_cpu": machine.server.map(|used| json!({
                "seconds": used.time.as_secs_f64(),
                "idle_seconds": used.idle.map(|idle| idle.as_secs_f64()),
                "micros_per_operation": micros_per(used.time, measured.done()),
                "work_micros_per_operation": used.work().map(|work| micros_per(work, measured.done())),
                "percent": used.percent(),
            })),
            "steal_percent": machine.steal_percent,
        }))?;
    } else {
        output::print(&text(load, filled, measured, &little, machine))?;
    }
    let errors: u64 = filled.errors.values().chain(measured.errors.values()).sum();
    match () {
        () if errors > 0 => Err(Failure::told(failure::REFUSED)),
        () if little.contradiction().is_some() => Err(Failure::told(failure::USAGE)),
        () => Ok(()),
    }
}

fn phase(measured: &Measured) -> Value {
    let times = |kind: Kind| {
        let times = measured.times(kind);
        let count = times.map_or(0, Histogram::len);
        let at = |quantile: f64| times.map_or(0, |times| times.value_at_quantile(quantile));
        json!({
            "count": count,
            "ops_per_second": measured.per_second(count),
            "mean_nanos": times.map_or(0.0, Histogram::mean),
            "p50_nanos": at(0.5),
            "p90_nanos": at(0.9),
            "p99_nanos": at(0.99),
            "p999_nanos": at(0.999),
            "max_nanos": times.map_or(0, Histogram::max),
        })
    };
    let mut phase = by_kind(name_of_several, times);
    phase.insert("seconds".to_owned(), measured.elapsed.as_secs_f64().into());
    phase.insert("ops_per_second".to_owned(), measured.per_second(measured.done()).into());
    phase.insert("errors".to_owned(), json!(measured.errors));
    Value::Object(phase)
}

/// The figures of each kind, under its name.
fn by_kind(name: impl Fn(Kind) -> &'static str, told: impl Fn(Kind) -> Value) -> Map<String, Value> {
    Kind::ALL.into_iter().map(|kind| (name(kind).to_owned(), told(kind))).collect()
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Insert => "insert",
        Kind::Modify => "modify",
        Kind::Scan => "scan",
    }
}

fn name_of_several(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "reads",
        Kind::Write => "writes",
        Kind::Insert => "inserts",
        Kind::Modify => "modifies",
        Kind::Scan => "scans",
    }
}

fn text(load: &Load, filled: &Measured, measured: &Measured, little: &Little, machine: &Machine) -> String {
    let mut columns = Columns::new([
        "phase", "count", "ops/s", "mean us", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us",
    ]);
    let mut row = |name: &str, kind: Kind, of: &Measured| {
        let Some(times) = of.times(kind) else { return };
        let micros = |nanos: f64| format!("{:.1}", nanos / 1000.0);
        let at = |quantile: f64| micros(times.value_at_quantile(quantile) as f64);
        columns.row([
            name.to_owned(),
            times.len().to_string(),
            format!("{:.0}", of.per_second(times.len())),
            micros(times.mean()),
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            micros(times.max() as f64),
        ]);
    };
    row("fill", Kind::Write, filled);
    Kind::ALL.into_iter().for_each(|kind| row(name(kind), kind, measured));
    let mut text = columns.text();
    let reached = measured.per_second(measured.done());
    text.push_str(&format!("in all {reached:.0} ops/s in {:.2} s", measured.elapsed.as_secs_f64()));
    text.push_str(&format!(", {:.2} of {} under way", little.sent, little.places));
    if let Some(steal) = machine.steal_percent {
        text.push_str(&format!(", steal {steal:.1} %"));
    }
    text.push('\n');
    if machine.folded > 0 {
        text.push_str(&format!("the client's thread was {} backups, too\n", machine.folded));
    }
    if let Some(used) = machine.server {
        let micros = |time| micros_per(time, measured.done());
        let (all, percent) = (micros(used.time), used.percent());
        text.push_str(&format!(
            "servers: {all:.2} us of processor time per operation, {percent:.0} % of one"
        ));
        if let Some(work) = used.work() {
            text.push_str(&format!(", {:.2} us without looking for work in vain", micros(work)));
        }
        text.push('\n');
    }
    if let Some(rate) = load.rate.filter(|rate| reached < *rate as f64 * 0.99) {
        text.push_str(&format!("fell short of the {rate} ops/s that were asked for\n"));
    }
    if little.is_client_bound() {
        text.push_str("less than half of the places were taken: this client was slower than the servers\n");
    }
    if let Some(contradiction) = little.contradiction() {
        text.push_str(&format!("NOT A MEASUREMENT, the figures contradict themselves: {contradiction}\n"));
    }
    for (name, phase) in [("fill", filled), ("run", measured)] {
        for (error, count) in &phase.errors {
            text.push_str(&format!("{name}: {count} times: {error}\n"));
        }
    }
    text
}
