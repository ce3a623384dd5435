//! Answers that only the coordinator in charge may give: they wait until the store has confirmed its term.
//!
//! Such an answer is good for a while after it was given, so an answer of a deposed coordinator could contradict its
//! successor. The store is asked for the term after the request has come. If the term is still this coordinator's own,
//! the successor starts later, and takes into account what was answered.
//!
//! Invariants:
//! - at most one question to the store is under way; requests that come meanwhile wait for the next one;
//! - at most one answer of each kind waits for a server: a repetition replaces the request that it repeats.
//!
//! Protocol: docs/protocols/read-leases.md, rule 3; docs/protocols/exactly-once.md, rule 7. Catalogue: A3, F8, G1.

use crate::desk::Desk;
use crate::state::TERM_KEY;
use ramhold_base::{Peer, ServerId, StoreRequest, StoreToken};
use ramhold_wire::Header;
use ramhold_wire::lease::LeasesChecked;
use std::collections::BTreeMap;

/// Answers that wait until the term is confirmed.
#[derive(Debug)]
pub(crate) enum Answer {
    ReadLease,
    /// The answer as things stood when the request came.
    Leases(LeasesChecked),
}

/// By sender and opcode: where each answer goes, the request, and the answer.
type Waiting = BTreeMap<(ServerId, u16), (Peer, Header, Answer)>;

#[derive(Default, Debug)]
pub(crate) struct Confirmed {
    waiting: Waiting,
    confirming: Option<(StoreToken, Waiting)>,
}

/// The term as the store has told it.
#[derive(Debug)]
pub(crate) enum Confirmation {
    /// The store was asked for something else.
    None,
    /// The term is this coordinator's own: these answers may be given, each to its server.
    Confirmed(Vec<(ServerId, Peer, Header, Answer)>),
    /// Another coordinator has raised the term.
    Deposed,
}

impl Confirmed {
    /// Gives this answer when the store has confirmed the term.
    pub fn answer(&mut self, desk: &mut Desk, to: Peer, header: &Header, answer: Answer) {
        self.waiting.insert((header.sender, header.opcode), (to, *header, answer));
        self.ask(desk);
    }

    /// Asks the store for the term, if answers wait for that.
    pub fn ask(&mut self, desk: &mut Desk) {
        if self.confirming.is_none() && !self.waiting.is_empty() {
            let token = desk.outbox.store(StoreRequest::Get { key: TERM_KEY.into() });
            self.confirming = Some((token, std::mem::take(&mut self.waiting)));
        }
    }

    /// The store has told which term it has.
    pub fn on_term(
        &mut self,
        desk: &Desk,
        token: StoreToken,
        found: &[(String, u64, Vec<u8>)],
    ) -> Confirmation {
        let Some((_, asked)) = self.confirming.take_if(|(expected, _)| *expected == token) else {
            return Confirmation::None;
        };
        if found.first().is_none_or(|(_, version, _)| *version != desk.outbox.term_version) {
            return Confirmation::Deposed;
        }
        let answers = asked.into_iter();
        let answers = answers.map(|((server, _), (to, header, answer))| (server, to, header, answer));
        Confirmation::Confirmed(answers.collect())
    }
}
