//! Keeps replayed partitions: replicates their side segments, and enters them into the log.
//!
//! A partition that is entered cannot be taken back from the log. So before that it must need nothing that others may
//! lack too: its side segments are whole, R backups hold frames for the head that names them, and no earlier head waits
//! for a frame. A partition that has not come so far gives way, after a while, to others that need its frames.
//!
//! A live partition keeps the data that it has taken in. It is replicated when the coordinator says that it is its
//! turn. When frames are short it loses its turn and gives its frames back.
//!
//! Protocol: docs/protocols/recovery.md, step 6 and "When memory is short". Catalogue: F6, F7.

use super::fetching::micros;
use super::keeping::Turns;
use super::partition::{Failure, Partition, Phase};
use crate::service::Service;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, SegmentId, StreamId};
use ramhold_shard::{Shard, SideLog};
use ramhold_wire::Step;
use std::time::Duration;

/// How long a live partition waits for memory before it looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

impl Partition {
    /// Looks whether a live partition may be replicated now (its turn). If not, the partition gives back its frames.
    pub fn take_turn(&mut self, step: &mut Step<'_>, service: &mut Service) {
        self.keeping.has_turn = step.view.list.may_replicate(self.fetching.logs(), step.view.me);
        if self.keeping.has_turn || planted(Defect::LiveKeepsFrames) {
            return;
        }
        for side in &mut self.keeping.sides {
            for segment in side.begun.drain(..) {
                service.shard.replicator.put_off(segment);
                side.put_off.insert(segment);
                step.effects.mark(Mark::LiveGaveWay);
            }
        }
    }

    /// The side logs that wait for a head, with the oldest head that each of them can be entered with.
    pub fn heads_wanted(&self) -> impl Iterator<Item = (StreamId, SegmentId)> {
        let waits = match self.phase {
            Phase::Replicating { is_live } => self.keeping.has_turn || !is_live,
            Phase::Fetching
            | Phase::Finishing { .. }
            | Phase::ToldEarly(_)
            | Phase::Entered { .. }
            | Phase::Reporting(_)
            | Phase::Abandoning { .. }
            | Phase::Failed { .. }
            | Phase::Over => false,
        };
        let sides = self.keeping.sides.iter().filter(move |_| waits);
        sides.map(|side| (side.stream, side.head_from()))
    }

    /// Tells the replicator of new side segments. Those of a partition that goes live before it is replicated wait
    /// until it may be replicated: the dead log keeps it meanwhile, and the work that clients wait for comes first.
    pub fn begin_side_segments(&mut self, now: Instant, service: &mut Service, turns: &Turns) {
        if self.task.early && !self.keeping.has_turn {
            return;
        }
        let is_live = self.is_live();
        if let Some(until) = turns.yields_until.filter(|until| is_live && now < *until) {
            self.keeping.retry = Some(until);
            return;
        }
        let mut busy = self.keeping.busy(&service.shard).take(turns.slots).count();
        for side in &mut self.keeping.sides {
            busy += service.shard.begin_side_segments(side, turns.slots.saturating_sub(busy));
        }
    }

    /// Enters the partition if its side logs are whole and nothing can hinder the heads that name them.
    pub fn enter_when_whole(&mut self, step: &mut Step<'_>, service: &mut Service) {
        let is_ready = self.keeping.sides.iter().all(|side| may_enter(&service.shard, side));
        if !is_ready && !planted(Defect::RecoveredEarly) {
            return;
        }
        let (is_live, shard) = (self.is_live(), &service.shard);
        // There must be memory for a head of every stream before anything is entered.
        let opening = |side: &SideLog| shard.opening_bytes(side.stream, side.begun.len());
        let needed: u64 = self.keeping.sides.iter().map(opening).sum();
        // Cleaning passes under way give back more memory than they take, but for that they must be entered.
        let side_segments = self.keeping.sides.iter().map(|side| side.begun.len());
        if is_live && !shard.log.may_roll_all(side_segments, shard.cleaning.is_under_way()) {
            self.keeping.retry = Some(step.now + MEMORY_PAUSE);
            return;
        }
        if !is_live && shard.log.usage().free_bytes < needed + service.config.cleaning_reserve_bytes {
            return self.fail_for_room("not enough memory on the recovery master for another head");
        }
        self.raise_safe_version(service);
        let mut heads = Vec::new();
        for side in &mut self.keeping.sides {
            let shard = &mut service.shard;
            let held = shard.head_held(side).filter(|_| shard.replicator.is_head_open(side.stream));
            shard.enter_side(side);
            let entered: Vec<SegmentId> = side.begun.drain(..).collect();
            service.settling.set_entering(entered.clone());
            let rolled = match held {
                Some(held) => service.roll_held(step, side.stream, held),
                None => service.roll(step, side.stream),
            };
            // A live partition is entered even with the last memory that there is beside a cleaning pass.
            let rolled = match rolled {
                None if is_live => {
                    let (shard, owner) = service.shard_and_owner();
                    shard.roll_entering(step, side.stream, &owner)
                }
                rolled => rolled,
            };
            service.settling.set_entering(Vec::new());
            let head = match rolled {
                Some(head) => head,
                // The digest has outgrown a segment, or another head was rolled meanwhile. The next head names the side
                // segments.
                None if is_live => service.shard.log.head_segment(side.stream).unwrap_or_default().next(),
                None => {
                    // The digest has outgrown a segment. Entries that were entered stay in the log as dead entries.
                    service.forget_ranges(self.hash_ranges());
                    let reason = "no room for another head on the recovery master".into();
                    return self.failed(step.now, Failure { reason, no_room: false });
                }
            };
            heads.push((side.stream, head));
            service.settling.add(self.key, (side.stream, side.first_segment), head, entered);
        }
        self.times.replicated = micros(step.now.since(self.begun));
        step.effects.mark(Mark::RecoveryEntered);
        self.phase = Phase::Entered { heads, is_live };
    }
}

/// Whether a side log is whole, and the head that would name it is certain of its frames.
fn may_enter(shard: &Shard, side: &SideLog) -> bool {
    let has_frames = shard.has_frames_to_enter(side) || planted(Defect::EnteredUnheld);
    shard.is_side_whole(side) && has_frames
}
