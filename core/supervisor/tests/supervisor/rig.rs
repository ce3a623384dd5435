//! A supervisor with one brick, whose process does as a test says.

use ramhold_base::{
    ClusterId, ConnId, Effect, Effects, Input, Instant, Lost, Machine, Peer, RpcId, ServerId, Status,
};
use ramhold_supervisor::{Act, ChargeConfig, Ended, RestartLimit, Supervisor};
use ramhold_wire::control::encode_into;
use ramhold_wire::restart::{BrickProbe, BrickProbed, RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::{Header, Kind, Message, Opcode, decode, frame};
use std::net::SocketAddr;

pub const BRICK: ServerId = ServerId(3);
pub const CLUSTER: ClusterId = ClusterId(9);
pub const MILLI: u64 = 1_000_000;

/// The behaviour of the brick's process towards questions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Brick {
    Answers,
    Silent,
    Refuses,
    /// Another process is there, and refuses the question.
    Stranger(Status),
}

pub struct Rig {
    supervisor: Supervisor,
    pub now: Instant,
    pub brick: Brick,
    life: u64,
    /// Its siblings consent to its restart, when it asks them.
    pub may_restart: bool,
    /// Each process takes so long to end, in milliseconds. `None`: it hangs, and does not stop.
    pub ends_within: Option<u64>,
    ends_at: Option<Instant>,
    /// The exit status of a process that stops in order, or of a command.
    pub code: u8,
    /// A command ends the process of somebody else, and it runs just now.
    is_foreign: bool,
    is_running: bool,
    /// With the time in milliseconds.
    pub acts: Vec<(u64, Act)>,
    /// Status, and what was said.
    pub answers: Vec<(Status, Option<RestartSaid>)>,
    pub reports: Vec<String>,
    pub questions: u32,
    /// The code, and why.
    pub exit: Option<(u8, String)>,
}

pub fn address() -> SocketAddr {
    "127.0.0.1:7501".parse().unwrap()
}

pub fn request<M: Message>(header: Header, message: &M) -> Vec<u8> {
    let header = Header { opcode: M::OPCODE.code(), rpc: RpcId(1), kind: Kind::Request, ..header };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| encode_into(out, message));
    bytes
}

pub fn sibling(id: u64) -> Header {
    Header { cluster: CLUSTER, sender: ServerId(id), target: BRICK, ..Header::default() }
}

pub fn order(life: u64) -> RestartOrder {
    RestartOrder { brick: BRICK, life, mark: 100 + life, silent_millis: 1040, flagged: None }
}

fn refused(header: &Header, status: Status) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header.answer(status), |_| {});
    bytes
}

impl Rig {
    /// A brick that runs and has told its first life.
    pub fn new(limit: RestartLimit) -> Rig {
        Rig::with(limit, false)
    }

    /// The same of a brick that somebody else starts: a command ends it.
    pub fn foreign(limit: RestartLimit) -> Rig {
        Rig::with(limit, true)
    }

    fn with(limit: RestartLimit, is_foreign: bool) -> Rig {
        let charge = ChargeConfig { name: "brick-1".into(), address: address(), limit, is_foreign };
        let mut rig = Rig {
            supervisor: Supervisor::new(vec![charge], 77),
            now: Instant(MILLI),
            brick: Brick::Answers,
            life: 0,
            may_restart: false,
            ends_within: Some(0),
            ends_at: None,
            code: 0,
            is_foreign,
            is_running: false,
            acts: Vec::new(),
            answers: Vec::new(),
            reports: Vec::new(),
            questions: 0,
            exit: None,
        };
        rig.input(Input::Start { wall_millis: 0 });
        rig.run(2000);
        assert_eq!(rig.take_acts(), [Act::Start]);
        rig
    }

