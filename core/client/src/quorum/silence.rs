//! The bricks from which an operation has no answer, and why.

use crate::bricks::Bricks;
use crate::trouble::{Trouble, What, Who};
use ramhold_base::Status;
use ramhold_quorum::BrickId;
use std::collections::BTreeMap;

/// The last trouble with each brick that has had no answer since.
#[derive(Default)]
pub struct Silence {
    troubles: BTreeMap<BrickId, What>,
}

impl Silence {
    pub fn heard(&mut self, brick: BrickId) {
        self.troubles.remove(&brick);
    }

    pub fn note(&mut self, brick: BrickId, what: What) {
        self.troubles.insert(brick, what);
    }

    /// Whether bricks deny the table that must have had it: one that was made is at max(W, R) bricks of each tablet.
    pub fn denies_table(&self, bricks: &Bricks) -> bool {
        let is_denial = |what: &&What| **what == What::Answered(Status::UnknownTable);
        let thresholds = bricks.thresholds;
        let may_lack_it = thresholds.bricks() - thresholds.write().max(thresholds.read());
        self.troubles.values().filter(is_denial).count() > may_lack_it
    }

    /// The status of an operation of which so many bricks must answer, and these were silent. With so many of them
    /// overloaded, or without memory, that the others are too few, this is the reason.
    pub fn status(&self, bricks: &Bricks, silent: &[BrickId], needed: usize) -> Status {
        let count = |is_it: fn(&What) -> bool| {
            silent.iter().filter(|brick| self.troubles.get(brick).is_some_and(is_it)).count()
        };
        let overloaded = count(|what| matches!(what, What::WindowFull | What::Answered(Status::TooMany)));
        let full = count(|what| *what == What::Answered(Status::OutOfMemory));
        let is_reason = |count: usize| count + needed > bricks.thresholds.bricks();
        if is_reason(overloaded) {
            Status::TooMany
        } else if full > 0 && is_reason(overloaded + full) {
            Status::OutOfMemory
        } else {
            Status::NoQuorum
        }
    }

    /// That too few of some bricks have answered, with the silent ones by name. `of`: what they are bricks of.
    pub fn text(&self, bricks: &Bricks, silent: &[BrickId], (of, needed): (&str, usize)) -> String {
        let all = bricks.thresholds.bricks();
        let mut text =
            format!("{} of the {of}'s {all} bricks answered, {needed} must", all - silent.len().min(all));
        for place in bricks.places.iter().filter(|it| silent.contains(&BrickId(it.brick.raw()))) {
            let what = self.troubles.get(&BrickId(place.brick.raw())).copied().unwrap_or(What::Silent);
            let trouble = Trouble { who: Who::Brick(place.brick), addr: place.address.0, what };
            text.push_str(&format!("; {trouble}"));
        }
        text
    }
}
