//! Copies of the state on servers, from which the state can be made anew.
//!
//! Everything in the store is also in memory, as records. A few servers, the *holders*, are sent every record, and then
//! the changes of each commit. No message leaves before enough holders have the state that it depends on. So everything
//! that was told to anybody is there as long as the servers are.
//!
//! The coordinator remembers for each holder what it has not been sent yet. A whole copy begins as a holder to which
//! everything is still to be sent. Each holder has one message under way, and the same message is repeated until it is
//! answered.
//!
//! Invariants:
//! - only what was committed is sent: no copy is ever ahead of the store;
//! - holders are the Up servers with the lowest ids among those that are known to have been told their ids. So a server
//!   that holds anything old knows all holders (docs/protocols/rebuild.md, rule 3).
//!
//! Not here: taking the copies back (`rebuild`). Catalogue: G1, G3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::links::{Link, Links};
use crate::retry::Retry;
use ramhold_base::limits::STATE_PART_BYTES;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, ServerId, Status};
use ramhold_wire::copies::{
    Lineage, StateCopied, StateCopy, StatePart, StatePosition, StateRead, StateRecord, StateTell, StateTold,
};
use ramhold_wire::membership::MembershipVerify;
use ramhold_wire::{Header, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The number of holders. There are five, so that two may stand still without holding anything up.
pub(crate) const HOLDER_COUNT: usize = 5;
/// The number of holders that must have a state before anybody is told of it, if there are more holders than that.
const COPY_COUNT: usize = 3;

/// The records of a state by their keys. Values are shared, so that a reader of a whole state gets it as of one moment.
pub(crate) type Records = BTreeMap<String, Arc<[u8]>>;

/// How many of these holders must have a state before anything that depends on it may be told. If there are several,
/// one of them may stand still without holding anything up, so all but one are needed at most.
pub(crate) fn needed(holders: usize) -> usize {
    COPY_COUNT.min(holders.saturating_sub(1)).max(1)
}

#[derive(Debug, Default)]
pub(crate) struct Copies {
    records: Records,
    lineage: Lineage,
    holders: BTreeMap<ServerId, Holder>,
    /// The first state of this reign.
    first: u64,
    /// The state with which this reign began. Nothing of it is sent before the first commit.
    begun: u64,
    /// Everything up to this state may be told.
    released: u64,
    wake_at: Instant,
    /// The position and records of the state that somebody is reading in parts.
    pinned: Option<(StatePosition, Records)>,
}

#[derive(Debug)]
struct Holder {
    /// The whole copy has to go on after this key; none: everything was sent.
    after: Option<String>,
    /// Keys up to that one whose records were changed since they were sent.
    changed: BTreeSet<String>,
    sending: Option<StateCopy>,
    /// The number of the last message.
    number: u64,
    retry: Retry,
    /// The state that this holder has.
    reached: u64,
}

/// The content of a holder's answer.
#[derive(Debug)]
pub(crate) enum Answered {
    Taken,
    /// Another server is at its address.
    WrongServer,
    /// This coordinator's state is an old copy, for this reason.
    Outdated(String),
}

impl Copies {
    /// The store has been read: takes over its records and their lineage.
    pub(crate) fn resume(&mut self, desk: &Desk, records: &[(String, Vec<u8>)]) {
        let shared = |(key, value): &(String, Vec<u8>)| (key.clone(), Arc::from(value.as_slice()));
        self.records = records.iter().map(shared).collect();
        self.lineage = desk.outbox.lineage.clone();
        let begins = self.lineage.position().number;
        (self.begun, self.released, self.first) = (begins, begins, begins + 1);
    }

    /// A commit is complete, and has put these records.
    pub(crate) fn note_commit(&mut self, puts: Vec<(String, Option<Vec<u8>>)>) {
        self.lineage.advance();
        for holder in self.holders.values_mut() {
            for (key, _) in &puts {
                if holder.after.as_ref().is_none_or(|after| key <= after) {
                    holder.changed.insert(key.clone());
                }
            }
        }
        for (key, value) in puts {
            match value {
                Some(value) => self.records.insert(key, value.into()),
                None => self.records.remove(&key),
            };
        }
        self.wake_at = Instant::ZERO;
    }

    /// Every holder must have this state before anything newer is told: in it a server came to the list, or the reign
    /// began.
    fn gate(&self, links: &Links) -> u64 {
        self.first.max(links.entered())
    }

    /// The state up to which anything may be told.
    pub(crate) fn released(&mut self, links: &Links) -> u64 {
        let holders = holders(links);
        if holders.is_empty() || planted(Defect::ToldBeforeCopied) {
            self.released = self.lineage.position().number;
            return self.released;
        }
        let reached = |id: &ServerId| self.holders.get(id).map_or(0, |holder| holder.reached);
        let mut states: Vec<u64> = holders.iter().map(reached).collect();
        states.sort_unstable();
        if states.first().is_some_and(|least| *least >= self.gate(links)) {
            let enough = states[states.len() - needed(states.len())];
            self.released = self.released.max(enough);
        }
        self.released
    }

    /// Whether every server that is to hold a copy has one that knows all holders.
    pub fn is_copied(&self, links: &Links) -> bool {
        let holders = holders(links);
        let has = |id: &ServerId| self.holders.get(id).is_some_and(|h| h.reached >= self.gate(links));
        !holders.is_empty() && holders.iter().all(has)
    }

    /// Whether some server has a state of this reign; true while no server knows its id yet.
    pub(crate) fn has_copies(&self, links: &Links) -> bool {
        let none_told = !links.iter().any(|(_, link)| link.told);
        none_told || self.holders.values().any(|holder| holder.reached > 0)
    }

    pub(crate) fn wake(&self, links: &Links) -> Instant {
        if links.is_told_anew { Instant::ZERO } else { self.wake_at }
    }

    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk, links: &mut Links) {
        if self.wake(links) > now {
            return;
        }
        links.is_told_anew = false;
        self.wake_at = Instant::FAR;
        let wanted = holders(links);
        self.holders.retain(|id, _| wanted.contains(id));
        let state = self.lineage.position();
        if state.number <= self.begun {
            return;
        }
        for id in wanted {
            let config = &desk.config;
            let holder = self.holders.entry(id).or_insert_with(|| Holder::new(Retry::new(config), 0));
            if holder.sending.is_none() && holder.reached < state.number {
                holder.prepare(&self.records, &self.lineage);
                holder.retry = Retry::new(config);
            }
            if holder.sending.is_none() {
                continue;
            }
            let is_due = holder.retry.take(now, config);
            self.wake_at = self.wake_at.min(holder.retry.next());
            if is_due && let Some(message) = holder.sending.clone() {
                desk.ask_at_once(now, id, Asked::Copy(id), &message);
            }
        }
    }

    /// A holder has answered a message with records.
    pub(crate) fn on_copied(
        &mut self,
        desk: &mut Desk,
        links: &mut Links,
        id: ServerId,
        status: Status,
        body: &[u8],
    ) -> Answered {
        match status {
            Status::WrongServer => Answered::WrongServer,
            Status::StateIsOld => {
                let held = decode::<StateCopied>(body).ok().and_then(|copied| copied.held);
                Answered::Outdated(self.outdated(id, held))
            }
            _ => {
                self.note_answer(desk, links, id, status, body);
                Answered::Taken
            }
        }
    }

    fn note_answer(&mut self, desk: &mut Desk, links: &mut Links, id: ServerId, status: Status, body: &[u8]) {
        match status {
            Status::UnknownOpcode | Status::TooMany => {
                if let Some(link) = links.get_mut(id) {
                    link.holds = false;
                }
                let text = match status {
                    Status::TooMany => "it is too large",
                    _ => "its version cannot",
                };
                let text = format!("{id} holds no copy of the coordinator's state: {text}");
                desk.outbox.report(Level::Warn, text);
            }
            Status::OutOfOrder => self.copy_anew(desk, id, 0),
            Status::Ok => {
                let Ok(copied) = decode::<StateCopied>(body) else { return };
                let Some(holder) = self.holders.get_mut(&id) else { return };
                if holder.sending.as_ref().is_some_and(|sent| copied.number > sent.number) {
                    // This server was a holder before in this reign, and has had messages with higher numbers.
                    return self.copy_anew(desk, id, copied.number);
                }
                let Some(sent) = holder.sending.take_if(|sent| sent.number == copied.number) else { return };
                if sent.complete {
                    holder.reached = sent.state.number;
                    self.confirm_reign(desk, links);
                }
            }
            // The holder is not ready, or the answer cannot be understood: the message is repeated.
            _ => return,
        }
        self.wake_at = Instant::ZERO;
    }

    /// This holder begins with nothing. Its messages go on with the next number after those that it has had.
    fn copy_anew(&mut self, desk: &Desk, id: ServerId, heard: u64) {
        if let Some(holder) = self.holders.get_mut(&id) {
            *holder = Holder::new(Retry::new(&desk.config), holder.number.max(heard));
        }
        self.wake_at = Instant::ZERO;
    }

    /// When all holders have a state of this reign, the lineage may forget earlier reigns.
    fn confirm_reign(&mut self, desk: &mut Desk, links: &Links) {
        if self.is_copied(links) {
            self.lineage.confirm();
            desk.outbox.lineage.confirm();
        }
    }

    /// A server has told its id and what it holds. If this state has not given out the id, returns the reason to end.
    pub(crate) fn on_stranger_told(&self, desk: &Desk, id: ServerId, body: &[u8]) -> Option<String> {
        let told = decode::<StateTold>(body).ok()?;
        (told.server == id && id > desk.state.meta.servers).then(|| self.outdated(id, told.held))
    }

    /// A server knows what this coordinator cannot know, so this coordinator's state is an old copy. Returns the reason to
    /// end.
    fn outdated(&self, id: ServerId, held: Option<StatePosition>) -> String {
        let own = self.lineage.position();
        let newer = held.map_or_else(
            || format!("{id} came to the cluster after it"),
            |held| format!("{id} holds change {} of {}", held.number, held.term),
        );
        format!(
            "this coordinator's state is an old copy (change {} of {}): {newer}; stop here. Start the coordinator on the \
             newest copy of its directory, or make the state anew from the servers, in an empty directory: 'ramhold \
             coordinator --dir DIR --rebuild-from-servers'",
            own.number, own.term
        )
    }

    /// Answers with a part of the records, for an operator's backup. The first part begins with the state of this
    /// moment.
    pub(crate) fn on_state_read(
        &mut self,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &StateRead,
    ) -> Result<(), Status> {
        if message.position.is_none() {
            self.pinned = Some((self.lineage.position(), self.records.clone()));
        }
        let (position, records) = self.pinned.as_ref().ok_or(Status::NotFound)?;
        if message.position.is_some_and(|wanted| wanted != *position) {
            return Err(Status::NotFound);
        }
        let after = Some(message.after.as_str()).filter(|after| !after.is_empty());
        let (records, last) = part(records, after);
        let part = StatePart { cluster: desk.state.meta.cluster, position: *position, records, last };
        if last {
            self.pinned = None;
        }
        desk.outbox.reply_with(to, header, &part);
        Ok(())
    }
}

