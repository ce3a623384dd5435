//! `brick`: changes of bricks, the processes that hold quorum tables (I6).

pub mod id;
mod replace;

use crate::failure::Failure;
use crate::global::Global;
use clap::{Args, Subcommand};
use replace::{AcceptLoss, Replace};

/// Replace a brick that does not come back, or go on without its data.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick replace s3 --by s7
  ramhold brick accept-loss s3

A brick that died is started again on its directory, and that is all: it serves
at once. These commands are for a disk or a machine that is lost.")]
pub struct BrickCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Replace(Replace),
    AcceptLoss(AcceptLoss),
}

impl BrickCommand {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            Command::Replace(replace) => replace.run(global),
            Command::AcceptLoss(accept) => accept.run(global),
        }
    }
}
