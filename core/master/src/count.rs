//! The number of objects in a tablet, told without looking at the objects.
//!
//! The log counts the keys of each tablet that lead to an object, as they come and go. An expired object counts until
//! it is removed (`expiry`). The number is told in the way of a page of a scan: when everything that was appended
//! before it is durable, and under the read lease.
//!
//! Invariant: the count of a served tablet equals the result of a walk over the index, unless objects of its stream
//! were lost. Nobody knows to which tablets lost objects belonged. So from then on the count is refused with `Corrupt`,
//! and a scan has to tell.
//!
//! Rules: docs/protocols/enumeration.md, "Counts". Catalogue: A6.

use crate::multi::Asker;
use crate::parked::Answer;
use crate::service::Service;
use crate::tablets::TabletState;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Position, Status, TableId, Version};
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::{Header, Step, reply};

impl Service {
    pub fn on_count(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let to = Asker::Conn(from);
        let counted = CountRequest::decode(body).and_then(|request| {
            let tablet = self.serving_hash(request.table, request.first)?;
            // Nobody knows the number of objects in a part of a tablet.
            if tablet.range.first == request.first { Ok(tablet) } else { Err(Status::NotAllowed) }
        });
        let tablet = match counted {
            Ok(tablet) => tablet,
            Err(status) => return reply(step.effects, ramhold_base::Peer::Conn(from), header, status),
        };
        self.counters.reads += 1;
        if tablet.has_losses {
            let answer = Answer::of(Status::Corrupt, Version::NONE);
            return self.answers.answer_when_leased(step, &self.shard, step.now, to, header, answer);
        }
        let objects = self.shard.log.object_count(tablet.range).expect("what is served is tracked");
        // If the tablet is in two streams, both must be durable.
        let other = self.tablets.of_hash(tablet.range.table, tablet.range.last).map(|other| other.stream);
        let is_durable = |stream| self.shard.log.head_end(stream) <= self.shard.durable(stream);
        let tablet = match other.filter(|other| *other != tablet.stream) {
            Some(other) if is_durable(tablet.stream) => crate::tablets::Tablet { stream: other, ..tablet },
            Some(other) if !is_durable(other) => {
                return self.answers.refuse(to, header, Status::Retry, step.effects);
            }
            _ => tablet,
        };
        let position = if tablet.unreplicated || planted(Defect::PageEarly) {
            Position::default()
        } else {
            self.shard.log.head_end(tablet.stream)
        };
        if position > self.shard.durable(tablet.stream) && self.answers.is_crowded(tablet.stream) {
            return self.answers.refuse(to, header, Status::TooMany, step.effects);
        }
        let mut body = Vec::new();
        CountReply { last: tablet.range.last, objects }.encode(&mut body);
        self.answers.answer_read(
            step,
            &self.shard,
            (tablet.stream, position),
            to,
            header,
            Answer::Body(body),
        );
    }

    /// Panics when the log's count of a tablet is not the number in its index.
    pub fn check_counts(&self) {
        let hash_of = |table: TableId, key: &[u8]| self.tablets.hash(table, key).unwrap_or_default();
        let walked = self.shard.log.count_anew(&hash_of);
        // The counts of tablets that are not served yet may still be unsettled.
        let counted = self.tablets.all().filter(|t| t.state == TabletState::Serving && !t.has_losses);
        for tablet in counted {
            let range = tablet.range;
            let found = walked.iter().find(|stat| (stat.table, stat.first) == (range.table, range.first));
            let found = found.expect("what is served is tracked");
            assert_eq!(self.shard.log.object_count(range), Some(found.records), "{range:?}");
        }
        // A damaged entry may go without anybody knowing in which profile it was counted.
        if self.shard.scrub.status().damaged == 0 {
            self.shard.log.check_profiles(&hash_of);
        }
    }
}
