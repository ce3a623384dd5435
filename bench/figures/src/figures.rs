//! The recoveries behind each figure, the operations behind one, and the papers' own results.

mod copies;
mod course;
mod figure;
mod machines;
mod multiring;
mod placement;
mod scaling;
mod write;

pub use copies::loss;
pub use figure::{Extent, Figure, GB};
pub use scaling::{one, targets};
pub use write::{NAME as WRITE, figure as write};

use figure::MB;

/// All figures that are simulated, in the order of the papers.
pub fn all(extent: Extent) -> Vec<Figure> {
    let mut all = vec![
        machines::replay_of_one_master(extent),
        machines::disks_of_one_master(extent),
        scaling::disks(extent),
        scaling::flash(extent),
        scaling::overhead(extent, 1e3),
        scaling::overhead(extent, 1.2 * MB),
        placement::figure(extent, placement::Devices::Alike),
        placement::figure(extent, placement::Devices::Different),
        scaling::tut15(extent),
        scaling::capacities(extent),
        scaling::now(extent),
    ];
    all.extend(multiring::figures(extent));
    all
}
