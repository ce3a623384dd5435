//! Messages to subscribers, across the cluster.
//!
//! Each server knows the subscribers that are connected to it. The server of a publisher has all servers
//! told, and hears from each how many subscribers heard the message. The server of a client that asks with
//! `PUBSUB` collects the names that clients of all servers listen to. A message is told at most once, as in
//! Redis: a subscriber misses it if the subscriber or its server is away. Messages to shard channels take the
//! same way, because a subscriber may be connected to any server.
//!
//! The messages of a transaction go out when its commit is done. `EXEC` then does not wait for other servers:
//! it tells how many subscribers this server has.

use super::list::Clients;
use super::subscriptions::{Kind, Subscribers};
use crate::front::access::Access;
use crate::front::access::peers::{Awaited, Peers};
use crate::front::bounds::{PATTERN_BYTES_MAX, PATTERN_TOO_LONG};
use crate::front::host::Host;
use crate::front::kinds::FrontKind;
use crate::front::request::CommandId;
use crate::front::step::{Step, send};
use crate::{Command, Fault, Front, Reply};
use ramhold_base::glob::{Case, matches};
use ramhold_base::{ConnId, Effects};
use ramhold_wire::control::Message as Request;
use ramhold_wire::decode;
use ramhold_wire::pubsub::{
    Listened, Listeners, ListenersTold, NAMES_BYTES_MAX, Name, Publish as Message, Published,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which another server's answer is awaited.
const PEER_TIMEOUT: Duration = Duration::from_secs(1);
const TOO_LONG: Fault = Fault::fixed("ERR the channels that are asked for have at most 1048576 bytes");

/// A message or question that not all other servers have answered yet.
#[derive(Debug)]
pub struct Asked {
    front: Front,
    unanswered: usize,
    gathered: Gathered,
}

/// The answers of all servers so far.
#[derive(Debug)]
enum Gathered {
    /// Subscribers that heard a message.
    Heard(u64),
    /// Names that are listened to, with the number of listeners.
    Names(BTreeMap<Vec<u8>, u64>),
}

impl Asked {
    /// Adds a server's answer, and returns whether it was the last one. `None`: the server does not answer.
    pub fn add(&mut self, body: Option<&[u8]>) -> bool {
        self.gathered.add(body);
        self.unanswered -= 1;
        self.unanswered == 0
    }

    pub fn reply(&self, args: &[&[u8]], reply: &mut Reply<'_>) {
        self.gathered.reply(self.front, args, reply);
    }
}

impl Gathered {
    /// Adds a server's answer. `None`: the server does not answer.
    fn add(&mut self, body: Option<&[u8]>) {
        let Some(body) = body else { return };
        match self {
            Gathered::Heard(heard) => *heard += decode::<Published>(body).map_or(0, |told| told.heard),
            Gathered::Names(names) => {
                for Name { name, count } in
                    decode::<ListenersTold>(body).map_or(Vec::new(), |told| told.names)
                {
                    *names.entry(name).or_default() += count;
                }
            }
        }
    }

    fn reply(&self, front: Front, args: &[&[u8]], reply: &mut Reply<'_>) {
        match self {
            Gathered::Heard(heard) => reply.integer(*heard as i64),
            Gathered::Names(names) => match front {
                Front::PubSubNumPat => reply.integer(names.len() as i64),
                Front::PubSubNumSub | Front::PubSubShardNumSub => {
                    reply.array(2 * (args.len() - 2));
                    for name in &args[2..] {
                        reply.bulk(name);
                        reply.integer(names.get(*name).copied().unwrap_or(0) as i64);
                    }
                }
                _ => {
                    reply.array(names.len());
                    names.keys().for_each(|name| reply.bulk(name));
                }
            },
        }
    }
}

/// The kind of names that a command listens to or asks for.
fn kind_of(front: Front) -> Kind {
    match front {
        Front::PSubscribe | Front::PUnsubscribe | Front::PubSubNumPat => Kind::Patterns,
        Front::SSubscribe
        | Front::SUnsubscribe
        | Front::SPublish
        | Front::PubSubShardChannels
        | Front::PubSubShardNumSub => Kind::ShardChannels,
        _ => Kind::Channels,
    }
}

/// Carries out a command about subscriptions that this server can answer by itself.
pub fn subscription(
    clients: &mut Clients,
    conn: ConnId,
    (row, front): (&Command, Front),
    args: &[&[u8]],
    reply: &mut Reply<'_>,
) {
    let kind = kind_of(front);
    let Some(client) = clients.all.get_mut(&conn) else { return };
    let (own, subscribers) = (&mut client.subscriptions, &mut clients.subscribers);
    match front {
        Front::PSubscribe if args[1..].iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) => {
            reply.fault(&PATTERN_TOO_LONG);
        }
        Front::Subscribe | Front::PSubscribe | Front::SSubscribe => {
            for name in &args[1..] {
                if let Err(fault) = subscribers.enter(conn, own, kind, name) {
                    reply.fault(&fault);
                    break;
                }
                confirm(reply, row.name, Some(name), own.told(kind));
            }
        }
        _ => {
            let named: Vec<Vec<u8>> = args[1..].iter().map(|name| name.to_vec()).collect();
            let all: Vec<Vec<u8>> = own.names(kind).iter().cloned().collect();
            let names = if named.is_empty() { all } else { named };
            if names.is_empty() {
                confirm(reply, row.name, None, own.told(kind));
            }
            for name in &names {
                subscribers.leave(conn, own, kind, name);
                confirm(reply, row.name, Some(name), own.told(kind));
            }
        }
    }
}

