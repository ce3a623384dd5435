//! `ramhold demo-writer`: writes until it is killed, and keeps the journal.
//!
//! The writer is a process of its own, so that it can die with the others: the journal must not depend on the
//! memory of any process.

use super::comparison::hash;
use super::scene::PATIENCE;
use crate::failure::Failure;
use crate::global::Global;
use crate::process;
use clap::Args;
use ramhold_base::Rng;
use ramhold_client::{Error, parse_addresses};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

const KEY_COUNT: u64 = 2000;
const VALUE_BYTES_MIN: u64 = 16;
const VALUE_BYTES_MAX: u64 = 400;

/// Write to a table for ever and keep a journal; a part of `ramhold demo`.
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Example:\n  ramhold demo-writer --table writes --journal ./journal")]
pub struct DemoWriter {
    #[arg(long)]
    table: String,
    #[arg(long)]
    journal: PathBuf,
    #[arg(long, value_name = "PID")]
    end_with: Option<u32>,
}

pub fn run(arguments: DemoWriter, global: &Global) -> Result<(), Failure> {
    if let Some(parent) = arguments.end_with {
        process::end_with(parent)?;
    }
    let addresses = parse_addresses(&global.cluster)?;
    let coordinator = *addresses.first().expect("a list of addresses is not empty");
    let mut client = crate::local::connect_to(coordinator, PATIENCE)?;
    let table = client.table(&arguments.table)?;
    let failed = |error: std::io::Error| Failure::local(&arguments.journal, &error);
    let mut journal =
        OpenOptions::new().create(true).append(true).open(&arguments.journal).map_err(failed)?;
    // Each line is one write(2), so it outlives this process once it is written.
    let append = |journal: &mut File, line: String| journal.write_all(line.as_bytes()).map_err(failed);

    let mut rng = Rng::new(RandomState::new().hash_one(std::process::id()));
    loop {
        let key = format!("w{:05}", rng.below(KEY_COUNT));
        let length = VALUE_BYTES_MIN + rng.below(VALUE_BYTES_MAX - VALUE_BYTES_MIN);
        let value: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| rng.u64().to_le_bytes()).collect();
        let hash = hash(&value);
        append(&mut journal, format!("try {key} {hash:016x}\n"))?;
        match client.put(table, key.as_bytes(), &value) {
            Ok(version) => {
                let millis = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let line = format!("ack {key} {} {hash:016x} {}\n", version.raw(), millis.as_millis());
                append(&mut journal, line)?;
            }
            Err(Error::Refused { .. } | Error::Unreachable { .. }) => {
                append(&mut journal, format!("ref {key} {hash:016x}\n"))?;
            }
            // The line with `try` is enough.
            Err(Error::Unknown { .. }) => {}
            Err(error) => return Err(Failure::from(error)),
        }
    }
}
