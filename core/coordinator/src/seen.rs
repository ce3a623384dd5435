//! A snapshot of everything that can be seen of a coordinator, for an observer in another thread.
//!
//! The snapshot has plain numbers, taken between two steps. An observer that wants names and reports asks for the
//! status (`status`).

use crate::gone;
use crate::status::{Sight, phase};
use ramhold_base::{ClusterId, Instant, Term};
use ramhold_wire::membership::ServerState;
use ramhold_wire::outage::StandingOutage;
use ramhold_wire::status::{GoneReport, RecoveryPhase};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct CoordinatorSeen {
    /// The reason why the coordinator does not answer yet, or any more, in one word and one sentence; none: it does.
    pub reason: Option<(&'static str, &'static str)>,
    /// The reason why changes of the cluster wait although the coordinator answers.
    pub degraded: Option<String>,
    pub uptime: Duration,
    pub cluster: ClusterId,
    pub term: Term,
    pub servers_up: u64,
    /// Servers that were declared dead and are not recovered yet.
    pub servers_crashed: u64,
    /// Servers that should be there.
    pub servers_expected: u64,
    /// Servers that are recovered and not back.
    pub servers_gone: u64,
    /// The latest of the servers that are gone.
    pub gone: Vec<GoneReport>,
    pub tables: u64,
    pub tablets: u64,
    pub tablets_recovering: u64,
    /// Recoveries that are not over, by phase: asking, incomplete, waiting for room, replaying.
    pub recoveries: [u64; 4],
    /// The last recovery that is over and remembered: the milliseconds from the verdict to its end, and its bytes.
    pub last_recovery: Option<(u64, u64)>,
    /// Loss reports that nobody has acknowledged.
    pub losses: u64,
    pub warnings: u64,
    /// The number of wrong suspicions against servers that are up.
    pub cleared: u64,
    /// The outages of the network that were told.
    pub outages: Vec<StandingOutage>,
}

impl Sight<'_> {
    /// `reason`: why the coordinator does not answer yet, or any more.
    pub(crate) fn seen(&self, now: Instant, reason: Option<(&'static str, &'static str)>) -> CoordinatorSeen {
        let live_tablets = || self.desk.state.live_tablets();
        let (tables, tablets) = self.desk.state.live_counts();
        let in_state = |state: ServerState| {
            let servers = self.desk.state.servers.values().map(|server| &server.entry);
            servers.filter(|entry| entry.state == state && !entry.kept).count() as u64
        };
        let mut recoveries = [0; 4];
        for recovery in self.recoveries.open.values() {
            match phase(recovery) {
                RecoveryPhase::Asking => recoveries[0] += 1,
                RecoveryPhase::Incomplete => recoveries[1] += 1,
                RecoveryPhase::WaitingForRoom => recoveries[2] += 1,
                RecoveryPhase::Replaying => recoveries[3] += 1,
                RecoveryPhase::Done => {}
            }
        }
        let last = self.desk.state.recoveries.values().rev().find(|record| record.done);
        CoordinatorSeen {
            reason,
            degraded: self.full_store.trouble(now),
            uptime: self.desk.uptime(now),
            cluster: self.desk.state.meta.cluster,
            term: self.desk.term,
            servers_up: in_state(ServerState::Up),
            servers_crashed: in_state(ServerState::Crashed),
            servers_expected: self.desk.state.expected_count(),
            servers_gone: self.desk.state.gone.len() as u64,
            gone: gone::reports(self.desk),
            tables,
            tablets,
            tablets_recovering: live_tablets().filter(|t| t.taken && !self.desk.state.is_up(t.owner)).count()
                as u64,
            recoveries,
            last_recovery: last.and_then(|record| Some((record.done_millis?, record.bytes))),
            losses: self.desk.state.losses.len() as u64,
            warnings: self.warnings(now).len() as u64,
            cleared: self.verification.cleared.values().map(|report| report.count).sum(),
            outages: self.neighbours.standing(now).unwrap_or_default(),
        }
    }
}
