//! The report: rows are printed as they come, and written to a file at the end.

use super::measure::Row;
use super::options::Plan;
use super::store::Store;
use ramhold_workload::Workload;
use serde_json::{Value, json};

pub struct Report {
    rows: Vec<Row>,
    /// The measurements that were not made, with the reason. Without a workload, none of the store's were
    /// made.
    missing: Vec<(Option<Workload>, Store, String)>,
    latest: Option<Workload>,
}

impl Report {
    pub fn start(plan: &Plan) -> Report {
        println!("keys 30 B, seed {}; servers on core 0, client on core 1", plan.seed);
        println!(
            "live: bytes of keys and values held; resident: Pss of the server's process, all in, at the"
        );
        println!(
            "worst of the moments with live bytes at their target; beyond: resident less live, per object"
        );
        Report { rows: Vec::new(), missing: Vec::new(), latest: None }
    }

    pub fn missing_store(&mut self, store: Store, reason: String) {
        println!("{store}: not available: {reason}");
        self.missing.push((None, store, reason));
    }

    /// Prints the estimated duration with the stores that are there, and the head of the table.
    pub fn head(&self, plan: &Plan, store_count: usize) {
        println!("{}\n", plan.cost(store_count as u64));
        println!(
            "{:<8} {:<13} {:>10} {:>13} {:>8} {:>8} {:>9} {:>11} {:>9} {:>6}",
            "workload",
            "store",
            "live MiB",
            "resident MiB",
            "worst",
            "end",
            "beyond B",
            "writes",
            "refused",
            "s"
        );
    }

    fn separate(&mut self, workload: Workload) {
        if self.latest.is_some_and(|latest| latest != workload) {
            println!();
        }
        self.latest = Some(workload);
    }

    pub fn row(&mut self, row: Row) {
        self.separate(row.workload);
        println!("{}", line(&row));
        self.rows.push(row);
    }

    pub fn missing_row(&mut self, workload: Workload, store: Store, reason: String) {
        self.separate(workload);
        println!("{workload:<8} {store}: not available: {reason}");
        self.missing.push((Some(workload), store, reason));
    }

    /// Writes the file, if one is asked for.
    pub fn end(self, plan: &Plan) -> Result<(), String> {
        let Some(path) = &plan.json else { return Ok(()) };
        let missing = self.missing.iter().map(|(workload, store, reason)| {
            json!({"workload": workload.map(Workload::name), "store": store.name(), "reason": reason})
        });
        let all = json!({
            "seed": plan.seed,
            "rows": self.rows.iter().map(value).collect::<Vec<Value>>(),
            "not_available": missing.collect::<Vec<Value>>(),
        });
        std::fs::write(path, format!("{all:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Resident bytes less live bytes, per object. Given only where all objects are there at the end and none was
/// replaced.
fn beyond(row: &Row) -> Option<f64> {
    let count = row.live_count.filter(|count| row.workload == Workload::Fill && *count > 0)?;
    Some((row.worst.resident_bytes as f64 - row.worst.live_bytes as f64) / count as f64)
}

fn line(row: &Row) -> String {
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    format!(
        "{:<8} {:<13} {:>10} {:>13} {:>8.3} {:>8.3} {:>9} {:>11} {:>9} {:>6.1}",
        row.workload,
        row.store,
        mebibytes(row.worst.live_bytes),
        mebibytes(row.worst.resident_bytes),
        row.worst.live_over_resident(),
        row.live_over_resident_end,
        beyond(row).map_or("-".into(), |bytes| format!("{bytes:.1}")),
        row.writes,
        row.refused,
        row.seconds
    )
}

/// The row as JSON, with the names that `ramhold bench log` uses.
fn value(row: &Row) -> Value {
    json!({
        "workload": row.workload.name(),
        "store": row.store,
        "live_bytes": row.worst.live_bytes,
        "resident_bytes_worst": row.worst.resident_bytes,
        "live_over_resident_worst": row.worst.live_over_resident(),
        "live_over_resident_end": row.live_over_resident_end,
        "bytes_beyond_per_object": beyond(row),
        "writes": row.writes,
        "refused": row.refused,
        "seconds": row.seconds,
        "log_bytes": row.log_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::measure::Reading;

    #[test]
    fn bytes_beyond_key_and_value_are_those_of_the_plain_fill() {
        let mut row = Row {
            workload: Workload::Fill,
            store: "redis",
            worst: Reading { live_bytes: 1300, resident_bytes: 2150 },
            live_over_resident_end: 0.6,
            live_count: Some(10),
            writes: 10,
            refused: 0,
            seconds: 1.0,
            log_bytes: None,
        };
        assert_eq!(beyond(&row), Some(85.0));
        assert!(line(&row).contains(" 85.0 "));
        row.workload = Workload::W1;
        assert_eq!(beyond(&row), None);
    }
}
