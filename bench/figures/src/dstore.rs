//! The figures of DSTORE04: quorum tables on machines like the paper's, in a simulated cluster.
//!
//! Real are the sessions with their windows (core/client), the register (core/quorum), the queues of bricks with their
//! rounds, bounds and statistics (core/brick), the words on the wire, and the detector of bricks that are unlike the others
//! (core/detector). The model is what takes time: processor, spindle, file cache, network (`machines`, `medium`, `cache`).
//! The log and the start of bricks are not there, because a brick of today has all its values in memory, and no medium
//! could slow its reads down.
//!
//! All follows from the seed, so the numbers are the same on every machine.
//!
//! ```text
//!   figures ── world ─┬─ client: real session ── wire ─┐
//!                     └─ brick: queues ── processor ── register ── medium
//! ```
//!
//! Not here: recoveries of ordinary tables (`figures`), real bricks (`cargo xtask bench bricks`). Source: DSTORE04 6 to 8.
//! Catalogue: F11, I1, I5, I6.

mod brick;
mod cache;
mod calendar;
mod client;
mod figures;
mod machines;
mod measure;
mod medium;
mod names;
mod rows;
mod shelf;
mod tablets;
mod words;
mod world;

use crate::table::Table;
use figures::{ALL, COST, LEFT_OUT, Making};

/// The name of these figures.
pub const NAME: &str = "dstore";

/// Whether a figure is wanted: all are if none is named.
fn is_wanted(wanted: &[String], names: &[&str]) -> bool {
    wanted.is_empty() || names.iter().any(|name| wanted.iter().any(|it| it == name))
}

/// Makes figures: their curves, and the table of all rows last. `wanted` are numbers of figures as in the paper, `table1` or
/// `cost`.
pub fn make(wanted: &[String], seed: u64, is_small: bool, threads: usize) -> Result<Vec<Table>, String> {
    let known: Vec<&str> = ALL.iter().flat_map(|(names, _)| names.iter().copied()).chain([COST.0]).collect();
    if let Some(unknown) = wanted.iter().find(|it| !known.contains(&it.as_str())) {
        let left: Vec<String> = LEFT_OUT.iter().map(|(names, why)| format!("{names}: {why}")).collect();
        let (known, left) = (known.join(", "), left.join("; "));
        return Err(format!(
            "there is no figure '{unknown}' of DSTORE04; there are {known}. Left out: {left}"
        ));
    }
    let making = Making { seed, is_small, threads };
    let (mut curves, mut rows) = (Vec::new(), Vec::new());
    let cost: (&[&str], _) = (&[COST.0], COST.1);
    for (names, make) in ALL.iter().copied().chain([cost]) {
        if is_wanted(wanted, names) {
            let begun = std::time::Instant::now();
            let made = make(&making);
            eprintln!("figures: dstore {} in {:.1} s", names.join(", "), begun.elapsed().as_secs_f64());
            curves.extend(made.curves);
            rows.extend(made.rows);
        }
    }
    let mut table = rows::table(&rows);
    table
        .notes
        .push(format!("seed {seed}; the model: bench/figures/src/dstore/machines.rs, medium.rs, cache.rs"));
    if wanted.is_empty() {
        table.notes.extend(LEFT_OUT.iter().map(|(names, why)| format!("Figures {names}: {why}")));
    }
    curves.push(table);
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(wanted: &[&str]) -> Vec<Vec<String>> {
        let wanted: Vec<String> = wanted.iter().map(|it| (*it).to_owned()).collect();
        let tables = make(&wanted, 1, true, 2).expect("there are such figures");
        let rows = &tables.last().expect("the table of rows is the last").rows;
        rows.iter().map(|row| row.iter().map(crate::table::Cell::text).collect()).collect()
    }

    // F11, I1, I5, I6
    #[test]
    fn small_figures_meet_their_criteria_and_are_the_same_each_time() {
        let wanted = ["table1", "9"];
        let first = rows(&wanted);
        let short: Vec<_> = first.iter().filter(|row| row[5] == "falls short").collect();
        assert!(short.is_empty(), "{short:#?}");
        assert!(first.iter().filter(|row| row[5] == "met").count() >= 8, "{first:#?}");
        assert_eq!(rows(&wanted[..1]), first.iter().filter(|row| row[0] != "9").cloned().collect::<Vec<_>>());
        let unknown = make(&["23".to_owned()], 1, true, 1).expect_err("it is a diagram");
        assert!(unknown.contains("there is no figure '23'") && unknown.contains("21"), "{unknown}");
    }
}
