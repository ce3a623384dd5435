//! The metrics and the health of a coordinator.

use super::Role;
use crate::page::Page;
use ramhold_coordinator::CoordinatorSeen;
use ramhold_wire::outage::OutageKind;
use ramhold_wire::status::GoneReport;
use std::time::Duration;

impl Role for CoordinatorSeen {
    const NAME: &'static str = "coordinator";

    fn trouble(&self) -> Option<(&str, &str)> {
        self.reason
    }

    fn notes(&self) -> Vec<String> {
        let mut notes =
            vec![format!("servers: {} of {} expected are up", self.servers_up, self.servers_expected)];
        notes.extend(self.gone.iter().map(|gone| {
            let since = ramhold_runtime::utc(gone.since.0);
            format!("gone: {} at {} since {since}: {}", gone.server, gone.address.0, gone.cause)
        }));
        notes
    }

    fn degraded(&self) -> Option<String> {
        self.degraded.clone()
    }

    fn write(&self, page: &mut Page) {
        page.gauge("ramhold_uptime_seconds", "Since the process began.", self.uptime);
        page.info(
            "ramhold_cluster_info",
            "Always 1; which cluster the process belongs to.",
            &[("cluster", &self.cluster.to_string())],
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
        page.gauge(
            "ramhold_servers_expected",
            "Servers that should be there: up, being recovered, or gone; 'ramhold server forget' lowers it.",
            self.servers_expected,
        );
        page.gauge(
            "ramhold_servers_gone",
            "Servers that are dead, recovered, and not back.",
            self.servers_gone,
        );
        if !self.gone.is_empty() {
            let since = |gone: &GoneReport| Duration::from_millis(gone.since.0);
            page.by_labels(
                (
                    "ramhold_server_gone_since_seconds",
                    "gauge",
                    "When a server that is gone was declared dead, in seconds since 1970.",
                ),
                self.gone.iter().map(|gone| {
                    let (server, address) = (gone.server.to_string(), gone.address.0.to_string());
                    ([("server", server), ("address", address)], since(gone))
                }),
            );
        }
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
        let count = |kind: OutageKind| {
            self.outages.iter().filter(|standing| standing.outage.what == kind).count() as u64
        };
        page.by_label(
            (
                "ramhold_cluster_outages",
                "gauge",
                "Racks, switches, links and paths that are down, as neighbours see it ('ramhold topology links' names them).",
            ),
            "kind",
            [
                ("rack", count(OutageKind::Rack)),
                ("switch", count(OutageKind::Switch)),
                ("link", count(OutageKind::Link)),
                ("path", count(OutageKind::Path)),
                ("unknown", count(OutageKind::Unknown)),
            ],
        );
    }
}
