//! `verify`: reads every imported file's object back and compares it byte for byte.

use super::import::{Limits, PIPELINE_BYTES, PIPELINE_COUNT};
use crate::cli::Global;
use crate::failure::{self, Failure};
use crate::output;
use crate::pipeline::Pipeline;
use crate::progress::Progress;
use crate::size::bytes_text;
use crate::walk::{Found, Skip, SkipCounts, Walk, read_object};
use clap::Args;
use ramhold_client::{Error, Operation, RejectRules, Reply, Status, TableId};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Compare a table with the files that were imported into it.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  ramhold import docs --dir /usr/share/doc && ramhold verify docs --dir /usr/share/doc

Each file's object is read back and compared byte for byte. Missing and different objects are listed by name.
A file that differs and was modified after its object was written counts as changed, not as lost.
Exit code 1 when an object is missing or different, 3 when one could not be read.")]
pub struct Verify {
    table: String,
    /// The directory that was imported.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    limits: Limits,
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
        };
        run.files(walk, self.limits);
        while run.take_one() {}
        run.finish(global)
    }
}

impl Run {
    fn files(&mut self, walk: Walk, limits: Limits) {
        let (mut files, mut bytes) = (0, 0);
        for found in walk {
            let (path, key) = match found {
                Found::Skipped { why, .. } => {
                    self.skipped.add(&why);
                    continue;
                }
                Found::File { path, key } => (path, key),
            };
            // The same files are left out as in the import, so that limits mean the same.
            let length = match readable_length(&path) {
                Ok(length) => length,
                Err(why) => {
                    self.skipped.add(&why);
                    continue;
                }
            };
            if !limits.allow(files, bytes, length) {
                return;
            }
            files += 1;
            bytes += length;
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
            // Modified since, or gone meanwhile.
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
        if global.json {
            output::print_json(&json!({
                "same": self.same,
                "bytes": self.same_bytes,
                "seconds": seconds,
                "bytes_per_second": rate,
                "missing": self.missing,
                "different": self.different,
                "changed": self.changed,
                "failed": self.failed,
                "skipped": self.skipped.json(),
            }))?;
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
        }
        if !self.missing.is_empty() || !self.different.is_empty() {
            Err(Failure::told(failure::NOT_FOUND))
        } else if self.failed > 0 {
            Err(Failure::told(failure::REFUSED))
        } else {
            Ok(())
        }
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
