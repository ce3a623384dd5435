//! `ACL …`, as far as it is answered at once from what this process knows of accounts.
//!
//! Not here: changes of accounts, `GENPASS` (`ordering::accounts`), logins (`ordering::logins`).

use super::asker::Asker;
use super::client_command::line;
use super::denials::{Denial, Reason};
use super::list::Clients;
use crate::commands::resolve;
use crate::deeds;
use crate::fault::shown;
use crate::front::host::Host;
use crate::front::step::Step;
use crate::{Command, Fault, Front, Reply};
use ramhold_access::{Catalog, Class, Denied, Member, Patterns, Permit, Selector};
use ramhold_base::ConnId;

/// The error for a request that the account does not allow.
pub fn refusal(denied: Denied, member: &Member, command: &str) -> Fault {
    match denied {
        Denied::Command => Fault::said(format!(
            "NOPERM User {} has no permissions to run the '{command}' command",
            member.name()
        )),
        Denied::Table(_) => Fault::fixed("NOPERM No permissions to access a database"),
        Denied::Key(..) => Fault::fixed("NOPERM No permissions to access a key"),
        Denied::Channel(_) => Fault::fixed("NOPERM No permissions to access a channel"),
    }
}

/// The full name of a command.
pub fn name_of<'a>(step: &'a Step<'_, impl Host>, row: &'static Command) -> &'a str {
    let entry = step.numbers.get(row).and_then(|number| step.host.roster().catalog().entry(number));
    entry.map_or(row.name, |entry| &entry.name)
}

/// Notes a request that the account of a client does not allow.
pub fn note(
    step: &Step<'_, impl Host>,
    clients: &mut Clients,
    conn: ConnId,
    (denied, request): (Denied, &deeds::Request<'_>),
) {
    let Some(client) = clients.get(conn) else { return };
    let command = name_of(step, request.row).as_bytes();
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, command),
        Denied::Table(_) => (Reason::Table, command),
        Denied::Key(_, None) => (Reason::Key, &b"*"[..]),
        Denied::Key(_, Some(at)) => (Reason::Key, request.key(at)),
        Denied::Channel(at) => (Reason::Channel, request.channel(at)),
    };
    let (user, client_line) = (client.user().to_owned(), line(client, step.now));
    let is_in_multi = client.block.multi.is_some();
    let denial = Denial { reason, is_in_multi, object, user: user.as_bytes(), client: &client_line };
    clients.denials.note(step.host.time(step.now), &denial);
}

/// Notes a login that failed.
pub fn note_login(
    step: &Step<'_, impl Host>,
    clients: &mut Clients,
    conn: ConnId,
    (user, command): (&[u8], &str),
) {
    let Some(client) = clients.get(conn) else { return };
    let (client_line, is_in_multi) = (line(client, step.now), client.block.multi.is_some());
    let object = command.as_bytes();
    let denial = Denial { reason: Reason::Login, is_in_multi, object, user, client: &client_line };
    clients.denials.note(step.host.time(step.now), &denial);
}

