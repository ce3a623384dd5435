//! A simulated client: one session, one operation at a time in each of its lanes, and a record of everything.
//!
//! An operation enters the shared history when it begins, as unknown. Its end is filled in when the end is
//! known. So whatever happens to the client, its open operations count as unknown. After an unknown outcome a
//! new session takes over. Where that is allowed, the same session may go on instead.

use crate::checker::registers::{REGISTERS, is_register};
use crate::checker::{COUNTERS, SCANS};
use crate::history::{Action, Condition, NEVER, Operation, Outcome, ValueId};
use crate::network::MILLI;
use crate::system::{Ask, Change, End, MakeSession, Met, Part, Request, Session};
use crate::workload::{self, APPENDED, Memory, Workload, key_bytes};
use ramhold_base::{Effects, Input, Instant, Machine, Rng, Status, Version};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The history of all clients of one world.
pub type SharedHistory = Rc<RefCell<Vec<Operation>>>;

/// How long a client waits after a refusal.
const REFUSAL_PAUSE: Duration = Duration::from_millis(50);

/// One client life in this many only reads.
const READER_ONE_IN: u64 = 5;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Operations of the workload, without end.
    Work,
    /// Nothing new.
    Rest,
    /// Reads each key until it has an answer, then rests.
    ReadBack(VecDeque<u32>),
}

pub struct Client<S: Session> {
    number: u32,
    workload: Workload,
    make_session: MakeSession<S>,
    session: S,
    session_number: u64,
    wall_millis: u64,
    rng: Rng,
    history: SharedHistory,
    memory: Memory,
    task: Task,
    lanes: Vec<Lane>,
    counter: u64,
}

/// An operation slot. Several may be in use at once.
#[derive(Clone, Default)]
struct Lane {
    /// The place of the open operation in the history.
    open: Option<usize>,
    /// For a commit: the places of all its operations, and, for those that only check, their outcome if the
    /// commit is done.
    parts: Vec<(usize, Option<Outcome>)>,
    /// The open scan is one of the quorum table.
    scans_registers: bool,
    next: Option<Instant>,
}

