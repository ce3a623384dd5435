//! A client that fills one server. It makes a table and writes objects to one server's tablets, many at a time.
//!
//! Keys are drawn so that their hashes lie evenly. They are written in an order in which every stretch of the
//! log has keys from the whole hash range. A full-size log has this property by itself: it has as many
//! objects as these small ones stand for.

use crate::scale::VALUE_BYTES;
use ramhold_base::hash::PlacementHasher;
use ramhold_base::{Effects, Input, Instant, KeyHash, Machine, Rng, ServerId, TableId};
use ramhold_client_core::{
    Operation, OperationId, Outcome, RejectRules, Reply, Session, SessionConfig, WhichTable,
};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{TableDescription, TableOptions, TabletState};
use std::net::SocketAddr;
use std::time::Duration;

/// The tablets of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// One, of the server that came first.
    OneTablet,
    /// As the coordinator has it, over all masters. Only those of one server are filled.
    AsUsual { owner: ServerId },
}

/// The name of the table.
pub const TABLE: &str = "figures";
const BATCH: usize = 512;
const DEADLINE: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_millis(50);

enum State {
    Waiting {
        until: Instant,
    },
    Creating(OperationId),
    Describing(OperationId),
    /// Not all tablets are served.
    Looking {
        until: Instant,
    },
    Writing {
        table: TableId,
        under_way: usize,
    },
    Done,
}

pub struct Loader {
    session: Session,
    rng: Rng,
    replicas: u8,
    count: u64,
    spread: Spread,
    state: State,
    keys: Vec<u64>,
    written: usize,
}

impl Loader {
    pub fn new(coordinator: SocketAddr, replicas: u8, count: u64, spread: Spread, seed: u64) -> Loader {
        let mut config = SessionConfig::new(vec![coordinator]);
        config.deadline = DEADLINE;
        config.attempt_timeout = DEADLINE;
        Loader {
            session: Session::new(config, seed),
            rng: Rng::new(seed ^ 0x10AD),
            replicas,
            count,
            spread,
            state: State::Waiting { until: Instant::ZERO },
            keys: Vec::new(),
            written: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    fn advance(&mut self, now: Instant, effects: &mut Effects) {
        while let Some((id, outcome)) = self.session.take_outcome() {
            self.state = match (&self.state, outcome) {
                (State::Creating(asked), Outcome::Done(Reply::TableCreated { .. })) if *asked == id => {
                    self.describe(now, effects)
                }
                (State::Describing(asked), Outcome::Done(Reply::Table(table))) if *asked == id => {
                    if table.tablets.iter().all(|tablet| tablet.state == TabletState::Serving) {
                        self.keys = self.draw_keys(&table);
                        State::Writing { table: table.table, under_way: 0 }
                    } else {
                        State::Looking { until: now + RETRY }
                    }
                }
                (State::Writing { table, under_way }, Outcome::Done(Reply::Written { .. })) => {
                    State::Writing { table: *table, under_way: under_way - 1 }
                }
                (State::Creating(_), Outcome::Refused { .. }) => State::Waiting { until: now + RETRY },
                (_, outcome) => panic!("filling a server that nothing happens to: {outcome:?}"),
            };
        }
        if let State::Looking { until } = self.state
            && until <= now
        {
            self.state = self.describe(now, effects);
        }
        if let State::Waiting { until } = self.state
            && until <= now
        {
            let options = TableOptions {
                durability: if self.replicas == 0 { Durability::None } else { Durability::Buffered },
                replicas: self.replicas,
                tablets: u32::from(self.spread == Spread::OneTablet),
                slots: false,
                zone: None,
                quorum: None,
            };
            let create = Operation::CreateTable { name: TABLE.into(), options, left_open: None };
            self.state = State::Creating(self.session.start(now, create, effects));
        }
        if let State::Writing { table, under_way: 0 } = self.state {
            let batch = &self.keys[self.written..(self.written + BATCH).min(self.keys.len())];
            if batch.is_empty() {
                self.state = State::Done;
                return;
            }
            self.written += batch.len();
            self.state = State::Writing { table, under_way: batch.len() };
            let write = |key: &u64| Operation::Write {
                table,
                key: key.to_le_bytes().to_vec(),
                value: vec![0x5A; VALUE_BYTES],
                rules: RejectRules::default(),
                expiry: None,
            };
            self.session.start_all(now, batch.iter().map(write), DEADLINE, effects);
        }
    }

    fn describe(&mut self, now: Instant, effects: &mut Effects) -> State {
        let which = WhichTable::Name(TABLE.into());
        State::Describing(self.session.start(now, Operation::DescribeTable { which }, effects))
    }

    /// One key for each equal part of the hashes that are to be filled, in an order that jumps about.
    fn draw_keys(&mut self, table: &TableDescription) -> Vec<u64> {
        let hasher = PlacementHasher::new(table.placement());
        let is_filled = |hash: KeyHash| match self.spread {
            Spread::OneTablet => true,
            Spread::AsUsual { owner } => {
                let at = table.tablets.partition_point(|tablet| tablet.last < hash);
                table.tablets[at].owner == owner
            }
        };
        let mut drawn: Vec<(KeyHash, u64)> = Vec::new();
        while drawn.len() < 2 * self.count as usize {
            let key = self.rng.u64();
            let hash = hasher.hash(&key.to_le_bytes());
            if is_filled(hash) {
                drawn.push((hash, key));
            }
        }
        drawn.sort_unstable();
        let count = self.count as usize;
        let even: Vec<u64> = (0..count).map(|i| drawn[i * 2].1).collect();
        // About the golden section of the count, with no common divisor: neighbours in time are far apart.
        let mut stride = (count as f64 * 0.618) as usize | 1;
        while greatest_common_divisor(stride, count) != 1 {
            stride += 2;
        }
        (0..count).map(|i| even[(i as u128 * stride as u128 % count as u128) as usize]).collect()
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Machine for Loader {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.session.step(now, input, effects);
        self.advance(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } | State::Looking { until } => Some(until),
            State::Done => None,
            _ => self.session.deadline(),
        }
    }
}
