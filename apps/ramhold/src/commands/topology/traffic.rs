//! `topology traffic`: the log data that servers exchange, and how far it goes (H3).

use crate::output::Columns;
use crate::screen::WIDTH;
use crate::size::bytes_text;
use ramhold_client::{Client, ServerEntry};
use ramhold_wire::status::{DistanceBytes, TrafficStatus};
use serde_json::{Value, json};

/// The traffic of each server; none: it does not answer, or is no master.
pub struct TrafficTable<'a> {
    servers: Vec<(&'a ServerEntry, Option<TrafficStatus>)>,
}

impl<'a> TrafficTable<'a> {
    pub fn ask(client: &mut Client, up: &[&'a ServerEntry]) -> TrafficTable<'a> {
        let told =
            |server: &ServerEntry, client: &mut Client| client.server_status(server.address.0).ok()?.traffic;
        TrafficTable { servers: up.iter().map(|server| (*server, told(server, client))).collect() }
    }

    pub fn text(&self) -> String {
        let mut columns = Columns::new(["server", "kind", "near", "same zone", "other zone"]);
        let mut sums = TrafficStatus::default();
        for (server, traffic) in &self.servers {
            let Some(traffic) = traffic else {
                let nothing = String::new;
                columns.row([server.id.to_string(), "tells nothing".into(), nothing(), nothing(), nothing()]);
                continue;
            };
            rows(&mut columns, &server.id.to_string(), traffic);
            add(&mut sums.replication, traffic.replication);
            add(&mut sums.copying, traffic.copying);
            add(&mut sums.recovery, traffic.recovery);
        }
        rows(&mut columns, "all", &sums);
        columns.fitted(WIDTH)
    }

    pub fn json(&self) -> Value {
        let servers = self.servers.iter().map(|(server, traffic)| {
            let kinds = traffic.as_ref().map(|traffic| {
                let of = |bytes: DistanceBytes| {
                    json!({ "near": bytes.near, "zone": bytes.zone, "other_zone": bytes.other_zone })
                };
                json!({
                    "replication": of(traffic.replication),
                    "copying": of(traffic.copying),
                    "recovery": of(traffic.recovery),
                })
            });
            json!({ "server": server.id.to_string(), "bytes": kinds })
        });
        json!({ "servers": servers.collect::<Vec<_>>() })
    }
}

fn kinds(traffic: &TrafficStatus) -> [(&'static str, DistanceBytes); 3] {
    [("replication", traffic.replication), ("copying", traffic.copying), ("recovery", traffic.recovery)]
}

/// A row for each kind of which there is anything; replication is always told.
fn rows(columns: &mut Columns, server: &str, traffic: &TrafficStatus) {
    let has_any =
        |(kind, bytes): &(&str, DistanceBytes)| *kind == "replication" || *bytes != DistanceBytes::default();
    for (kind, bytes) in kinds(traffic).into_iter().filter(has_any) {
        columns.row([
            server.to_owned(),
            kind.to_owned(),
            bytes_text(bytes.near),
            bytes_text(bytes.zone),
            bytes_text(bytes.other_zone),
        ]);
    }
}

fn add(sum: &mut DistanceBytes, bytes: DistanceBytes) {
    sum.near += bytes.near;
    sum.zone += bytes.zone;
    sum.other_zone += bytes.other_zone;
}
