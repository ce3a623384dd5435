//! A server that is silent for too long is dead, whatever it believes itself.

use ramhold_cluster_tests::{Cluster, Failure, Load, Options};
use rustix::process::Signal;
use std::time::Duration;

/// The exit code of a server that has been declared dead.
const EXIT_DECLARED_DEAD: i32 = 3;

// F1, F8
#[test]
fn a_stopped_server_is_recovered_and_ends_when_it_wakes_up() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options::default())?;
    let load = Load::start(&cluster, "data", 3, 41)?;
    load.wait_acknowledged(1000)?;
    cluster.process(3).signal(Signal::STOP);
    cluster.wait_counted(4)?;
    cluster.wait_up(4)?;
    load.wait_acknowledged(500)?;

    cluster.process(3).signal(Signal::CONT);
    let status = cluster.wait_ended(3, Duration::from_secs(30))?;
    assert_eq!(status.code(), Some(EXIT_DECLARED_DEAD));
    // The same directory is accepted again, as a new server.
    cluster.start_member(3);
    cluster.wait_up(5)?;
    load.wait_acknowledged(500)?;
    load.end_with_nothing_lost(&cluster)
}
