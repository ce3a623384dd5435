//! Workloads that are hard on memory, as steps for any store.
//!
//! A `Workload` is a row of the table. `Steps` turns a workload, a target of live bytes and a seed into
//! inserts and deletes. Live bytes are those of the keys and values that the store must hold. They stay at
//! the target while the sizes of objects change. A store that does not move its objects fragments.
//!
//! A comparison gives each store the same steps: one workload, target and seed always give the same steps.
//!
//! Not here: stores, bytes of values, memory measured (`bench/compare`, `ramhold bench log`).
//! Source: TUT15, "Existing Allocators Waste Memory"; the table is that of Rumble et al., FAST 2014.

mod steps;
mod table;

pub use steps::{KeyId, Phase, Step, Steps};
pub use table::{KEY_BYTES, Sizes, UnknownWorkload, Workload};
