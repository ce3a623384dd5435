//! `import`: many objects from files, from lines of JSON, or from Redis's files on disk; pipelined.
//!
//! No error aborts the import: input that cannot be read or written is reported by name and counted.

mod jsonl;
mod redis;

use crate::commands::object::Lifetime;
use crate::failure::{self, Failure};
use crate::global::Global;
use crate::output;
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::size::{bytes_text, parse_bytes};
use crate::walk::{Found, Skip, SkipCounts, Walk, read_object};
use clap::Args;
use ramhold_client::{
    Client, ClusterTime, Durability, Error, Expiry, LeftOpen, Operation, Outcome, RejectRules, Status,
    TableId, TableOptions,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Write many objects: from files, JSON, or Redis's files.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold import docs --dir /usr/share/doc
  ramhold import docs --dir . --limit-files 1000 --limit-bytes 100MiB
  ramhold import users --jsonl users.jsonl
  zcat dump.jsonl.gz | ramhold import users --jsonl -
  ramhold import cache --dir rendered --ttl 1h
  ramhold import --rdb /var/lib/redis/dump.rdb
  ramhold import --aof /var/lib/redis/appendonlydir

--dir: each regular file of at most 1 MiB becomes an object. Its key is the
file's path below DIR, byte for byte. Symbolic links, special files, unreadable
files and larger files are skipped. The summary counts the skipped files of each
kind and names the first ones.

--jsonl: one object per line, in any mix of these forms:
  {\"key\": \"alice\", \"value\": \"some text\"}
  {\"key_base64\": \"//4=\", \"value_base64\": \"AAEC\"}
All other lines are reported with their numbers.

--rdb: a dump file of Redis, up to version 12 of its format (Redis 7.4).

--aof: an append-only file, with or without a dump at its beginning; the
manifest of several such files; or the folder with the manifest. The commands
are carried out in memory first, and only the result is written.

--rdb and --aof: database n becomes the table db<n>, which Redis clients use as
database n. A missing table is created. Strings keep their time to live. Values
of other types are left out and counted by type. A damaged file is refused
before anything is written. An append-only file that is cut off at its end is
imported up to there, with a warning; --strict refuses it.

Objects that exist already are overwritten. A write with unknown outcome is
repeated, because it writes the same bytes again; with --ttl, the time to live
then starts again, too.

Exit code 3: some object could not be written, or something in Redis's files was
left out.")]
pub struct Import {
    /// Name of the table; not with --rdb and --aof.
    #[arg(required_unless_present_any = ["rdb", "aof"])]
    table: Option<String>,
    /// Import the files below this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "jsonl")]
    dir: Option<PathBuf>,
    /// Name every skipped file on stderr, not only the first ones in the summary.
    #[arg(long, requires = "dir")]
    list_skipped: bool,
    /// Import the lines of this file; '-' reads stdin.
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Import the strings of a Redis dump file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table", "dir", "jsonl", "ttl", "expires_at"])]
    rdb: Option<PathBuf>,
    /// Import the strings of a Redis append-only file, of its manifest, or of the folder with the manifest.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table", "dir", "jsonl", "rdb", "ttl", "expires_at"])]
    aof: Option<PathBuf>,
    /// Refuse an append-only file that is cut off at its end.
    #[arg(long, requires = "aof")]
    strict: bool,
    #[command(flatten)]
    lifetime: Lifetime,
    #[command(flatten)]
    limits: Limits,
}

/// Where to stop.
#[derive(Args, Clone, Copy, Debug)]
pub struct Limits {
    /// Stop after this many objects.
    #[arg(long, value_name = "N")]
    pub limit_files: Option<u64>,
    /// Stop before the object that would exceed this total size.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub limit_bytes: Option<u64>,
}

impl Limits {
    /// Whether one more object of `bytes` is within the limits after `files` with `so_far` bytes.
    pub fn allow(self, files: u64, so_far: u64, bytes: u64) -> bool {
        self.limit_files.is_none_or(|most| files < most)
            && self.limit_bytes.is_none_or(|most| so_far.saturating_add(bytes) <= most)
    }
}

/// Writes under way at once, and the bytes that they hold.
pub const PIPELINE_COUNT: usize = 64;
pub const PIPELINE_BYTES: u64 = 8 * 1024 * 1024;
/// A write whose effect is unknown is repeated this often, and more often while its time is not over: one connection
/// that breaks makes all that are under way on it unknown, some of them again and again.
const TRY_COUNT: u32 = 3;

/// A write under way: kept whole, so that it can be repeated.
struct Item {
    /// The path, or the number of the line.
    name: String,
    table: TableId,
    key: Vec<u8>,
    value: Vec<u8>,
    expiry: Option<Expiry>,
    tries: u32,
    began: Instant,
}

/// Where objects go, and for how long.
#[derive(Clone, Copy)]
struct Target {
    table: TableId,
    expiry: Option<Expiry>,
}

impl Target {
    fn item(self, name: String, key: Vec<u8>, value: Vec<u8>) -> Item {
        Item { name, table: self.table, key, value, expiry: self.expiry, tries: 0, began: Instant::now() }
    }
}

/// One run of an import.
struct Run {
    timeout: Duration,
    pipeline: Pipeline<Item>,
    progress: Progress,
    submitted: u64,
    submitted_bytes: u64,
    written: u64,
    written_bytes: u64,
    failed: u64,
    skipped: SkipCounts,
    lists_skipped: bool,
    bad_lines: u64,
    /// Everything that was left out of Redis's files.
    left_out: Option<redis::LeftOut>,
}

impl Import {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if self.rdb.is_some() || self.aof.is_some() {
            return self.run_redis(global);
        }
        if self.dir.is_none() && self.jsonl.is_none() {
            let text = "nothing to import is named; give --dir DIR or --jsonl FILE, or without a table --rdb FILE or --aof FILE";
            return Err(Failure::usage(text));
        }
        // Errors on this side are reported before the cluster is contacted.
        let walk = match &self.dir {
            Some(dir) => Some(Walk::new(dir).map_err(|error| Failure::local(dir, &error))?),
            None => None,
        };
        let lines = match &self.jsonl {
            Some(path) => Some(jsonl::open(path).map_err(|error| Failure::local(path, &error))?),
            None => None,
        };
        let (client, table) = global.connect_to_table(self.table.as_deref().unwrap_or_default())?;
        let target = Target { table, expiry: self.lifetime.expiry() };
        let mut run = Run::new(client, global);
        run.lists_skipped = self.list_skipped;
        if let Some(walk) = walk {
            run.files(target, walk, self.limits);
        }
        let mut end = Ok(());
        if let (Some(lines), Some(path)) = (lines, &self.jsonl) {
            end = run.lines(target, lines, path, self.limits);
        }
        run.finish(global)?;
        end
    }

    fn run_redis(self, global: &Global) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        let mut left_out = redis::LeftOut::default();
        let mut databases = BTreeMap::new();
        match (&self.rdb, &self.aof) {
            (Some(path), _) => {
                redis::read_rdb(path, &mut left_out, &mut |_, _, _| Ok(())).map_err(Failure::usage)?
            }
            (None, Some(path)) => {
                databases = redis::read_aof(path, now, &mut left_out).map_err(Failure::usage)?;
            }
            (None, None) => {}
        }
        if let (true, Some(what)) = (self.strict, left_out.cut_off.first()) {
            return Err(Failure::usage(format!(
                "{what}; leave out --strict to import everything before that"
            )));
        }
        let mut tables = Tables { client: global.connect()?, known: BTreeMap::new() };
        let mut run = Run::new(global.connect()?, global);
        for what in &left_out.cut_off {
            run.progress.tell(&format!("ramhold: {what}; everything before that is imported"));
        }
        let (mut expired, limits) = (0, self.limits);
        let mut write = |database: u32, key: Vec<u8>, held: ramhold_rdb::Held| -> Result<(), String> {
            if held.expires_at.is_some_and(|end| end <= now) {
                expired += 1;
                return Ok(());
            }
            if !limits.allow(run.submitted, run.submitted_bytes, held.value.len() as u64) {
                return Ok(());
            }
            let table = tables.of(database).map_err(|failure| failure.text().to_owned())?;
            let expiry = held.expires_at.map(|end| Expiry::At(ClusterTime(end)));
            let name = format!("{} of database {database}", output::bytes_for_eyes(&key));
            run.write(Target { table, expiry }.item(name, key, held.value));
            Ok(())
        };
        if let Some(path) = &self.rdb {
            // The keys left out were counted in the first reading, so this count is discarded. If the file
            // has been replaced since, this is reported as damage.
            redis::read_rdb(path, &mut redis::LeftOut::default(), &mut write).map_err(Failure::usage)?;
        }
        for (database, keys) in databases {
            for (key, held) in keys {
                write(database, key, held).map_err(Failure::usage)?;
            }
        }
        left_out.expired = expired;
        run.left_out = Some(left_out);
        run.finish(global)
    }
}

/// The tables of Redis's databases, made where they are not there.
struct Tables {
    client: Client,
    known: BTreeMap<u32, TableId>,
}

impl Tables {
    fn of(&mut self, database: u32) -> Result<TableId, Failure> {
        if let Some(table) = self.known.get(&database) {
            return Ok(*table);
        }
        let name = format!("db{database}");
        let about = |error: Error| Failure::from(error).about(&format!("table '{name}'"));
        let table = match self.client.table(&name) {
            Err(error) if error.status() == Some(Status::UnknownTable) => {
                // These are the options with which the servers make the table for a Redis client.
                let options = TableOptions {
                    durability: Durability::Buffered,
                    replicas: 3,
                    tablets: 0,
                    slots: true,
                    zone: None,
                    quorum: None,
                };
                self.client.create_table_leaving(LeftOpen::Durability, &name, options)
            }
            known => known,
        }
        .map_err(about)?;
        self.known.insert(database, table);
        Ok(table)
    }
}

impl Run {
    fn new(client: Client, global: &Global) -> Run {
        Run {
            timeout: global.timeout(),
            pipeline: Pipeline::new(client, PIPELINE_COUNT, PIPELINE_BYTES),
            progress: Progress::new("imported", global.json),
            submitted: 0,
            submitted_bytes: 0,
            written: 0,
            written_bytes: 0,
            failed: 0,
            skipped: SkipCounts::default(),
            lists_skipped: false,
            bad_lines: 0,
            left_out: None,
        }
    }

    fn files(&mut self, target: Target, walk: Walk, limits: Limits) {
        for found in walk {
            match found {
                Found::Skipped { key, why } => self.skip(&key, &why),
                Found::File { path, key } => match read_object(&path) {
                    Err(why) => self.skip(&key, &why),
                    Ok(value) => {
                        if !limits.allow(self.submitted, self.submitted_bytes, value.len() as u64) {
                            return;
                        }
                        let name = output::bytes_for_eyes(&key);
                        self.write(target.item(name, key, value));
                    }
                },
            }
        }
    }

    fn lines(
        &mut self,
        target: Target,
        mut lines: jsonl::Lines,
        path: &Path,
        limits: Limits,
    ) -> Result<(), Failure> {
        loop {
            match lines.next_line().map_err(|error| Failure::local(path, &error))? {
                None => return Ok(()),
                Some(jsonl::Line::Object { number, key, value }) => {
                    if !limits.allow(self.submitted, self.submitted_bytes, value.len() as u64) {
                        return Ok(());
                    }
                    self.write(target.item(format!("line {number}"), key, value));
                }
                Some(jsonl::Line::Bad { number, why }) => {
                    self.bad_lines += 1;
                    self.progress.tell(&format!("ramhold: line {number}: {why}"));
                }
            }
        }
    }

    fn skip(&mut self, key: &[u8], why: &Skip) {
        self.skipped.add(key, why);
        if self.lists_skipped {
            let key = output::bytes_for_eyes(key);
            self.progress.tell(&format!("ramhold: skipped '{key}': {}", why.text()));
        }
    }

    fn write(&mut self, item: Item) {
        self.submitted += 1;
        self.submitted_bytes += item.value.len() as u64;
        while self.pipeline.is_full() && self.take_one() {}
        self.submit(item);
    }

    fn submit(&mut self, mut item: Item) {
        item.tries += 1;
        let rules = RejectRules::default();
        let operation = Operation::Write {
            table: item.table,
            key: item.key.clone(),
            value: item.value.clone(),
            rules,
            expiry: item.expiry,
        };
        let bytes = (item.key.len() + item.value.len()) as u64;
        self.pipeline.submit(operation, bytes, item);
    }

    /// Waits for one write to end. `false`: none is under way.
    fn take_one(&mut self) -> bool {
        let Some((item, outcome)) = self.pipeline.next_outcome() else {
            return false;
        };
        match outcome {
            Outcome::Done(_) => {
                self.written += 1;
                self.written_bytes += item.value.len() as u64;
                self.progress.show(self.written, self.written_bytes);
            }
            Outcome::Unknown { .. } if item.tries < TRY_COUNT || item.began.elapsed() < self.timeout => {
                self.submit(item);
            }
            outcome @ (Outcome::Refused { .. } | Outcome::Unknown { .. }) => {
                self.failed += 1;
                let why = Error::check(outcome).err().map(|error| error.to_string()).unwrap_or_default();
                self.progress.tell(&format!("ramhold: '{}': {why}", item.name));
            }
        }
        true
    }

    /// Waits for all, and tells what came of it.
    fn finish(mut self, global: &Global) -> Result<(), Failure> {
        while self.take_one() {}
        let seconds = self.progress.elapsed().as_secs_f64();
        self.progress.finish();
        let rate = self.written_bytes as f64 / seconds.max(1e-9);
        if global.json {
            let mut said = json!({
                "files": self.written,
                "bytes": self.written_bytes,
                "seconds": seconds,
                "bytes_per_second": rate,
                "failed": self.failed,
                "bad_lines": self.bad_lines,
                "skipped": self.skipped.json(),
            });
            if let Some(left_out) = &self.left_out {
                said["left_out"] = left_out.json();
            }
            output::print_json(&said)?;
        } else {
            let mut line = format!(
                "imported {} objects, {} bytes in {seconds:.3} s ({}/s); {}, {} failed",
                self.written,
                self.written_bytes,
                bytes_text(rate as u64),
                self.left_out.as_ref().map_or_else(|| self.skipped.text(), redis::LeftOut::text),
                self.failed
            );
            if self.bad_lines > 0 {
                line.push_str(&format!(", {} bad lines", self.bad_lines));
            }
            output::print(&format!("{line}\n{}", self.skipped.lines()))?;
        }
        let is_left_out = self.left_out.is_some_and(|left_out| left_out.is_something());
        if self.failed + self.bad_lines > 0 || is_left_out {
            Err(Failure::told(failure::REFUSED))
        } else {
            Ok(())
        }
    }
}
