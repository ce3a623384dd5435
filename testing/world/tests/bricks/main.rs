//! Bricks on simulated disks, with sessions that read and write: bricks are killed and started again, and lose power.
//!
//! The bricks are whole processes as machines: register, log, cleaning, backup, state. Sessions and messages between
//! them and bricks are those of the register (core/quorum), under one made-up clock.
//!
//! Catalogue: I1, I2, I5, I6, I7.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod anomalies;
mod background;
mod copies;
mod drops;
mod dying;
mod forged;
mod full;
mod head;
mod history;
mod host;
mod loading;
mod network;
mod overload;
mod pages;
mod replacing;
mod restarts;
mod rig;
mod runs;
mod scaling;
mod scans;
mod seen;
mod sessions;
mod stalled;
mod starved;
mod streams;
mod supervised;
mod values;
