//! Cuts and joins the tablets that are served here, as the coordinator has stored it.
//!
//! The coordinator tells this master all its tablets of a table. The objects of each part of a tablet that is to be cut
//! are counted by a walk in slices. Meanwhile nothing changes for anybody. When the walk is over, tablets and counts
//! change in one step.
//!
//! Invariants:
//! - a division is never carried out after a newer division was heard;
//! - a tablet is served at every moment, and its count is that of a walk over the index.
//!
//! Rules: docs/protocols/tablets.md, 6 and 7. Catalogue: A6, A8, B3.

use crate::service::Service;
use crate::tablets::{Tablet, TabletState, Tablets};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, DivisionId, Effects, Instant, KeyHash, Mark, Peer, SegmentId, Status, TableId};
use ramhold_log::HashRange;
use ramhold_shard::Shard;
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::{TabletDivide, TabletWeights, TabletsWeighed};
use ramhold_wire::{Header, Step, decode, reply, reply_with};
use std::collections::BTreeSet;

/// A division that is being carried out.
#[derive(Debug)]
struct Dividing {
    table: TableId,
    /// The tablets after the division.
    ranges: Vec<HashRange>,
    /// The parts into which tablets are cut, once the walk has begun that counts them.
    parts: Option<Vec<HashRange>>,
    header: Header,
    from: ConnId,
}

/// Tablets to be cut and joined.
#[derive(Debug, Default)]
pub(crate) struct Divisions {
    /// One entry for each table.
    divisions: Vec<Dividing>,
    /// The damaged segment at which the recount for the first division has stopped.
    waits_for: Option<SegmentId>,
}

impl Divisions {
    /// Whether a tablet of this table is to be cut or joined.
    pub fn has(&self, table: TableId) -> bool {
        self.divisions.iter().any(|division| division.table == table)
    }

    pub fn on_request(
        &mut self,
        step: &mut Step<'_>,
        service: &mut Service,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        match self.check(step.now, service, body) {
            Ok((table, ranges)) => {
                let division = Dividing { table, ranges, parts: None, header: *header, from };
                let before = self.divisions.iter_mut().find(|d| d.table == table);
                match before {
                    // The coordinator asks again: only the last question is answered. The walk goes on if the division
                    // is the same.
                    Some(before) if before.ranges == division.ranges => {
                        (before.header, before.from) = (*header, from);
                    }
                    Some(before) => *before = division,
                    None => self.divisions.push(division),
                }
            }
            Err(status) => reply(step.effects, Peer::Conn(from), header, status),
        }
    }

    fn check(
        &self,
        now: Instant,
        service: &mut Service,
        body: &[u8],
    ) -> Result<(TableId, Vec<HashRange>), Status> {
        let TabletDivide { table, division, tablets } = decode(body)?;
        let ranges: Vec<HashRange> =
            tablets.iter().map(|span| HashRange { table, first: span.first, last: span.last }).collect();
        let is_sound = !ranges.is_empty()
            && ranges.iter().all(|r| r.first <= r.last)
            && ranges.windows(2).all(|pair| pair[0].last < pair[1].first);
        if !is_sound {
            return Err(Status::BadRequest);
        }
        if service.tablets.was_dropped(table) {
            return Err(Status::UnknownTable);
        }
        if service.tablets.is_reclassed(table) || service.tablets.is_moving(table) {
            return Err(Status::Retry);
        }
        if !service.tablets.may_divide(&ranges) {
            if service.tablets.division_mut(table).is_some_and(|heard| division >= *heard) {
                service.unite(now, table, &ranges);
            }
            return Err(Status::Retry);
        }
        service.to_unite.remove(&table);
        if !service.tablets.hear_division(table, division) && !planted(Defect::OldDivisionTaken) {
            return Err(Status::NotAllowed);
        }
        Ok((table, ranges))
    }

    /// Whether a division has something to count.
    pub fn is_busy(&self, shard: &Shard) -> bool {
        !self.divisions.is_empty() && !self.is_waiting(shard)
    }

    /// Whether the walk has met damage that is being repaired.
    fn is_waiting(&self, shard: &Shard) -> bool {
        self.waits_for.is_some_and(|segment| shard.scrub.is_damaged(segment))
    }

    /// Carries divisions out one after the other: the log counts the parts of one table at a time.
    pub fn advance(&mut self, step: &mut Step<'_>, service: &mut Service) {
        if self.divisions.is_empty() || self.is_waiting(&service.shard) {
            return;
        }
        let Dividing { table, ref ranges, ref parts, ref header, from } = self.divisions[0];
        let (header, to) = (*header, Peer::Conn(from));
        if !service.tablets.may_divide(ranges) {
            // The table was dropped.
            service.shard.log.end_recount();
            self.divisions.remove(0);
            return reply(step.effects, to, &header, Status::UnknownTable);
        }
        let cut = service.tablets.parts(ranges);
        if cut.is_empty() {
            // If there was a walk for an older division, it did not finish.
            service.shard.log.end_recount();
        } else {
            if parts.as_ref() != Some(&cut) {
                service.shard.log.begin_recount(table, &cut);
                self.divisions[0].parts = Some(cut);
            }
            let hasher = service.tablets.hasher(table).expect("it has tablets");
            match service
                .shard
                .log
                .recount_step(table, service.config.recount_buckets, &|key| hasher.hash(key))
            {
                Ok(true) => step.effects.mark(Mark::TabletCut),
                Ok(false) => return,
                Err(at) => {
                    let (segment, offset) = service.shard.log.place_of(at);
                    self.waits_for = Some(segment);
                    return service.shard.note_damage(step, segment, offset);
                }
            }
        }
        let Dividing { ranges, .. } = self.divisions.remove(0);
        service.shard.log.divide(&ranges);
        if service.tablets.divide(&ranges) {
            step.effects.mark(Mark::TabletsJoined);
        }
        reply(step.effects, to, &header, Status::Ok);
    }
}

