//! Takes tablets that the coordinator gives to this shard.
//!
//! A take rolls the stream of the tablet's class to a new head, so that the tablet has a first segment. It is answered
//! when that head is durable and the coordinator knows the stream; the tablet is served from then on.
//!
//! Protocol: docs/protocols/tablets.md. Catalogue: B2.

use crate::service::Service;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Mark, Peer, Status};
use ramhold_log::HashRange;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TabletTake, TabletTaken};
use ramhold_wire::{Header, Step, decode, reply, reply_with};

/// A `TabletTake` that waits for its head to be durable.
#[derive(Debug)]
struct Take {
    range: HashRange,
    header: Header,
    from: ConnId,
}

#[derive(Debug, Default)]
pub(crate) struct Takes {
    takes: Vec<Take>,
}

impl Takes {
    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        match service.take(step, body) {
            Ok(range) => {
                // The coordinator asks again: only the last question is answered.
                self.takes.retain(|t| t.range != range);
                self.takes.push(Take { range, header: *header, from });
            }
            Err(status) => reply(step.effects, Peer::Conn(from), header, status),
        }
    }

    /// Answers the takes whose head is durable and whose stream the coordinator knows.
    pub fn advance(&mut self, now: Instant, service: &mut Service, effects: &mut Effects) {
        let (tablets, replicator, confirming) =
            (&mut service.tablets, &service.shard.replicator, &mut service.confirming);
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
}

impl Service {
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
        if self.sweeps.meets(range) {
            return Err(Status::Retry);
        }
        let stream = self.stream_for(take.class(), step.view, &[])?;
        let first_segment = self.roll(step, stream).ok_or(Status::OutOfMemory)?;
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
}
