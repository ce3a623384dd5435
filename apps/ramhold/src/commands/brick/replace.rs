//! `brick replace` and `brick accept-loss`: the operator's word that a brick's data is gone (I6).

use crate::commands::brick::id::parse_brick;
use crate::commands::brick::obstacle;
use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::output;
use crate::progress::Progress;
use clap::Args;
use ramhold_client::{BrickReplace, BrickReplaced, Client, LossReport, Obstacle, ObstacleKind, ServerId};
use serde_json::json;
use std::time::Duration;

/// The pause between two looks at the new brick.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Give a brick's place in all its tablets to another brick.
///
/// The new brick takes the keys from the other bricks of each tablet, and votes when it has them all. Reads and
/// writes go on meanwhile. The command waits for that; it may be interrupted, the bricks go on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick replace s3 --by s7
  ramhold brick replace s3 --by s7 --no-wait
  ramhold brick replace s3 --by s7 --accept-loss

Start the new brick first, on an empty directory:
  ramhold supervise -- server --brick --dir DIR --bind HOST:PORT \\
      --coordinator HOST:PORT --insecure-network
The old brick's data is not used. Should it ever run again, it drops its tablets.

Exit codes: 0 replaced, 1 no such brick, 3 something stands in the way, which is
named, and nothing was changed.")]
pub struct Replace {
    /// Brick that does not come back, as 'ramhold status' shows it: s3.
    #[arg(value_name = "OLD", value_parser = parse_brick)]
    old: ServerId,
    /// Brick that takes its place.
    #[arg(long, value_name = "NEW", value_parser = parse_brick)]
    by: ServerId,
    /// The old brick's data is destroyed for certain: needed for tables with --read-quorum 1.
    #[arg(long)]
    destroyed: bool,
    /// Go on even if too few of the other bricks have everything: the newest that is left counts, and writes
    /// may be lost.
    #[arg(long)]
    accept_loss: bool,
    /// Do not wait until the new brick votes.
    #[arg(long)]
    no_wait: bool,
}

/// Go on without the data of a lost brick.
///
/// When more bricks of a tablet have forgotten something than the table can stand, and one that has not is away, its
/// tablets wait for it. With this command they go on with the newest that is left. Writes of the last moments before
/// the power loss may be lost: the logs of the bricks say so. Should the brick come back, it takes everything from
/// the others.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  ramhold brick accept-loss s3

Exit codes: 0 accepted, 1 no such brick, 3 something stands in the way, which is
named, and nothing was changed.")]
pub struct AcceptLoss {
    /// Brick that is not waited for any more.
    #[arg(value_name = "BRICK", value_parser = parse_brick)]
    brick: ServerId,
}

impl Replace {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        if self.old == self.by {
            let text = "a brick cannot take its own place; if its data is destroyed, start it on an empty directory, which \
                        makes it a new brick, and give that one's id with --by";
            return Err(Failure::usage(text));
        }
        let mut client = global.connect()?;
        let message = BrickReplace {
            old: self.old,
            new: Some(self.by),
            is_destroyed: self.destroyed,
            accepts_loss: self.accept_loss,
        };
        let tablets = ask(&mut client, message)?;
        let losses = losses_of(&mut client, &message)?;
        if !self.no_wait && tablets > 0 {
            wait(&mut client, self.by, global.json)?;
        }
        if global.json {
            return output::print_json(&json!({
                "old": self.old.to_string(), "new": self.by.to_string(), "tablets": tablets,
                "losses": losses.iter().map(|loss| loss.id).collect::<Vec<_>>(),
            }));
        }
        let (old, new) = (self.old, self.by);
        output::print(&match (tablets, self.no_wait) {
            (0, _) => format!("{old} has no tablets, and gets none any more\n"),
            (_, true) => {
                format!("{new} takes the place of {old} in {}, and is being rebuilt\n", counted(tablets))
            }
            (_, false) => format!("{new} has taken the place of {old} in {}\n", counted(tablets)),
        })?;
        output::print(&losses_text(&losses))
    }
}

impl AcceptLoss {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let message = BrickReplace { old: self.brick, new: None, is_destroyed: true, accepts_loss: true };
        let tablets = ask(&mut client, message)?;
        let losses = losses_of(&mut client, &message)?;
        let brick = self.brick;
        if global.json {
            let losses: Vec<u64> = losses.iter().map(|loss| loss.id).collect();
            return output::print_json(
                &json!({ "brick": brick.to_string(), "tablets": tablets, "losses": losses }),
            );
        }
        output::print(&format!(
            "{} without the data of {brick}; their bricks log what may be lost\n",
            if tablets == 1 { "1 tablet goes on".to_owned() } else { format!("{tablets} tablets go on") }
        ))?;
        output::print(&losses_text(&losses))
    }
}

/// The keys that may be lost with the old brick, as the coordinator has noted it.
fn losses_of(client: &mut Client, message: &BrickReplace) -> Result<Vec<LossReport>, Failure> {
    if !message.accepts_loss {
        return Ok(Vec::new());
    }
    let mut losses = client.cluster_status()?.losses;
    losses.retain(|loss| loss.crashed == message.old);
    Ok(losses)
}

