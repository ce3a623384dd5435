//! Tables and single objects.

use crate::binary::{nobody, ramhold_at};
use crate::played::{Mischief, Played};
use ramhold_base::Status;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_table_is_made_listed_described_and_dropped() {
    // A1
    let played = Played::start(Mischief::default());
    assert_eq!(played.ramhold(&["table", "list"]).ok().text(), "no tables\n");
    let made = played.ramhold(&["table", "create", "users"]).ok().text();
    assert_eq!(made, "table 'users' is t1: buffered, 3 replicas\n");
    let twice = played.ramhold(&["table", "create", "users"]).failed(3);
    assert!(twice.contains("'users'") && twice.contains("--if-absent"), "{twice}");
    // D2: a table with other options is never accepted as the one asked for.
    let others =
        ["table", "create", "users", "--durability", "synced", "--replicas", "2", "--slots", "--if-absent"];
    let other = played.ramhold(&others).failed(3);
    let differences = "its durability is buffered, not synced, it has 3 replicas, not 2, it is not by slots";
    assert!(other.contains(differences) && other.contains("'users'"), "{other}");
    let again = ["table", "create", "users", "--if-absent", "--json"];
    let wanted = serde_json::json!({
        "table": 1, "name": "users", "durability": "buffered", "replicas": 3, "slots": false,
        "zone": null, "quorum": null
    });
    assert_eq!(played.ramhold(&again).ok().json(), wanted, "what was not said is as it is");
    let list = played.ramhold(&["table", "list"]).ok().text();
    assert_eq!(
        list.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["users", "t1", "buffered", "3", "1", "no", "0"]
    );
    let described = played.ramhold(&["table", "describe", "users", "--json"]).ok().json();
    assert_eq!(described["tablets"][0]["last_hash"], "ffffffffffffffff");
    assert_eq!(described["tablets"][0]["state"], "serving");
    played.ramhold(&["put", "users", "a", "1"]).ok();
    let text = played.ramhold(&["table", "describe", "users"]).ok().text();
    assert!(text.contains("s1/sh0") && text.contains(" 1 object"), "{text}");
    assert_eq!(played.ramhold(&["table", "drop", "users"]).ok().text(), "dropped table 'users' (t1)\n");
    let made = played.ramhold(&["table", "create", "by slots", "--slots"]).ok().text();
    assert_eq!(made, "table 'by slots' is t2: buffered, 3 replicas, by slots\n");
    let described = played.ramhold(&["table", "describe", "by slots"]).ok().text();
    assert!(described.contains("last slot") && described.contains("16383"), "{described}");
    let gone = played.ramhold(&["table", "describe", "users"]).failed(3);
    assert!(gone.contains("'users'") && gone.contains("no such table"), "{gone}");
}

#[test]
fn objects_go_in_and_come_out_byte_for_byte() {
    // A2, A3
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "t"]).ok();
    assert_eq!(played.ramhold(&["put", "t", "a", "some value"]).ok().text(), "version 1\n");
    assert_eq!(played.ramhold(&["get", "t", "a"]).ok().stdout, b"some value");
    let every_byte: Vec<u8> = (0..=255).collect();
    played.ramhold_with(&every_byte, &["put", "t", "b", "-"]).ok();
    assert_eq!(played.ramhold(&["get", "t", "b"]).ok().stdout, every_byte);
    let json = played.ramhold(&["get", "t", "b", "--json"]).ok().json();
    assert_eq!((&json["key"], &json["version"]), (&"b".into(), &2.into()));
    assert!(json["value_base64"].as_str().unwrap().starts_with("AAECAw"));
    // A key that is not text.
    let address = played.address.to_string();
    let key = OsStr::from_bytes(b"\xFF\n");
    let arguments = [OsStr::new("put"), OsStr::new("t"), key, OsStr::new("-7")];
    ramhold_at(&address, b"", &arguments).ok();
    assert_eq!(ramhold_at(&address, b"", &[OsStr::new("get"), OsStr::new("t"), key]).ok().stdout, b"-7");
    // The largest value, and a value with one byte more.
    played.ramhold_with(&vec![1; 1024 * 1024], &["put", "t", "large", "-"]).ok();
    let refused = played.ramhold_with(&vec![1; 1024 * 1024 + 1], &["put", "t", "large", "-"]).failed(3);
    assert!(refused.contains("1048576"), "{refused}");
}

