//! The journal of the demo's writer: the answers that the writer got, kept by itself. The cluster is compared
//! with it.
//!
//! The journal has one line per event, appended to a file that outlives any process:
//!
//! ```text
//!   try KEY HASH                    before a write is sent; HASH is that of its value
//!   ack KEY VERSION HASH MILLIS     acknowledged, at this time since 1970
//!   ref KEY HASH                    refused: surely without effect
//! ```
//!
//! A `try` that no other line follows may have taken effect or not. Each key has only one writer, with one
//! write at a time.

use super::comparison::{Differences, Seen, hash, read_all};
use crate::failure::Failure;
use ramhold_client::{Client, TableId};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[derive(Default, Debug)]
pub struct Journal {
    keys: BTreeMap<String, KeyHistory>,
    acknowledged: u64,
    longest_gap_millis: u64,
}

/// Everything that is known of one key.
#[derive(Default, Debug)]
pub struct KeyHistory {
    /// Version and hash of the last acknowledged write.
    last: Option<(u64, u64)>,
    /// Hashes of writes that may have taken effect.
    unknown: Vec<u64>,
    /// An acknowledged version that is not above the one before.
    backwards: Option<(u64, u64)>,
}

impl Journal {
    pub fn read(path: &Path) -> Result<Journal, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Journal::parse(&text)
                .ok_or_else(|| Failure::usage(format!("{} is not a journal of the demo", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Journal::default()),
            Err(error) => Err(Failure::local(path, &error)),
        }
    }

    /// A line without an end was being written when the writer was killed, and does not count: its write was not sent
    /// yet, or its answer had not been looked at.
    pub fn parse(text: &str) -> Option<Journal> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut journal = Journal::default();
        let mut last_millis = None;
        for line in whole.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[..] {
                ["try", key, hash] => journal.history(key).unknown.push(hex(hash)?),
                ["ref", key, hash] => journal.history(key).settle(hex(hash)?),
                ["ack", key, version, hash, millis] => {
                    let (version, hash) = (version.parse().ok()?, hex(hash)?);
                    let millis: u64 = millis.parse().ok()?;
                    journal.acknowledged += 1;
                    let gap = millis.saturating_sub(last_millis.unwrap_or(millis));
                    journal.longest_gap_millis = journal.longest_gap_millis.max(gap);
                    last_millis = Some(millis);
                    let history = journal.history(key);
                    history.settle(hash);
                    if let Some((before, _)) = history.last.filter(|(before, _)| *before >= version) {
                        history.backwards = Some((before, version));
                    }
                    history.last = Some((version, hash));
                }
                _ => return None,
            }
        }
        Some(journal)
    }

    fn history(&mut self, key: &str) -> &mut KeyHistory {
        self.keys.entry(key.to_owned()).or_default()
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The longest time between two acknowledgements.
    pub fn longest_gap(&self) -> Duration {
        Duration::from_millis(self.longest_gap_millis)
    }

    /// A key whose newest write is surely the acknowledged one.
    pub fn settled_key(&self) -> Option<&str> {
        let settled =
            self.keys.iter().find(|(_, history)| history.last.is_some() && history.unknown.is_empty());
        settled.map(|(key, _)| key.as_str())
    }
}

impl KeyHistory {
    /// The newest attempt with this value is known to have ended.
    fn settle(&mut self, hash: u64) {
        if let Some(at) = self.unknown.iter().rposition(|unknown| *unknown == hash) {
            self.unknown.remove(at);
        }
    }

