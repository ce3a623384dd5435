//! Deadlines of connections, and the return of idle memory.
//!
//! A connection states its `deadline`. At most one entry of the heap counts for each connection, and an entry
//! that comes up early is put back. So moving a deadline costs nothing, although every frame may do it.

use super::Network;
use crate::connection::{Connection, Phase};
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Instant, Lost};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Buffers of connections that were idle for this long are given back.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, ConnId)>>,
    sweep_next: Instant,
}

impl Timers {
    /// Sees to it that this connection's deadline comes up.
    pub(super) fn arm(&mut self, connection: &mut Connection) {
        let Some(deadline) = connection.due() else { return };
        if connection.armed.is_none_or(|armed| deadline < armed) {
            connection.armed = Some(deadline);
            self.heap.push(Reverse((deadline, connection.id)));
        }
    }
}

impl Network {
    /// When `on_time` should be called next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = self.timers.heap.peek().map(|Reverse((at, _))| *at);
        earliest(first, self.listeners.iter().filter_map(|listener| listener.again).min())
    }

    /// Ends connections that have waited too long, and does what is due. Call it after what came in was read. True when it
    /// was time to give idle memory back.
    pub(crate) fn on_time(&mut self, now: Instant) -> bool {
        while let Some(Reverse((at, id))) = self.timers.heap.peek().copied() {
            if at > now {
                break;
            }
            self.timers.heap.pop();
            let Some(connection) = self.slots.find(id).filter(|connection| connection.armed == Some(at))
            else {
                continue;
            };
            connection.armed = None;
            if connection.deadline.is_some_and(|deadline| deadline <= now) {
                if connection.phase == Phase::Open {
                    self.stats.frames_overdue += 1;
                }
                self.end(id, Lost::Broken);
            } else if connection.fetching.is_some_and(|fetching| fetching.until <= now) {
                // The kernel's buffers are full: they were filled first, so the bytes that went out since are
                // those that the peer fetched.
                self.stats.outputs_overdue += 1;
                self.end(id, Lost::Broken);
            } else {
                self.timers.arm(connection);
            }
        }
        self.resume_accepting(now);
        let is_sweeping = now >= self.timers.sweep_next;
        if is_sweeping {
            self.timers.sweep_next = now + SWEEP_INTERVAL;
            self.sweep();
        }
        is_sweeping
    }

    fn sweep(&mut self) {
        self.left.shrink();
        for connection in self.slots.iter_mut() {
            if !std::mem::take(&mut connection.busy) {
                connection.input.shrink();
                connection.output.shrink();
            }
        }
    }
}
