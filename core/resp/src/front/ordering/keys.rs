//! Begins a command about keys: as operations of the servers, or as a transaction.

use super::admission::{KeyRequest, hashes};
use super::running::{Running, Work};
use super::turn::Turn;
use crate::front::execution::fast::{self, Asked, Begun, Plain};
use crate::front::execution::transact::{Purpose, Transact};
use crate::front::host::Host;
use crate::front::request::{Args, Request};
use crate::front::step::Step;
use crate::front::together::CrossSlot;
use crate::{Fast, Flags, Reply, Run};

/// Returns a transaction that is still to be begun. Everything else is over or entered.
pub fn begin(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    KeyRequest { row, db, protocol, keys }: KeyRequest,
    args: &[&[u8]],
) -> Option<Running> {
    let is_idle = turn.queue.is_empty();
    let table = turn.access.databases.table(db);
    let id = turn.next_command();
    let has_one_owner = || step.config.cross_slot == CrossSlot::Allow && step.host.servers().len() == 1;
    let plain = match row.run {
        Run::Fast(fast, _) if fast == Fast::MSet && fast.goes_together(args, has_one_owner()) => None,
        Run::Fast(fast, _) => Some((fast, fast.plain(args))),
        Run::Keys(_) | Run::Front(_) | Run::Container(_) => None,
    };
    let start = turn.out.len();
    let mut behind = Vec::new();
    let into = if is_idle { &mut *turn.out } else { &mut behind };
    let work = match (plain, table) {
        (Some((_, Plain::Fault(fault))), _) => {
            Reply::new(into, protocol).fault(&fault);
            Work::Done
        }
        (Some((fast, Plain::Operations(count))), Some(table)) => {
            let asked = Asked { fast, table, args, count };
            match fast::begin(step, turn.access, asked, id, &mut Reply::new(into, protocol)) {
                Begun::Replied => Work::Done,
                Begun::Under(work) => Work::Fast(work),
            }
        }
        (Some((_, Plain::Operations(_))), None) => {
            turn.access.wait_for_table(step, db, id);
            Work::Waiting
        }
        (Some((_, Plain::No)) | None, _) => {
            let transact = Transact::new(Purpose::Command, protocol, step.config.databases);
            Work::Transact(Box::new(transact))
        }
    };
    if let Work::Done = work
        && is_idle
    {
        return None;
    }
    if is_idle {
        turn.out.truncate(start);
    }
    let running = Running {
        request: Request { id, row, args: Args::of(args), db, started: step.now },
        keys: if is_idle { hashes(turn.hasher, row, args) } else { keys },
        changes: row.flags.has(Flags::WRITE),
        exclusive: false,
        work,
        reply_bytes_expected: turn.queue.reply_bytes_expected(),
        reply: behind,
        is_muted: false,
    };
    if let Work::Transact(_) = running.work {
        return Some(running);
    }
    turn.queue.push(running);
    None
}
