//! How many objects a tablet has, without looking at them.
//!
//! The log counts the keys of each tablet that lead to an object, as they come and go. An object whose time is over
//! counts until it is removed (`expiry`). The number is told as a page of a scan is: when everything that was
//! appended before is durable, and under the read lease.
//!
//! Invariant: the count of a tablet that is served is that of a walk over the index, unless objects of its stream were
//! lost: nobody knows whose those were, so from then on it is refused with `Corrupt`, and a scan has to tell.
//!
//! Rules: docs/protocols/enumeration.md, "Counts". Catalogue: A6.

use crate::Master;
use crate::multi::Asker;
use crate::parked::Answer;
use crate::tablets::TabletState;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Position, Status, TableId, Version};
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::{Header, Step, reply};

impl Master {
    pub(crate) fn on_count(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let to = Asker::Conn(from);
        let counted = CountRequest::decode(body).and_then(|request| {
            let tablet = self.serving_hash(request.table, request.first)?;
            // Of a part of a tablet nobody knows the number.
            if tablet.range.first == request.first { Ok(tablet) } else { Err(Status::NotAllowed) }
        });
        let tablet = match counted {
            Ok(tablet) => tablet,
            Err(status) => return reply(step.effects, ramhold_base::Peer::Conn(from), header, status),
        };
        self.counters.reads += 1;
        if tablet.has_losses {
            let answer = Answer::of(Status::Corrupt, Version::NONE);
            return self.answer_when_leased(step, step.now, to, header, answer);
        }
        let objects = self.shard.log.object_count(tablet.range).expect("what is served is tracked");
        // Of one that is in two streams both must be durable.
        let other = self.tablets.of_hash(tablet.range.table, tablet.range.last).map(|other| other.stream);
        let is_durable = |stream| self.shard.log.head_end(stream) <= self.shard.durable(stream);
        let tablet = match other.filter(|other| *other != tablet.stream) {
            Some(other) if is_durable(tablet.stream) => crate::tablets::Tablet { stream: other, ..tablet },
            Some(other) if !is_durable(other) => return self.refuse(to, header, Status::Retry, step.effects),
            _ => tablet,
        };
        let position = if tablet.unreplicated || planted(Defect::PageEarly) {
            Position::default()
        } else {
            self.shard.log.head_end(tablet.stream)
        };
        if position > self.shard.durable(tablet.stream) && self.is_crowded(tablet.stream) {
            return self.refuse(to, header, Status::TooMany, step.effects);
        }
        let mut body = Vec::new();
        CountReply { last: tablet.range.last, objects }.encode(&mut body);
        self.answer_read(step, tablet.stream, position, to, header, Answer::Body(body));
    }

    /// Panics when what the log counts of a tablet is not what its index holds.
    pub(crate) fn check_counts(&self) {
        let hash_of = |table: TableId, key: &[u8]| self.tablets.hash(table, key).unwrap_or_default();
        let walked = self.shard.log.count_anew(&hash_of);
        // What is being taken in or given up again may be damaged on its way.
        let counted = self.tablets.all().filter(|t| t.state == TabletState::Serving && !t.has_losses);
        for tablet in counted {
            let range = tablet.range;
            let found = walked.iter().find(|stat| (stat.table, stat.first) == (range.table, range.first));
            let found = found.expect("what is served is tracked");
            assert_eq!(self.shard.log.object_count(range), Some(found.records), "{range:?}");
        }
        // A damaged entry may go without anybody knowing where it was counted.
        if self.shard.scrub.status().damaged == 0 {
            self.shard.log.check_profiles(&hash_of);
        }
    }
}
