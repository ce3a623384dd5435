//! The files of tests/data/make.sh are read with all that is in them.

use crate::{ALL, IDLE, items};
use ramhold_rdb::{Error, Fault, File, Item, Kind, Value};
use std::collections::BTreeMap;

#[test]
fn every_string_of_a_dump_is_read() {
    let mut database = 0;
    let mut strings = BTreeMap::new();
    for item in items(ALL).unwrap() {
        match item {
            Item::Database { number } => database = number,
            Item::Object { key, expires_at, value: Value::String(value), .. } => {
                strings.insert((database, String::from_utf8(key).unwrap()), (value, expires_at));
            }
            _ => {}
        }
    }
    // PFADD makes a string; what is in it is Redis's own.
    assert!(strings.remove(&(0, "counter".to_owned())).is_some());
    let expected: [(u32, &str, &[u8], Option<u64>); 12] = [
        (0, "text", b"hello", None),
        (0, "empty", b"", None),
        (0, "", b"empty key", None),
        (0, "binary", b"a\0b\r\n\xff", None),
        (0, "int8", b"-128", None),
        (0, "int16", b"32767", None),
        (0, "int32", b"-2147483648", None),
        (0, "int64", b"9223372036854775807", None),
        (0, "almost", b"007", None),
        (0, "compressed", &b"abc".repeat(100), None),
        (0, "expires", b"later", Some(4_102_444_800_123)),
        (3, "other", b"database three", None),
    ];
    let expected: BTreeMap<(u32, String), (Vec<u8>, Option<u64>)> =
        expected.map(|(number, key, value, end)| ((number, key.into()), (value.into(), end))).into();
    assert_eq!(strings, expected);
}

#[test]
fn values_of_other_types_are_told_by_type_and_passed_over() {
    let mut others = Vec::new();
    let (mut functions, mut sizes, mut notes) = (0, Vec::new(), BTreeMap::new());
    let all = items(ALL).unwrap();
    for item in &all {
        match item {
            Item::Object { key, kind, value: Value::Other, .. } => {
                others.push((String::from_utf8(key.clone()).unwrap(), *kind));
            }
            Item::Function => functions += 1,
            Item::Size { keys, expiring } => sizes.push((*keys, *expiring)),
            Item::Aux { name, value } => {
                notes.insert(String::from_utf8(name.clone()).unwrap(), value.clone());
            }
            _ => {}
        }
    }
    others.sort();
    let expected = [
        ("geo", Kind::SortedSet),
        ("hash:packed", Kind::Hash),
        ("hash:table", Kind::Hash),
        ("list:packed", Kind::List),
        ("list:plain", Kind::List),
        ("set:ints", Kind::Set),
        ("set:table", Kind::Set),
        ("stream", Kind::Stream),
        ("stream:old", Kind::Stream),
        ("zset:packed", Kind::SortedSet),
        ("zset:table", Kind::SortedSet),
    ];
    assert_eq!(others, expected.map(|(key, kind)| (key.to_owned(), kind)));
    assert_eq!((functions, sizes), (1, vec![(23, 1), (1, 0)]));
    assert_eq!(notes["redis-ver"], b"7.0.15");
    assert_eq!(all.last(), Some(&Item::End { is_checked: true }));
}

#[test]
fn how_long_a_key_was_idle_is_passed_over() {
    let objects: Vec<Item> =
        items(IDLE).unwrap().into_iter().filter(|item| matches!(item, Item::Object { .. })).collect();
    let a = Item::Object {
        key: b"a".to_vec(),
        expires_at: None,
        kind: Kind::String,
        value: Value::String(b"1".to_vec()),
    };
    assert_eq!(objects, [a]);
}

#[test]
fn longer_keys_and_values_than_asked_for_are_told() {
    let mut file = File::open(ALL, 3, 299).unwrap();
    let mut told = Vec::new();
    while let Some(item) = file.next_item().unwrap() {
        match item {
            Item::KeyTooLong { bytes, .. } => told.push(bytes),
            Item::Object { value: Value::TooLong { bytes }, .. } => told.push(bytes),
            Item::Object { key, .. } => assert!(key.len() <= 3),
            _ => {}
        }
    }
    told.sort_unstable();
    assert_eq!(told, [4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 7, 7, 8, 9, 10, 10, 10, 10, 10, 11, 11, 11]);
    let mut file = File::open(ALL, 100, 299).unwrap();
    let mut long = Vec::new();
    while let Some(item) = file.next_item().unwrap() {
        if let Item::Object { key, value: Value::TooLong { bytes }, .. } = item {
            long.push((key, bytes));
        }
    }
    assert_eq!(long, [(b"compressed".to_vec(), 300)]);
}

#[test]
fn versions_that_are_not_known_are_refused() {
    for (version, is_known) in [("0001", true), ("0012", true), ("0000", false), ("0013", false)] {
        let bytes = [b"REDIS", version.as_bytes(), b"\xff", &[0; 8]].concat();
        match items(&bytes) {
            Ok(items) => {
                assert!(is_known);
                assert_eq!(items, [Item::End { is_checked: false }]);
            }
            Err(Error { offset, fault: Fault::Version { .. } }) => assert!(!is_known && offset == 5),
            Err(error) => panic!("{error}"),
        }
    }
    for head in [&b"RIDES0010"[..], b"REDIS00x0", b"*3\r\n$3\r\nS"] {
        assert!(matches!(items(head), Err(Error { offset: 0, fault: Fault::Magic })));
    }
}
