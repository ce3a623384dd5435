//! The embedded store compared with a model, across restarts, crashes and damage.

#[path = "../../runtime/src/scratch.rs"]
mod scratch;

use ramhold_base::{Rng, StoreCondition, StoreRequest, StoreResult, StoreToken};
use ramhold_metadata::{EmbeddedStore, OpenError};
use ramhold_runtime::{Answer, Store};
use scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

type Answers = Vec<(StoreToken, StoreResult)>;
type Puts = Vec<(String, Option<Vec<u8>>)>;

/// Everything that one request makes the store say.
fn ask(store: &mut EmbeddedStore, token: u64, request: StoreRequest) -> Answers {
    let answers: Arc<Mutex<Answers>> = Arc::default();
    let kept = Arc::clone(&answers);
    let answer: Answer = Arc::new(move |token, result| kept.lock().expect("no panic").push((token, result)));
    store.execute(StoreToken(token), request, &answer);
    std::mem::take(&mut *answers.lock().expect("no panic"))
}

fn one(store: &mut EmbeddedStore, request: StoreRequest) -> StoreResult {
    let mut answers = ask(store, 1, request);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0).1
}

fn put(key: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (key.into(), Some(value.into()))
}

fn commit(conditions: &[(&str, Option<u64>)], puts: Puts) -> StoreRequest {
    let condition = |&(key, version): &(&str, _)| StoreCondition { key: key.into(), version };
    StoreRequest::Commit { conditions: conditions.iter().map(condition).collect(), puts }
}

fn list(store: &mut EmbeddedStore, prefix: &str) -> Vec<(String, u64, Vec<u8>)> {
    match one(store, StoreRequest::List { prefix: prefix.into() }) {
        StoreResult::Found(entries) => entries,
        other => panic!("{other:?}"),
    }
}

fn entry(key: &str, version: u64, value: &str) -> (String, u64, Vec<u8>) {
    (key.into(), version, value.into())
}

// G1
#[test]
fn versions_count_the_puts_of_a_key_and_begin_again_after_a_remove() {
    let scratch = Scratch::new();
    let mut store = EmbeddedStore::open(scratch.path()).unwrap();
    for _ in 0..3 {
        assert_eq!(one(&mut store, commit(&[], vec![put("a", "x")])), StoreResult::Committed);
    }
    assert_eq!(
        one(&mut store, StoreRequest::Get { key: "a".into() }),
        StoreResult::Found(vec![entry("a", 3, "x")])
    );
    one(&mut store, commit(&[("a", Some(3))], vec![("a".into(), None)]));
    assert_eq!(one(&mut store, StoreRequest::Get { key: "a".into() }), StoreResult::Found(vec![]));
    one(&mut store, commit(&[("a", None)], vec![put("a", "")]));
    assert_eq!(list(&mut store, ""), [entry("a", 1, "")]);
}

#[test]
fn a_conflict_changes_nothing() {
    let scratch = Scratch::new();
    let mut store = EmbeddedStore::open(scratch.path()).unwrap();
    one(&mut store, commit(&[], vec![put("a", "x"), put("b", "y")]));
    for wrong in [("b", None), ("b", Some(2)), ("absent", Some(1))] {
        let request =
            commit(&[("a", Some(1)), wrong], vec![put("a", "new"), ("b".into(), None), put("c", "new")]);
        assert_eq!(one(&mut store, request), StoreResult::Conflict { key: wrong.0.into() });
    }
    assert_eq!(list(&mut store, ""), [entry("a", 1, "x"), entry("b", 1, "y")]);
}

#[test]
fn a_list_holds_what_begins_with_the_prefix_in_order() {
    let scratch = Scratch::new();
    let mut store = EmbeddedStore::open(scratch.path()).unwrap();
    let keys = ["server/2", "server", "server/10", "servers", "sé", "zebra", "server/\u{10ffff}"];
    one(&mut store, commit(&[], keys.iter().map(|key| put(key, "")).collect()));
    let found: Vec<String> = list(&mut store, "server/").into_iter().map(|entry| entry.0).collect();
    assert_eq!(found, ["server/10", "server/2", "server/\u{10ffff}"]);
    assert_eq!(list(&mut store, "zz"), []);
    assert_eq!(list(&mut store, "").len(), keys.len());
}

