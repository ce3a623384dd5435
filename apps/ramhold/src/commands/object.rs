//! `put`, `get`, `incr` and `del`: one object, binary-safe (A3, A4, A7), for ever or with a time to live
//! (A12).

use crate::failure::{self, Failure};
use crate::global::{Global, Near};
use crate::output;
use crate::screen::Screen;
use crate::size::parse_lifetime;
use clap::Args;
use ramhold_base::limits::VALUE_BYTES_MAX;
use ramhold_client::{ClusterTime, Error, Expiry, Number, PutOptions, RejectRules, Status, Version};
use serde_json::json;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, SystemTime};

/// Write one object.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold put users alice 'some value'
  ramhold put images logo.png - < logo.png
  ramhold put users alice new --if-version 12
  ramhold put locks daily \"$HOSTNAME\" --if-absent --ttl 24h
  ramhold put sessions 7f3a 'alice' --ttl 30m
  ramhold put offers spring '10 %' --expires-at $(date -d 2031-06-01 +%s000)

An object with --ttl or --expires-at expires: from then on it is absent, as if
it had been removed. A put without these options writes an object that does not
expire, even if the object before it had a time to live.")]
pub struct Put {
    /// Name of the table.
    table: String,
    /// Key, taken byte for byte; at most 65535 bytes.
    key: OsString,
    /// Value, taken byte for byte; at most 1 MiB. '-' reads the value from stdin.
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    /// Write only if the object has this version; 0: only if the object does not exist.
    #[arg(long, value_name = "N", conflicts_with = "if_absent")]
    if_version: Option<u64>,
    /// Write only if the object does not exist.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    lifetime: Lifetime,
}

/// When what is written ends by itself.
#[derive(Args, Clone, Copy, Debug)]
pub struct Lifetime {
    /// Time to live, counted from the write: 500ms, 30s, 5m, 24h, 7d; at most 36525d.
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    ttl: Option<Duration>,
    /// Cluster time at which the object expires, in milliseconds since 1970. A time in the past expires the
    /// object at once.
    #[arg(long, value_name = "MILLIS", conflicts_with = "ttl", value_parser = clap::value_parser!(u64).range(1..))]
    expires_at: Option<u64>,
}

impl Lifetime {
    pub fn expiry(self) -> Option<Expiry> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).expect("parsed from milliseconds");
        let after = self.ttl.map(|time| Expiry::After { millis: millis(time) });
        after.or(self.expires_at.map(|end| Expiry::At(ClusterTime(end))))
    }
}

/// Read one object and write its raw bytes to stdout.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold get users alice
  ramhold get images logo.png > logo.png
  ramhold get users alice --json
      with version, time of writing and time of expiry
  ramhold get carts alice --stale
      from a single brick of a quorum table; the value may be old
  ramhold get carts alice --zone a
      the value from a brick in zone a

With --json, 'time' is the time of writing in seconds since 1970. 'expires' is
the time of expiry in milliseconds since 1970, and 'remaining_ms' is the time
until then by the clock of this machine. Both are null if the object does not
expire.

On a terminal, a value that does not end with a line feed gets one. A file or a
pipe gets exactly the bytes of the value.

With --stale a single brick of a quorum table is asked, and the time at which
the value was written goes to stderr. The value may have been overwritten
since, and a later read may find an older one. It is read even where too few
bricks are up for a quorum. Other tables refuse --stale.

Exit code 1: the object does not exist, or has another version.")]
pub struct Get {
    /// Name of the table.
    table: String,
    /// Key, taken byte for byte.
    key: OsString,
    /// Read only if the object has this version.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Read what a single brick of a quorum table has, although it may be old.
    #[arg(long, conflicts_with = "if_version")]
    stale: bool,
    #[command(flatten)]
    near: Near,
}

/// Remove one object.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold del users alice
  ramhold del users alice --if-version 12