impl<S: Session> Client<S> {
    /// `number` must never have been used before in this history.
    pub fn new(
        number: u32,
        seed: u64,
        workload: Workload,
        mut make_session: MakeSession<S>,
        history: SharedHistory,
    ) -> Client<S> {
        let mut rng = Rng::new(seed);
        // A client that changes nothing keeps to the servers it knows: no server redirects it while they
        // answer.
        let workload = if rng.chance(1, READER_ONE_IN) { workload.of_reader() } else { workload };
        let session = make_session(rng.u64());
        Client {
            number,
            workload,
            make_session,
            lanes: vec![Lane::default(); session.lanes()],
            session,
            session_number: 1,
            wall_millis: 0,
            rng,
            history,
            memory: Memory::default(),
            task: Task::Work,
            counter: 0,
        }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes effect at the next step.
    pub fn set_task(&mut self, task: Task) {
        self.task = task;
    }

    /// Whether no operation is open and there is no task.
    pub fn is_at_rest(&self) -> bool {
        self.lanes.iter().all(|lane| lane.open.is_none()) && self.task == Task::Rest
    }

    /// For changes from outside, as an operator's orders.
    pub fn session_mut(&mut self) -> &mut S {
        &mut self.session
    }

    pub fn session(&self) -> &S {
        &self.session
    }

    fn begin(&mut self, now: Instant, lane: usize, effects: &mut Effects) {
        let key = match &self.task {
            Task::Work if self.workload.is_for_registers(&mut self.rng) => {
                return self.begin_register(now, lane, effects);
            }
            Task::Work if self.workload.is_for_counters(&mut self.rng) => {
                return self.begin_counting(now, lane, effects);
            }
            Task::Work if self.rng.chance(self.workload.scan_permille, 1000) => {
                return self.ask(now, lane, SCANS, Action::Scan, &[], effects);
            }
            Task::Work if self.rng.chance(self.workload.commit_percent, 100) && self.session.commits() => {
                return self.begin_commit(now, lane, effects);
            }
            Task::Work => self.workload.key(&mut self.rng),
            Task::Rest => return,
            Task::ReadBack(_) if lane > 0 => return,
            Task::ReadBack(keys) => match keys.front() {
                Some(key) => *key,
                None => {
                    self.task = Task::Rest;
                    return;
                }
            },
        };
        let tag = self.next_tag();
        let (action, value) = match self.task {
            Task::Work => {
                let empty = ValueId::of(&[]);
                let writes_it = |o: &Operation| {
                    o.key == key && matches!(o.action, Action::Write { value, .. } if value == empty)
                };
                let empty_written = || self.history.borrow().iter().any(writes_it);
                self.workload.action(&mut self.rng, tag, self.memory.version(key), empty_written)
            }
            Task::Rest | Task::ReadBack(_) if key >= COUNTERS => (Action::Count, Vec::new()),
            Task::Rest | Task::ReadBack(_) => (Action::Read, Vec::new()),
        };
        self.ask(now, lane, key, action, &value, effects);
    }

    /// An operation on a key of the quorum table, or a scan of all of them.
    fn begin_register(&mut self, now: Instant, lane: usize, effects: &mut Effects) {
        if self.rng.chance(self.workload.scan_permille, 1000) {
            self.lanes[lane].scans_registers = true;
            return self.ask(now, lane, SCANS, Action::Scan, &[], effects);
        }
        let (key, tag) = (self.workload.register(&mut self.rng, now), self.next_tag());
        let empty = ValueId::of(&[]);
        let writes_it =
            |o: &Operation| o.key == key && matches!(o.action, Action::Write { value, .. } if value == empty);
        let empty_written = || self.history.borrow().iter().any(writes_it);
        let (action, value) = self.workload.register_action(&mut self.rng, tag, empty_written);
        self.ask(now, lane, key, action, &value, effects);
    }

    /// The part that makes a value unique.
    fn next_tag(&mut self) -> u64 {
        self.counter += 1;
        u64::from(self.number) << 40 | self.counter
    }

    /// Writes the same value to some keys, and removes or only checks others, as one commit.
    fn begin_commit(&mut self, now: Instant, lane: usize, effects: &mut Effects) {
        let keys = self.workload.keys(&mut self.rng);
        let tag = self.next_tag();
        let value = self.workload.value(&mut self.rng, tag);
        let operation = Operation {
            client: self.number,
            session: self.session_number,
            key: keys[0],
            action: Action::Read,
            call: now.0,
            ret: NEVER,
            outcome: Outcome::Unknown,
            commit: Some(tag),
            answered_by: None,
        };
        let bytes: Vec<Vec<u8>> = keys.iter().map(|key| key_bytes(*key)).collect();
        let shared = self.history.clone();
        let mut history = shared.borrow_mut();
        let mut asked = Vec::new();
        for (key, bytes) in keys.into_iter().zip(&bytes) {
            let last_seen = self.memory.version(key);
            // The outcome of a check is known if some operation was told the value of this version.
            let known = last_seen.and_then(|version| told(&history, key, version));
            let (condition, change, action, told) = match (self.rng.below(10), last_seen, known) {
                (0, Some(version), _) => {
                    let condition = Condition::VersionIs(version);
                    (condition, Change::Remove, Action::Remove { condition }, None)
                }
                (1 | 2, _, Some(found)) => {
                    let Outcome::Found { version, .. } = found else { unreachable!("only that is told") };
                    (Condition::VersionIs(version), Change::Check, Action::Read, Some(found))
                }
                (1..=3, _, _) => (Condition::Absent, Change::Check, Action::Read, Some(Outcome::Absent)),
                _ => {
                    let condition = self.workload.condition(&mut self.rng, last_seen);
                    let action = Action::Write { value: ValueId::of(&value), condition, ttl: None };
                    (condition, Change::Write(&value), action, None)
                }
            };
            self.lanes[lane].parts.push((history.len(), told));
            history.push(Operation { key, action, ..operation });
            asked.push(Part { key: bytes, condition, change });
        }
        self.lanes[lane].open = Some(self.lanes[lane].parts[0].0);
        drop(history);
        let request = Request { key: &bytes[0], ask: Ask::Commit(&asked) };
        self.session.begin(now, lane, &request, effects);
    }

    /// Fills in the outcome of each operation of a commit, and learns from it.
    fn finish_parts(
        &mut self,
        now: Instant,
        parts: &[(usize, Option<Outcome>)],
        end: End,
        refusing: Option<usize>,
    ) {
        let mut history = self.history.borrow_mut();
        for (number, (place, told)) in parts.iter().enumerate() {
            let operation = &mut history[*place];
            operation.outcome = match (end.outcome, told) {
                (Outcome::Done { .. }, Some(told)) => *told,
                (Outcome::ConditionFailed { version }, told) if refusing == Some(number) => {
                    // This counts like a refused write: no operation finds its value.
                    if let Some(told) = told {
                        let condition = match told {
                            Outcome::Found { version, .. } => Condition::VersionIs(*version),
                            _ => Condition::Absent,
                        };
                        let value = ValueId(operation.commit.expect("it is of a commit") ^ u64::MAX);
                        operation.action = Action::Write { value, condition, ttl: None };
                    }
                    Outcome::ConditionFailed { version }
                }
                (Outcome::ConditionFailed { .. }, _) => Outcome::Refused { status: Status::NotAllowed },
                (outcome, _) => outcome,
            };
            if end.outcome != Outcome::Unknown {
                operation.ret = now.0;
            }
            match operation.outcome {
                Outcome::Done { version } | Outcome::ConditionFailed { version: Some(version) } => {
                    self.memory.learn(operation.key, version);
                }
                _ => {}
            }
        }
    }

    /// Increments one of the counters that are new, or reads one.
    fn begin_counting(&mut self, now: Instant, lane: usize, effects: &mut Effects) {
        let appends = self.session.appends() && self.rng.chance(1, 3);
        let first = if appends { APPENDED } else { COUNTERS };
        let newest = self.history.borrow().iter().rev().find_map(|o| workload::ticket(o, first));
        let ticket = newest.map_or(0, |newest| newest + 1);
        let (key, place) = workload::counter(ticket, first);
        if self.rng.chance(1, 4) {
            let key = key.saturating_sub(self.rng.below(4) as u32).max(first);
            return self.ask(now, lane, key, Action::Count, &[], effects);
        }
        if appends {
            let action = Action::Increment { place, condition: Condition::Free };
            return self.ask(now, lane, key, action, &[], effects);
        }
        let condition = self.workload.condition(&mut self.rng, self.memory.version(key));
        self.ask(now, lane, key, Action::Increment { place, condition }, &[], effects);
    }

    fn ask(
        &mut self,
        now: Instant,
        lane: usize,
        key: u32,
        action: Action,
        value: &[u8],
        effects: &mut Effects,
    ) {
        let ask = match action {
            Action::Read => Ask::Read,
            Action::Write { condition, ttl, .. } => Ask::Write { value, condition, ttl },
            Action::Remove { condition } => Ask::Remove { condition },
            Action::Increment { place, .. } if key >= APPENDED => {
                Ask::Append { letter: workload::letter(place) }
            }
            Action::Increment { place, condition } => {
                Ask::Increment { by: workload::amount_of(key, place), condition }
            }
            Action::Count => Ask::Count,
            Action::Scan => Ask::Scan,
        };
        let operation = Operation {
            client: self.number,
            session: self.session_number,
            key,
            action,
            call: now.0,
            ret: NEVER,
            outcome: Outcome::Unknown,
            commit: None,
            answered_by: None,
        };
        let mut history = self.history.borrow_mut();
        self.lanes[lane].open = Some(history.len());
        history.push(operation);
        drop(history);
        let key = if self.lanes[lane].scans_registers { REGISTERS } else { key };
        self.session.begin(now, lane, &Request { key: &key_bytes(key), ask }, effects);
    }

    fn finish(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((lane, end)) = self.session.take_end() {
            self.finish_lane(now, lane, end, effects);
        }
    }

    fn finish_lane(&mut self, now: Instant, lane: usize, end: End, effects: &mut Effects) {
        let Some(open) = self.lanes[lane].open.take() else { return };
        let of_registers = std::mem::take(&mut self.lanes[lane].scans_registers);
        let parts = std::mem::take(&mut self.lanes[lane].parts);
        let refusing = self.session.take_refusing(lane);
        let mut history = self.history.borrow_mut();
        let operation = &mut history[open];
        let (key, call) = (operation.key, operation.call);
        if parts.is_empty() {
            operation.outcome = end.outcome;
            operation.answered_by = end.answered_by;
            if end.outcome != Outcome::Unknown {
                operation.ret = now.0;
            }
        }
        drop(history);
        self.finish_parts(now, &parts, end, refusing);
        if end.outcome == Outcome::Scanned {
            let met = self.session.take_met(lane);
            self.note_scan(call, now, met, of_registers);
        }
        // The total rate of operations is the same, however many lanes there are.
        let think_max = self.workload.think_max.max(MILLI) * self.lanes.len() as u64;
        let mut pause = Duration::from_nanos(self.rng.below(think_max));
        let answered = match end.outcome {
            Outcome::Done { .. } | Outcome::ConditionFailed { .. } if !parts.is_empty() => true,
            Outcome::Found { version, .. } | Outcome::Done { version } | Outcome::Counted { version, .. } => {
                self.memory.learn(key, version);
                true
            }
            Outcome::ConditionFailed { version } => {
                self.memory.learn(key, version.unwrap_or_default());
                true
            }
            Outcome::Absent
            | Outcome::Seen { .. }
            | Outcome::Acknowledged
            | Outcome::Summed { .. }
            | Outcome::Scanned
            | Outcome::MetTwice => true,
            Outcome::Refused { .. } => {
                pause = pause.max(REFUSAL_PAUSE);
                false
            }
            Outcome::Unknown => {
                if !self.session.goes_on_after_unknown() || self.rng.chance(1, 2) {
                    self.renew_session(now, effects);
                }
                false
            }
        };
        if let Task::ReadBack(keys) = &mut self.task {
            pause = pause.min(Duration::from_millis(1)).max(if answered {
                Duration::ZERO
            } else {
                REFUSAL_PAUSE
            });
            if answered && keys.front() == Some(&key) {
                keys.pop_front();
            }
        }
        // A new session may have fewer lanes.
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.next = Some(now + pause);
        }
    }

