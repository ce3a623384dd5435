//! Read leases that the backups of the head grant: until a lease is over, no other server serves this shard's tablets.
//!
//! A backup that accepts an append grants a lease, counted here from the instant when the append was sent. The lease
//! must be granted by every replica that may count as the head: the replicas of the oldest head that is not durably
//! closed and, as soon as some backup may have closed it, those of the next head as well. If nothing else is sent,
//! empty appends (keepalives) are.
//!
//! Invariants:
//! - a replica grants nothing if the coordinator has not recorded its epoch;
//! - a keepalive carries no bytes and changes nothing at the backup.
//!
//! Not here: the use of the lease to answer reads (master). Protocol: docs/protocols/read-leases.md. Catalogue: F8, J2.

use crate::Replicator;
use crate::advance::Data;
use crate::segment::Segment;
use crate::stream::Stream;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, SegmentId};
use ramhold_wire::View;
use ramhold_wire::data::AppendRequest;
use std::time::Duration;

impl Replicator {
    /// The first replicated stream that the coordinator knows. No recovery can do without it.
    fn lease_stream(&self) -> Option<&Stream> {
        self.streams.values().find(|stream| stream.class.replicas > 0 && stream.registered)
    }

    /// The instant from which the read lease counts that the backups have granted last. `None` if some replica that may
    /// count as the head has granted nothing yet, or there is no such stream.
    pub fn granted_since(&self) -> Option<Instant> {
        let order = &self.lease_stream()?.order;
        let head = &self.segments[order.front()?];
        let next = order.get(1).map(|next| &self.segments[next]);
        match next {
            Some(next) if planted(Defect::NewestHeadGrants) => granted_by(next),
            // A replica that has closed the head, together with a replica of the next head, proves the log complete.
            Some(next) if head.closing && !planted(Defect::NextHeadNotAsked) => {
                Some(granted_by(head)?.min(granted_by(next)?))
            }
            Some(_) | None => granted_by(head),
        }
    }

    /// Sends an empty append for each replica of the open heads that has granted nothing for `age`, if one more message
    /// to it may be under way.
    pub fn keep_granted(&mut self, now: Instant, age: Duration, view: &View, effects: &mut Effects) {
        let Some(stream) = self.lease_stream() else { return };
        let heads: [Option<SegmentId>; 2] = [stream.order.front().copied(), stream.order.get(1).copied()];
        for id in heads.into_iter().flatten() {
            for index in 0..self.segments[&id].places.len() {
                let segment = &self.segments[&id];
                let place = &segment.places[index];
                let is_fresh = place.granted.is_some_and(|granted| now.since(granted) < age);
                let window = if place.patience == 0 { self.config.in_flight_max } else { 1 };
                if is_fresh || place.epoch != Some(segment.epoch) || place.in_flight >= window {
                    continue;
                }
                let Some(address) = place.backup.and_then(|backup| view.list.address(backup)) else {
                    continue;
                };
                let keepalive = AppendRequest::default();
                self.send_append(now, (id, index), address, &keepalive, &Data::None, view, effects);
            }
        }
    }
}

/// The instant from which the leases of all replicas of a segment count.
fn granted_by(segment: &Segment) -> Option<Instant> {
    let is_recorded = segment.recorded == segment.epoch && segment.holds(segment.opening.length);
    if !is_recorded && !planted(Defect::UnrecordedGrants) {
        return None;
    }
    if planted(Defect::OneGrantEnough) {
        return segment.places.iter().filter_map(|place| place.granted).max();
    }
    segment.places.iter().try_fold(Instant::FAR, |since, place| Some(since.min(place.granted?)))
}
