//! The records of bricks, and of the quorum tables whose tablets they hold.
//!
//! Invariants of a quorum table: its tablets are in order and cover all hashes, and each is held by as many different
//! bricks as the table's options say.
//!
//! Not here: which bricks are there (`bricks`), their assignments (`assignment`). Format: docs/formats/store.md.

use minicbor::{Decode, Encode};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{DirectoryId, KeyHash, ServerId, TableId};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Durability, Label};
use ramhold_wire::obstacle::{EndedScaling, ScaleWay, Scaling, ScalingEnd};
use ramhold_wire::quorum::{Joined, QuorumOptions};
use ramhold_wire::table::TableOptions;

/// The most bricks that hold a key (docs/protocols/quorum.md, rule 1).
const BRICKS_MAX: u8 = 7;

/// A brick, for all its lives.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickRecord {
    #[n(0)]
    pub id: ServerId,
    /// The token of the hello for which it was named.
    #[n(1)]
    pub token: u64,
    #[n(2)]
    pub directory: DirectoryId,
    #[n(3)]
    pub address: Address,
    #[n(4)]
    pub labels: Vec<Label>,
    #[n(5)]
    pub log_bytes: u64,
    /// The version in which its assignment was last changed; 0: it was never assigned anything.
    #[n(6)]
    pub assigned: u64,
    /// Its share of tablets; absent: `BRICK_WEIGHT`.
    #[n(7)]
    pub weight: Option<u16>,
    /// Another brick has taken its place, and it was given nothing since.
    #[n(8)]
    #[cbor(default)]
    pub is_replaced: bool,
    /// The port of the process that restarts it, at the host of `address`: also of a brick that hangs or is offline.
    #[n(9)]
    pub supervisor: Option<u16>,
    /// It is being added or removed.
    #[n(10)]
    pub scaling: Option<Scaling>,
    /// It was removed by an order, and was given nothing since.
    #[n(11)]
    #[cbor(default)]
    pub is_removed: bool,
    /// Its data is destroyed, an operator said when it was replaced: no drop of a table waits for it unless it is heard.
    #[n(12)]
    #[cbor(default)]
    pub is_destroyed: bool,
    /// The end of the last order; none while one is carried out.
    #[n(13)]
    pub ended: Option<EndedScaling>,
}

impl BrickRecord {
    /// Whether it is given tablets that no operator gives it by name.
    pub fn takes_tablets(&self) -> bool {
        let is_leaving = self.scaling.is_some_and(|it| it.way == ScaleWay::Removing);
        !self.is_replaced && !self.is_removed && !is_leaving
    }