/// Begins a command that concerns the subscribers of all servers. Returns what is asked of other servers, with the
/// name of the command that waits for their answers; otherwise the reply is written.
pub fn ask_all(
    step: &mut Step<'_, impl Host>,
    clients: &Clients,
    access: &mut Access,
    conn: ConnId,
    (row, front): (&Command, Front),
    args: &[&[u8]],
    reply: &mut Reply<'_>,
) -> Option<(CommandId, Asked)> {
    let kind = kind_of(front);
    match front {
        Front::PubSubChannels | Front::PubSubShardChannels if args.len() > 3 => {
            let name = row.name.to_ascii_uppercase();
            reply.fault(&Fault::said(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
            )));
            return None;
        }
        Front::PubSubNumSub | Front::PubSubShardNumSub
            if args[2..].iter().map(|name| name.len()).sum::<usize>() > NAMES_BYTES_MAX =>
        {
            reply.fault(&TOO_LONG);
            return None;
        }
        _ => {}
    }
    let command = access.direct.next_command(conn);
    let (others, gathered) = if front.kind() == FrontKind::Publication {
        let message = message(kind, args);
        let others = tell_others(step, &mut access.peers, command, &message);
        (others, Gathered::Heard(tell(clients, &message, step.effects)))
    } else {
        let message = question(front, kind, args);
        let others = tell_others(step, &mut access.peers, command, &message);
        let own = listeners(&clients.subscribers, &message).names.into_iter();
        (others, Gathered::Names(own.map(|named| (named.name, named.count)).collect()))
    };
    if others == 0 {
        gathered.reply(front, args, reply);
        return None;
    }
    Some((command, Asked { front, unanswered: others, gathered }))
}

/// Notes a message of a transaction that has taken effect; the message goes out at the end of the step.
/// Returns the number of subscribers that this server has for it.
pub fn publish_after(clients: &mut Clients, front: Front, args: &[&[u8]]) -> u64 {
    let kind = kind_of(front);
    clients.publications.push(message(kind, args));
    clients.subscribers.of(kind, args[1]).count() as u64
}

/// Sends the messages of transactions that have taken effect. Nobody waits for how many subscribers hear them.
pub fn send_publications(step: &mut Step<'_, impl Host>, clients: &mut Clients, peers: &mut Peers) {
    for message in std::mem::take(&mut clients.publications) {
        tell_others(step, peers, CommandId::NONE, &message);
        tell(clients, &message, step.effects);
    }
}

