//! Restarts of one brick, and of all of them in turn.

use super::fleet::Fleet;
use crate::failure::{Failure, NOT_FOUND};
use crate::global::Global;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use ramhold_client::{Client, ServerId};
use serde_json::json;
use std::time::{Duration, Instant};

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

pub fn one(global: &Global, brick: ServerId, force: bool, within: Duration) -> Result<(), Failure> {
    let mut client = global.connect()?;
    interrupt::watch()?;
    let fleet = Fleet::of(&mut client)?;
    fleet.find(brick)?;
    if !force && let Some(trouble) = fleet.trouble_beside(brick) {
        return Err(Failure::new(
            NOT_FOUND,
            format!("nothing is restarted: {trouble}; wait until it votes, or give --force"),
        ));
    }
    let mut progress = Progress::new("restarting", global.json);
    let (life, time) = restart(&fleet, brick, within, &mut progress)?;
    progress.finish();
    if global.json {
        output::print_json(&json!({
            "brick": brick.to_string(),
            "ended_life": life,
            "millis": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }))
    } else {
        output::print(&format!(
            "{brick} votes again, {:.1} s after its restart was asked for\n",
            time.as_secs_f64()
        ))
    }
}

pub fn all(global: &Global, interval: Duration, within: Duration) -> Result<(), Failure> {
    let mut client = global.connect()?;
    interrupt::watch()?;
    let (bricks, left_out) = Fleet::of(&mut client)?.to_restart()?;
    if bricks.is_empty() && left_out.is_empty() {
        return Err(Failure::new(
            NOT_FOUND,
            "the cluster has no bricks; start some with 'ramhold supervise'",
        ));
    }
    let mut progress = Progress::new("rolling restart:", global.json);
    let left_out: Vec<String> = left_out.iter().map(ServerId::to_string).collect();
    if !left_out.is_empty() && !global.json {
        progress
            .tell(&format!("left out, since without tablets and without an answer: {}", left_out.join(", ")));
    }
    let mut done = Vec::new();
    for (index, brick) in bricks.iter().enumerate() {
        if index > 0 {
            pause(interval)?;
        }
        let fleet = whole(&mut client, *brick, within, &mut progress)?;
        let (life, time) = restart(&fleet, *brick, within, &mut progress)?;
        let (number, count) = (index + 1, bricks.len());
        let text = format!("{number} of {count}: {brick} votes again after {:.1} s", time.as_secs_f64());
        if !global.json {
            progress.tell(&text);
        }
        done.push(json!({ "brick": brick.to_string(), "ended_life": life }));
    }
    progress.finish();
    if global.json {
        output::print_json(&json!({ "restarted": done, "left_out": left_out }))
    } else {
        let bricks = if bricks.len() == 1 {
            "1 brick was".to_owned()
        } else {
            format!("{} bricks were", bricks.len())
        };
        let left_out = match left_out.len() {
            0 => String::new(),
            _ => format!("; {} left out: 'ramhold brick forget' removes what is gone", left_out.join(", ")),
        };
        output::print(&format!("{bricks} restarted, one at a time{left_out}\n"))
    }
}

/// Waits until all bricks of the brick's tablets vote, the brick itself included.
fn whole(
    client: &mut Client,
    brick: ServerId,
    within: Duration,
    progress: &mut Progress,
) -> Result<Fleet, Failure> {
    let began = Instant::now();
    loop {
        interrupt::check()?;
        let fleet = Fleet::of(client)?;
        fleet.find(brick)?;
        let Some(trouble) = fleet.trouble_beside(brick).or_else(|| fleet.trouble_now(brick)) else {
            return Ok(fleet);
        };
        if began.elapsed() >= within {
            let text = format!("{brick} is not restarted, and those after it neither: {trouble}");
            return Err(Failure::new(NOT_FOUND, text));
        }
        progress.show_text(|| format!("paused, {trouble}"));
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Has a brick restarted, and waits until it votes again. The life that has ended, and how long it took.
fn restart(
    fleet: &Fleet,
    brick: ServerId,
    within: Duration,
    progress: &mut Progress,
) -> Result<(u64, Duration), Failure> {
    let began = Instant::now();
    let life = fleet.restart(brick)?;
    loop {
        interrupt::check()?;
        let Some(trouble) = fleet.trouble_of(brick, life) else { return Ok((life, began.elapsed())) };
        if began.elapsed() >= within {
            let text = format!("{trouble}, {} s after its restart; look at its log", within.as_secs());
            return Err(Failure::new(NOT_FOUND, text));
        }
        progress.show_text(|| trouble);
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn pause(interval: Duration) -> Result<(), Failure> {
    let end = Instant::now() + interval;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        std::thread::sleep(left.min(LOOK_INTERVAL));
    }
    Ok(())
}
