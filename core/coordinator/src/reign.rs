//! The start and the end of a coordinator's reign.
//!
//! A coordinator that starts reads the term and raises it, and only then loads the state. From then on no earlier
//! coordinator can commit, so the loaded state is final. If the store is empty, the state may have to be made anew from
//! the servers first (`rebuild`).
//!
//! Invariants:
//! - before the state is loaded under this coordinator's own term, nothing of it is told to anybody;
//! - a failed or refused commit ends the process, and the next start goes on from the store.
//!
//! Catalogue: B1, G1, G3.

use crate::clock::Clock;
use crate::desk::Desk;
use crate::rebuild::{Rebuilding, Records};
use crate::records::Key;
use crate::state::{
    LINEAGE_KEY, State, TERM_KEY, decode_term, encode_term, may_have_accounts, may_have_bricks,
};
use ramhold_base::{
    ClusterId, Instant, Level, Mark, StoreCondition, StoreRequest, StoreResult, StoreToken, Term,
};
use ramhold_placement::{check_domain, check_labels, check_links, check_neighbourhoods, share_place};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::{Header, ReplicaPlacement};

/// No wall clock beyond this (the year 2106) is believed: later seconds do not fit an object.
const WALL_MILLIS_MAX: u64 = u32::MAX as u64 * 1000;
/// The folders that are read from the store, in this order.
const FOLDERS: [&str; 8] = ["meta", LINEAGE_KEY, "server", "table", "recovery", "loss", "lease", "gone"];
/// The folders that are read as well if there were ever bricks.
const FOLDERS_OF_BRICKS: [&str; 2] = ["brick", "quorum"];
/// The folder that is read as well if accounts were ever changed.
const FOLDER_OF_ACCOUNTS: &str = "account";

const EXIT_STOPPED: u8 = 0;
const EXIT_STORE: u8 = 1;
const EXIT_TOPOLOGY: u8 = 2;
const EXIT_DEPOSED: u8 = 3;
/// The store is an old copy: only an operator can go on.
const EXIT_OUTDATED: u8 = 6;

#[derive(Debug)]
enum Phase {
    New,
    ReadingTerm(StoreToken),
    RaisingTerm(StoreToken),
    /// The folders that are still to be read, and the records that have been read.
    Loading {
        token: StoreToken,
        rest: Vec<&'static str>,
        records: Records,
    },
    /// The store is empty, and servers are asked for the state that was in it.
    Rebuilding(Box<Rebuilding>),
    StoringRebuilt(StoreToken, Records),
    Active,
    /// Waits for the commit in flight.
    Stopping,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Reign {
    phase: Phase,
    /// Tells this process from others that may have taken the same term on copies of one store.
    mark: u64,
}

/// The use of an answer of the store.
#[derive(Debug)]
pub(crate) enum Stored {
    /// For the start; it goes on.
    Taken,
    /// For the start, which is over: the state is loaded from these records.
    Loaded(Records),
    /// For something that was asked in the reign.
    InReign(StoreResult),
}

/// Why a reign ends.
#[derive(Debug)]
pub(crate) enum Ending {
    Stopped,
    /// The store cannot be used.
    Store(String),
    /// Another coordinator is in charge.
    Deposed(String),
    /// The state is an old copy.
    Outdated(String),
    /// The servers have no place in the topology that was given.
    Topology(String),
}

impl Reign {
    pub fn new(mark: u64) -> Reign {
        Reign { phase: Phase::New, mark }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping)
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The reason why this coordinator does not answer yet, or any more.
    pub fn why_not_active(&self) -> Option<(&'static str, &'static str)> {
        match self.phase {
            Phase::Active => None,
            Phase::New | Phase::ReadingTerm(_) | Phase::RaisingTerm(_) | Phase::Loading { .. } => {
                Some(("starting", "the state is being read"))
            }
            Phase::Rebuilding(_) | Phase::StoringRebuilt(..) => {
                Some(("rebuilding", "the state is being made anew from the servers"))
            }
            Phase::Stopping => Some(("stopping", "the last change is being written")),
            Phase::Ended => Some(("ended", "it has ended")),
        }
    }

    // Start.

    pub fn on_start(&mut self, now: Instant, desk: &mut Desk, wall_millis: u64) {
        desk.started = now;
        desk.clock = Clock::new(now, wall_millis.min(WALL_MILLIS_MAX));
        let token = desk.outbox.store(StoreRequest::Get { key: TERM_KEY.into() });
        self.phase = Phase::ReadingTerm(token);
    }

