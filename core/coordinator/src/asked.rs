//! The questions that the coordinator asks servers, as they are kept until the answer comes.
//!
//! Each part that asks has variants of its own. The machine gives the answer to the part by the variant.

use ramhold_base::{DivisionId, KeyHash, RecoveryId, ServerId, TableId};

/// The question of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Push(ServerId),
    /// `named`: the server had told something under its id when it was asked, so an answer without an id comes from
    /// another process.
    Ping {
        server: ServerId,
        named: bool,
    },
    Verify {
        server: ServerId,
        named: bool,
    },
    Take {
        table: TableId,
        first: KeyHash,
        last: KeyHash,
        server: ServerId,
    },
    Drop {
        table: TableId,
        server: ServerId,
    },
    Divide {
        table: TableId,
        division: DivisionId,
        server: ServerId,
    },
    Reclass {
        table: TableId,
        server: ServerId,
    },
    Fence {
        recovery: RecoveryId,
        server: ServerId,
    },
    /// Whether the server reaches any of the servers that are to be given up.
    Reach(ServerId),
    /// Whether this server, which is to be given up, answers.
    Away(ServerId),
    Room(ServerId),
    /// A message with records of the state.
    Copy(ServerId),
    /// Which state the server holds; `Part` asks for a part of that state.
    Tell(ServerId),
    Part(ServerId),
    Weights {
        table: TableId,
        server: ServerId,
    },
    Work {
        recovery: RecoveryId,
        server: ServerId,
    },
    Recover {
        recovery: RecoveryId,
        plan: RecoveryId,
        partition: u32,
        attempt: u32,
        server: ServerId,
    },
}
