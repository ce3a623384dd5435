//! Commands of clients about their connections: `CLIENT …`.
//!
//! Not here: the clients themselves (`client`), `CLIENT REPLY` (`replies`).

use super::client::Client;
use super::list::Clients;
use super::subscriptions::Kind as Names;
use crate::fault::shown;
use crate::parse::integer;
use crate::{Fault, Front, Protocol, Reply};
use ramhold_access::Roster;
use ramhold_base::{ConnId, Instant};
use std::net::SocketAddr;

/// Carries out `CLIENT …`, about the asking connection or about all of them.
pub fn client(
    now: Instant,
    clients: &mut Clients,
    conn: ConnId,
    front: Front,
    args: &[&[u8]],
    reply: &mut Reply<'_>,
) {
    let Some(client) = clients.get_mut(conn) else { return };
    match front {
        Front::ClientId => reply.integer(client.id as i64),
        Front::ClientGetName if client.name.is_empty() => reply.null(),
        Front::ClientGetName => reply.bulk(&client.name),
        Front::ClientSetName => match check_name(args[2]) {
            Ok(()) => {
                client.name = args[2].to_vec();
                reply.ok();
            }
            Err(fault) => reply.fault(&fault),
        },
        Front::ClientSetInfo => {
            let place = match args[2].to_ascii_lowercase().as_slice() {
                b"lib-name" => Ok(&mut client.library.0),
                b"lib-ver" => Ok(&mut client.library.1),
                other => Err(Fault::said(format!("ERR Unrecognized option '{}'", shown(other)))),
            };
            match place.and_then(|place| check_name(args[3]).map(|()| place)) {
                Ok(place) => {
                    *place = args[3].to_vec();
                    reply.ok();
                }
                Err(fault) => reply.fault(&fault),
            }
        }
        Front::ClientNoEvict | Front::ClientNoTouch => {
            let on = match args[2].to_ascii_lowercase().as_slice() {
                b"on" => true,
                b"off" => false,
                _ => return reply.fault(&Fault::SYNTAX),
            };
            if front == Front::ClientNoEvict {
                client.no_evict = on
            } else {
                client.no_touch = on
            }
            reply.ok();
        }
        Front::ClientInfo => {
            let line = line(client, now);
            reply.verbatim(&line);
        }
        Front::ClientList => match listed(now, clients, &args[2..]) {
            Ok(text) => reply.verbatim(&text),
            Err(fault) => reply.fault(&fault),
        },
        _ => reply.fault(&Fault::SYNTAX),
    }
}

/// The lines of all clients that the options name.
fn listed(now: Instant, clients: &Clients, options: &[&[u8]]) -> Result<String, Fault> {
    let mut all: Vec<&Client> = clients.all.values().collect();
    all.sort_by_key(|client| client.id);
    match options {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"type") => {
            let kind = Kind::parse(kind)?;
            all.retain(|client| kind.fits(client));
        }
        [option, ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
            let ids: Option<Vec<i64>> = ids.iter().map(|id| integer(id)).collect();
            let ids = ids.ok_or(Fault::fixed("ERR Invalid client ID"))?;
            all.retain(|client| ids.contains(&(client.id as i64)));
        }
        _ => return Err(Fault::SYNTAX),
    }
    Ok(all.into_iter().map(|client| line(client, now) + "\n").collect())
}

/// `CLIENT KILL`: chooses among the connections to this process, and returns those to be closed now.
pub fn kill(
    clients: &mut Clients,
    roster: &Roster,
    conn: ConnId,
    options: &[&[u8]],
    reply: &mut Reply<'_>,
) -> Vec<ConnId> {
    let chosen = match Chosen::parse(options, roster) {
        Ok(chosen) => chosen,
        Err(fault) => {
            reply.fault(&fault);
            return Vec::new();
        }
    };
    // The asking connection is closed when it has its answer.
    let mut own_closes = false;
    if let Some(own) = clients.get_mut(conn) {
        own.closes |= !chosen.skips_own && chosen.fits(own);
        own_closes = own.closes;
    }
    let mut ended = Vec::new();
    let others = clients.all.iter_mut().filter(|(other, _)| **other != conn);
    for (other, client) in others.filter(|(_, client)| chosen.fits(client)) {
        client.closes = true;
        ended.push(*other);
    }
    // The list of clients has an order of its own, which must not reach an effect.
    ended.sort_unstable();
    match ended.len() as i64 + i64::from(own_closes) {
        0 if chosen.is_old_form => reply.fault(&Fault::fixed("ERR No such client")),
        _ if chosen.is_old_form => reply.ok(),
        count => reply.integer(count),
    }
    ended
}

