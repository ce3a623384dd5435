//! The figures of DSTORE04, each with its rows.

mod detecting;
mod failing;
mod hot_spot;
mod making;
mod scaling;
mod steady;

use super::rows::Made;
pub use making::Making;

type Make = fn(&Making) -> Made;

/// The names by which figures are asked for, and what makes them.
pub const ALL: [(&[&str], Make); 12] = [
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
    (&["21"], hot_spot::fig21),
    (&["22"], scaling::fig22),
];

/// The cost model of 6.3.2 is no figure.
pub const COST: (&str, Make) = ("cost", failing::cost);

/// Figures that are not made, and why.
pub const LEFT_OUT: [(&str, &str); 1] = [(
    "17, 18",
    "counted with real processes: `cargo xtask bench bricks --only scaling` tells what is copied",
)];
