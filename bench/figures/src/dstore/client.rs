//! The clients of a simulated cluster: real sessions, each with closed-loop clients or with arrivals of its own.
//!
//! A *lane* is one client in closed loop: it begins the next operation when the one before has ended, after a pause to
//! think. An open-loop session begins operations at a rate, whatever has ended. Keys are chosen as the paper does.
//!
//! Not here: what sessions do (core/client), the network (`world`).

use super::calendar::{Calendar, Event};
use super::measure::{Kind, Measures};
use super::names::{COORDINATOR, TABLE, address};
use super::shelf::Key;
use ramhold_base::{Effect, Effects, Input, Instant, Machine, Peer, Rng};
use ramhold_client_core::{Operation, OperationId, Outcome, RejectRules, Reply, Session, SessionConfig};
use ramhold_quorum::Class;
use ramhold_wire::ask::{AskRequest, AskWhat};
use ramhold_wire::{Opcode, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The pause after an operation that failed.
const FAILED_PAUSE: Duration = Duration::from_millis(5);

/// How keys are chosen.
#[derive(Clone, Debug)]
pub enum Choice {
    /// `hit` of 100 times one of the first `working` keys, else one of the others.
    Induced { hit: u64, working: Key, count: Key },
    /// Every key alike.
    Even { count: Key },
    /// Keys of these lists: so many times of 1,000 one of the list, each alike. The numbers add up to 1,000.
    Listed(Arc<Vec<(u64, Vec<Key>)>>),
}

impl Choice {
    fn pick(&self, rng: &mut Rng) -> Key {
        let below = |rng: &mut Rng, bound: Key| rng.below(u64::from(bound)) as Key;
        match self {
            Choice::Induced { hit, working, count } => {
                if rng.below(100) < *hit || working == count {
                    below(rng, *working)
                } else {
                    working + below(rng, count - working)
                }
            }
            Choice::Even { count } => below(rng, *count),
            Choice::Listed(lists) => {
                let mut drawn = rng.below(1000);
                let list = lists.iter().find(|(times, _)| {
                    let is_it = drawn < *times;
                    drawn = drawn.saturating_sub(*times);
                    is_it
                });
                let (_, keys) = list.expect("the numbers add up");
                keys[rng.below(keys.len() as u64) as usize]
            }
        }
    }
}

/// The task of a session.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// So many clients, each with one operation under way.
    Closed { gets: usize, puts: usize, think: Duration },
    /// Operations per second.
    Open { gets: f64, puts: f64 },
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    kind: Kind,
    /// Between two operations, in open loop; the think time in closed loop.
    pause: Duration,
    is_open: bool,
}

pub struct Client {
    place: usize,
    pub session: Session,
    lanes: Vec<Lane>,
    choice: Choice,
    value: Vec<u8>,
    is_stale: bool,
    is_retired: bool,
    rng: Rng,
    /// The operations under way: their lanes, and when they began.
    under_way: BTreeMap<OperationId, (usize, Instant)>,
    /// The time of the timer's event.
    wake: Option<Instant>,
}

/// A frame of a session: where it goes, and its bytes.
pub type Sent = (SocketAddr, Vec<u8>);

impl Client {
    pub fn new(
        place: usize,
        (load, choice): (Load, Choice),
        (value_bytes, is_stale): (u32, bool),
        seed: u64,
    ) -> Client {
        let mut config = SessionConfig::new(vec![COORDINATOR]);
        config.operation_count_max = 1 << 20;
        let lanes = match load {
            Load::Closed { gets, puts, think } => {
                let lane = |kind| Lane { kind, pause: think, is_open: false };
                let gets = std::iter::repeat_n(lane(Kind::Get), gets);
                gets.chain(std::iter::repeat_n(lane(Kind::Put), puts)).collect()
            }
            Load::Open { gets, puts } => [(Kind::Get, gets), (Kind::Put, puts)]
                .into_iter()
                .filter(|(_, rate)| *rate > 0.0)
                .map(|(kind, rate)| Lane { kind, pause: Duration::from_secs_f64(1.0 / rate), is_open: true })
                .collect(),
        };
        Client {
            place,
            session: Session::new(config, seed),
            lanes,
            choice,
            value: vec![0; value_bytes as usize],
            is_stale,
            is_retired: false,
            rng: Rng::new(seed ^ 0x5eed),
            under_way: BTreeMap::new(),
            wake: None,
        }
    }

    /// Begins nothing any more.
    pub fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Every lane begins within the first 50 ms.
    pub fn begin(&mut self, calendar: &mut Calendar) {
        for lane in 0..self.lanes.len() {
            let pause = Duration::from_micros(self.rng.below(50_000));
            calendar.note(calendar.now + pause, Event::Begin { session: self.place, lane });
        }
    }

