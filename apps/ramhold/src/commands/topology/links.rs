//! `topology links`: the links of each server, and where nothing comes back (H1).

use crate::output::{Columns, bytes_for_eyes};
use crate::screen::WIDTH;
use ramhold_client::{Client, ServerEntry, ServerId, SilentLink};
use ramhold_wire::outage::{OutageKind, StandingOutage};
use serde_json::{Value, json};

/// The links of a server, and what it says of its links to others.
pub struct Links<'a> {
    servers: Vec<(&'a ServerEntry, Option<Vec<SilentLink>>)>,
    outages: &'a [StandingOutage],
}

impl<'a> Links<'a> {
    /// Asks each server. One that does not answer tells nothing.
    pub fn ask(client: &mut Client, up: &[&'a ServerEntry], outages: &'a [StandingOutage]) -> Links<'a> {
        let told = |server: &ServerEntry, client: &mut Client| {
            client.server_status(server.address.0).ok().map(|status| status.silent_links.unwrap_or_default())
        };
        Links { servers: up.iter().map(|server| (*server, told(server, client))).collect(), outages }
    }

    pub fn text(&self) -> String {
        if self.servers.iter().all(|(server, _)| server.links().is_empty()) {
            return "no server has links; 'ramhold server --link NAME=ADDRESS' gives it one\n".to_owned();
        }
        let mut columns = Columns::new(["server", "link", "address", "silent to"]);
        for (server, silent) in &self.servers {
            for link in server.links() {
                let to = silent.as_ref().map(|silent| to(silent, &link.name));
                columns.row([
                    server.id.to_string(),
                    bytes_for_eyes(link.name.as_bytes()),
                    link.address.0.to_string(),
                    match to {
                        None => "it does not answer".to_owned(),
                        Some(to) if to.is_empty() => "-".to_owned(),
                        Some(to) => to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                    },
                ]);
            }
        }
        let mut text = columns.fitted(WIDTH);
        for standing in self.outages {
            let outage = bytes_for_eyes(standing.outage.to_string().as_bytes());
            text.push_str(&format!("\n{outage}, for {} s", standing.millis / 1000));
        }
        if !self.outages.is_empty() {
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        let servers = self.servers.iter().map(|(server, silent)| {
            let links = server.links().iter().map(|link| {
                json!({ "link": link.name, "address": link.address.0.to_string() })
            });
            let silent = silent.as_ref().map(|silent| {
                let told = silent.iter().map(|silent| {
                    json!({ "server": silent.server.to_string(), "link": silent.link, "millis": silent.millis })
                });
                told.collect::<Vec<_>>()
            });
            json!({
                "server": server.id.to_string(),
                "links": links.collect::<Vec<_>>(),
                "silent": silent,
            })
        });
        let outages = self.outages.iter().map(outage_json);
        json!({ "servers": servers.collect::<Vec<_>>(), "outages": outages.collect::<Vec<_>>() })
    }
}

/// The servers to which a link is silent.
fn to(silent: &[SilentLink], link: &str) -> Vec<ServerId> {
    silent.iter().filter(|silent| silent.link == link).map(|silent| silent.server).collect()
}

/// An outage, for programs.
pub fn outage_json(standing: &StandingOutage) -> Value {
    let outage = &standing.outage;
    let what = match outage.what {
        OutageKind::Server => "server",
        OutageKind::Rack => "rack",
        OutageKind::Switch => "switch",
        OutageKind::Link => "link",
        OutageKind::Path => "path",
        OutageKind::Unknown => "unknown",
    };
    json!({
        "what": what,
        "switch": outage.switch,
        "link": outage.link,
        "servers": outage.servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "millis": standing.millis,
        "text": outage.to_string(),
    })
}
