//! Messages for whoever listens, across the cluster.
//!
//! Each server knows the subscribers that are connected to it. Who publishes has all servers told, and hears from each how
//! many there were. A message is told at most once, as in Redis: a subscriber that is away, or whose server is, misses it.

use super::connection::Connection;
use super::flow::Taking;
use super::running::Work;
use super::{Host, PATTERN_BYTES_MAX, PATTERN_TOO_LONG, PUBLISH_ROLE, Resp, send};
use crate::glob::{Case, matches};
use crate::{Command, Fault, Front, Reply};
use ramhold_base::{ConnId, Effects, Input, Instant, Lost, Peer, Status};
use ramhold_wire::pubsub::{Publish as Message, Published};
use ramhold_wire::{calls, decode, frame, request};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a server is waited for that should say how many heard.
const WITHIN: Duration = Duration::from_secs(1);
/// What one connection listens to.
const SUBSCRIPTION_COUNT_MAX: usize = 65_536;
/// Bytes of the names that a connection listens to.
const SUBSCRIPTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A message that other servers are being told.
#[derive(Debug)]
pub struct Publish {
    unanswered: usize,
    heard: u64,
}

type Listeners = BTreeMap<Vec<u8>, BTreeSet<ConnId>>;

/// Who listens to what, of this server's connections.
#[derive(Debug, Default)]
pub struct Subscribers {
    channels: Listeners,
    patterns: Listeners,
}

fn leave(of: &mut Listeners, name: &[u8], conn: ConnId) {
    if let Some(listeners) = of.get_mut(name) {
        listeners.remove(&conn);
        if listeners.is_empty() {
            of.remove(name);
        }
    }
}

impl Subscribers {
    pub fn leave(&mut self, conn: ConnId, connection: &Connection) {
        connection.channels.iter().for_each(|name| leave(&mut self.channels, name, conn));
        connection.patterns.iter().for_each(|name| leave(&mut self.patterns, name, conn));
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
        match front {
            Front::PSubscribe if args[1..].iter().any(|pattern| pattern.len() > PATTERN_BYTES_MAX) => {
                reply.fault(&PATTERN_TOO_LONG);
            }
            Front::Subscribe | Front::PSubscribe => {
                for name in &args[1..] {
                    let count = connection.channels.len() + connection.patterns.len();
                    if count >= SUBSCRIPTION_COUNT_MAX {
                        reply.fault(&Fault::fixed(
                            "ERR a connection listens to at most 65536 channels and patterns",
                        ));
                        break;
                    }
                    let of_patterns = front == Front::PSubscribe;
                    let names = if of_patterns { &connection.patterns } else { &connection.channels };
                    let added_bytes = if names.contains(*name) { 0 } else { name.len() };
                    if connection.subscribed_bytes + added_bytes > SUBSCRIPTION_BYTES_MAX {
                        reply.fault(&Fault::fixed(
                            "ERR the channels and patterns that a connection listens to have at most 4194304 bytes",
                        ));
                        break;
                    }
                    connection.subscribed_bytes += added_bytes;
                    let (own, all) = self.lists(connection, of_patterns);
                    own.insert(name.to_vec());
                    all.entry(name.to_vec()).or_default().insert(conn);
                    let word = if of_patterns { "psubscribe" } else { "subscribe" };
                    confirm(&mut reply, word, Some(name), connection);
                }
            }
            Front::Unsubscribe | Front::PUnsubscribe => {
                let of_patterns = front == Front::PUnsubscribe;
                let word = if of_patterns { "punsubscribe" } else { "unsubscribe" };
                let (own, all) = self.lists(connection, of_patterns);
                let all_of_them: Vec<Vec<u8>> = own.iter().cloned().collect();
                let named: Vec<Vec<u8>> = args[1..].iter().map(|name| name.to_vec()).collect();
                let names = if named.is_empty() { all_of_them } else { named };
                let mut removed_bytes = 0;
                for name in &names {
                    removed_bytes += if own.remove(name) { name.len() } else { 0 };
                    leave(all, name, conn);
                }
                connection.subscribed_bytes -= removed_bytes;
                if names.is_empty() {
                    confirm(&mut reply, word, None, connection);
                }
                // Each says how many are left behind it.
                let left = connection.channels.len() + connection.patterns.len();
                for (at, name) in names.iter().enumerate() {
                    let behind = if args.len() == 1 { names.len() - 1 - at } else { 0 };
                    confirm_count(&mut reply, word, Some(name), left + behind);
                }
            }
            Front::PubSubChannels if args.len() > 3 => {
                reply.fault(&Fault::fixed(
                    "ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.",
                ));
            }
            Front::PubSubChannels => {
                let names = self.subscribers.channels.keys();
                let is_asked =
                    |name: &&Vec<u8>| args.get(2).is_none_or(|pattern| matches(pattern, name, Case::Matters));
                let names: Vec<&Vec<u8>> = names.filter(is_asked).collect();
                reply.array(names.len());
                names.into_iter().for_each(|name| reply.bulk(name));
            }
            Front::PubSubNumSub => {
                reply.array(2 * (args.len() - 2));
                for name in &args[2..] {
                    reply.bulk(name);
                    reply.integer(self.subscribers.channels.get(*name).map_or(0, BTreeSet::len) as i64);
                }
            }
            Front::PubSubNumPat => reply.integer(self.subscribers.patterns.len() as i64),
            _ => {
                let others = host.servers().into_iter().filter(|(server, _)| *server != host.me());
                let others: Vec<_> = others.collect();
                let seq = self.next_seq();
                for (server, address) in &others {
                    let rpc = self.calls.open(*address, now, now + WITHIN, (conn, seq));
                    let message = Message { channel: args[1].to_vec(), message: args[2].to_vec() };
                    request(effects, Peer::Addr(*address), &host.to_server(*server), rpc, &message);
                }
                let own = if connection.is_subscribed() { Some((conn, &*connection)) } else { None };
                let heard = self.tell(args[1], args[2], own, effects);
                if others.is_empty() {
                    reply.integer(heard as i64);
                } else {
                    let work = Work::Publish(Publish { unanswered: others.len(), heard });
                    self.run_front(connection, (row, seq), args, work);
                    return Taking::Done;
                }
            }
        }
        self.put_reply(connection, out, bytes);
        Taking::Done
    }

