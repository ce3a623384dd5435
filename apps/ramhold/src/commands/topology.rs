//! `topology`: where the servers stand in the cluster's network, and what follows from it (H1).

pub mod links;
mod picture;
mod problems;
mod traffic;

use crate::failure::{Failure, REFUSED};
use crate::global::Global;
use crate::output::{self, Columns, bytes_for_eyes};
use crate::screen::WIDTH;
use clap::{Args, Subcommand};
use picture::Scene;
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_client::{ClusterStatus, ServerEntry, ServerId, ServerState};
use ramhold_placement::{GridLabel, Network, Problem, check, rack, zone};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Show the network: who stands where, near whom.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold topology show
  ramhold topology rings 10
  ramhold topology rings s3 --json
  ramhold topology rings 10 --svg rings.svg
  ramhold topology paths 00 11
  ramhold topology links
  ramhold topology traffic
  ramhold topology check --placement zone-local --replicas 3

The coordinator is given the topology at its start, and keeps it:
  flat           nothing is known of switches (the default)
  zones          servers have the labels zone and rack; a rack shares a switch
  bcube:N,K      BCube: labels of K + 1 digits below N, such as bcube=10
  grid:R0,R1,... the same with a number of digits for each level, from level 0
Two servers are near each other if they share an edge switch.

Copies spread over the labels zone, rack and host in every topology
(docs/operating/zones.md). With links (ramhold server --link) servers reach
each other over the switch that both share, and over another one while it is
silent. Neighbours ping each other, so that a dead one is found in less than
half a second. With --placement multiring or rack-local each part of a server's
data is kept with the servers that recover it.")]
pub struct TopologyCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show the place of each server.
    #[command(after_help = "\
Examples:
  ramhold topology show
  ramhold topology show --json
  ramhold topology show --svg network.svg

The picture has the servers at their places, the switches between them, and what
is down: servers, switches and links.")]
    Show {
        /// Draw the network into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Show who is near a server, with their rings.
    ///
    /// A ring has the backups that are near a neighbour of the server and not near the server itself.
    #[command(after_help = "\
Examples:
  ramhold topology rings 10
  ramhold topology rings s3 --json
  ramhold topology rings 10 --svg rings.svg")]
    Rings {
        /// Its label in the grid, such as 10, or its id, such as s3.
        #[arg(value_name = "SERVER")]
        server: String,
        /// Draw the network with these rings into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Show the paths between two servers.
    ///
    /// There is one for each level. No two share a switch, or a server between the ends.
    #[command(after_help = "\
Examples:
  ramhold topology paths 00 11
  ramhold topology paths s1 s5 --json")]
    Paths {
        /// Where the paths begin: a label or an id.
        #[arg(value_name = "FROM")]
        from: String,
        /// Where they end.
        #[arg(value_name = "TO")]
        to: String,
    },
    /// Show the links of each server, and which of them are silent.
    ///
    /// A link is an address in a further network (ramhold server --link). It is silent between two servers
    /// while nothing comes back from one to the other on it. They use another link meanwhile. Where servers
    /// share edge switches, the links, paths and switches that are down are named below.
    #[command(after_help = "\
Examples:
  ramhold topology links
  ramhold topology links --json")]
    Links,
    /// Show how far the log data of servers goes.
    ///
    /// For each server that is up, since its start: what it has sent to backups when it was written, or
    /// again because a replica was lost, and what it has fetched to recover others. Near are servers that
    /// share an edge switch, or a rack.
    #[command(after_help = "\
Examples:
  ramhold topology traffic
  ramhold topology traffic --json")]
    Traffic,
    /// Say what would not work, with the servers that are up.
    ///
    /// Tries a topology, a placement and a number of replicas on the servers that are up, and changes nothing.
    /// The exit code is 3 if a server would be refused, or writes would wait.
    #[command(after_help = "\
Examples:
  ramhold topology check
  ramhold topology check --placement zone-local --replicas 3
  ramhold topology check --topology bcube:4,1 --json")]
    Check {
        /// Topology to try [default: that of the cluster]
        #[arg(long, value_name = "NETWORK")]
        topology: Option<Topology>,
        /// Placement to try: 'scatter', 'copyset', 'zone-local', 'multiring', ... [default: that of the
        /// cluster]
        #[arg(long, value_name = "HOW")]
        placement: Option<ReplicaPlacement>,
        /// Replicas of a table.
        #[arg(long, value_name = "COUNT", default_value_t = REPLICA_COUNT_DEFAULT,
            value_parser = clap::value_parser!(u8).range(1..=i64::from(REPLICA_COUNT_MAX)))]
        replicas: u8,
    },
}

