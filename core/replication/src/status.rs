//! The status of the replication, for operators and audits.

use crate::Replicator;
use crate::stream::Stream;
use ramhold_base::{Epoch, Position, SegmentId, ServerId, StreamId};
use ramhold_placement::shortage;
use ramhold_wire::class::StreamClass;
use ramhold_wire::shortage::Shortage;
use ramhold_wire::status::{DistanceBytes, StreamStatus};
use ramhold_wire::{Standing, View};

/// The most backups without room that a status names.
const REFUSING_NAMED_MAX: usize = 8;

/// One replica as seen by the master, for state audits.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaSeen {
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub backup: ServerId,
    pub certified: u32,
    pub closed: bool,
}

impl Replicator {
    /// The neighbourhoods that this master employs for segments of so many replicas. None: the placement has none.
    /// Backups must have buffers for the heads of all of them.
    pub fn neighbourhoods(&mut self, view: &View, replicas: u8) -> Option<Vec<String>> {
        let most = self.config.head_room.neighbourhoods_max(replicas);
        let all = self.neighbourhoods.of(view)?;
        Some(all.iter().take(most).map(|neighbourhood| neighbourhood.name.clone()).collect())
    }

    /// The neighbourhood of a stream.
    pub fn neighbourhood_of(&self, stream: StreamId) -> Option<&str> {
        self.streams.get(&stream)?.neighbourhood.as_deref()
    }

    /// The stream of a class and a neighbourhood, if there is one.
    pub fn stream_of(&self, class: StreamClass, neighbourhood: Option<&str>) -> Option<StreamId> {
        let is_it =
            |stream: &Stream| stream.class == class && stream.neighbourhood.as_deref() == neighbourhood;
        self.streams.iter().find(|(_, stream)| is_it(stream)).map(|(id, _)| *id)
    }

    pub fn streams(&self) -> impl Iterator<Item = (StreamId, StreamClass)> {
        self.streams.iter().map(|(id, s)| (*id, s.class))
    }

    /// Bytes that were sent to backups when they were written, and that were sent again.
    pub fn traffic(&self) -> (DistanceBytes, DistanceBytes) {
        (self.traffic.0.bytes(), self.traffic.1.bytes())
    }

    /// The number of replicas of each segment of a stream.
    pub fn replica_count(&self, stream: StreamId) -> u8 {
        self.streams.get(&stream).map_or(0, |s| s.class.replicas)
    }

    /// The state of all streams for the operator. `unreplicated` tells the bytes of a stream that are not on R backups.
    pub fn status(&self, view: &View, unreplicated: impl Fn(StreamId) -> u64) -> Vec<StreamStatus> {
        self.streams
            .iter()
            .map(|(id, stream)| {
                let own = || self.segments.values().filter(|s| s.stream == *id);
                let incomplete = own().filter(|s| s.own_places().any(|p| p.certified == 0)).count();
                StreamStatus {
                    stream: *id,
                    durability: stream.class.durability,
                    replicas: stream.class.replicas,
                    segments: own().count() as u64,
                    incomplete_segments: incomplete as u64,
                    waits_for: self.waits_for(*id, view),
                    unreplicated_bytes: unreplicated(*id),
                    unspread_segments: self.unspread_count(*id, view),
                    outside_segments: self.outside_count(*id, view),
                }
            })
            .collect()
    }

    /// The reason why acknowledgements of a stream wait, if it is one that an operator can change.
    pub fn waits_for(&self, stream: StreamId, view: &View) -> Option<String> {
        let entry = &self.streams[&stream];
        let head = entry.order.front()?;
        let segment = &self.segments[head];
        // A stream whose head is full waits for the next head.
        if entry.order.iter().take(2).any(|id| self.refusals.contains_key(id)) {
            return Some(self.waits_for_room(view));
        }
        if segment.places.iter().any(|p| p.backup.is_none()) {
            if let Some(shortage) = shortage(view, entry.class.replicas, self.config.local_allowed) {
                return Some(format!("backups: {shortage}; {}", shortage.remedy()));
            }
            return Some("a backup with room for another replica".into());
        }
        if segment.recorded != segment.epoch || !entry.registered {
            return Some("the coordinator, to record the head".into());
        }
        None
    }

