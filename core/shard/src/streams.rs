//! The streams of the log: one for each class and neighbourhood.
//!
//! Not here: choosing the class of a tablet (the role that owns it). Catalogue: D2.

use super::Shard;
use ramhold_base::limits::STREAM_COUNT_MAX;
use ramhold_base::{Status, StreamId};
use ramhold_wire::class::StreamClass;

impl Shard {
    /// The stream of a class and a neighbourhood. Opens a new stream, still without a head, if there is none.
    pub fn stream_for(
        &mut self,
        class: StreamClass,
        neighbourhood: Option<&str>,
    ) -> Result<StreamId, Status> {
        if let Some(stream) = self.replicator.stream_of(class, neighbourhood) {
            return Ok(stream);
        }
        let count = self.replicator.streams().count();
        if count >= usize::from(STREAM_COUNT_MAX) {
            return Err(Status::TooMany);
        }
        let stream = StreamId(u16::try_from(count + 1).expect("bounded above"));
        self.log.open_stream(stream);
        self.replicator.add_stream(stream, class, neighbourhood.map(str::to_owned));
        Ok(stream)
    }

    pub fn class_of(&self, stream: StreamId) -> Option<StreamClass> {
        self.replicator.streams().find(|(id, _)| *id == stream).map(|(_, class)| class)
    }
}
