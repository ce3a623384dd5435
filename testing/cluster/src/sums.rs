//! Adds up the results of runs, over processes and days, in one JSON file.

use crate::waiting::Failure;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Sums by name, such as `operations` or `episodes.stop of a server.cleared`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sums(pub BTreeMap<String, u64>);

impl Sums {
    pub fn raise(&mut self, name: &str, by: u64) {
        *self.0.entry(name.to_owned()).or_default() += by;
    }

    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds these sums to those in the file, which is made if it is missing. Returns the total.
    pub fn add_to(&self, path: &Path) -> Result<Sums, Failure> {
        let about = |what: String| Failure(format!("{}: {what}", path.display()));
        let mut sums = match std::fs::read(path) {
            Ok(bytes) => Sums(serde_json::from_slice(&bytes).map_err(|error| about(error.to_string()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Sums::default(),
            Err(error) => return Err(about(error.to_string())),
        };
        for (name, value) in &self.0 {
            sums.raise(name, *value);
        }
        let text = serde_json::to_string_pretty(&sums.0).map_err(|error| about(error.to_string()))?;
        // Writes another file first, so that a run that is killed leaves the old sums.
        let next = path.with_extension("next");
        std::fs::write(&next, text + "\n")
            .and_then(|()| std::fs::rename(&next, path))
            .map_err(|error| about(error.to_string()))?;
        Ok(sums)
    }

    /// A table for human readers.
    pub fn table(&self) -> String {
        let kinds: BTreeMap<&str, [u64; 4]> = self.episodes();
        let mut text = format!(
            "{:<40} {:>8} {:>8} {:>14} {:>15} {:>14}\n",
            "fault", "episodes", "recovery", "verified reply", "silent and back", "without effect"
        );
        for (kind, [recovered, cleared, away, none]) in kinds {
            let all = recovered + cleared + away + none;
            text += &format!("{kind:<40} {all:>8} {recovered:>8} {cleared:>14} {away:>15} {none:>14}\n");
        }
        let operations = self.of("operations");
        let share = 100.0 * self.of("ok") as f64 / operations.max(1) as f64;
        text += &format!(
            "{} runs, {} s of load, {operations} operations: {share:.1} % ok, {} refused by their condition, {} failed, \
             {} unknown\n",
            self.of("runs"),
            self.of("seconds"),
            self.of("refused"),
            self.of("failed"),
            self.of("unknown"),
        );
        text += &format!(
            "needless recoveries {}, client processes killed {} and stopped {}, mistakes made in copies and found {}, \
             spoiled copies rejected {}\n",
            self.of("needless recoveries"),
            self.of("clients killed"),
            self.of("clients stopped"),
            self.of("mistakes found"),
            self.of("spoiled copies rejected"),
        );
        text += &format!(
            "violations {}, undecided keys {}, lost {}, runs that did not get to their end {}",
            self.of("violations"),
            self.of("undecided"),
            self.of("lost"),
            self.of("broken runs"),
        );
        text
    }

    pub fn raise_episode(&mut self, kind: &str, effect: crate::episodes::Consequence) {
        let effect = match effect {
            crate::episodes::Consequence::Recovered => "recovered",
            crate::episodes::Consequence::Cleared => "cleared",
            crate::episodes::Consequence::Away => "away",
            crate::episodes::Consequence::None => "none",
        };
        self.raise(&format!("episodes.{kind}.{effect}"), 1);
    }

    fn episodes(&self) -> BTreeMap<&str, [u64; 4]> {
        let mut kinds: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
        for (name, value) in &self.0 {
            let parts = name.strip_prefix("episodes.").and_then(|name| name.rsplit_once('.'));
            let Some((kind, effect)) = parts else { continue };
            let place = ["recovered", "cleared", "away", "none"].iter().position(|known| *known == effect);
            if let Some(place) = place {
                kinds.entry(kind).or_default()[place] += value;
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes::Consequence;
    use crate::scratch::Scratch;

    #[test]
    fn runs_add_up_in_a_file() {
        let scratch = Scratch::new();
        let path = scratch.dir().join("sums.json");
        let mut sums = Sums::default();
        sums.raise("operations", 10);
        sums.raise_episode("stop of a server", Consequence::Cleared);
        sums.raise_episode("stop of a server", Consequence::None);
        assert_eq!(sums.add_to(&path).unwrap(), sums);
        let twice = sums.add_to(&path).unwrap();
        assert_eq!(twice.of("operations"), 20);
        assert_eq!(twice.episodes()["stop of a server"], [0, 2, 0, 2]);
        std::fs::write(&path, "no").unwrap();
        assert!(sums.add_to(&path).is_err());
    }
}
