//! A supervisor with one brick, under orders, ends and operators: what it does, and when.
//!
//! Catalogue: I6.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use ramhold_base::{
    ClusterId, ConnId, Effect, Effects, Input, Instant, Lost, Machine, Peer, RpcId, ServerId, Status,
};
use ramhold_supervisor::{Act, ChargeConfig, RestartLimit, Supervisor};
use ramhold_wire::control::encode_into;
use ramhold_wire::restart::{BrickProbed, BrickRestart, RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::{Header, Kind, Message, Opcode, decode, frame};
use std::net::SocketAddr;
use std::time::Duration;

const BRICK: ServerId = ServerId(3);
const CLUSTER: ClusterId = ClusterId(9);
const MILLI: u64 = 1_000_000;

/// The behaviour of the brick's process towards questions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brick {
    Answers,
    Silent,
    Refuses,
}

struct Rig {
    supervisor: Supervisor,
    now: Instant,
    brick: Brick,
    life: u64,
    /// With the time in milliseconds.
    acts: Vec<(u64, Act)>,
    /// Status, and what was said.
    answers: Vec<(Status, Option<RestartSaid>)>,
    reports: Vec<String>,
    questions: u32,
    exit: bool,
}

fn address() -> SocketAddr {
    "127.0.0.1:7501".parse().unwrap()
}

fn request<M: Message>(header: Header, message: &M) -> Vec<u8> {
    let header = Header { opcode: M::OPCODE.code(), rpc: RpcId(1), kind: Kind::Request, ..header };
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &header, |out| encode_into(out, message));
    bytes
}

fn sibling(id: u64) -> Header {
    Header { cluster: CLUSTER, sender: ServerId(id), target: BRICK, ..Header::default() }
}

fn order(life: u64) -> RestartOrder {
    RestartOrder { brick: BRICK, life, mark: 100 + life, silent_millis: 1040 }
}

impl Rig {
    /// A brick that runs and has told its first life.
    fn new(limit: RestartLimit) -> Rig {
        let charge = ChargeConfig { name: "brick-1".into(), address: address(), limit };
        let mut rig = Rig {
            supervisor: Supervisor::new(vec![charge], 77),
            now: Instant(MILLI),
            brick: Brick::Answers,
            life: 0,
            acts: Vec::new(),
            answers: Vec::new(),
            reports: Vec::new(),
            questions: 0,
            exit: false,
        };
        rig.input(Input::Start { wall_millis: 0 });
        rig.run(2000);
        assert_eq!(rig.take_acts(), [Act::Start]);
        rig
    }

    fn input(&mut self, input: Input<'_>) {
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
                    let (header, _) = frame::parse(&sent).unwrap();
                    self.questions += 1;
                    match self.brick {
                        Brick::Answers => inputs.push(self.probed(&header)),
                        Brick::Silent => {}
                        Brick::Refuses => is_lost = true,
                    }
                }
                Effect::Send { to: Peer::Conn(_), frame: sent } => {
                    let sent = sent.of(&effects.bytes).into_owned();
                    let (header, body) = frame::parse(&sent).unwrap();
                    let said = decode::<RestartAnswer>(body).ok().map(|answer| answer.said);
                    self.answers.push((header.status(), said));
                }
                Effect::Report { text, .. } => self.reports.push(text.clone()),
                Effect::Exit { .. } => self.exit = true,
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
            match act {
                Act::Start => {
                    self.life += 1;
                    self.supervisor.started(self.now, 0, &mut effects);
                }
                Act::Kill | Act::Stop => self.supervisor.ended(self.now, 0, "signal", &mut effects),
            }
            self.carry_out(effects);
        }
    }

    fn probed(&self, header: &Header) -> Vec<u8> {
        assert_eq!(header.opcode(), Some(Opcode::BrickProbe));
        let told = BrickProbed {
            cluster: CLUSTER,
            brick: BRICK,
            life: self.life,
            mark: 100 + self.life,
            serves: true,
            silent: 0,
            siblings: vec![ServerId(4), ServerId(5)],
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header.answer(Status::Ok), |out| encode_into(out, &told));
        bytes
    }

    fn run(&mut self, millis: u64) {
        let end = Instant(self.now.0 + millis * MILLI);
        while let Some(at) = self.supervisor.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        self.now = end;
    }

    fn send<M: Message>(&mut self, header: Header, message: &M) {
        let bytes = request(header, message);
        self.input(Input::Frame { from: ConnId(8), bytes: &bytes });
    }

    /// The process ends by itself.
    fn end(&mut self) {
        let mut effects = Effects::new();
        self.supervisor.ended(self.now, 0, "exit status: 7", &mut effects);
        self.carry_out(effects);
    }

    fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts).into_iter().map(|(_, act)| act).collect()
    }

    fn take_answers(&mut self) -> Vec<(Status, Option<RestartSaid>)> {
        std::mem::take(&mut self.answers)
    }
}

