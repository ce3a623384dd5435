//! The streams of the log: one for each class, which is a durability with a replica count.
//!
//! Not here: choosing the class of a tablet (the role that owns it). Catalogue: D2.

use super::Shard;
use ramhold_base::limits::STREAM_COUNT_MAX;
use ramhold_base::{Status, StreamId};
use ramhold_wire::membership::Durability;

/// The class of a table: its durability and its number of replicas.
pub type Class = (Durability, u8);

impl Shard {
    /// The stream of a class. Opens a new stream, still without a head, if there is none.
    pub fn stream_for(&mut self, durability: Durability, replicas: u8) -> Result<StreamId, Status> {
        let existing = self.replicator.streams().find(|(_, d, r)| (*d, *r) == (durability, replicas));
        if let Some((stream, _, _)) = existing {
            return Ok(stream);
        }
        let count = self.replicator.streams().count();
        if count >= usize::from(STREAM_COUNT_MAX) {
            return Err(Status::TooMany);
        }
        let stream = StreamId(u16::try_from(count + 1).expect("bounded above"));
        self.log.open_stream(stream);
        self.replicator.add_stream(stream, durability, replicas);
        Ok(stream)
    }

    pub fn class_of(&self, stream: StreamId) -> Option<Class> {
        self.replicator
            .streams()
            .find(|(id, ..)| *id == stream)
            .map(|(_, durability, replicas)| (durability, replicas))
    }
}
