//! Servers with links in two further networks, one of which fails.

use ramhold_client::{Durability, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Network, Options, is_network_possible, wait_for};
use std::time::{Duration, Instant};

const SERVERS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(30);
/// A network is away for so long.
const AWAY: Duration = Duration::from_secs(4);
/// The longest that a client waits for a write meanwhile: the silence of a path, and much for a busy machine.
const LONGEST: Duration = Duration::from_secs(1);

fn silent(cluster: &Cluster) -> Result<usize, Failure> {
    Ok(cluster
        .processes()?
        .into_iter()
        .filter_map(|process| process.silent_links)
        .map(|links| links.len())
        .sum())
}

// H1, H4, N1, N3: a network between servers that is down costs no server, no replica and no second.
#[test]
fn a_network_that_fails_is_another_ones_work() {
    let _machine = crate::machine();
    if let Err(failure) = is_network_possible() {
        println!("skipped: {failure}");
        return;
    }
    // The thread moves into the clients' namespace, and ends there.
    let ended = std::thread::spawn(play).join().expect("no panic");
    assert!(ended.is_ok(), "{ended:?}");
}

fn play() -> Result<(), Failure> {
    let network = Network::create(SERVERS + 1)?;
    let cluster =
        Cluster::start_in(network, Options { servers: SERVERS, has_links: true, ..Options::default() })?;
    let mut client = cluster.client(PATIENCE)?;
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 0,
        slots: false,
        zone: None,
        quorum: None,
    };
    let table = client.create_table("data", options)?;
    let network = cluster.network().expect("it is in one");
    let all: Vec<usize> = (1..=SERVERS).collect();
    let (mut number, mut longest) = (0u64, Duration::ZERO);
    for down in [1, 2, 1] {
        network.cut_links(down, &all)?;
        let began = Instant::now();
        while began.elapsed() < AWAY {
            let put = Instant::now();
            client.put(table, &number.to_le_bytes(), &number.to_be_bytes())?;
            longest = longest.max(put.elapsed());
            number += 1;
        }
        wait_for("silent links are seen", PATIENCE, || {
            Ok(if silent(&cluster)? > 0 {
                Ok(())
            } else {
                Err(format!("none is, though net-{down} is away"))
            })
        })?;
        network.heal()?;
        wait_for("no silent link", PATIENCE, || {
            let left = silent(&cluster)?;
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are silent")) })
        })?;
    }
    assert!(longest < LONGEST, "a write took {longest:?}");
    assert!(cluster.recoveries(1)?.is_empty(), "nobody was declared dead");
    for number in 0..number {
        let found = client.get(table, &number.to_le_bytes())?;
        assert!(found.is_some_and(|object| object.value == number.to_be_bytes()), "object {number}");
    }
    println!("three times a network away for 4 s: {number} writes, the longest took {longest:?}");
    Ok(())
}
