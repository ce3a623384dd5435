//! Copies of the coordinator's state that servers hold, and how two states are told apart.
//!
//! A coordinator sends the records of its store to a few servers. It asks of them only to give the records
//! back: to a coordinator that has lost its store, or to show a coordinator that its store is old.
//!
//! Protocol: docs/protocols/rebuild.md. Catalogue: G1, G3.

use crate::Opcode;
use crate::control::Message;
use minicbor::{Decode, Encode};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, ServerId, Term};

/// The most reigns that a lineage names; bounds its record.
const REIGN_COUNT_MAX: usize = 64;

/// One state of the coordinator: change `number`, made in `term` by the process that drew `reign`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
pub struct StatePosition {
    #[n(0)]
    pub term: Term,
    /// Counts the commits since the cluster began; the count goes on from one reign to the next.
    #[n(1)]
    pub number: u64,
    /// Random. Two coordinators that took the same term on two copies of one store differ in this number.
    #[n(2)]
    pub reign: u64,
}

/// The coordinators that led to a state: the position at which the reign of each one ended, the oldest first.
///
/// Two states may have the same term and number and still differ, if an old copy of the store was started.
/// Only the reigns tell whether one of the two states went before the other.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Lineage(#[n(0)] pub Vec<StatePosition>);

impl Lineage {
    /// The state that this lineage led to.
    pub fn position(&self) -> StatePosition {
        self.0.last().copied().unwrap_or_default()
    }

    /// Whether this state comes after `position`, or is the same.
    pub fn follows(&self, position: StatePosition) -> bool {
        if planted(Defect::OlderStateBelieved) {
            return true;
        }
        match self.0.iter().find(|end| (end.term, end.reign) == (position.term, position.reign)) {
            Some(end) => position.number <= end.number,
            // Reigns are left out at the beginning only after servers have confirmed one that is still here.
            None => self.0.first().is_some_and(|first| position.term < first.term),
        }
    }

    /// Another reign begins where the last one ended.
    pub fn begin(&mut self, term: Term, reign: u64) {
        let number = self.position().number;
        self.0.push(StatePosition { term, number, reign });
        if self.0.len() > REIGN_COUNT_MAX {
            // The reign is left out in the middle. `follows` may then refuse a state that it would have
            // taken, and never takes one that it would have refused.
            self.0.remove(1);
        }
    }

    /// The present reign has made its next change.
    pub fn advance(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.number += 1;
        }
    }

    /// Servers hold a state of the present reign, so all reigns before the last few can be left out.
    pub fn confirm(&mut self) {
        let excess = self.0.len().saturating_sub(REIGN_COUNT_MAX / 8);
        self.0.drain(..excess);
    }
}

/// A record of the store, as it is at some position.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateRecord {
    #[n(0)]
    pub key: String,
    /// None: the record was removed.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub value: Option<Vec<u8>>,
}

/// Coordinator to server: hold these records too. One message is under way to each server; the next follows
/// the answer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateCopy {
    /// The message's number, from 1 for each server and reign; a repeated message is taken once.
    #[n(0)]
    pub number: u64,
    /// In the first message of a whole copy: from the lineage the server tells whether it holds a newer
    /// state.
    #[n(1)]
    pub begins: Option<Lineage>,
    /// The state that the records are taken from.
    #[n(2)]
    pub state: StatePosition,
    /// With these records the copy is at that state. Until then the copy before counts.
    #[n(3)]
    pub complete: bool,
    #[n(4)]
    pub records: Vec<StateRecord>,
}

/// `Ok`: taken. `OutOfOrder`: begin a whole copy. `StateIsOld`: the state that the server holds does not
/// precede that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateCopied {
    #[n(0)]
    pub number: u64,
    /// The state of which the server has a whole copy.
    #[n(1)]
    pub held: Option<StatePosition>,
}

impl Message for StateCopy {
    const OPCODE: Opcode = Opcode::StateCopy;
    type Reply = StateCopied;
}

/// Coordinator that has lost its store to server: who are you, and which state do you hold? From the answer
/// on the server refuses coordinators of lower terms. `StaleTerm`: the server has heard of a higher term, and
/// the answer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateTell {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateTold {
    #[n(0)]
    pub server: ServerId,
    /// The highest term that the server has heard of.
    #[n(1)]
    pub term: Term,
    #[n(2)]
    pub list_version: u64,
    #[n(3)]
    pub held: Option<StatePosition>,
}

impl Message for StateTell {
    const OPCODE: Opcode = Opcode::StateTell;
    type Reply = StateTold;
}

/// Operator to coordinator, or coordinator to server: a part of the records, in order of keys.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateRead {
    /// None: a part of the present state. The coordinator keeps that state for its reader until another
    /// reader begins.
    #[n(0)]
    pub position: Option<StatePosition>,
    /// The last key of the part before.
    #[n(1)]
    pub after: String,
}

/// `NotFound`: that state is no longer there; begin again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StatePart {
    #[n(0)]
    pub cluster: ClusterId,
    #[n(1)]
    pub position: StatePosition,
    #[n(2)]
    pub records: Vec<StateRecord>,
    /// No records follow.
    #[n(3)]
    pub last: bool,
}

impl Message for StateRead {
    const OPCODE: Opcode = Opcode::StateRead;
    type Reply = StatePart;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(term: u64, reign: u64, number: u64) -> StatePosition {
        StatePosition { term: Term(term), number, reign }
    }

    /// Three coordinators, one after the other.
    fn lineage() -> Lineage {
        let mut lineage = Lineage::default();
        for (term, reign, changes) in [(1, 11, 5), (2, 12, 0), (3, 13, 4)] {
            lineage.begin(Term(term), reign);
            (0..changes).for_each(|_| lineage.advance());
        }
        lineage
    }

    // G3
    #[test]
    fn a_state_follows_those_that_led_to_it() {
        let lineage = lineage();
        assert_eq!(lineage.position(), at(3, 13, 9));
        for position in [at(1, 11, 1), at(1, 11, 5), at(2, 12, 5), at(3, 13, 6), at(3, 13, 9)] {
            assert!(lineage.follows(position), "{position:?}");
        }
    }

    // G3: an old copy of the store goes on in terms and numbers that are taken already, however often it is
    // started.
    #[test]
    fn a_state_does_not_follow_those_that_another_copy_of_it_led_to() {
        let (mut old, truth) = (lineage(), at(3, 13, 10));
        assert!(!old.follows(truth));
        for term in 4..200 {
            old.begin(Term(term), 1000 + term);
            (0..5).for_each(|_| old.advance());
            assert!(!old.follows(truth), "term {term}");
            assert!(!old.follows(at(4, 14, 9)), "another reign of a term that this one had, too");
            assert!(old.0.len() <= REIGN_COUNT_MAX);
        }
    }

    // G3
    #[test]
    fn what_servers_have_confirmed_follows_all_that_was_before() {
        let mut lineage = lineage();
        for term in 4..40 {
            lineage.begin(Term(term), term);
            lineage.advance();
            lineage.confirm();
        }
        assert_eq!(lineage.0.len(), REIGN_COUNT_MAX / 8);
        assert!(lineage.follows(at(1, 11, 5)), "long ago");
        assert!(lineage.follows(at(39, 39, 45)));
        assert!(!lineage.follows(at(39, 39, 46)));
    }
}
