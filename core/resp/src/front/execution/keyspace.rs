//! Commands over all keys of a database: they walk over its table a page at a time, or empty it.
//!
//! A `SCAN` cursor is a number that any server understands. It holds the slot where the walk stands, the last
//! slot of the stretch that has been shown in part, and the position up to which that stretch has been shown
//! (in the masters' order of keys, which is the same on all). The position is rounded down, so an object may
//! come twice, as Redis allows. An object that is there all the time is never left out.
//!
//! Clients of Redis Cluster walk by asking every server. Their walks go over the tablets of the server that
//! is asked, and over no others. Walks over a quorum table go over all its keys, whoever asks: each server shows
//! all slots of such a table as its own. Bricks do not count their objects, so `DBSIZE` looks at every key.

use crate::front::access::Access;
use crate::front::access::answer::{Answer, fault_of};
use crate::front::access::tables::Known;
use crate::front::access::tickets::Part;
use crate::front::bounds::{PATTERN_BYTES_MAX, PATTERN_TOO_LONG, REPLY_BYTES_MAX};
use crate::front::clients::asker::Asker;
use crate::front::host::Host;
use crate::front::step::Step;
use crate::parse::integer;
use crate::{Fault, Front, Reply};
use ramhold_base::glob::{Case, matches};
use ramhold_base::{KeyHash, Status, TableId};
use ramhold_client_core::{Operation, PageLimits, ScanCursor, TableCount};

/// Bytes of keys that `KEYS` answers at most.
const KEYS_BYTES_MAX: usize = REPLY_BYTES_MAX;
/// Objects that a `SCAN` looks at when it gives no `COUNT`.
const SCAN_COUNT: u32 = 10;

/// The bits of a short cursor for the last slot, set to the table's last slot. The bits above them hold the
/// first slot, those below them the position.
const SHORT_LAST_SLOT: u64 = 0x3FFF << 36;

#[derive(Debug)]
enum Kind {
    Keys {
        pattern: Vec<u8>,
    },
    Scan {
        pattern: Option<Vec<u8>>,
        count: u32,
        shows: bool,
        start: u64,
    },
    /// `has_wrapped`: the walk has gone on at the beginning of the table.
    Random {
        has_wrapped: bool,
    },
    Size(TableCount),
    /// The size of this server's part. `left`: the first hashes of tablets that are not counted yet.
    PartSize {
        left: Vec<KeyHash>,
    },
    /// The size, by looking at every key, because bricks hold the table, objects were lost and their number is
    /// unknown, or tablets were joined behind the count.
    Tally,
    /// Tables that are still to be emptied before the reply.
    Flush {
        left: Vec<TableId>,
        is_listed: bool,
    },
}

#[derive(Debug)]
pub struct Walk {
    kind: Kind,
    table: TableId,
    /// The only ranges of hashes that the walk goes over, in ascending order. `None`: it goes over all
    /// hashes.
    part: Option<Vec<(KeyHash, KeyHash)>>,
    found: Vec<Vec<u8>>,
    found_bytes: usize,
    count: u64,
}

/// The next step of a walk.
enum Next {
    Ask(Operation),
    Over,
}

impl Walk {
    /// A command over all keys of a table, or over `part` of them. The fault says what is wrong with the arguments.
    pub fn new(
        front: Front,
        args: &[&[u8]],
        known: Option<Known>,
        part: Option<Vec<(KeyHash, KeyHash)>>,
    ) -> Result<Walk, Fault> {
        let table = known.map_or(TableId::default(), |known| known.table);
        let kind = match front {
            Front::Keys => Kind::Keys { pattern: pattern(args[1])? },
            Front::Scan => scan(args)?,
            Front::RandomKey => Kind::Random { has_wrapped: false },
            Front::DbSize if known.is_some_and(|known| known.is_quorum) => Kind::Tally,
            Front::DbSize => match &part {
                Some(part) => Kind::PartSize { left: part.iter().rev().map(|(first, _)| *first).collect() },
                None => Kind::Size(TableCount::new(table)),
            },
            Front::FlushDb => {
                check_flush(args)?;
                Kind::Flush { left: vec![table], is_listed: true }
            }
            _ => {
                check_flush(args)?;
                Kind::Flush { left: Vec::new(), is_listed: false }
            }
        };
        Ok(Walk { kind, table, part, found: Vec::new(), found_bytes: 0, count: 0 })
    }

    fn limits(&self) -> PageLimits {
        let count = match &self.kind {
            Kind::Scan { count, .. } => *count,
            Kind::Random { .. } => 64,
            _ => u32::MAX,
        };
        PageLimits { count, keys_only: true, pass_lost: true, ..PageLimits::default() }
    }

    /// Asks for the page at `cursor`, or at the next hash behind it that the walk goes over.
    fn ask(&self, cursor: ScanCursor) -> Next {
        match self.within(cursor) {
            Some(cursor) => Next::Ask(Operation::Scan { cursor, limits: self.limits() }),
            None => Next::Over,
        }
    }

