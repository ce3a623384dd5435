//! Entering what was replayed: when, with which head, and giving up when there is no room for it.
//!
//! What is entered cannot be taken back from the log, so by then it must want nothing that others may lack too: its side
//! segments are whole, R backups hold frames for the head that names them, and no earlier head waits for one. All else
//! gives way after a while to others that need its frames. A live partition keeps what it has taken in, and is replicated
//! when the coordinator says that it is its turn; when frames are short it loses its turn, and gives its frames back.
//!
//! Protocol: docs/protocols/recovery.md, step 6 and "When memory is short". Catalogue: F6, F7.

use super::fetching::micros;
use super::{Failure, PartitionReplay, Phase, Side};
use crate::Master;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, SegmentId, StreamId};
use ramhold_wire::Step;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a recovery waits for room on the backups while it holds what it has.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How long what is live waits for memory before it looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);
/// An opening's header, safe version and list heads, with some room.
const OPENING_FIXED_BYTES: u64 = 256;

impl Master {
    /// Whether backups have had no room for what a partition is waiting for, for so long that others need what it has
    /// taken.
    pub(super) fn is_starved(&self, now: Instant, replay: &PartitionReplay) -> bool {
        if !self.replicator.has_refusals() {
            return false;
        }
        let begun = replay.sides.iter().flat_map(|side| &side.begun);
        let held = replay.sides.iter().filter_map(|side| self.heads_held.get(&side.stream));
        let refused = begun.chain(held).filter_map(|segment| self.replicator.refused_since(*segment));
        let heads = replay.sides.iter().filter_map(|side| self.replicator.head_refused_since(side.stream));
        refused.chain(heads).any(|since| now.since(since) >= ROOM_PATIENCE)
    }

    /// Looks whether it is a live partition's turn to be replicated. If it is not, it gives back what it has of frames.
    pub(super) fn take_turn(&mut self, step: &mut Step<'_>, replay: &mut PartitionReplay) {
        replay.has_turn = step.view.list.may_replicate(replay.fetching.logs(), step.view.me);
        if replay.has_turn || planted(Defect::LiveKeepsFrames) {
            return;
        }
        for side in &mut replay.sides {
            for segment in side.begun.drain(..) {
                self.replicator.put_off(segment);
                side.put_off.insert(segment);
                step.effects.report(Level::Debug, "mark:live_gave_way");
            }
        }
    }

