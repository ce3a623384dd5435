//! One page of a scan of a quorum table, from its first question to its end.
//!
//! Bricks tell a stretch of keys first (core/quorum, `page`). Keys on which they agree are taken as they are. The session
//! reads each of the others with a get of its own, which repairs the key; so does it with a value whose end has come,
//! which a get overwrites by a tombstone. The page ends where its limits say, or where the stretch does.
//!
//! Invariants:
//! - every object of the stretch before the end of the page is in the page;
//! - at most `READS_MAX` keys of a page are read at a time.
//!
//! Not here: the comparison of the bricks' pages (core/quorum), the gets (`under_way`). Source: docs/protocols/quorum.md,
//! rule 29. Catalogue: A6, I1.

use super::silence::Silence;
use super::under_way::AGAIN;
use crate::bricks::Bricks;
use crate::operation::OperationId;
use crate::outcome::{Cause, Outcome, Reply};
use crate::scan::{Page, PageLimits, ScanCursor, ScannedObject};
use ramhold_base::{ClusterTime, Instant, KeyHash, ServerId, Stamp, Status, Version};
use ramhold_quorum::{
    BrickId, Heard, Life, PageGet, PageGot, PageKey, PageOut, PageRecord, PageSaid, RecordSaid, SessionClock,
};
use ramhold_wire::brick_page::{
    BrickPageReply, BrickPageRequest, BrickPageSaid, BrickRecord, PageWants, RecordState,
};
use ramhold_wire::scan::{PAGE_BYTES_MAX, PAGE_COUNT_MAX, PAGE_OBJECT_BYTES, ScanHead};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most keys of a page that are read at a time, when bricks differ about them.
const READS_MAX: usize = 64;

/// A value as a page tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    expires: Option<ClusterTime>,
    /// Empty if values are left out.
    bytes: Vec<u8>,
}

pub struct Paging {
    pub cursor: ScanCursor,
    limits: PageLimits,
    pub bricks: Arc<Bricks>,
    pub deadline: Instant,
    /// Counts the beginnings: answers to the questions of an earlier one count no more.
    pub round: u32,
    pub silence: Silence,
    phase: Phase,
}

enum Phase {
    /// The page waits for the table's description.
    Waiting,
    Asking(PageGet<Shown>),
    Reading(Reading),
}

/// The keys of a stretch that bricks have told, some of which are read.
struct Reading {
    keys: Vec<Key>,
    /// Where the stretch ends. None: at the end of the tablet.
    next: Option<u64>,
    from: ServerId,
    /// Keys that are to be read, in their order.
    open: VecDeque<usize>,
    reads: BTreeMap<OperationId, usize>,
    /// The keys before this one are known, and count towards the limits.
    known: usize,
    count: u32,
    bytes: usize,
    last_position: Option<u64>,
}

struct Key {
    position: u64,
    key: Vec<u8>,
    /// None: it is open, or being read. `Some(None)`: there is no object.
    object: Option<Option<ScannedObject>>,
}

/// The next step of a page.
pub enum PageNext {
    Wait,
    /// Keys are to be read: see `Paging::next_read`.
    Read,
    End(Outcome),
    /// The bricks do not hold the tablet.
    Elsewhere,
    /// These bricks are silent, and the time is over.
    TooFew(Vec<BrickId>),
}

impl Paging {
    pub fn new(cursor: ScanCursor, limits: PageLimits, bricks: Arc<Bricks>, deadline: Instant) -> Paging {
        let (round, silence, phase) = (0, Silence::default(), Phase::Waiting);
        Paging { cursor, limits, bricks, deadline, round, silence, phase }
    }

    /// Begins, or begins anew. `ranked` are the bricks in the order in which they are asked.
    pub fn start(&mut self, now: Instant, ranked: &[BrickId], outs: &mut Vec<PageOut>) {
        self.round += 1;
        let of = (ranked, self.bricks.thresholds, !self.limits.keys_only);
        let mut get = PageGet::new(now, of, (self.deadline, AGAIN));
        get.start(now, outs);
        self.phase = Phase::Asking(get);
    }

    /// The last hash of the stretch: the cursor's, or the tablet's.
    fn last(&self) -> KeyHash {
        self.cursor.wanted().0.min(self.bricks.last)
    }