/// A client's line in `CLIENT LIST`.
pub fn line(client: &Client, now: Instant) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flags = if client.is_subscribed() {
        "P"
    } else if client.block.multi.is_some() {
        "x"
    } else {
        "N"
    };
    format!(
        "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={} watch={} cmd={} user={} \
         lib-name={} lib-ver={} resp={} tot-cmds={}",
        client.id,
        address(client.addresses.map(|(peer, _)| peer)),
        address(client.addresses.map(|(_, own)| own)),
        text(&client.name),
        now.since(client.activity.since).as_secs(),
        now.since(client.activity.last).as_secs(),
        client.db,
        client.subscriptions.names(Names::Channels).len(),
        client.subscriptions.names(Names::Patterns).len(),
        client.subscriptions.names(Names::ShardChannels).len(),
        client.block.multi.as_ref().map_or(-1, |multi| multi.queued.len() as i64),
        client.block.watched.len(),
        client.activity.command,
        client.user(),
        text(&client.library.0),
        text(&client.library.1),
        if client.protocol == Protocol::Resp3 { 3 } else { 2 },
        client.activity.commands,
    )
}

fn address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "?:0".into(), |address| address.to_string())
}

/// The kinds of connections that `TYPE` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    PubSub,
    /// Connections between servers of Redis. There are none here.
    OfServers,
}

impl Kind {
    fn parse(text: &[u8]) -> Result<Kind, Fault> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Kind::Normal),
            b"pubsub" => Ok(Kind::PubSub),
            b"master" | b"replica" | b"slave" => Ok(Kind::OfServers),
            _ => Err(Fault::said(format!("ERR Unknown client type '{}'", shown(repeated(text))))),
        }
    }

    fn fits(self, client: &Client) -> bool {
        match self {
            Kind::Normal => !client.is_subscribed(),
            Kind::PubSub => client.is_subscribed(),
            Kind::OfServers => false,
        }
    }
}

/// The conditions of `CLIENT KILL`, which ends the connections that fit all of them. If a condition is given
/// twice, the last one counts.
#[derive(Debug)]
struct Chosen {
    id: Option<u64>,
    /// Addresses are compared as text: `address` is that of the other side, `own_address` that of this side.
    address: Option<Vec<u8>>,
    own_address: Option<Vec<u8>>,
    kind: Option<Kind>,
    user: Option<Vec<u8>>,
    skips_own: bool,
    is_old_form: bool,
}

impl Chosen {
    fn parse(options: &[&[u8]], roster: &Roster) -> Result<Chosen, Fault> {
        let mut chosen = Chosen {
            id: None,
            address: None,
            own_address: None,
            kind: None,
            user: None,
            skips_own: true,
            is_old_form: false,
        };
        let mut rest = options;
        if let [address] = rest {
            // The old form may end the asking connection, and is an error if it finds no client.
            chosen.address = Some(address.to_vec());
            (chosen.skips_own, chosen.is_old_form) = (false, true);
            return Ok(chosen);
        }
        while let [option, value, more @ ..] = rest {
            rest = more;
            match option.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    chosen.id = Some(id.ok_or(Fault::fixed("ERR client-id should be greater than 0"))?);
                }
                b"type" => chosen.kind = Some(Kind::parse(value)?),
                // As in Redis, a name that no account has is told before what is wrong behind it.
                b"user" if roster.member(value).is_none() => {
                    return Err(Fault::said(format!("ERR No such user '{}'", shown(repeated(value)))));
                }
                b"user" => chosen.user = Some(value.to_vec()),
                b"addr" => chosen.address = Some(value.to_vec()),
                b"laddr" => chosen.own_address = Some(value.to_vec()),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => chosen.skips_own = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => chosen.skips_own = false,
                _ => return Err(Fault::SYNTAX),
            }
        }
        if rest.is_empty() { Ok(chosen) } else { Err(Fault::SYNTAX) }
    }

    fn fits(&self, client: &Client) -> bool {
        let is = |address: Option<SocketAddr>, text: &[u8]| {
            address.is_some_and(|address| address.to_string().as_bytes() == text)
        };
        let (peer, own) = client.addresses.unzip();
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind.fits(client))
            && self.user.as_ref().is_none_or(|user| client.user().as_bytes() == user)
            && self.address.as_ref().is_none_or(|text| is(peer, text))
            && self.own_address.as_ref().is_none_or(|text| is(own, text))
    }
}

/// A word as an error repeats it: up to a zero byte.
fn repeated(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

/// Refuses names that cannot stand as one word in a list of words or in a line.
pub fn check_name(name: &[u8]) -> Result<(), Fault> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) && name.len() <= 1024 {
        return Ok(());
    }
    Err(Fault::fixed("ERR Client names cannot contain spaces, newlines or special characters."))
}
