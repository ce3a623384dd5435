//! The rules that must hold for every choice, and for the copysets of a list.

use super::*;
use ramhold_base::DirectoryId;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Label, Link, PlaceFault, ServerListUpdate, ServerState};
use ramhold_wire::topology::Topology;
use std::collections::BTreeSet;

/// A list of servers 1, 2, ..., each with the labels at its place; the master is server 1.
fn view(labels: &[Vec<Label>]) -> View {
    let mut view = View::new("10.0.0.1:1".parse().unwrap());
    view.me = ServerId(1);
    let changed = labels
        .iter()
        .enumerate()
        .map(|(i, labels)| ServerEntry {
            id: ServerId(i as u64 + 1),
            address: Address("10.0.0.1:1".parse().unwrap()),
            labels: labels.clone(),
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 100,
            directory: DirectoryId(i as u64 * 77 + 5),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: None,
        })
        .collect();
    update(&mut view, changed, vec![]);
    view
}

fn update(view: &mut View, changed: Vec<ServerEntry>, removed: Vec<ServerId>) {
    let before = view.list.version();
    assert!(view.list.apply(&ServerListUpdate {
        from: before,
        to: before + 1,
        changed,
        removed,
        issued: ServerId(10_000),
        time: Default::default(),
        coordinator: None,
        copyset_rings: None,
        topology: Default::default(),
        placement: None,
        bricks: None,
        accounts: None,
    }));
}

fn racks(names: &[&str]) -> Vec<Vec<Label>> {
    let label = |rack: &str| vec![Label { name: "rack".into(), value: rack.into() }];
    names.iter().map(|rack| if rack.is_empty() { vec![] } else { label(rack) }).collect()
}

fn unlabelled(count: usize) -> View {
    view(&vec![vec![]; count])
}

/// This many hosts with this many servers each; the servers of a host are neighbours in the list.
fn hosts(count: usize, servers: usize) -> View {
    let label = |i: usize| vec![Label { name: "host".into(), value: format!("h{}", i / servers) }];
    view(&(0..count * servers).map(label).collect::<Vec<_>>())
}

/// Chooses all replicas of a new segment.
fn place(
    view: &View,
    replicas: usize,
    copysets: Option<&Copysets>,
    primaries: &mut BTreeMap<ServerId, u32>,
    rng: &mut Rng,
) -> Vec<ServerId> {
    let mut taken = vec![];
    for i in 0..replicas {
        let wish = Wish {
            neighbourhood: None,
            taken: &taken,
            avoided: &[],
            primary: i == 0,
            replicas,
            primaries,
            local_allowed: false,
            copysets,
        };
        let Some(id) = choose_backup(view, &wish, rng) else { return taken };
        if i == 0 {
            *primaries.entry(id).or_insert(0) += 1;
        }
        taken.push(id);
    }
    taken
}

/// Chooses another backup in place of the one at this index.
fn replace(
    view: &View,
    set: &mut Vec<ServerId>,
    at: usize,
    avoided: &[ServerId],
    copysets: Option<&Copysets>,
    rng: &mut Rng,
) -> bool {
    let replicas = set.len();
    set.remove(at);
    let wish = Wish {
        neighbourhood: None,
        taken: set,
        avoided,
        primary: at == 0,
        replicas,
        primaries: &BTreeMap::new(),
        local_allowed: false,
        copysets,
    };
    let chosen = choose_backup(view, &wish, rng);
    set.extend(chosen);
    chosen.is_some()
}

fn assert_separate(view: &View, set: &[ServerId], about: &str) {
    let mut used: Vec<_> =
        set.iter().chain([&view.me]).map(|id| domain(view.list.entry(*id).unwrap())).collect();
    used.sort_unstable();
    let before = used.len();
    used.dedup();
    assert_eq!(before, used.len(), "{about}: {set:?}");
}

fn as_set(servers: &[ServerId]) -> BTreeSet<ServerId> {
    servers.iter().copied().collect()
}