impl TopologyCommand {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let cluster = client.cluster_status()?;
        let up: Vec<&ServerEntry> = up(&cluster).collect();
        let network = Network::new(&cluster.topology, up.iter().copied());
        let view = View { topology: &cluster.topology, up: &up, network };
        let draw = |path: &Path, marked: Option<ServerId>| {
            let (servers, outages) = (&cluster.servers, cluster.outages.as_deref().unwrap_or_default());
            let scene =
                Scene { topology: &cluster.topology, servers, network: &view.network, outages, marked };
            let drawn = picture::draw(&scene).map_err(Failure::usage)?;
            std::fs::write(path, drawn).map_err(|error| Failure::local(path, &error).about("--svg"))
        };
        match &self.command {
            Command::Links => {
                let outages = cluster.outages.as_deref().unwrap_or_default();
                let links = links::Links::ask(&mut client, &up, outages);
                if global.json { output::print_json(&links.json()) } else { output::print(&links.text()) }
            }
            Command::Traffic => {
                let traffic = traffic::TrafficTable::ask(&mut client, &up);
                if global.json { output::print_json(&traffic.json()) } else { output::print(&traffic.text()) }
            }
            Command::Check { topology, placement, replicas } => {
                let topology = topology.as_ref().unwrap_or(&cluster.topology);
                let placement = placement.unwrap_or_else(|| cluster.replica_placement());
                let rooms = match placement.neighbouring() {
                    Some(_) => problems::head_rooms(&mut client, &up),
                    None => BTreeMap::new(),
                };
                let problems = check(&up, topology, placement, *replicas, &rooms);
                let what = format!("{topology}, {placement}, {replicas} replicas, {} servers up", up.len());
                if global.json {
                    output::print_json(&problems::json(&problems))?;
                } else {
                    output::print(&problems::text(&what, &problems))?;
                }
                let is_grave = problems.iter().any(Problem::is_grave);
                if is_grave { Err(Failure::told(REFUSED)) } else { Ok(()) }
            }
            Command::Show { svg } => {
                svg.as_deref().map(|path| draw(path, None)).transpose()?;
                match global.json {
                    true => output::print_json(&view.show_json()),
                    false => output::print(&view.show()),
                }
            }
            Command::Rings { server, svg } => {
                let server = view.find(server)?;
                svg.as_deref().map(|path| draw(path, Some(server))).transpose()?;
                match global.json {
                    true => output::print_json(&view.rings_json(server)),
                    false => output::print(&view.rings(server)),
                }
            }
            Command::Paths { from, to } => {
                let ends = (view.find(from)?, view.find(to)?);
                view.check_paths(ends)?;
                match global.json {
                    true => output::print_json(&view.paths_json(ends)),
                    false => output::print(&view.paths(ends)),
                }
            }
        }
    }
}

fn up(cluster: &ClusterStatus) -> impl Iterator<Item = &ServerEntry> {
    cluster.servers.iter().filter(|server| server.state == ServerState::Up)
}

/// The servers that are up, at their places.
struct View<'a> {
    topology: &'a Topology,
    up: &'a [&'a ServerEntry],
    network: Network<'a>,
}

