//! Probability of data loss in a year (Fig. 12), computed by `ramhold plan` for its clusters and recovery
//! times.

use crate::table::{Cell, Table};
use serde_json::Value;
use std::process::Command;

const SERVERS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
const SECONDS: [f64; 4] = [1.0, 10.0, 100.0, 1_000.0];

fn year(program: &str, servers: u64, seconds: f64, concentrated: bool) -> Result<f64, String> {
    // The recovery itself is taken to be instant: all of the given time is detection.
    let mut command = Command::new(program);
    command.args(["plan", "--json", "--replicas", "2", "--crashes-per-year", "2", "--memory", "64GiB"]);
    command.args(["--servers", &servers.to_string(), "--detection", &format!("{seconds}s")]);
    command.args([
        "--network",
        "10000GB",
        "--disk-read",
        "10000GB",
        "--disk-write",
        "10000GB",
        "--replay",
        "10000GB",
    ]);
    command.args(["--replay-records", "10000000M"]);
    if concentrated {
        command.args(["--placement", "copyset:1"]);
    }
    let output = command.output().map_err(|error| format!("{program} plan: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} plan: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let told: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    told["data_loss"]["in_a_year"].as_f64().ok_or_else(|| "plan does not tell of a year".into())
}

/// Fig. 12, by `ramhold plan`, which is the program at `program`.
pub fn loss(program: &str) -> Result<Table, String> {
    let mut rows = Vec::new();
    for (spread, concentrated) in [("scattered", false), ("copysets", true)] {
        for seconds in SECONDS {
            for servers in SERVERS {
                let probability = year(program, servers, seconds, concentrated)?;
                let said = match (concentrated, seconds as u64, servers) {
                    (false, 1, 100_000) => Some(1e-5),
                    _ => None,
                };
                rows.push(vec![
                    Cell::Text(format!("{spread}, {seconds:.0} s")),
                    Cell::Number(servers as f64, 0),
                    Cell::Number(probability, 6),
                    crate::table::paper(said, 6),
                ]);
            }
        }
    }
    Ok(Table {
        name: "fig12",
        title: "SOSP11 Fig. 12: probability of data loss in a year".into(),
        notes: vec![
            "formulas, not a simulation: ramhold plan, 64 GiB per server, two replicas on disks, two crashes per server and year"
                .into(),
            "copysets of one ring stand for the paper's concentrated placement: each server shares segments with two others"
                .into(),
        ],
        columns: vec!["placement and recovery", "servers", "probability", "paper"],
        rows,
        x: 1,
        y: vec![2],
        series: Some(0),
        is_log: true,
    })
}
