//! Carries out operations on quorum tables: asks the bricks of a key or of a stretch of keys, and judges their answers
//! with the register's machines.
//!
//! Each question is a call of its own. A call outlives its operation until its time is over: a late answer tells a
//! brick's time, and a missing one that the brick is silent. Questions go out at the end of the session's step, if the
//! window of their brick is open (`flow`).
//!
//! Invariants:
//! - the session's id is drawn with the first operation on a quorum table, and not before;
//! - who answered lately changes the order and the phases, never N, W or R.
//!
//! Not here: the register (core/quorum), the life of one operation (`under_way`, `paging`), its timer and its deadline
//! (`session::asking`). Protocol: docs/protocols/quorum.md. Catalogue: I1-I3.

mod flow;
mod health;
mod hedges;
mod open_puts;
mod order;
mod pages;
mod paging;
mod patience;
mod post;
mod ranking;
mod silence;
mod under_way;

use crate::bricks::Bricks;
use crate::operation::{Operation, OperationId, Target};
use crate::outcome::{Cause, Outcome};
use crate::token::Token;
use crate::trouble::What as Problem;
use flow::{End, Flow};
use health::Health;
use open_puts::OpenPuts;
pub use order::Value;
use order::{Open, Order, What, answer};
use paging::Paging;
use post::{Post, Question};
use ramhold_base::{ClusterId, Instant, Lost, Rng, RpcId, ServerId, Stamp, Status, TableId};
use ramhold_quorum::{Ask, BrickId, Class, Out, Phases, Said, Sending, SessionClock, SessionId};
use ramhold_wire::ask::AskReply;
use ramhold_wire::quorum::WriteProtocol;
use ramhold_wire::{Header, Opcode};
use ranking::ranked;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use under_way::UnderWay;
pub use under_way::{AGAIN, Next};

/// Questions whose time is over that an operation still awaits from one brick.
const OVERDUE_MAX: usize = 8;

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
    /// Calls whose time in their windows is not over yet, answered or not, and when it is.
    in_windows: VecDeque<(Instant, RpcId)>,
    /// Calls that are not overdue yet, answered or not, and when they are.
    recent: BTreeSet<(Instant, RpcId)>,
    /// Those that were overdue, until their time is over.
    late: BTreeSet<(Instant, RpcId)>,
    /// Those whose time is over and that are still awaited, of each operation and brick, in the order of sending.
    overdue: BTreeMap<(OperationId, ServerId), VecDeque<RpcId>>,
    flow: Flow,
    /// The zone whose bricks are asked for values first.
    zone: Option<String>,
    posts: Vec<Post>,
    /// Puts that began with two phases.
    two_phases: u64,
    /// Operations that waited to ask for the time, and know it now.
    greeted: VecDeque<OperationId>,
}

struct Call {
    operation: OperationId,
    brick: ServerId,
    addr: SocketAddr,
    round: u32,
    called: Called,
    class: Class,
    sent: Instant,
    /// Its place in the window, until the question has ended there.
    sending: Option<Sending>,
    /// The stamp of the put that it writes.
    written: Option<Stamp>,
}

#[derive(Clone, Copy)]
enum Called {
    Key { attempt: u32 },
    Page { position: u64 },
}

/// The course of an operation after something has happened.
pub struct Progress {
    pub operation: OperationId,
    pub next: Next,
    pub wake: Option<Instant>,
    /// The table is to be described again: a brick contradicts its description.
    pub is_contradicted: bool,
    /// The tablet surely has other bricks by now: its epoch has risen.
    pub has_changed: bool,
}

