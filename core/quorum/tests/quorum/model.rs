//! A few bricks and sessions under one made-up clock: messages that take their time or are lost with a brick, bricks that
//! are away for a while or lose power, sessions whose clocks are off and which die.
//!
//! The delays, outages and plans are those of the project's model of DSTORE04, `Setting` names its variants.

use crate::history::Operation;
use crate::shelf::{KEY, Memory};
use ramhold_base::{Instant, Rng};
use ramhold_quorum::{
    Answer, Ask, Brick, BrickId, Get, Got, Life, Out, Phases, Put, REBUILT_BOUND, Rebuild, SessionClock,
    SessionId, Shelf, Stamp, Thresholds, Ticket, Written,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// Microseconds.
type Time = u64;
const MILLI: Time = 1000;
/// The bricks' date when a run begins.
const DATE: Time = 1_000_000 * MILLI;
const PUT_WITHIN: Duration = Duration::from_millis(120);
const GET_WITHIN: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(25);
/// With a device that answers late: how long a write takes.
const SYNC: Time = 10 * MILLI;

/// A variant of the model: its fixed numbers, and the chances of what is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub bricks: u8,
    pub write: u8,
    pub read: u8,
    /// None: each put draws its own.
    pub phases: Option<Phases>,
    /// The hundredths of bricks that are away for a while.
    pub outages: u64,
    pub power: Power,
    /// How far session clocks are off.
    pub skew: Time,
    /// Half of the values end by themselves, soon.
    pub ends: bool,
}

/// A value that ends has its end in all bits but the last 16: microseconds after the first moment.
const END_AT: u32 = 16;

pub fn has_end(value: u64) -> bool {
    value >> END_AT != 0
}

fn ends(value: &u64) -> Option<u64> {
    has_end(*value).then(|| DATE + (value >> END_AT))
}

/// Whose power goes, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    Stays,
    /// One brick forgets its last 30 ms and is rebuilt.
    OneForgets,
    /// Writes are synced, and all bricks lose power at once.
    AllSynced,
}

pub const PLAIN: Setting = Setting {
    bricks: 3,
    write: 2,
    read: 2,
    phases: Some(Phases::One),
    outages: 30,
    power: Power::Stays,
    skew: 40 * MILLI,
    ends: false,
};

#[derive(Clone, Debug)]
enum Event {
    Ask {
        to: usize,
        from: (usize, u32),
        attempt: u32,
        ask: Ask<u64>,
    },
    Answer {
        to: (usize, u32),
        attempt: u32,
        answer: Answer<u64>,
    },
    Durable {
        brick: usize,
        life: Life,
        ticket: Ticket,
    },
    PowerCut {
        brick: usize,
    },
    Boot {
        brick: usize,
    },
    /// A brick that is rebuilt asks another, and is told.
    RebuildAsk {
        from: usize,
        to: usize,
        life: Life,
    },
    RebuildTold {
        to: usize,
        from: usize,
        life: Life,
        newest: (Stamp, Option<u64>),
    },
    RebuildAgain {
        brick: usize,
        life: Life,
    },
    Begin {
        client: usize,
    },
    Wake {
        client: usize,
        number: u32,
    },
    Die {
        client: usize,
    },
}

struct Host {
    brick: Brick<u8, u64, (usize, u32, u32)>,
    memory: Memory,
    away: Vec<(Time, Time)>,
    rebuild: Option<Rebuild<u64>>,
}

enum Doing {
    Nothing,
    Put(Put<u64>),
    Get(Get<u64>),
}

struct Client {
    clock: SessionClock,
    /// Added to every time that it is told.
    offset: i64,
    plan: Vec<bool>,
    doing: Doing,
    /// The number of its operation, by which late answers to earlier ones are known.
    number: u32,
    operation: usize,
    is_dead: bool,
}

pub struct Model {
    setting: Setting,
    thresholds: Thresholds,
    rng: Rng,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    content: BTreeMap<u64, Event>,
    last: u64,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    next_value: u64,
    pub history: Vec<Operation>,
    pub unknown: u64,
    pub failed: u64,
}

