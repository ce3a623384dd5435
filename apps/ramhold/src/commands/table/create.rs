//! `table create`, and tables that other commands make (A1, D2).

use super::describe::{in_zone, outside};
use super::options::{OptionArguments, Wish};
use super::quorum::{self, by_slots};
use super::zones::unknown_zone;
use crate::connection::table_failure;
use crate::failure::{Failure, REFUSED};
use crate::global::Global;
use crate::output;
use crate::progress::Progress;
use clap::Args;
use ramhold_client::{Client, Error, Status, TableId};
use serde_json::json;
use std::time::Duration;

/// Create a table.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table create users
  ramhold table create cache --durability none
  ramhold table create users --replicas 2 --if-absent
  ramhold table create users --wait --timeout 5m
  ramhold table create sessions --slots
  ramhold table create orders --zone a
  ramhold table create carts --quorum 3
  ramhold table create flags --quorum 5 --durability synced")]
pub struct Create {
    /// Name of the table, 1 to 255 bytes.
    name: String,
    #[command(flatten)]
    options: OptionArguments,
    /// Number of tablets to begin with; 0 means one per server.
    #[arg(long, value_name = "N", default_value_t = 0)]
    tablets: u32,
    /// Succeed if the table exists already and has the options given here.
    #[arg(long)]
    if_absent: bool,
    /// Wait until enough servers are up for the replicas, without limit or for --timeout.
    #[arg(long)]
    wait: bool,
}

impl Create {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let wish = self.options.wish(self.tablets)?;
        let mut client = global.connect()?;
        let created = if self.wait {
            create_when_possible(&mut client, &self.name, &wish, global)
        } else {
            wish.create(&mut client, &self.name)
        };
        let table = if self.if_absent {
            or_existing(&mut client, &self.name, &wish, (created, self.wait))?
        } else {
            created.map_err(|error| refused(&mut client, &self.name, &wish, (error, self.wait)))?
        };
        // Only the cluster knows the options that were left open, and those of a table that exists already.
        let described =
            client.describe_table(&self.name).map_err(|error| table_failure(&self.name, error))?;
        let made = &described.options;
        let durability = made.durability.name();
        if let Some(quorum) = made.quorum
            && !global.json
        {
            let tablets = match described.quorum.as_ref().map_or(0, Vec::len) {
                1 => "1 tablet".to_owned(),
                count => format!("{count} tablets"),
            };
            return output::print(&format!(
                "table '{}' is {table}: {durability}, held by {}, {tablets}{}\n",
                self.name,
                quorum::numbers(quorum),
                by_slots(made),
            ));
        }
        if global.json {
            output::print_json(&json!({
                "table": table.raw(),
                "name": self.name,
                "durability": durability,
                "replicas": made.replicas,
                "slots": made.slots,
                "zone": made.zone,
                "quorum": made.quorum.map(quorum::numbers_json),
            }))
        } else {
            output::print(&format!(
                "table '{}' is {table}: {durability}, {} replicas{}{}{}\n",
                self.name,
                made.replicas,
                by_slots(made),
                in_zone(made),
                outside(&described)
            ))
        }
    }
}

/// The table of this name, made if there is none. One with other options than were given is refused.
pub fn create_if_absent(client: &mut Client, name: &str, wish: &Wish) -> Result<TableId, Failure> {
    let created = wish.create(client, name);
    or_existing(client, name, wish, (created, false))
}

fn or_existing(
    client: &mut Client,
    name: &str,
    wish: &Wish,
    (created, has_waited): (Result<TableId, Error>, bool),
) -> Result<TableId, Failure> {
    let Err(Error::Refused { status: Status::TableExists, .. }) = created else {
        return created.map_err(|error| refused(client, name, wish, (error, has_waited)));
    };
    let table = client.describe_table(name).map_err(|error| table_failure(name, error))?;
    let differences = wish.differences(&table);
    if differences.is_empty() {
        return Ok(table.table);
    }
    let is_fixed = wish.quorum().is_some() || table.options.quorum.is_some();
    let error = Error::TableDiffers { table: table.table, differences };
    if is_fixed {
        let text = format!("{error}; choose another name: what a quorum table is created with stays");
        return Err(Failure::new(REFUSED, text).about(&format!("table '{name}'")));
    }
    Err(table_failure(name, error))
}

/// How often it is looked whether enough servers are up for a table.
const WAIT_POLL: Duration = Duration::from_millis(500);

/// Makes a table as soon as enough servers are up for its replicas; tells what is missing whenever that changes.
fn create_when_possible(
    client: &mut Client,
    name: &str,
    wish: &Wish,
    global: &Global,
) -> Result<TableId, Error> {
    let mut progress = Progress::new("waiting:", global.json);
    let mut told = None;
    loop {
        let is_over = global.patience.is_some_and(|patience| progress.elapsed() >= patience);
        match wish.create(client, name) {
            Err(Error::Refused { shortage: Some(shortage), .. }) if !is_over => {
                if told.replace(shortage) != Some(shortage) {
                    progress.tell(&format!("table '{name}' waits: {shortage}; {}", shortage.remedy()));
                }
                progress.show_text(|| shortage.to_string());
                std::thread::sleep(WAIT_POLL);
            }
            created => {
                progress.finish();
                return created;
            }
        }
    }
}

/// Why a table could not be made.
fn refused(client: &mut Client, name: &str, wish: &Wish, (error, has_waited): (Error, bool)) -> Failure {
    if let (Error::Refused { status: Status::UnknownZone, .. }, Some(zone)) = (&error, wish.zone()) {
        return unknown_zone(client, name, zone);
    }
    // This is the only reason for `NotAllowed` when a table is created.
    if let Error::Refused { status: Status::NotAllowed, .. } = error {
        let text = "this cluster gives tables no replicas by default; give their number with --replicas";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    let wait = if has_waited { "wait longer with --timeout" } else { "wait with --wait" };
    if let Error::Refused { shortage: Some(shortage), .. } = error {
        if wish.quorum().is_some() {
            let fewer = match shortage.up {
                0 => String::new(),
                up => format!(", or give --quorum {up}"),
            };
            let text = format!("not created: {shortage}; {}, {wait}{fewer}", shortage.remedy());
            return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
        }
        let fewer = match shortage.up {
            0 => "give --replicas 0 to keep the table in one server's memory alone".to_owned(),
            up => format!("give --replicas {up}"),
        };
        let text = format!("not created: {shortage}; {}, {wait}, or {fewer}", shortage.remedy());
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    table_failure(name, error)
}
