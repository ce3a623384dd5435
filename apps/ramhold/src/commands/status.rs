//! `status`: an overview of the whole cluster, from the coordinator and from every server.

mod findings;
mod json;
mod text;

use crate::cli::Global;
use crate::failure::Failure;
use crate::output;
use crate::screen::Screen;
use clap::Args;
use ramhold_client::{
    Client, ClusterStatus, Error, Operation, OperationId, ProcessStatus, Reply, ServerId, ServerState,
    TableSummary,
};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;
use text::Breadth;

/// A server that does not answer within this is shown without its figures.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Show whether the cluster is well, and what to do if not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold status
  ramhold status --watch
  ramhold status --wide
  ramhold status --json | jq '.servers[] | {id, log_used_bytes}'

The first line is the verdict: healthy, recovering (it mends itself), degraded
(all is served, but something needs you) or critical (something is lost, refused
or not served). What was found follows, each with what to do. 'memory' and
'disk' tell how full a server's log and its room for replicas are. Exit code 0
whatever the verdict; --json has it as 'verdict'.")]
pub struct Status {
    /// Show it again every second until interrupted; with --json one line each time.
    #[arg(long)]
    watch: bool,
    /// Show everything, in lines as long as it takes.
    #[arg(long)]
    wide: bool,
}

/// Everything that is shown at one time.
struct Picture {
    cluster: ClusterStatus,
    tables: Vec<TableSummary>,
    /// What each server says of itself, or why it says nothing.
    processes: BTreeMap<ServerId, Result<ProcessStatus, String>>,
}

impl Status {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        if !self.watch {
            return self.show(&take(&mut client, global.timeout())?, global, "");
        }
        let clear = if std::io::stdout().is_terminal() && !global.json { "\x1b[H\x1b[2J" } else { "" };
        loop {
            match take(&mut client, global.timeout()) {
                Ok(picture) => self.show(&picture, global, clear)?,
                // Watching matters most while something is wrong, so an error does not end it.
                Err(error) => crate::output::tell(&format!("ramhold: {}", Failure::from(error).text())),
            }
            std::thread::sleep(WATCH_INTERVAL);
        }
    }

    fn show(&self, picture: &Picture, global: &Global, before: &str) -> Result<(), Failure> {
        if global.json {
            return output::print_json(&json::picture(picture));
        }
        let breadth = if self.wide { Breadth::Wide } else { Breadth::Narrow };
        output::print(&format!("{before}{}", text::picture(picture, breadth, Screen::of_stdout())))
    }
}

fn take(client: &mut Client, timeout: Duration) -> Result<Picture, Error> {
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
        // All servers are asked at once, but no more than a client may have under way.
        while asked.len() < 500
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
