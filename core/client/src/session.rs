//! Carries each operation to the process that can do it, again and again until it is done, surely refused, or
//! out of time.
//!
//! An operation pauses, waits for something that is fetched (such as the description of its table), goes out
//! at the end of the step, or waits for its answer. Each event (an answer, a loss, its timer) puts it into
//! the next state or ends it. The session fetches the description of a table with an operation of its own, at
//! most one per table, and all operations that need the description wait for it. The cluster's id and the
//! lease are fetched in the same way.
//!
//! Operations on objects go out at the end of a step, those for the same server in one frame. A read of many keys
//! (`reading`) is no operation of this kind until something goes wrong with a key.
//!
//! A mutation, or an update that the coordinator is asked for, is sent under the session's lease and a
//! sequence number. While the fate of an attempt is open, it is sent again under the same ones, so that it
//! has its effect once (docs/protocols/exactly-once.md).
//!
//! Invariants:
//! - an operation takes another sequence number only when every attempt under the one before was refused;
//! - `unacknowledged` is never above a number that may be sent again, so that the server may drop all lower
//!   ones;
//! - every operation has exactly one timer, at its deadline or before.
//!
//! Not here: the meaning of an answer (`session::verdict`), the owner of a key (`tablets`). Catalogue: A3,
//! A4, B5.

mod asking;
mod attempts;
mod config;
mod ending;
mod events;
mod fetching;
mod lease;
mod packing;
mod reading;
mod reads;
mod running;
mod searching;
mod underway;
mod verdict;

