//! Handles answers, and the absence of answers.

use crate::segment::Place;
use crate::{Context, Event, Replicator, Segments};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, SegmentId, ServerId, Status};
use ramhold_wire::data::AppendReply;
use ramhold_wire::membership::{ReplicasNeeded, ReplicasNotNeeded};
use ramhold_wire::{Call, Gone, Header, View};
use std::time::Duration;

/// The time for which a backup that had no room for a segment is not chosen for it.
const REFUSED_PAUSE: Duration = Duration::from_millis(300);
/// The pause before the next request to the coordinator after one that failed.
const COORDINATOR_PAUSE: Duration = Duration::from_millis(50);
/// The time for which a backup that failed a segment is not chosen for it.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

impl Replicator {
    /// Handles an answer to a call of this role. The caller then calls `advance`.
    pub fn on_reply(&mut self, now: Instant, header: &Header, body: &[u8], log: &dyn Segments, view: &View) {
        let Some(call) = self.calls.answered(header.rpc) else { return };
        if header.cluster != view.cluster {
            return self.on_unanswered(now, call);
        }
        match call.context {
            Context::Append { segment, place, backup, attempt } => {
                let to = (segment, place, backup, attempt);
                self.on_append_reply(now, call.sent, to, header.status(), body, log);
            }
            Context::Register { stream, segment, epoch } => {
                let entry = self.streams.get_mut(&stream).expect("streams stay");
                entry.registering = false;
                match header.status() {
                    Status::Ok => {
                        entry.registered = true;
                        entry.recorded = entry.recorded.max(segment);
                        if let Some(segment) = self.segments.get_mut(&segment) {
                            segment.recorded = epoch;
                        }
                    }
                    Status::Fenced => {
                        entry.ask_at = now + COORDINATOR_PAUSE;
                        self.events.push(Event::SaidDead);
                    }
                    _ => entry.ask_at = now + COORDINATOR_PAUSE,
                }
            }
            Context::Record { segment, epoch } => {
                let Some(entry) = self.segments.get_mut(&segment) else { return };
                if header.status() == Status::Ok {
                    let stream = self.streams.get_mut(&entry.stream).expect("streams stay");
                    stream.recorded = stream.recorded.max(segment);
                }
                if entry.epoch != epoch {
                    return; // The epoch was raised again meanwhile; its record is requested separately.
                }
                entry.recording = false;
                if header.status() == Status::Ok {
                    entry.recorded = epoch;
                    return;
                }
                let stream = self.streams.get_mut(&entry.stream).expect("streams stay");
                stream.ask_at = now + COORDINATOR_PAUSE;
                if header.status() == Status::Fenced {
                    self.events.push(Event::SaidDead);
                }
            }
            Context::Free { segment, backup } => {
                // `StaleEpoch`: a newer replica of the segment has replaced this one.
                let is_gone = matches!(
                    header.status(),
                    Status::Ok | Status::UnknownReplica | Status::WrongServer | Status::StaleEpoch
                );
                if is_gone {
                    self.frees.retain(|f| (f.segment, f.backup) != (segment, backup));
                }
            }
        }
    }

    /// Gives up all replicas of a backup whose device has failed for good, also those of closed segments.
    fn lose_all(&mut self, now: Instant, backup: ServerId) {
        let ids: Vec<SegmentId> = self.segments.keys().copied().collect();
        for id in ids {
            let held = self.segments[&id].places.iter().position(|place| place.backup == Some(backup));
            if let Some(index) = held {
                self.lose(now, id, index, Some(FAILED_PAUSE));
            }
        }
    }

