//! `ramhold brick`: an operator's orders about bricks: restart, add, remove, replace.
//!
//! Not here: what a supervisor does (core/supervisor). Protocol: docs/protocols/quorum.md, rules 46, 56. Catalogue: I6, I7.

mod fleet;
mod forget;
pub mod id;
mod obstacle;
mod replace;
mod restart;
pub mod scale;

use crate::failure::Failure;
use crate::global::Global;
use crate::size::parse_duration;
use clap::{Args, Subcommand};
use forget::Forget;
use id::parse_brick;
use ramhold_client::ServerId;
use replace::{AcceptLoss, Replace};
use scale::{Add, Remove};
use std::time::Duration;

/// Restart, add or remove bricks, or replace lost ones.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick restart s4
  ramhold brick rolling-restart --interval 30s
  ramhold brick add s7
  ramhold brick remove s7
  ramhold brick replace s3 --by s7
  ramhold brick accept-loss s3
  ramhold brick forget s3

A brick that died is started again on its directory, and that is all: it serves
at once. 'replace' and 'accept-loss' are for a disk or a machine that is lost.")]
pub struct Brick {
    #[command(subcommand)]
    command: BrickCommand,
}

#[derive(Subcommand, Debug)]
enum BrickCommand {
    Restart(Restart),
    RollingRestart(RollingRestart),
    Add(Add),
    Remove(Remove),
    Replace(Replace),
    AcceptLoss(AcceptLoss),
    Forget(Forget),
}

/// Stop a brick and start it again.
///
/// It flushes before it stops; one that hangs is killed, and one that is offline is started. Returns when the
/// brick votes again. Clients go on meanwhile.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick restart s4
  ramhold brick restart s4 --force

The brick's supervisor does it: 'ramhold supervise' or 'ramhold dev'. Nothing is
restarted while another brick of its tablets does not vote, unless --force is
given.

Exit codes: 0 it votes again, 1 nothing was restarted, or it does not vote
within --within.")]
struct Restart {
    /// Brick, as 'ramhold status' shows it: s4.
    #[arg(value_name = "BRICK", value_parser = parse_brick)]
    brick: ServerId,
    /// Restart it although another brick of its tablets does not vote.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    patience: Patience,
}

/// Restart all bricks, one after the other.
///
/// Waits before each restart until all bricks of the tablets vote, and after it until the brick votes again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick rolling-restart
  ramhold brick rolling-restart --interval 30s --within 10m

Bricks that hold nothing and do not answer are left out, and named. If a brick
has no supervisor that answers, nothing is restarted.

Ctrl-C ends it between two restarts; a restart under way is completed by the
brick's supervisor.

Exit codes: 0 all were restarted, 1 it ended before that.")]
struct RollingRestart {
    /// Pause between two restarts.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    interval: Duration,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args, Debug)]
struct Patience {
    /// Time limit for each wait until bricks vote.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    within: Duration,
}

impl Brick {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            BrickCommand::Restart(restart) => {
                restart::one(global, restart.brick, restart.force, restart.patience.within)
            }
            BrickCommand::RollingRestart(rolling) => {
                restart::all(global, rolling.interval, rolling.patience.within)
            }
            BrickCommand::Add(add) => add.run(global),
            BrickCommand::Remove(remove) => remove.run(global),
            BrickCommand::Replace(replace) => replace.run(global),
            BrickCommand::AcceptLoss(accept) => accept.run(global),
            BrickCommand::Forget(forget) => forget.run(global),
        }
    }
}
