//! The coordinator dies and comes back.

use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Load, Options};

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
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    // Nobody was declared dead for it.
    let recoveries = cluster.client(std::time::Duration::from_secs(5))?.recoveries()?;
    assert!(recoveries.is_empty(), "{recoveries:#?}");
    Ok(())
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
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
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
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    cluster.wait_replicated(0)?;
    Ok(())
}
