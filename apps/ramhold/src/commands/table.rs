//! `table create|list|describe|alter|split|merge|drop` (A1, A8, D2).

use crate::connection::about_table;
use crate::failure::{Failure, REFUSED, UNKNOWN};
use crate::global::Global;
use crate::output::{self, Columns};
use crate::progress::Progress;
use clap::{Args, Subcommand, ValueEnum};
use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of, slot_of_hash};
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_client::{
    Client, Durability, Error, LeftOpen, Status, TableDescription, TableDifference, TableId, TableOptions,
    TableSummary, TabletState,
};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a description waits for each tablet's number of objects.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);

/// Make, list, describe, alter, divide and drop tables.
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
    /// Show a table's options, its objects, and who owns what of it.
    #[command(after_help = "Example:\n  ramhold table describe users")]
    Describe {
        name: String,
    },
    Alter(Alter),
    Split(Split),
    Merge(Merge),
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
  ramhold table create users --replicas 2 --if-absent
  ramhold table create users --wait --timeout 5m
  ramhold table create sessions --slots")]
struct Create {
    /// 1 to 255 bytes.
    name: String,
    #[command(flatten)]
    options: OptionArguments,
    /// Parts to begin with; 0: one per server.
    #[arg(long, default_value_t = 0)]
    tablets: u32,
    /// A table of this name that exists already is fine, if it has the options that are given here.
    #[arg(long)]
    if_absent: bool,
    /// When too few servers are up for the replicas, wait until there are enough: as long as it takes, or for --timeout.
    #[arg(long)]
    wait: bool,
}

/// Change a table's durability or replica count online.
///
/// Its tablets are moved one stretch after the other while everybody goes on reading and writing; a write to the stretch that
/// is being moved waits for a fraction of a second. Waits until all are moved: as long as it takes, or for --timeout. Moving
/// goes on in the background when this program ends. Not from or to 'none', nor to more copies than the servers that are up
/// can keep.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table alter users --durability synced
  ramhold table alter users --replicas 2
  ramhold table alter users --durability buffered --replicas 3 --no-wait

At least one of --durability and --replicas is needed.",
    group = clap::ArgGroup::new("change").required(true).multiple(true))]
struct Alter {
    name: String,
    /// What an acknowledged write is good for.
    #[arg(long, value_enum, group = "change")]
    durability: Option<KeptArgument>,
    /// Copies on backups.
    #[arg(long, group = "change", value_parser = clap::value_parser!(u8).range(1..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// Return when it is stored that the table is to be kept so.
    #[arg(long)]
    no_wait: bool,
}

/// Cut a table's tablets into smaller ones.
///
/// They stay on their servers; nothing moves and nobody waits. Smaller tablets are recovered, counted and later moved each by itself. Without --at each
/// is cut where its bytes lie, as far as its server knows: tables of less than some 10 MB are cut into equal ranges of hashes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table split users
  ramhold table split users --parts 4
  ramhold table split users --at 8000000000000000
  ramhold table split sessions --at 8192")]
struct Split {
    name: String,
    /// How many with as many bytes each a tablet becomes.
    #[arg(long, default_value_t = 2, conflicts_with = "at", value_parser = clap::value_parser!(u32).range(2..))]
    parts: u32,
    /// Where a tablet is to begin: a hash as 'describe' shows it, or a slot of a table by slots.
    #[arg(long)]
    at: Option<String>,
}

/// Join a table's neighbouring tablets that one server has.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table merge users
  ramhold table merge users --at 8000000000000000
  ramhold table merge sessions --at 8192")]
struct Merge {
    name: String,
    /// Where two tablets meet that are to be one: a hash as 'describe' shows it, or a slot of a table by slots; by
    /// default everywhere.
    #[arg(long)]
    at: Option<String>,
}

