//! Begins a command about keys: as operations of the servers, as a transaction, or as operations of bricks.

use super::admission::{KeyRequest, hashes};
use super::running::{Running, Work};
use super::turn::Turn;
use crate::front::access::tables::Known;
use crate::front::clients::list::Clients;
use crate::front::execution::fast::{self, Asked, Begun, Plain};
use crate::front::execution::quorum::QuorumWork;
use crate::front::execution::transact::{Purpose, Transact};
use crate::front::host::Host;
use crate::front::request::{Args, CommandId, Request};
use crate::front::step::Step;
use crate::front::together::CrossSlot;
use crate::{Fast, Flags, Reply, Run};

/// Begins a command as operations of the servers. Returns the request if they cannot carry it out.
pub fn begin_plain(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    request: KeyRequest,
    args: &[&[u8]],
) -> Option<KeyRequest> {
    let has_one_owner = || step.config.cross_slot == CrossSlot::Allow && step.host.servers().len() == 1;
    let (fast, plain) = match request.row.run {
        Run::Fast(fast, _) if fast == Fast::MSet && fast.goes_together(args, has_one_owner()) => {
            return Some(request);
        }
        Run::Fast(fast, _) => (fast, fast.plain(args)),
        Run::Keys(_) | Run::Front(_) | Run::Container(_) => return Some(request),
    };
    let known = turn.access.databases.known(request.db);
    let is_idle = turn.queue.is_empty();
    let start = turn.out.len();
    let mut behind = Vec::new();
    let into = if is_idle { &mut *turn.out } else { &mut behind };
    let mut reply = Reply::new(into, request.protocol);
    let (id, work) = match (plain, known) {
        (Plain::No, _) | (_, Some(Known { is_quorum: true, .. })) => return Some(request),
        (Plain::Fault(fault), _) => {
            reply.fault(&fault);
            (turn.access.direct.next_command(turn.conn), Work::Done)
        }
        (Plain::Operations(count), Some(Known { table, is_quorum: false })) => {
            let id = turn.access.direct.next_command(turn.conn);
            let asked = Asked { fast, table, args, count };
            match fast::begin(step, turn.access, asked, id, &mut reply) {
                Begun::Replied => (id, Work::Done),
                Begun::Under(work) => (id, Work::Fast(work)),
            }
        }
        (Plain::Operations(_), None) => {
            let id = turn.access.direct.next_command(turn.conn);
            turn.access.wait_for_table(step, request.db, id);
            (id, Work::Waiting)
        }
    };
    if is_idle {
        if let Work::Done = work {
            return None;
        }
        turn.out.truncate(start);
    }
    let mut running = running(turn, step, id, request, args, work);
    running.reply = behind;
    turn.queue.push(running);
    None
}

/// Begins a command that operations of the servers cannot carry out: on an ordinary table as a transaction.
pub fn begin_whole(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    request: KeyRequest,
    args: &[&[u8]],
) {
    let id = turn.next_command();
    let protocol = request.protocol;
    if let Some(known) = turn.access.databases.known(request.db).filter(|known| known.is_quorum) {
        let mut running = running(turn, step, id, request, args, Work::Done);
        let of = (&running.request, known, protocol);
        if let Some(work) = QuorumWork::begin(step, turn.access, of, &mut running.reply) {
            running.work = Work::Quorum(Box::new(work));
        }
        return turn.enter(running);
    }
    let transact = Transact::new(Purpose::Command, protocol, step.config.databases);
    let mut running = running(turn, step, id, request, args, Work::Transact(Box::new(transact)));
    turn.advance(step, clients, &mut running);
    turn.enter(running);
}

fn running<H>(
    turn: &Turn<'_>,
    step: &Step<'_, H>,
    id: CommandId,
    KeyRequest { row, db, keys, .. }: KeyRequest,
    args: &[&[u8]],
    work: Work,
) -> Running {
    Running {
        request: Request { id, row, args: Args::of(args), db, started: step.now },
        keys: if turn.queue.is_empty() { hashes(turn.hasher, row, args) } else { keys },
        changes: row.flags.has(Flags::WRITE),
        exclusive: false,
        work,
        reply_bytes_expected: turn.queue.reply_bytes_expected(),
        reply: Vec::new(),
        is_muted: false,
    }
}
