//! No message leaves before the changes that it depends on are durable.
//!
//! Every changed record is marked. At the end of a step all marked records go to the store as one atomic commit, if no
//! commit is under way. A message remembers how many commits must be complete before it may leave. These are the
//! commits of all changes made before it, on whatever request, so that a reader is never told anything that could still
//! be forgotten.
//!
//! The changes of a commit go to servers, too (`copies`), and messages wait for that as well. Only answers to
//! onlookers, who do nothing because of them, do not wait for the servers.
//!
//! Invariants:
//! - at most one commit is in flight, conditional on this coordinator's term;
//! - messages leave in the order in which they were written, those to onlookers in an order of their own.
//!
//! Catalogue: G1, G3. See docs/protocols/membership.md, "The coordinator's store".

use crate::records::{CommitMarks, Key};
use crate::state::{LINEAGE_KEY, State, TERM_KEY, encode_lineage};
use minicbor::Encode;
use ramhold_base::limits::FRAME_BODY_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{
    ClusterId, Effect, Effects, Level, Mark, Peer, RpcId, SecretToken, SecretWork, Status, StoreCondition,
    StoreRequest, StoreToken, Term,
};
use ramhold_wire::control::encode_into;
use ramhold_wire::copies::Lineage;
use ramhold_wire::{Header, Kind, Message, frame};
use std::collections::{BTreeSet, VecDeque};

/// The most bytes that may wait for a slow store. Beyond it, new messages are dropped as a network might drop them:
/// requests are repeated, and a client that waits for an answer asks again.
const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;

#[derive(Default, Debug)]
pub(crate) struct Outbox {
    /// The store's version of the `term` key as this coordinator wrote it.
    pub term_version: u64,
    /// The cluster and the term of the process that answers; they are in the header of every answer.
    pub cluster: ClusterId,
    pub term: Term,
    /// The lineage of the last state that a commit leads to; every commit stores it as it is then.
    pub lineage: Lineage,
    changed: BTreeSet<Key>,
    in_flight: Option<InFlight>,
    /// The numbers of the states that these commits lead to; they are counted on from one coordinator to the next.
    commits_begun: u64,
    commits_done: u64,
    waiting: VecDeque<Waiting>,
    /// Messages to onlookers; they wait for the store alone.
    watching: VecDeque<Waiting>,
    waiting_bytes: usize,
    dropped: u64,
    last_token: u64,
    ready: Effects,
}

/// Keys with their records; a removed record is none.
pub(crate) type Puts = Vec<(String, Option<Vec<u8>>)>;

#[derive(Debug)]
struct InFlight {
    token: StoreToken,
    /// The marks of the kinds of its records.
    marks: Vec<CommitMarks>,
    puts: Puts,
}

#[derive(Debug)]
struct Waiting {
    commits: u64,
    to: Peer,
    frame: Vec<u8>,
}

impl Outbox {
    /// This record was changed, made or removed.
    pub fn touch(&mut self, key: Key) {
        self.changed.insert(key);
    }

    /// The state was loaded. The reign that begins makes its first change with the next commit.
    pub fn resume(&mut self, lineage: Lineage) {
        (self.commits_begun, self.commits_done) = (lineage.position().number, lineage.position().number);
        self.lineage = lineage;
        self.touch(Key::Meta);
    }

    /// The number of the state that will have the changes of this step.
    pub fn next_state(&self) -> u64 {
        self.commits_begun + 1
    }

    /// The number of the state that the store has.
    pub fn stored_state(&self) -> u64 {
        self.commits_done
    }

    pub fn is_settled(&self) -> bool {
        self.changed.is_empty() && self.in_flight.is_none()
    }

    pub fn mark(&mut self, mark: Mark) {
        self.ready.mark(mark);
    }

    pub fn report(&mut self, level: Level, text: impl Into<String>) {
        self.ready.report(level, text);
    }

