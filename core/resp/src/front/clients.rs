//! Commands of clients about their connections: `CLIENT …`.
//!
//! Not here: the connections themselves (`connection`), lines of lists (`about`).

use super::connection::{Connection, Queued};
use super::immediate::is_publication;
use super::transact::Aside;
use super::{Resp, about};
use crate::fault::shown;
use crate::parse::integer;
use crate::{Fault, Front, Reply};
use ramhold_base::ConnId;
use std::net::SocketAddr;

/// Whether the command needs to know the connection that asks.
pub(super) fn is_of_client(front: Front) -> bool {
    matches!(
        front,
        Front::ClientId
            | Front::ClientSetName
            | Front::ClientGetName
            | Front::ClientInfo
            | Front::ClientList
            | Front::ClientNoEvict
            | Front::ClientNoTouch
            | Front::ClientSetInfo
    )
}

impl Resp {
    /// Carries out `CLIENT …`, about the asking connection or about all of them.
    pub(super) fn client(
        &mut self,
        connection: &mut Connection,
        front: Front,
        args: &[&[u8]],
        reply: &mut Reply<'_>,
    ) {
        match front {
            Front::ClientId => reply.integer(connection.id as i64),
            Front::ClientGetName if connection.name.is_empty() => reply.null(),
            Front::ClientGetName => reply.bulk(&connection.name),
            Front::ClientSetName => match check_name(args[2]) {
                Ok(()) => {
                    connection.name = args[2].to_vec();
                    reply.ok();
                }
                Err(fault) => reply.fault(&fault),
            },
            Front::ClientSetInfo => {
                let place = match args[2].to_ascii_lowercase().as_slice() {
                    b"lib-name" => Ok(&mut connection.library.0),
                    b"lib-ver" => Ok(&mut connection.library.1),
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
                    connection.no_evict = on
                } else {
                    connection.no_touch = on
                }
                reply.ok();
            }
            Front::ClientInfo => {
                let line = about::client_line(connection, self.now);
                reply.verbatim(&line);
            }
            Front::ClientList => match self.listed(connection, &args[2..]) {
                Ok(text) => reply.verbatim(&text),
                Err(fault) => reply.fault(&fault),
            },
            _ => reply.fault(&Fault::SYNTAX),
        }
    }

    fn listed(&self, own: &Connection, options: &[&[u8]]) -> Result<String, Fault> {
        let mut all: Vec<&Connection> =
            self.connections.values().map(|boxed| &**boxed).chain([own]).collect();
        all.sort_by_key(|connection| connection.id);
        match options {
            [] => {}
            [option, kind] if option.eq_ignore_ascii_case(b"type") => {
                let kind = Kind::parse(kind)?;
                all.retain(|connection| kind.fits(connection));
            }
            [option, ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
                let ids: Option<Vec<i64>> = ids.iter().map(|id| integer(id)).collect();
                let ids = ids.ok_or(Fault::fixed("ERR Invalid client ID"))?;
                all.retain(|connection| ids.contains(&(connection.id as i64)));
            }
            _ => return Err(Fault::SYNTAX),
        }
        Ok(all.into_iter().map(|connection| about::client_line(connection, self.now) + "\n").collect())
    }

    /// Carries out the commands that `EXEC` left for the end (about the connection, and messages), and writes
    /// their replies in between the others.
    pub(super) fn answer_aside(
        &mut self,
        connection: &mut Connection,
        queued: &[Queued],
        aside: &[Aside],
        out: &mut Vec<u8>,
    ) {
        if aside.is_empty() {
            return;
        }
        let others = std::mem::take(out);
        let mut written = 0;
        for Aside { start, index, front } in aside {
            out.extend_from_slice(&others[written..*start]);
            written = *start;
            let mut reply = Reply::new(out, connection.protocol);
            let args = queued[*index].args.list();
            if is_publication(*front) {
                reply.integer(self.publish_after(*front, &args) as i64);
            } else {
                self.client(connection, *front, &args, &mut reply);
            }
        }
        out.extend_from_slice(&others[written..]);
    }

    /// `CLIENT KILL`: chooses among the connections to this process, and returns those to be closed now.
    pub(super) fn kill(
        &mut self,
        own: &mut Connection,
        options: &[&[u8]],
        reply: &mut Reply<'_>,
    ) -> Vec<ConnId> {
        let chosen = match Chosen::parse(options) {
            Ok(chosen) => chosen,
            Err(fault) => {
                reply.fault(&fault);
                return Vec::new();
            }
        };
        // The asking connection is closed when it has its answer.
        own.closes |= !chosen.skips_own && chosen.fits(own);
        let mut ended = Vec::new();
        for (conn, connection) in self.connections.iter_mut().filter(|(_, other)| chosen.fits(other)) {
            connection.closes = true;
            ended.push(*conn);
        }
        match ended.len() as i64 + i64::from(own.closes) {
            0 if chosen.is_old_form => reply.fault(&Fault::fixed("ERR No such client")),
            _ if chosen.is_old_form => reply.ok(),
            count => reply.integer(count),
        }
        ended
    }
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

    fn fits(self, connection: &Connection) -> bool {
        match self {
            Kind::Normal => !connection.is_subscribed(),
            Kind::PubSub => connection.is_subscribed(),
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
    skips_own: bool,
    is_old_form: bool,
}

impl Chosen {
    fn parse(options: &[&[u8]]) -> Result<Chosen, Fault> {
        let mut chosen = Chosen {
            id: None,
            address: None,
            own_address: None,
            kind: None,
            skips_own: true,
            is_old_form: false,
        };
        let mut rest = options;
        if let [address] = rest {
            // The old form may end the asking connection, and is an error if it finds no connection.
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
                // There is one user, to whom all connections belong.
                b"user" if *value == b"default" => {}
                b"user" => return Err(Fault::said(format!("ERR No such user '{}'", shown(repeated(value))))),
                b"addr" => chosen.address = Some(value.to_vec()),
                b"laddr" => chosen.own_address = Some(value.to_vec()),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => chosen.skips_own = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => chosen.skips_own = false,
                _ => return Err(Fault::SYNTAX),
            }
        }
        if rest.is_empty() { Ok(chosen) } else { Err(Fault::SYNTAX) }
    }

    fn fits(&self, connection: &Connection) -> bool {
        let is = |address: Option<SocketAddr>, text: &[u8]| {
            address.is_some_and(|address| address.to_string().as_bytes() == text)
        };
        let (peer, own) = connection.addresses.unzip();
        self.id.is_none_or(|id| id == connection.id)
            && self.kind.is_none_or(|kind| kind.fits(connection))
            && self.address.as_ref().is_none_or(|text| is(peer, text))
            && self.own_address.as_ref().is_none_or(|text| is(own, text))
    }
}

/// A word as an error repeats it: up to a zero byte.
fn repeated(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

/// Refuses names that cannot stand as one word in a list of words or in a line.
pub(super) fn check_name(name: &[u8]) -> Result<(), Fault> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) && name.len() <= 1024 {
        return Ok(());
    }
    Err(Fault::fixed("ERR Client names cannot contain spaces, newlines or special characters."))
}
