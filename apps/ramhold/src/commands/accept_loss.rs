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
/// The loss of what only they had is accepted by that.
#[derive(Args, Debug)]
#[command(after_help = "\
A recovery whose log is not complete waits for the servers that may hold the
rest; it goes on by itself when one of them comes back, with its data directory
or its buffers. Only when they are switched off for good, name all of them here:
  - before you do, make sure that none of them runs on behind a broken network:
    it would go on answering clients;
  - every server that is up looks whether one of them answers; if so nothing is
    given up;
  - what is left of the log is recovered, and a loss report tells which tables
    may have lost writes.
'ramhold recoveries' shows what a recovery waits for, and who is away.

Example:
  ramhold accept-loss r3 --switched-off s4,s7")]
pub struct AcceptLoss {
    /// The recovery that waits: r3, or 'last'.
    #[arg(value_name = "RECOVERY")]
    recovery: String,
    /// The servers that are switched off: all that are away, by id; where that is not known any more, by directory.
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
            let text =
                format!("nothing is given up: {} answers and is not switched off", ids(&accepted.answering));
            return Err(Failure::new(REFUSED, text));
        }
        if !accepted.unsure.is_empty() {
            let text = format!(
                "nothing is given up: {} could not tell whether one of them answers; try again when it is well",
                ids(&accepted.unsure)
            );
            return Err(Failure::new(REFUSED, text));
        }
        if global.json {
            output::print_json(&json!({ "recovery": report.recovery.raw(), "given_up": self.switched_off }))
        } else {
            output::print(&format!(
                "{} waits for {} no more; 'ramhold status' shows what is lost\n",
                report.recovery,
                self.switched_off.join(", ")
            ))
        }
    }
}

/// Those that are meant, if they are all that are away.
fn named(report: &RecoveryReport, names: &[String]) -> Result<Vec<AwayReport>, Failure> {
    if report.away.is_empty() {
        let text = format!("{} waits for nobody who is away", report.recovery);
        return Err(Failure::new(NOT_FOUND, text));
    }
    let all = || report.away.iter().map(away_text).collect::<Vec<_>>().join(", ");
    let mut meant = BTreeSet::new();
    for name in names {
        let is_it =
            |away: &&AwayReport| away.server.to_string() == *name || away.directory.to_string() == *name;
        let Some(away) = report.away.iter().find(is_it) else {
            return Err(Failure::usage(format!(
                "'{name}' is not away for {}; away are {}",
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
            "{} waits for {} too: it goes on without loss if that comes back, or must be named as well",
            report.recovery,
            others.join(", ")
        );
        return Err(Failure::usage(text));
    }
    Ok(report.away.clone())
}
