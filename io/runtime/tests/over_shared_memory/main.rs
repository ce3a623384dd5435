//! The tests of connections and requests, over shared memory wherever the other side is a runtime, too.

use ramhold_runtime::Transport;

const TRANSPORT: Transport = Transport::Automatic;

#[path = "../behaviour/connections.rs"]
mod connections;
#[path = "../behaviour/first.rs"]
mod first;
#[path = "../behaviour/probe.rs"]
mod probe;
#[path = "../behaviour/requests.rs"]
mod requests;
