//! The state of the cluster at one time: the coordinator's view, and what each server says of itself.

use ramhold_client::{
    Client, ClusterStatus, Error, Operation, OperationId, ProcessStatus, Reply, ServerId, ServerState,
    TableSummary,
};
use std::collections::BTreeMap;
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
}

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
    let mut up = up.peekable();
    while up.peek().is_some() || !asked.is_empty() {
        while asked.len() < ASKED_COUNT_MAX
            && let Some(server) = up.next()
        {
            let operation = Operation::ServerStatus { address: server.address.0 };
            asked.insert(client.submit_within(operation, SERVER_TIMEOUT.min(timeout)), server.id);
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
    Ok(Picture { cluster, tables, processes })
}
