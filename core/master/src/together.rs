//! The reads at the start of a frame of items: those that can be answered at once, without treating each as a request.
//!
//! The memory of a block of keys is fetched together. Then each key is looked up once, and its answer is written behind
//! the others. Most of what one read costs falls away: an asker of its own, a header of its own, and a wait for memory.
//!
//! Only the plainest case is answered here: a key of a serving tablet, a durable object, no rules, the lease held. Every
//! other read is left, and is treated as if it had come alone. So nothing is decided here that is not decided in `objects`,
//! and any item may be left.
//!
//! Invariant: an item is answered here only if no mutation stands before it in its frame.
//!
//! Not here: requests of Redis clients. Catalogue: A5, E1. Figures: docs/measurements/multi-read.md.

use crate::objects::is_object;
use crate::service::Service;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Position, StreamId};
use ramhold_log::{Found, SoughtKey, TOGETHER_COUNT_MAX};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules};
use ramhold_wire::multi::{MULTI_COUNT_MAX, MultiRequest, encode_read};
use ramhold_wire::{ForObject, View};

/// The places of a frame's items that are answered.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Places([u64; MULTI_COUNT_MAX / 64]);

impl Places {
    pub fn has(&self, place: u16) -> bool {
        self.0[usize::from(place) / 64] >> (place % 64) & 1 == 1
    }

    fn add(&mut self, place: u16) {
        self.0[usize::from(place) / 64] |= 1 << (place % 64);
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A block of reads of keys in serving tablets.
struct Block<'a> {
    keys: [SoughtKey<'a>; TOGETHER_COUNT_MAX],
    /// For each key its place in the frame, and its tablet.
    reads: [Option<(u16, &'a Tablet)>; TOGETHER_COUNT_MAX],
    count: usize,
}

impl Service {
    /// Appends the answers to reads that can be answered at once. The caller holds the read lease.
    pub(crate) fn read_at_once(
        &self,
        now: Instant,
        view: &View,
        request: &MultiRequest<'_>,
        answers: &mut Vec<u8>,
    ) -> Places {
        let mut done = Places::default();
        let mut reads = (0u16..).zip(request.items()).take_while(|(_, item)| item.request == ForObject::Read);
        let mut block = Block {
            keys: [SoughtKey::default(); TOGETHER_COUNT_MAX],
            reads: [None; TOGETHER_COUNT_MAX],
            count: 0,
        };
        let mut sight = Sight { now, view, durable: None };
        // Blocks of one size: a small last one would wait for memory with little else to do.
        let block_count = request.count().div_ceil(TOGETHER_COUNT_MAX);
        let block_size = request.count().div_ceil(block_count);
        loop {
            block.count = 0;
            for (place, item) in reads.by_ref() {
                let Some((sought, tablet)) = self.sought(item.body) else { continue };
                (block.keys[block.count], block.reads[block.count]) = (sought, Some((place, tablet)));
                block.count += 1;
                if block.count == block_size {
                    break;
                }
            }
            let keys = &block.keys[..block.count];
            self.shard.log.lookup_together(keys, |number, found| {
                let Some((place, tablet)) = block.reads[number] else { return };
                let place_told = if planted(Defect::ItemsMixedUp) { done.count() as u16 } else { place };
                if self.answer_at_once(&mut sight, &keys[number], tablet, found, place_told, answers) {
                    done.add(place);
                }
            });
            if block.count < block_size {
                return done;
            }
        }
    }

    #[inline]
    fn sought<'a>(&'a self, body: &'a [u8]) -> Option<(SoughtKey<'a>, &'a Tablet)> {
        let KeyRequest { table, rules, key } = KeyRequest::decode(body).ok()?;
        let (tablet, hash) = self.tablets.find_whole(table, key)?;
        let is_plain =
            rules == RejectRules::default() && tablet.state == TabletState::Serving && tablet.moved.is_none();
        is_plain.then_some((SoughtKey { table, hash, key }, tablet))
    }

    /// Appends the answer to a read that has found this. False: the read is left.
    #[inline]
    fn answer_at_once(
        &self,
        sight: &mut Sight<'_>,
        sought: &SoughtKey<'_>,
        tablet: &Tablet,
        found: &Found<'_>,
        place: u16,
        answers: &mut Vec<u8>,
    ) -> bool {
        let is_over = found.expires.is_some_and(|end| end <= sight.view.time(sight.now))
            && !planted(Defect::ExpiredServed);
        let position = self.depends_on(sight.now, tablet, sought.table, sought.hash, Some(found), sight.view);
        let has_room = self.answers.check_room_in(answers.len(), found.value.len()).is_ok();
        let is_early = position > self.durable_to(sight, tablet.stream) && !planted(Defect::ReadEarly);
        if !is_object(found) || is_over || !has_room || is_early {
            return false;
        }
        let Some(value) = found.value.contiguous() else { return false };
        let reply = ReadReply { version: found.version, time: found.time, expires: found.expires, value };
        encode_read(place, &reply, answers);
        true
    }

    #[inline]
    fn durable_to(&self, sight: &mut Sight<'_>, stream: StreamId) -> Position {
        match sight.durable {
            Some((of, position)) if of == stream => position,
            _ => sight.durable.insert((stream, self.shard.replicator.durable(stream))).1,
        }
    }
}

/// The moment at which reads are answered, and the durable position of the last stream that was asked for.
struct Sight<'a> {
    now: Instant,
    view: &'a View,
    durable: Option<(StreamId, Position)>,
}
