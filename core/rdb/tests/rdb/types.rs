//! Every type of value is passed over to its last byte, also those that no Redis 7.0 writes.

use crate::items;
use ramhold_rdb::{Fault, Item, Kind, Value};

/// A file with one object of the type, and one string behind it.
fn file(number: u8, value: &[u8]) -> Vec<u8> {
    [b"REDIS0012", &[number][..], b"\x01k", value, b"\x00\x04last\x02ok\xff", &[0; 8]].concat()
}

fn kind_of(number: u8, value: &[u8]) -> Kind {
    let items = items(&file(number, value)).unwrap_or_else(|error| panic!("type {number}: {error}"));
    let [Item::Object { kind, value: Value::Other, .. }, Item::Object { key, .. }, Item::End { .. }] =
        items.as_slice()
    else {
        panic!("type {number}: {items:?}");
    };
    assert_eq!(key, b"last");
    *kind
}

const TIME: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08";
const ID: &[u8] = b"0123456789abcdef";

#[test]
fn values_of_every_type_are_passed_over() {
    let module =
        [&b"\x81\x01\x02\x03\x04\x05\x06\x07\x08\x01\x05\x02\x06\x03ffff\x04dddddddd\x05\x02st\x00"[..]]
            .concat();
    let cases: Vec<(u8, Kind, Vec<u8>)> = vec![
        (1, Kind::List, b"\x02\x01a\xc0\x05".to_vec()),
        (2, Kind::Set, b"\x02\x01a\x01b".to_vec()),
        (3, Kind::SortedSet, b"\x04\x01a\x031.5\x01b\xfd\x01c\xfe\x01d\xff".to_vec()),
        (4, Kind::Hash, b"\x01\x01f\x01v".to_vec()),
        (5, Kind::SortedSet, [b"\x01\x01a", TIME].concat()),
        (7, Kind::Module, module),
        (9, Kind::Hash, b"\x04zipm".to_vec()),
        (10, Kind::List, b"\x04zipl".to_vec()),
        (11, Kind::Set, b"\x04ints".to_vec()),
        (12, Kind::SortedSet, b"\x04zipl".to_vec()),
        (13, Kind::Hash, b"\x04zipl".to_vec()),
        (14, Kind::List, b"\x02\x02zl\xc3\x05\x0a\x00a\xe0\x00\x00".to_vec()),
        (15, Kind::Stream, stream(1)),
        (16, Kind::Hash, b"\x04list".to_vec()),
        (17, Kind::SortedSet, b"\x04list".to_vec()),
        (18, Kind::List, b"\x02\x01\x05plain\x02\x04list".to_vec()),
        (19, Kind::Stream, stream(2)),
        (20, Kind::Set, b"\x04list".to_vec()),
        (21, Kind::Stream, stream(3)),
        (22, Kind::Hash, b"\x01\x05\x01f\x01v".to_vec()),
        (23, Kind::Hash, b"\x04list".to_vec()),
        (24, Kind::Hash, [TIME, b"\x01\x05\x01f\x01v"].concat()),
        (25, Kind::Hash, [TIME, b"\x04list"].concat()),
    ];
    for (number, kind, value) in cases {
        assert_eq!(kind_of(number, &value), kind, "type {number}");
        // Every claim of an element more than there is comes to an end.
        for at in 0..value.len() {
            assert!(items(&file(number, &value)[..12 + at]).is_err());
        }
    }
}

/// One listpack, one group with one entry that is not acknowledged, of one consumer.
fn stream(form: u8) -> Vec<u8> {
    let mut bytes = [b"\x01\x10", ID, b"\x02lp", &[1; 3]].concat();
    if form > 1 {
        bytes.extend([1; 5]);
    }
    bytes.extend(b"\x01\x05group\x01\x01");
    if form > 1 {
        bytes.push(1);
    }
    bytes.extend([b"\x01", ID, TIME, b"\x02"].concat());
    bytes.extend([b"\x01\x05alice", TIME].concat());
    if form > 2 {
        bytes.extend(TIME);
    }
    bytes.extend([b"\x01", ID].concat());
    bytes
}

#[test]
fn what_stands_between_objects_is_passed_over() {
    let between: [(&[u8], Item); 3] = [
        (b"\xf5\x04code", Item::Function),
        (b"\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x01\x05\x01x\x00", Item::ModuleAux),
        (b"\xfb\x05\x01", Item::Size { keys: 5, expiring: 1 }),
    ];
    for (bytes, item) in between {
        let file = [b"REDIS0012", bytes, b"\xff", &[0; 8]].concat();
        assert_eq!(items(&file).unwrap()[0], item);
    }
    let hints = b"\xf4\x01\x02\x03\xf8\x05\xf9\x07\xfd\x01\x00\x00\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let read = items(&[b"REDIS0012", &hints[..]].concat()).unwrap();
    assert!(matches!(&read[0], Item::Object { expires_at: Some(1000), .. }), "{read:?}");
}

#[test]
fn types_that_are_not_known_are_refused_where_they_stand() {
    for number in [6, 8, 26, 100, 243, 246] {
        let error = items(&file(number, b"\x01x")).unwrap_err();
        assert_eq!(error.offset, 9);
        let fault = error.fault;
        assert!(matches!(fault, Fault::Type(_) | Fault::Unreleased(_)), "type {number}: {fault:?}");
    }
    let error = items(b"REDIS0012\xfc\xff\xff\xff\xff\xff\xff\xff\xff").unwrap_err();
    assert!(matches!(error.fault, Fault::Expiry(-1)));
    let error = items(b"REDIS0012\xfe\x81\x00\x00\x00\x01\x00\x00\x00\x00").unwrap_err();
    assert!(matches!(error.fault, Fault::Database(0x1_0000_0000)));
}
