//! `server forget`: a server that is gone for good is no longer expected (B1).

use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_client::{ClusterStatus, ServerId, ServerState, Status};
use serde_json::json;

/// Stop expecting a server that is gone for good.
///
/// 'ramhold status' lists servers that died and did not return. Such a server returns when it is started
/// again on its data directory. Forget it if it never will. Its data has been recovered to other servers, so
/// nothing is lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  ramhold status
  ramhold server forget s5

Exit codes: 0 the server is forgotten, 1 no such server is gone, 3 the server is
up or is being recovered.")]
pub struct Forget {
    /// Id of the server, as 'ramhold status' shows it: s5.
    #[arg(value_name = "SERVER", value_parser = parse_server)]
    server: ServerId,
}

/// `s5`.
pub fn parse_server(text: &str) -> Result<ServerId, String> {
    let number = text.strip_prefix('s').and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    number
        .map(ServerId)
        .ok_or_else(|| format!("'{text}' is not the id of a server, like s5; 'ramhold status' shows the ids"))
}

impl Forget {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let server = self.server;
        let mut client = global.connect()?;
        match client.forget_server(server) {
            Ok(()) if global.json => output::print_json(&json!({ "forgotten": server.to_string() })),
            Ok(()) => output::print(&format!("{server} is not expected any more\n")),
            Err(error) => match error.status() {
                Some(Status::NotFound | Status::NotAllowed | Status::Retry) => {
                    Err(why_not(server, &client.cluster_status()?))
                }
                _ => Err(Failure::from(error).about(&format!("server {server}"))),
            },
        }
    }
}

/// The reason why the cluster does not forget a server.
fn why_not(server: ServerId, status: &ClusterStatus) -> Failure {
    let listed = status.servers.iter().find(|entry| entry.id == server && !entry.kept);
    match listed.map(|entry| entry.state) {
        Some(ServerState::Up) => {
            Failure::new(REFUSED, format!("{server} is up; stop it first, then forget it when it is gone"))
        }
        Some(ServerState::Crashed) => Failure::new(
            REFUSED,
            format!("{server} is being recovered; forget it when 'ramhold status' shows it as gone"),
        ),
        None => {
            let gone = status.gone.iter().flatten().map(|gone| gone.server.to_string());
            let gone: Vec<String> = gone.collect();
            let others = match gone.is_empty() {
                true => "no server is gone".to_owned(),
                false => format!("these servers are gone: {}", gone.join(", ")),
            };
            Failure::new(NOT_FOUND, format!("{server} is not gone; {others}"))
        }
    }
}
