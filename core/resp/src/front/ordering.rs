//! The order of requests and replies on each connection.
//!
//! A `Line` is the ordering side of a connection: its parser, and the commands whose replies have not gone out
//! (`Queue`). `taking` takes requests off a connection's bytes, `admission` decides whether each may begin now, and
//! `keys`, `multi` and `others` begin it. `answers` hands answers to the commands that wait for them. `finish`
//! ends each step, and sends replies in the order of their requests.
//!
//! Order: requests of a connection take effect as if each had waited for the one before it. Requests that the
//! host carries out at once are in order by themselves. A request waits for an earlier one that is still
//! under way if they have a key in common and one of them may change it. An `exclusive` request runs alone on
//! its connection.
//!
//! Invariants:
//! - every whole request gets one reply, in order, unless the connection ends first;
//! - the bytes that a connection holds are bounded: bytes that are not taken stay in the socket;
//! - a connection has a line exactly if it has a client (`clients`).
//!
//! Not here: how commands are carried out (`execution`, `clients`).

pub mod accounts;
pub mod admission;
pub mod answers;
pub mod finish;
pub mod idle;
pub mod keys;
pub mod lines;
pub mod logins;
pub mod multi;
pub mod muted;
pub mod others;
pub mod queue;
pub mod running;
pub mod slow;
pub mod taking;
pub mod turn;
