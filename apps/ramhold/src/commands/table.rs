//! `table create|list|describe|alter|split|merge|drop` (A1, A8, D2).

mod alter;
mod counted;
pub mod create;
pub mod describe;
mod divide;
pub mod options;
mod quorum;
mod zones;

use crate::connection::table_failure;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use alter::Alter;
use clap::{Args, Subcommand};
use create::Create;
use describe::{Describe, List};
use divide::{Merge, Split};
use serde_json::json;

/// Create, list, describe, alter, divide and drop tables.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table create users
  ramhold table list
  ramhold table describe users")]
pub struct Table {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Subcommand, Debug)]
enum TableCommand {
    Create(Create),
    List(List),
    Describe(Describe),
    Alter(Alter),
    Split(Split),
    Merge(Merge),
    Drop(Drop),
}

/// Drop a table and all its objects for good.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ramhold table drop users")]
struct Drop {
    /// Name of the table.
    name: String,
}

impl Table {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            TableCommand::Create(create) => create.run(global),
            TableCommand::List(list) => list.run(global),
            TableCommand::Describe(describe) => describe.run(global),
            TableCommand::Alter(alter) => alter.run(global),
            TableCommand::Split(split) => split.run(global),
            TableCommand::Merge(merge) => merge.run(global),
            TableCommand::Drop(drop) => drop.run(global),
        }
    }
}

impl Drop {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let name = &self.name;
        let (mut client, table) = global.connect_to_table(name)?;
        client.drop_table(table).map_err(|error| table_failure(name, error))?;
        if global.json {
            output::print_json(&json!({ "table": table.raw(), "name": name }))
        } else {
            output::print(&format!("dropped table '{name}' ({table})\n"))
        }
    }
}
