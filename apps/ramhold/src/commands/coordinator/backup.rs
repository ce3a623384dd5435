//! `coordinator backup`: writes the state of a running coordinator at one moment into a file (G3).

use crate::failure::{Failure, UNKNOWN};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_client::{Client, Error, StatePart, Status};
use ramhold_metadata::BackupFile;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Somebody else may read the state at the same time, and then it is begun anew.
const ATTEMPT_COUNT: u32 = 5;

/// Write the state of the running coordinator to a file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold coordinator backup --to /var/backups/ramhold-state
  ramhold coordinator backup --to /var/backups/
      a file with a name of its own for each state
  ramhold coordinator --dir /var/lib/ramhold-new \\
      --restore /var/backups/ramhold-state

The file has everything that the coordinator stores, at one moment: servers,
tables, tablets, leases and recoveries. It has no objects.

A coordinator that was restored from the file does nothing while servers hold a
newer state. Then rebuild the state from the servers instead (see 'ramhold
coordinator --help').")]
pub struct Backup {
    /// File to write, or directory for a file that is named after cluster, term and change.
    #[arg(long, value_name = "FILE|DIR")]
    to: PathBuf,
}

impl Backup {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let backup = read(&mut client)?;
        let position = backup.position;
        let path = if self.to.is_dir() { self.to.join(name(&backup)) } else { self.to };
        let failed = |error: std::io::Error| Failure::local(&path, &error).about("--to");
        let bytes = backup.write(&path).map_err(failed)?;
        if global.json {
            output::print_json(&json!({
                "file": path.display().to_string(),
                "bytes": bytes,
                "records": backup.records.len(),
                "cluster": backup.cluster.to_string(),
                "term": position.term.raw(),
                "change": position.number,
            }))
        } else {
            output::print(&format!(
                "{}: change {} of {}, {} records, {bytes} bytes\n",
                path.display(),
                position.number,
                position.term,
                backup.records.len()
            ))
        }
    }
}

fn name(backup: &BackupFile) -> PathBuf {
    let position = backup.position;
    Path::new(&format!("ramhold-state-{}-{}-{}", backup.cluster, position.term, position.number)).to_owned()
}

fn read(client: &mut Client) -> Result<BackupFile, Failure> {
    for _ in 0..ATTEMPT_COUNT {
        match read_whole(client) {
            Err(Error::Refused { status: Status::NotFound, .. }) => {}
            read => return Ok(read?),
        }
    }
    let text = "each attempt was interrupted by another reader of the state, or by a restart of the coordinator; try again";
    Err(Failure::new(UNKNOWN, text))
}

fn read_whole(client: &mut Client) -> Result<BackupFile, Error> {
    let (mut records, mut begun) = (Vec::new(), None);
    loop {
        let after = records.last().map(|(key, _): &(String, Vec<u8>)| key.clone()).unwrap_or_default();
        let StatePart { cluster, position, records: part, last } = client.read_state(begun, after)?;
        records.extend(part.into_iter().filter_map(|record| Some((record.key, record.value?))));
        begun = Some(position);
        if last {
            return Ok(BackupFile { cluster, position, records });
        }
    }
}