/// C9 of the fault list: never two replicas, nor the master, in one failure domain; and no fewer replicas than fit.
#[test]
fn replicas_never_share_a_failure_domain() {
    for seed in 0..1000 {
        let mut rng = Rng::new(seed);
        let names = ["a", "b", "c", "d", "e", "", ""];
        let count = 2 + rng.below(12) as usize;
        let drawn: Vec<&str> = (0..count).map(|_| *rng.pick(&names).unwrap()).collect();
        let mut view = view(&racks(&drawn));
        let replicas = rng.between(1, 5) as usize;
        let rings = rng.below(4) as u8;
        let domains = domain_count(&view, false);
        let mut copysets = (rings > 0).then(|| Copysets::new(&view, rings, replicas, false));
        let mut set = place(&view, replicas, copysets.as_ref(), &mut BTreeMap::new(), &mut rng);
        assert_eq!(set.len(), replicas.min(domains), "seed {seed}");
        assert_separate(&view, &set, &format!("seed {seed}"));
        if let Some(copysets) = copysets.as_ref().filter(|_| set.len() == replicas) {
            assert!(copysets.hold(&set), "seed {seed}: {set:?} of {:?}", copysets.sets());
        }
        // One backup after the other refuses or leaves. Another one takes its place, whatever is left of its copyset.
        for _ in 0..6 {
            if set.len() < replicas {
                break;
            }
            let at = rng.below(replicas as u64) as usize;
            let gone = set[at];
            let mut avoided = vec![];
            if rng.chance(1, 2) {
                avoided.push(gone);
            } else {
                update(&mut view, vec![], vec![gone]);
                copysets = (rings > 0).then(|| Copysets::new(&view, rings, replicas, false));
            }
            let others: Vec<ServerId> = set.iter().copied().filter(|id| *id != gone).collect();
            let closed: BTreeSet<Domain<'_>> =
                others.iter().chain([&view.me]).map(|id| domain(view.list.entry(*id).unwrap())).collect();
            let fits = |e: &ServerEntry| e.id != gone && !closed.contains(&domain(e));
            let is_possible = view.list.up().any(fits);
            let filled = replace(&view, &mut set, at, &avoided, copysets.as_ref(), &mut rng);
            assert_eq!(filled, is_possible, "seed {seed}");
            assert_separate(&view, &set, &format!("seed {seed}"));
        }
    }
}

// D3
#[test]
fn primaries_spread_evenly_with_and_without_copysets() {
    let view = unlabelled(21);
    let copysets = Copysets::new(&view, 1, 3, false);
    for copysets in [None, Some(&copysets)] {
        let mut rng = Rng::new(3);
        let mut primaries = BTreeMap::new();
        let mut all: BTreeMap<ServerId, u32> = BTreeMap::new();
        for _ in 0..2000 {
            for id in place(&view, 3, copysets, &mut primaries, &mut rng) {
                *all.entry(id).or_insert(0) += 1;
            }
        }
        let most = primaries.values().max().unwrap();
        assert!(*most <= 105, "{primaries:?}");
        assert_eq!(primaries.len(), 20);
        // These are the replicas of one master; the others have other ends of the ring.
        let (least, most) = (all.values().min().unwrap(), all.values().max().unwrap());
        assert!(*least >= 150, "{all:?}");
        assert!(*most <= 450, "{all:?}");
    }
}

// D4
#[test]
fn there_are_as_many_copysets_per_ring_as_backups() {
    for (count, replicas) in [(4, 3), (5, 3), (20, 2), (100, 3), (100, 7)] {
        for rings in [1, 3] {
            let mut used = BTreeSet::new();
            for master in 1..=count as u64 {
                let mut view = unlabelled(count);
                view.me = ServerId(master);
                let mut rng = Rng::new(master);
                let copysets = Copysets::new(&view, rings, replicas, false);
                let mut primaries = BTreeMap::new();
                for _ in 0..200 {
                    let set = place(&view, replicas, Some(&copysets), &mut primaries, &mut rng);
                    assert_eq!(set.len(), replicas);
                    used.insert(as_set(&set));
                }
            }
            assert!(used.len() <= count * usize::from(rings), "{} of {count} with {rings}", used.len());
        }
    }
}

