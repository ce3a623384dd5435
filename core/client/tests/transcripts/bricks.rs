//! A quorum table whose three bricks are played by the test.

use crate::fake::*;
use ramhold_base::{ClusterTime, Instant, KeyHash, Machine, ServerId, Stamp, Status};
use ramhold_client_core::{Operation, Outcome, Reply};
use ramhold_wire::Opcode;
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, StampedValue};
use ramhold_wire::control::Address;
use ramhold_wire::quorum::{BrickPlace, BrickTablet, QuorumOptions, WriteProtocol};
use ramhold_wire::table::{TableDescription, TableOptions};

pub const KEY: &[u8] = b"key";
/// The bricks' time when the test begins, in microseconds.
pub const DATE: u64 = 1_700_000_000_000_000;
/// A stamp of another session.
pub const OLD: Stamp = Stamp { time: DATE - 5_000_000, session: 2 };

/// A question to a brick.
#[derive(Clone, Debug)]
pub struct Asked {
    pub brick: u64,
    pub key: Vec<u8>,
    pub what: Asks,
    pub sent: Sent,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asks {
    Value,
    Stamp,
    /// `None`: a tombstone.
    Write(Stamp, Option<Vec<u8>>),
    Repair(Stamp, Option<Vec<u8>>),
}

/// How bricks answer.
#[derive(Clone, Copy)]
pub struct Voice {
    pub life: u64,
    pub epoch: u64,
    /// How far the brick's clock is ahead, in microseconds.
    pub ahead: u64,
}

pub const VOICE: Voice = Voice { life: 1, epoch: 1, ahead: 0 };

pub fn places(bricks: [u64; 3]) -> Vec<BrickPlace> {
    bricks.map(|brick| BrickPlace { brick: ServerId(brick), address: Address(server(brick)) }).to_vec()
}

pub fn held_by(bricks: [u64; 3], epoch: u64, protocol: WriteProtocol) -> TableDescription {
    with_numbers(bricks, epoch, QuorumOptions { bricks: 3, write: 2, read: 2, protocol })
}

pub fn with_numbers(bricks: [u64; 3], epoch: u64, quorum: QuorumOptions) -> TableDescription {
    let quorum = Some(quorum);
    let tablet = BrickTablet {
        table: TABLE,
        first: KeyHash(0),
        last: KeyHash(u64::MAX),
        epoch,
        bricks: places(bricks),
        joined: Vec::new(),
        giving: None,
    };
    TableDescription {
        options: TableOptions { replicas: 0, quorum, ..options() },
        quorum: Some(vec![tablet]),
        ..description(&[])
    }
}

impl Fake {
    /// A session that knows the table, the cluster, and the time of all three bricks.
    pub fn with_bricks(protocol: WriteProtocol) -> Fake {
        Fake::with_quorum(QuorumOptions { bricks: 3, write: 2, read: 2, protocol })
    }

    /// The same with other numbers.
    pub fn with_quorum(quorum: QuorumOptions) -> Fake {
        let mut fake = Fake::new();
        fake.start(read(KEY));
        fake.describe_bricks(&with_numbers([1, 2, 3], 1, quorum));
        let greeted = fake.asked();
        assert_eq!(bricks_of(&greeted), [1, 2, 3], "all are asked for the time");
        for one in &greeted {
            fake.say(one, AskSaid::Stamp(Stamp::NONE));
        }
        let asked = fake.asked();
        asked.iter().for_each(|one| fake.say_stored(one, Stamp::NONE, None));
        fake.expect_refused(Status::NotFound);
        fake
    }

    pub fn describe_bricks(&mut self, description: &TableDescription) {
        if self.sent.is_empty() {
            self.wait(millis(2000));
        }
        let request = self.expect(coordinator(0), Opcode::TableDescribe);
        self.answer_with(&request, description);
    }

    /// The bricks' time, in microseconds.
    pub fn date(&self) -> u64 {
        DATE + (self.now.0 - 1_000_000_000) / 1000
    }

    /// The questions that the test has not looked at yet, in the order of bricks.
    pub fn asked(&mut self) -> Vec<Asked> {
        let (asks, others) =
            std::mem::take(&mut self.sent).into_iter().partition(|it| it.opcode() == Opcode::Ask);
        self.sent = others;
        let asks: Vec<Sent> = asks;
        let mut asks: Vec<Asked> = asks.into_iter().map(|sent| self.asked_of(sent)).collect();
        asks.sort_by_key(|it| it.brick);
        asks
    }

