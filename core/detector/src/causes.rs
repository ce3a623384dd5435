//! What explains the silences of neighbours: a server, a link, a switch, a rack.
//!
//! The idea is to look at each edge switch by itself: which of its servers reach each other over it. A server that is
//! down explains all silences around it. Of the rest, a switch over which nobody reaches anybody is down, and a server
//! that alone reaches nobody has lost its link.
//!
//! Invariant: a pair of silent servers has one cause.
//!
//! Not here: verdicts on servers (coordinator), how silences are seen (neighbours).
//! Protocol: docs/protocols/neighbours.md, "What has failed". Catalogue: H3, H4. Source: RAMCUBE 3.3.

use ramhold_base::ServerId;
use ramhold_placement::{EdgeSwitch, Network};
use ramhold_wire::neighbours::{NeighbourReach, NeighbourReport};
use ramhold_wire::outage::{Outage, OutageKind};
use std::collections::{BTreeMap, BTreeSet};

/// Two lost servers are needed to call a server down: one may be wrong.
const ACCUSERS_MIN: usize = 2;

/// The causes of the silences that servers tell of. `network`: the servers that are up, or have just died. `down`: those
/// of them that do not answer the coordinator.
pub fn causes(
    network: &Network<'_>,
    reports: &BTreeMap<ServerId, NeighbourReport>,
    down: &BTreeSet<ServerId>,
) -> BTreeSet<Outage> {
    let seen = Seen { reports };
    let mut lost = down.clone();
    lost.extend(seen.silent_servers().into_iter().filter(|server| seen.is_lost(*server)));
    let mut unknown = seen.silent_servers();
    unknown.retain(|server| !lost.contains(server) && seen.is_unknown(*server, &lost));
    let mut causes = BTreeSet::new();
    let mut told = BTreeSet::new();
    for (rack, servers) in network.racks() {
        if servers.len() > 1 && servers.iter().all(|server| lost.contains(server)) {
            told.extend(servers.iter().copied());
            causes.insert(Outage { what: OutageKind::Rack, switch: rack, link: None, servers });
        }
    }
    for server in lost.difference(&told) {
        let (switch, link) = Default::default();
        causes.insert(Outage { what: OutageKind::Server, switch, link, servers: vec![*server] });
    }
    for switch in network.switches() {
        let is_plain = |server: &&ServerId| !lost.contains(server) && !unknown.contains(server);
        let on_it: Vec<ServerId> = switch.servers.iter().filter(is_plain).copied().collect();
        let outage =
            |what, servers| Outage { what, switch: switch.name.clone(), link: switch.link.clone(), servers };
        for server in switch.servers.iter().filter(|server| unknown.contains(server)) {
            if on_it.iter().any(|other| seen.is_silent(&switch, *other, *server)) {
                causes.insert(outage(OutageKind::Unknown, vec![*server]));
            }
        }
        let silent: BTreeSet<(ServerId, ServerId)> =
            pairs(&on_it).filter(|(one, other)| seen.is_silent(&switch, *one, *other)).collect();
        if silent.is_empty() {
            continue;
        }
        if on_it.len() > 2 && silent.len() == pairs(&on_it).count() {
            causes.insert(outage(OutageKind::Switch, switch.servers.clone()));
            continue;
        }
        let is_in = |server: ServerId, pair: &(ServerId, ServerId)| pair.0 == server || pair.1 == server;
        let reaches_nobody =
            |server: &ServerId| silent.iter().filter(|pair| is_in(*server, pair)).count() == on_it.len() - 1;
        let alone: BTreeSet<ServerId> =
            on_it.iter().filter(|server| on_it.len() > 2 && reaches_nobody(server)).copied().collect();
        causes.extend(alone.iter().map(|server| outage(OutageKind::Link, vec![*server])));
        let unexplained = silent.iter().filter(|(one, other)| !alone.contains(one) && !alone.contains(other));
        causes.extend(unexplained.map(|(one, other)| outage(OutageKind::Path, vec![*one, *other])));
    }
    causes
}

fn pairs(servers: &[ServerId]) -> impl Iterator<Item = (ServerId, ServerId)> + '_ {
    servers.iter().enumerate().flat_map(|(at, one)| servers[at + 1..].iter().map(|other| (*one, *other)))
}

