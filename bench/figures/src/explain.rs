//! Where the time of one recovery goes: when each step was reached, and how processors and ports spent the
//! time.

use crate::charge::Tally;
use crate::stage::{Measured, Plan};
use ramhold_base::ServerId;
use std::collections::BTreeMap;
use std::fmt::Write;

/// In milliseconds of processor time, summed over one role: kinds of work below this are not shown.
const WORK_MIN: f64 = 0.05;

/// Some lines, each indented.
pub fn text(plan: &Plan, measured: &Measured) -> String {
    let mut out = String::new();
    let step = |time: Option<u64>| time.map_or("-".into(), |millis| millis.to_string());
    let _ = writeln!(
        out,
        "  ms after the verdict ({:.0} after the kill, {} after the first suspicion): asked {}, fenced {}, lease over {}, last live {}",
        measured.detection * 1e3,
        step(measured.timeline.suspected_before),
        step(measured.timeline.asked),
        step(measured.timeline.fenced),
        step(measured.timeline.lease_over),
        step(measured.timeline.last_live)
    );
    let parts = &measured.parts;
    let mut line = |what: &str, values: Vec<f64>| {
        let _ = writeln!(out, "  {what:>40}: {}", spread(values));
    };
    let megabytes = |bytes: u64| bytes as f64 * plan.scale.bytes() / 1e6;
    line("MB of log in a partition", parts.iter().map(|part| megabytes(part.bytes)).collect());
    let mut of_masters: BTreeMap<ServerId, u64> = BTreeMap::new();
    for part in parts {
        *of_masters.entry(part.server).or_default() += part.bytes;
    }
    line("MB of log for a recovery master", of_masters.values().map(|bytes| megabytes(*bytes)).collect());
    let at =
        |value: fn(&ramhold_wire::status::PartReport) -> u64| parts.iter().map(value).map(|ms| ms as f64);
    line("assigned, ms after the verdict", at(|part| part.assigned).collect());
    line("accepted", at(|part| part.accepted.unwrap_or(0)).collect());
    line("reported", at(|part| part.reported.unwrap_or(0)).collect());
    line("live", at(|part| part.live.unwrap_or(0)).collect());
    let at = |value: fn(&ramhold_wire::recovery::ReplayTimes) -> u64| {
        parts.iter().map(|part| &part.times).map(value).map(|micros| micros as f64 / 1e3).collect()
    };
    line("first records, ms after accepting", at(|times| times.first));
    line("last records", at(|times| times.fetched));
    line("replayed", at(|times| times.replayed));
    line("replicated", at(|times| times.replicated));
    line("durable", at(|times| times.durable));
    line("ms from a request to its answer", at(|times| times.fetching / times.fetches.max(1)));
    line("of it at the backup", at(|times| times.waiting / times.fetches.max(1)));
    let servers = plan.masters.max(plan.backups) as f64;
    for (is_coordinator, role, count) in [(true, "coordinator", 1.0), (false, "each server", servers)] {
        let mut works: Vec<_> = measured
            .busy
            .work
            .iter()
            .filter(|((coordinator, _), _)| *coordinator == is_coordinator)
            .collect();
        works.sort_by(|(_, one), (_, other)| total(other).total_cmp(&total(one)));
        for ((_, work), tally) in works.into_iter().filter(|(_, tally)| total(tally) / count > WORK_MIN * 1e6)
        {
            let _ = writeln!(
                out,
                "  {role}: {:.1} ms of processor, {:.1} sending and {:.1} receiving: {work}, {:.0} of {:.0} bytes sent",
                total(tally) / count / 1e6,
                tally.sending / count / 1e6,
                tally.receiving / count / 1e6,
                tally.count / count,
                tally.bytes / tally.count.max(1.0)
            );
        }
    }
    out
}

fn total(tally: &Tally) -> f64 {
    tally.sending + tally.receiving
}

/// Least, median and most.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => "-".into(),
        [first, .., last] => format!("{first:.1} to {last:.1}, median {:.1}", values[values.len() / 2]),
        [only] => format!("{only:.1}"),
    }
}
