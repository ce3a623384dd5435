//! Histories of real client processes, judged by an independent checker.
//!
//! The checker is a program of its own in testing/checker, in Go; without Go there is nothing to judge with.

use crate::shell::{Failure, Step, built, is_installed};
use crate::suite::build_quietly;

/// What CI runs, within a minute.
const TEST: &[&str] = &["--kills", "8", "--seconds", "20"];
/// Servers that are stopped or cut off may still answer reads with old data until read leases are built; then this is
/// to be `true`.
const HAS_READ_LEASES: bool = false;
const TEST_WITH_LEASES: &[&str] = &["--stops", "4", "--cuts", "4"];

const CHECKER: &str = "testing/checker";
pub const SKIPPED: &str = "histories and their checker: go is not installed";

pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if !is_installed("go") {
        return Err(Failure(
            "the checker of histories needs Go 1.19 or newer ('go' on the search path)".into(),
        ));
    }
    build_quietly()?;
    build_checker()?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    play(&arguments)
}

/// The checker's own tests, and a short run; false: it was skipped.
pub fn test() -> Result<bool, Failure> {
    if !is_installed("go") {
        return Ok(false);
    }
    Step::new("checker of histories: tests").program("go", &["vet", "./..."]).within(CHECKER).run()?;
    Step::new("checker of histories: tests").program("go", &["test", "./..."]).within(CHECKER).run()?;
    build_checker()?;
    let more = if HAS_READ_LEASES { TEST_WITH_LEASES } else { &[] };
    play(&[TEST, more].concat())?;
    Ok(true)
}

fn build_checker() -> Result<(), Failure> {
    let output = built("checker");
    Step::new("checker of histories")
        .program("go", &["build", "-o", &output, "."])
        .within(CHECKER)
        .quiet()
        .run()
}

fn play(arguments: &[&str]) -> Result<(), Failure> {
    Step::new(&format!("histories {}", arguments.join(" ")))
        .program(built("ramhold-histories"), arguments)
        .env("RAMHOLD_BIN", &built("ramhold"))
        .env("RAMHOLD_CHECKER", &built("checker"))
        .run()
}
