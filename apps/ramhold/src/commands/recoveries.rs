//! `recoveries`: for each recovery, the server that died, how its death was noticed, and the duration of the
//! recovery (F11).

mod distances;
pub mod json;
pub mod reports;
mod svg;
pub mod timeline;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::screen::WIDTH;
use clap::Args;
use json::report_json;
use reports::{find, reports_columns, reports_columns_wide, waits_text};
use std::path::PathBuf;

/// Show recoveries of dead servers, or the course of one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold recoveries
  ramhold recoveries r3
  ramhold recoveries r3 --svg recovery.svg
  ramhold recoveries --json

Times are milliseconds after the coordinator declared the server dead:
  complete    the dead server's log was proven complete
  first live  the first partition was served again
  done        all partitions were served again

With RECOVERY, tables show the course: the steps, with the work of all
servers together; each recovery master's partition; and each backup's work.
Some of the steps:
  verify      from the first suspicion to the verdict. Nobody knows when the
              server really died
  read        backups read segments, mostly before a recovery master asks
  divide      backups verify the segments and divide them by recovery master
  transfer    records travel from backups to recovery masters
  replicate   the recovered data is replicated. If there is room, a partition is
              readable before that. Then this step ends when the partition is
              taken in, and the replicas are made during 'settle'
  settle      backups write the recovered data to their devices. Until then the
              dead server's log is kept, in case all servers lose power
  free        backups free the replicas of the dead server
No client waits for 'settle' and 'free'. 'busy' is the time during which backups
worked on a step, of all backups together.

In the second table, these columns are the times at which:
  fetched     all records had come from the backups
  replayed    the recovery master had taken in all records
  replicated  the records were on their backups (--wide)
  durable     a head named the recovered segments (--wide)
These columns are mean durations (--wide):
  fetch       a request for records
  backup      the part of 'fetch' that was spent at the backup
  read        the reading of the segment at the backup, mostly before the request

Where servers have places, a third table tells how far the records of each
partition came: from backups that share an edge switch or a rack with its master
('near'), from others of the same zone, and from other zones.

Backups report once a second until everything is freed. '-' stands for something
that is not reached yet.")]
pub struct Recoveries {
    /// Recovery to show in detail: its id, such as r3, or 'last'.
    #[arg(value_name = "RECOVERY")]
    recovery: Option<String>,
    /// Draw the course of this recovery into this file; without RECOVERY, of the last one.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show all columns; lines may be longer than 80 columns.
    #[arg(long)]
    wide: bool,
}

impl Recoveries {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let recoveries = global.connect()?.recoveries()?;
        let chosen = match (&self.recovery, &self.svg) {
            (None, None) => None,
            (None, Some(_)) => Some(find(&recoveries, "last")?),
            (Some(name), _) => Some(find(&recoveries, name)?),
        };
        if let Some((path, report)) = self.svg.as_ref().zip(chosen) {
            std::fs::write(path, svg::draw(report))
                .map_err(|error| Failure::local(path, &error).about("--svg"))?;
        }
        if global.json {
            return match chosen {
                Some(report) => output::print_json(&report_json(report)),
                None => output::print_json(&recoveries.iter().map(report_json).collect()),
            };
        }
        match chosen {
            Some(report) => output::print(&(timeline::text(report, self.wide) + &waits_text(report))),
            None if recoveries.is_empty() => output::print("no recoveries\n"),
            None => {
                let mut text = match self.wide {
                    true => reports_columns_wide(&recoveries).text(),
                    false => reports_columns(&recoveries).fitted(WIDTH),
                };
                recoveries.iter().for_each(|report| text.push_str(&waits_text(report)));
                output::print(&text)
            }
        }
    }
}