fn instant(time: Time) -> Instant {
    Instant(time * 1000)
}

impl Model {
    pub fn new(seed: u64, setting: Setting) -> Model {
        let thresholds =
            Thresholds::new(setting.bricks, setting.write, setting.read).expect("the setting is a quorum");
        let mut model = Model {
            setting,
            thresholds,
            rng: Rng::new(seed),
            now: 0,
            events: BinaryHeap::new(),
            content: BTreeMap::new(),
            last: 0,
            hosts: Vec::new(),
            clients: Vec::new(),
            next_value: 1,
            history: Vec::new(),
            unknown: 0,
            failed: 0,
        };
        model.make_bricks();
        (0..3).for_each(|_| model.make_client());
        model
    }

    fn make_bricks(&mut self) {
        for id in 0..u64::from(self.setting.bricks) {
            let mut away = Vec::new();
            if self.rng.below(100) < self.setting.outages {
                let from = self.rng.below(200 * MILLI);
                away.push((from, from + self.rng.between(20 * MILLI, 150 * MILLI)));
            }
            let is_synced = self.setting.power == Power::AllSynced;
            let memory = Memory::new(is_synced);
            let brick = Brick::new(BrickId(id), Life(1), 1);
            self.hosts.push(Host { brick, memory, away, rebuild: None });
        }
        let count = self.hosts.len();
        let who: Vec<usize> = match self.setting.power {
            Power::Stays => Vec::new(),
            Power::OneForgets => vec![self.rng.below(count as u64) as usize],
            Power::AllSynced => (0..count).collect(),
        };
        let at = self.rng.between(20 * MILLI, 150 * MILLI);
        for brick in who {
            let back = at + self.rng.between(MILLI / 2, 15 * MILLI);
            self.hosts[brick].away = vec![(at, back)];
            self.at(at, Event::PowerCut { brick });
            self.at(back, Event::Boot { brick });
        }
    }

    fn make_client(&mut self) {
        let session = SessionId::new(&mut self.rng);
        let offset = (self.rng.below(3) as i64 - 1) * self.setting.skew as i64;
        let mut clock = SessionClock::new(session);
        (0..self.setting.bricks).for_each(|brick| {
            clock.hear(Instant::ZERO, BrickId(u64::from(brick)), DATE.saturating_add_signed(offset));
        });
        let count = self.rng.between(2, 5);
        let plan = (0..count).map(|_| self.rng.chance(1, 2)).collect();
        let client = self.clients.len();
        if self.rng.chance(15, 100) {
            let at = self.rng.between(5 * MILLI, 150 * MILLI);
            self.at(at, Event::Die { client });
        }
        let (doing, number, operation) = (Doing::Nothing, 0, 0);
        self.clients.push(Client { clock, offset, plan, doing, number, operation, is_dead: false });
        let at = self.rng.below(60 * MILLI);
        self.at(at, Event::Begin { client });
    }

    fn at(&mut self, time: Time, event: Event) {
        self.last += 1;
        self.events.push(Reverse((time.max(self.now), self.last)));
        self.content.insert(self.last, event);
    }

    /// Most messages are quick, some take their time.
    fn delay(&mut self) -> Time {
        if self.rng.chance(15, 100) {
            self.rng.between(20 * MILLI, 80 * MILLI)
        } else {
            self.rng.between(MILLI, 5 * MILLI)
        }
    }

    fn is_away(&self, brick: usize) -> bool {
        self.hosts[brick].away.iter().any(|(from, to)| *from <= self.now && self.now < *to)
    }