    fn within(&self, cursor: ScanCursor) -> Option<ScanCursor> {
        let Some(part) = &self.part else { return Some(cursor) };
        let (first, _) = part.iter().find(|(_, last)| *last >= cursor.first())?;
        Some(if *first > cursor.first() { ScanCursor::at(self.table, *first) } else { cursor })
    }

    /// The first request of a walk. `random` may be any number.
    fn first(&mut self, random: u64) -> Next {
        match &mut self.kind {
            Kind::Flush { left, .. } => match left.pop() {
                Some(table) => Next::Ask(Operation::TruncateTable { table }),
                None => Next::Ask(Operation::ListTables),
            },
            Kind::Scan { start, .. } => {
                let cursor = ScanCursor::from_short(self.table, *start);
                self.ask(cursor)
            }
            Kind::Random { .. } => {
                // The walk goes over the hashes from any slot to the end of the table, and begins among them
                // at any position. If keys are few, a walk from the first position would always meet the same
                // one.
                let behind = self.within(ScanCursor::from_short(self.table, random | SHORT_LAST_SLOT));
                self.ask(behind.unwrap_or_else(|| ScanCursor::new(self.table)))
            }
            Kind::PartSize { .. } => self.count_part(),
            Kind::Size(count) => count.ask().map_or(Next::Over, Next::Ask),
            Kind::Keys { .. } | Kind::Tally => self.ask(ScanCursor::new(self.table)),
        }
    }

    fn count_part(&mut self) -> Next {
        let Kind::PartSize { left } = &mut self.kind else { return Next::Over };
        let next = left.pop().map(|first| Operation::Count { table: self.table, first });
        next.map_or(Next::Over, Next::Ask)
    }

    fn on_page(&mut self, keys: Vec<Vec<u8>>, next: Option<ScanCursor>) -> Result<Next, Fault> {
        let next = next.and_then(|next| self.within(next));
        match &mut self.kind {
            Kind::Keys { pattern } => {
                let pattern = pattern.clone();
                self.take(keys, Some(&pattern));
                if self.found_bytes > KEYS_BYTES_MAX {
                    return Err(Fault::fixed("ERR KEYS answers at most 33554432 bytes: use SCAN"));
                }
            }
            Kind::Scan { pattern, shows, .. } => {
                let (pattern, shows) = (pattern.clone(), *shows);
                if shows {
                    self.take(keys, pattern.as_deref());
                }
            }
            Kind::Random { has_wrapped } => {
                if !keys.is_empty() {
                    self.take(keys, None);
                    return Ok(Next::Over);
                }
                if next.is_none() && !*has_wrapped {
                    *has_wrapped = true;
                    return Ok(self.ask(ScanCursor::new(self.table)));
                }
            }
            Kind::Tally => self.count += keys.len() as u64,
            Kind::Flush { .. } | Kind::Size(_) | Kind::PartSize { .. } => {}
        }
        let Some(next) = next else {
            self.count = if matches!(self.kind, Kind::Scan { .. }) { 0 } else { self.count };
            return Ok(Next::Over);
        };
        if let Kind::Scan { start, .. } = self.kind {
            let short = next.to_short();
            // A page may end so close to its beginning that the rounded number cannot tell the two apart.
            if short != 0 && short != start {
                self.count = short;
                return Ok(Next::Over);
            }
        }
        Ok(self.ask(next))
    }

    fn take(&mut self, keys: Vec<Vec<u8>>, pattern: Option<&[u8]>) {
        for key in keys {
            if pattern.is_none_or(|pattern| matches(pattern, &key, Case::Matters)) {
                self.found_bytes += key.len() + 16;
                self.found.push(key);
            }
        }
    }

    fn write(&self, reply: &mut Reply<'_>, random: u64) {
        match &self.kind {
            Kind::Flush { .. } => reply.ok(),
            Kind::Size(count) => reply.integer(count.objects() as i64),
            Kind::Tally | Kind::PartSize { .. } => reply.integer(self.count as i64),
            Kind::Random { .. } if self.found.is_empty() => reply.null(),
            Kind::Random { .. } => reply.bulk(&self.found[(random % self.found.len() as u64) as usize]),
            Kind::Keys { .. } => self.write_found(reply),
            Kind::Scan { .. } => {
                reply.array(2);
                reply.bulk(self.count.to_string().as_bytes());
                self.write_found(reply);
            }
        }
    }

    fn write_found(&self, reply: &mut Reply<'_>) {
        reply.array(self.found.len());
        for key in &self.found {
            reply.bulk(key);
        }
    }
}

impl Walk {
    /// Asks for the first part of the walk. Returns true if there is none; the reply is then written.
    pub fn begin<H>(
        &mut self,
        step: &mut Step<'_, H>,
        access: &mut Access,
        part: Part,
        reply: &mut Reply<'_>,
    ) -> bool {
        match self.first(step.rng.u64()) {
            Next::Ask(operation) => {
                access.posted.push(operation, part);
                false
            }
            Next::Over => {
                self.write(reply, step.rng.u64());
                true
            }
        }
    }

