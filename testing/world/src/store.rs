//! The coordinator's store: versioned keys, conditional commits, watches.
//!
//! Each request takes effect at one instant between its issue and its answer. The store outlives every
//! process. Its committed data outlives every loss of power.
//!
//! Not here: latency, failures, and who gets the answer (world).

use ramhold_base::{StoreRequest, StoreResult, StoreToken};
use std::collections::BTreeMap;

/// The owner of a watch on a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    pub node: usize,
    pub life: u64,
    pub token: StoreToken,
    pub prefix: String,
}

#[derive(Clone, Default, Debug)]
pub struct Store {
    values: BTreeMap<String, (u64, Vec<u8>)>,
    watches: Vec<Watch>,
}

impl Store {
    /// Carries out a request; the watches that must be told of a change are appended to `told`.
    pub fn execute(&mut self, request: &StoreRequest, told: &mut Vec<(Watch, StoreResult)>) -> StoreResult {
        match request {
            StoreRequest::Get { key } => StoreResult::Found(
                self.values.get(key).map(|(v, b)| (key.clone(), *v, b.clone())).into_iter().collect(),
            ),
            StoreRequest::List { prefix } => StoreResult::Found(
                self.values
                    .range(prefix.clone()..)
                    .take_while(|(key, _)| key.starts_with(prefix))
                    .map(|(key, (version, bytes))| (key.clone(), *version, bytes.clone()))
                    .collect(),
            ),
            StoreRequest::Commit { conditions, puts } => {
                for condition in conditions {
                    if self.values.get(&condition.key).map(|(version, _)| *version) != condition.version {
                        return StoreResult::Conflict { key: condition.key.clone() };
                    }
                }
                for (key, value) in puts {
                    self.put(key, value.as_deref());
                    for watch in self.watches.iter().filter(|w| key.starts_with(&w.prefix)) {
                        told.push((
                            watch.clone(),
                            StoreResult::Changed { key: key.clone(), value: value.clone() },
                        ));
                    }
                }
                StoreResult::Committed
            }
            // The world alone knows whose watch it is: see `watch`.
            StoreRequest::Watch { .. } => StoreResult::Found(Vec::new()),
        }
    }

    pub fn watch(&mut self, watch: Watch) {
        self.watches.push(watch);
    }

    /// A process has ended, so its watches end.
    pub fn end_watches(&mut self, node: usize) {
        self.watches.retain(|w| w.node != node);
    }

    /// For checks: the value of a key.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key).map(|(_, bytes)| &bytes[..])
    }

    /// For checks: the version of a key, 0 when it is absent.
    pub fn version(&self, key: &str) -> u64 {
        self.values.get(key).map_or(0, |(version, _)| *version)
    }

    /// For checks: all keys below a prefix, with their versions and values.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, u64, &'a [u8])> {
        let below =
            self.values.range(prefix.to_string()..).take_while(move |(key, _)| key.starts_with(prefix));
        below.map(|(key, (version, bytes))| (key.as_str(), *version, bytes.as_slice()))
    }

    fn put(&mut self, key: &str, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                let version = self.values.get(key).map_or(1, |(version, _)| version + 1);
                self.values.insert(key.to_string(), (version, bytes.to_vec()));
            }
            None => {
                self.values.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::StoreCondition;

    fn commit(store: &mut Store, key: &str, version: Option<u64>, value: Option<&[u8]>) -> StoreResult {
        let request = StoreRequest::Commit {
            conditions: vec![StoreCondition { key: key.into(), version }],
            puts: vec![(key.into(), value.map(<[u8]>::to_vec)), ("other".into(), Some(vec![9]))],
        };
        store.execute(&request, &mut Vec::new())
    }

    #[test]
    fn a_commit_happens_whole_or_not_at_all() {
        let mut store = Store::default();
        assert_eq!(commit(&mut store, "a", None, Some(b"1")), StoreResult::Committed);
        assert_eq!(commit(&mut store, "a", None, Some(b"2")), StoreResult::Conflict { key: "a".into() });
        assert_eq!(store.value("a"), Some(&b"1"[..]));
        let list = store.execute(&StoreRequest::List { prefix: String::new() }, &mut Vec::new());
        assert_eq!(list, StoreResult::Found(vec![("a".into(), 1, vec![b'1']), ("other".into(), 1, vec![9])]));
    }

    #[test]
    fn a_removed_key_starts_again_at_version_one() {
        let mut store = Store::default();
        commit(&mut store, "a", None, Some(b"1"));
        commit(&mut store, "a", Some(1), Some(b"2"));
        assert_eq!(commit(&mut store, "a", Some(2), None), StoreResult::Committed);
        assert_eq!(commit(&mut store, "a", None, Some(b"3")), StoreResult::Committed);
        assert_eq!(commit(&mut store, "a", Some(1), Some(b"4")), StoreResult::Committed);
    }

    #[test]
    fn a_watch_is_told_of_changes_below_its_prefix_only() {
        let mut store = Store::default();
        store.watch(Watch { node: 1, life: 1, token: StoreToken(5), prefix: "tables/".into() });
        let mut told = Vec::new();
        let puts = vec![("tables/x".to_string(), Some(vec![1])), ("servers/y".to_string(), Some(vec![2]))];
        store.execute(&StoreRequest::Commit { conditions: Vec::new(), puts }, &mut told);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1, StoreResult::Changed { key: "tables/x".into(), value: Some(vec![1]) });
        store.end_watches(1);
        told.clear();
        store.execute(
            &StoreRequest::Commit { conditions: Vec::new(), puts: vec![("tables/x".into(), None)] },
            &mut told,
        );
        assert!(told.is_empty());
    }
}
