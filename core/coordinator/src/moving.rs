//! The commits that change tablets when bricks are added or removed: cut, move, arrive, go back, join.
//!
//! ```text
//!   cut            one tablet, N bricks            ─▶ two halves, the same N bricks, a new epoch
//!   move begins    old ∈ bricks                    ─▶ new ∈ bricks and joined, old stands in, a new epoch
//!     arrives      new votes                       ─▶ old is told to drop its part
//!     goes back    new is silent, or called back   ─▶ old ∈ bricks and joined, new is told to drop it, a new epoch
//!   join           two halves, the same N bricks   ─▶ one tablet, a new epoch
//! ```
//!
//! Each of these is one commit, and bricks spread it among themselves.
//!
//! Invariants:
//! - a tablet keeps N bricks, and changes one of them at a time;
//! - the brick that gives keeps what it has until the one that takes votes.
//!
//! Not here: which step is taken, and when (`shares`, `scaling`). Protocol: docs/protocols/quorum.md, rules 56 to 63
//! and 85. Catalogue: I7.

use crate::assignment::reassign;
use crate::desk::Desk;
use crate::records::{GivingRecord, QuorumTabletRecord};
use crate::shares::{Step, halves};
use ramhold_base::{KeyHash, ServerId, TableId};
use ramhold_wire::quorum::Joined;

/// One brick takes another one's place.
fn exchange(tablet: &mut QuorumTabletRecord, old: ServerId, new: ServerId, epoch: u64) {
    tablet.epoch = epoch;
    tablet.bricks.iter_mut().filter(|brick| **brick == old).for_each(|brick| *brick = new);
    tablet.bricks.sort_unstable();
    tablet.joined.retain(|joined| joined.brick != old && joined.brick != new);
    tablet.joined.push(Joined { brick: new, epoch, is_lost: false });
    tablet.former.retain(|former| *former != new && *former != old);
}

/// Takes a step. False: the tablet is not as it was.
pub(crate) fn take_step(desk: &mut Desk, step: Step) -> bool {
    let (table, first) = match step {
        Step::Cut { table, first } | Step::Move { table, first, .. } | Step::Join { table, first } => {
            (table, first)
        }
    };
    // The version that the table takes now, which was never given out before.
    let epoch = desk.state.meta.assignments + 1;
    let Some(record) = desk.state.quorum_tables.get_mut(&table).filter(|record| !record.dropping) else {
        return false;
    };
    let (slots, tablets) = (record.options.slots, &mut record.tablets);
    let Some(at) = tablets.iter().position(|tablet| tablet.first == first) else { return false };
    match step {
        Step::Cut { .. } => {
            let tablet = &tablets[at];
            let Some(parts) = halves((tablet.first.0, tablet.last.0), slots) else { return false };
            let half = |(first, last)| QuorumTabletRecord {
                first: KeyHash(first),
                last: KeyHash(last),
                epoch,
                ..tablet.clone()
            };
            let parts = parts.map(half);
            tablets.splice(at..=at, parts);
        }
        Step::Move { old, new, .. } => {
            let tablet = &mut tablets[at];
            if !tablet.bricks.contains(&old) || tablet.bricks.contains(&new) {
                return false;
            }
            exchange(tablet, old, new, epoch);
            tablet.giving = Some(GivingRecord::begin(old, new));
        }
        Step::Join { .. } => {
            let [one, other] = &tablets[at..(at + 2).min(tablets.len())] else { return false };
            if one.bricks != other.bricks {
                return false;
            }
            let whole = joined((one, other), epoch);
            tablets.splice(at..at + 2, [whole]);
        }
    }
    reassign(desk, table);
    true
}

/// Two tablets of the same bricks as one. All of these have taken both in their newest epochs, so nobody has missed anything
/// of them; a brick is taken to have joined when it first had one of them.
fn joined((one, other): (&QuorumTabletRecord, &QuorumTabletRecord), epoch: u64) -> QuorumTabletRecord {
    let mut whole = QuorumTabletRecord { last: other.last, epoch, ..one.clone() };
    whole.joined.retain_mut(|joined| {
        let in_other = other.joined.iter().find(|it| it.brick == joined.brick);
        joined.epoch = joined.epoch.min(in_other.map_or(0, |it| it.epoch));
        in_other.is_some()
    });
    whole.former.extend(other.former.iter().filter(|former| !one.former.contains(former)));
    whole
}

/// The tablet has arrived: the brick that gave it may drop it.
pub(crate) fn arrive(desk: &mut Desk, table: TableId, first: KeyHash) {
    let Some(tablet) = moving(desk, table, first) else { return };
    if let Some(giving) = tablet.giving.take() {
        tablet.former.push(giving.old);
    }
    reassign(desk, table);
}

/// The brick that was to take the tablet does not come: the one that gave it takes it again.
pub(crate) fn go_back(desk: &mut Desk, table: TableId, first: KeyHash) {
    let epoch = desk.state.meta.assignments + 1;
    let Some(tablet) = moving(desk, table, first) else { return };
    if let Some(GivingRecord { old, new, .. }) = tablet.giving.take() {
        exchange(tablet, new, old, epoch);
        tablet.former.push(new);
    }
    reassign(desk, table);
}

fn moving(desk: &mut Desk, table: TableId, first: KeyHash) -> Option<&mut QuorumTabletRecord> {
    let record = desk.state.quorum_tables.get_mut(&table)?;
    record.tablets.iter_mut().find(|tablet| tablet.first == first)
}
