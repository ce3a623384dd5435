//! `status`: an overview of the whole cluster, from the coordinator and from every server.

mod findings;
mod json;
mod picture;
mod text;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::screen::Screen;
use clap::Args;
use picture::{Picture, take};
use std::io::IsTerminal;
use std::time::Duration;
use text::Breadth;

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Show whether the cluster is well, and what to do if not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold status
  ramhold status --watch
  ramhold status --wide
  ramhold status --json | jq '.servers[] | {id, log_used_bytes}'

The first line is the verdict: healthy, recovering (it mends itself), degraded
(all is served, but something needs you) or critical (something is lost, refused
or not served). What was found follows, each with what to do. 'memory' and
'disk' tell how full a server's log and its room for replicas are. Exit code 0
whatever the verdict; --json has it as 'verdict'.")]
pub struct Status {
    /// Show it again every second until interrupted; with --json one line each time.
    #[arg(long)]
    watch: bool,
    /// Show everything, in lines as long as it takes.
    #[arg(long)]
    wide: bool,
}

impl Status {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        if !self.watch {
            return self.show(&take(&mut client, global.timeout())?, global, "");
        }
        let clear = if std::io::stdout().is_terminal() && !global.json { "\x1b[H\x1b[2J" } else { "" };
        loop {
            match take(&mut client, global.timeout()) {
                Ok(picture) => self.show(&picture, global, clear)?,
                // Watching matters most while something is wrong, so an error does not end it.
                Err(error) => crate::output::tell(&format!("ramhold: {}", Failure::from(error).text())),
            }
            std::thread::sleep(WATCH_INTERVAL);
        }
    }

    fn show(&self, picture: &Picture, global: &Global, before: &str) -> Result<(), Failure> {
        if global.json {
            return output::print_json(&json::picture(picture));
        }
        let breadth = if self.wide { Breadth::Wide } else { Breadth::Narrow };
        output::print(&format!("{before}{}", text::picture(picture, breadth, Screen::of_stdout())))
    }
}
