//! Makes the state anew from the copies that servers hold, when the store is lost.
//!
//! Servers that hear nothing of their coordinator ask for it, and say where they listen. Each of them is asked which
//! state it holds, under a term above all that were heard of. From its answer on a server refuses whoever was
//! coordinator before. The newest state is read. The coordinator begins with that state when all servers that are Up in
//! it have answered, so that no server can hold a newer one.
//!
//! A server that was started again has lost its copy. Its new process asks to be taken in, and thereby says that the
//! process before it is over. Servers that are over, or that an operator has given up, may be missing: if they are few
//! enough, they cannot have been all that held the newest state.
//!
//! Not here: how copies are made (`copies`). Protocol: docs/protocols/rebuild.md. Catalogue: G1, G3.

use crate::asked::Asked;
use crate::copies::{HOLDER_COUNT, needed};
use crate::desk::Desk;
use crate::records::Key;
use crate::retry::Retry;
use crate::state::{LINEAGE_KEY, State, TERM_KEY, encode_term};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, Instant, LeaseId, Level, Mark, RecoveryId, ServerId, Status,
    StoreCondition, StoreRequest, StoreToken, TableId, Term,
};
use ramhold_wire::copies::{StatePart, StatePosition, StateRead, StateTell, StateTold};
use ramhold_wire::membership::{Enlist, MembershipVerify};
use ramhold_wire::{Header, Opcode, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Every server that lives speaks within this time, because it asks for its coordinator every two seconds.
const LISTEN: Duration = Duration::from_secs(5);
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// How long the only holder of a state may take to hand out a part of it.
const PART_PATIENCE: Duration = Duration::from_secs(5);
/// More terms than coordinators can have taken without any server hearing of them.
const TERM_STEP: u64 = 1 << 20;
/// More than can have been given out, or told, of any number after the newest state that is left.
const ID_STEP: u32 = 10_000;
const LEASE_STEP: u64 = 1 << 20;
/// As much as a coordinator raises its ceiling. Every time that was told is below that ceiling, or below the wall
/// clock.
const TIME_STEP_MILLIS: u64 = 10_000;
/// The most servers and lives that are remembered; bounds memory.
const HEARD_COUNT_MAX: usize = 16_384;

/// Records by their keys, as the store has them.
pub(crate) type Records = Vec<(String, Vec<u8>)>;

#[derive(Debug)]
pub(crate) struct Rebuilding {
    since: Instant,
    pub wake: Instant,
    report_at: Instant,
    cluster: ClusterId,
    /// The highest term that anybody has told of.
    heard: Term,
    servers: BTreeMap<ServerId, Heard>,
    /// The tokens of processes that want to be taken in, by their directories.
    lives: BTreeMap<DirectoryId, u64>,
    reading: Option<Reading>,
    found: Option<Found>,
    waits_for: String,
}

#[derive(Debug)]
struct Heard {
    address: SocketAddr,
    retry: Retry,
    /// The answer under the present term.
    told: Option<StateTold>,
}

#[derive(Debug)]
struct Reading {
    from: ServerId,
    position: StatePosition,
    records: Records,
    retry: Retry,
    /// The next part was asked for, and has not come.
    is_asked: bool,
    /// The instant at which that part was first asked for.
    since: Instant,
}

#[derive(Debug)]
struct Found {
    position: StatePosition,
    records: Records,
    state: State,
}

/// Whether the coordinator can begin with a state: the reason against it, or the warning to be given.
enum Standing {
    Waits(String),
    Complete(Option<String>),
}

impl Rebuilding {
    pub fn new(now: Instant) -> Rebuilding {
        Rebuilding {
            since: now,
            wake: now,
            report_at: now + LISTEN + REPORT_INTERVAL,
            cluster: ClusterId::NONE,
            heard: Term::NONE,
            servers: BTreeMap::new(),
            lives: BTreeMap::new(),
            reading: None,
            found: None,
            waits_for: "any server to ask for its coordinator".into(),
        }
    }

    /// Sets the reason for waiting. A new reason is reported at once.
    fn wait_for(&mut self, what: String, now: Instant) {
        if self.waits_for != what {
            (self.waits_for, self.report_at) = (what, now);
        }
    }

    /// The newest state that any server holds, and a server that holds it.
    fn newest(&self) -> Option<(StatePosition, ServerId)> {
        let mut held = self.servers.iter().filter_map(|(id, s)| Some((s.told?.held?, *id)));
        if planted(Defect::FirstCopyTaken) {
            return held.next();
        }
        held.max_by_key(|(position, id)| (*position, std::cmp::Reverse(*id)))
    }

    /// The next server after `after` that holds the same state, if another one does.
    fn next_holder(&self, position: StatePosition, after: ServerId) -> ServerId {
        let holds = |heard: &Heard| heard.told.is_some_and(|told| told.held == Some(position));
        let mut holders = self.servers.iter().filter(|(_, heard)| holds(heard)).map(|(id, _)| *id);
        let first = holders.clone().next();
        holders.find(|id| *id > after).or(first).unwrap_or(after)
    }

    /// Which servers are missing that may hold something newer than the state that was found.
    fn standing(&self, found: &Found, given_up: &BTreeSet<ServerId>) -> Standing {
        let (mut waits, mut missing, mut unnamed) = (Vec::new(), Vec::new(), Vec::new());
        let has_told = |id: &ServerId| self.servers.get(id).is_some_and(|server| server.told.is_some());
        for record in found.state.all_up() {
            let (id, directory) = (record.entry.id, record.entry.directory);
            let life = self.lives.get(&directory);
            // If another server with this directory answers, it has the directory's lock.
            let mut others = found.state.all_up().filter(|other| other.entry.directory == directory);
            let is_anothers = others.any(|other| other.entry.id != id && has_told(&other.entry.id));
            let has_told = has_told(&id);
            match (has_told, life) {
                (true, _) if given_up.contains(&id) => waits.push(format!("{id} is given up, and answers")),
                (true, _) => {}
                (false, _) if given_up.contains(&id) => missing.push(id),
                // This also holds for a process with the token of the record. Most likely it was never told its id, and
                // holds nothing. But a late copy of its `Enlist` may be all that is heard of a server that was told its
                // id.
                (false, _) if life.is_some() || is_anothers => {
                    missing.push(id);
                    unnamed.push(id);
                }
                (false, None) if planted(Defect::RebuiltWithoutAll) => {}
                (false, _) => waits.push(format!("{id} at {}", record.entry.address.0)),
            }
        }
        let newer = |told: &StateTold| {
            told.list_version > found.state.meta.list_version || told.server > found.state.meta.servers
        };
        for told in self.servers.values().filter_map(|server| server.told).filter(newer) {
            waits.push(format!("who holds the state that {} knows", told.server));
        }
        let holders = found.state.all_up().count().min(HOLDER_COUNT);
        let is_enough = missing.len() < needed(holders);
        if !is_enough && !unnamed.is_empty() {
            let names: Vec<String> = unnamed.iter().map(ToString::to_string).collect();
            waits.push(format!(
                "{} again, which were started anew and have lost what they held",
                names.join(", ")
            ));
        }
        if !waits.is_empty() {
            return Standing::Waits(waits.join(", "));
        }
        Standing::Complete((!is_enough).then(|| {
            format!(
                "{} of {} servers are not there: the last changes before the coordinator was lost may be missing, and \
                 with them what was acknowledged since; look at 'ramhold verify'",
                missing.len(),
                found.state.all_up().count()
            )
        }))
    }

    /// Requests are refused, but they tell which servers are there.
    pub fn on_request(&mut self, desk: &mut Desk, header: &Header, body: &[u8]) {
        // A process that has asked to be taken in, and has not heard the answer, does not know the cluster either.
        let is_new = header.opcode() == Some(Opcode::Enlist) && header.cluster.is_none();
        let is_ours =
            |cluster| !header.cluster.is_none() && (cluster == ClusterId::NONE || cluster == header.cluster);
        if !(is_new || is_ours(self.cluster)) || self.servers.len() + self.lives.len() >= HEARD_COUNT_MAX {
            return;
        }
        match header.opcode() {
            Some(Opcode::Enlist) => {
                let Ok(message) = decode::<Enlist>(body) else { return };
                if !is_new {
                    self.cluster = header.cluster;
                }
                self.lives.insert(message.directory, message.token);
            }
            Some(Opcode::MembershipVerify) if !header.sender.is_none() => {
                let Ok(message) = decode::<MembershipVerify>(body) else { return };
                self.cluster = header.cluster;
                self.hear_term(desk, header.term);
                if let Some(address) = message.address {
                    self.hear_of(desk, header.sender, address.0);
                }
            }
            _ => {}
        }
        self.wake = Instant::ZERO;
    }

    fn hear_of(&mut self, desk: &Desk, server: ServerId, address: SocketAddr) {
        let heard = Heard { address, retry: Retry::new(&desk.config), told: None };
        self.servers.entry(server).or_insert(heard);
    }

    /// Somebody has heard of this term. The coordinator's own term has to be above it, also for the servers that have
    /// answered already.
    fn hear_term(&mut self, desk: &mut Desk, term: Term) {
        self.heard = self.heard.max(term);
        if planted(Defect::RebuiltInOldTerm) {
            desk.term = self.heard;
        } else if self.heard > desk.term || desk.term.0 < TERM_STEP {
            // The step is random, so that two processes that do this at the same time do not take the same term.
            let step = TERM_STEP + desk.rng.below(TERM_STEP);
            desk.term = Term(self.heard.0.saturating_add(step));
            self.servers.values_mut().for_each(|server| server.told = None);
        }
    }

    /// A server has answered. The error is the reason why the state cannot be made anew.
    pub fn on_reply(
        &mut self,
        desk: &mut Desk,
        asked: Asked,
        status: Status,
        body: &[u8],
    ) -> Result<(), String> {
        self.wake = Instant::ZERO;
        match asked {
            Asked::Tell(server) => {
                let Ok(told) = decode::<StateTold>(body) else { return Ok(()) };
                if status == Status::StaleTerm {
                    self.hear_term(desk, told.term);
                    return Ok(());
                }
                let heard = self.servers.get_mut(&server);
                // The answer may be of a term that was given up meanwhile: the server may follow somebody else since.
                let is_bound = told.term == desk.term && told.server == server;
                if let Some(heard) = heard.filter(|_| status == Status::Ok && is_bound) {
                    heard.told = Some(told);
                }
            }
            Asked::Part(server) => return self.on_part(desk, server, status, body),
            _ => {}
        }
        Ok(())
    }

    fn on_part(&mut self, desk: &Desk, server: ServerId, status: Status, body: &[u8]) -> Result<(), String> {
        let Some(reading) = self.reading.as_mut().filter(|reading| reading.from == server) else {
            return Ok(());
        };
        if status == Status::NotFound {
            // The server holds another state by now, so it is asked again which one.
            self.reading = None;
            if let Some(heard) = self.servers.get_mut(&server) {
                heard.told = None;
            }
            return Ok(());
        }
        let Ok(part) = decode::<StatePart>(body) else { return Ok(()) };
        let last = reading.records.last().map(|(key, _)| key.as_str()).unwrap_or_default();
        let follows = part.records.first().is_none_or(|record| record.key.as_str() > last);
        if status != Status::Ok || part.position != reading.position || !follows {
            return Ok(());
        }
        let whole = part.records.into_iter().filter_map(|record| Some((record.key, record.value?)));
        reading.records.extend(whole);
        reading.retry = Retry::new(&desk.config);
        reading.is_asked = false;
        if !part.last {
            return Ok(());
        }
        let Some(Reading { position, records, .. }) = self.reading.take() else { return Ok(()) };
        match State::load(&records) {
            Ok(Some(state)) => {
                for record in state.all_up() {
                    self.hear_of(desk, record.entry.id, record.entry.address.0);
                }
                self.found = Some(Found { position, records, state });
                Ok(())
            }
            Ok(None) => Err(format!("the state that {server} holds is empty")),
            Err(error) => Err(format!("the state that {server} holds cannot be read: {error}")),
        }
    }

    /// Asks servers, and looks at what they have told. When the state is complete, it is being stored: returns the token
    /// of that commit and the records.
    pub fn advance(&mut self, now: Instant, desk: &mut Desk) -> Option<(StoreToken, Records)> {
        if self.wake > now {
            return None;
        }
        let mut stored = None;
        self.wake = self.report_at;
        self.ask_all(now, desk);
        if now < self.since + LISTEN {
            self.wake = self.wake.min(self.since + LISTEN);
        } else {
            stored = self.look_at_found(now, desk);
        }
        if self.report_at <= now {
            self.report_at = now + REPORT_INTERVAL;
            self.wake = self.wake.min(self.report_at);
            let text = format!("the state is not made anew yet: waiting for {}", self.waits_for);
            desk.outbox.report(Level::Warn, text);
        }
        stored
    }

    fn ask_all(&mut self, now: Instant, desk: &mut Desk) {
        let mut due: Vec<(ServerId, SocketAddr)> = Vec::new();
        for (id, server) in self.servers.iter_mut().filter(|(_, server)| server.told.is_none()) {
            if server.retry.take(now, &desk.config) {
                due.push((*id, server.address));
            }
            self.wake = self.wake.min(server.retry.next());
        }
        let header = Header { cluster: self.cluster, term: desk.term, ..Header::default() };
        for (target, address) in due {
            desk.ask_address(now, (address, Header { target, ..header }), Asked::Tell(target), &StateTell {});
        }
        let Some(reading) = &self.reading else { return };
        if reading.is_asked && reading.retry.next() <= now {
            // The server may have died since it told what it holds. Another holder is read, from the first record on.
            let next = self.next_holder(reading.position, reading.from);
            if next != reading.from {
                if let Some(reading) = &mut self.reading {
                    (reading.from, reading.records) = (next, Vec::new());
                }
            } else if reading.since + PART_PATIENCE <= now {
                // No other server holds this state. If its holder does not tell of it again, an older state is the
                // newest.
                if let Some(holder) = self.servers.get_mut(&reading.from) {
                    (holder.told, holder.retry) = (None, Retry::new(&desk.config));
                }
                self.reading = None;
                self.wake = now;
                return;
            }
        }
        let Some(reading) = &mut self.reading else { return };
        let Some(address) = self.servers.get(&reading.from).map(|server| server.address) else {
            return;
        };
        if reading.retry.take(now, &desk.config) {
            if !std::mem::replace(&mut reading.is_asked, true) {
                reading.since = now;
            }
            let after = reading.records.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let message = StateRead { position: Some(reading.position), after };
            let (target, asked) = (reading.from, Asked::Part(reading.from));
            desk.ask_address(now, (address, Header { target, ..header }), asked, &message);
        }
        self.wake = self.wake.min(reading.retry.next());
    }

    fn look_at_found(&mut self, now: Instant, desk: &mut Desk) -> Option<(StoreToken, Records)> {
        let Some((newest, holder)) = self.newest() else {
            if !self.servers.is_empty() {
                self.wait_for("a server that holds a copy of the state".into(), now);
            }
            return None;
        };
        let is_there = self.found.as_ref().is_some_and(|found| found.position == newest);
        if !is_there {
            if self.reading.as_ref().is_none_or(|reading| reading.position != newest) {
                let retry = Retry::new(&desk.config);
                let records = Vec::new();
                let (from, position, is_asked, since) = (holder, newest, false, now);
                self.reading = Some(Reading { from, position, records, retry, is_asked, since });
                self.wake = now;
            }
            return None;
        }
        let found = self.found.as_ref()?;
        let given_up = desk.config.rebuild.clone().unwrap_or_default().given_up;
        match self.standing(found, &given_up) {
            Standing::Waits(for_whom) => {
                self.wait_for(for_whom, now);
                None
            }
            Standing::Complete(warning) => {
                if let Some(warning) = warning {
                    desk.outbox.report(Level::Error, warning);
                }
                self.found.take().map(|found| begin_with(desk, found))
            }
        }
    }
}

/// The state is complete: what may have been given out after it is never given out again.
fn begin_with(desk: &mut Desk, found: Found) -> (StoreToken, Records) {
    let Found { position, records, mut state } = found;
    let text = format!(
        "the state is made anew: change {} of {}, {} records",
        position.number,
        position.term,
        records.len()
    );
    desk.outbox.report(Level::Info, text);
    desk.outbox.mark(Mark::StateRebuilt);
    if !planted(Defect::RebuiltIdsReused) {
        let meta = &mut state.meta;
        meta.servers = ServerId(meta.servers.0.saturating_add(ID_STEP.into()));
        meta.tables = TableId(meta.tables.0.saturating_add(ID_STEP));
        meta.recoveries = RecoveryId(meta.recoveries.0.saturating_add(ID_STEP.into()));
        meta.leases = LeaseId(meta.leases.0.saturating_add(LEASE_STEP));
        meta.losses = meta.losses.saturating_add(ID_STEP.into());
        meta.list_version = meta.list_version.saturating_add(ID_STEP.into());
        if meta.assignments > 0 {
            meta.assignments = meta.assignments.saturating_add(ID_STEP.into());
        }
        if meta.accounts > 0 {
            meta.accounts = meta.accounts.saturating_add(ID_STEP.into());
        }
        meta.time_ceiling = ClusterTime(meta.time_ceiling.0.saturating_add(TIME_STEP_MILLIS));
    }
    let meta = state.encode(Key::Meta).expect("there is always a record of it");
    let is_kept = |(key, _): &(String, Vec<u8>)| key != "meta";
    let kept = records.into_iter().filter(is_kept).chain([("meta".to_string(), meta)]);
    debug_assert!(state.lineage.position() == position, "{LINEAGE_KEY} goes with every commit");
    store(desk, kept.collect())
}

/// Stores everything that was learned from the servers, under the term that they have heard of.
fn store(desk: &mut Desk, records: Records) -> (StoreToken, Records) {
    let condition = StoreCondition { key: TERM_KEY.into(), version: Some(desk.outbox.term_version) };
    let mut puts: Vec<_> = records.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    puts.push((TERM_KEY.into(), Some(encode_term(desk.term))));
    let token = desk.outbox.store(StoreRequest::Commit { conditions: vec![condition], puts });
    (token, records)
}
