//! `brick add` and `brick remove`: a table is shared by one brick more, or by one fewer (I7).
//!
//! The coordinator moves tablets one after the other, and goes on when this command ends.

use crate::commands::brick::id::parse_brick;
use crate::commands::brick::obstacle;
use crate::failure::{Failure, NOT_FOUND, REFUSED};
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use crate::size::bytes_text;
use clap::Args;
use ramhold_client::{
    BrickReport, BrickScale, BrickScaled, Client, EndedScaling, Obstacle, ObstacleKind, ScaleOrder, ScaleWay,
    ScalingEnd, ServerId, TableId,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The pause between two looks at the brick.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Give a brick a share of the quorum tables.
///
/// Tablets move to it from the bricks that have most load, one after the other. If no brick has several tablets, one is
/// cut in two first. Reads and writes go on meanwhile. Without BRICK, lists the bricks that hold nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick add
  ramhold brick add s7 --wait
  ramhold brick add s7 --table carts
  ramhold brick add s7 --cancel

Start the brick first: 'ramhold supervise -- server --brick ...'. Three bricks
more make two tablets of three bricks out of one. A further 'brick add' waits
for its turn. A tablet moves while all of its bricks vote, and waits otherwise;
'ramhold status' says for whom. --cancel also calls a tablet back that moves,
as long as the brick that takes it has not voted: the brick that gave it takes
it again when all other bricks of the tablet vote.

Exit codes: 0 ordered, with --wait done, 1 no such brick, or it was not done,
3 something stands in the way, which is named, and nothing was ordered.")]
pub struct Add {
    /// Brick, as 'ramhold status' shows it: s7.
    #[arg(value_name = "BRICK", value_parser = parse_brick, required_if_eq("cancel", "true"))]
    brick: Option<ServerId>,
    /// Share this table alone.
    #[arg(long, value_name = "NAME", conflicts_with = "cancel")]
    table: Option<String>,
    /// Wait until the brick has its share.
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// Take the order back. A tablet that moves goes back, unless it has arrived.
    #[arg(long)]
    cancel: bool,
}

/// Have a brick give all its tablets to other bricks.
///
/// Its tablets move to the bricks that have least load, one after the other. Two halves with the same bricks become one
/// tablet again. Reads and writes go on meanwhile. A brick that holds nothing any more may be stopped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold brick remove s7 --wait
  ramhold brick remove s7 --cancel

For a brick that is lost already there is 'ramhold brick replace'. A tablet moves
while all of its bricks vote, and waits otherwise; 'ramhold status' says for
whom. --cancel also calls a tablet back that moves, as long as the brick that
takes it has not voted: the brick that gave it takes it again when all other
bricks of the tablet vote.

Exit codes: 0 ordered, with --wait done, 1 no such brick, or it was not done,
3 something stands in the way, which is named, and nothing was ordered.")]
pub struct Remove {
    /// Brick, as 'ramhold status' shows it: s7.
    #[arg(value_name = "BRICK", value_parser = parse_brick)]
    brick: ServerId,
    /// Wait until it holds nothing any more.
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// Take the order back. A tablet that moves goes back, unless it has arrived.
    #[arg(long)]
    cancel: bool,
}

impl Add {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        let Some(brick) = self.brick else { return list_free(&mut client, global.json) };
        if self.cancel {
            return cancel(&mut client, brick, global.json);
        }
        let table =
            self.table.map(|name| client.describe_table(&name).map(|table| table.table)).transpose()?;
        carry_out(&mut client, (brick, ScaleOrder::Add, table), self.wait, global.json)
    }
}

impl Remove {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut client = global.connect()?;
        if self.cancel {
            return cancel(&mut client, self.brick, global.json);
        }
        carry_out(&mut client, (self.brick, ScaleOrder::Remove, None), self.wait, global.json)
    }
}

fn list_free(client: &mut Client, json: bool) -> Result<(), Failure> {
    let status = client.cluster_status()?;
    let is_free = |brick: &&BrickReport| brick.tablets == 0 && brick.scaling.is_none();
    let free: Vec<&BrickReport> = status.bricks.iter().filter(is_free).collect();
    if json {
        let ids: Vec<String> = free.iter().map(|brick| brick.brick.to_string()).collect();
        return output::print_json(&json!({ "free": ids }));
    }
    if free.is_empty() {
        return output::print("every brick holds tablets; start another one, then 'ramhold brick add' it\n");
    }
    let mut text = String::from("these bricks hold nothing; 'ramhold brick add BRICK' gives one a share:\n");
    for brick in free {
        let silent = if brick.heard_millis.is_none_or(|millis| millis > 3000) { ", silent" } else { "" };
        text.push_str(&format!(
            "  {} {}, {} of memory{silent}\n",
            brick.brick,
            brick.address.0,
            bytes_text(brick.log_bytes)
        ));
    }
    output::print(&text)
}

