//! Histories of real client processes, judged by an independent checker.
//!
//! The checker is a separate program in testing/checker, in Go. Without Go nothing can be judged.

use crate::building::build_quietly;
use crate::shell::{Failure, Step, built, is_installed};

/// The run of CI, within a minute.
const TEST: &[&str] = &["--kills", "8", "--seconds", "20"];
/// Until read leases were built, servers that were stopped or cut off could still answer reads with old data.
/// `true`: read leases are built.
const HAS_READ_LEASES: bool = true;
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

/// The checker's own tests, and a short run. False: it was skipped.
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

/// The built checker, for programs that judge histories if they can; none: Go is not installed.
pub fn checker() -> Result<Option<String>, Failure> {
    if !is_installed("go") {
        return Ok(None);
    }
    build_checker()?;
    Ok(Some(built("checker")))
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
