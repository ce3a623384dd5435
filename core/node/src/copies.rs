//! Holds a copy of the coordinator's state in memory, and gives it back.
//!
//! Records are bytes under keys here; this server does not read their contents. A whole copy comes in several messages,
//! and so may a change. Until the last message has come, the copy from before counts.
//!
//! Invariants:
//! - the held copy is always one state of one coordinator, never a mixture;
//! - a whole copy replaces the held one only if it follows it (`Lineage::follows`), and within a term a copy only goes
//!   forward.
//!
//! Not here: which servers hold copies (coordinator). Protocol: docs/protocols/rebuild.md. Catalogue: G1, G3.

use crate::ServerNode;
use ramhold_base::limits::{STATE_BYTES_MAX, STATE_PART_BYTES};
use ramhold_base::{ClusterId, Effects, Peer, Status, Term};
use ramhold_wire::copies::{
    StateCopied, StateCopy, StatePart, StatePosition, StateRead, StateRecord, StateTold,
};
use ramhold_wire::{Header, decode, reply, reply_with};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Default)]
pub(crate) struct Copies {
    held: Option<Held>,
    incoming: Option<Incoming>,
}

struct Held {
    position: StatePosition,
    records: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

/// The changes that have come since the last state, or the messages of the first state.
struct Incoming {
    /// The term of the coordinator that sent these messages.
    term: Term,
    reign: u64,
    /// The number of the last message that was taken.
    number: u64,
    /// The messages are a whole copy, which replaces the held one.
    whole: bool,
    records: BTreeMap<String, Option<Vec<u8>>>,
    bytes: u64,
}

impl Copies {
    pub fn held(&self) -> Option<StatePosition> {
        self.held.as_ref().map(|held| held.position)
    }

    /// Takes a message of the coordinator. The caller has made sure that no successor of that coordinator is known.
    pub fn take(&mut self, message: StateCopy) -> (Status, StateCopied) {
        let state = message.state;
        let status = self.admit(message);
        (status, StateCopied { number: self.last(state), held: self.held() })
    }

    /// The number of the last message that was taken in this reign.
    fn last(&self, state: StatePosition) -> u64 {
        let own = self.incoming.as_ref().filter(|it| (it.term, it.reign) == (state.term, state.reign));
        own.map_or(0, |it| it.number)
    }

    fn admit(&mut self, message: StateCopy) -> Status {
        let StateCopy { number, begins, state, complete, records } = message;
        let last = self.last(state);
        if number <= last {
            return Status::Ok; // It comes again.
        }
        if let Some(lineage) = begins {
            if self.held().is_some_and(|held| !lineage.follows(held)) {
                return Status::StateIsOld;
            }
            let StatePosition { term, reign, .. } = state;
            let records = BTreeMap::new();
            self.incoming = Some(Incoming { term, reign, number: 0, whole: true, records, bytes: 0 });
        } else if number != last + 1 || last == 0 {
            return Status::OutOfOrder;
        }
        let Some(incoming) = &mut self.incoming else { return Status::OutOfOrder };
        let bytes: u64 = records.iter().map(bytes_of).sum();
        let held = self.held.as_ref().filter(|_| !incoming.whole).map_or(0, |held| held.bytes);
        if held + incoming.bytes + bytes > STATE_BYTES_MAX {
            return Status::TooMany;
        }
        incoming.number = number;
        incoming.bytes += bytes;
        incoming.records.extend(records.into_iter().map(|record| (record.key, record.value)));
        if complete {
            self.reach(state);
        }
        Status::Ok
    }

    /// The changes that have come make up a state: it is held from now on.
    fn reach(&mut self, position: StatePosition) {
        let Some(incoming) = &mut self.incoming else { return };
        let changes = std::mem::take(&mut incoming.records);
        incoming.bytes = 0;
        let before = if std::mem::take(&mut incoming.whole) { None } else { self.held.take() };
        let mut records = before.map(|held| held.records).unwrap_or_default();
        for (key, value) in changes {
            match value {
                Some(value) => records.insert(key, value),
                None => records.remove(&key),
            };
        }
        let bytes = records.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        self.held = Some(Held { position, records, bytes });
    }

