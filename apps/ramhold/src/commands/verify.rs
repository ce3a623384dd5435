//! `verify`: reads the object of every imported file back and compares it byte for byte.

use super::import::{Limits, PIPELINE_BYTES, PIPELINE_COUNT};
use super::scan::each_key;
use crate::failure::{self, Failure};
use crate::global::Global;
use crate::output;
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::size::bytes_text;
use crate::walk::{Found, Skip, SkipCounts, Walk, read_object};
use clap::Args;
use ramhold_client::{Error, Operation, RejectRules, Reply, Status, TableId};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Compare a table with the files that were imported into it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold import docs --dir /usr/share/doc \\
      && ramhold verify docs --dir /usr/share/doc
  ramhold verify docs --dir /usr/share/doc --exact
      and nothing else is in the table

The object of each file is read and compared with the file byte for byte.
Missing and different objects are listed by name. If a file differs and was
modified after its object was written, the object counts as changed, not as
different.

With --exact, the table is scanned afterwards. The scan must meet the object of
each file exactly once, and no other object.

Exit codes: 0 nothing is wrong, 1 an object is missing or different, or --exact
found a fault, 3 an object could not be read.")]
pub struct Verify {
    /// Name of the table.
    table: String,
    /// Directory that was imported.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Also require that the table holds each of these objects once, and no others.
    #[arg(long, conflicts_with_all = ["limit_files", "limit_bytes"])]
    exact: bool,
    #[command(flatten)]
    limits: Limits,
}

/// The objects that a scan of the table met, compared with the files.
#[derive(Default)]
struct Exact {
    /// How often each file's object was met.
    files: BTreeMap<Vec<u8>, u64>,
    /// Objects of no file.
    extra: Vec<String>,
    /// Met more than once.
    twice: Vec<String>,
    /// Read back, and not met.
    unmet: Vec<String>,
}

impl Exact {
    fn is_right(&self) -> bool {
        self.extra.is_empty() && self.twice.is_empty() && self.unmet.is_empty()
    }

    /// Takes what was met into account; objects that could not be read back were not to be met.
    fn judge(&mut self, met: BTreeMap<Vec<u8>, u64>, missing: &[String]) {
        let missing: BTreeSet<&String> = missing.iter().collect();
        for (key, count) in met {
            let name = output::bytes_for_eyes(&key);
            if count > 1 {
                self.twice.push(name.clone());
            }
            match self.files.get_mut(&key) {
                Some(times) => *times = count,
                None => self.extra.push(name),
            }
        }
        let unmet = self.files.iter().filter(|(_, times)| **times == 0);
        let unmet = unmet.map(|(key, _)| output::bytes_for_eyes(key));
        self.unmet = unmet.filter(|name| !missing.contains(name)).collect();
    }
}

struct Item {
    path: PathBuf,
    key: Vec<u8>,
}

/// One run of a comparison.
struct Run {
    table: TableId,
    pipeline: Pipeline<Item>,
    progress: Progress,
    same: u64,
    same_bytes: u64,
    missing: Vec<String>,
    different: Vec<String>,
    changed: Vec<String>,
    failed: u64,
    skipped: SkipCounts,
    exact: Option<Exact>,
}

impl Verify {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let walk = Walk::new(&self.dir).map_err(|error| Failure::local(&self.dir, &error))?;
        let (client, table) = global.connect_to_table(&self.table)?;
        let mut run = Run {
            table,
            pipeline: Pipeline::new(client, PIPELINE_COUNT, PIPELINE_BYTES),
            progress: Progress::new("verified", global.json),
            same: 0,
            same_bytes: 0,
            missing: Vec::new(),
            different: Vec::new(),
            changed: Vec::new(),
            failed: 0,
            skipped: SkipCounts::default(),
            exact: self.exact.then(Exact::default),
        };
        run.files(walk, self.limits);
        while run.take_one() {}
        if let Some(exact) = &mut run.exact {
            let mut met: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            each_key(&mut global.connect()?, table, |key| *met.entry(key).or_default() += 1)?;
            exact.judge(met, &run.missing);
        }
        run.finish(global)
    }
}

impl Run {
    fn files(&mut self, walk: Walk, limits: Limits) {
        let (mut files, mut bytes) = (0, 0);
        for found in walk {
            let (path, key) = match found {
                Found::Skipped { key, why } => {
                    self.skipped.add(&key, &why);
                    continue;
                }
                Found::File { path, key } => (path, key),
            };
            // The import leaves out the same files, so limits mean the same in both commands.
            let length = match readable_length(&path) {
                Ok(length) => length,
                Err(why) => {
                    self.skipped.add(&key, &why);
                    continue;
                }
            };
            if !limits.allow(files, bytes, length) {
                return;
            }
            files += 1;
            bytes += length;
            if let Some(exact) = &mut self.exact {
                exact.files.insert(key.clone(), 0);
            }
            while self.pipeline.is_full() && self.take_one() {}
            let operation =
                Operation::Read { table: self.table, key: key.clone(), rules: RejectRules::default() };
            self.pipeline.submit(operation, key.len() as u64 + length, Item { path, key });
        }
    }

