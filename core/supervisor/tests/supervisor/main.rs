//! A supervisor with one brick, under orders, ends and operators: what it does, and when.
//!
//! Catalogue: I6.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod anomalies;
mod foreign;
mod orders;
mod rig;
mod starts;
