//! A request that outlives the step in which it came: its arguments are copied.

use crate::Command;
use ramhold_base::{ConnId, Instant};

/// Names a command that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandId {
    pub conn: ConnId,
    /// The number grows from command to command.
    pub seq: u64,
}

impl CommandId {
    /// Stands for a command when none waits for answers. No connection of a process has this number.
    pub const NONE: CommandId = CommandId { conn: ConnId(u64::MAX), seq: 0 };
}

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

/// A command as it was asked: its words, its client, and the time.
#[derive(Debug)]
pub struct Request {
    pub id: CommandId,
    pub row: &'static Command,
    pub args: Args,
    /// The database that the connection had.
    pub db: u16,
    pub started: Instant,
}

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
