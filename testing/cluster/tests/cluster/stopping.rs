//! The whole cluster ends, in order or not, and comes back.

use ramhold_cluster_tests::{Cluster, Failure, Finding, Load, Options};
use std::time::{Duration, Instant};

/// The time from the moment when data is due to be flushed until it is on this machine's one disk, which five
/// servers use.
const FLUSH_SLACK: Duration = Duration::from_secs(2);

fn written(cluster: &Cluster, seed: u64) -> Result<Load, Failure> {
    let load = Load::start(cluster, "data", 3, seed)?;
    load.wait_acknowledged(3000)?;
    Ok(load)
}

// D2, F7
#[test]
fn after_a_clean_stop_nothing_is_lost_even_without_the_buffers() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = written(&cluster, 21)?;
    let table = load.table();
    let journal = load.stop()?;
    cluster.stop_all()?;
    cluster.lose_buffers();

    cluster.start_all();
    cluster.wait_up(5)?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(cluster.status()?.losses.is_empty());
    cluster.wait_replicated(0)?;
    Ok(())
}

// D1, F7
#[test]
fn when_every_process_dies_at_once_nothing_is_lost() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = written(&cluster, 22)?;
    let table = load.table();
    cluster.kill_all();
    let journal = load.stop()?;

    cluster.start_all();
    cluster.wait_up(5)?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(&cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(cluster.status()?.losses.is_empty());
    cluster.wait_replicated(0)?;
    Ok(())
}

/// Every stream has an open segment on several backups. The buffers that earlier lives left there, together
/// with those that the new lives need at the same time, are more than there are.
// F6, F7
#[test]
fn tables_of_many_classes_come_back_together() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let mut loads = Vec::new();
    for replicas in 1..=4 {
        let load = Load::start(&cluster, &format!("data-{replicas}"), replicas, 30 + u64::from(replicas))?;
        load.wait_acknowledged(500)?;
        loads.push(load);
    }
    cluster.kill_all();
    let tables: Vec<_> = loads.iter().map(Load::table).collect();
    let journals = loads.into_iter().map(Load::stop).collect::<Result<Vec<_>, _>>()?;

    cluster.start_all();
    cluster.wait_up(5)?;
    for (table, journal) in tables.into_iter().zip(journals) {
        assert_eq!(journal.violations, Vec::<String>::new());
        let findings = journal.compare(&cluster, table)?;
        assert!(findings.is_empty(), "{findings:#?}");
    }
    assert!(cluster.status()?.losses.is_empty());
    cluster.wait_replicated(0)?;
    Ok(())
}

/// Plays a loss of power as far as possible without one: the buffers are lost, the page cache is not.
// D2, F7, F10
#[test]
fn when_the_buffers_die_too_only_the_newest_writes_are_lost_and_it_is_reported() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = written(&cluster, 23)?;
    let table = load.table();
    cluster.kill_all();
    let killed = Instant::now();
    cluster.lose_buffers();
    let journal = load.stop()?;

    cluster.start_all();
    cluster.wait_up(5)?;
    let findings = journal.compare(&cluster, table)?;
    println!("{} of {} keys have lost writes", findings.len(), journal.keys.len());
    let bound = Duration::from_millis(100) + FLUSH_SLACK;
    for (key, finding) in &findings {
        match finding {
            Finding::Lost { since, .. } if killed.duration_since(*since) <= bound => {}
            finding => panic!("{key}: {finding:?}"),
        }
    }
    let losses = cluster.status()?.losses;
    // Losses are reported. A report without a loss errs on the safe side.
    assert!(findings.is_empty() || !losses.is_empty(), "{findings:#?}");
    // The cluster still works.
    let load = Load::start(&cluster, "after", 3, 24)?;
    load.wait_acknowledged(500)?;
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    assert!(journal.compare(&cluster, table)?.is_empty());
    Ok(())
}