    /// A scan is a read of each object that it met, in its page. It is also a read of the absence of each
    /// other object, at some time between the scan's beginning and end.
    fn note_scan(&mut self, call: u64, now: Instant, met: Vec<Met>, of_registers: bool) {
        let mut history = self.history.borrow_mut();
        let is_meant = |key: u32| key != SCANS && is_register(key) == of_registers;
        let mut absent: BTreeSet<u32> = history.iter().map(|o| o.key).filter(|key| is_meant(*key)).collect();
        let mut seen = BTreeSet::new();
        let read = Operation {
            client: self.number,
            session: self.session_number,
            key: SCANS,
            action: Action::Read,
            call,
            ret: now.0,
            outcome: Outcome::Absent,
            commit: None,
            answered_by: None,
        };
        let action = |key| if key >= COUNTERS { Action::Count } else { Action::Read };
        for met in met {
            let key = workload::key_of(&met.key).expect("only keys of the workload are written");
            absent.remove(&key);
            if !seen.insert(key) {
                history.push(Operation { key, action: Action::Scan, outcome: Outcome::MetTwice, ..read });
                continue;
            }
            let version = met.version;
            let outcome = match action(key) {
                Action::Count => Outcome::Counted { version, sum: workload::sum_of(&met.value) },
                _ if of_registers => Outcome::Seen { value: ValueId::of(&met.value) },
                _ => Outcome::Found { version, value: ValueId::of(&met.value) },
            };
            let answered_by = Some(met.answered_by);
            let (call, ret) = (met.call, met.ret);
            history.push(Operation { key, action: action(key), outcome, answered_by, call, ret, ..read });
        }
        history.extend(absent.into_iter().map(|key| Operation { key, action: action(key), ..read }));
    }