pub fn answer(
    step: &mut Step<'_, impl Host>,
    clients: &mut Clients,
    asker: &Asker,
    front: Front,
    args: &[&[u8]],
    mut reply: Reply<'_>,
) {
    let roster = step.host.roster();
    match front {
        Front::AclWhoAmI => {
            let user = clients.get(asker.conn).map_or("", |client| client.user());
            reply.bulk(user.as_bytes());
        }
        Front::AclUsers => {
            let names: Vec<&str> = roster.members().map(|member| member.name()).collect();
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        Front::AclList => {
            reply.array(roster.members().count());
            for member in roster.members() {
                let name = [b"user ", member.name().as_bytes()].concat();
                reply.bulk(&[vec![name], member.account.rules()].concat().join(&b' '));
            }
        }
        Front::AclGetUser => match roster.member(args[2]) {
            Some(member) => describe(member, &mut reply),
            None => reply.null(),
        },
        Front::AclCat => match args.get(2..) {
            Some([]) | None => {
                reply.array(Class::ALL.len());
                Class::ALL.iter().for_each(|class| reply.bulk(class.name().as_bytes()));
            }
            Some([name]) => match Class::of(&shown(name)) {
                Some(class) => list_class(roster.catalog(), class, &mut reply),
                None => reply.fault(&Fault::said(format!("ERR Unknown category '{}'", shown(name)))),
            },
            Some(_) => reply.fault(&Fault::wrong_arity("acl|cat")),
        },
        Front::AclDryRun => match dry_run(step, asker, args) {
            Ok(None) => reply.ok(),
            Ok(Some(text)) => reply.bulk(text.as_bytes()),
            Err(fault) => reply.fault(&fault),
        },
        Front::AclLog => {
            let time = step.host.time(step.now);
            clients.denials.answer(time, args.get(2..).unwrap_or_default(), &mut reply);
        }
        Front::AclFile => reply.ok(),
        _ => reply.fault(&Fault::SYNTAX),
    }
}

/// The commands of this door that are in a class.
fn list_class(catalog: &Catalog, class: Class, reply: &mut Reply<'_>) {
    let is_of_door =
        |name: &str| crate::commands::find(name.split('|').next().unwrap_or(name).as_bytes()).is_some();
    let names: Vec<&str> = catalog
        .iter()
        .filter(|(_, entry)| entry.classes.has(class) && is_of_door(&entry.name))
        .map(|(_, entry)| entry.name.as_str())
        .collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

/// A sentence that says what the account may not do; none: it may.
fn dry_run(step: &Step<'_, impl Host>, asker: &Asker, args: &[&[u8]]) -> Result<Option<String>, Fault> {
    let roster = step.host.roster();
    let member = roster.member(args[2]);
    let member = member.ok_or_else(|| Fault::said(format!("ERR User '{}' not found", shown(args[2]))))?;
    // As in Redis, whether the account is on makes no difference.
    let mut account = member.account.clone();
    let is_set = account.set_words(&[b"on"], roster.catalog());
    is_set.map_err(|error| Fault::said(format!("ERR {error}")))?;
    let permit = Permit::new(&account, roster.catalog());
    let request = &args[3..];
    if crate::find(request[0]).is_none() {
        return Err(Fault::said(format!("ERR Command '{}' not found", shown(request[0]))));
    }
    let row = resolve(request)?;
    let request = deeds::Request { row, args: request, db: asker.db };
    let user = member.name();
    Ok(request.check(&permit, step.numbers, step.config).err().map(|denied| match denied {
        Denied::Command => {
            format!("User {user} has no permissions to run the '{}' command", name_of(step, row))
        }
        Denied::Table(_) => format!("User {user} has no permissions to access the database"),
        Denied::Key(_, None) => format!("User {user} has no permissions to access all keys"),
        Denied::Key(_, Some(at)) => {
            format!("User {user} has no permissions to access the '{}' key", shown(request.key(at)))
        }
        Denied::Channel(at) => {
            format!("User {user} has no permissions to access the '{}' channel", shown(request.channel(at)))
        }
    }))
}

/// `ACL GETUSER`
fn describe(member: &Member, reply: &mut Reply<'_>) {
    let account = &member.account;
    let (first, further) = account.selectors().split_first().expect("the first one is always there");
    reply.map(7);
    reply.bulk(b"flags");
    let flags = [if account.is_on() { "on" } else { "off" }, "nopass"];
    let flags = &flags[..1 + usize::from(account.needs_no_secret())];
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"passwords");
    reply.array(account.secrets().len());
    account.secrets().iter().for_each(|secret| reply.bulk(secret.as_bytes()));
    describe_selector(first, reply);
    reply.bulk(b"selectors");
    reply.array(further.len());
    for selector in further {
        reply.map(4);
        describe_selector(selector, reply);
    }
}

/// Four entries of a map.
fn describe_selector(selector: &Selector, reply: &mut Reply<'_>) {
    let rules = selector.rules();
    let of = |signs: &[u8]| -> Vec<u8> {
        let has_sign = |rule: &&Vec<u8>| rule.first().is_some_and(|first| signs.contains(first));
        rules.iter().filter(has_sign).cloned().collect::<Vec<_>>().join(&b' ')
    };
    let tables = selector.tables().into_iter().flat_map(Patterns::iter);
    let tables: Vec<Vec<u8>> = tables.map(|pattern| [b"table=", pattern].concat()).collect();
    for (name, text) in
        [("commands", of(b"+-")), ("keys", of(b"~%")), ("channels", of(b"&")), ("tables", tables.join(&b' '))]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}