#[test]
fn a_watch_tells_the_present_state_and_then_each_change_of_a_commit() {
    let scratch = Scratch::new();
    let mut store = EmbeddedStore::open(scratch.path()).unwrap();
    one(&mut store, commit(&[], vec![put("p/a", "1")]));
    let watch = |prefix: &str| StoreRequest::Watch { prefix: prefix.into() };
    assert_eq!(
        ask(&mut store, 5, watch("p/")),
        [(StoreToken(5), StoreResult::Found(vec![entry("p/a", 1, "1")]))]
    );
    assert_eq!(ask(&mut store, 6, watch("p/b")), [(StoreToken(6), StoreResult::Found(vec![]))]);
    let puts = vec![put("p/b", "2"), put("q", "3"), ("p/a".into(), None), ("p/never".into(), None)];
    let changed = |key: &str, value: Option<&str>| StoreResult::Changed {
        key: key.into(),
        value: value.map(|value| value.into()),
    };
    let expected = [
        (StoreToken(7), StoreResult::Committed),
        (StoreToken(5), changed("p/b", Some("2"))),
        (StoreToken(6), changed("p/b", Some("2"))),
        (StoreToken(5), changed("p/a", None)),
    ];
    assert_eq!(ask(&mut store, 7, commit(&[], puts)), expected);
    let refused = commit(&[("p/b", None)], vec![put("p/b", "4")]);
    assert_eq!(ask(&mut store, 8, refused), [(StoreToken(8), StoreResult::Conflict { key: "p/b".into() })]);
}

#[test]
fn random_requests_agree_with_a_model_over_restarts_and_crashes() {
    for seed in 1..=6 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let scratch = Scratch::new();
        let mut directory = scratch.path().join("0");
        let mut store = EmbeddedStore::open(&directory).unwrap();
        let mut model: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
        let mut conflict_count = 0;
        for round in 0..150 {
            let (conditions, puts) = random_commit(&mut rng, &model);
            let broken =
                conditions.iter().find(|c| model.get(&c.key).map(|entry| entry.0) != c.version).cloned();
            let result = one(&mut store, StoreRequest::Commit { conditions, puts: puts.clone() });
            if let Some(broken) = broken {
                assert_eq!(result, StoreResult::Conflict { key: broken.key });
                conflict_count += 1;
            } else {
                assert_eq!(result, StoreResult::Committed);
                apply(&mut model, puts);
            }
            match rng.below(12) {
                0 => {
                    drop(store);
                    store = EmbeddedStore::open(&directory).unwrap();
                }
                1 => {
                    // A copy of the file, taken while the process runs, is the file that a killed process
                    // would leave.
                    let left = scratch.path().join((round + 1).to_string());
                    fs::create_dir(&left).unwrap();
                    fs::copy(directory.join("store"), left.join("store")).unwrap();
                    directory = left;
                    store = EmbeddedStore::open(&directory).unwrap();
                }
                _ => {}
            }
            let prefix = ["", "a", "a/", "b/1"][rng.below(4) as usize];
            let expected: Vec<_> = model
                .range(prefix.to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, (version, value))| (key.clone(), *version, value.clone()))
                .collect();
            assert_eq!(list(&mut store, prefix), expected);
        }
        assert!(conflict_count > 10);
        assert!(conflict_count < 140);
    }
}

fn random_key(rng: &mut Rng) -> String {
    format!("{}/{}", ["a", "b", "ab"][rng.below(3) as usize], rng.below(6))
}

fn random_commit(rng: &mut Rng, model: &BTreeMap<String, (u64, Vec<u8>)>) -> (Vec<StoreCondition>, Puts) {
    let conditions = (0..rng.below(3)).map(|_| {
        let key = random_key(rng);
        let present = model.get(&key).map(|entry| entry.0);
        let version = match rng.below(5) {
            0 => None,
            1 => Some(rng.between(1, 5)),
            _ => present,
        };
        StoreCondition { key, version }
    });
    let conditions = conditions.collect();
    let puts = (0..rng.below(4)).map(|_| {
        let value = rng.chance(2, 3).then(|| vec![rng.below(256) as u8; rng.below(9000) as usize]);
        (random_key(rng), value)
    });
    (conditions, puts.collect())
}

