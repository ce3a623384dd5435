//! One operation on a quorum table, from its first question to its end.
//!
//! The operation runs one of the register's machines at a time, and may begin anew: when it knows the time, when the
//! key has moved to other bricks, when a stamp was refused for good. A put whose stamp is open goes on with this stamp.
//!
//! A get of a key for which the session has a put of unknown outcome settles that put first.
//!
//! Invariant: a put takes a new stamp only when the one before it is known to be never committed.
//!
//! Not here: the bytes and the calls (`quorum`), the bricks of a key (`bricks`), the outcome (`ending`).

mod ending;

use super::order::{Open, Order, Value, What};
use super::silence::Silence;
use crate::bricks::Bricks;
use crate::outcome::{Cause, Outcome};
use crate::token::Token;
use crate::trouble::{Trouble, What as Problem, Who};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Instant, ServerId, Stamp};
use ramhold_quorum::{
    AHEAD_REPAIR, Answer, Ask, BrickId, Get, Got, HORIZON, Late, Out, Phases, Put, Said, SessionClock,
    StaleGet, StaleGot, Write, Written,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a get waits for a brick before it asks another one, at first, while bricks answer as they should. A brick that
/// is being started is silent for longer than users want to wait.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// A brick that refuses is asked again by a put after this time, and so is one that is silent by whoever asks for its time; a
/// page asks another one, too. The question is lost for the brick's window. Questions of gets and puts to silent bricks have
/// a pace of their own (core/quorum, `under_way`). Some ten times as long as a brick needs to write to its device.
pub const AGAIN: Duration = Duration::from_millis(100);
/// How long a get that needs fewer bricks than a put tries to settle a put of its session first. Bricks that serve answer
/// sooner.
const SETTLE_FOR: Duration = Duration::from_millis(200);

pub struct UnderWay {
    pub order: Order,
    pub bricks: Arc<Bricks>,
    pub deadline: Instant,
    /// Counts the machines. Answers to the questions of an earlier one mean nothing to the present one, which may have
    /// another stamp under the same number of an attempt.
    pub round: u32,
    machine: Machine,
    /// The put whose fate is open: the operation's own, or for a get the session's, which is settled first.
    open: Option<Open>,
    /// No put of the session up to this stamp is open any more.
    settled: Option<Stamp>,
    /// The put of the session is settled, or was tried long enough: the get can begin.
    is_next_due: bool,
    /// The stamp of the last put that was sent to any brick.
    written: Stamp,
    /// Writes of this stamp that were sent, but for those that were refused without being stored. With none the put has
    /// surely had no effect.
    writes: u32,
    silence: Silence,
    /// The brick that told the last value.
    value_from: ServerId,
}

enum Machine {
    /// The operation waits for the table's description.
    Waiting,
    /// Too few bricks have told their time: all are asked.
    Greeting {
        again_at: Instant,
        /// Bricks that have answered.
        heard: Vec<BrickId>,
        /// A get that can do without does not wait for longer.
        until: Instant,
    },
    Put {
        put: Put<Value>,
        value: Option<Value>,
    },
    Get(Get<Value>),
    /// One brick is asked, and its answer is told as it is.
    Stale(StaleGet),
    /// An old token: nothing is written, all bricks are asked.
    Settling(Get<Value>),
}

/// The next step of an operation.
pub enum Next {
    /// An answer is awaited, or the time that was asked for.
    Wait,
    /// Keys of a page are to be read: see `Quorum::next_read`.
    Read,
    End(Outcome),
    /// The bricks do not hold the key.
    Elsewhere(Trouble),
    /// The operation begins anew at the same bricks, after a pause.
    Anew(Trouble),
}

enum End {
    Put(Written),
    Got(Got<Value>),
    Stale(StaleGot<Value>),
}

impl UnderWay {
    pub fn new((order, open): (Order, Option<Open>), bricks: Arc<Bricks>, deadline: Instant) -> UnderWay {
        let (machine, value_from) = (Machine::Waiting, ServerId::NONE);
        let (round, silence) = (0, Silence::default());
        // That of a token was sent by another session.
        let written = open.as_ref().map_or(Stamp::NONE, |open| open.stamp);
        let writes = u32::from(open.is_some());
        let (settled, is_next_due) = (None, false);
        UnderWay {
            order,
            bricks,
            deadline,
            round,
            machine,
            open,
            settled,
            is_next_due,
            written,
            writes,
            silence,
            value_from,
        }
    }

    /// Begins, or begins anew. `ranked` are the bricks in the order in which a get asks them. `patience`: with silent bricks.
    pub fn start(
        &mut self,
        now: Instant,
        ranked: &[BrickId],
        (phases, patience): (Phases, Duration),
        clock: &mut SessionClock,
        outs: &mut Vec<Out<Value>>,
    ) -> Next {
        self.round += 1;
        let is_known = self.knows_time(now, clock, ranked);
        if let What::ReadStale = self.order.what {
            let mut get = StaleGet::new(now, ranked, (self.deadline, patience));
            get.start(now, outs);
            self.machine = Machine::Stale(get);
            return Next::Wait;
        }
        let Some(time) = clock.now(now).filter(|_| is_known) else {
            self.greet(now, ranked, outs);
            return Next::Wait;
        };
        let within = (self.deadline, AGAIN);
        let patient = (self.deadline, patience);
        let known = "the clock is known";
        if let Some(Open { stamp, value, begun }) = self.open.clone() {
            // Bricks whose time is a little behind may still store it after the horizon.
            let age = Duration::from_micros(time.saturating_sub(begun));
            let is_old = age > HORIZON + AHEAD_REPAIR;
            let within = if self.is_read() { (self.settle_until(now, is_old), AGAIN) } else { within };
            if is_old {
                let of = (ranked, self.bricks.thresholds, true);
                let mut get = Get::new(now, of, clock, within).expect(known);
                get.start(now, clock, outs);
                self.machine = Machine::Settling(get);
            } else {
                let of = (ranked, self.bricks.thresholds);
                let open = (stamp, value.clone(), begun);
                let mut put = match self.is_read() {
                    true => Put::overtake(now, of, open, within),
                    false => Put::resume(now, of, open, within),
                };
                put.start(now, clock, outs);
                self.machine = Machine::Put { put, value };
            }
            return Next::Wait;
        }
        let value = match &self.order.what {
            What::Read | What::ReadStale | What::Resume => {
                let of = (ranked, self.bricks.thresholds, false);
                let mut get = Get::new(now, of, clock, patient).expect(known).with_ends(Value::end);
                get.start(now, clock, outs);
                self.machine = Machine::Get(get);
                return Next::Wait;
            }
            What::Remove => None,
            What::Write { bytes, expiry } => {
                match expiry.map(|expiry| expiry.end(ClusterTime(time / 1000))).transpose() {
                    Ok(expires) => Some(Value { bytes: bytes.clone(), expires }),
                    Err(status) => {
                        let detail = "the expiry is too far ahead".to_owned();
                        return Next::End(Outcome::refused(status, Cause::Unsent, detail));
                    }
                }
            }
        };
        let of = (ranked, self.bricks.thresholds);
        let mut put = Put::new(now, of, (value.clone(), phases), clock, within).expect(known);
        put.start(now, clock, outs);
        self.machine = Machine::Put { put, value };
        Next::Wait
    }

    /// Asks all bricks, for the time that they tell.
    fn greet(&mut self, now: Instant, bricks: &[BrickId], outs: &mut Vec<Out<Value>>) {
        let again_at = now + AGAIN;
        outs.extend(bricks.iter().map(|to| Out::Send { to: *to, attempt: 0, ask: Ask::Stamp }));
        let until = match &self.machine {
            Machine::Greeting { until, .. } if self.open.is_some() => *until,
            _ if self.is_read() && self.open.is_some() => self.settle_until(now, false),
            _ => self.deadline,
        };
        outs.push(Out::WakeAt(again_at.min(until)));
        let heard = match &mut self.machine {
            Machine::Greeting { heard, .. } => std::mem::take(heard),
            Machine::Waiting
            | Machine::Put { .. }
            | Machine::Get(_)
            | Machine::Stale(_)
            | Machine::Settling(_) => Vec::new(),
        };
        self.machine = Machine::Greeting { again_at, heard, until };
    }

    /// Whether bricks deny the table that must have had it.
    pub fn is_denied(&self) -> bool {
        self.silence.denies_table(&self.bricks)
    }

    /// Whether the operation asks bricks, and does not wait for a description.
    pub fn is_asking(&self) -> bool {
        !matches!(self.machine, Machine::Waiting)
    }

    /// Whether the answer to this question can still change something. That to a question with an earlier stamp cannot.
    pub fn awaits(&self, round: u32, attempt: Option<u32>) -> bool {
        // Repairs on the side have no attempt of the machine's, and nobody waits for them.
        let is_of = |present: u32| attempt.is_none_or(|attempt| attempt == present);
        let is_present = match &self.machine {
            Machine::Put { put, .. } => is_of(put.attempt()),
            Machine::Get(get) | Machine::Settling(get) => is_of(get.attempt()),
            Machine::Waiting | Machine::Greeting { .. } | Machine::Stale(_) => true,
        };
        round == self.round && is_present
    }

    /// Whether the operation can begin now that more bricks have told their time.
    pub fn has_greeted(&self, now: Instant, clock: &SessionClock) -> bool {
        self.knows_time(now, clock, &self.ids()) && matches!(self.machine, Machine::Greeting { .. })
    }

    /// Whether so many bricks have told their time that the operation can begin. A get hears R of them before it writes
    /// anything: that is more than half, or the time must be known before. One that settles a put first must know how old
    /// that is.
    fn knows_time(&self, now: Instant, clock: &SessionClock, bricks: &[BrickId]) -> bool {
        match self.order.what {
            What::ReadStale => true,
            What::Read if self.open.is_none() && self.hears_most() => clock.now(now).is_some(),
            What::Read | What::Write { .. } | What::Remove | What::Resume => clock.is_known(bricks),
        }
    }

    /// Whether R bricks are more than half of the key's.
    fn hears_most(&self) -> bool {
        let thresholds = self.bricks.thresholds;
        2 * thresholds.read() > thresholds.bricks() || planted(Defect::QuorumTimeOfOne)
    }

    /// Whether a put is under way that has no stamp of before.
    pub fn puts_anew(&self) -> bool {
        matches!(self.machine, Machine::Put { .. }) && self.open.is_none()
    }

    fn is_read(&self) -> bool {
        matches!(self.order.what, What::Read)
    }

    /// When a get stops to settle a put. A get that needs as many bricks as a put could not be answered without them either.
    fn settle_until(&self, now: Instant, is_old: bool) -> Instant {
        let thresholds = self.bricks.thresholds;
        let is_harder = is_old || thresholds.write() > thresholds.read();
        if is_harder { self.deadline.min(now + SETTLE_FOR) } else { self.deadline }
    }

    /// Whether the operation has come to its next step, and must begin anew at once for that.
    pub fn takes_next_step(&mut self) -> bool {
        std::mem::take(&mut self.is_next_due)
    }

    /// The operation's own put, if its fate is open.
    pub fn open_put(&self) -> Option<Open> {
        self.open().filter(|_| !self.is_read())
    }

    /// No put of the session up to this stamp is open any more.
    pub fn settled(&self) -> Option<Stamp> {
        self.settled
    }

    pub fn ids(&self) -> Vec<BrickId> {
        self.bricks.places.iter().map(|place| BrickId(place.brick.raw())).collect()
    }

    pub fn on_answer(
        &mut self,
        now: Instant,
        attempt: u32,
        answer: Answer<Value>,
        clock: &mut SessionClock,
        outs: &mut Vec<Out<Value>>,
    ) -> Next {
        self.silence.heard(answer.from);
        if matches!(answer.said, Said::Value(..)) {
            self.value_from = ServerId(answer.from.0);
        }
        let end = match &mut self.machine {
            Machine::Waiting => None,
            Machine::Greeting { heard, .. } => {
                heard.push(answer.from);
                None
            }
            Machine::Put { put, .. } => put.on_answer(now, attempt, answer, clock, outs).map(End::Put),
            Machine::Get(get) | Machine::Settling(get) => {
                get.on_answer(now, attempt, answer, clock, outs).map(End::Got)
            }
            Machine::Stale(get) => get.on_answer(now, attempt, answer, outs).map(End::Stale),
        };
        end.map_or(Next::Wait, |end| self.end(now, end, clock))
    }

    /// A brick refuses to answer, or its answer is overdue.
    pub fn on_trouble(
        &mut self,
        now: Instant,
        brick: ServerId,
        problem: Problem,
        outs: &mut Vec<Out<Value>>,
    ) {
        let brick = BrickId(brick.raw());
        self.silence.note(brick, problem);
        match &mut self.machine {
            // A brick that is late has a timer.
            Machine::Put { put, .. } if problem != Problem::Silent => put.on_silent(brick),
            Machine::Get(get) | Machine::Settling(get) if problem != Problem::Silent => {
                get.on_silent(now, brick, outs);
            }
            Machine::Stale(get) if problem != Problem::Silent => get.on_silent(now, brick, outs),
            Machine::Get(_)
            | Machine::Stale(_)
            | Machine::Settling(_)
            | Machine::Waiting
            | Machine::Greeting { .. }
            | Machine::Put { .. } => {}
        }
    }

    /// A question waits because the brick's window is full.
    pub fn note_held(&mut self, brick: ServerId) {
        self.silence.note(BrickId(brick.raw()), Problem::WindowFull);
    }

    /// The question goes out now.
    pub fn note_asked(&mut self, brick: ServerId) {
        self.silence.heard(BrickId(brick.raw()));
    }

    /// A write goes out: from now on it may take effect.
    pub fn note_written(&mut self, write: &Write<Value>) {
        if !write.is_repair {
            let is_new = write.stamp != self.written;
            self.written = write.stamp;
            self.writes = if is_new { 1 } else { self.writes.saturating_add(1) };
        }
    }

    /// A write of this stamp, which went out, was refused by its brick, which has not stored it.
    pub fn note_not_stored(&mut self, stamp: Stamp) {
        if stamp == self.written {
            self.writes = self.writes.saturating_sub(1);
        }
    }

    /// Whether this stamp may be stored anywhere.
    fn may_be_stored(&self, stamp: Stamp) -> bool {
        stamp == self.written && (self.writes > 0 || planted(Defect::QuorumRefusedIsUnknown))
    }

    pub fn on_time(&mut self, now: Instant, clock: &mut SessionClock, outs: &mut Vec<Out<Value>>) -> Next {
        let end = match &mut self.machine {
            Machine::Waiting => None,
            Machine::Greeting { again_at, heard, until } => {
                let (is_due, is_over) = (now >= *again_at, now >= *until);
                if now >= self.deadline {
                    let heard = std::mem::take(heard);
                    let mut silent = self.ids();
                    silent.retain(|brick| !heard.contains(brick));
                    return Next::End(self.too_few(&silent, self.needed()));
                }
                if is_over && self.is_read() && self.open.take().is_some() {
                    // Fewer bricks than a put needs are enough for it.
                    self.is_next_due = true;
                } else if is_due {
                    let ids = self.ids();
                    self.greet(now, &ids, outs);
                }
                None
            }
            Machine::Put { put, .. } => put.on_time(now, clock, outs).map(End::Put),
            Machine::Get(get) | Machine::Settling(get) => get.on_time(now, clock, outs).map(End::Got),
            Machine::Stale(get) => get.on_time(now, outs).map(End::Stale),
        };
        end.map_or(Next::Wait, |end| self.end(now, end, clock))
    }

    /// The bricks that are late, if the operation would ask others now for no other reason.
    pub fn late(&self, now: Instant) -> Vec<Late> {
        match &self.machine {
            Machine::Get(get) | Machine::Settling(get) => get.late(now),
            Machine::Stale(get) => get.late(now).into_iter().collect(),
            Machine::Waiting | Machine::Greeting { .. } | Machine::Put { .. } => Vec::new(),
        }
    }

    /// Waits on for the bricks that are late.
    pub fn wait_on(&mut self, now: Instant, outs: &mut Vec<Out<Value>>) {
        match &mut self.machine {
            Machine::Get(get) | Machine::Settling(get) => get.wait_on(now, outs),
            Machine::Stale(get) => get.wait_on(now, outs),
            Machine::Waiting | Machine::Greeting { .. } | Machine::Put { .. } => {}
        }
    }

    /// Stops asking, until `start`. An open stamp is kept.
    pub fn suspend(&mut self) {
        self.open = self.open();
        self.machine = Machine::Waiting;
    }

    /// The put whose fate is open.
    fn open(&self) -> Option<Open> {
        match &self.machine {
            Machine::Put { put, value } => {
                let begun = put.begun();
                let stamp = put.open().filter(|stamp| self.may_be_stored(*stamp));
                stamp.map(|stamp| Open { stamp, value: value.clone(), begun })
            }
            Machine::Waiting
            | Machine::Greeting { .. }
            | Machine::Get(_)
            | Machine::Stale(_)
            | Machine::Settling(_) => self.open.clone(),
        }
    }

    /// Settles the operation later, if its fate is open.
    pub fn token(&self) -> Option<Box<Token>> {
        self.open_put().map(|open| Box::new(self.order.token(&open)))
    }

    /// How many bricks must answer before the operation goes on.
    fn needed(&self) -> usize {
        let thresholds = self.bricks.thresholds;
        match (&self.machine, &self.order.what) {
            (Machine::Get(get) | Machine::Settling(get), _) => get.needed(),
            (Machine::Put { put, .. }, _) => put.needed(),
            (_, What::ReadStale) => 1,
            (_, What::Read) => thresholds.read(),
            (_, What::Write { .. } | What::Remove | What::Resume) => thresholds.write(),
        }
    }

    /// The time is over, and these bricks are silent.
    fn too_few(&self, silent: &[BrickId], needed: usize) -> Outcome {
        let detail = self.silence.text(&self.bricks, silent, ("key", needed));
        match self.token() {
            None => {
                let status = self.silence.status(&self.bricks, silent, needed);
                Outcome::refused(status, Cause::Deadline, detail)
            }
            token => Outcome::Unknown { detail, token },
        }
    }

    fn trouble(&self, what: Problem) -> Trouble {
        let place = self.bricks.places[0];
        Trouble { who: Who::Brick(place.brick), addr: place.address.0, what }
    }
}