// I6
#[test]
fn twenty_orders_at_once_are_one_restart() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    for number in 0..20 {
        rig.send(sibling(4 + number % 2), &order(1));
    }
    assert!(rig.acts.is_empty(), "the brick is asked first");
    rig.run(999);
    assert!(rig.acts.is_empty(), "two questions of half a second");
    rig.run(600);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Restarting)); 20]);
    let event = rig.reports.last().unwrap();
    assert!(
        event.contains("brick s3, life 1, is silent for 1.0 s (announcements); noticed by brick s4"),
        "{event}"
    );
    assert!(event.ends_with("killed and started again"), "{event}");
}

// I6
#[test]
fn a_brick_that_answers_over_loopback_is_left_alone() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.send(sibling(4), &order(1));
    rig.run(60_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
    // It is slow, and answers the second question.
    rig.brick = Brick::Silent;
    rig.send(sibling(5), &order(1));
    rig.run(450);
    rig.brick = Brick::Answers;
    rig.run(60_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
}

// I6: the whole host was stopped for a while. One late look is no silence.
#[test]
fn a_supervisor_that_was_stopped_itself_asks_anew() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(1));
    rig.now = Instant(rig.now.0 + 30_000 * MILLI);
    rig.brick = Brick::Answers;
    rig.run(10_000);
    assert!(rig.acts.is_empty());
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Answers))]);
}

// I6: the next life is silent while it starts; an order for the one before it must not end it.
#[test]
fn an_order_for_a_life_that_is_over_ends_nothing() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Refuses;
    rig.end();
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.send(sibling(4), &order(1));
    assert_eq!(rig.take_answers(), [(Status::Fenced, None)]);
    rig.brick = Brick::Answers;
    rig.run(2000);
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(1));
    // The same number, but another process: it ran on a copy of the directory.
    rig.send(sibling(4), &RestartOrder { mark: 7, ..order(2) });
    rig.run(10_000);
    assert_eq!(rig.take_answers(), [(Status::Fenced, None); 2]);
    assert!(rig.acts.is_empty());
}

// I6
#[test]
fn orders_of_strangers_are_refused() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.run(600);
    rig.send(Header { sender: ServerId::NONE, ..sibling(0) }, &order(1));
    rig.send(sibling(6), &order(1));
    rig.send(Header { cluster: ClusterId(8), ..sibling(4) }, &order(1));
    rig.send(sibling(4), &RestartOrder { brick: ServerId(4), ..order(1) });
    rig.send(sibling(4), &order(2));
    rig.run(10_000);
    let refused =
        [Status::NotAllowed, Status::NotAllowed, Status::WrongCluster, Status::WrongServer, Status::NotReady];
    assert_eq!(rig.take_answers(), refused.map(|status| (status, None)));
    rig.input(Input::Frame { from: ConnId(8), bytes: b"*1\r\n$4\r\nPING\r\n" });
    assert!(rig.acts.is_empty());
}