impl Holder {
    /// A holder that has nothing yet. Its messages are numbered on from `number`.
    fn new(retry: Retry, number: u64) -> Holder {
        Holder {
            after: Some(String::new()),
            changed: BTreeSet::new(),
            sending: None,
            number,
            retry,
            reached: 0,
        }
    }

    /// Makes the next message: first the records that were changed, then the next ones of a whole copy.
    fn prepare(&mut self, all: &Records, lineage: &Lineage) {
        let begins = self.after.as_deref() == Some("");
        let (mut records, mut bytes) = (Vec::new(), 0);
        while bytes < STATE_PART_BYTES
            && let Some(key) = self.changed.pop_first()
        {
            let value = all.get(&key);
            bytes += key.len() + value.map_or(0, |value| value.len());
            records.push(record(&key, value));
        }
        if bytes < STATE_PART_BYTES
            && let Some(after) = &self.after
        {
            let (found, last) = part(all, Some(after.as_str()).filter(|after| !after.is_empty()));
            self.after = found.last().filter(|_| !last).map(|record| record.key.clone());
            records.extend(found);
        }
        self.number += 1;
        self.sending = Some(StateCopy {
            number: self.number,
            begins: begins.then(|| lineage.clone()),
            state: lineage.position(),
            complete: self.after.is_none() && self.changed.is_empty(),
            records,
        });
    }
}

