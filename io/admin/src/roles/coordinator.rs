//! What is told of a coordinator.

use super::Role;
use crate::page::Page;
use ramhold_coordinator::CoordinatorSeen;
use std::time::Duration;

impl Role for CoordinatorSeen {
    const NAME: &'static str = "coordinator";

    fn trouble(&self) -> Option<(&str, &str)> {
        self.reason
    }

    fn write(&self, page: &mut Page) {
        page.gauge("ramhold_uptime_seconds", "Since the process began.", self.uptime);
        page.info(
            "ramhold_cluster_info",
            "Always 1; which cluster the process belongs to.",
            &[("cluster", &format!("{:016x}", self.cluster.raw()))],
        );
        page.gauge("ramhold_coordinator_term", "The term in which it reigns.", self.term.raw());
        page.by_label(
            (
                "ramhold_cluster_servers",
                "gauge",
                "Servers by state; crashed ones are declared dead and not yet recovered.",
            ),
            "state",
            [("up", self.servers_up), ("crashed", self.servers_crashed)],
        );
        page.gauge("ramhold_cluster_tables", "Tables.", self.tables);
        page.gauge("ramhold_cluster_tablets", "Tablets of all tables.", self.tablets);
        page.gauge(
            "ramhold_cluster_tablets_recovering",
            "Tablets whose server is dead and that are not served again yet.",
            self.tablets_recovering,
        );
        let [asking, incomplete, waiting, replaying] = self.recoveries;
        page.by_label(
            (
                "ramhold_cluster_recoveries",
                "gauge",
                "Recoveries that are not over: backups are being asked, parts of the log are missing, there is no room \
                 besides older ones, or it is replayed.",
            ),
            "phase",
            [
                ("asking", asking),
                ("incomplete", incomplete),
                ("waiting_for_room", waiting),
                ("replaying", replaying),
            ],
        );
        let (millis, bytes) = self.last_recovery.unwrap_or_default();
        page.gauge(
            "ramhold_cluster_last_recovery_seconds",
            "How long the last recovery took, from noticing the death until all was served again; 0: there was none.",
            Duration::from_millis(millis),
        );
        page.gauge("ramhold_cluster_last_recovery_bytes", "Bytes of the log that it replayed.", bytes);
        page.gauge(
            "ramhold_cluster_losses",
            "Reports of writes that may be gone, not acknowledged by anybody (see 'ramhold status').",
            self.losses,
        );
        page.gauge("ramhold_cluster_warnings", "Warnings that 'ramhold status' shows.", self.warnings);
        page.gauge(
            "ramhold_cluster_suspicions_cleared",
            "Times that servers which are up were suspected wrongly, since the coordinator began.",
            self.cleared,
        );
    }
}
