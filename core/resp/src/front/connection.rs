//! One connection: who it is, what it has asked for, and what of that is still under way.

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

/// Between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    pub queued: Vec<Queued>,
    pub bytes: usize,
    /// Something could not be queued: `EXEC` will refuse.
    pub is_broken: bool,
}

/// What is expected of a connection's first reply: as many of these as may be under way find room in what it may hold.
const REPLY_BYTES_EXPECTED_FIRST: usize = 192 * 1024;

#[derive(Debug)]
pub struct Connection {
    pub id: u64,
    /// Of its other side, and the one of ours that it came to.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// It came to the port for clients of Redis Cluster.
    pub is_of_cluster: bool,
    pub name: Vec<u8>,
    pub library: (Vec<u8>, Vec<u8>),
    pub protocol: Protocol,
    pub db: u16,
    /// Has given the password, or need not.
    pub is_known: bool,
    /// How often it was met before it had given the password, and bytes that it was told so far.
    pub stranger_for: u8,
    pub stranger_bytes: usize,
    pub since: Instant,
    pub last: Instant,
    pub command: &'static str,
    pub commands: u64,
    pub parser: Parser,
    /// In the order of their requests.
    pub running: VecDeque<Running>,
    pub running_bytes: usize,
    /// Of replies that wait for those before them.
    pub reply_bytes: usize,
    /// Of the next reply: large at first, then as large as one of the last ones.
    pub reply_bytes_expected: usize,
    /// Bytes were left because of what is running.
    pub is_held: bool,
    /// It ends when all replies are out.
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

    /// A reply has so many bytes: the next one is expected to be as large, or somewhat smaller than was expected of it.
    pub fn note_reply(&mut self, bytes: usize) {
        let expected = self.reply_bytes_expected;
        self.reply_bytes_expected = bytes.max(expected - expected.div_ceil(8));
    }

    /// Whether another command may begin.
    pub fn has_room(&self, config: &RespConfig) -> bool {
        self.running.len() < config.running_count_max
            && self.running_bytes + self.reply_bytes < config.running_bytes_max
    }

    /// Where the running command with this number is.
    pub fn find(&self, seq: u64) -> Option<usize> {
        let at = self.running.partition_point(|running| running.seq < seq);
        self.running.get(at).filter(|running| running.seq == seq).map(|_| at)
    }

    /// The next command whose reply is there.
    pub fn take_done(&mut self) -> Option<Running> {
        if !self.running.front()?.is_done() {
            return None;
        }
        let done = self.running.pop_front()?;
        self.running_bytes -= done.bytes();
        self.reply_bytes -= done.reply.len();
        Some(done)
    }

    /// Whether something is under way beside which nothing is; then it is all there is.
    pub fn runs_alone(&self) -> bool {
        self.running.back().is_some_and(|running| running.exclusive && !running.is_done())
    }

    /// Whether a command with these keys may begin while others run.
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

    /// As after `RESET`, and as a connection begins; its subscriptions have ended.
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
