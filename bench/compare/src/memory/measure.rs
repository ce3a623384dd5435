//! One workload on one store: all steps, and the memory at the moments that count.

use super::connection::{Account, Connection};
use super::options::ENTRY_OVERHEAD_BYTES;
use super::store::Store;
use crate::process::Process;
use ramhold_workload::{Phase, Step, Steps, Workload};
use std::time::{Duration, Instant};

/// Memory is read this many times while the live bytes are written once.
const READINGS_PER_LIVE: u64 = 32;
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The bytes that the store held at one moment, and the memory that it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub live_bytes: u64,
    pub resident_bytes: u64,
}

impl Reading {
    pub fn live_over_resident(self) -> f64 {
        self.live_bytes as f64 / self.resident_bytes.max(1) as f64
    }
}

/// One workload on one store.
#[derive(Clone, Debug)]
pub struct Row {
    pub workload: Workload,
    pub store: &'static str,
    /// The moment with the least live data per resident byte, among all moments with live bytes at the
    /// target.
    pub worst: Reading,
    pub live_over_resident_end: f64,
    /// At the end.
    pub live_count: Option<u64>,
    pub writes: u64,
    pub refused: u64,
    pub seconds: f64,
    /// Ramhold's log; none for the others.
    pub log_bytes: Option<u64>,
}

pub fn measure(
    process: &Process,
    mut connection: Connection,
    store: Store,
    workload: Workload,
    live_bytes: u64,
    seed: u64,
) -> Result<Row, String> {
    let mut steps = Steps::new(workload, live_bytes, ENTRY_OVERHEAD_BYTES, seed);
    let mut worst: Option<Reading> = None;
    let started = Instant::now();
    let mut progress_at = started + PROGRESS_EVERY;
    let mut written_since = 0;
    loop {
        let (phase, at_target) = (steps.phase(), steps.is_at_target());
        let step = steps.next();
        let phase_is_over = steps.phase() != phase;
        let due = phase == Phase::Replacing && written_since >= live_bytes / READINGS_PER_LIVE;
        if at_target && (due || phase_is_over) {
            connection.finish()?;
            worst = Some(worse(worst, read(process, connection.account())?));
            written_since = 0;
        }
        let Some(step) = step else { break };
        connection.ask(step)?;
        if let Step::Insert { value_bytes, .. } = step {
            written_since += u64::from(value_bytes);
        }
        if step_is_hundredth(&steps) && Instant::now() >= progress_at {
            eprintln!("  {workload} {store}: {} %", steps.percent_done());
            progress_at = Instant::now() + PROGRESS_EVERY;
        }
    }
    connection.finish()?;
    let account = connection.account();
    let end = read(process, account)?;
    Ok(Row {
        workload,
        store: store.name(),
        worst: worse(worst, end),
        live_over_resident_end: end.live_over_resident(),
        live_count: Some(account.held_count),
        writes: account.writes,
        refused: account.refused,
        seconds: started.elapsed().as_secs_f64(),
        log_bytes: None,
    })
}

/// Whether to look at the clock: not for every step.
fn step_is_hundredth(steps: &Steps) -> bool {
    steps.insert_count().is_multiple_of(100)
}

fn read(process: &Process, account: Account) -> Result<Reading, String> {
    Ok(Reading { live_bytes: account.held_bytes, resident_bytes: process.resident_bytes()? })
}

fn worse(worst: Option<Reading>, reading: Reading) -> Reading {
    match worst {
        Some(worst) if worst.live_over_resident() <= reading.live_over_resident() => worst,
        _ => reading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_moment_is_the_one_with_the_least_live_data_per_resident_byte() {
        let reading = |live_bytes, resident_bytes| Reading { live_bytes, resident_bytes };
        let readings = [reading(100, 150), reading(90, 300), reading(100, 320), reading(100, 140)];
        let worst = readings.into_iter().fold(None, |worst, r| Some(worse(worst, r)));
        assert_eq!(worst, Some(reading(90, 300)));
    }
}
