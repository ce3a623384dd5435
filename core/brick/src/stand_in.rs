//! The brick that gives a tablet away stands in for the one that takes it, until that one has voted.
//!
//! Nothing was written with the taker's vote by then, so the giver and R - 1 others have all that was ever committed.
//!
//! Not here: when it is asked (`rebuild`), what it tells (`telling`). Protocol: docs/protocols/quorum.md, rule 61.
//! Catalogue: I7.

use crate::state::TabletState;
use ramhold_base::ServerId;
use ramhold_base::planted::{Defect, planted};

/// The brick that gives the tablet away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandIn {
    pub giver: ServerId,
    /// The sibling that takes it. None: this brick does, and has not voted since.
    pub taker: Option<ServerId>,
}

impl StandIn {
    pub fn of(tablet: &TabletState) -> Option<StandIn> {
        let giving = tablet.giving.filter(|_| !planted(Defect::QuorumNoStandIn))?;
        let (giver, taker) = (giving.old.brick, giving.new);
        if tablet.is_shared_with(taker) {
            return Some(StandIn { giver, taker: Some(taker) });
        }
        let is_here = tablet.is_joining || planted(Defect::QuorumStandInAlways);
        is_here.then_some(StandIn { giver, taker: None })
    }
}
