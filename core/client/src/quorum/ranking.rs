//! The order in which bricks are asked.
//!
//! The brick that is asked for the value is the one whose window for gets is the least used. The others follow by their
//! windows for stamps. Bricks that are equal take turns. A session with a zone asks a brick of its zone for the value,
//! unless that brick's window is full, or fuller than another's by more than `ZONE_MARGIN`: with any smaller difference as
//! a reason, a session with a few questions under way would send half of them out of its zone.
//!
//! Not here: how many bricks are asked (core/quorum). Protocol: docs/protocols/quorum.md, rules 21, 39. Catalogue: I5.

use super::flow::Flow;
use super::health::Health;
use crate::bricks::Bricks;
use ramhold_base::{Instant, ServerId};
use ramhold_quorum::{BrickId, Class, FULL};

/// A brick of the session's zone may be fuller than others by this much of its window.
const ZONE_MARGIN: u64 = FULL / 2;

/// The bricks of a key in the order in which they are asked. `turn` rises with each operation.
pub fn ranked(
    now: Instant,
    bricks: &Bricks,
    (turn, zone): (u64, Option<&str>),
    (health, flow): (&Health, &Flow),
) -> Vec<BrickId> {
    let mut ranked: Vec<ServerId> = bricks.places.iter().map(|place| place.brick).collect();
    let count = ranked.len();
    ranked.rotate_left(remainder(turn, count));
    let standing = |brick: ServerId, class: Class| {
        (health.goes_last(now, brick, class), !flow.is_open(brick, class), flow.utilisation(brick, class))
    };
    let of_value = |brick: ServerId| {
        let (goes_last, is_full, used) = standing(brick, Class::Get);
        let is_near = zone.is_some_and(|zone| bricks.is_in(brick, zone));
        // Others count as fuller by the margin.
        let margin = if zone.is_some() && !is_near { ZONE_MARGIN } else { 0 };
        (goes_last, is_full, used + margin)
    };
    let best = ranked.iter().map(|brick| of_value(*brick)).min().expect("a key has bricks");
    let equal = || (0..count).filter(|at| of_value(ranked[*at]) == best);
    // The rotation alone would give the turns of those that are left out to their neighbours.
    let first = match equal().count() {
        all if all == count => 0,
        some => equal().nth(remainder(scattered(turn), some)).expect("it is below their number"),
    };
    ranked[..=first].rotate_right(1);
    ranked[1..].sort_by_key(|brick| standing(*brick, Class::Stamp));
    ranked.into_iter().map(|brick| BrickId(brick.raw())).collect()
}

fn remainder(number: u64, count: usize) -> usize {
    usize::try_from(number % count as u64).expect("below the number of bricks")
}

/// A number that has no pattern in common with those of neighbouring turns.
fn scattered(turn: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
