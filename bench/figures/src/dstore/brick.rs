//! A simulated brick: the real register and the real queues, before a processor and a medium that take time.
//!
//! ```text
//!   frame ── admits? ── queue ── processor ─┬─ hit ─────────── register ── answer
//!            (TooMany)   rounds of          ├─ miss ── spindle ── register ── answer
//!                        32, 14, 10         └─ write ── register ── spindle ── ticket durable ── answer
//! ```
//!
//! Real are the words on the wire, the queues with their bounds, rounds and statistics (core/brick), and the register
//! (core/quorum). The log, the start and the siblings' words of core/brick are not here: its values are in memory, so no
//! medium can slow it down.
//!
//! Invariant: a question counts in the brick's queues from its coming until its answer.
//!
//! All tablets of a brick share its values; what a tablet lacks that it joins is copied at once, when the copying ends.
//!
//! Not here: the clients, the network (`world`).

use super::cache::Cache;
use super::calendar::{Calendar, Event};
use super::machines::Machine;
use super::medium::Medium;
use super::names::{CLUSTER, date, id};
use super::shelf::{Key, Size, Values};
use super::tablets::Tablet;
use super::words::{ask_of, key_of, load_of};
use ramhold_base::{ConnId, Instant, KeyHash, ServerId, Status};
use ramhold_brick::{Asker, BrickStatistics, Load, Queued, Queues};
use ramhold_quorum::{Answer, BrickId, Class, Life, Said, Ticket};
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, StampedValue};
use ramhold_wire::{Header, Kind, Opcode, frame};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

type Register = ramhold_quorum::Brick<Key, Size, Asker>;

/// A tablet that the brick holds.
#[derive(Clone, Debug)]
struct Held {
    tablet: Tablet,
    register: Register,
}

/// An access that waits for the spindle.
enum Access {
    /// A question, once its value or stamp is in memory.
    Read(Queued),
    Write(Ticket),
}

/// Counts since the beginning.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    /// Repairs that were stored.
    pub repairs: u64,
    /// Those of values that were written before the present life.
    pub repairs_missed: u64,
    /// Questions of each class that came.
    pub asked: [u64; Class::ALL.len()],
    pub busy: Duration,
}

pub struct Brick {
    pub place: usize,
    pub life: u64,
    pub is_up: bool,
    /// The processor needs so much longer for each question.
    pub more_work: Duration,
    machine: Machine,
    hashes: Arc<Vec<KeyHash>>,
    held: Vec<Held>,
    is_new: bool,
    /// When the present life began, if it is not the first.
    started: u64,
    pub values: Values,
    pub cache: Cache,
    queues: Queues,
    queue_bytes_max: usize,
    /// Questions of the present rounds.
    turn: VecDeque<Queued>,
    working: Option<Queued>,
    medium: Medium<Access>,
    port_free: Instant,
    pub counts: Counts,
}

/// The bytes of all values.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

fn brick_id(place: usize) -> BrickId {
    BrickId(id(place).raw())
}

impl Brick {
    pub fn new(
        place: usize,
        (machine, queue_bytes_max): (Machine, usize),
        hashes: Arc<Vec<KeyHash>>,
        (values, cache): (Values, Cache),
    ) -> Brick {
        Brick {
            place,
            life: 1,
            is_up: true,
            more_work: Duration::ZERO,
            machine,
            hashes,
            held: Vec::new(),
            is_new: true,
            started: 0,
            values,
            cache,
            queues: Queues::new(queue_bytes_max),
            queue_bytes_max,
            turn: VecDeque::new(),
            working: None,
            medium: Medium::default(),
            port_free: Instant::ZERO,
            counts: Counts::default(),
        }
    }

    /// Holds these tablets and no others from now on. `lives` are those of all bricks by their places. A tablet of which it
    /// had not all is not voted for before `is_copied`.
    pub fn hold(&mut self, tablets: &[Tablet], lives: &[u64]) {
        let mine: Vec<&Tablet> =
            tablets.iter().filter(|tablet| tablet.bricks.contains(&self.place)).collect();
        let is_first = std::mem::take(&mut self.is_new);
        let mut before = std::mem::take(&mut self.held);
        let (id, hashes) = (brick_id(self.place), self.hashes.clone());
        for tablet in mine {
            let siblings = tablet.bricks.iter().filter(|place| **place != self.place);
            let siblings: Vec<(BrickId, Life)> =
                siblings.map(|place| (brick_id(*place), Life(lives[*place]))).collect();
            let known = before.iter().position(|held| held.tablet.range() == tablet.range());
            let inside = before.iter().filter(|held| tablet.holds(&held.tablet));
            let covered: u128 = inside.map(|held| held.tablet.size()).sum();
            let around = before.iter().position(|held| held.tablet.holds(tablet));
            let mut register = match (known, around) {
                (Some(at), _) => before.swap_remove(at).register,
                (None, None) if covered == tablet.size() => {
                    let inside = before.extract_if(.., |held| tablet.holds(&held.tablet));
                    let joined = inside.map(|held| held.register).reduce(|mut one, other| {
                        one.join(other);
                        one
                    });
                    joined.expect("it covers the tablet")
                }
                (None, Some(at)) => before[at].register.cut(|key| tablet.has(hashes[*key as usize])),
                (None, None) if is_first => Register::new(id, Life(self.life), tablet.epoch),
                (None, None) => {
                    let mut register = Register::new(id, Life(self.life - 1), tablet.epoch);
                    register.begin_life(true);
                    register
                }
            };
            register.change(tablet.epoch, siblings.into_iter().collect());
            self.held.push(Held { tablet: tablet.clone(), register });
        }
        self.recount();
    }

