//! Begins and ends transactions of clients: `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.
//!
//! Not here: queueing (`admission`), carrying out what was queued (`execution`).

use super::running::{Running, Work};
use super::turn::Turn;
use crate::deeds;
use crate::front::clients::acl::note;
use crate::front::clients::asker::Asker;
use crate::front::clients::block::{Block, Multi, Queued, check_slots};
use crate::front::clients::client::Client;
use crate::front::clients::list::Clients;
use crate::front::execution::transact::{Purpose, Transact};
use crate::front::host::Host;
use crate::front::request::{Args, Request};
use crate::front::step::Step;
use crate::{Command, Fault, Front, Reply};
use ramhold_access::{Denied, Member};

const FORBIDDEN: Fault = Fault::fixed(
    "EXECABORT Transaction discarded because of: NOPERM the account was changed, and may not do one of the queued commands any \
     more",
);
/// Keys that one connection may watch.
const WATCHED_COUNT_MAX: usize = 1024;

/// Begins a command of the kind `FrontKind::Transaction`.
pub fn begin(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    asker: &Asker,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
) {
    let Asker { conn, protocol, db, .. } = *asker;
    let client = clients.asking(conn);
    let Client { block, admission, .. } = client;
    let outcome = match front {
        Front::Multi => multi(block, db),
        Front::Discard => discard(block),
        Front::Exec => match forbidden(step, block, admission.member.as_deref()) {
            None => exec(step, block),
            Some((denied, queued)) => {
                *block = Block::default();
                let args = queued.args.list();
                let request = deeds::Request { row: queued.row, args: &args, db: queued.db };
                note(step, clients, conn, (denied, &request));
                Err(FORBIDDEN)
            }
        },
        Front::Watch => watch(step, block, row, args),
        _ => {
            block.watched.clear();
            Ok(None)
        }
    };
    let mut reply = Vec::new();
    match outcome {
        Ok(Some(purpose)) => {
            let id = turn.next_command();
            let request = Request { id, row, args: Args::of(args), db, started: step.now };
            let work = Transact::new(purpose, protocol, step.config.databases);
            let mut running = Running::alone(request, Work::Transact(Box::new(work)));
            turn.advance(step, clients, &mut running);
            return turn.enter(running);
        }
        Ok(None) => Reply::new(&mut reply, protocol).ok(),
        Err(fault) => Reply::new(&mut reply, protocol).fault(&fault),
    }
    turn.reply(step, reply);
}

/// The transaction that a command begins, if it begins one.
type Begins = Result<Option<Purpose>, Fault>;

fn multi(block: &mut Block, db: u16) -> Begins {
    if block.multi.is_some() {
        return Err(Fault::fixed("ERR MULTI calls can not be nested"));
    }
    block.multi = Some(Multi::new(db));
    Ok(None)
}

fn discard(block: &mut Block) -> Begins {
    block.multi.take().ok_or(Fault::fixed("ERR DISCARD without MULTI"))?;
    block.watched.clear();
    Ok(None)
}

fn exec<H>(step: &Step<'_, H>, block: &mut Block) -> Begins {
    let multi = block.multi.take().ok_or(Fault::fixed("ERR EXEC without MULTI"))?;
    let watched = std::mem::take(&mut block.watched);
    if multi.is_broken {
        return Err(Fault::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    check_slots(step.config.cross_slot, &multi.queued, &watched)?;
    Ok(Some(Purpose::Exec { queued: multi.queued, watched }))
}

/// A queued command that the account does not allow. The account may have been changed since the commands were queued, so
/// each of them is looked at again.
fn forbidden<H>(step: &Step<'_, H>, block: &mut Block, member: Option<&Member>) -> Option<(Denied, Queued)> {
    let member = member.filter(|member| !member.permit.is_unrestricted())?;
    let queued = &mut block.multi.as_mut()?.queued;
    let denied = |queued: &Queued| {
        let args = queued.args.list();
        let request = deeds::Request { row: queued.row, args: &args, db: queued.db };
        request.check(&member.permit, step.numbers, step.config).err()
    };
    let (at, denied) = queued.iter().enumerate().find_map(|(at, queued)| Some((at, denied(queued)?)))?;
    Some((denied, queued.swap_remove(at)))
}

fn watch<H>(step: &Step<'_, H>, block: &Block, row: &Command, args: &[&[u8]]) -> Begins {
    if block.multi.is_some() {
        return Err(Fault::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    if block.watched.len() + args.len() - 1 > WATCHED_COUNT_MAX {
        return Err(Fault::fixed("ERR a connection watches at most 1024 keys"));
    }
    step.config.cross_slot.check(row, args)?;
    Ok(Some(Purpose::Watch))
}