impl Quorum {
    pub fn new(zone: Option<String>) -> Quorum {
        Quorum { zone, ..Quorum::default() }
    }

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
        ranked(now, bricks, (self.turn, self.zone.as_deref()), (&self.health, &self.flow))
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
        let first = ranked.first().expect("a key has bricks");
        let patience = self.health.patience(ServerId(first.0));
        let next = it.start(now, &ranked, (phases, patience), clock, &mut outs);
        self.two_phases += u64::from(phases == Phases::Two && it.puts_anew());
        self.carry_out(id, next, outs)
    }

    fn carry_out(&mut self, operation: OperationId, next: Next, outs: Vec<Out<Value>>) -> Progress {
        let it = &self.under_way[&operation];
        let (bricks, round, table, key) = (it.bricks.clone(), it.round, it.order.table, it.order.key.clone());
        let mut wake = None;
        for out in outs {
            let (to, attempt, ask) = match out {
                Out::WakeAt(at) => {
                    wake = Some(at);
                    continue;
                }
                Out::Send { to, attempt, ask } => (to, attempt, ask),
            };
            let place = bricks.places.iter().find(|place| place.brick.raw() == to.0);
            let Some(place) = place else { continue };
            let question = Question::Key { attempt, table, key: key.clone(), ask };
            self.post(operation, round, (place.brick, place.address.0), question);
        }
        Progress { operation, next, wake, is_contradicted: false, has_changed: false }
    }

    /// Sends a question at the end of the step, or holds it until its window opens.
    fn post(
        &mut self,
        operation: OperationId,
        round: u32,
        (brick, addr): (ServerId, SocketAddr),
        question: Question,
    ) {
        let class = question.class();
        let sending = self.flow.send(brick, class);
        let post = Post { operation, round, class, sending, brick, addr, question };
        if sending.is_some() {
            self.note_posted(&post);
            return self.posts.push(post);
        }
        if let Some(it) = self.under_way.get_mut(&operation) {
            it.note_held(brick);
        }
        if let Some(page) = self.pages.get_mut(&operation) {
            page.silence.note(BrickId(brick.raw()), Problem::WindowFull);
        }
        self.flow.hold(post);
    }

    fn note_posted(&mut self, post: &Post) {
        if let Question::Key { ask: Ask::Write(write), .. } = &post.question
            && let Some(it) = self.under_way.get_mut(&post.operation)
        {
            it.note_written(write);
        }
    }

    /// A question has ended: the next one that waits for its place goes out.
    fn end_sending(&mut self, now: Instant, call: &mut Call, end: End) {
        let Some(sending) = call.sending.take() else { return };
        let (brick, class) = (call.brick, call.class);
        self.flow.ended(brick, class, sending, end);
        while let Some(held) = self.flow.take_held(brick, class) {
            let mut post = held.post;
            if !self.is_wanted(now, &post, held.late_until) {
                continue;
            }
            post.sending = self.flow.send(brick, class);
            assert!(post.sending.is_some(), "the window is open");
            self.note_posted(&post);
            self.posts.push(post);
        }
    }

    /// Whether a question that waited for its window is still to be asked.
    fn is_wanted(&mut self, now: Instant, post: &Post, late_until: Option<Instant>) -> bool {
        if let Some(until) = late_until {
            return now < until;
        }
        let brick = BrickId(post.brick.raw());
        if let Some(page) = self.pages.get_mut(&post.operation) {
            page.silence.heard(brick);
            return page.round == post.round;
        }
        let Some(it) = self.under_way.get_mut(&post.operation).filter(|it| it.round == post.round) else {
            return false;
        };
        if let Some(clock) = &self.clock
            && it.has_greeted(now, clock)
        {
            self.greeted.push_back(post.operation);
            return false;
        }
        it.note_asked(post.brick);
        true
    }

    /// Begins an operation that waited to ask for the time, and need not ask any more.
    pub fn start_greeted(&mut self, now: Instant) -> Option<Progress> {
        while let Some(id) = self.greeted.pop_front() {
            let clock = self.clock.as_ref().expect("made with the first operation");
            if self.under_way.get(&id).is_some_and(|it| it.has_greeted(now, clock)) {
                return Some(self.start(now, id));
            }
        }
        None
    }

    /// A question went out.
    pub fn sent(&mut self, now: Instant, rpc: RpcId, post: &Post) {
        let Post { operation, round, class, sending, brick, addr, .. } = *post;
        let called = match &post.question {
            Question::Key { attempt, .. } => Called::Key { attempt: *attempt },
            Question::Page(request) => Called::Page { position: request.position },
        };
        let written = match &post.question {
            Question::Key { ask: Ask::Write(write), .. } if !write.is_repair => Some(write.stamp),
            Question::Key { .. } | Question::Page(_) => None,
        };
        let sent = now;
        self.calls.insert(rpc, Call { operation, brick, addr, round, called, class, sent, sending, written });
        if class == Class::Get {
            self.health.asked_value(brick);
        }
        self.in_windows.push_back((now + AGAIN, rpc));
        self.recent.insert((now + self.health.patience(brick), rpc));
    }

    /// The answer to a question. `None`: it changes nothing.
    pub fn on_answer(&mut self, now: Instant, header: &Header, body: &[u8]) -> Option<Progress> {
        let mut call = self.calls.remove(&header.rpc)?;
        let what = match header.status() {
            Status::Ok if header.sender != call.brick => Some(Problem::Answered(Status::WrongServer)),
            Status::Ok => None,
            status => Some(Problem::Answered(status)),
        };
        if let Some(what) = what {
            let is_full = what == Problem::Answered(Status::TooMany);
            self.end_sending(now, &mut call, if is_full { End::Lost } else { End::Other });
            return self.on_trouble(now, &call, what);
        }
        let is_of = |opcode: Opcode| header.opcode == opcode.code();
        let attempt = match call.called {
            Called::Key { attempt } if is_of(Opcode::Ask) => attempt,
            Called::Page { position } if is_of(Opcode::BrickPage) => {
                self.end_sending(now, &mut call, End::Succeeded);
                return self.on_page(now, &call, position, body);
            }
            Called::Key { .. } | Called::Page { .. } => {
                self.end_sending(now, &mut call, End::Other);
                return self.on_trouble(now, &call, Problem::Unreadable);
            }
        };
        let Ok(reply) = AskReply::decode(body) else {
            self.end_sending(now, &mut call, End::Other);
            return self.on_trouble(now, &call, Problem::Unreadable);
        };
        self.health.heard(now, call.brick);
        if call.class == Class::Get {
            self.health.told_value(call.brick, now.since(call.sent));
        }
        let clock = self.clock.as_mut().expect("made with the first operation");
        let answer = answer(call.brick, reply);
        clock.hear(now, answer.from, answer.clock);
        let says_nothing = matches!(answer.said, Said::WrongOwner | Said::Rejected(_));
        self.end_sending(now, &mut call, if says_nothing { End::Other } else { End::Succeeded });
        self.flow.hear_life(call.brick, answer.life.0);
        let clock = self.clock.as_mut().expect("made with the first operation");
        let it = self.under_way.get_mut(&call.operation).filter(|it| it.round == call.round)?;
        let has_changed = answer.epoch > it.bricks.epoch;
        let is_contradicted = has_changed || answer.said == Said::WrongOwner;
        let mut outs = Vec::new();
        let next = it.on_answer(now, attempt, answer, clock, &mut outs);
        let progress = if it.has_greeted(now, clock) || it.takes_next_step() {
            self.start(now, call.operation)
        } else {
            self.carry_out(call.operation, next, outs)
        };
        Some(Progress { is_contradicted, has_changed, ..progress })
    }

    /// A brick will not answer this question.
    fn on_trouble(&mut self, now: Instant, call: &Call, what: Problem) -> Option<Progress> {
        if what == Problem::Answered(Status::TooMany) {
            self.health.busy(now, call.brick, call.class);
        } else if what == Problem::Answered(Status::NotReady) {
            self.health.not_ready(now, call.brick);
        } else {
            self.health.silent(now, call.brick);
        }
        // The brick may hold the table no more, or listen elsewhere. One that is busy says so.
        let is_busy = |status| {
            matches!(
                status,
                Status::NotReady | Status::TooMany | Status::OutOfMemory | Status::Retry | Status::Corrupt
            )
        };
        let is_contradicted = !matches!(what, Problem::Answered(status) if is_busy(status));
        // A refusal for want of room or time is the only answer to a question, and nothing was stored for it.
        if let (Some(stamp), Problem::Answered(Status::OutOfMemory | Status::TooMany)) = (call.written, what)
            && let Some(it) = self.under_way.get_mut(&call.operation)
        {
            it.note_not_stored(stamp);
        }
        let progress = match call.called {
            Called::Page { .. } => self.on_page_trouble(call, what)?,
            Called::Key { .. } => {
                let it = self.under_way.get_mut(&call.operation).filter(|it| it.round == call.round)?;
                let mut outs = Vec::new();
                it.on_trouble(now, call.brick, what, &mut outs);
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
        let mut calls: Vec<Call> = lost.iter().filter_map(|rpc| self.calls.remove(rpc)).collect();
        // The end of a process says nothing of its load.
        calls.iter_mut().for_each(|call| self.end_sending(now, call, End::Other));
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
        let late = it.late(now);
        if !self.health.may_hedge(now, &late) {
            it.wait_on(now, &mut outs);
            return self.carry_out(id, Next::Wait, outs);
        }
        let next = it.on_time(now, clock, &mut outs);
        if outs.iter().any(|out| matches!(out, Out::Send { .. })) {
            self.health.hedged(now, &late);
        }
        if it.takes_next_step() {
            return self.start(now, id);
        }
        self.carry_out(id, next, outs)
    }

    /// Notes the bricks whose answers are overdue. The answers still count if they come. A question without an answer for
    /// `AGAIN` is lost for its window, however patient the session is with the brick.
    fn note_overdue(&mut self, now: Instant) {
        while let Some((_, rpc)) = self.in_windows.pop_front_if(|(over, _)| *over <= now) {
            let Some(mut call) = self.calls.remove(&rpc) else { continue };
            self.end_sending(now, &mut call, End::Lost);
            self.calls.insert(rpc, call);
        }
        while let Some((due, rpc)) = pop_due(&mut self.recent, now) {
            let Some(call) = self.calls.get(&rpc) else { continue };
            self.late.insert((call.sent + AGAIN, rpc));
            self.health.silent(due, call.brick);
            let (under_way, page) =
                (self.under_way.get_mut(&call.operation), self.pages.get_mut(&call.operation));
            match (under_way, page) {
                (Some(it), _) if it.round == call.round => {
                    it.on_trouble(now, call.brick, Problem::Silent, &mut Vec::new());
                }
                (_, Some(page)) if page.round == call.round => {
                    page.silence.note(BrickId(call.brick.raw()), Problem::Silent);
                }
                _ => {}
            }
        }
        while let Some((_, rpc)) = pop_due(&mut self.late, now) {
            let Some(call) = self.calls.remove(&rpc) else { continue };
            let attempt = match call.called {
                Called::Key { attempt } => Some(attempt),
                Called::Page { .. } => None,
            };
            let is_awaited =
                self.under_way.get(&call.operation).is_some_and(|it| it.awaits(call.round, attempt))
                    || self.pages.get(&call.operation).is_some_and(|page| page.round == call.round);
            if is_awaited {
                self.keep_overdue(rpc, call);
            } else if call.class == Class::Get {
                // Nobody will look at its answer: it took this long at least.
                self.health.told_value(call.brick, now.since(call.sent));
            }
        }
    }

    /// A question is repeated while its brick is silent. The first one is kept, which a slow brick answers first, and the
    /// last ones, should the first be lost: a brick that is silent for long takes no more memory.
    fn keep_overdue(&mut self, rpc: RpcId, call: Call) {
        let kept = self.overdue.entry((call.operation, call.brick)).or_default();
        self.calls.insert(rpc, call);
        kept.retain(|it| self.calls.contains_key(it));
        kept.push_back(rpc);
        if kept.len() > OVERDUE_MAX
            && let Some(superseded) = kept.remove(1)
        {
            self.calls.remove(&superseded);
        }
    }

    /// The number of puts that began with two phases.
    pub fn two_phase_count(&self) -> u64 {
        self.two_phases
    }

    /// The number of questions to bricks whose answers may still come.
    pub fn question_count(&self) -> usize {
        self.calls.len()
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

    /// An operation has ended. `is_done`: with what it was to do.
    pub fn forget(&mut self, now: Instant, id: OperationId, is_done: bool) {
        if self.under_way.remove(&id).is_none() && self.pages.remove(&id).is_none() {
            return;
        }
        self.flow.forget(now, id, is_done);
        self.note_overdue(now);
        let of_it = (id, ServerId::NONE)..=(id, ServerId(u64::MAX));
        for (_, kept) in self.overdue.extract_if(of_it, |_, _| true) {
            kept.iter().for_each(|rpc| _ = self.calls.remove(rpc));
        }
    }

    /// Forgets bricks that hold nothing any more.
    pub fn keep(&mut self, bricks: &BTreeSet<ServerId>) {
        self.health.keep(|brick| bricks.contains(&brick));
        self.flow.keep(bricks);
        if let Some(clock) = &mut self.clock {
            clock.keep(|brick| bricks.contains(&ServerId(brick.0)));
        }
    }
}

fn pop_due(calls: &mut BTreeSet<(Instant, RpcId)>, now: Instant) -> Option<(Instant, RpcId)> {
    if calls.first()?.0 <= now { calls.pop_first() } else { None }
}
