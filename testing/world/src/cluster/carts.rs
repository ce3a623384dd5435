//! The quorum table of a session: carries out the operations on its keys, settles puts of unknown outcome, and has bricks
//! replaced when an operator orders it.
//!
//! A put whose outcome is unknown is settled by its token in half of the cases: its operation then ends with what the
//! settling tells, and with it its time in the history. The other half stays unknown.
//!
//! Not here: operations on the ordinary tables (`native`), which bricks fail (fault). Catalogue: I1, I3, I6.

use super::bricks::BrickSetup;
use super::settings::DEADLINE;
use crate::history::{Outcome, ValueId};
use crate::system::{Ask, End, Request};
use ramhold_base::{Effects, Instant, Level, Rng, ServerId, Status, TableId};
use ramhold_client_core as core;
use ramhold_client_core::{Cause, Operation, OperationId, Reply, Session, Token};
use ramhold_wire::data::RejectRules;
use ramhold_wire::quorum::BrickReplace;
use ramhold_wire::status::ClusterStatus;
use ramhold_wire::table::TableOptions;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const TABLE: &str = "world-carts";
const PAUSE: Duration = Duration::from_millis(100);
/// An operator gives a replacement so much time.
const REPLACED_WITHIN: Duration = Duration::from_secs(6);

#[derive(Clone)]
enum Asked {
    Get,
    Put,
    /// A put of unknown outcome is settled.
    Settle,
}

enum Replacing {
    Nothing,
    Ordered,
    Looking(OperationId),
    Asked(OperationId),
}

/// The part of a session that is for the quorum table.
pub struct Carts {
    options: TableOptions,
    table: Option<TableId>,
    finding: Option<OperationId>,
    /// When the table is looked for again, or the bricks.
    retry_at: Option<Instant>,
    /// Operations that were begun before the table was known.
    waiting: Vec<(usize, Operation, Asked)>,
    running: BTreeMap<OperationId, (usize, Asked)>,
    replacing: Replacing,
    /// Puts of the session that began with two phases, as far as they are counted.
    two_phases: u64,
    pub ends: VecDeque<(usize, End)>,
}

impl Carts {
    pub fn new(setup: BrickSetup) -> Carts {
        Carts {
            options: setup.table_options(),
            table: None,
            finding: None,
            retry_at: None,
            waiting: Vec::new(),
            running: BTreeMap::new(),
            replacing: Replacing::Nothing,
            two_phases: 0,
            ends: VecDeque::new(),
        }
    }

    /// The table, if it is known.
    pub fn table(&self) -> Option<TableId> {
        self.table
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    pub fn order_replacement(&mut self) {
        if matches!(self.replacing, Replacing::Nothing) {
            self.replacing = Replacing::Ordered;
        }
    }

    pub fn is_replacing(&self) -> bool {
        !matches!(self.replacing, Replacing::Nothing)
    }

    pub fn begin(
        &mut self,
        now: Instant,
        lane: usize,
        request: &Request<'_>,
        session: &mut Session,
        effects: &mut Effects,
    ) {
        let (table, key) = (self.table.unwrap_or(TableId::NONE), request.key.to_vec());
        let rules = RejectRules::default();
        let (operation, asked) = match request.ask {
            Ask::Read => (Operation::Read { table, key, rules }, Asked::Get),
            Ask::Write { value, ttl, .. } => {
                let millis = |ttl: Duration| u64::try_from(ttl.as_millis()).expect("a short time");
                let expiry = ttl.map(|ttl| core::Expiry::After { millis: millis(ttl) });
                (Operation::Write { table, key, value: value.to_vec(), rules, expiry }, Asked::Put)
            }
            Ask::Remove { .. } => (Operation::Remove { table, key, rules }, Asked::Put),
            Ask::Increment { .. } | Ask::Append { .. } | Ask::Count | Ask::Scan | Ask::Commit(_) => {
                unreachable!("registers are read, written and removed")
            }
        };
        match self.table {
            Some(_) => self.start(now, lane, (operation, asked), session, effects),
            None => {
                self.waiting.push((lane, operation, asked));
                self.find(now, session, effects);
            }
        }
    }

    fn start(
        &mut self,
        now: Instant,
        lane: usize,
        (mut operation, asked): (Operation, Asked),
        session: &mut Session,
        effects: &mut Effects,
    ) {
        if let (
            Some(known),
            Operation::Read { table, .. } | Operation::Write { table, .. } | Operation::Remove { table, .. },
        ) = (self.table, &mut operation)
        {
            *table = known;
        }
        let id = session.start_within(now, operation, DEADLINE, effects);
        self.running.insert(id, (lane, asked));
    }

    /// Makes the table, or finds the one that another session made.
    fn find(&mut self, now: Instant, session: &mut Session, effects: &mut Effects) {
        if self.finding.is_none() && self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = None;
            let (name, options) = (TABLE.into(), self.options.clone());
            let create = Operation::CreateTable { name, options, left_open: None };
            self.finding = Some(session.start(now, create, effects));
        }
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant, session: &mut Session, effects: &mut Effects) {
        if !self.waiting.is_empty() {
            self.find(now, session, effects);
        }
        let before = std::mem::replace(&mut self.two_phases, session.two_phase_count());
        if before < self.two_phases {
            effects.report(Level::Debug, "mark:quorum_two_phases");
        }
        if self.waiting.is_empty() && self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if matches!(self.replacing, Replacing::Ordered) {
            let look = Operation::ClusterStatus;
            let id = session.start_within(now, look, REPLACED_WITHIN, effects);
            self.replacing = Replacing::Looking(id);
        }
    }