    /// The shortage of failure domains for a stream's replicas, if there is one.
    pub fn shortage(&self, stream: StreamId, view: &View) -> Option<Shortage> {
        shortage(view, self.replica_count(stream), self.config.local_allowed)
    }

    /// A text that says which backups have no room for another replica, and why.
    fn waits_for_room(&self, view: &View) -> String {
        let known = self.full.iter().filter(|(backup, _)| view.list.standing(**backup) == Standing::Up);
        let reasons = known.take(REFUSING_NAMED_MAX).map(|(backup, full)| match full {
            Some(full) => format!("; disk full on {backup}: {full}"),
            None => format!("; {backup} has all its frames in use (--disk)"),
        });
        format!("a backup with room for another replica{}", reasons.collect::<String>())
    }

    /// Whether all segments have all their replicas, whole.
    pub fn is_fully_replicated(&self) -> bool {
        self.segments.iter().all(|(id, s)| {
            s.complete
                || s.moves.is_some()
                || s.places.is_empty()
                || (self.is_in_order(*id) && s.holds(s.opening.length.min(s.floor)))
        })
    }

    pub fn replicas(&self) -> impl Iterator<Item = ReplicaSeen> {
        self.segments.keys().flat_map(|id| self.replicas_of(*id))
    }

    /// The replicas of one segment. None if it is not replicated here.
    pub fn replicas_of(&self, id: SegmentId) -> impl Iterator<Item = ReplicaSeen> {
        self.segments.get(&id).into_iter().flat_map(move |s| {
            s.places.iter().filter_map(move |p| {
                Some(ReplicaSeen {
                    stream: s.stream,
                    segment: id,
                    epoch: p.epoch?,
                    backup: p.backup?,
                    certified: p.certified,
                    closed: p.closed,
                })
            })
        })
    }

    /// Panics when a rule of the protocol is broken. Cheap enough for every step in the simulator.
    pub fn check_invariants(&self) {
        for stream in self.streams.values() {
            assert!(stream.flushed <= stream.durable);
            assert!(
                stream.registered || stream.class.replicas == 0 || stream.durable == Position::default(),
                "nothing is acknowledged of a stream that the coordinator does not know"
            );
            let heads = [stream.order.front(), stream.order.get(1)].map(|id| id.map(|id| &self.segments[id]));
            if let [Some(head), Some(next)] = heads {
                // With epoch 0 the next head has not lost any replica that held something.
                assert!(
                    !head.closing || next.epoch > Epoch(0) || next.holds(next.opening.length),
                    "a head is closed only when the next is open"
                );
            }
            for (at, id) in stream.order.iter().enumerate() {
                let segment = &self.segments[id];
                assert!(!segment.side);
                assert!(segment.recorded <= segment.epoch);
                if at >= 2 {
                    assert!(segment.places.iter().all(|p| !p.touched), "at most two heads are open");
                }
                if at == 1 {
                    assert!(
                        segment.places.iter().all(|p| p.sent <= segment.opening.length),
                        "the newer of two open heads holds nothing but its opening"
                    );
                }
            }
        }
        for (id, segment) in &self.segments {
            for place in &segment.places {
                assert!(place.certified <= place.sent || place.in_flight == 0, "{id}: {place:?}");
                assert!(place.epoch.is_none_or(|e| e <= segment.epoch), "{id}: {place:?}");
                assert!(place.flushed <= place.certified, "{id}: {place:?}");
            }
            if !segment.complete {
                let is_known = self.active.contains(id) != self.copies.contains(*id) || segment.put_off;
                assert!(is_known, "{id} is not complete and forgotten");
            }
        }
    }
}
