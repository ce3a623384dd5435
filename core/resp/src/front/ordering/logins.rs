//! `AUTH` and `HELLO`: a client becomes somebody.
//!
//! A password is compared by the process around the front, which takes long on purpose. Meanwhile the command runs alone on
//! its connection, and no other connection waits. Its words are not kept: no log may show a password.
//!
//! Not here: who may try how often (`access`), the words (`clients::greeting`).

use super::lines::Parts;
use super::running::{Running, Work};
use super::slow::{Login, Wish};
use super::turn::Turn;
use crate::front::clients::acl::{name_of, note_login};
use crate::front::clients::asker::Asker;
use crate::front::clients::greeting::{Given, Hello, WRONG_PASSWORD, greet};
use crate::front::clients::list::Clients;
use crate::front::config::RespConfig;
use crate::front::host::{Attempt, Host};
use crate::front::request::{Args, CommandId, Request};
use crate::front::step::Step;
use crate::{Command, Fault, Front, Reply};
use ramhold_access::account::DEFAULT;
use ramhold_access::{AtOnce, Begun, Member, Verdict};
use ramhold_base::{ConnId, SecretToken};
use std::sync::Arc;

const NO_PASSWORD_WANTED: Fault = Fault::fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is \
     correct?",
);
const BUSY: Fault = Fault::fixed("TRYAGAIN the password was not checked: too many logins are under way");
const TOO_OFTEN: Fault = Fault::fixed(
    "TRYAGAIN the password was not checked: too many wrong ones came from this address; wait a minute",
);

/// The account that a client is without logging in.
pub fn stranger(config: &RespConfig, host: &impl Host) -> Option<Arc<Member>> {
    if config.password.is_some() { None } else { host.roster().of_strangers().cloned() }
}

