//! Enters replayed partitions: when, with which head, and giving up when there is no room.
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
use super::{Failure, PartitionReplay, Phase};
use crate::Master;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, SegmentId, StreamId};
use ramhold_shard::SideLog;
use ramhold_wire::Step;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a recovery waits for room on the backups while it keeps the frames and memory that it has.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How long a live partition waits for memory before it looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

impl Master {
    /// Whether backups have had no room for a partition's segments or heads for so long that others need what it has
    /// taken.
    pub(super) fn is_starved(&self, now: Instant, replay: &PartitionReplay) -> bool {
        replay.sides.iter().any(|side| self.shard.is_side_starved(now, side, ROOM_PATIENCE))
    }

    /// Looks whether a live partition may be replicated now (its turn). If not, the partition gives back its frames.
    pub(super) fn take_turn(&mut self, step: &mut Step<'_>, replay: &mut PartitionReplay) {
        replay.has_turn = step.view.list.may_replicate(replay.fetching.logs(), step.view.me);
        if replay.has_turn || planted(Defect::LiveKeepsFrames) {
            return;
        }
        for side in &mut replay.sides {
            for segment in side.begun.drain(..) {
                self.shard.replicator.put_off(segment);
                side.put_off.insert(segment);
                step.effects.mark(Mark::LiveGaveWay);
            }
        }
    }

    /// Makes backups hold frames for the heads with which side logs are about to be entered, or dead segments to leave.
    pub(crate) fn hold_heads(&mut self) {
        let replicating = |is_live: bool| {
            let replays = self.replays.values().filter(move |replay| replay.is_live == is_live);
            let replays = replays.filter(|replay| matches!(replay.phase, Phase::Replicating));
            let replays = replays.filter(|replay| replay.has_turn || !replay.is_live);
            replays.flat_map(|replay| &replay.sides).map(|side| (side.stream, side.head_from()))
        };
        let mut sides: Vec<(StreamId, SegmentId)> =
            replicating(false).chain(self.migrating.head_wanted()).chain(self.shard.dead_wanted()).collect();
        let waited_for: BTreeSet<StreamId> = sides.iter().map(|(stream, _)| *stream).collect();
        // A live partition may take long, and a newer head serves it as well.
        sides.extend(replicating(true).filter(|(stream, _)| !waited_for.contains(stream)));
        // A held head that is older than everything that is to be entered is of no use any more.
        let is_wanted =
            |stream: StreamId, held: SegmentId| sides.iter().any(|(of, from)| *of == stream && *from <= held);
        let replicator = &mut self.shard.replicator;
        self.shard.heads_held.retain(|stream, held| {
            let stays = is_wanted(*stream, *held);
            if !stays {
                replicator.abandon(*held);
            }
            stays
        });
        for (stream, _) in sides {
            self.shard.heads_held.entry(stream).or_insert_with(|| {
                let held = self.shard.log.hold_head();
                replicator.hold_head(stream, held);
                held
            });
        }
    }

    pub(super) fn enter_when_whole(&mut self, step: &mut Step<'_>, replay: &mut PartitionReplay) {
        let is_ready = replay.sides.iter().all(|side| self.may_enter(side));
        if !is_ready && !planted(Defect::RecoveredEarly) {
            return;
        }
        // There must be memory for a head of every stream before anything is entered.
        let needed: u64 =
            replay.sides.iter().map(|side| self.shard.opening_bytes(side.stream, side.begun.len())).sum();
        // Cleaning passes under way give back more memory than they take, but for that they must be entered.
        let side_segments = replay.sides.iter().map(|side| side.begun.len());
        if replay.is_live && !self.shard.log.may_roll_all(side_segments, self.shard.cleaning.is_under_way()) {
            replay.retry = Some(step.now + MEMORY_PAUSE);
            return;
        }
        if !replay.is_live && self.shard.log.usage().free_bytes < needed + self.config.cleaning_reserve_bytes
        {
            return replay.fail_for_room("not enough memory on the recovery master for another head");
        }
        self.raise_safe_version(replay);
        let mut heads = Vec::new();
        for side in &mut replay.sides {
            let held = self.shard.head_held(side).filter(|_| self.shard.replicator.is_head_open(side.stream));
            self.shard.enter_side(side);
            let entered: Vec<SegmentId> = side.begun.drain(..).collect();
            self.set_entering(entered.clone());
            let rolled = match held {
                Some(held) => self.roll_held(step, side.stream, held),
                None => self.shard.roll(step, side.stream),
            };
            // A live partition is entered even with the last memory that there is beside a cleaning pass.
            let rolled = match rolled {
                None if replay.is_live => self.shard.roll_entering(step, side.stream),
                rolled => rolled,
            };
            self.set_entering(Vec::new());
            match rolled {
                Some(head) => {
                    heads.push((side.stream, head));
                    replay.settling.add(side.stream, side.first_segment, head, entered);
                }
                None if replay.is_live => {
                    // The digest has outgrown a segment, or another head was rolled meanwhile. The next head names the
                    // side segments.
                    let head = self.shard.log.head_segment(side.stream).unwrap_or_default().next();
                    heads.push((side.stream, head));
                    replay.settling.add(side.stream, side.first_segment, head, entered);
                }
                None => {
                    // The digest has outgrown a segment. Entries that were entered stay in the log as dead entries.
                    self.forget_ranges(&replay.mine);
                    let reason = "no room for another head on the recovery master".into();
                    let failure = Failure { reason, no_room: false };
                    replay.phase = Phase::Failed { next: step.now, asked: false, failure };
                    return;
                }
            }
        }
        replay.times.replicated = micros(step.now.since(replay.begun));
        step.effects.mark(Mark::RecoveryEntered);
        replay.phase = Phase::Entered { heads };
    }

    /// Whether a side log is whole, and the head that would name it is certain of its frames.
    fn may_enter(&self, side: &SideLog) -> bool {
        let has_frames = self.shard.has_frames_to_enter(side) || planted(Defect::EnteredUnheld);
        self.shard.is_side_whole(side) && has_frames
    }
}
