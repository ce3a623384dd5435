//! Changes of accounts (`ACL SETUSER`, `ACL DELUSER`), new passwords (`ACL GENPASS`), and what follows when accounts were told.
//!
//! The coordinator makes a change and tells all servers. The reply goes out when this server has been told, so that a client
//! that asks it next finds the change. The rules of a change are not kept in the request: no log may show a password.
//!
//! Not here: what rules mean (`access`), what is answered at once (`clients::acl`). Protocol: docs/protocols/access.md.

use super::lines::Parts;
use super::logins::stranger;
use super::running::{Running, Work};
use super::slow::Change;
use super::turn::Turn;
use crate::deeds;
use crate::fault::shown;
use crate::front::access::answer::Answer;
use crate::front::access::tickets::Part;
use crate::front::clients::asker::Asker;
use crate::front::clients::client::Client;
use crate::front::clients::subscriptions::Kind;
use crate::front::host::Host;
use crate::front::request::{Args, CommandId, Request};
use crate::front::step::Step;
use crate::parse::integer;
use crate::{Command, Fault, Front, Reply};
use ramhold_access::{Account, Member, whole_rules};
use ramhold_base::{Effect, Instant, SecretResult, SecretToken};
use ramhold_client_core::Operation;
use ramhold_wire::accounts::{AccountSet, AccountsChanged, Presence};
use std::sync::Arc;
use std::time::Duration;

/// Bits of a password that `GENPASS` makes when it is not asked for a number, and the most.
const BITS: i64 = 256;
const BITS_MAX: i64 = 4096;
/// Passwords that are being made at a time.
const MAKING_MAX: usize = 64;
const TOO_MANY: Fault = Fault::fixed("TRYAGAIN too many passwords are being made");
/// How long this server waits to be told of a change that it has asked for.
const TOLD_WAIT: Duration = Duration::from_secs(5);

pub fn begin(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    asker: &Asker,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
) {
    let id = turn.next_command();
    let begun = match front {
        // Logins have a queue of their own at the host, but share it with these.
        Front::AclGenPass if turn.access.making_count >= MAKING_MAX => Err(TOO_MANY),
        Front::AclGenPass => digits(&args[2..]).map(|digits| {
            let bytes = u16::try_from(digits.div_ceil(2)).unwrap_or(u16::MAX);
            turn.access.making_count += 1;
            turn.access.secrets.insert(step.host.random(bytes, step.effects), id);
            Change::Password(digits)
        }),
        _ => operation(step, front, &args[2..]).map(|operation| {
            turn.access.posted.push(operation, Part::of(id));
            Change::Asked(front)
        }),
    };
    match begun {
        Ok(change) => {
            let args = Args::of(&[args[0], args[1], b"(redacted)"]);
            let request = Request { id, row, args, db: asker.db, started: step.now };
            turn.enter(Running::alone(request, Work::Accounts(change)));
        }
        Err(fault) => turn.fault(step, asker.protocol, &fault),
    }
}

fn digits(args: &[&[u8]]) -> Result<usize, Fault> {
    let bits = match args {
        [] => Some(BITS),
        [bits] => integer(bits).filter(|bits| (1..=BITS_MAX).contains(bits)),
        _ => return Err(Fault::wrong_arity("acl|genpass")),
    };
    let bits = bits.ok_or(Fault::fixed(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
    ))?;
    Ok(usize::try_from(bits).unwrap_or_default().div_ceil(4))
}

/// The operation of a change, if its rules can be understood.
fn operation(step: &Step<'_, impl Host>, front: Front, args: &[&[u8]]) -> Result<Operation, Fault> {
    let name = |name: &[u8]| String::from_utf8(name.to_vec()).ok();
    if front == Front::AclDelUser {
        if args.contains(&b"default".as_slice()) {
            return Err(Fault::fixed("ERR The 'default' user cannot be removed"));
        }
        // A name that is no text is that of nobody.
        let names = args.iter().filter_map(|arg| name(arg)).collect();
        return Ok(Operation::RemoveAccounts { names });
    }
    let roster = step.host.roster();
    let told = |error: ramhold_access::AccountError| Fault::said(format!("ERR {error}"));
    let account = match roster.member(args[0]) {
        Some(member) => member.account.clone(),
        None => Account::new(&shown(args[0])).map_err(told)?,
    };
    account.check_words(&args[1..], roster.catalog()).map_err(told)?;
    let rules = whole_rules(&args[1..]).map_err(|fault| Fault::said(format!("ERR {fault}")))?;
    let rules = rules.into_iter().map(Into::into).collect();
    Ok(Operation::SetAccount(AccountSet { name: account.name().to_owned(), rules, presence: Presence::Any }))
}

/// Takes the coordinator's answer to a change. Returns whether the reply is written.
pub fn on_answer(
    step: &Step<'_, impl Host>,
    waiting: &mut Vec<(Instant, CommandId)>,
    command: CommandId,
    change: &mut Change,
    answer: Answer<'_>,
    mut reply: Reply<'_>,
) -> bool {
    let Change::Asked(front) = *change else { return false };
    match answer {
        Answer::Accounts(AccountsChanged { obstacle: Some(obstacle), .. }) => {
            reply.fault(&Fault::said(format!("ERR {obstacle}")));
            true
        }
        Answer::Accounts(changed) => {
            *change = Change::Made(front, changed);
            if is_told(step, changed) {
                write(front, changed, &mut reply);
                return true;
            }
            waiting.push((step.now + TOLD_WAIT, command));
            false
        }
        Answer::Fault(fault) => {
            reply.fault(&fault);
            true
        }
        other => {
            reply.fault(&Fault::said(format!("ERR the accounts were not changed: {other:?}")));
            true
        }
    }
}