    pub fn request(&self, has_values: bool) -> BrickPageRequest {
        let what = match (self.limits.keys_only, has_values) {
            (true, _) => PageWants::Keys,
            (false, true) => PageWants::Values,
            (false, false) => PageWants::Lengths,
        };
        let (_, position) = self.cursor.wanted();
        let PageLimits { count, bytes, .. } = self.limits;
        let (table, first, last) = (self.cursor.table(), self.cursor.first(), self.last());
        BrickPageRequest { table, what, first, last, position, count, bytes }
    }

    /// Whether bricks are asked for the stretch.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking(_))
    }

    /// Stops asking, until `start`. A stretch that was told already is kept.
    pub fn suspend(&mut self) {
        if self.is_asking() {
            self.phase = Phase::Waiting;
        }
    }

    pub fn on_answer(
        &mut self,
        now: Instant,
        heard: Heard<PageSaid<Shown>>,
        clock: &SessionClock,
    ) -> PageNext {
        let Phase::Asking(get) = &mut self.phase else { return PageNext::Wait };
        let end = get.on_answer(heard);
        self.on_end(now, end, clock)
    }

    /// A brick refuses to answer, or its connection is gone.
    pub fn on_silent(&mut self, brick: BrickId, outs: &mut Vec<PageOut>) {
        if let Phase::Asking(get) = &mut self.phase {
            get.on_silent(brick, outs);
        }
    }

    pub fn on_time(&mut self, now: Instant, clock: &SessionClock, outs: &mut Vec<PageOut>) -> PageNext {
        let end = match &mut self.phase {
            Phase::Asking(get) => get.on_time(now, outs),
            Phase::Waiting | Phase::Reading(_) => None,
        };
        self.on_end(now, end, clock)
    }

    fn on_end(&mut self, now: Instant, end: Option<PageGot<Shown>>, clock: &SessionClock) -> PageNext {
        match end {
            None => PageNext::Wait,
            Some(PageGot::WrongOwner) => {
                self.phase = Phase::Waiting;
                PageNext::Elsewhere
            }
            Some(PageGot::NoQuorum(silent)) => PageNext::TooFew(silent),
            Some(PageGot::Found { keys, next, from }) => {
                // A brick that has told has told its time, too.
                let time = clock.now(now).unwrap_or_default();
                let is_over =
                    |shown: &Shown| shown.expires.is_some_and(|end| end.0.saturating_mul(1000) <= time);
                let key = |PageKey { position, key, agreed }: PageKey<Shown>| {
                    let agreed = agreed.filter(|(_, shown)| !is_over(shown));
                    let object = agreed.map(|(stamp, shown)| Some(object(key.clone(), stamp, shown)));
                    Key { position, key, object }
                };
                let keys: Vec<Key> = keys.into_iter().map(key).collect();
                let open = keys.iter().enumerate().filter(|(_, key)| key.object.is_none());
                let open = open.map(|(index, _)| index).collect();
                let from = ServerId(from.0);
                let (reads, known, count, bytes) = (BTreeMap::new(), 0, 0, 0);
                let last_position = None;
                let reading = Reading { keys, next, from, open, reads, known, count, bytes, last_position };
                self.phase = Phase::Reading(reading);
                self.advance()
            }
        }
    }

    /// The next key to read, if there is one and not too many are read. `read_began` must follow.
    pub fn next_read(&mut self) -> Option<Vec<u8>> {
        let Phase::Reading(reading) = &mut self.phase else { return None };
        let index = reading.open.front().filter(|_| reading.reads.len() < READS_MAX)?;
        Some(reading.keys[*index].key.clone())
    }

    /// The read of the key that `next_read` has returned is this operation.
    pub fn read_began(&mut self, read: OperationId) {
        if let Phase::Reading(reading) = &mut self.phase
            && let Some(index) = reading.open.pop_front()
        {
            reading.reads.insert(read, index);
        }
    }

    /// The operations that read keys.
    pub fn reads(&self) -> Vec<OperationId> {
        match &self.phase {
            Phase::Reading(reading) => reading.reads.keys().copied().collect(),
            Phase::Waiting | Phase::Asking(_) => Vec::new(),
        }
    }

    /// A read has ended.
    pub fn on_read(&mut self, now: Instant, read: OperationId, outcome: Outcome) -> PageNext {
        let Phase::Reading(reading) = &mut self.phase else { return PageNext::Wait };
        let Some(index) = reading.reads.remove(&read) else { return PageNext::Wait };
        let key = &mut reading.keys[index];
        match outcome {
            Outcome::Done(Reply::Read { version, time, expires, value, .. }) => {
                let value = if self.limits.keys_only { Vec::new() } else { value };
                let key_bytes = key.key.clone();
                key.object = Some(Some(ScannedObject { key: key_bytes, version, time, expires, value }));
            }
            Outcome::Refused { status: Status::NotFound, cause: Cause::Answered, .. } => {
                key.object = Some(None);
            }
            // Something newer came up each time.
            Outcome::Refused { status: Status::Retry, .. } if now < self.deadline => {
                reading.open.push_front(index);
            }
            outcome => return PageNext::End(outcome),
        }
        self.advance()
    }

    /// Ends the page if its limits are reached, or if all keys are known.
    fn advance(&mut self) -> PageNext {
        let (count_max, bytes_max) =
            (self.limits.count.min(PAGE_COUNT_MAX), self.limits.bytes.min(PAGE_BYTES_MAX) as usize);
        let Phase::Reading(reading) = &mut self.phase else { return PageNext::Wait };
        while let Some(Key { position, object: Some(object), .. }) = reading.keys.get(reading.known) {
            if let Some(object) = object {
                let bytes = PAGE_OBJECT_BYTES + object.key.len() + object.value.len();
                let is_full = reading.count >= count_max || reading.bytes + bytes > bytes_max;
                if reading.count > 0 && is_full && reading.last_position != Some(*position) {
                    let end = Some(*position);
                    return self.end(end);
                }
                (reading.count, reading.bytes) = (reading.count + 1, reading.bytes + bytes);
                reading.last_position = Some(*position);
            }
            reading.known += 1;
        }
        if reading.known < reading.keys.len() {
            return PageNext::Read;
        }
        let end = reading.next;
        self.end(end)
    }

    fn end(&mut self, next: Option<u64>) -> PageNext {
        let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Waiting) else {
            return PageNext::Wait;
        };
        let cursor = match self.cursor.after(&ScanHead { last: self.last(), next }) {
            Ok(cursor) => cursor,
            Err(status) => {
                let detail = "the bricks told a page that is no part of the scan".to_owned();
                return PageNext::End(Outcome::refused(status, Cause::Answered, detail));
            }
        };
        let known = reading.keys.into_iter().take(reading.known);
        let objects = known.filter_map(|key| key.object.flatten()).collect();
        PageNext::End(Outcome::Done(Reply::Page(Page { objects, next: cursor, answered_by: reading.from })))
    }
}

