//! Sessions of the model: each carries out its plan, one operation after the other, and may die.
//!
//! With changes of bricks a session asks the bricks that it knows until it hears of the change, from somebody or from
//! bricks that say that they do not hold the key; then its operation begins anew at the others, with its open stamp.

use crate::history::Operation;
use crate::model::{DATE, END_AT, Event, MILLI, Model, Time, ends, instant};
use ramhold_quorum::{Answer, BrickId, Get, Got, Out, Phases, Put, SessionClock, SessionId, Stamp, Written};
use std::time::Duration;

const PUT_WITHIN: Duration = Duration::from_millis(120);
const GET_WITHIN: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(25);

pub(crate) enum Doing {
    Nothing,
    Put {
        put: Put<u64>,
        value: u64,
    },
    /// A token is settled.
    Settle {
        put: Put<u64>,
        token: Token,
    },
    Get(Get<u64>),
}

pub(crate) struct Client {
    clock: SessionClock,
    /// Added to every time that it is told.
    offset: i64,
    plan: Vec<bool>,
    doing: Doing,
    /// The number of its operation, by which late answers to earlier ones are known.
    number: u32,
    operation: usize,
    pub is_dead: bool,
    /// When it hears of the change of bricks.
    hears_at: Time,
}

/// A put of unknown outcome, and its place in the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    stamp: Stamp,
    value: u64,
    begun: u64,
    operation: usize,
}

impl Model {
    pub(crate) fn make_client(&mut self) {
        let session = SessionId::new(&mut self.rng);
        let offset = (self.rng.below(3) as i64 - 1) * self.setting.skew as i64;
        let mut clock = SessionClock::new(session);
        (0..self.setting.bricks).for_each(|brick| {
            clock.hear(instant(0), BrickId(u64::from(brick)), DATE.saturating_add_signed(offset));
        });
        let count = self.rng.between(2, 5);
        let plan = (0..count).map(|_| self.rng.chance(1, 2)).collect();
        let client = self.clients.len();
        if self.rng.chance(15, 100) {
            let at = self.rng.between(5 * MILLI, 150 * MILLI);
            self.at(at, Event::Die { client });
        }
        let (doing, number, operation) = (Doing::Nothing, 0, 0);
        let hears_at = match self.moving {
            Some(it) => it.at + self.rng.between(MILLI, 150 * MILLI),
            None => Time::MAX,
        };
        self.clients.push(Client { clock, offset, plan, doing, number, operation, is_dead: false, hears_at });
        let at = self.rng.below(60 * MILLI);
        self.at(at, Event::Begin { client });
    }

    pub(crate) fn begin(&mut self, client: usize) {
        if self.clients[client].is_dead {
            return;
        }
        if self.setting.resumes && self.rng.chance(1, 2) && !self.tokens.is_empty() {
            let at = self.rng.below(self.tokens.len() as u64) as usize;
            let token = self.tokens.swap_remove(at);
            return self.settle(client, token);
        }
        let Some(is_put) = self.clients[client].plan.pop() else {
            // Somebody may still leave a token.
            if self.setting.resumes && self.now < 600 * MILLI {
                self.at(self.now + 50 * MILLI, Event::Begin { client });
            }
            return;
        };
        let mut value = if is_put { self.next_value } else { 0 };
        self.next_value += u64::from(is_put);
        if is_put && self.setting.ends && self.rng.chance(1, 2) {
            value |= (self.now + self.rng.below(80 * MILLI) + 1) << END_AT;
        }
        self.history.push(Operation::begin(is_put, value, self.now));
        self.clients[client].operation = self.history.len() - 1;
        if is_put { self.put(client, value, None) } else { self.get(client) }
    }

    /// The bricks that a session takes for those of the key, in any order.
    fn order(&mut self, client: usize) -> Vec<BrickId> {
        let mut order: Vec<BrickId> = (0..self.setting.bricks).map(|id| BrickId(u64::from(id))).collect();
        if let Some(it) = self.moving
            && self.now >= self.clients[client].hears_at
        {
            order = it.after(&order);
        }
        self.rng.shuffle(&mut order);
        order
    }

    /// Puts a value; with an open stamp the put goes on with that one.
    fn put(&mut self, client: usize, value: u64, open: Option<(Stamp, u64)>) {
        let order = self.order(client);
        let phases = self.setting.phases.unwrap_or(*self.rng.pick(&[Phases::One, Phases::Two]).expect("two"));
        let (now, of) = (instant(self.now), (&order[..], self.thresholds));
        let within = (now + PUT_WITHIN, AGAIN);
        let it = &mut self.clients[client];
        let mut put = match open {
            Some((stamp, begun)) => Put::resume(now, of, (stamp, Some(value), begun), within),
            None => {
                let made = Put::new(now, of, (Some(value), phases), &it.clock, within);
                made.expect("the time is known")
            }
        };
        let mut outs = Vec::new();
        put.start(now, &mut it.clock, &mut outs);
        self.run_on(client, Doing::Put { put, value }, outs);
    }

