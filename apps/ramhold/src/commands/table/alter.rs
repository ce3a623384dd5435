//! `table alter`: changes durability, replica count or zone online, and waits for the tablets (D2, H3).

use super::describe::{in_zone, outside, reclassing};
use super::zones::unknown_zone;
use crate::connection::table_failure;
use crate::failure::{Failure, REFUSED, UNKNOWN};
use crate::global::Global;
use crate::output;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use ramhold_base::limits::REPLICA_COUNT_MAX;
use ramhold_client::{Durability, Error, Status, TableChange, TableDescription, TableOptions};
use serde_json::json;
use std::time::{Duration, Instant};

/// Change a table's durability, replica count or zone online.
///
/// The tablets are moved one range of keys after the other, while clients read and write. A write to the
/// range that is being moved waits for a fraction of a second. The command waits until all tablets are moved,
/// without limit or for --timeout. If the command ends earlier, the move continues in the background.
///
/// A table cannot be altered from or to durability 'none', nor to more replicas than the servers that are up
/// can keep.
///
/// A zone counts for tablets that get an owner from now on: those of a server that dies. The others stay
/// where they are.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table alter users --durability synced
  ramhold table alter users --replicas 2
  ramhold table alter users --durability buffered --replicas 3 --no-wait
  ramhold table alter users --zone a
  ramhold table alter users --any-zone

At least one of --durability, --replicas, --zone and --any-zone is needed.",
    override_usage = "ramhold table alter [OPTIONS] <NAME>",
    group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct Alter {
    /// Name of the table.
    name: String,
    /// When a write is acknowledged.
    #[arg(long, value_name = "HOW", value_enum, group = "change")]
    durability: Option<KeptArgument>,
    /// Copies on backups, 1 to 7.
    #[arg(long, value_name = "N", group = "change", value_parser = clap::value_parser!(u8).range(1..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// Keep the data on the servers of this zone while one of them is up and has room.
    #[arg(long, value_name = "ZONE", group = "change", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    zone: Option<String>,
    /// Keep the data on the servers of any zone again.
    #[arg(long, group = "change", conflicts_with = "zone")]
    any_zone: bool,
    /// Return as soon as the cluster has stored the new options.
    #[arg(long)]
    no_wait: bool,
}

/// The durability to which a table that is kept on backups can be altered.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum KeptArgument {
    /// When the buffers of all its backups have it.
    Buffered,
    /// When the devices of all its backups have it.
    Synced,
}

impl KeptArgument {
    fn durability(self) -> Durability {
        match self {
            KeptArgument::Buffered => Durability::Buffered,
            KeptArgument::Synced => Durability::Synced,
        }
    }
}

/// How often it is looked whether a table's tablets are moved.
const ALTER_POLL: Duration = Duration::from_millis(100);
/// How long none of them is moved before somebody who watches is told what is waited for.
const ALTER_SLOW: Duration = Duration::from_secs(5);

impl Alter {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let name = &self.name;
        let (mut client, table) = global.connect_to_table(name)?;
        let before = client.describe_table(name).map_err(|error| table_failure(name, error))?.options;
        if before.quorum.is_some() {
            return Err(super::quorum::is_held_by_bricks(name));
        }
        let change = TableChange {
            durability: self.durability.map(KeptArgument::durability),
            replicas: self.replicas,
            zone: self.zone.clone().or_else(|| self.any_zone.then(String::new)),
        };
        if let Err(error) = client.alter_table(table, change) {
            return Err(match (&error, &self.zone) {
                (Error::Refused { status: Status::UnknownZone, .. }, Some(zone)) => {
                    unknown_zone(&mut client, name, zone)
                }
                _ => unaltered(name, self.replicas.unwrap_or(before.replicas), error),
            });
        }
        let mut progress = Progress::new("moving", global.json);
        let mut description = client.describe_table(name).map_err(|error| table_failure(name, error))?;
        let (mut least, mut since) = (description.reclassing, Instant::now());
        while description.reclassing > 0 && !self.no_wait {
            let left = description.reclassing;
            if left < least {
                (least, since) = (left, Instant::now());
            }
            let text = format!("tablets: {left} of {} left", description.tablets.len());
            if global.patience.is_some_and(|patience| progress.elapsed() >= patience) {
                progress.finish();
                return Err(unfinished(name, &description, &before, progress.elapsed()));
            }
            let text = match (since.elapsed() < ALTER_SLOW, description.shortage) {
                (true, _) => text,
                (false, None) => format!("{text}; 'ramhold status' shows what the move waits for"),
                (false, Some(shortage)) => format!("{text}; {shortage}, {}", shortage.remedy()),
            };
            progress.show_text(|| text);
            std::thread::sleep(ALTER_POLL);
            description = client.describe_table(name).map_err(|error| table_failure(name, error))?;
        }
        progress.finish();
        let options = &description.options;
        if global.json {
            return output::print_json(&json!({
                "table": table.raw(),
                "name": name,
                "durability": options.durability.name(),
                "replicas": options.replicas,
                "tablets": description.tablets.len(),
                "tablets_reclassing": description.reclassing,
                "zone": options.zone,
                "tablets_outside": description.outside,
            }));
        }
        output::print(&format!(
            "table '{name}' ({table}): {}, {} replicas{}{}{}\n",
            options.durability.name(),
            options.replicas,
            in_zone(options),
            outside(&description),
            reclassing(&description)
        ))
    }
}

/// The time for an alteration is over; it goes on.
fn unfinished(name: &str, table: &TableDescription, before: &TableOptions, waited: Duration) -> Failure {
    let (left, all) = (table.reclassing, table.tablets.len());
    let why = table.shortage.map(|shortage| format!(" ({shortage})")).unwrap_or_default();
    let text = format!(
        "{left} of {all} tablets are not moved after {waited:.1?}{why}; moving goes on in the background: 'ramhold table \
         describe {name}' shows how far it is, 'ramhold table alter {name} --durability {} --replicas {}' undoes it",
        before.durability.name(),
        before.replicas
    );
    Failure::new(UNKNOWN, text).about(&format!("table '{name}'"))
}

/// Why a table stays as it is kept.
fn unaltered(name: &str, replicas: u8, error: Error) -> Failure {
    if let Error::Refused { status: Status::Unsupported, .. } = error {
        let text = "a table cannot be altered from or to 'none'; create another table and copy the objects with 'ramhold export' and 'ramhold import'";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    if let Error::Refused { shortage: Some(shortage), .. } = error {
        let remedy = shortage.remedy();
        let text = match shortage.up {
            _ if shortage.replicas != replicas => {
                format!("not altered, because the table lacks backups now: {shortage}; {remedy} first")
            }
            0 => format!("not altered: {shortage}; {remedy}"),
            up => format!("not altered: {shortage}; {remedy}, or give --replicas {up}"),
        };
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    table_failure(name, error)
}