// D4: the failure domain is a host.
#[test]
fn hosts_with_as_many_servers_each_have_as_few_sets_of_hosts_as_there_are_hosts() {
    let mut view = hosts(12, 4);
    let host = |id: &ServerId| (id.raw() - 1) / 4;
    let (mut sets, mut of_hosts, mut uses) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for master in 1..=48 {
        view.me = ServerId(master);
        for set in Copysets::new(&view, 1, 3, false).sets() {
            of_hosts.insert(set.iter().map(host).collect::<BTreeSet<_>>());
            if sets.insert(as_set(set)) {
                set.iter().for_each(|id| *uses.entry(*id).or_insert(0) += 1);
            }
        }
    }
    assert_eq!((sets.len(), of_hosts.len()), (48, 12));
    assert!(uses.values().all(|count| *count == 3), "{uses:?}");
    // The same in racks: servers of one host in a rack meet those of one host in another rack.
    let label = |name: &str, value| Label { name: name.into(), value };
    let labels = |i: usize| vec![label("rack", format!("r{}", i / 8)), label("host", format!("h{}", i / 2))];
    let mut view = super::tests::view(&(0..48).map(labels).collect::<Vec<_>>());
    let host = |id: &ServerId| (id.raw() - 1) / 2;
    let mut of_hosts = BTreeSet::new();
    for master in 1..=48 {
        view.me = ServerId(master);
        let copysets = Copysets::new(&view, 1, 3, false);
        of_hosts.extend(copysets.sets().iter().map(|s| s.iter().map(host).collect::<BTreeSet<_>>()));
    }
    assert_eq!(of_hosts.len(), 24);
}

/// All copysets of a list, for any master.
fn all_sets(view: &View, rings: u8, replicas: usize) -> BTreeSet<BTreeSet<ServerId>> {
    Copysets::new(view, rings, replicas, true).sets().iter().map(|set| as_set(set)).collect()
}

// D4
#[test]
fn a_server_that_leaves_changes_only_the_copysets_that_it_was_in() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let (count, replicas, rings) =
            (rng.between(6, 60) as usize, rng.between(2, 5) as usize, rng.between(1, 3) as u8);
        let mut view = unlabelled(count);
        let before = all_sets(&view, rings, replicas);
        let gone = ServerId(rng.between(2, count as u64));
        let entry = view.list.entry(gone).unwrap().clone();
        update(&mut view, vec![], vec![gone]);
        let after = all_sets(&view, rings, replicas);
        let kept = before.iter().filter(|set| !set.contains(&gone)).cloned().collect::<BTreeSet<_>>();
        assert!(kept.is_subset(&after), "seed {seed}");
        let fresh = after.difference(&before).count();
        assert!(fresh < replicas * usize::from(rings), "seed {seed}: {fresh}");
        // The rest of each copyset that it was in finds its place again, whichever replica was lost.
        let copysets = Copysets::new(&view, rings, replicas, true);
        for set in before.iter().filter(|set| set.contains(&gone)) {
            let left: Vec<ServerId> = set.iter().copied().filter(|id| *id != gone).collect();
            assert!(copysets.hold(&left), "seed {seed}: {left:?} in {:?}", copysets.sets());
        }
        // The server returns with its directory, under another id, and takes its old place.
        let again = ServerId(5000);
        update(&mut view, vec![ServerEntry { id: again, ..entry }], vec![]);
        let renamed = |set: &BTreeSet<ServerId>| -> BTreeSet<ServerId> {
            set.iter().map(|id| if *id == gone { again } else { *id }).collect()
        };
        assert_eq!(all_sets(&view, rings, replicas), before.iter().map(renamed).collect(), "seed {seed}");
    }
}

#[test]
fn all_masters_come_to_the_same_copysets_and_so_does_every_later_version() {
    let mut view = hosts(7, 2);
    let all = all_sets(&view, 2, 3);
    for master in 1..=14 {
        view.me = ServerId(master);
        let own = Copysets::new(&view, 2, 3, false);
        assert!(own.sets().iter().all(|set| all.contains(&as_set(set))));
    }
    // The order of the ring is a promise, also between two versions in one cluster.
    let ring: Vec<Vec<u64>> = Copysets::new(&unlabelled(6), 1, 3, true)
        .sets()
        .iter()
        .map(|set| set.iter().map(|id| id.raw()).collect())
        .collect();
    assert_eq!(ring, [[1, 2, 6], [1, 4, 6], [1, 4, 5], [3, 4, 5], [2, 3, 5], [2, 3, 6]]);
}