    /// The tablets of which something is missing.
    pub fn missing(&self) -> Vec<Tablet> {
        self.held.iter().filter(|held| !held.register.votes()).map(|held| held.tablet.clone()).collect()
    }

    /// The values of all tablets are copied from the others: it votes.
    pub fn is_copied(&mut self, now: Instant) {
        // It does not know what it has stored before.
        self.values.forget(date(now) + ramhold_quorum::REBUILT_BOUND.as_micros() as u64);
        self.held.iter_mut().for_each(|held| held.register.is_rebuilt());
    }

    /// Answers of registers that are gone wait no more.
    fn recount(&mut self) {
        let waiting = self.held.iter().flat_map(|held| held.register.waiting());
        self.queues.recount(waiting);
        let at_medium = self.medium.waiting().filter_map(|access| match access {
            Access::Read(queued) => Some(queued),
            Access::Write(_) => None,
        });
        let in_turn = self.turn.iter().chain(&self.working).chain(at_medium);
        let loads: Vec<Load> = in_turn.map(|queued| queued.asker.load).collect();
        loads.into_iter().for_each(|load| self.queues.waits(load));
    }

    pub fn hear_of(&mut self, place: usize, life: u64) {
        for held in &mut self.held {
            if held.tablet.bricks.contains(&place) {
                held.register.hear_of(brick_id(place), Life(life));
            }
        }
    }

    pub fn kill(&mut self, now: Instant) {
        self.is_up = false;
        self.values.lose(date(now));
    }

    /// Starts again, after `kill`.
    pub fn start(&mut self, now: Instant) {
        self.started = date(now);
        self.life += 1;
        self.is_up = true;
        self.more_work = Duration::ZERO;
        for held in &mut self.held {
            held.register.begin_life(false);
        }
        self.queues = Queues::new(self.queue_bytes_max);
        (self.turn, self.working, self.medium) = Default::default();
    }

    pub fn statistics(&self) -> BrickStatistics {
        self.queues.statistics()
    }

    /// A frame of a session.
    pub fn on_frame(&mut self, calendar: &mut Calendar, session: usize, bytes: &[u8]) {
        let (header, body) = frame::parse(bytes).expect("sessions send frames");
        let request = AskRequest::decode(body).expect("sessions ask about keys");
        let load = load_of(&request);
        self.counts.asked[load.class.index()] += 1;
        let conn = ConnId(session as u64);
        let asker = Asker { conn, rpc: header.rpc, brick: ServerId::NONE, load, came: calendar.now };
        if !self.queues.admits(load) {
            self.queues.dropped(load.class);
            return self.send(calendar, asker, Status::TooMany, |_| {});
        }
        self.queues.push(Queued { asker, body: body.to_vec() });
        self.work(calendar);
    }

    /// Begins the next question, if the processor is free.
    fn work(&mut self, calendar: &mut Calendar) {
        if self.working.is_some() {
            return;
        }
        if self.turn.is_empty() {
            self.turn.extend(self.queues.take_rounds());
            self.turn.iter().for_each(|queued| self.queues.waits(queued.asker.load));
        }
        let Some(queued) = self.turn.pop_front() else { return };
        let class = queued.asker.load.class;
        self.queues.served(calendar.now, queued.asker);
        let mut work = self.machine.work(class) + self.more_work;
        if class == Class::Stamp && self.cache.must_derive_stamp(key_of(&queued.body)) {
            // The stamp comes with the value, out of the file cache.
            work += self.machine.work(Class::Get);
        }
        self.counts.busy += work;
        self.working = Some(queued);
        calendar.note(calendar.now + work, Event::Worked { brick: self.place, life: self.life });
    }

