//! The vocabulary that every part of Ramhold shares.
//!
//! Plain values and pure functions: ids, time, limits, checksums, hashes, random numbers and statuses. Also
//! the interface between a machine that decides (`core/`) and the executor of its effects (`io/`,
//! `testing/world`).
//!
//! Not here: anything that knows a protocol (see `wire`).

pub mod bytes;
pub mod checksum;
pub mod event;
pub mod glob;
pub mod hash;
pub mod id;
pub mod latency;
pub mod limits;
pub mod machine;
pub mod map;
pub mod mark;
pub mod number;
pub mod past_caches;
pub mod planted;
pub mod processor;
pub mod recycled;
pub mod rng;
pub mod secret;
mod stamp;
pub mod status;
pub mod time;

pub use id::*;
pub use latency::Latencies;
pub use machine::{
    Coming, ConnId, DiskData, DiskError, DiskFile, DiskToken, Effect, Effects, Input, Level, Lost, Machine,
    Outgoing, Peer, Rest, StoreCondition, StoreRequest, StoreResult, StoreToken, Taken,
};
pub use mark::{Mark, MarkUse};
pub use number::Number;
pub use recycled::Recycled;
pub use rng::Rng;
pub use secret::{Password, SecretResult, SecretToken, SecretWork};
pub use stamp::{SessionId, Stamp};
pub use status::Status;
pub use time::{ClusterTime, Instant};
