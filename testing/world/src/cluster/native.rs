//! A session of the native protocol: carries the operations of its lanes out on the shared tables.
//!
//! The session makes the tables that all sessions share, or finds those that another session made, and sends each key to
//! the table that has it. Lanes that pack start their operations together.
//!
//! Not here: which operations are asked for and what their ends mean (workload, checker). Catalogue: A3, A4.

use super::bricks::BrickSetup;
use super::carts::Carts;
use super::dividing::Dividing;
use super::scan::Scanning;
use super::settings::{DEADLINE, LANES_MAX, PACKED_LANES_MAX, TABLE, coordinator_address};
use super::tables::Tables;
use crate::checker::registers::is_register;
use crate::history::{Condition, Outcome, ValueId};
use crate::system::{Ask, Change, End, Met, Part, Request, Session};
use crate::workload::{key_of, sum_of};
use ramhold_base::{Effects, Input, Instant, Machine, Number, Rng, Status, TableId, Version};
use ramhold_client_core as core;
use ramhold_client_core::{Operation, OperationId, Reply};
use ramhold_wire::data::RejectRules;
use ramhold_wire::membership::Durability;
use ramhold_wire::table::TableOptions;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const TABLES: [&str; 2] = [TABLE, "world-second"];

/// A session of the real client, with several operations under way at once, on a table that it creates first
/// if needed.
pub struct NativeSession {
    session: core::Session,
    /// The durability and replicas of the tables that all sessions share: one table, or two of which each has
    /// the keys of half of the tags.
    options: Vec<TableOptions>,
    /// The tables whose id is known, in the order of `options`.
    tables: Vec<TableId>,
    creating: Option<OperationId>,
    lanes: usize,
    packs: bool,
    /// Operations that began in this step, to be started together.
    begun: Vec<(usize, Wanted)>,
    /// Operations that were requested before the table was known.
    waiting: Vec<(usize, Wanted)>,
    running: BTreeMap<OperationId, (usize, Asked)>,
    /// Multi-reads, by the lanes of their keys.
    together: BTreeMap<OperationId, Vec<(usize, Asked)>>,
    /// By lane.
    scans: BTreeMap<usize, Scanning>,
    /// The objects that the scan of a lane met, once it has ended.
    met: BTreeMap<usize, Vec<Met>>,
    /// The part of a lane's commit whose condition refused the commit.
    refusing: BTreeMap<usize, usize>,
    /// Tables made and dropped beside the shared table.
    beside: Tables,
    /// Cuts and joins the tablets of the shared table.
    dividing: Dividing,
    /// The quorum table, if there is one.
    carts: Option<Carts>,
    rng: Rng,
    ends: VecDeque<(usize, End)>,
    retry_at: Option<Instant>,
}

/// An operation that waits for its start.
#[derive(Clone)]
struct Wanted {
    key: Vec<u8>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Read,
    Write(Vec<u8>, RejectRules, Option<core::Expiry>),
    Remove(RejectRules),
    Increment(Number, RejectRules),
    Count,
    Scan,
    /// A commit whose items' table is not known yet.
    Commit(Vec<core::CommitItem>),
}

impl NativeSession {
    pub fn new(
        seed: u64,
        (durability, replicas): (Durability, u8),
        second: Option<(Durability, u8)>,
        may: (bool, bool),
        zones: u8,
    ) -> NativeSession {
        let mut config = core::SessionConfig::new(vec![coordinator_address()]);
        config.deadline = DEADLINE;
        let mut rng = Rng::new(seed);
        config.lease_term = Duration::from_millis(rng.between(1000, 12_000));
        let packs = rng.chance(1, 2);
        let slots = rng.chance(1, 2);
        let beside = Tables::new(seed, &mut rng);
        let dividing = Dividing::new(&mut rng, durability, replicas, may, zones);
        let kept = std::iter::once((durability, replicas)).chain(second);
        let options = kept.map(|(durability, replicas)| TableOptions {
            durability,
            replicas,
            tablets: 8,
            slots,
            zone: None,
            quorum: None,
        });
        NativeSession {
            session: core::Session::new(config, seed),
            options: options.collect(),
            tables: Vec::new(),
            creating: None,
            lanes: rng.between(1, if packs { PACKED_LANES_MAX } else { LANES_MAX }) as usize,
            packs,
            begun: Vec::new(),
            waiting: Vec::new(),
            running: BTreeMap::new(),
            together: BTreeMap::new(),
            scans: BTreeMap::new(),
            met: BTreeMap::new(),
            refusing: BTreeMap::new(),
            beside,
            dividing,
            carts: None,
            rng,
            ends: VecDeque::new(),
            retry_at: None,
        }
    }

