//! A command that has begun, and whose reply has not gone out.

use super::slow::{Change, Login};
use crate::front::clients::pubsub::Asked;
use crate::front::execution::fast::FastWork;
use crate::front::execution::keyspace::Walk;
use crate::front::execution::quorum::QuorumWork;
use crate::front::execution::transact::Transact;
use crate::front::request::{Args, CommandId, Request};
use crate::{Command, Front};
use ramhold_base::Instant;

#[derive(Debug)]
pub enum Work {
    /// The reply is there.
    Done,
    /// The command waits until the table of a database is known, and then begins anew.
    Waiting,
    Fast(FastWork),
    Transact(Box<Transact>),
    Quorum(Box<QuorumWork>),
    Walk(Box<Walk>),
    /// Other servers have been told or asked something.
    Others(Asked),
    /// A password is being compared.
    Login(Login),
    /// Accounts are being changed, or a password is being made.
    Accounts(Change),
    /// `CLUSTER …`, which needs the description of the table.
    Cluster(Front),
}

#[derive(Debug)]
pub struct Running {
    pub request: Request,
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
}

impl Running {
    /// A command that runs alone on its connection.
    pub fn alone(request: Request, work: Work) -> Running {
        Running {
            request,
            keys: Vec::new(),
            changes: true,
            exclusive: true,
            work,
            reply_bytes_expected: 0,
            reply: Vec::new(),
            is_muted: false,
        }
    }

    /// A command whose reply is there, and has to wait for earlier ones.
    pub fn done(id: CommandId, started: Instant, reply: Vec<u8>) -> Running {
        Running {
            request: Request { id, row: &NO_COMMAND, args: Args::default(), db: 0, started },
            keys: Vec::new(),
            changes: false,
            exclusive: false,
            work: Work::Done,
            reply_bytes_expected: 0,
            reply,
            is_muted: false,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.work, Work::Done)
    }

    /// Bytes of memory that the command counts for while it runs.
    pub fn bytes(&self) -> usize {
        self.request.args.bytes() + 64 + self.reply_bytes_expected * self.keys.len().max(1)
    }
}

/// The row of a reply whose command is over.
const NO_COMMAND: Command = Command::BASE;