    pub fn run(mut self) -> Model {
        while let Some(Reverse((time, number))) = self.events.pop() {
            if time > 5_000 * MILLI {
                break;
            }
            self.now = time;
            let event = self.content.remove(&number).expect("each event comes once");
            self.step(event);
        }
        self
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Ask { to, from, attempt, ask } if !self.is_away(to) => {
                self.arrive(to, (from.0, from.1, attempt), ask);
            }
            Event::Ask { .. } => {}
            Event::Answer { to, attempt, answer } => self.answered(to, attempt, answer),
            Event::Durable { brick, life, ticket } => {
                if self.hosts[brick].brick.life() == life && !self.is_away(brick) {
                    let answers = self.hosts[brick].brick.is_durable(DATE + self.now, ticket);
                    self.send_answers(answers);
                }
            }
            Event::PowerCut { brick } => {
                let lost = if self.setting.power == Power::AllSynced { SYNC } else { 30 * MILLI };
                let kept = self.now.saturating_sub(lost);
                self.hosts[brick].memory.lose_after(kept);
            }
            Event::Boot { brick } => self.boot(brick),
            Event::RebuildAsk { from, to, life } => self.rebuild_asked(from, to, life),
            Event::RebuildTold { to, from, life, newest } => self.rebuild_told(to, from, life, newest),
            Event::RebuildAgain { brick, life } => self.rebuild_ask(brick, life),
            Event::Begin { client } => self.begin(client),
            Event::Wake { client, number } => self.wake(client, number),
            Event::Die { client } => self.clients[client].is_dead = true,
        }
    }

    fn arrive(&mut self, to: usize, asker: (usize, u32, u32), ask: Ask<u64>) {
        let (now, is_synced) = (self.now, self.setting.power == Power::AllSynced);
        let host = &mut self.hosts[to];
        host.memory.now = now;
        let before = host.memory.count();
        let answers = host.brick.ask(DATE + now, (&KEY, ask), asker, &mut host.memory);
        let (after, life) = (host.memory.count(), host.brick.life());
        if is_synced && after > before {
            self.at(now + SYNC, Event::Durable { brick: to, life, ticket: Ticket(after) });
        }
        self.send_answers(answers);
    }

    fn send_answers(&mut self, answers: Vec<((usize, u32, u32), Answer<u64>)>) {
        for ((client, number, attempt), answer) in answers {
            let at = self.now + self.delay();
            self.at(at, Event::Answer { to: (client, number), attempt, answer });
        }
    }

    fn boot(&mut self, brick: usize) {
        let has_forgotten = self.setting.power == Power::OneForgets;
        let host = &mut self.hosts[brick];
        host.brick.begin_life(has_forgotten);
        if !host.brick.votes() {
            host.rebuild = Some(Rebuild::new(self.thresholds.read()));
            let life = host.brick.life();
            self.rebuild_ask(brick, life);
        }
    }

    fn rebuild_ask(&mut self, brick: usize, life: Life) {
        if self.hosts[brick].brick.votes() {
            return;
        }
        for to in (0..self.hosts.len()).filter(|it| *it != brick) {
            let at = self.now + self.delay();
            self.at(at, Event::RebuildAsk { from: brick, to, life });
        }
        self.at(self.now + 40 * MILLI, Event::RebuildAgain { brick, life });
    }

    fn rebuild_asked(&mut self, from: usize, to: usize, life: Life) {
        if self.is_away(to) || !self.hosts[to].brick.votes() {
            return;
        }
        let asker = self.hosts[from].brick.id();
        let host = &mut self.hosts[to];
        host.brick.hear_of(asker, life);
        let newest = (host.memory.newest(&KEY), host.memory.value(&KEY));
        let at = self.now + self.delay();
        self.at(at, Event::RebuildTold { to: from, from: to, life, newest });
    }

    fn rebuild_told(&mut self, to: usize, from: usize, life: Life, newest: (Stamp, Option<u64>)) {
        let from = self.hosts[from].brick.id();
        let now = self.now;
        let host = &mut self.hosts[to];
        let Some(rebuild) = host.rebuild.as_mut().filter(|_| host.brick.life() == life) else { return };
        rebuild.hear(from, newest.0, newest.1);
        let own = (host.memory.newest(&KEY), host.memory.value(&KEY));
        let Some(newest) = rebuild.newest(own) else { return };
        host.memory.now = now;
        let bound = DATE + now + REBUILT_BOUND.as_micros() as Time;
        let bound = if ramhold_base::planted::planted(ramhold_base::planted::Defect::QuorumRebuiltRefuses) {
            0
        } else {
            bound
        };
        host.memory.become_rebuilt(newest, bound);
        host.rebuild = None;
        host.brick.is_rebuilt();
    }

    fn begin(&mut self, client: usize) {
        if self.clients[client].is_dead {
            return;
        }
        let Some(is_put) = self.clients[client].plan.pop() else { return };
        let mut order: Vec<BrickId> = (0..self.setting.bricks).map(|id| BrickId(u64::from(id))).collect();
        self.rng.shuffle(&mut order);
        let phases = self.setting.phases.unwrap_or(*self.rng.pick(&[Phases::One, Phases::Two]).expect("two"));
        let (now, thresholds) = (instant(self.now), self.thresholds);
        let mut value = if is_put { self.next_value } else { 0 };
        self.next_value += u64::from(is_put);
        if is_put && self.setting.ends && self.rng.chance(1, 2) {
            value |= (self.now + self.rng.below(80 * MILLI) + 1) << END_AT;
        }
        self.history.push(Operation::begin(is_put, value, self.now));
        let operation = self.history.len() - 1;
        let it = &mut self.clients[client];
        it.number += 1;
        it.operation = operation;
        let mut outs = Vec::new();
        if is_put {
            let within = (now + PUT_WITHIN, AGAIN);
            let mut put = Put::new(now, (&order, thresholds), (Some(value), phases), &it.clock, within)
                .expect("the time is known");
            put.start(now, &mut it.clock, &mut outs);
            it.doing = Doing::Put(put);
        } else {
            let within = (now + GET_WITHIN, AGAIN);
            let mut get =
                Get::new(now, (&order, thresholds, false), &it.clock, within).expect("the time is known");
            get = get.with_ends(ends);
            get.start(now, &it.clock, &mut outs);
            it.doing = Doing::Get(get);
        }
        self.carry_out(client, outs);
    }

    fn carry_out(&mut self, client: usize, outs: Vec<Out<u64>>) {
        let number = self.clients[client].number;
        for out in outs {
            match out {
                Out::Send { to, attempt, ask } => {
                    let at = self.now + self.delay();
                    let from = (client, number);
                    self.at(at, Event::Ask { to: to.0 as usize, from, attempt, ask });
                }
                Out::WakeAt(at) => self.at(at.0.div_ceil(1000), Event::Wake { client, number }),
            }
        }
    }

    fn answered(&mut self, (client, number): (usize, u32), attempt: u32, mut answer: Answer<u64>) {
        let now = instant(self.now);
        let it = &mut self.clients[client];
        if it.is_dead || it.number != number {
            return;
        }
        answer.clock = answer.clock.saturating_add_signed(it.offset);
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing => None,
            Doing::Put(put) => put.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Put),
            Doing::Get(get) => get.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    fn wake(&mut self, client: usize, number: u32) {
        let now = instant(self.now);
        let it = &mut self.clients[client];
        if it.is_dead || it.number != number {
            return;
        }
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing => None,
            Doing::Put(put) => put.on_time(now, &mut it.clock, &mut outs).map(End::Put),
            Doing::Get(get) => get.on_time(now, &it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    fn end(&mut self, client: usize, end: End) {
        let it = &mut self.clients[client];
        it.doing = Doing::Nothing;
        let operation = &mut self.history[it.operation];
        match end {
            End::Put(Written::Done(_)) => operation.end(self.now),
            End::Put(Written::Unknown(_)) => self.unknown += 1,
            End::Put(Written::NoQuorum(_)) => {
                // Nothing was written, so nobody may ever see it.
                operation.is_put = false;
                self.failed += 1;
            }
            End::Put(Written::WrongOwner(_) | Written::Never) => panic!("nobody moves or resumes"),
            End::Get(Got::Found(_, value)) => {
                operation.value = value.unwrap_or(0);
                operation.end(self.now);
            }
            End::Get(Got::NoQuorum(_) | Got::Contended) => self.failed += 1,
            End::Get(Got::WrongOwner) => panic!("nobody moves"),
        }
        let at = self.now + self.rng.below(40 * MILLI);
        self.at(at, Event::Begin { client });
    }
}

enum End {
    Put(Written),
    Get(Got<u64>),
}
