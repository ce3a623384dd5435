//! Pages of a tablet's keys for sessions that scan a table: the newest record of each key, tombstones included.
//!
//! A page tells nothing that a loss of power could take back: a key whose newest record is not durable yet is *open*, and
//! the session asks for it with a get, whose answers wait until the record is durable.
//!
//! Invariants:
//! - every key that the brick has at the positions that the page covers is in the page;
//! - keys that share a position are in one page.
//!
//! Not here: the comparison of several bricks' pages (core/quorum), pages for siblings (`pages`).
//! Protocol: docs/protocols/quorum.md, rule 29. Catalogue: A6, I1.

use crate::Brick;
use crate::phase::Phase;
use crate::question::{Asker, PageTold, Refusal};
use crate::store::Store;
use crate::tables::Tablet;
use crate::words::answer_page;
use ramhold_base::{Status, TableId};
use ramhold_log::{HashRange, Scanned, Unreadable};
use ramhold_quorum::Heard;
use ramhold_wire::Step;
use ramhold_wire::brick_page::{
    BrickPageRequest, BrickPageSaid, HEAD_BYTES_MAX, PageWants, RECORD_BYTES, RecordState, encode_record_head,
};
use ramhold_wire::scan::{PAGE_BYTES_ALWAYS, PAGE_BYTES_MAX, PAGE_COUNT_MAX};

/// Index buckets that are looked at together, and the most that are looked at for one page: some 4000 keys, of any
/// tables.
const BUCKETS_AT_ONCE: u64 = 32;
const BUCKETS_MAX: u64 = 512;

/// The end of a record, if it has one.
const END_BYTES: usize = 8;

/// The records of a page so far.
#[derive(Default)]
struct Filling {
    records: Vec<u8>,
    count: u32,
    /// The bytes that count, which may be more than those that are told.
    bytes: usize,
    last_position: Option<u64>,
}

impl Brick {
    /// A session asks for a page.
    pub(crate) fn on_brick_page(
        &mut self,
        step: &mut Step<'_>,
        body: &[u8],
        asker: Asker,
    ) -> Result<(), Status> {
        let request = BrickPageRequest::decode(body)?;
        let told = self.page(step, &request).map_err(Refusal::status)?;
        answer_page(step, asker, &told);
        Ok(())
    }

    fn page(&mut self, step: &mut Step<'_>, request: &BrickPageRequest) -> Result<PageTold, Refusal> {
        if self.phase != Phase::Serving || self.is_loading() {
            return Err(Refusal::NotReady);
        }
        let time = self.clock.told(step.now);
        let range = HashRange { table: request.table, first: request.first, last: request.last };
        let hasher = self.tables.hasher(range.table).ok_or(Refusal::UnknownTable)?;
        let held = self.tables.find(range.table, range.first);
        let Some(tablet) = held.filter(|tablet| tablet.range.contains(range.table, range.last)) else {
            return self.stranger(time, range.table);
        };
        if !self.clock.is_known(&tablet.siblings) || !tablet.register.votes() {
            return Err(Refusal::NotReady);
        }
        let store = self.store.as_mut().expect("who serves has a log");
        let mut filling = Filling::default();
        let (mut from, mut buckets) = (request.position, 0);
        let mut found = Vec::new();
        let next = loop {
            found.clear();
            let hash_of = |key: &[u8]| hasher.hash(key);
            let after = store.shard.log.scan_step(range, from, BUCKETS_AT_ONCE, &hash_of, &mut found);
            let after = match after {
                Ok(walked) => walked.next,
                Err(at) => return Err(self.unreadable(step, Unreadable::Damaged(at))),
            };
            if let Some(end) = filling.take_all(store, tablet, request, &found)? {
                break Some(end);
            }
            buckets += BUCKETS_AT_ONCE;
            let Some(after) = after else { break None };
            if buckets >= BUCKETS_MAX || filling.is_full(request) {
                break Some(after);
            }
            from = after;
        };
        let said = BrickPageSaid::Page { next, has_values: request.what == PageWants::Values };
        Ok(PageTold { head: tablet.register.told(time, said), records: filling.records })
    }

    /// The answer about a range that another brick has.
    fn stranger(&self, time: u64, table: TableId) -> Result<PageTold, Refusal> {
        let own = self.tables.all().find(|tablet| tablet.range.table == table);
        let own = own.ok_or(Refusal::UnknownTable)?;
        let head = Heard { epoch: 0, ..own.register.told(time, BrickPageSaid::WrongOwner) };
        Ok(PageTold { head, records: Vec::new() })
    }
}

impl Filling {
    fn is_full(&self, request: &BrickPageRequest) -> bool {
        self.count >= request.count.min(PAGE_COUNT_MAX)
            || self.bytes >= request.bytes.min(PAGE_BYTES_MAX) as usize
    }

    /// Adds records in their order. Returns the position before which the page ends because it is full.
    fn take_all(
        &mut self,
        store: &Store,
        tablet: &Tablet,
        request: &BrickPageRequest,
        found: &[Scanned],
    ) -> Result<Option<u64>, Refusal> {
        for scanned in found {
            let shown = store.shard.log.show(scanned);
            let key = shown.key.to_vec();
            let state = state(store, tablet, scanned, &key)?;
            let counts = request.what != PageWants::Keys && !matches!(state, RecordState::Tombstone(_));
            let value_bytes = if counts { scanned.value_bytes } else { 0 };
            let bytes = RECORD_BYTES + END_BYTES + key.len() + value_bytes;
            let is_over = self.bytes + bytes > request.bytes.min(PAGE_BYTES_MAX) as usize;
            let shares_position = self.last_position == Some(scanned.position);
            if self.count > 0 && (is_over || self.is_full(request)) && !shares_position {
                return Ok(Some(scanned.position));
            }
            if HEAD_BYTES_MAX + self.bytes + bytes > PAGE_BYTES_ALWAYS as usize {
                return Err(Refusal::TooMany);
            }
            encode_record_head(&mut self.records, scanned.position, key.len(), state);
            self.records.extend_from_slice(&key);
            if request.what == PageWants::Values && matches!(state, RecordState::Value { .. }) {
                shown.value.append_to(&mut self.records);
            }
            self.count += 1;
            self.bytes += bytes;
            self.last_position = Some(scanned.position);
        }
        Ok(None)
    }
}

/// The words of a page about a record.
fn state<'a>(
    store: &Store,
    tablet: &Tablet,
    scanned: &Scanned,
    key: &[u8],
) -> Result<RecordState<'a>, Refusal> {
    if tablet.register.is_open(key) {
        return Ok(RecordState::Open);
    }
    let (stamp, is_tombstone) = store.shard.log.stamped_at(scanned.at).ok_or(Refusal::Corrupt)?;
    if is_tombstone {
        return Ok(RecordState::Tombstone(stamp));
    }
    let bytes = u32::try_from(scanned.value_bytes).map_err(|_| Refusal::Corrupt)?;
    Ok(RecordState::Value { stamp, expires: scanned.expires, bytes, value: None })
}