fn is_told(step: &Step<'_, impl Host>, changed: AccountsChanged) -> bool {
    step.host.roster().version().is_some_and(|version| version >= changed.version)
}

fn write(front: Front, changed: AccountsChanged, reply: &mut Reply<'_>) {
    match front {
        Front::AclDelUser => reply.integer(i64::from(changed.count)),
        _ => reply.ok(),
    }
}

/// The accounts were told anew, or time has passed: ends the changes that need not wait any more.
pub fn end_changes(step: &Step<'_, impl Host>, parts: &mut Parts) {
    if parts.access.changes.is_empty() {
        return;
    }
    let Parts { lines, clients, access } = parts;
    access.changes.retain(|(until, command)| {
        let Some(protocol) = clients.get(command.conn).map(|client| client.protocol) else { return false };
        let Some((queue, at)) = lines.find(*command) else { return false };
        let Running { work, reply, .. } = queue.at_mut(at);
        let Work::Accounts(Change::Made(front, changed)) = *work else { return false };
        let is_late = *until <= step.now;
        if !is_late && !is_told(step, changed) {
            return true;
        }
        reply.clear();
        if is_told(step, changed) {
            write(front, changed, &mut Reply::new(reply, protocol));
        } else {
            let text =
                "UNKNOWN - the accounts are changed, but this server has not been told; see 'ramhold status'";
            Reply::new(reply, protocol).fault(&Fault::fixed(text));
        }
        *work = Work::Done;
        if queue.note_done(at, protocol) {
            lines.touched.push(command.conn);
        }
        false
    });
}

/// Takes random bytes for a new password.
pub fn on_random(parts: &mut Parts, token: SecretToken, result: &SecretResult) {
    let Some(command) = parts.access.secrets.remove(&token) else { return };
    parts.access.making_count = parts.access.making_count.saturating_sub(1);
    let Parts { lines, clients, .. } = parts;
    let Some(protocol) = clients.get(command.conn).map(|client| client.protocol) else { return };
    let Some((queue, at)) = lines.find(command) else { return };
    let Running { work, reply, .. } = queue.at_mut(at);
    let Work::Accounts(Change::Password(digits)) = work else { return };
    reply.clear();
    let mut writer = Reply::new(reply, protocol);
    match result {
        SecretResult::Random(bytes) if bytes.len() * 2 >= *digits => {
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writer.bulk(&text.as_bytes()[..*digits]);
        }
        SecretResult::Failed(why) => writer.fault(&Fault::said(format!("ERR no password was made: {why}"))),
        _ => writer.fault(&Fault::fixed("ERR no password was made")),
    }
    *work = Work::Done;
    if queue.note_done(at, protocol) {
        lines.touched.push(command.conn);
    }
}

/// The accounts were told anew: each client is what its account is now. The connections of accounts that are gone end, and
/// so do those of subscribers that may no longer hear what they listen to. A client that is waiting for the reply to a change
/// of accounts gets it before.
pub fn renew_members(step: &mut Step<'_, impl Host>, parts: &mut Parts) {
    let Parts { lines, clients, .. } = parts;
    let free = stranger(step.config, step.host);
    let mut closed = Vec::new();
    for (conn, client) in &mut clients.all {
        let Some(member) = client.admission.member.take() else {
            client.admission.member = free.clone();
            continue;
        };
        let present = step.host.roster().present(&member);
        client.admission.member = present.cloned();
        let goes_on = match present {
            Some(present) => Arc::ptr_eq(present, &member) || may_hear(step, client, present),
            None => false,
        };
        if !goes_on {
            client.closes = true;
            let is_changing = lines.all.get(conn).is_some_and(|line| line.queue.changes_accounts());
            closed.extend((!is_changing).then_some(*conn));
        }
    }
    // The list of clients has an order of its own, which must not reach an effect.
    closed.sort_unstable();
    closed.into_iter().for_each(|conn| step.effects.push(Effect::Close { conn }));
}

/// Whether an account may hear everything that a client listens to.
fn may_hear(step: &Step<'_, impl Host>, client: &Client, member: &Member) -> bool {
    if member.permit.is_unrestricted() || !client.is_subscribed() {
        return true;
    }
    [(Kind::Channels, "subscribe"), (Kind::Patterns, "psubscribe"), (Kind::ShardChannels, "ssubscribe")]
        .iter()
        .all(|(kind, word)| {
            let Some(row) = crate::find(word.as_bytes()) else { return true };
            client.subscriptions.names(*kind).iter().all(|name| {
                let request =
                    deeds::Request { row, args: &[word.as_bytes(), name.as_slice()], db: client.db };
                request.check(&member.permit, step.numbers, step.config).is_ok()
            })
        })
}
