//! Data kept and recovered by neighbourhoods of a BCube. Catalogue: H2, H3, F4.

use ramhold_base::hash::PlacementHasher;
use ramhold_base::{DiskFile, KeyHash, ServerId, StreamId, TableId};
use ramhold_log::opening;
use ramhold_node::Phase;
use ramhold_placement::Network;
use ramhold_wire::table::Division;
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use ramhold_world::cluster::Cluster;
use ramhold_world::stage::{Setting, Stage};
use std::collections::{BTreeMap, BTreeSet};

/// BCube(4, 1) with all servers, placed by rings.
pub fn rings(most: u8) -> Stage {
    rings_with(most, 0)
}

/// The same with a rate of copies, in bytes per second.
fn rings_with(most: u8, copy_rate: u64) -> Stage {
    let plain = Setting::of(16);
    let placement = ReplicaPlacement::Neighbourhoods { by: Neighbouring::MultiRing, most };
    let cluster = Cluster { planes: 2, cube: Some((4, 0)), placement, copy_rate, ..plain.cluster };
    let mut stage = Stage::unborn(Setting { cluster, ..plain });
    let hosts = stage.servers.clone();
    stage.world.network.cut_plane(0, &hosts, &hosts);
    stage.wait("every server is up", |stage| stage.state().is_some_and(|s| s.all_up().count() == 16));
    stage.wait("every server serves", |stage| {
        (0..16).all(|server| stage.node(server).is_some_and(|node| node.phase() == Phase::Serving))
    });
    // All know the whole list.
    stage.pass(1000);
    stage
}

/// The servers near one, by the list of the coordinator.
fn near(stage: &Stage, id: ServerId) -> BTreeSet<ServerId> {
    let state = stage.state().expect("a coordinator");
    let servers = state.servers.values().map(|record| &record.entry);
    Network::new(&state.meta.topology, servers).near(id).into_iter().collect()
}

/// The masters that recovered something of a dead server, and the bytes that came from more than one hop away.
fn course(stage: &Stage, crashed: ServerId) -> (BTreeSet<ServerId>, u64) {
    let state = stage.state().expect("a coordinator");
    let record = state.recoveries.values().find(|record| record.crashed == crashed).expect("a recovery");
    let live = || record.parts.iter().filter(|part| part.live.is_some());
    let far: u64 = live().map(|part| part.times.far_bytes.expect("all have places")).sum();
    let fetched = || live().map(|part| part.times.fetched_bytes.expect("each master tells"));
    let beyond: u64 = fetched().map(|fetched| fetched.zone + fetched.other_zone).sum();
    assert_eq!(beyond, far, "without zones, whatever is not near is far");
    assert!(fetched().map(|fetched| fetched.near).sum::<u64>() > 0);
    (live().map(|part| part.server).collect(), far)
}

/// A table of which every server has a tablet for each of its neighbourhoods.
fn filled(stage: &mut Stage) -> TableId {
    let table = stage.spread_table("t", 3);
    stage.fill(table, "key", 600);
    table
}

/// Streams of a server, and segments whose primary is not on a feeder.
fn streams(stage: &Stage, server: usize) -> (usize, u64) {
    let now = stage.world.local_now(stage.servers[server]);
    let streams = stage.node(server).expect("it runs").seen(now).status.streams;
    (streams.len(), streams.iter().map(|stream| stream.outside_segments).sum())
}

#[test]
fn a_master_is_recovered_by_its_neighbours_from_one_hop_away() {
    for server in [0, 7, 10] {
        let mut stage = rings(64);
        let table = filled(&mut stage);
        for server in 0..16 {
            assert_eq!(streams(&stage, server), (6, 0), "one for each neighbour, all fed by rings");
        }
        let id = stage.id(server);
        let neighbours = near(&stage, id);
        stage.crash(server);
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
        assert_eq!(course(&stage, id), (neighbours, 0), "by whom, and bytes from two hops away");
        stage.expect_filled(table, "key", 600);
        stage.restart(server);
        stage.close();
    }
}