use crate::backoff::jittered;
use crate::operation::{Operation, OperationId, Place};
use crate::outcome::{Cause, Outcome};
use crate::quorum::Quorum;
use crate::tablets::{Route, TabletCache};
use crate::trouble::{Trouble, What, Who};
pub use config::SessionConfig;
use lease::Lease;
use packing::Posted;
use ramhold_base::time::earliest;
use ramhold_base::{ClusterId, Effect, Effects, Input, Instant, Machine, Rng, Status};
use reads::Reads;
use running::{AttemptId, Purpose, Running, State, Wanted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use underway::Underway;

pub struct Session {
    config: SessionConfig,
    rng: Rng,
    /// None until a coordinator has told it.
    cluster: ClusterId,
    lease: Lease,
    attempt_last: u64,
    /// An attempt's rpc id is this base plus the attempt's number.
    rpc_base: u64,
    /// The coordinator to ask next, an index into the configured ones.
    coordinator: usize,
    /// Configured addresses where a brick or a server has answered last.
    strangers: BTreeSet<SocketAddr>,
    cache: TabletCache,
    /// Bricks that may describe tables while the coordinator is away.
    bricks: Vec<SocketAddr>,
    /// Operations on quorum tables.
    quorum: Quorum,
    operation_last: u64,
    running: Underway,
    /// The operation that fetches something that others wait for.
    fetches: BTreeMap<Wanted, OperationId>,
    /// Operations that callers started and that have not ended.
    started_count: usize,
    /// Operations that read keys for pages of quorum tables, and for multi-reads.
    part_count: usize,
    reads: Reads,
    /// Attempts whose answers are awaited.
    attempts: BTreeMap<AttemptId, OperationId>,
    /// Operations that go out at the end of the step.
    posted: Vec<Posted>,
    /// Operations that can go on at once.
    ready: VecDeque<OperationId>,
    outcomes: VecDeque<(OperationId, Outcome)>,
}

impl Session {
    /// `seed` makes the session's rpc ids and its jitter. Different sessions need different seeds.
    pub fn new(config: SessionConfig, seed: u64) -> Session {
        let mut rng = Rng::new(seed);
        let rpc_base = config.role.first_id(rng.u64());
        let quorum = Quorum::new(config.zone.clone());
        Session {
            config,
            rng,
            cluster: ClusterId::NONE,
            lease: Lease::default(),
            attempt_last: 0,
            rpc_base,
            coordinator: 0,
            strangers: BTreeSet::new(),
            cache: TabletCache::default(),
            bricks: Vec::new(),
            quorum,
            operation_last: 0,
            running: Underway::default(),
            fetches: BTreeMap::new(),
            started_count: 0,
            part_count: 0,
            reads: Reads::default(),
            attempts: BTreeMap::new(),
            posted: Vec::new(),
            ready: VecDeque::new(),
            outcomes: VecDeque::new(),
        }
    }

    /// Starts an operation with the configured time. `take_outcome` returns its outcome, perhaps at once.
    pub fn start(&mut self, now: Instant, operation: Operation, effects: &mut Effects) -> OperationId {
        self.start_within(now, operation, self.config.deadline, effects)
    }

    /// Starts an operation that is to be over after `time`.
    pub fn start_within(
        &mut self,
        now: Instant,
        operation: Operation,
        time: Duration,
        effects: &mut Effects,
    ) -> OperationId {
        let id = self.take_in(now, operation, time);
        self.run_ready(now, effects);
        self.check_invariants();
        id
    }

    /// Starts operations that are to be over after `time`. Operations on objects of one server travel in one
    /// frame, and each ends on its own. The ids are in the order of the operations.
    pub fn start_all(
        &mut self,
        now: Instant,
        operations: impl IntoIterator<Item = Operation>,
        time: Duration,
        effects: &mut Effects,
    ) -> Vec<OperationId> {
        let ids = operations.into_iter().map(|operation| self.take_in(now, operation, time)).collect();
        self.run_ready(now, effects);
        self.check_invariants();
        ids
    }

    /// Takes a caller's operation in, ready to go on, or refuses it.
    fn take_in(&mut self, now: Instant, operation: Operation, time: Duration) -> OperationId {
        let refusal = operation.check_limits().map_err(|status| (status, status.text().to_owned()));
        let refusal = refusal.and_then(|()| {
            let most = self.config.operation_count_max;
            if self.started_count >= most {
                let detail = format!("{most} operations of this session are under way already");
                return Err((Status::TooMany, detail));
            }
            Ok(())
        });
        if let Err((status, detail)) = refusal {
            let id = self.next_operation();
            let outcome = Outcome::refused(status, Cause::Unsent, detail);
            self.outcomes.push_back((id, outcome));
            return id;
        }
        self.started_count += 1;
        let id = self.enter(now, operation, Purpose::Caller, now + time, now);
        self.ready.push_back(id);
        id
    }

    /// The next operation that has ended, in the order of ending.
    pub fn take_outcome(&mut self) -> Option<(OperationId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// How many more operations may be started now.
    pub fn room(&self) -> usize {
        self.config.operation_count_max.saturating_sub(self.started_count)
    }

    /// The number of operations that were started and have not ended.
    pub fn under_way_count(&self) -> usize {
        self.started_count + self.reads.count()
    }

    /// The number of puts into quorum tables that began with two phases.
    pub fn two_phase_count(&self) -> u64 {
        self.quorum.two_phase_count()
    }

    /// The number of questions to bricks of quorum tables whose answers may still come.
    pub fn question_count(&self) -> usize {
        self.quorum.question_count()
    }

    /// The cluster that this session speaks to; none until a coordinator has told it.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    fn next_operation(&mut self) -> OperationId {
        self.operation_last += 1;
        OperationId(self.operation_last)
    }

    /// Takes an operation in, pausing until `wake`.
    fn enter(
        &mut self,
        now: Instant,
        operation: Operation,
        purpose: Purpose,
        deadline: Instant,
        wake: Instant,
    ) -> OperationId {
        let id = self.next_operation();
        let wake = wake.min(deadline);
        let running = Running {
            operation,
            purpose,
            started: now,
            deadline,
            wake,
            state: State::Pausing,
            attempt_count: 0,
            setbacks: 0,
            fate_unknown: false,
            number: None,
            heard: false,
            trouble: None,
            search: None,
            searched: None,
        };
        self.running.insert(id, running);
        id
    }

    /// Puts an operation into a state. Its timer rings at `wake` or at its deadline.
    fn change(&mut self, id: OperationId, state: State, wake: Instant) {
        self.running.change(id, state, wake);
    }

    fn run_ready(&mut self, now: Instant, effects: &mut Effects) {
        loop {
            self.start_greeted(now);
            let Some(id) = self.ready.pop_front() else { break };
            if let Some(running) = self.running.get(&id)
                && !matches!(running.state, State::Calling(_) | State::Posted | State::Asking)
            {
                self.advance(now, id, effects);
            }
        }
        if !self.posted.is_empty() {
            self.send_posted(now, effects);
        }
        if self.quorum.has_posts() {
            self.send_asks(now, effects);
        }
        self.running.set_timers();
    }

    /// Makes the next attempt of an operation that is not calling, or lets it wait for the thing that the
    /// attempt needs.
    fn advance(&mut self, now: Instant, id: OperationId, effects: &mut Effects) {
        if let Some(addr) = self.next_searched(id) {
            return self.send(now, id, addr, Who::Process, None, effects);
        }
        let running = &self.running[&id];
        let setbacks = running.setbacks;
        match running.operation.place() {
            Place::Address(addr) => {
                self.send(now, id, addr, Who::Process, None, effects);
            }
            Place::Coordinator => match self.config.coordinators.get(self.coordinator).copied() {
                Some(_) if self.is_held_up(now, id) => {}
                Some(addr) => {
                    self.send(now, id, addr, Who::Coordinator, None, effects);
                    if self.running[&id].number.is_some() {
                        self.renew_if_due(now);
                    }
                }
                None => {
                    let detail = "no address of a coordinator was given".to_owned();
                    self.end(now, id, Outcome::refused(Status::NotCoordinator, Cause::Unsent, detail));
                }
            },
            Place::OwnerOf { table, target } => match self.cache.route(table, target) {
                Route::To { .. } | Route::Bricks if self.cluster.is_none() => {
                    self.fetch_for(now, id, Wanted::Cluster, now)
                }
                Route::Bricks => self.ask_bricks(now, id),
                Route::To { .. } | Route::NoOwner { .. }
                    if matches!(running.operation, Operation::ReadStale { .. }) =>
                {
                    let detail = "the table is no quorum table: the owner of a key alone answers, and never with an old value; \
                                  read it in the usual way"
                        .to_owned();
                    self.end(now, id, Outcome::refused(Status::Unsupported, Cause::Unsent, detail));
                }
                Route::To { .. } if matches!(running.operation, Operation::Resume { .. }) => {
                    let detail = format!("table {table} is not held by bricks");
                    self.end(now, id, Outcome::refused(Status::BadRequest, Cause::Unsent, detail));
                }
                Route::To { .. } if self.is_held_up(now, id) => {}
                Route::To { owner, version } => {
                    self.post(id, owner, version);
                    if self.running[&id].number.is_some() {
                        self.renew_if_due(now);
                    }
                }
                Route::Ask => {
                    let pause = self.backoff().wait(setbacks.saturating_sub(1), &mut self.rng);
                    self.fetch_for(now, id, Wanted::Tablets(table), now + pause);
                }
                Route::NoOwner { asked, is_new } => {
                    if let Some(addr) = self.config.coordinators.get(self.coordinator).copied() {
                        let what = if is_new { What::NotTaken } else { What::NoOwner };
                        let trouble = Trouble { who: Who::Coordinator, addr, what };
                        self.running.get_mut(&id).expect("it runs").trouble = Some(trouble);
                    }
                    let pause = jittered(self.config.recovering_poll, &mut self.rng);
                    self.fetch_for(now, id, Wanted::Tablets(table), asked + pause);
                }
                Route::Dropping => {
                    let detail = format!("table {table} is being dropped");
                    let outcome = Outcome::refused(Status::UnknownTable, Cause::Answered, detail);
                    self.end_for_good(now, id, outcome);
                }
            },
        }
    }

    fn check_invariants(&self) {
        self.running.check_invariants();
        if cfg!(debug_assertions) {
            self.reads.check_invariants();
        }
        assert!(self.attempts.len() <= self.running.len());
        assert!(self.started_count + self.fetches.len() + self.part_count == self.running.len());
        assert!(self.ready.is_empty());
        assert!(self.posted.is_empty());
        if cfg!(debug_assertions) {
            let is_calling = |running: &Running| matches!(running.state, State::Calling(_));
            assert_eq!(self.running.those(is_calling).len(), self.attempts.len());
        }
    }
}

impl Machine for Session {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } | Input::Tick | Input::Closed { .. } => {}
            Input::Frame { bytes, .. } => self.on_frame(now, bytes),
            Input::Lost { addr, how } => self.on_lost(now, addr, how),
            // A session asks for none of these.
            Input::Disk { .. }
            | Input::Store { .. }
            | Input::Secret { .. }
            | Input::Met { .. }
            | Input::Bytes { .. } => {}
            Input::Stop => effects.push(Effect::Exit { code: 0, reason: "stopped".to_owned() }),
        }
        self.run_ready(now, effects);
        self.on_reads_silent(now);
        self.on_timers(now);
        self.run_ready(now, effects);
        self.check_invariants();
    }

    fn deadline(&self) -> Option<Instant> {
        earliest(self.running.deadline(), self.reads.deadline())
    }
}
