//! Makes an episode shorter as long as its replies still differ.

use crate::differences::Differences;
use crate::episode::{Found, Tally, play};
use crate::generate::{Ground, all_keys};
use crate::link::Servers;
use crate::step::{Step, name};
use std::io;

/// The most episodes that are played to make one shorter.
const TRIES_MAX: usize = 400;

/// A short episode that differs, with the place of the difference.
pub fn shrink(
    servers: Servers,
    ground: &Ground,
    steps: Vec<Step>,
    found: Found,
    differences: &Differences,
) -> io::Result<(Vec<Step>, Found)> {
    let mut tries = 0;
    let name_at_first = steps.get(found.at).map(Step::name);
    // Whether it still differs, and in the same command.
    let mut differs = |steps: &[Step]| -> io::Result<Option<(Vec<Step>, Found)>> {
        tries += 1;
        if tries > TRIES_MAX {
            return Ok(None);
        }
        let found = play(servers, ground, steps, differences, &mut Tally::default())?;
        let is_the_same = |found: &Found| steps.get(found.at).map(Step::name) == name_at_first;
        Ok(found.filter(is_the_same).map(|found| (steps.to_vec(), found)))
    };
    let mut best = (steps, found);
    // A difference that does not come again cannot be made shorter. The episode is shown whole.
    match differs(&best.0)? {
        Some(again) => best = again,
        None => return Ok(best),
    }
    for shorter in [best.0[..=best.1.at].to_vec(), of_the_same_keys(&best.0, best.1.at)] {
        if let Some(shorter) = differs(&shorter)? {
            best = shorter;
        }
    }
    let mut piece = best.0.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.0.len() {
            let end = (at + piece).min(best.0.len());
            let without = [&best.0[..at], &best.0[end..]].concat();
            match differs(&without)? {
                Some(shorter) => best = shorter,
                None => at = end,
            }
        }
        piece /= 2;
    }
    Ok(best)
}

/// The steps that mention a key of the step at this place, or are about the connection.
fn of_the_same_keys(steps: &[Step], at: usize) -> Vec<Step> {
    let keys: Vec<Vec<u8>> = all_keys().into_iter().filter(|key| steps[at].mentions(key)).collect();
    if keys.is_empty() {
        return steps.to_vec();
    }
    let is_of_connection = |step: &Step| {
        let Step::Command(command) = step else { return false };
        matches!(
            name(command).as_str(),
            "HELLO"
                | "SELECT"
                | "MULTI"
                | "EXEC"
                | "DISCARD"
                | "WATCH"
                | "UNWATCH"
                | "RESET"
                | "FLUSHDB"
                | "FLUSHALL"
        )
    };
    steps
        .iter()
        .filter(|step| is_of_connection(step) || keys.iter().any(|key| step.mentions(key)))
        .cloned()
        .collect()
}
