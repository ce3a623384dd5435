//! The causes of the silences of neighbours: a server, a link, a switch, a rack.
//!
//! The idea is to look at each edge switch by itself: which of its servers reach each other over it. A server that is
//! down explains all silences around it. A switch over which nobody else reaches anybody is down, and a server
//! that alone reaches nobody has lost its link.
//!
//! Invariant: a pair of silent servers has one cause.
//!
//! Not here: verdicts on servers (coordinator), how silences are seen (neighbours).
//! Protocol: docs/protocols/neighbours.md, "What has failed". Catalogue: H3, H4. Source: RAMCUBE 3.3.

use ramhold_base::ServerId;
use ramhold_placement::{EdgeSwitch, Pair, Wiring, pair};
use ramhold_wire::neighbours::{NeighbourReach, NeighbourReport, SilentNeighbour};
use ramhold_wire::outage::{Outage, OutageKind};
use std::collections::{BTreeMap, BTreeSet};

/// Two lost servers are needed to call a server down: one may be wrong.
const ACCUSERS_MIN: usize = 2;

/// The causes of the silences that servers tell of. `dead`: the servers of racks that were declared dead.
/// `unanswered`: those that do not answer the coordinator, and may be dead.
pub fn causes(
    wiring: &Wiring,
    reports: &BTreeMap<ServerId, NeighbourReport>,
    dead: &BTreeSet<ServerId>,
    unanswered: &BTreeSet<ServerId>,
) -> BTreeSet<Outage> {
    let seen = Seen::of(reports);
    let mut lost: BTreeSet<ServerId> = dead.union(unanswered).copied().collect();
    lost.extend(seen.told.keys().filter(|server| seen.is_lost(**server)));
    let is_unknown = |server: &ServerId| !lost.contains(server) && seen.is_unknown(*server, &lost);
    let unknown: BTreeSet<ServerId> = seen.told.keys().copied().filter(is_unknown).collect();
    let mut causes = BTreeSet::new();
    let mut told: BTreeSet<ServerId> = BTreeSet::new();
    for (rack, servers) in wiring.racks() {
        if servers.len() > 1 && servers.iter().all(|server| dead.contains(server)) {
            told.extend(servers);
            let (switch, servers) = (rack.to_owned(), servers.to_vec());
            causes.insert(Outage { what: OutageKind::Rack, switch, link: None, servers });
        }
    }
    for server in lost.difference(&told) {
        let (switch, link) = Default::default();
        causes.insert(Outage { what: OutageKind::Server, switch, link, servers: vec![*server] });
    }
    for (at, silent) in seen.by_switch(wiring, &lost) {
        causes_on(&wiring.switches()[at], &silent, &lost, &unknown, &mut causes);
    }
    causes
}

/// The causes of the silences on one switch.
fn causes_on(
    switch: &EdgeSwitch,
    silent: &BTreeSet<Pair>,
    lost: &BTreeSet<ServerId>,
    unknown: &BTreeSet<ServerId>,
    causes: &mut BTreeSet<Outage>,
) {
    let outage = |what, servers: Vec<ServerId>| Outage {
        what,
        switch: switch.name.clone(),
        link: switch.link.clone(),
        servers,
    };
    let of_unknown = silent.iter().flat_map(|(one, other)| [one, other]).filter(|id| unknown.contains(id));
    causes.extend(of_unknown.map(|server| outage(OutageKind::Unknown, vec![*server])));
    let is_plain = |server: &ServerId| !lost.contains(server) && !unknown.contains(server);
    let are_plain = |pair: &&Pair| is_plain(&pair.0) && is_plain(&pair.1);
    let silent: BTreeSet<Pair> = silent.iter().filter(are_plain).copied().collect();
    if silent.is_empty() {
        return;
    }
    let on_it = switch.servers.iter().filter(|server| is_plain(server)).count();
    // How many of its pairs each server has, and how many of them are silent.
    let mut counts: BTreeMap<ServerId, (usize, usize)> = BTreeMap::new();
    let mut pairs = 0;
    for pair in switch.pairs.iter().filter(are_plain) {
        pairs += 1;
        for server in [pair.0, pair.1] {
            let count = counts.entry(server).or_default();
            count.0 += 1;
            count.1 += usize::from(silent.contains(pair));
        }
    }
    if on_it > 2 && silent.len() == pairs {
        causes.insert(outage(OutageKind::Switch, switch.servers.iter().copied().collect()));
        return;
    }
    let reaches_nobody = |(server, (all, silent)): (&ServerId, &(usize, usize))| {
        (on_it > 2 && all == silent).then_some(*server)
    };
    let alone: BTreeSet<ServerId> = counts.iter().filter_map(reaches_nobody).collect();
    causes.extend(alone.iter().map(|server| outage(OutageKind::Link, vec![*server])));
    let unexplained = silent.iter().filter(|(one, other)| !alone.contains(one) && !alone.contains(other));
    causes.extend(unexplained.map(|(one, other)| outage(OutageKind::Path, vec![*one, *other])));
}

