//! The end of a step: advances everything that can go on, until nothing can.

use super::answers::on_answer;
use super::lines::{Lines, Parts};
use crate::front::access::answer::Answer;
use crate::front::clients::pubsub;
use crate::front::host::Host;
use crate::front::step::{Step, send};
use ramhold_base::{ConnId, Effect};
use ramhold_wire::local::LocalAnswers;

/// `answers` is memory for answers of the host.
pub fn finish(step: &mut Step<'_, impl Host>, parts: &mut Parts, answers: &mut LocalAnswers) {
    loop {
        take_late(step, parts);
        take_answers(step, parts, answers);
        if let Some(bytes) = parts.access.direct.take_unfinished() {
            step.host.finish(step.now, bytes, step.effects);
            continue;
        }
        parts.access.posted.send(step);
        if let Some(answer) = parts.access.posted.take_answer() {
            on_answer(step, parts, answer);
            continue;
        }
        if !parts.clients.publications.is_empty() {
            pubsub::send_publications(step, &mut parts.clients, &mut parts.access.peers);
            continue;
        }
        if let Some(conn) = parts.lines.touched.pop() {
            release(step, parts, conn);
            continue;
        }
        return;
    }
}

/// Ends what the host has not answered in time. A write that was taken in just before its stream lost a backup waits
/// until there is another one, which may be never.
pub fn end_overdue(step: &mut Step<'_, impl Host>, parts: &mut Parts) {
    let patience = step.config.deadline;
    while let Some((waited, part, kind)) = parts.access.direct.take_overdue(step.now, patience) {
        on_answer(step, parts, (part, Answer::of_silence(kind, waited)));
    }
}

fn take_late(step: &mut Step<'_, impl Host>, parts: &mut Parts) {
    for (ticket, status, body) in parts.access.direct.take_late() {
        if let Some((part, kind)) = parts.access.direct.take_waiter(ticket) {
            on_answer(step, parts, (part, Answer::of_local(kind, status, &body)));
        }
    }
}

fn take_answers(step: &mut Step<'_, impl Host>, parts: &mut Parts, answers: &mut LocalAnswers) {
    loop {
        answers.clear();
        step.host.swap_answers(answers);
        if answers.is_empty() {
            return;
        }
        for (ticket, status, body) in answers.iter() {
            if let Some((part, kind)) = parts.access.direct.take_waiter(ticket) {
                on_answer(step, parts, (part, Answer::of_local(kind, status, body)));
            }
        }
    }
}

/// Sends the replies of a connection that are ready, in the order of their requests, and hears it again.
fn release(step: &mut Step<'_, impl Host>, parts: &mut Parts, conn: ConnId) {
    let Parts { lines: Lines { all, out, .. }, clients, .. } = parts;
    let (Some(line), Some(client)) = (all.get_mut(&conn), clients.all.get(&conn)) else { return };
    let queue = &mut line.queue;
    out.clear();
    while let Some(done) = queue.take_done() {
        let request = &done.request;
        let took = step.now.since(request.started);
        clients.timings.note(step, (request.row, &request.args), took, &client.name);
        if !done.is_muted {
            out.extend_from_slice(&done.reply);
        }
    }
    send(conn, out, step.effects);
    if queue.is_held {
        queue.is_held = false;
        step.effects.push(Effect::Hear { conn });
    }
    if client.closes && queue.is_empty() {
        step.effects.push(Effect::Close { conn });
    }
}