fn losses_text(losses: &[LossReport]) -> String {
    let lines = losses.iter().map(|loss| {
        let tables: Vec<String> = loss.tables.iter().map(ToString::to_string).collect();
        let (id, tables, reason) = (loss.id, tables.join(", "), &loss.reason);
        format!("loss {id}: writes to {tables} may be gone: {reason}\n")
    });
    lines.collect()
}

fn counted(tablets: u32) -> String {
    if tablets == 1 { "1 tablet".to_owned() } else { format!("{tablets} tablets") }
}

/// The number of tablets that change.
fn ask(client: &mut Client, message: BrickReplace) -> Result<u32, Failure> {
    let BrickReplaced { tablets, obstacle } = client.replace_brick(message).map_err(Failure::from)?;
    match obstacle {
        None => Ok(tablets),
        Some(obstacle) => {
            let exit = if obstacle.kind == ObstacleKind::Unknown { NOT_FOUND } else { REFUSED };
            let mut text = obstacle_text(&obstacle, &message);
            let tables = client.tables().unwrap_or_default();
            if let Some(table) = tables.iter().find(|table| table.table == obstacle.table) {
                text = text.replace(&format!(" {} ", table.table), &format!(" '{}' ", table.name));
                text = text.replace(&format!(" {}:", table.table), &format!(" '{}':", table.name));
            }
            Err(Failure::new(exit, text))
        }
    }
}

fn obstacle_text(told: &Obstacle, message: &BrickReplace) -> String {
    let Obstacle { kind, brick, table } = *told;
    let old = message.old;
    let text = match kind {
        ObstacleKind::Unknown => format!("there is no brick {brick}; 'ramhold status' lists the bricks"),
        ObstacleKind::NotHeard => format!("{brick} has not been heard lately; start it first"),
        ObstacleKind::HasTablet => {
            format!("{brick} holds a tablet of {table} together with {old}; take another brick")
        }
        ObstacleKind::SameDomain => {
            format!(
                "the new brick shares a failure domain with {brick}, which holds a tablet of {table} with {old}; \
                     take a brick on another host"
            )
        }
        ObstacleKind::TooSmall => {
            format!("{brick} has less free memory than {old} uses; start a larger one")
        }
        ObstacleKind::TooManyTablets => format!("{brick} would have too many tablets; take another brick"),
        ObstacleKind::Silent => format!(
            "{brick} shares a tablet of {table} with {old}, and has not been heard lately: start it again; if it is \
             lost, too, --accept-loss goes on with what is left"
        ),
        ObstacleKind::Rebuilding => format!(
            "{brick} shares a tablet of {table} with {old}, and is being rebuilt: wait until it votes; if that never \
             comes, --accept-loss goes on with what is left"
        ),
        ObstacleKind::MayBeRead => format!(
            "one brick alone is a read quorum of {table}: if {old} ran on, it would tell old values; make sure that its \
             data is destroyed, then say --destroyed"
        ),
        ObstacleKind::OnlyBrick => format!(
            "{old} is the only brick of {table}: start it again on its directory; if that is destroyed, its keys are lost, \
             and 'brick replace' with --destroyed --accept-loss gives the empty table to another brick"
        ),
        // Only of a brick that is to be forgotten.
        ObstacleKind::HoldsTablets | ObstacleKind::GivesTablets => {
            format!("{brick} holds tablets of {table}")
        }
        ObstacleKind::NotLost if message.new.is_some() => {
            let new = message.new.unwrap_or_default();
            format!(
                "{brick} is heard and has no tablets, so there is nothing to replace; did you mean 'ramhold brick replace \
                 {new} --by {brick}'?"
            )
        }
        ObstacleKind::NotLost => {
            format!(
                "{brick} is heard, so nothing of it is lost; 'brick replace' puts another one in its place"
            )
        }
        ObstacleKind::LastSibling
        | ObstacleKind::NoneToSpare
        | ObstacleKind::NoTable
        | ObstacleKind::Ordered
        | ObstacleKind::NotOrdered
        | ObstacleKind::TooNarrow
        | ObstacleKind::Stalled => obstacle::text(told, old),
    };
    format!("nothing is changed: {text}")
}

/// Waits until all tablets of a brick vote.
fn wait(client: &mut Client, brick: ServerId, json: bool) -> Result<(), Failure> {
    let mut progress = Progress::new("rebuilding", json);
    loop {
        let status = client.cluster_status()?;
        let report = status.bricks.iter().find(|report| report.brick == brick);
        let Some(report) = report else { break };
        let has_taken = report.assigned == report.taken;
        if has_taken && report.rebuilding == 0 {
            break;
        }
        progress.show_text(|| {
            format!("{brick}: {} of {} tablets do not vote yet", report.rebuilding, report.tablets)
        });
        std::thread::sleep(LOOK_AGAIN);
    }
    progress.finish();
    Ok(())
}
