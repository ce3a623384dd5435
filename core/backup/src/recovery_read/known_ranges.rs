//! The ranges by which logs are divided, as recovery masters have told them.
//!
//! The ranges by which a log is divided are told once, by the first master that is refused for want of them. A question
//! names them by number and digest.
//!
//! Invariant: for each log, and each server that is recovered from it, only the newest division is known.

use crate::content::are_sound;
use crate::keys::{DivisionKey, ReplicaNumber};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{RecoveryId, ServerId, Status};
use ramhold_wire::recovery::{PartitionRange, RecoveryRead, ranges_digest};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most divisions that are remembered, and the most ranges that they have together. The newest is remembered with
/// any number of ranges. The ranges of a forgotten division are told again when they are needed.
const KNOWN_COUNT_MAX: usize = 64;
const KNOWN_RANGES_MAX: usize = 64 * 1024;

/// The ranges by which a log is divided, and its segments that are to be read ahead, the next one last.
#[derive(Debug)]
struct Known {
    dead: ServerId,
    /// The server that is recovered: the log's own server, or one that had recovered from the log.
    crashed: ServerId,
    digest: u64,
    ranges: Arc<[PartitionRange]>,
    ahead: Vec<ReplicaNumber>,
}

/// The ranges that a question means.
#[derive(Debug)]
pub(crate) enum Meant {
    Known(Arc<[PartitionRange]>),
    /// The question brings ranges that are not known here.
    Told,
}

#[derive(Debug, Default)]
pub(crate) struct KnownRanges {
    by_recovery: BTreeMap<RecoveryId, Known>,
}

fn crashed_of(question: &RecoveryRead) -> ServerId {
    if question.crashed.is_none() { question.log.server } else { question.crashed }
}

impl KnownRanges {
    /// The ranges that a question means, if the question brings them or an earlier one did.
    pub fn meant(&self, question: &RecoveryRead) -> Result<Meant, Status> {
        let RecoveryRead { recovery, digest, .. } = *question;
        let (dead, crashed) = (question.log.server, crashed_of(question));
        // Numbers rise from one division of a log to the next.
        let is_old = |(number, known): (&RecoveryId, &Known)| {
            (known.dead, known.crashed) == (dead, crashed) && *number > recovery
        };
        if self.by_recovery.iter().any(is_old) && !planted(Defect::OldRangesMeant) {
            return Err(Status::NotAllowed);
        }
        let is_meant = |known: &&Known| (known.dead, known.digest) == (dead, digest);
        if let Some(known) = self.by_recovery.get(&recovery).filter(is_meant) {
            return Ok(Meant::Known(Arc::clone(&known.ranges)));
        }
        if question.ranges.is_empty() {
            let of_log = |known: &&Known| known.dead == dead && planted(Defect::OldRangesMeant);
            let known = self.by_recovery.values().find(of_log).ok_or(Status::UnknownRanges)?;
            return Ok(Meant::Known(Arc::clone(&known.ranges)));
        }
        if ranges_digest(&question.ranges) != digest || !are_sound(&question.ranges) {
            return Err(Status::BadRequest);
        }
        Ok(Meant::Told)
    }

    /// The divisions that are over when the ranges of this question are known.
    pub fn replaced_by(&self, question: &RecoveryRead) -> Vec<RecoveryId> {
        let (dead, crashed) = (question.log.server, crashed_of(question));
        let is_same = |known: &Known| (known.dead, known.crashed) == (dead, crashed);
        let before =
            self.by_recovery.iter().filter(|(id, known)| is_same(known) || **id == question.recovery);
        before.map(|(id, _)| *id).collect()
    }

    /// Takes up the ranges of a question. `ahead` are the segments to be read ahead, the next one last.
    pub fn insert(&mut self, question: &RecoveryRead, ahead: Vec<ReplicaNumber>) -> Arc<[PartitionRange]> {
        let ranges: Arc<[PartitionRange]> = question.ranges.as_slice().into();
        let known = Known {
            dead: question.log.server,
            crashed: crashed_of(question),
            digest: question.digest,
            ranges: Arc::clone(&ranges),
            ahead,
        };
        self.by_recovery.insert(question.recovery, known);
        ranges
    }

    /// The oldest division, if there are more than are remembered.
    pub fn surplus(&self) -> Option<RecoveryId> {
        let known = &self.by_recovery;
        let ranges: usize = known.values().map(|known| known.ranges.len()).sum();
        let is_much = known.len() > KNOWN_COUNT_MAX || (known.len() > 1 && ranges > KNOWN_RANGES_MAX);
        known.keys().next().copied().filter(|_| is_much)
    }

    pub fn forget(&mut self, recovery: RecoveryId) {
        self.by_recovery.remove(&recovery);
    }

    pub fn clear(&mut self) {
        self.by_recovery.clear();
    }

    pub fn contains(&self, key: &DivisionKey) -> bool {
        self.by_recovery.get(&key.recovery).is_some_and(|known| known.digest == key.digest)
    }

    /// The next segment to read ahead.
    pub fn next_ahead(&self) -> Option<DivisionKey> {
        self.by_recovery.iter().find_map(|(recovery, known)| {
            let replica = *known.ahead.last()?;
            Some(DivisionKey { recovery: *recovery, digest: known.digest, replica, end: u32::MAX })
        })
    }

    /// The segment is not to be read ahead any more. Returns the ranges by which it is divided.
    pub fn take_ahead(&mut self, key: &DivisionKey) -> Option<Arc<[PartitionRange]>> {
        let known = self.by_recovery.get_mut(&key.recovery)?;
        known.ahead.retain(|number| *number != key.replica);
        Some(Arc::clone(&known.ranges))
    }
}