    /// The fault of the value that was found under the key, if it has one.
    fn judge(&self, seen: &Seen) -> Option<String> {
        if let Some((before, after)) = self.backwards {
            return Some(format!("went back from version {before} to {after}"));
        }
        match (seen, self.last) {
            (Seen::Unreadable(why), _) => Some(format!("cannot be read: {why}")),
            (Seen::Absent, None) => None,
            (Seen::Absent, Some((version, _))) => {
                Some(format!("is gone; version {version} was acknowledged"))
            }
            (Seen::Value { version, .. }, Some((acknowledged, _))) if *version < acknowledged => {
                Some(format!("has version {version}; version {acknowledged} was acknowledged and is lost"))
            }
            (Seen::Value { version, value }, Some((acknowledged, expected))) if *version == acknowledged => {
                (hash(value) != expected).then(|| format!("has other bytes in version {version}"))
            }
            (Seen::Value { version, value }, _) => {
                let is_ours = self.unknown.contains(&hash(value));
                (!is_ours).then(|| format!("has version {version} with bytes that nobody wrote"))
            }
        }
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Compares every key of the journal with what the cluster has.
pub fn verify(
    client: &mut Client,
    table: TableId,
    journal: &Journal,
    patience: Duration,
) -> Result<Differences, Failure> {
    let mut differences = Differences::among(journal.keys.len());
    let histories: Vec<(&String, &KeyHistory)> = journal.keys.iter().collect();
    let keys = histories.iter().map(|(key, _)| key.as_bytes());
    let judge = |index: usize, seen: Seen| {
        let (key, history) = histories[index];
        if let Some(wrong) = history.judge(&seen) {
            differences.add(format!("writes/{key} {wrong}"));
        }
    };
    read_all(client, table, keys, patience, judge)?;
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, seen: Seen) -> Option<String> {
        Journal::parse(text).unwrap().keys["k"].judge(&seen)
    }

    fn value(version: u64, value: &str) -> Seen {
        Seen::Value { version, value: value.as_bytes().to_vec() }
    }

    fn lines(lines: &[(&str, &str, u64)]) -> String {
        let line = |(kind, bytes, version): &(&str, &str, u64)| {
            let hash = hash(bytes.as_bytes());
            match *kind {
                "ack" => format!("ack k {version} {hash:016x} {}\n", 1000 * version),
                kind => format!("{kind} k {hash:016x}\n"),
            }
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let text = lines(&[("try", "a", 0), ("ack", "a", 1), ("try", "b", 0), ("ack", "b", 4)]);
        assert_eq!(judged(&text, value(4, "b")), None);
        assert!(judged(&text, value(1, "a")).unwrap().contains("version 4 was acknowledged and is lost"));
        assert!(judged(&text, value(4, "a")).unwrap().contains("other bytes"));
        assert!(judged(&text, value(5, "c")).unwrap().contains("nobody wrote"));
        assert!(judged(&text, value(5, "a")).unwrap().contains("nobody wrote"));
        assert!(judged(&text, Seen::Absent).unwrap().contains("is gone"));
        assert!(judged(&text, Seen::Unreadable("x".into())).is_some());
        let journal = Journal::parse(&text).unwrap();
        assert_eq!((journal.acknowledged(), journal.longest_gap()), (2, Duration::from_secs(3)));
        assert_eq!(journal.settled_key(), Some("k"));
    }

    #[test]
    fn what_is_unknown_may_be_there() {
        let text = lines(&[("try", "a", 0), ("ack", "a", 1), ("try", "b", 0)]);
        assert_eq!(judged(&text, value(1, "a")), None);
        assert_eq!(judged(&text, value(2, "b")), None);
        assert!(judged(&text, value(1, "b")).is_some());
        assert_eq!(Journal::parse(&text).unwrap().settled_key(), None);
        let refused = lines(&[("try", "a", 0), ("ref", "a", 0)]);
        assert_eq!(judged(&refused, Seen::Absent), None);
        assert!(judged(&refused, value(1, "a")).is_some());
    }

    #[test]
    fn versions_must_rise() {
        let text = lines(&[("try", "a", 0), ("ack", "a", 3), ("try", "b", 0), ("ack", "b", 3)]);
        assert!(judged(&text, value(3, "b")).unwrap().contains("went back"));
    }

    #[test]
    fn a_torn_last_line_does_not_count() {
        let text = lines(&[("try", "a", 0)]);
        assert_eq!(Journal::parse(&(text.clone() + "ack k 7 12")).unwrap().acknowledged(), 0);
        assert!(Journal::parse(&(text + "ack k 7\n")).is_none());
        assert_eq!(Journal::parse("try").unwrap().key_count(), 0);
    }
}