#[test]
fn a_copyset_with_an_avoided_member_is_left_out_while_there_is_another() {
    let view = unlabelled(9);
    let copysets = Copysets::new(&view, 1, 3, false);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let set = place(&view, 3, Some(&copysets), &mut BTreeMap::new(), &mut rng);
        let mut other = set.clone();
        let refuser = set[2];
        assert!(replace(&view, &mut other, 2, &[refuser], Some(&copysets), &mut rng));
        assert!(!other.contains(&refuser));
        let is_other = |s: &Vec<ServerId>| set[..2].iter().all(|id| s.contains(id)) && !s.contains(&refuser);
        let is_possible = copysets.sets().iter().any(is_other);
        assert_eq!(copysets.hold(&other), is_possible, "seed {seed}");
    }
}

#[test]
fn copysets_follow_the_list_the_rings_and_the_size() {
    let mut view = unlabelled(8);
    let mut cache = CopysetCache::default();
    assert!(cache.of(&view, 3, false).is_none(), "they are scattered");
    view.placement = ReplicaPlacement::Copysets { rings: 1 };
    let one = cache.of(&view, 3, false).unwrap().sets().len();
    assert!(cache.of(&view, 2, false).unwrap().sets().iter().all(|set| set.len() == 2));
    view.placement = ReplicaPlacement::Copysets { rings: 3 };
    assert!(cache.of(&view, 3, false).unwrap().sets().len() > one);
    update(&mut view, vec![], vec![ServerId(4)]);
    let sets = cache.of(&view, 3, false).unwrap().sets();
    assert!(sets.iter().all(|set| !set.contains(&ServerId(4))));
    view.placement = ReplicaPlacement::Scatter;
    assert!(cache.of(&view, 3, false).is_none());
}

/// Servers with these zones, racks and hosts, as `zone/rack/host`; an empty part is no label.
fn standing(places: &[&str]) -> View {
    let names = ["zone", "rack", "host"];
    let labels = |place: &&str| {
        let parts = names.iter().zip(place.split('/')).filter(|(_, value)| !value.is_empty());
        parts.map(|(name, value)| Label { name: (*name).into(), value: value.into() }).collect()
    };
    view(&places.iter().map(labels).collect::<Vec<_>>())
}

/// H1, D3: with one host in each of three zones there are two replicas; with two hosts, three, in all zones.
#[test]
fn three_zones_hold_three_replicas() {
    for copysets in [false, true] {
        let view = standing(&["a//h1", "a//h2", "b//h3", "b//h4", "c//h5", "c//h6"]);
        let sets = Copysets::new(&view, 2, 3, false);
        let sets = copysets.then_some(&sets);
        for seed in 0..200 {
            let set = place(&view, 3, sets, &mut BTreeMap::new(), &mut Rng::new(seed));
            assert_eq!(set.len(), 3, "seed {seed}");
            assert_separate(&view, &set, &format!("seed {seed}"));
            let zones: BTreeSet<_> = set.iter().map(|id| zone(view.list.entry(*id).unwrap())).collect();
            assert!(zones.contains(&Some("b")) && zones.contains(&Some("c")), "seed {seed}: {set:?}");
            assert_eq!(SpreadLevels::of(&view).unspread(&view, &set), None);
        }
    }
}

/// H1: whatever the labels are, no write waits for a zone, and where two are up the loss of any one leaves a copy.
#[test]
fn the_loss_of_any_zone_or_rack_leaves_a_copy() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(10) as usize;
        let zones = rng.between(1, 4);
        let drawn: Vec<String> =
            (0..count).map(|i| format!("z{}/r{}/h{}", rng.below(zones), rng.below(3), i / 2)).collect();
        let drawn: Vec<&str> = drawn.iter().map(String::as_str).collect();
        let mut view = standing(&drawn);
        view.me = ServerId(1 + rng.below(count as u64));
        if seed.is_multiple_of(3) {
            view.placement = ReplicaPlacement::ZoneLocal;
        }
        let replicas = rng.between(1, 3) as usize;
        let copysets = Copysets::new(&view, 1, replicas, false);
        let is_by_copysets = rng.chance(1, 2) && view.placement != ReplicaPlacement::ZoneLocal;
        let copysets = is_by_copysets.then_some(&copysets);
        let mut set = place(&view, replicas, copysets, &mut BTreeMap::new(), &mut rng);
        for _ in 0..3 {
            assert_eq!(set.len(), replicas.min(domain_count(&view, false)), "seed {seed}: {drawn:?}");
            // A host of two servers may stand in two zones by its labels: then there may be none to choose.
            let own = view.list.entry(view.me).unwrap();
            for level in SpreadLevel::ALL {
                let area = |id: &ServerId| {
                    let entry = view.list.entry(*id).unwrap();
                    (zone(entry), (level == SpreadLevel::Rack).then(|| rack(entry)))
                };
                let could = view.list.up().any(|e| domain(e) != domain(own) && area(&e.id) != area(&view.me));
                let is_spread = set.iter().any(|id| area(id) != area(&view.me));
                assert!(set.is_empty() || is_spread || !could, "seed {seed}: {drawn:?} {set:?} {level}");
            }
            if set.is_empty() {
                break;
            }
            let at = rng.below(set.len() as u64) as usize;
            let lost = set[at];
            replace(&view, &mut set, at, &[], copysets, &mut rng);
            if rng.chance(1, 2) {
                set.retain(|id| *id != lost);
                while set.len() < replicas.min(domain_count(&view, false)) {
                    set.push(ServerId(0));
                    let last = set.len() - 1;
                    if !replace(&view, &mut set, last, &[], copysets, &mut rng) {
                        break;
                    }
                }
            }
        }
    }
}

