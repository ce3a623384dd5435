//! The streams of the log: one for each class.
//!
//! Not here: choosing the class of a tablet (the role that owns it). Catalogue: D2.

use super::Shard;
use ramhold_base::limits::STREAM_COUNT_MAX;
use ramhold_base::{Status, StreamId};
use ramhold_wire::class::StreamClass;

impl Shard {
    /// The stream of a class. Opens a new stream, still without a head, if there is none.
    pub fn stream_for(&mut self, class: StreamClass) -> Result<StreamId, Status> {
        let existing = self.replicator.streams().find(|(_, its)| *its == class);
        if let Some((stream, _)) = existing {
            return Ok(stream);
        }
        let count = self.replicator.streams().count();
        if count >= usize::from(STREAM_COUNT_MAX) {
            return Err(Status::TooMany);
        }
        let stream = StreamId(u16::try_from(count + 1).expect("bounded above"));
        self.log.open_stream(stream);
        self.replicator.add_stream(stream, class);
        Ok(stream)
    }

    pub fn class_of(&self, stream: StreamId) -> Option<StreamClass> {
        self.replicator.streams().find(|(id, _)| *id == stream).map(|(_, class)| class)
    }
}