/// One server's report of another.
struct Word<'a> {
    by: ServerId,
    by_one_cut_off: bool,
    silent: &'a SilentNeighbour,
}

/// All words, by the server that they are of.
struct Seen<'a> {
    told: BTreeMap<ServerId, Vec<Word<'a>>>,
    /// Servers that reach a silent one on another way, and so are there.
    reaching: BTreeSet<ServerId>,
}

impl<'a> Seen<'a> {
    fn of(reports: &'a BTreeMap<ServerId, NeighbourReport>) -> Seen<'a> {
        let mut seen = Seen { told: BTreeMap::new(), reaching: BTreeSet::new() };
        for (by, report) in reports {
            for silent in &report.silent {
                let word = Word { by: *by, by_one_cut_off: report.is_cut_off, silent };
                seen.told.entry(silent.server).or_default().push(word);
                if silent.reach == NeighbourReach::Elsewhere {
                    seen.reaching.insert(*by);
                }
            }
        }
        seen
    }

    fn is_lost(&self, server: ServerId) -> bool {
        let words = self.told.get(&server).into_iter().flatten();
        words.filter(|word| word.silent.reach == NeighbourReach::Lost).count() >= ACCUSERS_MIN
    }

    /// Whether all who look for a silent server know nothing. Those who are themselves cut off, or lost, do not count.
    fn is_unknown(&self, server: ServerId, lost: &BTreeSet<ServerId>) -> bool {
        let words = self.told.get(&server).into_iter().flatten();
        let mut counted = words.filter(|word| !word.by_one_cut_off && !lost.contains(&word.by)).peekable();
        !self.reaching.contains(&server)
            && counted.peek().is_some()
            && counted.all(|word| word.silent.reach == NeighbourReach::Unknown)
    }

    /// The pairs of which one does not hear the other, by the place of their switch. Nothing is said of lost servers.
    fn by_switch(&self, wiring: &Wiring, lost: &BTreeSet<ServerId>) -> BTreeMap<usize, BTreeSet<Pair>> {
        let mut silent: BTreeMap<usize, BTreeSet<Pair>> = BTreeMap::new();
        for (server, words) in self.told.iter().filter(|(server, _)| !lost.contains(server)) {
            for word in words.iter().filter(|word| !lost.contains(&word.by)) {
                let between = pair(word.by, *server);
                let mut links: Vec<Option<&str>> =
                    word.silent.links.iter().map(|link| Some(link.as_str())).collect();
                if links.is_empty() {
                    links.push(None);
                }
                for at in links.into_iter().filter_map(|link| wiring.switch_on(between, link)) {
                    silent.entry(at).or_default().insert(between);
                }
            }
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_placement::Network;
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::{Label, Link, ServerEntry, ServerState};
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

        fn causes(&self, dead: &[ServerId]) -> Vec<String> {
            let servers = servers();
            let topology: Topology = "bcube:4,1".parse().unwrap();
            let network = Network::new(&topology, servers.iter());
            let wiring = Wiring::of(&network, servers.iter().map(|server| server.id), network.racks());
            let dead = dead.iter().copied().collect();
            causes(&wiring, &self.0, &dead, &BTreeSet::new()).iter().map(ToString::to_string).collect()
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