#[test]
fn with_few_neighbourhoods_each_level_keeps_its_share() {
    let mut stage = rings(2);
    let table = filled(&mut stage);
    let id = stage.id(5);
    assert_eq!(streams(&stage, 5), (2, 0));
    // Server 5 is at place 11: the first neighbours of its levels are 10 and 01.
    let expected: BTreeSet<ServerId> = [stage.id(4), stage.id(1)].into();
    stage.crash(5);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    assert_eq!(course(&stage, id), (expected, 0));
    stage.expect_filled(table, "key", 600);
    stage.restart(5);
    stage.close();
}

#[test]
fn what_a_dead_recoverer_would_have_recovered_is_recovered_by_others() {
    let mut stage = rings(64);
    let table = filled(&mut stage);
    let (master, recoverer) = (stage.id(0), stage.id(1));
    stage.world.cut_power(stage.servers[1]);
    stage.crash(0);
    for id in [master, recoverer] {
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
    }
    assert!(!course(&stage, master).0.contains(&recoverer));
    stage.expect_filled(table, "key", 600);
    stage.restart(0);
    stage.restart(1);
    stage.pass(3000);
    // Their places have servers again, and the next death is one of a whole cube.
    stage.fill(table, "more", 300);
    let id = stage.id(6);
    stage.crash(6);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.expect_filled(table, "more", 300);
    stage.restart(6);
    stage.close();
}

/// How many tablets a server has with each neighbourhood.
pub fn homes(stage: &Stage, server: usize) -> BTreeMap<String, usize> {
    let id = stage.id(server);
    let state = stage.state().expect("a coordinator");
    let streams = &state.servers[&id].streams;
    let mut homes = BTreeMap::new();
    for piece in state.tables.values().flat_map(|table| &table.tablets).filter(|piece| piece.owner == id) {
        let stream = streams.iter().find(|stream| stream.stream == piece.stream).expect("it is registered");
        *homes.entry(stream.neighbourhood.clone().expect("it has one")).or_default() += 1;
    }
    homes
}

#[test]
fn the_tablets_of_a_neighbourhood_that_is_gone_move_and_come_back() {
    let mut stage = rings(64);
    let table = filled(&mut stage);
    // Place 01 is near 00.
    let gone = stage.id(1);
    assert_eq!(homes(&stage, 0)["01"], 1);
    stage.world.cut_power(stage.servers[1]);
    stage.wait("it is recovered", |stage| stage.is_recovered(gone));
    stage.wait("its part moves to others", |stage| !homes(stage, 0).contains_key("01"));
    assert!(homes(&stage, 0).values().all(|count| *count <= 2), "{:?}", homes(&stage, 0));
    stage.expect_filled(table, "key", 600);
    stage.restart(1);
    stage.wait("a part comes back", |stage| homes(stage, 0).contains_key("01"));
    stage.pass(2000);
    let id = stage.id(0);
    let neighbours = near(&stage, id);
    stage.crash(0);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    assert!(course(&stage, id).0.is_subset(&neighbours));
    stage.expect_filled(table, "key", 600);
    stage.restart(0);
    stage.close();
}

// H3: a ring without any feeder is fed by others for a while.
#[test]
fn primaries_outside_come_back_when_their_ring_has_feeders_again() {
    let mut stage = rings(64);
    let table = filled(&mut stage);
    // The ring of the servers at 00 and 01: 11, 21, 31.
    let ring = [5, 9, 13];
    let outside = |stage: &Stage, servers: &[usize]| -> u64 {
        servers.iter().map(|server| streams(stage, *server).1).sum()
    };
    for server in ring {
        let id = stage.id(server);
        stage.world.cut_power(stage.servers[server]);
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
    }
    stage.wait("the replicas are elsewhere", |stage| {
        stage.node(0).and_then(|node| node.master()).is_some_and(|it| it.is_fully_replicated())
    });
    assert!(outside(&stage, &[0]) > 0, "its primaries for 01 are on no ring");
    ring.into_iter().for_each(|server| stage.restart(server));
    let all: Vec<usize> = (0..16).collect();
    stage.wait("every primary is on its ring", |stage| {
        all.iter().all(|server| stage.node(*server).is_some()) && outside(stage, &all) == 0
    });
    stage.expect_filled(table, "key", 600);
    stage.close();
}

