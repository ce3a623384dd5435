//! `import --rdb` and `import --aof`.

use crate::binary::{Directory, Ran};
use crate::played::{Mischief, Played};

/// Made by redis-server 7.0.15 with values of all types; see the script beside it.
const DUMP: &[u8] = include_bytes!("../../../../core/rdb/tests/data/redis-7.0.rdb");

fn get(played: &Played, table: &str, key: &str) -> Vec<u8> {
    played.ramhold(&["get", table, key]).ok().stdout
}

fn import(played: &Played, directory: &Directory, file: &str, more: &[&str]) -> Ran {
    let path = directory.0.join(file);
    let kind = if file.ends_with("rdb") { "--rdb" } else { "--aof" };
    played.ramhold(&[&["import", kind, path.to_str().unwrap()], more].concat())
}

fn bulk(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

#[test]
fn the_strings_of_a_dump_are_imported_and_everything_else_is_listed() {
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    directory.write("dump.rdb", DUMP);
    let ran = import(&played, &directory, "dump.rdb", &[]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let text = ran.text();
    assert!(text.starts_with("imported 13 objects, "), "{text}");
    let left_out = "left out: 2 of type list, 2 of type set, 3 of type zset, 2 of type hash, 2 of type stream, \
                    1 function libraries; 0 had expired, 0 failed";
    assert!(text.trim_end().ends_with(left_out), "{text}");
    assert_eq!(get(&played, "db0", "text"), b"hello");
    assert_eq!(get(&played, "db0", "binary"), b"a\0b\r\n\xff");
    assert_eq!(get(&played, "db0", "int64"), b"9223372036854775807");
    assert_eq!(get(&played, "db0", "compressed"), b"abc".repeat(100));
    assert_eq!(get(&played, "db3", "other"), b"database three");
    let json = import(&played, &directory, "dump.rdb", &["--json"]).json();
    assert_eq!(json["left_out"]["types"]["zset"], 3);
    assert_eq!(json["files"], 13);
}

#[test]
fn a_damaged_dump_writes_nothing() {
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    let mut damaged = DUMP.to_vec();
    damaged[200] ^= 1;
    for (name, bytes) in
        [("cut.rdb", &DUMP[..DUMP.len() - 1]), ("flipped.rdb", &damaged), ("other.rdb", b"REDIS9999")]
    {
        directory.write(name, bytes);
        let said = import(&played, &directory, name, &[]).failed(2);
        assert!(said.contains(name) && said.contains("at byte "), "{said}");
    }
    assert!(played.ramhold(&["get", "db0", "text"]).code != 0);
}

#[test]
fn an_append_only_file_is_imported_as_what_it_comes_to() {
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    let mut file = DUMP.to_vec();
    for words in [
        &["SELECT", "0"][..],
        &["APPEND", "text", " world"],
        &["DEL", "empty"],
        &["SET", "over", "x", "PXAT", "1000"],
        &["INCR", "n"],
        &["SELECT", "2"],
        &["SET", "two", "2"],
    ] {
        file.extend(bulk(words));
    }
    directory.write("with-dump.aof", &file);
    let ran = import(&played, &directory, "with-dump.aof", &[]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.text().contains("; 1 had expired"), "{ran:?}");
    assert_eq!(get(&played, "db0", "text"), b"hello world");
    assert_eq!(get(&played, "db0", "n"), b"1");
    assert_eq!(get(&played, "db2", "two"), b"2");
    assert_eq!(played.ramhold(&["get", "db0", "empty"]).code, 1);
    assert_eq!(played.ramhold(&["get", "db0", "over"]).code, 1);
}

#[test]
fn a_tail_that_was_cut_off_is_told_and_refused_if_one_wants() {
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    let mut file = bulk(&["SET", "whole", "1"]);
    let whole = file.len();
    file.extend(bulk(&["SET", "half", "2"]));
    file.truncate(file.len() - 1);
    directory.write("cut.aof", &file);
    let said = import(&played, &directory, "cut.aof", &["--strict"]).failed(2);
    assert!(said.contains(&format!("ends within the command at byte {whole}")), "{said}");
    let ran = import(&played, &directory, "cut.aof", &[]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains(&format!("at byte {whole}")), "{ran:?}");
    assert_eq!(get(&played, "db0", "whole"), b"1");
    assert_eq!(played.ramhold(&["get", "db0", "half"]).code, 1);
}

#[test]
fn the_files_of_a_manifest_are_read_in_order() {
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    directory.write("a.aof.1.base.rdb", DUMP);
    directory.write("a.aof.1.incr.aof", &[bulk(&["SELECT", "0"]), bulk(&["SET", "text", "1"])].concat());
    directory.write("a.aof.2.incr.aof", &[bulk(&["SELECT", "0"]), bulk(&["SET", "text", "2"])].concat());
    let manifest = "file a.aof.1.base.rdb seq 1 type b\nfile a.aof.1.incr.aof seq 1 type i\n\
                    file a.aof.2.incr.aof seq 2 type i\n";
    directory.write("a.aof.manifest", manifest.as_bytes());
    assert_eq!(import(&played, &directory, "", &[]).code, 3);
    assert_eq!(get(&played, "db0", "text"), b"2");
    assert_eq!(get(&played, "db3", "other"), b"database three");
    // A file that is not the last one was once complete, so a cut command in it is an error.
    directory.write("a.aof.1.incr.aof", b"*1\r\n$4\r\nPI");
    assert!(import(&played, &directory, "a.aof.manifest", &[]).failed(2).contains("is not the last"));
}
