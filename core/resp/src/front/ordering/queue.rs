//! The commands of one connection whose replies have not gone out, in the order of their requests.

use super::running::{Running, Work};
use crate::front::config::RespConfig;
use crate::{Fault, Protocol, Reply};
use ramhold_base::planted::{Defect, planted};
use std::collections::VecDeque;

/// Bytes that a connection's first reply is expected to have. It lets so few commands begin that their
/// replies fit into what a connection may hold, even if each is as large as a value.
const REPLY_BYTES_EXPECTED_FIRST: usize = 192 * 1024;

/// Bytes of one connection's replies that wait for earlier ones. The bound is below the bytes that wait to be
/// sent when a connection is closed for them.
const REPLIES_BYTES_MAX: usize = 48 * 1024 * 1024;
const TOO_MANY_REPLIES: Fault =
    Fault::fixed("ERR replies of 50331648 bytes wait to be sent: ask for less at once");

#[derive(Debug)]
pub struct Queue {
    running: VecDeque<Running>,
    running_bytes: usize,
    /// Bytes of replies that wait for earlier ones.
    reply_bytes: usize,
    /// Bytes that the next reply is expected to have: many at first, then about as many as recent replies
    /// had.
    reply_bytes_expected: usize,
    /// Requests were left untaken because of commands that are running.
    pub is_held: bool,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            running: VecDeque::new(),
            running_bytes: 0,
            reply_bytes: 0,
            reply_bytes_expected: REPLY_BYTES_EXPECTED_FIRST,
            is_held: false,
        }
    }
}

impl Queue {
    pub fn len(&self) -> usize {
        self.running.len()
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub fn reply_bytes_expected(&self) -> usize {
        self.reply_bytes_expected
    }

    pub fn push(&mut self, running: Running) {
        self.running_bytes += running.bytes();
        if running.is_done() {
            self.reply_bytes += running.reply.len();
        }
        self.running.push_back(running);
    }

    /// Whether another command may begin.
    pub fn has_room(&self, config: &RespConfig) -> bool {
        self.running.len() < config.running_count_max
            && self.running_bytes + self.reply_bytes < config.running_bytes_max
    }

    /// The position of the running command with this number.
    pub fn find(&self, seq: u64) -> Option<usize> {
        let at = self.running.partition_point(|running| running.request.id.seq < seq);
        self.running.get(at).filter(|running| running.request.id.seq == seq).map(|_| at)
    }

    pub fn at_mut(&mut self, at: usize) -> &mut Running {
        &mut self.running[at]
    }

    /// The commands behind the first `count`.
    pub fn behind(&mut self, count: usize) -> impl Iterator<Item = &mut Running> {
        self.running.iter_mut().skip(count)
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

    /// Notes that the reply of a command is there. A reply for which there is no room becomes an error, unless
    /// the command may have changed something. Returns whether the reply is the next one that goes out.
    pub fn note_done(&mut self, at: usize, protocol: Protocol) -> bool {
        let running = &mut self.running[at];
        // The next reply is expected to be as large, or by an eighth smaller than this one was expected to be,
        // whichever is more.
        let expected = self.reply_bytes_expected;
        self.reply_bytes_expected = running.reply.len().max(expected - expected.div_ceil(8));
        if self.reply_bytes + running.reply.len() > REPLIES_BYTES_MAX && !running.changes {
            running.reply = Vec::new();
            Reply::new(&mut running.reply, protocol).fault(&TOO_MANY_REPLIES);
        }
        self.reply_bytes += running.reply.len();
        at == 0
    }

    /// Notes the small reply of a command that has heard from all other servers. Returns whether it is the next
    /// one that goes out.
    pub fn note_heard(&mut self, at: usize) -> bool {
        let running = &mut self.running[at];
        running.work = Work::Done;
        self.reply_bytes += running.reply.len();
        at == 0
    }

    /// Whether an exclusive command is under way. Nothing begins beside it, so it is the last command.
    pub fn runs_alone(&self) -> bool {
        self.running.back().is_some_and(|running| running.exclusive && !running.is_done())
    }

    /// Whether a change of accounts is under way.
    pub fn changes_accounts(&self) -> bool {
        self.running.back().is_some_and(|running| matches!(running.work, Work::Accounts(_)))
    }

    /// Whether a command with these keys must wait for commands that are under way.
    pub fn must_wait(&self, keys: &[u64], changes: bool) -> bool {
        if planted(Defect::RespBegunEarly) {
            return false;
        }
        let waits = |running: &Running| {
            running.exclusive
                || ((changes || running.changes) && running.keys.iter().any(|key| keys.contains(key)))
        };
        self.running.iter().any(|running| !running.is_done() && waits(running))
    }
}
