//! Chooses an implementation by the processor's features: the only place that asks for them.
//!
//! Checksums and large copies have several implementations, one for each `Level`. Each level needs all
//! features that the level before needs. A `Path` is a level that this processor can run. Code that needs
//! special instructions asks for a `Path` and thereby has the proof.
//!
//! The choice is made at the first use and kept. It is the best level of this processor, unless the program
//! was told another one (`limit`), as `RAMHOLD_CPU` does in tests and while looking for an error. All levels
//! give the same results.
//!
//! Not here: reading the environment, which the core may not do. Every program hands the variable over when
//! it starts.

use std::ffi::OsStr;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable whose value programs hand to `limit`.
pub const VARIABLE: &str = "RAMHOLD_CPU";

/// Sets of processor features, each a superset of the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing beyond what every processor of this architecture has.
    Baseline,
    /// CRC32C of eight bytes in one instruction, and carry-less products.
    Sse42,
    /// Writes of whole lines of 64 bytes.
    Avx512,
    /// Four carry-less products at once.
    Vpclmulqdq,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::Baseline, Level::Sse42, Level::Avx512, Level::Vpclmulqdq];

    /// The value of `RAMHOLD_CPU` that chooses this level.
    pub fn name(self) -> &'static str {
        match self {
            Level::Baseline => "baseline",
            Level::Sse42 => "sse4.2",
            Level::Avx512 => "avx512",
            Level::Vpclmulqdq => "vpclmulqdq",
        }
    }

    /// The processor features that this level needs, and whether they are here. The features of the level
    /// before come first.
    fn needs(self) -> &'static [Feature] {
        #[cfg(target_arch = "x86_64")]
        const ALL: &[Feature] = &[
            ("sse4.2", || std::arch::is_x86_feature_detected!("sse4.2")),
            ("pclmulqdq", || std::arch::is_x86_feature_detected!("pclmulqdq")),
            ("avx512f", || std::arch::is_x86_feature_detected!("avx512f")),
            ("vpclmulqdq", || std::arch::is_x86_feature_detected!("vpclmulqdq")),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        const ALL: &[Feature] = &[("x86-64", || false); 4];
        match self {
            Level::Baseline => &[],
            Level::Sse42 => &ALL[..2],
            Level::Avx512 => &ALL[..3],
            Level::Vpclmulqdq => ALL,
        }
    }

    /// The features that this level needs and that this processor lacks.
    pub fn lacks(self) -> Vec<&'static str> {
        self.needs().iter().filter(|(_, is_here)| !is_here()).map(|(name, _)| *name).collect()
    }
}

/// A level that this processor can run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path(Level);

/// An instruction set extension: its name, and whether this processor has it.
type Feature = (&'static str, fn() -> bool);

impl Path {
    /// The path of this level; none if the processor lacks a feature that it needs.
    pub fn of(level: Level) -> Option<Path> {
        level.needs().iter().all(|(_, is_here)| is_here()).then_some(Path(level))
    }

    /// All paths of this processor; the portable one comes first.
    pub fn all_here() -> impl Iterator<Item = Path> {
        Level::ALL.into_iter().filter_map(Path::of)
    }

    #[inline]
    pub fn level(self) -> Level {
        self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// The path in use, as its level's place in `Level::ALL`; `UNDECIDED` before the first use.
static IN_USE: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = u8::MAX;

/// The path in use.
#[inline]
pub fn path() -> Path {
    match IN_USE.load(Ordering::Relaxed) {
        0 => Path(Level::Baseline),
        1 => Path(Level::Sse42),
        2 => Path(Level::Avx512),
        3 => Path(Level::Vpclmulqdq),
        _ => use_best(),
    }
}

#[cold]
fn use_best() -> Path {
    let best = Path::all_here().last().expect("the portable path needs nothing");
    take_up(best);
    best
}

fn take_up(path: Path) {
    IN_USE.store(path.0 as u8, Ordering::Relaxed);
}

/// A value of `RAMHOLD_CPU` that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitRefused {
    value: String,
    /// Empty: there is no level of this name.
    lacks: Vec<&'static str>,
}

impl fmt::Display for LimitRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here: Vec<String> = Path::all_here().map(|path| path.to_string()).collect();
        let here = here.join(", ");
        let value = &self.value;
        if self.lacks.is_empty() {
            write!(f, "{VARIABLE}={value}: unknown processor path; this processor can run: {here}")
        } else {
            let lacks = self.lacks.join(", ");
            write!(f, "{VARIABLE}={value}: this processor lacks {lacks}; it can run: {here}")
        }
    }
}

impl std::error::Error for LimitRefused {}

/// Makes the whole process use the path that `value` names, or the best one if there is no value. Programs
/// call it once, when they start.
pub fn limit(value: Option<&OsStr>) -> Result<Path, LimitRefused> {
    let path = match value {
        None => return Ok(path()),
        Some(value) => named(&value.to_string_lossy())?,
    };
    take_up(path);
    Ok(path)
}

fn named(value: &str) -> Result<Path, LimitRefused> {
    let refused = |lacks| LimitRefused { value: value.to_owned(), lacks };
    let level = Level::ALL.into_iter().find(|level| level.name() == value);
    let level = level.ok_or_else(|| refused(Vec::new()))?;
    Path::of(level).ok_or_else(|| refused(level.lacks()))
}

/// One line for each level, for tests that run each of them: its name, and `runs here` or the features that
/// are missing.
pub fn table() -> String {
    Level::ALL
        .into_iter()
        .map(|level| match Path::of(level) {
            Some(path) => format!("{path}: runs here\n"),
            None => format!("{}: this processor lacks {}\n", level.name(), level.lacks().join(", ")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portable_path_runs_everywhere_and_the_best_one_is_used() {
        let here: Vec<Path> = Path::all_here().collect();
        assert_eq!(here[0].level(), Level::Baseline);
        assert!(here.is_sorted());
        assert_eq!(Some(&use_best()), here.last());
    }

    #[test]
    fn a_path_in_use_is_the_one_that_was_taken_up() {
        // All paths give the same results, so other tests may run meanwhile.
        for path in Path::all_here() {
            assert_eq!(named(&path.to_string()), Ok(path));
            assert_eq!(Level::ALL[path.level() as usize], path.level());
        }
        for level in Level::ALL {
            assert_eq!(Path::of(level).is_none(), !level.lacks().is_empty());
        }
    }

    #[test]
    fn a_value_that_does_not_work_here_is_refused_with_those_that_do() {
        let text = named("sse9").expect_err("there is no such path").to_string();
        assert!(
            text.starts_with("RAMHOLD_CPU=sse9: unknown processor path; this processor can run: baseline")
        );
        let lacking = LimitRefused { value: "avx512".into(), lacks: vec!["avx512f"] }.to_string();
        assert!(
            lacking.starts_with("RAMHOLD_CPU=avx512: this processor lacks avx512f; it can run: baseline")
        );
        for level in Level::ALL {
            assert_eq!(named(level.name()).is_err(), Path::of(level).is_none());
        }
    }

    #[test]
    fn every_level_has_its_line() {
        let table = table();
        assert_eq!(table.lines().count(), Level::ALL.len());
        assert!(table.starts_with("baseline: runs here\n"));
    }
}