    fn asked_of(&self, sent: Sent) -> Asked {
        let brick = sent.header.target.raw();
        assert_eq!(sent.to, server(brick));
        assert_eq!((sent.header.cluster, sent.header.lease.is_none()), (CLUSTER, true));
        let request = AskRequest::decode(&sent.body).unwrap();
        assert_eq!(request.table, TABLE);
        let key = request.key.to_vec();
        let what = match request.what {
            AskWhat::Value => Asks::Value,
            AskWhat::Stamp => Asks::Stamp,
            AskWhat::Write(write) => {
                let value = write.value.map(|value| value.bytes.to_vec());
                if write.is_repair {
                    Asks::Repair(write.stamp, value)
                } else {
                    Asks::Write(write.stamp, value)
                }
            }
        };
        Asked { brick, key, what, sent }
    }

    /// The end that the value of a write has.
    pub fn end_of(&self, asked: &Asked) -> Option<ClusterTime> {
        match AskRequest::decode(&asked.sent.body).unwrap().what {
            AskWhat::Write(write) => write.value.and_then(|value| value.expires),
            AskWhat::Value | AskWhat::Stamp => None,
        }
    }

    pub fn begun_of(&self, asked: &Asked) -> u64 {
        match AskRequest::decode(&asked.sent.body).unwrap().what {
            AskWhat::Write(write) => write.begun,
            AskWhat::Value | AskWhat::Stamp => panic!("no write"),
        }
    }

    pub fn say(&mut self, asked: &Asked, said: AskSaid<'_>) {
        self.say_as(asked, VOICE, said);
    }

    pub fn say_as(&mut self, asked: &Asked, voice: Voice, said: AskSaid<'_>) {
        let clock = self.date() + voice.ahead;
        let siblings = vec![];
        let reply = AskReply { life: voice.life, siblings, epoch: voice.epoch, clock, said };
        let mut body = Vec::new();
        reply.encode(&mut body);
        let mut request = asked.sent.clone();
        request.header.target = ServerId(asked.brick);
        self.answer(&request, Status::Ok, &body);
    }

    /// Answers a question for the value or the stamp, as a brick that has this.
    pub fn say_stored(&mut self, asked: &Asked, stamp: Stamp, value: Option<&[u8]>) {
        let value = value.map(|bytes| StampedValue { bytes, expires: None });
        let said = match asked.what {
            Asks::Value => AskSaid::Value(stamp, value),
            Asks::Stamp => AskSaid::Stamp(stamp),
            Asks::Write(..) | Asks::Repair(..) => panic!("no question: {asked:?}"),
        };
        self.say(asked, said);
    }

    pub fn refuse(&mut self, asked: &Asked, status: Status) {
        self.answer(&asked.sent.clone(), status, b"");
    }

    /// Lets time pass without looking at what is sent, until the operation has ended.
    pub fn run_out(&mut self) -> Outcome {
        for _ in 0..1000 {
            self.sent.retain(|sent| sent.opcode() != Opcode::Ask);
            if let Some((_, outcome)) = self.session.take_outcome() {
                return outcome;
            }
            if let Some(at) = self.sent.iter().position(|sent| sent.opcode() == Opcode::TableDescribe) {
                self.sent.remove(at);
            }
            self.wait(millis(10_000));
        }
        panic!("it does not end");
    }

    pub fn expect_found(&mut self, want: Stamp, bytes: &[u8]) {
        match self.outcome().1 {
            Outcome::Done(Reply::Read { version, value, .. }) => {
                assert_eq!((version.raw(), &value[..]), (want.time, bytes));
            }
            other => panic!("wanted a value: {other:?}"),
        }
    }

    pub fn pass(&mut self, until: Instant) {
        while self.session.deadline().is_some_and(|at| at <= until) {
            self.wait(until.since(self.now));
            if !self.sent.is_empty() {
                return;
            }
        }
        self.now = until;
    }
}

pub fn bricks_of(asked: &[Asked]) -> Vec<u64> {
    asked.iter().map(|it| it.brick).collect()
}

/// The stamp that all of these write.
pub fn written_stamp(asked: &[Asked]) -> Stamp {
    let stamps: Vec<Stamp> = asked
        .iter()
        .map(|it| match &it.what {
            Asks::Write(stamp, _) => *stamp,
            other => panic!("no write: {other:?}"),
        })
        .collect();
    assert!(stamps.windows(2).all(|pair| pair[0] == pair[1]), "{stamps:?}");
    stamps[0]
}

pub fn resume(token: &ramhold_client_core::Token) -> Operation {
    Operation::Resume { token: Box::new(token.clone()) }
}
