//! Three played bricks that hold the quorum table `carts` of two tablets, and what a coordinator says of it.

use ramhold_base::checksum::crc;
use ramhold_base::hash::{Placement, PlacementHasher};
use ramhold_base::{ClusterTime, Instant, KeyHash, ServerId, Stamp, Status, TableId};
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::brick_page::{
    BrickPageHead, BrickPageReply, BrickPageRequest, BrickPageSaid, BrickRecord, PageWants, RecordState,
};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::{BrickPlace, BrickTablet, QuorumOptions, WriteProtocol};
use ramhold_wire::table::{TableDescription, TableOptions};
use ramhold_wire::{Header, Opcode};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The name of the quorum table.
pub const CARTS: &str = "carts";
/// The id of the quorum table before it is emptied.
const FIRST: TableId = TableId(40);
const BRICKS: [u64; 3] = [21, 22, 23];
/// The last hash of the first tablet.
const CUT: u64 = u64::MAX / 2;

/// The record that one brick has stored for a key. The value is `None` for a tombstone.
type Stored = (Stamp, Option<(Vec<u8>, Option<ClusterTime>)>);

pub struct Bricks {
    /// The id that the table has now.
    pub table: TableId,
    stored: BTreeMap<(u64, TableId, Vec<u8>), Stored>,
    /// Bricks that do not answer.
    pub silent: Vec<u64>,
    /// Bricks whose answers to writes are lost.
    pub lossy: Vec<u64>,
    /// The first brick stores what is written, the second one refuses it, and the third one has forgotten.
    pub torn: bool,
    /// Keys about which no brick answers.
    pub stuck: Vec<&'static str>,
    /// The table was dropped, and an ordinary one has its name.
    pub is_over: bool,
    /// The number of writes that were asked for, without repairs.
    pub write_count: usize,
    /// The number of questions that were answered.
    pub ask_count: usize,
}

impl Default for Bricks {
    fn default() -> Bricks {
        Bricks {
            table: FIRST,
            stored: BTreeMap::new(),
            silent: Vec::new(),
            lossy: Vec::new(),
            torn: false,
            stuck: Vec::new(),
            is_over: false,
            write_count: 0,
            ask_count: 0,
        }
    }
}

impl Bricks {
    /// Whether one of the bricks listens there.
    pub fn listens(address: SocketAddr) -> bool {
        BRICKS.iter().any(|brick| address_of(*brick) == address)
    }

    /// An empty table takes the place of this one.
    pub fn replace(&mut self) -> TableId {
        self.table = TableId(self.table.raw() + 1);
        self.table
    }

    /// Whether another table has taken the place of this one.
    pub fn is_gone(&self, table: TableId) -> bool {
        (FIRST..self.table).contains(&table) || (self.is_over && table == self.table)
    }

    /// The values that bricks hold of a key in the present table, without tombstones.
    pub fn values(&self, key: &str) -> Vec<(&[u8], Option<u64>)> {
        let stored = BRICKS.iter().filter_map(|brick| self.stored.get(&(*brick, self.table, key.into())));
        let values = stored.filter_map(|(_, value)| value.as_ref());
        values.map(|(bytes, end)| (&bytes[..], end.map(|end| end.0))).collect()
    }

    pub fn describe(&self) -> TableDescription {
        let place = |brick| BrickPlace { brick: ServerId(brick), address: Address(address_of(brick)) };
        let tablet = |(first, last)| {
            let (first, last) = (KeyHash(first), KeyHash(last));
            BrickTablet {
                table: self.table,
                first,
                last,
                epoch: 1,
                bricks: BRICKS.map(place).to_vec(),
                joined: Vec::new(),
                giving: None,
            }
        };
        let protocol = WriteProtocol::Adaptive;
        TableDescription {
            shortage: None,
            table: self.table,
            name: CARTS.into(),
            options: TableOptions {
                durability: Durability::Buffered,
                replicas: 0,
                tablets: 2,
                slots: false,
                zone: None,
                quorum: Some(QuorumOptions { bricks: 3, write: 2, read: 2, protocol }),
            },
            reclassing: 0,
            seed: super::PLACEMENT_SEED,
            tablets: Vec::new(),
            outside: None,
            quorum: Some([(0, CUT), (CUT + 1, u64::MAX)].map(tablet).to_vec()),
            zones: None,
        }
    }