    pub fn input(&mut self, input: Input<'_>) {
        let mut effects = Effects::new();
        self.supervisor.step(self.now, input, &mut effects);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects) {
        let mut inputs: Vec<Vec<u8>> = Vec::new();
        let mut is_lost = false;
        for effect in &effects.list {
            match effect {
                Effect::Send { to: Peer::Addr(_), frame: sent } => {
                    let sent = sent.of(&effects.bytes).into_owned();
                    let (header, body) = frame::parse(&sent).unwrap();
                    let asked: BrickProbe = decode(body).unwrap();
                    self.questions += 1;
                    match self.brick {
                        Brick::Answers => inputs.push(self.probed(&header, asked)),
                        Brick::Silent => {}
                        Brick::Refuses => is_lost = true,
                        Brick::Stranger(status) => inputs.push(refused(&header, status)),
                    }
                }
                Effect::Send { to: Peer::Conn(_), frame: sent } => {
                    let sent = sent.of(&effects.bytes).into_owned();
                    let (header, body) = frame::parse(&sent).unwrap();
                    let said = decode::<RestartAnswer>(body).ok().map(|answer| answer.said);
                    self.answers.push((header.status(), said));
                }
                Effect::Report { text, .. } => self.reports.push(text.clone()),
                Effect::Exit { code, reason } => self.exit = Some((*code, reason.clone())),
                Effect::Close { .. } => {}
                other => panic!("a supervisor does not {other:?}"),
            }
        }
        for bytes in inputs {
            self.input(Input::Frame { from: ConnId(1), bytes: &bytes });
        }
        if is_lost {
            self.input(Input::Lost { addr: address(), how: Lost::Refused });
        }
        for (_, act) in self.supervisor.take_acts() {
            self.acts.push((self.now.0 / MILLI, act));
            let mut effects = Effects::new();
            let ends = match (act, self.ends_within) {
                (Act::Start, _) => {
                    self.life += 1;
                    self.supervisor.started(self.now, 0, &mut effects);
                    None
                }
                (Act::Kill, _) if !self.is_foreign || self.is_running => Some(0),
                (Act::Stop | Act::Kill, within) => within,
            };
            // A process is killed, or a command that still runs.
            let is_killed = act == Act::Kill && (!self.is_foreign || self.is_running);
            self.is_running = self.is_foreign && act != Act::Start;
            match ends {
                Some(0) if is_killed => self.reap(("signal: 9", 137), &mut effects),
                Some(0) => self.reap(("exit status", self.code), &mut effects),
                Some(millis) => self.ends_at = Some(Instant(self.now.0 + millis * MILLI)),
                None => {}
            }
            self.carry_out(effects);
        }
    }

    fn reap(&mut self, (how, code): (&str, u8), effects: &mut Effects) {
        (self.ends_at, self.is_running) = (None, false);
        self.supervisor.ended(self.now, 0, Ended { how, code }, effects);
    }

    fn probed(&self, header: &Header, asked: BrickProbe) -> Vec<u8> {
        assert_eq!(header.opcode(), Some(Opcode::BrickProbe));
        let told = BrickProbed {
            cluster: CLUSTER,
            brick: BRICK,
            life: self.life,
            mark: 100 + self.life,
            serves: true,
            without_vote: 0,
            siblings: vec![ServerId(4), ServerId(5)],
            may_restart: self.may_restart && asked.wants_restart,
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header.answer(Status::Ok), |out| encode_into(out, &told));
        bytes
    }

    pub fn run(&mut self, millis: u64) {
        let end = Instant(self.now.0 + millis * MILLI);
        loop {
            let due = [self.supervisor.deadline(), self.ends_at].into_iter().flatten().min();
            let Some(at) = due.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if self.ends_at.is_some_and(|at| at <= self.now) {
                let mut effects = Effects::new();
                self.reap(("exit status", self.code), &mut effects);
                self.carry_out(effects);
            }
            self.input(Input::Tick);
        }
        self.now = end;
    }

    pub fn send<M: Message>(&mut self, header: Header, message: &M) {
        let bytes = request(header, message);
        self.input(Input::Frame { from: ConnId(8), bytes: &bytes });
    }

    /// The process ends by itself.
    pub fn end(&mut self) {
        let mut effects = Effects::new();
        self.reap(("exit status: 7", 7), &mut effects);
        self.carry_out(effects);
    }

    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts).into_iter().map(|(_, act)| act).collect()
    }

    pub fn take_answers(&mut self) -> Vec<(Status, Option<RestartSaid>)> {
        std::mem::take(&mut self.answers)
    }
}