/// H3: a recovery reads in the master's zone, and the loss of that zone leaves all other replicas.
#[test]
fn zone_local_keeps_the_primary_near_and_all_others_away() {
    let places = ["a/r1/h1", "a/r1/h2", "a/r2/h3", "b/r1/h4", "b/r1/h5", "c/r1/h6", "c/r1/h7"];
    let mut view = standing(&places);
    view.placement = ReplicaPlacement::ZoneLocal;
    let zones = |view: &View, set: &[ServerId]| {
        set.iter().map(|id| zone(view.list.entry(*id).unwrap()).unwrap().to_owned()).collect::<Vec<_>>()
    };
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut set = place(&view, 3, None, &mut BTreeMap::new(), &mut rng);
        assert_eq!(set[0], ServerId(3), "in the other rack of the zone");
        let mut others = zones(&view, &set[1..]);
        others.sort();
        assert_eq!(others, ["b", "c"], "seed {seed}");
        assert!(!is_outside(&view, set[0]) && is_outside(&view, set[1]));
        replace(&view, &mut set, 0, &[], None, &mut rng);
        assert_eq!(zones(&view, &set[2..]), ["a"], "a lost primary is made anew there");
        let one = place(&view, 1, None, &mut BTreeMap::new(), &mut rng);
        assert_ne!(zones(&view, &one), ["a"], "the only replica is away");
    }
    // Replicas for which the zone has no room are elsewhere.
    update(&mut view, vec![], vec![ServerId(2), ServerId(3)]);
    let set = place(&view, 3, None, &mut BTreeMap::new(), &mut Rng::new(1));
    assert_eq!(set.len(), 3);
    assert!(is_outside(&view, set[0]));
}

/// The links by which server 1 reaches server 2.
fn order(view: &View) -> Vec<String> {
    path_order(view, ServerId(2)).into_iter().map(|link| link.name.clone()).collect()
}

/// Two servers with these labels and links.
fn linked(topology: &str, places: [&str; 2], links: [&[&str]; 2]) -> View {
    let mut view = view(&places.map(|place| vec![Label { name: "bcube".into(), value: place.into() }]));
    view.topology = topology.parse().unwrap();
    let entries = [1, 2].map(|id| {
        let mut entry = view.list.entry(ServerId(id)).unwrap().clone();
        let named = |(port, name): (u16, &&str)| Link {
            name: (*name).into(),
            address: Address(([10, id as u8, 0, 1], port).into()),
        };
        entry.links = Some((1..).zip(links[id as usize - 1]).map(named).collect());
        entry
    });
    update(&mut view, entries.into(), vec![]);
    view
}

