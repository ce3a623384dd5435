//! What a session may be told: where coordinators are, and how patient to be.

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where coordinators may be found; tried in turn.
    pub coordinators: Vec<SocketAddr>,
    /// How long an operation is tried, unless it is started with a time of its own.
    pub deadline: Duration,
    /// How long an answer is awaited before a read or a coordinator's operation is asked again, and before a silent
    /// owner of a key is doubted.
    pub attempt_timeout: Duration,
    /// The pause before an attempt after one setback, doubling with each further one.
    pub backoff_least: Duration,
    pub backoff_most: Duration,
    /// How often the owner of a tablet that has none is asked for.
    pub recovering_poll: Duration,
    /// How long the session's lease is to outlive its last renewal, which any mutation may bring: a client that is
    /// stopped for longer cannot tell what became of what was under way.
    pub lease_term: Duration,
    /// Operations under way at once; more are refused with `TooMany`.
    pub operation_count_max: usize,
    /// The top byte of the session's rpc ids, which tells the roles of one process apart.
    pub role: u8,
}

impl SessionConfig {
    pub fn new(coordinators: Vec<SocketAddr>) -> SessionConfig {
        SessionConfig {
            coordinators,
            deadline: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(1),
            backoff_least: Duration::from_millis(1),
            backoff_most: Duration::from_millis(200),
            recovering_poll: Duration::from_millis(20),
            lease_term: Duration::from_secs(30 * 60),
            operation_count_max: 1024,
            role: 0xC1,
        }
    }
}
