//! Ramhold has limits that Redis has not, or has elsewhere; and handlers ask for their keys together.

mod model;

use model::Model;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

const TOO_LARGE: &str = "-ERR string exceeds maximum allowed size: a value has at most 1048576 bytes\r\n";

fn model() -> Model {
    Model::new(1_790_000_000_000)
}

fn ask(model: &mut Model, args: &[&[u8]]) -> String {
    String::from_utf8(model.run(args)).expect("these replies are text")
}

// Z1: a value has a maximum, whichever way it is written, and what is too large changes nothing.
#[test]
fn no_command_makes_a_value_too_large() {
    let (fits, large) = (vec![b'x'; VALUE_BYTES_MAX], vec![b'x'; VALUE_BYTES_MAX + 1]);
    let (fits, large) = (&fits[..], &large[..]);
    let payload = ramhold_rdb::write_dump(large);
    let writes: &[&[&[u8]]] = &[
        &[b"SET", b"k", large],
        &[b"SET", b"k", large, b"XX", b"GET"],
        &[b"SETNX", b"new", large],
        &[b"SETEX", b"k", b"10", large],
        &[b"PSETEX", b"k", b"10", large],
        &[b"GETSET", b"k", large],
        &[b"MSET", b"a", b"1", b"k", large],
        &[b"MSETNX", b"a", b"1", b"new", large],
        &[b"APPEND", b"k", b"x"],
        &[b"SETRANGE", b"k", b"1048576", b"x"],
        &[b"SETRANGE", b"k", b"18446744073709551", b"x"],
        &[b"SETBIT", b"k", b"8388608", b"1"],
        &[b"BITFIELD", b"k", b"SET", b"u8", b"8388601", b"1"],
        &[b"RESTORE", b"new", b"0", &payload],
    ];
    for write in writes {
        let mut model = model();
        assert_eq!(ask(&mut model, &[b"SET", b"k", fits]), "+OK\r\n");
        let name = String::from_utf8_lossy(write[0]);
        assert_eq!(ask(&mut model, write), TOO_LARGE, "{name}");
        assert_eq!(ask(&mut model, &[b"EXISTS", b"a", b"new"]), ":0\r\n", "{name}");
        assert_eq!(ask(&mut model, &[b"STRLEN", b"k"]), format!(":{VALUE_BYTES_MAX}\r\n"), "{name}");
    }
}

#[test]
fn the_largest_value_can_be_written_in_part() {
    let mut model = model();
    assert_eq!(ask(&mut model, &[b"SETRANGE", b"k", b"1048575", b"x"]), ":1048576\r\n");
    assert_eq!(ask(&mut model, &[b"SETBIT", b"b", b"8388607", b"1"]), ":0\r\n");
    assert_eq!(ask(&mut model, &[b"BITFIELD", b"b", b"INCRBY", b"u8", b"8388600", b"1"]), "*1\r\n:2\r\n");
    assert_eq!(ask(&mut model, &[b"APPEND", b"b", b""]), ":1048576\r\n");
}

// Z1: no key that is too large reaches a handler, wherever it stands.
#[test]
fn a_key_that_is_too_large_is_refused() {
    let (fits, large) = (vec![b'k'; KEY_BYTES_MAX], vec![b'k'; KEY_BYTES_MAX + 1]);
    let (fits, large) = (&fits[..], &large[..]);
    let mut model = model();
    assert_eq!(ask(&mut model, &[b"SET", fits, b"1"]), "+OK\r\n");
    let requests: &[&[&[u8]]] = &[
        &[b"GET", large],
        &[b"MGET", b"a", large],
        &[b"MSET", b"a", b"1", large, b"1"],
        &[b"RENAME", fits, large],
        &[b"COPY", fits, large, b"REPLACE"],
        &[b"BITOP", b"AND", large, fits],
        &[b"BITOP", b"AND", b"a", fits, large],
        &[b"OBJECT", b"ENCODING", large],
    ];
    for request in requests {
        let want = "-ERR key is too large: a key has at most 65535 bytes\r\n";
        assert_eq!(ask(&mut model, request), want);
    }
}

// The memory and the time that LCS takes grow with the product of the lengths.
#[test]
fn lcs_of_long_strings_is_refused() {
    let mut model = model();
    let (short, long) = ([b'a'; 2047], [b'a'; 2048]);
    ask(&mut model, &[b"MSET", b"short", &short, b"long", &long]);
    assert_eq!(ask(&mut model, &[b"LCS", b"short", b"short", b"LEN"]), ":2047\r\n");
    let refused = ask(&mut model, &[b"LCS", b"short", b"long", b"LEN"]);
    assert!(refused.starts_with("-ERR Insufficient memory, transient memory for LCS"), "{refused}");
}

// One round to other servers, however many keys a command has.
#[test]
fn handlers_ask_for_all_their_keys_at_once() {
    let requests: &[&[&[u8]]] = &[
        &[b"MGET", b"a", b"b", b"c", b"d"],
        &[b"DEL", b"a", b"b", b"c"],
        &[b"EXISTS", b"a", b"b", b"c"],
        &[b"MSETNX", b"a", b"1", b"b", b"2", b"c", b"3"],
        &[b"RENAMENX", b"a", b"b"],
        &[b"RENAME", b"a", b"b"],
        &[b"COPY", b"a", b"b", b"DB", b"1"],
        &[b"MOVE", b"a", b"1"],
        &[b"BITOP", b"OR", b"d", b"a", b"b", b"c"],
        &[b"LCS", b"a", b"b", b"IDX"],
        &[b"SET", b"a", b"1", b"XX", b"GET", b"KEEPTTL"],
        &[b"SET", b"a", b"1", b"IFVER", b"1", b"GET"],
        &[b"GETVER", b"a"],
    ];
    for request in requests {
        let mut model = model();
        ask(&mut model, &[b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"]);
        model.run(request);
        assert_eq!(model.runs, 2, "{}", String::from_utf8_lossy(request[0]));
    }
    let blind: &[&[&[u8]]] = &[&[b"SET", b"a", b"1"], &[b"MSET", b"a", b"1"], &[b"SETEX", b"a", b"9", b"1"]];
    for request in blind {
        let mut model = model();
        model.run(request);
        assert_eq!(model.runs, 1, "{} reads nothing", String::from_utf8_lossy(request[0]));
    }
}
