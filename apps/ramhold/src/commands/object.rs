//! `put`, `get` and `del`: one object, binary-safe (A3, A4).

use crate::cli::Global;
use crate::failure::{self, Failure};
use crate::output;
use clap::Args;
use ramhold_base::limits::VALUE_BYTES_MAX;
use ramhold_client::{Error, RejectRules, Status, Version};
use serde_json::json;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Write one object.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold put users alice 'some value'
  ramhold put images logo.png - < logo.png
  ramhold put users alice new --if-version 12
  ramhold put locks daily \"$HOSTNAME\" --if-absent")]
pub struct Put {
    table: String,
    /// Its bytes as they are, at most 65535.
    key: OsString,
    /// Its bytes as they are, at most 1 MiB; '-' reads them from stdin.
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    /// Only if the object exists with this version (0: only if there is none).
    #[arg(long, value_name = "N", conflicts_with = "if_absent")]
    if_version: Option<u64>,
    /// Only if there is no object with this key.
    #[arg(long)]
    if_absent: bool,
}

/// Read one object and write its raw bytes to stdout.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold get users alice
  ramhold get images logo.png > logo.png
  ramhold get users alice --json        (with version and time)
Exit code 1 when there is no such object.")]
pub struct Get {
    table: String,
    key: OsString,
    /// Only if the object has this version.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

/// Remove one object.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold del users alice
  ramhold del users alice --if-version 12
Exit code 1 when there is no such object.")]
pub struct Delete {
    table: String,
    key: OsString,
    /// Only if the object has this version.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

/// The rules for "only if it exists with this version"; version 0 means that it does not exist.
fn only_if_version(version: Option<u64>) -> RejectRules {
    match version {
        None => RejectRules::default(),
        Some(0) => RejectRules { exists: true, ..RejectRules::default() },
        Some(version) => {
            RejectRules { absent: true, version_other_than: Some(Version(version)), ..RejectRules::default() }
        }
    }
}

/// A refusal of one object's operation, in words that name the object.
fn about_key(key: &OsString, error: Error) -> Failure {
    let key = output::bytes_for_eyes(key.as_bytes());
    match &error {
        Error::Refused { status: Status::NotFound, .. } => {
            Failure::new(failure::NOT_FOUND, format!("'{key}': {}", Status::NotFound))
        }
        Error::Refused {
            status: status @ (Status::WrongVersion | Status::Exists),
            version: Some(version),
            ..
        } => {
            let version = version.raw();
            Failure::new(failure::NOT_FOUND, format!("'{key}': {status}; it has version {version}"))
        }
        _ => Failure::from(error).about(&format!("'{key}'")),
    }
}

impl Put {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let value = if self.value == "-" { read_stdin()? } else { self.value.into_vec() };
        let mut rules = only_if_version(self.if_version);
        rules.exists |= self.if_absent;
        let (mut client, table) = global.connect_to_table(&self.table)?;
        let version = client.put_if(table, self.key.as_bytes(), &value, rules);
        let version = version.map_err(|error| about_key(&self.key, error))?.raw();
        if global.json {
            output::print_json(&json!({ "version": version }))
        } else {
            output::print(&format!("version {version}\n"))
        }
    }
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more than allowed tells a value that is too large, without reading all of it.
    let read = std::io::stdin().lock().take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::usage(format!("cannot read the value from stdin: {error}")))?;
    Ok(value)
}

impl Get {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (mut client, table) = global.connect_to_table(&self.table)?;
        let object = client.get_if(table, self.key.as_bytes(), only_if_version(self.if_version));
        let object = object.map_err(|error| about_key(&self.key, error))?;
        if !global.json {
            return output::write(&object.value);
        }
        let mut fields = serde_json::Map::new();
        output::insert_bytes(&mut fields, "key", self.key.as_bytes());
        fields.insert("version".to_owned(), object.version.raw().into());
        fields.insert("time".to_owned(), object.time.into());
        output::insert_bytes(&mut fields, "value", &object.value);
        output::print_json(&fields.into())
    }
}

impl Delete {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (mut client, table) = global.connect_to_table(&self.table)?;
        let removed = client.delete_if(table, self.key.as_bytes(), only_if_version(self.if_version));
        let Some(version) = removed.map_err(|error| about_key(&self.key, error))? else {
            let key = output::bytes_for_eyes(self.key.as_bytes());
            return Err(Failure::new(failure::NOT_FOUND, format!("'{key}': {}", Status::NotFound)));
        };
        if global.json {
            output::print_json(&json!({ "version": version.raw() }))
        } else {
            output::print(&format!("removed, version {}\n", version.raw()))
        }
    }
}