    /// Has frames held for the heads that partitions are about to be entered with.
    pub(crate) fn hold_heads(&mut self) {
        let replicating = |is_live: bool| {
            let replays = self.replays.values().filter(move |replay| replay.is_live == is_live);
            let replays = replays.filter(|replay| matches!(replay.phase, Phase::Replicating));
            let replays = replays.filter(|replay| replay.has_turn || !replay.is_live);
            replays.flat_map(|replay| &replay.sides).map(|side| (side.stream, side.head_from()))
        };
        let mut sides: Vec<(StreamId, SegmentId)> =
            replicating(false).chain(self.migrating.head_wanted()).chain(self.dead_wanted()).collect();
        let waited_for: BTreeSet<StreamId> = sides.iter().map(|(stream, _)| *stream).collect();
        // What is live may take long, and a newer head serves it as well.
        sides.extend(replicating(true).filter(|(stream, _)| !waited_for.contains(stream)));
        // One that is older than everything that is to be entered is of no use any more.
        let is_wanted =
            |stream: StreamId, held: SegmentId| sides.iter().any(|(of, from)| *of == stream && *from <= held);
        let replicator = &mut self.replicator;
        self.heads_held.retain(|stream, held| {
            let stays = is_wanted(*stream, *held);
            if !stays {
                replicator.abandon(*held);
            }
            stays
        });
        for (stream, _) in sides {
            self.heads_held.entry(stream).or_insert_with(|| {
                let held = self.log.hold_head();
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
        // A head for every stream must be possible before anything is entered.
        let needed: u64 =
            replay.sides.iter().map(|side| self.opening_bytes(side.stream, side.begun.len())).sum();
        // Passes under way give back more than they take, but for that they must be entered.
        let side_segments = replay.sides.iter().map(|side| side.begun.len());
        if replay.is_live && !self.log.may_roll_all(side_segments, self.cleaning.is_under_way()) {
            replay.retry = Some(step.now + MEMORY_PAUSE);
            return;
        }
        if !replay.is_live && self.log.usage().free_bytes < needed + self.config.cleaning_reserve_bytes {
            return replay.fail_for_room("not enough memory on the recovery master for another head");
        }
        self.raise_safe_version(replay);
        let mut heads = Vec::new();
        for side in &mut replay.sides {
            let held = self.head_held(side).filter(|_| self.replicator.is_head_open(side.stream));
            self.log.enter_side(side.side);
            let entered: Vec<SegmentId> = side.begun.drain(..).collect();
            entered.iter().for_each(|segment| self.replicator.settled(*segment));
            self.set_entering(entered.clone());
            let rolled = match held {
                Some(held) => self.roll_held(step, side.stream, held),
                None => self.roll(step, side.stream),
            };
            // A live partition is entered with the last memory that there is beside a cleaning pass.
            let rolled = match rolled {
                None if replay.is_live => self.roll_entering(step, side.stream),
                rolled => rolled,
            };
            self.set_entering(Vec::new());
            match rolled {
                Some(head) => {
                    heads.push((side.stream, head));
                    replay.settling.add(side.stream, side.first_segment, head, entered);
                }
                None if replay.is_live => {
                    // Its digest has outgrown a segment, or another head was rolled meanwhile. The next one names them.
                    let head = self.log.head_segment(side.stream).unwrap_or_default().next();
                    heads.push((side.stream, head));
                    replay.settling.add(side.stream, side.first_segment, head, entered);
                }
                None => {
                    // Its digest has outgrown a segment. What was entered stays in the log as dead entries.
                    self.forget_ranges(&replay.mine);
                    let reason = "no room for another head on the recovery master".into();
                    let failure = Failure { reason, no_room: false };
                    replay.phase = Phase::Failed { next: step.now, asked: false, failure };
                    return;
                }
            }
        }
        replay.times.replicated = micros(step.now.since(replay.begun));
        step.effects.report(Level::Debug, "mark:recovery_entered");
        replay.phase = Phase::Entered { heads };
    }

    /// Whether a side log is whole, and the head that would name it finds its frames, whatever comes.
    fn may_enter(&self, side: &Side) -> bool {
        let has_frames = self.replicator.is_head_open(side.stream)
            && self.head_held(side).is_some_and(|held| self.replicator.is_held(held));
        self.log.side_segments(side.side).count() == side.begun.len()
            && side.begun.iter().all(|segment| self.replicator.is_complete(*segment))
            && (has_frames || planted(Defect::EnteredUnheld))
    }

    /// The held head with which a side log may be entered.
    fn head_held(&self, side: &Side) -> Option<SegmentId> {
        self.held_from(side.stream, side.head_from())
    }

    /// The held head of a stream, if it is not older than this.
    pub(crate) fn held_from(&self, stream: StreamId, from: SegmentId) -> Option<SegmentId> {
        self.heads_held.get(&stream).copied().filter(|held| *held >= from)
    }

    /// What the opening of a stream's next head takes at most, in whole seglets, with so many more segments in it.
    pub(crate) fn opening_bytes(&self, stream: StreamId, more: usize) -> u64 {
        let segments = self.log.stream_segments(stream).count() + more + 1;
        let rows = self.log.will_rows();
        let bytes = OPENING_FIXED_BYTES + segments as u64 * 8 + rows as u64 * 36;
        let seglet = u64::from(self.config.geometry.seglet_bytes);
        bytes.min(u64::from(self.log.group_bytes_max())).div_ceil(seglet) * seglet
    }
}