    /// The same with another number of tablets of each table that it makes; 0: as many as the coordinator finds right.
    #[must_use]
    pub fn with_tablets(mut self, tablets: u32) -> NativeSession {
        self.options.iter_mut().for_each(|options| options.tablets = tablets);
        self
    }

    /// The same with a quorum table beside the others.
    #[must_use]
    pub fn with_bricks(self, bricks: Option<BrickSetup>) -> NativeSession {
        NativeSession { carts: bricks.map(Carts::new), ..self }
    }

    /// Scans the quorum table once it is known.
    fn scan_carts(&mut self, now: Instant, lane: usize, table: Option<TableId>, effects: &mut Effects) {
        match table {
            Some(table) => {
                self.scans.insert(lane, Scanning::new(now, &[table], &mut self.rng));
                self.ask_for_pages(now, effects);
            }
            None => {
                let outcome = Outcome::Refused { status: Status::Retry };
                self.ends.push_back((lane, End { outcome, answered_by: None }));
            }
        }
    }

    /// Makes the next table, or finds the one that another session made.
    fn find_table(&mut self, now: Instant, effects: &mut Effects) {
        let Some(options) = self.options.get(self.tables.len()) else { return };
        if self.creating.is_some() || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.retry_at = None;
        let name = TABLES[self.tables.len()].into();
        let create = Operation::CreateTable { name, options: options.clone(), left_open: None };
        self.creating = Some(self.session.start(now, create, effects));
    }

    /// The tables, when all are known.
    fn found(&self) -> Option<&[TableId]> {
        (self.tables.len() == self.options.len()).then_some(&self.tables)
    }

    fn describe_table(&mut self, now: Instant, effects: &mut Effects) {
        let which = core::WhichTable::Name(TABLES[self.tables.len()].into());
        self.creating = Some(self.session.start(now, Operation::DescribeTable { which }, effects));
    }

