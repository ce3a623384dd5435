//! `import` and `verify`.

use crate::binary::{Directory, ramhold_at};
use crate::played::{Mischief, Played};
use ramhold_base::Status;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

fn example() -> Directory {
    let directory = Directory::new();
    directory.write("b.txt", b"second");
    directory.write("a/deep/file", b"\x00\xFFbinary");
    directory.write("a/empty", b"");
    directory.write("a.txt", b"between");
    directory.write(OsStr::from_bytes(b"no text \xFF"), b"still a key");
    directory.write("large", &vec![1; 1024 * 1024 + 1]);
    directory.write("largest", &vec![2; 1024 * 1024]);
    symlink("b.txt", directory.0.join("link")).unwrap();
    directory
}

#[test]
fn files_become_objects_and_are_verified() {
    let (played, directory) = (Played::start(Mischief::default()), example());
    let _socket = UnixListener::bind(directory.0.join("socket")).unwrap();
    played.ramhold(&["table", "create", "t"]).ok();
    let ran = played.ramhold(&["import", "t", "--dir", directory.text()]).ok();
    let bytes = 6 + 8 + 7 + 11 + 1024 * 1024;
    assert!(ran.text().starts_with(&format!("imported 6 objects, {bytes} bytes in ")), "{ran:?}");
    assert!(
        ran.text().contains(
            "3 skipped, 0 failed\nskipped 1: symbolic links (link)\nskipped 1: neither files nor directories \
             (socket)\nskipped 1: larger than 1 MiB (large)\n"
        ),
        "{ran:?}"
    );
    assert_eq!(ran.stderr, "", "not a line for each");
    let ran = played.ramhold(&["import", "t", "--dir", directory.text(), "--list-skipped"]).ok();
    assert!(ran.stderr.contains("skipped 'link': a symbolic link"), "{ran:?}");
    assert!(ran.stderr.contains("skipped 'large': larger than 1048576 bytes"), "{ran:?}");
    assert_eq!(played.ramhold(&["get", "t", "a/deep/file"]).ok().stdout, b"\x00\xFFbinary");
    let address = played.address.to_string();
    let key = OsStr::from_bytes(b"no text \xFF");
    assert_eq!(
        ramhold_at(&address, b"", &[OsStr::new("get"), OsStr::new("t"), key]).ok().stdout,
        b"still a key"
    );

    let verified = played.ramhold(&["verify", "t", "--dir", directory.text(), "--json"]).ok().json();
    assert_eq!((&verified["same"], &verified["bytes"]), (&6.into(), &bytes.into()));
    assert_eq!(verified["skipped"]["links"], 1);
}

#[test]
fn missing_different_and_changed_objects_are_told_apart() {
    let (played, directory) = (Played::start(Mischief::default()), example());
    played.ramhold(&["table", "create", "t"]).ok();
    played.ramhold(&["import", "t", "--dir", directory.text()]).ok();
    // Makes the files older than their objects.
    let old = SystemTime::now() - Duration::from_secs(100);
    for name in ["b.txt", "a.txt", "a/deep/file"] {
        File::options().write(true).open(directory.0.join(name)).unwrap().set_modified(old).unwrap();
    }
    played.ramhold(&["put", "t", "b.txt", "damaged"]).ok();
    played.ramhold(&["del", "t", "a/deep/file"]).ok();
    directory.write("a.txt", b"edited since");
    let ran = played.ramhold(&["verify", "t", "--dir", directory.text()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.text().contains("1 missing, 1 different, 1 changed"), "{ran:?}");
    assert!(ran.stderr.contains("ramhold: missing 'a/deep/file'\n"), "{ran:?}");
    assert!(ran.stderr.contains("ramhold: different 'b.txt'\n"), "{ran:?}");
    let json = played.ramhold(&["verify", "t", "--dir", directory.text(), "--json"]).json();
    assert_eq!(json["different"], serde_json::json!(["b.txt"]));
    assert_eq!(json["missing"], serde_json::json!(["a/deep/file"]));
    assert_eq!(json["changed"], serde_json::json!(["a.txt"]));
}

#[test]
fn limits_stop_in_the_order_of_paths() {
    let (played, directory) = (Played::start(Mischief::default()), example());
    played.ramhold(&["table", "create", "t"]).ok();
    let import = ["import", "t", "--dir", directory.text(), "--limit-files", "2"];
    assert!(played.ramhold(&import).ok().text().starts_with("imported 2 objects"));
    // '.' comes before '/'.
    assert_eq!(played.ramhold(&["get", "t", "a.txt"]).ok().stdout, b"between");
    assert_eq!(played.ramhold(&["get", "t", "a/deep/file"]).ok().stdout.len(), 8);
    played.ramhold(&["get", "t", "a/empty"]).failed(1);
    let import = ["import", "t", "--dir", directory.text(), "--limit-bytes", "15"];
    assert!(played.ramhold(&import).ok().text().starts_with("imported 3 objects, 15 bytes"));
    let verify = ["verify", "t", "--dir", directory.text(), "--limit-bytes", "15"];
    assert!(played.ramhold(&verify).ok().text().starts_with("verified 3 objects, 15 bytes"));
}

#[test]
fn a_server_in_trouble_costs_time_but_no_object() {
    // B5
    let mischief = Mischief { retry_every: 3, break_every: 20, ..Mischief::default() };
    let (played, directory) = (Played::start(mischief), Directory::new());
    for number in 0..300 {
        directory.write(format!("{number}"), format!("content {number}").as_bytes());
    }
    played.ramhold(&["table", "create", "t"]).ok();
    assert!(
        played.ramhold(&["import", "t", "--dir", directory.text()]).ok().text().contains("imported 300 ")
    );
    assert!(
        played.ramhold(&["verify", "t", "--dir", directory.text()]).ok().text().contains("verified 300 ")
    );
}

#[test]
fn lines_of_json_become_objects_and_bad_ones_are_told() {
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "t"]).ok();
    let lines =
        b"{\"key\":\"a\",\"value\":\"1\"}\nnonsense\n{\"key_base64\":\"YgA=\",\"value_base64\":\"AAE=\"}\n";
    let ran = played.ramhold_with(lines, &["import", "t", "--jsonl", "-"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.text().starts_with("imported 2 objects, 3 bytes"), "{ran:?}");
    assert!(ran.text().ends_with(", 1 bad lines\n"), "{ran:?}");
    assert!(ran.stderr.starts_with("ramhold: line 2: "), "{ran:?}");
    assert_eq!(played.ramhold(&["get", "t", "a"]).ok().stdout, b"1");
}

