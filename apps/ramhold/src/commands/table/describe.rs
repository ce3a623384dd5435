//! `table list` and `table describe`, as text and as JSON (A1).

use super::counted::Counted;
use super::quorum;
use crate::connection::about_table;
use crate::failure::Failure;
use crate::global::Global;
use crate::output::{self, Columns};
use clap::Args;
use ramhold_base::hash::slot_of_hash;
use ramhold_client::{TableDescription, TableOptions, TableSummary, TabletState};
use serde_json::json;

/// List all tables.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table list
  ramhold table list --json")]
pub struct List;

/// Show a table's options, object count, tablets and owners.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table describe users
  ramhold table describe users --json")]
pub struct Describe {
    /// Name of the table.
    name: String,
}

impl List {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let tables = global.connect()?.tables()?;
        if global.json {
            return output::print_json(&json!(tables.iter().map(summary_json).collect::<Vec<_>>()));
        }
        if tables.is_empty() {
            return output::print("no tables\n");
        }
        output::print(&tables_columns(&tables).text())
    }
}

pub fn tables_columns(tables: &[TableSummary]) -> Columns {
    let mut columns = Columns::new(["table", "id", "durability", "replicas", "tablets", "slots", "losses"]);
    for table in tables {
        columns.row([
            output::bytes_for_eyes(table.name.as_bytes()),
            table.table.to_string(),
            table.options.durability.name().to_owned(),
            match table.options.quorum {
                None => table.options.replicas.to_string(),
                Some(quorum) => format!("{} bricks", quorum.bricks),
            },
            table.tablets.to_string(),
            if table.options.slots { "yes" } else { "no" }.to_owned(),
            table.losses.to_string(),
        ]);
    }
    columns
}

pub fn summary_json(table: &TableSummary) -> serde_json::Value {
    json!({
        "table": table.table.raw(),
        "name": table.name,
        "durability": table.options.durability.name(),
        "replicas": table.options.replicas,
        "tablets": table.tablets,
        "slots": table.options.slots,
        "zone": table.options.zone,
        "losses": table.losses,
        "quorum": table.options.quorum.map(quorum::numbers_json),
    })
}

impl Describe {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let description = client.describe_table(&self.name);
        let description = description.map_err(|error| about_table(&mut client, &self.name, error))?;
        let objects = Counted::of(&mut client, &description);
        if global.json {
            output::print_json(&description_json(&description, objects.all()))
        } else if let (Some(quorum), Some(tablets)) = (description.options.quorum, &description.quorum) {
            output::print(&quorum::description_text(&description, quorum, tablets, objects))
        } else {
            output::print(&description_text(&description, objects))
        }
    }
}

fn description_text(table: &TableDescription, objects: Counted) -> String {
    let mut text = format!(
        "table '{}' ({}): {}, {} replicas, {} tablets, {}{}\n",
        output::bytes_for_eyes(table.name.as_bytes()),
        table.table,
        table.options.durability.name(),
        table.options.replicas,
        table.tablets.len(),
        objects.text(),
        quorum::by_slots(&table.options)
    );
    for more in [in_zone(&table.options), outside(table), reclassing(table)] {
        text.insert_str(text.len() - 1, &more);
    }
    let bounds = if table.options.slots { ["first slot", "last slot"] } else { ["first hash", "last hash"] };
    let bound = |hash| match table.options.slots {
        true => slot_of_hash(hash).to_string(),
        false => format!("{hash:?}"),
    };
    let mut columns = Columns::new([bounds[0], bounds[1], "state", "owner", "address"]);
    for tablet in &table.tablets {
        columns.row([
            bound(tablet.first),
            bound(tablet.last),
            state_name(tablet.state).to_owned(),
            format!("{}/{}", tablet.owner, tablet.shard),
            tablet.address.map_or_else(|| "-".to_owned(), |address| address.0.to_string()),
        ]);
    }
    text.push_str(&columns.text());
    text
}

pub fn in_zone(options: &TableOptions) -> String {
    let zone = options.zone.as_ref();
    zone.map_or_else(String::new, |zone| format!(", in zone '{}'", output::bytes_for_eyes(zone.as_bytes())))
}

/// How many tablets are not in the zone of the table.
pub fn outside(table: &TableDescription) -> String {
    match table.outside {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} of {} tablets elsewhere", table.tablets.len()),
    }
}

fn description_json(table: &TableDescription, objects: Option<u64>) -> serde_json::Value {
    let tablets = table.tablets.iter().map(|tablet| {
        json!({
            // Hashes are hexadecimal text, since JSON numbers are exact only up to 2^53.
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
        "slots": table.options.slots,
        "objects": objects,
        "tablets_reclassing": table.reclassing,
        "zone": table.options.zone,
        "tablets_outside": table.outside,
        "placement_seed": format!("{:016x}", table.seed.0),
        "tablets": tablets.collect::<Vec<_>>(),
        "quorum": table.options.quorum.map(quorum::numbers_json),
        "quorum_tablets": table.quorum.as_deref().map(quorum::tablets_json),
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

/// How far a table is from being kept as it is to be.
pub fn reclassing(table: &TableDescription) -> String {
    match table.reclassing {
        0 => String::new(),
        count => format!(", {count} of {} tablets not moved yet", table.tablets.len()),
    }
}
