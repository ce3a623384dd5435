//! A process of the cluster, which states facts and counts marks that the real program does not.
//!
//! - A server states `time MILLIS` whenever it begins to count the cluster time from another point.
//! - Frames that a server must not let in are told by the door.
//! - Full memory and the events of the Redis front are marks.
//!
//! Not here: the configuration of the processes (settings). Catalogue: E1.

use super::bricks::BrickProcess;
use super::door::{self, Door};
use crate::network::MILLI;
use ramhold_base::{Effects, Input, Instant, Level, Machine};
use ramhold_node::{Coordinator, ServerNode};
use ramhold_resp::RespStats;

/// The stated time may be off by this much before it is stated again: more than rounding to milliseconds
/// makes.
pub(crate) const TIME_SLACK: u64 = 2 * MILLI;

/// A process of the cluster.
pub enum Process {
    Server(Box<Server>),
    Coordinator(Box<Coordinator>),
    Brick(Box<BrickProcess>),
}

/// A storage server that states a fact `time MILLIS` whenever it begins to count the cluster time from
/// another point.
pub struct Server {
    pub node: ServerNode,
    /// Cluster time less the own clock, nanoseconds, as last stated.
    stated: Option<i128>,
    /// Whether the memory was full in this life. It is counted once per life.
    was_full: bool,
    /// The counters of the Redis front after the step before.
    counted: RespStats,
    door: Door,
}

impl Server {
    pub(super) fn new(node: ServerNode) -> Server {
        Server { node, stated: None, was_full: false, counted: RespStats::default(), door: Door::default() }
    }

    /// Counts `memory_98` when 98 % of the memory for writes is used.
    fn mark_full(&mut self, effects: &mut Effects) {
        let Some(usage) = self.node.master().map(|master| master.log().usage()).filter(|_| !self.was_full)
        else {
            return;
        };
        let usable = usage.log_bytes - usage.reserve_bytes;
        self.was_full = usage.free_bytes.saturating_sub(usage.reserve_bytes) * 50 <= usable;
        if self.was_full {
            effects.report(Level::Debug, "mark:memory_98");
        }
    }

    /// Counts the events of the Redis front, once for each step in which they happened.
    fn mark_resp(&mut self, effects: &mut Effects) {
        let Some(stats) = self.node.resp_stats() else { return };
        let before = std::mem::replace(&mut self.counted, stats);
        let places = [
            ("resp_answered_here", before.hits + before.misses < stats.hits + stats.misses),
            ("resp_through_session", before.posted < stats.posted),
            ("resp_retried", before.retried < stats.retried),
            ("resp_watch_failed", before.watch_failed < stats.watch_failed),
            ("resp_held", before.held < stats.held),
            ("resp_table_waited_for", before.table_waits < stats.table_waits),
        ];
        for (name, _) in places.iter().filter(|(_, is_there)| *is_there) {
            effects.report(Level::Debug, format!("mark:{name}"));
        }
    }

    fn state_time(&mut self, now: Instant, effects: &mut Effects) {
        if self.node.view().me.is_none() {
            return;
        }
        let time = self.node.view().time(now).0;
        let offset = i128::from(time) * i128::from(MILLI) - i128::from(now.0);
        if self.stated.is_none_or(|stated| offset.abs_diff(stated) > u128::from(TIME_SLACK)) {
            self.stated = Some(offset);
            effects.report(Level::Debug, format!("fact:time {time}"));
        }
    }
}

impl Process {
    pub fn server(&self) -> Option<&ServerNode> {
        match self {
            Process::Server(server) => Some(&server.node),
            Process::Coordinator(_) | Process::Brick(_) => None,
        }
    }

    pub fn brick(&self) -> Option<&BrickProcess> {
        match self {
            Process::Brick(brick) => Some(brick),
            Process::Server(_) | Process::Coordinator(_) => None,
        }
    }

    pub fn coordinator(&self) -> Option<&Coordinator> {
        match self {
            Process::Server(_) | Process::Brick(_) => None,
            Process::Coordinator(coordinator) => Some(coordinator),
        }
    }
}

impl Machine for Process {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match self {
            Process::Server(server) => {
                let unwelcome = match input {
                    Input::Frame { bytes, .. } => server.door.unwelcome(&server.node, bytes),
                    _ => None,
                };
                if let Input::Frame { from, bytes } = input
                    && let Some((copy, foreign)) = door::foreign(&server.node, bytes)
                {
                    server.node.step(now, Input::Frame { from, bytes: &copy }, effects);
                    if let Some(why) = door::was_let_in(&foreign, effects) {
                        effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                    }
                    door::keep_from_us(&foreign, effects);
                }
                server.node.step(now, input, effects);
                let let_in = unwelcome.and_then(|unwelcome| door::was_let_in(&unwelcome, effects));
                if let Some(why) = let_in {
                    effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                }
                server.state_time(now, effects);
                server.mark_full(effects);
                server.mark_resp(effects);
            }
            Process::Brick(brick) => brick.step(now, input, effects),
            Process::Coordinator(coordinator) => {
                coordinator.step(now, input, effects);
                if let Some(why) = door::foreign_term(coordinator, effects) {
                    effects.report(Level::Debug, format!("fact:{}{why}", door::OPEN));
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Process::Server(server) => server.node.deadline(),
            Process::Coordinator(coordinator) => coordinator.deadline(),
            Process::Brick(brick) => brick.deadline(),
        }
    }

    fn puts_off(&self) -> bool {
        match self {
            Process::Server(server) => server.node.puts_off(),
            Process::Coordinator(coordinator) => coordinator.puts_off(),
            Process::Brick(brick) => brick.puts_off(),
        }
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        match self {
            Process::Server(server) => {
                server.node.turn_over(now, effects);
                server.state_time(now, effects);
                server.mark_full(effects);
                server.mark_resp(effects);
            }
            Process::Coordinator(coordinator) => coordinator.turn_over(now, effects),
            Process::Brick(brick) => brick.turn_over(now, effects),
        }
    }
}