fn object(key: Vec<u8>, stamp: Stamp, Shown { expires, bytes: value }: Shown) -> ScannedObject {
    let time = ClusterTime(stamp.time / 1000).seconds();
    ScannedObject { key, version: Version(stamp.time), time, expires, value }
}

/// A brick's answer in the words of core/quorum. None: it is no answer to a question for keys from this position on.
pub fn heard(
    from: ServerId,
    position: u64,
    BrickPageReply { head, records }: BrickPageReply<'_>,
) -> Option<Heard<PageSaid<Shown>>> {
    let said = match head.said {
        BrickPageSaid::WrongOwner => PageSaid::WrongOwner,
        BrickPageSaid::Page { next, has_values } => {
            let is_ahead = records.first().is_none_or(|record| record.position >= position)
                && next.is_none_or(|next| next > position);
            if !is_ahead {
                return None;
            }
            PageSaid::Page { records: records.iter().map(record).collect(), next, has_values }
        }
    };
    let siblings = head.siblings.iter().map(|(brick, life)| (BrickId(brick.raw()), Life(*life))).collect();
    let (from, life) = (BrickId(from.raw()), Life(head.life));
    Some(Heard { from, life, siblings, epoch: head.epoch, clock: head.clock, said })
}

fn record(record: &BrickRecord<'_>) -> PageRecord<Shown> {
    let said = match record.state {
        RecordState::Open => RecordSaid::Open,
        RecordState::Tombstone(stamp) => RecordSaid::Stored(stamp, None),
        RecordState::Value { stamp, expires, value, .. } => {
            let bytes = value.unwrap_or_default().to_vec();
            RecordSaid::Stored(stamp, Some(Shown { expires, bytes }))
        }
    };
    PageRecord { position: record.position, key: record.key.to_vec(), said }
}
