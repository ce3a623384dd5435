//! Cutting and joining the tablets that are served here, as the coordinator has stored it.
//!
//! The coordinator tells all tablets of a table that are this master's. What is to be cut is counted anew by a walk in
//! slices; meanwhile nothing changes for anybody. When the walk is over, tablets and counts change in one step.
//!
//! Invariants:
//! - what an older division says than one that was heard is never done;
//! - a tablet is served at every moment, and its count is that of a walk over the index.
//!
//! Rules: docs/protocols/tablets.md, 6 and 7. Catalogue: A6, A8, B3.

use crate::Master;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, DivisionId, Effects, KeyHash, Level, Peer, Status, TableId};
use ramhold_log::HashRange;
use ramhold_wire::recovery::TabletStat;
use ramhold_wire::table::{TabletDivide, TabletWeights, TabletsWeighed};
use ramhold_wire::{Header, Step, decode, reply, reply_with};
use std::collections::BTreeSet;

/// Index buckets looked at in one turn: some 2000 objects, each of which is read and verified.
pub(crate) const RECOUNT_BUCKETS: u64 = 256;

/// A division that is being carried out.
#[derive(Debug)]
pub(crate) struct Dividing {
    table: TableId,
    /// As they are to be.
    ranges: Vec<HashRange>,
    /// Those of the ranges to be that are parts of a tablet, when the walk has begun that counts them.
    parts: Option<Vec<HashRange>>,
    header: Header,
    from: ConnId,
}

impl Dividing {
    pub fn is_of(&self, table: TableId) -> bool {
        self.table == table
    }
}

impl Master {
    pub(crate) fn on_tablet_divide(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
        match self.check_division(body) {
            Ok((table, ranges)) => {
                let division = Dividing { table, ranges, parts: None, header: *header, from };
                let before = self.divisions.iter_mut().find(|d| d.table == table);
                match before {
                    // Asked again: only the last asker is answered, and the walk goes on if it is for the same.
                    Some(before) if before.ranges == division.ranges => {
                        (before.header, before.from) = (*header, from);
                    }
                    Some(before) => *before = division,
                    None => self.divisions.push(division),
                }
            }
            Err(status) => reply(effects, Peer::Conn(from), header, status),
        }
    }

    /// Where what is here of a table lies, for whoever wants to cut it evenly: what the next head would tell.
    pub(crate) fn on_tablet_weights(
        &self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        effects: &mut Effects,
    ) {
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

    fn check_division(&mut self, body: &[u8]) -> Result<(TableId, Vec<HashRange>), Status> {
        let TabletDivide { table, division, tablets } = decode(body)?;
        let ranges: Vec<HashRange> =
            tablets.iter().map(|span| HashRange { table, first: span.first, last: span.last }).collect();
        let is_sound = !ranges.is_empty()
            && ranges.iter().all(|r| r.first <= r.last)
            && ranges.windows(2).all(|pair| pair[0].last < pair[1].first);
        if !is_sound {
            return Err(Status::BadRequest);
        }
        if self.tablets.was_dropped(table) {
            return Err(Status::UnknownTable);
        }
        if self.migrating.is_wanted(table)
            || self.migrating.is_moving(table)
            || !self.tablets.may_divide(&ranges)
        {
            return Err(Status::Retry);
        }
        if !self.tablets.hear_division(table, division) && !planted(Defect::OldDivisionTaken) {
            return Err(Status::NotAllowed);
        }
        Ok((table, ranges))
    }

    /// Whether there is something to count.
    pub(crate) fn is_dividing(&self) -> bool {
        !self.divisions.is_empty() && !self.is_recount_waiting()
    }

    /// Whether the walk has met damage that is being repaired.
    fn is_recount_waiting(&self) -> bool {
        self.recount_waits_for.is_some_and(|segment| self.shard.scrub.is_damaged(segment))
    }

    /// One after the other: the log counts the parts of one table at a time.
    pub(crate) fn advance_divisions(&mut self, step: &mut Step<'_>) {
        if self.divisions.is_empty() || self.is_recount_waiting() {
            return;
        }
        let Dividing { table, ref ranges, ref parts, ref header, from } = self.divisions[0];
        let (header, to) = (*header, Peer::Conn(from));
        if !self.tablets.may_divide(ranges) {
            // The table was dropped.
            self.shard.log.end_recount();
            self.divisions.remove(0);
            return reply(step.effects, to, &header, Status::UnknownTable);
        }
        let cut = self.tablets.parts(ranges);
        if cut.is_empty() {
            // A walk for an older division, if there was one, did not come to its end.
            self.shard.log.end_recount();
        } else {
            if parts.as_ref() != Some(&cut) {
                self.shard.log.begin_recount(table, &cut);
                self.divisions[0].parts = Some(cut);
            }
            let hasher = self.tablets.hasher(table).expect("it has tablets");
            match self.shard.log.recount_step(table, self.config.recount_buckets, &|key| hasher.hash(key)) {
                Ok(true) => step.effects.report(Level::Debug, "mark:tablet_cut"),
                Ok(false) => return,
                Err(at) => {
                    let (segment, offset) = self.shard.log.place_of(at);
                    self.recount_waits_for = Some(segment);
                    return self.note_damage(step, segment, offset);
                }
            }
        }
        let Dividing { ranges, .. } = self.divisions.remove(0);
        self.shard.log.divide(&ranges);
        if self.tablets.divide(&ranges) {
            step.effects.report(Level::Debug, "mark:tablets_joined");
        }
        reply(step.effects, to, &header, Status::Ok);
    }
}

impl crate::tablets::Tablets {
    /// Whether these ranges are served, each in one stream, and no tablet lies in one of them in part alone. What lies in
    /// none is nobody's concern here: it was taken a moment ago.
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

    /// What the tablets that a range begins or ends in the middle of are to be cut into.
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

    /// Each of these ranges becomes one tablet. Whether tablets were joined.
    fn divide(&mut self, ranges: &[HashRange]) -> bool {
        let old = self.within(ranges);
        let mut joined = false;
        let new = ranges.iter().map(|range| {
            let parts: Vec<&Tablet> =
                old.iter().filter(|t| t.range.first <= range.last && range.first <= t.range.last).collect();
            joined |= parts.len() > 1;
            Tablet {
                range: *range,
                // The newest tells it apart from others; what counts in a recovery the coordinator knows.
                first_segment: parts.iter().map(|t| t.first_segment).max().expect("it is served"),
                version_floor: parts.iter().map(|t| t.version_floor).max().expect("it is served"),
                has_losses: parts.iter().any(|t| t.has_losses),
                // The coordinator tells what it has stored.
                is_confirmed: true,
                ..*parts[0]
            }
        });
        let new: Vec<Tablet> = new.collect();
        self.replace(&old, new);
        joined
    }

    /// Notes the number of a division that was told. `false`: it is older than one that was heard before.
    pub(crate) fn hear_division(&mut self, table: TableId, division: DivisionId) -> bool {
        let heard = self.division_mut(table).expect("the table has tablets here");
        let is_old = division < *heard;
        *heard = division.max(*heard);
        !is_old
    }
}

/// Whether ranges that lie in order hold every hash of this one.
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