/// How a table keeps what is written to it.
#[derive(Args, Clone, Debug)]
pub struct OptionArguments {
    /// Copies on backups: 1 to 7, or 0 for a table in one server's memory alone; by default what the cluster was
    /// started with ('ramhold coordinator --default-replicas', 'ramhold dev --replicas').
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// What an acknowledged write is good for; by default 'buffered', and 'none' without replicas.
    #[arg(long, value_enum)]
    durability: Option<DurabilityArgument>,
    /// Place keys by the hash slots of Redis Cluster: keys with the same {tag} are on one server.
    #[arg(long)]
    slots: bool,
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

/// What a table that is kept on backups can be altered to.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum KeptArgument {
    /// In the buffers of all replicas' backups.
    Buffered,
    /// On the devices of all replicas' backups.
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

/// The options of a table to be made, and what of them is the cluster's to decide.
#[derive(Clone, Debug)]
pub struct Wish {
    options: TableOptions,
    left_open: Option<LeftOpen>,
    /// Whether the durability was said, and is not only what the replicas make of it.
    says_durability: bool,
}

impl OptionArguments {
    pub fn wish(&self, tablets: u32) -> Result<Wish, Failure> {
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
            // The cluster decides an option that is left open. An older coordinator takes this value.
            (Durability::Buffered | Durability::Synced, replicas) => {
                replicas.unwrap_or(REPLICA_COUNT_DEFAULT)
            }
        };
        let left_open = match (self.durability, self.replicas) {
            (None, None) => Some(LeftOpen::Durability),
            (Some(DurabilityArgument::Buffered | DurabilityArgument::Synced), None) => {
                Some(LeftOpen::Replicas)
            }
            (Some(DurabilityArgument::None), None) | (_, Some(_)) => None,
        };
        let says_durability = self.durability.is_some() || self.replicas == Some(0);
        let options = TableOptions { durability, replicas, tablets, slots: self.slots };
        Ok(Wish { options, left_open, says_durability })
    }
}

impl Wish {
    fn create(&self, client: &mut Client, name: &str) -> Result<TableId, Error> {
        match self.left_open {
            None => client.create_table(name, self.options.clone()),
            Some(left_open) => client.create_table_leaving(left_open, name, self.options.clone()),
        }
    }

    /// The options in which a table differs from what was said. An option that was not said may be as it is.
    fn differences(&self, table: &TableDescription) -> Vec<TableDifference> {
        let mut differences = TableDifference::all(table, &self.options, self.left_open);
        differences.retain(|difference| match difference {
            TableDifference::Durability { .. } => self.says_durability,
            TableDifference::Slots { .. } => self.options.slots,
            TableDifference::Replicas { .. } | TableDifference::Tablets { .. } => true,
        });
        differences
    }
}

/// The table of this name, made if there is none. One with other options than were given is refused.
pub fn create_if_absent(client: &mut Client, name: &str, wish: &Wish) -> Result<TableId, Failure> {
    let created = wish.create(client, name);
    or_existing(client, name, wish, created)
}

fn or_existing(
    client: &mut Client,
    name: &str,
    wish: &Wish,
    created: Result<TableId, Error>,
) -> Result<TableId, Failure> {
    let Err(Error::Refused { status: Status::TableExists, .. }) = created else {
        return created.map_err(|error| refused(name, error));
    };
    let table = client.describe_table(name).map_err(|error| about(name, error))?;
    let differences = wish.differences(&table);
    if differences.is_empty() {
        return Ok(table.table);
    }
    Err(about(name, Error::TableDiffers { table: table.table, differences }))
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

impl Table {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            TableCommand::Create(create) => create.run(global),
            TableCommand::List => list(global),
            TableCommand::Describe { name } => {
                let mut client = global.connect()?;
                let description = client.describe_table(&name);
                let description = description.map_err(|error| about_table(&mut client, &name, error))?;
                let objects = count(&mut client, &description);
                if global.json {
                    output::print_json(&description_json(&description, objects))
                } else {
                    output::print(&description_text(&description, objects))
                }
            }
            TableCommand::Alter(alter) => alter.run(global),
            TableCommand::Split(Split { name, parts, at }) => {
                divide(global, &name, at, |client, table, at| match at {
                    None => client.split_table(table, parts),
                    Some(at) => client.split_table_at(table, at),
                })
            }
            TableCommand::Merge(Merge { name, at }) => {
                divide(global, &name, at, |client, table, at| match at {
                    None => client.merge_table(table),
                    Some(at) => client.merge_table_at(table, at),
                })
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

/// How often it is looked whether a table's tablets are moved.
const ALTER_POLL: Duration = Duration::from_millis(100);
/// How long none of them is moved before somebody who watches is told what is waited for.
const ALTER_SLOW: Duration = Duration::from_secs(5);

impl Alter {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let name = &self.name;
        let (mut client, table) = global.connect_to_table(name)?;
        let before = client.describe_table(name).map_err(|error| about(name, error))?.options;
        client
            .alter_table(table, self.durability.map(KeptArgument::durability), self.replicas)
            .map_err(|error| unaltered(name, self.replicas.unwrap_or(before.replicas), error))?;
        let mut progress = Progress::new("moving", global.json);
        let mut description = client.describe_table(name).map_err(|error| about(name, error))?;
        let (mut least, mut since) = (description.migrating, Instant::now());
        while description.migrating > 0 && !self.no_wait {
            let left = description.migrating;
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
                (false, None) => format!("{text}; 'ramhold status' tells what is waited for"),
                (false, Some(shortage)) => format!("{text}; {shortage}, {}", shortage.remedy()),
            };
            progress.show_text(|| text);
            std::thread::sleep(ALTER_POLL);
            description = client.describe_table(name).map_err(|error| about(name, error))?;
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
                "tablets_migrating": description.migrating,
            }));
        }
        output::print(&format!(
            "table '{name}' ({table}): {}, {} replicas{}\n",
            options.durability.name(),
            options.replicas,
            migrating(&description)
        ))
    }
}

