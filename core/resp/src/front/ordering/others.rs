//! Begins the commands that the front carries out itself.

use super::running::{Running, Work};
use super::turn::Turn;
use super::{accounts, logins, multi};
use crate::front::access::tickets::Part;
use crate::front::clients::asker::Asker;
use crate::front::clients::client_command::{client as carry_out, kill};
use crate::front::clients::immediate::answer;
use crate::front::clients::list::Clients;
use crate::front::clients::pubsub;
use crate::front::execution::keyspace::{Walk, part_of};
use crate::front::host::Host;
use crate::front::kinds::FrontKind;
use crate::front::request::{Args, Request};
use crate::front::step::Step;
use crate::{Command, Fault, Front, Protocol, Reply};
use ramhold_base::{ConnId, Effect};

pub fn begin(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    asker: &Asker,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
) {
    let Asker { conn, protocol, db, .. } = *asker;
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, protocol);
    match front.kind() {
        FrontKind::Transaction => return multi::begin(turn, step, clients, asker, (row, front), args),
        FrontKind::Login => return logins::begin(turn, step, clients, asker, (row, front), args),
        FrontKind::Accounts => return accounts::begin(turn, step, asker, (row, front), args),
        FrontKind::Connection => of_connection(step, clients, conn, front, args, &mut bytes),
        FrontKind::Client => carry_out(step.now, clients, conn, front, args, &mut reply),
        FrontKind::OverKeys => {
            if !walk(turn, step, asker, (row, front), args, &mut reply) {
                return;
            }
        }
        FrontKind::Slots => return slots(turn, step, db, (row, front), args),
        FrontKind::Subscription => {
            pubsub::subscription(clients, conn, (row, front), args, &mut reply);
        }
        FrontKind::Listeners | FrontKind::Publication => {
            let asked = pubsub::ask_all(step, clients, turn.access, conn, (row, front), args, &mut reply);
            if let Some((id, asked)) = asked {
                let request = Request { id, row, args: Args::of(args), db, started: step.now };
                return turn.enter(Running::alone(request, Work::Others(asked)));
            }
        }
        FrontKind::Immediate => {
            answer(step, clients, turn.access, asker, front, args, reply);
        }
    }
    turn.reply(step, bytes);
}

fn of_connection(
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    conn: ConnId,
    front: Front,
    args: &[&[u8]],
    out: &mut Vec<u8>,
) {
    if front == Front::Reset {
        clients.leave_all(conn);
    }
    let client = clients.asking(conn);
    let mut reply = Reply::new(out, client.protocol);
    match front {
        Front::Select => match step.config.database_of(args[1]) {
            Ok(db) => {
                client.db = db;
                reply.ok();
            }
            Err(fault) => reply.fault(&fault),
        },
        Front::Quit => {
            reply.ok();
            client.closes = true;
        }
        Front::Reset => {
            client.reset(logins::stranger(step.config, step.host));
            Reply::new(out, Protocol::Resp2).simple("RESET");
        }
        Front::ClientReply => client.replies.choose(args[2], &mut reply),
        Front::ClientKill => {
            for conn in kill(clients, step.host.roster(), conn, &args[2..], &mut reply) {
                step.effects.push(Effect::Close { conn });
            }
        }
        _ => reply.fault(&Fault::SYNTAX),
    }
}

/// Begins a walk over the keys of the client's database. Returns true if the reply is written.
fn walk(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    asker: &Asker,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
    reply: &mut Reply<'_>,
) -> bool {
    let id = turn.next_command();
    let db = asker.db;
    let known = turn.access.databases.known(db);
    let served = part_of(asker, known, step.host);
    let started = step.now;
    let entered = |work| {
        let request = Request { id, row, args: Args::of(args), db, started };
        Running::alone(request, work)
    };
    let mut walk = match Walk::new(front, args, known, served) {
        Ok(walk) => walk,
        Err(fault) => {
            reply.fault(&fault);
            return true;
        }
    };
    if known.is_none() && front != Front::FlushAll {
        turn.access.wait_for_table(step, db, id);
        turn.enter(entered(Work::Waiting));
        return false;
    }
    if walk.begin(step, turn.access, Part::of(id), reply) {
        return true;
    }
    turn.enter(entered(Work::Walk(Box::new(walk))));
    false
}

/// Begins a command that needs the description of the database's table.
fn slots(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    db: u16,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
) {
    let id = turn.next_command();
    let work = match turn.access.databases.table(db) {
        Some(_) => {
            turn.access.ask_table(step, db, id);
            Work::Cluster(front)
        }
        None => {
            turn.access.wait_for_table(step, db, id);
            Work::Waiting
        }
    };
    let request = Request { id, row, args: Args::of(args), db, started: step.now };
    turn.enter(Running::alone(request, work));
}
