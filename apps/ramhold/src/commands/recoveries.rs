//! `recoveries`: for each recovery, the server that died, how its death was noticed, and the duration of the
//! recovery (F11).

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
Times are milliseconds after the coordinator declared the server dead:
  complete    its log was proven complete
  first live  the first part was served again
  done        all of it was

With the name of a recovery, its course: what was done when and how much of it,
by all together; how each recovery master fared with its partition; and what
each backup did.
  verify      from the first suspicion to the verdict; when the server really
              died, nobody can tell
  read        backups read segments, divide: verified them and cut them up for
              the recovery masters; ahead of demand. 'busy' is the time in which
              any of it was under way, of all backups together
  transfer    records travelled from backups to recovery masters, until publish:
              as in the second table
  replicate   copies were made. Where there is room a partition is readable
              before that: then this tells when all of it was taken in, and the
              copies are made under 'settle'
  settle      backups wrote to their devices what was recovered; until then the
              dead server's log is kept beside it, in case all power goes
  free        backups freed what they held of the dead server. For neither
              anybody waits
In the second table:
  fetched     the last records had come from the backups
  replayed    and were taken in; replicated: and stood on their backups;
              durable: and a head named them
  fetch       the mean time of a request for records, 'backup' that part of it
              at the backup; 'read' is how long the backup needed to read the
              segment, mostly before it was asked for
Backups are asked once a second while a recovery runs, and when it is over until
all is freed. While a recovery runs, what is not reached yet is '-'.

Examples:
  ramhold recoveries
  ramhold recoveries r3
  ramhold recoveries r3 --svg recovery.svg
  ramhold recoveries --json")]
pub struct Recoveries {
    /// Which one: r3, or 'last'.
    #[arg(value_name = "RECOVERY")]
    recovery: Option<String>,
    /// Draw the course of it (without a name: of the last one) into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show everything, in lines as long as it takes.
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