/// How far a table is from being kept as it is to be.
fn migrating(table: &TableDescription) -> String {
    match table.migrating {
        0 => String::new(),
        count => format!(", {count} of {} tablets not moved yet", table.tablets.len()),
    }
}

/// The time for an alteration is over; it goes on.
fn unfinished(name: &str, table: &TableDescription, before: &TableOptions, waited: Duration) -> Failure {
    let (left, all) = (table.migrating, table.tablets.len());
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
        let text = "a table cannot be altered from or to 'none'; make a new one and copy what is to be kept";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    if let Error::Refused { shortage: Some(shortage), .. } = error {
        let remedy = shortage.remedy();
        let text = match shortage.up {
            _ if shortage.replicas != replicas => {
                format!("not altered while it lacks backups: {shortage}; {remedy} first")
            }
            0 => format!("not altered: {shortage}; {remedy}"),
            up => format!("not altered: {shortage}; {remedy}, or give --replicas {up}"),
        };
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    about(name, error)
}

/// Has a table's tablets cut or joined, and tells how many there are then.
fn divide(
    global: &Global,
    name: &str,
    at: Option<String>,
    ask: impl FnOnce(&mut Client, TableId, Option<KeyHash>) -> Result<u32, Error>,
) -> Result<(), Failure> {
    let mut client = global.connect()?;
    let table = client.describe_table(name);
    let table = table.map_err(|error| about_table(&mut client, name, error))?;
    let at = at.map(|at| place(&at, table.options.slots)).transpose()?;
    let before = table.tablets.len();
    let tablets = ask(&mut client, table.table, at).map_err(|error| undivided(name, error))?;
    if global.json {
        let (table, id) = (name, table.table.raw());
        output::print_json(
            &json!({ "table": id, "name": table, "tablets": tablets, "tablets_before": before }),
        )
    } else {
        output::print(&format!("table '{name}' ({}) has {tablets} tablets, it had {before}\n", table.table))
    }
}

/// A place among a table's hashes, as descriptions show it.
fn place(text: &str, slots: bool) -> Result<KeyHash, Failure> {
    if slots {
        let slot = text.parse().ok().filter(|slot| *slot < SLOT_COUNT);
        let wrong = || {
            Failure::usage(format!("--at {text}: this table is by slots, which are 0 to {}", SLOT_COUNT - 1))
        };
        return slot.map(first_hash_of).ok_or_else(wrong);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hash = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
    hash.map(KeyHash).ok_or_else(|| Failure::usage(format!("--at {text}: a hash has 16 hexadecimal digits")))
}

/// Why a table's tablets stay as they are.
fn undivided(name: &str, error: Error) -> Failure {
    if let Error::Refused { status: Status::NotAllowed, .. } = error {
        let text = "the tablets that would be joined there are not on one server";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    about(name, error)
}

/// Why a table could not be made.
fn refused(name: &str, error: Error) -> Failure {
    // This is the only reason for `NotAllowed` when a table is created.
    if let Error::Refused { status: Status::NotAllowed, .. } = error {
        let text = "this cluster gives tables no replicas by default; say how many with --replicas";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    if let Error::Refused { shortage: Some(shortage), .. } = error {
        let fewer = match shortage.up {
            0 => "give --replicas 0 to keep it in one server's memory alone".to_owned(),
            up => format!("give --replicas {up}"),
        };
        let text =
            format!("not made: {shortage}; {}, wait for it with --wait, or {fewer}", shortage.remedy());
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    about(name, error)
}

fn about(name: &str, error: Error) -> Failure {
    Failure::from(error).about(&format!("table '{name}'"))
}

impl Create {
    fn run(self, global: &Global) -> Result<(), Failure> {
        let wish = self.options.wish(self.tablets)?;
        let mut client = global.connect()?;
        let created = if self.wait {
            create_when_possible(&mut client, &self.name, &wish, global)
        } else {
            wish.create(&mut client, &self.name)
        };
        let table = if self.if_absent {
            or_existing(&mut client, &self.name, &wish, created)?
        } else {
            created.map_err(|error| refused(&self.name, error))?
        };
        // Only the cluster knows the options that were left open, and those of a table that exists already.
        let made = client.describe_table(&self.name).map_err(|error| about(&self.name, error))?.options;
        let durability = made.durability.name();
        if global.json {
            output::print_json(&json!({
                "table": table.raw(),
                "name": self.name,
                "durability": durability,
                "replicas": made.replicas,
                "slots": made.slots,
            }))
        } else {
            output::print(&format!(
                "table '{}' is {table}: {durability}, {} replicas{}\n",
                self.name,
                made.replicas,
                by_slots(&made)
            ))
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
    output::print(&tables_columns(&tables).text())
}

pub fn tables_columns(tables: &[TableSummary]) -> Columns {
    let mut columns = Columns::new(["table", "id", "durability", "replicas", "tablets", "slots", "losses"]);
    for table in tables {
        columns.row([
            output::bytes_for_eyes(table.name.as_bytes()),
            table.table.to_string(),
            table.options.durability.name().to_owned(),
            table.options.replicas.to_string(),
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
        "losses": table.losses,
    })
}

/// How many objects a table has, if that can be had at once.
fn count(client: &mut Client, table: &TableDescription) -> Option<u64> {
    if table.tablets.iter().any(|tablet| tablet.state != TabletState::Serving) {
        return None;
    }
    client.set_deadline(COUNT_PATIENCE);
    client.count(table.table).ok()
}

fn description_text(table: &TableDescription, objects: Option<u64>) -> String {
    let mut text = format!(
        "table '{}' ({}): {}, {} replicas, {} tablets, {} objects{}\n",
        output::bytes_for_eyes(table.name.as_bytes()),
        table.table,
        table.options.durability.name(),
        table.options.replicas,
        table.tablets.len(),
        objects.map_or_else(|| "unknown".to_owned(), |objects| objects.to_string()),
        by_slots(&table.options)
    );
    if table.migrating > 0 {
        text.insert_str(text.len() - 1, &migrating(table));
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

fn by_slots(options: &TableOptions) -> &'static str {
    if options.slots { ", by slots" } else { "" }
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
        "tablets_migrating": table.migrating,
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
        let options = OptionArguments { replicas, durability, slots: false }.wish(0).ok()?.options;
        Some((options.durability.name(), options.replicas))
    }

    fn left_open(replicas: Option<u8>, durability: Option<DurabilityArgument>) -> Option<LeftOpen> {
        OptionArguments { replicas, durability, slots: false }.wish(0).unwrap().left_open
    }

    #[test]
    fn what_is_not_said_is_the_clusters_to_decide() {
        // D2
        assert_eq!(left_open(None, None), Some(LeftOpen::Durability));
        assert_eq!(left_open(None, Some(DurabilityArgument::Buffered)), Some(LeftOpen::Replicas));
        assert_eq!(left_open(None, Some(DurabilityArgument::None)), None);
        assert_eq!(left_open(Some(2), None), None);
        assert_eq!(left_open(Some(2), Some(DurabilityArgument::Buffered)), None);
    }

    #[test]
    fn a_place_is_a_hash_or_a_slot() {
        // A8
        assert_eq!(place("8000000000000000", false).unwrap(), KeyHash(1 << 63));
        assert_eq!(place("0x00000000000000ff", false).unwrap(), KeyHash(255));
        assert_eq!(place("0", true).unwrap(), KeyHash(0));
        assert_eq!(slot_of_hash(place("16383", true).unwrap()), 16383);
        for (text, slots) in [("80", false), ("-", false), ("16384", true), ("a", true)] {
            assert!(place(text, slots).is_err(), "{text}");
        }
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
