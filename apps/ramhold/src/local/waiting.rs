//! Waits until a local cluster has reached a given state.

use super::child::tail;
use super::{LOOK_INTERVAL, LocalCluster};
use crate::failure::Failure;
use crate::interrupt;
use ramhold_client::{Client, ClusterStatus, Options, ServerState};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PONG: &[u8; 7] = b"+PONG\r\n";

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
                    "{up} of {count} servers are up, {} recoveries are not done; {}",
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

/// Waits until every server answers Redis clients with more than that it is loading.
pub fn wait_until_redis_is_served(cluster: &mut LocalCluster, within: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    let mut waiting: Vec<SocketAddr> =
        (1..=cluster.plan.server_count()).map(|server| cluster.plan.address(server)).collect();
    loop {
        interrupt::check()?;
        check_running(cluster)?;
        waiting.retain(|server| !is_redis_served(*server));
        let Some(first) = waiting.first() else { return Ok(()) };
        if start.elapsed() >= within {
            let text = format!("{first} does not serve Redis clients after {} s", within.as_secs());
            return Err(Failure::usage(text));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn is_redis_served(server: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&server, ATTEMPT)?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; PONG.len()];
        stream.read_exact(&mut answer)?;
        Ok(answer == *PONG)
    };
    ask().unwrap_or(false)
}

fn check_running(cluster: &mut LocalCluster) -> Result<(), Failure> {
    let logs = cluster.plan.dir.join("logs");
    match cluster.take_ended().first() {
        None => Ok(()),
        Some((member, status)) => {
            let name = cluster.plan.name(*member);
            let last = tail(&logs.join(format!("{name}.log")));
            Err(Failure::usage(format!("{name} ended ({status}) while the cluster was starting: {last}")))
        }
    }
}