fn cancel(client: &mut Client, brick: ServerId, json: bool) -> Result<(), Failure> {
    let called = ask(client, BrickScale { brick, order: ScaleOrder::Cancel, table: None })?;
    if json {
        let told = json!({ "brick": brick.to_string(), "cancelled": true, "called_back": called });
        return output::print_json(&told);
    }
    let then = match called {
        0 => String::new(),
        count => format!(
            "; {} on the way, and will go back unless the brick that takes it votes first: 'ramhold table describe' shows \
             it",
            if count == 1 { "1 tablet is".to_owned() } else { format!("{count} tablets are") }
        ),
    };
    output::print(&format!("no further tablet moves because of {brick}{then}\n"))
}

fn ask(client: &mut Client, message: BrickScale) -> Result<u32, Failure> {
    let BrickScaled { before, obstacle } = client.scale_brick(message)?;
    match obstacle {
        None => Ok(before),
        Some(obstacle) => {
            let exit = if obstacle.kind == ObstacleKind::Unknown { NOT_FOUND } else { REFUSED };
            let text = obstacle::text(&obstacle, message.brick);
            Err(Failure::new(exit, format!("nothing is ordered: {text}")))
        }
    }
}

fn carry_out(
    client: &mut Client,
    (brick, order, table): (ServerId, ScaleOrder, Option<TableId>),
    wait: bool,
    json: bool,
) -> Result<(), Failure> {
    let before = ask(client, BrickScale { brick, order, table })?;
    let is_added = order == ScaleOrder::Add;
    if !wait {
        if json {
            return output::print_json(&json!({ "brick": brick.to_string(), "before": before }));
        }
        let turn = match before {
            0 => String::new(),
            1 => ", after one other order".to_owned(),
            count => format!(", after {count} other orders"),
        };
        let what = if is_added { "gets its share" } else { "gives its tablets to others" };
        return output::print(&format!("{brick} {what}{turn}; 'ramhold status' shows how far it is\n"));
    }
    let (moved, report) = watch(client, brick, json)?;
    if let Some(text) = undone(&report, is_added) {
        return Err(Failure::new(NOT_FOUND, text));
    }
    if json {
        return output::print_json(&json!({
            "brick": brick.to_string(), "moved": moved, "tablets": report.tablets, "used_bytes": report.used_bytes,
        }));
    }
    let tablets =
        if moved == 1 { "1 tablet has moved".to_owned() } else { format!("{moved} tablets have moved") };
    output::print(&match is_added {
        true => format!("{brick} has its share: {tablets}, it holds {}\n", bytes_text(report.used_bytes)),
        false => format!("{brick} holds nothing any more, and may be stopped: {tablets}\n"),
    })
}

