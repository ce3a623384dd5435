//! Turns bytes into running commands, and answers into replies.

use super::answer::Answer;
use super::connection::{Connection, Queued};
use super::fast::{Begun, Plain};
use super::keyspace::{Walk, part_of};
use super::running::{Args, Running, Work};
use super::tickets::Part;
use super::transact::{Purpose, Transact, take_work};
use super::{
    CrossSlot, Host, LIMITS_BEFORE_AUTH, REPLIES_BYTES_MAX, Resp, STRANGER_BYTES_MAX, TOO_MANY_REPLIES,
    cluster,
};
use crate::commands::resolve;
use crate::{Command, Fast, Fault, Flags, Front, Parsed, Reply, Run};
use ramhold_base::hash::PlacementHasher;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Rest, Taken};
use ramhold_wire::local::LocalRequest;

/// Requests of one connection that begin in one step. The bound gives the other connections their turn.
const REQUEST_COUNT_MAX: usize = 256;
/// Bytes of replies after which no further request begins in a step. The process that hears the connection
/// must see that the client does not fetch its replies before there are more of them.
const STEP_REPLY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of commands between `MULTI` and `EXEC`.
const QUEUED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that a queued command takes beside its arguments: its place in a list that doubles, and two blocks
/// of memory.
const QUEUED_BYTES: usize = 2 * size_of::<Queued>() + 32;

/// The result of taking a request.
pub(super) enum Taking {
    /// The request has begun or is over.
    Done,
    /// The request has to wait for running commands.
    Later,
}