struct Seen<'a> {
    reports: &'a BTreeMap<ServerId, NeighbourReport>,
}

impl Seen<'_> {
    fn silent_servers(&self) -> BTreeSet<ServerId> {
        self.reports.values().flat_map(|report| &report.silent).map(|silent| silent.server).collect()
    }

    /// What others tell of a silent server.
    fn told_of(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = (ServerId, &NeighbourReport, NeighbourReach)> {
        self.reports.iter().filter_map(move |(by, report)| {
            let silent = report.silent.iter().find(|silent| silent.server == server)?;
            Some((*by, report, silent.reach))
        })
    }

    fn is_lost(&self, server: ServerId) -> bool {
        self.told_of(server).filter(|(_, _, reach)| *reach == NeighbourReach::Lost).count() >= ACCUSERS_MIN
    }

    /// Whether all who look for a silent server know nothing. Those who are themselves cut off, or lost, do not count.
    fn is_unknown(&self, server: ServerId, lost: &BTreeSet<ServerId>) -> bool {
        let mut told =
            self.told_of(server).filter(|(by, report, _)| !report.is_cut_off && !lost.contains(by));
        let reaches_others = self
            .reports
            .get(&server)
            .is_some_and(|own| own.silent.iter().any(|silent| silent.reach == NeighbourReach::Elsewhere));
        let mut looked = told.by_ref().peekable();
        !reaches_others
            && looked.peek().is_some()
            && looked.all(|(_, _, reach)| reach == NeighbourReach::Unknown)
    }

    /// Whether one of two servers does not hear the other over a switch.
    fn is_silent(&self, switch: &EdgeSwitch, one: ServerId, other: ServerId) -> bool {
        let tells = |by: ServerId, of: ServerId| {
            let silent = self.reports.get(&by).map(|report| &report.silent[..]).unwrap_or_default();
            silent.iter().find(|silent| silent.server == of).is_some_and(|silent| match &switch.link {
                Some(link) => silent.links.contains(link),
                None => silent.links.is_empty(),
            })
        };
        tells(one, other) || tells(other, one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::{Label, Link, ServerEntry, ServerState};
    use ramhold_wire::neighbours::SilentNeighbour;
    use ramhold_wire::topology::Topology;

    /// BCube(4, 1): server `ab` has the id `1 + 4a + b`, and a link for each level.
    fn servers() -> Vec<ServerEntry> {
        let address = |port| Address(std::net::SocketAddr::from(([10, 0, 0, 1], port)));
        let entry = |place: u16| ServerEntry {
            id: id(place / 4, place % 4),
            address: address(place),
            labels: vec![Label { name: "bcube".into(), value: format!("{}{}", place / 4, place % 4) }],
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 1,
            directory: Default::default(),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: Some(
                (0..2u16)
                    .map(|level| Link {
                        name: level.to_string(),
                        address: address(100 * (level + 1) + place),
                    })
                    .collect(),
            ),
        };
        (0..16).map(entry).collect()
    }

    fn id(high: u16, low: u16) -> ServerId {
        ServerId(u64::from(1 + 4 * high + low))
    }

    #[derive(Default)]
    struct Told(BTreeMap<ServerId, NeighbourReport>);

    impl Told {
        fn silent(mut self, by: ServerId, of: &[ServerId], level: u16, reach: NeighbourReach) -> Told {
            let silent = |server: &ServerId| SilentNeighbour {
                server: *server,
                links: vec![level.to_string()],
                reach,
            };
            self.0.entry(by).or_default().silent.extend(of.iter().map(silent));
            self
        }

        fn causes(&self, down: &[ServerId]) -> Vec<String> {
            let servers = servers();
            let topology: Topology = "bcube:4,1".parse().unwrap();
            let network = Network::new(&topology, servers.iter());
            let down = down.iter().copied().collect();
            causes(&network, &self.0, &down).iter().map(ToString::to_string).collect()
        }
    }

    use NeighbourReach::{Elsewhere, Lost, Unknown};

    const P: ServerId = ServerId(1);
    const OBSERVERS: [ServerId; 3] = [ServerId(2), ServerId(3), ServerId(4)];

    // H4: the five rows of the decision table, for the observers 01, 02, 03 of 00 on level 0.
    #[test]
    fn a_server_that_is_lost_on_all_paths_is_down() {
        let mut told = Told::default();
        for by in OBSERVERS {
            told = told.silent(by, &[P], 0, Lost);
        }
        assert_eq!(told.causes(&[]), ["server down: s1"]);
    }

    // H4
    #[test]
    fn a_server_that_is_lost_on_one_level_alone_has_lost_its_link() {
        let mut told = Told::default().silent(P, &OBSERVERS, 0, Elsewhere);
        for by in OBSERVERS {
            told = told.silent(by, &[P], 0, Elsewhere);
        }
        assert_eq!(told.causes(&[]), ["link down: s1 on switch <0,0>"]);
    }

    // H4
    #[test]
    fn a_switch_over_which_nobody_reaches_anybody_is_down() {
        let all = [P, OBSERVERS[0], OBSERVERS[1], OBSERVERS[2]];
        let mut told = Told::default();
        for by in all {
            let others: Vec<ServerId> = all.into_iter().filter(|other| *other != by).collect();
            told = told.silent(by, &others, 0, Elsewhere);
        }
        assert_eq!(told.causes(&[]), ["switch <0,0> down"]);
    }

    // H4
    #[test]
    fn an_accuser_that_reaches_nobody_has_lost_its_own_link() {
        let told = Told::default().silent(OBSERVERS[0], &[P, OBSERVERS[1], OBSERVERS[2]], 0, Elsewhere);
        assert_eq!(told.causes(&[]), ["link down: s2 on switch <0,0>"]);
    }

    // H4
    #[test]
    fn without_a_helper_that_answers_nothing_is_known() {
        let mut told = Told::default();
        for by in OBSERVERS {
            told = told.silent(by, &[P], 0, Unknown);
        }
        assert_eq!(told.causes(&[]), ["s1 silent on switch <0,0>, and nobody can say why"]);
    }

    // H4
    #[test]
    fn two_servers_that_do_not_reach_each_other_have_lost_their_path() {
        let told = Told::default().silent(P, &[OBSERVERS[0]], 0, Elsewhere);
        assert_eq!(told.causes(&[]), ["path down: s1 and s2 on switch <0,0>"]);
    }

    // H4
    #[test]
    fn a_dead_server_beside_a_dead_switch_is_told_apart() {
        let mut told = Told::default();
        let level = [id(0, 0), id(1, 0), id(2, 0), id(3, 0)];
        for by in level {
            let others: Vec<ServerId> = level.into_iter().filter(|other| *other != by).collect();
            told = told.silent(by, &others, 1, Elsewhere);
        }
        told = told.silent(id(1, 1), &[id(1, 2)], 0, Lost).silent(id(1, 3), &[id(1, 2)], 0, Lost);
        assert_eq!(told.causes(&[]), ["server down: s7", "switch <1,0> down"]);
    }

    // H4
    #[test]
    fn a_server_without_any_link_is_one_cause() {
        let mut told = Told::default();
        for (level, servers) in [(0, [id(0, 1), id(0, 2), id(0, 3)]), (1, [id(1, 0), id(2, 0), id(3, 0)])] {
            told = told.silent(P, &servers, level, Unknown);
            for by in servers {
                told = told.silent(by, &[P], level, Lost);
            }
        }
        told.0.get_mut(&P).unwrap().is_cut_off = true;
        assert_eq!(told.causes(&[]), ["server down: s1"]);
        // Before they have lost it, too.
        let mut told = Told::default().silent(P, &OBSERVERS, 0, Unknown);
        told.0.get_mut(&P).unwrap().is_cut_off = true;
        assert_eq!(told.causes(&[]), ["link down: s1 on switch <0,0>"]);
    }

    // H4, O3
    #[test]
    fn a_rack_whose_servers_are_all_down_is_one_cause() {
        let rack = [id(2, 0), id(2, 1), id(2, 2), id(2, 3)];
        let mut told = Told::default();
        for (low, dead) in (0..).zip(&rack[..3]) {
            told = told.silent(id(0, low), &[*dead], 1, Unknown);
        }
        assert_eq!(told.causes(&rack), ["rack <0,2> down: s9, s10, s11, s12"]);
        assert_eq!(told.causes(&rack[..3]), ["server down: s9", "server down: s10", "server down: s11"]);
    }
}
