//! Who pings whom over which edge switch.
//!
//! It is worked out once for a server list, since it is needed for every look at what servers tell of their neighbours.
//!
//! Invariant: a pair of servers is on a switch once for each link over which one of them pings the other.
//!
//! Not here: what silences mean (detector). Protocol: docs/protocols/neighbours.md. Catalogue: H3, H4.

use crate::topology::Network;
use ramhold_base::ServerId;
use std::collections::{BTreeMap, BTreeSet};

/// Two servers, the one with the lower id first.
pub type Pair = (ServerId, ServerId);

/// An edge switch, and the servers that ping each other over it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeSwitch {
    /// In a grid as in `<0,1>`, else the zone and rack as in `a/r1`.
    pub name: String,
    /// The link by which servers are connected; none: by their first addresses.
    pub link: Option<String>,
    pub servers: BTreeSet<ServerId>,
    pub pairs: BTreeSet<Pair>,
}

#[derive(Debug, Default)]
pub struct Wiring {
    watched: BTreeMap<ServerId, BTreeSet<ServerId>>,
    watchers: BTreeMap<ServerId, BTreeSet<ServerId>>,
    switches: Vec<EdgeSwitch>,
    /// The switches over which two servers ping each other, by link.
    between: BTreeMap<Pair, Vec<(Option<String>, usize)>>,
    racks: BTreeMap<String, Vec<ServerId>>,
}

impl Wiring {
    /// The wiring of the servers of a network that are up. `racks`: with those that are dead.
    pub fn of(
        network: &Network<'_>,
        up: impl Iterator<Item = ServerId>,
        racks: BTreeMap<String, Vec<ServerId>>,
    ) -> Wiring {
        let mut wiring = Wiring { racks, ..Wiring::default() };
        let mut known: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
        for server in up {
            for neighbour in network.watched(server) {
                wiring.watched.entry(server).or_default().insert(neighbour);
                wiring.watchers.entry(neighbour).or_default().insert(server);
                let between = pair(server, neighbour);
                if wiring.between.contains_key(&between) {
                    continue;
                }
                let Some(name) = network.switch_between(server, neighbour) else { continue };
                let mut links: Vec<Option<String>> = network
                    .shared_links(server, neighbour)
                    .into_iter()
                    .map(|link| Some(link.name.clone()))
                    .collect();
                if links.is_empty() {
                    links.push(None);
                }
                for link in links {
                    let at = *known.entry((name.clone(), link.clone())).or_insert_with(|| {
                        let (servers, pairs) = Default::default();
                        let (name, link) = (name.clone(), link.clone());
                        wiring.switches.push(EdgeSwitch { name, link, servers, pairs });
                        wiring.switches.len() - 1
                    });
                    let switch = &mut wiring.switches[at];
                    switch.servers.extend([server, neighbour]);
                    switch.pairs.insert(between);
                    wiring.between.entry(between).or_default().push((link, at));
                }
            }
        }
        wiring
    }

    /// Whether a server pings another one as its neighbour.
    pub fn watches(&self, by: ServerId, server: ServerId) -> bool {
        self.watched.get(&by).is_some_and(|watched| watched.contains(&server))
    }

    /// The neighbours that ping a server.
    pub fn watchers(&self, server: ServerId) -> impl Iterator<Item = ServerId> {
        self.watchers.get(&server).into_iter().flatten().copied()
    }

    /// The switch over which two servers ping each other on this link, by its place in `switches`.
    pub fn switch_on(&self, between: Pair, link: Option<&str>) -> Option<usize> {
        let switches = self.between.get(&between)?;
        switches.iter().find(|(on, _)| on.as_deref() == link).map(|(_, at)| *at)
    }

    pub fn switches(&self) -> &[EdgeSwitch] {
        &self.switches
    }

    /// The racks and their servers: in a grid those on one switch of level 0.
    pub fn racks(&self) -> impl Iterator<Item = (&str, &[ServerId])> {
        self.racks.iter().map(|(name, servers)| (name.as_str(), servers.as_slice()))
    }
}

pub fn pair(one: ServerId, other: ServerId) -> Pair {
    (one.min(other), one.max(other))
}
