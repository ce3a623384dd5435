//! Ramhold's own rows: a child process `ramhold bench log` that prints one JSON object.
//!
//! The call is `ramhold --json bench log --workload W2 --log BYTES --live BYTES --seed N`. The child runs the
//! same steps on a log of `--log` bytes and prints this object, whose fields mean the same as those of `Row`:
//!
//! ```json
//! {"workload":"W2","live_bytes":1,"resident_bytes_worst":1,"live_over_resident_worst":0.9,
//!  "live_over_resident_end":0.9,"writes":1,"refused":0,"seconds":1.0,"log_bytes":1}
//! ```
//!
//! `live_bytes` and `resident_bytes_worst` are those of the worst moment. Other fields may stand beside them.

use super::measure::{Reading, Row};
use super::options::Bytes;
use crate::process::{pinned, ramhold};
use ramhold_workload::Workload;
use serde_json::Value;

/// The row, or the reason why there is none.
pub fn measure(workload: Workload, bytes: Bytes, seed: u64) -> Result<Row, String> {
    let program = ramhold();
    let output = pinned(0, &program)
        .args(["--json", "bench", "log", "--workload", workload.name()])
        .args(["--log", &bytes.log.to_string(), "--live", &bytes.live.to_string()])
        .args(["--seed", &seed.to_string()])
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(failure_of(&String::from_utf8_lossy(&output.stderr), output.status.code()));
    }
    let value: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("bench log printed no JSON: {e}"))?;
    row(workload, &value)
}

fn failure_of(errors: &str, code: Option<i32>) -> String {
    let line = errors.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    match code {
        Some(code) => format!("{line} (exit code {code})"),
        None => format!("{line} (killed)"),
    }
}

fn row(workload: Workload, value: &Value) -> Result<Row, String> {
    let missing = |name: &str| format!("bench log told no {name}");
    let count = |name: &str| value[name].as_u64().ok_or_else(|| missing(name));
    let number = |name: &str| value[name].as_f64().ok_or_else(|| missing(name));
    if value["workload"].as_str() != Some(workload.name()) {
        return Err(format!("bench log ran {}, not {workload}", value["workload"]));
    }
    let worst = Reading { live_bytes: count("live_bytes")?, resident_bytes: count("resident_bytes_worst")? };
    let told = number("live_over_resident_worst")?;
    if (worst.live_over_resident() - told).abs() > 0.01 {
        return Err(format!("bench log told a worst of {told}, which is not live by resident bytes"));
    }
    let fill_object_bytes = Workload::Fill.object_bytes_max();
    Ok(Row {
        workload,
        store: "ramhold",
        worst,
        live_over_resident_end: number("live_over_resident_end")?,
        live_count: (workload == Workload::Fill).then_some(worst.live_bytes / fill_object_bytes),
        writes: count("writes")?,
        refused: count("refused")?,
        seconds: number("seconds")?,
        log_bytes: Some(count("log_bytes")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told() -> Value {
        json!({"workload": "W2", "live_bytes": 900, "resident_bytes_worst": 1000,
               "live_over_resident_worst": 0.9, "live_over_resident_end": 0.95, "writes": 7, "refused": 1,
               "seconds": 1.5, "log_bytes": 990, "seed": 1})
    }

    #[test]
    fn a_row_is_read_from_what_bench_log_prints() {
        let row = row(Workload::W2, &told()).unwrap();
        assert_eq!(row.worst, Reading { live_bytes: 900, resident_bytes: 1000 });
        assert_eq!((row.writes, row.refused, row.log_bytes), (7, 1, Some(990)));
    }

    #[test]
    fn what_is_missing_or_does_not_fit_is_said() {
        let mut without = told();
        without["refused"] = Value::Null;
        assert!(row(Workload::W2, &without).unwrap_err().contains("refused"));
        assert!(row(Workload::W3, &told()).unwrap_err().contains("W3"));
        let mut wrong = told();
        wrong["live_over_resident_worst"] = json!(0.5);
        assert!(row(Workload::W2, &wrong).is_err());
    }

    #[test]
    fn a_failure_is_told_in_its_first_line() {
        assert_eq!(failure_of("\nerror: no\nusage: x\n", Some(2)), "error: no (exit code 2)");
        assert_eq!(failure_of("", None), "it said nothing (killed)");
    }
}
