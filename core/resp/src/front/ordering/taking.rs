//! Takes requests off a connection's bytes, and begins them.

use super::admission::{Admitted, admit};
use super::lines::{Line, Lines, Parts};
use super::muted::Muting;
use super::turn::Turn;
use super::{keys, others};
use crate::deeds;
use crate::front::clients::acl;
use crate::front::clients::asker::Asker;
use crate::front::host::Host;
use crate::front::step::{Step, send};
use crate::{Limits, Parsed};
use ramhold_base::{ConnId, Effect, Rest, Taken};

/// Requests of one connection that begin in one step. The process that hears the connection can send the replies of a step
/// while the next one is taken, and hear others in between.
const REQUEST_COUNT_MAX: usize = 32;
/// Bytes of replies after which no further request begins in a step. The process that hears the connection
/// must see that the client does not fetch its replies before there are more of them.
const STEP_REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Limits of a request on a connection that has not logged in yet (Z9).
const LIMITS_BEFORE_AUTH: Limits = Limits { args: 8, arg_bytes: 4 * 1024, bytes: 16 * 1024 };
/// Bytes of replies on a connection before it has logged in. Replies that nobody fetches must not
/// fill the memory (Z9).
const STRANGER_BYTES_MAX: usize = 64 * 1024;

/// Takes requests off a connection's bytes, and sends the replies that are there at once.
pub fn take(step: &mut Step<'_, impl Host>, parts: &mut Parts, from: ConnId, bytes: &[u8]) -> Taken {
    let Parts { lines: Lines { all, hasher, out, .. }, clients, access } = parts;
    let Some(Line { parser, queue }) = all.get_mut(&from) else { return Taken::default() };
    let Some(mut client) = clients.get_mut(from) else { return Taken::default() };
    out.clear();
    let mut turn = Turn { conn: from, queue, out, hasher, access };
    let mut taken = Taken::default();
    let mut room: Vec<&[u8]> = Vec::new();
    for count in 0.. {
        if client.closes {
            taken = Taken { bytes: bytes.len(), rest: Rest::Part };
            break;
        }
        if count == REQUEST_COUNT_MAX || turn.out.len() >= STEP_REPLY_BYTES_MAX {
            taken.rest = Rest::More;
            break;
        }
        // Bytes behind a login are read by the rules that count after it.
        let is_left = taken.bytes < bytes.len();
        if !turn.queue.has_room(step.config) || turn.queue.runs_alone() && is_left {
            taken.rest = Rest::Held;
            break;
        }
        let limits = if client.is_known() { &step.config.limits } else { &LIMITS_BEFORE_AUTH };
        let rest = &bytes[taken.bytes..];
        let length = match parser.parse(rest, limits) {
            Parsed::Part => break,
            Parsed::Bad(fault) => {
                step.stats.faults += 1;
                client.closes = true;
                turn.fault(step, client.protocol, &fault);
                continue;
            }
            Parsed::Whole(length) => length,
        };
        let mut args = recycled(room);
        parser.args(&rest[..length], &mut args);
        let admitted = admit(step, client, (turn.queue, &turn.access.databases), hasher, &args);
        if let Admitted::Later = admitted {
            taken.rest = Rest::Held;
            break;
        }
        let muting = Muting::begin(client, turn.out.len(), turn.queue.len());
        match admitted {
            Admitted::Nothing | Admitted::Later => {}
            Admitted::Replied(reply) => turn.reply(step, reply),
            Admitted::Denied { row, db, denied, reply } => {
                acl::note(step, clients, from, (denied, &deeds::Request { row, args: &args, db }));
                client = clients.asking(from);
                turn.reply(step, reply);
            }
            Admitted::Keys(request) => {
                if let Some(request) = keys::begin_plain(&mut turn, step, request, &args) {
                    keys::begin_whole(&mut turn, step, clients, request, &args);
                    client = clients.asking(from);
                }
            }
            Admitted::Front(row, front) => {
                let asker = Asker::of(from, client);
                others::begin(&mut turn, step, clients, &asker, (row, front), &args);
                client = clients.asking(from);
            }
        }
        if let Some(muting) = muting {
            muting.end(&mut turn, client, &args);
        }
        room = recycled(args);
        taken.bytes += length;
    }
    if taken.rest == Rest::Held {
        step.stats.held += 1;
        turn.queue.is_held = true;
    }
    if !client.is_known() {
        client.admission.stranger_bytes += turn.out.len();
        client.closes |= client.admission.stranger_bytes > STRANGER_BYTES_MAX;
    }
    send(from, turn.out, step.effects);
    if client.closes && turn.queue.is_empty() {
        step.effects.push(Effect::Close { conn: from });
    }
    taken
}

/// Empties a list, so that another list can use its memory.
fn recycled<'a>(mut list: Vec<&[u8]>) -> Vec<&'a [u8]> {
    list.clear();
    list.into_iter().map(|_| -> &'a [u8] { unreachable!("it is empty") }).collect()
}
