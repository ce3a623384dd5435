//! `scan` and `export`: all objects of a table, for people and for programs (A6).

use crate::connection::table_failure;
use crate::failure::Failure;
use crate::global::{Global, Near};
use crate::output;
use crate::progress::Progress;
use crate::screen::{Screen, WIDTH, cut};
use crate::size::bytes_text;
use clap::Args;
use ramhold_client::{Client, PageLimits, ScanCursor, ScannedObject, TableId};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of a key that are shown to a person.
const KEY_WIDTH_MIN: usize = 8;
const KEY_WIDTH_MAX: usize = 36;

/// Show the objects of a table.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold scan users
  ramhold scan users --keys --prefix session/
  ramhold scan users --prefix \"$(printf 'a\\377')\"
  ramhold scan users --prefix-base64 AP8=
      the bytes 0 and 255, which cannot be typed
  ramhold scan users --limit 1000 --json
      one object per line; the last line has the cursor
  ramhold scan users --limit 1000 --cursor $CURSOR

On a terminal each object is one line of 80 columns: key, size, and the
beginning of the value. A file or a pipe gets whole keys and values as text,
with a tab between them.

Objects come in no particular order. An object that exists during the whole scan
is shown once, even if servers fail or tablets move. An object that is written
or removed during the scan is shown once or not at all. A cursor is valid as
long as the table exists, whichever servers own the objects by then.")]
pub struct Scan {
    /// Name of the table.
    table: String,
    /// Stop after this many objects and print the cursor to continue with, on stderr or in the last line of
    /// JSON.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Continue an earlier scan at this cursor.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<ScanCursor>,
    /// Show only keys that begin with these bytes; the scan still reads all objects.
    #[arg(long, value_name = "BYTES")]
    prefix: Option<OsString>,
    /// The same prefix as base64, for bytes that cannot be typed.
    #[arg(long, value_name = "BASE64", conflicts_with = "prefix", value_parser = parse_base64)]
    prefix_base64: Option<Bytes>,
    /// Show keys without values.
    #[arg(long)]
    keys: bool,
    /// Continue past objects that were lost (tables without replicas), instead of ending with an error.
    #[arg(long)]
    pass_lost: bool,
    #[command(flatten)]
    near: Near,
}

/// Write all objects of a table as lines of JSON.
///
/// 'ramhold import --jsonl' reads these lines.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold export users > users.jsonl
  ramhold export users --out users.jsonl \\
      && ramhold import copy --jsonl users.jsonl

An object that exists during the whole export is written once. Versions and
times of expiry are not written.")]
pub struct Export {
    /// Name of the table.
    table: String,
    /// File to create; it must not exist [default: '-', which is stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Continue past objects that were lost (tables without replicas), instead of ending with an error.
    #[arg(long)]
    pass_lost: bool,
}

/// The bytes that a base64 text stands for.
#[derive(Clone, Debug)]
struct Bytes(Vec<u8>);

fn parse_base64(text: &str) -> Result<Bytes, String> {
    let decoded = crate::base64::decode(text).map(Bytes);
    decoded.ok_or_else(|| {
        format!("'{text}' is not base64 with padding, like AP8=; 'printf BYTES | base64' prints it")
    })
}

