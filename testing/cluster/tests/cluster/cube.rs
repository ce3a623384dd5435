//! Servers in a BCube(3, 1) of network namespaces: what fails is told apart.

use ramhold_client::{Durability, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Network, Options, is_network_possible, wait_for};
use std::time::Duration;

const TOPOLOGY: &str = "bcube:3,1";
const SERVERS: usize = 9;
const LEVELS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(30);

fn outages(cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let told = cluster.status()?.outages.unwrap_or_default();
    Ok(told.iter().map(|standing| standing.outage.to_string()).collect())
}

fn wait_told(cluster: &Cluster, expected: &[&str]) -> Result<(), Failure> {
    wait_for("what has failed", PATIENCE, || {
        let told = outages(cluster)?;
        Ok(if told == expected { Ok(()) } else { Err(format!("{told:?} is told, not {expected:?}")) })
    })
}

// F1, H3, H4: a switch costs nobody, a server without cables is isolated, and a dead one is found by its neighbours.
#[test]
fn a_switch_a_server_without_cables_and_a_dead_server_are_told_apart() {
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
    let topology = TOPOLOGY.parse().map_err(Failure)?;
    let network = Network::create_cube(&topology, None)?;
    network.count_among_servers()?;
    let coordinator_options = &["--topology", TOPOLOGY];
    let mut cluster =
        Cluster::start_in(network, Options { servers: SERVERS, coordinator_options, ..Options::default() })?;
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
    let mut number = 0u64;
    let mut write = |client: &mut ramhold_client::Client| -> Result<(), Failure> {
        for _ in 0..500 {
            client.put(table, &number.to_le_bytes(), &number.to_be_bytes())?;
            number += 1;
        }
        Ok(())
    };
    write(&mut client)?;

    // Server 1 is at place 00.
    cluster.network().expect("it is in one").power(1, 0, false)?;
    wait_told(&cluster, &["switch <0,0> down"])?;
    write(&mut client)?;
    cluster.network().expect("it is in one").heal()?;
    wait_told(&cluster, &[])?;
    assert!(cluster.recoveries(1)?.is_empty(), "nobody was declared dead");

    for (member, is_dead, cause) in [(5, false, "isolated"), (9, true, "lost every path to it")] {
        let id = cluster.entry(member)?.expect("it is up").id;
        let network = cluster.network().expect("it is in one");
        (0..LEVELS).try_for_each(|level| network.plug_level(member, level, false))?;
        if is_dead {
            network.plug(member, false)?;
        }
        wait_for("the verdict", PATIENCE, || {
            let newest = cluster.recoveries(1)?.pop().filter(|recovery| recovery.crashed == id);
            let told = newest.map_or_else(|| "it is up".to_owned(), |recovery| recovery.cause);
            Ok(if told.contains(cause) { Ok(()) } else { Err(told) })
        })?;
        cluster.network().expect("it is in one").heal()?;
        cluster.wait_ended(member, PATIENCE)?;
        cluster.start_member(member);
        cluster.wait_up(SERVERS)?;
        write(&mut client)?;
    }
    assert_eq!(cluster.recoveries(usize::MAX)?.len(), 2);
    for number in 0..number {
        let found = client.get(table, &number.to_le_bytes())?;
        assert!(found.is_some_and(|object| object.value == number.to_be_bytes()), "object {number}");
    }
    let crossed = cluster.network().expect("it is in one").counted()?;
    assert_eq!(crossed, 0, "bytes between servers over the coordinator's network");
    Ok(())
}
