//! The record of a client's lease, with the results of its updates.
//!
//! Invariant: sequences rise, and none is below the floor.
//!
//! Not here: when a lease is over (`leases`), what its updates do (`updates`). Format: docs/formats/store.md.

use minicbor::{Decode, Encode};
use ramhold_base::{DivisionId, LeaseId, Sequence, Status, TableId};
use ramhold_wire::accounts::AccountObstacle;
use ramhold_wire::obstacle::Obstacle;
use ramhold_wire::shortage::Shortage;

/// The most results of one lease; they bound its record in the store and in memory.
pub(crate) const UPDATE_COUNT_MAX: usize = 1024;

/// A client's lease that is not over, with the results of its updates.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LeaseRecord {
    #[n(0)]
    pub id: LeaseId,
    #[n(1)]
    pub term_millis: u64,
    /// The client needs no result below this sequence.
    #[n(2)]
    #[cbor(default)]
    pub floor: Sequence,
    /// Rising by sequence, none below the floor.
    #[n(3)]
    #[cbor(default)]
    pub updates: Vec<UpdateRecord>,
}

impl LeaseRecord {
    pub fn new(id: LeaseId, term_millis: u64) -> LeaseRecord {
        LeaseRecord { id, term_millis, floor: Sequence::NONE, updates: Vec::new() }
    }

    /// The reason why this record cannot be used, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let rises = self.updates.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
        let is_below = self.updates.first().is_some_and(|update| update.sequence < self.floor);
        if !rises || is_below || self.updates.len() > UPDATE_COUNT_MAX {
            return Err("its updates are out of order, acknowledged, or too many");
        }
        Ok(())
    }

    /// The index at which the result of this sequence stands, or would stand.
    pub fn find(&self, sequence: Sequence) -> Result<usize, usize> {
        self.updates.binary_search_by_key(&sequence, |update| update.sequence)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct UpdateRecord {
    #[n(0)]
    pub sequence: Sequence,
    #[n(1)]
    pub result: UpdateResult,
}

/// The final result of an update; the table may not have come as far yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum UpdateResult {
    #[n(0)]
    Refused(
        #[n(0)]
        #[cbor(with = "status_code")]
        Status,
    ),
    #[n(1)]
    TableCreated(#[n(0)] TableId),
    #[n(2)]
    TableDropped(#[n(0)] TableId),
    #[n(3)]
    LossAcknowledged,
    /// The table's division, and the number of tablets that it has by that division.
    #[n(4)]
    TableDivided(#[n(0)] TableId, #[n(1)] DivisionId, #[n(2)] u32),
    /// The table's tablets may not have come as far yet.
    #[n(5)]
    TableAltered(#[n(0)] TableId),
    /// Refused with `TooFewBackups`.
    #[n(6)]
    Lacking(#[n(0)] Shortage),
    /// The old table and the one that took its place.
    #[n(7)]
    TableTruncated(#[n(0)] TableId, #[n(1)] TableId),
    #[n(8)]
    ServerForgotten,
    /// The number of tablets that have changed.
    #[n(9)]
    BrickReplaced(#[n(0)] u32),
    /// A brick was not replaced.
    #[n(10)]
    BrickKept(#[n(0)] Obstacle),
    /// An order to add or remove a brick is noted, behind so many others, or is taken back with so many tablets.
    #[n(11)]
    BrickScaled(#[n(0)] u32),
    /// Such an order is refused.
    #[n(12)]
    BrickUnscaled(#[n(0)] Obstacle),
    /// The first version of all accounts that has the change, and the number of accounts that were changed or removed.
    #[n(13)]
    AccountsChanged(#[n(0)] u64, #[n(1)] u32),
    /// No account was changed.
    #[n(14)]
    AccountsKept(#[n(0)] AccountObstacle),
}

mod status_code {
    use minicbor::decode::Error as Unreadable;
    use minicbor::encode::{Error as Unwritable, Write};
    use minicbor::{Decoder, Encoder};
    use ramhold_base::Status;

    pub fn encode<W: Write, C>(
        status: &Status,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), Unwritable<W::Error>> {
        encoder.u16(status.code())?.ok()
    }

    pub fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Status, Unreadable> {
        let code = decoder.u16()?;
        Status::from_code(code).ok_or_else(|| Unreadable::message(format!("no status has code {code}")))
    }
}