impl View<'_> {
    /// The server with this label in the grid, or this id.
    fn find(&self, text: &str) -> Result<ServerId, Failure> {
        let by_label = self.network.grid().and_then(|grid| grid.label(text).ok());
        let found = by_label.and_then(|label| self.network.server_at(&label));
        let by_id = self.up.iter().map(|server| server.id).find(|id| id.to_string() == text);
        found.or(by_id).ok_or_else(|| {
            let shown = bytes_for_eyes(text.as_bytes());
            Failure::usage(format!("no server that is up is at {shown}; 'ramhold topology show' lists them"))
        })
    }

    /// The place of a server as people write it.
    fn place(&self, server: ServerId) -> String {
        match (self.network.grid(), self.network.label(server)) {
            (Some(grid), Some(label)) => grid.name(label),
            _ => server.to_string(),
        }
    }

    fn places(&self, servers: &[ServerId]) -> String {
        let places: Vec<String> = servers.iter().map(|server| self.place(*server)).collect();
        if places.is_empty() { "-".into() } else { places.join(" ") }
    }

    fn summary(&self) -> String {
        let up = self.up.len();
        let noun = if up == 1 { "server" } else { "servers" };
        match self.network.grid() {
            Some(grid) => format!(
                "{}: {up} {noun} up at {} places, {} switches on {} levels\n",
                self.topology,
                grid.server_count(),
                grid.switch_count(),
                grid.level_count()
            ),
            None => format!("{}: {up} {noun} up\n", self.topology),
        }
    }

    fn show(&self) -> String {
        let label = |text: Option<&str>| text.map_or("-".into(), |text| bytes_for_eyes(text.as_bytes()));
        let mut sorted = self.up.to_vec();
        sorted.sort_by_key(|server| {
            (self.network.label(server.id).cloned().map(reversed), zone(server), rack(server))
        });
        let mut columns = Columns::new(["place", "server", "address", "zone", "rack", "host", "near"]);
        for server in sorted {
            let host = server.labels.iter().find(|label| label.name == "host").map(|l| l.value.as_str());
            let place = match self.network.label(server.id) {
                Some(_) => self.place(server.id),
                None => "-".into(),
            };
            columns.row([
                place,
                server.id.to_string(),
                server.address.0.to_string(),
                label(zone(server)),
                label(rack(server).map(|rack| rack.name)),
                label(host),
                self.network.near(server.id).len().to_string(),
            ]);
        }
        format!("{}\n{}", self.summary(), columns.fitted(WIDTH))
    }

    fn show_json(&self) -> Value {
        let servers: Vec<Value> = self
            .up
            .iter()
            .map(|server| {
                json!({
                    "server": server.id.to_string(),
                    "address": server.address.0.to_string(),
                    "place": self.network.label(server.id).map(|_| self.place(server.id)),
                    "zone": zone(server),
                    "rack": rack(server).map(|rack| rack.name),
                    "near": ids(&self.network.near(server.id)),
                })
            })
            .collect();
        json!({ "topology": self.topology.to_string(), "servers": servers })
    }

    fn rings(&self, master: ServerId) -> String {
        let near = self.network.near(master);
        let place = self.place(master);
        if near.is_empty() {
            return format!("{}nobody is near {place}\n", self.summary());
        }
        let mut columns = Columns::new(["near", "server", "its backup ring"]);
        for recoverer in &near {
            let ring = self.network.ring(master, *recoverer);
            columns.row([self.place(*recoverer), recoverer.to_string(), self.places(&ring)]);
        }
        format!(
            "{}the servers near {place}, and the backups near each of them alone\n\n{}",
            self.summary(),
            columns.fitted(WIDTH)
        )
    }

    fn rings_json(&self, master: ServerId) -> Value {
        let rings: Vec<Value> = self
            .network
            .near(master)
            .iter()
            .map(|recoverer| {
                json!({
                    "near": recoverer.to_string(),
                    "ring": ids(&self.network.ring(master, *recoverer)),
                })
            })
            .collect();
        json!({ "server": master.to_string(), "rings": rings })
    }

    fn check_paths(&self, (from, to): (ServerId, ServerId)) -> Result<(), Failure> {
        if self.network.grid().is_none() {
            return Err(Failure::usage(format!(
                "paths are known in 'bcube' and 'grid' topologies; the topology of this cluster is {}",
                self.topology
            )));
        }
        match from == to {
            true => Err(Failure::usage("a path has two ends; give two servers")),
            false => Ok(()),
        }
    }

    /// A path as text; places where no server is up are in brackets.
    fn path(&self, labels: &[GridLabel]) -> String {
        let Some(grid) = self.network.grid() else { return String::new() };
        let shown = labels.iter().map(|label| match self.network.server_at(label) {
            Some(_) => grid.name(label),
            None => format!("({})", grid.name(label)),
        });
        shown.collect::<Vec<_>>().join(" > ")
    }

    fn paths(&self, (from, to): (ServerId, ServerId)) -> String {
        let paths = self.network.paths(from, to);
        let mut columns = Columns::new(["last level", "hops", "path"]);
        for path in &paths {
            let hops = path.labels.len() - 1;
            columns.row([path.level.to_string(), hops.to_string(), self.path(&path.labels)]);
        }
        let is_broken =
            paths.iter().flat_map(|path| &path.labels).any(|l| self.network.server_at(l).is_none());
        let note = if is_broken { "\n(place): no server is up there\n" } else { "" };
        format!("{}\n{}{note}", self.summary(), columns.fitted(WIDTH))
    }

    fn paths_json(&self, (from, to): (ServerId, ServerId)) -> Value {
        let Some(grid) = self.network.grid() else { return Value::Null };
        let paths: Vec<Value> = self
            .network
            .paths(from, to)
            .iter()
            .map(|path| {
                let places: Vec<String> = path.labels.iter().map(|label| grid.name(label)).collect();
                let is_whole = path.labels.iter().all(|label| self.network.server_at(label).is_some());
                json!({ "last_level": path.level, "places": places, "whole": is_whole })
            })
            .collect();
        json!({ "from": from.to_string(), "to": to.to_string(), "paths": paths })
    }
}

/// The digits of a label from the highest level down, as it is written.
fn reversed(label: GridLabel) -> Vec<u16> {
    (0..label.level_count()).rev().map(|level| label.digit(level)).collect()
}

fn ids(servers: &[ServerId]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}