/// Has the other servers told or asked, and returns their number. `command` waits for their answers.
fn tell_others(
    step: &mut Step<'_, impl Host>,
    peers: &mut Peers,
    command: CommandId,
    message: &impl Request,
) -> usize {
    let servers = step.host.servers();
    let me = step.host.me();
    let mut count = 0;
    for (server, address) in servers.into_iter().filter(|(server, _)| *server != me) {
        peers.call(step, (server, address), message, PEER_TIMEOUT, Awaited::Listeners(command));
        count += 1;
    }
    count
}

/// Sends a message to the subscribers of this server, and returns their number.
fn tell(clients: &Clients, message: &Message, effects: &mut Effects) -> u64 {
    let mut count = 0;
    let kind = if message.shard == Some(true) { Kind::ShardChannels } else { Kind::Channels };
    for (conn, pattern) in clients.subscribers.of(kind, &message.channel) {
        let Some(client) = clients.get(conn) else { continue };
        let mut bytes = Vec::new();
        write_message(&mut Reply::new(&mut bytes, client.protocol), kind, pattern, message);
        send(conn, &bytes, effects);
        count += 1;
    }
    count
}

/// Takes a message that a client of another server has published.
pub fn on_publish(clients: &Clients, message: &Message, effects: &mut Effects) -> Published {
    Published { heard: tell(clients, message, effects) }
}

/// Names that clients of this server listen to.
pub fn listeners(subscribers: &Subscribers, message: &Listeners) -> ListenersTold {
    let kind = match message.kind {
        Listened::Channels => Kind::Channels,
        Listened::Patterns => Kind::Patterns,
        Listened::ShardChannels => Kind::ShardChannels,
    };
    let counted = |name: &Vec<u8>| Name { name: name.clone(), count: subscribers.count(kind, name) as u64 };
    if let Some(names) = &message.names {
        return ListenersTold { names: names.iter().map(|named| counted(&named.name)).collect() };
    }
    let pattern = message.pattern.as_ref();
    let fits = |name: &&Vec<u8>| pattern.is_none_or(|pattern| matches(pattern, name, Case::Matters));
    let mut left = NAMES_BYTES_MAX;
    let has_room = |name: &&Vec<u8>| match left.checked_sub(name.len()) {
        Some(after) => {
            left = after;
            true
        }
        None => false,
    };
    ListenersTold { names: subscribers.names(kind).filter(fits).take_while(has_room).map(counted).collect() }
}

fn question(front: Front, kind: Kind, args: &[&[u8]]) -> Listeners {
    let is_counted = matches!(front, Front::PubSubNumSub | Front::PubSubShardNumSub);
    let named = |name: &&[u8]| Name { name: name.to_vec(), count: 0 };
    Listeners {
        kind: match kind {
            Kind::Channels => Listened::Channels,
            Kind::Patterns => Listened::Patterns,
            Kind::ShardChannels => Listened::ShardChannels,
        },
        names: is_counted.then(|| args[2..].iter().map(named).collect()),
        pattern: args.get(2).filter(|_| !is_counted).map(|pattern| pattern.to_vec()),
    }
}

fn message(kind: Kind, args: &[&[u8]]) -> Message {
    let shard = (kind == Kind::ShardChannels).then_some(true);
    Message { channel: args[1].to_vec(), message: args[2].to_vec(), shard }
}

fn write_message(push: &mut Reply<'_>, kind: Kind, pattern: Option<&[u8]>, message: &Message) {
    match pattern {
        Some(pattern) => {
            push.push(4);
            push.bulk(b"pmessage");
            push.bulk(pattern);
        }
        None => {
            push.push(3);
            push.bulk(if kind == Kind::ShardChannels { b"smessage" } else { b"message" });
        }
    }
    push.bulk(&message.channel);
    push.bulk(&message.message);
}

fn confirm(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}
