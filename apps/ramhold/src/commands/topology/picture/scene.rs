//! The contents of a picture of the network, and the parts that all layouts have: title, legend, boxes, and what is down.
//!
//! Not here: where the boxes are (grid, racks).

use super::canvas::{self, Canvas, Look, Tile};
use crate::output::bytes_for_eyes;
use ramhold_client::{ServerEntry, ServerId, ServerState};
use ramhold_placement::Network;
use ramhold_wire::outage::{OutageKind, StandingOutage};
use ramhold_wire::topology::Topology;

pub const SERVER_WIDTH: f64 = 92.0;
pub const SERVER_HEIGHT: f64 = 50.0;
pub const MARGIN: f64 = 20.0;
/// Where the layout begins, below the title.
pub const TOP: f64 = 46.0;
const LINE_HEIGHT: f64 = 18.0;

/// The subject of the picture.
pub struct Scene<'a> {
    pub topology: &'a Topology,
    /// All servers that the coordinator knows, also those that are down.
    pub servers: &'a [ServerEntry],
    /// Those that are up.
    pub network: &'a Network<'a>,
    pub outages: &'a [StandingOutage],
    /// The server whose rings are marked.
    pub marked: Option<ServerId>,
}

impl Scene<'_> {
    pub fn title(&self) -> String {
        let up = self.servers.iter().filter(|server| server.state == ServerState::Up).count();
        let noun = if up == 1 { "server" } else { "servers" };
        let what = if self.network.grid().is_some() { "the rings of" } else { "who is near" };
        let marked = self.marked.map(|marked| format!("; {what} {}", self.name(marked)));
        format!("{}: {up} {noun} up{}", self.topology, marked.unwrap_or_default())
    }

    /// The place of a server that is up, else its id.
    pub fn name(&self, server: ServerId) -> String {
        self.network.place_name(server).unwrap_or_else(|| server.to_string())
    }

    /// The legend: the meaning of the colours, and what is down, in words.
    pub fn legend(&self, canvas: &mut Canvas) {
        let mut y = canvas.bottom() + 26.0;
        let told: &[(Look, &str)] = match self.marked {
            // In racks there are no rings: the servers of a rack are near each other, and that is all.
            Some(_) if self.network.grid().is_none() => {
                &[(Look::Master, "this server"), (Look::Recoverer, "near it"), (Look::Other, "far from it")]
            }
            Some(_) => &[
                (Look::Master, "this server"),
                (Look::Recoverer, "recovers a part of it"),
                (Look::Feeder, "feeds these"),
                (Look::Other, "none of these"),
            ],
            None => &[(Look::Plain, "server"), (Look::Switch, "switch")],
        };
        let mut x = MARGIN;
        let down = [(Look::Down, "down"), (Look::Empty, "no server")];
        for (look, words) in told.iter().chain(&down) {
            canvas.shape(x, y - 11.0, 14.0, 14.0, *look);
            canvas.text(x + 20.0, y, 12.0, "#000", words);
            x += 40.0 + 7.0 * words.len() as f64;
        }
        for standing in self.outages {
            y += LINE_HEIGHT;
            let outage = bytes_for_eyes(standing.outage.to_string().as_bytes());
            let told = format!("{outage}, for {} s", standing.millis / 1000);
            canvas.text(MARGIN, y, 12.0, canvas::RED, &told);
        }
    }

    /// The box of a server; none: nobody is known at that place.
    pub fn server(&self, server: Option<&ServerEntry>, place: &str) -> Tile {
        let Some(entry) = server else {
            let empty = vec![place.to_owned(), "no server".to_owned()];
            return Tile { lines: empty, hint: String::new(), look: Look::Empty };
        };
        let id = entry.id;
        let hint = format!("{id} at {}", entry.address.0);
        let first = if place.is_empty() { id.to_string() } else { format!("{place}  {id}") };
        if entry.state != ServerState::Up || self.is_out(OutageKind::Server, None, Some(id)) {
            return Tile { lines: vec![first, "down".to_owned()], hint, look: Look::Down };
        }
        let Some(marked) = self.marked else {
            let host = entry.labels.iter().find(|label| label.name == "host");
            let host = host.map(|host| bytes_for_eyes(host.value.as_bytes()));
            return Tile {
                lines: [Some(first), host].into_iter().flatten().collect(),
                hint,
                look: Look::Plain,
            };
        };
        let near = self.network.near(marked);
        if id == marked {
            return Tile { lines: vec![first, "this server".to_owned()], hint, look: Look::Master };
        }
        if near.contains(&id) {
            let what = if self.network.grid().is_some() { "recovers" } else { "near" };
            return Tile { lines: vec![first, what.to_owned()], hint, look: Look::Recoverer };
        }
        let fed = near.iter().filter(|recoverer| self.network.ring(marked, **recoverer).contains(&id));
        let fed: Vec<String> = fed.map(|recoverer| self.name(*recoverer)).collect();
        match fed.is_empty() {
            true => Tile { lines: vec![first], hint, look: Look::Other },
            false => {
                let feeds = format!("feeds {}", fed.join(" "));
                Tile {
                    lines: vec![first, feeds.clone()],
                    hint: format!("{hint}, {feeds}"),
                    look: Look::Feeder,
                }
            }
        }
    }

    /// Whether an outage of this kind stands: on this switch, and with this server, as far as they are given.
    pub fn is_out(&self, kind: OutageKind, switch: Option<&str>, server: Option<ServerId>) -> bool {
        self.outages.iter().map(|standing| &standing.outage).any(|outage| {
            outage.what == kind
                && switch.is_none_or(|switch| outage.switch == switch)
                && server.is_none_or(|server| outage.servers.contains(&server))
        })
    }

    /// Whether a server's link to a switch is down, or the switch itself.
    pub fn is_link_down(&self, switch: &str, server: Option<&ServerEntry>) -> bool {
        self.is_switch_down(switch)
            || server.is_some_and(|server| self.is_out(OutageKind::Link, Some(switch), Some(server.id)))
    }

    pub fn is_switch_down(&self, switch: &str) -> bool {
        self.is_out(OutageKind::Switch, Some(switch), None)
            || self.is_out(OutageKind::Rack, Some(switch), None)
    }

    pub fn switch(&self, name: &str) -> Tile {
        let shown = bytes_for_eyes(name.as_bytes());
        let look = if self.is_switch_down(name) { Look::Down } else { Look::Switch };
        let hint = format!("switch {shown}{}", if look == Look::Down { ", down" } else { "" });
        Tile { lines: vec![shown], hint, look }
    }

    /// Paths that are down between two servers, as lines between their boxes.
    pub fn paths(&self, canvas: &mut Canvas, center: impl Fn(ServerId) -> Option<(f64, f64)>) {
        for outage in self.outages.iter().map(|standing| &standing.outage) {
            if let (OutageKind::Path, [one, other]) = (outage.what, outage.servers.as_slice())
                && let (Some(from), Some(to)) = (center(*one), center(*other))
            {
                canvas.line(from, to, canvas::RED, true);
                // Beside the first of the two, where no other server's box is.
                let (x, y) = (to.0 - from.0, to.1 - from.1);
                let beside = f64::min(
                    (SERVER_WIDTH / 2.0 + 8.0) / x.abs().max(1.0),
                    (SERVER_HEIGHT / 2.0 + 8.0) / y.abs().max(1.0),
                );
                canvas.cross((from.0 + beside * x, from.1 + beside * y));
            }
        }
    }
}