    /// The store has answered; it has neither failed nor been full.
    pub fn on_store(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        token: StoreToken,
        result: StoreResult,
    ) -> Stored {
        let is_committed = matches!(result, StoreResult::Committed);
        match &mut self.phase {
            Phase::ReadingTerm(expected) if *expected == token => self.on_term(desk, result),
            Phase::RaisingTerm(expected) if *expected == token => {
                if is_committed {
                    self.load_next(desk, Vec::new(), FOLDERS.to_vec());
                } else {
                    let why = "another coordinator started at the same time";
                    self.end(desk, Ending::Deposed(why.into()));
                }
            }
            Phase::Loading { token: expected, rest, records } if *expected == token => {
                let (mut records, mut rest) = (std::mem::take(records), std::mem::take(rest));
                let StoreResult::Found(found) = result else {
                    self.end(desk, Ending::Store("the store does not answer what it was asked".into()));
                    return Stored::Taken;
                };
                let begins = records.is_empty();
                records.extend(found.into_iter().map(|(key, _, value)| (key, value)));
                if begins && may_have_bricks(&records) {
                    rest.extend(FOLDERS_OF_BRICKS);
                }
                if begins && may_have_accounts(&records) {
                    rest.push(FOLDER_OF_ACCOUNTS);
                }
                if rest.is_empty() {
                    return self.on_loaded(now, desk, records);
                }
                self.load_next(desk, records, rest);
            }
            Phase::StoringRebuilt(expected, records) if *expected == token => {
                let records = std::mem::take(records);
                if is_committed {
                    desk.outbox.term_version += 1;
                    return self.on_loaded(now, desk, records);
                }
                self.end(desk, Ending::Deposed("another coordinator has taken over".into()));
            }
            Phase::Active | Phase::Stopping => return Stored::InReign(result),
            Phase::New
            | Phase::ReadingTerm(_)
            | Phase::RaisingTerm(_)
            | Phase::Loading { .. }
            | Phase::Rebuilding(_)
            | Phase::StoringRebuilt(..)
            | Phase::Ended => {}
        }
        Stored::Taken
    }

    fn on_term(&mut self, desk: &mut Desk, result: StoreResult) {
        let StoreResult::Found(found) = result else {
            return self.end(desk, Ending::Store("the store does not answer what it was asked".into()));
        };
        let (last, version) = match found.first() {
            None => (Term::NONE, None),
            Some((_, version, value)) => match decode_term(value) {
                Ok(term) => (term, Some(*version)),
                Err(error) => return self.end(desk, Ending::Store(error.to_string())),
            },
        };
        desk.term = last.next();
        desk.outbox.term_version = version.unwrap_or(0) + 1;
        let conditions = vec![StoreCondition { key: TERM_KEY.into(), version }];
        let puts = vec![(TERM_KEY.into(), Some(encode_term(desk.term)))];
        desk.outbox.mark(Mark::CoordinatorCommitsTerm);
        let token = desk.outbox.store(StoreRequest::Commit { conditions, puts });
        self.phase = Phase::RaisingTerm(token);
    }

    fn load_next(&mut self, desk: &mut Desk, records: Records, mut rest: Vec<&'static str>) {
        let folder = rest.remove(0);
        let request = match folder {
            "meta" | LINEAGE_KEY => StoreRequest::Get { key: folder.into() },
            _ => StoreRequest::List { prefix: format!("{folder}/") },
        };
        let token = desk.outbox.store(request);
        self.phase = Phase::Loading { token, rest, records };
    }

    fn on_loaded(&mut self, now: Instant, desk: &mut Desk, records: Records) -> Stored {
        match State::load(&records) {
            Ok(Some(state)) => {
                desk.state = state;
                if desk.config.rebuild.is_some() && !matches!(self.phase, Phase::StoringRebuilt(..)) {
                    let text = "the store is there, so the state is not made anew from the servers";
                    desk.outbox.report(Level::Warn, text);
                }
            }
            Ok(None) if desk.config.rebuild.is_some() => {
                self.phase = Phase::Rebuilding(Box::new(Rebuilding::new(now)));
                let text = "the state is to be made anew from the servers: waiting for them";
                desk.outbox.report(Level::Info, text);
                return Stored::Taken;
            }
            Ok(None) => {
                desk.state.meta.cluster = ClusterId(desk.rng.id());
                desk.outbox.touch(Key::Meta);
                let text =
                    format!("a new cluster: {} '{}'", desk.state.meta.cluster, desk.config.cluster_name);
                desk.outbox.report(Level::Info, text);
            }
            Err(error) => {
                self.end(desk, Ending::Store(error.to_string()));
                return Stored::Taken;
            }
        }
        self.begin(now, desk);
        if self.has_ended() { Stored::Taken } else { Stored::Loaded(records) }
    }

    fn begin(&mut self, now: Instant, desk: &mut Desk) {
        if let Err(reason) = take_topology(desk) {
            return self.end(desk, Ending::Topology(reason));
        }
        self.phase = Phase::Active;
        desk.clock.begin_above(now, desk.state.meta.time_ceiling);
        (desk.outbox.cluster, desk.outbox.term) = (desk.state.meta.cluster, desk.term);
        let mut lineage = std::mem::take(&mut desk.state.lineage);
        lineage.begin(desk.term, self.mark);
        desk.outbox.resume(lineage);
        let text = format!(
            "coordinator of {} in {}: {} servers, {} tables, {} recoveries to finish",
            desk.state.meta.cluster,
            desk.term,
            desk.state.servers.len(),
            desk.state.table_count(),
            desk.state.recoveries.values().filter(|r| !r.done).count(),
        );
        desk.outbox.report(Level::Info, text);
        note_placement(desk);
    }