    /// Operations that the session before had under way stay unknown.
    fn renew_session(&mut self, now: Instant, effects: &mut Effects) {
        self.session.leave(effects);
        self.session = (self.make_session)(self.rng.u64());
        self.session_number += 1;
        self.session.step(now, Input::Start { wall_millis: self.wall_millis }, effects);
        for lane in &mut self.lanes {
            if lane.open.take().is_some() {
                lane.parts.clear();
                lane.scans_registers = false;
                lane.next = Some(now + REFUSAL_PAUSE);
            }
        }
        self.lanes.resize(self.session.lanes(), Lane::default());
    }
}

/// The result of a read of a key at this version, if an answer told it.
fn told(history: &[Operation], key: u32, version: Version) -> Option<Outcome> {
    history.iter().rev().filter(|operation| operation.key == key).find_map(|operation| {
        match (operation.action, operation.outcome) {
            (_, found @ Outcome::Found { version: theirs, .. }) if theirs == version => Some(found),
            (Action::Write { value, .. }, Outcome::Done { version: theirs }) if theirs == version => {
                Some(Outcome::Found { version, value })
            }
            _ => None,
        }
    })
}

impl<S: Session> Machine for Client<S> {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if let Input::Start { wall_millis } = input {
            self.wall_millis = wall_millis;
            for lane in &mut self.lanes {
                let pause = self.rng.below(self.workload.think_max.max(1));
                lane.next = Some(now + Duration::from_nanos(pause));
            }
        }
        self.session.step(now, input, effects);
        self.finish(now, effects);
        let is_due = |lane: &Lane| lane.open.is_none() && lane.next.is_some_and(|next| next <= now);
        if self.session.packs() && self.lanes.iter().any(is_due) {
            let idle = self.lanes.iter_mut().filter(|lane| lane.open.is_none() && lane.next.is_some());
            idle.for_each(|lane| lane.next = Some(now));
        }
        for lane in 0..self.lanes.len() {
            let Some(Lane { open: None, next, .. }) = self.lanes.get(lane) else { continue };
            if next.is_some_and(|next| next <= now) {
                self.lanes[lane].next = None;
                self.begin(now, lane, effects);
                // A session may know the outcome at once.
                self.finish(now, effects);
            }
        }
        self.session.all_begun(now, effects);
        self.finish(now, effects);
        let has_work = |lane: usize, task: &Task| match task {
            Task::Work => true,
            Task::Rest => false,
            Task::ReadBack(_) => lane == 0,
        };
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if lane.open.is_none() && lane.next.is_none() && has_work(number, &self.task) {
                lane.next = Some(now + Duration::from_millis(1));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let lanes = self.lanes.iter().filter(|lane| lane.open.is_none()).filter_map(|lane| lane.next).min();
        ramhold_base::time::earliest(self.session.deadline(), lanes)
    }
}
