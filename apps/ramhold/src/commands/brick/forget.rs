//! `brick forget`: a brick that holds nothing and does not come back is not listed any more (I6).

use super::id::parse_brick;
use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::output;
use clap::Args;
use ramhold_client::{Obstacle, ObstacleKind, ServerId};
use serde_json::json;

/// Remove a brick that is gone from the list of bricks.
///
/// It holds no tablet, gives none to another brick, and is not heard: it was replaced, or its directory was wiped.
/// Should it come back, it is refused, and its directory is of no use any more.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  ramhold brick forget s3

Exit codes: 0 forgotten, 1 no such brick, 3 it is heard or holds tablets, and
nothing was changed.")]
pub struct Forget {
    /// Brick that does not come back, as 'ramhold status' shows it: s3.
    #[arg(value_name = "BRICK", value_parser = parse_brick)]
    brick: ServerId,
}

impl Forget {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let brick = self.brick;
        if let Some(obstacle) = global.connect()?.forget_brick(brick)? {
            let exit = if obstacle.kind == ObstacleKind::Unknown { NOT_FOUND } else { REFUSED };
            return Err(Failure::new(exit, text(&obstacle)));
        }
        if global.json {
            return output::print_json(&json!({ "brick": brick.to_string() }));
        }
        output::print(&format!("{brick} is forgotten\n"))
    }
}

fn text(obstacle: &Obstacle) -> String {
    let Obstacle { kind, brick, table } = *obstacle;
    let why = match kind {
        ObstacleKind::Unknown => format!("there is no brick {brick}; 'ramhold status' lists the bricks"),
        ObstacleKind::NotLost => format!("{brick} is heard: stop it first"),
        ObstacleKind::HoldsTablets => format!(
            "{brick} holds tablets of {table}, or has not heard yet that the table is dropped; 'ramhold brick replace \
             {brick} --by NEW' gives them to another one"
        ),
        ObstacleKind::GivesTablets => format!(
            "{brick} gives a tablet of {table} to a brick that does not vote yet; forget {brick} when that one votes \
             ('ramhold table describe' shows the move); if it never will, 'ramhold brick replace' puts another brick in \
             its place, and 'ramhold brick accept-loss {brick}' goes on without what {brick} has"
        ),
        // These are obstacles to replacements alone.
        other => format!("{brick} is kept: {other:?}"),
    };
    format!("nothing is changed: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_client::TableId;

    // I6
    #[test]
    fn an_obstacle_names_the_way_out() {
        let obstacle = |kind| Obstacle { kind, brick: ServerId(3), table: TableId(7) };
        let holds = text(&obstacle(ObstacleKind::HoldsTablets));
        assert!(holds.contains("s3 holds tablets of t7") && holds.contains("replace s3 --by NEW"), "{holds}");
        let gives = text(&obstacle(ObstacleKind::GivesTablets));
        assert!(gives.contains("s3 gives a tablet of t7") && gives.contains("accept-loss s3"), "{gives}");
        assert!(text(&obstacle(ObstacleKind::NotLost)).contains("s3 is heard: stop it first"));
    }
}
