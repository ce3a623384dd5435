//! The backup role from outside: requests, completions of an in-memory disk, crashes and power cuts.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod rig;

mod appends;
mod collecting;
mod damage;
mod flips;
mod flushed;
mod giving_back;
mod grants;
mod growth;
mod lives;
mod reading;
mod synced;
mod torture;
mod working;
