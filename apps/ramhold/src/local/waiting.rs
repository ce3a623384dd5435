//! Waiting for a local cluster to be what it should be.

use super::child::tail;
use super::{LOOK_INTERVAL, LocalCluster, name};
use crate::failure::Failure;
use crate::interrupt;
use ramhold_client::{Client, ClusterStatus, Options, ServerState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// One attempt of a status request while processes are still starting.
const ATTEMPT: Duration = Duration::from_secs(1);

/// A client with the given patience for each operation. The coordinator may be on its way up.
pub fn connect_to(coordinator: SocketAddr, deadline: Duration) -> Result<Client, Failure> {
    Ok(Client::connect_with(
        &[coordinator],
        Options { deadline, connect_timeout: deadline, ..Options::default() },
    )?)
}

/// Waits until the coordinator answers and counts `count` servers as Up, and `accepts` is content with its status.
/// A child that ends meanwhile is the failure, told with its last lines; so is a wish to stop.
pub fn wait_until_healthy(
    cluster: &mut LocalCluster,
    count: usize,
    within: Duration,
    mut accepts: impl FnMut(&ClusterStatus) -> bool,
) -> Result<Client, Failure> {
    let start = Instant::now();
    let mut client = None;
    let mut seen = String::from("the coordinator does not answer");
    while start.elapsed() < within {
        interrupt::check()?;
        check_running(cluster)?;
        if client.is_none() {
            client = connect_to(cluster.plan.coordinator(), ATTEMPT).ok();
        }
        match client.as_mut().map(Client::cluster_status) {
            Some(Ok(status)) => {
                let up = status.servers.iter().filter(|server| server.state == ServerState::Up).count();
                if up >= count && accepts(&status) {
                    return Ok(client.expect("it has just answered"));
                }
                seen = format!(
                    "{up} of {count} servers are up, {} recoveries are not over; {}",
                    status.recoveries.len(),
                    status.recoveries.iter().flat_map(|r| r.missing.clone()).collect::<Vec<_>>().join(", ")
                );
            }
            Some(Err(error)) => seen = error.to_string(),
            None => {}
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Err(Failure::usage(format!(
        "the cluster is not ready after {} s: {seen}; see the logs in {}",
        within.as_secs(),
        cluster.plan.dir.join("logs").display()
    )))
}

fn check_running(cluster: &mut LocalCluster) -> Result<(), Failure> {
    let logs = cluster.plan.dir.join("logs");
    match cluster.take_ended().first() {
        None => Ok(()),
        Some((member, status)) => {
            let name = name(*member);
            let last = tail(&logs.join(format!("{name}.log")));
            Err(Failure::usage(format!("{name} ended ({status}) while the cluster was starting: {last}")))
        }
    }
}
