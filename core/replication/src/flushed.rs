//! The flushed position: what is on the backups' devices, and probes where no answer to an append would tell.
//!
//! With every answer a backup tells how much of a replica its device holds. While a stream is idle there are no
//! answers. So a master that waits states a wish, and the places that it concerns are probed until the wish is
//! fulfilled.
//!
//! Invariants:
//! - a stream's flushed position never goes back, and is never beyond its durable position;
//! - a probe carries no bytes and changes nothing at the backup;
//! - a place is probed only while no other message to it is unanswered.
//!
//! Not here: what to free, and when (master). Protocol: docs/protocols/replication.md, "Flushed position".

use crate::advance::Data;
use crate::{FlushWish, Replicator};
use ramhold_base::{Effects, Instant, Position, SegmentId, StreamId, time::earliest};
use ramhold_wire::View;
use ramhold_wire::data::AppendRequest;
use std::time::Duration;

/// The interval between probes of a replica while a wish waits: a fifth of the time that a flush may take with the
/// usual flush interval.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

impl Replicator {
    /// The position up to which the stream is on the devices of its R backups, so that it outlives the loss of all
    /// buffers. Every head before this position's segment is on the devices as closed, and that segment at least with
    /// its opening. The position only grows. A backup that is lost after a head was durably closed no longer counts for
    /// that head, neither for nor against. For a stream with R = 0 this is the durable position.
    pub fn flushed(&self, stream: StreamId) -> Position {
        self.streams
            .get(&stream)
            .map(|s| if s.class.replicas == 0 { s.durable } else { s.flushed })
            .unwrap_or_default()
    }

    /// Whether a closed segment, a former head or a side segment, is on the devices of all its present places, whole
    /// and closed. A lost place makes this false until its successor is flushed.
    pub fn is_flushed(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|s| s.complete && s.places.iter().all(|p| p.is_flushed()))
    }

    /// States wishes, which replace those stated before. The next `advance`, which is due at once, begins to probe. A
    /// wish is forgotten when it is fulfilled, or when its segment or stream no longer exists.
    pub fn want_flushed(&mut self, wishes: impl IntoIterator<Item = FlushWish>) {
        std::mem::swap(&mut self.wishes, &mut self.wishes_before);
        self.wishes.clear();
        self.wishes.extend(wishes);
        self.forget_wishes();
        if self.wishes.iter().any(|wish| !self.wishes_before.contains(wish)) {
            self.retry = Some(Instant::ZERO);
        }
    }

    fn forget_wishes(&mut self) {
        let mut wishes = std::mem::take(&mut self.wishes);
        wishes.retain(|wish| match *wish {
            FlushWish::Whole(segment) => self.segments.contains_key(&segment) && !self.is_fulfilled(*wish),
            FlushWish::UpTo(stream, _) => self.streams.contains_key(&stream) && !self.is_fulfilled(*wish),
        });
        self.wishes = wishes;
    }

    /// Whether a closed segment, and every head before it, has been on the devices as a whole, so that `flushed` never
    /// waits for it again. For a side segment: whether it is flushed.
    pub fn is_settled(&self, segment: SegmentId) -> bool {
        self.segments.get(&segment).is_some_and(|s| {
            if s.side { self.is_flushed(segment) } else { self.flushed(s.stream).segment > segment }
        })
    }

    /// Whether a wish is fulfilled.
    pub fn is_fulfilled(&self, wish: FlushWish) -> bool {
        match wish {
            FlushWish::Whole(segment) => self.is_flushed(segment),
            FlushWish::UpTo(stream, position) => self.flushed(stream) >= position,
        }
    }

    /// Moves the flushed position of a stream as far as the answers of its backups allow.
    pub(crate) fn settle_flushed(&mut self, stream_id: StreamId) {
        let stream = self.streams.get_mut(&stream_id).expect("callers pass streams of ours");
        while let Some(&front) = stream.unflushed.front() {
            // The head was retired: what was needed of it is in segments that were flushed before.
            let Some(segment) = self.segments.get(&front) else {
                stream.unflushed.pop_front();
                continue;
            };
            // A durably closed head that lost a place is copied again. Like the durable position, the flushed position
            // does not wait for that copy: the copy itself may have to wait for the flushed position.
            let was_closed = !stream.order.contains(&front);
            let told = segment.places.iter().filter(|p| p.closed || !was_closed);
            let least = told.clone().map(|p| p.flushed).min().unwrap_or(0);
            if least < segment.opening.length {
                return;
            }
            let position = Position { segment: front, offset: least }.min(stream.durable);
            stream.flushed = stream.flushed.max(position);
            if !(was_closed && told.clone().all(|p| p.is_flushed())) {
                return;
            }
            stream.unflushed.pop_front();
        }
    }

    /// Probes the places that have told less than is wished for.
    pub(crate) fn advance_probes(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if self.wishes.is_empty() {
            return;
        }
        self.forget_wishes();
        let wishes = std::mem::take(&mut self.wishes);
        for wish in &wishes {
            match *wish {
                FlushWish::Whole(segment) => self.probe_segment(now, segment, None, view, effects),
                FlushWish::UpTo(stream, position) => {
                    // Probes leave the heads of the stream as they are.
                    for index in 0.. {
                        let head = self.streams[&stream].unflushed.get(index).copied();
                        let Some(head) = head.filter(|head| *head <= position.segment) else { break };
                        let length = (head == position.segment).then_some(position.offset);
                        self.probe_segment(now, head, length, view, effects);
                    }
                }
            }
        }
        self.wishes = wishes;
    }

    /// Probes the places of a segment that have told less than `length` flushed bytes. Without a length, probes those
    /// that are closed and have not told that the device has everything.
    pub(crate) fn probe_segment(
        &mut self,
        now: Instant,
        id: SegmentId,
        length: Option<u32>,
        view: &View,
        effects: &mut Effects,
    ) {
        let Some(segment) = self.segments.get(&id) else { return };
        for index in 0..segment.places.len() {
            let segment = &self.segments[&id];
            let place = &segment.places[index];
            let Some(backup) = place.backup else { continue };
            let is_told = place.is_flushed()
                || length.is_some_and(|length| place.flushed >= length.max(segment.opening.length));
            // Another message is unanswered, or must come first.
            let is_busy = place.in_flight > 0
                || place.epoch != Some(segment.epoch)
                || (length.is_none() && !place.closed);
            if is_told || is_busy {
                continue;
            }
            let due = place.probe_at.max(place.retry_at);
            if due > now {
                self.retry = earliest(self.retry, Some(due));
                continue;
            }
            let Some(address) = view.list.address(backup) else { continue };
            self.segments.get_mut(&id).expect("looked up above").places[index].probe_at =
                now + PROBE_INTERVAL;
            // A probe has no certificate, because the segment may have been compacted in DRAM since the replica was
            // made.
            let probe = AppendRequest::default();
            self.send_append(now, (id, index), address, &probe, &Data::None, view, effects);
        }
    }
}
