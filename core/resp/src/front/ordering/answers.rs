//! Hands answers to the commands that wait for them.

use super::accounts;
use super::lines::Parts;
use super::running::{Running, Work};
use crate::deeds;
use crate::front::access::Access;
use crate::front::access::answer::Answer;
use crate::front::access::tables::Known;
use crate::front::access::tickets::Part;
use crate::front::clients::acl::{name_of, note, refusal};
use crate::front::clients::asker::Asker;
use crate::front::clients::cluster;
use crate::front::execution::fast::{self, Asked, Begun, Plain};
use crate::front::execution::keyspace::{Walk, part_of};
use crate::front::execution::quorum::QuorumWork;
use crate::front::execution::transact::Around;
use crate::front::host::Host;
use crate::front::kinds::FrontKind;
use crate::front::refusals::REPLACED;
use crate::front::request::CommandId;
use crate::front::step::Step;
use crate::{Fault, Reply, Run};

/// Hands an answer to the command that waits for it, or to the part of the front that does.
pub fn on_answer(step: &mut Step<'_, impl Host>, parts: &mut Parts, (part, answer): (Part, Answer<'_>)) {
    let Access { databases, posted, ready, .. } = &mut parts.access;
    match part {
        Part::Database(db) => {
            let Some(resolved) = databases.on_answer(step.config, posted, db, answer) else { return };
            for command in resolved.commands {
                match &resolved.fault {
                    None => begin_anew(step, parts, command),
                    Some(fault) => end_with_fault(parts, command, fault),
                }
            }
        }
        Part::Ready => ready.on_answer(step, databases, &answer),
        Part::Command { command, .. } => on_part(step, parts, command, (part, answer)),
    }
}