/// H1: neighbours talk over the switch that they share, and by no network that one of them is not on.
#[test]
fn paths_go_over_shared_switches_first() {
    let both: [&[&str]; 2] = [&["0", "1"], &["1", "0"]];
    assert_eq!(order(&linked("bcube:4,1", ["00", "01"], both)), ["0", "1"]);
    assert_eq!(order(&linked("bcube:4,1", ["00", "10"], both)), ["1", "0"]);
    assert_eq!(order(&linked("bcube:4,1", ["00", "11"], both)), ["0", "1"]);
    assert_eq!(order(&linked("bcube:4,1", ["00", "10"], [&["0"], &["0", "1"]])), ["0"]);
    assert_eq!(order(&linked("bcube:4,1", ["00", "10"], [&[], &["0", "1"]])), [""; 0]);
    // Without a grid the sender's order counts.
    assert_eq!(
        order(&linked("flat", ["00", "10"], [&["slow", "fast"], &["fast", "slow"]])),
        ["slow", "fast"]
    );
    assert_eq!(order(&linked("flat", ["00", "10"], [&["a"], &["b"]])), [""; 0]);
}

/// H1: in a grid a link is named after a level.
#[test]
fn a_link_of_a_grid_that_is_no_level_is_refused() {
    let links = |names: &'static [&'static str]| {
        linked("flat", ["00", "01"], [names, &[]]).list.entry(ServerId(1)).unwrap().links().to_vec()
    };
    let topology: Topology = "bcube:4,1".parse().unwrap();
    assert_eq!(check_links(&topology, &links(&["0", "1"])), Ok(()));
    for wrong in [&["2"][..], &["0", "eth1"], &["00"]] {
        let refusal = check_links(&topology, &links(wrong)).unwrap_err();
        assert_eq!(refusal.fault, PlaceFault::NoLevel);
        assert!(refusal.to_string().contains("is none of 0 to 1"), "{refusal}");
        assert_eq!(check_links(&Topology::Flat, &links(wrong)), Ok(()));
    }
}