    /// Starts operations of several lanes together.
    fn start(&mut self, now: Instant, all: Vec<(usize, Wanted)>, effects: &mut Effects) {
        let Some(tables) = self.found().map(<[TableId]>::to_vec) else {
            self.waiting.extend(all);
            return self.find_table(now, effects);
        };
        let (scans, all): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, wanted)| matches!(wanted.kind, Kind::Scan));
        for (lane, _) in scans {
            self.scans.insert(lane, Scanning::new(now, &tables, &mut self.rng));
        }
        self.ask_for_pages(now, effects);
        let asked = |(lane, wanted): &(usize, Wanted)| {
            let asked = match wanted.kind {
                Kind::Read => Asked::Read,
                Kind::Count => Asked::Count,
                Kind::Scan => unreachable!("scans are asked for page by page"),
                Kind::Write(..) | Kind::Remove(_) | Kind::Increment(..) => Asked::Mutation,
                Kind::Commit(_) => Asked::Commit,
            };
            (*lane, asked)
        };
        let table_of = |key: &[u8]| tables[crate::workload::share_of(key, tables.len())];
        let all = self.start_reads(now, &tables, all, effects);
        let asked: Vec<_> = all.iter().map(asked).collect();
        let operations = all.into_iter().map(|(_, Wanted { key, kind })| (table_of(&key), key, kind));
        let operations = operations.map(|(table, key, kind)| match kind {
            Kind::Read | Kind::Count => Operation::Read { table, key, rules: RejectRules::default() },
            Kind::Write(value, rules, expiry) => Operation::Write { table, key, value, rules, expiry },
            Kind::Remove(rules) => Operation::Remove { table, key, rules },
            Kind::Increment(by, rules) => Operation::Increment { table, key, by, rules },
            Kind::Commit(items) => {
                let items = items.into_iter();
                let items = items.map(|item| core::CommitItem { table: table_of(&item.key), ..item });
                Operation::Commit { items: items.collect() }
            }
            Kind::Scan => unreachable!("scans are asked for page by page"),
        });
        let ids = self.session.start_all(now, operations, DEADLINE, effects);
        self.running.extend(ids.into_iter().zip(asked));
    }

    /// Starts the reads of one table that come together as one multi-read, half of the time. Returns the operations that are left.
    fn start_reads(
        &mut self,
        now: Instant,
        tables: &[TableId],
        mut all: Vec<(usize, Wanted)>,
        effects: &mut Effects,
    ) -> Vec<(usize, Wanted)> {
        for (number, table) in tables.iter().enumerate() {
            let is_one = |wanted: &Wanted| {
                matches!(wanted.kind, Kind::Read | Kind::Count)
                    && crate::workload::share_of(&wanted.key, tables.len()) == number
            };
            if all.iter().filter(|(_, wanted)| is_one(wanted)).count() < 2 || self.rng.chance(1, 2) {
                continue;
            }
            let (reads, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, wanted)| is_one(wanted));
            all = others;
            let (mut keys, mut lanes) = (core::Keys::of(*table), Vec::new());
            for (lane, Wanted { key, kind }) in reads {
                keys.push(&key).expect("keys and lanes are few");
                lanes.push((lane, if matches!(kind, Kind::Count) { Asked::Count } else { Asked::Read }));
            }
            let id = self.session.start_reads(now, keys, DEADLINE, effects);
            self.together.insert(id, lanes);
        }
        all
    }

    fn take_objects(&mut self, lanes: Vec<(usize, Asked)>, outcome: core::Outcome) {
        let core::Outcome::Done(Reply::Objects(objects)) = outcome else {
            panic!("a multi-read ends with objects: {outcome:?}")
        };
        for (place, ((lane, asked), found)) in lanes.into_iter().zip(objects.iter()).enumerate() {
            let end = match found {
                Ok(Some(core::ReadObject { value, version, time, expires, answered_by })) => {
                    let reply = Reply::Read { version, time, expires, value: value.to_vec(), answered_by };
                    end_of(asked, core::Outcome::Done(reply))
                }
                Ok(None) => End { outcome: Outcome::Absent, answered_by: objects.answered_by(place) },
                Err(outcome) => end_of(asked, outcome.clone()),
            };
            self.ends.push_back((lane, end));
        }
    }

    fn ask_for_pages(&mut self, now: Instant, effects: &mut Effects) {
        for (lane, scanning) in self.scans.iter_mut().filter(|(_, s)| s.due.is_some_and(|due| due <= now)) {
            let (cursor, limits) = scanning.ask(now);
            let id = self.session.start(now, Operation::Scan { cursor, limits }, effects);
            self.running.insert(id, (*lane, Asked::Page));
        }
    }

    fn take_page(&mut self, now: Instant, lane: usize, outcome: core::Outcome) {
        let outcome = match outcome {
            core::Outcome::Done(Reply::Page(page)) => {
                let scanning = self.scans.get_mut(&lane).expect("a page belongs to a scan");
                let Some(met) = scanning.take(now, page, &mut self.rng) else { return };
                self.met.insert(lane, met);
                Outcome::Scanned
            }
            core::Outcome::Refused { status, .. } => Outcome::Refused { status },
            other => panic!("an answer to another question: {other:?}"),
        };
        self.scans.remove(&lane);
        self.ends.push_back((lane, End { outcome, answered_by: None }));
    }

    fn take_outcomes(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((id, outcome)) = self.session.take_outcome() {
            if let Some(carts) = &mut self.carts
                && carts.take(now, (id, &outcome), &mut self.session, &mut self.rng, effects)
            {
                self.ends.append(&mut carts.ends);
                continue;
            }
            if self.beside.take(now, id, &outcome, &mut self.session, effects)
                || self.dividing.take(now, id, &outcome, &mut self.session, effects)
            {
                continue;
            }
            if Some(id) == self.creating {
                self.creating = None;
                match outcome {
                    core::Outcome::Done(Reply::TableCreated { table }) => self.tables.push(table),
                    core::Outcome::Done(Reply::Table(description)) => self.tables.push(description.table),
                    core::Outcome::Refused { status: Status::TableExists, .. } => {
                        self.describe_table(now, effects);
                    }
                    _ => self.retry_at = Some(now + Duration::from_millis(100)),
                }
                if self.found().is_some() {
                    let waiting = std::mem::take(&mut self.waiting);
                    self.start(now, waiting, effects);
                } else if self.retry_at.is_none() {
                    self.find_table(now, effects);
                }
            } else if let Some(lanes) = self.together.remove(&id) {
                self.take_objects(lanes, outcome);
            } else if let Some((lane, asked)) = self.running.remove(&id) {
                if asked == Asked::Page {
                    self.take_page(now, lane, outcome);
                    continue;
                }
                if let core::Outcome::Refused { item: Some(item), .. } = &outcome {
                    self.refusing.insert(lane, usize::from(*item));
                }
                self.ends.push_back((lane, end_of(asked, outcome)));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Read,
    Count,
    Page,
    Mutation,
    Commit,
}

/// The end of a read, in the terms of histories.
pub fn end_of_read(outcome: core::Outcome) -> End {
    end_of(Asked::Read, outcome)
}

/// The end of a write or a remove, in the terms of histories.
pub fn end_of_mutation(outcome: core::Outcome) -> End {
    end_of(Asked::Mutation, outcome)
}

fn end_of(asked: Asked, outcome: core::Outcome) -> End {
    match outcome {
        core::Outcome::Done(Reply::Read { version, value, answered_by, .. }) if asked == Asked::Count => {
            let sum = sum_of(&value);
            End { outcome: Outcome::Counted { version, sum }, answered_by: Some(answered_by) }
        }
        core::Outcome::Done(Reply::Incremented { version, sum }) => {
            let sum = sum_of(sum.to_string().as_bytes());
            End { outcome: Outcome::Counted { version, sum }, answered_by: None }
        }
        core::Outcome::Done(Reply::Read { version, value, answered_by, .. }) => End {
            outcome: Outcome::Found { version, value: ValueId::of(&value) },
            answered_by: Some(answered_by),
        },
        core::Outcome::Done(
            Reply::Written { version } | Reply::Removed { version } | Reply::Committed { version },
        ) => End { outcome: Outcome::Done { version }, answered_by: None },
        core::Outcome::Done(other) => panic!("an answer to another question: {other:?}"),
        core::Outcome::Refused { status: Status::NotFound, answered_by, .. }
            if matches!(asked, Asked::Read | Asked::Count) =>
        {
            End { outcome: Outcome::Absent, answered_by: Some(answered_by) }
        }
        core::Outcome::Refused {
            status: Status::NotFound | Status::Exists | Status::WrongVersion,
            version,
            answered_by,
            ..
        } => {
            let version = Some(version.unwrap_or(Version::NONE));
            End { outcome: Outcome::ConditionFailed { version }, answered_by: Some(answered_by) }
        }
        core::Outcome::Refused { status, .. } => {
            End { outcome: Outcome::Refused { status }, answered_by: None }
        }
        core::Outcome::Unknown { .. } => End { outcome: Outcome::Unknown, answered_by: None },
    }
}

fn commit_item(part: &Part<'_>) -> core::CommitItem {
    let action = match part.change {
        Change::Check => core::CommitAction::Check,
        Change::Write(value) => core::CommitAction::Write { value: value.to_vec(), expiry: None },
        Change::Remove => core::CommitAction::Remove,
    };
    core::CommitItem { table: TableId::NONE, key: part.key.to_vec(), rules: rules(part.condition), action }
}

/// The reject rules that a condition of histories stands for.
pub fn rules(condition: Condition) -> RejectRules {
    match condition {
        Condition::Free => RejectRules::default(),
        Condition::Absent => RejectRules { exists: true, ..RejectRules::default() },
        Condition::VersionIs(version) => {
            RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() }
        }
    }
}

impl Session for NativeSession {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn goes_on_after_unknown(&self) -> bool {
        true
    }

    fn replace_brick(&mut self) {
        if let Some(carts) = &mut self.carts {
            carts.order_replacement();
        }
    }

    fn is_replacing(&self) -> bool {
        self.carts.as_ref().is_some_and(Carts::is_replacing)
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects) {
        if let Some(carts) = &mut self.carts
            && key_of(request.key).is_some_and(is_register)
        {
            if request.ask == Ask::Scan {
                let table = carts.table();
                return self.scan_carts(now, lane, table, effects);
            }
            carts.begin(now, lane, request, &mut self.session, effects);
            return self.take_outcomes(now, effects);
        }
        let kind = match request.ask {
            Ask::Read => Kind::Read,
            Ask::Write { value, condition, ttl } => {
                let millis = |ttl: Duration| u64::try_from(ttl.as_millis()).expect("a short time");
                let expiry = ttl.map(|ttl| core::Expiry::After { millis: millis(ttl) });
                Kind::Write(value.to_vec(), rules(condition), expiry)
            }
            Ask::Remove { condition } => Kind::Remove(rules(condition)),
            Ask::Increment { by, condition } => Kind::Increment(by, rules(condition)),
            Ask::Count => Kind::Count,
            Ask::Append { .. } => unreachable!("it does not say that it appends"),
            Ask::Scan => Kind::Scan,
            Ask::Commit(parts) => Kind::Commit(parts.iter().map(commit_item).collect()),
        };
        if let (Kind::Write(..), Some([first, ..])) = (&kind, self.found()) {
            let first = *first;
            let options = self.options.last().expect("there is one table at least");
            self.beside.occasion(now, &mut self.session, &mut self.rng, options, effects);
            self.dividing.occasion(now, first, &mut self.session, &mut self.rng, effects);
        }
        self.begun.push((lane, Wanted { key: request.key.to_vec(), kind }));
        if !self.packs {
            self.all_begun(now, effects);
        }
    }

    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        let begun = std::mem::take(&mut self.begun);
        if !begun.is_empty() {
            self.start(now, begun, effects);
            self.take_outcomes(now, effects);
        }
    }

    fn packs(&self) -> bool {
        self.packs
    }

    fn take_refusing(&mut self, lane: usize) -> Option<usize> {
        self.refusing.remove(&lane)
    }

    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        self.met.remove(&lane).unwrap_or_default()
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.ends.pop_front()
    }
}

impl Machine for NativeSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        self.take_outcomes(now, effects);
        self.ask_for_pages(now, effects);
        if let Some(carts) = &mut self.carts {
            carts.advance(now, &mut self.session, effects);
            self.take_outcomes(now, effects);
        }
        if !self.waiting.is_empty() {
            self.find_table(now, effects);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let retry = if self.waiting.is_empty() { None } else { self.retry_at };
        let pages = self.scans.values().filter_map(|scanning| scanning.due).min();
        let carts = self.carts.as_ref().and_then(Carts::deadline);
        let retry = ramhold_base::time::earliest(retry, carts);
        ramhold_base::time::earliest(pages, ramhold_base::time::earliest(self.session.deadline(), retry))
    }
}