/// Takes an answer to a part of a running command.
fn on_part(
    step: &mut Step<'_, impl Host>,
    parts: &mut Parts,
    command: CommandId,
    (part, answer): (Part, Answer<'_>),
) {
    let Parts { lines, clients, access } = parts;
    let Some(protocol) = clients.get(command.conn).map(|client| client.protocol) else { return };
    let Some((queue, at)) = lines.find(command) else { return };
    let Running { request, work, reply, .. } = queue.at_mut(at);
    let is_over = match work {
        // The command has ended with an error, and other parts of it were still under way.
        Work::Done => return,
        Work::Waiting | Work::Others(_) | Work::Login(_) => false,
        Work::Accounts(change) => {
            reply.clear();
            let writer = Reply::new(reply, protocol);
            accounts::on_answer(step, &mut access.changes, command, change, answer, writer)
        }
        Work::Fast(fast) => {
            fast.on_answer(step, access, request, part, answer);
            if fast.is_over() {
                step.stats.count_lookups(fast.lookups());
                reply.clear();
                fast.write(&mut Reply::new(reply, protocol));
            }
            fast.is_over()
        }
        Work::Walk(walk) => {
            reply.clear();
            walk.on_answer(step, access, request.db, (part, answer), &mut Reply::new(reply, protocol))
        }
        Work::Cluster(front) => {
            reply.clear();
            cluster::answer_with(*front, answer, Reply::new(reply, protocol), step.host);
            true
        }
        Work::Quorum(work) => work.on_answer(step, access, request, reply, (part, answer)),
        Work::Transact(transact) => {
            transact.on_answer(step, Around { access, clients }, request, reply, (part, answer))
        }
    };
    if is_over {
        *work = Work::Done;
        if queue.note_done(at, protocol) {
            lines.touched.push(command.conn);
        }
    }
}

/// Begins a command again, because the table that it waited for is known now.
fn begin_anew(step: &mut Step<'_, impl Host>, parts: &mut Parts, command: CommandId) {
    let Parts { lines, clients, access } = parts;
    let Some(client) = clients.get(command.conn) else { return };
    let asker = Asker::of(command.conn, client);
    let protocol = asker.protocol;
    let Some((queue, at)) = lines.find(command) else { return };
    let Running { request, work, reply, .. } = queue.at_mut(at);
    if matches!(work, Work::Done) {
        return;
    }
    // The account may have been changed or removed since.
    if matches!(work, Work::Waiting) || is_of_keys(work) {
        let Some(member) = &client.admission.member else {
            return end_with_fault(parts, command, &Fault::NO_LOGIN);
        };
        let args = request.args.list();
        let again = deeds::Request { row: request.row, args: &args, db: request.db };
        if let Err(denied) = again.check(&member.permit, step.numbers, step.config) {
            let fault = refusal(denied, member, name_of(step, request.row));
            note(step, clients, command.conn, (denied, &again));
            return end_with_fault(parts, command, &fault);
        }
    }
    match (&mut *work, request.row.run, access.databases.known(request.db)) {
        (Work::Quorum(quorum), _, Some(known)) => {
            let is_over = quorum.go_on(step, access, (request, known), reply);
            if is_over {
                *work = Work::Done;
            }
        }
        (Work::Fast(_), _, Some(Known { is_quorum: true, .. })) => {
            reply.clear();
            Reply::new(reply, protocol).fault(&REPLACED);
            *work = Work::Done;
        }
        (it, Run::Keys(_) | Run::Fast(..), Some(known)) if known.is_quorum && is_of_keys(it) => {
            let begun = QuorumWork::begin(step, access, (request, known, protocol), reply);
            *work = begun.map_or(Work::Done, |begun| Work::Quorum(Box::new(begun)));
        }
        (Work::Transact(transact), ..) => {
            let is_over = transact.advance(step, Around { access, clients }, request, reply);
            if is_over {
                *work = Work::Done;
            }
        }
        (Work::Fast(fast), _, Some(known)) => fast.rehouse(access, request, known.table),
        (Work::Waiting, Run::Fast(fast, _), Some(Known { table, .. })) => {
            let args = &request.args.list()[..];
            if let Plain::Operations(count) = fast.plain(args) {
                reply.clear();
                let asked = Asked { fast, table, args, count };
                *work = match fast::begin(step, access, asked, command, &mut Reply::new(reply, protocol)) {
                    Begun::Replied => Work::Done,
                    Begun::Under(work) => Work::Fast(work),
                };
            }
        }
        (Work::Waiting, Run::Front(front), Some(_)) if front.kind() == FrontKind::Slots => {
            access.ask_table(step, request.db, command);
            *work = Work::Cluster(front);
        }
        // A walk that has begun already comes here if its table was dropped.
        (Work::Waiting | Work::Walk(_), Run::Front(front), Some(known)) => {
            let served = part_of(&asker, Some(known), step.host);
            let mut writer = Reply::new(reply, protocol);
            *work = match Walk::new(front, &request.args.list(), Some(known), served) {
                Ok(mut walk) => {
                    let is_over = walk.begin(step, access, Part::of(command), &mut writer);
                    if is_over { Work::Done } else { Work::Walk(Box::new(walk)) }
                }
                Err(fault) => {
                    writer.fault(&fault);
                    Work::Done
                }
            };
        }
        _ => {}
    }
    if queue.at_mut(at).is_done() && queue.note_done(at, protocol) {
        lines.touched.push(command.conn);
    }
}

/// Whether the work is a command about keys that has had no effect yet.
fn is_of_keys(work: &Work) -> bool {
    match work {
        Work::Waiting => true,
        Work::Transact(transact) => transact.is_command(),
        Work::Done
        | Work::Fast(_)
        | Work::Quorum(_)
        | Work::Walk(_)
        | Work::Others(_)
        | Work::Login(_)
        | Work::Accounts(_)
        | Work::Cluster(_) => false,
    }
}

fn end_with_fault(parts: &mut Parts, command: CommandId, fault: &Fault) {
    let Parts { lines, clients, .. } = parts;
    let Some(protocol) = clients.get(command.conn).map(|client| client.protocol) else { return };
    let Some((queue, at)) = lines.find(command) else { return };
    let running = queue.at_mut(at);
    if running.is_done() {
        return;
    }
    running.reply.clear();
    Reply::new(&mut running.reply, protocol).fault(fault);
    running.work = Work::Done;
    if queue.note_done(at, protocol) {
        lines.touched.push(command.conn);
    }
}

/// Takes the answer of another server about its subscribers. `None`: none will come.
pub fn on_heard(parts: &mut Parts, command: CommandId, body: Option<&[u8]>) {
    let Parts { lines, clients, .. } = parts;
    let Some(protocol) = clients.get(command.conn).map(|client| client.protocol) else { return };
    let Some((queue, at)) = lines.find(command) else { return };
    let Running { request, work: Work::Others(asked), reply, .. } = queue.at_mut(at) else { return };
    if asked.add(body) {
        asked.reply(&request.args.list(), &mut Reply::new(reply, protocol));
        if queue.note_heard(at) {
            lines.touched.push(command.conn);
        }
    }
}
