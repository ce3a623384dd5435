//! Several servers in one process (E3).

use ramhold_cluster_tests::{Cluster, Failure, Load, Options};
use rustix::process::Signal;
use std::time::Duration;

/// Five processes of two shards: without one of them, each shard still has three others for its copies.
fn options() -> Options {
    Options { servers: 5, shards: 2, memory_bytes: 1 << 30, ..Options::default() }
}

// E3, F1
#[test]
fn a_process_with_shards_dies_and_all_of_its_shards_are_recovered() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(options())?;
    let servers = cluster.status()?.servers.len();
    assert_eq!(servers, 10);
    let load = Load::start(&cluster, "data", 3, 43)?;
    load.wait_acknowledged(2000)?;
    cluster.kill(2);
    cluster.wait_counted(8)?;
    cluster.wait_up(8)?;
    load.wait_acknowledged(500)?;
    cluster.start_member(2);
    cluster.wait_up(10)?;
    load.wait_acknowledged(500)?;
    load.end_with_nothing_lost(&cluster)?;
    cluster.stop_all()
}

// E3, F8: a shard that was declared dead costs the others of its process nothing.
#[test]
fn shards_that_were_declared_dead_start_again_in_their_process() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(options())?;
    let before: Vec<_> = cluster.status()?.servers.iter().map(|entry| entry.id).collect();
    let load = Load::start(&cluster, "data", 3, 47)?;
    load.wait_acknowledged(1000)?;
    cluster.process(3).signal(Signal::STOP);
    cluster.wait_counted(8)?;
    cluster.wait_up(8)?;
    cluster.process(3).signal(Signal::CONT);
    cluster.wait_up(10)?;
    load.wait_acknowledged(500)?;
    let after = cluster.status()?.servers;
    let is_new = after.iter().filter(|entry| !before.contains(&entry.id)).count();
    assert_eq!(is_new, 2);
    assert!(cluster.process(3).ended().is_none());
    assert_eq!(cluster.process(3).printed().matches("it starts again, the other shards go on").count(), 2);
    load.end_with_nothing_lost(&cluster)
}

// E3: a process is not started without a shard that its directory has.
#[test]
fn a_shard_is_not_left_out() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(options())?;
    cluster.process(4).signal(Signal::TERM);
    assert_eq!(cluster.wait_ended(4, Duration::from_secs(60))?.code(), Some(0));
    cluster.options.shards = 1;
    cluster.start_member(4);
    assert_eq!(cluster.wait_ended(4, Duration::from_secs(60))?.code(), Some(2));
    assert!(
        cluster.logs().contains("shard-1 holds a shard that --shards 1 leaves out"),
        "{}",
        cluster.logs()
    );
    cluster.options.shards = 2;
    cluster.start_member(4);
    cluster.wait_up(10)
}