    fn operation(&mut self, kind: Kind) -> Operation {
        let key = self.choice.pick(&mut self.rng).to_le_bytes().to_vec();
        let rules = RejectRules::default();
        match kind {
            Kind::Get if self.is_stale => Operation::ReadStale { table: TABLE, key },
            Kind::Get => Operation::Read { table: TABLE, key, rules },
            Kind::Put => {
                Operation::Write { table: TABLE, key, value: self.value.clone(), rules, expiry: None }
            }
        }
    }

    pub fn on_begin(&mut self, calendar: &mut Calendar, lane: usize, measures: &mut Measures) -> Vec<Sent> {
        if self.is_retired {
            return Vec::new();
        }
        let Lane { kind, pause, is_open } = self.lanes[lane];
        if is_open {
            // Twice the pause at most, so that arrivals are uneven; without logarithms, which machines round differently.
            let nanos = self.rng.below(2 * pause.as_nanos() as u64);
            let at = calendar.now + Duration::from_nanos(nanos);
            calendar.note(at, Event::Begin { session: self.place, lane });
        }
        let operation = self.operation(kind);
        let mut effects = Effects::new();
        let id = self.session.start(calendar.now, operation, &mut effects);
        self.under_way.insert(id, (lane, calendar.now));
        self.after(calendar, &effects, measures)
    }

    pub fn step(&mut self, calendar: &mut Calendar, input: Input<'_>, measures: &mut Measures) -> Vec<Sent> {
        let mut effects = Effects::new();
        self.session.step(calendar.now, input, &mut effects);
        self.after(calendar, &effects, measures)
    }

    pub fn on_tick(&mut self, calendar: &mut Calendar, measures: &mut Measures) -> Vec<Sent> {
        self.wake = None;
        if self.session.deadline().is_some_and(|at| at <= calendar.now) {
            return self.step(calendar, Input::Tick, measures);
        }
        self.set_timer(calendar);
        Vec::new()
    }

    fn after(&mut self, calendar: &mut Calendar, effects: &Effects, measures: &mut Measures) -> Vec<Sent> {
        while let Some((id, outcome)) = self.session.take_outcome() {
            let Some((lane, began)) = self.under_way.remove(&id) else { continue };
            let Lane { kind, pause, is_open } = self.lanes[lane];
            let is_done = match &outcome {
                Outcome::Done(Reply::Read { .. } | Reply::Written { .. }) => true,
                Outcome::Done(_) | Outcome::Refused { .. } | Outcome::Unknown { .. } => false,
            };
            measures.ended(calendar.now, kind, calendar.now.since(began), is_done);
            if !is_done && let Outcome::Refused { detail, .. } | Outcome::Unknown { detail, .. } = &outcome {
                measures.note_failure(detail);
            }
            if !is_open {
                let pause = if is_done { pause } else { FAILED_PAUSE };
                calendar.note(calendar.now + pause, Event::Begin { session: self.place, lane });
            }
        }
        self.set_timer(calendar);
        let mut sent = Vec::new();
        let mut classes = [0; Class::ALL.len()];
        for effect in &effects.list {
            let Effect::Send { to: Peer::Addr(to), frame: outgoing } = effect else { continue };
            let bytes = outgoing.of(&effects.bytes).into_owned();
            if let Some(class) = class_of(&bytes) {
                classes[class.index()] += 1;
            }
            sent.push((*to, bytes));
        }
        measures.asked(calendar.now, classes);
        sent
    }

    fn set_timer(&mut self, calendar: &mut Calendar) {
        let Some(deadline) = self.session.deadline() else { return };
        let at = deadline.max(calendar.now);
        if self.wake.is_none_or(|wake| at < wake) {
            self.wake = Some(at);
            calendar.note(at, Event::Tick { session: self.place });
        }
    }

    /// The brick was killed, and its connections with it.
    pub fn broken(&self, place: usize) -> Event {
        Event::Lost { session: self.place, addr: address(place), how: ramhold_base::Lost::Broken }
    }
}

fn class_of(bytes: &[u8]) -> Option<Class> {
    let (header, body) = frame::parse(bytes).ok()?;
    if header.opcode() != Some(Opcode::Ask) {
        return None;
    }
    Some(match AskRequest::decode(body).ok()?.what {
        AskWhat::Value => Class::Get,
        AskWhat::Stamp => Class::Stamp,
        AskWhat::Write(_) => Class::Put,
    })
}
