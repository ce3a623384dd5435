//! Fences a dead server, and reports its replicas to the coordinator.
//!
//! From the fence on, nothing is accepted from the dead server. The report waits until every append that was accepted
//! before is stored, so that it covers all that was ever acknowledged. It also waits until the openings that it
//! contains are read. Replicas of synced streams are flushed first: a recovery may show the end of their log to readers
//! at once, so a loss of power must not take it any more.
//!
//! Not here: reading the openings (openings), those that need no read (kept), the read leases in the report (grants).
//!
//! Protocol: docs/protocols/recovery.md, step 2. Catalogue: D8, D9, F2.

mod kept;
mod openings;

use crate::device::DeviceStep;
use crate::disk::Disk;
use crate::fence::openings::{Openings, wanted};
use crate::grants::Grants;
use crate::replica::{OpeningState, Replica};
use crate::replicas::Replicas;
use crate::request::{Asker, Request};
use ramhold_base::limits::FRAME_BODY_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Mark, ServerId, Status};
use ramhold_wire::recovery::{Fence, Fenced, Opening, ReplicaReport};
use ramhold_wire::{Standing, View, decode, reply_with};
use std::collections::{BTreeMap, BTreeSet};

/// The most fences that wait for their answers. The coordinator repeats those that are refused.
const FENCE_COUNT_MAX: usize = 256;

/// A fence that is in force and not answered yet.
#[derive(Clone, Copy, Debug)]
struct PendingFence {
    asker: Asker,
    crashed: ServerId,
}

/// The servers from which nothing is accepted any more, and the fences that wait for their reports.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    fenced: BTreeSet<ServerId>,
    pending: Vec<PendingFence>,
    pub openings: Openings,
}

impl Fences {
    pub fn is_fenced(&self, server: ServerId) -> bool {
        self.fenced.contains(&server)
    }

    pub fn forget_removed(&mut self, view: &View) {
        self.fenced.retain(|server| view.list.standing(*server) != Standing::Removed);
        self.openings.kept.forget(|server| view.list.standing(server) == Standing::Removed);
    }

    /// Puts a fence into force. It is answered later.
    pub fn fence(&mut self, request: &Request<'_>, view: &View, disk: &Disk) -> Result<(), Status> {
        let header = request.header;
        if !header.sender.is_none() {
            return Err(Status::NotAllowed);
        }
        if header.term < view.term {
            return Err(Status::StaleTerm);
        }
        let fence: Fence = decode(request.body)?;
        let crashed = fence.crashed;
        if crashed.is_none() {
            return Err(Status::BadRequest);
        }
        if crashed == view.me {
            return Err(Status::NotAllowed);
        }
        self.fenced.insert(crashed);
        disk.check()?;
        // A repetition over the same connection replaces the request that it repeats.
        self.pending
            .retain(|pending| (pending.asker.from, pending.asker.header.rpc) != (request.from, header.rpc));
        if self.pending.len() >= FENCE_COUNT_MAX {
            return Err(Status::TooMany);
        }
        self.pending.push(PendingFence { asker: request.asker(), crashed });
        Ok(())
    }

    pub fn fail(&mut self, effects: &mut Effects) {
        for pending in self.pending.drain(..) {
            pending.asker.answer(Status::DeviceFailed, effects);
        }
    }

    /// Answers the fences that no longer wait, and reads the openings for which others wait.
    pub fn advance(&mut self, grants: &Grants, replicas: &mut Replicas, step: &mut DeviceStep<'_>) {
        let Fences { pending, openings, .. } = self;
        let mut waiting: BTreeMap<ServerId, bool> = BTreeMap::new();
        pending.retain(|PendingFence { asker, crashed }| {
            let await_report = || await_report(*crashed, openings, replicas, step);
            let waits = *waiting.entry(*crashed).or_insert_with(await_report);
            if !waits {
                let report = report(step.now, *crashed, grants, replicas);
                step.effects.mark(Mark::BackupFenceAnswered);
                reply_with(step.effects, asker.peer(), &asker.header, Status::Ok, &report);
            }
            waits
        });
    }
}

/// Whether a report on this server must wait. Begins the reads for which it waits.
fn await_report(
    crashed: ServerId,
    openings: &mut Openings,
    replicas: &mut Replicas,
    step: &mut DeviceStep<'_>,
) -> bool {
    let is_behind = replicas.iter().any(|replica| {
        let is_late = !replica.operations.are_stored() || replica.awaits_device();
        replica.key.log.server == crashed && is_late
    });
    is_behind || !openings.read(crashed, replicas, step)
}

fn report(now: Instant, crashed: ServerId, grants: &Grants, replicas: &Replicas) -> Fenced {
    let wanted = wanted(crashed, replicas);
    let opening = |replica: &Replica| match &replica.opening {
        OpeningState::Known(opening) if wanted.contains(&replica.number) => opening.clone(),
        OpeningState::Known(_) | OpeningState::Reading | OpeningState::Unknown => None,
    };
    let reports = replicas.reportable_of(crashed).map(|replica| ReplicaReport {
        shard: replica.key.log.shard,
        stream: replica.key.stream,
        segment: replica.key.segment,
        epoch: replica.stored.epoch,
        closed: replica.stored.closed,
        certified: replica.stored.certified(),
        primary: replica.stored.primary,
        cut: replica.cut && !planted(Defect::CutNotTold),
        side: replica.opened.side,
        time: replica.stored.time(),
        opening: opening(replica),
    });
    let left = grants.left(now, crashed);
    // The time is rounded up: a lease must never seem shorter than it is.
    let lease_millis = u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    let mut fenced = Fenced { replicas: reports.collect(), lease_millis };
    bound(&mut fenced);
    fenced
}

/// Leaves out the statistics if the answer would not fit a frame: they only help recovery to divide the log.
fn bound(fenced: &mut Fenced) {
    // In CBOR a report without its opening takes less than this. A number takes at most nine bytes, and a segment's id
    // in a packed list at most eleven.
    const REPORT_BYTES_MAX: usize = 96;
    let opening_bytes = |opening: &Opening| 64 + opening.digest.len() * 11 + opening.stats.len() * 48;
    let bytes: usize = fenced
        .replicas
        .iter()
        .map(|report| REPORT_BYTES_MAX + report.opening.as_ref().map_or(0, opening_bytes))
        .sum();
    if bytes > FRAME_BODY_BYTES_MAX as usize {
        for opening in fenced.replicas.iter_mut().filter_map(|report| report.opening.as_mut()) {
            opening.stats.clear();
        }
    }
}
