//! Closes silent connections: strangers that do not log in, and, if the operator wants it, clients
//! that ask for nothing.
//!
//! All connections are checked once a second (`SWEEP_INTERVAL`) while there is a reason to. So a connection
//! costs no timer of its own.
//!
//! Not here: connections that never bring a whole request, or stop within one (io/runtime).

use super::lines::Parts;
use crate::front::config::RespConfig;
use crate::front::step::Step;
use ramhold_base::{Effect, Instant};
use std::time::Duration;

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Sweeps that meet a stranger before its connection is closed: it has ten seconds to log in.
/// There is room for a bounded number of connections, and strangers must not fill it.
const STRANGER_SWEEPS: u8 = 10;

#[derive(Debug, Default)]
pub struct Sweep {
    /// The time of the next check for silent connections. `None`: there is no connection that could be one.
    at: Option<Instant>,
}

impl Sweep {
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Plans the next sweep, after a connection came. `must_log_in`: clients may do nothing before.
    pub fn plan(&mut self, now: Instant, config: &RespConfig, must_log_in: bool) {
        let is_wanted = must_log_in || config.idle.is_some();
        if is_wanted && self.at.is_none() {
            self.at = Some(now + SWEEP_INTERVAL);
        }
    }

    /// Checks all connections, if it is time to.
    pub fn run<H>(&mut self, step: &mut Step<'_, H>, parts: &mut Parts) {
        if self.at.is_none_or(|at| at > step.now) {
            return;
        }
        let Parts { lines, clients, .. } = parts;
        let mut closed = Vec::new();
        for (conn, client) in clients.all.iter_mut().filter(|(_, client)| !client.closes) {
            let admission = &mut client.admission;
            // Its login may be under way, and others before it.
            let is_waiting = || lines.all.get(conn).is_some_and(|line| line.queue.runs_alone());
            admission.stranger_for = match admission.member {
                Some(_) => 0,
                None if is_waiting() => admission.stranger_for,
                None => admission.stranger_for.saturating_add(1),
            };
            let is_stranger = admission.stranger_for >= STRANGER_SWEEPS;
            let is_idle = step.config.idle.is_some_and(|idle| step.now.since(client.activity.last) >= idle);
            // A reply may be owed to the client, or messages.
            let may_idle_out =
                || lines.all.get(conn).is_none_or(|line| line.queue.is_empty()) && !client.is_subscribed();
            if is_stranger || (is_idle && may_idle_out()) {
                step.stats.idled += 1;
                client.closes = true;
                closed.push(*conn);
            }
        }
        // The list of clients has an order of its own, which must not reach an effect.
        closed.sort_unstable();
        closed.into_iter().for_each(|conn| step.effects.push(Effect::Close { conn }));
        self.at = (!clients.all.is_empty()).then_some(step.now + SWEEP_INTERVAL);
    }
}
