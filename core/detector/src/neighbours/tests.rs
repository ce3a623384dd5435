//! One server among neighbours that are dead, cut off, or reached on another way.

use super::*;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, Link, ServerEntry, ServerListUpdate, ServerState};

fn at(millis: u64) -> Instant {
    Instant((10_000 + millis) * 1_000_000)
}

fn address(server: u64, link: u64) -> SocketAddr {
    SocketAddr::from(([10, link as u8, 0, server as u8], 7401))
}

/// Server 1 among others.
struct Rig {
    neighbours: Neighbours,
    view: View,
    now: u64,
    /// Servers that answer nobody.
    dead: BTreeSet<u64>,
    /// Addresses from which nothing comes back.
    cut: BTreeSet<SocketAddr>,
    /// Helpers say that they reach nobody, or do not answer.
    helpers_deny: bool,
    helpers_answer: bool,
    asked: Vec<Question>,
    reports: Vec<(u64, NeighbourReport)>,
}

impl Rig {
    fn new(topology: &str, places: &[&str], links: u64) -> Rig {
        let entry = |(index, place): (usize, &&str)| {
            let server = index as u64 + 1;
            let link =
                |link: u64| Link { name: (link - 1).to_string(), address: Address(address(server, link)) };
            let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
            ServerEntry {
                id: ServerId(server),
                address: Address(address(server, 0)),
                labels: vec![label("zone", "z"), label(label_name(topology), place)],
                state: ServerState::Up,
                master: true,
                backup: true,
                read_speed: 1,
                directory: Default::default(),
                kept: false,
                replicates: false,
                replicates_only: None,
                redis_cluster_port: None,
                links: (links > 0).then(|| (1..=links).map(link).collect()),
            }
        };
        let mut view = View::new(address(0, 0));
        view.me = ServerId(1);
        view.topology = topology.parse().unwrap();
        let update = ServerListUpdate {
            from: 0,
            to: 1,
            changed: places.iter().enumerate().map(entry).collect(),
            removed: Vec::new(),
            issued: ServerId(places.len() as u64),
            time: Default::default(),
            coordinator: None,
            copyset_rings: None,
            placement: None,
            topology: view.topology.clone(),
            bricks: None,
            accounts: None,
        };
        view.list.apply(&update);
        Rig {
            neighbours: Neighbours::new(Duration::from_millis(300)),
            view,
            now: 0,
            dead: BTreeSet::new(),
            cut: BTreeSet::new(),
            helpers_deny: true,
            helpers_answer: true,
            asked: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// BCube(4, 1), the server at 00 and the others with an id by their places.
    fn cube() -> Rig {
        let places: Vec<String> = (0..16).map(|place| format!("{}{}", place / 4, place % 4)).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        Rig::new("bcube:4,1", &places, 2)
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += 1;
            let now = at(self.now);
            self.neighbours.follow(&self.view);
            if self.neighbours.deadline().is_none_or(|deadline| deadline > now) {
                continue;
            }
            let orders = self.neighbours.tick(now);
            for (server, address) in orders.pings {
                if !self.dead.contains(&server.raw()) && !self.cut.contains(&address) {
                    self.neighbours.on_pong(server, address);
                }
            }
            for question in orders.questions {
                self.asked.push(question);
                if self.helpers_answer && !self.dead.contains(&question.helper.raw()) {
                    let reached = !self.helpers_deny && !self.dead.contains(&question.about.raw());
                    self.neighbours.on_helper(question, reached);
                }
            }
            self.reports.extend(self.neighbours.report(now).map(|report| (self.now, report)));
        }
    }

    /// The last report of a server.
    fn reach(&self, server: u64) -> Option<NeighbourReach> {
        let (_, report) = self.reports.last()?;
        report.silent.iter().find(|silent| silent.server.raw() == server).map(|silent| silent.reach)
    }

    /// When it was first told as this.
    fn first(&self, reach: NeighbourReach) -> Option<u64> {
        let tells = |report: &NeighbourReport| report.silent.iter().any(|silent| silent.reach == reach);
        self.reports.iter().find(|(_, report)| tells(report)).map(|(at, _)| *at)
    }
}

fn label_name(topology: &str) -> &str {
    match topology.split_once(':') {
        Some((name, _)) => name,
        None => "rack",
    }
}

use NeighbourReach::{Elsewhere, Lost, Unknown};

// H3
#[test]
fn a_dead_neighbour_is_told_after_300_ms_and_lost_after_400() {
    let mut rig = Rig::cube();
    rig.run(1000);
    assert_eq!(rig.reports, []);
    rig.dead.insert(2);
    rig.run(600);
    let (first, lost) = (rig.first(Unknown).unwrap(), rig.first(Lost).unwrap());
    assert!((1300..=1350).contains(&first), "{first}");
    assert!((first + 100..=first + 110).contains(&lost), "{lost}");
    assert_eq!(rig.reports[0].1.silent[0].links, ["0"]);
    // Servers near it on the other switch were asked: 11, 21, 31 are near 01.
    let helpers: BTreeSet<u64> = rig.asked.iter().map(|question| question.helper.raw()).collect();
    assert!(helpers.is_subset(&[6, 10, 14].into()), "{helpers:?}");
}

// H3
#[test]
fn a_neighbour_on_another_way_is_elsewhere_and_never_lost() {
    for by_helper in [false, true] {
        let mut rig = Rig::cube();
        rig.helpers_deny = !by_helper;
        rig.run(200);
        rig.cut.insert(address(2, 1));
        if by_helper {
            rig.cut.insert(address(2, 2));
        }
        rig.run(3000);
        assert_eq!((rig.reach(2), rig.first(Lost)), (Some(Elsewhere), None));
        // It dies, and the server that knows another way notices.
        let died = rig.now;
        rig.dead.insert(2);
        rig.run(600);
        assert!(rig.first(Lost).is_some_and(|lost| lost <= died + 500));
        rig.dead.clear();
        rig.cut.clear();
        rig.run(100);
        let (_, last) = rig.reports.last().unwrap();
        assert_eq!((last.silent.len(), last.is_cut_off), (0, false));
    }
}

// H3
#[test]
fn a_helper_that_is_silent_is_no_evidence() {
    let mut rig = Rig::cube();
    rig.helpers_answer = false;
    rig.run(200);
    rig.dead.insert(2);
    rig.run(3000);
    assert_eq!((rig.reach(2), rig.first(Lost)), (Some(Unknown), None));
    let helpers: BTreeSet<u64> = rig.asked.iter().map(|question| question.helper.raw()).collect();
    assert_eq!(helpers, [3, 4, 6, 10, 14].into(), "each look asks others");
    rig.helpers_answer = true;
    rig.run(300);
    assert_eq!(rig.reach(2), Some(Lost));
}

// H3
#[test]
fn who_hears_less_than_half_accuses_nobody() {
    let mut rig = Rig::cube();
    rig.run(200);
    for (link, servers) in [(1, [2, 3, 4]), (2, [5, 9, 13])] {
        rig.cut.extend(servers.map(|server| address(server, link)));
        rig.cut.extend(servers.map(|server| address(server, 3 - link)));
    }
    rig.run(3000);
    assert_eq!(rig.first(Lost), None);
    assert!(rig.reports.last().unwrap().1.is_cut_off);
    // Half of them may be gone.
    let mut rig = Rig::cube();
    rig.run(200);
    rig.dead.extend([2, 3, 4]);
    rig.run(1000);
    assert_eq!(rig.reach(2), Some(Lost));
    assert!(!rig.reports.last().unwrap().1.is_cut_off);
}

// F1
#[test]
fn a_process_that_stood_still_accuses_nobody() {
    let mut rig = Rig::cube();
    rig.run(220);
    // Pings are under way when it stops; their answers are not read before the next tick.
    rig.dead.extend(2..=16);
    rig.run(40);
    rig.now += 2000;
    rig.run(1);
    rig.dead.clear();
    rig.run(1000);
    assert_eq!(rig.reports, []);
}

// H3
#[test]
fn racks_and_flat_clusters() {
    let mut rig = Rig::new("zones", &["r", "r", "r", "q"], 0);
    rig.run(200);
    rig.dead.extend([3, 4]);
    rig.run(600);
    assert_eq!((rig.reach(3), rig.reach(4)), (Some(Lost), None));
    assert!(rig.reports[0].1.silent[0].links.is_empty());
    let mut flat = Rig::new("flat", &["r", "r", "r"], 0);
    flat.dead.insert(2);
    flat.run(2000);
    assert!(!flat.neighbours.is_on() && flat.reports.is_empty());
    // With two links, one that is silent is told, and the other one shows that the server is there.
    let mut two = Rig::new("zones", &["r", "r", "r"], 2);
    two.cut.insert(address(2, 2));
    two.run(1000);
    let (_, last) = two.reports.last().unwrap();
    assert_eq!((last.silent[0].links.clone(), last.silent[0].reach), (vec!["1".to_string()], Elsewhere));
    assert_eq!(two.asked, []);
}

// H3
#[test]
fn large_answers_are_waited_for() {
    let mut rig = Rig::cube();
    rig.run(200);
    rig.neighbours.expect_bulk(at(rig.now), address(2, 1));
    rig.dead.insert(2);
    rig.run(1900);
    assert_eq!(rig.reports, []);
    rig.run(600);
    assert_eq!(rig.reach(2), Some(Lost));
}