/// The tables and ranges that the newest head of each stream of a server tells, as its backups have it.
fn told(stage: &mut Stage, id: ServerId) -> BTreeMap<StreamId, BTreeSet<(TableId, KeyHash)>> {
    let mut newest: BTreeMap<StreamId, opening::Opening> = BTreeMap::new();
    for server in 0..16 {
        let node = stage.servers[server];
        let bytes = stage.world.disks_mut(node).file(DiskFile::Buffers).bytes();
        let heads = bytes.chunks(4096).enumerate().map(|(page, _)| &bytes[page * 4096..]);
        for head in heads.filter_map(opening::parse).filter(|head| head.header.log.server == id) {
            let known = newest.get(&head.header.stream);
            if known.is_none_or(|known| known.header.segment < head.header.segment) {
                newest.insert(head.header.stream, head);
            }
        }
    }
    let rows = |head: opening::Opening| head.stats.iter().map(|row| (row.table, row.first)).collect();
    newest.into_iter().map(|(stream, head)| (stream, rows(head))).collect()
}

// F3, H3
#[test]
fn a_head_tells_of_its_own_neighbourhood_s_tablets() {
    let mut stage = rings(64);
    let table = filled(&mut stage);
    let id = stage.id(0);
    let value = vec![7; 1000];
    for number in 0..4000 {
        stage.write(table, &format!("more{number}"), &value);
    }
    let pieces = stage.state().expect("a coordinator").tables[&table].tablets.clone();
    let own: Vec<_> = pieces.iter().filter(|piece| piece.owner == id).collect();
    let told = told(&mut stage, id);
    let telling: Vec<_> = told.iter().filter(|(_, rows)| !rows.is_empty()).collect();
    assert!(telling.len() >= 3, "few heads were rolled: {told:?}");
    for (stream, rows) in telling {
        let of_stream = own.iter().filter(|piece| piece.stream == *stream);
        assert_eq!(rows, &of_stream.map(|piece| (table, piece.first)).collect(), "{stream}");
    }
    stage.close();
}

/// The bytes that a server has with each neighbourhood.
fn shares(stage: &Stage, server: usize) -> BTreeMap<StreamId, u64> {
    let id = stage.id(server);
    let log = stage.node(server).and_then(|node| node.master()).expect("it runs").log();
    let bytes: BTreeMap<(TableId, KeyHash), u64> =
        log.stats().map(|stat| ((stat.table, stat.first), stat.bytes)).collect();
    let mut shares = BTreeMap::new();
    for (table, record) in &stage.state().expect("a coordinator").tables {
        for piece in record.tablets.iter().filter(|piece| piece.owner == id) {
            *shares.entry(piece.stream).or_default() += bytes.get(&(*table, piece.first)).unwrap_or(&0);
        }
    }
    shares
}

// H3: ranges with much data and ranges with little are spread by weight, not by number.
#[test]
fn shares_are_even_by_weight() {
    let mut stage = rings(64);
    let table = stage.table("t", 3);
    let owner = stage.owner(table).expect("somebody serves it");
    let key = |number: u32| format!("key{number}");
    let value = vec![7; 1000];
    for number in 0..500 {
        stage.write(table, &key(number), &value);
    }
    stage.divide(table, Division::Parts { count: 24 });
    let is_even = |stage: &Stage| {
        let shares: Vec<u64> = shares(stage, owner).into_values().collect();
        let mean = shares.iter().sum::<u64>() / shares.len() as u64;
        let (least, most) = (shares.iter().min().expect("some"), shares.iter().max().expect("some"));
        // A part weighs a good half of the mean, so they are not more even.
        shares.len() == 6 && most - least <= mean
    };
    stage.wait("the shares are even", is_even);
    // Three neighbourhoods lose all that they have.
    let record = stage.state().expect("a coordinator").tables[&table].clone();
    let lose: BTreeSet<StreamId> = shares(&stage, owner).into_keys().take(3).collect();
    let hasher = PlacementHasher::new(record.seed);
    let is_lost = |key: &str| {
        let hash = hasher.hash(key.as_bytes());
        let piece = record.tablets.iter().find(|piece| piece.first <= hash && hash <= piece.last);
        lose.contains(&piece.expect("every hash has a tablet").stream)
    };
    let (lost, left): (Vec<u32>, Vec<u32>) = (0..500).partition(|number| is_lost(&key(*number)));
    assert!(lost.len() > 100 && left.len() > 100, "{} and {}", lost.len(), left.len());
    for number in lost {
        stage.remove(table, &key(number));
    }
    assert!(!is_even(&stage));
    stage.wait("the shares are even again", is_even);
    for number in left {
        stage.expect(table, &key(number), &value);
    }
    stage.close();
}

