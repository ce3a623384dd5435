//! Plants each defect in turn and runs seeds until one of them fails.
//!
//! A defect that is never found shows a rule that no test would miss, or a hole in the tests. Either has to
//! be dealt with.
//!
//! Catalogue: J2, J3. Defects: ramhold_base::planted.

use crate::{Arguments, Which, run_seed, trouble};
use ramhold_base::planted::{Defect, plant};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The way in which a defect was found.
struct Found {
    seed: u64,
    why: String,
}

/// Plants every defect, or the named one. Succeeds when each is found, or when the results are written to a
/// file.
pub fn run(which: &Which, arguments: &Arguments) -> ExitCode {
    // A machine that stops at an assertion counts as found. Its backtrace is not needed.
    std::panic::set_hook(Box::new(|_| {}));
    let is_meant =
        |defect: &&Defect| arguments.defect.as_ref().is_none_or(|name| format!("{defect:?}") == *name);
    let defects: Vec<Defect> = Defect::ALL.iter().filter(is_meant).copied().collect();
    if defects.is_empty() {
        println!("there is no such defect; there are {:?}", Defect::ALL);
        return ExitCode::from(2);
    }
    let begun = Instant::now();
    let mut missed = 0;
    let mut results = String::new();
    for defect in &defects {
        let from = Instant::now();
        if arguments.except.contains(&format!("{defect:?}")) {
            println!("{:<24} left to its test", format!("{defect:?}"));
            results += &format!("{defect:?}\n");
            continue;
        }
        match find(which, *defect, arguments) {
            Some(Found { seed, why }) => {
                let runs = seed - arguments.seeds.start + 1;
                results += &format!("{defect:?} {runs}\n");
                println!(
                    "{:<24} found after {runs:>3} seeds, {:>5.1} s: {why}",
                    format!("{defect:?}"),
                    from.elapsed().as_secs_f64()
                );
            }
            None => {
                println!("{:<24} NOT FOUND in seeds {:?}", format!("{defect:?}"), arguments.seeds);
                results += &format!("{defect:?}\n");
                missed += 1;
            }
        }
    }
    plant(None);
    println!(
        "{} of {} defects found in {:.0} s",
        defects.len() - missed,
        defects.len(),
        begun.elapsed().as_secs_f64()
    );
    if let Some(path) = &arguments.results {
        if let Err(error) = std::fs::write(path, results) {
            println!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    } else if missed > 0 {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

/// Runs seeds on all processors until one finds the defect.
fn find(which: &Which, defect: Defect, arguments: &Arguments) -> Option<Found> {
    plant(Some(defect));
    let next = AtomicU64::new(arguments.seeds.start);
    let first: Mutex<Option<Found>> = Mutex::new(None);
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_found = || first.lock().expect("nobody panics with it").is_some();
            if seed >= arguments.seeds.end || is_found() {
                return;
            }
            let why = match run_seed(which, seed, arguments.seconds, false) {
                Ok(report) => trouble(&report),
                Err(panic) => Some(panic),
            };
            let Some(why) = why else { continue };
            let line: String = why.lines().next().unwrap_or_default().chars().take(110).collect();
            let mut first = first.lock().expect("nobody panics with it");
            if first.as_ref().is_none_or(|found| seed < found.seed) {
                *first = Some(Found { seed, why: line });
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    first.into_inner().expect("nobody panics with it")
}
