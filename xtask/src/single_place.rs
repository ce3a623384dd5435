//! Words that may stand in one source file only.
//!
//! A choice by processor feature belongs in `processor.rs`, where tests can force it. Anywhere else, one of
//! its two ways would be tested only where the machine happens to have the feature.

use crate::imports::FOLDERS;
use crate::shell::{Failure, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Words, split so that this file has none of them, and the one file that may have them.
const PLACES: &[([&str; 2], &str)] = &[(["_feature", "_detected!"], "core/base/src/processor.rs")];

pub fn check() -> Result<(), Failure> {
    let mut sources = Vec::new();
    for (folder, _) in FOLDERS {
        find_sources(&root().join(folder), &mut sources)?;
    }
    let mut faults = Vec::new();
    for path in &sources {
        let text = fs::read_to_string(path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        let name = path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned();
        faults.extend(misplaced(&name, &text));
    }
    if faults.is_empty() {
        println!("=== single places: ok");
        return Ok(());
    }
    Err(Failure(format!("words stand where they may not:\n  {}", faults.join("\n  "))))
}

/// The words in a file that only another file may have.
fn misplaced(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (halves, place) in PLACES {
        let word = halves.concat();
        for (line, _) in text.lines().enumerate().filter(|(_, line)| name != *place && line.contains(&word)) {
            faults.push(format!("{name}:{}: only {place} may have '{word}'", line + 1));
        }
    }
    faults
}

/// Finds all Rust sources below a folder, without the output of builds.
fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure(format!("cannot read {}: {e}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                find_sources(&path, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_wherever_it_does_not_belong() {
        for (halves, place) in PLACES {
            let text = format!("fn a() {{}}\nif x{}(\"y\") {{}}\n", halves.concat());
            assert_eq!(misplaced("core/log/src/a.rs", &text).len(), 1);
            assert!(misplaced("core/log/src/a.rs", &text)[0].starts_with("core/log/src/a.rs:2: "));
            assert!(misplaced(place, &text).is_empty());
            assert!(root().join(place).is_file());
        }
    }

    #[test]
    fn every_source_keeps_its_place() {
        check().unwrap();
    }
}
