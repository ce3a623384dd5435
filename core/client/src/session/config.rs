//! The settings of a session: where coordinators are, and how patient to be.

use ramhold_wire::CallRole;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where coordinators may be found. They are tried in turn.
    pub coordinators: Vec<SocketAddr>,
    /// How long an operation is tried, unless it is started with a time of its own.
    pub deadline: Duration,
    /// How long to wait for an answer before a read or an operation of the coordinator is repeated, and
    /// before a silent owner of a key is doubted.
    pub attempt_timeout: Duration,
    /// The pause before the next attempt after one setback. It doubles with each further setback.
    pub backoff_least: Duration,
    pub backoff_most: Duration,
    /// How often to ask for the owner of a tablet that has none.
    pub recovering_poll: Duration,
    /// How long the session's lease outlives its last renewal, which any mutation may bring. A client that is
    /// stopped for longer cannot tell the outcome of the operations that were under way.
    pub lease_term: Duration,
    /// Operations under way at once. More are refused with `TooMany`.
    pub operation_count_max: usize,
    /// The zone of the client: bricks there are asked for values first.
    pub zone: Option<String>,
    /// The part of the process whose calls the session makes.
    pub role: CallRole,
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
            zone: None,
            role: CallRole::Client,
        }
    }
}
