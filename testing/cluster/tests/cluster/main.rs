//! Real clusters under real faults. Tests run one at a time: they share a small machine, and they measure
//! time.

mod accounts;
mod admin;
mod brick_directories;
mod brick_errors;
mod bricks;
mod bricks_seen;
mod commanded;
mod configured;
mod coordinator;
mod cube;
mod damage;
mod dev;
mod directories;
mod expiry;
mod folding;
mod full;
mod full_disk;
mod histories;
mod hostile;
mod links;
mod listeners;
mod loading;
mod moves;
mod network;
mod pages;
mod redis;
mod redis_bricks;
mod rounds;
mod scaling;
mod scarce;
mod shards;
mod stopping;
mod supervised;
mod verdict;
mod zombies;
mod zones;

use std::sync::{Mutex, MutexGuard, PoisonError};

static MACHINE: Mutex<()> = Mutex::new(());

/// The machine, for one test. A test that failed while it held the machine has released everything.
fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