fn apply(model: &mut BTreeMap<String, (u64, Vec<u8>)>, puts: Puts) {
    for (key, value) in puts {
        match value {
            Some(value) => {
                let version = model.get(&key).map_or(1, |entry| entry.0 + 1);
                model.insert(key, (version, value));
            }
            None => {
                model.remove(&key);
            }
        }
    }
}

#[test]
fn a_store_has_one_user() {
    let scratch = Scratch::new();
    let first = EmbeddedStore::open(scratch.path()).unwrap();
    let refused = EmbeddedStore::open(scratch.path()).err().unwrap();
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    drop(first);
    EmbeddedStore::open(scratch.path()).unwrap();
}

#[test]
fn a_store_of_a_later_format_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    drop(EmbeddedStore::open(scratch.path()).unwrap());
    let database = redb::Database::open(scratch.path().join("store")).unwrap();
    let writing = database.begin_write().unwrap();
    let about: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("about");
    writing.open_table(about).unwrap().insert("format", 2).unwrap();
    writing.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let refused = EmbeddedStore::open(scratch.path()).err().unwrap();
        assert!(matches!(refused, OpenError::TooNew { .. }), "{refused}");
        assert!(refused.to_string().contains("format 2"), "{refused}");
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("store"), b"once upon a time ".repeat(1000)).unwrap();
    let refused = EmbeddedStore::open(scratch.path()).err().unwrap();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused:?}");
    let below_a_file = scratch.path().join("store/below");
    assert!(matches!(EmbeddedStore::open(&below_a_file), Err(OpenError::Unusable { .. })));
}

/// The entries of the store in a directory, or the refusal to open it.
fn state(directory: &Path) -> Result<Vec<(String, u64, Vec<u8>)>, OpenError> {
    Ok(list(&mut EmbeddedStore::open(directory)?, ""))
}

// F9: damage is found when the store is opened, and is never served as state. Each further attempt to open
// finds it again, until an operator has looked.
#[test]
fn a_damaged_store_is_refused_every_time_or_reads_as_it_was() {
    let scratch = Scratch::new();
    let mut store = EmbeddedStore::open(scratch.path()).unwrap();
    for i in 0..50 {
        let value = "v".repeat(300);
        one(&mut store, commit(&[], vec![put(&format!("key/{i}"), &value)]));
    }
    let whole = list(&mut store, "");
    drop(store);
    let good = fs::read(scratch.path().join("store")).unwrap();
    let seed = 11;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut refused_count = 0;
    for round in 0..60 {
        let directory = scratch.path().join(round.to_string());
        fs::create_dir(&directory).unwrap();
        let mut bytes = good.clone();
        let values = bytes.windows(8).position(|window| window == b"vvvvvvvv").unwrap() as u64;
        // Half of the damage hits near the entries. The other half hits anywhere in the file, partly in
        // unused space.
        let at =
            if rng.chance(1, 2) { values + rng.below(8192) } else { rng.below(bytes.len() as u64) } as usize;
        bytes[at] ^= 1 << rng.below(8);
        fs::write(directory.join("store"), bytes).unwrap();
        match state(&directory) {
            Ok(found) => assert_eq!(found, whole, "a bit of byte {at}"),
            Err(OpenError::Corrupt { .. } | OpenError::TooNew { .. } | OpenError::Unusable { .. }) => {
                refused_count += 1;
                assert!(state(&directory).is_err(), "a bit of byte {at} is forgotten");
            }
            Err(other) => panic!("a bit of byte {at}: {other}"),
        }
    }
    assert!(refused_count > 10, "{refused_count}");
    for length in [0, 100, 4096, good.len() / 2] {
        let directory = scratch.path().join(format!("cut-{length}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("store"), &good[..length]).unwrap();
        assert!(state(&directory).map_or(true, |found| found.is_empty() && length == 0), "cut to {length}");
    }
}
