//! Facts that a brick must know before it reads its log: who it is, its lives, its tables and tablets, its siblings' lives.
//!
//! Invariants:
//! - the number of the life rises with each start, before anything else is done;
//! - a tablet that does not vote stays so until it is rebuilt, over all restarts.
//!
//! Bytes: docs/formats/brick.md. Catalogue: I6.

use minicbor::{Decode, Encode};
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::crc;
use ramhold_base::hash::{Placement, PlacementSeed};
use ramhold_base::{ClusterId, KeyHash, ServerId, StreamId, TableId};
use ramhold_log::HashRange;
use ramhold_quorum::{NotAQuorum, Thresholds};
use ramhold_wire::bricks::{BrickTable, GivenUp};
use ramhold_wire::control::{Address, decode, encode_into};
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::{BrickPlace, BrickTablet, Giving, Joined, QuorumOptions, WriteProtocol};

/// The bytes of one copy of the state, with its header.
pub(crate) const COPY_BYTES: usize = 512 * 1024;
/// Where the copies begin in the superblock file.
pub(crate) const FIRST_COPY_AT: u64 = 64 * 1024;
const MAGIC: &[u8; 8] = b"RHBRICK\0";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 28;

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickState {
    #[n(0)]
    pub cluster: ClusterId,
    #[n(1)]
    pub brick: ServerId,
    /// The secret of the index hash, the same for all bricks of the cluster.
    #[n(2)]
    pub index_secret: u64,
    /// The number of starts.
    #[n(3)]
    pub life: u64,
    /// Random, new for each life: two processes that run on copies of one directory have different ones.
    #[n(4)]
    pub mark: u64,
    #[n(5)]
    pub tables: Vec<TableState>,
    #[n(6)]
    pub tablets: Vec<TabletState>,
    /// The newest known life of each sibling.
    #[n(7)]
    pub lives: Vec<LifeState>,
    /// The streams of the log.
    #[n(8)]
    pub streams: Vec<StreamState>,
    /// The version of the newest assignment that was taken; 0: none.
    #[n(9)]
    pub taken: u64,
    /// The place of the data directory at the last start; 0: not known.
    #[n(10)]
    pub place: u64,
    /// The directory was found to be a copy, and no assignment was taken since: tablets that come with the next one do not
    /// vote before they are rebuilt.
    #[n(11)]
    pub was_moved: bool,
    /// Other bricks that sessions may need to find all tablets of the tables here, as the coordinator said last; at most
    /// `BRICKS_TOLD_MAX`.
    #[n(12)]
    #[cbor(default)]
    pub others: Vec<SiblingState>,
    /// Tablets that were given up, with the epoch under which other bricks have them.
    #[n(13)]
    #[cbor(default)]
    pub left: Vec<GivenUp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableState {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub seed: PlacementSeed,
    /// The placement is by slots.
    #[n(3)]
    pub slots: bool,
    #[n(4)]
    pub bricks: u8,
    #[n(5)]
    pub write_quorum: u8,
    #[n(6)]
    pub read_quorum: u8,
    #[n(7)]
    pub durability: Durability,
    /// The phases of its puts, for sessions that ask.
    #[n(8)]
    pub protocol: WriteProtocol,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletState {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    /// Rises with each change of the tablet's bricks.
    #[n(3)]
    pub epoch: u64,
    /// The other bricks of the tablet.
    #[n(4)]
    pub siblings: Vec<SiblingState>,
    /// False: this brick has forgotten something of the tablet, or has joined, and is not rebuilt yet.
    #[n(5)]
    pub votes: bool,
    /// The epoch in which this brick joined; 1: it was there from the beginning.
    #[n(6)]
    #[cbor(default)]
    pub joined: u64,
    /// It has joined, and has not voted since.
    #[n(7)]
    #[cbor(default)]
    pub is_joining: bool,
    /// The tablet is moving: from a brick that is none of the siblings any more, to one of the tablet's bricks.
    #[n(8)]
    pub giving: Option<Giving>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SiblingState {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub address: Address,
    /// As `TabletState::joined`.
    #[n(2)]
    #[cbor(default)]
    pub joined: u64,
    /// Its data was taken for lost, and nothing was heard of it since: nobody waits for it.
    #[n(3)]
    #[cbor(default)]
    pub is_missing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LifeState {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub life: u64,
    #[n(2)]
    pub mark: u64,
    /// The port of the process that restarts it, at the brick's host.
    #[n(3)]
    pub supervisor: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StreamState {
    #[n(0)]
    pub stream: StreamId,
    #[n(1)]
    pub durability: Durability,
}

impl BrickState {
    /// Whether the state fits its place, also when the lives of all siblings are known.
    pub(crate) fn fits_with_lives(&self) -> bool {
        let mut siblings: Vec<ServerId> =
            self.tablets.iter().flat_map(|tablet| &tablet.siblings).map(|it| it.brick).collect();
        siblings.sort_unstable();
        siblings.dedup();
        let lives = siblings.into_iter().map(|brick| LifeState {
            brick,
            life: u64::MAX,
            mark: u64::MAX,
            supervisor: Some(u16::MAX),
        });
        let full = BrickState { lives: lives.collect(), ..self.clone() };
        encode(0, &full).is_some()
    }
}

impl TableState {
    pub fn of(table: &BrickTable) -> TableState {
        TableState {
            table: table.table,
            name: table.name.clone(),
            seed: table.seed,
            slots: table.slots,
            bricks: table.quorum.bricks,
            write_quorum: table.quorum.write,
            read_quorum: table.quorum.read,
            durability: table.durability,
            protocol: table.quorum.protocol,
        }
    }

    /// The table as an assignment describes it.
    pub fn description(&self) -> BrickTable {
        BrickTable {
            table: self.table,
            name: self.name.clone(),
            seed: self.seed,
            slots: self.slots,
            durability: self.durability,
            quorum: QuorumOptions {
                bricks: self.bricks,
                write: self.write_quorum,
                read: self.read_quorum,
                protocol: self.protocol,
            },
        }
    }

    pub fn placement(&self) -> Placement {
        Placement { seed: self.seed, slots: self.slots }
    }

    pub fn thresholds(&self) -> Result<Thresholds, NotAQuorum> {
        Thresholds::new(self.bricks, self.write_quorum, self.read_quorum)
    }
}

impl SiblingState {
    /// A brick that listens here.
    pub fn at(place: &BrickPlace) -> SiblingState {
        SiblingState { brick: place.brick, address: place.address, joined: 0, is_missing: false }
    }
}

impl TabletState {
    /// A tablet as it was told to this brick. It does not vote.
    pub fn of(tablet: &BrickTablet, me: ServerId) -> TabletState {
        let others = tablet.bricks.iter().filter(|place| place.brick != me);
        let sibling = |it: &BrickPlace| SiblingState {
            joined: tablet.joined(it.brick),
            is_missing: tablet.joined.iter().any(|joined| joined.brick == it.brick && joined.is_lost),
            ..SiblingState::at(it)
        };
        TabletState {
            table: tablet.table,
            first: tablet.first,
            last: tablet.last,
            epoch: tablet.epoch,
            siblings: others.map(sibling).collect(),
            votes: false,
            joined: tablet.joined(me),
            is_joining: false,
            giving: tablet.giving,
        }
    }

    /// The tablet with all its bricks, of which this one is `here`.
    pub fn whole(&self, here: BrickPlace) -> BrickTablet {
        let TabletState { table, first, last, epoch, .. } = *self;
        let others = self.siblings.iter().map(|it| BrickPlace { brick: it.brick, address: it.address });
        let mut bricks: Vec<BrickPlace> = others.chain([here]).collect();
        bricks.sort_unstable();
        let own = Joined { brick: here.brick, epoch: self.joined, is_lost: false };
        let of = |it: &SiblingState| Joined { brick: it.brick, epoch: it.joined, is_lost: it.is_missing };
        let all = self.siblings.iter().map(of).chain([own]);
        let mut joined: Vec<Joined> = all.filter(|joined| joined.epoch > 1).collect();
        joined.sort_unstable();
        BrickTablet { table, first, last, epoch, bricks, joined, giving: self.giving }
    }

    /// Whether a brick is one of the others of this tablet.
    pub fn is_shared_with(&self, brick: ServerId) -> bool {
        self.siblings.iter().any(|sibling| sibling.brick == brick)
    }

    pub fn range(&self) -> HashRange {
        HashRange { table: self.table, first: self.first, last: self.last }
    }
}

/// The contents of the state's place in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FoundState {
    /// Nothing was ever written.
    New,
    Newest {
        sequence: u64,
        state: Box<BrickState>,
    },
    /// The directory cannot be used, with the reason for the operator.
    Unusable(String),
}

/// One copy, ready to be written. `None`: the state is larger than a copy.
pub(crate) fn encode(sequence: u64, state: &BrickState) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    encode_into(&mut body, state);
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.put_bytes(MAGIC);
    out.put_u32(FORMAT);
    out.put_u32(u32::try_from(body.len()).ok()?);
    out.put_u64(sequence);
    out.put_bytes(&body);
    let sum = crc(&out);
    out.put_u32(sum);
    (out.len() <= COPY_BYTES).then_some(out)
}

/// One copy as it was found.
enum Copy {
    Blank,
    Damaged,
    /// Its format is this one, which this program does not know.
    Newer(u32),
    Valid(u64, Box<BrickState>),
}

fn decode_copy(bytes: &[u8]) -> Copy {
    if bytes.iter().all(|byte| *byte == 0) {
        return Copy::Blank;
    }
    let mut reader = Reader::new(bytes);
    let mut read = || {
        let magic = reader.take(MAGIC.len())?;
        let (format, length, sequence) = (reader.u32()?, reader.u32()? as usize, reader.u64()?);
        let body = reader.take(length)?;
        let is_whole = magic == MAGIC && reader.u32()? == crc(&bytes[..HEADER_BYTES - 4 + length]);
        match format {
            _ if !is_whole => None,
            FORMAT => Some(Copy::Valid(sequence, Box::new(decode(body).ok()?))),
            newer => Some(Copy::Newer(newer)),
        }
    };
    read().unwrap_or(Copy::Damaged)
}

/// Whether the contents of a superblock file, as far as they are given, are those of a brick.
pub fn is_brick_directory(file: &[u8]) -> bool {
    let copies = (0..2).map(|copy| FIRST_COPY_AT as usize + copy * COPY_BYTES);
    copies.into_iter().any(|at| file.get(at..at + MAGIC.len()) == Some(MAGIC.as_slice()))
}

/// Finds the newest copy. `bytes` are both copies, perhaps less.
pub(crate) fn find(bytes: &[u8]) -> FoundState {
    let mut newest: Option<(u64, Box<BrickState>)> = None;
    let mut is_first_damaged = false;
    for (index, copy) in bytes.chunks(COPY_BYTES).enumerate() {
        match decode_copy(copy) {
            Copy::Blank => {}
            Copy::Damaged => is_first_damaged |= index == 0,
            Copy::Newer(format) => {
                return FoundState::Unusable(format!(
                    "the brick's state is of format {format}, this program knows {FORMAT}"
                ));
            }
            Copy::Valid(sequence, state) if newest.as_ref().is_none_or(|(newest, _)| sequence > *newest) => {
                newest = Some((sequence, state));
            }
            Copy::Valid(..) => {}
        }
    }
    match newest {
        // If the other copy is damaged, it was being written when the process died. Nothing rests on it.
        Some((sequence, state)) => FoundState::Newest { sequence, state },
        // The second copy is written first. The first one is written when the second is on the device.
        None if is_first_damaged => {
            FoundState::Unusable("the brick's state in the data directory is damaged".into())
        }
        None => FoundState::New,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::limits::{BRICK_TABLET_COUNT_MAX, BRICKS_TOLD_MAX, TABLE_NAME_BYTES_MAX};

    fn example(life: u64) -> BrickState {
        BrickState {
            cluster: ClusterId(1),
            brick: ServerId(2),
            index_secret: 3,
            life,
            mark: 4,
            tables: Vec::new(),
            tablets: Vec::new(),
            lives: Vec::new(),
            streams: Vec::new(),
            taken: 0,
            place: 0,
            was_moved: false,
            others: Vec::new(),
            left: Vec::new(),
        }
    }

    fn file(sequences: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 2 * COPY_BYTES];
        for sequence in sequences {
            let copy = encode(*sequence, &example(*sequence)).expect("it is small");
            let at = (*sequence % 2) as usize * COPY_BYTES;
            bytes[at..at + copy.len()].copy_from_slice(&copy);
        }
        bytes
    }

    fn newest(sequence: u64) -> FoundState {
        FoundState::Newest { sequence, state: Box::new(example(sequence)) }
    }

    // I6
    #[test]
    fn a_torn_copy_leaves_the_other_and_damage_is_no_new_brick() {
        assert_eq!(find(&[]), FoundState::New);
        assert_eq!(find(&file(&[])), FoundState::New);
        assert_eq!(find(&file(&[1])), newest(1));
        let mut bytes = file(&[1, 2, 3]);
        assert_eq!(find(&bytes), newest(3));
        bytes[COPY_BYTES + 30] ^= 1;
        assert_eq!(find(&bytes), newest(2));
        bytes[30] ^= 1;
        assert!(matches!(find(&bytes), FoundState::Unusable(reason) if reason.contains("damaged")));
        bytes[..COPY_BYTES].fill(0);
        assert_eq!(find(&bytes), FoundState::New, "the very first write was torn");
        let mut newer = encode(4, &example(4)).expect("it is small");
        newer[8] = 9;
        let body = newer.len() - 4;
        let sum = crc(&newer[..body]);
        newer[body..].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(find(&newer), FoundState::Unusable(reason) if reason.contains("format 9")));
    }

    // A1: as many tablets as a brick may have, with the longest names and addresses, and all their bricks' lives.
    #[test]
    fn the_largest_state_fits() {
        let count = BRICK_TABLET_COUNT_MAX;
        let address = Address("[fd00:1111:2222:3333:4444:5555:6666:7777]:65535".parse().expect("an address"));
        let mut state = example(u64::MAX);
        for number in 0..count {
            let table = TableId(u32::MAX - number);
            state.tables.push(TableState {
                table,
                name: "x".repeat(TABLE_NAME_BYTES_MAX),
                seed: PlacementSeed(u64::MAX),
                slots: true,
                bricks: 7,
                write_quorum: 4,
                read_quorum: 4,
                durability: Durability::Synced,
                protocol: WriteProtocol::TwoPhase,
            });
            let sibling = |at: u32| SiblingState {
                brick: ServerId(u64::MAX - u64::from(6 * number + at)),
                address,
                joined: u64::MAX,
                is_missing: true,
            };
            state.tablets.push(TabletState {
                table,
                first: KeyHash(u64::MAX - 1),
                last: KeyHash(u64::MAX),
                epoch: u64::MAX,
                siblings: (0..6).map(sibling).collect(),
                votes: true,
                joined: u64::MAX,
                is_joining: true,
                giving: None,
            });
        }
        let other = |id| SiblingState::at(&BrickPlace { brick: ServerId(u64::MAX - id), address });
        state.others = (0..BRICKS_TOLD_MAX as u64).map(other).collect();
        assert!(state.fits_with_lives());
    }

    // I6
    #[test]
    fn every_flipped_bit_is_found() {
        let mut bytes = encode(1, &example(7)).expect("it is small");
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(find(&bytes), FoundState::Unusable(_)), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let tables = (0..COPY_BYTES as u32 / 16).map(|table| TableState {
            table: TableId(table),
            name: "a table with a name".into(),
            seed: PlacementSeed(1),
            slots: false,
            bricks: 3,
            write_quorum: 2,
            read_quorum: 2,
            durability: Durability::Buffered,
            protocol: WriteProtocol::Adaptive,
        });
        assert_eq!(encode(1, &BrickState { tables: tables.collect(), ..example(1) }), None, "too large");
    }
}