/// H1, H3: an operator is told what would not work, and nothing where all is well.
#[test]
fn a_check_finds_what_stands_in_the_way() {
    let problems = |view: &View, topology: &str, placement, replicas| {
        let servers: Vec<&ServerEntry> = view.list.up().collect();
        let found = check(&servers, &topology.parse().unwrap(), placement, replicas, &BTreeMap::new());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let local = ReplicaPlacement::ZoneLocal;
    let good = standing(&["a//h1", "a//h2", "b//h3", "b//h4", "c//h5", "c//h6"]);
    assert_eq!(problems(&good, "zones", local, 3), [""; 0]);
    assert_eq!(problems(&good, "zones", local, 4).len(), 3, "no zone may be away with four replicas");
    assert!(problems(&good, "zones", local, 4)[0].contains("with zone 'a' away, writes of s3 would wait"));
    assert!(problems(&good, "zones", local, 6)[0].contains("6 replicas, and 5 other hosts"));
    assert!(problems(&good, "zones", local, 1)[0].contains("needs a replica in another zone"));
    assert!(problems(&good, "bcube:2,2", ReplicaPlacement::Scatter, 3)[0].contains("s1 would be refused"));
    let alone = standing(&["a//h1", "b//h2", "b//h2", "c//h3", "//h4"]);
    let found = problems(&alone, "flat", local, 2);
    assert!(found.iter().any(|p| p.starts_with("s1 has no other host in zone 'a'")), "{found:?}");
    assert!(found.iter().any(|p| p.starts_with("s2 has no other host")), "{found:?}");
    assert_eq!(
        problems(&standing(&["//h1", "//h2", "//h3"]), "flat", local, 2)[0],
        "zone-local does nothing: no server has a zone"
    );
    let twin = standing(&["a//h1", "b//h1", "a//h2", "b//h3"]);
    assert!(
        problems(&twin, "flat", ReplicaPlacement::Scatter, 1)[0]
            .contains("host 'h1' has servers in zones 'a', 'b'")
    );
    let linked = linked("bcube:4,1", ["00", "00"], [&["0"], &["0", "1"]]);
    let found = problems(&linked, "bcube:4,1", ReplicaPlacement::Scatter, 1);
    assert_eq!(found, ["s1 and s2 have the same place", "link '1' is missing at s1"]);
}

/// H1: a segment is unspread while a backup elsewhere is up, and only then.
#[test]
fn unspread_is_what_one_zone_could_take_though_another_is_up() {
    let mut view = standing(&["a/1/h1", "a/1/h2", "a/2/h3", "b/1/h4"]);
    let ids = |ids: &[u64]| ids.iter().map(|id| ServerId(*id)).collect::<Vec<_>>();
    let unspread = |view: &View, of: &[u64]| SpreadLevels::of(view).unspread(view, &ids(of));
    assert_eq!(unspread(&view, &[2, 3]), Some(SpreadLevel::Zone));
    assert_eq!(unspread(&view, &[2, 4]), None);
    let twin = standing(&["a//h1", "b//h1", "a//h2"]);
    assert!(SpreadLevels::of(&twin).is_empty(), "the only server elsewhere is on the master's own host");
    update(&mut view, vec![], ids(&[4]));
    assert_eq!(unspread(&view, &[2]), Some(SpreadLevel::Rack));
    assert_eq!(unspread(&view, &[2, 3]), None);
    update(&mut view, vec![], ids(&[3]));
    assert_eq!(unspread(&view, &[2]), None);
    assert!(SpreadLevels::of(&view).is_empty());
}

/// H1: a label that only some have makes no spread worse.
#[test]
fn servers_without_a_rack_are_not_together_across_zones() {
    let view = standing(&["a//m", "a/r1/a2", "b//b1", "c//c1"]);
    let ids = |ids: &[u64]| ids.iter().map(|id| ServerId(*id)).collect::<Vec<_>>();
    assert_eq!(SpreadLevels::of(&view).unspread(&view, &ids(&[3, 4])), None);
}

/// D4: a zone with few hosts is in many windows, and its masters have copysets all the same.
#[test]
fn a_master_whose_host_many_windows_need_has_as_many_copysets_as_there_are_hosts() {
    let mut places = vec!["b//m".to_owned(), "b//b1".to_owned()];
    places.extend((1..10).map(|i| format!("a//a{i}")));
    let view = standing(&places.iter().map(String::as_str).collect::<Vec<_>>());
    let copysets = Copysets::new(&view, 1, 3, false);
    assert!(copysets.sets().len() >= 9, "{:?}", copysets.sets());
    let used: BTreeSet<ServerId> = copysets.sets().iter().flatten().copied().collect();
    assert_eq!(used.len(), 10, "all hosts but the master's");
}

/// D3: who labels racks alone is kept as strictly as before: a rack holds one copy.
#[test]
fn racks_alone_are_failure_domains_and_hosts_are_where_there_are_hosts() {
    let racks = standing(&["/1/", "/1/", "/2/", "/2/"]);
    assert_eq!(domain_count(&racks, false), 1);
    let zones = standing(&["a/1/", "b/1/", "c/1/"]);
    assert_eq!(domain_count(&zones, false), 2, "racks of two zones may have one name");
    let hosts = standing(&["/1/a", "/1/b", "/2/c", "/2/d"]);
    assert_eq!(domain_count(&hosts, false), 3);
}

// H2: as RAMCUBE 3.2 has it, and never a replica too few.
#[test]
fn strict_rings_have_all_replicas_of_a_segment() {
    let topology: Topology = "bcube:4,1".parse().unwrap();
    let places: Vec<String> =
        Grid::of(&topology).map(|grid| grid.labels().map(|l| grid.name(&l)).collect()).unwrap();
    let label = |place: &String| vec![Label { name: "bcube".into(), value: place.clone() }];
    let mut view = view(&places.iter().map(label).collect::<Vec<_>>());
    view.topology = topology;
    view.placement = "multiring-strict".parse().unwrap();
    let mut cache = NeighbourhoodCache::default();
    let all = cache.of(&view).unwrap();
    assert_eq!(all.iter().count(), 6);
    let mut rng = Rng::new(7);
    for own in all.iter() {
        for (gone, of_ring) in [(None, 3), (own.feeders.first(), 2)] {
            let avoided: Vec<ServerId> = gone.into_iter().copied().collect();
            let mut taken = Vec::new();
            for place in 0..3 {
                let wish = Wish {
                    taken: &taken,
                    avoided: &avoided,
                    primary: place == 0,
                    replicas: 3,
                    primaries: &BTreeMap::new(),
                    local_allowed: false,
                    neighbourhood: Some((all, own)),
                    copysets: None,
                };
                taken.push(choose_backup(&view, &wish, &mut rng).expect("some server is left"));
            }
            let on_ring = taken.iter().filter(|server| own.feeders.contains(server)).count();
            assert_eq!(
                (on_ring, own.feeders.contains(&taken[0])),
                (of_ring, true),
                "{}: {taken:?}",
                own.name
            );
        }
    }
}
