//! When a recovery reached each of its steps, for those who watch it (F11).
//!
//! The times are kept in the recovery's record, so that they are there afterwards and under the next coordinator.
//! Nothing is stored for their sake alone, so times that came between two commits may be missing after a restart.

use crate::desk::Desk;
use ramhold_base::{Instant, RecoveryId, ServerId};
use ramhold_wire::recovery::ReplayTimes;
use ramhold_wire::status::{PartReport, RecoverySteps};

/// The most turns of partitions that a record holds.
const PART_COUNT_MAX: usize = 4096;

/// Milliseconds since the verdict.
pub(crate) fn since_verdict(now: Instant, desk: &mut Desk, id: RecoveryId) -> u64 {
    let detected = desk.state.recoveries.get(&id).map_or(0, |record| record.detected.0);
    desk.time(now).0.saturating_sub(detected)
}

/// Notes that a step was reached; only the first time counts.
pub(crate) fn note_step(
    now: Instant,
    desk: &mut Desk,
    id: RecoveryId,
    step: impl FnOnce(&mut RecoverySteps) -> &mut Option<u64>,
) {
    let since = since_verdict(now, desk, id);
    if let Some(record) = desk.state.recoveries.get_mut(&id) {
        step(&mut record.steps).get_or_insert(since);
    }
}

pub(crate) fn note_assigned(
    now: Instant,
    desk: &mut Desk,
    id: RecoveryId,
    (plan, partition, attempt): (RecoveryId, u32, u32),
    server: ServerId,
) {
    let assigned = since_verdict(now, desk, id);
    let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
    if record.parts.len() < PART_COUNT_MAX {
        record.parts.push(PartReport {
            plan,
            partition,
            attempt,
            server,
            assigned,
            accepted: None,
            reported: None,
            live: None,
            failed: None,
            bytes: 0,
            records: 0,
            times: ReplayTimes::default(),
        });
    }
}

/// Lets `note` change the present turn of a partition; `note` is given the time since the verdict.
pub(crate) fn note_part(
    now: Instant,
    desk: &mut Desk,
    id: RecoveryId,
    (plan, partition): (RecoveryId, u32),
    note: impl FnOnce(&mut PartReport, u64),
) {
    let since = since_verdict(now, desk, id);
    let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
    let mut parts = record.parts.iter_mut().rev();
    if let Some(part) = parts.find(|part| (part.plan, part.partition) == (plan, partition)) {
        note(part, since);
    }
}
