//! The coordinator dies and comes back.

use crate::redis::Redis;
use ramhold_client::{Durability, TableOptions};
use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Load, Options, program, wait_for};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

// B1, G1
#[test]
fn the_data_path_goes_on_without_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 31)?;
    load.wait_acknowledged(500)?;
    cluster.kill(COORDINATOR);
    load.wait_acknowledged(1000)?;
    cluster.start_member(COORDINATOR);
    cluster.wait_up(5)?;
    load.wait_acknowledged(500)?;
    load.end_with_nothing_lost(&cluster)?;
    // No server was declared dead because of this.
    let recoveries = cluster.client(std::time::Duration::from_secs(5))?.recoveries()?;
    assert!(recoveries.is_empty(), "{recoveries:#?}");
    Ok(())
}

/// Waits until every server says that it needs no coordinator.
fn wait_unneeded(connections: &mut [Redis]) -> Result<(), Failure> {
    wait_for("servers that need no coordinator", PATIENCE, || {
        let mut unready = Vec::new();
        for (at, redis) in connections.iter_mut().enumerate() {
            let info = redis.bulk("INFO cluster")?;
            if !info.contains("ramhold_ready_without_coordinator:1") {
                unready.push(at);
            }
        }
        Ok(if unready.is_empty() { Ok(()) } else { Err(format!("connections {unready:?} are not ready")) })
    })
}

// B1, G1, J1: a new cluster, in which most servers have not been asked anything yet.
#[test]
fn servers_through_which_nothing_was_written_take_writes_without_the_coordinator() -> Result<(), Failure> {
    const SERVERS: usize = 5;
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options { servers: SERVERS, ..Options::default() })?;
    assert_eq!(Redis::connect(&cluster, 1)?.ask("SET first v")?, "+OK");
    let mut connections =
        (1..=SERVERS).map(|member| Redis::connect(&cluster, member)).collect::<Result<Vec<_>, _>>()?;
    wait_unneeded(&mut connections)?;
    cluster.kill(COORDINATOR);
    for (member, redis) in connections.iter_mut().enumerate() {
        for key in 0..40 {
            assert_eq!(redis.ask(&format!("SET k{key} {member}"))?, "+OK", "k{key} through {member}");
        }
    }
    // The coordinator dies again in its first seconds.
    for round in 0..3 {
        cluster.start_member(COORDINATOR);
        cluster.wait_up(SERVERS)?;
        assert_eq!(connections[round].ask(&format!("SET once{round} v"))?, "+OK");
        cluster.kill(COORDINATOR);
        for (member, redis) in connections.iter_mut().enumerate() {
            for key in 0..20 {
                assert_eq!(redis.ask(&format!("SET k{key} {round}"))?, "+OK", "k{key} through {member}");
                assert_eq!(redis.bulk(&format!("GET k{key}"))?, round.to_string());
            }
        }
    }
    cluster.start_member(COORDINATOR);
    cluster.wait_up(SERVERS)
}

// B1, G1, J1: fronts learn who owns the tablets after a FLUSHDB through another server and after a recovery.
#[test]
fn new_owners_are_known_without_the_coordinator() -> Result<(), Failure> {
    const SERVERS: usize = 5;
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options { servers: SERVERS, ..Options::default() })?;
    let mut connections = [1, 2, 4, 5]
        .map(|member| Redis::connect(&cluster, member))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    for redis in &mut connections {
        assert_eq!(redis.ask("SET first v")?, "+OK");
    }
    // All fronts know the table and who owns it.
    cluster.wait_up(SERVERS)?;
    wait_unneeded(&mut connections)?;
    assert_eq!(connections[0].ask("FLUSHDB")?, "+OK");
    assert_eq!(connections[0].ask("SET first v")?, "+OK");
    cluster.kill(3);
    cluster.wait_up(SERVERS - 1)?;
    wait_unneeded(&mut connections)?;
    cluster.kill(COORDINATOR);
    for (member, redis) in connections.iter_mut().enumerate() {
        for key in 0..50 {
            assert_eq!(redis.ask(&format!("SET k{key} {member}"))?, "+OK", "k{key} through {member}");
        }
    }
    cluster.start_member(COORDINATOR);
    cluster.wait_up(SERVERS - 1)
}

// F1, F2, G3
#[test]
fn a_server_that_dies_while_the_coordinator_is_away_is_recovered_when_it_is_back() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 32)?;
    load.wait_acknowledged(1000)?;
    cluster.kill(COORDINATOR);
    cluster.kill(2);
    cluster.start_member(COORDINATOR);
    cluster.wait_up(4)?;
    load.wait_acknowledged(500)?;
    load.end_with_nothing_lost(&cluster)?;
    cluster.wait_replicated(0)?;
    Ok(())
}

/// The coordinator dies again and again while it recovers a server.
// F6, G3
#[test]
fn a_recovery_goes_on_over_deaths_of_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 33)?;
    load.wait_acknowledged(2000)?;
    cluster.kill(4);
    for _ in 0..3 {
        cluster.wait_counted(4)?;
        cluster.kill(COORDINATOR);
        cluster.start_member(COORDINATOR);
    }
    cluster.wait_up(4)?;
    load.wait_acknowledged(500)?;
    load.end_with_nothing_lost(&cluster)?;
    cluster.wait_replicated(0)?;
    Ok(())
}

/// Runs `ramhold coordinator backup`; returns the file.
fn back_up(cluster: &Cluster, name: &str) -> PathBuf {
    let file = cluster.scratch.dir().join(name);
    let output = Command::new(program())
        .args(["--cluster", &cluster.address(COORDINATOR).to_string(), "coordinator", "backup", "--to"])
        .arg(&file)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

// G3: the servers hold a newer state than the backup. Then the state is rebuilt from them.
#[test]
fn an_old_backup_is_refused_while_servers_hold_a_newer_state() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 34)?;
    let file = back_up(&cluster, "old");
    load.wait_acknowledged(500)?;
    let options = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 4,
        slots: false,
        zone: None,
        quorum: None,
    };
    cluster.client(PATIENCE)?.create_table("later", options)?;
    cluster.restore_coordinator(&file);
    let status = cluster.wait_ended(COORDINATOR, PATIENCE)?;
    assert_eq!(status.code(), Some(6));
    assert!(cluster.logs().contains("old copy"), "{}", cluster.logs());
    load.wait_acknowledged(500)?;
    cluster.rebuild_coordinator(&[]);
    cluster.wait_up(5)?;
    let tables = cluster.client(PATIENCE)?.tables()?;
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["data", "later"]);
    load.end_with_nothing_lost(&cluster)
}

// G3: everything was stopped, and the coordinator's directory deleted.
#[test]
fn a_stopped_cluster_starts_from_a_backup() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 35)?;
    load.wait_acknowledged(1000)?;
    let table = load.table();
    let journal = load.stop()?;
    let file = back_up(&cluster, "last");
    cluster.stop_all()?;
    cluster.restore_coordinator(&file);
    for member in 1..=5 {
        cluster.start_member(member);
    }
    cluster.wait_up(5)?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    Ok(())
}
