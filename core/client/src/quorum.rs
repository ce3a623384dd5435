//! Carries out operations on quorum tables: asks the bricks of a key or of a stretch of keys, and judges their answers
//! with the register's machines.
//!
//! Each question is a call of its own. A call outlives its operation until its answer is overdue: a late answer tells a
//! brick's time, and a missing one that the brick is silent. Questions go out at the end of the session's step.
//!
//! Invariants:
//! - the session's id is drawn with the first operation on a quorum table, and not before;
//! - who answered lately changes the order and the phases, never N, W or R.
//!
//! Not here: the register (core/quorum), the life of one operation (`under_way`, `paging`), its timer and its deadline
//! (`session::asking`). Protocol: docs/protocols/quorum.md. Catalogue: I1-I3.

mod health;
mod open_puts;
mod order;
mod pages;
mod paging;
mod silence;
mod under_way;

use crate::bricks::Bricks;
use crate::operation::{Operation, OperationId, Target};
use crate::outcome::{Cause, Outcome};
use crate::token::Token;
use crate::trouble::What as Problem;
use health::Health;
use open_puts::OpenPuts;
pub use order::Value;
use order::encode;
use order::{Open, Order, What, answer};
use paging::Paging;
use ramhold_base::{ClusterId, Instant, Lost, Rng, RpcId, ServerId, Status, TableId};
use ramhold_quorum::{Ask, BrickId, Out, Phases, SessionClock, SessionId};
use ramhold_wire::ask::AskReply;
use ramhold_wire::brick_page::BrickPageRequest;
use ramhold_wire::quorum::WriteProtocol;
use ramhold_wire::{Header, Opcode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use under_way::PATIENCE;
use under_way::UnderWay;
pub use under_way::{AGAIN, Next};

#[derive(Default)]
pub struct Quorum {
    /// None: no operation on a quorum table has begun.
    clock: Option<SessionClock>,
    /// The first brick of the next operation.
    turn: u64,
    health: Health,
    /// The session's puts of unknown outcome.
    open_puts: OpenPuts,
    /// Operations on one key.
    under_way: BTreeMap<OperationId, UnderWay>,
    /// Pages of scans.
    pages: BTreeMap<OperationId, Paging>,
    /// Questions whose answers may come.
    calls: BTreeMap<RpcId, Call>,
    /// Calls in the order of sending that are not overdue yet, answered or not.
    recent: VecDeque<(Instant, RpcId)>,
    posts: Vec<Post>,
}

struct Call {
    operation: OperationId,
    brick: ServerId,
    addr: SocketAddr,
    round: u32,
    called: Called,
}

#[derive(Clone, Copy)]
enum Called {
    Key { attempt: u32 },
    Page { position: u64 },
}

/// A question that goes out at the end of the step.
pub struct Post {
    operation: OperationId,
    round: u32,
    pub brick: ServerId,
    pub addr: SocketAddr,
    pub question: Question,
}

pub enum Question {
    Key { attempt: u32, table: TableId, key: Arc<Vec<u8>>, ask: Ask<Value> },
    Page(BrickPageRequest),
}

impl Question {
    pub fn opcode(&self) -> Opcode {
        match self {
            Question::Key { .. } => Opcode::Ask,
            Question::Page(_) => Opcode::BrickPage,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Question::Key { table, key, ask, .. } => encode(*table, key, ask, out),
            Question::Page(request) => request.encode(out),
        }
    }
}

/// The course of an operation after something has happened.
pub struct Progress {
    pub operation: OperationId,
    pub next: Next,
    pub wake: Option<Instant>,
    /// The table is to be described again: a brick contradicts its description.
    pub is_contradicted: bool,
}

impl Quorum {
    pub fn has_posts(&self) -> bool {
        !self.posts.is_empty()
    }

    pub fn take_posts(&mut self) -> Vec<Post> {
        std::mem::take(&mut self.posts)
    }

    /// Takes an operation in that has not asked any brick yet. Returns its end if it cannot begin.
    pub fn enter(
        &mut self,
        (id, operation, cluster): (OperationId, &mut Operation, ClusterId),
        bricks: &Arc<Bricks>,
        deadline: Instant,
    ) -> Option<Outcome> {
        if self.under_way.contains_key(&id) || self.pages.contains_key(&id) {
            return None;
        }
        if let Operation::Scan { cursor, limits } = operation {
            self.pages.insert(id, Paging::new(cursor.clone(), *limits, bricks.clone(), deadline));
            return None;
        }
        if let Operation::Resume { token } = operation
            && token.cluster != cluster
        {
            let detail = format!("the token belongs to cluster {}, this is {cluster}", token.cluster);
            return Some(Outcome::refused(Status::WrongCluster, Cause::Unsent, detail));
        }
        match Order::take(cluster, operation) {
            Ok((order, open)) => {
                let open = open.or_else(|| self.own_open_put(&order));
                self.under_way.insert(id, UnderWay::new((order, open), bricks.clone(), deadline));
                None
            }
            Err(why) => Some(Outcome::refused(Status::Unsupported, Cause::Unsent, why.to_owned())),
        }
    }

    /// The put of unknown outcome that a get of its key settles first.
    fn own_open_put(&self, order: &Order) -> Option<Open> {
        let is_wanted = matches!(order.what, What::Read) && !self.open_puts.is_empty();
        if is_wanted { self.open_puts.of(&(order.table, order.key.clone())).cloned() } else { None }
    }

    /// Begins an operation, or begins it anew, at these bricks.
    pub fn begin(&mut self, now: Instant, id: OperationId, bricks: &Arc<Bricks>, rng: &mut Rng) -> Progress {
        if self.clock.is_none() {
            self.clock = Some(SessionClock::new(SessionId::new(rng)));
            self.turn = rng.u64();
        }
        self.note_overdue(now);
        self.turn = self.turn.wrapping_add(1);
        if let Some(page) = self.pages.get_mut(&id) {
            page.bricks = bricks.clone();
        }
        if let Some(progress) = self.start_page(now, id) {
            return progress;
        }
        self.under_way.get_mut(&id).expect("it was taken in").bricks = bricks.clone();
        self.start(now, id)
    }

    /// The bricks in the order in which they are asked.
    fn ranked(&self, now: Instant, bricks: &Bricks) -> Vec<BrickId> {
        let places = &bricks.places;
        let mut ranked: Vec<ServerId> = places.iter().map(|place| place.brick).collect();
        let first = usize::try_from(self.turn % places.len() as u64).expect("below the number of bricks");
        ranked.rotate_left(first);
        ranked.sort_by_key(|brick| self.health.goes_last(now, *brick));
        ranked.into_iter().map(|brick| BrickId(brick.raw())).collect()
    }

    fn start(&mut self, now: Instant, id: OperationId) -> Progress {
        let ranked = self.ranked(now, &self.under_way[&id].bricks);
        let it = self.under_way.get_mut(&id).expect("it was taken in");
        let clock = self.clock.as_mut().expect("made with the first operation");
        let all = ranked.iter().map(|brick| ServerId(brick.0));
        let phases = match it.bricks.protocol {
            WriteProtocol::Single => Phases::One,
            WriteProtocol::TwoPhase => Phases::Two,
            WriteProtocol::Adaptive if self.health.all_answer(now, all) => Phases::One,
            WriteProtocol::Adaptive => Phases::Two,
        };
        let mut outs = Vec::new();
        let next = it.start(now, &ranked, phases, clock, &mut outs);
        self.carry_out(id, next, outs)
    }

    fn carry_out(&mut self, operation: OperationId, next: Next, outs: Vec<Out<Value>>) -> Progress {
        let it = &self.under_way[&operation];
        let mut wake = None;
        for out in outs {
            let (to, attempt, ask) = match out {
                Out::WakeAt(at) => {
                    wake = Some(at);
                    continue;
                }
                Out::Send { to, attempt, ask } => (to, attempt, ask),
            };
            let place = it.bricks.places.iter().find(|place| place.brick.raw() == to.0);
            let Some(place) = place else { continue };
            let (brick, addr, round) = (place.brick, place.address.0, it.round);
            let (table, key) = (it.order.table, it.order.key.clone());
            let question = Question::Key { attempt, table, key, ask };
            self.posts.push(Post { operation, round, brick, addr, question });
        }
        Progress { operation, next, wake, is_contradicted: false }
    }

    /// A question went out.
    pub fn sent(&mut self, now: Instant, rpc: RpcId, post: &Post) {
        let Post { operation, round, brick, addr, .. } = *post;
        let called = match &post.question {
            Question::Key { attempt, .. } => Called::Key { attempt: *attempt },
            Question::Page(request) => Called::Page { position: request.position },
        };
        self.calls.insert(rpc, Call { operation, brick, addr, round, called });
        self.recent.push_back((now + PATIENCE, rpc));
    }

    /// The answer to a question. `None`: it changes nothing.
    pub fn on_answer(&mut self, now: Instant, header: &Header, body: &[u8]) -> Option<Progress> {
        let call = self.calls.remove(&header.rpc)?;
        let what = match header.status() {
            Status::Ok if header.sender != call.brick => Some(Problem::Answered(Status::WrongServer)),
            Status::Ok => None,
            status => Some(Problem::Answered(status)),
        };
        if let Some(what) = what {
            return self.on_trouble(now, &call, what);
        }
        let is_of = |opcode: Opcode| header.opcode == opcode.code();
        let attempt = match call.called {
            Called::Key { attempt } if is_of(Opcode::Ask) => attempt,
            Called::Page { position } if is_of(Opcode::BrickPage) => {
                return self.on_page(now, &call, position, body);
            }
            Called::Key { .. } | Called::Page { .. } => {
                return self.on_trouble(now, &call, Problem::Unreadable);
            }
        };
        let Ok(reply) = AskReply::decode(body) else {
            return self.on_trouble(now, &call, Problem::Unreadable);
        };
        self.health.heard(now, call.brick);
        let clock = self.clock.as_mut().expect("made with the first operation");
        let answer = answer(call.brick, reply);
        clock.hear(now, answer.from, answer.clock);
        let it = self.under_way.get_mut(&call.operation).filter(|it| it.round == call.round)?;
        let is_contradicted = answer.epoch > it.bricks.epoch;
        let mut outs = Vec::new();
        let next = it.on_answer(now, attempt, answer, clock, &mut outs);
        let progress = if it.has_greeted(now, clock) || it.takes_next_step() {
            self.start(now, call.operation)
        } else {
            self.carry_out(call.operation, next, outs)
        };
        Some(Progress { is_contradicted, ..progress })
    }

    /// A brick will not answer this question.
    fn on_trouble(&mut self, now: Instant, call: &Call, what: Problem) -> Option<Progress> {
        self.health.silent(now, call.brick);
        // The brick may hold the table no more, or listen elsewhere. One that is busy says so.
        let is_busy =
            |status| matches!(status, Status::NotReady | Status::TooMany | Status::Retry | Status::Corrupt);
        let is_contradicted = !matches!(what, Problem::Answered(status) if is_busy(status));
        let progress = match call.called {
            Called::Page { .. } => self.on_page_trouble(call, what)?,
            Called::Key { .. } => {
                let it = self.under_way.get_mut(&call.operation).filter(|it| it.round == call.round)?;
                let mut outs = Vec::new();
                it.on_trouble(call.brick, what, &mut outs);
                self.carry_out(call.operation, Next::Wait, outs)
            }
        };
        Some(Progress { is_contradicted, ..progress })
    }

    pub fn on_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost) -> Vec<Progress> {
        let lost = self.calls.iter().filter(|(_, call)| call.addr == addr);
        let lost: Vec<RpcId> = lost.map(|(rpc, _)| *rpc).collect();
        let what = match how {
            Lost::Refused => Problem::RefusedConnection,
            Lost::Broken => Problem::BrokenConnection,
        };
        let calls: Vec<Call> = lost.iter().filter_map(|rpc| self.calls.remove(rpc)).collect();
        calls.iter().filter_map(|call| self.on_trouble(now, call, what)).collect()
    }

    /// The time has come that an operation asked for.
    pub fn on_time(&mut self, now: Instant, id: OperationId) -> Progress {
        self.note_overdue(now);
        if let Some(progress) = self.on_page_time(now, id) {
            return progress;
        }
        let it = self.under_way.get_mut(&id).expect("it asks bricks");
        let clock = self.clock.as_mut().expect("made with the first operation");
        let mut outs = Vec::new();
        let next = it.on_time(now, clock, &mut outs);
        if it.takes_next_step() {
            return self.start(now, id);
        }
        self.carry_out(id, next, outs)
    }

    /// Notes the bricks whose answers are overdue. The answers still count if they come.
    fn note_overdue(&mut self, now: Instant) {
        while let Some((due, rpc)) = self.recent.front().copied()
            && due <= now
        {
            self.recent.pop_front();
            let Some(call) = self.calls.get(&rpc) else { continue };
            self.health.silent(due, call.brick);
            let (under_way, page) =
                (self.under_way.get_mut(&call.operation), self.pages.get_mut(&call.operation));
            match (under_way, page) {
                (Some(it), _) if it.round == call.round => {
                    it.on_trouble(call.brick, Problem::Silent, &mut Vec::new());
                }
                (_, Some(page)) if page.round == call.round => {
                    page.silence.note(BrickId(call.brick.raw()), Problem::Silent);
                }
                _ => _ = self.calls.remove(&rpc),
            }
        }
    }

    /// The operations on a table that ask its bricks.
    pub fn asking_about(&self, table: TableId) -> Vec<OperationId> {
        let asking = self.under_way.iter().filter(|(_, it)| it.order.table == table && it.is_asking());
        let pages = self.pages.iter().filter(|(_, page)| page.cursor.table() == table && page.is_asking());
        asking.map(|(id, _)| *id).chain(pages.map(|(id, _)| *id)).collect()
    }

    /// The operations on a table whose bricks say that it is gone.
    pub fn denied(&self, table: TableId) -> Vec<OperationId> {
        let denied = self.under_way.iter().filter(|(_, it)| it.order.table == table && it.is_denied());
        let is_denied = |page: &Paging| page.silence.denies_table(&page.bricks);
        let pages = self.pages.iter().filter(|(_, page)| page.cursor.table() == table && is_denied(page));
        denied.map(|(id, _)| *id).chain(pages.map(|(id, _)| *id)).collect()
    }

    /// An operation that asks bricks: its table, its key or hash, its bricks.
    pub fn of(&self, id: OperationId) -> Option<(TableId, Target<'_>, &Arc<Bricks>)> {
        if let Some(page) = self.pages.get(&id) {
            return Some((page.cursor.table(), Quorum::page_target(page), &page.bricks));
        }
        self.under_way.get(&id).map(|it| (it.order.table, Target::Key(&it.order.key), &it.bricks))
    }

    /// Stops asking until `begin`. An open stamp is kept.
    pub fn suspend(&mut self, id: OperationId) {
        if let Some(it) = self.under_way.get_mut(&id) {
            it.suspend();
        }
        if let Some(page) = self.pages.get_mut(&id) {
            page.suspend();
        }
    }

    /// Settles an operation later, if its fate is open.
    pub fn token(&self, id: OperationId) -> Option<Box<Token>> {
        self.under_way.get(&id).and_then(UnderWay::token)
    }

    /// An operation is about to end like this. Puts that end as unknown are remembered until they are settled.
    pub fn note_end(&mut self, id: OperationId, outcome: &Outcome) {
        let Some(it) = self.under_way.get(&id) else { return };
        let place = (it.order.table, it.order.key.clone());
        if let Some(stamp) = it.settled() {
            self.open_puts.settle(&place, stamp);
        }
        let open = it.open_put().filter(|open| it.settled().is_none_or(|settled| settled < open.stamp));
        if let (Outcome::Unknown { .. }, Some(open)) = (outcome, open) {
            self.open_puts.remember(place, open);
        }
    }

    /// An operation has ended.
    pub fn forget(&mut self, now: Instant, id: OperationId) {
        if self.under_way.remove(&id).is_none() && self.pages.remove(&id).is_none() {
            return;
        }
        self.note_overdue(now);
        let recent = self.recent.front().map(|(_, rpc)| *rpc);
        // Calls that are not recent have been noted as overdue.
        let is_old = |rpc: &RpcId| recent.is_none_or(|recent| *rpc < recent);
        let old: Vec<RpcId> = self
            .calls
            .iter()
            .take_while(|(rpc, _)| is_old(rpc))
            .filter(|(_, call)| call.operation == id)
            .map(|(rpc, _)| *rpc)
            .collect();
        old.iter().for_each(|rpc| _ = self.calls.remove(rpc));
    }

    /// Forgets bricks that hold nothing any more.
    pub fn keep(&mut self, bricks: &BTreeSet<ServerId>) {
        self.health.keep(|brick| bricks.contains(&brick));
        if let Some(clock) = &mut self.clock {
            clock.keep(|brick| bricks.contains(&ServerId(brick.0)));
        }
    }
}
