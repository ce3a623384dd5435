//! A client that asks for one operation at a time, and notes how long each takes.
//!
//! Rounds over the same objects: write all, read all, and both once more. Only the second half is noted. The
//! first half opens connections, and servers take what leases they need for reads. The next operation begins in
//! the step that takes in the last one's answer, so the time between two such steps has the client's work for one
//! question and one answer in it.
//!
//! Not here: the time that anything takes (`charge`), several operations under way.

use crate::loader::TABLE;
use ramhold_base::{Effects, Input, Instant, Machine, TableId};
use ramhold_client_core::{
    Operation, OperationId, Outcome, RejectRules, Reply, Session, SessionConfig, WhichTable,
};
use std::net::SocketAddr;

const VALUE_BYTES: usize = 100;
const KEY_BYTES: usize = 30;
/// Writes, reads, writes, reads.
const ROUNDS: u64 = 4;

enum State {
    Begin,
    Describing(OperationId),
    /// `number` counts the operations of all rounds.
    Asking {
        table: TableId,
        number: u64,
        id: OperationId,
        since: Instant,
    },
    Done,
}

pub struct Asker {
    session: Session,
    /// Objects, and so the operations of a round.
    count: u64,
    state: State,
    /// Nanoseconds of each operation of the second half.
    pub writes: Vec<u64>,
    pub reads: Vec<u64>,
}

impl Asker {
    pub fn new(coordinator: SocketAddr, count: u64, seed: u64) -> Asker {
        Asker {
            session: Session::new(SessionConfig::new(vec![coordinator]), seed),
            count,
            state: State::Begin,
            writes: Vec::new(),
            reads: Vec::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    fn is_write(&self, number: u64) -> bool {
        (number / self.count).is_multiple_of(2)
    }

    fn ask(&mut self, now: Instant, table: TableId, number: u64, effects: &mut Effects) -> State {
        if number == ROUNDS * self.count {
            return State::Done;
        }
        let key = format!("{:0KEY_BYTES$}", number % self.count).into_bytes();
        let rules = RejectRules::default();
        let operation = if self.is_write(number) {
            Operation::Write { table, key, value: vec![0x5A; VALUE_BYTES], rules, expiry: None }
        } else {
            Operation::Read { table, key, rules }
        };
        State::Asking { table, number, id: self.session.start(now, operation, effects), since: now }
    }

    fn advance(&mut self, now: Instant, effects: &mut Effects) {
        if let State::Begin = self.state {
            let which = WhichTable::Name(TABLE.into());
            let describe = Operation::DescribeTable { which };
            self.state = State::Describing(self.session.start(now, describe, effects));
        }
        while let Some((id, outcome)) = self.session.take_outcome() {
            self.state = match (&self.state, outcome) {
                (State::Describing(asked), Outcome::Done(Reply::Table(table))) if *asked == id => {
                    self.ask(now, table.table, 0, effects)
                }
                (State::Asking { table, number, id: asked, since }, Outcome::Done(reply)) if *asked == id => {
                    let (table, number, took) = (*table, *number, now.0 - since.0);
                    let times = match reply {
                        Reply::Written { .. } => &mut self.writes,
                        Reply::Read { value, .. } if value.len() == VALUE_BYTES => &mut self.reads,
                        other => panic!("objects are there as they were written: {other:?}"),
                    };
                    if number >= ROUNDS / 2 * self.count {
                        times.push(took);
                    }
                    self.ask(now, table, number + 1, effects)
                }
                (_, outcome) => panic!("asking a cluster that nothing happens to: {outcome:?}"),
            };
        }
    }
}

impl Machine for Asker {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        self.advance(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Done => None,
            _ => self.session.deadline(),
        }
    }
}
