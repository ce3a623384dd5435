//! `import`: many objects from files or from lines of JSON, pipelined.
//!
//! Nothing aborts: what cannot be read or written is told by name and counted.

mod jsonl;

use crate::cli::Global;
use crate::commands::object::Lifetime;
use crate::failure::{self, Failure};
use crate::output;
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::size::{bytes_text, parse_bytes};
use crate::walk::{Found, Skip, SkipCounts, Walk, read_object};
use clap::Args;
use ramhold_client::{Error, Expiry, Operation, Outcome, RejectRules, TableId};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Write many objects.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold import docs --dir /usr/share/doc
  ramhold import docs --dir . --limit-files 1000 --limit-bytes 100MiB
  ramhold import users --jsonl users.jsonl
  zcat dump.jsonl.gz | ramhold import users --jsonl -
  ramhold import cache --dir rendered --ttl 1h

--dir: every regular file up to 1 MiB becomes an object whose key is the file's path below DIR, byte for byte.
Links, special, unreadable and larger files are listed and counted.

--jsonl: one object per line, in any mix of these forms:
  {\"key\": \"alice\", \"value\": \"some text\"}
  {\"key_base64\": \"//4=\", \"value_base64\": \"AAEC\"}
Lines that are something else are told with their numbers.

Every object is written whatever was there before. A write whose effect is unknown is repeated, since it writes
the same bytes again; with --ttl its time then begins again too. Exit code 3 when anything could not be written.")]
pub struct Import {
    table: String,
    /// Import the files below this directory.
    #[arg(long, value_name = "DIR", required_unless_present = "jsonl", conflicts_with = "jsonl")]
    dir: Option<PathBuf>,
    /// Import the lines of this file; '-' is stdin.
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
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
    /// Stop before the object that would be more than this.
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
    key: Vec<u8>,
    value: Vec<u8>,
    tries: u32,
    began: Instant,
}

impl Item {
    fn new(name: String, key: Vec<u8>, value: Vec<u8>) -> Item {
        Item { name, key, value, tries: 0, began: Instant::now() }
    }
}

/// One run of an import.
struct Run {
    timeout: Duration,
    table: TableId,
    expiry: Option<Expiry>,
    pipeline: Pipeline<Item>,
    progress: Progress,
    submitted: u64,
    submitted_bytes: u64,
    written: u64,
    written_bytes: u64,
    failed: u64,
    skipped: SkipCounts,
    bad_lines: u64,
}

impl Import {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        // What is wrong on this side is told before anybody is bothered.
        let walk = match &self.dir {
            Some(dir) => Some(Walk::new(dir).map_err(|error| Failure::local(dir, &error))?),
            None => None,
        };
        let lines = match &self.jsonl {
            Some(path) => Some(jsonl::open(path).map_err(|error| Failure::local(path, &error))?),
            None => None,
        };
        let (client, table) = global.connect_to_table(&self.table)?;
        let mut run = Run {
            timeout: global.timeout,
            table,
            expiry: self.lifetime.expiry(),
            pipeline: Pipeline::new(client, PIPELINE_COUNT, PIPELINE_BYTES),
            progress: Progress::new("imported", global.json),
            submitted: 0,
            submitted_bytes: 0,
            written: 0,
            written_bytes: 0,
            failed: 0,
            skipped: SkipCounts::default(),
            bad_lines: 0,
        };
        if let Some(walk) = walk {
            run.files(walk, self.limits);
        }
        let mut end = Ok(());
        if let (Some(lines), Some(path)) = (lines, &self.jsonl) {
            end = run.lines(lines, path, self.limits);
        }
        while run.take_one() {}
        run.finish(global)?;
        end
    }
}

impl Run {
    fn files(&mut self, walk: Walk, limits: Limits) {
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
                        self.write(Item::new(name, key, value));
                    }
                },
            }
        }
    }

    fn lines(&mut self, mut lines: jsonl::Lines, path: &Path, limits: Limits) -> Result<(), Failure> {
        loop {
            match lines.next_line().map_err(|error| Failure::local(path, &error))? {
                None => return Ok(()),
                Some(jsonl::Line::Object { number, key, value }) => {
                    if !limits.allow(self.submitted, self.submitted_bytes, value.len() as u64) {
                        return Ok(());
                    }
                    self.write(Item::new(format!("line {number}"), key, value));
                }
                Some(jsonl::Line::Bad { number, why }) => {
                    self.bad_lines += 1;
                    self.progress.tell(&format!("ramhold: line {number}: {why}"));
                }
            }
        }
    }

    fn skip(&mut self, key: &[u8], why: &Skip) {
        self.skipped.add(why);
        self.progress.tell(&format!("ramhold: skipped '{}': {}", output::bytes_for_eyes(key), why.text()));
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
            table: self.table,
            key: item.key.clone(),
            value: item.value.clone(),
            rules,
            expiry: self.expiry,
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

    fn finish(mut self, global: &Global) -> Result<(), Failure> {
        let seconds = self.progress.elapsed().as_secs_f64();
        self.progress.finish();
        let rate = self.written_bytes as f64 / seconds.max(1e-9);
        if global.json {
            output::print_json(&json!({
                "files": self.written,
                "bytes": self.written_bytes,
                "seconds": seconds,
                "bytes_per_second": rate,
                "failed": self.failed,
                "bad_lines": self.bad_lines,
                "skipped": self.skipped.json(),
            }))?;
        } else {
            let mut line = format!(
                "imported {} objects, {} bytes in {seconds:.3} s ({}/s); {}, {} failed",
                self.written,
                self.written_bytes,
                bytes_text(rate as u64),
                self.skipped.text(),
                self.failed
            );
            if self.bad_lines > 0 {
                line.push_str(&format!(", {} bad lines", self.bad_lines));
            }
            output::print(&format!("{line}\n"))?;
        }
        if self.failed + self.bad_lines > 0 { Err(Failure::told(failure::REFUSED)) } else { Ok(()) }
    }
}
