//! The state of the cluster at one time: the coordinator's view, and what each server says of itself.

use crate::commands::bricks::reach::{self, Tablet};
use crate::commands::bricks::survey::Found;
use ramhold_client::{
    BrickReport, Client, ClusterStatus, Error, Operation, OperationId, ProcessStatus, Reply, ServerId,
    ServerState, TableSummary,
};
use ramhold_wire::bricks::BRICK_SILENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A server that does not answer within this is shown without its figures.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);
/// Servers that are asked at once: no more than a client may have under way.
const ASKED_COUNT_MAX: usize = 500;

/// Everything that is shown at one time.
pub struct Picture {
    pub cluster: ClusterStatus,
    pub tables: Vec<TableSummary>,
    /// The status of each server, or the reason why there is none.
    pub processes: BTreeMap<ServerId, Result<ProcessStatus, String>>,
    /// Bricks with tablets that the coordinator does not hear, or of which it hears that they do not vote: they were asked
    /// themselves. One that takes over a large log has not said anything yet.
    pub bricks: BTreeMap<ServerId, Found>,
    /// Tablets of quorum tables; none while all bricks vote.
    pub tablets: Vec<Tablet>,
}

/// Whether the coordinator has not heard a brick lately.
pub fn is_silent(brick: &BrickReport) -> bool {
    brick.heard_millis.is_none_or(|millis| Duration::from_millis(millis) > BRICK_SILENCE)
}

/// Whether the coordinator cannot say that all tablets of a brick vote.
fn is_unclear(brick: &BrickReport) -> bool {
    brick.tablets > 0 && (is_silent(brick) || brick.rebuilding > 0 || brick.taken < brick.assigned)
}

impl Picture {
    /// Whether another brick has heard that the supervisor of this silent one has given it up.
    pub fn is_offline(&self, brick: ServerId) -> bool {
        self.bricks.get(&brick).is_some_and(|found| found.is_offline)
    }
}

/// Bricks that are asked about a silent one: its siblings may be any of them.
const BRICKS_ASKED_MAX: usize = 100;

/// Asks the coordinator and all servers that are up.
pub fn take(client: &mut Client, timeout: Duration) -> Result<Picture, Error> {
    let cluster = client.cluster_status()?;
    // A coordinator whose store has no room still reports its own status, but of tables only those that are
    // stored. Then a failure to list the tables is not an error.
    let tables = match client.tables() {
        Err(_) if cluster.warnings.iter().any(|warning| warning.contains("the store has no room")) => {
            Vec::new()
        }
        listed => listed?,
    };
    let mut asked: BTreeMap<OperationId, ServerId> = BTreeMap::new();
    let mut processes = BTreeMap::new();
    let up = cluster.servers.iter().filter(|server| server.state == ServerState::Up);
    let unclear = cluster.bricks.iter().filter(|brick| is_unclear(brick));
    // The siblings of a silent one, which may be any of the others, know whether its supervisor has given it up.
    let is_any_silent = unclear.clone().any(is_silent);
    let others = cluster.bricks.iter().filter(|brick| !is_unclear(brick) && !is_silent(brick));
    let others = others.take(if is_any_silent { BRICKS_ASKED_MAX } else { 0 });
    let mut up = up
        .map(|server| (server.id, server.address))
        .chain(unclear.clone().chain(others.clone()).map(|brick| (brick.brick, brick.address)))
        .peekable();
    while up.peek().is_some() || !asked.is_empty() {
        while asked.len() < ASKED_COUNT_MAX
            && let Some((id, address)) = up.next()
        {
            let operation = Operation::ServerStatus { address: address.0 };
            asked.insert(client.submit_within(operation, SERVER_TIMEOUT.min(timeout)), id);
        }
        let Some((id, outcome)) = client.wait_any() else { break };
        let Some(server) = asked.remove(&id) else { continue };
        let process = match Error::check(outcome) {
            Ok(Reply::ServerStatus(status)) => Ok(*status),
            Ok(_) => Err(Error::UnexpectedReply.to_string()),
            Err(Error::Unreachable { detail }) => Err(detail),
            Err(error) => Err(error.to_string()),
        };
        processes.insert(server, process);
    }
    let told = processes.values().flatten().filter_map(|process| process.brick.as_ref());
    let given_up = told.flat_map(|told| &told.siblings).filter(|sibling| sibling.is_offline);
    let given_up: BTreeSet<ServerId> = given_up.map(|sibling| sibling.brick).collect();
    for brick in others {
        processes.remove(&brick.brick);
    }
    let mut bricks = BTreeMap::new();
    for report in unclear {
        let told = processes.remove(&report.brick).unwrap_or_else(|| Err("no answer".to_owned()));
        let is_offline = given_up.contains(&report.brick);
        bricks.insert(report.brick, Found { is_offline, ..Found::of(report, told.map(Box::new)) });
    }
    let tablets = if bricks.is_empty() { Vec::new() } else { reach::described(client).unwrap_or_default() };
    Ok(Picture { cluster, tables, processes, bricks, tablets })
}