    /// Takes an answer to a part of the walk. Returns true if the reply of the walk is written.
    pub fn on_answer(
        &mut self,
        step: &mut Step<'_, impl Host>,
        access: &mut Access,
        db: u16,
        (part, answer): (Part, Answer<'_>),
        reply: &mut Reply<'_>,
    ) -> bool {
        let next = match answer {
            Answer::Page(page) => {
                let keys = page.objects.into_iter().map(|object| object.key).collect();
                self.on_page(keys, page.next)
            }
            Answer::Counted { last, objects } => {
                if let Kind::Size(count) = &mut self.kind {
                    count.take(last, objects);
                    Ok(count.ask().map_or(Next::Over, Next::Ask))
                } else {
                    self.count += objects;
                    Ok(self.count_part())
                }
            }
            Answer::Tables(tables) => {
                let names: Vec<String> =
                    (0..step.config.databases).map(|db| step.config.table_name(db)).collect();
                if let Kind::Flush { left, is_listed } = &mut self.kind {
                    *is_listed = true;
                    left.extend(
                        tables.iter().filter(|table| names.contains(&table.name)).map(|table| table.table),
                    );
                }
                self.flush_on(access)
            }
            Answer::TableTruncated | Answer::NoTable if matches!(self.kind, Kind::Flush { .. }) => {
                self.flush_on(access)
            }
            Answer::NoTable => {
                // The database was emptied, perhaps long ago. The walk begins anew in the table that is there
                // now.
                if let Part::Command { command, .. } = part {
                    access.databases.forget_one(db, self.table);
                    access.wait_for_table(step, db, command);
                }
                return false;
            }
            Answer::Fault(fault)
                if matches!(self.kind, Kind::Size(_) | Kind::PartSize { .. })
                    && [Status::Corrupt, Status::NotAllowed].iter().any(|s| fault == fault_of(*s, "")) =>
            {
                // The number of objects is unknown for a tablet that has lost some; or tablets were joined
                // behind the count.
                (self.kind, self.count) = (Kind::Tally, 0);
                Ok(self.first(0))
            }
            Answer::Fault(fault) => Err(fault),
            other => Err(Fault::said(format!("ERR unexpected answer: {other:?}"))),
        };
        match next {
            Ok(Next::Ask(operation)) => {
                access.posted.push(operation, part);
                false
            }
            Ok(Next::Over) => {
                self.write(reply, step.rng.u64());
                true
            }
            Err(fault) => {
                reply.fault(&fault);
                true
            }
        }
    }

    fn flush_on(&mut self, access: &mut Access) -> Result<Next, Fault> {
        access.databases.forget_all();
        let Kind::Flush { left, .. } = &mut self.kind else { return Ok(Next::Over) };
        Ok(match left.pop() {
            Some(table) => Next::Ask(Operation::TruncateTable { table }),
            None => Next::Over,
        })
    }
}

/// The part of a table that the asker's walks go over. `None`: all of the table.
pub fn part_of(asker: &Asker, known: Option<Known>, host: &impl Host) -> Option<Vec<(KeyHash, KeyHash)>> {
    let divided = known.filter(|known| asker.is_of_cluster && !known.is_quorum);
    divided.map(|known| host.ranges_served(known.table))
}

fn scan(args: &[&[u8]]) -> Result<Kind, Fault> {
    let invalid = Fault::fixed("ERR invalid cursor");
    let text = std::str::from_utf8(args[1]).map_err(|_| invalid.clone())?;
    let start: u64 = text.parse().map_err(|_| invalid)?;
    let (mut wanted, mut count, mut shows) = (None, SCAN_COUNT, true);
    let mut rest = &args[2..];
    while let [option, value, more @ ..] = rest {
        rest = more;
        match option.to_ascii_lowercase().as_slice() {
            b"match" => wanted = Some(pattern(value)?),
            b"count" => match integer(value).ok_or(Fault::NOT_AN_INTEGER)? {
                given if given < 1 => return Err(Fault::SYNTAX),
                given => count = u32::try_from(given).unwrap_or(u32::MAX),
            },
            // There are no other types so far.
            b"type" => shows = value.eq_ignore_ascii_case(b"string"),
            _ => return Err(Fault::SYNTAX),
        }
    }
    if !rest.is_empty() {
        return Err(Fault::SYNTAX);
    }
    Ok(Kind::Scan { pattern: wanted, count, shows, start })
}

fn pattern(text: &[u8]) -> Result<Vec<u8>, Fault> {
    if text.len() > PATTERN_BYTES_MAX { Err(PATTERN_TOO_LONG) } else { Ok(text.to_vec()) }
}

fn check_flush(args: &[&[u8]]) -> Result<(), Fault> {
    match args {
        [_] => Ok(()),
        [_, how] if how.eq_ignore_ascii_case(b"async") || how.eq_ignore_ascii_case(b"sync") => Ok(()),
        _ => Err(Fault::SYNTAX),
    }
}