    /// Takes an outcome; false: it is none of these operations'.
    pub fn take(
        &mut self,
        now: Instant,
        (id, outcome): (OperationId, &core::Outcome),
        session: &mut Session,
        rng: &mut Rng,
        effects: &mut Effects,
    ) -> bool {
        if self.finding == Some(id) {
            self.finding = None;
            self.found(now, outcome, session, effects);
            return true;
        }
        if let Some((lane, asked)) = self.running.remove(&id) {
            self.ended(now, lane, (&asked, outcome), session, rng, effects);
            return true;
        }
        match self.replacing {
            Replacing::Looking(looking) if looking == id => {
                self.replacing = match outcome {
                    core::Outcome::Done(Reply::ClusterStatus(status)) => match draw(status, rng) {
                        Some(message) => {
                            let operation = Operation::ReplaceBrick(message);
                            let id = session.start_within(now, operation, REPLACED_WITHIN, effects);
                            Replacing::Asked(id)
                        }
                        None => Replacing::Nothing,
                    },
                    _ => Replacing::Nothing,
                };
                true
            }
            Replacing::Asked(asked) if asked == id => {
                let mark = match outcome {
                    core::Outcome::Done(Reply::BrickReplaced(replaced)) if replaced.tablets > 0 => "replaced",
                    core::Outcome::Done(Reply::BrickReplaced(_)) => "replacement_hindered",
                    _ => "replacement_unanswered",
                };
                effects.report(Level::Debug, format!("mark:quorum_{mark}"));
                self.replacing = Replacing::Nothing;
                true
            }
            _ => false,
        }
    }

    fn found(&mut self, now: Instant, outcome: &core::Outcome, session: &mut Session, effects: &mut Effects) {
        match outcome {
            core::Outcome::Done(Reply::TableCreated { table }) => self.table = Some(*table),
            core::Outcome::Done(Reply::Table(description)) => self.table = Some(description.table),
            core::Outcome::Refused { status: Status::TableExists, .. } => {
                let which = core::WhichTable::Name(TABLE.into());
                self.finding = Some(session.start(now, Operation::DescribeTable { which }, effects));
            }
            _ => self.retry_at = Some(now + PAUSE),
        }
        if self.table.is_some() {
            for (lane, operation, asked) in std::mem::take(&mut self.waiting) {
                self.start(now, lane, (operation, asked), session, effects);
            }
        }
    }

    fn ended(
        &mut self,
        now: Instant,
        lane: usize,
        (asked, outcome): (&Asked, &core::Outcome),
        session: &mut Session,
        rng: &mut Rng,
        effects: &mut Effects,
    ) {
        let mut mark = |name: &str| effects.report(Level::Debug, format!("mark:quorum_{name}"));
        let ended = match (asked, outcome) {
            (Asked::Get, core::Outcome::Done(Reply::Read { value, .. })) => {
                Outcome::Seen { value: ValueId::of(value) }
            }
            (Asked::Get, core::Outcome::Refused { status: Status::NotFound, .. }) => Outcome::Absent,
            (Asked::Put, core::Outcome::Done(Reply::Written { .. } | Reply::Removed { .. })) => {
                Outcome::Acknowledged
            }
            (Asked::Settle, core::Outcome::Done(Reply::Written { .. } | Reply::Removed { .. })) => {
                mark("settled");
                Outcome::Acknowledged
            }
            (Asked::Settle, core::Outcome::Refused { status, cause: Cause::Answered, .. })
                if *status == Status::WrongVersion =>
            {
                mark("settled_as_never");
                Outcome::Refused { status: *status }
            }
            // Its put may still take effect.
            (Asked::Settle, core::Outcome::Refused { .. }) => Outcome::Unknown,
            (_, core::Outcome::Refused { status, detail, .. }) => {
                mark(match status {
                    Status::NoQuorum => "no_quorum",
                    Status::TooMany => "too_many",
                    _ => "refused",
                });
                effects.report(Level::Debug, detail.clone());
                Outcome::Refused { status: *status }
            }
            (Asked::Put, core::Outcome::Unknown { token: Some(token), .. }) if rng.chance(1, 2) => {
                mark("unknown");
                // As if it had been kept as text meanwhile.
                let token: Token = token.to_string().parse().expect("a token's text is a token");
                let resume = Operation::Resume { token: Box::new(token) };
                return self.start(now, lane, (resume, Asked::Settle), session, effects);
            }
            (Asked::Get | Asked::Put | Asked::Settle, core::Outcome::Unknown { .. }) => {
                mark("left_unknown");
                Outcome::Unknown
            }
            (_, core::Outcome::Done(other)) => panic!("an answer to another question: {other:?}"),
        };
        self.ends.push_back((lane, End { outcome: ended, answered_by: None }));
    }
}

/// A brick that holds something, and one that holds nothing and is there.
fn draw(status: &ClusterStatus, rng: &mut Rng) -> Option<BrickReplace> {
    let of = |is_it: &dyn Fn(u32) -> bool| -> Vec<ServerId> {
        let bricks = status.bricks.iter().filter(|report| is_it(report.tablets));
        bricks.map(|report| report.brick).collect()
    };
    let (holders, free) = (of(&|tablets| tablets > 0), of(&|tablets| tablets == 0));
    let (old, new) = (*rng.pick(&holders)?, *rng.pick(&free)?);
    Some(BrickReplace { old, new: Some(new), is_destroyed: false, accepts_loss: false })
}
