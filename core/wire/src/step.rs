//! The values that one step of a role works with: the time, the view of the cluster, and the place for
//! effects.
//!
//! A step is lent down the calls of a role, instead of three parameters each.
//!
//! Not here: the parts that a step works on; each owns its state.

use crate::View;
use ramhold_base::{Effects, Instant};

pub struct Step<'a> {
    /// When the step began. All of the step sees this one moment.
    pub now: Instant,
    pub view: &'a View,
    pub effects: &'a mut Effects,
}
