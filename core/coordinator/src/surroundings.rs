//! The other parts of the coordinator as far as recoveries look at them.

use crate::drops::Drops;
use crate::links::Links;

/// What recoveries have to know of other parts.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub links: &'a Links,
    pub drops: &'a Drops,
    /// The servers of the old list are still being looked at.
    pub is_starting: bool,
}