    /// Its order is over, if it had one. Returns whether it had.
    pub(crate) fn end_order(&mut self, end: ScalingEnd) -> bool {
        let order = self.scaling.take();
        self.ended = order.map(|order| EndedScaling { end, moved: order.moved }).or(self.ended);
        order.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QuorumTableRecord {
    #[n(0)]
    pub id: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub options: TableOptions,
    #[n(3)]
    pub seed: PlacementSeed,
    /// The name is free again. The record goes when all its bricks have taken that.
    #[n(4)]
    pub dropping: bool,
    /// In order of hashes; together they cover all hashes.
    #[n(5)]
    pub tablets: Vec<QuorumTabletRecord>,
    /// The version of assignments in which the table was last changed.
    #[n(6)]
    pub version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QuorumTabletRecord {
    #[n(0)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(1)]
    pub last: KeyHash,
    /// Rises with each change of its bricks; the first one is 1.
    #[n(2)]
    pub epoch: u64,
    /// In order of ids.
    #[n(3)]
    pub bricks: Vec<ServerId>,
    /// The bricks that have not been there from the first epoch on.
    #[n(4)]
    #[cbor(default)]
    pub joined: Vec<Joined>,
    /// Bricks that were replaced, and have not taken that yet.
    #[n(5)]
    #[cbor(default)]
    pub former: Vec<ServerId>,
    /// The tablet moves from one brick to another one.
    #[n(6)]
    pub giving: Option<GivingRecord>,
}

/// A tablet on its way: `new` has joined in the place of `old`, which keeps what it has until `new` votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct GivingRecord {
    #[n(0)]
    pub old: ServerId,
    #[n(1)]
    pub new: ServerId,
    /// An operator took the order back: the tablet goes back to `old`, unless `new` votes first.
    #[n(2)]
    #[cbor(default)]
    pub is_called_back: bool,
}

impl GivingRecord {
    pub fn begin(old: ServerId, new: ServerId) -> GivingRecord {
        GivingRecord { old, new, is_called_back: false }
    }

    /// Whether the brick gives the tablet or takes it.
    pub fn is_of(&self, brick: ServerId) -> bool {
        self.old == brick || self.new == brick
    }
}

impl QuorumTabletRecord {
    /// A tablet that nobody has written to.
    pub fn new(first: KeyHash, last: KeyHash, bricks: Vec<ServerId>) -> QuorumTabletRecord {
        QuorumTabletRecord {
            first,
            last,
            epoch: 1,
            bricks,
            joined: Vec::new(),
            former: Vec::new(),
            giving: None,
        }
    }
}

impl QuorumTableRecord {
    /// The numbers of the table. A record without them is not loaded, and none is made.
    pub fn quorum(&self) -> QuorumOptions {
        self.options.quorum.expect("only tables with these options are quorum tables")
    }

    /// The bricks of all tablets; some more than once.
    pub fn bricks(&self) -> impl Iterator<Item = ServerId> {
        self.tablets.iter().flat_map(|tablet| &tablet.bricks).copied()
    }

    /// Whether a brick is to keep a tablet until the brick that takes it votes.
    pub fn is_given_by(&self, brick: ServerId) -> bool {
        self.tablets.iter().any(|tablet| tablet.giving.is_some_and(|giving| giving.old == brick))
    }

    /// The bricks of all tablets, and those that have still to give them up; some more than once.
    pub fn concerned(&self) -> impl Iterator<Item = ServerId> {
        let giving = self.tablets.iter().filter_map(|tablet| tablet.giving).map(|giving| giving.old);
        self.bricks().chain(self.tablets.iter().flat_map(|tablet| &tablet.former).copied()).chain(giving)
    }

    /// The reason why this record cannot be used, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let quorum = self.options.quorum.ok_or("it has no quorum")?;
        if !is_quorum(&quorum) || !is_durable(self.options.durability) {
            return Err("its quorum or its durability is none that a quorum table can have");
        }
        let mut next = Some(0);
        for tablet in &self.tablets {
            if next != Some(tablet.first.0) || tablet.last < tablet.first {
                return Err("its tablets do not cover all hashes in order");
            }
            next = tablet.last.0.checked_add(1);
            let rises = tablet.bricks.windows(2).all(|pair| pair[0] < pair[1]);
            if !rises || tablet.bricks.len() != usize::from(quorum.bricks) || tablet.epoch == 0 {
                return Err("a tablet has not the bricks that it needs, in order, or no epoch");
            }
        }
        if self.tablets.is_empty() || next.is_some() {
            return Err("its tablets do not cover all hashes");
        }
        Ok(())
    }
}

/// Whether a read meets every write that is done, and two writes meet (docs/protocols/quorum.md, rule 1).
pub(crate) fn is_quorum(quorum: &QuorumOptions) -> bool {
    let QuorumOptions { bricks, write, read, protocol: _ } = *quorum;
    let is_count = |count: u8| (1..=bricks).contains(&count);
    bricks <= BRICKS_MAX
        && is_count(write)
        && is_count(read)
        && u16::from(write) + u16::from(read) > u16::from(bricks)
        && 2 * u16::from(write) > u16::from(bricks)
}

/// Whether a quorum table can have this durability: a brick keeps no value in memory alone.
pub(crate) fn is_durable(durability: Durability) -> bool {
    match durability {
        Durability::Buffered | Durability::Synced => true,
        Durability::None => false,
    }
}