// H3, D6: nobody waits for these moves, so they leave the network to others.
#[test]
fn tablets_move_home_at_the_rate_of_copies() {
    const RATE: u64 = 2000;
    let mut stage = rings_with(64, RATE);
    for name in ["one", "two", "three"] {
        let table = stage.spread_table(name, 3);
        stage.fill(table, name, 200);
    }
    let gone = stage.id(1);
    assert_eq!(homes(&stage, 0)["01"], 3);
    stage.world.cut_power(stage.servers[1]);
    stage.wait("it is recovered", |stage| stage.is_recovered(gone));
    stage.wait("a tablet moves", |stage| homes(stage, 0).get("01") == Some(&2));
    let first = stage.world.now();
    stage.wait("all have moved", |stage| !homes(stage, 0).contains_key("01"));
    let last = stage.world.now();
    // Two hundred objects of some dozen bytes lie in 96 tablets; each of the first two is paid for before the next.
    let least = 2 * 3 * 200 * 60 / 96 * 1_000_000_000 / RATE;
    assert!(last - first >= least, "{} ms", (last - first) / 1_000_000);
    stage.restart(1);
    stage.close();
}

// H3: or the next death would be recovered by one neighbour alone.
#[test]
fn a_large_tablet_is_cut_for_the_neighbourhoods_of_its_new_owner() {
    let mut stage = rings(64);
    let table = stage.table("t", 3);
    let value = |number: u32| vec![number as u8; 1000];
    let key = |number: u32| format!("key{number}");
    for number in 0..300 {
        stage.write(table, &key(number), &value(number));
    }
    let owner = stage.owner(table).expect("somebody serves it");
    let id = stage.id(owner);
    stage.crash(owner);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    let next = stage.owner(table).expect("somebody serves it");
    let parts = homes(&stage, next);
    assert!(parts.len() >= 3 && parts.values().all(|count| *count == 1), "{parts:?}");
    // They are recovered by as many.
    let id = stage.id(next);
    stage.crash(next);
    stage.wait("it is recovered, too", |stage| stage.is_recovered(id));
    assert_eq!((course(&stage, id).0.len(), course(&stage, id).1), (parts.len(), 0));
    for number in 0..300 {
        stage.expect(table, &key(number), &value(number));
    }
    stage.restart(owner);
    stage.restart(next);
    stage.close();
}

/// Sixteen servers in four racks.
#[test]
fn a_rack_recovers_what_it_feeds() {
    let plain = Setting::of(16);
    let placement = ReplicaPlacement::Neighbourhoods { by: Neighbouring::RackLocal, most: 64 };
    let cluster = Cluster { racks: 4, placement, ..plain.cluster };
    let mut stage = Stage::with(Setting { cluster, ..plain });
    let table = filled(&mut stage);
    assert_eq!(streams(&stage, 0), (3, 0), "one for each other rack");
    let id = stage.id(0);
    stage.crash(0);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    // Servers 0, 4, 8 and 12 are in one rack.
    let (masters, _) = course(&stage, id);
    assert!([4, 8, 12].iter().all(|server| !masters.contains(&stage.id(*server))), "{masters:?}");
    stage.expect_filled(table, "key", 600);
    stage.restart(0);
    stage.close();
}