    /// A part of the held copy.
    pub fn read(&self, cluster: ClusterId, message: &StateRead) -> Result<StatePart, Status> {
        let held = self.held.as_ref().ok_or(Status::NotFound)?;
        if message.position.is_some_and(|position| position != held.position) {
            return Err(Status::NotFound);
        }
        let begin = match message.after.as_str() {
            "" => Bound::Unbounded,
            after => Bound::Excluded(after),
        };
        let mut rest = held.records.range::<str, _>((begin, Bound::Unbounded)).peekable();
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = rest.next_if(|_| bytes < STATE_PART_BYTES) {
            bytes += key.len() + value.len();
            records.push(StateRecord { key: key.clone(), value: Some(value.clone()) });
        }
        Ok(StatePart { cluster, position: held.position, records, last: rest.peek().is_none() })
    }
}

impl ServerNode {
    /// Takes a `StateCopy`. A sender whose state is an old copy is no coordinator, whatever its term: clients' leases
    /// and everything else stay as told before.
    pub(crate) fn on_state_copy(&mut self, header: &Header, body: &[u8], to: Peer, effects: &mut Effects) {
        let checked = self.check_identity(header).and_then(|()| self.compare_term(header));
        match checked.and_then(|()| decode::<StateCopy>(body)) {
            Ok(message) if message.state.term == header.term => {
                let (status, copied) = self.copies.take(message);
                let followed = if status == Status::StateIsOld { Ok(()) } else { self.check_term(header) };
                reply_with(effects, to, header, followed.err().unwrap_or(status), &copied);
            }
            Ok(_) => reply(effects, to, header, Status::BadRequest),
            Err(status) => reply(effects, to, header, status),
        }
    }

    /// Answers `StateTell`. From here on coordinators of lower terms are refused, so none of their changes can come to
    /// count.
    pub(crate) fn on_state_tell(&mut self, header: &Header, to: Peer, effects: &mut Effects) {
        let checked = self.check_identity(header).and_then(|()| self.compare_term(header));
        if checked.is_ok() {
            self.view.bound = header.term;
        }
        let told = StateTold {
            server: self.view.me,
            term: self.view.least_term(),
            list_version: self.view.list.version(),
            held: self.copies.held(),
        };
        reply_with(effects, to, header, checked.err().unwrap_or(Status::Ok), &told);
    }

