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

use super::connection::Connection;
use super::flow::Taking;
use super::immediate::is_publication;
use super::running::Work;
use super::subscriptions::Kind;
use super::{Awaited, Host, PATTERN_BYTES_MAX, PATTERN_TOO_LONG, PEERS_ROLE, Resp, send};
use crate::glob::{Case, matches};
use crate::{Command, Fault, Front, Reply};
use ramhold_base::{ConnId, Effects, Input, Instant, Lost, Peer, Status};
use ramhold_wire::control::Message as Request;
use ramhold_wire::pubsub::{
    Listened, Listeners, ListenersTold, NAMES_BYTES_MAX, Name, Publish as Message, Published,
};
use ramhold_wire::{calls, decode, frame, request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which another server's answer is awaited.
const WITHIN: Duration = Duration::from_secs(1);
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

impl Resp {
    pub(super) fn pubsub(
        &mut self,
        now: Instant,
        conn: ConnId,
        connection: &mut Connection,
        (row, front): (&'static Command, Front),
        args: &[&[u8]],
        out: &mut Vec<u8>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> Taking {
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, connection.protocol);
        let kind = kind_of(front);
        match front {
            Front::PSubscribe if args[1..].iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) => {
                reply.fault(&PATTERN_TOO_LONG);
            }
            Front::Subscribe | Front::PSubscribe | Front::SSubscribe => {
                for name in &args[1..] {
                    let own = &mut connection.subscriptions;
                    if let Err(fault) = self.subscribers.enter(conn, own, kind, name) {
                        reply.fault(&fault);
                        break;
                    }
                    confirm(&mut reply, row.name, Some(name), own.told(kind));
                }
            }
            Front::Unsubscribe | Front::PUnsubscribe | Front::SUnsubscribe => {
                let own = &mut connection.subscriptions;
                let named: Vec<Vec<u8>> = args[1..].iter().map(|name| name.to_vec()).collect();
                let all: Vec<Vec<u8>> = own.names(kind).iter().cloned().collect();
                let names = if named.is_empty() { all } else { named };
                if names.is_empty() {
                    confirm(&mut reply, row.name, None, own.told(kind));
                }
                for name in &names {
                    self.subscribers.leave(conn, own, kind, name);
                    confirm(&mut reply, row.name, Some(name), own.told(kind));
                }
            }
            Front::PubSubChannels | Front::PubSubShardChannels if args.len() > 3 => {
                let name = row.name.to_ascii_uppercase();
                reply.fault(&Fault::said(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
                )));
            }
            Front::PubSubNumSub | Front::PubSubShardNumSub
                if args[2..].iter().map(|name| name.len()).sum::<usize>() > NAMES_BYTES_MAX =>
            {
                reply.fault(&TOO_LONG);
            }
            _ => {
                let seq = self.next_seq();
                let (others, gathered) = if is_publication(front) {
                    let message = message(kind, args);
                    let others = self.tell_others(now, (conn, seq), &message, host, effects);
                    let own = if connection.is_subscribed() { Some((conn, &*connection)) } else { None };
                    (others, Gathered::Heard(self.tell(&message, own, effects)))
                } else {
                    let message = question(front, kind, args);
                    let others = self.tell_others(now, (conn, seq), &message, host, effects);
                    let own = self.on_listeners(&message).names.into_iter();
                    (others, Gathered::Names(own.map(|named| (named.name, named.count)).collect()))
                };
                if others == 0 {
                    gathered.reply(front, args, &mut reply);
                } else {
                    let work = Work::Others(Asked { front, unanswered: others, gathered });
                    self.run_front(connection, (row, seq), args, work);
                    return Taking::Done;
                }
            }
        }
        self.put_reply(connection, out, bytes);
        Taking::Done
    }

    /// Notes a message of a transaction that has taken effect; the message goes out at the end of the step.
    /// Returns the number of subscribers that this server has for it.
    pub(super) fn publish_after(&mut self, front: Front, args: &[&[u8]]) -> u64 {
        let kind = kind_of(front);
        self.publications.push(message(kind, args));
        self.subscribers.of(kind, args[1]).count() as u64
    }

    pub(super) fn send_publications(&mut self, now: Instant, host: &mut impl Host, effects: &mut Effects) {
        for message in std::mem::take(&mut self.publications) {
            self.tell_others(now, NOBODY, &message, host, effects);
            self.tell(&message, None, effects);
        }
    }

    /// Has the other servers told or asked, and returns their number. `(conn, seq)`: the command that waits
    /// for their answers.
    fn tell_others(
        &mut self,
        now: Instant,
        (conn, seq): (ConnId, u64),
        message: &impl Request,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> usize {
        let others = host.servers().into_iter().filter(|(server, _)| *server != host.me());
        let others: Vec<_> = others.collect();
        for (server, address) in &others {
            let rpc = self.calls.open(*address, now, now + WITHIN, Awaited::Listeners { conn, seq });
            request(effects, Peer::Addr(*address), &host.to_server(*server), rpc, message);
        }
        others.len()
    }

    /// Sends a message to the subscribers of this server, and returns their number. `own`: the connection
    /// that is being treated.
    fn tell(&self, message: &Message, own: Option<(ConnId, &Connection)>, effects: &mut Effects) -> u64 {
        let mut count = 0;
        let protocol = |conn: &ConnId| match own {
            Some((own, connection)) if own == *conn => Some(connection.protocol),
            _ => self.connections.get(conn).map(|connection| connection.protocol),
        };
        let kind = if message.shard == Some(true) { Kind::ShardChannels } else { Kind::Channels };
        for (conn, pattern) in self.subscribers.of(kind, &message.channel) {
            let Some(protocol) = protocol(&conn) else { continue };
            let mut bytes = Vec::new();
            write_message(&mut Reply::new(&mut bytes, protocol), kind, pattern, message);
            send(conn, &bytes, effects);
            count += 1;
        }
        count
    }

    /// Takes a message that a client of another server has published.
    pub fn on_publish(&mut self, message: &Message, effects: &mut Effects) -> Published {
        Published { heard: self.tell(message, None, effects) }
    }

    /// Names that clients of this server listen to.
    pub fn on_listeners(&self, message: &Listeners) -> ListenersTold {
        let kind = match message.kind {
            Listened::Channels => Kind::Channels,
            Listened::Patterns => Kind::Patterns,
            Listened::ShardChannels => Kind::ShardChannels,
        };
        let counted =
            |name: &Vec<u8>| Name { name: name.clone(), count: self.subscribers.count(kind, name) as u64 };
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
        ListenersTold {
            names: self.subscribers.names(kind).filter(fits).take_while(has_room).map(counted).collect(),
        }
    }

    /// Takes the answers of other servers to calls of this one, or the news that none will come.
    pub(super) fn on_calls(&mut self, now: Instant, input: &Input<'_>) {
        let mut over = Vec::new();
        match input {
            Input::Frame { bytes, .. } => {
                let Ok((header, body)) = frame::parse(bytes) else { return };
                if calls::role_of(header.rpc) != PEERS_ROLE {
                    return;
                }
                if let Some(call) = self.calls.answered(header.rpc) {
                    over.push((call.context, Some((header.status(), body))));
                }
            }
            Input::Lost { addr, how: Lost::Refused | Lost::Broken } => {
                over.extend(self.calls.lost(*addr).into_iter().map(|call| (call.context, None)));
            }
            _ => {
                while let Some(call) = self.calls.overdue(now) {
                    over.push((call.context, None));
                }
            }
        }
        for (awaited, answer) in over {
            match awaited {
                Awaited::Listeners { conn, seq } => {
                    let body = answer.filter(|(status, _)| *status == Status::Ok).map(|(_, body)| body);
                    self.on_heard(conn, seq, body);
                }
                Awaited::Met { server, lease } => {
                    self.on_met_master(now, server, lease, answer.map(|(status, _)| status));
                }
            }
        }
    }

    fn on_heard(&mut self, conn: ConnId, seq: u64, body: Option<&[u8]>) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let protocol = connection.protocol;
        let Some(at) = connection.find(seq) else { return };
        let running = &mut connection.running[at];
        let Work::Others(asked) = &mut running.work else { return };
        asked.gathered.add(body);
        asked.unanswered -= 1;
        if asked.unanswered == 0
            && let Work::Others(asked) = std::mem::replace(&mut running.work, Work::Done)
        {
            let reply = &mut Reply::new(&mut running.reply, protocol);
            asked.gathered.reply(asked.front, &running.args.list(), reply);
            connection.reply_bytes += connection.running[at].reply.len();
            if at == 0 {
                self.touched.push(conn);
            }
        }
    }
}

/// Stands for a command when none waits for answers. No connection of a process has this number.
const NOBODY: (ConnId, u64) = (ConnId(u64::MAX), 0);

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
