//! Takes tablets and gives them up, and sweeps the keys of those that were given up out of the index.

use crate::Master;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::hash::PlacementHasher;
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Mark, Peer, Status};
use ramhold_log::{Cursor, HashRange};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TabletDrop, TabletTake, TabletTaken};
use ramhold_wire::{Header, Step, decode, reply, reply_with};

/// Index buckets that one turn of a sweep looks at.
const SWEEP_BUCKETS: u64 = 4096;

/// A `TabletTake` that waits for its head to be durable.
#[derive(Debug)]
pub(crate) struct Take {
    range: HashRange,
    header: Header,
    from: ConnId,
}

/// A range whose keys leave the index, a few buckets per turn.
pub(crate) struct Sweep {
    pub range: HashRange,
    cursor: Cursor,
    hasher: PlacementHasher,
}

impl Sweep {
    pub fn new(range: HashRange, hasher: PlacementHasher) -> Sweep {
        Sweep { range, cursor: Cursor::default(), hasher }
    }
}

impl Master {
    pub(crate) fn on_tablet_take(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        match self.take(step, body) {
            Ok(range) => {
                // The coordinator asks again: only the last question is answered.
                self.takes.retain(|t| t.range != range);
                self.takes.push(Take { range, header: *header, from });
            }
            Err(status) => reply(step.effects, Peer::Conn(from), header, status),
        }
    }

    fn take(&mut self, step: &mut Step<'_>, body: &[u8]) -> Result<HashRange, Status> {
        let take: TabletTake = decode(body)?;
        let consistent = (take.replicas == 0) == (take.durability == Durability::None);
        let agrees = self.tablets.agrees(take.table, take.placement());
        if take.first > take.last || take.replicas > REPLICA_COUNT_MAX || !consistent || !agrees {
            return Err(Status::BadRequest);
        }
        // The table was dropped, so the network has doubled or held this request: ids of tables are never used again.
        if self.tablets.was_dropped(take.table) && !planted(Defect::DroppedTaken) {
            return Err(Status::UnknownTable);
        }
        let range = HashRange { table: take.table, first: take.first, last: take.last };
        if let Some(tablet) = self.tablets.exact(range) {
            let taken = matches!(tablet.state, TabletState::Taking | TabletState::Serving);
            return if taken { Ok(range) } else { Err(Status::NotAllowed) };
        }
        if self.tablets.overlaps(range) {
            return Err(Status::NotAllowed);
        }
        if self.is_sweeping(range) {
            return Err(Status::Retry);
        }
        let stream = self.shard.stream_for(take.class())?;
        let first_segment = self.shard.roll(step, stream).ok_or(Status::OutOfMemory)?;
        self.shard.log.raise_safe_version(take.version_floor);
        self.shard.log.track(range);
        self.tablets.insert(
            take.placement(),
            Tablet {
                range,
                state: TabletState::Taking,
                stream,
                first_segment,
                moved: None,
                unreplicated: take.replicas == 0,
                version_floor: take.version_floor,
                has_losses: false,
                is_confirmed: false,
            },
        );
        Ok(range)
    }

    /// Answers the takes whose head is durable and whose stream the coordinator knows.
    pub(crate) fn advance_takes(&mut self, now: Instant, effects: &mut Effects) {
        let (tablets, replicator, confirming) =
            (&mut self.tablets, &self.shard.replicator, &mut self.confirming);
        self.takes.retain(|take| {
            let Some(tablet) = tablets.exact_mut(take.range) else {
                reply(effects, Peer::Conn(take.from), &take.header, Status::NotAllowed);
                return false;
            };
            let ready = replicator.is_registered(tablet.stream)
                && replicator.durable(tablet.stream).segment >= tablet.first_segment;
            if !ready {
                return true;
            }
            if tablet.state == TabletState::Taking {
                tablet.state = TabletState::Serving;
                confirming.serves_another(now);
                effects.mark(Mark::TabletTaken);
            }
            let taken = TabletTaken {
                shard: take.header.shard,
                stream: tablet.stream,
                first_segment: tablet.first_segment,
            };
            reply_with(effects, Peer::Conn(take.from), &take.header, Status::Ok, &taken);
            false
        });
    }

    pub(crate) fn on_tablet_drop(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
        match decode::<TabletDrop>(body) {
            Ok(drop) => {
                self.tablets.note_dropped(drop.table);
                for range in self.tablets.ranges_of(drop.table) {
                    self.give_up(range);
                }
                reply(effects, Peer::Conn(from), header, Status::Ok);
            }
            Err(status) => reply(effects, Peer::Conn(from), header, status),
        }
    }

    /// Stops serving a range at once, and begins to sweep its keys out of the index.
    pub(crate) fn give_up(&mut self, range: HashRange) {
        let Some(hasher) = self.tablets.hasher(range.table) else { return };
        if self.tablets.exact(range).is_some_and(|t| t.state == TabletState::Recovering) {
            return self.drop_from_replays(range.table); // It is not served; the recovery takes it back itself.
        }
        if self.tablets.remove(range).is_none() {
            return;
        }
        self.shard.log.untrack(range);
        self.shard.log.forget_results(range);
        self.sweeps.push(Sweep::new(range, hasher));
        self.migrating.forget(range.table);
    }

    pub(crate) fn is_sweeping(&self, range: HashRange) -> bool {
        self.sweeps.iter().any(|s| {
            s.range.table == range.table && s.range.first <= range.last && range.first <= s.range.last
        })
    }

    /// Whether the first sweep has met damage that is being repaired.
    pub(crate) fn is_sweep_waiting(&self) -> bool {
        self.sweep_waits_for.is_some_and(|segment| self.shard.scrub.is_damaged(segment))
    }

    pub(crate) fn advance_sweeps(&mut self, step: &mut Step<'_>) {
        if self.is_sweep_waiting() {
            return;
        }
        let log = &mut self.shard.log;
        let Some(sweep) = self.sweeps.first_mut() else { return };
        let hasher = sweep.hasher;
        match log.drop_range_step(sweep.range, sweep.cursor, SWEEP_BUCKETS, &|key| hasher.hash(key)) {
            Ok(Some(cursor)) => sweep.cursor = cursor,
            Ok(None) => {
                self.sweeps.remove(0);
            }
            Err(at) => {
                let (segment, offset) = log.place_of(at);
                self.sweep_waits_for = Some(segment);
                self.shard.note_damage(step, segment, offset);
            }
        }
    }
}
