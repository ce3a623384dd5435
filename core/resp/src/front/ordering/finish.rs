//! The end of a step: advances everything that can go on, until nothing can.

use super::answers::on_answer;
use super::parts::Parts;
use super::release::release;
use crate::front::access::answer::Answer;
use crate::front::clients::pubsub;
use crate::front::host::Host;
use crate::front::step::Step;
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