    /// The answer of the brick that a question goes to. `None`: none comes.
    pub fn answer(&mut self, now: Instant, header: &Header, body: &[u8]) -> Option<(Status, Vec<u8>)> {
        let brick = header.target.raw();
        if self.silent.contains(&brick) {
            return None;
        }
        if header.opcode() == Some(Opcode::BrickPage) {
            return Some(self.page(now, brick, &BrickPageRequest::decode(body).unwrap()));
        }
        let AskRequest { table, key, what } = AskRequest::decode(body).unwrap();
        if self.stuck.iter().any(|stuck| stuck.as_bytes() == key) {
            return None;
        }
        if table != self.table || self.is_over {
            return Some((Status::UnknownTable, Vec::new()));
        }
        self.ask_count += 1;
        let place = (brick, table, key.to_vec());
        let (stamp, value) = self.stored.get(&place).cloned().unwrap_or((Stamp::NONE, None));
        let shown = value.as_ref().map(|(bytes, expires)| StampedValue { bytes, expires: *expires });
        let is_lost = matches!(what, AskWhat::Write(_)) && self.lossy.contains(&brick);
        let said = match what {
            AskWhat::Value => AskSaid::Value(stamp, shown),
            AskWhat::Stamp => AskSaid::Stamp(stamp),
            AskWhat::Write(write) => {
                self.write_count += usize::from(!write.is_repair);
                self.store(place, write, stamp)
            }
        };
        let clock = clock(now);
        let mut out = Vec::new();
        AskReply { life: 1, siblings: vec![], epoch: 1, clock, said }.encode(&mut out);
        (!is_lost).then_some((Status::Ok, out))
    }

    /// The answer of a brick to a question for a page.
    fn page(&mut self, now: Instant, brick: u64, asked: &BrickPageRequest) -> (Status, Vec<u8>) {
        if asked.table != self.table || self.is_over {
            return (Status::UnknownTable, Vec::new());
        }
        self.ask_count += 1;
        let hasher = PlacementHasher::new(Placement { seed: super::PLACEMENT_SEED, slots: false });
        let stored = self.stored.iter().filter(|((holder, table, key), _)| {
            let is_asked = *holder == brick && *table == asked.table;
            is_asked && (asked.first..=asked.last).contains(&hasher.hash(key))
        });
        let record = |((_, _, key), (stamp, value)): (&'_ (u64, TableId, Vec<u8>), &'_ Stored)| {
            let value = value.as_ref().map(|(bytes, expires)| (bytes.clone(), *expires));
            (position(key), key.clone(), *stamp, value)
        };
        let mut records: Vec<_> = stored.map(record).collect();
        records.retain(|(at, ..)| *at >= asked.position);
        records.sort_unstable();
        let most = usize::try_from(asked.count).unwrap();
        let next = records.get(most).map(|(at, ..)| *at);
        records.truncate(most);
        let has_values = asked.what == PageWants::Values;
        let records = records.iter().map(|(position, key, stamp, value)| {
            let state = match value {
                None => RecordState::Tombstone(*stamp),
                Some((bytes, expires)) => RecordState::Value {
                    stamp: *stamp,
                    expires: *expires,
                    bytes: bytes.len() as u32,
                    value: has_values.then_some(&bytes[..]),
                },
            };
            BrickRecord { position: *position, key, state }
        });
        let said = BrickPageSaid::Page { next, has_values };
        let head = BrickPageHead { life: 1, siblings: vec![], epoch: 1, clock: clock(now), said };
        let mut out = Vec::new();
        BrickPageReply { head, records: records.collect() }.encode(&mut out);
        (Status::Ok, out)
    }

    fn store<'a>(
        &mut self,
        place: (u64, TableId, Vec<u8>),
        write: AskedWrite<'_>,
        newest: Stamp,
    ) -> AskSaid<'a> {
        let newer = Stamp { time: write.stamp.time + 1, ..write.stamp };
        if self.torn && place.0 != BRICKS[0] {
            return if place.0 == BRICKS[1] { AskSaid::Rejected(newer) } else { AskSaid::Unknown(newer) };
        }
        if write.stamp < newest {
            return AskSaid::Rejected(newest);
        }
        let value = write.value.map(|value| (value.bytes.to_vec(), value.expires));
        self.stored.insert(place, (write.stamp, value));
        AskSaid::Applied
    }
}

pub fn address_of(brick: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, brick as u8], 1))
}

/// The time of all bricks, in microseconds.
fn clock(now: Instant) -> u64 {
    1_700_000_000_000_000 + now.0 / 1_000
}

/// A key's place in the order of walks.
fn position(key: &[u8]) -> u64 {
    u64::from(crc(key)) << 32 | 1
}
