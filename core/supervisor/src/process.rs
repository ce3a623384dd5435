//! The process of a brick as its supervisor sees it: the wishes to its owner, its ends, and the limits of time.
//!
//! Most processes are children of their supervisor. One may belong to somebody else, such as systemd: then a command ends
//! it, and its owner starts it again.
//!
//! Not here: what is done about it (`charge`). Catalogue: I6.

use crate::limit::RestartLimit;
use ramhold_base::Instant;
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use std::net::SocketAddr;
use std::time::Duration;

/// No two restarts within two periods.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_millis(2 * ANNOUNCE_INTERVAL.as_millis() as u64);
/// A process that ends sooner is started again after a pause, which doubles with each such life.
pub(crate) const SHORT_LIFE: Duration = Duration::from_secs(2);
pub(crate) const PAUSE_FIRST: Duration = Duration::from_secs(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A process that has answered nothing for so long hangs, also if no sibling knows its life and can order anything.
pub(crate) const SILENT_FOR_MAX: Duration = Duration::from_secs(60);
/// Flushing everything to a slow disk. Afterwards a process that was to stop is killed.
pub(crate) const STOP_WITHIN: Duration = Duration::from_secs(60);
/// A command that ends a brick which hangs has nothing to wait for.
pub(crate) const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// A wish to the owner of the processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Start,
    /// SIGTERM: it flushes, and ends.
    Stop,
    /// SIGKILL. If a command is to end the process and still runs, it is the command that is killed.
    Kill,
}

/// The end of a process, or of the command that was to end it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended<'a> {
    /// In words.
    pub how: &'a str,
    /// The exit status; 128 and its number for a signal. 0: as it should.
    pub code: u8,
}

#[derive(Clone, Debug)]
pub struct ChargeConfig {
    /// The name of the process for people.
    pub name: String,
    /// Where its brick answers.
    pub address: SocketAddr,
    pub limit: RestartLimit,
    /// Somebody else starts the process, and a command ends it.
    pub is_foreign: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Process {
    /// It is started then.
    Waiting {
        at: Instant,
    },
    /// The owner was told to start it.
    Starting,
    Running {
        since: Instant,
        has_answered: bool,
    },
    /// The owner was told to end it.
    Ending {
        then: Then,
        /// `FAR`: it was told to kill it.
        kill_at: Instant,
    },
    /// Only an operator starts it again.
    Offline,
    /// The supervisor ends.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Start,
    StayOffline,
    End,
}