impl Resp {
    /// Takes requests off a connection's bytes.
    pub(super) fn take(
        &mut self,
        now: Instant,
        from: ConnId,
        bytes: &[u8],
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taken {
        let Some(mut connection) = self.connections.remove(&from) else { return Taken::default() };
        let mut parser = std::mem::take(&mut connection.parser);
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let mut taken = Taken::default();
        let mut room: Vec<&[u8]> = Vec::new();
        for count in 0.. {
            if connection.closes {
                taken = Taken { bytes: bytes.len(), rest: Rest::Part };
                break;
            }
            if count == REQUEST_COUNT_MAX || out.len() >= STEP_REPLY_BYTES_MAX {
                taken.rest = Rest::More;
                break;
            }
            if !connection.has_room(&self.config) {
                self.stats.held += 1;
                connection.is_held = true;
                taken.rest = Rest::Held;
                break;
            }
            let limits = if connection.is_known { self.config.limits } else { LIMITS_BEFORE_AUTH };
            let rest = &bytes[taken.bytes..];
            match parser.parse(rest, &limits) {
                Parsed::Part => break,
                Parsed::Bad(fault) => {
                    self.stats.faults += 1;
                    connection.closes = true;
                    let mut reply = Vec::new();
                    Reply::new(&mut reply, connection.protocol).fault(&fault);
                    self.put_reply(&mut connection, &mut out, reply);
                }
                Parsed::Whole(length) => {
                    let mut args = recycled(room);
                    parser.args(&rest[..length], &mut args);
                    let taking =
                        self.request_muted(now, from, &mut connection, &args, &mut out, host, effects);
                    room = recycled(args);
                    match taking {
                        Taking::Done => taken.bytes += length,
                        Taking::Later => {
                            self.stats.held += 1;
                            connection.is_held = true;
                            taken.rest = Rest::Held;
                            break;
                        }
                    }
                }
            }
        }
        connection.parser = parser;
        if !connection.is_known {
            connection.stranger_bytes += out.len();
            connection.closes |= connection.stranger_bytes > STRANGER_BYTES_MAX;
        }
        super::send(from, &out, effects);
        self.out = out;
        if connection.closes && connection.running.is_empty() {
            effects.push(ramhold_base::Effect::Close { conn: from });
        }
        self.connections.insert(from, connection);
        taken
    }

    /// Puts a reply that is there at once straight into `out`, or behind replies that are still awaited.
    pub(super) fn put_reply(&mut self, connection: &mut Connection, out: &mut Vec<u8>, reply: Vec<u8>) {
        if connection.running.is_empty() || planted(Defect::RespReplyOvertakes) {
            out.extend_from_slice(&reply);
        } else {
            let seq = self.next_seq();
            connection.push(Running::done(seq, self.now, reply));
        }
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.tickets.next()
    }

    /// Begins one whole request, if its order allows.
    pub(super) fn request(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        args: &[&[u8]],
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taking {
        if args.is_empty() {
            return Taking::Done;
        }
        // A command that runs alone may change the state of the connection: its database, its transaction,
        // its watched keys.
        if connection.runs_alone() {
            return Taking::Later;
        }
        let checked = check(connection, args);
        let row = match checked {
            Ok(row) => row,
            Err(fault) => {
                self.stats.faults += 1;
                if let Some(multi) = &mut connection.multi {
                    multi.is_broken = true;
                }
                let is_exec = args[0].eq_ignore_ascii_case(b"exec");
                let fault = if is_exec { aborted(connection, &fault) } else { fault };
                let mut reply = Vec::new();
                Reply::new(&mut reply, connection.protocol).fault(&fault);
                self.put_reply(connection, out, reply);
                return Taking::Done;
            }
        };
        if let Some(multi) = &mut connection.multi
            && !passes_multi(row)
        {
            let kept = Args::of(args);
            multi.bytes += kept.bytes() + QUEUED_BYTES;
            let mut reply = Vec::new();
            let mut writer = Reply::new(&mut reply, connection.protocol);
            if multi.bytes > QUEUED_BYTES_MAX {
                multi.is_broken = true;
                writer.fault(&Fault::fixed("ERR the commands of a transaction have at most 16777216 bytes"));
            } else if let Run::Front(front) = row.run
                && !Self::answers_within(front)
            {
                multi.is_broken = true;
                writer.fault(&Fault::said(format!("ERR '{}' is not possible inside MULTI", row.name)));
            } else if let Err(fault) = self.config.cross_slot.check(row, args) {
                multi.is_broken = true;
                writer.fault(&fault);
            } else {
                multi.queued.push(Queued { row, args: kept });
                writer.simple("QUEUED");
            }
            self.count(connection, row, now);
            self.put_reply(connection, out, reply);
            return Taking::Done;
        }
        let taking = match row.run {
            Run::Front(front) => {
                return self.front_request(now, conn, connection, (row, front), args, out, host, effects);
            }
            _ => self.key_request(now, conn, connection, row, args, out, host, effects),
        };
        if let Taking::Done = taking {
            self.count(connection, row, now);
        }
        taking
    }

    pub(super) fn count(&mut self, connection: &mut Connection, row: &'static Command, now: Instant) {
        self.stats.commands += 1;
        connection.commands += 1;
        connection.last = now;
        connection.command = row.name;
    }

    /// Begins a command about keys.
    fn key_request(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        row: &'static Command,
        args: &[&[u8]],
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taking {
        let db = connection.db;
        let changes = row.flags.has(Flags::WRITE);
        let is_idle = connection.running.is_empty();
        let keys = if is_idle { Vec::new() } else { hashes(&self.hasher, row, args) };
        if !is_idle && connection.must_wait(&keys, changes, false) {
            return Taking::Later;
        }
        if let Run::Keys(_) = row.run
            && let Err(fault) = self.config.cross_slot.check(row, args)
        {
            let mut reply = Vec::new();
            Reply::new(&mut reply, connection.protocol).fault(&fault);
            self.put_reply(connection, out, reply);
            return Taking::Done;
        }
        let table = self.databases.table(db);
        let seq = self.next_seq();
        let has_one_owner = || self.config.cross_slot == CrossSlot::Allow && host.servers().len() == 1;
        let plain = match row.run {
            Run::Fast(fast, _) if fast == Fast::MSet && fast.goes_together(args, has_one_owner()) => None,
            Run::Fast(fast, _) => Some((fast, fast.plain(args))),
            _ => None,
        };
        let start = out.len();
        let mut behind = Vec::new();
        let into = if is_idle { &mut *out } else { &mut behind };
        let work = match (plain, table) {
            (Some((_, Plain::Fault(fault))), _) => {
                Reply::new(into, connection.protocol).fault(&fault);
                Work::Done
            }
            (Some((fast, Plain::Operations(count))), Some(table)) => {
                let mut reply = Reply::new(into, connection.protocol);
                let asked = (table, args, count);
                match self.begin_fast(now, fast, asked, (conn, seq), &mut reply, host, effects) {
                    Begun::Replied => Work::Done,
                    Begun::Under(work) => Work::Fast(work),
                }
            }
            (Some((_, Plain::Operations(_))), None) => {
                self.wait_for_table(db, conn, seq);
                Work::Waiting
            }
            (Some((_, Plain::No)) | None, _) => Work::Transact(Box::new(Transact::new(
                Purpose::Command,
                connection.protocol,
                self.config.databases,
            ))),
        };
        if let Work::Done = work
            && is_idle
        {
            return Taking::Done;
        }
        out.truncate(if is_idle { start } else { out.len() });
        let mut running = Running {
            seq,
            row,
            db,
            started: now,
            args: Args::of(args),
            keys: if is_idle { hashes(&self.hasher, row, args) } else { keys },
            changes,
            exclusive: false,
            work,
            reply_bytes_expected: connection.reply_bytes_expected,
            reply: behind,
            is_muted: false,
            finished: None,
        };
        self.advance(now, conn, &mut running, host, effects);
        self.after_transact(connection, &mut running);
        if running.is_done() && is_idle {
            out.extend_from_slice(&running.reply);
        } else {
            connection.push(running);
        }
        Taking::Done
    }

    /// Begins a transaction on behalf of a front command.
    pub(super) fn begin_transact(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        row: &'static Command,
        args: &[&[u8]],
        purpose: Purpose,
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let seq = self.next_seq();
        let mut running = Running {
            seq,
            row,
            db: connection.db,
            started: now,
            args: Args::of(args),
            keys: Vec::new(),
            changes: true,
            exclusive: true,
            reply_bytes_expected: 0,
            work: Work::Transact(Box::new(Transact::new(
                purpose,
                connection.protocol,
                self.config.databases,
            ))),
            reply: Vec::new(),
            is_muted: false,
            finished: None,
        };
        self.advance(now, conn, &mut running, host, effects);
        if running.is_done() {
            self.after_transact(connection, &mut running);
            out.extend_from_slice(&running.reply);
        } else {
            connection.push(running);
        }
    }

    /// Advances a command that is a transaction as far as possible.
    fn advance(
        &mut self,
        now: Instant,
        conn: ConnId,
        running: &mut Running,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let Some(mut work) = take_work(running) else { return };
        let is_over = self.advance_transact(now, conn, running, &mut work, host, effects);
        running.put_back(work, is_over);
    }

    /// Hands an answer to the command that waits for it, or to the part of the front that does.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        part: Part,
        answer: Answer<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let (conn, seq) = match part {
            Part::Database(db) => return self.on_table_answer(now, db, answer, host, effects),
            Part::Ready => return self.on_ready_answer(now, &answer, host),
            Part::Command { conn, seq, .. } => (conn, seq),
        };
        let Some((mut connection, at)) = self.taken_out(conn, seq) else { return };
        let mut running = std::mem::replace(&mut connection.running[at], Running::placeholder(seq));
        match &mut running.work {
            Work::Done | Work::Waiting => {}
            Work::Fast(_) => {
                let Work::Fast(mut work) = std::mem::replace(&mut running.work, Work::Waiting) else {
                    return;
                };
                let args = running.args.list();
                self.on_fast_answer(&mut work, running.db, &args, part, answer);
                if work.is_over() {
                    self.count_lookups(work.lookups());
                    let mut reply = Vec::new();
                    work.write(&mut Reply::new(&mut reply, connection.protocol));
                    running.reply = reply;
                    running.work = Work::Done;
                } else {
                    running.work = Work::Fast(work);
                }
            }
            Work::Walk(_) => {
                let Work::Walk(mut walk) = std::mem::replace(&mut running.work, Work::Waiting) else {
                    return;
                };
                let mut reply = Vec::new();
                let mut writer = Reply::new(&mut reply, connection.protocol);
                let is_over = self.on_walk_answer(&mut running, &mut walk, part, answer, &mut writer);
                running.work = if is_over { Work::Done } else { Work::Walk(walk) };
                running.reply = reply;
            }
            Work::Others(_) => {}
            Work::Cluster(front) => {
                let mut reply = Vec::new();
                let writer = Reply::new(&mut reply, connection.protocol);
                cluster::answer_with(*front, answer, writer, host);
                running.reply = reply;
                running.work = Work::Done;
            }
            Work::Transact(_) => {
                if let Some(mut work) = take_work(&mut running) {
                    let is_over =
                        self.on_transact_answer(now, &mut running, &mut work, part, answer, host, effects);
                    running.put_back(work, is_over);
                }
            }
        }
        self.put_in(conn, connection, at, running);
    }

    fn taken_out(&mut self, conn: ConnId, seq: u64) -> Option<(Box<Connection>, usize)> {
        let at = self.connections.get(&conn)?.find(seq)?;
        Some((self.connections.remove(&conn)?, at))
    }

    fn put_in(&mut self, conn: ConnId, mut connection: Box<Connection>, at: usize, mut running: Running) {
        if running.is_done() {
            self.after_transact(&mut connection, &mut running);
            connection.note_reply(running.reply.len());
            if connection.reply_bytes + running.reply.len() > REPLIES_BYTES_MAX && !running.changes {
                running.reply = Vec::new();
                Reply::new(&mut running.reply, connection.protocol).fault(&TOO_MANY_REPLIES);
            }
            connection.reply_bytes += running.reply.len();
            if at == 0 {
                self.touched.push(conn);
            }
        }
        connection.running[at] = running;
        self.connections.insert(conn, connection);
    }

    /// Begins a command again, because the table that it waited for is known now.
    pub(super) fn begin_anew(
        &mut self,
        now: Instant,
        conn: ConnId,
        seq: u64,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        let Some((mut connection, at)) = self.taken_out(conn, seq) else { return };
        let mut running = std::mem::replace(&mut connection.running[at], Running::placeholder(seq));
        match (&running.work, running.row.run, self.databases.table(running.db)) {
            (Work::Transact(_), ..) => self.advance(now, conn, &mut running, host, effects),
            (Work::Fast(_), _, Some(table)) => {
                if let Work::Fast(mut work) = std::mem::replace(&mut running.work, Work::Waiting) {
                    self.rehouse(&mut work, &running.args.list(), table, conn, seq);
                    running.work = Work::Fast(work);
                }
            }
            (Work::Waiting, Run::Fast(fast, _), Some(table)) => {
                let args = running.args.list();
                if let Plain::Operations(count) = fast.plain(&args) {
                    let mut reply = Vec::new();
                    let mut writer = Reply::new(&mut reply, connection.protocol);
                    let asked = (table, &args[..], count);
                    let begun = self.begin_fast(now, fast, asked, (conn, seq), &mut writer, host, effects);
                    running.work = match begun {
                        Begun::Replied => Work::Done,
                        Begun::Under(work) => Work::Fast(work),
                    };
                    running.reply = reply;
                }
            }
            (Work::Waiting, Run::Front(front), Some(_)) if cluster::needs_table(front) => {
                self.ask_table(conn, seq, running.db);
                running.work = Work::Cluster(front);
            }
            // A walk that has begun already comes here if its table was dropped.
            (Work::Waiting | Work::Walk(_), Run::Front(front), Some(table)) => {
                let args = running.args.list();
                let served = part_of(&connection, Some(table), host);
                match Walk::new(front, &args, table, served) {
                    Ok(mut walk) => {
                        let part = Part::Command { conn, seq, index: 0, attempt: 0 };
                        let mut reply = Reply::new(&mut running.reply, connection.protocol);
                        let is_over = self.begin_walk(&mut walk, part, &mut reply);
                        running.work = if is_over { Work::Done } else { Work::Walk(Box::new(walk)) };
                    }
                    Err(fault) => {
                        Reply::new(&mut running.reply, connection.protocol).fault(&fault);
                        running.work = Work::Done;
                    }
                }
            }
            _ => {}
        }
        self.put_in(conn, connection, at, running);
    }

    /// Enters a front command whose reply comes later.
    pub(super) fn run_front(
        &mut self,
        connection: &mut Connection,
        (row, seq): (&'static Command, u64),
        args: &[&[u8]],
        work: Work,
    ) {
        connection.push(Running {
            seq,
            row,
            db: connection.db,
            started: self.now,
            args: Args::of(args),
            keys: Vec::new(),
            changes: true,
            exclusive: true,
            reply_bytes_expected: 0,
            work,
            reply: Vec::new(),
            is_muted: false,
            finished: None,
        });
    }

    pub(super) fn end_with_fault(&mut self, conn: ConnId, seq: u64, fault: &Fault) {
        let Some((mut connection, at)) = self.taken_out(conn, seq) else { return };
        let mut running = std::mem::replace(&mut connection.running[at], Running::placeholder(seq));
        running.reply.clear();
        Reply::new(&mut running.reply, connection.protocol).fault(fault);
        running.work = Work::Done;
        self.put_in(conn, connection, at, running);
    }

    /// Has the host treat a request. If the answer comes at once, it is in `self.answers`.
    pub(super) fn ask_host(
        &mut self,
        now: Instant,
        request: &LocalRequest<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> u64 {
        let ticket = self.tickets.next();
        let bytes = match request {
            LocalRequest::Read(_) => 0,
            LocalRequest::Write(write) => write.key.len() + write.value.len() + 64,
            LocalRequest::Remove(request) => request.key.len() + 64,
            LocalRequest::Increment(request) => request.key.len() + 64,
            LocalRequest::Commit(request) => request.items().iter().map(|item| item.bytes_max() + 64).sum(),
        };
        *self.local_bytes.get_or_insert(0) += bytes as u64;
        self.answers.clear();
        host.treat(now, request, ticket, effects);
        host.swap_answers(&mut self.answers);
        for (of, status, body) in self.answers.iter().filter(|(of, ..)| *of != ticket) {
            self.late.push((of, status, body.to_vec()));
        }
        ticket
    }
}

impl Running {
    /// Stands in the queue for a command that was taken out to be advanced.
    fn placeholder(seq: u64) -> Running {
        Running { work: Work::Waiting, ..Running::done(seq, Instant::ZERO, Vec::new()) }
    }

    fn put_back(&mut self, work: Box<Transact>, is_over: bool) {
        if is_over {
            self.finished = Some(work);
            self.work = Work::Done;
        } else {
            self.work = Work::Transact(work);
        }
    }
}

/// The row of a request's command, if the connection may use it in this way.
fn check(connection: &Connection, args: &[&[u8]]) -> Result<&'static Command, Fault> {
    let row = resolve(args)?;
    if !connection.is_known && !row.flags.has(Flags::NO_AUTH) {
        return Err(Fault::fixed("NOAUTH Authentication required."));
    }
    if connection.is_subscribed() && connection.protocol == crate::Protocol::Resp2 && !row.may_subscriber() {
        let text = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context",
            row.name
        );
        return Err(Fault::said(text));
    }
    Ok(row)
}

impl Command {
    fn may_subscriber(&self) -> bool {
        let Run::Front(front) = self.run else { return false };
        matches!(
            front,
            Front::Subscribe
                | Front::Unsubscribe
                | Front::PSubscribe
                | Front::PUnsubscribe
                | Front::SSubscribe
                | Front::SUnsubscribe
                | Front::Ping
                | Front::Quit
                | Front::Reset
        )
    }
}

/// The error of an `EXEC` that is refused. The refusal ends the transaction.
fn aborted(connection: &mut Connection, fault: &Fault) -> Fault {
    connection.multi = None;
    connection.watched.clear();
    let why = fault.0.strip_prefix("ERR ").unwrap_or(&fault.0);
    Fault::said(format!("EXECABORT Transaction discarded because of: {why}"))
}

/// Whether a command is carried out, and not queued, between `MULTI` and `EXEC`.
fn passes_multi(row: &Command) -> bool {
    let Run::Front(front) = row.run else { return false };
    matches!(front, Front::Multi | Front::Exec | Front::Discard | Front::Watch | Front::Quit | Front::Reset)
}

/// Hashes of a command's keys. The database is left out, because MOVE and COPY concern two databases.
fn hashes(hasher: &PlacementHasher, row: &Command, args: &[&[u8]]) -> Vec<u64> {
    row.keys.of(args).map(|key| hasher.hash(key).0).collect()
}

/// Empties a list, so that another list can use its memory.
fn recycled<'a>(mut list: Vec<&[u8]>) -> Vec<&'a [u8]> {
    list.clear();
    list.into_iter().map(|_| -> &'a [u8] { unreachable!("it is empty") }).collect()
}
