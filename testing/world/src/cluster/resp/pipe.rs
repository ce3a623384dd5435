//! The commands of a connection: those that go out next, and those whose replies are still to come.

use crate::resp::Words;
use ramhold_base::Rng;
use std::collections::{BTreeMap, VecDeque};

/// The command that a reply must answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// No operation's: the word comes back.
    Echo(Vec<u8>),
    /// A step of a lane's operation.
    Get,
    GetVer,
    /// The `GETVER` behind a write.
    VerAfter,
    /// The command that changes something, or the `EXEC` around it.
    Effect,
    Exec,
    /// `MULTI`, `WATCH`, `UNWATCH`.
    Ok,
    Queued,
    Scan,
    /// The read of a key that a scan has met.
    Met(Vec<u8>),
}

pub(super) struct Sent {
    pub lane: usize,
    pub of: Of,
}

pub(super) struct Pipe {
    pub rng: Rng,
    sent: VecDeque<Sent>,
    out: Vec<Words>,
    /// Highest versions seen on this connection.
    seen: BTreeMap<Vec<u8>, u64>,
    echoes: u64,
}

impl Pipe {
    pub fn new(rng: Rng) -> Pipe {
        Pipe { rng, sent: VecDeque::new(), out: Vec::new(), seen: BTreeMap::new(), echoes: 0 }
    }

    pub fn put(&mut self, lane: usize, command: Words, of: Of) {
        self.out.push(command);
        self.sent.push_back(Sent { lane, of });
    }

    /// Sends a command of no operation, whose word comes back.
    pub fn put_echo(&mut self, lane: usize) {
        self.echoes += 1;
        let word = text(format!("echo {}", self.echoes));
        self.put(lane, command("ECHO", &[&word]), Of::Echo(word));
    }

    /// The command that the next reply must answer.
    pub fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Whether a reply is still to come.
    pub fn is_awaited(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether every command that waits for a reply is still to go out.
    pub fn is_fresh(&self) -> bool {
        self.sent.len() == self.out.len()
    }

    /// Takes the commands that go out next.
    pub fn take_out(&mut self) -> Vec<Words> {
        std::mem::take(&mut self.out)
    }

    pub fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// The highest version of a key that this connection has seen. 0 if it has seen none.
    pub fn highest_seen(&self, key: &[u8]) -> u64 {
        self.seen.get(key).copied().unwrap_or(0)
    }

    pub fn saw(&mut self, key: &[u8], version: u64) {
        let seen = self.seen.entry(key.to_vec()).or_default();
        *seen = version.max(*seen);
    }

    /// The connection is lost.
    pub fn clear(&mut self) {
        self.sent.clear();
        self.out.clear();
        self.seen.clear();
    }
}

pub(super) fn text(word: impl ToString) -> Vec<u8> {
    word.to_string().into_bytes()
}

pub(super) fn command(name: &str, args: &[&[u8]]) -> Words {
    [name.as_bytes()].into_iter().chain(args.iter().copied()).map(<[u8]>::to_vec).collect()
}