    // While the state is being made anew.

    /// When to advance the start; none: the store is waited for.
    pub fn wake(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Rebuilding(rebuilding) => Some(rebuilding.wake),
            Phase::New
            | Phase::ReadingTerm(_)
            | Phase::RaisingTerm(_)
            | Phase::Loading { .. }
            | Phase::StoringRebuilt(..)
            | Phase::Active
            | Phase::Stopping
            | Phase::Ended => None,
        }
    }

    /// A request that comes before the reign.
    pub fn on_early_request(&mut self, desk: &mut Desk, header: &Header, body: &[u8]) {
        if let Phase::Rebuilding(rebuilding) = &mut self.phase {
            rebuilding.on_request(desk, header, body);
        }
    }

    /// An answer that comes before the reign.
    pub fn on_early_reply(&mut self, desk: &mut Desk, header: &Header, body: &[u8]) {
        if let Phase::Rebuilding(rebuilding) = &mut self.phase
            && let Some(call) = desk.calls.answered(header.rpc)
            && let Err(reason) = rebuilding.on_reply(desk, call.context, header.status(), body)
        {
            self.end(desk, Ending::Store(reason));
        }
    }

    pub fn advance(&mut self, now: Instant, desk: &mut Desk) {
        if let Phase::Rebuilding(rebuilding) = &mut self.phase
            && let Some((token, records)) = rebuilding.advance(now, desk)
        {
            self.phase = Phase::StoringRebuilt(token, records);
        }
    }

    // End.

    pub fn stop(&mut self) {
        self.phase = Phase::Stopping;
    }

    pub fn end(&mut self, desk: &mut Desk, ending: Ending) {
        self.phase = Phase::Ended;
        let (code, reason) = match ending {
            Ending::Stopped => return desk.outbox.exit(EXIT_STOPPED, "stopped".into()),
            Ending::Store(reason) => (EXIT_STORE, reason),
            Ending::Deposed(why) => (EXIT_DEPOSED, format!("{} is over: {why}", desk.term)),
            Ending::Outdated(reason) => (EXIT_OUTDATED, reason),
            Ending::Topology(reason) => (EXIT_TOPOLOGY, reason),
        };
        desk.outbox.report(Level::Error, reason.clone());
        desk.outbox.exit(code, reason);
    }
}

/// Takes the topology that an operator gives. Another one than the stored one must have a place for every server.
fn take_topology(desk: &mut Desk) -> Result<(), String> {
    let stored = &desk.state.meta.topology;
    let placement = desk.config.placement;
    let within = desk.state.all_up().map(|s| &s.entry).find_map(|server| {
        let refusal = check_domain(stored, placement, &server.labels).err()?;
        Some(format!("{} at {}: {refusal}", server.id, server.address.0))
    });
    if let Some(within) = within {
        return Err(within);
    }
    let Some(given) = desk.config.topology.clone().filter(|given| given != stored) else {
        return check_neighbourhoods(stored, placement);
    };
    let servers: Vec<&ServerEntry> = desk.state.all_up().map(|s| &s.entry).collect();
    let misfits = servers.iter().enumerate().find_map(|(index, server)| {
        let fits = check_labels(&given, &server.labels).and_then(|()| check_links(&given, server.links()));
        let misfit = fits.err().map(|why| why.to_string());
        let same = || servers[..index].iter().find(|o| share_place(&given, &o.labels, &server.labels));
        let why = misfit.or_else(|| same().map(|other| format!("{} has the same place", other.id)))?;
        Some(format!("{} at {}: {why}", server.id, server.address.0))
    });
    if let Some(misfit) = misfits {
        return Err(format!(
            "the topology of this cluster is {stored}, and --topology {given} does not fit its servers: {misfit}; leave \
             --topology out to go on with {stored}, or start the servers with labels that fit both first"
        ));
    }
    check_neighbourhoods(&given, placement)?;
    let text = format!("the topology is {given} from now on; it was {stored}");
    desk.outbox.report(Level::Info, text);
    desk.state.meta.topology = given;
    desk.outbox.touch(Key::Meta);
    Ok(())
}

/// If an operator gives another placement than before, a warning tells what that means.
fn note_placement(desk: &mut Desk) {
    let placement = desk.config.placement;
    let noted = (Some(placement.copyset_rings().unwrap_or(0)), placement.named());
    let meta = &mut desk.state.meta;
    let before = std::mem::replace(&mut meta.copyset_rings, noted.0);
    let named_before = std::mem::replace(&mut meta.placement, noted.1.clone());
    if (before, &named_before) == (noted.0, &noted.1) {
        return;
    }
    desk.outbox.touch(Key::Meta);
    if let Some(rings) = before {
        let before = ReplicaPlacement::of(Some(rings).filter(|rings| *rings > 0), named_before.as_deref());
        let text = format!(
            "replicas were placed by {before}, and are placed by {placement} from now on; those that are there stay \
             until cleaning or a loss replaces them"
        );
        desk.outbox.report(Level::Warn, text);
    }
}