Exit code 1: the object does not exist, or has another version. A quorum table
takes a removal without a look at what is there: the exit code is 0 also if the
object does not exist.")]
pub struct Delete {
    /// Name of the table.
    table: String,
    /// Key, taken byte for byte.
    key: OsString,
    /// Remove only if the object has this version.
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

/// Add to the number that an object holds, and print the sum.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold incr stats visits
  ramhold incr stats visits --by -5
  ramhold incr stats load --by 0.25 --float
  ramhold incr stats visits --if-version 12 --json
      with the new version

The value is a number as decimal text. An object that does not exist counts as
0. An object that expires keeps its time of expiry. The addition takes effect
once, however often the request has to be sent.

Exit code 1: the value is not such a number, the sum is out of range (integers
have 64 bits, floats are finite), or the object has another version.")]
pub struct Increment {
    /// Name of the table.
    table: String,
    /// Key, taken byte for byte.
    key: OsString,
    /// Number to add: an integer, or a float with --float.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    by: String,
    /// Use 64-bit floats for the value and the number to add.
    #[arg(long)]
    float: bool,
    /// Add only if the object has this version; 0: only if the object does not exist.
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
            status: status @ (Status::WrongVersion | Status::Exists | Status::NotANumber | Status::OutOfRange),
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
        let options = PutOptions { rules, expiry: self.lifetime.expiry() };
        let version = client.put_with(table, self.key.as_bytes(), &value, options);
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
    // One byte more than allowed is enough to detect a value that is too large, without reading all of it.
    let read = std::io::stdin().lock().take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::usage(format!("cannot read the value from stdin: {error}")))?;
    Ok(value)
}

impl Get {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (mut client, table) = global.from(self.near.zone.as_deref()).connect_to_table(&self.table)?;
        let object = match self.stale {
            true => client.get_stale(table, self.key.as_bytes()),
            false => client.get_if(table, self.key.as_bytes(), only_if_version(self.if_version)),
        };
        let object = object.map_err(|error| about_key(&self.key, error))?;
        if self.stale && !global.json {
            output::tell(&stale_note(&self.key, object.version));
        }
        if !global.json {
            output::write(&object.value)?;
            let needs_end = Screen::of_stdout().is_terminal && !object.value.ends_with(b"\n");
            // The line feed puts the shell's prompt on a line of its own.
            return if needs_end { output::write(b"\n") } else { Ok(()) };
        }
        let mut fields = serde_json::Map::new();
        output::insert_bytes(&mut fields, "key", self.key.as_bytes());
        fields.insert("version".to_owned(), object.version.raw().into());
        fields.insert("time".to_owned(), object.time.into());
        let end = object.expires.map(|end| end.0);
        fields.insert("expires".to_owned(), end.into());
        fields.insert("remaining_ms".to_owned(), end.map(|end| end.saturating_sub(unix_millis())).into());
        output::insert_bytes(&mut fields, "value", &object.value);
        output::print_json(&fields.into())
    }
}

/// When a value that may be old was written. The version of an object of a quorum table is the time of its write.
fn stale_note(key: &OsString, version: Version) -> String {
    let (seconds, micros) = (version.raw() / 1_000_000, version.raw() % 1_000_000);
    let key = output::bytes_for_eyes(key.as_bytes());
    let age = unix_millis().saturating_sub(version.raw() / 1000);
    let (whole, tenths) = (age / 1000, age % 1000 / 100);
    format!(
        "'{key}': one brick was asked; its value was written at {seconds}.{micros:06} (seconds since 1970), {whole}.{tenths} s ago, and may be overwritten since"
    )
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Increment {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let kind = if self.float { Number::Float(0.0) } else { Number::Integer(0) };
        let by = kind.parse_alike(self.by.as_bytes()).map_err(|_| {
            let kind = if self.float {
                "a finite float"
            } else {
                "an integer of 64 bits; for a float, give --float"
            };
            Failure::usage(format!("--by {}: not {kind}", output::bytes_for_eyes(self.by.as_bytes())))
        })?;
        let (mut client, table) = global.connect_to_table(&self.table)?;
        let rules = only_if_version(self.if_version);
        let sum = client.increment_if(table, self.key.as_bytes(), by, rules);
        let (sum, version) = sum.map_err(|error| about_key(&self.key, error))?;
        if !global.json {
            return output::print(&format!("{sum}\n"));
        }
        let number = match sum {
            Number::Integer(integer) => json!(integer),
            Number::Float(float) => json!(float),
        };
        output::print_json(&json!({ "version": version.raw(), "sum": number }))
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
