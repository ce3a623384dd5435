//! `user remove`: accounts go, and connections that logged in as them may do nothing any more.

use super::obstacle;
use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_access::account::DEFAULT;
use serde_json::json;
use std::collections::BTreeSet;

/// Remove accounts.
///
/// Connections that logged in as them end as soon as their servers hear of it. An account that is made again under the
/// same name is another one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold user remove app
  ramhold user remove ann bob

Exit codes: 0 all of them are removed, 1 one of the names is no account (the
others are removed), 3 'default' is among them: nothing is removed.")]
pub struct Remove {
    /// Names of the accounts.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Remove {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if self.names.iter().any(|name| name == DEFAULT) {
            return Err(Failure::new(
                REFUSED,
                "nothing is changed: the account 'default' cannot be removed; turn it off with 'ramhold user set default off'",
            ));
        }
        let mut client = global.connect()?;
        let accounts = client.accounts()?;
        let is_known = |name: &String| accounts.accounts.iter().any(|account| account.name == *name);
        let names: BTreeSet<String> = self.names.into_iter().collect();
        let (known, unknown): (Vec<String>, Vec<String>) = names.into_iter().partition(is_known);
        if !known.is_empty() {
            let removed = client.remove_accounts(known.clone())?;
            if let Some(obstacle) = removed.obstacle {
                return Err(Failure::new(REFUSED, format!("nothing is changed: {obstacle}")));
            }
            if global.json {
                output::print_json(&json!({ "removed": removed.count, "version": removed.version }))?;
            } else {
                let lines = known.iter().map(|name| format!("account '{name}' is removed\n"));
                output::print(&lines.collect::<String>())?;
            }
        }
        match unknown.first() {
            None => Ok(()),
            Some(first) => {
                let shown = output::bytes_for_eyes(first.as_bytes());
                Err(Failure::new(NOT_FOUND, obstacle::unknown(&shown, &accounts)))
            }
        }
    }
}