    pub fn exit(&mut self, code: u8, reason: String) {
        self.ready.push(Effect::Exit { code, reason });
    }

    /// Has work with passwords done; `Input::Secret` tells its end.
    pub fn work_with_secrets(&mut self, token: SecretToken, work: SecretWork) {
        self.ready.push(Effect::Secret { token, work });
    }

    pub fn store(&mut self, request: StoreRequest) -> StoreToken {
        self.last_token += 1;
        let token = StoreToken(self.last_token);
        self.ready.push(Effect::Store { token, request });
        token
    }

    /// A request that the store has handed back.
    pub fn store_again(&mut self, token: StoreToken, request: StoreRequest) {
        self.ready.push(Effect::Store { token, request });
    }

    /// Sends a request that says nothing of the state, such as a ping; so it need not wait for the store.
    pub fn request_at_once<M: Message>(&mut self, to: Peer, header: &Header, rpc: RpcId, message: &M) {
        ramhold_wire::request(&mut self.ready, to, header, rpc, message);
    }

    /// `false`: the message is too large for a frame and was not sent.
    #[must_use]
    pub fn request<M: Message>(&mut self, to: Peer, header: &Header, rpc: RpcId, message: &M) -> bool {
        let body = encode(message);
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            return false;
        }
        self.request_encoded::<M>(to, header, rpc, body.len(), |out| out.extend_from_slice(&body));
        true
    }

    /// Like `request`, but the message is encoded by `encode`. It has about `about` bytes, and no more than a frame may
    /// have.
    pub fn request_encoded<M: Message>(
        &mut self,
        to: Peer,
        header: &Header,
        rpc: RpcId,
        about: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let header = Header { opcode: M::OPCODE.code(), rpc, kind: Kind::Request, ..*header };
        self.send(to, &header, about, encode);
    }

    /// Whether so much waits already that large messages should wait if they can.
    pub fn is_crowded(&self) -> bool {
        self.waiting_bytes > WAITING_BYTES_MAX / 4
    }

    /// Answers an onlooker, who does nothing because of the answer.
    pub fn show<T: Encode<()>>(&mut self, to: Peer, request: &Header, body: &T) {
        let body = encode(body);
        let fits = body.len() <= FRAME_BODY_BYTES_MAX as usize;
        let (status, body) = if fits { (Status::Ok, body) } else { (Status::FrameTooLarge, Vec::new()) };
        let header = self.answer(request, status);
        let shown = self.waiting(to, &header, body.len(), |out| out.extend_from_slice(&body));
        self.watching.extend(shown);
    }

    pub fn reply(&mut self, to: Peer, request: &Header, status: Status) {
        self.send(to, &self.answer(request, status), 0, |_| {});
    }

    /// A refusal with its facts.
    pub fn refuse_with<T: Encode<()>>(&mut self, to: Peer, request: &Header, status: Status, facts: &T) {
        let body = encode(facts);
        let header = self.answer(request, status);
        self.send(to, &header, body.len(), |out| out.extend_from_slice(&body));
    }

    /// The header of an answer. It tells which coordinator answers: clients learn the cluster from it.
    fn answer(&self, request: &Header, status: Status) -> Header {
        Header { cluster: self.cluster, term: self.term, ..request.answer(status) }
    }

    pub fn reply_with<T: Encode<()>>(&mut self, to: Peer, request: &Header, body: &T) {
        let body = encode(body);
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            return self.reply(to, request, Status::FrameTooLarge);
        }
        let header = self.answer(request, Status::Ok);
        self.send(to, &header, body.len(), |out| out.extend_from_slice(&body));
    }

    /// An answer that does not wait for the store. It says of the state only what is certainly durable, or it is for
    /// operators who have to hear that the store has no room.
    pub fn reply_at_once<T: Encode<()>>(&mut self, to: Peer, request: &Header, body: &T) {
        let body = encode(body);
        if body.len() > FRAME_BODY_BYTES_MAX as usize {
            return self.reply(to, request, Status::FrameTooLarge);
        }
        let header = self.answer(request, Status::Ok);
        self.ready.send_with(to, |out| frame::write(out, &header, |out| out.extend_from_slice(&body)));
    }

    fn send(&mut self, to: Peer, header: &Header, about: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        let waiting = self.waiting(to, header, about, encode);
        self.waiting.extend(waiting);
    }

    /// A message that waits for the changes made before it; none if too much waits already.
    fn waiting(
        &mut self,
        to: Peer,
        header: &Header,
        about: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Waiting> {
        let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + about);
        frame::write(&mut bytes, header, encode);
        if self.waiting_bytes + bytes.len() > WAITING_BYTES_MAX {
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                let text = format!("the store is slow: {} messages were dropped", self.dropped);
                self.report(Level::Warn, text);
            }
            return None;
        }
        self.waiting_bytes += bytes.len();
        let commits = self.commits_begun + u64::from(!self.changed.is_empty());
        Some(Waiting { commits, to, frame: bytes })
    }

    /// The commit in flight is durable; returns the records that it has put. None: the token is not that commit's.
    pub fn committed(&mut self, token: StoreToken) -> Option<Puts> {
        let done = self.in_flight.take_if(|in_flight| in_flight.token == token)?;
        self.commits_done += 1;
        for marks in done.marks {
            self.mark(marks.committed);
        }
        Some(done.puts)
    }

    /// Ends a step: sends the messages that may leave, and begins the next commit. `copied`: the state that enough
    /// servers have.
    pub fn flush(&mut self, state: &State, copied: u64, effects: &mut Effects) {
        drain(&mut self.ready, effects);
        let copied = if planted(Defect::ToldBeforeStored) { copied } else { copied.min(self.commits_done) };
        for (waiting, reached) in [(&mut self.waiting, copied), (&mut self.watching, self.commits_done)] {
            let may_go = |w: &Waiting| w.commits <= reached || planted(Defect::ToldBeforeStored);
            while let Some(waiting) = waiting.pop_front_if(|w| may_go(w)) {
                self.waiting_bytes -= waiting.frame.len();
                effects.send_with(waiting.to, |out| out.extend_from_slice(&waiting.frame));
            }
        }
        if self.in_flight.is_none() && !self.changed.is_empty() {
            self.begin_commit(state);
        }
        drain(&mut self.ready, effects);
    }

    /// The process ends: a message that may not leave yet never leaves, and nothing more is committed.
    pub fn last_words(&mut self, effects: &mut Effects) {
        drain(&mut self.ready, effects);
    }

    fn begin_commit(&mut self, state: &State) {
        let changed = std::mem::take(&mut self.changed);
        let mut marks: Vec<CommitMarks> = changed.iter().map(|key| key.marks()).collect();
        marks.dedup();
        for marks in &marks {
            self.ready.mark(marks.commits);
        }
        self.lineage.advance();
        let mut puts: Puts = changed.iter().map(|key| (key.to_string(), state.encode(*key))).collect();
        puts.push((LINEAGE_KEY.into(), Some(encode_lineage(&self.lineage))));
        let condition = StoreCondition { key: TERM_KEY.into(), version: Some(self.term_version) };
        let request = StoreRequest::Commit { conditions: vec![condition], puts: puts.clone() };
        let token = self.store(request);
        self.commits_begun += 1;
        self.in_flight = Some(InFlight { token, marks, puts });
    }
}

fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, value);
    bytes
}

/// Moves effects over, with the bytes that they refer to.
fn drain(from: &mut Effects, to: &mut Effects) {
    for effect in from.list.drain(..) {
        match effect {
            Effect::Send { to: peer, frame } => {
                let bytes = &from.bytes;
                to.send_with(peer, |out| out.extend_from_slice(&frame.of(bytes)));
            }
            other => to.push(other),
        }
    }
    from.bytes.clear();
}