    fn lists<'a>(
        &'a mut self,
        connection: &'a mut Connection,
        of_patterns: bool,
    ) -> (&'a mut BTreeSet<Vec<u8>>, &'a mut Listeners) {
        if of_patterns {
            (&mut connection.patterns, &mut self.subscribers.patterns)
        } else {
            (&mut connection.channels, &mut self.subscribers.channels)
        }
    }

    /// A message for the subscribers of this server; how many there are. `own`: a connection that is being treated.
    fn tell(
        &self,
        channel: &[u8],
        message: &[u8],
        own: Option<(ConnId, &Connection)>,
        effects: &mut Effects,
    ) -> u64 {
        let mut count = 0;
        let protocol = |conn: &ConnId| match own {
            Some((own, connection)) if own == *conn => Some(connection.protocol),
            _ => self.connections.get(conn).map(|connection| connection.protocol),
        };
        for conn in self.subscribers.channels.get(channel).into_iter().flatten() {
            let Some(protocol) = protocol(conn) else { continue };
            let mut bytes = Vec::new();
            let mut push = Reply::new(&mut bytes, protocol);
            push.push(3);
            push.bulk(b"message");
            push.bulk(channel);
            push.bulk(message);
            send(*conn, &bytes, effects);
            count += 1;
        }
        for (pattern, listeners) in &self.subscribers.patterns {
            if !matches(pattern, channel, Case::Matters) {
                continue;
            }
            for conn in listeners {
                let Some(protocol) = protocol(conn) else { continue };
                let mut bytes = Vec::new();
                let mut push = Reply::new(&mut bytes, protocol);
                push.push(4);
                push.bulk(b"pmessage");
                push.bulk(pattern);
                push.bulk(channel);
                push.bulk(message);
                send(*conn, &bytes, effects);
                count += 1;
            }
        }
        count
    }

    /// Another server's client has published something.
    pub fn on_publish(&mut self, message: &Message, effects: &mut Effects) -> Published {
        Published { heard: self.tell(&message.channel, &message.message, None, effects) }
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

fn confirm(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, connection: &Connection) {
    confirm_count(reply, word, name, connection.channels.len() + connection.patterns.len());
}

fn confirm_count(reply: &mut Reply<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}
