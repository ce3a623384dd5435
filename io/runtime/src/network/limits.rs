//! The limits that one process sets to its connections, and what it counts of them.

use ramhold_base::limits::CONNECTION_COUNT_MAX;
use std::time::Duration;

/// How a process opens connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// Over shared memory to processes of this host and user that take it, over TCP to all others.
    #[default]
    Automatic,
    Tcp,
    /// Over a Unix socket; other hosts are not reached.
    Unix,
    /// Over shared memory; other hosts are not reached.
    SharedMemory,
}

/// The default of `shared_count_max`: each of them is looked at in each turn.
const SHARED_COUNT_MAX: usize = 64;

/// Limits that one process sets to its connections. The default is for production.
#[derive(Clone, Debug)]
pub struct NetworkLimits {
    /// Accepted connections at one time; further ones are closed at once. At most 65,536, and at most what leaves the
    /// process descriptors for its files and its own connections.
    pub connection_count_max: usize,
    /// Bytes waiting to go out over one connection; with more it is closed. At least one largest frame.
    /// An accepted connection is not heard while a quarter of this waits.
    pub output_bytes_max: usize,
    /// From accepting to the first whole frame.
    pub first_frame_within: Duration,
    /// From the first byte of a later frame to its last.
    pub frame_within: Duration,
    /// In this time an accepted connection must fetch a good part of what waits for it; see `Connection::time_fetching`.
    pub fetch_within: Duration,
    /// From the wish to connect to being connected.
    pub connect_within: Duration,
    /// From closing a connection to its last byte having gone out.
    pub flush_within: Duration,
    /// From our last byte to giving up on the other side's end.
    pub drain_within: Duration,
    /// Connections of other processes of this host and user that may share memory with this one, 512 KiB each; further ones
    /// go over Unix sockets. None: no name is taken for them.
    pub shared_count_max: usize,
    /// How connections are opened.
    pub transport: Transport,
    /// Loops of this process that share its file descriptors; at least 1.
    pub process_share: u16,
}

impl Default for NetworkLimits {
    fn default() -> NetworkLimits {
        NetworkLimits {
            connection_count_max: CONNECTION_COUNT_MAX,
            output_bytes_max: 64 * 1024 * 1024,
            first_frame_within: Duration::from_secs(10),
            frame_within: Duration::from_secs(30),
            fetch_within: Duration::from_secs(30),
            connect_within: Duration::from_secs(1),
            flush_within: Duration::from_secs(10),
            drain_within: Duration::from_secs(1),
            shared_count_max: SHARED_COUNT_MAX,
            transport: Transport::Automatic,
            process_share: 1,
        }
    }
}

/// Counts of the network since the start; each only grows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    pub frames_received: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Connections closed because their bytes were no frame.
    pub bad_frames: u64,
    pub connections_accepted: u64,
    /// Closed at once because there were too many.
    pub connections_refused: u64,
    pub connections_opened: u64,
    /// Closed because too much waited to go out.
    pub output_overflows: u64,
    /// Closed because a frame took too long.
    pub frames_overdue: u64,
    /// Closed because the other side was too slow to fetch what it had asked for.
    pub outputs_overdue: u64,
    /// Frames for connections that were gone or closing.
    pub frames_dropped: u64,
    /// Times that the poller was told to watch a connection for something else.
    pub interest_changes: u64,
    /// Times that the connections of the cluster were looked at while clients' requests were handed on.
    pub looks_at_first: u64,
    /// Times that accepting was paused for want of file descriptors or memory.
    pub accept_pauses: u64,
    /// Connections over shared memory, accepted and opened.
    pub connections_shared: u64,
    /// Connections from this host that were closed because their user was another one or their hello was wrong.
    pub hellos_refused: u64,
    /// Times that processes of this host were sent to TCP because too many of other users connected.
    pub names_left: u64,
    /// Connections from this host that go over a socket because too many share memory.
    pub memory_refused: u64,
}