#[test]
fn what_is_not_there_and_what_does_not_hold_is_exit_code_1() {
    // A4
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "t"]).ok();
    assert_eq!(played.ramhold(&["get", "t", "a"]).failed(1), "ramhold: 'a': the object does not exist\n");
    played.ramhold(&["del", "t", "a"]).failed(1);
    played.ramhold(&["put", "t", "a", "x", "--if-version", "1"]).failed(1);
    played.ramhold(&["put", "t", "a", "x", "--if-version", "0"]).ok();
    let exists = played.ramhold(&["put", "t", "a", "y", "--if-absent"]).failed(1);
    assert!(exists.contains("it has version 1"), "{exists}");
    played.ramhold(&["put", "t", "a", "y", "--if-version", "1"]).ok();
    let wrong = played.ramhold(&["put", "t", "a", "z", "--if-version", "1"]).failed(1);
    assert_eq!(wrong, "ramhold: 'a': the object has another version; it has version 2\n");
    played.ramhold(&["get", "t", "a", "--if-version", "1"]).failed(1);
    assert_eq!(played.ramhold(&["get", "t", "a", "--if-version", "2"]).ok().stdout, b"y");
    played.ramhold(&["del", "t", "a", "--if-version", "1"]).failed(1);
    assert_eq!(played.ramhold(&["del", "t", "a", "--if-version", "2"]).ok().text(), "removed, version 3\n");
}

#[test]
fn a_counter_counts_and_says_what_it_cannot_count() {
    // A7
    let played = Played::start(Mischief { break_every: 2, ..Mischief::default() });
    played.ramhold(&["table", "create", "t"]).ok();
    assert_eq!(played.ramhold(&["incr", "t", "visits"]).ok().text(), "1\n");
    assert_eq!(played.ramhold(&["incr", "t", "visits", "--by", "-5"]).ok().text(), "-4\n");
    assert_eq!(played.ramhold(&["get", "t", "visits"]).ok().stdout, b"-4");
    assert_eq!(played.ramhold(&["incr", "t", "visits", "--by", "0.5", "--float"]).ok().text(), "-3.5\n");
    let json = played.ramhold(&["incr", "t", "load", "--by", "1e-3", "--float", "--json"]).ok().json();
    assert_eq!(json["sum"], 0.001);
    let refused = played.ramhold(&["incr", "t", "visits"]).failed(1);
    assert!(refused.contains("'visits'") && refused.contains("not a number of this kind"), "{refused}");
    let version = json["version"].to_string();
    played.ramhold(&["incr", "t", "load", "--float", "--if-version", "0"]).failed(1);
    played.ramhold(&["incr", "t", "load", "--float", "--if-version", &version]).ok();
    played.ramhold(&["incr", "t", "visits", "--by", "1.5"]).failed(2);
    played.ramhold(&["incr", "t", "visits", "--by", "nan", "--float"]).failed(2);
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    // B5
    let refusing = Mischief { refuse_writes: Some(Status::OutOfMemory), ..Mischief::default() };
    let played = Played::start(refusing);
    played.ramhold(&["table", "create", "t"]).ok();
    let full = played.ramhold(&["put", "t", "a", "x", "--timeout", "300ms"]).failed(3);
    assert!(full.contains("memory is full"), "{full}");
    let breaking = Played::start(Mischief { break_every: 1, ..Mischief::default() });
    breaking.ramhold(&["table", "create", "t"]).ok();
    let unknown = breaking.ramhold(&["put", "t", "a", "x", "--timeout", "300ms"]).failed(4);
    assert!(unknown.contains("unknown"), "{unknown}");
    let nobody = nobody();
    let unreachable = ramhold_at(&nobody, b"", &["status", "--timeout", "200ms"]).failed(5);
    assert!(unreachable.contains(&nobody) && unreachable.contains("--cluster"), "{unreachable}");
    ramhold_at("no:address:at:all", b"", &["status"]).failed(2);
    assert_eq!(ramhold_at("127.0.0.1", b"", &["put", "t"]).code, 2);
    assert_eq!(ramhold_at("127.0.0.1", b"", &["status", "--timeout", "never"]).code, 2);
}