fn record(key: &str, value: Option<&Arc<[u8]>>) -> StateRecord {
    StateRecord { key: key.into(), value: value.map(|value| value.to_vec()) }
}

/// The next records, about as many as a message may have, and whether they are the last ones.
fn part(all: &Records, after: Option<&str>) -> (Vec<StateRecord>, bool) {
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = all.range::<str, _>((begin, Bound::Unbounded)).peekable();
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some((key, value)) = rest.next_if(|_| bytes < STATE_PART_BYTES) {
        bytes += key.len() + value.len();
        found.push(record(key, Some(value)));
    }
    (found, rest.peek().is_none())
}

/// The servers that are to hold copies now.
fn holders(links: &Links) -> Vec<ServerId> {
    let may_hold = |(_, link): &(ServerId, &Link)| link.told && link.holds;
    links.iter().filter(may_hold).map(|(id, _)| id).take(HOLDER_COUNT).collect()
}

/// A server of this cluster may have an id that was not given out by this state. The coordinator asks at the
/// address that the request tells whether there is such a server: a request alone ends nobody.
pub(crate) fn look_at_stranger(now: Instant, desk: &mut Desk, header: &Header, body: &[u8]) {
    if header.cluster != desk.state.meta.cluster || header.sender <= desk.state.meta.servers {
        return;
    }
    let Some(address) = decode::<MembershipVerify>(body).ok().and_then(|message| message.address) else {
        return;
    };
    let to = (address.0, desk.header_to(header.sender));
    desk.ask_address(now, to, Asked::Tell(header.sender), &StateTell {});
}
