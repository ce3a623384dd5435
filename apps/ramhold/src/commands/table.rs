//! `table create|list|describe|drop` (A1).

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{self, Columns};
use clap::{Args, Subcommand, ValueEnum};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_client::{
    Client, Durability, Error, Status, TableDescription, TableId, TableOptions, TableSummary, TabletState,
};
use serde_json::json;

/// Make, list, describe and drop tables.
#[derive(Args, Debug)]
pub struct Table {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Subcommand, Debug)]
enum TableCommand {
    Create(Create),
    /// List all tables.
    #[command(after_help = "Example:\n  ramhold table list --json")]
    List,
    /// Show a table's options and who owns which part of it.
    #[command(after_help = "Example:\n  ramhold table describe users")]
    Describe {
        name: String,
    },
    /// Drop a table with all its objects, for good.
    #[command(after_help = "Example:\n  ramhold table drop users")]
    Drop {
        name: String,
    },
}

/// Make a table.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table create users
  ramhold table create cache --durability none
  ramhold table create users --replicas 2 --if-absent")]
struct Create {
    /// 1 to 255 bytes.
    name: String,
    #[command(flatten)]
    options: OptionArguments,
    /// Parts to begin with; 0: one per server.
    #[arg(long, default_value_t = 0)]
    tablets: u32,
    /// A table of this name that exists already is fine.
    #[arg(long)]
    if_absent: bool,
}

/// How a table keeps what is written to it.
#[derive(Args, Clone, Debug)]
pub struct OptionArguments {
    /// Copies on backups: 1 to 7.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// What an acknowledged write is good for.
    #[arg(long, value_enum)]
    durability: Option<DurabilityArgument>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum DurabilityArgument {
    /// In the buffers of all replicas' backups.
    Buffered,
    /// On the devices of all replicas' backups.
    Synced,
    /// In one server's memory alone: gone when that server dies.
    None,
}

const REPLICAS_DEFAULT: u8 = 3;

impl OptionArguments {
    pub fn options(&self, tablets: u32) -> Result<TableOptions, Failure> {
        let durability = match (self.durability, self.replicas) {
            (Some(DurabilityArgument::Buffered), _) => Durability::Buffered,
            (Some(DurabilityArgument::Synced), _) => Durability::Synced,
            (Some(DurabilityArgument::None), _) | (None, Some(0)) => Durability::None,
            (None, _) => Durability::Buffered,
        };
        let replicas = match (durability, self.replicas) {
            (Durability::None, None | Some(0)) => 0,
            (Durability::None, Some(_)) => {
                return Err(Failure::usage("--durability none keeps no replicas; leave --replicas out"));
            }
            (Durability::Buffered | Durability::Synced, Some(0)) => {
                return Err(Failure::usage("without replicas nothing is durable; use --durability none"));
            }
            (Durability::Buffered | Durability::Synced, replicas) => replicas.unwrap_or(REPLICAS_DEFAULT),
        };
        Ok(TableOptions { durability, replicas, tablets })
    }
}

/// The table of this name, made if there is none.
pub fn create_if_absent(client: &mut Client, name: &str, options: TableOptions) -> Result<TableId, Failure> {
    let result = match client.create_table(name, options) {
        Err(Error::Refused { status: Status::TableExists, .. }) => client.table(name),
        result => result,
    };
    result.map_err(|error| Failure::from(error).about(&format!("table '{name}'")))
}

impl Table {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            TableCommand::Create(create) => create.run(global),
            TableCommand::List => list(global),
            TableCommand::Describe { name } => {
                let description = global.connect()?.describe_table(&name);
                let description = description.map_err(|error| about(&name, error))?;
                if global.json {
                    output::print_json(&description_json(&description))
                } else {
                    output::print(&description_text(&description))
                }
            }
            TableCommand::Drop { name } => {
                let (mut client, table) = global.connect_to_table(&name)?;
                client.drop_table(table).map_err(|error| about(&name, error))?;
                if global.json {
                    output::print_json(&json!({ "table": table.raw(), "name": name }))
                } else {
                    output::print(&format!("dropped table '{name}' ({table})\n"))
                }
            }
        }
    }
}

fn about(name: &str, error: Error) -> Failure {
    Failure::from(error).about(&format!("table '{name}'"))
}