    /// The processor has done its question.
    pub fn on_worked(&mut self, calendar: &mut Calendar) {
        let queued = self.working.take().expect("it was at work");
        let class = queued.asker.load.class;
        let is_hit = match class {
            Class::Get => self.cache.has_value(key_of(&queued.body)),
            Class::Stamp => self.cache.has_stamp(key_of(&queued.body)),
            Class::Put => true,
        };
        if is_hit {
            self.judge(calendar, &queued);
        } else {
            self.medium.push(class, Access::Read(queued));
        }
        self.turn_spindle(calendar);
        self.work(calendar);
    }

    fn turn_spindle(&mut self, calendar: &mut Calendar) {
        if self.medium.begin() {
            let at = calendar.now + self.machine.spindle;
            calendar.note(at, Event::Turned { brick: self.place, life: self.life });
        }
    }

    /// The spindle has done its access.
    pub fn on_turned(&mut self, calendar: &mut Calendar) {
        match self.medium.end().expect("it was under way") {
            Access::Read(queued) => {
                self.counts.reads += 1;
                self.cache.read(key_of(&queued.body));
                self.judge(calendar, &queued);
            }
            Access::Write(ticket) => {
                self.counts.writes += 1;
                self.values.is_durable(ticket);
                let mut answers = Vec::new();
                for held in &mut self.held {
                    answers.extend(held.register.is_durable(date(calendar.now), ticket));
                }
                for (asker, answer) in answers {
                    self.queues.waited(asker.load);
                    self.answer(calendar, asker, answer);
                }
            }
        }
        self.turn_spindle(calendar);
    }

    /// Everything that the question needs is in memory: the register is asked.
    fn judge(&mut self, calendar: &mut Calendar, queued: &Queued) {
        let asker = queued.asker;
        self.queues.waited(asker.load);
        let request = AskRequest::decode(&queued.body).expect("it was decoded when it came");
        let key = key_of(&queued.body);
        let time = date(calendar.now);
        let hash = self.hashes[key as usize];
        let Some(held) = self.held.iter_mut().find(|held| held.tablet.has(hash)) else {
            let Some(other) = self.held.first() else {
                return self.send(calendar, asker, Status::UnknownTable, |_| {});
            };
            let answer = other.register.wrong_owner(time);
            return self.answer(calendar, asker, answer);
        };
        if !held.register.votes() {
            return self.send(calendar, asker, Status::NotReady, |_| {});
        }
        let is_repair = matches!(&request.what, AskWhat::Write(write) if write.is_repair);
        let is_before = matches!(&request.what, AskWhat::Write(write) if write.stamp.time < self.started);
        let is_missed = is_repair && is_before;
        let (last, waiting) = (self.values.ticket_last(), held.register.waiting_count());
        let answers = held.register.ask(time, (&key, ask_of(&request.what)), asker, &mut self.values);
        if held.register.waiting_count() > waiting {
            self.queues.waits(asker.load);
        }
        if self.values.ticket_last() > last {
            self.counts.repairs += u64::from(is_repair);
            self.counts.repairs_missed += u64::from(is_missed);
            self.cache.written(key);
            self.medium.push(Class::Put, Access::Write(self.values.ticket_last()));
        }
        for (asker, answer) in answers {
            self.answer(calendar, asker, answer);
        }
    }

    fn answer(&mut self, calendar: &mut Calendar, asker: Asker, answer: Answer<Size>) {
        self.queues.answered(calendar.now, asker);
        let bytes = |size: Size| StampedValue { bytes: &ZEROS[..size as usize], expires: None };
        let said = match answer.said {
            Said::Value(stamp, value) => AskSaid::Value(stamp, value.map(bytes)),
            Said::Stamp(stamp) => AskSaid::Stamp(stamp),
            Said::Applied => AskSaid::Applied,
            Said::Rejected(stamp) => AskSaid::Rejected(stamp),
            Said::Unknown(stamp) => AskSaid::Unknown(stamp),
            Said::WrongOwner => AskSaid::WrongOwner,
        };
        let siblings = answer.siblings.iter().map(|(brick, life)| (ServerId(brick.0), life.0)).collect();
        let (life, epoch, clock) = (answer.life.0, answer.epoch, answer.clock);
        let reply = AskReply { life, siblings, epoch, clock, said };
        self.send(calendar, asker, Status::Ok, |out| reply.encode(out));
    }

    /// Sends an answer behind those that the port still sends.
    fn send(
        &mut self,
        calendar: &mut Calendar,
        asker: Asker,
        status: Status,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let header = Header {
            kind: Kind::Reply,
            status: status.code(),
            cluster: CLUSTER,
            sender: id(self.place),
            ..Header::request(Opcode::Ask, asker.rpc)
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, body);
        let nanos = bytes.len() as u64 * 1_000_000_000 / self.machine.port;
        self.port_free = self.port_free.max(calendar.now) + Duration::from_nanos(nanos);
        let told = Event::Told { session: asker.conn.0 as usize, frame: bytes };
        calendar.note(self.port_free + self.machine.wire, told);
    }
}
