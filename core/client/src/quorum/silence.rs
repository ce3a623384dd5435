//! The bricks from which an operation has no answer, and why.

use crate::bricks::Bricks;
use crate::trouble::{Trouble, What, Who};
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