    /// Waits for one read to end. `false`: none is under way.
    fn take_one(&mut self) -> bool {
        let Some((item, outcome)) = self.pipeline.next_outcome() else {
            return false;
        };
        let name = output::bytes_for_eyes(&item.key);
        match Error::check(outcome) {
            Ok(Reply::Read { value, time, .. }) => self.compare(&item.path, name, &value, time),
            Err(Error::Refused { status: Status::NotFound, .. }) => {
                self.progress.tell(&format!("ramhold: missing '{name}'"));
                self.missing.push(name);
            }
            Ok(_) => self.fail(&name, &Error::UnexpectedReply),
            Err(error) => self.fail(&name, &error),
        }
        self.progress.show(self.same, self.same_bytes);
        true
    }

    fn compare(&mut self, path: &Path, name: String, value: &[u8], written: u32) {
        match read_object(path) {
            Ok(bytes) if bytes == value => {
                self.same += 1;
                self.same_bytes += bytes.len() as u64;
            }
            Ok(_) | Err(Skip::TooLarge) if !is_modified_since(path, written) => {
                self.progress.tell(&format!("ramhold: different '{name}'"));
                self.different.push(name);
            }
            // The file was modified after its object was written, or has disappeared.
            Ok(_) | Err(_) => self.changed.push(name),
        }
    }

    fn fail(&mut self, name: &str, error: &Error) {
        self.failed += 1;
        self.progress.tell(&format!("ramhold: '{name}': {error}"));
    }

    fn finish(mut self, global: &Global) -> Result<(), Failure> {
        let seconds = self.progress.elapsed().as_secs_f64();
        self.progress.finish();
        let rate = self.same_bytes as f64 / seconds.max(1e-9);
        let exact = self.exact.take();
        let is_exact = exact.as_ref().is_none_or(Exact::is_right);
        let told = self.tell(global, exact, seconds, rate);
        // The result of the comparison decides the exit code, even if the output was not read to its end.
        if !self.missing.is_empty() || !self.different.is_empty() || !is_exact {
            Err(Failure::told(failure::NOT_FOUND))
        } else if self.failed > 0 {
            Err(Failure::told(failure::REFUSED))
        } else {
            told
        }
    }

    fn tell(&self, global: &Global, exact: Option<Exact>, seconds: f64, rate: f64) -> Result<(), Failure> {
        if global.json {
            let mut json = json!({
                "same": self.same,
                "bytes": self.same_bytes,
                "seconds": seconds,
                "bytes_per_second": rate,
                "missing": self.missing,
                "different": self.different,
                "changed": self.changed,
                "failed": self.failed,
                "skipped": self.skipped.json(),
            });
            if let Some(exact) = &exact {
                json["extra"] = exact.extra.clone().into();
                json["twice"] = exact.twice.clone().into();
                json["unmet"] = exact.unmet.clone().into();
            }
            output::print_json(&json)?;
        } else {
            output::print(&format!(
                "verified {} objects, {} bytes in {seconds:.3} s ({}/s); {} missing, {} different, {} changed, {}, {} failed\n",
                self.same,
                self.same_bytes,
                bytes_text(rate as u64),
                self.missing.len(),
                self.different.len(),
                self.changed.len(),
                self.skipped.text(),
                self.failed
            ))?;
            if let Some(exact) = &exact {
                let Exact { files, extra, twice, unmet } = exact;
                for (what, names) in [("extra", extra), ("met twice", twice), ("not met", unmet)] {
                    names.iter().for_each(|name| crate::output::tell(&format!("ramhold: {what} '{name}'")));
                }
                let met = files.values().filter(|times| **times == 1).count();
                let (extra, twice, unmet) = (extra.len(), twice.len(), unmet.len());
                output::print(&format!(
                    "exact: {met} objects met once; {extra} extra, {twice} met twice, {unmet} not met\n"
                ))?;
            }
        }
        Ok(())
    }
}

/// The length of a file that an import would take.
fn readable_length(path: &Path) -> Result<u64, Skip> {
    let unreadable = |error: std::io::Error| Skip::Unreadable(error.to_string());
    let length = std::fs::File::open(path).and_then(|file| file.metadata()).map_err(unreadable)?.len();
    if length > ramhold_base::limits::VALUE_BYTES_MAX as u64 { Err(Skip::TooLarge) } else { Ok(length) }
}

/// Whether the file was modified in or after the second in which its object was written.
fn is_modified_since(path: &Path, written: u32) -> bool {
    std::fs::symlink_metadata(path).map_or(true, |metadata| metadata.mtime() >= i64::from(written))
}
