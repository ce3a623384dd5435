//! Sessions of a rig: each puts and gets on keys drawn at random, one operation after the other.

use crate::history::Operation;
use crate::rig::{Event, MILLI, Rig};
use ramhold_quorum::{
    Answer, BrickId, Get, Got, Heard, Out, PageGet, PageGot, PageSaid, Phases, Put, SessionClock, SessionId,
    Written,
};
use std::time::Duration;

const PUT_WITHIN: Duration = Duration::from_millis(400);
pub(crate) const GET_WITHIN: Duration = Duration::from_millis(400);
pub(crate) const AGAIN: Duration = Duration::from_millis(60);
pub(crate) const PAGE_AGAIN: Duration = AGAIN;

/// A value as sessions write it.
pub type Value = Vec<u8>;

pub(crate) enum Doing {
    Nothing,
    Put(Put<Value>),
    Get(Get<Value>),
    /// A page of a scan, from this position on, and what it has come to.
    Page {
        get: PageGet<Value>,
        position: u64,
        got: Option<PageGot<Value>>,
    },
}

pub(crate) struct Client {
    pub clock: SessionClock,
    pub doing: Doing,
    pub number: u64,
    pub key: usize,
    pub operation: usize,
    /// It begins the next operation by itself.
    pub goes_on: bool,
}

enum End {
    Put(Written),
    Get(Got<Value>),
}

impl Rig {
    pub fn add_clients(&mut self, count: usize, operations: u32) {
        self.left += operations;
        for _ in 0..count {
            let session = SessionId::new(&mut self.rng);
            let mut clock = SessionClock::new(session);
            for host in &self.hosts {
                let millis = crate::host::DATE_MILLIS.saturating_add_signed(host.clock_off);
                clock.hear(self.instant(), BrickId(host.id.raw()), millis * 1000 + self.now / 1000);
            }
            let (doing, number, key, operation, goes_on) = (Doing::Nothing, 0, 0, 0, operations > 0);
            self.clients.push(Client { clock, doing, number, key, operation, goes_on });
            let client = self.clients.len() - 1;
            if goes_on {
                self.at(self.now, Event::Begin { client });
            }
        }
    }

    /// A client goes on that had nothing left to do.
    pub fn go_on(&mut self, client: usize) {
        self.at(self.now, Event::Begin { client });
    }

