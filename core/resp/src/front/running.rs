//! A command that has begun, and whose reply has not gone out.

use super::fast::FastWork;
use super::keyspace::Walk;
use super::pubsub::Asked;
use super::transact::Transact;
use crate::{Command, Front};
use ramhold_base::Instant;

/// A copy of a request's arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Args {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Args {
    pub fn of(args: &[&[u8]]) -> Args {
        let mut kept = Args {
            bytes: Vec::with_capacity(args.iter().map(|arg| arg.len()).sum()),
            ends: Vec::with_capacity(args.len()),
        };
        for arg in args {
            kept.bytes.extend_from_slice(arg);
            kept.ends.push(kept.bytes.len() as u32);
        }
        kept
    }

    pub fn list(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let part = |end: &u32| {
            let part = &self.bytes[start..*end as usize];
            start = *end as usize;
            part
        };
        self.ends.iter().map(part).collect()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len() + 4 * self.ends.len()
    }
}

#[derive(Debug)]
pub enum Work {
    /// The reply is there.
    Done,
    /// The command waits until the table of a database is known, and then begins anew.
    Waiting,
    Fast(FastWork),
    Transact(Box<Transact>),
    Walk(Box<Walk>),
    /// Other servers have been told or asked something.
    Others(Asked),
    /// `CLUSTER …`, which needs the description of the table.
    Cluster(Front),
}

#[derive(Debug)]
pub struct Running {
    /// Number of the command. It grows from command to command.
    pub seq: u64,
    pub row: &'static Command,
    pub db: u16,
    pub started: Instant,
    pub args: Args,
    /// Hashes of the keys that the command concerns. Two keys with the same hash count as the same key.
    pub keys: Vec<u64>,
    /// Whether the command may change these keys.
    pub changes: bool,
    /// Nothing of the connection runs beside this command.
    pub exclusive: bool,
    pub work: Work,
    /// Bytes that the reply may take for each key, as far as this can be known before the reply is there.
    pub reply_bytes_expected: usize,
    pub reply: Vec<u8>,
    /// The client does not want the reply; see `CLIENT REPLY`.
    pub is_muted: bool,
    /// The transaction of this command, once it is over, for what follows from it.
    pub finished: Option<Box<Transact>>,
}

impl Running {
    pub fn is_done(&self) -> bool {
        matches!(self.work, Work::Done)
    }

    /// Bytes of memory that the command counts for while it runs.
    pub fn bytes(&self) -> usize {
        self.args.bytes() + 64 + self.reply_bytes_expected * self.keys.len().max(1)
    }

    /// A command whose reply is there, and has to wait for earlier ones.
    pub fn done(seq: u64, started: Instant, reply: Vec<u8>) -> Running {
        Running {
            seq,
            row: &NO_COMMAND,
            db: 0,
            started,
            args: Args::default(),
            keys: Vec::new(),
            changes: false,
            exclusive: false,
            work: Work::Done,
            reply_bytes_expected: 0,
            reply,
            is_muted: false,
            finished: None,
        }
    }
}

/// The row of a reply whose command is over.
const NO_COMMAND: Command = Command::BASE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_kept_apart() {
        let kept = Args::of(&[b"set", b"", b"a\r\n"]);
        assert_eq!(kept.list(), [&b"set"[..], b"", b"a\r\n"]);
        assert_eq!(Args::of(&[]).list(), Vec::<&[u8]>::new());
    }
}
