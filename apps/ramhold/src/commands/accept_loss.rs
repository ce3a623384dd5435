//! `accept-loss`: an operator gives up servers that a recovery waits for (F2).

use crate::commands::recoveries::reports::{away_text, find};
use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_client::{AwayReport, RecoveryReport, ServerId};
use serde_json::json;
use std::collections::BTreeSet;

/// Give up servers that a recovery waits for.
///
/// You accept the loss of the data that only these servers had.
#[derive(Args, Debug)]
#[command(after_help = "\
A recovery whose log is incomplete waits for the servers that may hold the rest.
It continues by itself when one of them returns with its data directory or its
buffers. Use this command only when all of them are switched off for good:
  - First make sure that none of them still runs behind a broken network. Such a
    server would go on answering clients.
  - Every server that is up checks whether a named server answers. If one
    answers, nothing is given up.
  - The rest of the log is recovered. A loss report names the tables that may
    have lost writes.
'ramhold recoveries' shows what a recovery waits for and which servers are away.

Example:
  ramhold accept-loss r3 --switched-off s4,s7")]
pub struct AcceptLoss {
    /// Recovery that waits: its id, such as r3, or 'last'.
    #[arg(value_name = "RECOVERY")]
    recovery: String,
    /// All servers that are away, by server id; by directory id where the server id is not known any more.
    /// All of them must be switched off.
    #[arg(long, value_name = "SERVERS", value_delimiter = ',', required = true)]
    switched_off: Vec<String>,
}

impl AcceptLoss {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let recoveries = client.recoveries()?;
        let report = find(&recoveries, &self.recovery)?;
        let named = named(report, &self.switched_off)?;
        let directories = named.iter().map(|away| away.directory).collect();
        let accepted = client
            .accept_loss(report.recovery, directories)
            .map_err(|error| Failure::from(error).about(&format!("recovery {}", report.recovery)))?;
        let ids =
            |servers: &[ServerId]| servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !accepted.answering.is_empty() {
            let text = format!(
                "nothing is given up; these servers still answer, so switch them off first: {}",
                ids(&accepted.answering)
            );
            return Err(Failure::new(REFUSED, text));
        }
        if !accepted.unsure.is_empty() {
            let text = format!(
                "nothing is given up; these servers could not check whether a named server answers, so look after them and try again: {}",
                ids(&accepted.unsure)
            );
            return Err(Failure::new(REFUSED, text));
        }
        if global.json {
            output::print_json(&json!({ "recovery": report.recovery.raw(), "given_up": self.switched_off }))
        } else {
            output::print(&format!(
                "{} no longer waits for {}; 'ramhold status' shows what is lost\n",
                report.recovery,
                self.switched_off.join(", ")
            ))
        }
    }
}

/// Those that are meant, if they are all that are away.
fn named(report: &RecoveryReport, names: &[String]) -> Result<Vec<AwayReport>, Failure> {
    if report.away.is_empty() {
        let text = format!(
            "{} is not waiting for any missing server; 'ramhold recoveries' shows what it waits for",
            report.recovery
        );
        return Err(Failure::new(NOT_FOUND, text));
    }
    let all = || report.away.iter().map(away_text).collect::<Vec<_>>().join(", ");
    let mut meant = BTreeSet::new();
    for name in names {
        let is_it =
            |away: &&AwayReport| away.server.to_string() == *name || away.directory.to_string() == *name;
        let Some(away) = report.away.iter().find(is_it) else {
            return Err(Failure::usage(format!(
                "'{name}' is not a server that {} waits for; it waits for {}",
                report.recovery,
                all()
            )));
        };
        meant.insert(away.directory);
    }
    let others: Vec<String> =
        report.away.iter().filter(|away| !meant.contains(&away.directory)).map(away_text).collect();
    if !others.is_empty() {
        let text = format!(
            "{} also waits for {}; start it again to recover without loss, or name it too if it is switched off for good",
            report.recovery,
            others.join(", ")
        );
        return Err(Failure::usage(text));
    }
    Ok(report.away.clone())
}
