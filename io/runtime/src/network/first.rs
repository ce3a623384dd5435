//! Connections between processes of the cluster, which are heard before those of clients (E4).
//!
//! A connection that this process opened is one of them: it brings answers, and what was begun is finished before
//! anything new. An accepted one is, once a request has come over it that processes send each other. While a turn hands on
//! what many clients have sent, the loop looks at these connections again and again. For this their sockets are in a second
//! poller, too.
//!
//! Not here: which requests go first (`Opcode::goes_first`), when the loop looks (runtime).

use super::{KEY_LISTENER, LISTENER_COUNT_MAX, Network};
use crate::poll::{Interest, Ready};
use ramhold_base::ConnId;
use std::time::Duration;

impl Network {
    /// Whether what comes over this connection is heard before clients' requests.
    pub(crate) fn goes_first(&self, id: ConnId) -> bool {
        self.slots.get(id).is_some_and(|connection| connection.goes_first)
    }

    /// Whether this event is handed on before those of clients. The waker and the listeners come first, too.
    pub(crate) fn comes_first(&self, event: &Ready) -> bool {
        event.key > KEY_LISTENER - LISTENER_COUNT_MAX || self.goes_first(ConnId(event.key))
    }

    /// From now on this connection is heard before clients' requests.
    pub(crate) fn let_first(&mut self, id: ConnId) {
        let Some(connection) = self.slots.find(id) else { return };
        connection.goes_first = true;
        if !connection.link.is_shared() {
            // Without it the connection is looked at once per turn, like all others.
            let _ = self.first.add(connection.link.descriptor(), id.0, Interest::IN);
        }
    }

    /// Appends what is ready among the connections that go first.
    pub(crate) fn look_at_first(&mut self, ready: &mut Vec<Ready>) -> rustix::io::Result<()> {
        self.stats.looks_at_first += 1;
        self.sharing.look_at_first(&mut self.slots, &self.limits, ready);
        self.first.wait(Some(Duration::ZERO), ready)
    }
}
