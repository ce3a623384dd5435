//! `status`: an overview of the whole cluster, from the coordinator and from every server.

mod findings;
mod json;
mod picture;
mod text;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::screen::Screen;
use crate::watch::watch;
use clap::Args;
use picture::{Picture, take};
use text::Breadth;

/// Show the cluster's health, and what to do about problems.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold status
  ramhold status --watch
  ramhold status --wide
  ramhold status --json | jq '.servers[] | {id, log_used_bytes}'

The first line is the verdict:
  healthy     nothing needs attention
  recovering  the cluster repairs itself
  degraded    everything is served, but something needs you
  critical    something is lost, refused or not served
The findings follow, each with what to do. The columns 'memory' and 'disk' show
how full a server's log and its room for replicas are.

The exit code is 0 for every verdict. With --json, the field 'verdict' has it.")]
pub struct Status {
    /// Repeat every second until interrupted; with --json, one line each time.
    #[arg(long)]
    watch: bool,
    /// Show all columns; lines may be longer than 80 columns.
    #[arg(long)]
    wide: bool,
}

impl Status {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        watch(
            self.watch,
            global.json,
            || take(&mut client, global.timeout()).map_err(Failure::from),
            |picture, before| self.show(picture, global, before),
        )
    }

    fn show(&self, picture: &Picture, global: &Global, before: &str) -> Result<(), Failure> {
        if global.json {
            return output::print_json(&json::picture(picture));
        }
        let breadth = if self.wide { Breadth::Wide } else { Breadth::Narrow };
        output::print(&format!("{before}{}", text::picture(picture, breadth, Screen::of_stdout())))
    }
}
