//! Adds up the results of many runs, over processes and days, in one JSON file.

use crate::history::Outcome;
use crate::scenario::Report;
use ramhold_base::Status;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Sums by name, such as `operations`, `fault.crash` or `mark.torn log tail`.
    pub sums: BTreeMap<String, u64>,
    /// Seeds that failed, with the first line of the reason.
    pub failures: BTreeMap<u64, String>,
}

impl Tally {
    pub fn add(&mut self, report: &Report) {
        let count =
            |wanted: fn(Outcome) -> bool| report.history.iter().filter(|o| wanted(o.outcome)).count() as u64;
        let seen = report.verdict.seen;
        let told = |o| !matches!(o, Outcome::Refused { .. } | Outcome::Unknown);
        let sums = [
            ("seeds", 1),
            ("operations", report.history.len() as u64),
            ("operations.done", count(told)),
            ("operations.refused", count(|o| matches!(o, Outcome::Refused { .. }))),
            ("operations.unknown", count(|o| o == Outcome::Unknown)),
            ("scans", count(|o| o == Outcome::Scanned)),
            ("checked.keys", seen.keys),
            ("checked.mutations", seen.mutations),
            ("checked.observations", seen.observations),
            ("checked.absences", seen.absences),
            ("checked.increments", seen.increments),
            ("checked.commits", seen.commits),
            ("checked.commits bound", seen.commits_bound),
            ("checked.conditions failed", seen.conditions_failed),
            ("checked.unknown bound", seen.unknown_bound),
            ("checked.expired", seen.expired),
            ("checked.expired for sure", seen.overdue),
            ("searched.keys", report.searched.keys),
            ("searched.operations", report.searched.operations),
            ("searched.undecided", report.searched.undecided),
            ("searched.too large", report.searched.too_large),
            ("registers.keys", report.registers.keys),
            ("registers.operations", report.registers.operations),
            ("registers.undecided", report.registers.undecided),
            ("registers.unknown seen", report.registers.unknown_seen),
            ("registers.with end", report.registers.with_end),
            ("clock spread millis", report.clock_spread / 1_000_000),
            ("violations", report.verdict.violations.len() as u64),
            ("reads answered by servers declared dead", report.reads_by_the_dead),
            ("refused for memory", count(|o| o == Outcome::Refused { status: Status::OutOfMemory })),
            ("stuck", u64::from(report.stuck.is_some())),
            ("exits", report.exits.len() as u64),
            ("error reports", report.errors.len() as u64),
            ("steps", report.steps),
            ("simulated millis", report.simulated / 1_000_000),
        ];
        for (name, value) in sums {
            self.raise(name.to_string(), value);
        }
        for (kind, value) in &report.faults {
            self.raise(format!("fault.{kind}"), *value);
        }
        for (point, value) in &report.crash_points {
            self.raise(format!("crash point.{point}"), *value);
        }
        for (mark, value) in &report.marks {
            self.raise(format!("mark.{mark}"), *value);
        }
    }

    pub fn add_failure(&mut self, seed: u64, why: &str) {
        let line = why.lines().next().unwrap_or_default().to_string();
        self.failures.insert(seed, line);
    }

    pub fn sum(&self, name: &str) -> u64 {
        self.sums.get(name).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Tally) {
        for (name, value) in &other.sums {
            self.raise(name.clone(), *value);
        }
        self.failures.extend(other.failures.iter().map(|(seed, why)| (*seed, why.clone())));
    }

