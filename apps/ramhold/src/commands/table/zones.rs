//! The zones of a cluster, for whoever named one that no server has (H3).

use crate::failure::{Failure, REFUSED};
use ramhold_client::Client;
use std::collections::BTreeSet;

/// A table is to be in a zone that no server has.
pub fn unknown_zone(client: &mut Client, table: &str, zone: &str) -> Failure {
    let servers = client.cluster_status().map(|status| status.servers).unwrap_or_default();
    let labels = servers.iter().flat_map(|server| &server.labels).filter(|label| label.name == "zone");
    let zones: BTreeSet<&str> = labels.map(|label| label.value.as_str()).collect();
    let known = if zones.is_empty() {
        "no server has one; start servers with --label zone=...".to_owned()
    } else {
        format!("the zones are {}", zones.into_iter().collect::<Vec<_>>().join(", "))
    };
    Failure::new(REFUSED, format!("no server is in zone '{}'; {known}", zone.escape_debug()))
        .about(&format!("table '{table}'"))
}
