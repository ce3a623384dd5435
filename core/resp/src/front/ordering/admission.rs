//! Decides whether a request may begin now, and what becomes of it.
//!
//! Nothing is begun here. A request that must wait leaves no trace, because it is taken again later.

use super::queue::Queue;
use crate::commands::resolve;
use crate::deeds;
use crate::front::access::tables::Databases;
use crate::front::clients::acl;
use crate::front::clients::client::Client;
use crate::front::host::Host;
use crate::front::step::Step;
use crate::{Command, Fault, Flags, Front, Protocol, Reply, Run};
use ramhold_access::Denied;
use ramhold_base::hash::PlacementHasher;

/// The fate of a request.
pub enum Admitted {
    /// The request is empty.
    Nothing,
    /// The request has to wait for running commands.
    Later,
    /// The request is over, with this reply.
    Replied(Vec<u8>),
    /// The account does not allow the request, which is of this row and in this database.
    Denied {
        row: &'static Command,
        db: u16,
        denied: Denied,
        reply: Vec<u8>,
    },
    Keys(KeyRequest),
    Front(&'static Command, Front),
}

/// A command about keys, of a client with these settings.
pub struct KeyRequest {
    pub row: &'static Command,
    pub db: u16,
    pub protocol: Protocol,
    /// Hashes of the keys, if other commands are under way.
    pub keys: Vec<u64>,
}

pub fn admit(
    step: &mut Step<'_, impl Host>,
    client: &mut Client,
    (queue, databases): (&Queue, &Databases),
    hasher: &PlacementHasher,
    args: &[&[u8]],
) -> Admitted {
    if args.is_empty() {
        return Admitted::Nothing;
    }
    // A command that runs alone may change the state of the connection: its database, its transaction,
    // its watched keys.
    if queue.runs_alone() {
        return Admitted::Later;
    }
    let row = match check(client, args) {
        Ok(row) => row,
        Err(fault) => return Admitted::Replied(refused(step, client, args, fault)),
    };
    if let Some(member) = &client.admission.member
        && !member.permit.is_unrestricted()
    {
        let request = deeds::Request { row, args, db: client.database() };
        if let Err(denied) = request.check(&member.permit, step.numbers, step.config) {
            let fault = acl::refusal(denied, member, acl::name_of(step, row));
            let db = request.db;
            return Admitted::Denied { row, db, denied, reply: refused(step, client, args, fault) };
        }
    }
    if let Some(multi) = &mut client.block.multi
        && !row.passes_multi()
    {
        let mut reply = Vec::new();
        let mut writer = Reply::new(&mut reply, client.protocol);
        match multi.queue(step.config, databases, row, args) {
            Ok(()) => writer.simple("QUEUED"),
            Err(fault) => writer.fault(&fault),
        }
        count(step, client, row);
        return Admitted::Replied(reply);
    }
    if let Run::Front(front) = row.run {
        if front.waits() && !queue.is_empty() {
            return Admitted::Later;
        }
        count(step, client, row);
        return Admitted::Front(row, front);
    }
    let keys = if queue.is_empty() { Vec::new() } else { hashes(hasher, row, args) };
    if !queue.is_empty() && queue.must_wait(&keys, row.flags.has(Flags::WRITE)) {
        return Admitted::Later;
    }
    count(step, client, row);
    // A quorum table carries out each key by itself, and has errors of its own for commands that need more.
    if let Run::Keys(_) = row.run
        && !databases.is_quorum(client.db)
        && let Err(fault) = step.config.cross_slot.check(row, args)
    {
        return Admitted::Replied(written(client.protocol, &fault));
    }
    Admitted::Keys(KeyRequest { row, db: client.db, protocol: client.protocol, keys })
}

/// The reply to a request that is refused before it begins. A transaction that it was to belong to is broken.
fn refused<H>(step: &mut Step<'_, H>, client: &mut Client, args: &[&[u8]], fault: Fault) -> Vec<u8> {
    step.stats.faults += 1;
    client.block.break_multi();
    let is_exec = args[0].eq_ignore_ascii_case(b"exec");
    let fault = if is_exec { client.block.abort(&fault) } else { fault };
    written(client.protocol, &fault)
}

fn written(protocol: Protocol, fault: &Fault) -> Vec<u8> {
    let mut reply = Vec::new();
    Reply::new(&mut reply, protocol).fault(fault);
    reply
}

fn count<H>(step: &mut Step<'_, H>, client: &mut Client, row: &'static Command) {
    step.stats.commands += 1;
    client.activity.commands += 1;
    client.activity.last = step.now;
    client.activity.command = row.name;
}

/// The row of a request's command, if the client may use it in this way.
fn check(client: &Client, args: &[&[u8]]) -> Result<&'static Command, Fault> {
    let row = resolve(args)?;
    if !client.is_known() && !row.flags.has(Flags::NO_AUTH) {
        return Err(Fault::NO_LOGIN);
    }
    if client.is_subscribed() && client.protocol == Protocol::Resp2 && !row.may_subscriber() {
        let text = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context",
            row.name
        );
        return Err(Fault::said(text));
    }
    Ok(row)
}

/// Hashes of a command's keys. The database is left out, because MOVE and COPY concern two databases.
pub fn hashes(hasher: &PlacementHasher, row: &Command, args: &[&[u8]]) -> Vec<u64> {
    row.keys.of(args).map(|key| hasher.hash(key).0).collect()
}