    pub(crate) fn begin(&mut self, client: usize) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let is_put = self.rng.chance(1, 2);
        let key = self.used.start + self.rng.below(self.used.len() as u64) as usize;
        self.begin_on(client, key, is_put);
    }

    /// The bricks that a session asks: those of the tablet, or those that it had before its last change.
    fn order(&mut self, key: usize) -> Vec<BrickId> {
        if self.head.is_some() {
            return self.order_of_head(key);
        }
        let mut hosts = self.tablet.members.clone();
        if let (Some(old), Some(new)) =
            (self.tablet.former.last().copied(), self.tablet.joined.last().copied())
            && self.rng.chance(1, 3)
        {
            let new = new.brick.raw() as usize - 1;
            hosts.iter_mut().filter(|host| **host == new).for_each(|host| *host = old);
        }
        let mut order: Vec<BrickId> =
            hosts.into_iter().map(|host| BrickId(self.hosts[host].id.raw())).collect();
        self.rng.shuffle(&mut order);
        order
    }

    pub(crate) fn begin_on(&mut self, client: usize, key: usize, is_put: bool) {
        let order = self.order(key);
        let (now, thresholds) = (self.instant(), self.thresholds);
        self.value_last += u64::from(is_put);
        let value = if is_put { self.value_last } else { 0 };
        self.histories[key].push(Operation { is_put, value, began: self.now, ended: u64::MAX });
        let phases = if self.rng.chance(1, 2) { Phases::One } else { Phases::Two };
        let padding = self.rng.below(self.setting.value_bytes_max) as usize;
        let it = &mut self.clients[client];
        (it.number, it.key, it.operation) = (it.number + 1, key, self.histories[key].len() - 1);
        let mut outs = Vec::new();
        if is_put {
            // Some values are nothing: a tombstone.
            let bytes = [&value.to_le_bytes()[..], &vec![7; padding]].concat();
            let is_nothing = value.is_multiple_of(9) || self.removes;
            let stored = (!is_nothing).then_some(bytes);
            if stored.is_none() {
                self.histories[key].last_mut().unwrap().value = 0;
            }
            let within = (now + PUT_WITHIN, AGAIN);
            let mut put = Put::new(now, (&order, thresholds), (stored, phases), &it.clock, within).unwrap();
            put.start(now, &mut it.clock, &mut outs);
            it.doing = Doing::Put(put);
            if self.rng.chance(1, 12) {
                return self.abandon(client, outs);
            }
        } else {
            let within = (now + GET_WITHIN, AGAIN);
            let mut get = Get::new(now, (&order, thresholds, false), &it.clock, within).unwrap();
            get.start(now, &it.clock, &mut outs);
            it.doing = Doing::Get(get);
        }
        self.carry_out(client, outs);
    }

    /// The session dies when it has asked one brick. A new one takes its place.
    pub(crate) fn abandon(&mut self, client: usize, outs: Vec<Out<Value>>) {
        let first = outs.into_iter().filter(|out| matches!(out, Out::Send { .. })).take(1);
        self.carry_out(client, first.collect());
        let it = &mut self.clients[client];
        (it.number, it.doing) = (it.number + 1, Doing::Nothing);
        self.at(self.now + MILLI, Event::Begin { client });
    }

    pub(crate) fn carry_out(&mut self, client: usize, outs: Vec<Out<Value>>) {
        let number = self.clients[client].number;
        for out in outs {
            match out {
                Out::Send { to, attempt, ask } => self.ask(client, number, (to, attempt), &ask),
                Out::WakeAt(at) => self.at(at.0, Event::Wake { client, number }),
            }
        }
    }

    pub(crate) fn answered(&mut self, client: usize, number: u64, attempt: u32, answer: Answer<Value>) {
        let now = self.instant();
        let it = &mut self.clients[client];
        if it.number != number {
            return;
        }
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing | Doing::Page { .. } => None,
            Doing::Put(put) => put.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Put),
            Doing::Get(get) => get.on_answer(now, attempt, answer, &mut it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    /// A brick does not have the questions of a client's put any more: it has refused, or its process is gone.
    pub(crate) fn refused_by(&mut self, client: usize, brick: BrickId) {
        if let Doing::Put(put) = &mut self.clients[client].doing {
            put.on_silent(brick);
        }
    }

    /// The process of a host is gone, and its connections with it.
    pub(crate) fn lost(&mut self, host: usize) {
        let brick = BrickId(self.hosts[host].id.raw());
        (0..self.clients.len()).for_each(|client| self.refused_by(client, brick));
    }

    pub(crate) fn wake(&mut self, client: usize, number: u64) {
        let now = self.instant();
        let it = &mut self.clients[client];
        if it.number != number {
            return;
        }
        let mut outs = Vec::new();
        let end = match &mut it.doing {
            Doing::Nothing => None,
            Doing::Page { .. } => return self.wake_page(client, number),
            Doing::Put(put) => put.on_time(now, &mut it.clock, &mut outs).map(End::Put),
            Doing::Get(get) => get.on_time(now, &it.clock, &mut outs).map(End::Get),
        };
        self.carry_out(client, outs);
        end.into_iter().for_each(|end| self.end(client, end));
    }

    pub(crate) fn page_answered(&mut self, client: usize, number: u64, heard: Heard<PageSaid<Value>>) {
        let it = &mut self.clients[client];
        if let Doing::Page { get, got, .. } = &mut it.doing
            && it.number == number
            && got.is_none()
        {
            *got = get.on_answer(heard);
        }
    }

    fn wake_page(&mut self, client: usize, number: u64) {
        let now = self.instant();
        let mut outs = Vec::new();
        let Doing::Page { get, got, position } = &mut self.clients[client].doing else { return };
        if got.is_none() {
            *got = get.on_time(now, &mut outs);
        }
        let position = *position;
        outs.into_iter().for_each(|out| self.ask_page(client, number, position, out));
    }

    fn end(&mut self, client: usize, end: End) {
        let now = self.now;
        let it = &mut self.clients[client];
        it.doing = Doing::Nothing;
        let operation = &mut self.histories[it.key][it.operation];
        match end {
            End::Put(Written::Done(_)) => (operation.ended, self.done) = (now, self.done + 1),
            End::Put(Written::Unknown(_)) => self.unknown += 1,
            End::Put(Written::NoQuorum(_)) => {
                // Nothing was written, so nobody may ever see it.
                (operation.is_put, self.failed) = (false, self.failed + 1);
            }
            // A real session goes on at the present bricks.
            End::Put(Written::WrongOwner(_)) => self.unknown += 1,
            End::Put(Written::Never) => panic!("nobody resumes"),
            End::Get(Got::Found(_, value)) => {
                operation.value = value.map_or(0, |value| u64::from_le_bytes(*value.first_chunk().unwrap()));
                (operation.ended, self.done) = (now, self.done + 1);
            }
            End::Get(Got::NoQuorum(_) | Got::Contended) => self.failed += 1,
            End::Get(Got::WrongOwner) => self.failed += 1,
        }
        if self.left > 0 && self.clients[client].goes_on {
            let at = self.now + self.rng.below(10 * MILLI);
            self.at(at, Event::Begin { client });
        }
    }

    /// Runs until clients have done all that they were to do.
    pub fn finish(&mut self) {
        self.run_until(|rig| {
            rig.left == 0 && rig.clients.iter().all(|client| matches!(client.doing, Doing::Nothing))
        });
    }
}