    /// The shortfalls of a set of seeds: enough operations, enough faults, every fault kind and crash point
    /// met.
    pub fn shortfalls(&self, faults: &[&str], points: &[&str]) -> Vec<String> {
        let seeds = self.sum("seeds").max(1);
        let mut lacks = Vec::new();
        let mut demand = |name: &str, have: u64, least: u64| {
            if have < least * seeds {
                lacks
                    .push(format!("{name}: {have} in {seeds} seeds, at least {least} per seed are demanded"));
            }
        };
        demand("operations done", self.sum("operations.done"), 5000);
        demand("crashes", self.sum("fault.crash") + self.sum("fault.crash between effects"), 2);
        demand("recoveries with data", self.sum("mark.recovery_published"), 1);
        demand("objects seen to have expired", self.sum("checked.expired"), 10);
        demand("increments checked", self.sum("checked.increments"), 50);
        demand("commits of several keys", self.sum("checked.commits"), 5);
        demand("increments recalled", self.sum("mark.increment_recalled"), 1);
        demand("frames of several operations", self.sum("mark.multi"), 100);
        demand("cuts and joins of tablets that a client asked for", self.sum("mark.division_done"), 5);
        demand("tablets cut by a walk", self.sum("mark.tablet_cut"), 2);
        demand("tablets joined", self.sum("mark.tablets_joined"), 1);
        demand("pages of scans", self.sum("mark.page"), 50);
        demand("scans that came to their end", self.sum("scans"), 1);
        // The other flips were in segments that went before they were read, or died with their process.
        let (flips, repaired) = (self.sum("fault.memory flip"), self.sum("mark.repaired"));
        if repaired * 4 < flips {
            lacks.push(format!(
                "of {flips} memory flips {repaired} were repaired, at least a quarter is demanded"
            ));
        }
        let (unknown, all) = (self.sum("operations.unknown"), self.sum("operations"));
        if unknown * 5 > all {
            lacks.push(format!("{unknown} of {all} operations ended unknown, at most a fifth may"));
        }
        // Marks of the division of tablets. A part of the seeds reaches them.
        let places =
            ["tablet_of_pieces", "count_began_again", "recovered_from_pieces", "division_told_again"];
        let missing = places.iter().filter(|place| self.sum(&format!("mark.{place}")) == 0);
        lacks.extend(missing.map(|place| format!("no division came to {place}")));
        // Marks of the Redis front. A part of the seeds reaches them.
        let places = [
            "resp_answered_here",
            "resp_through_session",
            "resp_retried",
            "resp_watch_failed",
            "resp_held",
            "resp_table_waited_for",
        ];
        let missing = places.iter().filter(|place| self.sum(&format!("mark.{place}")) == 0);
        lacks.extend(missing.map(|place| format!("no Redis client came to {place}")));
        let missing = faults.iter().filter(|kind| self.sum(&format!("fault.{kind}")) == 0);
        lacks.extend(missing.map(|kind| format!("no {kind} happened")));
        let missing = points.iter().filter(|point| self.sum(&format!("crash point.{point}")) == 0);
        lacks.extend(missing.map(|point| format!("nobody died at {point}")));
        lacks
    }

    /// The shortfalls of a set of seeds with bricks: enough operations, and every fault and every place met.
    pub fn brick_shortfalls(&self, faults: &[&str], marks: &[&str]) -> Vec<String> {
        let seeds = self.sum("seeds").max(1);
        let mut lacks = Vec::new();
        let least = [
            ("operations.done", 2000),
            ("registers.operations", 800),
            ("registers.keys", 5),
            ("mark.brick_repaired", 5),
            ("scans", 1),
        ];
        for (name, least) in least {
            let have = self.sum(name);
            if have < least * seeds {
                lacks
                    .push(format!("{name}: {have} in {seeds} seeds, at least {least} per seed are demanded"));
            }
        }
        let (undecided, keys) = (self.sum("registers.undecided"), self.sum("registers.keys"));
        if undecided * 100 > keys {
            lacks.push(format!(
                "the search left {undecided} of {keys} registers undecided, at most 1 % may be"
            ));
        }
        let missing = faults.iter().filter(|kind| self.sum(&format!("fault.{kind}")) == 0);
        lacks.extend(missing.map(|kind| format!("no {kind} happened")));
        let missing = marks.iter().filter(|mark| self.sum(&format!("mark.{mark}")) == 0);
        lacks.extend(missing.map(|mark| format!("nobody came to {mark}")));
        lacks
    }

    pub fn to_json(&self) -> Value {
        let sums: Map<String, Value> =
            self.sums.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let failures: Map<String, Value> =
            self.failures.iter().map(|(seed, why)| (seed.to_string(), json!(why))).collect();
        json!({ "sums": sums, "failures": failures })
    }

    /// `None`: the text is no tally.
    pub fn from_json(text: &str) -> Option<Tally> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut tally = Tally::default();
        for (name, value) in value.get("sums")?.as_object()? {
            tally.sums.insert(name.clone(), value.as_u64()?);
        }
        for (seed, why) in value.get("failures")?.as_object()? {
            tally.failures.insert(seed.parse().ok()?, why.as_str()?.to_string());
        }
        Some(tally)
    }

    fn raise(&mut self, name: String, value: u64) {
        *self.sums.entry(name).or_default() += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_comes_back_from_its_file_and_adds_up() {
        let mut tally = Tally::default();
        tally.raise("operations".into(), 5);
        tally.add_failure(9, "first line\nsecond");
        let mut sum = Tally::from_json(&tally.to_json().to_string()).unwrap();
        assert_eq!(sum, tally);
        sum.merge(&tally);
        assert_eq!(sum.sum("operations"), 10);
        assert_eq!(sum.failures[&9], "first line");
        assert_eq!(Tally::from_json("{}"), None);
    }
}
