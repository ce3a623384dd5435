//! The task of a load.

use super::mix::{Distribution, Mix};
use ramhold_client::TableId;

/// The task of a load, and of each of its threads.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub table: TableId,
    /// Threads with a client each.
    pub clients: u16,
    pub objects: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub mix: Mix,
    pub distribution: Distribution,
    /// Operations of a thread that may be under way at once: its places.
    pub pipeline: usize,
    /// Operations that are started together.
    pub multi: usize,
    /// Different ones choose different objects: a run that repeats the choices of the one before is no uniform load.
    pub seed: u64,
    /// Operations a second of all threads together, begun at even distances however long earlier ones take (an open
    /// loop); none: as fast as the pipelines allow (a closed loop).
    pub rate: Option<u64>,
}

impl Load {
    /// Objects to be written, by one thread and with one operation in a message, and nothing else.
    pub fn filling(table: TableId, objects: u64, key_bytes: usize, value_bytes: usize, seed: u64) -> Load {
        Load {
            table,
            clients: 1,
            objects,
            key_bytes,
            value_bytes,
            mix: Mix::reads(0),
            distribution: Distribution::Uniform,
            pipeline: 16,
            multi: 1,
            seed,
            rate: None,
        }
    }
}
