//! Pages of a table's objects, each as true as a read.
//!
//! A page shows what the log holds at the positions that the page covers. It is told when everything that was appended
//! before it is durable. So a crash can take back neither an object of the page nor the absence of one. Like a read, a
//! page needs the read lease. Expired objects are removed first, as by a read.
//!
//! Invariant: an object at a position that the page covers is in the page, or is over.
//!
//! Not here: the order of positions (log), the position of a scan (client). Catalogue: A6.

use crate::expiry::is_past_for_all;
use crate::multi::Asker;
use crate::parked::Answer;
use crate::service::Service;
use crate::tablets::Tablet;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, ConnId, Mark, Peer, Position, Status, Version};
use ramhold_log::{HashRange, Scanned, Unreadable};
use ramhold_wire::scan::{
    PAGE_BYTES_ALWAYS, PAGE_BYTES_MAX, PAGE_COUNT_MAX, PAGE_HEAD_BYTES, PAGE_OBJECT_BYTES, ScanHead,
    ScanRequest, encode_object_head,
};
use ramhold_wire::{Header, Step, reply};

/// Index buckets that are looked at together, and the most that are looked at for one page: some 4000 objects, of any
/// tables.
const BUCKETS_AT_ONCE: u64 = 32;
const BUCKETS_MAX: u64 = 512;
/// How often the same buckets are looked at again because objects in them were over.
const ROUNDS_MAX: u32 = 3;

impl Service {
    pub fn on_scan(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let request = match ScanRequest::decode(body) {
            Ok(request) => request,
            Err(status) => return reply(step.effects, Peer::Conn(from), header, status),
        };
        let tablet = match self.serving_hash(request.table, request.first) {
            Ok(tablet) => tablet,
            Err(status) => return reply(step.effects, Peer::Conn(from), header, status),
        };
        self.counters.reads += 1;
        let last = request.last.min(tablet.last_with(request.first));
        let range = HashRange { table: request.table, first: request.first, last };
        let page = match self.page(step, range, &request, &tablet) {
            Ok(page) => page,
            // The refusal is for good, and so it is an answer as much as a page is.
            Err(Status::Corrupt) => {
                let (to, answer) = (Asker::Conn(from), Answer::of(Status::Corrupt, Version::NONE));
                return self.answers.answer_when_leased(step, &self.shard, step.now, to, header, answer);
            }
            Err(status) => return reply(step.effects, Peer::Conn(from), header, status),
        };
        let position = if tablet.unreplicated || planted(Defect::PageEarly) {
            Position::default()
        } else {
            self.shard.log.head_end(tablet.stream)
        };
        if position > self.shard.durable(tablet.stream) && self.answers.is_crowded(tablet.stream) {
            return reply(step.effects, Peer::Conn(from), header, Status::TooMany);
        }
        step.effects.mark(Mark::Page);
        let to = Asker::Conn(from);
        self.answers.answer_read(
            step,
            &self.shard,
            (tablet.stream, position),
            to,
            header,
            Answer::Body(page),
        );
    }

    fn page(
        &mut self,
        step: &mut Step<'_>,
        range: HashRange,
        request: &ScanRequest,
        tablet: &Tablet,
    ) -> Result<Vec<u8>, Status> {
        let is_blocked = self.shard.is_blocked(step.now, tablet.stream);
        let hasher = self.tablets.hasher(range.table).ok_or(Status::WrongOwner)?;
        let hash_of = |key: &[u8]| hasher.hash(key);
        let count_max = request.count.min(PAGE_COUNT_MAX);
        let bytes_max = request.bytes.min(PAGE_BYTES_MAX) as usize;
        let mut objects = Vec::new();
        let (mut count, mut last_position) = (0, None);
        let (mut from, mut buckets, mut rounds) = (request.position, 0, 0);
        let mut found = Vec::new();
        let next = 'page: loop {
            found.clear();
            let after = self.shard.log.scan_step(range, from, BUCKETS_AT_ONCE, &hash_of, &mut found);
            let after = after.map_err(|at| self.unreadable(step, Unreadable::Damaged(at)))?.next;
            if tablet.unreplicated && !request.pass_lost && self.shard.log.has_lost_between(from, after) {
                return Err(Status::Corrupt);
            }
            let is_over = |end: &ClusterTime| *end <= step.view.time(step.now);
            let over = found.iter().filter(|scanned| scanned.expires.as_ref().is_some_and(is_over));
            let over: Vec<_> =
                over.map(|scanned| (scanned.hash, self.shard.log.key_of(scanned.at).1)).collect();
            if !over.is_empty() && is_blocked {
                // These objects cannot be removed durably. They are left out if no later owner would show them.
                let is_there =
                    |scanned: &Scanned| scanned.expires.is_none_or(|end| end > step.view.time(step.now));
                let is_past = |end: &ClusterTime| is_past_for_all(*end, step.now, step.view);
                found.retain(|scanned| is_there(scanned) || !scanned.expires.as_ref().is_some_and(is_past));
                if !found.iter().all(is_there) {
                    return Err(Status::Retry);
                }
            } else if !over.is_empty() {
                rounds += 1;
                if rounds > ROUNDS_MAX {
                    return Err(Status::Retry);
                }
                for (hash, key) in over {
                    let tablet = self.serving_hash(range.table, hash)?;
                    self.expire_if_over(step, &tablet, range.table, hash, &key)?;
                }
                // The objects that were found may have moved.
                continue;
            }
            for scanned in &found {
                let value_bytes = if request.keys_only { 0 } else { scanned.value_bytes };
                let bytes = PAGE_OBJECT_BYTES + scanned.key_bytes + value_bytes;
                let is_full = count >= count_max || objects.len() + bytes > bytes_max;
                if count > 0 && is_full && last_position != Some(scanned.position) {
                    break 'page Some(scanned.position);
                }
                if PAGE_HEAD_BYTES + objects.len() + bytes > PAGE_BYTES_ALWAYS as usize {
                    return Err(Status::FrameTooLarge);
                }
                let shown = self.shard.log.show(scanned);
                let fields = (shown.version, shown.time, scanned.expires);
                encode_object_head(&mut objects, fields, scanned.key_bytes, value_bytes);
                shown.key.append_to(&mut objects);
                if !request.keys_only {
                    shown.value.append_to(&mut objects);
                }
                count += 1;
                last_position = Some(scanned.position);
            }
            buckets += BUCKETS_AT_ONCE;
            let Some(after) = after else { break None };
            if buckets >= BUCKETS_MAX || count >= count_max || objects.len() >= bytes_max {
                break Some(after);
            }
            (from, rounds) = (after, 0);
        };
        let mut page = Vec::with_capacity(PAGE_HEAD_BYTES + objects.len());
        ScanHead { last: range.last, next }.encode(&mut page);
        page.extend_from_slice(&objects);
        Ok(page)
    }
}
