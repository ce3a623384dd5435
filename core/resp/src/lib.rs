//! The Redis protocol on every server: existing clients and tools work (J1).
//!
//! A connection's bytes become requests (`parse`), a request finds its row in the one table of commands (`command`,
//! `commands`), and its handler is a plain function over the keys that it names (`transaction`): what it has read decides
//! what it answers and what it wants changed. The front (`front`) fetches what handlers read, from this process or from
//! whoever owns the key, writes what they want changed under the condition that what they read is still so, and begins
//! again when it is not. So every command is atomic without a lock, and no command needs an operation of its own in the
//! servers.
//!
//! Not here: objects, replication, exactly-once (master, client).

mod ahead;
pub mod command;
pub mod commands;
mod extended;
mod fault;
mod front;
pub mod glob;
mod parse;
mod reply;
mod transaction;
mod whole;

pub use command::{Command, Fast, Flags, Front, Handler, KeyPlaces, Run, find};
pub use fault::{Fault, Stop};
pub use front::{CALLS_ROLE, CrossSlot, Host, PEERS_ROLE, Process, Resp, RespConfig, RespStats};
pub use parse::{Limits, Parsed, Parser};
pub use reply::{Protocol, Reply};
pub use transaction::{Call, Change, DATABASE_COUNT_DEFAULT, Object, Place, Transaction};