    fn on_append_reply(
        &mut self,
        now: Instant,
        sent: Instant,
        (id, index, backup, attempt): (SegmentId, usize, ServerId, u32),
        status: Status,
        body: &[u8],
        log: &dyn Segments,
    ) {
        let Some(segment) = self.segments.get_mut(&id) else { return };
        let wanted_epoch = segment.epoch;
        // The place of a successor is gone when the move has ended.
        let Some(place) = segment.places.get_mut(index) else { return };
        if place.backup != Some(backup) || attempt < place.born {
            return;
        }
        let current = place.attempt == attempt;
        if current {
            place.in_flight = place.in_flight.saturating_sub(1);
        }
        place.answered();
        let reached = AppendReply::decode(body).unwrap_or_default();
        match status {
            Status::Ok => {
                if place.epoch.is_none() {
                    self.full.remove(&backup); // The backup had a frame for this replica.
                }
                place.reached(&reached, wanted_epoch);
                place.granted = place.granted.max(Some(sent));
                if !self.refusals.is_empty() && self.segments[&id].places.iter().all(|p| p.epoch.is_some()) {
                    self.refusals.remove(&id);
                }
                let place = &self.segments[&id].places[index];
                if place.closed && !self.is_in_order(id) {
                    self.check_complete(id, log);
                }
            }
            Status::OutOfOrder => {
                if current {
                    // Only this master may overwrite bytes without a certificate: go on behind them.
                    place.certified = place.certified.max(reached.certified);
                    if reached.certified > 0 {
                        place.epoch = place.epoch.max(Some(reached.epoch));
                    }
                    let from = reached.length.min(place.sent).max(place.certified);
                    place.rewind_to(from);
                }
            }
            Status::UnknownReplica if place.certified == 0 => {
                if current {
                    place.rewind_to(0); // A later message overtook the one that opens the replica.
                }
            }
            Status::StaleEpoch if reached.epoch <= wanted_epoch => {
                // An older message came late, or the replica's epoch must be raised. The reached state stays valid.
                if place.certified > 0 {
                    place.epoch = place.epoch.max(Some(reached.epoch));
                }
                if current {
                    place.rewind(now);
                    place.sent_epoch = None;
                }
            }
            Status::Retry
            | Status::NotReady
            | Status::TooMany
            | Status::NotInCluster
            | Status::OutOfMemory => {
                if current {
                    place.rewind(now);
                }
            }
            Status::Fenced => {
                if current {
                    place.rewind(now);
                }
                self.events.push(Event::SaidDead);
            }
            Status::OpenRefused => {
                // An earlier copy of this message may still arrive when there is room, and leave an open replica
                // behind. So the refusal counts as a loss like any other.
                // A segment that moves lacks nothing.
                if self.segments[&id].moves.is_none() {
                    self.refusals.entry(id).or_insert(now);
                }
                self.full.insert(backup, AppendReply::decode_full(body));
                self.lose(now, id, index, Some(REFUSED_PAUSE));
            }
            Status::DeviceFailed => self.lose_all(now, backup),
            _ => {
                if status == Status::CorruptReplica {
                    self.refused.push(id);
                    self.pieces.forget(id);
                }
                self.lose(now, id, index, Some(FAILED_PAUSE));
            }
        }
    }

    /// Whether a backup has, or is to have, one of the replicas of a segment.
    pub fn has_replica(&self, id: SegmentId, backup: ServerId) -> bool {
        self.segments.get(&id).is_some_and(|s| s.places.iter().any(|place| place.backup == Some(backup)))
    }

    /// Replaces a replica that its backup has found to be damaged.
    pub fn on_corrupt(&mut self, now: Instant, id: SegmentId, backup: ServerId) {
        let places = self.segments.get(&id).map_or(&[][..], |segment| &segment.places);
        if let Some(index) = places.iter().position(|place| place.backup == Some(backup)) {
            self.lose(now, id, index, Some(FAILED_PAUSE));
        }
    }

    /// Marks a segment outside the head order as complete, if every place holds all of it, closed.
    fn check_complete(&mut self, id: SegmentId, log: &dyn Segments) {
        let Some(tail) = log.tail(id) else { return };
        let segment = self.segments.get_mut(&id).expect("callers pass segments of ours");
        let has_moved = segment.moves.is_none() || segment.places.last().is_some_and(Place::is_flushed);
        if tail.closed && segment.is_durably_closed(tail.length) && has_moved {
            self.end_move(id);
            let segment = self.segments.get_mut(&id).expect("looked up above");
            (segment.complete, segment.was_complete) = (true, true);
            self.active.remove(&id);
            self.copies.done(id);
        }
    }

