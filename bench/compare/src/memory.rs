//! Live data divided by resident memory, under workloads that fragment.
//!
//! Every store is started afresh for every workload, and is given exactly the same steps
//! (`ramhold-workload`). Whenever the live bytes are at their target, the commands under way are finished.
//! Then the memory charged to the store's process is read (Pss, everything in it). The worst of these moments
//! and the last one are reported. Ramhold is measured by its own `bench log`, a child process that prints one
//! JSON object; see `memory/own.rs`.
//!
//! Live bytes are those of the keys and values that the store has confirmed by its answers. Refused writes
//! are not counted.

mod connection;
mod dialect;
mod measure;
mod options;
mod own;
mod report;
mod store;

use connection::Connection;
use measure::Row;
pub use options::Memory;
use options::{Bytes, Plan};
use ramhold_workload::Workload;
use report::Report;
use store::Store;

impl Memory {
    pub fn run(self) -> Result<(), String> {
        let plan = self.plan()?;
        let mut report = Report::start(&plan);
        let stores = available(&plan, &mut report);
        report.head(&plan, stores.len());
        for (workload, bytes) in &plan.workloads {
            for store in &stores {
                match measure_one(*store, *workload, *bytes, plan.seed)? {
                    Ok(row) => report.row(row),
                    Err(reason) => report.missing_row(*workload, *store, reason),
                }
            }
        }
        report.end(&plan)
    }
}

/// The stores that can be started. The report says which stores cannot, and why. Ramhold is always tried: its
/// program may know only some workloads.
fn available(plan: &Plan, report: &mut Report) -> Vec<Store> {
    let mut stores = Vec::new();
    for store in &plan.stores {
        let smallest = Workload::Fill.object_bytes_max();
        if *store == Store::Ramhold {
            stores.push(*store);
            continue;
        }
        match store.start(smallest) {
            Ok(_) => stores.push(*store),
            Err(reason) => report.missing_store(*store, reason),
        }
    }
    stores
}

/// The row, or the reason why Ramhold has none. An error means that a measurement went wrong.
fn measure_one(
    store: Store,
    workload: Workload,
    bytes: Bytes,
    seed: u64,
) -> Result<Result<Row, String>, String> {
    if store == Store::Ramhold {
        return Ok(own::measure(workload, bytes, seed));
    }
    let of = |error: String| format!("{workload}, {store}: {error}");
    let (process, dialect) = store.start(bytes.live).map_err(of)?;
    let connection = Connection::open(process.port(), dialect).map_err(of)?;
    measure::measure(&process, connection, store, workload, bytes.live, seed).map(Ok).map_err(of)
}