impl Scan {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (mut client, table) = global.from(self.near.zone.as_deref()).connect_to_table(&self.table)?;
        let begin = self.cursor.clone().unwrap_or_else(|| ScanCursor::new(table));
        if begin.table() != table {
            let (theirs, table) = (begin.table(), &self.table);
            return Err(Failure::usage(format!(
                "the cursor belongs to table {theirs}, not to '{table}'; give the table of the earlier scan, or leave out --cursor"
            )));
        }
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut next = Some(begin);
        let is_for_eyes = Screen::of_stdout().is_terminal && !global.json;
        while let Some(cursor) = next.as_ref().filter(|_| left > 0) {
            let count = u32::try_from(left).unwrap_or(u32::MAX);
            let limits = PageLimits {
                count,
                keys_only: self.keys,
                pass_lost: self.pass_lost,
                ..PageLimits::default()
            };
            let page = client.scan_page(cursor, limits).map_err(|error| table_failure(&self.table, error))?;
            let mut text = String::new();
            let wanted: Vec<&ScannedObject> =
                page.objects.iter().filter(|object| self.is_wanted(object)).collect();
            let keys = wanted.iter().map(|object| object.key.len()).max().unwrap_or_default();
            for object in wanted {
                match is_for_eyes {
                    true => text.push_str(&self.glance(object, keys)),
                    false => self.line(global, object, &mut text),
                }
                left -= 1;
            }
            output::print(&text)?;
            next = page.next;
        }
        if global.json {
            let cursor = next.map(|cursor| cursor.to_string());
            output::print_json(&serde_json::json!({ "cursor": cursor }))?;
        } else if let Some(cursor) = next {
            crate::output::tell(&format!(
                "ramhold: there may be more objects; continue with --cursor {cursor}"
            ));
        }
        Ok(())
    }

    fn is_wanted(&self, object: &ScannedObject) -> bool {
        let typed = self.prefix.as_ref().map(|prefix| prefix.as_bytes());
        let prefix = typed.or(self.prefix_base64.as_ref().map(|prefix| prefix.0.as_slice()));
        prefix.is_none_or(|prefix| object.key.starts_with(prefix))
    }

    /// One line of 80 columns: the key, how many bytes the value has, and its beginning. `keys`: of how many bytes the
    /// longest key is.
    fn glance(&self, object: &ScannedObject, keys: usize) -> String {
        let key = output::bytes_for_eyes(&object.key);
        if self.keys {
            return cut(&key, WIDTH) + "\n";
        }
        let width = keys.clamp(KEY_WIDTH_MIN, KEY_WIDTH_MAX);
        let size = bytes_text(object.value.len() as u64);
        let begin = object.value.get(..WIDTH).unwrap_or(&object.value);
        let value = output::bytes_for_eyes(begin);
        let more = if begin.len() < object.value.len() { "…" } else { "" };
        let line = format!("{:<width$}  {size:>9}  {value}{more}", cut(&key, width));
        cut(&line, WIDTH) + "\n"
    }

    fn line(&self, global: &Global, object: &ScannedObject, text: &mut String) {
        if global.json {
            let mut fields = serde_json::Map::new();
            output::insert_bytes(&mut fields, "key", &object.key);
            fields.insert("version".to_owned(), object.version.raw().into());
            fields.insert("time".to_owned(), object.time.into());
            fields.insert("expires".to_owned(), object.expires.map(|end| end.0).into());
            if !self.keys {
                output::insert_bytes(&mut fields, "value", &object.value);
            }
            text.push_str(&serde_json::Value::from(fields).to_string());
        } else {
            text.push_str(&output::bytes_for_eyes(&object.key));
            if !self.keys {
                text.push('\t');
                text.push_str(&output::bytes_for_eyes(&object.value));
            }
        }
        text.push('\n');
    }
}

impl Export {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (mut client, table) = global.connect_to_table(&self.table)?;
        let Some(path) = self.out.as_deref().filter(|path| *path != Path::new("-")) else {
            let mut out = BufWriter::new(std::io::stdout().lock());
            return self.write(
                &mut client,
                table,
                global,
                (&mut out, &<Failure as From<std::io::Error>>::from),
            );
        };
        let failed = |error: std::io::Error| Failure::local(path, &error);
        let mut out = BufWriter::new(File::create_new(path).map_err(failed)?);
        let written = self.write(&mut client, table, global, (&mut out, &failed));
        if written.is_err() {
            // A part of a table looks like a whole one, and the next try needs the name.
            std::fs::remove_file(path).map_err(failed)?;
        }
        written
    }

    fn write(
        &self,
        client: &mut Client,
        table: TableId,
        global: &Global,
        (out, failed): (&mut dyn Write, &dyn Fn(std::io::Error) -> Failure),
    ) -> Result<(), Failure> {
        let limits = PageLimits { pass_lost: self.pass_lost, ..PageLimits::default() };
        let mut progress = Progress::new("exported", global.json);
        let (mut objects, mut bytes) = (0, 0);
        for object in client.scan_from(ScanCursor::new(table), limits) {
            let object = object.map_err(|error| table_failure(&self.table, error))?;
            let mut fields = serde_json::Map::new();
            output::insert_bytes(&mut fields, "key", &object.key);
            output::insert_bytes(&mut fields, "value", &object.value);
            writeln!(out, "{}", serde_json::Value::from(fields)).map_err(failed)?;
            objects += 1;
            bytes += object.value.len() as u64;
            progress.show(objects, bytes);
        }
        out.flush().map_err(failed)?;
        progress.finish();
        crate::output::tell(&format!("exported {objects} objects, {bytes} bytes"));
        Ok(())
    }
}

/// Shows `each` the key of every object of a table; objects that were lost are passed over.
pub fn each_key(client: &mut Client, table: TableId, mut each: impl FnMut(Vec<u8>)) -> Result<(), Failure> {
    let limits = PageLimits { keys_only: true, pass_lost: true, ..PageLimits::default() };
    for object in client.scan_from(ScanCursor::new(table), limits) {
        each(object?.key);
    }
    Ok(())
}
