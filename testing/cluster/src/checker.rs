//! The independent checker, a separate program (testing/checker, in Go) that reads the histories and judges
//! them.

use crate::history::CLIENTS_PER_PROCESS;
use crate::waiting::Failure;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const EXIT_GOOD: i32 = 0;
const EXIT_VIOLATION: i32 = 1;

/// Mistakes that are made on purpose in a copy of each history, one of these per run. Each fits into any
/// history with writes and reads.
const MISTAKES: [&str; 4] = ["stale read", "lost last write", "doubled write", "failed and carried out"];

#[derive(Clone, Debug)]
pub struct Checker {
    pub program: PathBuf,
    /// The time limit of the search. A history that is undecided by then is a failure.
    pub within: Duration,
}

/// The checker's own last line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Verdict {
    pub operations: u64,
    pub ok: u64,
    pub refused: u64,
    pub failed: u64,
    pub unknown: u64,
    pub keys: u64,
    pub violations: Vec<Violation>,
    pub undecided: u64,
    /// Kinds of mistakes that were made in copies and found. A missed mistake is an error of the checker.
    pub mistakes_found: u64,
}

/// A key whose history no order explains, and the client whose answer it was.
#[derive(Clone, Debug, Deserialize)]
pub struct Violation {
    pub key: String,
    pub client: u64,
}

impl Verdict {
    /// The violations by answers to clients of this process.
    pub fn of_process(&self, process: u64) -> u64 {
        let is_one = |violation: &&Violation| violation.client / CLIENTS_PER_PROCESS == process;
        self.violations.iter().filter(is_one).count() as u64
    }

    /// Whether every key is linearizable, and enough was carried out to say so.
    pub fn is_good(&self) -> bool {
        let is_enough = 10 * self.ok >= 6 * self.operations && self.operations > 0;
        self.violations.is_empty() && self.undecided == 0 && is_enough
    }
}

impl Checker {
    /// Judges a history, and tests itself with copies that are wrong. Prints its findings.
    pub fn judge(&self, files: &[PathBuf], evidence: &Path, seed: u64) -> Result<Verdict, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["-json", "-mistakes", "-within", &format!("{}s", self.within.as_secs())]);
        command.args(["-seed", &(seed >> 1).to_string(), "-evidence"]).arg(evidence).args(files);
        let (code, printed) = run(&mut command)?;
        let (told, last) = printed.trim_end().rsplit_once('\n').unwrap_or(("", printed.trim_end()));
        println!("{told}");
        let verdict: Verdict = serde_json::from_str(last)
            .map_err(|error| Failure(format!("the checker ended with {code}: {error}: {last}")))?;
        let is_explained = match code {
            EXIT_GOOD => verdict.violations.is_empty() && verdict.undecided == 0,
            _ => !verdict.violations.is_empty() || verdict.undecided > 0,
        };
        if !is_explained {
            return Err(Failure(format!("the checker ended with {code}, see above")));
        }
        Ok(verdict)
    }

    /// Writes a wrong copy of the history, and demands that it is rejected. Returns the kind of mistake.
    pub fn rejects_spoiled(
        &self,
        files: &[PathBuf],
        copy: &Path,
        seed: u64,
    ) -> Result<&'static str, Failure> {
        let mistake = MISTAKES[usize::try_from(seed % 4).expect("below four")];
        let mut command = Command::new(&self.program);
        command.args(["-seed", &(seed >> 1).to_string(), "-spoil", mistake, "-out"]).arg(copy).args(files);
        let (code, _) = run(&mut command)?;
        if code != EXIT_GOOD {
            return Err(Failure(format!("no spoiled copy could be made: the checker ended with {code}")));
        }
        let mut command = Command::new(&self.program);
        let (code, printed) = run(command.args(["-within", "600s"]).arg(copy))?;
        if code != EXIT_VIOLATION || !printed.contains("VIOLATION") {
            return Err(Failure(format!(
                "a copy with a '{mistake}' in it was not rejected: {code}: {printed}"
            )));
        }
        Ok(mistake)
    }
}

fn run(command: &mut Command) -> Result<(i32, String), Failure> {
    let output = command.output().map_err(|error| Failure(format!("{command:?}: {error}")))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !complaints.is_empty() {
        eprintln!("{}", complaints.trim_end());
    }
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned()))
}
