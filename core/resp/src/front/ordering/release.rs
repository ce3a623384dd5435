//! Sends the replies of a connection that are ready, in the order of their requests, and hears it again.

use super::line::Lines;
use super::parts::Parts;
use crate::front::host::Host;
use crate::front::step::{Step, send};
use ramhold_base::{ConnId, Effect};

/// Looks at a connection whose oldest command has ended.
pub fn release(step: &mut Step<'_, impl Host>, parts: &mut Parts, conn: ConnId) {
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
