//! Builds the programs of the workspace that the other commands run.

use crate::shell::{Failure, Step};

/// Builds all programs, as a step that is told.
pub fn build() -> Result<(), Failure> {
    Step::new("build").cargo(&["build", "--quiet", "--release", "--workspace", "--bins"]).run()
}

/// Builds all programs.
pub fn build_quietly() -> Result<(), Failure> {
    Step::new("build").cargo(&["build", "--release", "--workspace", "--bins"]).quiet().run()
}
