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

use crate::machine::Coordinator;
use crate::state::TERM_KEY;
use ramhold_base::{Instant, Peer, ServerId, StoreRequest, StoreToken};
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
pub(crate) struct Reign {
    waiting: Waiting,
    confirming: Option<(StoreToken, Waiting)>,
}

impl Coordinator {
    /// Gives this answer when the store has confirmed the term.
    pub(crate) fn answer_confirmed(&mut self, to: Peer, header: &Header, answer: Answer) {
        self.reign.waiting.insert((header.sender, header.opcode), (to, *header, answer));
        self.confirm_term();
    }

    fn confirm_term(&mut self) {
        if self.reign.confirming.is_none() && !self.reign.waiting.is_empty() {
            let token = self.desk.outbox.store(StoreRequest::Get { key: TERM_KEY.into() });
            self.reign.confirming = Some((token, std::mem::take(&mut self.reign.waiting)));
        }
    }

    /// The store has told which term it has.
    pub(crate) fn on_term_confirmed(
        &mut self,
        now: Instant,
        token: StoreToken,
        found: &[(String, u64, Vec<u8>)],
    ) {
        let Some((_, asked)) = self.reign.confirming.take_if(|(expected, _)| *expected == token) else {
            return;
        };
        if found.first().is_none_or(|(_, version, _)| *version != self.desk.outbox.term_version) {
            return self.deposed("another coordinator has taken over");
        }
        for ((server, _), (to, header, answer)) in asked {
            match answer {
                Answer::ReadLease => self.grant(now, server, to, &header),
                Answer::Leases(checked) => self.desk.outbox.reply_with(to, &header, &checked),
            }
        }
        self.confirm_term();
    }
}
