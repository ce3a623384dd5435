//! Closes silent connections: strangers that do not give the password, and, if the operator wants it, clients
//! that ask for nothing.
//!
//! All connections are checked once a second (`SWEEP_INTERVAL`) while there is a reason to. So a connection
//! costs no timer of its own.
//!
//! Not here: connections that never bring a whole request, or stop within one (io/runtime).

use super::Resp;
use super::connection::Connection;
use ramhold_base::{Effect, Effects, Instant};
use std::time::Duration;

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Sweeps that meet a stranger before its connection is closed: it has ten seconds to give the password.
/// There is room for a bounded number of connections, and strangers must not fill it.
const STRANGER_SWEEPS: u8 = 10;

impl Resp {
    /// Plans the next sweep, after a connection came.
    pub(super) fn await_sweep(&mut self, now: Instant) {
        let is_wanted = self.config.password.is_some() || self.config.idle.is_some();
        if is_wanted && self.sweep_at.is_none() {
            self.sweep_at = Some(now + SWEEP_INTERVAL);
        }
    }

    pub(super) fn sweep(&mut self, now: Instant, effects: &mut Effects) {
        if self.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        let idle = self.config.idle;
        for (conn, connection) in self.connections.iter_mut().filter(|(_, connection)| !connection.closes) {
            connection.stranger_for =
                if connection.is_known { 0 } else { connection.stranger_for.saturating_add(1) };
            let is_idle = idle.is_some_and(|idle| now.since(connection.last) >= idle);
            if connection.stranger_for >= STRANGER_SWEEPS || (is_idle && connection.may_idle_out()) {
                self.stats.idled += 1;
                connection.closes = true;
                effects.push(Effect::Close { conn: *conn });
            }
        }
        self.sweep_at = (!self.connections.is_empty()).then_some(now + SWEEP_INTERVAL);
    }
}

impl Connection {
    /// Whether no reply is owed to the client and it has no subscription.
    fn may_idle_out(&self) -> bool {
        self.running.is_empty() && !self.is_subscribed()
    }
}