// I6
#[test]
fn at_the_limit_a_brick_stays_offline_until_an_operator_starts_it() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    for life in 1..=3 {
        rig.brick = Brick::Silent;
        rig.send(sibling(4), &order(life));
        rig.run(2000);
        assert_eq!(rig.take_acts(), [Act::Kill, Act::Start], "life {life}");
        rig.brick = Brick::Answers;
        rig.run(2000);
    }
    rig.take_answers();
    rig.brick = Brick::Silent;
    rig.send(sibling(4), &order(4));
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill]);
    let event = rig.reports.last().unwrap();
    assert!(event.contains("offline after 3 restarts within 600 s"), "{event}");
    assert!(event.contains("then run 'ramhold brick restart s3'"), "{event}");
    rig.send(sibling(5), &order(4));
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Offline)); 2]);
    rig.run(3_600_000);
    assert!(rig.acts.is_empty());

    rig.brick = Brick::Answers;
    rig.send(Header { sender: ServerId::NONE, ..sibling(0) }, &BrickRestart { brick: BRICK, life: 4 });
    assert_eq!(rig.take_answers(), [(Status::Ok, Some(RestartSaid::Restarting))]);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.run(3000);
    // The count begins anew.
    rig.end();
    assert_eq!(rig.take_acts(), [Act::Start]);
}

// I6: a process that cannot start does not take all of a processor.
#[test]
fn an_end_by_itself_needs_no_order_and_short_lives_are_followed_by_pauses() {
    let mut rig = Rig::new(RestartLimit::None);
    rig.run(10_000);
    rig.end();
    assert_eq!(rig.take_acts(), [Act::Start], "at once");
    let begun = rig.now.0 / MILLI;
    for _ in 0..8 {
        let before = rig.acts.len();
        rig.end();
        while rig.acts.len() == before {
            rig.run(10);
        }
    }
    let starts: Vec<u64> = rig.acts.iter().map(|(at, _)| (at - begun) / 1000).collect();
    assert_eq!(starts, [1, 3, 7, 15, 31, 63, 123, 183]);
    let mut limited = Rig::new(RestartLimit::at_most(0, Duration::from_secs(60)).unwrap());
    limited.end();
    limited.run(100_000);
    assert!(limited.acts.is_empty());
}

// I6
#[test]
fn a_process_that_answers_nothing_for_a_minute_is_restarted_without_an_order() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.end();
    rig.run(59_000);
    assert_eq!(rig.take_acts(), [Act::Start]);
    rig.run(2000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
    assert!(rig.reports.last().unwrap().contains("has answered nothing for 60.0 s"));
    // The same for one that has answered before, and has no sibling that could order anything.
    rig.brick = Brick::Answers;
    rig.run(5000);
    rig.brick = Brick::Silent;
    rig.run(59_000);
    assert!(rig.acts.is_empty());
    rig.run(3000);
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}

// I6
#[test]
fn an_operators_restart_stops_in_order_and_once() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    let operator = Header { cluster: CLUSTER, ..Header::default() };
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    assert_eq!(rig.take_acts(), [Act::Stop, Act::Start]);
    // The network has doubled it.
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    rig.run(3000);
    rig.send(operator, &BrickRestart { brick: BRICK, life: 1 });
    rig.send(Header { cluster: ClusterId(1), ..operator }, &BrickRestart { brick: BRICK, life: 0 });
    assert!(rig.acts.is_empty());
    let told: Vec<Status> = rig.take_answers().into_iter().map(|(status, _)| status).collect();
    assert_eq!(told, [Status::Ok, Status::Fenced, Status::Fenced, Status::WrongCluster]);
}

// I6: nobody waits until a process that hangs has stopped in order.
#[test]
fn an_operators_restart_kills_a_process_that_hangs() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.brick = Brick::Silent;
    rig.run(2000);
    assert!(rig.acts.is_empty(), "silence without an order is nothing");
    rig.send(Header { cluster: CLUSTER, ..Header::default() }, &BrickRestart { brick: BRICK, life: 1 });
    assert_eq!(rig.take_acts(), [Act::Kill, Act::Start]);
}

// I6
#[test]
fn a_supervisor_stops_its_brick_before_it_ends() {
    let mut rig = Rig::new(RestartLimit::DEFAULT);
    rig.input(Input::Stop);
    assert_eq!((rig.take_acts(), rig.exit), (vec![Act::Stop], true));
    rig.run(100_000);
    assert!(rig.acts.is_empty());
}