    pub(crate) fn on_state_read(&mut self, header: &Header, body: &[u8], to: Peer, effects: &mut Effects) {
        let checked = self.check_identity(header).and_then(|()| self.compare_term(header));
        let message = checked.and_then(|()| decode::<StateRead>(body));
        match message.and_then(|message| self.copies.read(self.view.cluster, &message)) {
            Ok(part) => reply_with(effects, to, header, Status::Ok, &part),
            Err(status) => reply(effects, to, header, status),
        }
    }
}

fn bytes_of(record: &StateRecord) -> u64 {
    (record.key.len() + record.value.as_ref().map_or(0, Vec::len)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_wire::copies::Lineage;

    fn at(term: u64, number: u64) -> StatePosition {
        StatePosition { term: Term(term), number, reign: term * 10 }
    }

    fn put(key: &str, value: &str) -> StateRecord {
        StateRecord { key: key.into(), value: Some(value.into()) }
    }

    fn gone(key: &str) -> StateRecord {
        StateRecord { key: key.into(), value: None }
    }

    fn part(number: u64, state: u64, records: Vec<StateRecord>) -> StateCopy {
        StateCopy { number, begins: None, state: at(4, state), complete: false, records }
    }

    fn change(number: u64, state: u64, records: Vec<StateRecord>) -> StateCopy {
        StateCopy { complete: true, ..part(number, state, records) }
    }

    fn begins(ends: &[StatePosition], message: StateCopy) -> StateCopy {
        StateCopy { begins: Some(Lineage(ends.to_vec())), state: *ends.last().unwrap(), ..message }
    }

    fn text(copies: &Copies) -> (Option<StatePosition>, String) {
        let message = StateRead { position: None, after: String::new() };
        let part = copies.read(ClusterId(1), &message).expect("something is held");
        let text = |r: StateRecord| format!("{}={}", r.key, String::from_utf8(r.value.unwrap()).unwrap());
        (copies.held(), part.records.into_iter().map(text).collect::<Vec<_>>().join(" "))
    }

    // G3
    #[test]
    fn a_copy_goes_from_one_whole_state_to_the_next() {
        let mut copies = Copies::default();
        let whole = begins(&[at(3, 8), at(4, 9)], part(1, 9, vec![put("a", "1")]));
        assert_eq!(copies.take(whole).0, Status::Ok);
        assert_eq!(copies.held(), None, "the rest is to come");
        assert_eq!(copies.take(change(2, 9, vec![put("b", "2")])).0, Status::Ok);
        assert_eq!(text(&copies), (Some(at(4, 9)), "a=1 b=2".into()));
        assert_eq!(copies.take(part(3, 10, vec![put("a", "3")])).0, Status::Ok);
        assert_eq!(text(&copies), (Some(at(4, 9)), "a=1 b=2".into()));
        let (status, told) = copies.take(change(4, 11, vec![gone("b"), put("c", "4")]));
        assert_eq!((status, told), (Status::Ok, StateCopied { number: 4, held: Some(at(4, 11)) }));
        assert_eq!(text(&copies).1, "a=3 c=4");
    }

    // G3
    #[test]
    fn a_message_that_comes_twice_late_or_out_of_order_changes_nothing() {
        let mut copies = Copies::default();
        assert_eq!(copies.take(change(1, 9, vec![])).0, Status::OutOfOrder, "nothing is there");
        let whole = begins(&[at(4, 9)], change(1, 9, vec![put("a", "1")]));
        copies.take(whole.clone());
        copies.take(change(2, 10, vec![put("a", "2")]));
        assert_eq!(copies.take(whole).0, Status::Ok);
        assert_eq!(copies.take(change(4, 12, vec![put("a", "4")])).0, Status::OutOfOrder);
        assert_eq!(text(&copies), (Some(at(4, 10)), "a=2".into()));
    }

    // G3: until a new coordinator has sent all, the state of the one before is what there is.
    #[test]
    fn a_whole_copy_takes_the_place_of_an_older_state_at_its_end_and_never_of_a_newer_one() {
        let mut copies = Copies::default();
        copies.take(begins(&[at(4, 9)], change(1, 9, vec![put("a", "1")])));
        copies.take(change(2, 12, vec![put("a", "2")]));
        // A store that lost changes 10 to 12, in another term and in the same.
        let fork = StatePosition { reign: 7, ..at(4, 12) };
        for old in [&[at(4, 9), at(5, 20)][..], &[at(3, 8), fork]] {
            let (status, told) = copies.take(begins(old, change(1, 0, vec![put("a", "5")])));
            assert_eq!((status, told.number), (Status::StateIsOld, 0));
        }
        let next = begins(&[at(4, 12), at(5, 20)], part(1, 20, vec![put("a", "5")]));
        assert_eq!(copies.take(next).0, Status::Ok);
        assert_eq!(text(&copies), (Some(at(4, 12)), "a=2".into()));
        copies.take(StateCopy { state: at(5, 20), ..change(2, 20, vec![]) });
        assert_eq!(text(&copies), (Some(at(5, 20)), "a=5".into()));
    }

    // G3
    #[test]
    fn a_copy_is_read_in_parts_and_only_in_the_state_that_was_asked_for() {
        let mut copies = Copies::default();
        let large = |key: &str| StateRecord { key: key.into(), value: Some(vec![7; STATE_PART_BYTES]) };
        copies.take(begins(&[at(4, 9)], change(1, 9, vec![large("a"), large("b"), put("c", "1")])));
        let (mut read, mut keys) = (StateRead { position: None, after: String::new() }, String::new());
        for left in (0..3).rev() {
            let part = copies.read(ClusterId(1), &read).expect("a part");
            assert_eq!(part.last, left == 0);
            keys.extend(part.records.iter().map(|record| record.key.as_str()));
            read = StateRead { position: Some(part.position), after: keys[keys.len() - 1..].into() };
        }
        assert_eq!(keys, "abc");
        let other = StateRead { position: Some(at(4, 8)), after: String::new() };
        assert_eq!(copies.read(ClusterId(1), &other), Err(Status::NotFound));
    }

    // G3, J4
    #[test]
    fn a_copy_has_a_largest_size() {
        let mut copies = Copies::default();
        let large = |number: u64| StateRecord { key: number.to_string(), value: Some(vec![7; 64 << 20]) };
        copies.take(begins(&[at(4, 9)], change(1, 9, vec![large(1), large(2)])));
        assert_eq!(copies.take(change(2, 10, vec![large(3)])).0, Status::Ok);
        assert_eq!(copies.take(change(3, 11, vec![large(4)])).0, Status::TooMany);
        assert_eq!(copies.held(), Some(at(4, 10)));
    }
}