    /// Ends calls that were not answered in time. The caller then calls `advance`.
    pub fn tick(&mut self, now: Instant) {
        while let Some(call) = self.calls.overdue(now) {
            self.on_unanswered(now, call);
        }
    }

    /// Ends the calls to an address, because the connection to it is gone.
    pub fn on_lost(&mut self, now: Instant, gone: Gone<'_>) {
        for call in self.calls.end(gone) {
            if let Context::Append { backup, .. } = call.context
                && gone.is_suspicious()
            {
                self.suspect(backup);
            }
            self.on_unanswered(now, call);
        }
    }

    fn on_unanswered(&mut self, now: Instant, call: Call<Context>) {
        match call.context {
            Context::Append { segment: id, place: index, backup, attempt } => {
                let Some(segment) = self.segments.get_mut(&id) else { return };
                let Some(place) = segment.places.get_mut(index) else { return };
                if place.backup != Some(backup) {
                    return;
                }
                let since = *place.silent_since.get_or_insert(call.sent);
                if place.attempt == attempt {
                    place.unanswered(now);
                }
                if now.since(since) >= self.config.replica_timeout {
                    self.suspect(backup);
                    let segment = &self.segments[&id];
                    if self.is_in_order(id) || segment.side || segment.held || segment.is_successor(index) {
                        self.lose(now, id, index, Some(FAILED_PAUSE));
                    }
                }
            }
            Context::Register { stream, .. } => {
                let stream = self.streams.get_mut(&stream).expect("streams stay");
                stream.registering = false;
                stream.ask_at = now + COORDINATOR_PAUSE;
            }
            Context::Record { segment, epoch } => {
                if let Some(segment) = self.segments.get_mut(&segment)
                    && segment.epoch == epoch
                {
                    segment.recording = false;
                    let stream = self.streams.get_mut(&segment.stream).expect("streams stay");
                    stream.ask_at = now + COORDINATOR_PAUSE;
                }
            }
            Context::Free { .. } => {}
        }
    }

    /// The replicas, among those that a backup asks about, that it may free. These are replicas of segments that this
    /// master does not have, and of segments whose places are all filled by other backups that hold everything
    /// acknowledged, at a recorded epoch. A replica that was a head's is not freed before a newer head is recorded, in
    /// whatever way it is freed: see `advance_frees`.
    pub fn not_needed(&mut self, backup: ServerId, asked: &ReplicasNeeded) -> ReplicasNotNeeded {
        let asked = asked.replicas.iter().filter(|replica| replica.shard == self.config.shard);
        let (mut replicas, mut unrecorded) = (Vec::new(), Vec::new());
        for replica in asked {
            let segment = self.segments.get(&replica.segment);
            let is_needless = segment.is_none_or(|segment| {
                let is_safe = segment.complete
                    || (segment.recorded == segment.epoch
                        && segment.holds(segment.floor.max(segment.opening.length)));
                is_safe && segment.places.iter().all(|p| p.backup != Some(backup))
            });
            // For a head that is still written, the epoch is recorded that made this replica stale.
            let was_head = !replica.side && segment.is_none_or(|segment| segment.complete);
            // A segment newer than the newest head was a held head, and never had any bytes.
            let may_be_head = self.streams.get(&replica.stream).is_some_and(|stream| {
                let was_rolled = stream.order.back().is_some_and(|newest| replica.segment <= *newest);
                stream.may_be_head(replica.segment) && was_rolled
            });
            if is_needless && was_head && may_be_head && !planted(Defect::FreedUnrecorded) {
                unrecorded.push(*replica);
            } else if is_needless {
                replicas.push(*replica);
            }
        }
        // A newer head gets recorded now, and these replicas are freed when the backup asks about them again.
        for replica in unrecorded {
            let stream = self.streams.get_mut(&replica.stream).expect("looked up above");
            stream.retired = stream.retired.max(replica.segment);
        }
        ReplicasNotNeeded { replicas }
    }
}
