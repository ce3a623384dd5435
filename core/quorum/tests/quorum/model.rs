//! A few bricks and sessions under one made-up clock: messages that take their time or are lost with a brick, bricks that
//! are away for a while or lose power, sessions whose clocks are off and which die.
//!
//! Not here: bricks that are rebuilt or replaced (`rebuilding`), sessions (`clients`).
//!
//! The delays, outages and plans are those of the project's model of DSTORE04, `Setting` names its variants.

use crate::clients::{Client, Token};
use crate::history::Operation;
use crate::rebuilding::{Move, Rebuilding};
use crate::shelf::{KEY, Memory};
use ramhold_base::{Instant, Rng};
use ramhold_quorum::{Answer, Ask, Brick, BrickId, Life, Phases, Stamp, Thresholds, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Microseconds.
pub type Time = u64;
pub const MILLI: Time = 1000;
/// The bricks' date when a run begins.
pub const DATE: Time = 1_000_000 * MILLI;
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
    /// A brick takes the place of another one in the middle of the run.
    pub moves: bool,
    /// Sessions settle puts of unknown outcome, their own and others'.
    pub resumes: bool,
}

/// A value that ends has its end in all bits but the last 16: microseconds after the first moment.
pub const END_AT: u32 = 16;

pub fn has_end(value: u64) -> bool {
    value >> END_AT != 0
}

pub fn ends(value: &u64) -> Option<u64> {
    has_end(*value).then(|| DATE + (value >> END_AT))
}

/// Whose power goes, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    Stays,
    /// One brick forgets its last 30 ms and is rebuilt.
    OneForgets,
    /// The same, perhaps again while it is rebuilt; and when it has been rebuilt, another one forgets.
    InTurn,
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
    moves: false,
    resumes: false,
};

#[derive(Clone, Debug)]
pub(crate) enum Event {
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
        stage: u32,
    },
    RebuildTold {
        to: usize,
        from: usize,
        life: Life,
        stage: u32,
        epoch: u64,
        newest: (Stamp, Option<u64>),
    },
    /// A brick hears of the change of bricks.
    Change {
        brick: usize,
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

pub(crate) struct Host {
    pub brick: Brick<u8, u64, (usize, u32, u32)>,
    pub memory: Memory,
    pub away: Vec<(Time, Time)>,
    pub rebuilding: Option<Rebuilding>,
    /// It was replaced, and knows.
    pub stands_aside: bool,
}

pub struct Model {
    pub(crate) setting: Setting,
    pub(crate) thresholds: Thresholds,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    content: BTreeMap<u64, Event>,
    last: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) clients: Vec<Client>,
    pub(crate) next_value: u64,
    /// The change of bricks, when it has begun.
    pub(crate) moving: Option<Move>,
    pub(crate) tokens: Vec<Token>,
    pub history: Vec<Operation>,
    pub unknown: u64,
    pub failed: u64,
    pub settled: u64,
}

pub fn instant(time: Time) -> Instant {
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
            moving: None,
            tokens: Vec::new(),
            history: Vec::new(),
            unknown: 0,
            failed: 0,
            settled: 0,
        };
        model.make_bricks();
        model.plan_move();
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
            self.hosts.push(Host { brick, memory, away, rebuilding: None, stands_aside: false });
        }
        let count = self.hosts.len();
        let who: Vec<usize> = match self.setting.power {
            Power::Stays => Vec::new(),
            Power::OneForgets | Power::InTurn => vec![self.rng.below(count as u64) as usize],
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

    pub(crate) fn at(&mut self, time: Time, event: Event) {
        self.last += 1;
        self.events.push(Reverse((time.max(self.now), self.last)));
        self.content.insert(self.last, event);
    }

    /// Most messages are quick, some take their time.
    pub(crate) fn delay(&mut self) -> Time {
        if self.rng.chance(15, 100) {
            self.rng.between(20 * MILLI, 80 * MILLI)
        } else {
            self.rng.between(MILLI, 5 * MILLI)
        }
    }

    pub(crate) fn is_away(&self, brick: usize) -> bool {
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
            Event::Ask { to, from, .. } => self.refused(to, from),
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
                self.hosts[brick].rebuilding = None;
                let under_way: Vec<(usize, u32)> = self.numbers().collect();
                under_way.into_iter().for_each(|from| self.refused(brick, from));
            }
            Event::Boot { brick } => self.boot(brick),
            Event::RebuildAsk { from, to, life, stage } => self.rebuild_asked(from, to, life, stage),
            Event::RebuildTold { to, from, life, stage, epoch, newest } => {
                self.rebuild_told(to, (from, epoch), (life, stage), newest);
            }
            Event::Change { brick } => self.change(brick),
            Event::RebuildAgain { brick, life } => self.rebuild_ask(brick, life),
            Event::Begin { client } => self.begin(client),
            Event::Wake { client, number } => self.wake(client, number),
            Event::Die { client } => self.clients[client].is_dead = true,
        }
    }

    fn arrive(&mut self, to: usize, asker: (usize, u32, u32), ask: Ask<u64>) {
        let (now, is_synced) = (self.now, self.setting.power == Power::AllSynced);
        let host = &mut self.hosts[to];
        if host.stands_aside {
            let answer = host.brick.wrong_owner(DATE + now);
            return self.send_answers(vec![(asker, answer)]);
        }
        host.memory.now = now;
        let before = host.memory.count();
        let answers = host.brick.ask(DATE + now, (&KEY, ask), asker, &mut host.memory);
        let (after, life) = (host.memory.count(), host.brick.life());
        let is_refused = answers.is_empty() && !host.brick.votes();
        if is_synced && after > before {
            self.at(now + SYNC, Event::Durable { brick: to, life, ticket: Ticket(after) });
        }
        if is_refused {
            self.refused(to, (asker.0, asker.1));
        }
        self.send_answers(answers);
    }

    pub(crate) fn send_answers(&mut self, answers: Vec<((usize, u32, u32), Answer<u64>)>) {
        for ((client, number, attempt), answer) in answers {
            let at = self.now + self.delay();
            self.at(at, Event::Answer { to: (client, number), attempt, answer });
        }
    }
}
