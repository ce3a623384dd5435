//! The figures of SOSP11 and TUT15, and a thousand servers of today, as recoveries of the real code in
//! simulated clusters.
//!
//! Coordinator, backups and recovery masters are those that run on Linux. `core/node` wires them and
//! `testing/world` drives them. The model is the time that their steps, frames and device work take
//! (`charge`). It follows from measured costs (`costs`) on machines as described (`profile`), with logs that
//! are simulated small (`scale`). One figure is of single operations (`alone`).
//!
//! Not here: the time of a recovery on this machine (`ramhold bench recovery`). Catalogue: F11.
//! Sources: SOSP11 4, TUT15 "Recovery Scalability", "Scale and Recovery".

mod alone;
mod asker;
mod charge;
mod costs;
mod dstore;
mod explain;
mod fabric;
mod figures;
mod layout;
mod loader;
mod plot;
mod process;
mod profile;
mod scale;
mod stage;
mod table;

use clap::Parser;
use figures::{Extent, Figure};
use ramhold_base::processor;
use serde_json::json;
use stage::Measured;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use table::Table;

/// Simulate recoveries: the figures of the papers, and a thousand servers of today.
#[derive(Parser, Debug)]
#[command(name = "figures")]
struct Arguments {
    /// Fewer points and runs, without the thousand servers: a minute or two.
    #[arg(long)]
    quick: bool,
    /// The least that shows that every figure can be made.
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// Make only these figures: fig06 to fig12, tut15, tut15-scale, now, multiring-small, multiring-large, write, dstore.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Make only these figures of `dstore`, those of DSTORE04: 7, 7-sizes, 8 to 16, table1, cost.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    figure: Vec<String>,
    /// The seed of `dstore`'s clients.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory to write tables (CSV, figures.json) and pictures (SVG) to [default: print tables only]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Print tables as in docs/measurements/simulated-clusters.md.
    #[arg(long)]
    markdown: bool,
    /// Explain one recovery only: number of servers of profile 2026, gigabytes on the dead server, and number
    /// of segments that are simulated as one.
    #[arg(long, value_name = "SERVERS:GB[:GRAIN]", conflicts_with_all = ["only", "into"])]
    one: Option<String>,
    /// Only measure the cost of encoding and decoding messages on this machine (bench/figures/src/costs.rs).
    #[arg(long)]
    costs: bool,
    /// Print where the time of each recovery goes: its steps, and the work of processors and ports.
    #[arg(long)]
    explain: bool,
    /// Recoveries that are simulated in parallel.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cap = std::env::var_os(processor::VARIABLE);
    let path = processor::limit(cap.as_deref()).map_err(|refused| refused.to_string());
    match path.and_then(|_| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let extent = match (arguments.smoke, arguments.quick) {
        (true, _) => Extent::Smoke,
        (false, true) => Extent::Quick,
        (false, false) => Extent::Whole,
    };
    if arguments.costs {
        print!("{}", costs::measure());
        return Ok(());
    }
    if let Some(one) = &arguments.one {
        let plan = figures::one(one).ok_or_else(|| {
            format!(
                "'{one}' is not SERVERS:GB or SERVERS:GB:GRAIN with at least 4 servers, such as 1000:64:16"
            )
        })?;
        let measured = plan.measure();
        println!("{}", plan.profile);
        println!("{:.3} s, computed in {:.1} s", measured.recovery, measured.wall.as_secs_f64());
        print!("{}", explain::text(&plan, &measured));
        return Ok(());
    }
    let is_wanted = |name: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|only| name.starts_with(only.as_str()))
    };
    let mut all = figures::all(extent);
    let known: Vec<&str> =
        all.iter().map(|figure| figure.name).chain(["fig12", figures::WRITE, dstore::NAME]).collect();
    if let Some(unknown) =
        arguments.only.iter().find(|only| !known.iter().any(|name| name.starts_with(only.as_str())))
    {
        return Err(format!("there is no figure '{unknown}'; the figures are {}", known.join(", ")));
    }
    all.retain(|figure| is_wanted(figure.name));
    let begun = std::time::Instant::now();
    let mut tables = make(&all, usize::from(arguments.threads), arguments.explain);
    if is_wanted("fig12") {
        match std::env::var("RAMHOLD_BIN") {
            Ok(program) => tables.push(figures::loss(&program)?),
            Err(_) => {
                eprintln!("figures: fig12 is left out: RAMHOLD_BIN does not say which program works it out")
            }
        }
    }
    if is_wanted(figures::WRITE) {
        tables.push(figures::write(extent));
    }
    if is_wanted(dstore::NAME) {
        let is_small = extent != Extent::Whole;
        tables.extend(dstore::make(
            &arguments.figure,
            arguments.seed,
            is_small,
            usize::from(arguments.threads),
        )?);
    } else if !arguments.figure.is_empty() {
        return Err("--figure chooses among the figures of --only dstore".into());
    }
    let targets = figures::targets(&tables);
    if !targets.rows.is_empty() {
        tables.push(targets);
    }
    for table in &tables {
        if arguments.markdown {
            println!("{}: {}\n\n{}", table.name, table.title, table.markdown());
        } else {
            println!("{}", table.text());
        }
    }
    eprintln!("figures: {:.0} s", begun.elapsed().as_secs_f64());
    arguments.into.as_ref().map_or(Ok(()), |into| write(into, &tables).map_err(|error| error.to_string()))
}

