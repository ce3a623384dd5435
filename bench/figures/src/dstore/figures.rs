//! The figures of DSTORE04, each with its rows.

mod detecting;
mod failing;
mod making;
mod scaling;
mod steady;

use super::rows::Made;
pub use making::Making;

type Make = fn(&Making) -> Made;

/// The names by which figures are asked for, and what makes them.
pub const ALL: [(&[&str], Make); 11] = [
    (&["table1"], steady::table1),
    (&["7"], steady::fig07),
    (&["7'", "7-sizes"], steady::fig07_sizes),
    (&["8"], steady::fig08),
    (&["9"], failing::fig09),
    (&["10", "10a", "10b"], failing::fig10),
    (&["11", "12", "13"], failing::fig11_to_13),
    (&["14", "15", "16"], detecting::fig14_to_16),
    (&["19"], scaling::fig19),
    (&["20"], scaling::fig20),
    (&["22"], scaling::fig22),
];

/// The cost model of 6.3.2 is no figure.
pub const COST: (&str, Make) = ("cost", failing::cost);

/// Figures that are not made, and why.
pub const LEFT_OUT: [(&str, &str); 2] = [
    ("17, 18", "not drawn yet: what a join of tablets reads is not counted"),
    ("21", "not drawn yet: the hot spot needs a plan by load"),
];
