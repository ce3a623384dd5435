//! Objects from Redis's files on disk: a dump file, or append-only files.
//!
//! A file is read completely before anything is written. A dump file is read twice, so that a damaged one
//! writes nothing. Append-only files are read into memory, since their contents are known only at their end.
//! Database n becomes the table `db<n>`.

use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_rdb::aof::{Commands, Next, read_manifest};
use ramhold_rdb::{File, Held, Item, Keyspace, Kind, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Longer than any manifest with the files that Redis keeps.
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
const HEAD: &[u8] = b"REDIS";

/// Everything that is left out, by reason.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Values of other types.
    pub types: BTreeMap<Kind, u64>,
    pub expired: u64,
    /// Keys beyond 65535 bytes and values beyond 1 MiB.
    pub too_long: u64,
    pub functions: u64,
    pub module_data: u64,
    /// Commands that are not known, by name.
    pub commands: BTreeMap<String, u64>,
    /// Keys that such a command changed.
    pub dropped: u64,
    /// Commands that cannot be carried out.
    pub refused: u64,
    /// Files that end within a command, and commands of transactions without an end.
    pub cut_off: Vec<String>,
}

impl LeftOut {
    /// Whether something is not there that was in Redis; what is over was not.
    pub fn is_something(&self) -> bool {
        !self.parts().is_empty()
    }

    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> =
            self.types.iter().map(|(kind, count)| format!("{count} of type {kind}")).collect();
        parts.extend(self.commands.iter().map(|(name, count)| format!("{count} commands {name}")));
        let counted = [
            (self.too_long, "too long"),
            (self.dropped, "keys that such a command changed"),
            (self.refused, "commands that cannot be carried out"),
            (self.functions, "function libraries"),
            (self.module_data, "records of modules"),
            (self.cut_off.len() as u64, "cut off at the end"),
        ];
        parts.extend(
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
        );
        parts
    }

    pub fn text(&self) -> String {
        let parts = self.parts();
        let left_out = if parts.is_empty() {
            "nothing left out".to_owned()
        } else {
            format!("left out: {}", parts.join(", "))
        };
        format!("{left_out}; {} had expired", self.expired)
    }

    pub fn json(&self) -> serde_json::Value {
        let types: BTreeMap<String, u64> =
            self.types.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        serde_json::json!({
            "types": types,
            "commands": self.commands,
            "expired": self.expired,
            "too_long": self.too_long,
            "dropped": self.dropped,
            "refused": self.refused,
            "functions": self.functions,
            "module_data": self.module_data,
            "cut_off": self.cut_off,
        })
    }
}

/// Tells every string of a dump file with its database, and what is left out. An error names the file.
pub fn read_rdb(
    path: &Path,
    left_out: &mut LeftOut,
    take: &mut dyn FnMut(u32, Vec<u8>, Held) -> Result<(), String>,
) -> Result<(), String> {
    let mut input = open(path)?;
    read_rdb_from(&mut input, left_out, take).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads up to the end of the dump, which may be within a file, and the checksum.
fn read_rdb_from(
    input: &mut impl BufRead,
    left_out: &mut LeftOut,
    take: &mut dyn FnMut(u32, Vec<u8>, Held) -> Result<(), String>,
) -> Result<(), String> {
    let mut file =
        File::open(input, KEY_BYTES_MAX as u64, VALUE_BYTES_MAX as u64).map_err(|error| error.to_string())?;
    let mut database = 0;
    while let Some(item) = file.next_item().map_err(|error| error.to_string())? {
        match item {
            Item::Database { number } => database = number,
            Item::Object { key, expires_at, value: Value::String(value), .. } => {
                take(database, key, Held { value, expires_at })?;
            }
            Item::Object { value: Value::TooLong { .. }, .. } | Item::KeyTooLong { .. } => {
                left_out.too_long += 1
            }
            Item::Object { kind, value: Value::Other, .. } => *left_out.types.entry(kind).or_default() += 1,
            Item::Function => left_out.functions += 1,
            Item::ModuleAux => left_out.module_data += 1,
            Item::Aux { .. } | Item::Size { .. } | Item::End { .. } => {}
        }
    }
    Ok(())
}

/// The result of append-only files: a file, with or without a dump at its beginning; a manifest; or a folder with one.
pub fn read_aof(
    path: &Path,
    now_millis: u64,
    left_out: &mut LeftOut,
) -> Result<BTreeMap<u32, BTreeMap<Vec<u8>, Held>>, String> {
    let mut keyspace = Keyspace::new(now_millis, KEY_BYTES_MAX, VALUE_BYTES_MAX);
    let files = files_of(path)?;
    for (number, file) in files.iter().enumerate() {
        let end = read_part(file, &mut keyspace, left_out)?;
        if let Some(offset) = end {
            // Redis writes only to the last file, so every earlier file was once complete.
            if number + 1 < files.len() {
                return Err(format!(
                    "{} ends within the command at byte {offset}, and is not the last",
                    file.display()
                ));
            }
            left_out.cut_off.push(format!("{} ends within the command at byte {offset}", file.display()));
        }
    }
    let (databases, tally) = keyspace.finish();
    left_out.commands = tally.unknown;
    left_out.dropped += tally.dropped;
    left_out.too_long += tally.too_long;
    left_out.refused += tally.refused;
    if tally.unfinished > 0 {
        left_out.cut_off.push(format!("a transaction of {} commands has no EXEC", tally.unfinished));
    }
    Ok(databases)
}

/// Reads one file; the offset of the command within which it ends.
fn read_part(path: &Path, keyspace: &mut Keyspace, left_out: &mut LeftOut) -> Result<Option<u64>, String> {
    let mut input = open(path)?;
    let failed = |error: String| format!("{}: {error}", path.display());
    let head = input.fill_buf().map_err(|error| failed(error.to_string()))?;
    if head.starts_with(HEAD) {
        read_rdb_from(&mut input, left_out, &mut |database, key, held| {
            keyspace.insert(database, key, held);
            Ok(())
        })
        .map_err(failed)?;
    }
    let mut commands = Commands::new(input, VALUE_BYTES_MAX as u64);
    loop {
        match commands.next_command().map_err(|error| failed(error.to_string()))? {
            Next::Command { words, .. } => keyspace.apply(words),
            Next::End => return Ok(None),
            Next::CutOff { offset } => return Ok(Some(offset)),
        }
    }
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let is_manifest = |path: &Path| path.extension().is_some_and(|extension| extension == "manifest");
    let manifest = if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| failed(path, &error))?;
        let mut found: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| is_manifest(path)).collect();
        match (found.pop(), found.len()) {
            (Some(manifest), 0) => manifest,
            (None, _) => return Err(failed(path, &"there is no manifest in this folder")),
            (Some(_), _) => {
                return Err(failed(path, &"there are several manifests in this folder; name one of them"));
            }
        }
    } else if is_manifest(path) {
        path.to_owned()
    } else {
        return Ok(vec![path.to_owned()]);
    };
    if fs::metadata(&manifest).map_err(|error| failed(&manifest, &error))?.len() > MANIFEST_BYTES_MAX {
        return Err(failed(&manifest, &"the file is too long for a manifest"));
    }
    let text = fs::read_to_string(&manifest).map_err(|error| failed(&manifest, &error))?;
    let parts = read_manifest(&text).map_err(|error| failed(&manifest, &error))?;
    let folder = manifest.parent().unwrap_or(Path::new("."));
    Ok(parts.into_iter().map(|part| folder.join(part.name)).collect())
}

fn open(path: &Path) -> Result<BufReader<fs::File>, String> {
    let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufReader::with_capacity(1024 * 1024, file))
}
