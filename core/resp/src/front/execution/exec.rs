//! `EXEC`: carries out the commands that were queued since `MULTI`, one after the other over the same keys.
//!
//! Commands about the client, and messages, wait for the end: they happen only if the commands about keys have taken
//! effect.
//!
//! Not here: reading and writing the keys (`transact`), queueing (`block`).

use crate::front::access::Access;
use crate::front::bounds::{REPLY_BYTES_MAX, REPLY_TOO_LARGE};
use crate::front::clients::asker::Asker;
use crate::front::clients::block::{Queued, Watched};
use crate::front::clients::client_command::client;
use crate::front::clients::immediate::answer;
use crate::front::clients::list::Clients;
use crate::front::clients::pubsub::publish_after;
use crate::front::host::Host;
use crate::front::kinds::FrontKind;
use crate::front::request::Request;
use crate::front::step::Step;
use crate::{Call, Fault, Front, Reply, Run, Stop, Transaction};
use ramhold_base::ConnId;
use ramhold_base::planted::{Defect, planted};

/// The consequences of queued commands about the connection, once the other commands have taken effect.
#[derive(Debug)]
pub struct After {
    /// The database that the connection then has.
    pub db: u16,
    /// Commands whose replies are still to be written, with their places in the reply.
    pub aside: Vec<Aside>,
}

#[derive(Clone, Copy, Debug)]
pub struct Aside {
    /// Bytes of the reply of `EXEC` before the reply of this command.
    start: usize,
    /// Position in the list of queued commands.
    index: usize,
    front: Front,
}

/// Whether the watched keys are as they were.
pub enum Look {
    AsWatched,
    Changed,
    /// Some of them are not read yet.
    Unknown,
}

/// Compares the watched keys with what was read.
pub fn look(keys: &mut Transaction, watched: &[Watched]) -> Look {
    let mut look = Look::AsWatched;
    for ((db, key), version) in watched {
        match keys.version(*db, key) {
            Ok(present) if present != *version && !planted(Defect::RespWatchIgnored) => return Look::Changed,
            Ok(_) => {}
            Err(_) => look = Look::Unknown,
        }
    }
    look
}

/// Runs the queued commands over the keys that are known.
pub fn run(
    step: &mut Step<'_, impl Host>,
    (access, clients): (&Access, &mut Clients),
    request: &Request,
    queued: &[Queued],
    keys: &mut Transaction,
    mut reply: Reply<'_>,
) -> Result<After, Stop> {
    let time = step.host.time(step.now);
    let mut needs = false;
    let mut after = After { db: request.db, aside: Vec::new() };
    reply.array(queued.len());
    for (index, Queued { row, args, .. }) in queued.iter().enumerate() {
        let args = args.list();
        let start = reply.len();
        let ran = match row.run {
            Run::Keys(handler) | Run::Fast(_, handler) => {
                let reply = reply.by_ref();
                handler(&mut Call { args: &args, db: after.db, now: time, keys, reply })
            }
            Run::Front(Front::Select) => match step.config.database_of(args[1]) {
                Ok(selected) => {
                    after.db = selected;
                    reply.ok();
                    Ok(())
                }
                Err(fault) => Err(Stop::Fault(fault)),
            },
            Run::Front(front) => {
                match front.kind() {
                    FrontKind::Client | FrontKind::Publication => {
                        after.aside.push(Aside { start, index, front });
                    }
                    FrontKind::Transaction
                    | FrontKind::Login
                    | FrontKind::Accounts
                    | FrontKind::Connection
                    | FrontKind::OverKeys
                    | FrontKind::Slots
                    | FrontKind::Subscription
                    | FrontKind::Listeners
                    | FrontKind::Immediate => {
                        let asker = Asker::in_exec(request.id.conn, after.db, reply.protocol());
                        answer(step, clients, access, &asker, front, &args, reply.by_ref());
                    }
                }
                Ok(())
            }
            Run::Container(_) => Err(Stop::Fault(Fault::SYNTAX)),
        };
        match ran {
            Ok(()) => {}
            // The commands behind it may need more keys; all keys are read together.
            Err(Stop::Need) => needs = true,
            Err(Stop::Fault(fault)) => {
                reply.truncate(start);
                reply.fault(&fault);
            }
        }
        if reply.len() > REPLY_BYTES_MAX {
            return Err(Stop::Fault(REPLY_TOO_LARGE));
        }
    }
    if needs { Err(Stop::Need) } else { Ok(after) }
}

/// Carries out the commands that were left for the end (about the client, and messages), and writes their replies in
/// between the others.
pub fn answer_aside<H>(
    step: &Step<'_, H>,
    clients: &mut Clients,
    conn: ConnId,
    queued: &[Queued],
    aside: &[Aside],
    out: &mut Vec<u8>,
) {
    if aside.is_empty() {
        return;
    }
    let protocol = clients.get(conn).map(|client| client.protocol).unwrap_or_default();
    let others = std::mem::take(out);
    let mut written = 0;
    for Aside { start, index, front } in aside {
        out.extend_from_slice(&others[written..*start]);
        written = *start;
        let mut reply = Reply::new(out, protocol);
        let args = queued[*index].args.list();
        if front.kind() == FrontKind::Publication {
            reply.integer(publish_after(clients, *front, &args) as i64);
        } else {
            client(step.now, clients, conn, *front, &args, &mut reply);
        }
    }
    out.extend_from_slice(&others[written..]);
}
