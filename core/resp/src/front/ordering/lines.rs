//! The lines of all connections, beside the other parts of the front that a step works on.
//!
//! Each part owns its state. A step borrows the parts side by side, so a command that is advanced stays in its queue.

use super::queue::Queue;
use crate::Parser;
use crate::front::access::Access;
use crate::front::clients::list::Clients;
use crate::front::request::CommandId;
use ramhold_base::ConnId;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::map::FastMap;

pub struct Parts {
    pub lines: Lines,
    pub clients: Clients,
    pub access: Access,
}

/// The ordering side of one connection.
#[derive(Debug, Default)]
pub struct Line {
    pub parser: Parser,
    pub queue: Queue,
}

pub struct Lines {
    pub all: FastMap<ConnId, Line>,
    /// Connections whose oldest command has ended. They are looked at before the step ends.
    pub touched: Vec<ConnId>,
    /// Hashes keys, to see which commands concern the same key.
    pub hasher: PlacementHasher,
    /// Replies of the connection that is being treated; the memory is kept for the next one.
    pub out: Vec<u8>,
}

impl Lines {
    pub fn new(seed: PlacementSeed) -> Lines {
        Lines {
            all: FastMap::default(),
            touched: Vec::new(),
            hasher: PlacementHasher::new(seed),
            out: Vec::new(),
        }
    }

    /// The queue that a command is in, with its position. `None`: the command is gone.
    pub fn find(&mut self, command: CommandId) -> Option<(&mut Queue, usize)> {
        let queue = &mut self.all.get_mut(&command.conn)?.queue;
        let at = queue.find(command.seq)?;
        Some((queue, at))
    }
}
