//! The Redis protocol on every server, so that existing clients and tools work (J1).
//!
//! The parser (`parse`) turns a connection's bytes into requests. Each request has a row in the one table of
//! commands (`command`, `commands`). The handler in that row is a plain function over the keys that the
//! request names (`transaction`): the values that the handler has read decide its reply and the changes that
//! it wants. The front (`front`) fetches these values, from this process or from the owner of the key. Then
//! the front writes the changes under the condition that everything read is still so, and begins again if it
//! is not. So every command is atomic without a lock, and no command needs an operation of its own in the
//! servers.
//!
//! Not here: objects, replication, exactly-once (master, client).

mod ahead;
mod catalog;
pub mod command;
pub mod commands;
mod deeds;
mod extended;
mod fault;
mod front;
mod parse;
mod reply;
mod transaction;
mod whole;

pub use catalog::{catalog, entries};
pub use command::{Command, Fast, Flags, Front, Handler, KeyPlaces, OnQuorum, Run};
pub use commands::find;
pub use fault::{Fault, Stop};
pub use front::Resp;
pub use front::config::{Process, RespConfig, TimingConfig};
pub use front::host::{Attempt, Host};
pub use front::stats::RespStats;
pub use front::together::CrossSlot;
pub use parse::{Limits, Parsed, Parser};
pub use reply::{Protocol, Reply};
pub use transaction::{Call, Change, DATABASE_COUNT_DEFAULT, Object, Place, Transaction};