pub fn begin(
    turn: &mut Turn<'_>,
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    asker: &Asker,
    (row, front): (&'static Command, Front),
    args: &[&[u8]],
) {
    let client = clients.asking(asker.conn);
    let read = match front {
        Front::Auth => Given::of_auth(&args[1..]).map(|given| (Wish::default(), Some(given))),
        _ => Hello::read(client, &args[1..]).map(|hello| {
            let wish = Wish { hello: Some(hello.protocol), name: hello.name.map(<[u8]>::to_vec) };
            (wish, hello.given)
        }),
    };
    let (wish, given) = match read {
        Ok(read) => read,
        Err(fault) => return turn.fault(step, asker.protocol, &fault),
    };
    let mut reply = Vec::new();
    let begun = match given {
        Some(given) => compare(step, clients, asker.conn, &given),
        None => {
            greet(client, wish.hello.unwrap_or_default(), &mut reply);
            return turn.reply(step, reply);
        }
    };
    let user = given.map_or(&b""[..], |given| given.user);
    match begun {
        Ok(Begun::Checking(token)) => {
            let id = turn.next_command();
            turn.access.secrets.insert(token, id);
            let args = Args::of(&[args[0], b"(redacted)"]);
            let request = Request { id, row, args, db: asker.db, started: step.now };
            let login = Login { user: user.to_vec(), wish };
            return turn.enter(Running::alone(request, Work::Login(login)));
        }
        Ok(Begun::Right(member)) => become_member(clients, asker.conn, member, wish, &mut reply),
        Ok(Begun::Busy) => Reply::new(&mut reply, asker.protocol).fault(&BUSY),
        Ok(Begun::TooOften) => {
            note_login(step, clients, asker.conn, (user, row.name));
            Reply::new(&mut reply, asker.protocol).fault(&TOO_OFTEN);
        }
        Err(fault) => {
            if fault == WRONG_PASSWORD {
                note_login(step, clients, asker.conn, (user, row.name));
            }
            Reply::new(&mut reply, asker.protocol).fault(&fault);
        }
    }
    turn.reply(step, reply);
}

/// Compares what a client gave, as far as that is done at once.
fn compare(
    step: &mut Step<'_, impl Host>,
    clients: &Clients,
    conn: ConnId,
    given: &Given<'_>,
) -> Result<Begun, Fault> {
    let Given { user, password, is_old_form } = *given;
    let address = clients.get(conn).and_then(|client| client.addresses).map(|(peer, _)| peer.ip());
    // The server's own password takes the place of those of the default account.
    if let Some(wanted) = step.config.password.as_ref().filter(|_| user == DEFAULT.as_bytes()) {
        let member = step.host.roster().member(user).filter(|member| member.account.is_on()).cloned();
        let is_right = || is_same(wanted.shown().as_bytes(), password);
        return match (step.host.login_at_once(step.now, address, &is_right), member) {
            (AtOnce::Right, Some(member)) => Ok(Begun::Right(member)),
            (AtOnce::TooOften, _) => Ok(Begun::TooOften),
            (AtOnce::Right | AtOnce::Wrong, _) => Err(WRONG_PASSWORD),
        };
    }
    if is_old_form && step.host.roster().of_strangers().is_some() {
        return Err(NO_PASSWORD_WANTED);
    }
    Ok(step.host.login(step.now, Attempt { address, name: user, password }, step.effects))
}

fn become_member(clients: &mut Clients, conn: ConnId, member: Arc<Member>, wish: Wish, out: &mut Vec<u8>) {
    let client = clients.asking(conn);
    client.admission.member = Some(member);
    client.admission.stranger_bytes = 0;
    if let Some(name) = wish.name {
        client.name = name;
    }
    match wish.hello {
        Some(protocol) => greet(client, protocol, out),
        None => Reply::new(out, client.protocol).ok(),
    }
}

/// Takes the verdict on a login that was being checked.
pub fn on_verdict(step: &Step<'_, impl Host>, parts: &mut Parts, token: SecretToken, verdict: Verdict) {
    let Some(command) = parts.access.secrets.remove(&token) else { return };
    let Parts { lines, clients, .. } = parts;
    let CommandId { conn, .. } = command;
    let Some(protocol) = clients.get(conn).map(|client| client.protocol) else { return };
    let Some((queue, at)) = lines.find(command) else { return };
    let Running { request, work, reply, .. } = queue.at_mut(at);
    let Work::Login(Login { user, wish }) = work else { return };
    reply.clear();
    // The account may have been changed while the password was compared.
    let may_still = |present: &&Arc<Member>, stored: &String| {
        let account = &present.account;
        account.is_on() && (account.needs_no_secret() || account.secrets().contains(stored))
    };
    let present = match &verdict {
        Verdict::Right { member, stored } => {
            step.host.roster().present(member).filter(|present| may_still(present, stored)).cloned()
        }
        _ => None,
    };
    match (present, verdict) {
        (Some(member), _) => become_member(clients, conn, member, std::mem::take(wish), reply),
        (None, Verdict::Right { .. } | Verdict::Wrong) => {
            note_login(step, clients, conn, (user, name_of(step, request.row)));
            Reply::new(reply, protocol).fault(&WRONG_PASSWORD);
        }
        (None, Verdict::Busy) => Reply::new(reply, protocol).fault(&BUSY),
        (None, Verdict::TooOften) => {
            note_login(step, clients, conn, (user, name_of(step, request.row)));
            Reply::new(reply, protocol).fault(&TOO_OFTEN);
        }
        (None, Verdict::Failed(why)) => {
            Reply::new(reply, protocol)
                .fault(&Fault::said(format!("TRYAGAIN the password was not checked: {why}")));
        }
    }
    *work = Work::Done;
    if queue.note_done(at, protocol) {
        lines.touched.push(conn);
    }
}

/// Compares in the same time, wherever the first difference is.
fn is_same(wanted: &[u8], given: &[u8]) -> bool {
    let differs = |at: usize| wanted[at] ^ given.get(at).copied().unwrap_or(!wanted[at]);
    (0..wanted.len()).fold(u8::from(wanted.len() != given.len()), |sum, at| sum | differs(at)) == 0
}
