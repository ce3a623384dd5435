//! Messages for whoever listens, across the cluster.
//!
//! Each server knows the subscribers that are connected to it. Who publishes has all servers told, and hears from each how
//! many there were. A message is told at most once, as in Redis: a subscriber that is away, or whose server is, misses it.
//! Messages to shard channels take the same way, since a subscriber may be connected to any server.
//!
//! A transaction's messages go out when its commit is done. `EXEC` then does not wait for other servers: it tells how many
//! subscribers this server has.

use super::connection::Connection;
use super::flow::Taking;
use super::running::Work;
use super::subscriptions::Kind;
use super::{Host, PATTERN_BYTES_MAX, PATTERN_TOO_LONG, PUBLISH_ROLE, Resp, send};
use crate::glob::{Case, matches};
use crate::{Command, Fault, Front, Reply};
use ramhold_base::{ConnId, Effects, Input, Instant, Lost, Peer, Status};
use ramhold_wire::pubsub::{Publish as Message, Published};
use ramhold_wire::{calls, decode, frame, request};
use std::time::Duration;

/// How long a server is waited for that should say how many heard.
const WITHIN: Duration = Duration::from_secs(1);

/// A message that other servers are being told.
#[derive(Debug)]
pub struct Publish {
    unanswered: usize,
    heard: u64,
}

/// What a command listens to or asks for.
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
            Front::PubSubChannels | Front::PubSubShardChannels => {
                let is_asked =
                    |name: &&Vec<u8>| args.get(2).is_none_or(|pattern| matches(pattern, name, Case::Matters));
                let names: Vec<&Vec<u8>> = self.subscribers.names(kind).filter(is_asked).collect();
                reply.array(names.len());
                names.into_iter().for_each(|name| reply.bulk(name));
            }
            Front::PubSubNumSub | Front::PubSubShardNumSub => {
                reply.array(2 * (args.len() - 2));
                for name in &args[2..] {
                    reply.bulk(name);
                    reply.integer(self.subscribers.count(kind, name) as i64);
                }
            }
            Front::PubSubNumPat => reply.integer(self.subscribers.names(kind).count() as i64),
            _ => {
                let seq = self.next_seq();
                let message = message(kind, args);
                let others = self.tell_others(now, (conn, seq), &message, host, effects);
                let own = if connection.is_subscribed() { Some((conn, &*connection)) } else { None };
                let heard = self.tell(&message, own, effects);
                if others == 0 {
                    reply.integer(heard as i64);
                } else {
                    let work = Work::Publish(Publish { unanswered: others, heard });
                    self.run_front(connection, (row, seq), args, work);
                    return Taking::Done;
                }
            }
        }
        self.put_reply(connection, out, bytes);
        Taking::Done
    }

    /// A message of a transaction that has had its effect; how many subscribers this server has for it. It goes out at the
    /// end of the step.
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

    /// Has the other servers told; how many there are. `waits`: whose command waits for what they say.
    fn tell_others(
        &mut self,
        now: Instant,
        waits: (ConnId, u64),
        message: &Message,
        host: &mut impl Host,
        effects: &mut Effects,
    ) -> usize {
        let others = host.servers().into_iter().filter(|(server, _)| *server != host.me());
        let others: Vec<_> = others.collect();
        for (server, address) in &others {
            let rpc = self.calls.open(*address, now, now + WITHIN, waits);
            request(effects, Peer::Addr(*address), &host.to_server(*server), rpc, message);
        }
        others.len()
    }

    /// A message for the subscribers of this server; how many there are. `own`: a connection that is being treated.
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

    /// Another server's client has published something.
    pub fn on_publish(&mut self, message: &Message, effects: &mut Effects) -> Published {
        Published { heard: self.tell(message, None, effects) }
    }

    /// Answers of other servers to what was published, or that none will come.
    pub(super) fn on_calls(&mut self, now: Instant, input: &Input<'_>) {
        let mut over = Vec::new();
        match input {
            Input::Frame { bytes, .. } => {
                let Ok((header, body)) = frame::parse(bytes) else { return };
                if calls::role_of(header.rpc) != PUBLISH_ROLE {
                    return;
                }
                if let Some(call) = self.calls.answered(header.rpc) {
                    let heard = match header.status() {
                        Status::Ok => decode::<Published>(body).map_or(0, |published| published.heard),
                        _ => 0,
                    };
                    over.push((call.context, heard));
                }
            }
            Input::Lost { addr, how: Lost::Refused | Lost::Broken } => {
                over.extend(self.calls.lost(*addr).into_iter().map(|call| (call.context, 0)));
            }
            _ => {
                while let Some(call) = self.calls.overdue(now) {
                    over.push((call.context, 0));
                }
            }
        }
        for ((conn, seq), heard) in over {
            self.on_heard(conn, seq, heard);
        }
    }

    fn on_heard(&mut self, conn: ConnId, seq: u64, heard: u64) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let protocol = connection.protocol;
        let Some(at) = connection.find(seq) else { return };
        let running = &mut connection.running[at];
        let Work::Publish(publish) = &mut running.work else { return };
        publish.heard += heard;
        publish.unanswered -= 1;
        if publish.unanswered == 0 {
            let heard = publish.heard;
            Reply::new(&mut running.reply, protocol).integer(heard as i64);
            running.work = Work::Done;
            connection.reply_bytes += connection.running[at].reply.len();
            if at == 0 {
                self.touched.push(conn);
            }
        }
    }
}

/// Waits for no answer; no connection of a process has this number.
const NOBODY: (ConnId, u64) = (ConnId(u64::MAX), 0);

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
