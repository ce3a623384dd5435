//! What one step of a role has at hand: the time, what is known of the cluster, and where its effects go.
//!
//! A step is lent down the calls of a role, instead of three parameters each.
//!
//! Not here: the parts that a step works on; each owns its state.

use crate::View;
use ramhold_base::{Effects, Instant};

pub struct Step<'a> {
    /// When the step began: one moment for all of it.
    pub now: Instant,
    pub view: &'a View,
    pub effects: &'a mut Effects,
}
