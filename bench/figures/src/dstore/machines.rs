//! The machines of DSTORE04 as costs: a processor, one spindle, a network.
//!
//! The paper's own figures tell the spindle: 18,000 gets/s of 21 bricks with 15 % misses are 129 reads per second and
//! brick, and 1,200 puts/s of 27 bricks with three copies are 133 writes: 7.5 to 7.8 ms each. The processors' costs are
//! those with which three bricks that have everything in memory answer some 6,000 gets per second. A PC of the paper had
//! two processors; a brick is one loop, so it has one that is twice as fast.
//!
//! Not here: how they are used (`brick`, `medium`, `world`).

use ramhold_quorum::Class;
use std::time::Duration;

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The processor's time for a question of each class, in the order of `Class::ALL`.
    work: [Duration; Class::ALL.len()],
    /// One random read or write.
    pub spindle: Duration,
    /// One way through the network.
    pub wire: Duration,
    /// Bytes per second that a brick can send.
    pub port: u64,
}

/// 2 x 1 GHz, one spindle of 7.7 ms, 100 Mbit/s.
pub const PAPER: Machine = Machine {
    work: [micros(350), micros(250), micros(125)],
    spindle: micros(7700),
    wire: micros(200),
    port: 12_500_000,
};

impl Machine {
    pub fn work(&self, class: Class) -> Duration {
        self.work[class.index()]
    }
}
