//! `table split` and `table merge`: more or fewer tablets, on the same servers (A8).

use crate::connection::{about_table, table_failure};
use crate::failure::{Failure, REFUSED};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_base::KeyHash;
use ramhold_base::hash::{SLOT_COUNT, first_hash_of};
use ramhold_client::{Client, Error, Status, TableId};
use serde_json::json;

/// Cut a table's tablets into smaller ones.
///
/// The new tablets stay on their servers: no data is copied, and no client waits. Each tablet is recovered
/// and counted on its own. Without --at, each tablet is cut into parts with equally many bytes, as far as its
/// server knows where the bytes are. Tablets of tables below about 10 MB are cut into equal ranges of hashes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table split users
  ramhold table split users --parts 4
  ramhold table split users --at 8000000000000000
  ramhold table split sessions --at 8192")]
pub struct Split {
    /// Name of the table.
    name: String,
    /// Number of tablets that each tablet becomes.
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "at", value_parser = clap::value_parser!(u32).range(2..))]
    parts: u32,
    /// Begin a tablet here: at a hash as 'ramhold table describe' shows it, or at a slot if the table is by
    /// slots.
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
}

/// Join neighbouring tablets that are on one server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold table merge users
  ramhold table merge users --at 8000000000000000
  ramhold table merge sessions --at 8192")]
pub struct Merge {
    /// Name of the table.
    name: String,
    /// Join the two tablets that meet here: at a hash as 'ramhold table describe' shows it, or at a slot if
    /// the table is by slots [default: join everywhere]
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
}

impl Split {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        divide(global, &self.name, self.at, |client, table, at| match at {
            None => client.split_table(table, self.parts),
            Some(at) => client.split_table_at(table, at),
        })
    }
}

impl Merge {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        divide(global, &self.name, self.at, |client, table, at| match at {
            None => client.merge_table(table),
            Some(at) => client.merge_table_at(table, at),
        })
    }
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
    if table.options.quorum.is_some() {
        return Err(super::quorum::is_held_by_bricks(name));
    }
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
            Failure::usage(format!(
                "--at {text}: this table is by slots; give a slot from 0 to {}",
                SLOT_COUNT - 1
            ))
        };
        return slot.map(first_hash_of).ok_or_else(wrong);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let hash = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
    hash.map(KeyHash).ok_or_else(|| {
        Failure::usage(format!(
            "--at {text}: give a hash of 16 hexadecimal digits, as 'ramhold table describe' shows it"
        ))
    })
}

/// Why a table's tablets stay as they are.
fn undivided(name: &str, error: Error) -> Failure {
    if let Error::Refused { status: Status::NotAllowed, .. } = error {
        let text =
            "the tablets that meet there are on different servers; 'ramhold table describe' shows the owners";
        return Failure::new(REFUSED, text).about(&format!("table '{name}'"));
    }
    table_failure(name, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::hash::slot_of_hash;

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
}