impl Service {
    /// Tells where the objects of a table lie here, so that the asker can cut the table evenly. The next head would
    /// tell the same rows.
    pub fn on_tablet_weights(&self, header: &Header, body: &[u8], from: ConnId, effects: &mut Effects) {
        let question: TabletWeights = match decode(body) {
            Ok(question) => question,
            Err(status) => return reply(effects, Peer::Conn(from), header, status),
        };
        let rows = self.shard.log.will().into_iter().filter(|row| row.table == question.table);
        let rows = rows.map(|row| TabletStat {
            table: row.table,
            first: row.first,
            last: row.last,
            bytes: row.bytes,
            records: row.records,
        });
        let weighed = TabletsWeighed { rows: rows.collect() };
        reply_with(effects, Peer::Conn(from), header, Status::Ok, &weighed);
    }
}

impl Tablets {
    /// Whether each of these ranges is served, in one stream, and no tablet lies partly inside them. Tablets outside
    /// all of them do not matter here: they were taken a moment ago.
    fn may_divide(&self, ranges: &[HashRange]) -> bool {
        ranges.iter().all(|range| {
            let mut next = Some(range.first);
            let mut stream = None;
            while let Some(first) = next.filter(|first| *first <= range.last) {
                let Some(tablet) = self.of_hash(range.table, first) else { return false };
                if tablet.state != TabletState::Serving
                    || *stream.get_or_insert(tablet.stream) != tablet.stream
                {
                    return false;
                }
                next = tablet.range.last.0.checked_add(1).map(KeyHash);
            }
            true
        }) && self.within(ranges).iter().all(|tablet| are_covered(ranges, tablet.range))
    }

    /// The tablets that have a hash in one of these ranges, in order.
    fn within(&self, ranges: &[HashRange]) -> Vec<Tablet> {
        let Some(table) = ranges.first().map(|range| range.table) else { return Vec::new() };
        let meets = |t: &Tablet| ranges.iter().any(|r| t.range.first <= r.last && r.first <= t.range.last);
        self.of(table).filter(|tablet| meets(tablet)).copied().collect()
    }

    /// The parts into which tablets are cut whose middle a range begins or ends in.
    fn parts(&self, ranges: &[HashRange]) -> Vec<HashRange> {
        let mut parts = Vec::new();
        for Tablet { range, .. } in self.within(ranges) {
            let begins: BTreeSet<KeyHash> = ranges
                .iter()
                .map(|r| r.first)
                .filter(|first| range.first < *first && *first <= range.last)
                .collect();
            if begins.is_empty() {
                continue;
            }
            let firsts: Vec<KeyHash> = [range.first].into_iter().chain(begins).collect();
            for (index, first) in firsts.iter().enumerate() {
                let last = firsts.get(index + 1).map_or(range.last, |next| KeyHash(next.0 - 1));
                parts.push(HashRange { first: *first, last, ..range });
            }
        }
        parts
    }

    /// Makes one tablet of each of these ranges. Returns whether tablets were joined.
    fn divide(&mut self, ranges: &[HashRange]) -> bool {
        let old = self.within(ranges);
        let mut joined = false;
        let new = ranges.iter().map(|range| {
            let parts: Vec<&Tablet> =
                old.iter().filter(|t| t.range.first <= range.last && range.first <= t.range.last).collect();
            joined |= parts.len() > 1;
            Tablet {
                range: *range,
                // The newest first segment tells the tablet apart from others. The coordinator knows which ones count
                // in a recovery.
                first_segment: parts.iter().map(|t| t.first_segment).max().expect("it is served"),
                version_floor: parts.iter().map(|t| t.version_floor).max().expect("it is served"),
                has_losses: parts.iter().any(|t| t.has_losses),
                // The coordinator tells divisions that it has stored.
                is_confirmed: true,
                ..*parts[0]
            }
        });
        let new: Vec<Tablet> = new.collect();
        self.replace(&old, new);
        joined
    }

    /// Notes the number of a division that was told. `false`: the number is older than one that was heard before.
    pub(crate) fn hear_division(&mut self, table: TableId, division: DivisionId) -> bool {
        let heard = self.division_mut(table).expect("the table has tablets here");
        let is_old = division < *heard;
        *heard = division.max(*heard);
        !is_old
    }
}

/// Whether ranges in order contain every hash of `whole`.
fn are_covered(ranges: &[HashRange], whole: HashRange) -> bool {
    let mut next = whole.first;
    for range in ranges.iter().filter(|r| r.last >= whole.first) {
        if range.first > next {
            return false;
        }
        if range.last >= whole.last {
            return true;
        }
        next = KeyHash(range.last.0 + 1);
    }
    false
}