#[test]
fn what_cannot_be_written_is_told_by_name() {
    let mischief = Mischief { refuse_writes: Some(Status::OutOfMemory), ..Mischief::default() };
    let (played, directory) = (Played::start(mischief), Directory::new());
    directory.write("one", b"1");
    played.ramhold(&["table", "create", "t"]).ok();
    let ran = played.ramhold(&["import", "t", "--dir", directory.text(), "--timeout", "200ms"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("ramhold: 'one': ") && ran.stderr.contains("memory is full"), "{ran:?}");
    assert!(ran.text().contains("1 failed"), "{ran:?}");
    let missing = directory.0.join("nothing");
    played.ramhold(&["import", "t", "--dir", missing.to_str().unwrap()]).failed(2);
    played.ramhold(&["verify", "none", "--dir", directory.text()]).failed(3);
}

#[test]
fn an_exact_table_holds_each_file_once_and_nothing_else() {
    // A6
    let played = Played::start(Mischief::default());
    let directory = Directory::new();
    for n in 0..40 {
        directory.write(format!("f{n}"), format!("content {n}").as_bytes());
    }
    played.ramhold(&["table", "create", "t"]).ok();
    played.ramhold(&["import", "t", "--dir", directory.text()]).ok();
    let verify = ["verify", "t", "--dir", directory.text(), "--exact"];
    let text = played.ramhold(&verify).ok().text();
    assert!(text.contains("exact: 40 objects met once; 0 extra, 0 met twice, 0 not met"), "{text}");
    played.ramhold(&["put", "t", "other", "x"]).ok();
    let extra = played.ramhold(&verify).failed(1);
    assert!(extra.contains("extra 'other'"), "{extra}");
    let json = played.ramhold(&["verify", "t", "--dir", directory.text(), "--exact", "--json"]).json();
    assert_eq!(json["extra"], serde_json::json!(["other"]));
    assert_eq!(
        played.ramhold(&["verify", "t", "--dir", directory.text(), "--exact", "--limit-files", "3"]).code,
        2
    );
}

#[test]
fn a_table_is_scanned_in_parts_and_comes_back_from_its_export() {
    // A6
    let played = Played::start(Mischief { retry_every: 4, ..Mischief::default() });
    let directory = Directory::new();
    played.ramhold(&["table", "create", "t"]).ok();
    for n in 0..10 {
        played.ramhold(&["put", "t", &format!("a{n}"), &format!("value {n}")]).ok();
    }
    played.ramhold_with(&[0xFF, 0, b'\n'], &["put", "t", "bytes", "-"]).ok();
    let text = played.ramhold(&["scan", "t"]).ok().text();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines.len(), lines[3], lines[10]), (11, "a3\tvalue 3", "bytes\t\\xff\\u{0}\\n"));
    let keys = played.ramhold(&["scan", "t", "--keys", "--prefix", "by"]).ok().text();
    assert_eq!(keys, "bytes\n");
    // Scans in parts, each from the cursor that the part before has printed.
    let (mut met, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut arguments = vec!["scan", "t", "--limit", "4", "--json"];
        arguments.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor.as_str()]));
        let text = played.ramhold(&arguments).ok().text();
        let mut lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        cursor = lines.pop().unwrap()["cursor"].as_str().map(str::to_owned);
        assert!(lines.len() == 4 || cursor.is_none());
        met.extend(lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()));
        if cursor.is_none() {
            break;
        }
    }
    met.sort_unstable();
    met.dedup();
    assert_eq!(met.len(), 11);
    let no_cursor = played.ramhold(&["scan", "t", "--cursor", "00ff"]);
    assert!(no_cursor.code == 2 && no_cursor.stderr.contains("not a cursor"), "{no_cursor:?}");
    let out = directory.0.join("t.jsonl").to_str().unwrap().to_owned();
    played.ramhold(&["export", "t", "--out", &out]).ok();
    played.ramhold(&["export", "t", "--out", &out]).failed(2);
    played.ramhold(&["table", "create", "copy"]).ok();
    played.ramhold(&["import", "copy", "--jsonl", &out]).ok();
    assert_eq!(played.ramhold(&["get", "copy", "bytes"]).ok().stdout, [0xFF, 0, b'\n']);
    let lines = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let copied = played.ramhold(&["scan", "copy"]).ok().text();
    assert_eq!(lines(copied), lines(text));
}