fn write(into: &std::path::Path, tables: &[Table]) -> std::io::Result<()> {
    std::fs::create_dir_all(into)?;
    for table in tables {
        std::fs::write(into.join(format!("{}.csv", table.name)), table.csv())?;
        if !table.y.is_empty() {
            std::fs::write(into.join(format!("{}.svg", table.name)), plot::draw(table))?;
        }
    }
    let all: Vec<_> = tables.iter().map(Table::json).collect();
    std::fs::write(into.join("figures.json"), format!("{:#}\n", json!(all)))
}

/// Measures all recoveries of all figures, some side by side; each is a world of its own.
fn make(all: &[Figure], threads: usize, explain: bool) -> Vec<Table> {
    let plans: Vec<_> = all.iter().flat_map(|figure| &figure.plans).cloned().collect();
    // The large ones first, so that no thread is left with a large one at the end.
    let mut order: Vec<usize> = (0..plans.len()).collect();
    order.sort_by_key(|index| plans[*index].masters * plans[*index].backups);
    let order = Mutex::new(order);
    // Held while a recovery is simulated that needs much memory.
    let large = Mutex::new(());
    let results: Mutex<Vec<Option<Measured>>> = Mutex::new(vec![None; plans.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = order.lock().expect("nobody panics with it").pop();
                    let Some(index) = next else { return };
                    let plan = &plans[index];
                    let alone = plan.is_large().then(|| large.lock().expect("nobody panics with it"));
                    let measured = plan.measure();
                    drop(alone);
                    eprintln!(
                        "figures: {} masters, {} backups, {:.1} GB, {} partitions: {:.3} s, computed in {:.1} s, {} steps",
                        plan.masters,
                        plan.backups,
                        plan.data / figures::GB,
                        measured.partitions,
                        measured.recovery,
                        measured.wall.as_secs_f64(),
                        measured.steps
                    );
                    if explain {
                        eprint!("{}", explain::text(plan, &measured));
                    }
                    results.lock().expect("nobody panics with it")[index] = Some(measured);
                }
            });
        }
    });
    let mut results: Vec<Measured> =
        results.into_inner().expect("nobody panics with it").into_iter().flatten().collect();
    assert_eq!(results.len(), plans.len(), "every plan was measured");
    let mut tables = Vec::new();
    for figure in all {
        let rest = results.split_off(figure.plans.len());
        tables.push((figure.tell)(&results));
        results = rest;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    // F11
    #[test]
    fn every_figure_can_be_made() {
        let all = figures::all(Extent::Smoke);
        let mut tables = make(&all, 2, true);
        assert_eq!(tables.len(), all.len());
        tables.push(figures::write(Extent::Smoke));
        for table in &tables {
            assert!(!table.rows.is_empty() && !table.notes.is_empty(), "{}", table.name);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.text());
            assert!(table.y.is_empty() || plot::draw(table).contains("<circle"), "{}", table.name);
        }
        assert_eq!(
            figures::targets(&tables).rows.len(),
            6,
            "placement, neighbourhoods and writes are measured by the smallest extent too"
        );
    }
}
