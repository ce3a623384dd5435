//! The task of each client thread.

use ramhold_client::TableId;

/// The task of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub table: TableId,
    pub objects: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub read_percent: u8,
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