impl Create {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let options = self.options.options(self.tablets)?;
        let mut client = global.connect()?;
        let table = if self.if_absent {
            create_if_absent(&mut client, &self.name, options)?
        } else {
            client.create_table(&self.name, options).map_err(|error| about(&self.name, error))?
        };
        if global.json {
            output::print_json(&json!({ "table": table.raw(), "name": self.name }))
        } else {
            output::print(&format!("table '{}' is {table}\n", self.name))
        }
    }
}

fn list(global: &Global) -> Result<(), Failure> {
    let tables = global.connect()?.tables()?;
    if global.json {
        return output::print_json(&json!(tables.iter().map(summary_json).collect::<Vec<_>>()));
    }
    if tables.is_empty() {
        return output::print("no tables\n");
    }
    output::print(&tables_text(&tables))
}

pub fn tables_text(tables: &[TableSummary]) -> String {
    let mut columns = Columns::new(["table", "id", "durability", "replicas", "tablets", "losses"]);
    for table in tables {
        columns.row([
            output::bytes_for_eyes(table.name.as_bytes()),
            table.table.to_string(),
            table.options.durability.name().to_owned(),
            table.options.replicas.to_string(),
            table.tablets.to_string(),
            table.losses.to_string(),
        ]);
    }
    columns.text()
}

pub fn summary_json(table: &TableSummary) -> serde_json::Value {
    json!({
        "table": table.table.raw(),
        "name": table.name,
        "durability": table.options.durability.name(),
        "replicas": table.options.replicas,
        "tablets": table.tablets,
        "losses": table.losses,
    })
}

fn description_text(table: &TableDescription) -> String {
    let mut text = format!(
        "table '{}' ({}): {}, {} replicas, {} tablets\n",
        output::bytes_for_eyes(table.name.as_bytes()),
        table.table,
        table.options.durability.name(),
        table.options.replicas,
        table.tablets.len()
    );
    let mut columns = Columns::new(["first hash", "last hash", "state", "owner", "address"]);
    for tablet in &table.tablets {
        columns.row([
            format!("{:?}", tablet.first),
            format!("{:?}", tablet.last),
            state_name(tablet.state).to_owned(),
            format!("{}/{}", tablet.owner, tablet.shard),
            tablet.address.map_or_else(|| "-".to_owned(), |address| address.0.to_string()),
        ]);
    }
    text.push_str(&columns.text());
    text
}

fn description_json(table: &TableDescription) -> serde_json::Value {
    let tablets = table.tablets.iter().map(|tablet| {
        json!({
            // Hexadecimal text, since JSON numbers end at 2^53.
            "first_hash": format!("{:?}", tablet.first),
            "last_hash": format!("{:?}", tablet.last),
            "state": state_name(tablet.state),
            "owner": tablet.owner.raw(),
            "shard": tablet.shard.raw(),
            "address": tablet.address.map(|address| address.0.to_string()),
        })
    });
    json!({
        "table": table.table.raw(),
        "name": table.name,
        "durability": table.options.durability.name(),
        "replicas": table.options.replicas,
        "placement_seed": format!("{:016x}", table.seed.0),
        "tablets": tablets.collect::<Vec<_>>(),
    })
}

fn state_name(state: TabletState) -> &'static str {
    match state {
        TabletState::Serving => "serving",
        TabletState::Recovering => "recovering",
        TabletState::Creating => "creating",
        TabletState::Dropping => "dropping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(replicas: Option<u8>, durability: Option<DurabilityArgument>) -> Option<(&'static str, u8)> {
        let options = OptionArguments { replicas, durability }.options(0).ok()?;
        Some((options.durability.name(), options.replicas))
    }

    #[test]
    fn replicas_and_durability_agree() {
        // D2
        assert_eq!(options(None, None), Some(("buffered", 3)));
        assert_eq!(options(Some(1), None), Some(("buffered", 1)));
        assert_eq!(options(Some(0), None), Some(("none", 0)));
        assert_eq!(options(None, Some(DurabilityArgument::None)), Some(("none", 0)));
        assert_eq!(options(Some(2), Some(DurabilityArgument::None)), None);
        assert_eq!(options(Some(0), Some(DurabilityArgument::Buffered)), None);
    }
}