    fn settle(&mut self, client: usize, token: Token) {
        let order = self.order(client);
        let (now, of) = (instant(self.now), (&order[..], self.thresholds));
        let open = (token.stamp, Some(token.value), token.begun);
        let mut put = Put::resume(now, of, open, (now + PUT_WITHIN, AGAIN));
        let mut outs = Vec::new();
        put.start(now, &mut self.clients[client].clock, &mut outs);
        self.run_on(client, Doing::Settle { put, token }, outs);
    }

    fn get(&mut self, client: usize) {
        let order = self.order(client);
        let now = instant(self.now);
        let within = (now + GET_WITHIN, AGAIN);
        let it = &mut self.clients[client];
        let get = Get::new(now, (&order, self.thresholds, false), &it.clock, within);
        let mut get = get.expect("the time is known").with_ends(ends);
        let mut outs = Vec::new();
        get.start(now, &it.clock, &mut outs);
        self.run_on(client, Doing::Get(get), outs);
    }

    /// Answers to earlier questions mean nothing to the machine that begins.
    fn run_on(&mut self, client: usize, doing: Doing, outs: Vec<Out<u64>>) {
        let it = &mut self.clients[client];
        (it.doing, it.number) = (doing, it.number + 1);
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

    pub(crate) fn answered(&mut self, (client, number): (usize, u32), attempt: u32, mut answer: Answer<u64>) {
        let now = instant(self.now);
        let it = &mut self.clients[client];
        if it.is_dead || it.number != number {
            return;
        }
        answer.clock = answer.clock.saturating_add_signed(it.offset);
        if answer.epoch > 1 {
            // It asks for the bricks anew, for its next operation.
            it.hears_at = it.hears_at.min(self.now);
        }
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing => None,
            Doing::Put { put, .. } | Doing::Settle { put, .. } => {
                put.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Put)
            }
            Doing::Get(get) => get.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    /// A brick does not have this session's question any more: it is away, or refuses. A session hears that of its connection.
    pub(crate) fn refused(&mut self, brick: usize, (client, number): (usize, u32)) {
        let it = &mut self.clients[client];
        match &mut it.doing {
            Doing::Put { put, .. } | Doing::Settle { put, .. } if it.number == number => {
                put.on_silent(BrickId(brick as u64));
            }
            Doing::Put { .. } | Doing::Settle { .. } | Doing::Get(_) | Doing::Nothing => {}
        }
    }

    /// The sessions, with the numbers of their operations.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (usize, u32)> {
        self.clients.iter().map(|it| it.number).enumerate()
    }

    pub(crate) fn wake(&mut self, client: usize, number: u32) {
        let now = instant(self.now);
        let it = &mut self.clients[client];
        if it.is_dead || it.number != number {
            return;
        }
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing => None,
            Doing::Put { put, .. } | Doing::Settle { put, .. } => {
                put.on_time(now, &mut it.clock, &mut outs).map(End::Put)
            }
            Doing::Get(get) => get.on_time(now, &it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    fn end(&mut self, client: usize, end: End) {
        let now = self.now;
        let doing = std::mem::replace(&mut self.clients[client].doing, Doing::Nothing);
        let at = match &doing {
            Doing::Settle { token, .. } => token.operation,
            Doing::Nothing | Doing::Put { .. } | Doing::Get(_) => self.clients[client].operation,
        };
        let operation = &mut self.history[at];
        match (doing, end) {
            (Doing::Put { put, value }, End::Put(end)) => match end {
                Written::Done(_) => operation.end(now),
                Written::Unknown(stamp) => {
                    self.unknown += 1;
                    if self.setting.resumes {
                        self.tokens.push(Token { stamp, value, begun: put.begun(), operation: at });
                    }
                }
                Written::NoQuorum(_) => {
                    // Nothing was written, so nobody may ever see it.
                    operation.is_put = false;
                    self.failed += 1;
                }
                Written::WrongOwner(open) => {
                    self.clients[client].hears_at = now;
                    return self.put(client, value, open.map(|stamp| (stamp, put.begun())));
                }
                // The stamp with which it went on elsewhere.
                Written::Never => return self.put(client, value, None),
            },
            (Doing::Settle { token, .. }, End::Put(end)) => match end {
                Written::Done(_) => {
                    operation.end(now);
                    self.settled += 1;
                }
                Written::Never => {
                    operation.is_put = false;
                    self.settled += 1;
                }
                Written::WrongOwner(_) => {
                    self.clients[client].hears_at = now;
                    return self.settle(client, token);
                }
                Written::Unknown(_) | Written::NoQuorum(_) => {}
            },
            (Doing::Get(_), End::Get(end)) => match end {
                Got::Found(_, value) => {
                    operation.value = value.unwrap_or(0);
                    operation.end(now);
                }
                Got::NoQuorum(_) | Got::Contended => self.failed += 1,
                Got::WrongOwner => {
                    self.clients[client].hears_at = now;
                    return self.get(client);
                }
            },
            (Doing::Nothing | Doing::Put { .. } | Doing::Settle { .. } | Doing::Get(_), _) => {
                unreachable!("an end of another machine")
            }
        }
        let at = now + self.rng.below(40 * MILLI);
        self.at(at, Event::Begin { client });
    }
}

enum End {
    Put(Written),
    Get(Got<u64>),
}
