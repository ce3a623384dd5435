//! One connection: its client, the requests that it has sent, and the commands that are still under way.

use super::RespConfig;
use super::muted::Replies;
use super::running::{Args, Running};
use super::subscriptions::Subscriptions;
use crate::transaction::Place;
use crate::{Command, Parser, Protocol};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Version};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub struct Queued {
    pub row: &'static Command,
    pub args: Args,
}

/// The commands between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    pub queued: Vec<Queued>,
    pub bytes: usize,
    /// A command could not be queued, so `EXEC` will refuse.
    pub is_broken: bool,
}

/// Bytes that a connection's first reply is expected to have. It lets so few commands begin that their
/// replies fit into what a connection may hold, even if each is as large as a value.
const REPLY_BYTES_EXPECTED_FIRST: usize = 192 * 1024;

#[derive(Debug)]
pub struct Connection {
    pub id: u64,
    /// The address of the other side, and the address of this process that the connection came to.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The connection came to the port for clients of Redis Cluster.
    pub is_of_cluster: bool,
    pub name: Vec<u8>,
    pub library: (Vec<u8>, Vec<u8>),
    pub protocol: Protocol,
    pub db: u16,
    /// The client has given the password, or need not give one.
    pub is_known: bool,
    /// Sweeps that met the connection before it had given the password, and bytes of replies that it got
    /// until then.
    pub stranger_for: u8,
    pub stranger_bytes: usize,
    pub since: Instant,
    pub last: Instant,
    pub command: &'static str,
    pub commands: u64,
    pub parser: Parser,
    /// Commands whose replies have not gone out, in the order of their requests.
    pub running: VecDeque<Running>,
    pub running_bytes: usize,
    /// Bytes of replies that wait for earlier ones.
    pub reply_bytes: usize,
    /// Bytes that the next reply is expected to have: many at first, then about as many as recent replies
    /// had.
    pub reply_bytes_expected: usize,
    /// Requests were left untaken because of commands that are running.
    pub is_held: bool,
    /// The connection is closed when all replies have gone out.
    pub closes: bool,
    pub multi: Option<Multi>,
    pub watched: Vec<(Place, Option<Version>)>,
    pub subscriptions: Subscriptions,
    pub replies: Replies,
    pub no_evict: bool,
    pub no_touch: bool,
}

impl Connection {
    pub fn new(id: u64, now: Instant, is_known: bool) -> Connection {
        Connection {
            id,
            addresses: None,
            is_of_cluster: false,
            name: Vec::new(),
            library: Default::default(),
            protocol: Protocol::Resp2,
            db: 0,
            is_known,
            stranger_for: 0,
            stranger_bytes: 0,
            since: now,
            last: now,
            command: "NULL",
            commands: 0,
            parser: Parser::default(),
            running: VecDeque::new(),
            running_bytes: 0,
            reply_bytes: 0,
            reply_bytes_expected: REPLY_BYTES_EXPECTED_FIRST,
            is_held: false,
            closes: false,
            multi: None,
            watched: Vec::new(),
            subscriptions: Subscriptions::default(),
            replies: Replies::Sent,
            no_evict: false,
            no_touch: false,
        }
    }

    pub fn is_subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    pub fn push(&mut self, running: Running) {
        self.running_bytes += running.bytes();
        if running.is_done() {
            self.reply_bytes += running.reply.len();
        }
        self.running.push_back(running);
    }

    /// Notes a reply of this number of bytes. The next reply is expected to be as large, or by an eighth
    /// smaller than this one was expected to be, whichever is more.
    pub fn note_reply(&mut self, bytes: usize) {
        let expected = self.reply_bytes_expected;
        self.reply_bytes_expected = bytes.max(expected - expected.div_ceil(8));
    }

    /// Whether another command may begin.
    pub fn has_room(&self, config: &RespConfig) -> bool {
        self.running.len() < config.running_count_max
            && self.running_bytes + self.reply_bytes < config.running_bytes_max
    }

    /// The position of the running command with this number.
    pub fn find(&self, seq: u64) -> Option<usize> {
        let at = self.running.partition_point(|running| running.seq < seq);
        self.running.get(at).filter(|running| running.seq == seq).map(|_| at)
    }

    /// Takes the oldest command, if its reply is there.
    pub fn take_done(&mut self) -> Option<Running> {
        if !self.running.front()?.is_done() {
            return None;
        }
        let done = self.running.pop_front()?;
        self.running_bytes -= done.bytes();
        self.reply_bytes -= done.reply.len();
        Some(done)
    }

    /// Whether an exclusive command is under way. Nothing begins beside it, so it is the last command.
    pub fn runs_alone(&self) -> bool {
        self.running.back().is_some_and(|running| running.exclusive && !running.is_done())
    }

    /// Whether a command with these keys must wait for commands that are under way.
    pub fn must_wait(&self, keys: &[u64], changes: bool, exclusive: bool) -> bool {
        if planted(Defect::RespBegunEarly) && !exclusive {
            return false;
        }
        let waits = |running: &Running| {
            exclusive
                || running.exclusive
                || ((changes || running.changes) && running.keys.iter().any(|key| keys.contains(key)))
        };
        self.running.iter().any(|running| !running.is_done() && waits(running))
    }

    /// Sets the connection back to the state in which it began, as `RESET` does. Its subscriptions have ended
    /// before.
    pub fn reset(&mut self, is_known: bool) {
        self.name.clear();
        self.protocol = Protocol::Resp2;
        self.db = 0;
        self.is_known = is_known;
        self.multi = None;
        self.watched.clear();
        self.replies = Replies::Sent;
        self.no_evict = false;
        self.no_touch = false;
    }
}