/// Waits until nothing is ordered for a brick any more. The tablets that have moved, and the brick's last report.
fn watch(client: &mut Client, brick: ServerId, json: bool) -> Result<(u32, BrickReport), Failure> {
    interrupt::watch()?;
    let mut progress = Progress::new("moving tablets:", json);
    let mut moved = 0;
    loop {
        interrupt::check()?;
        let status = client.cluster_status()?;
        let Some(report) = status.bricks.into_iter().find(|report| report.brick == brick) else {
            return Err(Failure::new(NOT_FOUND, format!("there is no brick {brick} any more")));
        };
        let Some(scaling) = report.scaling else {
            progress.finish();
            return Ok((report.ended.map_or(moved, |ended| ended.moved), report));
        };
        moved = scaling.moved;
        progress.show_text(|| state_text(&report).unwrap_or_default());
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The reason why an order was not carried out, although it is over; none: it was.
fn undone(report: &BrickReport, is_added: bool) -> Option<String> {
    let (brick, what) = (report.brick, if is_added { "add" } else { "remove" });
    let Some(EndedScaling { end, moved }) = report.ended else {
        // The coordinator is of an earlier version, and does not tell.
        let is_done = (report.tablets > 0) == is_added;
        let held = counted(report.tablets);
        return (!is_done)
            .then(|| format!("{brick} holds {held}: the order has ended before; see the coordinator's log"));
    };
    let had = if moved == 1 { "has" } else { "have" };
    let so_far = format!("{} {had} moved because of it", counted(moved));
    match end {
        ScalingEnd::Done => None,
        ScalingEnd::Cancelled => Some(format!(
            "the order to {what} {brick} was cancelled; {so_far}; a tablet on its way goes back, unless it arrives first: \
             'ramhold table describe' shows it"
        )),
        ScalingEnd::Silent => Some(format!(
            "the order to {what} {brick} is over: the brick was silent, and a tablet on its way to it went back; {so_far}; \
             look at the brick, then order it again"
        )),
        ScalingEnd::Replaced => {
            Some(format!("the order to {what} {brick} is over: another brick has taken its place; {so_far}"))
        }
    }
}

/// An order that is carried out for a brick.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// How far it is, and what it waits for.
    pub text: String,
    pub waits: Option<ObstacleKind>,
}

pub fn ordered(report: &BrickReport) -> Option<Ordered> {
    Some(Ordered { text: state_text(report)?, waits: report.waits.map(|waits| waits.kind) })
}

/// The order that is carried out for a brick, in words; none: there is none.
pub fn state_text(report: &BrickReport) -> Option<String> {
    let scaling = report.scaling?;
    let what = match scaling.way {
        ScaleWay::Adding => format!("being added, {} moved here", counted(scaling.moved)),
        ScaleWay::Removing => {
            let all = scaling.moved + report.tablets;
            format!("being removed, {} of {} moved", scaling.moved, counted(all))
        }
    };
    Some(match &report.waits {
        Some(waits) => format!("{what}; {}", waits_text(waits, scaling.way, report.brick)),
        None => what,
    })
}

/// The reason why an order waits, with the way out if it may wait for ever.
fn waits_text(waits: &Obstacle, way: ScaleWay, ordered: ServerId) -> String {
    let reason = obstacle::short(waits, ordered);
    if waits.kind != ObstacleKind::Stalled {
        return reason;
    }
    let command = match way {
        ScaleWay::Adding => "add",
        ScaleWay::Removing => "remove",
    };
    format!("{reason}; 'ramhold brick {command} {ordered} --cancel' calls the tablet back")
}

pub fn state_json(report: &BrickReport) -> Value {
    let Some(scaling) = report.scaling else { return Value::Null };
    json!({
        "way": match scaling.way { ScaleWay::Adding => "adding", ScaleWay::Removing => "removing" },
        "number": scaling.number,
        "moved": scaling.moved,
        "is_auto": scaling.is_auto,
        "waits": report.waits.map(|waits| waits_text(&waits, scaling.way, report.brick)),
    })
}

fn counted(tablets: u32) -> String {
    if tablets == 1 { "1 tablet".to_owned() } else { format!("{tablets} tablets") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::brick::fleet::tests as fleet;
    use std::net::SocketAddr;

    // I7
    #[test]
    fn an_order_that_may_wait_for_ever_names_the_way_out() {
        let waits = |kind| Obstacle { kind, brick: ServerId(4), table: TableId(7) };
        let told = |kind, way| waits_text(&waits(kind), way, ServerId(1));
        assert_eq!(told(ObstacleKind::Rebuilding, ScaleWay::Adding), "waits until s4 votes");
        let stalled = told(ObstacleKind::Stalled, ScaleWay::Removing);
        assert!(
            stalled.starts_with("s4 has come no further for a minute; 'ramhold brick remove s1 --cancel'")
        );
        assert!(told(ObstacleKind::Stalled, ScaleWay::Adding).contains("brick add s1 --cancel"));
    }

    // I7: tablets that a brick holds do not say how its order ended. A cancelled removal holds nothing while its last tablet is
    // on its way, and a cancelled addition holds what has moved before.
    #[test]
    fn an_order_that_was_cancelled_is_not_taken_for_one_that_was_carried_out() {
        let report = |tablets, end: Option<ScalingEnd>| {
            let ended = end.map(|end| EndedScaling { end, moved: 1 });
            BrickReport { tablets, ended, ..fleet::report(4, SocketAddr::from(([127, 0, 0, 1], 1)), (1, 1)) }
        };
        assert_eq!(undone(&report(1, Some(ScalingEnd::Done)), true), None);
        assert_eq!(undone(&report(0, Some(ScalingEnd::Done)), false), None);
        for (is_added, tablets, what) in [(true, 1, "add"), (false, 0, "remove")] {
            let text = undone(&report(tablets, Some(ScalingEnd::Cancelled)), is_added).unwrap_or_default();
            let told = format!("the order to {what} s4 was cancelled; 1 tablet has moved because of it");
            assert!(text.starts_with(&told), "{text}");
        }
        for end in [ScalingEnd::Silent, ScalingEnd::Replaced] {
            assert!(
                undone(&report(1, Some(end)), true).is_some_and(|text| text.contains("is over")),
                "{end:?}"
            );
        }
        // An earlier coordinator.
        assert!(undone(&report(1, None), true).is_none() && undone(&report(0, None), false).is_none());
        assert!(undone(&report(0, None), true).is_some() && undone(&report(1, None), false).is_some());
    }
}
